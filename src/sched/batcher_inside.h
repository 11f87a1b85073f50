/*
 * batcher_inside.h - the batcher's own
 */
#ifndef HTH_SCHED_BATCHER_INSIDE_H
#define HTH_SCHED_BATCHER_INSIDE_H

#include "sched/batcher.h"
#include "sched/turns.h"
#include "sched/waiting_line.h"

enum {
    HTH_GAIN_MIN = 32,    /* least tokens of another request's prefix that are worth waiting for */
    HTH_BREAKS_MAX = 3,   /* failed evaluations after which a request does not begin again */
    HTH_RESTORE_PART = 4, /* a restore may take this part of a tick's time while a reply streams: a quarter */
};

struct hth_batcher {
    hth_workplace place;
    hth_schedule schedule;
    hth_pool *pool;
    hth_batch *batch;
    hth_ended_fn ended;
    void *user_data;

    hth_waiting_line line;
    atomic_bool any_cancelled; /* a waiting slot may have been cancelled since the last look; any thread sets it */
    bool somebody_waits;       /* as of the last admission */
    hth_slot **running;        /* [n_running], the longest first */
    hth_slot **ready;          /* [n_running]: room to choose among them */
    hth_turns turns;
    uint32_t n_running;

    uint64_t n_arrived;
    uint64_t n_ended;
    uint64_t n_begun; /* slots that got a sequence */
    uint64_t n_ticks;
    uint64_t n_preempted;
    uint64_t n_left;         /* requests that have left their places */
    uint64_t looked_ns;      /* at the line, last */
    uint32_t n_to_tell;      /* most tokens to deliver in the rest of this tick */
    uint64_t refused_number; /* of the waiting slot for which no preemption made room; 0: none */
    uint64_t refused_after;  /* changes counted at that time */
    uint64_t refused_until_ns;
    uint32_t one_by_one; /* evaluations to come with one slot each, to find the one that fails */
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

/* End of the time for which a sequence that is released now is kept for its session. */
uint64_t hth_batcher_session_until(const hth_batcher *batcher);
/* Slots that wait for this leader wait no more: they look for a prefix again. */
void hth_batcher_leave_followers(hth_batcher *batcher, const hth_slot *leader);
/* Remove running slot i, which the caller takes over. */
void hth_batcher_leave_running(hth_batcher *batcher, uint32_t i);
/* Put running slot i back into the waiting line. */
void hth_batcher_send_back(hth_batcher *batcher, uint32_t i);
/* End the running slots that are in ENDING. */
void hth_batcher_end_complete(hth_batcher *batcher);

/* ---- batcher_admission.c ---- */

/* Cells that no running slot holds and none was promised. */
uint32_t hth_batcher_n_available(const hth_batcher *batcher);
/* Cells that a slot would take: those of its tokens, except tokens that it shares with running slots now or soon. */
uint32_t hth_batcher_n_needed(const hth_batcher *batcher, const hth_slot *slot);
/* Preempt running slot i, which keeps its position in the order. False when it cannot be saved: it stays. */
bool hth_batcher_suspend_at(hth_batcher *batcher, uint32_t i);
/* Admit waiting slots in their order, until one has to wait. */
void hth_batcher_admit(hth_batcher *batcher);

/* ---- batcher_beginning.c ---- */

/* Tokens in the sequence of a running slot. */
uint32_t hth_batcher_n_evaluated(const hth_slot *slot);
/*
 * The running slot that computes the longest part of this slot's prefix, and the tokens of that part. NULL when no part
 * is much longer than n_have, the tokens that are there already.
 */
hth_slot *hth_batcher_find_leader(const hth_batcher *batcher, const hth_slot *slot, uint32_t n_have, uint32_t *n_out);
/* Begin an admitted slot: it waits for another slot, or occupies a sequence. */
void hth_batcher_start(hth_batcher *batcher, hth_slot *slot);
/* Deliver echoed prompts and replayed replies, at most schedule.n_tell tokens; the longest running slot first. */
void hth_batcher_tell(hth_batcher *batcher);
/* Advance the slots that begin as far as they come without an evaluation. */
void hth_batcher_advance(hth_batcher *batcher);

/* ---- batcher_evaluation.c ---- */

bool hth_batcher_is_ready(const hth_slot *slot);
/* Put the ready slots into the batch. */
void hth_batcher_gather_ready(hth_batcher *batcher);
void hth_batcher_evaluate(hth_batcher *batcher);

#endif
