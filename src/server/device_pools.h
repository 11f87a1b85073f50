/*
 * device_pools.h - the devices that models use, as pools of a plan (residency.h)
 *
 * Models name the same device alike, because their workers see the same devices.
 */
#ifndef HTH_SERVER_DEVICE_POOLS_H
#define HTH_SERVER_DEVICE_POOLS_H

#include "models/needs.h"
#include "server/residency.h"

typedef struct hth_device_pool {
    char name[sizeof(((hth_engine_device_share *)NULL)->name)];
    uint64_t total_bytes; /* the least that a model tells; 0: unknown */
} hth_device_pool;

/* Device i is pool i + 1. Zeros: none. */
typedef struct hth_device_pools {
    hth_device_pool at[HTH_DEVICES_MAX];
    size_t n;
} hth_device_pools;

extern const hth_device_pools hth_device_pools_none;

/* Add the devices that a model uses. Those beyond HTH_DEVICES_MAX have no limit. */
void hth_device_pools_add(hth_device_pools *pools, const hth_model_needs *needs);
/* Write the bytes that a model uses of each device, from bytes[1] on. */
void hth_device_pools_share(const hth_device_pools *pools, const hth_model_needs *needs, uint64_t *bytes);
/* The limit of a device for all models: the operator's, or if that is 0 nine tenths of its memory. UINT64_MAX: none. */
uint64_t hth_device_pool_limit(const hth_device_pool *pool, uint64_t limit_bytes);

#endif
