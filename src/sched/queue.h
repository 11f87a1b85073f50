/*
 * queue.h - the order of waiting requests
 *
 * By priority, then by arrival. A request's priority rises by one for each aging_ns that it has waited, so that none
 * starves. A preempted request keeps its number.
 */
#ifndef HTH_SCHED_QUEUE_H
#define HTH_SCHED_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hth_queue_place {
    int32_t priority;
    uint64_t since_ns; /* arrival time, plus the time that it has run */
    uint64_t number;   /* assigned at arrival */
} hth_queue_place;

/* Does a come before b? A strict order for any now_ns >= both since_ns; aging_ns > 0. */
bool hth_queue_is_before(const hth_queue_place *a, const hth_queue_place *b, uint64_t now_ns, uint64_t aging_ns);

#endif
