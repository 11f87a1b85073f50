/*
 * draft.h - guess the next tokens of a reply, so that one evaluation verifies many
 *
 * The engine evaluates the last token of a reply together with a draft of the next ones. The reply draws after each of
 * them as always, until a drawn token is another than the guessed one. So a draft never changes a reply; it only costs
 * or saves time.
 *
 * This source of drafts guesses that the text repeats itself: where the last tokens stood before, in the prompt, in the
 * reply, or in tokens that the caller expects, the same tokens follow. It finds the places as DEFLATE does (RFC 1951,
 * section 4): a hash of the last three tokens leads to a chain of the places behind the same three, the latest first. A
 * token costs one step of a hash table.
 *
 * The longer the repetition, the better the guess. So the source learns how often a guess is right, by the length of
 * the repetition. It learns from each token, whether or not a draft was made of the guess.
 */
#ifndef HTH_SCHED_DRAFT_H
#define HTH_SCHED_DRAFT_H

#include "hearth.h"

typedef struct hth_draft hth_draft;

/*
 * The source for one reply. expected [n_expected] is a guess of the whole reply from outside; it may be empty. It is
 * copied. NULL without memory.
 */
hth_draft *hth_draft_new(const hearth_token *prompt, size_t n_prompt, const hearth_token *expected, size_t n_expected);
void hth_draft_free(hth_draft *draft); /* accepts NULL */

/* The number of tokens of the reply that were appended. */
uint32_t hth_draft_n_reply(const hth_draft *draft);
/* Append tokens to the reply. False without memory; then free the source. */
bool hth_draft_append(hth_draft *draft, const hearth_token *tokens, size_t n_tokens);

/*
 * Guess at most n_max <= HEARTH_DRAFT_MAX tokens after the reply. Returns the number of tokens in out. right [n] is the
 * probability that the tokens up to this one are all right; the guess ends where it is not above least.
 */
uint32_t hth_draft_guess(hth_draft *draft, float least, uint32_t n_max, hearth_token *out, float *right);
#endif
