/*
 * turns_test.c - whose turn it is, how long one waits and runs, and what pauses and cancels do: tick by tick, with a
 * clock of the test's own
 */
#include "support/scene.h"

/* ---- whose turn it is ---- */

TEST(within_a_priority_the_first_to_come_is_first)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[5];
    test_reply *replies[5];
    test_stage stage;

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

TEST(who_waits_long_enough_comes_before_a_higher_priority)
{
    test_stage_options options = test_stage_options_default();
    hearth_request running = test_request(text, 10, 3), low = test_request(other, 10, 3),
                   high = test_request(other + 50, 10, 3);
    test_reply *replies[3];
    test_stage stage;

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
TEST(who_rises_while_everybody_stands_still_gets_its_turn)
{
    test_stage_options options = with_cache();
    hearth_request first = test_request(text, 10, 3), aged = test_request(other, 100, 30),
                   high = test_request(other + 200, 10, 3);
    test_reply *replies[3];
    test_stage stage;

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
    assert_int_equal(replies[2]->result->status, HEARTH_OK);
    atomic_store(&replies[1]->request->paused, false);
    test_stage_run(&stage);
    expect_as_alone(&stage, replies[1], &aged);
    assert_int_equal(replies[1]->result->stats->n_preempted, 1);
    for (unsigned i = 0; i < 3; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

/* ---- limits of time, pauses ---- */

TEST(a_request_waits_no_longer_than_it_wants)
{
    test_stage_options options = test_stage_options_default();
    hearth_request running = test_request(text, 10, 50), waiting = test_request(other, 10, 50);
    test_reply *one, *two;
    test_stage stage;

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
    assert_int_equal(two->result->stats->completion_tokens, 0);
    test_reply_free(two);
    two = submit(&stage, &waiting); /* what runs by then is not disturbed any more */
    test_stage_cancel(&stage, one);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 100);
    test_stage_run(&stage);
    expect_as_alone(&stage, two, &waiting);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

TEST(a_run_is_no_longer_than_it_may_be_and_waiting_does_not_count)
{
    test_stage_options options = with_cache();
    hearth_request limited = test_request(text, 100, 1000), urgent = test_request(other, 100, 10);
    test_reply *one, *two;
    test_stage stage;

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
    assert_true(one->result->stats->completion_tokens > 2); /* what it has is told */
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

TEST(a_deadline_counts_from_the_submit_waiting_or_running)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 10, 1000), test_request(other, 10, 1000) };
    test_reply *replies[2];
    test_stage stage;

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

TEST(a_paused_request_stands_still_and_others_do_not_notice)
{
    hearth_request requests[2] = { test_request(text, 100, 40), test_request(other, 100, 40) };
    test_reply *replies[2];
    test_stage stage;

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

TEST(a_request_that_is_paused_for_too_long_ends)
{
    test_stage_options options = test_stage_options_default();
    hearth_request request = test_request(text, 100, 40);
    test_reply *reply;
    test_stage stage;

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
TEST(waiting_for_the_cells_of_a_paused_one_is_no_work)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 100, -1), test_request(other, 100, -1) };
    test_reply *replies[2];
    test_stage stage;
    bool busy = true;

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
        assert_int_equal(replies[i]->result->status, HEARTH_OK);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

/* Nobody waits for a slow reader: who is paused gives its cells to one that is short of them, and goes on later. */
TEST(a_paused_one_makes_room_for_one_that_is_short_of_cells)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 100, -1), test_request(other, 100, -1) };
    test_reply *replies[2];
    test_stage stage;
    bool busy = true;

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
    assert_int_equal(replies[0]->result->stats->n_preempted, 1);
    for (unsigned i = 0; i < 2; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

TEST(a_cancel_takes_effect_with_the_next_tick)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 1000, 40), test_request(other, 100, 40) };
    test_reply *replies[2];
    test_stage stage;

    options.n_parallel = 1;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    (void)test_stage_tick(&stage);
    for (unsigned i = 2; i-- > 0;) { /* one that waits, and one that runs */
        test_stage_cancel(&stage, replies[i]);
        (void)test_stage_tick(&stage);
        expect_ended(replies[i], HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

TEST(a_cancel_that_comes_before_its_request_takes_effect_with_it)
{
    test_stage_options options = test_stage_options_default();
    hearth_request requests[2] = { test_request(text, 10, 50), test_request(other, 10, 50) };
    test_reply *replies[2];
    test_stage stage;
    hth_slot *slot;
    hearth_error err;

    options.n_parallel = 1;
    test_stage_open(&stage, &options);
    replies[0] = submit(&stage, &requests[0]);
    replies[1] = test_stage_prepare(&stage, &requests[1], NULL, &slot, &err);
    assert_non_null(replies[1]);
    test_stage_cancel(&stage, replies[1]);
    (void)test_stage_tick(&stage); /* it looks for who was cancelled, and sees nobody */
    test_stage_add(&stage, slot);
    (void)test_stage_tick(&stage);
    expect_ended(replies[1], HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
    test_stage_run(&stage);
    for (unsigned i = 0; i < 2; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

/* Of many that wait some are cancelled, the time of some is over; the others stay where they were. */
TEST(of_many_that_wait_only_those_end_who_have_to)
{
    enum { MANY = 200 };
    test_stage_options options = test_stage_options_default();
    hearth_request running = test_request(text, 10, 3000);
    test_reply *one, *replies[MANY];
    uint64_t before = 0;
    test_stage stage;

    options.n_parallel = 1;
    test_stage_open(&stage, &options);
    one = submit(&stage, &running);
    for (unsigned i = 0; i < MANY; i++) {
        hearth_request request = test_request(other + i, 10, 1);

        request.queue_timeout_ms = i % 5 == 1 ? 10 + i % 7 : 0;
        request.deadline_ms = i % 5 == 2 ? 20 - i % 7 : i % 5 == 1 ? 1000 : 0;
        replies[i] = submit(&stage, &request);
    }
    (void)test_stage_tick(&stage);
    for (unsigned i = 0; i < MANY; i += 5)
        test_stage_cancel(&stage, replies[i]);
    (void)test_stage_tick(&stage);
    for (unsigned ms = 1; ms <= 25; ms++) {
        test_stage_pass(&stage, 1);
        (void)test_stage_tick(&stage);
        for (unsigned i = 0; i < MANY; i++) {
            bool is_over = i % 5 == 0 || (i % 5 == 1 && ms >= 10 + i % 7) || (i % 5 == 2 && ms >= 20 - i % 7);

            assert_int_equal(replies[i]->n_done, is_over);
        }
    }
    test_stage_cancel(&stage, one);
    test_stage_run(&stage);
    for (unsigned i = 0; i < MANY; i++) {
        if (i % 5 == 0)
            expect_ended(replies[i], HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
        else if (i % 5 <= 2)
            expect_ended(replies[i], HEARTH_TIMED_OUT, HEARTH_FINISH_TIMED_OUT);
        else
            expect_ended(replies[i], HEARTH_OK, HEARTH_FINISH_LENGTH);
        if (i % 5 > 2) {
            assert_true(replies[i]->n_ticks > before);
            before = replies[i]->n_ticks;
        }
        test_reply_free(replies[i]);
    }
    test_reply_free(one);
    test_stage_close(&stage);
}

TEST(a_reader_that_wants_no_more_ends_its_request)
{
    hearth_request request = test_request(text, 100, 40);
    test_reply *reply;
    test_stage stage;

    test_stage_open(&stage, NULL);
    reply = submit(&stage, &request);
    reply->refuse_after = 7;
    test_stage_run(&stage);
    expect_ended(reply, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
    assert_int_equal(reply->result->stats->completion_tokens, 7);
    test_reply_free(reply);
    test_stage_close(&stage);
}

int main(void)
{
    return hth_test_run("tests", make_texts, NULL);
}
