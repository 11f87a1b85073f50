/*
 * batcher_inside.h - the batcher's own
 */
#ifndef HTH_SCHED_BATCHER_INSIDE_H
#define HTH_SCHED_BATCHER_INSIDE_H

#include <string.h>

#include "sched/batch.h"
#include "sched/batcher.h"
#include "sched/queue.h"

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

/* ---- batcher.c ---- */

static inline uint64_t hth_batcher_now(const hth_batcher *batcher)
{
    return hth_workplace_now(&batcher->place);
}

/* Until when what somebody leaves now is kept for its session. */
uint64_t hth_batcher_session_until(const hth_batcher *batcher);
/* It neither waits nor runs any more: conclude it, tell of it, free it. */
void hth_batcher_end(hth_batcher *batcher, hth_slot *slot);
/* Those who wait for what it was computing look for themselves now. */
void hth_batcher_leave_followers(hth_batcher *batcher, const hth_slot *leader);
/* Running slot i runs no more; it is the caller's. */
void hth_batcher_leave_running(hth_batcher *batcher, uint32_t i);
/* End those who run and are complete. */
void hth_batcher_end_complete(hth_batcher *batcher);

static inline void hth_batcher_remove_at(hth_slot **slots, uint32_t *n, uint32_t i)
{
    memmove(&slots[i], &slots[i + 1], (--*n - i) * sizeof(*slots));
}

/* ---- batcher_waiting.c ---- */

/* False when there is no memory. */
bool hth_batcher_enqueue(hth_batcher *batcher, hth_slot *slot);
/* Where a slot stands, waiting or running: only the time that it has waited lets it rise. */
hth_queue_place hth_batcher_place_of(const hth_slot *slot, uint64_t now);
uint64_t hth_batcher_aging(const hth_batcher *batcher);
bool hth_batcher_is_before(const hth_batcher *batcher, const hth_slot *a, const hth_slot *b, uint64_t now);
/* What made room because nobody reads it does not come back before somebody does. */
bool hth_batcher_is_parked(const hth_slot *slot);
/* Whose turn it is; n_waiting: nobody's. */
uint32_t hth_batcher_head(const hth_batcher *batcher, uint64_t now);

/* ---- batcher_admission.c ---- */

/* Cells that nobody has, and nobody was promised. */
uint32_t hth_batcher_n_available(const hth_batcher *batcher);
/* Cells that a slot would take: all of its tokens but those that it shares with running ones, now or soon. */
uint32_t hth_batcher_n_needed(const hth_batcher *batcher, const hth_slot *slot);
/* Running slot i goes back into the queue, where it was. Where it cannot be saved, or queued, it stays: false. */
bool hth_batcher_suspend_at(hth_batcher *batcher, uint32_t i);
/* Give places to those who wait, in their order, until one has to go on waiting. */
void hth_batcher_admit(hth_batcher *batcher);

/* ---- batcher_beginning.c ---- */

/* How far a running slot has come. */
uint32_t hth_batcher_n_evaluated(const hth_slot *slot);
/* The running slot that computes most of what this one needs; NULL where nobody does enough of it. */
hth_slot *hth_batcher_find_leader(const hth_batcher *batcher, const hth_slot *slot, uint32_t n_have, uint32_t *n_out);
/* Begin what was admitted: wait for somebody, or take a seat. */
void hth_batcher_start(hth_batcher *batcher, hth_slot *slot);
/* Bring everything that is beginning as far as it comes without an evaluation. */
void hth_batcher_advance(hth_batcher *batcher);

/* ---- batcher_evaluation.c ---- */

bool hth_batcher_is_ready(const hth_slot *slot);
/* Put those into the batch who are ready. */
void hth_batcher_gather_ready(hth_batcher *batcher);
void hth_batcher_evaluate(hth_batcher *batcher);

#endif
