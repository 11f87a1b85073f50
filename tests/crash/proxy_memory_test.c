/*
 * proxy_memory_test.c - every allocation on a request's way through the front fails in turn
 *
 * The program is linked so that our calls of malloc and its relatives come through here (ld's --wrap), and libcurl is told
 * to allocate here. Requests of each kind, of which some go on in a second worker, are made with the n-th allocation failing, for every n, and with several
 * in a row failing. Nothing crashes, hangs or leaks; a client has its reply, or an error, or sees that there is no end; and
 * what it has is right as far as it goes.
 */
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "support/relay_stage.h"

enum { ALLOCATIONS_MAX = 5000 };

/* ---- allocations ---- */

static struct {
    bool armed;
    uint64_t n;       /* counted while armed */
    uint64_t fail_at; /* the one to fail, from 1; 0: none */
    uint64_t n_fails; /* and how many from there on */
} heap;

#ifdef HTH_TEST_WRAPS_MALLOC
static bool fails(void)
{
    if (!heap.armed || fake_worker_depth > 0)
        return false;
    heap.n++;
    return heap.fail_at > 0 && heap.n >= heap.fail_at && heap.n < heap.fail_at + heap.n_fails;
}

/* The names are the linker's. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t n);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t n);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t n)
{
    return fails() ? NULL : __real_realloc(memory, n);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
enum { WRAPS = 1 };
#else
enum { WRAPS = 0 };
#endif

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
    client_reply reply = { .status = 0 };
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
    while (!reply.is_whole && !client.is_at_end) {
        assert_true(hth_test_now_ms() < deadline_ms);
        heap.armed = true;
        hth_test_http_turn(&stage->http);
        heap.armed = false;
        if (may_be_whole(&client))
            client_reply_read(&client, &reply);
    }
    client_reply_read(&client, &reply);
    if (fail_at == 0) {
        assert_string_equal(hth_buffer_text(&reply.body), kind->text);
        assert_int_equal(stage->n_runs, kind->cut ? 2 : 1);
    }
    assert_right(kind, &reply);
    hth_test_client_close(&client);
    client_reply_deinit(&reply);
    relay_stage_close(stage);
    free(stage);
    return heap.n;
}

static void no_allocation_that_fails_does_more_than_end_a_request(void **state)
{
    (void)state;
    if (!WRAPS)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation_that_fails_does_more_than_end_a_request),
    };

    int result;

    if (curl_global_init_mem(CURL_GLOBAL_NOTHING, malloc, free, realloc, strdup, calloc) != CURLE_OK)
        return 1;
    result = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return result;
}
