/*
 * batcher_admission.c - who gets a place, by the cells that it needs, and who makes room for it
 */
#include "sched/batcher_inside.h"

static uint32_t n_outstanding(const hth_slot *slot)
{
    uint32_t n = hth_batcher_n_evaluated(slot);

    if (!slot->seat)
        return slot->n_needed;
    return slot->n_room > n ? slot->n_room - n : 0;
}

uint32_t hth_batcher_n_available(const hth_batcher *batcher)
{
    uint64_t promised = 0;
    uint32_t n = hth_cells_n_unheld(hth_pool_cells(batcher->pool));

    for (uint32_t i = 0; i < batcher->n_running; i++)
        promised += n_outstanding(batcher->running[i]);
    return promised < n ? n - (uint32_t)promised : 0;
}

uint32_t hth_batcher_n_needed(const hth_batcher *batcher, const hth_slot *slot)
{
    hth_guest guest = hth_slot_guest(slot);
    uint32_t n_held = 0, n_led = 0;
    uint32_t n_have = hth_pool_n_shared(batcher->pool, &guest, &n_held);

    if (batcher->place.kind == HTH_MODEL_PLAIN && hth_batcher_find_leader(batcher, slot, n_have, &n_led) &&
        n_led > n_held)
        n_held = n_led;
    if (n_held == guest.n_tokens)
        n_held--; /* the last one may be evaluated once more, for its logits */
    return hth_slot_n_expected(slot) - n_held;
}

/*
 * May a waiting slot push a running one out? It has to be of higher priority, and not behind it in the queue: what has
 * risen by waiting is not sent back to wait.
 */
static bool may_push_out(const hth_batcher *batcher, const hth_slot *waiting, const hth_slot *running)
{
    return running->request->priority < waiting->request->priority && !running->cannot_suspend &&
           hth_batcher_is_before(batcher, waiting, running, batcher->looked_ns);
}

/* The running slot that makes room first for a waiting one: of the lowest priority, the youngest. NULL: none does. */
static hth_slot *next_victim(const hth_batcher *batcher, const hth_slot *waiting, uint32_t *i_out)
{
    hth_slot *found = NULL;

    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];

        if (!may_push_out(batcher, waiting, slot))
            continue;
        if (!found || slot->request->priority < found->request->priority ||
            (slot->request->priority == found->request->priority && slot->number > found->number)) {
            found = slot;
            *i_out = i;
        }
    }
    return found;
}

/* Would there be room for n_cells if all went that it may push out? */
static bool could_have(const hth_batcher *batcher, const hth_slot *waiting, uint32_t n_cells)
{
    uint64_t n = hth_batcher_n_available(batcher);

    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (may_push_out(batcher, waiting, batcher->running[i]))
            n += hth_batcher_n_evaluated(batcher->running[i]) + n_outstanding(batcher->running[i]);
    return n >= n_cells;
}

bool hth_batcher_suspend_at(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];

    if (!hth_batcher_enqueue(batcher, slot))
        return false;
    if (!hth_slot_suspend(slot, batcher->pool, hth_batcher_session_until(batcher))) {
        slot->cannot_suspend = true;
        batcher->n_waiting--;
        return false;
    }
    slot->is_short = false;
    slot->leader = NULL;
    hth_batcher_leave_running(batcher, i);
    batcher->n_preempted++;
    return true;
}

/* Let somebody of lower priority make room. */
static bool preempt_for(hth_batcher *batcher, const hth_slot *slot, uint32_t n_cells)
{
    uint32_t i = 0;

    while (could_have(batcher, slot, n_cells) && next_victim(batcher, slot, &i))
        if (hth_batcher_suspend_at(batcher, i))
            return true;
    return false;
}

/* Can it not be admitted, whatever it shares? Said without comparing its prompt with anybody's, for most ticks. */
static bool is_hopeless(const hth_batcher *batcher, const hth_slot *slot)
{
    uint32_t n_alone = hth_slot_n_expected(slot);
    uint32_t n_least = n_alone - (hth_slot_n_limit(slot) < n_alone ? hth_slot_n_limit(slot) : n_alone);
    uint32_t i;

    return (batcher->n_running == batcher->schedule.n_parallel || hth_batcher_n_available(batcher) < n_least) &&
           !next_victim(batcher, slot, &i);
}

/* Admit the head of the queue; false when it has to wait, and so all others. */
static bool admit_one(hth_batcher *batcher, uint64_t now)
{
    uint32_t i = hth_batcher_head(batcher, now);
    hth_slot *slot;
    uint32_t n_cells;

    if (i == batcher->n_waiting)
        return false;
    slot = batcher->waiting[i];
    if (is_hopeless(batcher, slot))
        return false;
    n_cells = hth_batcher_n_needed(batcher, slot);
    while (batcher->n_running == batcher->schedule.n_parallel || hth_batcher_n_available(batcher) < n_cells) {
        if (!preempt_for(batcher, slot, n_cells))
            return false;
        n_cells = hth_batcher_n_needed(batcher, slot); /* what it shared may no longer be held */
    }
    hth_batcher_remove_at(batcher->waiting, &batcher->n_waiting, i); /* what made room was appended behind it */
    slot->n_needed = n_cells;
    slot->started_ns = now ? now : 1;
    if (!slot->has_begun)
        hth_reply_result(slot->reply)->stats.queue_ms = (double)(now - slot->request->submitted_ns) / 1e6;
    batcher->running[batcher->n_running++] = slot;
    hth_batcher_start(batcher, slot);
    return true;
}

void hth_batcher_admit(hth_batcher *batcher)
{
    do
        batcher->looked_ns = hth_batcher_now(batcher);
    while (batcher->n_waiting > 0 && admit_one(batcher, batcher->looked_ns));
}
