/*
 * why.h - why a lookup did not find more, and where the prompt left what is known
 *
 * A lookup covers the first tokens of a prompt. Of those after them this says, from what is remembered (past.h):
 *
 *   damaged, evicted   the block that would come next, the row at the prompt's end, or one that ends in between was kept
 *                      once. A row that was superseded counts as what became of the row that took its place. A prompt
 *                      whose logits are kept and whose cells are not was evicted
 *   below_policy       the policy does not keep prompts of this length; or the cells are there, and no state was to be
 *                      saved where the prompt parts from others
 *   other_parameters,  nothing was found at all, and the same first tokens are kept (a row that is there now, or that a
 *   other_model        longer one superseded) under other parameters of this model, or of another model, by the same
 *                      tenant. Told by the first block or, of shorter prompts, by all of their tokens; not of models
 *                      that are kept as states alone, whose rows have no tokens
 *   never_seen         nothing of this is known for certain
 *
 * in_flight and refused are known to who waited for a row or tried to restore it, and other_adapter comes with adapters.
 *
 * Where the prompt left the longest prefix known is told to the token where cells are kept, and where the last block,
 * tail or state ended where that is gone. It counts what is known to have been there once, too.
 *
 * Everything is asked of keys of the prompt's own keyspace and of beginnings noted by the same tenant: an answer depends
 * on no other tenant's tokens. The operator may ask for more.
 */
#ifndef HTH_CACHE_WHY_H
#define HTH_CACHE_WHY_H

#include "cache/lookup.h"
#include "cache/policy.h"

typedef struct hth_why_answer {
    hearth_miss miss;
    uint32_t left_at;   /* n_prompt: nowhere */
    uint64_t gone_time; /* with HEARTH_MISS_EVICTED and HEARTH_MISS_DAMAGED: when, in Unix seconds; 0: not known */
} hth_why_answer;

/*
 * Why did lookup, which was made of prompt [n_prompt] in that keyspace, not cover all of it? n_known tokens are at hand
 * from elsewhere, the cells of the context; the tokens that the answer is about come after those. HEARTH_MISS_NONE when
 * all are known, or all but the last; HEARTH_MISS_NOT_READ for a lookup that only made keys.
 *
 * Never fails. Reads memory and indexes, and of models that keep cells and states a few rows' heads: about ten
 * microseconds, and where a row was lost inside the next block the time that hashing the prompt takes, 3 ns a token. Any
 * thread.
 */
void hth_why(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup *lookup, const hth_policy *policy,
             const hearth_token *prompt, size_t n_prompt, uint32_t n_known, hth_why_answer *out);

/*
 * The same for somebody who may read all of the cache: a prompt that was never seen may be told to be known under
 * another salt (HEARTH_MISS_OTHER_TENANT). Goes through all beginnings that are remembered: milliseconds.
 */
void hth_why_of_all(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup *lookup, const hth_policy *policy,
                    const hearth_token *prompt, size_t n_prompt, uint32_t n_known, hth_why_answer *out);

#endif
