/*
 * batcher_inside.h - the batcher's state, for batcher.c and for tests that check its invariants
 */
#ifndef HTH_SCHED_BATCHER_INSIDE_H
#define HTH_SCHED_BATCHER_INSIDE_H

#include "sched/batcher.h"
#include "sched/turns.h"
#include "sched/waiting_line.h"

struct hth_batcher {
    hth_workplace place;
    hth_schedule schedule;
    hth_pool *pool;
    hth_batch *batch;
    hth_ended_fn ended;
    void *user_data;

    hth_waiting_line line;
    atomic_bool any_cancelled; /* a waiting slot may have been cancelled since the last check; any thread sets it */
    bool somebody_waits;       /* as of the last admission */
    hth_slot **running;        /* [n_running], longest running first */
    hth_slot **ready;          /* [n_running]: scratch space to choose among them */
    hth_turns turns;
    uint32_t n_running;

    uint64_t n_arrived;
    uint64_t n_ended;
    uint64_t n_begun; /* slots that got a sequence */
    uint64_t n_ticks;
    uint64_t n_preempted;
    uint64_t n_left;         /* requests that have left their places */
    uint64_t looked_ns;      /* last check of the line */
    uint32_t n_to_tell;      /* maximum number of tokens to deliver in the rest of this tick */
    uint64_t refused_number; /* of the waiting slot that no preemption can make room for; 0: none */
    uint64_t refused_after;  /* n_changes at that time */
    uint64_t refused_until_ns;
    uint32_t one_by_one; /* remaining evaluations with one slot each, to find the slot that fails */
};

#endif
