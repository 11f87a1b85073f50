/*
 * batcher_inside.h - the batcher's own
 */
#ifndef HTH_SCHED_BATCHER_INSIDE_H
#define HTH_SCHED_BATCHER_INSIDE_H

#include "sched/batch.h"
#include "sched/batcher.h"
#include "sched/waiting_line.h"

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

    hth_waiting_line line;
    atomic_bool any_cancelled; /* of those who wait, perhaps, since the last look; by anybody */
    bool somebody_waits;       /* as of the last admission */
    hth_slot **running;        /* [n_running], the longest first */
    uint32_t n_running;

    uint64_t n_arrived;
    uint64_t n_ended;
    uint64_t n_begun; /* slots that took a seat */
    uint64_t n_ticks;
    uint64_t n_preempted;
    uint64_t n_left;         /* requests that ran and run no more: there may be room for others */
    uint64_t looked_ns;      /* at the line, lately */
    uint32_t n_to_tell;      /* tokens, in what is left of this tick */
    uint64_t refused_number; /* of the waiting slot for whom nobody could make room; 0: none */
    uint64_t refused_after;  /* so many changes */
    uint64_t refused_until_ns;
    uint32_t one_by_one; /* evaluations to come with one slot each, to see which of them fails */
};

/* ---- batcher.c ---- */

static inline uint64_t hth_batcher_now(const hth_batcher *batcher)
{
    return hth_workplace_now(&batcher->place);
}

static inline uint64_t hth_batcher_aging_ns(const hth_batcher *batcher)
{
    return hth_ms_to_ns(batcher->schedule.aging_ms);
}

/* Until when what somebody leaves now is kept for its session. */
uint64_t hth_batcher_session_until(const hth_batcher *batcher);
/* Those who wait for what it was computing look for themselves now. */
void hth_batcher_leave_followers(hth_batcher *batcher, const hth_slot *leader);
/* Running slot i runs no more; it is the caller's. */
void hth_batcher_leave_running(hth_batcher *batcher, uint32_t i);
/* Running slot i waits again. */
void hth_batcher_send_back(hth_batcher *batcher, uint32_t i);
/* End those who run and are complete. */
void hth_batcher_end_complete(hth_batcher *batcher);

/* ---- batcher_admission.c ---- */

/* Cells that nobody has, and nobody was promised. */
uint32_t hth_batcher_n_available(const hth_batcher *batcher);
/* Cells that a slot would take: all of its tokens but those that it shares with running ones, now or soon. */
uint32_t hth_batcher_n_needed(const hth_batcher *batcher, const hth_slot *slot);
/* Running slot i goes back into the line, where it was. Where it cannot be saved it stays: false. */
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
/* Tell what comes before first tokens, in the order of who has run longest; at most so much as a tick may. */
void hth_batcher_tell(hth_batcher *batcher);
/* Bring everything that is beginning as far as it comes without an evaluation. */
void hth_batcher_advance(hth_batcher *batcher);

/* ---- batcher_evaluation.c ---- */

bool hth_batcher_is_ready(const hth_slot *slot);
/* Put those into the batch who are ready. */
void hth_batcher_gather_ready(hth_batcher *batcher);
void hth_batcher_evaluate(hth_batcher *batcher);

#endif
