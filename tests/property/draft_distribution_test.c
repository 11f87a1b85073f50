/*
 * draft_distribution_test.c - drafts leave the distribution of sampled replies as it is
 *
 * Many requests with one prompt and different seeds sample a few tokens among the likeliest. Their replies form a
 * tree, whose probabilities are computed straight from the engine's logits. Behind each first token a draft is at hand:
 * it is right for some seeds and wrong for others. Pearson's statistic compares the replies with the tree. Seeds are
 * fixed, so the statistic is the same in each run.
 *
 * The stronger property holds, too: each seed gives the tokens that it gives without drafts.
 */
#include <math.h>
#include <stdio.h>

#include "support/scene.h"

enum {
    TOP_K = 4,
    LENGTH = 3, /* tokens of a reply */
    LEAVES = TOP_K * TOP_K * TOP_K,
    REQUESTS = 20000,
    PROMPT = 6,
    RARE = 20,
    EXPECTED = TOP_K * (2 + LENGTH),
};

static const float temperature = 1.3f;

/* The likeliest tokens after a text, likeliest first, and their probabilities. */
typedef struct branch {
    hearth_token tokens[TOP_K];
    double probabilities[TOP_K];
} branch;

static branch branch_of(const float *logits, uint32_t n_vocab)
{
    branch out;
    double sum = 0;

    for (size_t k = 0; k < TOP_K; k++) {
        uint32_t best = UINT32_MAX;

        for (uint32_t i = 0; i < n_vocab; i++) {
            bool is_taken = false;

            for (size_t j = 0; j < k; j++)
                is_taken |= out.tokens[j] == (hearth_token)i;
            if (!is_taken && (best == UINT32_MAX || logits[i] > logits[best]))
                best = i;
        }
        out.tokens[k] = (hearth_token)best;
        out.probabilities[k] = exp((double)(logits[best] - logits[out.tokens[0]]) / (double)temperature);
        sum += out.probabilities[k];
    }
    for (size_t k = 0; k < TOP_K; k++)
        out.probabilities[k] /= sum;
    return out;
}

/* The branch behind tokens, computed on a context of its own. */
static branch branch_after(const test_stage *stage, const hearth_token *tokens, size_t n)
{
    const hth_backend *stub = hth_backend_stub();
    hth_engine_context_params params = { .n_ctx = 64, .n_batch = 64, .n_seq_max = 1, .n_threads = 1 };
    hth_batch_row rows[PROMPT + LENGTH];
    hth_engine_context *context = NULL;
    hth_decode_result result;
    hearth_error err;
    branch out;

    assert_ok(stub->context_new(stage->engine_model, &params, &context, &err), err);
    for (size_t i = 0; i < n; i++)
        rows[i] = (hth_batch_row){ .token = tokens[i], .position = (uint32_t)i, .wants_logits = i == n - 1 };
    assert_ok(stub->decode(context, rows, n, &result, &err), err);
    assert_int_equal(result, HTH_DECODE_OK);
    out = branch_of(stub->logits(context, n - 1), stage->place.n_vocab);
    stub->context_free(context);
    return out;
}

typedef struct tree {
    branch root, second[TOP_K], third[TOP_K][TOP_K];
} tree;

static void grow(const test_stage *stage, tree *out)
{
    hearth_token tokens[PROMPT + LENGTH];

    memcpy(tokens, text, PROMPT * sizeof(*tokens));
    out->root = branch_after(stage, tokens, PROMPT);
    for (size_t i = 0; i < TOP_K; i++) {
        tokens[PROMPT] = out->root.tokens[i];
        out->second[i] = branch_after(stage, tokens, PROMPT + 1);
        for (size_t j = 0; j < TOP_K; j++) {
            tokens[PROMPT + 1] = out->second[i].tokens[j];
            out->third[i][j] = branch_after(stage, tokens, PROMPT + 2);
        }
    }
}

static size_t place_in(const branch *b, hearth_token token)
{
    size_t k = 0;

    while (k < TOP_K && b->tokens[k] != token)
        k++;
    assert_true(k < TOP_K); /* nothing else can be drawn */
    return k;
}

/*
 * Text in which each first token stands behind the end of the prompt, and a draft behind it: one of the likeliest
 * tokens, not always the same one, and then again.
 */
static void expect(const tree *all, hearth_token out[EXPECTED])
{
    for (size_t i = 0; i < TOP_K; i++) {
        size_t j = i % 3;
        hearth_token *at = out + i * (2 + LENGTH);

        at[0] = text[PROMPT - 2];
        at[1] = text[PROMPT - 1];
        at[2] = all->root.tokens[i];
        at[3] = all->second[i].tokens[j];
        at[4] = all->third[i][j].tokens[(i + 1) % 2];
    }
}

static test_reply *run(test_stage *stage, hearth_request *request, uint64_t seed)
{
    hearth_sampling sampling = hearth_sampling_default();
    test_reply *reply;

    sampling.temperature = temperature;
    sampling.top_k = TOP_K;
    sampling.top_p = 1;
    sampling.min_p = 0;
    sampling.seed = seed;
    request->sampling = &sampling;
    reply = submit(stage, request);
    test_stage_run(stage);
    expect_ended(reply, HEARTH_OK, HEARTH_FINISH_LENGTH);
    assert_int_equal(reply->result->stats->completion_tokens, LENGTH);
    return reply;
}

TEST(sampled_replies_with_drafts_have_the_distribution_of_replies_without)
{
    hearth_token expected[EXPECTED];
    hearth_request with = test_request(text, PROMPT, LENGTH), without;
    uint64_t n_drafted = 0, n_accepted = 0, counts[TOP_K][TOP_K][TOP_K] = { 0 };
    double statistic = 0, degrees = -1, n_rare = 0, n_rare_seen = 0;
    test_stage stage;
    tree all;

    test_stage_open(&stage, NULL);
    grow(&stage, &all);
    expect(&all, expected);
    without = with;
    without.draft_max = 0;
    with.draft_tokens = expected;
    with.n_draft_tokens = EXPECTED;
    for (uint64_t seed = 1; seed <= REQUESTS; seed++) {
        test_reply *plain = run(&stage, &without, seed), *drafted = run(&stage, &with, seed);
        const hearth_token *tokens = drafted->result->tokens;
        size_t i = place_in(&all.root, tokens[0]), j = place_in(&all.second[i], tokens[1]),
               k = place_in(&all.third[i][j], tokens[2]);

        assert_memory_equal(tokens, plain->result->tokens, LENGTH * sizeof(*tokens));
        assert_int_equal(plain->result->stats->draft_tokens, 0);
        n_drafted += drafted->result->stats->draft_tokens;
        n_accepted += drafted->result->stats->draft_accepted_tokens;
        counts[i][j][k]++;
        test_reply_free(plain);
        test_reply_free(drafted);
    }
    for (size_t leaf = 0; leaf < LEAVES; leaf++) {
        size_t i = leaf / TOP_K / TOP_K, j = leaf / TOP_K % TOP_K, k = leaf % TOP_K;
        double n =
            REQUESTS * all.root.probabilities[i] * all.second[i].probabilities[j] * all.third[i][j].probabilities[k];

        if (n < RARE) { /* the statistic needs more in a class: rare replies are one */
            n_rare += n;
            n_rare_seen += (double)counts[i][j][k];
            continue;
        }
        statistic += ((double)counts[i][j][k] - n) * ((double)counts[i][j][k] - n) / n;
        degrees++;
    }
    assert_true(n_rare < REQUESTS / 20 && fabs(n_rare_seen - n_rare) < 6 * sqrt(n_rare + 1));
    printf("%u replies: statistic %.1f with %.0f degrees of freedom; %llu of %llu tokens of drafts accepted\n",
           REQUESTS, statistic, degrees, (unsigned long long)n_accepted, (unsigned long long)n_drafted);
    assert_true(n_drafted > REQUESTS / 2 && n_accepted > n_drafted / 10 && n_accepted < n_drafted * 9 / 10);
    assert_true(statistic < degrees + 6 * sqrt(2 * degrees));
    test_stage_close(&stage);
}

GROUP(with_texts, make_texts, NULL)
