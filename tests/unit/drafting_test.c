/*
 * drafting_test.c - drafts make fewer evaluations and no difference: tick by tick on the stub engine
 *
 * A request that expects the right reply has drafts that are right. The stub's logits depend on all tokens of a
 * sequence, so a cell of a wrong token would change the rest of a reply.
 */
#include <string.h>

#include "stub/backend.h"
#include "support/scene.h"

enum { PROMPT = 100, REPLY = 61 };

/* The reply to text [n_prompt]. */
static void reply_of(const test_stage *stage, uint32_t n_prompt, hearth_token *out, uint32_t n)
{
    hearth_request request = test_request(text, n_prompt, (int32_t)n);

    test_solo_chain(hth_backend_stub(), stage->engine_model, text, n_prompt, request.sampling, n, 64, out);
}

static hearth_request expecting(const hearth_token *draft, size_t n_draft, uint32_t n_prompt, int32_t n_predict)
{
    hearth_request request = test_request(text, n_prompt, n_predict);

    request.draft_tokens = draft;
    request.n_draft_tokens = n_draft;
    return request;
}

/* An evaluation takes a millisecond, however many rows it has. */
static void open_stage(test_stage *stage, const test_stage_options *options)
{
    test_stage_open(stage, options);
    stage->watch.decode_ns = 1000000;
}

TEST(an_expected_reply_takes_few_evaluations)
{
    hearth_token chain[REPLY] = { 0 };
    hearth_request request = expecting(chain, REPLY, PROMPT, REPLY);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, NULL);
    reply_of(&stage, PROMPT, chain, REPLY);
    reply = run_as_alone(&stage, &request);
    assert_true(reply->result->stats->n_decode_evaluations <= 1 + (REPLY - 1) / (HEARTH_DRAFT_MAX + 1));
    assert_int_equal(reply->result->stats->draft_tokens, REPLY - 1 - reply->result->stats->n_decode_evaluations);
    assert_int_equal(reply->result->stats->draft_accepted_tokens, reply->result->stats->draft_tokens);
    assert_int_equal(stage.watch.n_rows, PROMPT + REPLY - 1);
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(a_wrong_token_ends_a_draft_and_the_reply_stays_the_same)
{
    hearth_token chain[REPLY] = { 0 }, draft[REPLY] = { 0 };
    hearth_request request = expecting(draft, REPLY, PROMPT, REPLY);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, NULL);
    reply_of(&stage, PROMPT, chain, REPLY);
    memcpy(draft, chain, sizeof(draft));
    draft[5] = draft[5] == 'a' ? 'b' : 'a';
    reply = run_as_alone(&stage, &request);
    assert_true(reply->result->stats->draft_accepted_tokens < reply->result->stats->draft_tokens);
    assert_true(reply->result->stats->n_decode_evaluations < REPLY / 2); /* behind it, the draft is right again */
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(drafts_are_as_long_as_the_request_allows)
{
    hearth_token chain[REPLY] = { 0 };
    hearth_request request = expecting(chain, REPLY, PROMPT, REPLY);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, NULL);
    reply_of(&stage, PROMPT, chain, REPLY);
    request.draft_max = 2;
    reply = run_as_alone(&stage, &request);
    assert_int_equal(reply->result->stats->n_decode_evaluations, 1 + (REPLY - 1) / 3); /* the first one is measured */
    test_reply_free(reply);
    request.draft_max = 0;
    reply = run_as_alone(&stage, &request);
    assert_int_equal(reply->result->stats->n_decode_evaluations, REPLY - 1);
    assert_int_equal(reply->result->stats->draft_tokens, 0);
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(a_stop_text_inside_a_draft_ends_the_reply_there)
{
    hearth_token chain[REPLY] = { 0 };
    char stop[3] = { 0 };
    const char *const stops[] = { stop };
    hearth_request request = expecting(chain, REPLY, PROMPT, REPLY);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, NULL);
    reply_of(&stage, PROMPT, chain, REPLY);
    stop[0] = (char)chain[20], stop[1] = (char)chain[21];
    request.stop = stops;
    request.n_stop = 1;
    reply = run_as_alone(&stage, &request);
    assert_int_equal(reply->result->finish_reason, HEARTH_FINISH_STOP);
    assert_true(reply->result->stats->draft_accepted_tokens > 0);
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(a_reader_that_pauses_inside_a_draft_gets_the_rest_later)
{
    hearth_token chain[REPLY] = { 0 };
    hearth_request request = expecting(chain, REPLY, PROMPT, REPLY);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, NULL);
    reply_of(&stage, PROMPT, chain, REPLY);
    reply = submit(&stage, &request);
    test_stage_run_until(&stage, reply, 2);
    atomic_store(&reply->request->paused, true);
    for (unsigned i = 0; i < 4; i++)
        (void)test_stage_tick(&stage);
    assert_int_equal(reply->n_done, 0);
    atomic_store(&reply->request->paused, false);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(rows_of_wrong_tokens_are_never_kept)
{
    test_stage_options options = with_cache();
    hearth_token chain[400] = { 0 }, draft[400] = { 0 }, more[PROMPT + 400 + 1];
    hearth_request first = expecting(draft, 400, PROMPT, 400), second;
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, &options);
    reply_of(&stage, PROMPT, chain, 400);
    for (size_t i = 0; i < 400; i++)
        draft[i] = i % 7 == 3 ? (hearth_token)(chain[i] == 'a' ? 'b' : 'a') : chain[i];
    first.draft_max = 6;
    reply = run_as_alone(&stage, &first);
    assert_true(reply->result->stats->draft_accepted_tokens < reply->result->stats->draft_tokens);
    test_reply_free(reply);
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT); /* what follows comes from rows */
    memcpy(more, text, PROMPT * sizeof(*more));
    memcpy(more + PROMPT, chain, 400 * sizeof(*more));
    more[PROMPT + 400] = 'x';
    second = test_request(more, PROMPT + 401, 20);
    reply = run_as_alone(&stage, &second);
    assert_int_equal(reply->result->stats->hit, HEARTH_HIT_PREFIX);
    assert_int_equal(reply->result->stats->cached_tokens, PROMPT + 399); /* also the blocks that ended inside drafts */
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(drafts_end_where_they_cost_more_than_they_give)
{
    hearth_token chain[REPLY] = { 0 }, draft[REPLY] = { 0 };
    hearth_request request = expecting(draft, REPLY, PROMPT, REPLY);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, NULL);
    stage.watch.row_ns = 1000000; /* a row of a draft as much as an evaluation */
    reply_of(&stage, PROMPT, chain, REPLY);
    for (size_t i = 0; i < REPLY; i++)
        draft[i] = i % 5 == 4 ? (hearth_token)(chain[i] == 'a' ? 'b' : 'a') : chain[i];
    reply = run_as_alone(&stage, &request);
    assert_true(reply->result->stats->draft_tokens > 0);
    for (unsigned i = 0; i < 8; i++) {
        test_reply_free(reply);
        reply = run_as_alone(&stage, &request);
    }
    assert_true(reply->result->stats->draft_tokens < 10); /* it is tried again now and then */
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(many_replies_at_once_have_no_drafts)
{
    enum { MANY = 16 };
    test_stage_options options = test_stage_options_default();
    hearth_token chain[REPLY] = { 0 };
    hearth_request request = expecting(chain, REPLY, PROMPT, REPLY);
    test_reply *replies[MANY];
    test_stage stage;

    options.n_parallel = MANY;
    options.n_ctx = MANY * 256;
    open_stage(&stage, &options);
    stage.watch.row_ns = 200000; /* a row of a draft costs a third of a token, alone */
    stage.watch.decode_ns = 400000;
    reply_of(&stage, PROMPT, chain, REPLY);
    replies[0] = run_as_alone(&stage, &request);
    assert_true(replies[0]->result->stats->draft_tokens > REPLY / 2);
    test_reply_free(replies[0]);
    for (unsigned i = 0; i < MANY; i++)
        replies[i] = submit(&stage, &request);
    test_stage_run(&stage);
    for (unsigned i = 0; i < MANY; i++) {
        expect_as_alone(&stage, replies[i], &request);
        assert_int_equal(replies[i]->result->stats->draft_tokens, 0);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

TEST(sequences_that_cannot_be_cut_have_no_drafts)
{
    static const char *const kinds[] = { "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        test_stage_options options = test_stage_options_default();
        hearth_token chain[REPLY] = { 0 };
        hearth_request request = expecting(chain, REPLY, PROMPT, REPLY);
        test_reply *reply;
        test_stage stage;

        options.model = kinds[i];
        open_stage(&stage, &options);
        reply_of(&stage, PROMPT, chain, REPLY);
        reply = run_as_alone(&stage, &request);
        assert_int_equal(reply->result->stats->draft_tokens, 0);
        test_reply_free(reply);
        test_stage_close(&stage);
    }
}

TEST(a_draft_is_verified_up_to_its_first_wrong_token)
{
    hearth_token chain[REPLY] = { 0 }, draft[20] = { 0 };
    hearth_request request = expecting(draft, 20, PROMPT, -1);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, NULL);
    reply_of(&stage, PROMPT, chain, REPLY);
    memcpy(draft, chain, sizeof(draft));
    request.verify = true;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_ended(reply, HEARTH_OK, HEARTH_FINISH_LENGTH);
    assert_int_equal(reply->result->stats->completion_tokens, 21); /* all are right, and one more */
    assert_memory_equal(reply->result->tokens, chain, 21 * sizeof(*chain));
    assert_true(reply->result->stats->n_decode_evaluations <= 3);
    test_reply_free(reply);

    draft[7] = draft[7] == 'a' ? 'b' : 'a';
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    assert_int_equal(reply->result->stats->completion_tokens, 8); /* 7 are right, and the one instead of the eighth */
    assert_memory_equal(reply->result->tokens, chain, 8 * sizeof(*chain));
    test_reply_free(reply);
    test_stage_close(&stage);
}

/* An engine that computes 16 rows at once, and is slow with 13 to 15. Counts full groups. */
static test_decode_answer slow_in_part(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data)
{
    unsigned *n_full = user_data;

    (void)rows;
    watch->decode_ns = n_rows >= 13 && n_rows < 16 ? 3000000 : 1000000;
    *n_full += n_rows == 16;
    return TEST_DECODE_GOES;
}

TEST(a_group_of_rows_is_filled_where_that_saves_time_and_nobody_notices)
{
    enum { MANY = 14 };
    test_stage_options options = with_cache();
    hearth_request request = test_request(text, PROMPT, REPLY), second = test_request(text + 1, PROMPT, REPLY);
    test_reply *replies[MANY];
    unsigned n_full = 0;
    test_stage stage;

    options.n_parallel = MANY;
    options.n_ctx = MANY * 256;
    open_stage(&stage, &options);
    stage.watch.hooks = (test_watch_hooks){ .before_decode = slow_in_part, .user_data = &n_full };
    for (unsigned i = 0; i < MANY; i++)
        replies[i] = submit(&stage, i % 2 == 0 ? &request : &second);
    test_stage_run(&stage);
    assert_true(n_full > REPLY / 2);
    for (unsigned i = 0; i < MANY; i++) {
        expect_as_alone(&stage, replies[i], i % 2 == 0 ? &request : &second);
        test_reply_free(replies[i]);
    }
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT); /* through the same sequence */
    test_reply_free(run_as_alone(&stage, &second));
    test_stage_close(&stage);
}

enum { LEAST = 3 };

/* Rows of a sequence in an evaluation without tokens of prompts: one, or that and at least LEAST more. */
static test_decode_answer no_short_draft(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data)
{
    unsigned n_of[8] = { 0 }, *n_drafts = user_data;

    (void)watch;
    for (size_t i = 0; i < n_rows; i++)
        n_of[rows[i].sequence] += rows[i].position >= PROMPT ? 1 : LEAST + 1;
    for (unsigned i = 0; i < 8; i++) {
        assert_true(n_of[i] <= 1 || n_of[i] > LEAST);
        *n_drafts += n_of[i] > LEAST;
    }
    return TEST_DECODE_GOES;
}

TEST(no_draft_is_shorter_than_the_least_of_its_request)
{
    test_stage_options options = test_stage_options_default();
    hearth_token chain[REPLY] = { 0 }, draft[REPLY] = { 0 };
    hearth_request request = expecting(draft, REPLY, PROMPT, REPLY);
    test_reply *replies[3];
    unsigned n_drafts = 0;
    test_stage stage;

    options.n_parallel = 3;
    open_stage(&stage, &options);
    stage.watch.row_ns = 300000; /* a long draft is not worth it */
    reply_of(&stage, PROMPT, chain, REPLY);
    for (size_t i = 0; i < REPLY; i++)
        draft[i] = i % 8 == 7 ? (hearth_token)(chain[i] == 'a' ? 'b' : 'a') : chain[i];
    request.draft_min = LEAST;
    stage.watch.hooks = (test_watch_hooks){ .before_decode = no_short_draft, .user_data = &n_drafts };
    for (unsigned i = 0; i < 3; i++)
        replies[i] = submit(&stage, &request);
    test_stage_run(&stage);
    assert_true(n_drafts > 10);
    for (unsigned i = 0; i < 3; i++) {
        expect_as_alone(&stage, replies[i], &request);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

static test_decode_answer no_room_for_drafts(test_watch *watch, const hth_batch_row *rows, size_t n_rows,
                                             void *user_data)
{
    (void)watch, (void)user_data;
    return n_rows > 1 && rows[0].wants_logits ? TEST_DECODE_NO_ROOM : TEST_DECODE_GOES;
}

TEST(a_failed_evaluation_is_repeated_without_drafts)
{
    hearth_token chain[REPLY] = { 0 };
    hearth_request request = expecting(chain, REPLY, PROMPT, REPLY);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, NULL);
    reply_of(&stage, PROMPT, chain, REPLY);
    stage.watch.hooks = (test_watch_hooks){ .before_decode = no_room_for_drafts };
    reply = run_as_alone(&stage, &request);
    assert_int_equal(reply->result->stats->draft_tokens, 0);
    assert_int_equal(reply->result->stats->n_decode_evaluations, REPLY - 1);
    test_reply_free(reply);
    test_stage_close(&stage);
}

GROUP(with_texts, make_texts, NULL)
