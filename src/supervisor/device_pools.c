#include "supervisor/device_pools.h"

#include <stdio.h>
#include <string.h>

#include "base/smaller.h"
#include "models/fit_choice.h"
#include "wire/needs_text.h"

const hth_device_pools hth_device_pools_none;

/* The index of the pool with this name, or pools->n. */
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

/* The bytes that the server's own models take of a device. */
static uint64_t used_of(const hth_device_pools *pools, const uint64_t used[HTH_POOLS_MAX], const char *name)
{
    const size_t at = find(pools, name);

    return at < pools->n ? used[1 + at] : 0;
}

bool hth_device_pools_see(hth_device_pools *seen, const hth_model_needs *fresh, const hth_device_pools *pools,
                          const uint64_t used[HTH_POOLS_MAX])
{
    bool is_more = false;

    for (size_t i = 0; i < fresh->memory.n_devices; i++) {
        const hth_engine_device_share *device = &fresh->memory.devices[i];
        const size_t at = find(seen, device->name);
        uint64_t found = device->free_bytes;

        if (found == 0 || at == HTH_DEVICES_MAX || (at < seen->n && found <= seen->at[at].found_bytes))
            continue;
        if (at == seen->n) {
            seen->at[seen->n++] = (hth_device_pool){ .total_bytes = 0 };
            (void)snprintf(seen->at[at].name, sizeof(seen->at[at].name), "%s", device->name); /* fits */
            found += used_of(pools, used, device->name);
        }
        seen->at[at].found_bytes = found;
        is_more = true;
    }
    return is_more;
}

bool hth_device_pools_may_grow(const hth_device_pools *seen, const hth_model_needs *needs,
                               const hth_device_pools *pools, const uint64_t used[HTH_POOLS_MAX])
{
    for (size_t i = 0; i < needs->memory.n_devices; i++) {
        const hth_engine_device_share *device = &needs->memory.devices[i];
        const size_t at = find(seen, device->name);

        if (at < seen->n && hth_engine_share_bytes(&device->share) > 0 && used_of(pools, used, device->name) == 0 &&
            seen->at[at].found_bytes < hth_fit_device_part(device->total_bytes, 0))
            return true;
    }
    return false;
}

bool hth_device_pools_are_unseen(const hth_device_pools *seen, const hth_model_needs *needs)
{
    for (size_t i = 0; i < needs->memory.n_devices; i++) {
        const hth_engine_device_share *device = &needs->memory.devices[i];

        if (device->total_bytes > 0 && hth_engine_share_bytes(&device->share) > 0 &&
            find(seen, device->name) == seen->n)
            return true;
    }
    return false;
}

void hth_device_pools_take_sights(hth_device_pools *pools, const hth_device_pools *seen)
{
    for (size_t i = 0; i < seen->n; i++) {
        const size_t at = find(pools, seen->at[i].name);

        if (at < pools->n)
            pools->at[at].found_bytes = seen->at[i].found_bytes;
    }
}

uint64_t hth_device_pool_limit(const hth_device_pool *pool, uint64_t limit_bytes)
{
    return limit_bytes > 0 ? limit_bytes : hth_fit_device_part(pool->total_bytes, pool->found_bytes);
}
