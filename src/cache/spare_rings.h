/*
 * spare_rings.h - queues of reads, made when a cache opens and lent to one restore after the other
 *
 * A process that has given up the right to make such queues, as a worker has once its model is loaded, goes on with those
 * it has. Only the system's own queue is kept: threads are made when they are wanted.
 */
#ifndef HTH_CACHE_SPARE_RINGS_H
#define HTH_CACHE_SPARE_RINGS_H

#include <pthread.h>

#include "base/read_ring.h"

enum { HTH_SPARE_RINGS_MAX = 4 }; /* restores that read from a cold disk at once; more of them make their own */

typedef struct hth_spare_rings {
    /* Fixed when made. */
    const hth_fs *fs;
    unsigned depth;
    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    hth_read_ring *rings[HTH_SPARE_RINGS_MAX];
    size_t n;
} hth_spare_rings;

/* Makes n, at most HTH_SPARE_RINGS_MAX; none where the system has no queue for this file layer. */
void hth_spare_rings_init(hth_spare_rings *spare, const hth_fs *fs, unsigned depth, size_t n);
/* All that were taken have been given back. */
void hth_spare_rings_deinit(hth_spare_rings *spare);
/* One that is there, else a new one, which may read with threads; NULL without memory. One thread uses it at a time. */
hth_read_ring *hth_spare_rings_take(hth_spare_rings *spare);
/* Nothing is out. Accepts NULL. */
void hth_spare_rings_give(hth_spare_rings *spare, hth_read_ring *ring);

#endif
