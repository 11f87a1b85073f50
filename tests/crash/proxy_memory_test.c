/*
 * proxy_memory_test.c - every allocation on a request's way through the front fails in turn
 *
 * The linker and libcurl send their allocations to support/failing_heap.h. Requests of each kind are made, and some of
 * them go on in a second worker. The n-th allocation fails, for every n, alone or with several that follow. Nothing
 * crashes, hangs or leaks. A client gets its reply, or an error, or sees that the reply has no end; the part that it
 * got is right.
 */
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "support/failing_heap.h"
#include "support/relay_stage.h"

enum { ALLOCATIONS_MAX = 5000 };

/* ---- allocations ---- */

static failing_heap heap;

ALLOCATION_FAILS(n_bytes)
{
    return fake_worker_depth == 0 && failing_heap_counts(&heap);
}

/* ---- requests ---- */

static const script_step stream_steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n" },
    { .reply = 1, .tokens = { 2, 3 }, .n_tokens = 2, .bytes = "data: two\n\n", .has_ended = true },
    { .tokens = { 4 }, .n_tokens = 1, .bytes = "data: three\n\n" },
    { .has_ended = true, .bytes = "data: [DONE]\n\n" },
};
static const char stream_text[] = "data: one\n\ndata: two\n\ndata: three\n\ndata: [DONE]\n\n";
static const script_step whole_steps[] = {
    { .tokens = { 1, 2 }, .n_tokens = 2, .bytes = "" },
    { .has_ended = true, .bytes = "{\"text\":\"all of it\"}" },
};

typedef struct request_kind {
    reply_script script;
    bool generates;
    const char *text;
    size_t cut; /* of the first run */
} request_kind;

static const request_kind kinds[] = {
    { { 200, true, "text/event-stream", stream_steps, 4 }, true, stream_text, 0 },
    { { 200, true, "text/event-stream", stream_steps, 4 }, true, stream_text, 300 },
    { { 200, false, "application/json", whole_steps, 2 }, true, "{\"text\":\"all of it\"}", 190 },
};

/* Is it all of it, or what it should be as far as it goes, with an error behind it at most? */
static void assert_right(const request_kind *kind, const client_reply *reply)
{
    const char *text = hth_buffer_text(&reply->body), *error = strstr(text, "data: {\"error\":");
    size_t n = error ? (size_t)(error - text) : strlen(text);

    if (reply->status == 0)
        return; /* the connection was cut before anything was said */
    if (reply->status >= 500) {
        assert_non_null(strstr(text, "\"error\""));
        return;
    }
    assert_int_equal(reply->status, 200);
    if (strncmp(text, kind->text, n) != 0 || (reply->is_whole && !error && n != strlen(kind->text)))
        fail_msg("'%s' instead of '%s'", text, kind->text);
}

/* Returns how many allocations there were. */
static uint64_t exchange(const request_kind *kind, uint64_t fail_at, uint64_t n_fails)
{
    relay_stage *stage = malloc(sizeof(*stage));
    hth_test_client client;
    uint64_t deadline_ms = hth_test_now_ms() + HTH_TEST_PATIENCE_MS;

    assert_non_null(stage);
    relay_stage_open(stage);
    stage->script = &kind->script;
    stage->runs[0].cut = kind->cut;
    stage->generates = kind->generates;
    worker_start(&stage->supervisor);
    client_ask(&client, stage, "{\"a\":1}");
    heap.n = 0;
    heap.fail_at = fail_at;
    heap.n_fails = n_fails;
    while (!stage->reply.is_whole && !client.is_at_end) {
        assert_true(hth_test_now_ms() < deadline_ms);
        heap.armed = true;
        hth_test_http_turn(&stage->http);
        heap.armed = false;
        if (may_be_whole(&client))
            client_reply_read(&client, &stage->reply);
    }
    client_reply_read(&client, &stage->reply);
    if (fail_at == 0) {
        assert_string_equal(hth_buffer_text(&stage->reply.body), kind->text);
        assert_int_equal(stage->n_runs, kind->cut ? 2 : 1);
    }
    assert_right(kind, &stage->reply);
    hth_test_client_close(&client);
    relay_stage_close(stage);
    free(stage);
    return heap.n;
}

TEST(no_allocation_that_fails_does_more_than_end_a_request)
{
    if (!WRAPS_MALLOC)
        skip();
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint64_t n = exchange(&kinds[i], 0, 0);

        assert_in_range(n, 10, ALLOCATIONS_MAX);
        for (uint64_t fail_at = 1; fail_at <= n; fail_at++) {
            (void)exchange(&kinds[i], fail_at, 1); /* how many were made does not matter, here and below */
            (void)exchange(&kinds[i], fail_at, 3);
            (void)exchange(&kinds[i], fail_at, UINT64_MAX / 2);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    return curl_global_init_mem(CURL_GLOBAL_NOTHING, malloc, free, realloc, strdup, calloc) != CURLE_OK;
}

static int tear_down(void **state)
{
    (void)state;
    curl_global_cleanup();
    return 0;
}

GROUP(with_our_heap, set_up, tear_down)
