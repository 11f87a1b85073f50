/*
 * scheduler.h - the thread that owns a model's context
 *
 * Everybody else talks to it through its mailbox: requests, saves, the end. Between two evaluations it takes what has
 * come, so a cancel or a save waits for one evaluation at most. This cut runs one request at a time, in the order of
 * their arrival; the finished sequence stays in the context for the next one to share.
 */
#ifndef HTH_SCHED_SCHEDULER_H
#define HTH_SCHED_SCHEDULER_H

#include "sched/request.h"
#include "sched/sequence.h"

enum {
    HTH_QUEUE_MAX = 1024, /* requests that wait */
    HTH_SEQUENCES = 2,    /* ids of the context that the scheduler uses: one running, one for cutting rows */
};

/*
 * What the engine asks in the middle of an evaluation. It exists before the context, whose abort callback gets it, and
 * the scheduler points it to the running request's flag.
 */
typedef struct hth_pulse {
    _Atomic(const atomic_bool *) cancelled; /* NULL: no request runs */
} hth_pulse;
/* For the context's abort callback; user_data is an hth_pulse. True when the running request is cancelled. */
bool hth_pulse_wants_abort(void *user_data);

typedef struct hth_scheduler hth_scheduler;

/* Start the thread. What workplace points to, pulse and counters outlive the scheduler; the workplace is copied. */
hearth_status hth_scheduler_open(const hth_workplace *workplace, hth_pulse *pulse, hth_counters *counters,
                                 hth_scheduler **out, hearth_error *err);
/* Cancel everything, save what the context holds (shutdown save), end the thread. Accepts NULL. */
void hth_scheduler_close(hth_scheduler *scheduler);

/* Queue a request, taken over on HEARTH_OK only. HEARTH_BUSY when the queue is full; HEARTH_CANCELLED when refusing. */
hearth_status hth_scheduler_submit(hth_scheduler *scheduler, hth_request *request, hearth_error *err);
/* Mark a request as cancelled, waiting or running. False when it is not there. */
bool hth_scheduler_cancel(hth_scheduler *scheduler, uint64_t id);
/* Mark every request as cancelled. */
void hth_scheduler_cancel_all(hth_scheduler *scheduler);
/* Refuse new requests from now on; those that are known go on. */
void hth_scheduler_refuse(hth_scheduler *scheduler);
/* Wait until no request is known. Only after hth_scheduler_refuse does that last. */
void hth_scheduler_wait_idle(hth_scheduler *scheduler);

/* Save the context's sequences; with HEARTH_SAVE_EVICT empty it where no request runs. HEARTH_TIMED_OUT. */
hearth_status hth_scheduler_save(hth_scheduler *scheduler, hearth_save_reason reason, uint32_t timeout_ms,
                                 hearth_error *err);

typedef struct hth_scheduler_status {
    hearth_activity activity;
    uint64_t request_id;
    uint32_t n_done;
    uint32_t n_total;
    uint32_t n_waiting;
} hth_scheduler_status;
/* As of the last step. Never waits for an evaluation. */
void hth_scheduler_status_get(hth_scheduler *scheduler, hth_scheduler_status *out);

#endif
