/*
 * parallel_test.c - many requests at once, as a program sees them: through the public interface, with the thread
 *
 * What the scheduler promises is tested tick by tick (batcher_test.c names where); here is what only the interface has:
 * queues that are full, sessions in use, limits that are refused on the way in, callbacks that call back.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PATIENCE_S = 60, RESULTS_MAX = 140, TOKENS_MAX = 128 };

typedef struct fixture {
    hearth_runtime *runtime;
    hearth_model *model;
} fixture;

/* What the callbacks tell; guarded by its lock. */
typedef struct hall {
    hearth_model *model;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n_done, n_tokens;
    hearth_status statuses[RESULTS_MAX];
    uint64_t ids[RESULTS_MAX];
    hearth_token tokens[RESULTS_MAX][TOKENS_MAX];
    uint32_t n_each[RESULTS_MAX];
    hearth_stats stats[RESULTS_MAX];
    unsigned cancel_after, pause_after; /* tokens after which a callback calls back; 0: never */
} hall;

static hall *hall_new(hearth_model *model)
{
    hall *h = calloc(1, sizeof(*h));

    assert_non_null(h);
    h->model = model;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    return h;
}

static void hall_free(hall *h)
{
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static bool on_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    hall *h = user_data;

    pthread_mutex_lock(&h->lock);
    h->n_tokens++;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    if (h->cancel_after > 0 && event->index + 1 == h->cancel_after)
        (void)hearth_cancel(h->model, id, NULL);
    if (h->pause_after > 0 && event->index + 1 == h->pause_after)
        (void)hearth_pause(h->model, id, true, NULL);
    return true;
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    hall *h = user_data;
    uint32_t n = result->stats->completion_tokens;

    pthread_mutex_lock(&h->lock);
    if (h->n_done < RESULTS_MAX) {
        h->ids[h->n_done] = id;
        h->statuses[h->n_done] = result->status;
        h->stats[h->n_done] = *result->stats;
        h->n_each[h->n_done] = n < TOKENS_MAX ? n : TOKENS_MAX;
        if (n > 0)
            memcpy(h->tokens[h->n_done], result->tokens, h->n_each[h->n_done] * sizeof(hearth_token));
    }
    h->n_done++;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static hearth_request request_in(hall *h, const char *prompt, int32_t n_predict)
{
    hearth_request request = hth_test_greedy(prompt, n_predict);

    request.on_token = on_token;
    request.on_done = on_done;
    request.user_data = h;
    return request;
}

static void wait_for(hall *h, unsigned n_done, unsigned n_tokens)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&h->lock);
    while (h->n_done < n_done || h->n_tokens < n_tokens)
        if (pthread_cond_timedwait(&h->changed, &h->lock, &until) != 0)
            break;
    pthread_mutex_unlock(&h->lock);
    assert_true(h->n_done >= n_done && h->n_tokens >= n_tokens);
}

static uint64_t submit(hall *h, const hearth_request *request)
{
    hearth_error err;
    uint64_t id;

    assert_ok(hearth_submit(h->model, request, &id, &err), err);
    return id;
}

static void open_model(fixture *f, const char *path, const hearth_model_options *options)
{
    hearth_runtime_options runtime_options = hearth_runtime_options_default();

    runtime_options.cache_disabled = true;
    f->runtime = hth_test_runtime_open(&runtime_options);
    f->model = hth_test_model_load(f->runtime, path, options);
}

static void close_model(fixture *f)
{
    hearth_model_unref(f->model);
    hearth_runtime_close(f->runtime);
}

TEST(a_request_without_a_seed_draws_one_and_tells_it)
{
    char *prompt = hth_test_prompt(40, 0);
    hearth_request request = hth_test_greedy(prompt, 30);
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_result *first[2], *other, *again;
    fixture f;

    open_model(&f, "stub:", NULL);
    assert_true(sampling.seed == HEARTH_SEED_RANDOM);
    sampling.temperature = 100; /* any token is as likely as any other */
    sampling.top_k = 0;
    sampling.top_p = 1;
    sampling.min_p = 0;
    request.sampling = &sampling;
    request.ignore_eos = true;
    request.n = 2;
    assert_int_equal(hearth_complete(f.model, &request, first, NULL), HEARTH_OK);
    request.n = 1;
    other = hth_test_complete(f.model, &request);
    assert_true(first[0]->seed < UINT64_C(1) << 52);
    assert_true(first[1]->seed == first[0]->seed + 1);
    assert_true(other->seed != first[0]->seed);
    assert_int_not_equal(memcmp(other->tokens, first[0]->tokens, 30 * sizeof(hearth_token)), 0);
    sampling.seed = first[1]->seed;
    again = hth_test_complete(f.model, &request);
    assert_int_equal(again->seed, first[1]->seed);
    assert_memory_equal(again->tokens, first[1]->tokens, 30 * sizeof(hearth_token));
    hearth_result_unref(first[0]);
    hearth_result_unref(first[1]);
    hearth_result_unref(other);
    hearth_result_unref(again);
    close_model(&f);
    free(prompt);
}

TEST(one_prompt_gets_as_many_replies_as_asked_for)
{
    enum { N = 6 };
    char *prompt = hth_test_prompt(300, 0);
    hearth_request request = hth_test_greedy(prompt, 10);
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_result *results[N];
    hearth_error err;
    unsigned n_prefills = 0;
    fixture f;

    open_model(&f, "stub:", NULL);
    request.n = N;
    sampling.temperature = 1;
    sampling.seed = 40;
    request.sampling = &sampling;
    assert_ok(hearth_complete(f.model, &request, results, &err), err);
    for (unsigned i = 0; i < N; i++) { /* each is the reply with its seed */
        hearth_request alone = request;
        hearth_sampling own = sampling;
        const hearth_result *result;

        alone.n = 1;
        alone.sampling = &own;
        own.seed = 40 + i;
        assert_int_equal(results[i]->seed, 40 + i);
        result = hth_test_complete(f.model, &alone);
        assert_string_equal(results[i]->text, result->text);
        n_prefills += results[i]->stats->n_prefill_evaluations > 0;
        hearth_result_unref(result);
        hearth_result_unref(results[i]);
    }
    assert_int_equal(n_prefills, 1);
    close_model(&f);
    free(prompt);
}

TEST(replies_to_one_prompt_have_ids_in_a_row)
{
    bool seen[5] = { false };
    fixture f;
    hall *h;
    hearth_request request;
    uint64_t id, next;

    open_model(&f, "stub:", NULL);
    h = hall_new(f.model);
    request = request_in(h, "a prompt", 5);
    request.n = 5;
    id = submit(h, &request);
    request.n = 1;
    next = submit(h, &request);
    assert_true(next >= id + 5);
    wait_for(h, 6, 0);
    for (unsigned i = 0; i < 6; i++)
        if (h->ids[i] != next) {
            assert_in_range(h->ids[i], id, id + 4);
            assert_false(seen[h->ids[i] - id]);
            seen[h->ids[i] - id] = true;
        }
    hall_free(h);
    close_model(&f);
}

TEST(all_replies_to_a_prompt_are_accepted_or_none)
{
    const hearth_token known = 'a';
    hearth_model_options options = hearth_model_options_default();
    fixture f;
    hall *h;
    hearth_request request;
    hearth_error err = { .message = "" };

    options.n_parallel = 2;
    options.queue_max = 3;
    open_model(&f, "stub:delay_us=2000", &options);
    h = hall_new(f.model);
    request = request_in(h, "a prompt", 20);
    request.n = 6;
    assert_int_equal(hearth_submit(f.model, &request, NULL, &err), HEARTH_MISUSE); /* there is never room for so many */
    assert_non_null(strstr(err.message, "n is 6"));
    request.n = 4;
    (void)submit(h, &request);
    request.n = 2;
    assert_int_equal(hearth_submit(f.model, &request, NULL, &err), HEARTH_BUSY);
    request.n = 1;
    (void)submit(h, &request);
    assert_int_equal(hearth_submit(f.model, &request, NULL, &err), HEARTH_BUSY);
    assert_in_range(err.retry_after_s, 1, 3600);
    assert_non_null(strstr(err.message, "queue"));
    request.replayed = &known; /* a reply that was broken off elsewhere has its place */
    request.n_replayed = 1;
    (void)submit(h, &request);
    request.n_replayed = 0;
    assert_int_equal(hearth_submit(f.model, &request, NULL, &err), HEARTH_BUSY);
    request.is_resumed = true; /* also one of which nothing is known yet */
    (void)submit(h, &request);
    for (int i = 0; i < 3; i++)
        (void)submit(h, &request);
    assert_int_equal(hearth_submit(f.model, &request, NULL, &err), HEARTH_BUSY); /* more than can have been accepted */
    request.is_resumed = false;
    wait_for(h, 10, 0);
    (void)submit(h, &request); /* there is room again */
    wait_for(h, 11, 0);
    for (unsigned i = 0; i < 11; i++)
        assert_int_equal(h->statuses[i], HEARTH_OK);
    hall_free(h);
    close_model(&f);
}

TEST(a_reply_that_cannot_fit_is_refused)
{
    hearth_model_options options = hearth_model_options_default();
    char *prompt = hth_test_prompt(99, 0); /* 100 tokens */
    hearth_request request = hth_test_greedy(prompt, 101);
    hearth_error err = { .message = "" };
    const hearth_result *result;
    fixture f;

    options.n_ctx = 200;
    open_model(&f, "stub:", &options);
    result = hth_test_complete(f.model, &request); /* nothing is evaluated after the last token */
    assert_int_equal(result->stats->completion_tokens, 101);
    hearth_result_unref(result);
    request.n_predict = 102;
    assert_int_equal(hearth_submit(f.model, &request, NULL, &err), HEARTH_TOO_LONG);
    assert_non_null(strstr(err.message, "n_predict"));
    request.prefill_only = true; /* then it does not matter */
    result = hth_test_complete(f.model, &request);
    assert_int_equal(result->stats->completion_tokens, 0);
    hearth_result_unref(result);
    request.prefill_only = false;
    request.n_predict = -1;
    result = hth_test_complete(f.model, &request);
    assert_int_equal(result->stats->completion_tokens, 101);
    hearth_result_unref(result);
    request.n_predict = 5;
    request.min_tokens = 6;
    assert_int_equal(hearth_submit(f.model, &request, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "min_tokens"));
    close_model(&f);
    free(prompt);
}

TEST(a_session_has_one_request_at_a_time)
{
    fixture f;
    hall *h;
    hearth_request request;
    hearth_error err = { .message = "" };

    open_model(&f, "stub:delay_us=1000", NULL);
    h = hall_new(f.model);
    request = request_in(h, "a prompt", 50);
    request.session_id = "talk";
    assert_int_equal(hearth_session_end(f.model, "talk", NULL, &err), HEARTH_NOT_FOUND);
    (void)submit(h, &request);
    assert_int_equal(hearth_submit(f.model, &request, NULL, &err), HEARTH_BUSY);
    assert_non_null(strstr(err.message, "talk"));
    assert_int_equal(hearth_session_end(f.model, "talk", NULL, &err), HEARTH_BUSY);
    request.cache_salt = "another tenant"; /* whose session of that name is another one */
    (void)submit(h, &request);
    request.cache_salt = NULL;
    request.session_id = "another";
    (void)submit(h, &request);
    wait_for(h, 3, 0);
    /* on_done comes before the session is free */
    for (unsigned i = 0; i < 1000 && hearth_session_end(f.model, "talk", NULL, &err) == HEARTH_BUSY; i++)
        (void)usleep(1000);
    assert_int_equal(hearth_session_end(f.model, "talk", NULL, &err), HEARTH_NOT_FOUND); /* it has ended above */
    assert_int_equal(hearth_session_end(f.model, "", NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_session_end(f.model, NULL, NULL, &err), HEARTH_MISUSE);
    hall_free(h);
    close_model(&f);
}

TEST(a_pause_holds_a_reply_until_it_goes_on)
{
    hearth_request beside = hth_test_greedy("a prompt", 60), request;
    const hearth_result *alone;
    fixture f;
    hall *h;
    uint64_t id;

    open_model(&f, "stub:", NULL);
    h = hall_new(f.model);
    request = request_in(h, "a prompt", 60);
    h->pause_after = 10;
    id = submit(h, &request);
    wait_for(h, 0, 10);
    alone = hth_test_complete(f.model, &beside); /* others go on meanwhile */
    pthread_mutex_lock(&h->lock);
    assert_int_equal(h->n_done, 0);
    assert_in_range(h->n_tokens, 10, 11);
    pthread_mutex_unlock(&h->lock);
    assert_int_equal(hearth_pause(f.model, id, false, NULL), HEARTH_OK);
    wait_for(h, 1, 0);
    assert_int_equal(h->statuses[0], HEARTH_OK);
    assert_int_equal(h->n_each[0], 60);
    assert_memory_equal(h->tokens[0], alone->tokens, 60 * sizeof(hearth_token));
    hearth_result_unref(alone);
    hall_free(h);
    close_model(&f);
}

TEST(a_callback_may_cancel_its_request)
{
    fixture f;
    hall *h;
    hearth_request request;

    open_model(&f, "stub:", NULL);
    h = hall_new(f.model);
    h->cancel_after = 7;
    request = request_in(h, "a prompt", 100);
    (void)submit(h, &request);
    wait_for(h, 1, 0);
    assert_int_equal(h->statuses[0], HEARTH_CANCELLED);
    assert_in_range(h->n_each[0], 7, 8); /* with the next tick */
    hall_free(h);
    close_model(&f);
}

TEST(what_is_not_there_cannot_be_cancelled_or_paused)
{
    hearth_error err;
    fixture f;

    open_model(&f, "stub:", NULL);
    assert_int_equal(hearth_cancel(f.model, 12345, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_pause(f.model, 12345, true, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_pause(NULL, 1, true, &err), HEARTH_MISUSE);
    close_model(&f);
}

TEST(a_stalled_reply_ends_and_unloading_ends_all)
{
    hearth_model_options options = hearth_model_options_default();
    fixture f;
    hall *h;
    hearth_request request;

    options.stalled_ms = 30;
    open_model(&f, "stub:", &options);
    h = hall_new(f.model);
    request = request_in(h, "a prompt", 100);
    h->pause_after = 5;
    (void)submit(h, &request);
    wait_for(h, 1, 0);
    assert_int_equal(h->statuses[0], HEARTH_TIMED_OUT);
    close_model(&f);

    options.stalled_ms = 60000;
    options.n_parallel = 2;
    open_model(&f, "stub:", &options);
    h->model = f.model;
    for (unsigned i = 0; i < 5; i++) /* two stand still, three wait */
        (void)submit(h, &request);
    wait_for(h, 1, 15);
    close_model(&f);
    wait_for(h, 6, 0);
    for (unsigned i = 1; i < 6; i++)
        assert_int_equal(h->statuses[i], HEARTH_CANCELLED);
    hall_free(h);
}
