/*
 * draft.h - guess the next tokens of a reply, so that one evaluation verifies several
 *
 * The engine evaluates the last token of a reply together with a draft of the next ones. The reply draws after each of
 * them as usual, until a drawn token differs from the guess. So a draft never changes a reply; it only costs or saves
 * time.
 *
 * This source of drafts guesses that the text repeats itself: that the last tokens, where they occurred before in the
 * prompt, in the reply, or in the tokens that the caller expects, are followed by the same tokens. It finds the
 * occurrences as DEFLATE does (RFC 1951, section 4): a hash of the last three tokens leads to a chain of the positions
 * after the same three tokens, latest first. A token costs one hash table lookup.
 *
 * The longer the repetition, the better the guess. So the source learns how often guesses are right for each length of
 * repetition. It learns from each token, whether or not the guess was used in a draft.
 */
#ifndef HTH_SCHED_DRAFT_H
#define HTH_SCHED_DRAFT_H

#include "hearth.h"

typedef struct hth_draft hth_draft;

/*
 * The source for one reply. expected [n_expected] is the caller's prediction of the whole reply; it may be empty, and
 * is copied. NULL if out of memory.
 */
hth_draft *hth_draft_new(const hearth_token *prompt, size_t n_prompt, const hearth_token *expected, size_t n_expected);
void hth_draft_free(hth_draft *draft); /* accepts NULL */

/* The number of tokens of the reply that were appended. */
uint32_t hth_draft_n_reply(const hth_draft *draft);
/* Append tokens to the reply. False if out of memory; the source must then be freed. */
bool hth_draft_append(hth_draft *draft, const hearth_token *tokens, size_t n_tokens);

/*
 * Guess at most n_max <= HEARTH_DRAFT_MAX tokens after the reply. Returns the number of tokens in out. right [n] is,
 * for each token, the probability that the guess is right up to and including it. The guess ends where this is not
 * above least.
 */
uint32_t hth_draft_guess(hth_draft *draft, float least, uint32_t n_max, hearth_token *out, float *right);
#endif
