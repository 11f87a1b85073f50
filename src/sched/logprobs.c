/*
 * logprobs.c - one pass with a running maximum, the sum relative to it, and a sorted list of the likeliest tokens
 *
 * The sum is rescaled whenever the maximum rises (Milakov and Gimelshein, "Online normalizer calculation for softmax",
 * arXiv:1805.02867). While the list is made, its logprob fields hold logits.
 */
#include "sched/logprobs.h"

#include <math.h>

/* Insert a token into the sorted list of n tokens, and drop the last one. Ids come in rising order. */
static void insert(hearth_logprob *top, uint32_t n, hearth_token token, float logit)
{
    uint32_t at = n - 1;

    while (at > 0 && top[at - 1].logprob < logit) {
        top[at] = top[at - 1];
        at--;
    }
    top[at] = (hearth_logprob){ .token = token, .logprob = logit };
}

void hth_logprobs(const float *logits, size_t n_vocab, hearth_token token, uint32_t n_top, hearth_logprob *out)
{
    hearth_logprob *top = out + 1;
    double highest = -INFINITY;
    double sum = 0;
    double log_sum;

    for (uint32_t i = 0; i < n_top; i++)
        top[i] = (hearth_logprob){ .token = -1, .logprob = -INFINITY };
    for (size_t i = 0; i < n_vocab; i++) {
        double logit = logits[i];

        if (!isfinite(logit))
            continue;
        if (logit > highest) {
            sum = sum * exp(highest - logit) + 1;
            highest = logit;
        } else {
            sum += exp(logit - highest);
        }
        if (n_top > 0 && logits[i] > top[n_top - 1].logprob)
            insert(top, n_top, (hearth_token)i, logits[i]);
    }
    log_sum = highest + log(sum);
    out[0] = (hearth_logprob){ .token = token, .logprob = -INFINITY };
    if (token >= 0 && (size_t)token < n_vocab && isfinite(logits[token]))
        out[0].logprob = (float)(logits[token] - log_sum);
    for (uint32_t i = 0; i < n_top; i++)
        if (top[i].token >= 0)
            top[i].logprob = (float)(top[i].logprob - log_sum);
}

void hth_logprobs_of_candidates(const hth_candidate *candidates, size_t n, hearth_token token, uint32_t n_top,
                                hearth_logprob *out)
{
    out[0] = (hearth_logprob){ .token = token, .logprob = -INFINITY };
    for (size_t i = 0; i < n; i++)
        if (candidates[i].token == token)
            out[0].logprob = logf(candidates[i].probability);
    for (size_t i = 0; i < n_top; i++)
        out[1 + i] = i < n ? (hearth_logprob){ candidates[i].token, logf(candidates[i].probability) }
                           : (hearth_logprob){ -1, -INFINITY };
}
