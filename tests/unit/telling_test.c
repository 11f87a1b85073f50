/*
 * telling_test.c - what comes before a reply's first token, a prompt's text or what was replayed, is told in steps
 */
#include "support/scene.h"

enum { STEP = 100 }; /* tokens, which are bytes here, in a tick */

static test_stage_options in_steps(void)
{
    test_stage_options options = with_cache();

    options.n_ctx = 8192;
    options.n_tell = STEP;
    return options;
}

/* Tick until it has ended; it is told of no more than a step at once, and others draw a token with each tick. */
static void run_beside(test_stage *stage, const test_reply *teller, const test_reply *stream)
{
    unsigned n_ticks = 0;

    for (; teller->n_done == 0 && teller->n_events == 0; n_ticks++) {
        size_t n_streamed = teller->n_streamed;
        uint32_t n_drawn = stream->n_events;

        assert_in_range(n_ticks, 0, 1000);
        (void)test_stage_tick(stage);
        assert_in_range(teller->n_streamed - n_streamed, 0, STEP + 1); /* and perhaps the first token */
        assert_int_equal(stream->n_done, 0);
        assert_int_equal(stream->n_events, n_drawn + 1);
    }
    assert_true(n_ticks >= 3500 / STEP);
}

TEST(a_long_echo_holds_nobody_up)
{
    test_stage_options options = in_steps();
    hearth_request streaming = test_request(other, 100, 2000), echoing = test_request(text, 3500, 5);
    test_reply *stream, *echo;
    test_stage stage;

    echoing.echo = true;
    test_stage_open(&stage, &options);
    stream = submit(&stage, &streaming);
    test_stage_run_until(&stage, stream, 3);
    echo = submit(&stage, &echoing);
    run_beside(&stage, echo, stream);
    test_stage_run(&stage);
    expect_as_alone(&stage, stream, &streaming);
    expect_as_alone(&stage, echo, &echoing);
    test_reply_free(stream);
    test_reply_free(echo);
    test_stage_close(&stage);
}

/* Broken off after most of it, and continued where nobody has heard of it yet. */
TEST(a_long_replay_holds_nobody_up)
{
    test_stage_options options = in_steps();
    hearth_request streaming = test_request(other, 100, 3000), whole = test_request(text, 1500, 2100);
    hearth_request rest;
    test_reply *stream, *first, *second;
    test_stage stage;

    whole.echo = true;
    test_stage_open(&stage, &options);
    first = submit(&stage, &whole);
    test_stage_run(&stage);
    rest = whole;
    rest.replayed = first->result->tokens;
    rest.n_replayed = 2050;
    rest.tell_replayed = true;
    stream = submit(&stage, &streaming);
    test_stage_run_until(&stage, stream, 3);
    second = submit(&stage, &rest);
    for (unsigned n_ticks = 0; second->n_events < 2050; n_ticks++) {
        size_t n_streamed = second->n_streamed;
        uint32_t n_drawn = stream->n_events;

        assert_in_range(n_ticks, 0, (1500 + 2050) / STEP + 1);
        (void)test_stage_tick(&stage);
        assert_in_range(second->n_streamed - n_streamed, 0, STEP);
        assert_true(second->n_streamed >= 1500 || second->n_events == 0); /* the prompt's text comes first */
        assert_int_equal(stream->n_events, n_drawn + 1);
    }
    test_stage_run(&stage);
    expect_as_alone(&stage, stream, &streaming);
    expect_as_alone(&stage, second, &whole);
    assert_string_equal(second->streamed, first->streamed);
    test_reply_free(first);
    test_reply_free(second);
    test_reply_free(stream);
    test_stage_close(&stage);
}

/* So much in a tick is told by all together, and who came first is through first. */
TEST(several_tell_one_after_another)
{
    test_stage_options options = in_steps();
    hearth_request requests[3];
    test_reply *replies[3];
    test_stage stage;

    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 3; i++) {
        requests[i] = test_request(text + 300 * i, 250, 3);
        requests[i].echo = true;
        replies[i] = submit(&stage, &requests[i]);
    }
    for (unsigned n = 1; n <= 7; n++) {
        size_t n_streamed = 0;

        (void)test_stage_tick(&stage);
        for (unsigned i = 0; i < 3; i++) {
            size_t n_before = STEP * n > 250 * i ? STEP * n - 250 * i : 0;
            size_t n_own = n_before < 250 ? n_before : 250;

            assert_in_range(replies[i]->n_streamed, n_own, n_own == 250 ? 253 : n_own);
            n_streamed += n_own;
        }
        assert_int_equal(n_streamed, STEP * n);
    }
    test_stage_run(&stage);
    for (unsigned i = 0; i < 3; i++) {
        expect_as_alone(&stage, replies[i], &requests[i]);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

TEST(who_is_cancelled_while_it_tells_tells_no_more)
{
    test_stage_options options = in_steps();
    hearth_request request = test_request(text, 1000, 5);
    test_reply *reply;
    test_stage stage;

    request.echo = true;
    test_stage_open(&stage, &options);
    reply = submit(&stage, &request);
    for (unsigned i = 0; i < 4; i++)
        (void)test_stage_tick(&stage);
    assert_int_equal(reply->n_streamed, 4 * STEP);
    test_stage_cancel(&stage, reply);
    (void)test_stage_tick(&stage);
    expect_ended(reply, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
    assert_int_equal(reply->result->n_bytes, 4 * STEP);
    assert_int_equal(stage.watch.n_rows, 0);
    test_reply_free(reply);
    test_stage_close(&stage);
}

/* A reader that pauses gets no more text, be it an echo or a replayed reply; the tick has nothing to do meanwhile. */
TEST(who_is_paused_while_it_tells_tells_no_more)
{
    test_stage_options options = in_steps();
    hearth_request echoing = test_request(text, 1000, 500), replayed;
    test_reply *first, *second;
    test_stage stage;

    echoing.echo = true;
    test_stage_open(&stage, &options);
    first = submit(&stage, &echoing);
    test_stage_run(&stage);
    replayed = echoing;
    replayed.replayed = first->result->tokens;
    replayed.n_replayed = 450;
    replayed.tell_replayed = true;
    for (unsigned is_replay = 0; is_replay < 2; is_replay++) {
        second = submit(&stage, is_replay ? &replayed : &echoing);
        for (unsigned i = 0; i < 4; i++)
            assert_true(test_stage_tick(&stage));
        atomic_store(&second->request->paused, true);
        for (unsigned i = 0; i < 4; i++)
            assert_false(test_stage_tick(&stage));
        assert_int_equal(second->n_streamed, 4 * STEP);
        atomic_store(&second->request->paused, false);
        test_stage_run(&stage);
        assert_string_equal(second->streamed, first->streamed);
        test_reply_free(second);
    }
    test_reply_free(first);
    test_stage_close(&stage);
}

/* Who is paused before its prompt was told holds a promise of cells, and no cells. The promise goes to who runs. */
TEST(who_is_paused_while_it_tells_makes_room_for_one_that_is_short_of_cells)
{
    test_stage_options options = in_steps();
    hearth_request requests[2] = { test_request(text, 1000, 200), test_request(text, 100, -1) };
    test_reply *replies[2];
    test_stage stage;
    bool busy = true;

    requests[0].echo = true;
    options.ram_bytes = 64 << 20;
    options.n_ctx = 1900;
    test_stage_open(&stage, &options);
    replies[0] = submit(&stage, &requests[0]);
    for (unsigned i = 0; i < 4; i++)
        assert_true(test_stage_tick(&stage));
    atomic_store(&replies[0]->request->paused, true);
    replies[1] = submit(&stage, &requests[1]);
    for (unsigned i = 0; i < 5000 && busy; i++)
        busy = test_stage_tick(&stage);
    assert_false(busy);
    expect_ended(replies[1], HEARTH_OK, HEARTH_FINISH_LENGTH);
    assert_int_equal(replies[1]->result->stats->completion_tokens, options.n_ctx - 100 + 1); /* the last has no cell */
    assert_int_equal(stage.n_open, 1);
    atomic_store(&replies[0]->request->paused, false);
    test_stage_run(&stage);
    expect_ended(replies[0], HEARTH_OK, HEARTH_FINISH_LENGTH);
    for (unsigned i = 0; i < 2; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
}

TEST(characters_are_told_whole_and_a_prompt_without_a_reply_to_its_end)
{
    static const char utf8[] = "aé€\U0001F600, ähnlich — und";
    test_stage_options options = in_steps();
    hearth_token tokens[sizeof(utf8)];
    hearth_request request;
    test_stage stage;

    for (size_t i = 0; i < sizeof(utf8) - 1; i++)
        tokens[i] = (unsigned char)utf8[i];
    request = test_request(tokens, sizeof(utf8) - 1, 4);
    request.echo = true;
    for (uint32_t step = 1; step < 5; step++)
        for (unsigned only_read = 0; only_read < 2; only_read++) {
            test_reply *reply;

            options.n_tell = step;
            request.prefill_only = only_read;
            test_stage_open(&stage, &options);
            reply = submit(&stage, &request);
            test_stage_run(&stage);
            expect_as_alone(&stage, reply, &request);
            assert_memory_equal(reply->result->text, utf8, sizeof(utf8) - 1);
            test_reply_free(reply);
            test_stage_close(&stage);
        }
}

/* It has told a part when somebody more important comes, and goes on with the rest. */
TEST(who_makes_room_while_it_tells_goes_on_where_it_was)
{
    test_stage_options options = in_steps();
    hearth_request low = test_request(text, 1000, 5), high = test_request(other, 100, 5);
    test_reply *one, *two;
    test_stage stage;

    options.n_parallel = 1;
    low.echo = true;
    high.priority = 1;
    test_stage_open(&stage, &options);
    one = submit(&stage, &low);
    for (unsigned i = 0; i < 3; i++)
        (void)test_stage_tick(&stage);
    two = submit(&stage, &high);
    test_stage_run_until(&stage, two, 1);
    assert_in_range(one->n_streamed, 3 * STEP, 4 * STEP);
    test_stage_run(&stage);
    assert_int_equal(one->result->stats->n_preempted, 1);
    expect_as_alone(&stage, one, &low);
    expect_as_alone(&stage, two, &high);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

GROUP(with_texts, make_texts, NULL)
