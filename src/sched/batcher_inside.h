/*
 * batcher_inside.h - the batcher's own
 */
#ifndef HTH_SCHED_BATCHER_INSIDE_H
#define HTH_SCHED_BATCHER_INSIDE_H

#include "sched/batch.h"
#include "sched/batcher.h"

enum {
    HTH_GAIN_MIN = 32,    /* tokens that are worth waiting for */
    HTH_BREAKS_MAX = 3,   /* failed evaluations after which a request is not brought in again */
    HTH_RESTORE_PART = 4, /* of a tick's time may go to a restore while somebody streams */
};

struct hth_batcher {
    hth_workplace place;
    hth_schedule schedule;
    hth_pool *pool;
    hth_batch *batch;
    hth_ended_fn ended;
    void *user_data;

    hth_slot **waiting; /* [n_waiting], in no order */
    uint32_t n_waiting;
    uint32_t waiting_capacity;
    hth_slot **running; /* [n_running], the longest first */
    uint32_t n_running;

    uint64_t n_arrived;
    uint64_t n_ended;
    uint64_t n_begun; /* slots that took a seat */
    uint64_t n_ticks;
    uint64_t n_preempted;
    uint64_t n_left;     /* requests that ran and run no more: there may be room for others */
    uint64_t looked_ns;  /* at the queue, lately */
    uint32_t one_by_one; /* evaluations to come with one slot each, to see which of them fails */
};

#endif
