/*
 * queue.h - in which order waiting requests get their turn
 *
 * By priority, and within one by arrival. A request rises by one priority for each aging_ns that it has waited, so that
 * nothing starves. What made room for another keeps its place.
 */
#ifndef HTH_SCHED_QUEUE_H
#define HTH_SCHED_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hth_queue_place {
    int32_t priority;
    uint64_t since_ns; /* of its arrival */
    uint64_t number;   /* likewise, counted */
} hth_queue_place;

/* Its priority, risen by its waiting so far. */
int64_t hth_queue_rank(const hth_queue_place *place, uint64_t now_ns, uint64_t aging_ns);
/* Does a come before b? A strict order for any now_ns >= both arrivals; aging_ns > 0. */
bool hth_queue_is_before(const hth_queue_place *a, const hth_queue_place *b, uint64_t now_ns, uint64_t aging_ns);

#endif
