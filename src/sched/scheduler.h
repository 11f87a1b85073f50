/*
 * scheduler.h - the thread that owns a model's context
 *
 * Everybody else talks to it through its mailbox: requests, saves, the end. Between two ticks of its batcher it takes what
 * has come, so a cancel or a save waits for one evaluation at most.
 */
#ifndef HTH_SCHED_SCHEDULER_H
#define HTH_SCHED_SCHEDULER_H

#include "cache/counters.h"
#include "sched/batcher.h"

typedef struct hth_scheduler hth_scheduler;

/*
 * Start the thread. What workplace and schedule point to, pulse and counters outlive the scheduler; workplace and schedule
 * are copied. queue_max: requests that may wait.
 */
hearth_status hth_scheduler_open(const hth_workplace *workplace, const hth_schedule *schedule, uint32_t queue_max,
                                 hth_pulse *pulse, hth_counters *counters, hth_scheduler **out, hearth_error *err);
/* Cancel everything, save what the context holds (shutdown save), end the thread. Accepts NULL. */
void hth_scheduler_close(hth_scheduler *scheduler);
/* What slots are made with. */
const hth_workplace *hth_scheduler_workplace(const hth_scheduler *scheduler);
/* Is the calling thread one of a scheduler, whichever? Then it runs a callback, and no scheduler can be closed on it. */
bool hth_scheduler_is_this_thread(void);

/*
 * Queue requests, n >= 1: all are taken over on HEARTH_OK, none otherwise. HEARTH_BUSY when the queue is full or a session
 * has a request already; HEARTH_CANCELLED when refusing.
 */
hearth_status hth_scheduler_submit(hth_scheduler *scheduler, hth_slot *const *slots, size_t n, hearth_error *err);
/* Mark a request as cancelled, waiting or running. False when it is not there. */
bool hth_scheduler_cancel(hth_scheduler *scheduler, uint64_t id);
/* Have a request linger (hth_batcher_linger). False when it is not there. */
bool hth_scheduler_linger(hth_scheduler *scheduler, uint64_t id, uint32_t ms);
/* Mark a request as paused by who holds it, or not by him any more. False when it is not there. */
bool hth_scheduler_pause(hth_scheduler *scheduler, uint64_t id, hth_pause by, bool paused);
/*
 * Wait until a request is not known any more, and its on_done has returned. False after timeout_ms; UINT32_MAX: no limit.
 * Not on the scheduler's thread.
 */
bool hth_scheduler_wait(hth_scheduler *scheduler, uint64_t id, uint32_t timeout_ms);
/* Mark every request as cancelled. */
void hth_scheduler_cancel_all(hth_scheduler *scheduler);
/* Have it look at what was marked, should it sleep. */
void hth_scheduler_wake(hth_scheduler *scheduler);
/* Refuse new requests from now on; those that are known go on. */
void hth_scheduler_refuse(hth_scheduler *scheduler);
/* Wait until no request is known. Only after hth_scheduler_refuse does that last. */
void hth_scheduler_wait_idle(hth_scheduler *scheduler);

/* Save the context's sequences; with HEARTH_SAVE_EVICT empty the finished ones. HEARTH_TIMED_OUT. */
hearth_status hth_scheduler_save(hth_scheduler *scheduler, hearth_save_reason reason, uint32_t timeout_ms,
                                 hearth_error *err);
/* HEARTH_NOT_FOUND when no cells are kept for it, HEARTH_BUSY when a request of it is known. */
hearth_status hth_scheduler_end_session(hth_scheduler *scheduler, const uint8_t fingerprint[32], const char *session,
                                        hearth_error *err);

/*
 * Empty finished sequences, unsaved, that have more than n_kept of these tokens in common with them: their rows are about
 * to go. tokens is read during the call. HEARTH_NO_MEMORY, HEARTH_BUSY.
 */
hearth_status hth_scheduler_forget(hth_scheduler *scheduler, const uint8_t fingerprint[32], const hearth_token *tokens,
                                   uint32_t n_tokens, uint32_t n_kept, hearth_error *err);

/* As of the last tick. Never waits for an evaluation. */
void hth_scheduler_status_get(hth_scheduler *scheduler, hth_batcher_status *out);

#endif
