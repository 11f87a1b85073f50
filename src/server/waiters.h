/*
 * waiters.h - those who wait for a worker of one model, first come, first served
 */
#ifndef HTH_SERVER_WAITERS_H
#define HTH_SERVER_WAITERS_H

#include "server/supervisor.h"

struct hth_waiters {
    hth_worker_waiter *first;
    hth_worker_waiter **end; /* the link behind the last one */
    uint64_t newest_ns;      /* no less than the since_ns of any that waits */
    uint32_t n;
};

void hth_waiters_init(hth_waiters *waiters);
/* Put before those who began later, else at the end; until_ns and after are set. */
void hth_waiters_add(hth_waiters *waiters, hth_worker_waiter *waiter);
/* Tell all who want a generation like that one. A callback may add, cancel and, by what it does, end the worker:
 * is_still_ready is asked before each. */
void hth_waiters_tell_ready(hth_waiters *waiters, const char *socket_path, uint64_t generation,
                            bool (*is_still_ready)(void *user_data), void *user_data);
/* Tell all who were there before the call; only those who want none of the generations up to after, when it is not 0. */
void hth_waiters_tell_failed(hth_waiters *waiters, uint64_t after, const hearth_error *err);
/* Tell those whose time is over; err says so. */
void hth_waiters_tell_late(hth_waiters *waiters, uint64_t now_ns, const hearth_error *err);
bool hth_waiters_has_late(const hth_waiters *waiters, uint64_t now_ns);
/* Forget all without telling them. */
void hth_waiters_drop(hth_waiters *waiters);

#endif
