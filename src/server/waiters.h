/*
 * waiters.h - requests that wait for a worker of one model, first come, first served
 */
#ifndef HTH_SERVER_WAITERS_H
#define HTH_SERVER_WAITERS_H

#include <stdbool.h>

#include "hearth.h"

typedef struct hth_waiters hth_waiters;

/* A waiter is a member of the object that waits. The caller sets the callbacks and since_ns, the rest is zeros. */
typedef struct hth_worker_waiter hth_worker_waiter;
struct hth_worker_waiter {
    /*
     * The worker is ready. socket_path is valid for the call; generation counts the model's processes, from 1. Both
     * callbacks may come within hth_supervisor_want, and may call it again, also with this waiter.
     */
    void (*on_ready)(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation);
    /*
     * No worker will be ready soon: HEARTH_BUSY with retry_after_s, HEARTH_TIMED_OUT, or HEARTH_NOT_FOUND when the
     * model was removed. The message gives the reason.
     */
    void (*on_failed)(hth_worker_waiter *waiter, const hearth_error *err);
    /* Earlier ones are told first. A request whose worker died keeps its time, so it goes before later requests. */
    uint64_t since_ns;
    /* The supervisor's, until a callback came or the waiter was cancelled. */
    hth_worker_waiter *next;
    hth_worker_waiter **link; /* NULL: not in a list */
    hth_waiters *list;
    uint64_t until_ns;
    uint64_t after;
};

struct hth_waiters {
    hth_worker_waiter *first;
    hth_worker_waiter **end; /* the link behind the last one */
    uint64_t newest_ns;      /* at least the since_ns of every waiter */
    uint32_t n;
};

void hth_waiters_init(hth_waiters *waiters);
/* Insert by since_ns. until_ns and after are set. */
void hth_waiters_add(hth_waiters *waiters, hth_worker_waiter *waiter);
/*
 * Call on_ready of all waiters whose after is below generation. A callback may add and cancel waiters, and may end the
 * worker, so is_still_ready is asked before each.
 */
void hth_waiters_tell_ready(hth_waiters *waiters, const char *socket_path, uint64_t generation,
                            bool (*is_still_ready)(void *user_data), void *user_data);
/*
 * Call on_failed of the present waiters; when after is not 0, only of those whose own after is at least as large.
 */
void hth_waiters_tell_failed(hth_waiters *waiters, uint64_t after, const hearth_error *err);
/* Call on_failed with err of the waiters whose until_ns has passed. */
void hth_waiters_tell_late(hth_waiters *waiters, uint64_t now_ns, const hearth_error *err);
bool hth_waiters_has_late(const hth_waiters *waiters, uint64_t now_ns);
void hth_worker_waiter_cancel(hth_worker_waiter *waiter); /* accepts one that is in no list */
/* Remove all without a callback. */
void hth_waiters_drop(hth_waiters *waiters);

#endif
