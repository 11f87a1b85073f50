/*
 * batcher_test.c - each promise of the scheduler by itself: on the stub engine, tick by tick, with a clock of the
 * test's own
 *
 * What a request must answer comes from support/solo.h, which knows no scheduler; how much was computed, and when, from
 * the watch on the engine. Who gets a place is in admission_test.c, whose turn it is and for how long in turns_test.c,
 * what a request may ask for in request_options_test.c.
 */
#include <string.h>

#include "support/scene.h"

/* ---- computed once ---- */

enum { AGENTS = 5 };

TEST(requests_at_once_compute_what_they_share_once)
{
    hearth_token *prompts[AGENTS];
    hearth_request requests[AGENTS];
    test_reply *replies[AGENTS];
    test_stage stage;

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
        assert_int_equal(replies[i]->result->stats->shared_tokens, i == 0 ? 0 : 600);
        assert_int_equal(replies[i]->result->stats->cached_tokens, i == 0 ? 0 : 600);
        test_reply_free(replies[i]);
        free(prompts[i]);
    }
    test_stage_close(&stage);
}

/* It has the same bits in chunks. Another model evaluates the reply as it was drawn. */
TEST(a_deterministic_model_reads_a_known_reply_in_chunks)
{
    for (unsigned i = 0; i < 2; i++) {
        test_stage_options options = test_stage_options_default();
        hearth_request whole = test_request(text, 200, 101), rest = whole;
        test_reply *first, *second;
        test_stage stage;
        uint64_t n_decodes;

        options.is_deterministic = i == 1;
        test_stage_open(&stage, &options);
        first = submit(&stage, &whole);
        test_stage_run(&stage);
        rest.no_cache_read = true;
        rest.replayed = first->result->tokens;
        rest.n_replayed = 100;
        n_decodes = stage.watch.n_decodes;
        second = submit(&stage, &rest);
        test_stage_run(&stage);
        assert_int_equal(stage.watch.n_decodes - n_decodes, i == 1 ? 3 : 101); /* to 200, 256 and 300 */
        expect_as_alone(&stage, second, &whole);
        test_reply_free(first);
        test_reply_free(second);
        test_stage_close(&stage);
    }
}

TEST(another_takes_over_when_the_first_is_cancelled_half_way)
{
    test_stage_options options = test_stage_options_default();
    hearth_token *prompts[3];
    hearth_request requests[3];
    test_reply *replies[3];
    test_stage stage;

    options.n_batch = 64;
    test_stage_open(&stage, &options);
    for (unsigned i = 0; i < 3; i++) {
        prompts[i] = prompt_of(600, 20, i);
        requests[i] = test_request(prompts[i], 620, 3);
        replies[i] = submit(&stage, &requests[i]);
    }
    while (stage.watch.n_rows < 256)
        (void)test_stage_tick(&stage);
    test_stage_cancel(&stage, replies[0]);
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

TEST(replies_to_one_prompt_share_it_and_its_logits)
{
    for (unsigned cached = 0; cached < 2; cached++) {
        test_stage_options options = cached ? with_cache() : test_stage_options_default();
        hearth_sampling samplings[AGENTS];
        hearth_request requests[AGENTS];
        test_reply *replies[AGENTS];
        test_stage stage;

        test_stage_open(&stage, &options);
        for (unsigned i = 0; i < AGENTS; i++) {
            requests[i] = test_request(text, 300, 4);
            samplings[i] = hearth_sampling_default();
            samplings[i].temperature = 1;
            samplings[i].seed = 7 + i;
            requests[i].sampling = &samplings[i];
            replies[i] = submit(&stage, &requests[i]);
        }
        test_stage_run(&stage);
        assert_int_equal(stage.watch.n_rows, 300 + AGENTS * 3); /* nobody evaluates the last token again */
        for (unsigned i = 0; i < AGENTS; i++) {
            expect_as_alone(&stage, replies[i], &requests[i]);
            if (i > 0)
                assert_int_equal(replies[i]->result->stats->hit, HEARTH_HIT_EXACT);
            test_reply_free(replies[i]);
        }
        test_stage_close(&stage);
    }
}

TEST(what_has_ended_is_shared_from_while_it_is_there)
{
    hearth_token *prompt = prompt_of(333, 10, 1);
    hearth_request first = test_request(text, 400, 5), second = test_request(prompt, 343, 5);
    test_reply *one, *two;
    test_stage stage;

    test_stage_open(&stage, NULL);
    one = submit(&stage, &first);
    test_stage_run(&stage);
    stage.watch.n_rows = 0;
    two = submit(&stage, &second);
    test_stage_run(&stage);
    expect_as_alone(&stage, two, &second);
    assert_int_equal(two->result->stats->shared_tokens, 333); /* to the token */
    assert_int_equal(two->result->stats->hit, HEARTH_HIT_LIVE);
    assert_int_equal(stage.watch.n_rows, 10 + 4);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
    free(prompt);
}

TEST(tenants_share_nothing)
{
    hearth_request request = test_request(text, 300, 3);
    test_stage_options options = with_cache();
    test_reply *replies[3];
    test_stage stage;

    test_stage_open(&stage, &options);
    replies[0] = test_stage_submit(&stage, &request, "one", NULL);
    replies[1] = test_stage_submit(&stage, &request, "two", NULL);
    replies[2] = test_stage_submit(&stage, &request, NULL, NULL);
    test_stage_run(&stage);
    assert_int_equal(stage.watch.n_rows, 3 * (300 + 2));
    for (unsigned i = 0; i < 3; i++) {
        expect_as_alone(&stage, replies[i], &request);
        assert_int_equal(replies[i]->result->stats->cached_tokens, 0);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

/* Where the end of a sequence was, logits of that end were kept: other tokens of the same number have none of it. */
TEST(logits_of_other_tokens_are_never_drawn_from)
{
    test_stage_options options = test_stage_options_default();
    hearth_request short_one = test_request(other, 12, 1), longer = test_request(text, 30, 1),
                   beginning = test_request(text, 12, 5);
    test_reply *replies[3];
    test_stage stage;

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
    memcpy(t->tokens + t->n, reply->result->tokens, reply->result->stats->completion_tokens * sizeof(hearth_token));
    t->n += reply->result->stats->completion_tokens;
}

TEST(a_session_goes_on_in_place_whatever_came_between)
{
    test_stage_options options = test_stage_options_default();
    talk *t = calloc(1, sizeof(*t));
    test_stage stage;

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
        assert_int_equal(reply->result->stats->shared_tokens,
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

TEST(a_session_that_ended_or_expired_is_an_ordinary_sequence)
{
    test_stage_options options = with_cache();
    talk *t = calloc(1, sizeof(*t));
    const hth_keyspace *tenant;
    hearth_request request;
    test_reply *reply;
    test_stage stage;

    options.session_idle_ms = 50;
    test_stage_open(&stage, &options);
    tenant = &stage.place.keyspace;
    assert_false(hth_batcher_end_session(stage.batcher, tenant, "a talk"));
    request = turn_of(t, 100);
    reply = submit(&stage, &request);
    (void)test_stage_tick(&stage);
    assert_false(hth_batcher_end_session(stage.batcher, tenant, "a talk")); /* it runs */
    test_stage_run(&stage);
    hear(t, reply);
    test_reply_free(reply);
    assert_false(hth_batcher_end_session(stage.batcher, tenant, "another"));
    assert_true(hth_batcher_end_session(stage.batcher, tenant, "a talk"));
    assert_false(hth_batcher_end_session(stage.batcher, tenant, "a talk"));
    (void)test_stage_tick(&stage);
    assert_int_equal(hth_batcher_wake_ns(stage.batcher), UINT64_MAX);
    assert_true(test_watch_n_used(&stage.watch) > 0);

    request = turn_of(t, 20); /* from what is left in the context */
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_true(reply->result->stats->shared_tokens > 100);
    hear(t, reply);
    test_reply_free(reply);
    assert_int_equal(hth_batcher_wake_ns(stage.batcher), stage.now_ns + 50000000u); /* at once, with no tick more */
    test_stage_pass(&stage, 50);
    (void)test_stage_tick(&stage);
    assert_false(hth_batcher_end_session(stage.batcher, tenant, "a talk"));

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
TEST(a_session_that_is_cancelled_while_it_waits_expires)
{
    test_stage_options options = with_cache();
    hearth_request low = test_request(text, 100, 40), high = test_request(other, 100, 10);
    test_reply *one, *two;
    test_stage stage;

    options.n_parallel = 1;
    options.session_idle_ms = 50;
    low.session_id = "a talk";
    high.priority = 1;
    test_stage_open(&stage, &options);
    one = submit(&stage, &low);
    test_stage_run_until(&stage, one, 5);
    two = submit(&stage, &high);
    test_stage_run_until(&stage, two, 1);
    test_stage_cancel(&stage, one);
    (void)test_stage_tick(&stage);
    expect_ended(one, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
    assert_int_equal(hth_batcher_wake_ns(stage.batcher), stage.now_ns + 50000000u);
    test_stage_run(&stage);
    test_stage_pass(&stage, 50);
    (void)test_stage_tick(&stage);
    assert_false(hth_batcher_end_session(stage.batcher, &stage.place.keyspace, "a talk"));
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&stage);
}

TEST(a_finish_key_is_a_parent)
{
    talk *t = calloc(1, sizeof(*t));
    test_stage_options options = with_cache();
    hearth_request request;
    uint8_t key[32];
    test_reply *reply;
    test_stage stage;
    uint32_t n_parent;

    test_stage_open(&stage, &options);
    request = turn_of(t, 100);
    request.session_id = NULL;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    hear(t, reply);
    n_parent = reply->result->stats->finish_tokens;
    assert_int_equal(n_parent, 109);
    memcpy(key, reply->result->stats->finish_key, sizeof(key));
    test_reply_free(reply);
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT);
    request = turn_of(t, 20);
    request.session_id = NULL;
    request.parent_key = key;
    reply = submit(&stage, &request);
    reply->request->n_parent = n_parent;
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_int_equal(reply->result->stats->hit, HEARTH_HIT_RESUME);
    assert_int_equal(reply->result->stats->cached_tokens, n_parent);
    test_reply_free(reply);
    test_stage_close(&stage);
    free(t);
}

TEST(a_parent_that_nobody_writes_is_waited_for_a_moment_only)
{
    test_stage_options options = with_cache();
    char *directory = hth_test_directory_new();
    hearth_request request = test_request(text, 100, 5), beside = test_request(other, 100, 5);
    static const uint8_t key[32] = { 1 };
    test_reply *reply, *another;
    uint64_t begin_ns;
    test_stage stage;

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

/* Idle cells after a prompt of 256 tokens, at so many microseconds a row, was read beside 1,000 of them. */
static uint32_t idle_cells_left(uint64_t row_us, uint32_t row_ps, uint32_t cells_max)
{
    test_stage_options options = with_cache();
    test_reply *replies[11];
    hearth_request request;
    uint32_t n_used;
    test_stage stage;

    options.idle_cost = (hth_idle_cost){ .row_ps = row_ps, .sequence_ps = row_ps, .cells_max = cells_max };
    test_stage_open(&stage, &options);
    stage.watch.row_ns = row_us * 1000;
    for (uint32_t i = 0; i < 10; i++) {
        hearth_token *prompt = prompt_of(0, 100, i);

        request = test_request(prompt, 100, 1);
        replies[i] = submit(&stage, &request);
        test_stage_run(&stage);
        free(prompt);
    }
    request = test_request(text, 256, 1);
    replies[10] = submit(&stage, &request);
    test_stage_run(&stage);
    n_used = test_watch_n_used(&stage.watch);
    for (size_t i = 0; i < 11; i++)
        test_reply_free(replies[i]);
    test_stage_close(&stage);
    return n_used - 256;
}

TEST(idle_cells_cost_an_evaluation_a_fiftieth_of_its_time_at_most)
{
    assert_int_equal(idle_cells_left(100, 0, UINT32_MAX), 1000);
    assert_int_equal(idle_cells_left(100, 0, 1000), 1000);
    assert_int_equal(idle_cells_left(100, 0, 350), 200); /* all go where there would be too many */
    assert_int_equal(idle_cells_left(100, 0, 0), 0);
    /* 100 rows at 100 us, a fiftieth of which 1,000 cells may cost: 200 us, of 101 rows' and sequences' shares. */
    assert_int_equal(idle_cells_left(100, 1980, UINT32_MAX), 1000);
    assert_int_equal(idle_cells_left(100, 2180, UINT32_MAX), 0);
    assert_int_equal(idle_cells_left(200, 3900, UINT32_MAX), 1000);
    assert_int_equal(idle_cells_left(1, 4000, UINT32_MAX), 0);
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
    p.stream = hth_sequence_id(stage.batcher->running[0]->entry->sequence);
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

TEST(while_somebody_streams_an_evaluation_is_as_long_as_a_tick_may_be)
{
    static const char *const names[] = { "decode_maximal", "prefill_priority", "balanced" };

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(most_rows_beside_a_stream(names[i], 1000, 100), 64 + 1);  /* 90 rows would be in time */
        assert_int_equal(most_rows_beside_a_stream(names[i], 1000, 1), 64 + 1);    /* the smallest chunk */
        assert_int_equal(most_rows_beside_a_stream(names[i], 1000, 250), 128 + 1); /* 225 would be */
    }
    assert_in_range(most_rows_beside_a_stream("decode_maximal", 1, 250), 257, 512); /* there is time for a full batch */
}

TEST(no_reply_starves_behind_a_long_prompt)
{
    static const char *const names[] = { "decode_maximal", "prefill_priority", "balanced" };

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
            test_stage_cancel(&stage, streams[i]);
        }
        test_stage_run(&stage);
        for (unsigned i = 0; i < 5; i++)
            test_reply_free(streams[i]);
        test_reply_free(reader);
        test_stage_close(&stage);
    }
}

TEST(every_strategy_gives_the_same_replies)
{
    static const char *const names[] = { "decode_maximal", "prefill_priority", "balanced" };

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
    hearth_token poison; /* evaluations with this token get the answer; 0: every one */
    unsigned n_left;     /* so many */
    test_stage *stage;
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
        test_stage_cancel(t->stage, *reply);
    return t->answer;
}

TEST(one_bad_request_fails_and_the_others_do_not_notice)
{
    static const char *const models[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };
    static const test_decode_answer answers[] = { TEST_DECODE_FAILS, TEST_DECODE_FAILS_INSIDE };

    for (size_t m = 0; m < 4; m++)
        for (size_t a = 0; a < 2; a++) {
            test_stage_options options = with_cache();
            hearth_sampling samplings[4];
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
                samplings[i] = hearth_sampling_default();
                samplings[i].temperature = 0.5f; /* no reply says '!' */
                samplings[i].seed = i;
                requests[i].sampling = &samplings[i];
                replies[i] = submit(&stage, &requests[i]);
            }
            test_stage_run(&stage);
            other[150] = 'a';
            for (unsigned i = 0; i < 4; i++) {
                if (i == 2) {
                    expect_ended(replies[i], HEARTH_ENGINE, HEARTH_FINISH_NONE);
                    assert_non_null(strstr(replies[i]->result->error.message, "fail"));
                } else if (!memchr(replies[i]->result->text, '!', replies[i]->result->n_bytes)) {
                    expect_as_alone(&stage, replies[i], &requests[i]);
                }
                test_reply_free(replies[i]);
            }
            test_stage_close(&stage);
        }
}

TEST(a_failure_that_passes_hits_nobody)
{
    static const test_decode_answer answers[] = { TEST_DECODE_FAILS, TEST_DECODE_FAILS_INSIDE, TEST_DECODE_NO_ROOM };
    static const char *const models[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };

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

TEST(an_evaluation_that_everybody_cancelled_is_broken_off)
{
    hearth_request requests[2] = { test_request(text, 200, 20), test_request(other, 200, 20) };
    test_reply *replies[3] = { NULL };
    test_stage stage;
    trouble t = { .answer = TEST_DECODE_ABORTS, .n_left = 1, .stage = &stage, .cancels = replies };

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

TEST(the_engine_is_told_when_everybody_in_the_batch_has_cancelled)
{
    hth_pulse pulse = { .n = 0 };
    atomic_bool cancelled[2] = { false, false };

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

TEST(a_save_while_requests_run_changes_nothing_for_them)
{
    static const char *const models[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };

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

GROUP(with_texts, make_texts, NULL)
