/*
 * penalties.h - change logits depending on the last tokens: penalties and DRY
 *
 * Penalties lower the logits of the last tokens (Keskar et al., "CTRL", arXiv:1909.05858, with the engine's correction
 * for negative logits; frequency and presence as in the OpenAI API). DRY works against repeated phrases (P. E.
 * Weidmann, text-generation-webui pull request 5677): a token that would lengthen a repetition of n tokens loses
 * multiplier * base ^ (n - allowed length). Tokens of the prompt count, too.
 *
 * DRY's phrase breakers are searched for in the text. No repetition extends back beyond the token in which a breaker
 * ends, and a token that contains a breaker is never penalized. (The engine instead guesses how a breaker may be
 * tokenized.)
 *
 * One thread at a time uses an object.
 */
#ifndef HTH_SAMPLING_PENALTIES_H
#define HTH_SAMPLING_PENALTIES_H

#include "engine/vocabulary.h"

typedef struct hth_penalties hth_penalties;

/*
 * sampling must have been checked, and is copied. vocabulary is borrowed; only DRY needs it (otherwise NULL).
 * HEARTH_NO_MEMORY.
 */
hearth_status hth_penalties_new(const hearth_sampling *sampling, uint32_t n_vocab, const hth_vocabulary *vocabulary,
                                hth_penalties **out, hearth_error *err);
void hth_penalties_free(hth_penalties *penalties); /* accepts NULL */

/* Accept a token of the prompt or of the reply. */
void hth_penalties_accept(hth_penalties *penalties, hearth_token token);

/* The kinds of penalties, in their usual order. */
typedef enum hth_penalty {
    HTH_PENALTY_RECENT = 1, /* repetition, frequency, presence */
    HTH_PENALTY_DRY = 2,
} hth_penalty;

/* Change the logits, [n_vocab], by a set of parts. Linear in the number of last tokens; allocates nothing. */
void hth_penalties_apply(hth_penalties *penalties, unsigned parts, float *logits);

#endif
