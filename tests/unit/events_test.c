/*
 * events_test.c - a queue's events are what callbacks would have told, in order, however slowly they are taken
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PATIENCE_MS = 60000, TEXT_BYTES_MAX = 1 << 17, TAKE_MAX = 64, REPLIES_MAX = 8 };

typedef struct fixture {
    char *directory;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_events *queue;
} fixture;

static hearth_events *open_queue(size_t n_events_max)
{
    hearth_events_options options = hearth_events_options_default();
    hearth_events *queue = NULL;
    hearth_error err;

    options.n_events_max = n_events_max;
    assert_ok(hearth_events_open(&options, &queue, &err), err);
    return queue;
}

static void set_up(fixture *f)
{
    hearth_runtime_options options;
    hearth_model_options model_options = hearth_model_options_default();

    model_options.n_ctx = 1 << 16; /* room for replies that do not end by themselves within a test */
    f->directory = hth_test_directory_new();
    options = hth_test_runtime_options(f->directory);
    f->runtime = hth_test_runtime_open(&options);
    f->model = hth_test_model_load(f->runtime, "stub:n_ctx_train=65536", &model_options);
    f->queue = open_queue(65536);
}

static void tear_down(fixture *f)
{
    hearth_events_close(f->queue);
    hearth_model_unref(f->model);
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* ---- a taker that checks what it is given ---- */

typedef struct heard {
    char text[TEXT_BYTES_MAX];
    size_t n_bytes;
    uint32_t n_tokens;
    hearth_token tokens[4096];
    bool has_ended;
    hearth_status status;
    hearth_finish_reason finish_reason;
    uint32_t n_restored; /* as it was told last, before the first token */
    uint32_t n_read;
} heard;

typedef struct listener {
    hearth_events *queue;
    uint64_t first_id;
    uint32_t n;
    uint32_t n_ended;
    heard replies[REPLIES_MAX];
} listener;

static void hear(listener *l, const hearth_event *event)
{
    heard *reply;

    assert_int_equal(event->struct_size, sizeof(*event));
    assert_ptr_equal(event->user_data, l);
    assert_in_range(event->reply, 0, l->n - 1);
    assert_int_equal(event->id, l->first_id + event->reply);
    reply = &l->replies[event->reply];
    assert_false(reply->has_ended); /* the end is the last */
    if (event->kind == HEARTH_EVENT_TOKEN || event->kind == HEARTH_EVENT_TEXT) {
        assert_int_equal(event->text[event->n_bytes], '\0'); /* perhaps not the first one */
        assert_true(hth_utf8_is_valid(event->text, event->n_bytes));
        assert_true(reply->n_bytes + event->n_bytes < TEXT_BYTES_MAX);
        memcpy(reply->text + reply->n_bytes, event->text, event->n_bytes);
        reply->n_bytes += event->n_bytes;
    }
    switch (event->kind) {
    case HEARTH_EVENT_TOKEN:
        assert_int_equal(event->index, reply->n_tokens);
        reply->tokens[reply->n_tokens++] = event->token;
        break;
    case HEARTH_EVENT_PROGRESS:
        assert_int_equal(reply->n_tokens, 0);
        assert_in_range(event->n_done, 0, event->n_total);
        *(event->phase == HEARTH_PHASE_RESTORE ? &reply->n_restored : &reply->n_read) = event->n_done;
        break;
    case HEARTH_EVENT_DONE:
        reply->has_ended = true;
        reply->status = event->status;
        l->n_ended++;
        assert_int_equal(event->error == NULL, event->status == HEARTH_OK);
        assert_non_null(event->result);
        reply->finish_reason = event->result->finish_reason;
        assert_int_equal(event->result->n_bytes, reply->n_bytes);
        assert_memory_equal(event->result->text, reply->text, reply->n_bytes);
        assert_int_equal(event->result->stats->completion_tokens, reply->n_tokens);
        if (reply->n_tokens > 0)
            assert_memory_equal(event->result->tokens, reply->tokens, reply->n_tokens * sizeof(hearth_token));
        break;
    default: break;
    }
}

static size_t take(hearth_events *queue, const hearth_event **events, size_t n, uint32_t timeout_ms)
{
    hearth_error err;
    size_t n_out = 12345;

    assert_ok(hearth_events_take(queue, events, n, timeout_ms, &n_out, &err), err);
    assert_true(n_out <= n);
    return n_out;
}

static void hear_all(listener *l, size_t n_at_once, useconds_t pause_us)
{
    const hearth_event *events[TAKE_MAX];

    while (l->n_ended < l->n) {
        size_t n = take(l->queue, events, n_at_once, PATIENCE_MS);

        assert_true(n > 0);
        for (size_t i = 0; i < n; i++)
            hear(l, events[i]);
        if (pause_us > 0)
            usleep(pause_us);
    }
}

static void submit(listener *l, hearth_model *model, hearth_events *queue, hearth_request *request)
{
    hearth_error err;

    memset(l, 0, sizeof(*l));
    l->queue = queue;
    l->n = request->n;
    request->events = queue;
    request->user_data = l;
    assert_ok(hearth_submit(model, request, &l->first_id, &err), err);
}

/* So hot that every byte comes: characters of two bytes, and many that become U+FFFD, which has three. */
static hearth_request hot(const char *prompt, int32_t n)
{
    static hearth_sampling sampling; /* always the same */
    hearth_request request = hth_test_greedy(prompt, n);

    sampling = hearth_sampling_default();
    sampling.temperature = 100;
    sampling.top_k = 0;
    sampling.top_p = 1;
    sampling.min_p = 0;
    sampling.seed = 4;
    request.sampling = &sampling;
    return request;
}

static listener *listener_new(void)
{
    listener *l = calloc(1, sizeof(*l));

    assert_non_null(l);
    return l;
}

/* ---- what is told ---- */

FIXTURE_TEST(events_are_what_the_blocking_form_gives)
{
    static const size_t at_once[] = { 1, 3, 64 };
    listener *l = listener_new();

    for (size_t i = 0; i < sizeof(at_once) / sizeof(at_once[0]); i++) {
        hearth_request request = hot("Once upon a time there was a queue", 400);
        const hearth_result *expected = hth_test_complete(f->model, &request);

        submit(l, f->model, f->queue, &request);
        hear_all(l, at_once[i], 0);
        assert_string_equal(l->replies[0].text, expected->text);
        assert_int_equal(l->replies[0].n_tokens, 400);
        assert_memory_equal(l->replies[0].tokens, expected->tokens, 400 * sizeof(hearth_token));
        assert_int_equal(l->replies[0].finish_reason, HEARTH_FINISH_LENGTH);
        hearth_result_unref(expected);
    }
    free(l);
}

FIXTURE_TEST(each_of_several_replies_says_that_it_is_its)
{
    listener *l = listener_new();
    hearth_request request = hot("Several", 50);
    const hearth_result *expected[4];
    hearth_error err;

    request.n = 4;
    assert_int_equal(hearth_complete(f->model, &request, expected, &err), HEARTH_OK);
    submit(l, f->model, f->queue, &request);
    hear_all(l, 16, 0);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(l->replies[i].text, expected[i]->text);
        hearth_result_unref(expected[i]);
    }
    free(l);
}

FIXTURE_TEST(an_echoed_prompt_is_text_of_no_token)
{
    listener *l = listener_new();
    hearth_request request = hth_test_greedy("Echo", 5);

    request.echo = true;
    submit(l, f->model, f->queue, &request);
    hear_all(l, 64, 0);
    assert_memory_equal(l->replies[0].text, "Echo", 4);
    assert_int_equal(l->replies[0].n_tokens, 5);
    free(l);
}

FIXTURE_TEST(what_was_not_asked_for_is_not_told)
{
    listener *l = listener_new();
    const hearth_event *events[TAKE_MAX];

    for (unsigned asks = 0; asks < 2; asks++) {
        hearth_request request = hth_test_greedy("Ask, and it is told", 3);
        bool progress = false, stats = false, logprobs = false;

        request.event_flags = asks ? HEARTH_EVENTS_RESTORE | HEARTH_EVENTS_PREFILL | HEARTH_EVENTS_STATS : 0;
        request.logprobs = asks;
        request.n_top_logprobs = asks ? 2 : 0;
        request.no_cache_read = true; /* all of it is read */
        submit(l, f->model, f->queue, &request);
        while (l->n_ended == 0)
            for (size_t i = 0, n = take(f->queue, events, TAKE_MAX, PATIENCE_MS); i < n; i++) {
                const hearth_event *event = events[i];

                hear(l, event);
                progress |= event->kind == HEARTH_EVENT_PROGRESS;
                if (event->kind == HEARTH_EVENT_TOKEN && event->stats) {
                    stats = true;
                    assert_int_equal(event->stats->completion_tokens, event->index + 1);
                }
                if (event->kind == HEARTH_EVENT_TOKEN && event->logprobs) {
                    logprobs = true;
                    assert_int_equal(event->n_top_logprobs, 2);
                    assert_int_equal(event->logprobs[0].token, event->token);
                }
                if (event->result) {                                           /* always */
                    assert_int_equal(event->result->stats->prompt_tokens, 20); /* a token a byte, and one to begin */
                    assert_int_equal(event->result->prompt[1], 'A');
                    assert_int_equal(event->result->prompt[19], 'd');
                }
            }
        assert_int_equal(progress, asks);
        assert_int_equal(stats, asks);
        assert_int_equal(logprobs, asks);
        assert_int_equal(l->replies[0].n_read, asks ? 20 : 0);
    }
    free(l);
}

FIXTURE_TEST(a_request_that_fails_says_why)
{
    listener *l = listener_new();
    const hearth_event *event;
    hearth_request request = hth_test_greedy("Too late", 60000);

    request.deadline_ms = 5;
    submit(l, f->model, f->queue, &request);
    do
        hear(l, take(f->queue, &event, 1, PATIENCE_MS) == 1 ? event : NULL);
    while (l->n_ended == 0);
    assert_int_equal(event->status, HEARTH_TIMED_OUT);
    assert_int_equal(event->error->status, HEARTH_TIMED_OUT);
    assert_true(event->error->message[0] != '\0');
    free(l);
}

/* ---- taking ---- */

FIXTURE_TEST(what_was_taken_stays_until_the_next_take)
{
    enum { N = 3000 }; /* events of many blocks */
    const hearth_event **events = calloc(N + 16, sizeof(const hearth_event *));
    listener *l = listener_new();
    hearth_request request = hth_test_greedy("Stays", N), other = hth_test_greedy("Another one", 100);
    size_t n;

    submit(l, f->model, f->queue, &request);
    assert_int_equal(hearth_wait(f->model, l->first_id, PATIENCE_MS, NULL), HEARTH_OK);
    n = take(f->queue, events, N + 16, PATIENCE_MS);
    other.events = f->queue; /* its events lie in other memory */
    assert_int_equal(hearth_submit(f->model, &other, NULL, NULL), HEARTH_OK);
    while (hth_test_counters(f->runtime).requests < 2)
        usleep(1000);
    for (size_t i = 0; i < n; i++)
        hear(l, events[i]);
    assert_int_equal(l->n_ended, 1);
    assert_int_equal(l->replies[0].n_tokens, N);
    free(events);
    free(l);
}

static bool is_readable(int fd)
{
    struct pollfd waits = { .fd = fd, .events = POLLIN };

    return poll(&waits, 1, 0) == 1;
}

FIXTURE_TEST(the_descriptor_is_readable_while_events_wait)
{
    listener *l = listener_new();
    hearth_request request = hth_test_greedy("Readable", 10);
    const hearth_event *event;
    int fd = hearth_events_fd(f->queue);
    struct pollfd waits = { .fd = fd, .events = POLLIN };

    assert_true(fd >= 0);
    assert_int_equal(hearth_events_fd(f->queue), fd);
    assert_false(is_readable(fd));
    submit(l, f->model, f->queue, &request);
    assert_int_equal(poll(&waits, 1, PATIENCE_MS), 1);
    assert_int_equal(hearth_wait(f->model, l->first_id, PATIENCE_MS, NULL), HEARTH_OK);
    while (l->n_ended == 0) { /* one at a time: it stays readable between them */
        assert_int_equal(poll(&waits, 1, PATIENCE_MS), 1);
        assert_int_equal(take(f->queue, &event, 1, 0), 1);
        hear(l, event);
    }
    assert_false(is_readable(fd));
    assert_int_equal(take(f->queue, &event, 1, 0), 0);
    free(l);
}

FIXTURE_TEST(a_descriptor_that_is_asked_for_late_knows_of_what_waits)
{
    listener *l = listener_new();
    hearth_request request = hth_test_greedy("Late", 3);

    submit(l, f->model, f->queue, &request);
    assert_int_equal(hearth_wait(f->model, l->first_id, PATIENCE_MS, NULL), HEARTH_OK);
    assert_true(is_readable(hearth_events_fd(f->queue)));
    hear_all(l, 64, 0);
    assert_false(is_readable(hearth_events_fd(f->queue)));
    free(l);
}

FIXTURE_TEST(a_taker_is_woken_by_hand)
{
    const hearth_event *event;

    hearth_events_wake(f->queue);
    assert_int_equal(take(f->queue, &event, 1, UINT32_MAX), 0); /* would wait for ever */
    assert_int_equal(take(f->queue, &event, 1, 5), 0);
    hearth_events_wake(f->queue);
    assert_true(is_readable(hearth_events_fd(f->queue)));
    assert_int_equal(take(f->queue, &event, 1, 0), 0);
    assert_false(is_readable(hearth_events_fd(f->queue)));
}

/* ---- back-pressure ---- */

static hearth_model_info info_of(hearth_model *model)
{
    hearth_model_info info = { .struct_size = sizeof(info) };

    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    return info;
}

FIXTURE_TEST(a_reply_that_nobody_takes_waits_and_holds_nobody_up)
{
    enum { N_EVENTS_MAX = 64, TOKENS = 3000 };
    hearth_events *small = open_queue(N_EVENTS_MAX);
    listener *l = listener_new();
    hearth_request request = hth_test_greedy("Nobody takes this for a while", TOKENS);
    hearth_request other = hth_test_greedy("Somebody else", 500);
    const hearth_result *expected = hth_test_complete(f->model, &request), *result;

    submit(l, f->model, small, &request);
    result = hth_test_complete(f->model, &other); /* 500 ticks */
    assert_int_equal(result->stats->completion_tokens, 500);
    assert_true(info_of(f->model).n_running >= 1); /* it has run longest, so n_done is its */
    assert_in_range(info_of(f->model).n_done, N_EVENTS_MAX - 1, N_EVENTS_MAX + 2);
    hear_all(l, 16, 0);
    assert_string_equal(l->replies[0].text, expected->text);
    hearth_result_unref(expected);
    hearth_result_unref(result);
    hearth_events_close(small);
    free(l);
}

FIXTURE_TEST(a_slow_taker_gets_everything)
{
    hearth_events *small = open_queue(4);
    listener *l = listener_new();
    hearth_request request = hot("A slow taker", 60);
    const hearth_result *expected[3];
    hearth_error err;

    request.n = 3;
    assert_int_equal(hearth_complete(f->model, &request, expected, &err), HEARTH_OK);
    submit(l, f->model, small, &request);
    hear_all(l, 1, 500);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(l->replies[i].text, expected[i]->text);
        hearth_result_unref(expected[i]);
    }
    hearth_events_close(small);
    free(l);
}

FIXTURE_TEST(a_reply_that_is_paused_twice_goes_on_when_neither_holds_it)
{
    enum { N_EVENTS_MAX = 8 };
    hearth_events *small = open_queue(N_EVENTS_MAX);
    listener *l = listener_new();
    hearth_request request = hth_test_greedy("Twice", 200), other = hth_test_greedy("Ticks", 100);
    const hearth_result *result;
    const hearth_event *events[TAKE_MAX];
    size_t n;

    submit(l, f->model, small, &request);
    result = hth_test_complete(f->model, &other);
    hearth_result_unref(result);
    assert_int_equal(hearth_pause(f->model, l->first_id, true, NULL), HEARTH_OK);
    while ((n = take(small, events, TAKE_MAX, 0)) > 0) /* drained, but it is still held */
        for (size_t i = 0; i < n; i++)
            hear(l, events[i]);
    result = hth_test_complete(f->model, &other);
    hearth_result_unref(result);
    assert_int_equal(take(small, events, TAKE_MAX, 0), 0);
    assert_int_equal(l->n_ended, 0);
    assert_int_equal(hearth_pause(f->model, l->first_id, false, NULL), HEARTH_OK);
    hear_all(l, 3, 0);
    assert_int_equal(l->replies[0].n_tokens, 200);
    hearth_events_close(small);
    free(l);
}

FIXTURE_TEST(a_reply_that_nobody_takes_at_all_is_given_up)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_request request = hth_test_greedy("Nobody takes this", 3000);
    hearth_events *small = open_queue(16);
    listener *l = listener_new();
    hearth_model *model;

    options.stalled_ms = 1;
    model = hth_test_model_load(f->runtime, "stub:", &options);
    submit(l, model, small, &request);
    assert_int_equal(hearth_wait(model, l->first_id, PATIENCE_MS, NULL), HEARTH_OK);
    hear_all(l, 64, 0);
    assert_int_equal(l->replies[0].status, HEARTH_TIMED_OUT);
    assert_int_equal(l->replies[0].finish_reason, HEARTH_FINISH_TIMED_OUT);
    assert_in_range(l->replies[0].n_tokens, 15, 20);
    hearth_events_close(small);
    hearth_model_unref(model);
    free(l);
}

/* ---- ends ---- */

FIXTURE_TEST(closing_a_queue_cancels_what_tells_it)
{
    for (int i = 0; i < 20; i++) {
        hearth_events *queue = open_queue(i % 2 ? 4 : 65536);
        hearth_request request = hth_test_greedy("Nobody will know", 60000);
        const hearth_event *event;
        uint64_t id;

        request.events = queue;
        request.n = 3;
        assert_int_equal(hearth_submit(f->model, &request, &id, NULL), HEARTH_OK);
        if (i % 4 < 2)
            assert_int_equal(take(queue, &event, 1, PATIENCE_MS), 1);
        hearth_events_close(queue);
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(hearth_wait(f->model, id + k, PATIENCE_MS, NULL), HEARTH_OK);
    }
    hearth_events_close(NULL);
    assert_true(hth_test_counters(f->runtime).tokens_generated < 60000);
}

FIXTURE_TEST(a_queue_outlives_the_runtime_and_tells_of_its_end)
{
    listener *l = listener_new();
    hearth_runtime_options options = hth_test_runtime_options(f->directory);
    hearth_request request = hth_test_greedy("Closed", 60000);
    const hearth_event *event;

    submit(l, f->model, f->queue, &request);
    assert_int_equal(take(f->queue, &event, 1, PATIENCE_MS), 1);
    hear(l, event);
    hearth_runtime_close(f->runtime);
    hear_all(l, 64, 0);
    assert_int_equal(l->replies[0].status, HEARTH_CANCELLED);
    hearth_events_close(f->queue);
    hearth_model_unref(f->model);
    f->model = NULL;
    f->queue = NULL;
    f->runtime = hth_test_runtime_open(&options);
    free(l);
}

static void close_queue(uint64_t id, const hearth_result *result, void *user_data)
{
    (void)id, (void)result;
    hearth_events_close(user_data);
}

FIXTURE_TEST(a_queue_may_be_closed_in_a_callback)
{
    hearth_events *queue = open_queue(65536);
    hearth_request request = hth_test_greedy("Closed by another", 60000), closing = hth_test_greedy("Closes", 3);
    uint64_t id;

    request.events = queue;
    assert_int_equal(hearth_submit(f->model, &request, &id, NULL), HEARTH_OK);
    closing.on_done = close_queue;
    closing.user_data = queue;
    assert_int_equal(hearth_submit(f->model, &closing, NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(f->model, id, PATIENCE_MS, NULL), HEARTH_OK);
}

/* ---- waiting ---- */

static void wait_in_callback(uint64_t id, const hearth_result *result, void *user_data)
{
    fixture *f = user_data;

    (void)result;
    assert_int_equal(hearth_wait(f->model, id, 0, NULL), HEARTH_MISUSE);
}

FIXTURE_TEST(waiting_ends_with_the_request)
{
    hearth_request request = hth_test_greedy("Wait", 60000);
    hearth_error err;
    uint64_t id;

    assert_int_equal(hearth_wait(NULL, 1, 0, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_wait(f->model, 0, 0, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_wait(f->model, 1000, 0, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_submit(f->model, &request, &id, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(f->model, id, 3, &err), HEARTH_TIMED_OUT);
    assert_non_null(strstr(err.message, "within 3 ms"));
    assert_int_equal(hearth_cancel(f->model, id, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(f->model, id, UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(f->model, id, 0, NULL), HEARTH_OK); /* again */
    request.n_predict = 3;
    request.on_done = wait_in_callback;
    request.user_data = f;
    assert_int_equal(hearth_submit(f->model, &request, &id, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(f->model, id, PATIENCE_MS, NULL), HEARTH_OK);
    request.on_done = NULL;
    request.n_predict = 50;
    assert_int_equal(hearth_submit(f->model, &request, &id, NULL), HEARTH_OK);
    hearth_model_unload(f->model);
    assert_int_equal(hearth_wait(f->model, id, PATIENCE_MS, NULL), HEARTH_OK);
}

/* ---- how it says no ---- */

static void expect_refused(fixture *f, const hearth_request *request, const char *word)
{
    hearth_error err = { .message = "" };

    assert_int_equal(hearth_submit(f->model, request, NULL, &err), HEARTH_MISUSE);
    if (!strstr(err.message, word))
        fail_msg("'%s' does not name %s", err.message, word);
}

FIXTURE_TEST(what_a_queue_cannot_do_is_refused)
{
    hearth_events_options options = hearth_events_options_default();
    hearth_request request = hth_test_greedy("No", 5);
    const hearth_event *event;
    hearth_events *queue;
    const hearth_result *result;
    hearth_error err;
    size_t n;

    request.events = f->queue;
    request.on_done = wait_in_callback;
    expect_refused(f, &request, "on_done");
    request.on_done = NULL;
    request.prompt = "";
    expect_refused(f, &request, "prompt is empty");
    request.prompt = "No";
    assert_int_equal(hearth_complete(f->model, &request, &result, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_events_open(NULL, NULL, &err), HEARTH_MISUSE);
    options.n_events_max = 0;
    assert_int_equal(hearth_events_open(&options, &queue, &err), HEARTH_MISUSE);
    options.struct_size = 3;
    assert_int_equal(hearth_events_open(&options, &queue, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_events_take(f->queue, &event, 0, 0, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_events_take(NULL, &event, 1, 0, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_events_fd(NULL), -1);
    hearth_events_wake(NULL);
    assert_int_equal(take(f->queue, &event, 1, 0), 0); /* and nothing of it was told */
}
