/*
 * batcher.h - many requests in one context
 *
 * A tick is one evaluation and what goes with it:
 *
 *   end requests that are cancelled or out of time
 *   admit waiting requests whose cells fit; a higher priority may preempt running requests
 *   deliver echoed prompts and replayed replies
 *   begin: share live cells, wait for rows or for a prefix that another request is computing, restore rows
 *   draw from saved logits
 *   let the strategy fill a batch, evaluate it
 *   draw and deliver tokens; save completed rows; end complete requests
 *
 * A batcher has no thread and takes no lock: the scheduler's thread ticks it, and a test can do so with its own clock.
 * Its results depend only on the order of calls, the clock and the engine.
 */
#ifndef HTH_SCHED_BATCHER_H
#define HTH_SCHED_BATCHER_H

#include "cache/counters.h"
#include "sched/batch.h"
#include "sched/turns.h"
#include "sched/waiting_line.h"

/* A request has ended: its result is complete. The slot is freed when this returns. */
typedef void (*hth_ended_fn)(hth_slot *slot, void *user_data);

/* Others only read place and n_ticks. */
typedef struct hth_batcher {
    hth_workplace place; /* the argument of hth_slot_new */
    hth_schedule schedule;
    hth_pool *pool;
    hth_batch *batch;
    hth_ended_fn ended;
    void *user_data;

    hth_waiting_line line;
    atomic_bool any_cancelled; /* a waiting slot may have been cancelled since the last check; any thread sets it */
    bool somebody_waits;       /* as of the last admission */
    hth_slot *running[HTH_PARALLEL_MAX]; /* [n_running], longest running first */
    hth_slot *ready[HTH_PARALLEL_MAX];   /* [n_running]: scratch space to choose among them */
    hth_turns turns;
    uint32_t n_running;

    uint64_t n_arrived;
    uint64_t n_ended;
    uint64_t n_begun; /* slots that got a sequence */
    uint64_t n_ticks; /* with an evaluation */
    uint64_t n_preempted;
    uint64_t n_left;         /* requests that have left their places */
    uint64_t n_yielded;      /* slots that gave up the cells of their admission, to wait for rows */
    uint64_t looked_ns;      /* last check of the line */
    uint32_t n_to_tell;      /* maximum number of tokens to deliver in the rest of this tick */
    uint64_t refused_number; /* of the waiting slot that no preemption can make room for; 0: none */
    uint64_t refused_after;  /* n_changes at that time */
    uint64_t refused_until_ns;
    uint32_t one_by_one; /* remaining evaluations with one slot each, to find the slot that fails */
} hth_batcher;

/* workplace and schedule are copied. Everything that they point to must outlive the batcher, and so must pulse. */
hearth_status hth_batcher_open(const hth_workplace *workplace, const hth_schedule *schedule, hth_pulse *pulse,
                               hth_ended_fn ended, void *user_data, hth_batcher **out, hearth_error *err);
/* No request may run or wait (asserted). Saves nothing. Accepts NULL. */
void hth_batcher_close(hth_batcher *batcher);

/* Put a slot into the waiting line, which takes it over. If out of memory, the slot ends at once. */
void hth_batcher_add(hth_batcher *batcher, hth_slot *slot);
/* Admit slots of the line now rather than with the next tick. True if the line is now empty. */
bool hth_batcher_admit_now(hth_batcher *batcher);
/* Cancel a request that has not ended and whose slot was added or will be: it ends with the next tick. Any thread. */
void hth_batcher_cancel(hth_batcher *batcher, hth_request *request);
/*
 * The same, but the prefill of the request continues for at most ms, as long as no other request waits. No client waits
 * for its reply.
 */
void hth_batcher_linger(hth_batcher *batcher, hth_request *request, uint32_t ms);
/* The rows that on_missing fetches have come, or will not: the request looks them up at the next tick. Any thread. */
void hth_batcher_rows_came(hth_request *request);
/* One tick. False when nothing is left to do before hth_batcher_wake_ns or the next call. */
bool hth_batcher_tick(hth_batcher *batcher);
uint64_t hth_batcher_wake_ns(const hth_batcher *batcher); /* UINT64_MAX: never */
/* Does no request wait or run? */
bool hth_batcher_is_idle(const hth_batcher *batcher);

/* Save every sequence; with HEARTH_SAVE_EVICT empty the finished ones. */
void hth_batcher_save(hth_batcher *batcher, hearth_save_reason reason);
/* False if no cells are kept for the session. */
bool hth_batcher_end_session(hth_batcher *batcher, const hth_keyspace *tenant, const char *session);
/* hth_pool_forget, in the draft model's sequences, too. */
void hth_batcher_forget(hth_batcher *batcher, const uint8_t fingerprint[32], const hearth_token *tokens,
                        uint32_t n_tokens, uint32_t n_kept);

/* Count a slot that has ended. */
void hth_batcher_count(hth_counters *counters, const hth_slot *slot);

typedef struct hth_batcher_status {
    hearth_activity activity; /* of the request that has run longest */
    uint64_t request_id;
    uint32_t n_done;
    uint32_t n_total;
    uint32_t n_waiting;
    uint32_t n_running;
    uint32_t n_idle_sequences;
    uint32_t n_cells_used;
    uint64_t n_ticks;
    uint64_t n_preempted;
    uint64_t n_prompt_left; /* these three as in hearth_model_info */
    uint64_t prompt_token_ns;
    uint64_t reply_token_ns;
} hth_batcher_status;
void hth_batcher_status_get(const hth_batcher *batcher, hth_batcher_status *out);

#endif
