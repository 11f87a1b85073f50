/*
 * The list runs through the waiters, so it needs no memory, and a waiter can leave at any time. Callbacks may remove
 * and add waiters during a walk. So a walk begins anew after each callback, and has a number: it concerns only waiters
 * that were added before it. A walk over n waiters of which it does not concern some takes n * n steps at most.
 */
#include "supervisor/waiters.h"

#include <assert.h>
#include <stddef.h>

#include <utlist.h>

void hth_waiters_init(hth_waiters *waiters, void (*on_idle)(void *user_data), void *user_data)
{
    *waiters = (hth_waiters){ .on_idle = on_idle, .user_data = user_data };
}

/* Negative if the new waiter comes behind one of the list. */
static int compare(const hth_worker_waiter *listed, const hth_worker_waiter *waiter)
{
    return listed->since_ns <= waiter->since_ns ? -1 : 1;
}

/*
 * When a worker dies, its requests return in the random order in which their broken connections are noticed. In that
 * order an early request could wait for ever while workers die often. So the list is sorted by since_ns.
 */
void hth_waiters_add(hth_waiters *waiters, hth_worker_waiter *waiter)
{
    assert(!waiter->list);
    waiter->list = waiters;
    waiter->walk = waiters->n_walks;
    if (!waiters->first || compare(waiters->first->prev, waiter) < 0)
        DL_APPEND(waiters->first, waiter); /* usually it is the newest */
    else
        DL_INSERT_INORDER(waiters->first, waiter, compare);
    waiters->n++;
}

static void take_out(hth_worker_waiter *waiter)
{
    DL_DELETE(waiter->list->first, waiter);
    waiter->list->n--;
    waiter->list = NULL;
}

void hth_worker_waiter_cancel(hth_worker_waiter *waiter)
{
    hth_waiters *held = waiter->held;

    if (waiter->list)
        take_out(waiter);
    waiter->held = NULL;
    if (held && --held->n_holders == 0 && held->on_idle)
        held->on_idle(held->user_data);
}

void hth_waiters_give(hth_waiters *waiters, hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    assert(!waiter->list && !waiter->held);
    waiter->held = waiters;
    waiters->n_holders++;
    waiter->on_ready(waiter, socket_path, generation); /* may end the waiter */
}

typedef bool (*concerns_fn)(const hth_worker_waiter *waiter, uint64_t bound);

static bool needs_earlier(const hth_worker_waiter *waiter, uint64_t generation)
{
    return waiter->after < generation;
}

static bool needs_later(const hth_worker_waiter *waiter, uint64_t after)
{
    return waiter->after >= after;
}

static bool is_impatient(const hth_worker_waiter *waiter, uint64_t bound)
{
    (void)bound;
    return !waiter->outlasts_breaks;
}

static bool is_late(const hth_worker_waiter *waiter, uint64_t now_ns)
{
    return waiter->until_ns <= now_ns;
}

/* Remove the first waiter that the walk concerns; NULL: none. */
static hth_worker_waiter *take_next(hth_waiters *waiters, uint64_t walk, concerns_fn concerns, uint64_t bound)
{
    for (hth_worker_waiter *waiter = waiters->first; waiter; waiter = waiter->next) {
        if (waiter->walk < walk && concerns(waiter, bound)) {
            take_out(waiter);
            return waiter;
        }
    }
    return NULL;
}

void hth_waiters_tell_ready(hth_waiters *waiters, const char *socket_path, uint64_t generation,
                            bool (*is_still_ready)(void *user_data), void *user_data)
{
    const uint64_t walk = ++waiters->n_walks;
    hth_worker_waiter *waiter;

    while (is_still_ready(user_data) && (waiter = take_next(waiters, walk, needs_earlier, generation)) != NULL)
        hth_waiters_give(waiters, waiter, socket_path, generation);
}

static void tell_failed(hth_waiters *waiters, concerns_fn concerns, uint64_t bound, const hearth_error *err)
{
    const uint64_t walk = ++waiters->n_walks;
    hth_worker_waiter *waiter;

    while ((waiter = take_next(waiters, walk, concerns, bound)) != NULL)
        waiter->on_failed(waiter, err);
}

void hth_waiters_tell_failed(hth_waiters *waiters, uint64_t after, const hearth_error *err)
{
    tell_failed(waiters, needs_later, after, err);
}

void hth_waiters_fail_overdue(hth_waiters *waiters, const hearth_error *err)
{
    tell_failed(waiters, is_impatient, 0, err);
}

void hth_waiters_tell_late(hth_waiters *waiters, uint64_t now_ns, const hearth_error *err)
{
    tell_failed(waiters, is_late, now_ns, err);
}

bool hth_waiters_has_late(const hth_waiters *waiters, uint64_t now_ns)
{
    const hth_worker_waiter *waiter = waiters->first;

    while (waiter && waiter->until_ns > now_ns)
        waiter = waiter->next;
    return waiter != NULL;
}

uint64_t hth_waiters_oldest_ns(const hth_waiters *waiters)
{
    if (!waiters->first)
        return 0;
    return waiters->first->since_ns > 0 ? waiters->first->since_ns : 1;
}

void hth_waiters_drop(hth_waiters *waiters)
{
    while (waiters->first)
        hth_worker_waiter_cancel(waiters->first);
}
