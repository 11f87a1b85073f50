/*
 * admission_test.c - who gets a place, by the cells that are left, and who makes room: tick by tick on the stub engine
 */
#include "support/scene.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_made_room_goes_on_without_a_recomputed_token),
        cmocka_unit_test(nobody_makes_room_for_an_equal),
        cmocka_unit_test(a_request_runs_when_there_are_cells_for_its_prompt_and_reply),
        cmocka_unit_test(shared_cells_are_counted_once),
        cmocka_unit_test(an_overflow_hits_only_who_caused_it),
        cmocka_unit_test(two_that_outgrow_the_context_take_turns),
    };

    return cmocka_run_group_tests(tests, make_texts, NULL);
}
