/*
 * batcher_admission.c - admit waiting slots by the cells that they need, and preempt others for them
 */
#include "sched/batcher_inside.h"

enum { TICKS_AS_BEFORE = 64 }; /* a refused preemption is tried again after so many */

static uint32_t n_outstanding(const hth_slot *slot)
{
    uint32_t n = hth_batcher_n_evaluated(slot);

    if (!slot->entry)
        return slot->n_needed;
    return slot->n_room > n ? slot->n_room - n : 0;
}

uint32_t hth_batcher_n_available(const hth_batcher *batcher)
{
    uint64_t promised = 0;
    uint32_t n = hth_cells_n_unheld(hth_pool_cells(batcher->pool));

    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (!batcher->running[i]->is_going)
            promised += n_outstanding(batcher->running[i]);
    return promised < n ? n - (uint32_t)promised : 0;
}

uint32_t hth_batcher_n_needed(const hth_batcher *batcher, const hth_slot *slot)
{
    hth_pool_query query = hth_slot_pool_query(slot);
    uint32_t n_held = 0, n_led = 0;
    uint32_t n_have = hth_pool_n_shared(batcher->pool, &query, &n_held);

    if (batcher->place.kind == HTH_MODEL_PLAIN && hth_batcher_find_leader(batcher, slot, n_have, &n_led) &&
        n_led > n_held)
        n_held = n_led;
    if (n_held == query.n_tokens)
        n_held--; /* the last one may be evaluated once more, for its logits */
    return hth_slot_n_expected(slot) - n_held;
}

/*
 * May a waiting slot preempt a running one? It needs a higher priority, and an earlier place in the queue: a slot that
 * rose by waiting is not sent back to wait.
 */
static bool may_push_out(const hth_batcher *batcher, const hth_slot *waiting, const hth_slot *running)
{
    hth_queue_place first = hth_place_of(waiting, batcher->looked_ns);
    hth_queue_place second = hth_place_of(running, batcher->looked_ns);

    return running->request->priority < waiting->request->priority && !running->cannot_suspend &&
           hth_queue_is_before(&first, &second, batcher->looked_ns, hth_batcher_aging_ns(batcher));
}

/* ---- who makes room ---- */

/*
 * The running slot that makes room first for a waiting one: of the lowest priority, the youngest. NULL: none is left.
 */
static hth_slot *next_victim(const hth_batcher *batcher, const hth_slot *waiting)
{
    hth_slot *found = NULL;

    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];

        if (slot->is_going || !may_push_out(batcher, waiting, slot))
            continue;
        if (!found || slot->request->priority < found->request->priority ||
            (slot->request->priority == found->request->priority && slot->number > found->number))
            found = slot;
    }
    return found;
}

/* Count the slot as preempted, or undo that. */
static void set_going(hth_slot *slot, bool is_going)
{
    slot->is_going = is_going;
    if (slot->entry)
        hth_pool_pretend_released(slot->entry, is_going);
}

/* Are there a place and cells for a waiting slot, when the slots counted as preempted are gone? */
static bool fits(const hth_batcher *batcher, const hth_slot *waiting)
{
    uint32_t n_staying = 0;

    for (uint32_t i = 0; i < batcher->n_running; i++)
        n_staying += !batcher->running[i]->is_going;
    return n_staying < batcher->schedule.n_parallel &&
           hth_batcher_n_available(batcher) >= hth_batcher_n_needed(batcher, waiting);
}

/*
 * Choose the slots to preempt for a waiting slot: the first candidates that together free enough, without those that
 * are not needed for it. Cells that other slots keep, or that the waiting slot shares, count as no gain. Returns how
 * many; 0: all candidates together are not enough.
 */
static uint32_t choose_victims(const hth_batcher *batcher, const hth_slot *waiting, hth_slot **victims)
{
    uint32_t n_all = 0, n = 0, n_chosen = 0;
    bool enough;

    for (hth_slot *slot = next_victim(batcher, waiting); slot; slot = next_victim(batcher, waiting)) {
        set_going(slot, true);
        victims[n_all++] = slot;
    }
    enough = fits(batcher, waiting);
    for (uint32_t i = 0; i < n_all; i++)
        set_going(victims[i], false);
    if (!enough)
        return 0;
    while (n < n_all && !fits(batcher, waiting))
        set_going(victims[n++], true);
    for (uint32_t i = n; i-- > 0;) { /* the last candidate is spared first */
        set_going(victims[i], false);
        if (!fits(batcher, waiting))
            set_going(victims[i], true);
    }
    for (uint32_t i = 0; i < n; i++)
        if (victims[i]->is_going) {
            set_going(victims[i], false);
            victims[n_chosen++] = victims[i];
        }
    return n_chosen;
}

/* Send a slot whose cells are saved back into the waiting line. */
static void suspend(hth_batcher *batcher, hth_slot *slot)
{
    uint32_t i = 0;

    while (batcher->running[i] != slot)
        i++;
    hth_slot_suspend(slot, batcher->pool, hth_batcher_session_until(batcher));
    slot->is_short = false;
    slot->leader = NULL;
    hth_batcher_send_back(batcher, i);
    batcher->n_preempted++;
}

static bool save_all(hth_slot *slot)
{
    slot->cannot_suspend = !hth_slot_save_all(slot); /* it is not tried again */
    return !slot->cannot_suspend;
}

bool hth_batcher_suspend_at(hth_batcher *batcher, uint32_t i)
{
    if (!save_all(batcher->running[i]))
        return false;
    suspend(batcher, batcher->running[i]);
    return true;
}

/*
 * To count what all would leave takes a look at each of their cells. It comes out as before while nobody leaves or
 * begins and nobody rises; only who pauses, or goes on, may change it, which is seen a little later.
 */
static uint64_t n_changes(const hth_batcher *batcher)
{
    return batcher->n_left + batcher->n_begun + batcher->n_ticks / TICKS_AS_BEFORE;
}

static bool was_refused(const hth_batcher *batcher, const hth_slot *waiting)
{
    return batcher->refused_number == waiting->number && batcher->refused_after == n_changes(batcher) &&
           batcher->looked_ns < batcher->refused_until_ns;
}

static void note_refused(hth_batcher *batcher, const hth_slot *waiting)
{
    batcher->refused_number = waiting->number;
    batcher->refused_after = n_changes(batcher);
    batcher->refused_until_ns =
        hth_waiting_line_next_rise(&batcher->line, batcher->looked_ns, hth_batcher_aging_ns(batcher));
}

/* Preempt slots of lower priority for a waiting slot, after all of them were saved: as many as it takes, or none. */
static bool preempt_for(hth_batcher *batcher, const hth_slot *waiting)
{
    hth_slot *victims[HTH_PARALLEL_MAX];
    uint32_t n, n_saved = 0;

    if (was_refused(batcher, waiting))
        return false;
    n = choose_victims(batcher, waiting, victims);
    while (n_saved < n) {
        if (save_all(victims[n_saved++]))
            continue;
        n = choose_victims(batcher, waiting, victims); /* without the slot that could not be saved */
        n_saved = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        suspend(batcher, victims[i]);
    if (n == 0)
        note_refused(batcher, waiting);
    return n > 0;
}

/* True when the slot cannot be admitted whatever it shares. A cheap test: it compares no prompts. */
static bool is_hopeless(const hth_batcher *batcher, const hth_slot *slot)
{
    uint32_t n_alone = hth_slot_n_expected(slot);
    uint32_t n_least = n_alone - (hth_slot_n_limit(slot) < n_alone ? hth_slot_n_limit(slot) : n_alone);
    uint64_t n_most = hth_batcher_n_available(batcher);

    if (batcher->n_running < batcher->schedule.n_parallel && n_most >= n_least)
        return false;
    if (!next_victim(batcher, slot))
        return true;
    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (may_push_out(batcher, slot, batcher->running[i]))
            n_most += hth_batcher_n_evaluated(batcher->running[i]) + n_outstanding(batcher->running[i]);
    return n_most < n_least;
}

/* ---- admission ---- */

/* Admit the first slot of the line. False when it has to wait; then all others wait too. */
static bool admit_one(hth_batcher *batcher, uint64_t now)
{
    hth_slot *slot = hth_waiting_line_first(&batcher->line, now, hth_batcher_aging_ns(batcher));

    if (!slot || is_hopeless(batcher, slot))
        return false;
    if (!fits(batcher, slot) && !(preempt_for(batcher, slot) && fits(batcher, slot)))
        return false;
    hth_waiting_line_remove(&batcher->line, slot);
    slot->n_needed = hth_batcher_n_needed(batcher, slot);
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
    while (admit_one(batcher, batcher->looked_ns));
}
