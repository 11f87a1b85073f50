/*
 * restart_policy.c - when a dead worker is started again
 */
#include "supervisor/restart_policy.h"

#include <string.h>

/* first_ms doubled n times, at most max_ms. */
static uint32_t doubled(uint32_t first_ms, uint32_t n, uint32_t max_ms)
{
    uint64_t pause_ms = (uint64_t)first_ms << (n < 20 ? n : 20);

    return pause_ms < max_ms ? (uint32_t)pause_ms : max_ms;
}

static uint32_t upper_half(uint32_t pause_ms, double draw)
{
    return pause_ms - (uint32_t)((1.0 - draw) * (pause_ms / 2.0));
}

/* Were the processes ready for only a short time between the last deaths? */
static bool is_crash_loop(const hth_restart_policy *policy, uint32_t healthy_ms)
{
    uint64_t service_ms = 0;

    if (policy->n_deaths < HTH_RESTART_DEATHS_MAX)
        return false;
    for (int i = 0; i < HTH_RESTART_DEATHS_MAX; i++)
        service_ms += policy->ready_ms[i];
    return service_ms <= 2 * (uint64_t)healthy_ms;
}

hth_restart hth_restart_after_death(hth_restart_policy *policy, uint32_t healthy_ms, const hth_restart_life *life,
                                    double draw)
{
    if (life->ready_ms >= healthy_ms || life->has_served)
        *policy = (hth_restart_policy){ 0 };
    if (policy->n_deaths < UINT32_MAX)
        policy->n_deaths++;
    memmove(policy->ready_ms + 1, policy->ready_ms, sizeof(policy->ready_ms) - sizeof(policy->ready_ms[0]));
    policy->ready_ms[0] = life->ready_ms < UINT32_MAX ? (uint32_t)life->ready_ms : UINT32_MAX;

    /* After the first break, a single failed try is enough. */
    if (policy->n_breaks > 0 || is_crash_loop(policy, healthy_ms)) {
        uint32_t pause_ms = doubled(HTH_RESTART_BROKEN_MS, policy->n_breaks, HTH_RESTART_BROKEN_MAX_MS);

        if (policy->n_breaks < UINT32_MAX)
            policy->n_breaks++;
        return (hth_restart){ .is_broken = true, .pause_ms = pause_ms };
    }
    if (policy->n_deaths == 1)
        return (hth_restart){ .pause_ms = (uint32_t)(draw * HTH_RESTART_FIRST_MS) };
    return (hth_restart){
        .pause_ms = upper_half(doubled(HTH_RESTART_PAUSE_MS, policy->n_deaths - 2, HTH_RESTART_PAUSE_MAX_MS), draw),
    };
}
