/*
 * request_options_test.c - what a request asks for is what it gets: tick by tick on the stub engine
 */
#include <string.h>

#include "stub/backend.h"
#include "support/scene.h"

TEST(a_prompt_is_read_without_a_reply)
{
    test_stage_options options = with_cache();
    hearth_request warm = test_request(text, 300, 20), use = test_request(text, 300, 20);
    test_reply *reply;
    test_stage stage;

    warm.prefill_only = true;
    test_stage_open(&stage, &options);
    reply = submit(&stage, &warm);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &warm);
    expect_ended(reply, HEARTH_OK, HEARTH_FINISH_LENGTH);
    assert_int_equal(reply->result->stats->completion_tokens, 0);
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
    assert_int_equal(reply->result->stats->hit, HEARTH_HIT_EXACT);
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

TEST(ends_are_forbidden_for_the_first_min_tokens)
{
    hearth_request request = test_request(text, 50, 20);
    test_reply *reply;
    test_stage stage;

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

TEST(a_stop_token_ends_the_reply_and_is_not_shown)
{
    hearth_token chain[20];
    hearth_request request = test_request(text, 50, 20);
    uint32_t first = 0;
    test_reply *reply;
    test_stage stage;

    test_stage_open(&stage, NULL);
    test_solo_chain(hth_backend_stub(), stage.engine_model, text, 50, request.sampling, 20, 64, chain);
    request.stop_tokens = &chain[8];
    request.n_stop_tokens = 1;
    while (chain[first] != chain[8])
        first++;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_int_equal(reply->result->finish_reason, HEARTH_FINISH_STOP);
    assert_int_equal(reply->result->stats->completion_tokens, first + 1);
    assert_int_equal(reply->result->n_bytes, first);
    test_reply_free(reply);
    test_stage_close(&stage);
}

TEST(an_echo_begins_with_the_prompt)
{
    hearth_request request = test_request(text, 50, 10);
    const char stop[] = { (char)text[3], (char)text[4], '\0' };
    const char *const stops[] = { stop };
    test_reply *reply;
    test_stage stage;

    request.echo = true;
    request.stop = stops; /* it stands in the prompt, where it stops nothing */
    request.n_stop = 1;
    test_stage_open(&stage, NULL);
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(reply->result->text[i], text[i]);
    test_reply_free(reply);
    test_stage_close(&stage);
}

/* Broken off after any token, and continued elsewhere with what was known: the same tokens and the same text. */
TEST(a_reply_that_was_broken_off_goes_on_from_any_token)
{
    static const char *const stops[] = { "ZZ", "q" };
    hearth_token chain[24];
    hearth_request request = test_request(text, 60, 24);
    hearth_sampling sampling = hearth_sampling_default();

    sampling.temperature = 0.9f;
    sampling.seed = 5;
    sampling.repeat_penalty = 1.3f;
    request.sampling = &sampling;
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
            test_solo_chain(hth_backend_stub(), stage.engine_model, text, 60, request.sampling, 24, 64, chain);
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

TEST(each_token_has_its_logprobs)
{
    hearth_request request = test_request(text, 60, 9);
    test_reply *reply;
    test_stage stage;

    request.n_top_logprobs = 3;
    test_stage_open(&stage, NULL);
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    expect_as_alone(&stage, reply, &request);
    assert_non_null(reply->result->logprobs);
    assert_int_equal(reply->result->n_top_logprobs, 3);
    for (unsigned i = 0; i < 9; i++) {
        const hearth_logprob *of = reply->result->logprobs + 4 * (size_t)i;

        assert_int_equal(of[0].token, reply->result->tokens[i]);
        assert_int_equal(of[1].token, of[0].token); /* greedy: it is the likeliest */
        assert_true(of[1].logprob == of[0].logprob && of[0].logprob < 0 && of[0].logprob > -10);
        assert_true(of[1].logprob >= of[2].logprob && of[2].logprob >= of[3].logprob);
    }
    test_reply_free(reply);
    request.n_top_logprobs = 0;
    reply = submit(&stage, &request);
    test_stage_run(&stage);
    assert_null(reply->result->logprobs);
    test_reply_free(reply);
    test_stage_close(&stage);
}

GROUP(with_texts, make_texts, NULL)
