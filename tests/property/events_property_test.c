/*
 * events_property_test.c - a queue of events under random hands
 *
 * Rounds of requests of random lengths, n and flags tell a queue with small random bounds, of two models. One thread
 * takes random numbers of events at random times, cancels and pauses at random; in some rounds the queue is closed in
 * the middle. Whatever happens: each reply's events are in order and its own, their texts are its result's, its end
 * comes once and last, and what ended well is what hearth_complete gives.
 *
 * HTH_ROUNDS: how many (default 40). HTH_SEED replays a run that printed it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { MODELS = 2, REQUESTS = 10, REPLIES_MAX = 3, TOKENS_MAX = 120, TAKE_MAX = 40, PATIENCE_MS = 60000 };

typedef struct told {
    char text[8 * TOKENS_MAX + 64];
    size_t n_bytes;
    uint32_t n_tokens;
    bool has_ended;
    bool is_paused;
} told;

typedef struct asked {
    hearth_model *model;
    char prompt[32];
    int32_t n_predict;
    uint32_t n;
    uint64_t id;
    bool is_cancelled;
    told replies[REPLIES_MAX];
} asked;

typedef struct play {
    uint64_t random;
    hearth_runtime *runtime;
    hearth_model *models[MODELS];
    hearth_events *queue;
    asked requests[REQUESTS];
    uint32_t n_open;
} play;

static uint32_t draw(play *p, uint32_t n)
{
    p->random = p->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(p->random >> 33) % n;
}

static hearth_request request_of(const asked *a)
{
    static hearth_sampling sampling; /* always the same */
    hearth_request request = hth_test_greedy(a->prompt, a->n_predict);

    request.n = a->n;
    sampling = hearth_sampling_default();
    sampling.temperature = 1;
    sampling.seed = 9;
    request.sampling = &sampling;
    return request;
}

static void submit(play *p, asked *a, unsigned i)
{
    hearth_request request;
    hearth_error err;

    memset(a, 0, sizeof(*a));
    a->model = p->models[draw(p, MODELS)];
    (void)snprintf(a->prompt, sizeof(a->prompt), "prompt %u", i);
    a->n_predict = 1 + (int32_t)draw(p, TOKENS_MAX);
    a->n = 1 + draw(p, REPLIES_MAX);
    request = request_of(a);
    request.events = p->queue;
    request.user_data = a;
    request.event_flags = draw(p, 16);
    request.logprobs = draw(p, 2);
    assert_ok(hearth_submit(a->model, &request, &a->id, &err), err);
    p->n_open += a->n;
}

static void check_end(const asked *a, const told *reply, const hearth_event *event)
{
    const hearth_result *result = event->result;

    assert_non_null(result);
    assert_int_equal(result->n_bytes, reply->n_bytes);
    assert_memory_equal(result->text, reply->text, reply->n_bytes);
    assert_int_equal(result->stats->completion_tokens, reply->n_tokens);
    if (event->status != HEARTH_OK) {
        assert_true(a->is_cancelled);
        assert_int_equal(event->error->status, event->status);
    }
}

static void hear(play *p, const hearth_event *event)
{
    asked *a = event->user_data;
    told *reply = &a->replies[event->reply];

    assert_in_range(event->reply, 0, a->n - 1);
    assert_int_equal(event->id, a->id + event->reply);
    assert_false(reply->has_ended);
    assert_true(reply->n_bytes + event->n_bytes < sizeof(reply->text));
    if (event->n_bytes > 0)
        memcpy(reply->text + reply->n_bytes, event->text, event->n_bytes);
    reply->n_bytes += event->n_bytes;
    if (event->kind == HEARTH_EVENT_TOKEN)
        assert_int_equal(event->index, reply->n_tokens++);
    if (event->kind != HEARTH_EVENT_DONE)
        return;
    check_end(a, reply, event);
    reply->has_ended = true;
    p->n_open--;
}

static void take_some(play *p)
{
    const hearth_event *events[TAKE_MAX];
    size_t n;

    assert_int_equal(hearth_events_take(p->queue, events, 1 + draw(p, TAKE_MAX), draw(p, 3), &n, NULL), HEARTH_OK);
    for (size_t i = 0; i < n; i++)
        hear(p, events[i]);
}

/* Cancel or pause one, or let one go on; where it has ended that is not found. */
static void disturb(play *p)
{
    asked *a = &p->requests[draw(p, REQUESTS)];
    uint32_t i = draw(p, a->n);
    hearth_status status;

    if (draw(p, 4) == 0) {
        a->is_cancelled = true;
        status = hearth_cancel(a->model, a->id + i, NULL);
    } else {
        a->replies[i].is_paused = !a->replies[i].is_paused;
        status = hearth_pause(a->model, a->id + i, a->replies[i].is_paused, NULL);
    }
    assert_true(status == HEARTH_OK || status == HEARTH_NOT_FOUND);
}

static void let_all_go_on(play *p)
{
    for (unsigned i = 0; i < REQUESTS; i++)
        for (uint32_t k = 0; k < p->requests[i].n; k++)
            (void)hearth_pause(p->requests[i].model, p->requests[i].id + k, false, NULL); /* not found: it has ended */
}

static void check_texts(const play *p)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        const asked *a = &p->requests[i];
        hearth_request request = request_of(a);
        const hearth_result *results[REPLIES_MAX];

        assert_int_equal(hearth_complete(a->model, &request, results, NULL), HEARTH_OK);
        for (uint32_t k = 0; k < a->n; k++) {
            assert_memory_equal(results[k]->text, a->replies[k].text, a->replies[k].n_bytes);
            if (!a->is_cancelled)
                assert_int_equal(results[k]->n_bytes, a->replies[k].n_bytes);
            hearth_result_unref(results[k]);
        }
    }
}

static void play_round(play *p)
{
    hearth_events_options options = hearth_events_options_default();
    bool is_closed_early = draw(p, 5) == 0;

    options.n_events_max = 1 + draw(p, 60);
    if (draw(p, 2))
        options.n_bytes_max = 1 + draw(p, 20000);
    p->n_open = 0;
    assert_int_equal(hearth_events_open(&options, &p->queue, NULL), HEARTH_OK);
    for (unsigned i = 0; i < REQUESTS; i++)
        submit(p, &p->requests[i], i);
    for (unsigned i = 0; p->n_open > 0 && !(is_closed_early && i == 30); i++) {
        take_some(p);
        if (i < 60 && draw(p, 3) == 0)
            disturb(p);
        if (i == 60)
            let_all_go_on(p);
        if (draw(p, 10) == 0)
            usleep(draw(p, 500));
    }
    hearth_events_close(p->queue);
    for (unsigned i = 0; i < REQUESTS; i++)
        for (uint32_t k = 0; k < p->requests[i].n; k++)
            assert_int_equal(hearth_wait(p->requests[i].model, p->requests[i].id + k, PATIENCE_MS, NULL), HEARTH_OK);
    if (!is_closed_early)
        check_texts(p);
}

TEST(whatever_is_done_to_a_queue_its_events_are_right)
{
    const char *seed = getenv("HTH_SEED");
    char *directory = hth_test_directory_new();
    hearth_runtime_options options = hth_test_runtime_options(directory);
    play *p = calloc(1, sizeof(*p));

    p->random = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)p->random);
    p->runtime = hth_test_runtime_open(&options);
    for (int i = 0; i < MODELS; i++)
        p->models[i] = hth_test_model_load(p->runtime, "stub:", NULL);
    for (uint64_t i = hth_test_number("HTH_ROUNDS", 40); i > 0; i--)
        play_round(p);
    for (int i = 0; i < MODELS; i++)
        hearth_model_unref(p->models[i]);
    hearth_runtime_close(p->runtime);
    hth_test_directory_remove(directory);
    free(p);
}
