/*
 * upstream_test.c - requests to workers, which answer, break off, and are slow
 */
#include "support/cmocka_all.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/buffer.h"
#include "http/upstream.h"
#include "support/fake_worker.h"
#include "support/support.h"

typedef struct test_stage {
    char *directory;
    char path[108];
    struct event_base *base;
    hth_upstream *upstream;
    fake_worker *worker;
    fake_connection *early; /* has an answer, and reads its request later */
} test_stage;

typedef enum call_point { AT_NONE, AT_HEAD, AT_BYTES } call_point;

/* What became of a call. */
typedef struct call_outcome {
    hth_upstream_call *call;
    int status;
    char content_type[64];
    uint32_t retry_after_s;
    unsigned n_heads;
    hth_buffer bytes;
    bool has_head, has_bytes, is_done;
    bool is_holding; /* on_bytes says "not now" */
    unsigned n_held;
    hearth_status result;
    hearth_error err;
    call_point cancel_at, release_at;
    hth_upstream_call **others; /* cancelled, too */
    size_t n_others;
} call_outcome;

static void act_at(call_outcome *outcome, call_point at)
{
    if (outcome->cancel_at == at) {
        hth_upstream_cancel(outcome->call);
        for (size_t i = 0; i < outcome->n_others; i++)
            hth_upstream_cancel(outcome->others[i]);
    }
    if (outcome->release_at == at)
        hth_upstream_release(outcome->call);
}

static void on_head(const hth_upstream_head *head, void *user_data)
{
    call_outcome *outcome = user_data;

    outcome->status = head->status;
    outcome->retry_after_s = head->retry_after_s;
    (void)snprintf(outcome->content_type, sizeof(outcome->content_type), "%s", head->content_type);
    outcome->n_heads++;
    outcome->has_head = true;
    act_at(outcome, AT_HEAD);
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    call_outcome *outcome = user_data;

    assert_true(outcome->has_head);
    assert_false(outcome->is_done);
    if (outcome->is_holding) {
        outcome->n_held++;
        return false;
    }
    hth_buffer_add(&outcome->bytes, bytes, n);
    outcome->has_bytes = true;
    act_at(outcome, AT_BYTES);
    return true;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    call_outcome *outcome = user_data;

    assert_false(outcome->is_done);
    outcome->is_done = true;
    outcome->result = status;
    outcome->err = *err;
}

static void outcome_deinit(call_outcome *outcome)
{
    hth_buffer_deinit(&outcome->bytes);
}

static void begin_with(test_stage *stage, const hth_upstream_request *request, call_outcome *outcome)
{
    const hth_upstream_watch watch = {
        .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done, .user_data = outcome
    };
    hearth_error err;

    assert_ok(hth_upstream_begin(stage->upstream, request, &watch, &outcome->call, &err), err);
}

static void begin(test_stage *stage, const char *target, call_outcome *outcome)
{
    const hth_upstream_request request = {
        .socket_path = stage->path, .method = "POST", .target = target, .body = { "{}" }, .body_bytes = { 2 }
    };

    begin_with(stage, &request, outcome);
}

static void ask(test_stage *stage, const char *target, call_outcome *outcome)
{
    begin(stage, target, outcome);
    assert_false(outcome->has_head); /* nothing is called back from within */
    fake_loop_until(stage->base, &outcome->is_done);
}

static bool is_for(const fake_request *request, const char *target)
{
    const char *at = strchr(request->head, ' ');

    return at && strncmp(at + 1, target, strlen(target)) == 0 && at[1 + strlen(target)] == ' ';
}

static void chunked(fake_connection *connection)
{
    fake_write_text(connection,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
}

/* What the worker of these tests does with each target. */
static void answer(fake_connection *connection, const fake_request *request, void *user_data)
{
    test_stage *stage = user_data;

    stage->early = connection;
    if (is_for(request, "/whole")) {
        fake_write_text(connection,
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nwhole");
    } else if (is_for(request, "/busy?x=1&y=%20#z")) {
        fake_write_text(connection,
                        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
    } else if (is_for(request, "/chunks")) {
        chunked(connection);
        fake_write_chunk(connection, "one ", 4);
        fake_write_chunk(connection, "two", 3);
        fake_write_chunk(connection, NULL, 0);
    } else if (is_for(request, "/silence")) {
        /* nothing */
    } else if (is_for(request, "/head")) {
        chunked(connection);
    } else if (is_for(request, "/part")) {
        chunked(connection);
        fake_write_chunk(connection, "part", 4);
    } else if (is_for(request, "/cut")) {
        chunked(connection);
        fake_write_chunk(connection, "part", 4);
        fake_end(connection);
    } else if (is_for(request, "/cut_length")) {
        fake_write_text(connection, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
        fake_end(connection);
    } else if (is_for(request, "/cut_head")) {
        fake_write_text(connection, "HTTP/1.1 200 OK\r\nContent-Le");
        fake_end(connection);
    } else if (is_for(request, "/cut_silence")) {
        fake_end(connection);
    } else if (is_for(request, "/endless_head")) {
        fake_write_text(connection, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; i < 4096; i++)
            fake_write_text(connection, "X-More: and more, and more, and more, and more\r\n");
        fake_write_text(connection, "Content-Length: 2\r\n\r\n{}");
    } else if (is_for(request, "/noise")) {
        fake_write_text(connection, "what?\r\n\r\n");
        fake_end(connection);
    } else if (is_for(request, "/large")) {
        chunked(connection);
        for (char c = 'a'; c <= 'z'; c++) {
            char chunk[16 << 10];

            memset(chunk, c, sizeof(chunk));
            fake_write_chunk(connection, chunk, sizeof(chunk));
        }
        fake_write_chunk(connection, NULL, 0);
    } else if (is_for(request, "/echo")) {
        char head[128];

        (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                       strlen(request->head) + request->n_body);
        fake_write_text(connection, head);
        fake_write_text(connection, request->head);
        fake_write(connection, request->body, request->n_body);
    } else {
        fail_msg("a request that was not expected: %s", request->head);
    }
}

static void stage_setup(test_stage *stage)
{
    stage->directory = hth_test_directory_new();
    (void)snprintf(stage->path, sizeof(stage->path), "%s/worker.sock", stage->directory);
    stage->base = event_base_new();
    assert_non_null(stage->base);
    assert_int_equal(hth_upstream_new(stage->base, &stage->upstream, NULL), HEARTH_OK);
    stage->worker = fake_worker_new(stage->base, stage->path, answer, stage);
}

static void stage_teardown(test_stage *stage)
{
    hth_upstream_free(stage->upstream);
    fake_worker_free(stage->worker);
    event_base_free(stage->base);
    hth_test_directory_remove(stage->directory);
}

#define STAGED(name) TEST_WITH(test_stage, stage, name, stage_setup, stage_teardown)

STAGED(a_reply_comes_with_its_head_and_its_bytes)
{
    call_outcome whole = { .call = NULL }, chunks = { .call = NULL }, busy = { .call = NULL };

    ask(stage, "/whole", &whole);
    if (whole.result)
        fail_msg("%s", whole.err.message);
    assert_int_equal(whole.status, 200);
    assert_string_equal(whole.content_type, "application/json");
    assert_string_equal(hth_buffer_text(&whole.bytes), "whole");
    ask(stage, "/chunks", &chunks);
    assert_int_equal(chunks.result, HEARTH_OK);
    assert_string_equal(chunks.content_type, "text/event-stream");
    assert_string_equal(hth_buffer_text(&chunks.bytes), "one two");
    ask(stage, "/busy?x=1&y=%20#z", &busy);
    assert_int_equal(busy.result, HEARTH_OK);
    assert_int_equal(busy.status, 503);
    assert_int_equal(busy.n_heads, 1); /* 100 is none */
    assert_int_equal(busy.retry_after_s, 7);
    assert_string_equal(busy.content_type, "");
    assert_false(busy.has_bytes);
    outcome_deinit(&whole);
    outcome_deinit(&chunks);
    outcome_deinit(&busy);
}

STAGED(a_request_is_what_was_asked_for_and_nothing_else)
{
    const hth_upstream_header headers[] = { { "Content-Type", "application/json" },
                                            { "X-One", "1" },
                                            { "X-Empty", "" } };
    hth_upstream_request request = {
        .socket_path = stage->path,
        .method = "POST",
        .target = "/echo",
        .headers = headers,
        .n_headers = 3,
        .body = { "body" },
        .body_bytes = { 4 },
    };
    call_outcome post = { .call = NULL }, get = { .call = NULL }, other = { .call = NULL }, empty = { .call = NULL };

    begin_with(stage, &request, &post);
    fake_loop_until(stage->base, &post.is_done);
    assert_string_equal(hth_buffer_text(&post.bytes), "POST /echo HTTP/1.1\r\nHost: worker\r\nContent-Type: "
                                                      "application/json\r\nX-One: 1\r\nX-Empty:\r\nContent-Length: "
                                                      "4\r\n\r\nbody");
    request = (hth_upstream_request){ .socket_path = stage->path, .method = "GET", .target = "/echo" };
    begin_with(stage, &request, &get);
    fake_loop_until(stage->base, &get.is_done);
    assert_string_equal(hth_buffer_text(&get.bytes), "GET /echo HTTP/1.1\r\nHost: worker\r\n\r\n");
    request.method = "DELETE";
    begin_with(stage, &request, &other);
    fake_loop_until(stage->base, &other.is_done);
    assert_string_equal(hth_buffer_text(&other.bytes), "DELETE /echo HTTP/1.1\r\nHost: worker\r\n\r\n");
    request.method = "POST";
    begin_with(stage, &request, &empty);
    fake_loop_until(stage->base, &empty.is_done);
    assert_string_equal(hth_buffer_text(&empty.bytes),
                        "POST /echo HTTP/1.1\r\nHost: worker\r\nContent-Length: 0\r\n\r\n");
    outcome_deinit(&post);
    outcome_deinit(&get);
    outcome_deinit(&other);
    outcome_deinit(&empty);
}

STAGED(a_body_may_have_two_pieces_of_any_size)
{
    static const size_t sizes[][2] = { { 1, 1 },      { 100, 0 },   { 0, 100 },    { 70000, 70000 },
                                       { 0, 300000 }, { 65536, 1 }, { 3, 1000000 } };
    char *bytes = malloc(1000000);

    assert_non_null(bytes);
    for (size_t i = 0; i < 1000000; i++)
        bytes[i] = (char)('a' + i % 23);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const hth_upstream_request request = {
            .socket_path = stage->path,
            .method = "POST",
            .target = "/echo",
            .body = { bytes, bytes },
            .body_bytes = { sizes[i][0], sizes[i][1] },
        };
        call_outcome outcome = { .call = NULL };
        const char *body;

        begin_with(stage, &request, &outcome);
        fake_loop_until(stage->base, &outcome.is_done);
        assert_int_equal(outcome.result, HEARTH_OK);
        body = strstr(outcome.bytes.text, "\r\n\r\n");
        assert_non_null(body);
        body += 4;
        assert_int_equal(outcome.bytes.text + outcome.bytes.n - body, sizes[i][0] + sizes[i][1]);
        assert_memory_equal(body, bytes, sizes[i][0]);
        assert_memory_equal(body + sizes[i][0], bytes, sizes[i][1]);
        outcome_deinit(&outcome);
    }
    free(bytes);
}

/* libcurl goes on sending after an answer, and the front frees the body with its request. */
STAGED(a_worker_that_answers_before_it_reads_gets_no_byte_of_a_body_that_is_gone)
{
    static const size_t sizes[][3] = { { 0, 0, 4 << 20 }, { 4 << 20, 0, 0 }, { 10, 10, 4 << 20 }, { 3, 4 << 20, 5 } };
    static const call_point points[] = { AT_HEAD, AT_BYTES };

    fake_worker_answer_early(stage->worker);
    for (size_t i = 0; i < 2 * 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t *n = sizes[i / 4];
        call_outcome outcome = { .call = NULL };
        char *bodies[3] = { calloc(1, n[0] + 1), calloc(1, n[1] + 1), calloc(1, n[2] + 1) };
        const hth_upstream_request request = {
            .socket_path = stage->path,
            .method = "POST",
            .target = "/part",
            .body = { bodies[0], bodies[1], bodies[2] },
            .body_bytes = { n[0], n[1], n[2] },
        };

        assert_true(bodies[0] && bodies[1] && bodies[2]);
        *(i % 2 ? &outcome.cancel_at : &outcome.release_at) = points[i / 2 % 2];
        begin_with(stage, &request, &outcome);
        fake_loop_until(stage->base, i / 2 % 2 ? &outcome.has_bytes : &outcome.has_head);
        for (size_t k = 0; k < 3; k++)
            free(bodies[k]);
        if (stage->early && fake_worker_n_connections(stage->worker) > 0)
            fake_read_body(stage->early);
        fake_loop_turn(stage->base);
        assert_false(outcome.is_done);
        outcome_deinit(&outcome);
    }
}

STAGED(a_body_that_moves_while_it_is_sent_arrives_whole)
{
    const size_t n = 4 << 20;
    char *old = malloc(n), *moved = malloc(n);
    const char *body;
    call_outcome outcome = { .call = NULL };
    const hth_upstream_request request = {
        .socket_path = stage->path, .method = "POST", .target = "/echo", .body = { "{}", old }, .body_bytes = { 2, n }
    };

    assert_true(old && moved);
    for (size_t i = 0; i < n; i++)
        old[i] = moved[i] = (char)('a' + i % 23);
    begin_with(stage, &request, &outcome);
    while (fake_worker_n_connections(stage->worker) == 0)
        assert_int_equal(event_base_loop(stage->base, EVLOOP_ONCE), 0); /* a part of it is sent */
    hth_upstream_move_body(outcome.call, 1, moved);
    free(old);
    fake_loop_until(stage->base, &outcome.is_done);
    body = strstr(outcome.bytes.text, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(outcome.bytes.text + outcome.bytes.n - body, 4 + 2 + n);
    assert_memory_equal(body + 6, moved, n);
    free(moved);
    outcome_deinit(&outcome);
}

STAGED(what_would_be_another_request_is_refused)
{
    const hth_upstream_header bad[] = { { "X-A", "1\r\nX-B: 2" }, { "X-A\n", "1" }, { "X-A: 1", "" } };
    static const char *const targets[] = { "/a b", "/a\r\n", "a", "", "/\x7f" };
    const hth_upstream_watch watch = { .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done };
    hth_upstream_request request = { .socket_path = stage->path, .method = "GET", .target = "/", .n_headers = 1 };
    hth_upstream_call *call;

    for (size_t i = 0; i < 3; i++) {
        request.headers = &bad[i];
        assert_int_equal(hth_upstream_begin(stage->upstream, &request, &watch, &call, NULL), HEARTH_MISUSE);
    }
    request.n_headers = 0;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        request.target = targets[i];
        assert_int_equal(hth_upstream_begin(stage->upstream, &request, &watch, &call, NULL), HEARTH_MISUSE);
    }
    assert_int_equal(hth_upstream_counts(stage->upstream).n_calls, 0);
}

STAGED(a_connection_that_breaks_off_is_a_failure_that_is_told)
{
    static const char *const targets[] = {
        "/cut", "/cut_length", "/cut_head", "/cut_silence", "/noise", "/endless_head"
    };

    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        call_outcome outcome = { .call = NULL };

        ask(stage, targets[i], &outcome);
        assert_int_equal(outcome.result, HEARTH_IO);
        assert_int_equal(outcome.err.status, HEARTH_IO);
        assert_non_null(strstr(outcome.err.message, "worker.sock"));
        if (i < 2)
            assert_string_equal(hth_buffer_text(&outcome.bytes), "part");
        outcome_deinit(&outcome);
    }
    assert_int_equal(hth_upstream_counts(stage->upstream).n_calls, 0);
}

STAGED(a_worker_that_is_not_there_is_a_failure_that_is_told)
{
    call_outcome gone = { .call = NULL }, refused = { .call = NULL }, long_path = { .call = NULL };
    hth_upstream_request request = { .socket_path = "/nowhere/x.sock", .method = "GET", .target = "/" };
    char path[300] = "/";

    begin_with(stage, &request, &gone);
    fake_loop_until(stage->base, &gone.is_done);
    assert_int_equal(gone.result, HEARTH_NOT_FOUND);
    assert_non_null(strstr(gone.err.message, "/nowhere/x.sock"));
    fake_worker_free(stage->worker);
    stage->worker = NULL;
    begin(stage, "/whole", &refused);
    fake_loop_until(stage->base, &refused.is_done);
    assert_int_not_equal(refused.result, HEARTH_OK);
    memset(path + 1, 'x', sizeof(path) - 2);
    request.socket_path = path;
    begin_with(stage, &request, &long_path);
    fake_loop_until(stage->base, &long_path.is_done);
    assert_int_not_equal(long_path.result, HEARTH_OK);
}

STAGED(connections_are_used_again)
{
    for (int i = 0; i < 1000; i++) {
        call_outcome outcome = { .call = NULL };

        ask(stage, i % 2 ? "/whole" : "/chunks", &outcome);
        assert_int_equal(outcome.result, HEARTH_OK);
        outcome_deinit(&outcome);
    }
    assert_int_equal(fake_worker_n_accepted(stage->worker), 1);
    assert_int_equal(hth_upstream_counts(stage->upstream).n_connections_opened, 1);
}

STAGED(a_kept_connection_that_was_closed_is_not_a_failure)
{
    for (int i = 0; i < 20; i++) {
        call_outcome outcome = { .call = NULL };

        ask(stage, "/whole", &outcome);
        assert_int_equal(outcome.result, HEARTH_OK);
        outcome_deinit(&outcome);
        fake_worker_free(stage->worker);
        stage->worker = fake_worker_new(stage->base, stage->path, answer, stage);
        if (i % 2)
            fake_loop_turn(stage->base);
    }
}

STAGED(many_calls_run_at_once)
{
    enum { N = 300 };
    call_outcome *outcomes = calloc(N, sizeof(*outcomes));

    assert_non_null(outcomes);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            begin(stage, i % 3 ? "/whole" : "/large", &outcomes[i]);
        for (int i = 0; i < N; i++) {
            fake_loop_until(stage->base, &outcomes[i].is_done);
            assert_int_equal(outcomes[i].result, HEARTH_OK);
            assert_int_equal(outcomes[i].bytes.n, i % 3 ? 5 : 26 << 14);
            outcome_deinit(&outcomes[i]);
            outcomes[i] = (call_outcome){ .call = NULL };
        }
    }
    /* More than the listener's queue takes at once. */
    assert_true(fake_worker_n_accepted(stage->worker) >= N);
    free(outcomes);
}

STAGED(a_reader_that_pauses_gets_every_byte_once)
{
    call_outcome outcome = { .is_holding = true };

    begin(stage, "/large", &outcome);
    for (int i = 0; i < 40 && !outcome.is_done; i++) {
        outcome.is_holding = true;
        fake_loop_turn(stage->base);
        outcome.is_holding = false;
        hth_upstream_resume(outcome.call);
        if (i % 2)
            hth_upstream_resume(outcome.call); /* once more does no harm */
        for (int turn = 0; turn < i && !outcome.is_done; turn++)
            assert_true(event_base_loop(stage->base, EVLOOP_NONBLOCK) >= 0);
    }
    fake_loop_until(stage->base, &outcome.is_done);
    assert_int_equal(outcome.result, HEARTH_OK);
    assert_true(outcome.n_held > 0);
    assert_int_equal(outcome.bytes.n, 26 << 14);
    for (size_t i = 0; i < outcome.bytes.n; i++)
        assert_int_equal(outcome.bytes.text[i], 'a' + (int)(i >> 14));
    outcome_deinit(&outcome);
}

STAGED(a_paused_reader_costs_no_turns_of_the_loop)
{
    call_outcome outcome = { .is_holding = true };
    unsigned n_held;

    begin(stage, "/large", &outcome);
    fake_loop_turn(stage->base);
    n_held = outcome.n_held;
    assert_true(n_held > 0);
    for (int i = 0; i < 100; i++)
        assert_true(event_base_loop(stage->base, EVLOOP_NONBLOCK) >= 0);
    assert_int_equal(outcome.n_held, n_held);
    assert_int_equal(event_base_get_num_events(stage->base, EVENT_BASE_COUNT_ACTIVE), 0);
    hth_upstream_cancel(outcome.call);
}

static void on_gone(void *user_data)
{
    *(bool *)user_data = true;
}

static bool worker_sees_end;

static void answer_and_watch(fake_connection *connection, const fake_request *request, void *user_data)
{
    answer(connection, request, user_data);
    fake_on_gone(connection, on_gone, &worker_sees_end);
}

STAGED(cancelling_closes_the_connection_at_every_stage)
{
    static const char *const targets[] = { "/silence", "/head", "/part" };

    fake_worker_free(stage->worker);
    stage->worker = fake_worker_new(stage->base, stage->path, answer_and_watch, stage);
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        call_outcome outcome = { .call = NULL };

        worker_sees_end = false;
        begin(stage, targets[i], &outcome);
        fake_loop_turn(stage->base);
        assert_int_equal(outcome.has_head, i > 0);
        assert_int_equal(outcome.has_bytes, i > 1);
        hth_upstream_cancel(outcome.call);
        fake_loop_until(stage->base, &worker_sees_end);
        assert_false(outcome.is_done);
        assert_int_equal(hth_upstream_counts(stage->upstream).n_calls, 0);
        outcome_deinit(&outcome);
    }
}

STAGED(a_call_can_be_cancelled_before_it_has_left)
{
    call_outcome outcome = { .call = NULL }, after = { .call = NULL };

    begin(stage, "/whole", &outcome);
    hth_upstream_cancel(outcome.call);
    ask(stage, "/whole", &after);
    assert_false(outcome.has_head);
    assert_int_equal(after.result, HEARTH_OK);
    outcome_deinit(&after);
}

STAGED(a_call_can_be_cancelled_from_its_own_callbacks)
{
    for (call_point at = AT_HEAD; at <= AT_BYTES; at++) {
        call_outcome outcome = { .cancel_at = at }, after = { .call = NULL };

        begin(stage, "/large", &outcome);
        fake_loop_until(stage->base, at == AT_HEAD ? &outcome.has_head : &outcome.has_bytes);
        fake_loop_turn(stage->base);
        assert_false(outcome.is_done);
        assert_int_equal(outcome.has_bytes, at == AT_BYTES);
        assert_int_equal(hth_upstream_counts(stage->upstream).n_calls, 0);
        ask(stage, "/whole", &after);
        assert_int_equal(after.result, HEARTH_OK);
        outcome_deinit(&outcome);
        outcome_deinit(&after);
    }
}

STAGED(calls_can_be_cancelled_from_another_ones_callbacks)
{
    call_outcome running = { .call = NULL }, paused = { .is_holding = true }, queued = { .call = NULL };
    call_outcome killer = { .cancel_at = AT_BYTES };
    hth_upstream_call *others[3];

    begin(stage, "/part", &running);
    begin(stage, "/large", &paused);
    fake_loop_turn(stage->base);
    assert_true(running.has_bytes && paused.n_held > 0);
    begin(stage, "/large", &killer);
    begin(stage, "/whole", &queued);
    others[0] = running.call;
    others[1] = paused.call;
    others[2] = queued.call;
    killer.others = others;
    killer.n_others = 3;
    fake_loop_until(stage->base, &killer.has_bytes);
    fake_loop_turn(stage->base);
    assert_false(running.is_done || paused.is_done || queued.is_done || killer.is_done);
    assert_int_equal(hth_upstream_counts(stage->upstream).n_calls, 0);
    outcome_deinit(&running);
    outcome_deinit(&killer);
}

STAGED(a_released_call_leaves_its_connection_for_the_next)
{
    for (int i = 0; i < 10; i++) {
        call_outcome outcome = { .release_at = AT_BYTES };

        begin(stage, "/chunks", &outcome);
        fake_loop_until(stage->base, &outcome.has_bytes);
        fake_loop_turn(stage->base);
        assert_false(outcome.is_done);
        assert_string_equal(hth_buffer_text(&outcome.bytes), "one ");
        assert_int_equal(hth_upstream_counts(stage->upstream).n_calls, 0);
        outcome_deinit(&outcome);
    }
    assert_int_equal(hth_upstream_counts(stage->upstream).n_connections_opened, 1);
}

STAGED(a_released_call_whose_reply_goes_on_is_cut)
{
    call_outcome large = { .release_at = AT_BYTES }, open = { .release_at = AT_BYTES };

    fake_worker_free(stage->worker);
    stage->worker = fake_worker_new(stage->base, stage->path, answer_and_watch, stage);
    worker_sees_end = false;
    begin(stage, "/large", &large); /* too long to be awaited */
    fake_loop_until(stage->base, &worker_sees_end);
    worker_sees_end = false;
    begin(stage, "/part", &open); /* no end comes */
    fake_loop_until(stage->base, &worker_sees_end);
    assert_int_equal(hth_upstream_counts(stage->upstream).n_calls, 0);
    outcome_deinit(&large);
    outcome_deinit(&open);
}

STAGED(what_was_not_ended_is_ended_with_all)
{
    call_outcome outcome = { .cancel_at = AT_BYTES }, released = { .release_at = AT_BYTES };

    begin(stage, "/part", &released);
    begin(stage, "/part", &outcome);
    fake_loop_until(stage->base, &outcome.has_bytes);
    fake_loop_until(stage->base, &released.has_bytes);
    outcome_deinit(&outcome);
    outcome_deinit(&released);
}

static int ignore_signals(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN); /* as servers do */
    return 0;
}

GROUP(without_signals, ignore_signals, NULL)
