/*
 * logprobs.h - how likely tokens were to the model itself
 */
#ifndef HTH_SCHED_LOGPROBS_H
#define HTH_SCHED_LOGPROBS_H

#include <stddef.h>

#include "hearth.h"

/*
 * Natural logarithms of probabilities in the model's own distribution (the softmax of logits, before sampling changed
 * them): out[0] of token, out[1 .. n_top] the likeliest tokens, likeliest first and of equals the lower id. A logit that
 * is no finite number, and a token outside the vocabulary, has probability 0: -INFINITY. Where the vocabulary is smaller
 * than n_top, the rest of out has token -1 and -INFINITY.
 *
 * Allocates nothing; one pass over the logits for the sum and the likeliest. out has room for 1 + n_top.
 */
void hth_logprobs(const float *logits, size_t n_vocab, hearth_token token, uint32_t n_top, hearth_logprob *out);

#endif
