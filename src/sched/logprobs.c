/*
 * logprobs.c - log-softmax, and a bounded selection
 */
#include "sched/logprobs.h"

#include <math.h>

void hth_logprobs(const float *logits, size_t n_vocab, hearth_token token, uint32_t n_top, hearth_logprob *out)
{
    double highest = -INFINITY, sum = 0, norm;
    uint32_t n = 0;

    for (size_t i = 0; i < n_vocab; i++)
        if (isfinite(logits[i]) && logits[i] > highest)
            highest = logits[i];
    for (size_t i = 0; i < n_vocab; i++) {
        float logit = logits[i];
        uint32_t at = n;

        if (!isfinite(logit))
            continue;
        sum += exp(logit - highest);
        if (n == n_top && (n_top == 0 || logit <= out[n].logprob))
            continue;
        if (n < n_top)
            n++;
        else
            at--;
        for (; at > 0 && out[at].logprob < logit; at--)
            out[at + 1] = out[at];
        out[at + 1] = (hearth_logprob){ .token = (hearth_token)i, .logprob = logit };
    }
    norm = highest + log(sum);
    out[0] = (hearth_logprob){ .token = token,
                               .logprob = isfinite(logits[token]) ? (float)(logits[token] - norm) : -INFINITY };
    for (uint32_t i = 1; i <= n; i++)
        out[i].logprob = (float)(out[i].logprob - norm);
    for (uint32_t i = n + 1; i <= n_top; i++)
        out[i] = (hearth_logprob){ .token = -1, .logprob = -INFINITY };
}
