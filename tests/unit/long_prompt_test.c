/*
 * long_prompt_test.c - prompts that take long to read: what their clients are told meanwhile, and what those find who
 * left and ask again
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/reply.h"
#include "base/os.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"
#include "support/worker_stage.h"

enum { TEXT_MAX = 1 << 20 };

/* A body whose prompt has about n tokens of the stub's, a byte each. */
static char *body_of(const char *format, size_t n, unsigned seed)
{
    char *text = hth_test_prompt(n, seed), *body = malloc(n + 512);

    (void)snprintf(body, n + 512, format, text);
    free(text);
    return body;
}

static void start(hth_test_worker *worker, const char *model, uint32_t silence_ms, uint32_t linger_ms)
{
    hth_test_worker_init(worker, model);
    worker->model.n_ctx = 32768;
    worker->model.prefill_chunk = 64; /* short steps, so that each test waits little for its first one */
    worker->options.silence_ms = silence_ms;
    worker->options.settings.linger_ms = linger_ms;
    hth_test_worker_start(worker);
}

/* What comes on a connection, until text is in it behind *at; then *at is behind that. */
static void hear(int fd, char *heard, size_t *n, size_t *at, const char *text)
{
    const char *found;

    while (!(found = memmem(heard + *at, *n - *at, text, strlen(text)))) {
        ssize_t m = read(fd, heard + *n, TEXT_MAX - *n);

        assert_true(m > 0);
        *n += (size_t)m;
    }
    *at = (size_t)(found - heard) + strlen(text);
}

/* ---- signs of life ---- */

static const char message[] = "{\"model\":\"m\",\"max_tokens\":3,\"stream\":true,\"messages\":[{\"role\":\"user\","
                              "\"content\":\"%s\"}]}";
static const char completion[] = "{\"prompt\":\"%s\",\"n_predict\":3,\"stream\":true,\"return_progress\":true}";
static const char chat[] =
    "{\"max_tokens\":3,\"stream\":true,\"return_progress\":true,\"messages\":[{\"role\":\"user\","
    "\"content\":\"%s\"}]}";
static const char text_completion[] = "{\"max_tokens\":3,\"stream\":true,\"return_progress\":true,\"prompt\":\"%s\"}";

TEST(a_message_begins_and_pings_while_its_prompt_is_read)
{
    hth_test_worker worker;
    char *body = body_of(message, 3000, 1), *heard = malloc(TEXT_MAX);
    size_t n = 0, at = 0;
    int fd;

    start(&worker, "stub:delay_us=20000", 1, 0); /* a minute */
    fd = hth_test_worker_connect(&worker);
    hth_test_worker_send(fd, "POST", "/v1/messages", "", body, strlen(body));
    hear(fd, heard, &n, &at, "event: message_start\ndata: {");
    hear(fd, heard, &n, &at, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    hear(fd, heard, &n, &at, "event: ping\n");
    assert_null(memmem(heard, n, "content_block", 13));
    close(fd);
    free(heard);
    free(body);
    hth_test_worker_deinit(&worker);
}

TEST(nothing_is_said_where_that_is_off)
{
    hth_test_worker worker;
    char *body = body_of(message, 600, 1);
    hth_test_heard heard;

    start(&worker, "stub:delay_us=2000", 0, 0); /* more than a second */
    heard = hth_test_worker_post(&worker, "/v1/messages", body);
    assert_int_equal(heard.status, 200);
    assert_non_null(strstr(heard.body.text, "message_stop"));
    assert_null(strstr(heard.body.text, "ping"));
    hth_test_heard_deinit(&heard);
    free(body);
    hth_test_worker_deinit(&worker);
}

/* ---- beginnings that left before the first token ---- */

/* Read frames until a step says that the reply's stream has begun; what a next worker is told goes to known. */
static void hear_beginning(int fd, hth_buffer *known, hth_buffer *bytes)
{
    char *heard = malloc(TEXT_MAX);
    size_t n = 0, at = 0, last = 0;
    bool has_begun = false;

    hear(fd, heard, &n, &at, "\r\n\r\n");
    while (!has_begun) {
        size_t n_chunk = strtoul(heard + at, NULL, 16), used = 0, inside = 0;
        hth_frame frame;

        hear(fd, heard, &n, &at, "\r\n"); /* the chunk's head; each is whole frames, as the worker writes them */
        while (n - at < n_chunk + 2) {
            ssize_t m = read(fd, heard + n, TEXT_MAX - n);

            assert_true(m > 0);
            n += (size_t)m;
        }
        for (; inside < n_chunk; inside += used) {
            assert_int_equal(hth_frame_read(heard + at + inside, n_chunk - inside, &frame, &used), HTH_FRAME_OK);
            hth_frame_add_known(known, &last, &frame);
            if (frame.kind == HTH_FRAME_STEP) {
                assert_int_equal(frame.n_tokens, 0);
                hth_buffer_add(bytes, frame.bytes, frame.n_bytes);
                has_begun = has_begun || frame.reply_has_begun;
            }
        }
        at += n_chunk + 2;
        if (!has_begun && n == at) {
            ssize_t m = read(fd, heard + n, TEXT_MAX - n);

            assert_true(m > 0);
            n += (size_t)m;
        }
    }
    free(heard);
}

TEST(what_a_stream_began_with_is_not_said_again_by_the_next_worker)
{
    hth_test_worker worker;
    char *body = body_of(message, 500, 1), headers[256];
    hth_buffer known = { .text = NULL }, bytes = { .text = NULL };
    hth_test_heard heard;
    int fd;

    start(&worker, "stub:delay_us=4000", 1, 0); /* two seconds */
    fd = hth_test_worker_connect(&worker);
    hth_test_worker_send(fd, "POST", "/v1/messages", "Hearth-Frames: 1\r\nHearth-Id: abc\r\n", body, strlen(body));
    hear_beginning(fd, &known, &bytes);
    close(fd);
    assert_non_null(strstr(hth_buffer_text(&bytes), "event: message_start\n"));
    assert_null(strstr(hth_buffer_text(&bytes), "content_block"));

    (void)snprintf(headers, sizeof(headers), "Hearth-Frames: 1\r\nHearth-Id: abc\r\nHearth-Known: %zu\r\n", known.n);
    hth_buffer_add(&known, body, strlen(body));
    heard = hth_test_worker_ask(&worker, "POST", "/v1/messages", headers, known.text, known.n);
    assert_int_equal(heard.status, 200);
    for (size_t at = 0, used = 0; at < heard.body.n; at += used) {
        hth_frame frame;

        assert_int_equal(hth_frame_read(heard.body.text + at, heard.body.n - at, &frame, &used), HTH_FRAME_OK);
        if (frame.kind == HTH_FRAME_STEP)
            hth_buffer_add(&bytes, frame.bytes, frame.n_bytes);
    }
    assert_null(strstr(strstr(hth_buffer_text(&bytes), "message_start") + 30, "event: message_start"));
    assert_non_null(strstr(hth_buffer_text(&bytes), "event: content_block_start"));
    assert_non_null(strstr(hth_buffer_text(&bytes), "event: message_stop"));
    hth_test_heard_deinit(&heard);
    hth_buffer_deinit(&known);
    hth_buffer_deinit(&bytes);
    free(body);
    hth_test_worker_deinit(&worker);
}

/* ---- progress ---- */

static json_int_t number_at(json_t *event, const char *path)
{
    return json_integer_value(hth_test_at(event, path));
}

/* Events that tell how far the prompt was read come first, each further than the one before. Their number. */
static size_t expect_progress(const hth_test_worker *worker, const char *target, const char *body, bool is_cached)
{
    hth_test_heard heard = hth_test_worker_post(worker, target, body);
    json_t *events = hth_test_events(heard.body.text), *event;
    json_int_t before = -1, total = 0;
    size_t n = 0, i;

    assert_int_equal(heard.status, 200);
    json_array_foreach(events, i, event)
    {
        if (!json_object_get(event, "prompt_progress"))
            continue;
        assert_int_equal(i, n++);
        total = number_at(event, "prompt_progress.total");
        assert_true(number_at(event, "prompt_progress.processed") > before);
        before = number_at(event, "prompt_progress.processed");
        assert_true(number_at(event, "prompt_progress.cache") <= before);
        assert_true(!is_cached || number_at(event, "prompt_progress.cache") > 0);
        assert_true(json_is_integer(hth_test_at(event, "prompt_progress.time_ms")));
        if (i == 0)
            assert_int_equal(before, number_at(event, "prompt_progress.cache"));
    }
    assert_int_equal(before, total);
    assert_true(json_array_size(events) > n);
    hth_test_heard_deinit(&heard);
    return n;
}

TEST(progress_is_told_to_who_asks_for_it)
{
    static const char *const cases[][2] = { { "/completion", completion },
                                            { "/v1/chat/completions", chat },
                                            { "/v1/completions", text_completion } };
    hth_test_worker worker;

    start(&worker, "stub:", 60000, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *body = body_of(cases[i][1], 2000, 10 + i), *again = malloc(strlen(body) + 64);
        char *end = strstr(body, "\"n_predict") ? strstr(body, "\",\"n_predict") : strrchr(body, '}');

        assert_true(expect_progress(&worker, cases[i][0], body, false) > 2);
        /* The same with more behind it: some of it is cached. */
        if (i > 0)
            end = i == 1 ? strstr(body, "\"}]}") : strstr(body, "\"}");
        (void)snprintf(again, strlen(body) + 64, "%.*s and then some more of it all%s", (int)(end - body), body, end);
        assert_true(expect_progress(&worker, cases[i][0], again, true) >= 2);
        free(again);
        free(body);
    }
    hth_test_worker_deinit(&worker);
}

TEST(progress_is_told_to_nobody_else)
{
    hth_test_worker worker;
    char *body = body_of("{\"prompt\":\"%s\",\"n_predict\":3,\"stream\":true}", 2000, 3);
    hth_test_heard heard;

    start(&worker, "stub:", 60000, 0);
    heard = hth_test_worker_post(&worker, "/completion", body);
    assert_int_equal(heard.status, 200);
    assert_null(strstr(heard.body.text, "prompt_progress"));
    hth_test_heard_deinit(&heard);
    free(body);
    hth_test_worker_deinit(&worker);
}

/* ---- clients that leave and come back ---- */

/* Ask, and leave once n_read tokens of the prompt, or a few more, were read. */
static void ask_and_leave(const hth_test_worker *worker, const char *body, unsigned long n_read)
{
    char *heard = malloc(TEXT_MAX);
    size_t n = 0, at = 0, end;
    int fd = hth_test_worker_connect(worker);

    hth_test_worker_send(fd, "POST", "/completion", "", body, strlen(body));
    do {
        hear(fd, heard, &n, &at, "\"processed\":");
        end = at;
        hear(fd, heard, &n, &end, ","); /* the number is whole */
    } while (strtoul(heard + at, NULL, 10) < n_read);
    close(fd);
    free(heard);
}

static void wait_until_idle(const hth_test_worker *worker)
{
    uint64_t until = hth_os_monotonic_ns() + UINT64_C(120000000000);

    while (hth_test_worker_n_busy(worker) > 0) {
        assert_true(hth_os_monotonic_ns() < until);
        usleep(20000);
    }
}

/* Tokens that the same request would find now. */
static json_int_t n_known(const hth_test_worker *worker, const char *body)
{
    hth_test_heard heard = hth_test_worker_post(worker, "/admin/explain?endpoint=/completion", body);
    json_t *answer = hth_test_json(hth_buffer_text(&heard.body));
    json_int_t n = number_at(answer, "known_tokens");

    assert_int_equal(heard.status, 200);
    hth_test_heard_deinit(&heard);
    return n;
}

/* Tokens that the same request finds. */
static json_int_t n_found_again(const hth_test_worker *worker, const char *body)
{
    hth_test_heard heard;
    json_t *events;
    json_int_t n;

    heard = hth_test_worker_post(worker, "/completion", body);
    assert_int_equal(heard.status, 200);
    events = hth_test_events(heard.body.text);
    n = number_at(json_array_get(events, json_array_size(events) - 1), "timings.cache_n");
    hth_test_heard_deinit(&heard);
    return n;
}

/* Of the events, those with progress; the last one is complete. */
static size_t n_progress(hth_test_worker *worker, const char *body)
{
    hth_test_heard heard = hth_test_worker_post(worker, "/completion", body);
    json_t *events = hth_test_events(heard.body.text), *event;
    json_int_t n_last = -1, total = 0;
    size_t i, n = 0;

    json_array_foreach(events, i, event)
    {
        if (!json_object_get(event, "prompt_progress"))
            continue;
        assert_true(number_at(event, "prompt_progress.processed") > n_last);
        n_last = number_at(event, "prompt_progress.processed");
        total = number_at(event, "prompt_progress.total");
        n++;
    }
    assert_int_equal(n_last, total);
    hth_test_heard_deinit(&heard);
    return n;
}

TEST(a_prompt_that_is_known_whole_tells_its_progress_once)
{
    hth_test_worker worker;
    char *body = body_of(completion, 600, 5);

    start(&worker, "stub:delay_us=100", 60000, 600000);
    assert_true(n_progress(&worker, body) > 1);
    assert_int_equal(n_progress(&worker, body), 1);
    free(body);
    hth_test_worker_deinit(&worker);
}

TEST(who_left_finds_the_whole_prompt_read)
{
    enum { TOKENS = 2000 };
    hth_test_worker worker;
    char *body = body_of(completion, TOKENS, 5);

    start(&worker, "stub:delay_us=1000", 60000, 600000);
    ask_and_leave(&worker, body, 1);
    wait_until_idle(&worker);
    assert_true(n_found_again(&worker, body) >= TOKENS - 1);
    free(body);
    hth_test_worker_deinit(&worker);
}

/* Who asks again at once goes on with what is being read, and reads nothing twice. */
TEST(who_comes_back_early_waits_for_what_is_being_read)
{
    enum { TOKENS = 2000 };
    hth_test_worker worker;
    char *body = body_of(completion, TOKENS, 5);

    start(&worker, "stub:delay_us=1000", 60000, 600000);
    ask_and_leave(&worker, body, 1);
    assert_true(n_found_again(&worker, body) >= TOKENS - 1);
    free(body);
    hth_test_worker_deinit(&worker);
}

/* What was read is kept in any case, and without lingering no more than that. */
TEST(without_lingering_only_what_was_read_is_known)
{
    enum { TOKENS = 3500 };
    hth_test_worker worker;
    char *body = body_of(completion, TOKENS, 6);
    json_int_t known;

    start(&worker, "stub:delay_us=8000", 60000, 0);
    ask_and_leave(&worker, body, 256); /* a block; the rest would take 26 seconds */
    wait_until_idle(&worker);
    known = n_known(&worker, body);
    for (unsigned i = 0; known == 0 && i < 3000; i++) { /* its row may still be on the way to the tier */
        usleep(20000);
        known = n_known(&worker, body);
    }
    assert_in_range(known, 256, TOKENS - 256);
    free(body);
    hth_test_worker_deinit(&worker);
}

#ifndef __APPLE__ /* whose linker cannot replace calls, as tests/CMakeLists.txt has others do with hth_api_reply_idle */
static atomic_bool has_no_memory;
bool __real_hth_api_reply_idle(hth_api_reply *reply, hth_buffer *out);
bool __wrap_hth_api_reply_idle(hth_api_reply *reply, hth_buffer *out);
bool __wrap_hth_api_reply_idle(hth_api_reply *reply, hth_buffer *out)
{
    if (!has_no_memory)
        return __real_hth_api_reply_idle(reply, out);
    out->failed = true;
    return false;
}

TEST(a_stream_that_cannot_be_written_is_not_read_on)
{
    enum { TOKENS = 3500 };
    hth_test_worker worker;
    char *body = body_of(completion, TOKENS, 9), *heard = malloc(TEXT_MAX);
    size_t n = 0, at = 0;
    int fd;

    start(&worker, "stub:delay_us=30000", 1, 0);
    fd = hth_test_worker_connect(&worker);
    hth_test_worker_send(fd, "POST", "/completion", "", body, strlen(body));
    hear(fd, heard, &n, &at, "prompt_progress");
    hear(fd, heard, &n, &at, "prompt_progress"); /* after a step */
    has_no_memory = true;                        /* for the next sign of life */
    while (read(fd, heard, TEXT_MAX) > 0)
        continue; /* until the stream is cut */
    wait_until_idle(&worker);
    assert_true(n_known(&worker, body) < TOKENS - 256);
    has_no_memory = false;
    close(fd);
    free(heard);
    free(body);
    hth_test_worker_deinit(&worker);
}
#endif

TEST(short_prompts_are_not_worth_it)
{
    enum { TOKENS = 500 };
    hth_test_worker worker;
    char *body = body_of(completion, TOKENS, 7);

    start(&worker, "stub:delay_us=10000", 60000, 600000);
    ask_and_leave(&worker, body, 1);
    wait_until_idle(&worker);
    assert_true(n_known(&worker, body) < TOKENS - 1);
    free(body);
    hth_test_worker_deinit(&worker);
}

TEST(a_worker_that_stops_waits_for_nobody_who_left)
{
    enum { TOKENS = 31000 };
    hth_test_worker worker;
    char *body = body_of(completion, TOKENS, 8);

    start(&worker, "stub:delay_us=30000", 60000, 1000000); /* 930 seconds; the test's own limit is 900 */
    ask_and_leave(&worker, body, 1);
    hth_test_worker_stop(&worker);
    free(body);
    hth_test_worker_deinit(&worker);
}
