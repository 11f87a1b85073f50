/*
 * logprobs.h - logarithms of probabilities of the model's own distribution
 */
#ifndef HTH_SCHED_LOGPROBS_H
#define HTH_SCHED_LOGPROBS_H

#include "hearth.h"

/*
 * out[0] is token's, out[1 .. n_top] those of the likeliest tokens in order (of equals the lower id). Logits that are not
 * finite count as -INFINITY.
 */
void hth_logprobs(const float *logits, size_t n_vocab, hearth_token token, uint32_t n_top, hearth_logprob *out);

#endif
