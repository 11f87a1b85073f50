/*
 * logprobs_test.c - log probabilities against the definition
 */
#include <math.h>
#include <stdlib.h>

#include "sched/logprobs.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static double log_sum(const float *logits, size_t n)
{
    double highest = -INFINITY, sum = 0;

    for (size_t i = 0; i < n; i++)
        if (isfinite(logits[i]) && logits[i] > highest)
            highest = logits[i];
    for (size_t i = 0; i < n; i++)
        if (isfinite(logits[i]))
            sum += exp(logits[i] - highest);
    return highest + log(sum);
}

TEST(they_are_the_log_softmax_with_the_likeliest_in_order)
{
    enum { N = 3000, TOP = 20 };
    static float logits[N];
    uint64_t seed = hth_test_seed();
    hearth_logprob out[TOP + 1];

    for (int round = 0; round < 20; round++) {
        double sum;

        for (size_t i = 0; i < N; i++)
            logits[i] = (float)hth_test_random(&seed, 400) / 10 - 20; /* with many equal ones */
        logits[7] = NAN;
        logits[8] = INFINITY;
        sum = log_sum(logits, N);
        hth_logprobs(logits, N, 5, TOP, out);
        assert_int_equal(out[0].token, 5);
        assert_true(fabs(out[0].logprob - (logits[5] - sum)) < 1e-5);
        for (int k = 1; k <= TOP; k++) {
            size_t n_before = 0;

            for (size_t i = 0; i < N; i++)
                if (isfinite(logits[i]))
                    n_before += logits[i] > logits[out[k].token] ||
                                (logits[i] == logits[out[k].token] && (hearth_token)i < out[k].token);
            assert_int_equal(n_before, k - 1);
            assert_true(fabs(out[k].logprob - (logits[out[k].token] - sum)) < 1e-5);
        }
    }
}

TEST(what_has_no_probability_has_minus_infinity)
{
    const float logits[] = { 1, NAN, 3, INFINITY, -INFINITY };
    hearth_logprob out[6];

    for (hearth_token token = -1; token < 7; token++) {
        hth_logprobs(logits, 5, token, 0, out);
        assert_int_equal(isfinite(out[0].logprob) != 0, token == 0 || token == 2);
    }
    hth_logprobs(logits, 5, 0, 5, out);
    assert_int_equal(out[1].token, 2);
    assert_int_equal(out[2].token, 0);
    for (int i = 3; i < 6; i++) {
        assert_int_equal(out[i].token, -1);
        assert_true(out[i].logprob == -INFINITY);
    }
}

TEST(far_logits_do_not_overflow)
{
    const float logits[] = { -3e38f, 3e38f, 0 };
    hearth_logprob out[2];

    hth_logprobs(logits, 3, 1, 1, out);
    assert_true(out[0].logprob == 0);
    assert_int_equal(out[1].token, 1);
}
