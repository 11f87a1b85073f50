/*
 * why.h - why a lookup did not find more, and where the prompt diverged from the known prefix
 *
 * A lookup covers the first tokens of a prompt. For the tokens after them, these functions give a reason from the
 * records of past.h:
 *
 *   damaged, evicted   the next block, the row at the end of the prompt, or a row that ends in between was once kept. A
 *                      superseded row counts as the row that replaced it. If the logits of the prompt are kept but its
 *                      cells are not, it was evicted
 *   below_policy       the policy does not keep prompts of this length; or the cells are there, but the policy saves no
 *                      state where the prompt diverges from others
 *   other_parameters,  nothing was found, and the same tenant keeps the same first tokens (in a row that is there now,
 *   other_adapter,     or that a longer one superseded) under other parameters of this model, with other adapters, or
 *   other_model        for another model. The first block is compared or, for shorter prompts, all tokens. Not reported
 *                      for models kept as states alone: their rows have no tokens
 *   never_seen         none of these is known for certain
 *
 * Two reasons come from elsewhere: in_flight and refused are known to the code that waited for a row or tried to
 * restore it.
 *
 * The position where the prompt diverged is exact to the token if the cells are kept. If they are gone, it is the end
 * of the last block, tail or state. Rows that were once there count, too.
 *
 * All keys belong to the keyspace of the prompt, and all beginnings were noted by the same tenant. So an answer never
 * depends on tokens of another tenant. The operator may ask for more (hth_why_of_all).
 */
#ifndef HTH_CACHE_WHY_H
#define HTH_CACHE_WHY_H

#include "cache/lookup.h"
#include "cache/policy.h"

typedef struct hth_why_answer {
    hearth_miss miss;
    uint32_t left_at;   /* n_prompt: the whole prompt is known */
    uint64_t gone_time; /* Unix seconds of the event for HEARTH_MISS_EVICTED and HEARTH_MISS_DAMAGED; 0: unknown */
} hth_why_answer;

/*
 * Why did lookup, made for prompt [n_prompt] in that keyspace, not cover all of it? n_known tokens come from elsewhere,
 * the cells of the context; the answer is about the tokens after those. HEARTH_MISS_NONE if all tokens are known, or
 * all but the last; HEARTH_MISS_NOT_READ for a lookup that only made keys.
 *
 * Never fails. Reads memory and indexes and, for models that keep cells and states, the heads of a few rows: about ten
 * microseconds. If a row was lost inside the next block, it also hashes the prompt, at 3 ns per token. Any thread.
 */
void hth_why(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup *lookup, const hth_policy *policy,
             const hearth_token *prompt, size_t n_prompt, uint32_t n_known, hth_why_answer *out);

/*
 * The same for a caller who may read all of the cache: if a prompt was never seen, the answer may be that another salt
 * knows it (HEARTH_MISS_OTHER_TENANT). Walks all remembered beginnings: milliseconds.
 */
void hth_why_of_all(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup *lookup, const hth_policy *policy,
                    const hearth_token *prompt, size_t n_prompt, uint32_t n_known, hth_why_answer *out);

#endif
