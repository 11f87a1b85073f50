/*
 * spare_rings.h - read queues that are created when a cache opens, for use by restores
 *
 * A process may drop the privilege to create such queues, as a worker does once its model is loaded. It then keeps
 * using these. Only system queues are kept; threads are created on demand.
 */
#ifndef HTH_CACHE_SPARE_RINGS_H
#define HTH_CACHE_SPARE_RINGS_H

#include <pthread.h>

#include "base/read_ring.h"

enum { HTH_SPARE_RINGS_MAX = 4 }; /* restores that read from a cold disk at once; further ones create their own */

typedef struct hth_spare_rings {
    /* Fixed at the init. */
    const hth_fs *fs;
    unsigned depth;
    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    hth_read_ring *rings[HTH_SPARE_RINGS_MAX];
    size_t n;
} hth_spare_rings;

/* Create n queues, at most HTH_SPARE_RINGS_MAX; none if the system has no queue for this file layer. */
void hth_spare_rings_init(hth_spare_rings *spare, const hth_fs *fs, unsigned depth, size_t n);
/* All taken queues must have been given back. */
void hth_spare_rings_deinit(hth_spare_rings *spare);
/* Take a spare queue, or a new one, which may read with threads; NULL without memory. One thread uses it at a time. */
hth_read_ring *hth_spare_rings_take(hth_spare_rings *spare);
/* No read of the queue may be in flight. Accepts NULL. */
void hth_spare_rings_give(hth_spare_rings *spare, hth_read_ring *ring);

#endif
