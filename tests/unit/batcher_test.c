/*
 * batcher_test.c - each promise of the scheduler by itself: on the stub engine, tick by tick, with a clock of the test's own
 *
 * What a request must answer comes from support/solo.h, which knows no scheduler; how much was computed, and when, from
 * the watch on the engine.
 */
#include "sched/batcher.h"

#include <stdlib.h>
#include <string.h>

#include "sched/batcher_inside.h"
#include "support/cmocka_all.h"
#include "support/solo.h"
#include "support/stage.h"
#include "support/support.h"

enum { TOKENS_MAX = 4096 };

static hearth_token text[TOKENS_MAX];  /* what most prompts begin with */
static hearth_token other[TOKENS_MAX]; /* and what has nothing in common with it */

static int make_texts(void **state)
{
    (void)state;
    test_tokens(1, text, TOKENS_MAX);
    test_tokens(2, other, TOKENS_MAX);
    other[0] = 'A';
    return 0;
}

static test_reply *submit(test_stage *stage, const hearth_request *request)
{
    hearth_error err;
    test_reply *reply = test_stage_submit(stage, request, NULL, &err);

    if (!reply)
        fail_msg("%s", err.message);
    return reply;
}

/* A prompt: n_shared tokens of the text, then n_own that no other variant has. Released with free. */
static hearth_token *prompt_of(size_t n_shared, size_t n_own, uint64_t variant)
{
    hearth_token *tokens = malloc((n_shared + n_own + 1) * sizeof(*tokens));

    assert_non_null(tokens);
    memcpy(tokens, text, n_shared * sizeof(*tokens));
    test_tokens(1000 + variant, tokens + n_shared, n_own);
    if (n_own > 0)
        tokens[n_shared] = (hearth_token)('0' + variant);
    return tokens;
}

/* It ended well, with the whole reply that the same request has alone. */
static void expect_as_alone(const test_stage *stage, const test_reply *reply, const hearth_request *request)
{
    const hearth_result *result = &reply->result;
    uint32_t room = stage->options.n_ctx - (uint32_t)request->n_tokens + 1;
    uint32_t n_max = request->prefill_only                                         ? 0
                   : request->n_predict < 0 || (uint32_t)request->n_predict > room ? room
                                                                                   : (uint32_t)request->n_predict;
    hearth_token *chain = malloc((n_max + 1) * sizeof(*chain));
    test_solo_reply alone;

    assert_int_equal(reply->n_done, 1);
    if (result->status != HEARTH_OK)
        fail_msg("%s", result->error.message);
    test_solo_chain(hth_backend_stub(), stage->engine_model, request->tokens, request->n_tokens, &request->sampling,
                    n_max, 512, chain);
    alone = test_solo_finish(hth_backend_stub(), stage->engine_model, request, n_max, chain, n_max);
    assert_int_equal(result->stats.completion_tokens, alone.n_tokens);
    assert_memory_equal(result->tokens, chain, alone.n_tokens * sizeof(*chain));
    assert_string_equal(result->text, alone.text);
    assert_int_equal(result->finish_reason, alone.reason);
    free(alone.text);
    free(chain);
}

static void expect_ended(const test_reply *reply, hearth_status status, hearth_finish_reason reason)
{
    assert_int_equal(reply->n_done, 1);
    assert_int_equal(reply->result.status, status);
    assert_int_equal(reply->result.finish_reason, reason);
}

static test_stage_options with_cache(void)
{
    test_stage_options options = test_stage_options_default();

    options.ram_bytes = 64 << 20;
    return options;
}

/* ---- computed once ---- */

enum { AGENTS = 5 };

static void requests_at_once_compute_what_they_share_once(void **state)
{
    hearth_token *prompts[AGENTS];
    hearth_request requests[AGENTS];
    test_reply *replies[AGENTS];
    test_stage stage;

    (void)state;
    test_stage_open(&stage, NULL);
    for (unsigned i = 0; i < AGENTS; i++) {
        prompts[i] = prompt_of(600, 20, i);
        requests[i] = test_request(prompts[i], 620, 3);
        replies[i] = submit(&stage, &requests[i]);
    }
    test_stage_run(&stage);
    assert_int_equal(stage.watch.n_rows, 600 + AGENTS * (20 + 2));
    for (unsigned i = 0; i < AGENTS; i++) {
        expect_as_alone(&stage, replies[i], &requests[i]);
        assert_int_equal(replies[i]->result.stats.shared_tokens, i == 0 ? 0 : 600);
        assert_int_equal(replies[i]->result.stats.cached_tokens, i == 0 ? 0 : 600);
        test_reply_free(replies[i]);
        free(prompts[i]);
    }
    test_stage_close(&stage);
}

static void another_takes_over_when_the_first_is_cancelled_half_way(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_token *prompts[3];
    hearth_request requests[3];
    test_reply *replies[3];
    test_stage stage;

    (void)state;
    options.n_batch = 64;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 3; i++) {
        prompts[i] = prompt_of(600, 20, i);
        requests[i] = test_request(prompts[i], 620, 3);
        replies[i] = submit(&stage, &requests[i]);
    }
    while (stage.watch.n_rows < 256)
        (void)test_stage_tick(&stage);
    atomic_store(&replies[0]->request->cancelled, true);
    test_stage_run(&stage);
    expect_ended(replies[0], HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
    expect_as_alone(&stage, replies[1], &requests[1]);
    expect_as_alone(&stage, replies[2], &requests[2]);
    assert_int_equal(stage.watch.n_rows, 600 + 2 * (20 + 2));
    for (unsigned i = 0; i < 3; i++) {
        test_reply_free(replies[i]);
        free(prompts[i]);
    }
    test_stage_close(&stage);
}

static void replies_to_one_prompt_share_it_and_its_logits(void **state)
{
    (void)state;
    for (unsigned cached = 0; cached < 2; cached++) {
        test_stage_options options = cached ? with_cache() : test_stage_options_default();
        hearth_request requests[AGENTS];
        test_reply *replies[AGENTS];
        test_stage stage;

        test_stage_open(&stage, &options);
        for (unsigned i = 0; i < AGENTS; i++) {
            requests[i] = test_request(text, 300, 4);
            requests[i].sampling.temperature = 1;
            requests[i].sampling.seed = 7 + i;
            replies[i] = submit(&stage, &requests[i]);
        }
        test_stage_run(&stage);
        assert_int_equal(stage.watch.n_rows, 300 + AGENTS * 3); /* nobody evaluates the last token again */
        for (unsigned i = 0; i < AGENTS; i++) {
            expect_as_alone(&stage, replies[i], &requests[i]);
            if (i > 0)
                assert_int_equal(replies[i]->result.stats.hit, HEARTH_HIT_EXACT);
            test_reply_free(replies[i]);
        }
        test_stage_close(&stage);
    }
}

static void what_has_ended_is_shared_from_while_it_is_there(void **state)
{
    hearth_token *prompt = prompt_of(333, 10, 1);
    hearth_request first = test_request(text, 400, 5), second = test_request(prompt, 343, 5);
    test_reply *one, *two;
    test_stage stage;

    (void)state;
    test_stage_open(&stage, NULL);
    one = submit(&stage, &first);
    test_stage_run(&stage);
    stage.watch.n_rows = 0;
    two = submit(&stage, &second);
    test_stage_run(&stage);
    expect_as_alone(&stage, two, &second);
    assert_int_equal(two->result.stats.shared_tokens, 333); /* to the token */
    assert_int_equal(two->result.stats.hit, HEARTH_HIT_LIVE);
    assert_int_equal(stage.watch.n_rows, 10 + 4);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
    free(prompt);
}

static void tenants_share_nothing(void **state)
{
    hearth_request request = test_request(text, 300, 3);
    test_stage_options options = with_cache();
    test_reply *replies[3];
    test_stage stage;

    (void)state;
    test_stage_open(&stage, &options);
    replies[0] = test_stage_submit(&stage, &request, "one", NULL);
    replies[1] = test_stage_submit(&stage, &request, "two", NULL);
    replies[2] = test_stage_submit(&stage, &request, NULL, NULL);
    test_stage_run(&stage);
    assert_int_equal(stage.watch.n_rows, 3 * (300 + 2));
    for (unsigned i = 0; i < 3; i++) {
        expect_as_alone(&stage, replies[i], &request);
        assert_int_equal(replies[i]->result.stats.cached_tokens, 0);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

/* Where the end of a sequence was, logits of that end were kept: other tokens of the same number have none of it. */
static void logits_of_other_tokens_are_never_drawn_from(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request short_one = test_request(other, 12, 1), longer = test_request(text, 30, 1),
                   beginning = test_request(text, 12, 5);
    test_reply *replies[3];
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    options.n_sequences = 2;
    test_stage_open(&stage, &options);
    replies[0] = submit(&stage, &short_one);
    test_stage_run(&stage);
    replies[1] = submit(&stage, &longer);
    test_stage_run(&stage);
    replies[2] = submit(&stage, &beginning);
    test_stage_run(&stage);
    expect_as_alone(&stage, replies[2], &beginning);
    for (unsigned i = 0; i < 3; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

/* ---- preemption ---- */

static void preempt(const char *model, bool by_cells)
{
    test_stage_options options = with_cache();
    hearth_request low = test_request(text, 300, 40), high = test_request(other, 200, 30);
    test_reply *one, *two;
    test_stage stage;

    options.model = model;
    options.n_parallel = by_cells ? 2 : 1;
    options.n_ctx = by_cells ? 400 : 2000;
    high.priority = 1;
    test_stage_open(&stage, &options);
    one = submit(&stage, &low);
    test_stage_run_until(&stage, one, 15);
    two = submit(&stage, &high);
    test_stage_run_until(&stage, two, 1);
    assert_int_equal(one->n_done, 0);
    test_stage_run(&stage);
    assert_true(two->n_ticks < one->n_ticks);
    assert_int_equal(one->result.stats.n_preempted, 1);
    assert_int_equal(two->result.stats.n_preempted, 0);
    expect_as_alone(&stage, one, &low);
    expect_as_alone(&stage, two, &high);
    assert_int_equal(stage.watch.n_rows, 300 + 39 + 200 + 29); /* nothing twice */
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

static void what_made_room_goes_on_without_a_recomputed_token(void **state)
{
    (void)state;
    preempt("stub:", false);
    preempt("stub:", true);
    preempt("stub:kind=window", false);
    preempt("stub:kind=window", true);
    preempt("stub:kind=recurrent", false);
    preempt("stub:kind=hybrid", false);
    preempt("stub:kind=hybrid", true);
}

static void nobody_makes_room_for_an_equal(void **state)
{
    test_stage_options options = with_cache();
    hearth_request requests[2] = { test_request(text, 100, 40), test_request(other, 100, 5) };
    test_reply *replies[2];
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    options.aging_ms = 1; /* the one that waits rises as it waits, and so does not push out what came before it */
    test_stage_open(&stage, &options);
    stage.watch.row_ns = 1000000;
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run(&stage);
    assert_true(replies[0]->n_ticks < replies[1]->n_ticks);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(replies[i]->result.stats.n_preempted, 0);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

/* ---- admission ---- */

static uint32_t n_running(const test_stage *stage)
{
    hth_batcher_status status;

    hth_batcher_status_get(stage->batcher, &status);
    return status.n_running;
}

static void a_request_runs_when_there_are_cells_for_its_prompt_and_reply(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request first = test_request(text, 300, 400), second = test_request(other, 200, 110),
                   third = test_request(other + 500, 20, 20);
    test_reply *replies[3];
    test_stage stage;

    (void)state;
    options.n_ctx = 1000;
    test_stage_open(&stage, &options);
    replies[0] = submit(&stage, &first);
    replies[1] = submit(&stage, &second); /* 700 + 310: a little too much */
    replies[2] = submit(&stage, &third);  /* would fit, but it is not its turn */
    (void)test_stage_tick(&stage);
    assert_int_equal(n_running(&stage), 1);
    test_stage_run_until(&stage, replies[0], 399);
    assert_int_equal(n_running(&stage), 1);
    test_stage_run(&stage);
    assert_int_equal(stage.watch.n_no_room, 0);
    expect_as_alone(&stage, replies[0], &first);
    expect_as_alone(&stage, replies[1], &second);
    expect_as_alone(&stage, replies[2], &third);
    for (unsigned i = 0; i < 3; i++)
        test_reply_free(replies[i]);

    second.n_predict = 100; /* 700 + 300: exactly */
    replies[0] = submit(&stage, &first);
    replies[1] = submit(&stage, &second);
    (void)test_stage_tick(&stage);
    assert_int_equal(n_running(&stage), 2);
    test_stage_run(&stage);
    expect_as_alone(&stage, replies[0], &first);
    expect_as_alone(&stage, replies[1], &second);
    assert_int_equal(stage.watch.n_no_room, 0);
    test_reply_free(replies[0]);
    test_reply_free(replies[1]);
    test_stage_close(&stage);
}

static void shared_cells_are_counted_once(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_token *prompts[4];
    test_reply *replies[4];
    test_stage stage;

    (void)state;
    options.n_ctx = 300 + 4 * (20 + 10);
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 4; i++) {
        hearth_request request;

        prompts[i] = prompt_of(300, 20, i);
        request = test_request(prompts[i], 320, 10);
        replies[i] = submit(&stage, &request);
    }
    (void)test_stage_tick(&stage);
    assert_int_equal(n_running(&stage), 4);
    test_stage_run(&stage);
    assert_int_equal(stage.watch.n_no_room, 0);
    for (unsigned i = 0; i < 4; i++) {
        hearth_request request = test_request(prompts[i], 320, 10);

        expect_as_alone(&stage, replies[i], &request);
        test_reply_free(replies[i]);
        free(prompts[i]);
    }
    test_stage_close(&stage);
}

static void an_overflow_hits_only_who_caused_it(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request endless = test_request(text, 100, -1), modest = test_request(other, 300, 250);
    test_reply *one, *two;
    test_stage stage;

    (void)state;
    options.n_ctx = 1200;
    test_stage_open(&stage, &options); /* no cache: nothing can be put aside */
    one = submit(&stage, &endless);    /* 612 to begin with */
    test_stage_run_until(&stage, one, 400);
    two = submit(&stage, &modest); /* 550 */
    test_stage_run_until(&stage, two, 1);
    test_stage_run(&stage);
    expect_as_alone(&stage, two, &modest);
    expect_as_alone(&stage, one, &endless); /* it waited in place, and then had the context for itself */
    assert_int_equal(one->result.stats.completion_tokens, 1200 - 100 + 1);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

static void two_that_outgrow_the_context_take_turns(void **state)
{
    test_stage_options options = with_cache();
    hearth_request requests[2] = { test_request(text, 100, -1), test_request(other, 100, -1) };
    test_reply *replies[2];
    test_stage stage;

    (void)state;
    options.n_ctx = 1300;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run(&stage);
    assert_int_equal(replies[1]->result.stats.n_preempted, 1); /* the younger one */
    assert_int_equal(replies[0]->result.stats.n_preempted, 0);
    for (unsigned i = 0; i < 2; i++) {
        expect_as_alone(&stage, replies[i], &requests[i]);
        test_reply_free(replies[i]);
    }
    assert_int_equal(stage.watch.n_no_room, 0);
    test_stage_close(&stage);
}

/* ---- whose turn it is ---- */

static void within_a_priority_the_first_to_come_is_first(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[5];
    test_reply *replies[5];
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 5; i++) {
        requests[i] = test_request(other + 10 * i, 10, 3);
        requests[i].priority = i == 3 ? 1 : 0;
        replies[i] = submit(&stage, &requests[i]);
    }
    test_stage_run(&stage);
    assert_true(replies[3]->n_ticks < replies[0]->n_ticks);
    assert_true(replies[0]->n_ticks < replies[1]->n_ticks);
    assert_true(replies[1]->n_ticks < replies[2]->n_ticks);
    assert_true(replies[2]->n_ticks < replies[4]->n_ticks);
    for (unsigned i = 0; i < 5; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

static void who_waits_long_enough_comes_before_a_higher_priority(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request running = test_request(text, 10, 3), low = test_request(other, 10, 3),
                   high = test_request(other + 50, 10, 3);
    test_reply *replies[3];
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    options.aging_ms = 10;
    running.priority = 50;
    high.priority = 3;
    test_stage_open(&stage, &options);
    replies[0] = submit(&stage, &running);
    replies[1] = submit(&stage, &low);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 31);
    replies[2] = submit(&stage, &high);
    test_stage_run(&stage);
    assert_true(replies[0]->n_ticks < replies[1]->n_ticks);
    assert_true(replies[1]->n_ticks < replies[2]->n_ticks);
    for (unsigned i = 0; i < 3; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

/* Nobody evaluates anything, and still it comes to be somebody's turn: the thread has to look. */
static void who_rises_while_everybody_stands_still_gets_its_turn(void **state)
{
    test_stage_options options = with_cache();
    hearth_request first = test_request(text, 10, 3), aged = test_request(other, 100, 30),
                   high = test_request(other + 200, 10, 3);
    test_reply *replies[3];
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    options.aging_ms = 10;
    options.stalled_ms = 60000;
    high.priority = 1;
    test_stage_open(&stage, &options);
    replies[0] = submit(&stage, &first);
    replies[1] = submit(&stage, &aged);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 20); /* it has risen by two when it runs */
    test_stage_run_until(&stage, replies[1], 3);
    atomic_store(&replies[1]->request->paused, true);
    replies[2] = submit(&stage, &high);
    assert_false(test_stage_tick(&stage));
    for (unsigned i = 1; i <= 2; i++) {
        assert_int_equal(replies[2]->n_done, 0);
        assert_int_equal(hth_batcher_wake_ns(stage.batcher), stage.now_ns + 10000000u);
        test_stage_pass(&stage, 10);
        (void)test_stage_tick(&stage);
    }
    test_stage_run_until(&stage, replies[2], 3);
    assert_int_equal(replies[2]->result.status, HEARTH_OK);
    atomic_store(&replies[1]->request->paused, false);
    test_stage_run(&stage);
    expect_as_alone(&stage, replies[1], &aged);
    assert_int_equal(replies[1]->result.stats.n_preempted, 1);
    for (unsigned i = 0; i < 3; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

/* ---- limits of time, pauses ---- */

static void a_request_waits_no_longer_than_it_wants(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request running = test_request(text, 10, 50), waiting = test_request(other, 10, 50);
    test_reply *one, *two;
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    waiting.queue_timeout_ms = 20;
    test_stage_open(&stage, &options);
    one = submit(&stage, &running);
    two = submit(&stage, &waiting);
    (void)test_stage_tick(&stage);
    assert_int_equal(hth_batcher_wake_ns(stage.batcher), stage.now_ns + 20000000u);
    test_stage_pass(&stage, 19);
    (void)test_stage_tick(&stage);
    assert_int_equal(two->n_done, 0);
    test_stage_pass(&stage, 1);
    (void)test_stage_tick(&stage);
    expect_ended(two, HEARTH_TIMED_OUT, HEARTH_FINISH_TIMED_OUT);
    assert_int_equal(two->result.stats.completion_tokens, 0);
    test_reply_free(two);
    two = submit(&stage, &waiting); /* what runs by then is not disturbed any more */
    atomic_store(&one->request->cancelled, true);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 100);
    test_stage_run(&stage);
    expect_as_alone(&stage, two, &waiting);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

static void a_run_is_no_longer_than_it_may_be_and_waiting_does_not_count(void **state)
{
    test_stage_options options = with_cache();
    hearth_request limited = test_request(text, 100, 1000), urgent = test_request(other, 100, 10);
    test_reply *one, *two;
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    limited.run_timeout_ms = 50;
    urgent.priority = 1;
    test_stage_open(&stage, &options);
    one = submit(&stage, &limited);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 30);
    two = submit(&stage, &urgent);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 500); /* the other one runs */
    while (two->n_done == 0)
        (void)test_stage_tick(&stage);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 19);
    (void)test_stage_tick(&stage);
    assert_int_equal(one->n_done, 0);
    test_stage_pass(&stage, 1);
    (void)test_stage_tick(&stage);
    expect_ended(one, HEARTH_TIMED_OUT, HEARTH_FINISH_TIMED_OUT);
    assert_true(one->result.stats.completion_tokens > 2); /* what it has is told */
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

static void a_deadline_counts_from_the_submit_waiting_or_running(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 10, 1000), test_request(other, 10, 1000) };
    test_reply *replies[2];
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    requests[0].deadline_ms = requests[1].deadline_ms = 40;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 39);
    (void)test_stage_tick(&stage);
    assert_int_equal(stage.n_open, 2);
    test_stage_pass(&stage, 1);
    (void)test_stage_tick(&stage);
    for (unsigned i = 0; i < 2; i++) {
        expect_ended(replies[i], HEARTH_TIMED_OUT, HEARTH_FINISH_TIMED_OUT);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

static void a_paused_request_stands_still_and_others_do_not_notice(void **state)
{
    hearth_request requests[2] = { test_request(text, 100, 40), test_request(other, 100, 40) };
    test_reply *replies[2];
    test_stage stage;

    (void)state;
    test_stage_open(&stage, NULL);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run_until(&stage, replies[0], 10);
    atomic_store(&replies[0]->request->paused, true);
    while (replies[1]->n_done == 0)
        (void)test_stage_tick(&stage);
    assert_in_range(replies[0]->n_events, 10, 11);
    expect_as_alone(&stage, replies[1], &requests[1]);
    assert_false(test_stage_tick(&stage)); /* nothing to do: the thread may sleep */
    assert_true(hth_batcher_wake_ns(stage.batcher) > stage.now_ns);
    test_stage_pass(&stage, 1000);
    assert_false(test_stage_tick(&stage));
    atomic_store(&replies[0]->request->paused, false);
    test_stage_run(&stage);
    expect_as_alone(&stage, replies[0], &requests[0]);
    for (unsigned i = 0; i < 2; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

static void a_request_that_is_paused_for_too_long_ends(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request request = test_request(text, 100, 40);
    test_reply *reply;
    test_stage stage;

    (void)state;
    options.stalled_ms = 100;
    test_stage_open(&stage, &options);
    reply = submit(&stage, &request);
    test_stage_run_until(&stage, reply, 5);
    for (unsigned i = 0; i < 3; i++) { /* each pause counts by itself */
        atomic_store(&reply->request->paused, true);
        (void)test_stage_tick(&stage);
        test_stage_pass(&stage, 99);
        (void)test_stage_tick(&stage);
        assert_int_equal(reply->n_done, 0);
        atomic_store(&reply->request->paused, false);
        (void)test_stage_tick(&stage);
    }
    atomic_store(&reply->request->paused, true);
    (void)test_stage_tick(&stage);
    assert_int_equal(hth_batcher_wake_ns(stage.batcher), stage.now_ns + 100000000u);
    test_stage_pass(&stage, 100);
    (void)test_stage_tick(&stage);
    expect_ended(reply, HEARTH_TIMED_OUT, HEARTH_FINISH_TIMED_OUT);
    test_reply_free(reply);
    test_stage_close(&stage);
}

/* Without a cache it cannot be saved: there is nothing to do until somebody comes back, or is given up. */
static void waiting_for_the_cells_of_a_paused_one_is_no_work(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 100, -1), test_request(other, 100, -1) };
    test_reply *replies[2];
    test_stage stage;
    bool busy = true;

    (void)state;
    options.ram_bytes = 0;
    options.n_ctx = 1300;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run_until(&stage, replies[0], 400);
    atomic_store(&replies[0]->request->paused, true);
    for (unsigned i = 0; i < 2000 && busy; i++)
        busy = test_stage_tick(&stage);
    assert_false(busy);
    assert_true(hth_batcher_wake_ns(stage.batcher) > stage.now_ns);
    assert_true(hth_batcher_wake_ns(stage.batcher) < UINT64_MAX);
    assert_int_equal(stage.n_open, 2);
    atomic_store(&replies[0]->request->paused, false);
    test_stage_run(&stage);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(replies[i]->result.status, HEARTH_OK);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

/* Nobody waits for a slow reader: who is paused gives its cells to one that is short of them, and goes on later. */
static void a_paused_one_makes_room_for_one_that_is_short_of_cells(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 100, -1), test_request(other, 100, -1) };
    test_reply *replies[2];
    test_stage stage;
    bool busy = true;

    (void)state;
    options.ram_bytes = 64 << 20;
    options.n_ctx = 1300;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run_until(&stage, replies[0], 400);
    atomic_store(&replies[0]->request->paused, true);
    for (unsigned i = 0; i < 2000 && busy; i++)
        busy = test_stage_tick(&stage);
    assert_false(busy);
    assert_true(hth_batcher_wake_ns(stage.batcher) > stage.now_ns);
    assert_true(hth_batcher_wake_ns(stage.batcher) < UINT64_MAX); /* it may still be given up */
    expect_ended(replies[1], HEARTH_OK, HEARTH_FINISH_LENGTH);
    assert_int_equal(stage.n_open, 1);
    atomic_store(&replies[0]->request->paused, false);
    test_stage_run(&stage);
    expect_ended(replies[0], HEARTH_OK, HEARTH_FINISH_LENGTH);
    assert_int_equal(replies[0]->result.stats.n_preempted, 1);
    for (unsigned i = 0; i < 2; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

static void a_cancel_takes_effect_with_the_next_tick(void **state)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 1000, 40), test_request(other, 100, 40) };
    test_reply *replies[2];
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    (void)test_stage_tick(&stage);
    for (unsigned i = 2; i-- > 0;) { /* one that waits, and one that runs */
        atomic_store(&replies[i]->request->cancelled, true);
        (void)test_stage_tick(&stage);
        expect_ended(replies[i], HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

static void a_reader_that_wants_no_more_ends_its_request(void **state)
{
    hearth_request request = test_request(text, 100, 40);
    test_reply *reply;
    test_stage stage;

    (void)state;
    test_stage_open(&stage, NULL);
    reply = submit(&stage, &request);
    reply->refuse_after = 7;
    test_stage_run(&stage);
    expect_ended(reply, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
    assert_int_equal(reply->result.stats.completion_tokens, 7);
    test_reply_free(reply);
    test_stage_close(&stage);
}

/* ---- sessions and parents ---- */

typedef struct talk {
    hearth_token tokens[TOKENS_MAX];
    size_t n;
} talk;

static hearth_request turn_of(talk *t, size_t n_more)
{
    hearth_request request;

    test_tokens(t->n + 77, t->tokens + t->n, n_more);
    t->n += n_more;
    request = test_request(t->tokens, t->n, 10);
    request.session_id = "a talk";
    return request;
}

static void hear(talk *t, const test_reply *reply)
{
    memcpy(t->tokens + t->n, reply->result.tokens, reply->result.stats.completion_tokens * sizeof(hearth_token));
    t->n += reply->result.stats.completion_tokens;
}

static void a_session_goes_on_in_place_whatever_came_between(void **state)
{
    test_stage_options options = test_stage_options_default();
    talk *t = calloc(1, sizeof(*t));
    test_stage stage;

    (void)state;
    options.n_parallel = 2;
    options.n_sequences = 4;
    options.n_ctx = 1000;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 4; i++) {
        size_t n_before = t->n;
        hearth_request request = turn_of(t, 30);
        test_reply *reply = submit(&stage, &request);

        test_stage_run(&stage);
        expect_as_alone(&stage, reply, &request);
        assert_int_equal(reply->result.stats.shared_tokens,
                         n_before ? n_before - 1 : 0); /* the last was never evaluated */
        hear(t, reply);
        test_reply_free(reply);
        for (unsigned k = 0; k < 6; k++) { /* more than there are sequences, and cells */
            hearth_request stranger = test_request(other + 100 * k + 7 * i, 250, 3);

            reply = submit(&stage, &stranger);
            test_stage_run(&stage);
            expect_as_alone(&stage, reply, &stranger);
            test_reply_free(reply);
        }
    }
    test_stage_close(&stage);
    free(t);
}

static void a_session_that_ended_or_expired_is_an_ordinary_sequence(void **state)
{
    test_stage_options options = with_cache();
    talk *t = calloc(1, sizeof(*t));
    const uint8_t *fingerprint;
    hearth_request request;
    test_reply *reply;
    test_stage stage;

    (void)state;
    options.session_idle_ms = 50;
    test_stage_open(&stage, &options);
    fingerprint = stage.place.keyspace.fingerprint;
    assert_false(hth_batcher_end_session(stage.batcher, fingerprint, "a talk"));
    request = turn_of(t, 100);
    reply = submit(&stage, &request);
    (void)test_stage_tick(&stage);
    assert_false(hth_batcher_end_session(stage.batcher, fingerprint, "a talk")); /* it runs */
    test_stage_run(&stage);
    hear(t, reply);
    test_reply_free(reply);
    assert_false(hth_batcher_end_session(stage.batcher, fingerprint, "another"));
    assert_true(hth_batcher_end_session(stage.batcher, fingerprint, "a talk"));
    assert_false(hth_batcher_end_session(stage.batcher, fingerprint, "a talk"));
    (void)test_stage_tick(&stage);
    assert_int_equal(hth_batcher_wake_ns(stage.batcher), UINT64_MAX);
    assert_true(test_watch_n_used(&stage.watch) > 0);

    request = turn_of(t, 20); /* from what is left in the context */
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_true(reply->result.stats.shared_tokens > 100);
    hear(t, reply);
    test_reply_free(reply);
    assert_int_equal(hth_batcher_wake_ns(stage.batcher), stage.now_ns + 50000000u); /* at once, with no tick more */
    test_stage_pass(&stage, 50);
    (void)test_stage_tick(&stage);
    assert_false(hth_batcher_end_session(stage.batcher, fingerprint, "a talk"));

    request = turn_of(t, 20); /* expired into the cache: nothing of it is computed again */
    stage.watch.n_rows = 0;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_int_equal(stage.watch.n_rows, 1 + 20 + 9);
    test_reply_free(reply);
    test_stage_close(&stage);
    free(t);
}

/* It made room, and was cancelled before it went on: its sequence is kept for as long as that of any other session. */
static void a_session_that_is_cancelled_while_it_waits_expires(void **state)
{
    test_stage_options options = with_cache();
    hearth_request low = test_request(text, 100, 40), high = test_request(other, 100, 10);
    test_reply *one, *two;
    test_stage stage;

    (void)state;
    options.n_parallel = 1;
    options.session_idle_ms = 50;
    low.session_id = "a talk";
    high.priority = 1;
    test_stage_open(&stage, &options);
    one = submit(&stage, &low);
    test_stage_run_until(&stage, one, 5);
    two = submit(&stage, &high);
    test_stage_run_until(&stage, two, 1);
    atomic_store(&one->request->cancelled, true);
    (void)test_stage_tick(&stage);
    expect_ended(one, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
    assert_int_equal(hth_batcher_wake_ns(stage.batcher), stage.now_ns + 50000000u);
    test_stage_run(&stage);
    test_stage_pass(&stage, 50);
    (void)test_stage_tick(&stage);
    assert_false(hth_batcher_end_session(stage.batcher, stage.place.keyspace.fingerprint, "a talk"));
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

static void a_finish_key_is_a_parent(void **state)
{
    talk *t = calloc(1, sizeof(*t));
    test_stage_options options = with_cache();
    hearth_request request;
    uint8_t key[32];
    test_reply *reply;
    test_stage stage;
    uint32_t n_parent;

    (void)state;
    test_stage_open(&stage, &options);
    request = turn_of(t, 100);
    request.session_id = NULL;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    hear(t, reply);
    n_parent = reply->result.stats.finish_tokens;
    assert_int_equal(n_parent, 109);
    memcpy(key, reply->result.stats.finish_key, sizeof(key));
    test_reply_free(reply);
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT);
    request = turn_of(t, 20);
    request.session_id = NULL;
    request.parent_key = key;
    reply = submit(&stage, &request);
    reply->request->n_parent = n_parent;
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_int_equal(reply->result.stats.hit, HEARTH_HIT_RESUME);
    assert_int_equal(reply->result.stats.cached_tokens, n_parent);
    test_reply_free(reply);
    test_stage_close(&stage);
    free(t);
}

static void a_parent_that_nobody_writes_is_waited_for_a_moment_only(void **state)
{
    test_stage_options options = with_cache();
    char *directory = hth_test_directory_new();
    hearth_request request = test_request(text, 100, 5), beside = test_request(other, 100, 5);
    static const uint8_t key[32] = { 1 };
    test_reply *reply, *another;
    uint64_t begin_ns;
    test_stage stage;

    (void)state;
    options.directory = directory;
    options.resume_wait_ms = 400;
    test_stage_open(&stage, &options);
    request.parent_key = key;
    begin_ns = stage.now_ns;
    reply = submit(&stage, &request);
    reply->request->n_parent = 50;
    another = submit(&stage, &beside);
    while (another->n_done == 0)
        (void)test_stage_tick(&stage);
    assert_int_equal(reply->n_done, 0); /* it waits, and nobody else does */
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_in_range((stage.now_ns - begin_ns) / 1000000u, 40, 60); /* a tenth, for nothing is written */
    test_reply_free(reply);
    test_reply_free(another);
    test_stage_close(&stage);
    hth_test_directory_remove(directory);
}

/* ---- what a request asks for ---- */

static void a_prompt_is_read_without_a_reply(void **state)
{
    test_stage_options options = with_cache();
    hearth_request warm = test_request(text, 300, 20), use = test_request(text, 300, 20);
    test_reply *reply;
    test_stage stage;

    (void)state;
    warm.prefill_only = true;
    test_stage_open(&stage, &options);
    reply = submit(&stage, &warm);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &warm);
    expect_ended(reply, HEARTH_OK, HEARTH_FINISH_LENGTH);
    assert_int_equal(reply->result.stats.completion_tokens, 0);
    assert_int_equal(stage.watch.n_rows, 300);
    test_reply_free(reply);
    reply = submit(&stage, &warm); /* and again: there is nothing to do */
    test_stage_run(&stage);
    expect_ended(reply, HEARTH_OK, HEARTH_FINISH_LENGTH);
    assert_int_equal(stage.watch.n_rows, 300);
    test_reply_free(reply);
    reply = submit(&stage, &use);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &use);
    assert_int_equal(reply->result.stats.hit, HEARTH_HIT_EXACT);
    assert_int_equal(stage.watch.n_rows, 300 + 19);
    test_reply_free(reply);
    test_stage_close(&stage);
}

static struct {
    hearth_status (*apply)(hth_engine_sampler *sampler, const float *logits, const hth_sample_at *at,
                           const hth_candidate **out, size_t *n_out, hearth_error *err);
    uint32_t n, n_forbidden, last_forbidden;
} draws;

static hearth_status count_draw(hth_engine_sampler *sampler, const float *logits, const hth_sample_at *at,
                                const hth_candidate **out, size_t *n_out, hearth_error *err)
{
    draws.n++;
    if (at->forbids_end) {
        draws.n_forbidden++;
        draws.last_forbidden = draws.n;
    }
    return draws.apply(sampler, logits, at, out, n_out, err);
}

static void ends_are_forbidden_for_the_first_min_tokens(void **state)
{
    hearth_request request = test_request(text, 50, 20);
    test_reply *reply;
    test_stage stage;

    (void)state;
    request.min_tokens = 6;
    test_stage_open(&stage, NULL);
    memset(&draws, 0, sizeof(draws));
    draws.apply = stage.watch.backend.sampler_apply;
    stage.watch.backend.sampler_apply = count_draw;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    assert_int_equal(draws.n, 20);
    assert_int_equal(draws.n_forbidden, 6);
    assert_int_equal(draws.last_forbidden, 6);
    test_reply_free(reply);
    test_stage_close(&stage);
}

static void a_stop_token_ends_the_reply_and_is_not_shown(void **state)
{
    hearth_token chain[20];
    hearth_request request = test_request(text, 50, 20);
    uint32_t first = 0;
    test_reply *reply;
    test_stage stage;

    (void)state;
    test_stage_open(&stage, NULL);
    test_solo_chain(hth_backend_stub(), stage.engine_model, text, 50, &request.sampling, 20, 64, chain);
    request.stop_tokens = &chain[8];
    request.n_stop_tokens = 1;
    while (chain[first] != chain[8])
        first++;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_int_equal(reply->result.finish_reason, HEARTH_FINISH_STOP);
    assert_int_equal(reply->result.stats.completion_tokens, first + 1);
    assert_int_equal(reply->result.n_bytes, first);
    test_reply_free(reply);
    test_stage_close(&stage);
}

static void an_echo_begins_with_the_prompt(void **state)
{
    hearth_request request = test_request(text, 50, 10);
    const char stop[] = { (char)text[3], (char)text[4], '\0' };
    const char *const stops[] = { stop };
    test_reply *reply;
    test_stage stage;

    (void)state;
    request.echo = true;
    request.stop = stops; /* it stands in the prompt, where it stops nothing */
    request.n_stop = 1;
    test_stage_open(&stage, NULL);
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(reply->result.text[i], text[i]);
    test_reply_free(reply);
    test_stage_close(&stage);
}

/* Broken off after any token, and continued elsewhere with what was known: the same tokens and the same text. */
static void a_reply_that_was_broken_off_goes_on_from_any_token(void **state)
{
    static const char *const stops[] = { "ZZ", "q" };
    hearth_token chain[24];
    hearth_request request = test_request(text, 60, 24);

    (void)state;
    request.sampling.temperature = 0.9f;
    request.sampling.seed = 5;
    request.sampling.repeat_penalty = 1.3f;
    request.stop = stops;
    request.n_stop = 2;
    for (unsigned cached = 0; cached < 2; cached++)
        for (uint32_t n = 0; n < 24; n++) {
            test_stage_options options = cached ? with_cache() : test_stage_options_default();
            hearth_request rest = request;
            hearth_error err;
            test_reply *reply;
            test_stage stage;
            test_solo_reply alone;

            test_stage_open(&stage, &options);
            test_solo_chain(hth_backend_stub(), stage.engine_model, text, 60, &request.sampling, 24, 64, chain);
            alone = test_solo_finish(hth_backend_stub(), stage.engine_model, &request, 24, chain, 24);
            free(alone.text);
            rest.replayed = chain;
            rest.n_replayed = n;
            reply = test_stage_submit(&stage, &rest, NULL, &err);
            if (n >= alone.n_tokens) { /* it had ended by then */
                assert_null(reply);
                assert_int_equal(err.status, HEARTH_MISUSE);
            } else {
                assert_non_null(reply);
                test_stage_run(&stage);
                expect_as_alone(&stage, reply, &request);
                assert_int_equal(reply->n_events, alone.n_tokens - n); /* the others were told before */
                test_reply_free(reply);
            }
            test_stage_close(&stage);
        }
}

static void each_token_has_its_logprobs(void **state)
{
    hearth_request request = test_request(text, 60, 9);
    test_reply *reply;
    test_stage stage;

    (void)state;
    request.n_top_logprobs = 3;
    test_stage_open(&stage, NULL);
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_non_null(reply->result.logprobs);
    assert_int_equal(reply->result.n_top_logprobs, 3);
    for (unsigned i = 0; i < 9; i++) {
        const hearth_logprob *of = reply->result.logprobs + 4 * (size_t)i;

        assert_int_equal(of[0].token, reply->result.tokens[i]);
        assert_int_equal(of[1].token, of[0].token); /* greedy: it is the likeliest */
        assert_true(of[1].logprob == of[0].logprob && of[0].logprob < 0 && of[0].logprob > -10);
        assert_true(of[1].logprob >= of[2].logprob && of[2].logprob >= of[3].logprob);
    }
    test_reply_free(reply);
    request.n_top_logprobs = 0;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    assert_null(reply->result.logprobs);
    test_reply_free(reply);
    test_stage_close(&stage);
}

/* ---- streams beside long prompts ---- */

typedef struct pace {
    uint32_t stream; /* its sequence */
    bool watches;
    uint32_t most_rows;
    uint32_t n_without; /* evaluations without a token of the stream */
    uint32_t n;
} pace;

static void note_pace(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data)
{
    pace *p = user_data;
    bool has_stream = false;

    (void)watch;
    if (!p->watches)
        return;
    for (size_t i = 0; i < n_rows; i++)
        has_stream |= rows[i].sequence == p->stream;
    p->n++;
    p->n_without += !has_stream;
    if (p->most_rows < n_rows)
        p->most_rows = (uint32_t)n_rows;
}

/* Rows of the largest evaluation while a long prompt is read beside a stream, when a row takes row_us. */
static uint32_t most_rows_beside_a_stream(const char *strategy, uint64_t row_us, uint32_t max_tick_ms)
{
    test_stage_options options = test_stage_options_default();
    hearth_request streaming = test_request(text, 100, 200), reading = test_request(other, 3000, 1);
    test_reply *stream, *reader;
    pace p = { .watches = false };
    test_stage stage;

    options.strategy = strategy;
    options.max_tick_ms = max_tick_ms;
    test_stage_open(&stage, &options);
    stage.watch.row_ns = row_us * 1000;
    stage.watch.hooks = (test_watch_hooks){ .after_decode = note_pace, .user_data = &p };
    stream = submit(&stage, &streaming);
    test_stage_run_until(&stage, stream, 5);
    p.stream = hth_sequence_id(stage.batcher->running[0]->seat->sequence);
    p.watches = true;
    reader = submit(&stage, &reading);
    test_stage_run_until(&stage, reader, 1);
    p.watches = false;
    assert_int_equal(stream->n_done, 0); /* it streamed all the time */
    assert_int_equal(p.n_without, 0);    /* and was never left out */
    test_stage_run(&stage);
    expect_as_alone(&stage, stream, &streaming);
    expect_as_alone(&stage, reader, &reading);
    test_reply_free(stream);
    test_reply_free(reader);
    test_stage_close(&stage);
    return p.most_rows;
}

static void while_somebody_streams_an_evaluation_is_as_long_as_a_tick_may_be(void **state)
{
    static const char *const names[] = { "decode_maximal", "prefill_priority", "balanced" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(most_rows_beside_a_stream(names[i], 1000, 100), 64 + 1);  /* 90 rows would be in time */
        assert_int_equal(most_rows_beside_a_stream(names[i], 1000, 1), 64 + 1);    /* the smallest chunk */
        assert_int_equal(most_rows_beside_a_stream(names[i], 1000, 250), 128 + 1); /* 225 would be */
    }
    assert_in_range(most_rows_beside_a_stream("decode_maximal", 1, 250), 257, 512); /* there is time for a full batch */
}

static void no_reply_starves_behind_a_long_prompt(void **state)
{
    static const char *const names[] = { "decode_maximal", "prefill_priority", "balanced" };

    (void)state;
    for (size_t s = 0; s < 3; s++) { /* more replies than a strategy keeps room for */
        test_stage_options options = test_stage_options_default();
        hearth_request streaming[5], reading = test_request(other, 600, 1);
        test_reply *streams[5], *reader;
        uint32_t before[5];
        test_stage stage;

        options.strategy = names[s];
        options.n_batch = 8;
        test_stage_open(&stage, &options);
        for (unsigned i = 0; i < 5; i++) {
            streaming[i] = test_request(text + 20 * i, 10, 900);
            streams[i] = submit(&stage, &streaming[i]);
        }
        for (unsigned i = 0; i < 5; i++)
            test_stage_run_until(&stage, streams[i], 1);
        for (unsigned i = 0; i < 5; i++)
            before[i] = streams[i]->n_events;
        reader = submit(&stage, &reading);
        test_stage_run_until(&stage, reader, 1);
        for (unsigned i = 0; i < 5; i++) {
            if (streams[i]->n_events < before[i] + 10)
                fail_msg("%s: stream %u had %u tokens in all the time", names[s], i, streams[i]->n_events - before[i]);
            atomic_store(&streams[i]->request->cancelled, true);
        }
        test_stage_run(&stage);
        for (unsigned i = 0; i < 5; i++)
            test_reply_free(streams[i]);
        test_reply_free(reader);
        test_stage_close(&stage);
    }
}

static void every_strategy_gives_the_same_replies(void **state)
{
    static const char *const names[] = { "decode_maximal", "prefill_priority", "balanced" };

    (void)state;
    for (size_t s = 0; s < 3; s++) {
        test_stage_options options = test_stage_options_default();
        hearth_request requests[6];
        test_reply *replies[6];
        test_stage stage;

        options.strategy = names[s];
        options.n_batch = 100;
        test_stage_open(&stage, &options);
        assert_string_equal(stage.batcher->schedule.strategy.name, names[s]);
        for (unsigned i = 0; i < 6; i++) {
            requests[i] = test_request(other + 300 * i, 20 + 111 * i, 12);
            replies[i] = submit(&stage, &requests[i]);
            (void)test_stage_tick(&stage);
        }
        test_stage_run(&stage);
        for (unsigned i = 0; i < 6; i++) {
            expect_as_alone(&stage, replies[i], &requests[i]);
            test_reply_free(replies[i]);
        }
        test_stage_close(&stage);
    }
}

/* ---- an engine that fails ---- */

typedef struct trouble {
    test_decode_answer answer;
    hearth_token poison;  /* evaluations with this token get the answer; 0: every one */
    unsigned n_left;      /* so many */
    test_reply **cancels; /* and these are cancelled first; ends with NULL */
} trouble;

static test_decode_answer make_trouble(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data)
{
    trouble *t = user_data;
    bool is_meant = t->poison == 0;

    (void)watch;
    for (size_t i = 0; i < n_rows; i++)
        is_meant |= rows[i].token == t->poison;
    if (!is_meant || t->n_left == 0)
        return TEST_DECODE_GOES;
    t->n_left--;
    for (test_reply **reply = t->cancels; reply && *reply; reply++)
        atomic_store(&(*reply)->request->cancelled, true);
    return t->answer;
}

static void one_bad_request_fails_and_the_others_do_not_notice(void **state)
{
    static const char *const models[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };
    static const test_decode_answer answers[] = { TEST_DECODE_FAILS, TEST_DECODE_FAILS_INSIDE };

    (void)state;
    for (size_t m = 0; m < 4; m++)
        for (size_t a = 0; a < 2; a++) {
            test_stage_options options = with_cache();
            hearth_request requests[4];
            test_reply *replies[4];
            trouble t = { .answer = answers[a], .poison = '!', .n_left = UINT32_MAX };
            test_stage stage;

            options.model = models[m];
            test_stage_open(&stage, &options);
            stage.watch.hooks = (test_watch_hooks){ .before_decode = make_trouble, .user_data = &t };
            other[150] = '!';
            for (unsigned i = 0; i < 4; i++) {
                requests[i] = test_request(i == 2 ? other : text + 100 * i, 200 + i, 20);
                requests[i].sampling.temperature = 0.5f; /* no reply says '!' */
                requests[i].sampling.seed = i;
                replies[i] = submit(&stage, &requests[i]);
            }
            test_stage_run(&stage);
            other[150] = 'a';
            for (unsigned i = 0; i < 4; i++) {
                if (i == 2) {
                    expect_ended(replies[i], HEARTH_ENGINE, HEARTH_FINISH_NONE);
                    assert_non_null(strstr(replies[i]->result.error.message, "fail"));
                } else if (!memchr(replies[i]->result.text, '!', replies[i]->result.n_bytes)) {
                    expect_as_alone(&stage, replies[i], &requests[i]);
                }
                test_reply_free(replies[i]);
            }
            test_stage_close(&stage);
        }
}

static void a_failure_that_passes_hits_nobody(void **state)
{
    static const test_decode_answer answers[] = { TEST_DECODE_FAILS, TEST_DECODE_FAILS_INSIDE, TEST_DECODE_NO_ROOM };
    static const char *const models[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };

    (void)state;
    for (size_t m = 0; m < 4; m++)
        for (size_t a = 0; a < 3; a++)
            for (unsigned when = 0; when < 30; when += 7) {
                test_stage_options options = test_stage_options_default();
                hearth_request requests[3];
                test_reply *replies[3];
                trouble t = { .answer = answers[a], .n_left = 0 };
                test_stage stage;

                options.model = models[m];
                test_stage_open(&stage, &options);
                stage.watch.hooks = (test_watch_hooks){ .before_decode = make_trouble, .user_data = &t };
                for (unsigned i = 0; i < 3; i++) {
                    requests[i] = test_request(other + 100 * i, 200 + i, 20);
                    replies[i] = submit(&stage, &requests[i]);
                }
                for (unsigned i = 0; i < when; i++)
                    (void)test_stage_tick(&stage);
                t.n_left = 1;
                test_stage_run(&stage);
                for (unsigned i = 0; i < 3; i++) {
                    expect_as_alone(&stage, replies[i], &requests[i]);
                    test_reply_free(replies[i]);
                }
                test_stage_close(&stage);
            }
}

static void an_evaluation_that_everybody_cancelled_is_broken_off(void **state)
{
    hearth_request requests[2] = { test_request(text, 200, 20), test_request(other, 200, 20) };
    test_reply *replies[3] = { NULL };
    trouble t = { .answer = TEST_DECODE_ABORTS, .n_left = 1, .cancels = replies };
    test_stage stage;

    (void)state;
    test_stage_open(&stage, NULL);
    stage.watch.hooks = (test_watch_hooks){ .before_decode = make_trouble, .user_data = &t };
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run(&stage);
    for (unsigned i = 0; i < 2; i++) {
        expect_ended(replies[i], HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
        test_reply_free(replies[i]);
        replies[i] = submit(&stage, &requests[i]); /* what is left of it harms nobody */
    }
    test_stage_run(&stage);
    for (unsigned i = 0; i < 2; i++) {
        expect_as_alone(&stage, replies[i], &requests[i]);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

static void the_engine_is_told_when_everybody_in_the_batch_has_cancelled(void **state)
{
    hth_pulse pulse = { .n = 0 };
    atomic_bool cancelled[2] = { false, false };

    (void)state;
    assert_false(hth_pulse_wants_abort(&pulse));
    atomic_store(&pulse.cancelled[0], &cancelled[0]);
    atomic_store(&pulse.cancelled[1], &cancelled[1]);
    atomic_store(&pulse.n, 2);
    assert_false(hth_pulse_wants_abort(&pulse));
    atomic_store(&cancelled[1], true);
    assert_false(hth_pulse_wants_abort(&pulse)); /* one of them still wants it */
    atomic_store(&cancelled[0], true);
    assert_true(hth_pulse_wants_abort(&pulse));
    atomic_store(&pulse.n, 0);
    assert_false(hth_pulse_wants_abort(&pulse));
}

/* ---- saves ---- */

static void a_save_while_requests_run_changes_nothing_for_them(void **state)
{
    static const char *const models[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };

    (void)state;
    for (size_t m = 0; m < 4; m++) {
        test_stage_options options = with_cache();
        hearth_request requests[3];
        test_reply *replies[3];
        test_stage stage;

        options.model = models[m];
        options.n_batch = 64;
        test_stage_open(&stage, &options);
        for (unsigned i = 0; i < 3; i++) {
            requests[i] = test_request(i == 1 ? text : other + 50 * i, 300, 20 + 10 * (int32_t)i);
            replies[i] = submit(&stage, &requests[i]);
        }
        for (unsigned i = 0; stage.n_open > 0; i++) {
            (void)test_stage_tick(&stage);
            if (i % 3 == 0)
                hth_batcher_save(stage.batcher, i % 2 ? HEARTH_SAVE_EVICT : HEARTH_SAVE_SHUTDOWN);
        }
        assert_int_equal(stage.watch.n_rows, 3 * 300 + 19 + 29 + 39);
        for (unsigned i = 0; i < 3; i++) {
            expect_as_alone(&stage, replies[i], &requests[i]);
            test_reply_free(replies[i]);
        }
        test_stage_close(&stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_at_once_compute_what_they_share_once),
        cmocka_unit_test(another_takes_over_when_the_first_is_cancelled_half_way),
        cmocka_unit_test(replies_to_one_prompt_share_it_and_its_logits),
        cmocka_unit_test(what_has_ended_is_shared_from_while_it_is_there),
        cmocka_unit_test(tenants_share_nothing),
        cmocka_unit_test(logits_of_other_tokens_are_never_drawn_from),
        cmocka_unit_test(what_made_room_goes_on_without_a_recomputed_token),
        cmocka_unit_test(nobody_makes_room_for_an_equal),
        cmocka_unit_test(a_request_runs_when_there_are_cells_for_its_prompt_and_reply),
        cmocka_unit_test(shared_cells_are_counted_once),
        cmocka_unit_test(an_overflow_hits_only_who_caused_it),
        cmocka_unit_test(two_that_outgrow_the_context_take_turns),
        cmocka_unit_test(within_a_priority_the_first_to_come_is_first),
        cmocka_unit_test(who_waits_long_enough_comes_before_a_higher_priority),
        cmocka_unit_test(who_rises_while_everybody_stands_still_gets_its_turn),
        cmocka_unit_test(a_request_waits_no_longer_than_it_wants),
        cmocka_unit_test(a_run_is_no_longer_than_it_may_be_and_waiting_does_not_count),
        cmocka_unit_test(a_deadline_counts_from_the_submit_waiting_or_running),
        cmocka_unit_test(a_paused_request_stands_still_and_others_do_not_notice),
        cmocka_unit_test(a_request_that_is_paused_for_too_long_ends),
        cmocka_unit_test(waiting_for_the_cells_of_a_paused_one_is_no_work),
        cmocka_unit_test(a_paused_one_makes_room_for_one_that_is_short_of_cells),
        cmocka_unit_test(a_cancel_takes_effect_with_the_next_tick),
        cmocka_unit_test(a_reader_that_wants_no_more_ends_its_request),
        cmocka_unit_test(a_session_goes_on_in_place_whatever_came_between),
        cmocka_unit_test(a_session_that_ended_or_expired_is_an_ordinary_sequence),
        cmocka_unit_test(a_session_that_is_cancelled_while_it_waits_expires),
        cmocka_unit_test(a_finish_key_is_a_parent),
        cmocka_unit_test(a_parent_that_nobody_writes_is_waited_for_a_moment_only),
        cmocka_unit_test(a_prompt_is_read_without_a_reply),
        cmocka_unit_test(ends_are_forbidden_for_the_first_min_tokens),
        cmocka_unit_test(a_stop_token_ends_the_reply_and_is_not_shown),
        cmocka_unit_test(an_echo_begins_with_the_prompt),
        cmocka_unit_test(a_reply_that_was_broken_off_goes_on_from_any_token),
        cmocka_unit_test(each_token_has_its_logprobs),
        cmocka_unit_test(while_somebody_streams_an_evaluation_is_as_long_as_a_tick_may_be),
        cmocka_unit_test(no_reply_starves_behind_a_long_prompt),
        cmocka_unit_test(every_strategy_gives_the_same_replies),
        cmocka_unit_test(one_bad_request_fails_and_the_others_do_not_notice),
        cmocka_unit_test(a_failure_that_passes_hits_nobody),
        cmocka_unit_test(an_evaluation_that_everybody_cancelled_is_broken_off),
        cmocka_unit_test(the_engine_is_told_when_everybody_in_the_batch_has_cancelled),
        cmocka_unit_test(a_save_while_requests_run_changes_nothing_for_them),
    };

    return cmocka_run_group_tests(tests, make_texts, NULL);
}
