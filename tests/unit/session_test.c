/*
 * session_test.c - what goes on: a session with its next request as soon as on_done says that the last has ended, and a
 * reply that was broken off
 */
#include <semaphore.h>
#include <stdlib.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    hearth_runtime *runtime;
    hearth_model *model;
    sem_t has_ended; /* on_done was called */
    sem_t may_leave; /* and may return */
} fixture;

static void set_up(fixture *f)
{
    hearth_runtime_options options;

    f->directory = hth_test_directory_new();
    options = hth_test_runtime_options(f->directory);
    f->runtime = hth_test_runtime_open(&options);
    f->model = hth_test_model_load(f->runtime, "stub:", NULL);
    sem_init(&f->has_ended, 0, 0);
    sem_init(&f->may_leave, 0, 0);
}

static void tear_down(fixture *f)
{
    hearth_model_unref(f->model);
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
    sem_destroy(&f->has_ended);
    sem_destroy(&f->may_leave);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void stay(uint64_t id, const hearth_result *result, void *user_data)
{
    fixture *f = user_data;

    (void)id;
    (void)result;
    sem_post(&f->has_ended);
    sem_wait(&f->may_leave);
}

FIXTURE_TEST(the_next_turn_is_taken_as_soon_as_the_last_has_ended)
{
    hearth_request request = hth_test_greedy("the first turn of a conversation", 4);
    hearth_error err;
    uint64_t id;

    request.session_id = "s";
    request.on_done = stay;
    request.user_data = f;
    for (int i = 0; i < 3; i++) {
        hearth_status status = hearth_submit(f->model, &request, &id, &err);

        if (i > 0)
            sem_post(&f->may_leave);
        if (status != HEARTH_OK)
            fail_msg("turn %d: %s", i, err.message);
        sem_wait(&f->has_ended);
    }
    assert_int_equal(hearth_cancel(f->model, id, NULL), HEARTH_NOT_FOUND); /* it has ended, whoever is told so now */
    sem_post(&f->may_leave);
    assert_int_equal(hearth_session_end(f->model, "s", NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_end(f->model, "s", NULL, NULL), HEARTH_NOT_FOUND);
}

FIXTURE_TEST(tokens_that_are_replayed_are_not_generated_again)
{
    hearth_request request = hth_test_greedy("a reply that was broken off", 20);
    const hearth_result *whole, *rest;

    request.ignore_eos = true;
    whole = hth_test_complete(f->model, &request);
    assert_int_equal(whole->stats->completion_tokens, 20);
    assert_int_equal(hth_test_counters(f->runtime).tokens_generated, 20);
    request.replayed = whole->tokens;
    request.n_replayed = 15;
    rest = hth_test_complete(f->model, &request);
    assert_int_equal(rest->stats->completion_tokens, 20);
    assert_memory_equal(rest->tokens, whole->tokens, 20 * sizeof(*whole->tokens));
    assert_int_equal(hth_test_counters(f->runtime).tokens_generated, 25);
    hearth_result_unref(whole);
    hearth_result_unref(rest);
}
