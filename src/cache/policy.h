/*
 * policy.h - how far a prefix is saved
 *
 * Pure functions, held by tests/fixtures/kvc/policy.jsonl. They say how many leading tokens of a sequence are worth
 * keeping; rows fill that in block by block.
 */
#ifndef HTH_CACHE_POLICY_H
#define HTH_CACHE_POLICY_H

#include "base/status.h"

typedef struct hth_policy {
    int64_t min_tokens;
    int64_t cold_min_tokens;
    int64_t cold_max_tokens;
    int64_t continued_interval;
    int64_t boundary_trim_tokens;
    int64_t boundary_align_tokens;
    int64_t snapshot_interval; /* tokens between two saved states of models whose state is "as of now"; whole blocks */
} hth_policy;

/* What Hearth uses: a row costs only itself, so nearly everything is worth keeping. n_ctx bounds cold_max_tokens. */
hth_policy hth_policy_default(uint32_t n_ctx);

/* Leading tokens left after trimming and aligning; 0 when too short. trim >= 0, align > 0 (asserted). */
int64_t hth_policy_trim_boundary(int64_t length, int64_t trim, int64_t align);

/* Is anything of a prompt of that length saved before its reply is? */
bool hth_policy_should_save_prompt(int64_t length, const hth_policy *policy);
/* Leading tokens to save of a prompt of that length; 0 for none. */
int64_t hth_policy_cold_save(int64_t length, const hth_policy *policy);
bool hth_policy_should_save_continued(int64_t live, int64_t last_saved, const hth_policy *policy);
bool hth_policy_should_save_finish(int64_t live, const hth_policy *policy);
/* Is the state after that many tokens kept on the way, so that prompts which part later find a boundary near? */
bool hth_policy_should_save_state(int64_t live, const hth_policy *policy);

/* HEARTH_MISUSE naming the first key that is out of range, in the order of the fields. */
hearth_status hth_policy_validate(const hth_policy *policy, hearth_error *err);

#endif
