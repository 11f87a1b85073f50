/*
 * relay_place_test.c - a request that a worker has had keeps its place in the queue of the next one
 */
#include <stdlib.h>
#include <string.h>

#include "support/relay_tests.h"

static const script_step steps[] = {
    { .tokens = { 1 }, .n_tokens = 1, .bytes = "data: one\n\n", .has_ended = true },
};
static const reply_script script = {
    .status = 200, .is_stream = true, .content_type = "text/event-stream", .steps = steps, .n_steps = 1
};

static void setup(relay_stage *stage)
{
    relay_stage_open(stage);
    begin_with(stage, &script);
}

#define FIXTURE_TEST(name) TEST_WITH(relay_stage, stage, name, setup, relay_stage_close)

/* Is it said of that run that another worker had the request, and since when? */
static bool goes_on(const relay_stage *stage, unsigned run)
{
    const char *age = strstr(stage->heads[run], "\r\n" HTH_HEADER_AGE ": ");
    bool is_known = strstr(stage->heads[run], "\r\n" HTH_HEADER_KNOWN ": ") != NULL;

    assert_int_equal(age != NULL, is_known);
    assert_true(!age || strtoull(age + strlen("\r\n" HTH_HEADER_AGE ": "), NULL, 10) > 0);
    return is_known;
}

/* Whatever of the reply came, if only a byte of its head, or the reply's head without a byte of its body. */
FIXTURE_TEST(a_request_keeps_its_place_though_nothing_came_of_it)
{
    size_t n_bytes;

    exchange_whole(stage);
    assert_false(goes_on(stage, 0));
    n_bytes = stage->n_reply_bytes;
    for (size_t cut = 20; cut < n_bytes - 100; cut += 7) { /* libcurl tries a kept connection that ends at once again */
        forget_runs(stage);
        stage->runs[0].cut = cut;
        exchange_whole(stage);
        assert_int_equal(stage->n_runs, 2);
        assert_string_equal(hth_buffer_text(&stage->reply.body), "data: one\n\n");
        assert_false(goes_on(stage, 0));
        assert_true(goes_on(stage, 1));
    }
}

/* What this node's worker drew is not of elsewhere, so the next one evaluates it as it was. */
FIXTURE_TEST(tokens_of_this_node_are_its_own)
{
    exchange_whole(stage);
    for (size_t cut = stage->n_reply_bytes - 60; cut < stage->n_reply_bytes - 20; cut += 7) {
        forget_runs(stage);
        stage->runs[0].cut = cut;
        exchange_whole(stage);
        assert_int_equal(stage->n_runs, 2);
        assert_true(stage->n_known[1] > 0);
        assert_null(strstr(stage->heads[1], HTH_HEADER_ELSEWHERE));
    }
}

FIXTURE_TEST(what_generates_nothing_has_none)
{
    stage->generates = false;
    stage->runs[0].cut = 30;
    exchange_whole(stage);
    assert_int_equal(stage->n_runs, 2);
    assert_false(goes_on(stage, 1));
}
