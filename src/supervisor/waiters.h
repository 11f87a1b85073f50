/*
 * waiters.h - requests that wait for a worker of one model, first come, first served, and requests that have it
 *
 * A request that got the worker holds it until it cancels its waiter or asks again. The worker may end when there are
 * no holders.
 */
#ifndef HTH_SUPERVISOR_WAITERS_H
#define HTH_SUPERVISOR_WAITERS_H

#include <stdbool.h>

#include "hearth.h"

typedef struct hth_waiters hth_waiters;

/*
 * A waiter is a member of the object that waits. The caller sets the callbacks, since_ns and outlasts_breaks, and
 * clears the rest to zero.
 */
typedef struct hth_worker_waiter hth_worker_waiter;
struct hth_worker_waiter {
    /*
     * The worker is ready. socket_path is valid for the call; generation counts the model's processes, from 1. Both
     * callbacks may be called within hth_supervisor_want, and may call it again, even with this waiter.
     */
    void (*on_ready)(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation);
    /*
     * The wait is over without a worker: HEARTH_BUSY with retry_after_s, HEARTH_TIMED_OUT, HEARTH_NOT_FOUND when the
     * model was removed, or HEARTH_CANCELLED when it is not resident and no request brings it in. The message gives
     * the reason.
     */
    void (*on_failed)(hth_worker_waiter *waiter, const hearth_error *err);
    /*
     * Earlier waiters are notified first. A request whose worker died keeps its time, so it goes before later requests.
     */
    uint64_t since_ns;
    /* Its client already has a part of the reply, so it waits for its full time, even while the circuit is open. */
    bool outlasts_breaks;
    /* Owned by the supervisor until on_failed is called or the waiter is cancelled. */
    hth_worker_waiter *prev, *next;
    hth_waiters *list; /* NULL: it is in none */
    uint64_t until_ns;
    uint64_t after;    /* it needs a generation later than this; 0: any will do */
    uint64_t walk;     /* the last walk before it was added */
    hth_waiters *held; /* on_ready was called, and it holds the worker */
};

struct hth_waiters {
    hth_worker_waiter *first;
    uint32_t n;                       /* that wait */
    uint64_t n_walks;                 /* by the functions that notify waiters */
    uint32_t n_holders;               /* waiters that have the worker; the list must outlive them */
    void (*on_idle)(void *user_data); /* the last holder is gone; must not call functions of this list */
    void *user_data;
};

void hth_waiters_init(hth_waiters *waiters, void (*on_idle)(void *user_data), void *user_data);
/* Make a waiter, which is in no list, a holder. Then call on_ready. */
void hth_waiters_give(hth_waiters *waiters, hth_worker_waiter *waiter, const char *socket_path, uint64_t generation);
/* The arrival time of the first waiting request; 0: none waits. */
uint64_t hth_waiters_oldest_ns(const hth_waiters *waiters);
/* Insert by since_ns. The caller has set until_ns and after. */
void hth_waiters_add(hth_waiters *waiters, hth_worker_waiter *waiter);
/*
 * Call on_ready of all waiters whose after is below generation. A callback may add and cancel waiters, and may end the
 * worker, so is_still_ready is asked before each.
 */
void hth_waiters_tell_ready(hth_waiters *waiters, const char *socket_path, uint64_t generation,
                            bool (*is_still_ready)(void *user_data), void *user_data);
/* Call on_failed of the present waiters; if after is not 0, only of those whose own `after` is at least as large. */
void hth_waiters_tell_failed(hth_waiters *waiters, uint64_t after, const hearth_error *err);
/* Call on_failed of the present waiters that do not outlast breaks. */
void hth_waiters_fail_overdue(hth_waiters *waiters, const hearth_error *err);
/* Call on_failed with err of the waiters whose until_ns has passed. */
void hth_waiters_tell_late(hth_waiters *waiters, uint64_t now_ns, const hearth_error *err);
bool hth_waiters_has_late(const hth_waiters *waiters, uint64_t now_ns);
/* End its wait, and release the worker if it holds it. Accepts a waiter that is in no list. */
void hth_worker_waiter_cancel(hth_worker_waiter *waiter);
/* Remove all waiters without a callback. */
void hth_waiters_drop(hth_waiters *waiters);

#endif
