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
    assert_int_equal(one->result->stats->n_preempted, 1);
    assert_int_equal(two->result->stats->n_preempted, 0);
    expect_as_alone(&stage, one, &low);
    expect_as_alone(&stage, two, &high);
    assert_int_equal(stage.watch.n_rows, 300 + 39 + 200 + 29); /* nothing twice */
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

TEST(what_made_room_goes_on_without_a_recomputed_token)
{
    preempt("stub:", false);
    preempt("stub:", true);
    preempt("stub:kind=window", false);
    preempt("stub:kind=window", true);
    preempt("stub:kind=recurrent", false);
    preempt("stub:kind=hybrid", false);
    preempt("stub:kind=hybrid", true);
}

/* Its own rows, which it finds when it goes on, say nothing of what was cached before (stage.c asks at each token). */
TEST(what_made_room_before_its_first_token_found_nothing_in_the_cache)
{
    test_stage_options options = with_cache();
    hearth_request low = test_request(text, 900, 10), high = test_request(other, 600, 10);
    test_reply *one, *two;
    test_stage stage;

    high.priority = 1;
    options.n_ctx = 1024;
    options.n_batch = 256;
    test_stage_open(&stage, &options);
    one = submit(&stage, &low);
    for (unsigned i = 0; i < 2; i++)
        (void)test_stage_tick(&stage);
    assert_true(stage.watch.n_rows >= 256 && stage.watch.n_rows < 900);
    two = submit(&stage, &high);
    test_stage_run(&stage);
    assert_int_equal(one->result->stats->n_preempted, 1);
    assert_int_equal(one->result->stats->cached_tokens, 0);
    assert_int_equal(one->n_restored, 0);
    expect_as_alone(&stage, one, &low);
    expect_as_alone(&stage, two, &high);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

TEST(nobody_makes_room_for_an_equal)
{
    test_stage_options options = with_cache();
    hearth_request requests[2] = { test_request(text, 100, 40), test_request(other, 100, 5) };
    test_reply *replies[2];
    test_stage stage;

    options.n_parallel = 1;
    options.aging_ms = 1; /* the one that waits rises as it waits, and so does not push out what came before it */
    test_stage_open(&stage, &options);
    stage.watch.row_ns = 1000000;
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run(&stage);
    assert_true(replies[0]->n_ticks < replies[1]->n_ticks);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(replies[i]->result->stats->n_preempted, 0);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

/* It comes last, and has no token yet: its place is that of the time when it came there. */
TEST(who_comes_from_another_process_keeps_its_place)
{
    static const uint64_t ages_us[] = { 0, 0, 0, 1500, 2500 };
    static const unsigned order[] = { 0, 4, 1, 3, 2 };
    enum { N = sizeof(order) / sizeof(order[0]) };
    test_stage_options options = test_stage_options_default();
    test_reply *replies[N];
    test_stage stage;

    options.n_parallel = 1;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < N; i++) {
        hearth_request request = test_request(text + 100 * i, 100, i == 0 ? 20 : 3);

        request.age_us = ages_us[i];
        replies[i] = submit(&stage, &request);
        (void)test_stage_tick(&stage);
        test_stage_pass(&stage, i < 3 ? 1 : 0); /* 1 came 2 ms ago at last, and 2 came 1 ms ago */
    }
    test_stage_run(&stage);
    for (unsigned i = 1; i < N; i++)
        assert_true(replies[order[i - 1]]->n_ticks < replies[order[i]]->n_ticks);
    for (unsigned i = 0; i < N; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

/* ---- admission ---- */

static uint32_t n_running(const test_stage *stage)
{
    hth_batcher_status status;

    hth_batcher_status_get(stage->batcher, &status);
    return status.n_running;
}

TEST(a_request_runs_when_there_are_cells_for_its_prompt_and_reply)
{
    test_stage_options options = test_stage_options_default();
    hearth_request first = test_request(text, 300, 400), second = test_request(other, 200, 110),
                   third = test_request(other + 500, 20, 20);
    test_reply *replies[3];
    test_stage stage;

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

TEST(shared_cells_are_counted_once)
{
    test_stage_options options = test_stage_options_default();
    hearth_token *prompts[4];
    test_reply *replies[4];
    test_stage stage;

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

TEST(an_overflow_hits_only_who_caused_it)
{
    test_stage_options options = test_stage_options_default();
    hearth_request endless = test_request(text, 100, -1), modest = test_request(other, 300, 250);
    test_reply *one, *two;
    test_stage stage;

    options.n_ctx = 1200;
    test_stage_open(&stage, &options); /* no cache: nothing can be put aside */
    one = submit(&stage, &endless);    /* 612 to begin with */
    test_stage_run_until(&stage, one, 400);
    two = submit(&stage, &modest); /* 550 */
    test_stage_run_until(&stage, two, 1);
    test_stage_run(&stage);
    expect_as_alone(&stage, two, &modest);
    expect_as_alone(&stage, one, &endless); /* it waited in place, and then had the context for itself */
    assert_int_equal(one->result->stats->completion_tokens, 1200 - 100 + 1);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

TEST(two_that_outgrow_the_context_take_turns)
{
    test_stage_options options = with_cache();
    hearth_request requests[2] = { test_request(text, 100, -1), test_request(other, 100, -1) };
    test_reply *replies[2];
    test_stage stage;

    options.n_ctx = 1300;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run(&stage);
    assert_int_equal(replies[1]->result->stats->n_preempted, 1); /* the younger one */
    assert_int_equal(replies[0]->result->stats->n_preempted, 0);
    for (unsigned i = 0; i < 2; i++) {
        expect_as_alone(&stage, replies[i], &requests[i]);
        test_reply_free(replies[i]);
    }
    assert_int_equal(stage.watch.n_no_room, 0);
    test_stage_close(&stage);
}

/*
 * One of priority 0 and some of -1 share a prompt of 1400 tokens in a context of 2000. Each has some tokens of its own,
 * and 50 for its reply.
 */
enum { SHARED = 1400, REPLY = 50, CROWD_MAX = 4 };

typedef struct crowd {
    test_stage stage;
    hearth_token *prompts[CROWD_MAX];
    hearth_request requests[CROWD_MAX];
    test_reply *replies[CROWD_MAX];
    unsigned n;
} crowd;

/* Where all run. n_own[i] tokens are of the i-th alone; the first is the one of priority 0, the last the youngest. */
static void crowd_open(crowd *c, const uint32_t *n_own, unsigned n)
{
    test_stage_options options = with_cache();

    options.n_ctx = 2000;
    *c = (crowd){ .n = n };
    test_stage_open(&c->stage, &options);
    for (unsigned i = 0; i < n; i++) {
        c->prompts[i] = prompt_of(SHARED, n_own[i], i);
        c->requests[i] = test_request(c->prompts[i], SHARED + n_own[i], REPLY);
        c->requests[i].priority = i == 0 ? 0 : -1;
        c->replies[i] = submit(&c->stage, &c->requests[i]);
    }
    test_stage_run_until(&c->stage, c->replies[n - 1], 3); /* beyond the prompts' ends, which are saved */
    assert_int_equal(n_running(&c->stage), n);
}

static uint64_t n_preempted(const test_stage *stage)
{
    hth_batcher_status status;

    hth_batcher_status_get(stage->batcher, &status);
    return status.n_preempted;
}

static void end_well(test_stage *stage, test_reply *reply, const hearth_request *request)
{
    test_stage_run(stage);
    expect_as_alone(stage, reply, request);
    test_reply_free(reply);
}

static void crowd_close(crowd *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        end_well(&c->stage, c->replies[i], &c->requests[i]);
        free(c->prompts[i]);
    }
    assert_int_equal(c->stage.watch.n_no_room, 0);
    test_stage_close(&c->stage);
}

/* 300 cells are left; two give 100 each, and not the 1400 that somebody else holds, too. */
TEST(nobody_makes_room_in_vain)
{
    static const uint32_t n_own[] = { 50, 50, 50 };
    hearth_request high = test_request(other, 451, 50);
    test_reply *reply;
    crowd c;

    crowd_open(&c, n_own, 3);
    reply = submit(&c.stage, &high);
    for (unsigned i = 0; i < 5; i++)
        (void)test_stage_tick(&c.stage);
    assert_int_equal(n_preempted(&c.stage), 0);
    assert_int_equal(n_running(&c.stage), 3);
    end_well(&c.stage, reply, &high);
    crowd_close(&c);
}

/* One cell less, and both go for it. */
TEST(those_make_room_whose_cells_suffice_together)
{
    static const uint32_t n_own[] = { 50, 50, 50 };
    hearth_request high = test_request(other, 450, 50);
    test_reply *reply;
    crowd c;

    crowd_open(&c, n_own, 3);
    reply = submit(&c.stage, &high);
    (void)test_stage_tick(&c.stage);
    assert_int_equal(n_preempted(&c.stage), 2);
    assert_int_equal(n_running(&c.stage), 2);
    end_well(&c.stage, reply, &high);
    crowd_close(&c);
}

/* The youngest has too little to give, and who came before it has enough alone. */
TEST(nobody_makes_room_who_need_not)
{
    static const uint32_t n_own[] = { 50, 200, 10 };
    hearth_request high = test_request(other, 350, 50); /* 190 are left */
    test_reply *reply;
    crowd c;

    crowd_open(&c, n_own, 3);
    reply = submit(&c.stage, &high);
    (void)test_stage_tick(&c.stage);
    assert_int_equal(n_preempted(&c.stage), 1);
    end_well(&c.stage, reply, &high);
    test_stage_run(&c.stage);
    assert_int_equal(c.replies[1]->result->stats->n_preempted, 1);
    assert_int_equal(c.replies[2]->result->stats->n_preempted, 0);
    crowd_close(&c);
}

/*
 * What is shared with somebody who goes has to be taken anew: of the 1400 + 100 cells of who goes, n_own + 50 need 100
 * and the 150 that are left.
 */
static void share_with_who_goes(uint32_t n_own, bool goes)
{
    test_stage_options options = with_cache();
    hearth_token *prompts[2] = { prompt_of(SHARED, 50, 0), prompt_of(SHARED, n_own, 1) };
    hearth_request requests[3] = { test_request(other, 300, 50), test_request(prompts[0], SHARED + 50, 50),
                                   test_request(prompts[1], SHARED + n_own, 50) };
    test_reply *replies[3];
    test_stage stage;

    options.n_ctx = 2000;
    requests[1].priority = -1;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 2; i++)
        replies[i] = submit(&stage, &requests[i]);
    test_stage_run_until(&stage, replies[1], 1);
    replies[2] = submit(&stage, &requests[2]);
    (void)test_stage_tick(&stage);
    assert_int_equal(n_preempted(&stage), goes);
    assert_int_equal(n_running(&stage), 2);
    for (unsigned i = 0; i < 3; i++)
        end_well(&stage, replies[i], &requests[i]);
    free(prompts[0]);
    free(prompts[1]);
    test_stage_close(&stage);
}

TEST(what_is_shared_with_who_goes_is_no_gain)
{
    share_with_who_goes(200, true);
    share_with_who_goes(201, false);
}

static bool refuses_second_copy(test_watch *watch, void *user_data)
{
    unsigned *n_copies = user_data;

    (void)watch;
    return ++*n_copies == 2;
}

/* One of two cannot be saved: what the other could give is not enough, so that it stays, too. */
TEST(nobody_makes_room_beside_one_that_cannot)
{
    static const uint32_t n_own[] = { 50, 50, 50 };
    hearth_request high = test_request(other, 450, 50);
    test_reply *reply;
    crowd c;
    unsigned n_copies = 0;

    crowd_open(&c, n_own, 3);
    c.stage.watch.hooks.refuses_copy = refuses_second_copy;
    c.stage.watch.hooks.user_data = &n_copies;
    reply = submit(&c.stage, &high);
    (void)test_stage_tick(&c.stage);
    assert_true(n_copies >= 2);
    assert_int_equal(n_preempted(&c.stage), 0);
    end_well(&c.stage, reply, &high);
    crowd_close(&c);
}

/* Nobody can make room for it while one of two has risen as far; and nothing happens but that time passes. */
TEST(who_was_refused_is_asked_again_when_it_has_risen)
{
    test_stage_options options = with_cache();
    hearth_token *prompts[2] = { prompt_of(600, 10, 0), prompt_of(600, 10, 1) };
    hearth_request requests[4] = { test_request(other, 900, 10), test_request(prompts[0], 610, 30),
                                   test_request(prompts[1], 610, 30), test_request(other + 1000, 650, 10) };
    test_reply *replies[4];
    test_stage stage;

    options.n_ctx = 1000;
    options.aging_ms = 10;
    options.stalled_ms = 60000;
    requests[1].priority = requests[2].priority = -1;
    test_stage_open(&stage, &options);
    replies[0] = submit(&stage, &requests[0]);
    replies[1] = submit(&stage, &requests[1]);
    (void)test_stage_tick(&stage);
    test_stage_pass(&stage, 20); /* by two */
    test_stage_cancel(&stage, replies[0]);
    test_stage_run_until(&stage, replies[1], 1);
    replies[2] = submit(&stage, &requests[2]);
    test_stage_run_until(&stage, replies[2], 3);
    for (unsigned i = 1; i <= 2; i++)
        atomic_store(&replies[i]->request->paused, true);
    replies[3] = submit(&stage, &requests[3]);
    for (unsigned i = 0; i <= 1; i++) {
        assert_false(test_stage_tick(&stage));
        assert_int_equal(n_running(&stage), 2);
        assert_int_equal(hth_batcher_wake_ns(stage.batcher), stage.now_ns + 10000000u);
        test_stage_pass(&stage, 10);
    }
    (void)test_stage_tick(&stage);
    assert_int_equal(n_preempted(&stage), 2);
    test_stage_run_until(&stage, replies[3], 1);
    for (unsigned i = 1; i <= 2; i++)
        atomic_store(&replies[i]->request->paused, false);
    for (unsigned i = 1; i <= 3; i++)
        end_well(&stage, replies[i], &requests[i]);
    test_reply_free(replies[0]);
    free(prompts[0]);
    free(prompts[1]);
    test_stage_close(&stage);
}

GROUP(with_texts, make_texts, NULL)
