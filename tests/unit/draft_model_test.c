/*
 * draft_model_test.c - a draft model makes fewer evaluations and no difference: tick by tick on the stub engine
 *
 * A draft model of the stub is the same model, or one that errs in some of its tokens. An evaluation of the target
 * takes a millisecond of the test's clock, so that its cost is known.
 */
#include "cache/why.h"
#include "sched/sequence.h"
#include "support/scene.h"

enum { PROMPT = 100, REPLY = 61 };

static test_stage_options with_draft_model(const char *draft_model)
{
    test_stage_options options = test_stage_options_default();

    options.draft_model = draft_model;
    return options;
}

static void open_stage(test_stage *stage, const test_stage_options *options)
{
    test_stage_open(stage, options);
    stage->watch.decode_ns = 1000000;
    stage->draft_watch.decode_ns = 50000;
}

static hearth_request drafting(const hearth_token *prompt, size_t n_prompt, int32_t n_predict)
{
    hearth_request request = test_request(prompt, n_prompt, n_predict);

    request.draft_max = HEARTH_DRAFT_MAX;
    return request;
}

TEST(a_draft_model_that_is_the_target_is_always_right)
{
    test_stage_options options = with_draft_model("stub:");
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request request = drafting(text, PROMPT, REPLY);
    test_stage stage;

    open_stage(&stage, &options);
    sampling.seed = 7;
    for (unsigned i = 0; i < 2; i++) {
        test_reply *reply = run_as_alone(&stage, &request);

        assert_true(reply->result->stats->draft_tokens > REPLY / 2);
        assert_int_equal(reply->result->stats->draft_accepted_tokens, reply->result->stats->draft_tokens);
        assert_true(reply->result->stats->n_decode_evaluations < REPLY / 2);
        test_reply_free(reply);
        request.sampling = &sampling; /* draws with the same numbers, so it is right again */
        request.n_tokens = PROMPT - 1;
    }
    test_stage_close(&stage);
}

TEST(a_draft_model_that_errs_is_right_in_part)
{
    test_stage_options options = with_draft_model("stub:errs=4");
    hearth_request request = drafting(text, PROMPT, 400);
    test_reply *reply;
    test_stage stage;
    uint64_t begin_ns;

    open_stage(&stage, &options);
    begin_ns = stage.now_ns;
    reply = run_as_alone(&stage, &request);
    assert_true(reply->result->stats->draft_accepted_tokens > 100);
    assert_true(reply->result->stats->draft_accepted_tokens < reply->result->stats->draft_tokens);
    assert_true(stage.now_ns - begin_ns < 400 * stage.watch.decode_ns / 2); /* with the time of its guesses */
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(all_replies_are_drafted_together)
{
    enum { MANY = 3 };
    test_stage_options options = with_draft_model("stub:");
    hearth_request requests[MANY];
    test_reply *replies[MANY];
    test_stage stage;
    uint64_t n_steps;

    open_stage(&stage, &options);
    requests[0] = drafting(text, PROMPT / 2, REPLY);
    test_reply_free(run_as_alone(&stage, &requests[0])); /* measures what a row costs */
    n_steps = stage.draft_watch.n_decodes;
    for (unsigned i = 0; i < MANY; i++) {
        requests[i] = drafting(i % 2 ? other : text, PROMPT + i, REPLY);
        replies[i] = submit(&stage, &requests[i]);
    }
    test_stage_run(&stage);
    n_steps = stage.draft_watch.n_decodes - n_steps;
    for (unsigned i = 0; i < MANY; i++) {
        expect_as_alone(&stage, replies[i], &requests[i]);
        assert_true(replies[i]->result->stats->draft_accepted_tokens > REPLY / 2);
        test_reply_free(replies[i]);
    }
    assert_true(n_steps < 2 * REPLY); /* not three times as many */
    test_stage_close(&stage);
}

TEST(a_reply_that_outgrows_the_draft_model_makes_room_for_others)
{
    test_stage_options options = with_draft_model("stub:");
    hearth_request long_one = drafting(text, 2 * PROMPT, 200), short_one = drafting(other, PROMPT / 2, 120);
    test_reply *first, *second;
    test_stage stage;

    options.draft_n_ctx = 256;
    open_stage(&stage, &options);
    first = submit(&stage, &long_one);
    second = submit(&stage, &short_one);
    test_stage_run(&stage);
    expect_as_alone(&stage, first, &long_one);
    expect_as_alone(&stage, second, &short_one);
    assert_true(first->result->stats->draft_tokens > 0);
    assert_true(second->result->stats->draft_accepted_tokens > 30);
    test_reply_free(first);
    test_reply_free(second);
    test_stage_close(&stage);
}

TEST(replies_to_one_prompt_share_its_evaluation)
{
    enum { MANY = 3, LONG = 600 };
    test_stage_options options = with_draft_model("stub:");
    hearth_request request = drafting(text, LONG, REPLY), first = drafting(other, PROMPT / 2, REPLY);
    test_reply *replies[MANY];
    test_stage stage;
    uint64_t n_rows;

    open_stage(&stage, &options);
    test_reply_free(run_as_alone(&stage, &first)); /* measures what a row costs */
    n_rows = stage.draft_watch.n_rows;
    for (unsigned i = 0; i < MANY; i++)
        replies[i] = submit(&stage, &request);
    test_stage_run(&stage);
    assert_true(stage.draft_watch.n_rows - n_rows < 2 * LONG);
    for (unsigned i = 0; i < MANY; i++) {
        expect_as_alone(&stage, replies[i], &request);
        assert_true(replies[i]->result->stats->draft_tokens > 0);
        test_reply_free(replies[i]);
    }
    test_stage_close(&stage);
}

/* The rows that the draft model evaluates for a request. */
static uint64_t n_draft_rows(test_stage *stage, const hearth_request *request)
{
    uint64_t n_before = stage->draft_watch.n_rows;

    test_reply_free(run_as_alone(stage, request));
    return stage->draft_watch.n_rows - n_before;
}

TEST(a_prompt_that_is_warm_is_warm_for_the_draft_model_too)
{
    test_stage_options options = with_draft_model("stub:errs=5");
    hearth_token changed[1000];
    hearth_request request = drafting(text, 1000, 40), beginning = drafting(changed, 1000, 40);
    test_stage stage;
    uint64_t n_cold, n_warm;

    options.ram_bytes = 64 << 20;
    open_stage(&stage, &options);
    n_cold = n_draft_rows(&stage, &request);
    assert_true(n_cold > 1000);
    n_warm = n_draft_rows(&stage, &request); /* from the cells of the first */
    assert_true(n_warm < 200);
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT);
    assert_int_equal(test_watch_n_used(&stage.draft_watch), 0);
    n_warm = n_draft_rows(&stage, &request); /* from rows */
    assert_true(n_warm < 200);
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT);
    memcpy(changed, text, sizeof(changed));
    changed[700] = 'X';
    n_warm = n_draft_rows(&stage, &beginning);
    assert_true(n_warm < 1000 - 512 + 200); /* a part from rows */
    test_stage_close(&stage);
}

TEST(rows_of_the_draft_model_have_true_tokens_only)
{
    test_stage_options options = with_draft_model("stub:errs=3");
    hearth_request first = drafting(text, PROMPT, 700), second;
    hearth_token more[PROMPT + 700];
    test_reply *reply;
    test_stage stage;

    options.ram_bytes = 64 << 20;
    open_stage(&stage, &options);
    reply = run_as_alone(&stage, &first);
    assert_true(reply->result->stats->draft_accepted_tokens < reply->result->stats->draft_tokens);
    memcpy(more, text, PROMPT * sizeof(*more));
    memcpy(more + PROMPT, reply->result->tokens, 700 * sizeof(*more));
    test_reply_free(reply);
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT); /* what follows comes from rows */
    second = drafting(more, PROMPT + 700, 40);
    assert_true(n_draft_rows(&stage, &second) < 300); /* also the blocks that ended inside guesses */
    test_stage_close(&stage);
}

/* So is one that was put aside and has lost its cells. */
TEST(a_reply_that_goes_on_elsewhere_is_warm_for_the_draft_model_up_to_its_last_token)
{
    test_stage_options options = with_draft_model("stub:errs=5");
    hearth_request first = drafting(text, PROMPT, 700), second = drafting(text, PROMPT, 740);
    test_reply *reply;
    test_stage stage;

    options.ram_bytes = 64 << 20;
    open_stage(&stage, &options);
    reply = run_as_alone(&stage, &first);
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT);
    second.replayed = reply->result->tokens;
    second.n_replayed = 700;
    assert_true(n_draft_rows(&stage, &second) < 200);
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(requests_of_other_salts_share_no_rows_of_the_draft_model)
{
    test_stage_options options = with_draft_model("stub:");
    hearth_request request = drafting(text, 600, 20);
    hearth_error err;
    test_reply *reply;
    test_stage stage;
    uint64_t n_rows;

    options.ram_bytes = 64 << 20;
    open_stage(&stage, &options);
    test_reply_free(run_as_alone(&stage, &request));
    n_rows = stage.draft_watch.n_rows;
    reply = test_stage_submit(&stage, &request, "another", &err);
    assert_non_null(reply);
    test_stage_run(&stage);
    assert_true(stage.draft_watch.n_rows - n_rows >= 600);
    test_reply_free(reply);
    test_stage_close(&stage);
}

/* The same file as a target cannot use them under any salt, so an explanation does not name one. */
TEST(rows_of_the_draft_model_belong_to_no_tenant)
{
    test_stage_options options = with_draft_model("stub:errs=3");
    hearth_request request = drafting(text, 600, 40);
    hth_keyspace *as_target;
    hth_why_answer answer;
    hth_lookup lookup;
    test_stage stage;

    options.ram_bytes = 64 << 20;
    open_stage(&stage, &options);
    as_target = &stage.draft_place.keyspace;
    hth_keyspace_set_fingerprint(as_target, as_target->fingerprint); /* its tenant is known */
    assert_true(n_draft_rows(&stage, &request) > 600);
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT);
    assert_int_equal(hth_prompt_lookup(&stage.draft_place, as_target, text, 600, true, &lookup, NULL), HEARTH_OK);
    hth_why_of_all(stage.cache, as_target, &lookup, &stage.draft_place.policy, text, 600, 0, &answer);
    assert_int_equal(answer.miss, HEARTH_MISS_NEVER_SEEN);
    hth_lookup_deinit(&lookup);
    test_stage_close(&stage);
}

TEST(a_draft_model_that_costs_too_much_is_hardly_asked)
{
    test_stage_options options = with_draft_model("stub:");
    hearth_request request = drafting(text, PROMPT, 400);
    test_reply *reply;
    test_stage stage;

    test_stage_open(&stage, &options);
    stage.watch.decode_ns = 1000000;
    stage.draft_watch.decode_ns = 1200000;
    reply = run_as_alone(&stage, &request);
    assert_true(reply->result->stats->draft_tokens < 30); /* it is tried again now and then */
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(a_draft_model_that_is_mostly_wrong_is_hardly_asked)
{
    test_stage_options options = with_draft_model("stub:errs=1");
    hearth_request request = drafting(text, PROMPT, 900);
    test_reply *reply;
    test_stage stage;
    uint64_t n_decodes;

    test_stage_open(&stage, &options);
    stage.watch.decode_ns = 1000000;
    stage.draft_watch.decode_ns = 200000;
    reply = run_as_alone(&stage, &request);
    test_reply_free(reply);
    n_decodes = stage.draft_watch.n_decodes;
    reply = run_as_alone(&stage, &request);
    assert_true(reply->result->stats->draft_tokens < 60);
    assert_true(stage.draft_watch.n_decodes - n_decodes < 120);
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(many_replies_at_once_are_not_drafted)
{
    enum { MANY = 16 };
    test_stage_options options = with_draft_model("stub:");
    hearth_request request = drafting(text, PROMPT, REPLY);
    test_reply *replies[MANY];
    test_stage stage;

    options.n_parallel = MANY;
    options.n_ctx = MANY * 256;
    test_stage_open(&stage, &options);
    stage.watch.row_ns = 200000; /* a row of a draft costs a third of a token, alone */
    stage.watch.decode_ns = 400000;
    stage.draft_watch.row_ns = 20000;
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

static test_decode_answer fails(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data)
{
    test_decode_answer *answer = user_data;

    (void)watch, (void)rows, (void)n_rows;
    return *answer;
}

TEST(a_draft_model_that_fails_takes_nothing_with_it)
{
    static test_decode_answer answers[] = { TEST_DECODE_FAILS, TEST_DECODE_FAILS_INSIDE, TEST_DECODE_NO_ROOM };

    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        test_stage_options options = with_draft_model("stub:");
        hearth_request request = drafting(text, PROMPT, REPLY);
        test_reply *reply;
        test_stage stage;

        open_stage(&stage, &options);
        reply = submit(&stage, &request);
        test_stage_run_until(&stage, reply, 30);
        stage.draft_watch.hooks = (test_watch_hooks){ .before_decode = fails, .user_data = &answers[i] };
        test_stage_run(&stage);
        expect_as_alone(&stage, reply, &request);
        test_reply_free(reply);
        test_stage_close(&stage);
    }
}

TEST(a_request_that_turned_drafts_off_has_none)
{
    test_stage_options options = with_draft_model("stub:");
    hearth_request request = drafting(text, PROMPT, REPLY);
    test_reply *reply;
    test_stage stage;

    open_stage(&stage, &options);
    request.draft_max = 0;
    reply = run_as_alone(&stage, &request);
    assert_int_equal(reply->result->stats->draft_tokens, 0);
    assert_int_equal(stage.draft_watch.n_decodes, 0);
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(tokens_that_one_of_both_lacks_are_not_guessed)
{
    static const char *const drafts[] = { "stub:vocab=300", "stub:vocab=260" };

    for (size_t i = 0; i < 2; i++) {
        test_stage_options options = with_draft_model(drafts[i]);
        hearth_request request = drafting(text, PROMPT, 200);
        test_reply *reply;
        test_stage stage;

        options.model = i == 0 ? "stub:vocab=260" : "stub:vocab=300";
        open_stage(&stage, &options);
        reply = run_as_alone(&stage, &request);
        assert_true(reply->result->stats->draft_tokens > 0);
        test_reply_free(reply);
        test_stage_close(&stage);
    }
}

GROUP(with_texts, make_texts, NULL)
