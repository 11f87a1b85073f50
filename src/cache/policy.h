/*
 * policy.h - how much of a prefix is saved
 *
 * Pure functions, checked against tests/fixtures/kvc/policy.jsonl. They decide which prefixes are saved, and up to
 * which token. Lengths are in tokens. Rows cover these tokens block by block. All of these functions but hth_policy_of,
 * hth_policy_default and hth_policy_validate need a valid policy.
 */
#ifndef HTH_CACHE_POLICY_H
#define HTH_CACHE_POLICY_H

#include "base/status.h"

/* The policy of a model: a zero in cold_min_tokens or cold_max_tokens does not stand for a default. */
typedef hearth_cache_policy hth_policy;

/* Replace zeros in cold_min_tokens and cold_max_tokens by the defaults for a context of n_ctx tokens. Not validated. */
hth_policy hth_policy_of(const hearth_cache_policy *given, uint32_t n_ctx);
/*
 * Hearth's default policy: a row costs only its own bytes, so nearly everything is worth keeping. Fewer tokens than
 * min_tokens are evaluated about as fast as one token of a reply, because each evaluation reads all weights.
 */
hth_policy hth_policy_default(uint32_t n_ctx);

/* Leading tokens after trimming and aligning; 0 if too short. trim >= 0, align > 0 (asserted). */
int64_t hth_policy_trim_boundary(int64_t length, int64_t trim, int64_t align);

/* Is a prompt of this length saved at all? If so, its end and logits are saved, too, whatever cold_save returns. */
bool hth_policy_should_save_prompt(int64_t length, const hth_policy *policy);
/* Number of leading tokens of the prompt that are saved block by block during prefill; 0: none. */
int64_t hth_policy_cold_save(int64_t length, const hth_policy *policy);
/*
 * Is the tail of a growing reply saved now? Full blocks of it are saved anyway, so this is asked only if
 * continued_interval is shorter than a block. live: tokens of the sequence now, prompt and reply; last_saved: of these,
 * as many as the last save covered.
 */
bool hth_policy_should_save_continued(int64_t live, int64_t last_saved, const hth_policy *policy);
/* Is a sequence of so many tokens long enough to be saved when its reply ends or its cells are given up? */
bool hth_policy_should_save_finish(int64_t live, const hth_policy *policy);
/*
 * Is the state after that many tokens kept during prefill, so that later prompts that diverge find a boundary nearby?
 */
bool hth_policy_should_save_state(int64_t live, const hth_policy *policy);

/* HEARTH_MISUSE with the first field that is out of range, in the order of the struct. */
hearth_status hth_policy_validate(const hth_policy *policy, hearth_error *err);

#endif
