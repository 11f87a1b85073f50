/*
 * logprobs.h - log probabilities of tokens, from logits
 */
#ifndef HTH_SCHED_LOGPROBS_H
#define HTH_SCHED_LOGPROBS_H

#include <stddef.h>

#include "engine/backend.h"

/*
 * Natural logarithms of the model's own probabilities: the softmax of logits, before sampling. out [1 + n_top]: out[0]
 * is for token; out[1 .. n_top] are the likeliest tokens, likeliest first; ties are ordered by id. A logit that is not
 * finite, or a token outside the vocabulary, has -INFINITY. If the vocabulary is smaller than n_top, the rest of out
 * has token -1 and -INFINITY. Allocates nothing.
 */
void hth_logprobs(const float *logits, size_t n_vocab, hearth_token token, uint32_t n_top, hearth_logprob *out);
/* The same for candidates [n], likeliest first, which sampling has left. Other tokens have -INFINITY. */
void hth_logprobs_of_candidates(const hth_candidate *candidates, size_t n, hearth_token token, uint32_t n_top,
                                hearth_logprob *out);

#endif
