/*
 * device_pools.h - the devices that models use, as pools of a plan (residency.h)
 *
 * All models use the same name for a device, because their workers see the same devices.
 */
#ifndef HTH_SUPERVISOR_DEVICE_POOLS_H
#define HTH_SUPERVISOR_DEVICE_POOLS_H

#include "models/needs.h"
#include "supervisor/residency.h"

typedef struct hth_device_pool {
    char name[sizeof(((hth_engine_device_share *)NULL)->name)];
    uint64_t total_bytes; /* the smallest size that a model reports; 0: unknown */
    uint64_t found_bytes; /* found for the server's models, free or already theirs; 0: unknown */
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
/*
 * Record in seen the free memory that fresh needs report for devices. At the first sight of a device, used counts, too:
 * the bytes that the server's own models take of the pools (as in hth_device_pools_share). Later sights count free
 * memory alone, and the larger number stays. So memory that other programs release is found, and estimates for the
 * server's own models count once. True: there is more now.
 */
bool hth_device_pools_see(hth_device_pools *seen, const hth_model_needs *fresh, const hth_device_pools *pools,
                          const uint64_t used[HTH_POOLS_MAX]);
/* Does the model use a device of known size whose free memory was not seen yet? */
bool hth_device_pools_are_unseen(const hth_device_pools *seen, const hth_model_needs *needs);
/*
 * Could another sight find more memory? The model must use a device that no model of the server uses now (used is as
 * above), and other programs must have had more than a tenth of it.
 */
bool hth_device_pools_may_grow(const hth_device_pools *seen, const hth_model_needs *needs,
                               const hth_device_pools *pools, const uint64_t used[HTH_POOLS_MAX]);
/* Copy found_bytes of the same devices from seen. */
void hth_device_pools_take_sights(hth_device_pools *pools, const hth_device_pools *seen);
/*
 * The limit of a device for all models: the operator's limit, or nine tenths of the device's memory if that is 0, but
 * not more than was found free. UINT64_MAX: no limit.
 */
uint64_t hth_device_pool_limit(const hth_device_pool *pool, uint64_t limit_bytes);

#endif
