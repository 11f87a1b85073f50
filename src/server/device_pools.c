/*
 * device_pools.c - see device_pools.h
 */
#include "server/device_pools.h"

#include <stdio.h>
#include <string.h>

#include "base/smaller.h"
#include "server/needs_text.h"

const hth_device_pools hth_device_pools_none;

/* pools->n: none has this name. */
static size_t find(const hth_device_pools *pools, const char *name)
{
    size_t i = 0;

    while (i < pools->n && strcmp(pools->at[i].name, name) != 0)
        i++;
    return i;
}

void hth_device_pools_add(hth_device_pools *pools, const hth_model_needs *needs)
{
    for (size_t i = 0; i < needs->memory.n_devices; i++) {
        const hth_engine_device_share *device = &needs->memory.devices[i];
        const size_t at = find(pools, device->name);
        hth_device_pool *pool = &pools->at[at];

        if (hth_engine_share_bytes(&device->share) == 0 || at == HTH_DEVICES_MAX)
            continue;
        if (at == pools->n) {
            *pool = (hth_device_pool){ .total_bytes = device->total_bytes };
            (void)snprintf(pool->name, sizeof(pool->name), "%s", device->name); /* fits */
            pools->n++;
        } else if (device->total_bytes > 0) {
            pool->total_bytes =
                pool->total_bytes > 0 ? hth_smaller(pool->total_bytes, device->total_bytes) : device->total_bytes;
        }
    }
}

void hth_device_pools_share(const hth_device_pools *pools, const hth_model_needs *needs, uint64_t *bytes)
{
    for (size_t i = 0; i < needs->memory.n_devices; i++) {
        const size_t at = find(pools, needs->memory.devices[i].name);

        if (at < pools->n)
            bytes[1 + at] += hth_engine_share_bytes(&needs->memory.devices[i].share);
    }
}

uint64_t hth_device_pool_limit(const hth_device_pool *pool, uint64_t limit_bytes)
{
    if (limit_bytes > 0)
        return limit_bytes;
    return pool->total_bytes > 0 ? pool->total_bytes - pool->total_bytes / 10 : UINT64_MAX;
}
