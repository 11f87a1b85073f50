/*
 * worker_view.c - the names of a worker's states and of the places of its model's weights
 */
#include "wire/worker_view.h"

#include <string.h>

const char *hth_worker_state_name(hth_worker_state state)
{
    static const char *const names[] = { "stopped", "starting", "ready", "stopping", "waiting", "broken" };

    return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static const char *const residencies[] = { "evicted", "host", "device", "pinned_host", "pinned_device" };

const char *hth_residency_name(hth_residency residency)
{
    return residencies[residency];
}

bool hth_residency_read(const char *name, hth_residency *out)
{
    for (size_t i = 0; i < sizeof(residencies) / sizeof(residencies[0]); i++)
        if (strcmp(name, residencies[i]) == 0) {
            *out = (hth_residency)i;
            return true;
        }
    return false;
}
