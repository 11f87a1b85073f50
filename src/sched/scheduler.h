/*
 * scheduler.h - the thread that owns a model's context
 *
 * Other threads send it messages: requests, saves, the end. It reads its message queue between two ticks of its
 * batcher, so a cancel or a save waits for one evaluation at most.
 */
#ifndef HTH_SCHED_SCHEDULER_H
#define HTH_SCHED_SCHEDULER_H

#include "sched/batcher.h"

typedef struct hth_scheduler hth_scheduler;

/*
 * Start the thread. workplace and schedule are copied. Everything that they point to must outlive the scheduler, and so
 * must pulse and counters. queue_max is the maximum number of waiting requests.
 */
hearth_status hth_scheduler_open(const hth_workplace *workplace, const hth_schedule *schedule, uint32_t queue_max,
                                 hth_pulse *pulse, hth_counters *counters, hth_scheduler **out, hearth_error *err);
/* Cancel everything, save what the context holds (shutdown save), end the thread. Accepts NULL. */
void hth_scheduler_close(hth_scheduler *scheduler);
/* The argument of hth_slot_new. */
const hth_workplace *hth_scheduler_workplace(const hth_scheduler *scheduler);
/* Is the calling thread the thread of any scheduler? If so, it is in a callback and must not close a scheduler. */
bool hth_scheduler_is_this_thread(void);

/*
 * Queue n >= 1 requests: all are taken over on HEARTH_OK, none otherwise. HEARTH_BUSY if the queue is full or the
 * session already has a request; HEARTH_CANCELLED after hth_scheduler_refuse; HEARTH_MISUSE if n is more than can ever
 * be queued; HEARTH_NO_MEMORY.
 */
hearth_status hth_scheduler_submit(hth_scheduler *scheduler, hth_slot *const *slots, size_t n, hearth_error *err);
/* Cancel a request that waits or runs. False if the id is unknown. */
bool hth_scheduler_cancel(hth_scheduler *scheduler, uint64_t id);
/* hth_batcher_linger. False if the id is unknown. */
bool hth_scheduler_linger(hth_scheduler *scheduler, uint64_t id, uint32_t ms);
/* hth_batcher_rows_came. False if the id is unknown. */
bool hth_scheduler_rows_came(hth_scheduler *scheduler, uint64_t id);
/* Set or end one holder's pause of a request. False if the id is unknown. */
bool hth_scheduler_pause(hth_scheduler *scheduler, uint64_t id, hth_pause by, bool paused);
/*
 * Wait until a request has ended and its on_done has returned. False after timeout_ms; UINT32_MAX: no limit. Must not
 * be called on the scheduler's thread.
 */
bool hth_scheduler_wait(hth_scheduler *scheduler, uint64_t id, uint32_t timeout_ms);
void hth_scheduler_cancel_all(hth_scheduler *scheduler);
/* Refuse new requests from now on; known requests continue. */
void hth_scheduler_refuse(hth_scheduler *scheduler);
/* Wait until no request is known. Call hth_scheduler_refuse first, or new requests may arrive. */
void hth_scheduler_wait_idle(hth_scheduler *scheduler);

/*
 * Save the sequences of the context; with HEARTH_SAVE_EVICT empty the finished ones. HEARTH_TIMED_OUT; HEARTH_FULL if a
 * row was lost; HEARTH_BUSY if the message queue is full; HEARTH_NO_MEMORY.
 */
hearth_status hth_scheduler_save(hth_scheduler *scheduler, hearth_save_reason reason, uint32_t timeout_ms,
                                 hearth_error *err);
/*
 * End a session, for all sets of adapters. HEARTH_NOT_FOUND if no cells are kept for the session; HEARTH_BUSY while it
 * has a request; HEARTH_NO_MEMORY.
 */
hearth_status hth_scheduler_end_session(hth_scheduler *scheduler, const hth_keyspace *tenant, const char *session,
                                        hearth_error *err);

/*
 * hth_pool_forget, before the rows of these tokens are removed. tokens is read during the call. HEARTH_NO_MEMORY,
 * HEARTH_BUSY.
 */
hearth_status hth_scheduler_forget(hth_scheduler *scheduler, const uint8_t fingerprint[32], const hearth_token *tokens,
                                   uint32_t n_tokens, uint32_t n_kept, hearth_error *err);

/* The status as of the last tick. Never waits for an evaluation. */
void hth_scheduler_status_get(hth_scheduler *scheduler, hth_batcher_status *out);

#endif
