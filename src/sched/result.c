/*
 * result.c - results and their references, and the names of enums in results
 */
#include "sched/result.h"

#include <stdlib.h>

hth_counted_result *hth_counted_result_new(void)
{
    static const hearth_token no_tokens[1]; /* a copy of 0 bytes from NULL is undefined */
    hth_counted_result *result = calloc(1, sizeof(*result));

    if (!result)
        return NULL;
    atomic_init(&result->references, 1);
    result->stats.struct_size = sizeof(result->stats);
    result->shown.struct_size = sizeof(result->shown);
    result->shown.stats = &result->stats;
    result->shown.text = "";
    result->shown.tokens = no_tokens;
    return result;
}

/* The struct that contains a public result. The cast is safe, because the library allocated it as non-const. */
static hth_counted_result *whole_of(const hearth_result *result)
{
    return (hth_counted_result *)result;
}

const hearth_result *hearth_result_ref(const hearth_result *result)
{
    atomic_fetch_add_explicit(&whole_of(result)->references, 1, memory_order_relaxed);
    return result;
}

void hearth_result_unref(const hearth_result *result)
{
    hth_counted_result *whole = whole_of(result);

    if (!whole || atomic_fetch_sub_explicit(&whole->references, 1, memory_order_acq_rel) > 1)
        return;
    free(whole->text);
    free(whole->tokens);
    free(whole->logprobs);
    free(whole->prompt_logprobs);
    free(whole->prompt);
    free(whole);
}

const char *hearth_hit_name(hearth_hit hit)
{
    switch (hit) {
    case HEARTH_HIT_NONE: return "none";
    case HEARTH_HIT_LIVE: return "live";
    case HEARTH_HIT_EXACT: return "exact";
    case HEARTH_HIT_RESUME: return "resume";
    case HEARTH_HIT_PREFIX: return "prefix";
    }
    return "unknown";
}

const char *hearth_tier_name(hearth_tier tier)
{
    switch (tier) {
    case HEARTH_TIER_NONE: return "none";
    case HEARTH_TIER_LIVE: return "live";
    case HEARTH_TIER_RAM: return "ram";
    case HEARTH_TIER_RAM_FILE: return "ram_file";
    case HEARTH_TIER_DISK: return "disk";
    case HEARTH_TIER_REMOTE: return "remote";
    }
    return "unknown";
}

const char *hearth_finish_reason_name(hearth_finish_reason reason)
{
    switch (reason) {
    case HEARTH_FINISH_NONE: return "none";
    case HEARTH_FINISH_STOP: return "stop";
    case HEARTH_FINISH_LENGTH: return "length";
    case HEARTH_FINISH_CANCELLED: return "cancelled";
    case HEARTH_FINISH_TIMED_OUT: return "timed_out";
    }
    return "unknown";
}

const char *hearth_miss_name(hearth_miss miss)
{
    switch (miss) {
    case HEARTH_MISS_NONE: return "none";
    case HEARTH_MISS_NEVER_SEEN: return "never_seen";
    case HEARTH_MISS_EVICTED: return "evicted";
    case HEARTH_MISS_OTHER_MODEL: return "other_model";
    case HEARTH_MISS_OTHER_ADAPTER: return "other_adapter";
    case HEARTH_MISS_OTHER_PARAMETERS: return "other_parameters";
    case HEARTH_MISS_OTHER_TENANT: return "other_tenant";
    case HEARTH_MISS_BELOW_POLICY: return "below_policy";
    case HEARTH_MISS_DAMAGED: return "damaged";
    case HEARTH_MISS_IN_FLIGHT: return "in_flight";
    case HEARTH_MISS_NOT_READ: return "not_read";
    case HEARTH_MISS_REFUSED: return "refused";
    case HEARTH_MISS_NO_LOGITS: return "no_logits";
    }
    return "unknown";
}

const char *hearth_save_reason_name(hearth_save_reason reason)
{
    switch (reason) {
    case HEARTH_SAVE_UNKNOWN: return "unknown";
    case HEARTH_SAVE_COLD: return "cold";
    case HEARTH_SAVE_CONTINUED: return "continued";
    case HEARTH_SAVE_EVICT: return "evict";
    case HEARTH_SAVE_SHUTDOWN: return "shutdown";
    case HEARTH_SAVE_FINISH: return "finish";
    }
    return "unknown";
}
