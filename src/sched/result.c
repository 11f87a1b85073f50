/*
 * result.c - the public names of what a request did, and the release of its result
 */
#include <stdlib.h>

#include "hearth.h"

void hearth_result_free(hearth_result *result)
{
    if (!result)
        return;
    free(result->text);
    free(result->tokens);
    memset(result, 0, sizeof(*result));
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
