/*
 * waiters.c - see waiters.h
 *
 * The list runs through the waiters, so it needs no memory, and a waiter can leave at any time. Callbacks may remove
 * and add waiters during a walk. So each walk takes one waiter from the front at a time, puts it back at the end if it
 * is not concerned, and does this as often as there were waiters at its beginning.
 */
#include "server/waiters.h"

#include <assert.h>
#include <stddef.h>

void hth_waiters_init(hth_waiters *waiters, void (*on_idle)(void *user_data), void *user_data)
{
    *waiters = (hth_waiters){ .end = &waiters->first, .on_idle = on_idle, .user_data = user_data };
}

static void insert(hth_waiters *waiters, hth_worker_waiter **at, hth_worker_waiter *waiter)
{
    assert(!waiter->link);
    waiter->list = waiters;
    waiter->next = *at;
    waiter->link = at;
    if (waiter->next)
        waiter->next->link = &waiter->next;
    else
        waiters->end = &waiter->next;
    *at = waiter;
    waiters->n++;
}

/*
 * When a worker dies, its requests come back in the order in which their broken connections are noticed, which is
 * random. In that order an early request could wait for ever while workers die often. So the list is sorted by
 * since_ns.
 */
void hth_waiters_add(hth_waiters *waiters, hth_worker_waiter *waiter)
{
    hth_worker_waiter **at = waiters->end;

    if (waiters->n > 0 && waiter->since_ns < waiters->newest_ns)
        for (at = &waiters->first; *at && (*at)->since_ns <= waiter->since_ns; at = &(*at)->next)
            continue;
    if (waiters->n == 0 || waiter->since_ns > waiters->newest_ns)
        waiters->newest_ns = waiter->since_ns;
    insert(waiters, at, waiter);
}

static void take_out(hth_worker_waiter *waiter)
{
    if (!waiter->link)
        return;
    *waiter->link = waiter->next;
    if (waiter->next)
        waiter->next->link = waiter->link;
    else
        waiter->list->end = waiter->link;
    waiter->list->n--;
    waiter->next = NULL;
    waiter->link = NULL;
    waiter->list = NULL;
}

void hth_worker_waiter_cancel(hth_worker_waiter *waiter)
{
    hth_waiters *held = waiter->held;

    take_out(waiter);
    waiter->held = NULL;
    if (held && --held->n_holders == 0 && held->on_idle)
        held->on_idle(held->user_data);
}

static hth_worker_waiter *take_first(hth_waiters *waiters)
{
    hth_worker_waiter *waiter = waiters->first;

    if (waiter)
        take_out(waiter);
    return waiter;
}

void hth_waiters_give(hth_waiters *waiters, hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    assert(!waiter->link && !waiter->held);
    waiter->held = waiters;
    waiters->n_holders++;
    waiter->on_ready(waiter, socket_path, generation); /* which may end the waiter */
}

void hth_waiters_tell_ready(hth_waiters *waiters, const char *socket_path, uint64_t generation,
                            bool (*is_still_ready)(void *user_data), void *user_data)
{
    for (uint32_t n = waiters->n; n > 0 && waiters->first && is_still_ready(user_data); n--) {
        hth_worker_waiter *waiter = take_first(waiters);

        if (waiter->after < generation)
            hth_waiters_give(waiters, waiter, socket_path, generation);
        else
            insert(waiters, waiters->end, waiter);
    }
}

void hth_waiters_tell_failed(hth_waiters *waiters, uint64_t after, const hearth_error *err)
{
    for (uint32_t n = waiters->n; n > 0 && waiters->first; n--) {
        hth_worker_waiter *waiter = take_first(waiters);

        if (waiter->after >= after)
            waiter->on_failed(waiter, err);
        else
            insert(waiters, waiters->end, waiter);
    }
}

bool hth_waiters_has_late(const hth_waiters *waiters, uint64_t now_ns)
{
    const hth_worker_waiter *waiter = waiters->first;

    while (waiter && waiter->until_ns > now_ns)
        waiter = waiter->next;
    return waiter != NULL;
}

void hth_waiters_tell_late(hth_waiters *waiters, uint64_t now_ns, const hearth_error *err)
{
    for (uint32_t n = waiters->n; n > 0 && waiters->first; n--) {
        hth_worker_waiter *waiter = take_first(waiters);

        if (waiter->until_ns <= now_ns)
            waiter->on_failed(waiter, err);
        else
            insert(waiters, waiters->end, waiter);
    }
}

uint64_t hth_waiters_oldest_ns(const hth_waiters *waiters)
{
    if (!waiters->first)
        return 0;
    return waiters->first->since_ns > 0 ? waiters->first->since_ns : 1;
}

void hth_waiters_drop(hth_waiters *waiters)
{
    while (take_first(waiters))
        continue;
}
