/*
 * batcher.h - many requests in one context
 *
 * A tick is one evaluation and what goes with it:
 *
 *   end what is cancelled or out of time
 *   admit what waits, by the cells that it needs; of a higher priority also in the place of what runs
 *   tell what comes before a reply's first token, where it is asked for
 *   begin: share what is live, wait for what another request is computing, restore rows
 *   draw where logits were saved
 *   fill a batch by the strategy, evaluate it
 *   draw and emit; save what was completed; end what is complete
 *
 * A batcher has no thread and takes no lock: the scheduler's thread ticks it, and a test may do so with a clock of its
 * own. What it answers depends on the order of calls, the clock, and the engine alone.
 */
#ifndef HTH_SCHED_BATCHER_H
#define HTH_SCHED_BATCHER_H

#include "sched/pool.h"
#include "sched/slot.h"
#include "sched/strategy.h"

enum { HTH_PARALLEL_MAX = 128 };

/*
 * What the engine asks in the middle of an evaluation. It exists before the context, whose abort callback gets it; the
 * batcher points it to the flags of the requests in the batch.
 */
typedef struct hth_pulse {
    _Atomic uint32_t n; /* 0: nothing is evaluated */
    _Atomic(const atomic_bool *) cancelled[HTH_PARALLEL_MAX];
} hth_pulse;
/* For the context's abort callback; user_data is an hth_pulse. True when every request in the batch is cancelled. */
bool hth_pulse_wants_abort(void *user_data);

typedef struct hth_schedule {
    uint32_t n_parallel;  /* requests that run at once, 1 .. HTH_PARALLEL_MAX */
    uint32_t n_sequences; /* at least one more than n_parallel; the context has one more still, for cutting rows */
    hth_strategy strategy;
    uint32_t prefill_chunk; /* 64, 128 or 256 */
    uint32_t max_tick_ms;
    uint32_t session_idle_ms;
    uint32_t stalled_ms;
    uint32_t aging_ms;
    uint32_t n_tell; /* tokens of prompts that are echoed, and of replies that are replayed, told of in a tick; >= 1 */
} hth_schedule;

enum { HTH_TELL_TOKENS = 2048 }; /* what n_tell is, where nobody wants to see the steps: a millisecond or so */

/* A request has ended: its result is complete. The slot is freed when this returns. */
typedef void (*hth_ended_fn)(hth_slot *slot, void *user_data);

typedef struct hth_batcher hth_batcher;

/* The workplace and the schedule are copied; what they point to, and pulse, outlive the batcher. */
hearth_status hth_batcher_open(const hth_workplace *workplace, const hth_schedule *schedule, hth_pulse *pulse,
                               hth_ended_fn ended, void *user_data, hth_batcher **out, hearth_error *err);
/* Nothing runs or waits any more (asserted). Nothing is saved. Accepts NULL. */
void hth_batcher_close(hth_batcher *batcher);
/* As copied: what slots are made with. */
const hth_workplace *hth_batcher_workplace(const hth_batcher *batcher);

/* Let a slot wait for its turn; taken over. Without memory it ends at once. */
void hth_batcher_add(hth_batcher *batcher, hth_slot *slot);
/* Cancel a request whose slot was added, or will be, and has not ended: it ends with the next tick. Any thread. */
void hth_batcher_cancel(hth_batcher *batcher, hth_request *request);
/* Likewise: nobody waits for its reply, but its prompt is read on for ms at most, as long as nobody waits for a place. */
void hth_batcher_linger(hth_batcher *batcher, hth_request *request, uint32_t ms);
/* One tick. True when there is more to do at once; else nothing happens before hth_batcher_wake_ns, or a call. */
bool hth_batcher_tick(hth_batcher *batcher);
uint64_t hth_batcher_wake_ns(const hth_batcher *batcher); /* UINT64_MAX: never */
/* Nothing waits or runs. */
bool hth_batcher_is_idle(const hth_batcher *batcher);

/* Save every sequence; with HEARTH_SAVE_EVICT empty the finished ones. */
void hth_batcher_save(hth_batcher *batcher, hearth_save_reason reason);
/* False when no cells are kept for the session. */
bool hth_batcher_end_session(hth_batcher *batcher, const uint8_t fingerprint[32], const char *session);
/* hth_pool_forget. */
void hth_batcher_forget(hth_batcher *batcher, const uint8_t fingerprint[32], const hearth_token *tokens,
                        uint32_t n_tokens, uint32_t n_kept);

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
} hth_batcher_status;
void hth_batcher_status_get(const hth_batcher *batcher, hth_batcher_status *out);

#endif
