/*
 * policy.c - arithmetic on token counts
 */
#include "cache/policy.h"

#include <assert.h>
#include <inttypes.h>

#include "rows/row.h"

hth_policy hth_policy_of(const hearth_cache_policy *given, uint32_t n_ctx)
{
    hth_policy policy = *given;

    if (policy.cold_min_tokens == 0)
        policy.cold_min_tokens = policy.min_tokens;
    /* A context smaller than the minimum keeps nothing; the policy stays valid. */
    if (policy.cold_max_tokens == 0)
        policy.cold_max_tokens = n_ctx > policy.cold_min_tokens ? n_ctx : policy.cold_min_tokens;
    return policy;
}

hth_policy hth_policy_default(uint32_t n_ctx)
{
    const hearth_cache_policy defaults = hearth_cache_policy_default();

    return hth_policy_of(&defaults, n_ctx);
}

int64_t hth_policy_trim_boundary(int64_t length, int64_t trim, int64_t align)
{
    int64_t rest;

    assert(trim >= 0);
    assert(align > 0);
    if (__builtin_sub_overflow(length, trim, &rest) || rest < align)
        return 0;
    return rest - rest % align;
}

bool hth_policy_should_save_prompt(int64_t length, const hth_policy *policy)
{
    return length >= policy->cold_min_tokens && length <= policy->cold_max_tokens;
}

int64_t hth_policy_cold_save(int64_t length, const hth_policy *policy)
{
    if (!hth_policy_should_save_prompt(length, policy))
        return 0;
    return hth_policy_trim_boundary(length, policy->boundary_trim_tokens, policy->boundary_align_tokens);
}

bool hth_policy_should_save_continued(int64_t live, int64_t last_saved, const hth_policy *policy)
{
    int64_t gained;

    if (live < policy->min_tokens)
        return false;
    if (__builtin_sub_overflow(live, last_saved, &gained))
        return live > last_saved; /* further apart than any interval */
    return gained >= policy->continued_interval;
}

bool hth_policy_should_save_finish(int64_t live, const hth_policy *policy)
{
    return live >= policy->min_tokens;
}

bool hth_policy_should_save_state(int64_t live, const hth_policy *policy)
{
    return live >= policy->min_tokens && live > 0 && live % policy->snapshot_interval == 0;
}

static hearth_status below(hearth_error *err, const char *key, int64_t value, int64_t least)
{
    return hth_fail(err, HEARTH_MISUSE, "%s is %" PRId64 ", it must be at least %" PRId64, key, value, least);
}

static hearth_status below_other(hearth_error *err, const char *key, int64_t value, const char *other, int64_t least)
{
    return hth_fail(err, HEARTH_MISUSE, "%s is %" PRId64 ", it must be at least %s, which is %" PRId64, key, value,
                    other, least);
}

hearth_status hth_policy_validate(const hth_policy *policy, hearth_error *err)
{
    if (policy->min_tokens < 0)
        return below(err, "min_tokens", policy->min_tokens, 0);
    if (policy->cold_min_tokens < policy->min_tokens)
        return below_other(err, "cold_min_tokens", policy->cold_min_tokens, "min_tokens", policy->min_tokens);
    if (policy->cold_max_tokens < policy->cold_min_tokens)
        return below_other(err, "cold_max_tokens", policy->cold_max_tokens, "cold_min_tokens", policy->cold_min_tokens);
    if (policy->continued_interval < 1)
        return below(err, "continued_interval", policy->continued_interval, 1);
    if (policy->boundary_trim_tokens < 0)
        return below(err, "boundary_trim_tokens", policy->boundary_trim_tokens, 0);
    if (policy->boundary_align_tokens < 1)
        return below(err, "boundary_align_tokens", policy->boundary_align_tokens, 1);
    if (policy->snapshot_interval < HTH_BLOCK_TOKENS)
        return below(err, "snapshot_interval", policy->snapshot_interval, HTH_BLOCK_TOKENS);
    if (policy->snapshot_interval % HTH_BLOCK_TOKENS != 0)
        return hth_fail(err, HEARTH_MISUSE, "snapshot_interval is %" PRId64 ", it must be a multiple of %u",
                        policy->snapshot_interval, HTH_BLOCK_TOKENS);
    return HEARTH_OK;
}
