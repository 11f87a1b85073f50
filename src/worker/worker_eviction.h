/*
 * worker_eviction.h - evicts rows from a worker's memory at the front's order, on a separate thread: a number of bytes,
 * or those above a new quota of the RAM tier
 */
#ifndef HTH_WORKER_WORKER_EVICTION_H
#define HTH_WORKER_WORKER_EVICTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "hearth.h"

/* All zeros: none. Event loop only, except the marked fields. */
typedef struct hth_worker_eviction {
    hearth_runtime *runtime;
    uint64_t ram_bytes, ram_file_bytes;
    uint64_t ram_quota; /* the new quota */
    bool sets_quota;    /* it only sets the quota */
    pthread_t thread;
    bool is_running;
    atomic_bool has_ended;              /* set by the thread: the next two may be read */
    uint64_t ram_freed, ram_file_freed; /* likewise */
} hth_worker_eviction;

/* Begin an eviction, unless one runs. False: none was begun. */
bool hth_worker_eviction_begin(hth_worker_eviction *eviction, hearth_runtime *runtime, uint64_t ram_bytes,
                               uint64_t ram_file_bytes);
/* Likewise for a new quota of the RAM tier. */
bool hth_worker_eviction_begin_quota(hth_worker_eviction *eviction, hearth_runtime *runtime, uint64_t quota);
/*
 * Has one ended since the last call? Then ram_freed and ram_file_freed have its result, unless it set a quota.
 */
bool hth_worker_eviction_take(hth_worker_eviction *eviction);
/* Wait for its end. */
void hth_worker_eviction_end(hth_worker_eviction *eviction);

#endif
