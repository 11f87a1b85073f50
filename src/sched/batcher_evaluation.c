/*
 * batcher_evaluation.c - one evaluation: who is ready for it, and what comes of it
 */
#include "sched/batcher_inside.h"

/* Where a reply has outgrown what it was admitted for: more room, or it waits in place. */
static void grow_room(hth_batcher *batcher, hth_slot *slot)
{
    uint32_t n = HTH_BLOCK_TOKENS, n_max = batcher->place.n_ctx - slot->n_room;

    slot->is_short = false;
    if (slot->n_tokens <= slot->n_room)
        return;
    if (n > n_max)
        n = n_max;
    if (n > hth_batcher_n_available(batcher))
        n = hth_batcher_n_available(batcher);
    slot->n_room += n;
    slot->is_short = slot->n_tokens > slot->n_room;
}

static bool is_paused(const hth_slot *slot)
{
    return slot->was_prefilled && hth_slot_is_paused(slot);
}

/*
 * Everybody who runs has outgrown the context, or is paused. Who is paused makes room first, for nobody is to wait for a
 * slow reader; then the youngest does, and goes on when there is some. What cannot be saved for that ends here, as in a
 * context that is full.
 */
static void relieve(hth_batcher *batcher)
{
    bool any_paused = false;

    for (uint32_t i = batcher->n_running; i-- > 0;) {
        if (batcher->running[i]->state != HTH_SLOT_EVALUATE || !is_paused(batcher->running[i]))
            continue;
        if (!batcher->running[i]->cannot_suspend && hth_batcher_suspend_at(batcher, i))
            return;
        any_paused = true;
    }
    if (any_paused)
        return; /* what it has cannot be saved: it goes on, or is given up, before long */
    for (uint32_t i = batcher->n_running; i-- > 0;) {
        hth_slot *slot = batcher->running[i];

        if (!slot->is_short)
            continue;
        if (!hth_batcher_suspend_at(batcher, i)) {
            hth_slot_stop(slot, HEARTH_OK, HEARTH_FINISH_LENGTH, NULL);
            hth_batcher_end_complete(batcher);
        }
        return;
    }
}

bool hth_batcher_is_ready(const hth_slot *slot)
{
    return slot->state == HTH_SLOT_EVALUATE && !slot->is_short && !is_paused(slot);
}

void hth_batcher_gather_ready(hth_batcher *batcher)
{
    bool any_short = false, any_other = false;

    hth_batch_clear(batcher->batch);
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];

        if (slot->state == HTH_SLOT_EVALUATE)
            grow_room(batcher, slot);
        any_short |= slot->is_short;
        any_other |= !slot->is_short && slot->state != HTH_SLOT_PREFIX && !is_paused(slot);
        if (hth_batcher_is_ready(slot))
            hth_batch_add(batcher->batch, slot); /* who was served least lately comes first */
    }
    if (any_short && !any_other)
        relieve(batcher);
}

/* After an evaluation that went well. */
static void use_logits(hth_batcher *batcher)
{
    for (uint32_t i = 0; i < hth_batch_n_slots(batcher->batch); i++)
        hth_slot_draw(hth_batch_slot(batcher->batch, i)); /* first, for somebody waits for it */
    hth_workplace_note(&batcher->place, HEARTH_WORK_TOLD, NULL, 0);
    for (uint32_t i = 0; i < hth_batch_n_slots(batcher->batch); i++) {
        hth_slot *slot = hth_batch_slot(batcher->batch, i);

        if (slot->n_in_batch == 0)
            continue;
        hth_slot_save(slot, hth_batch_logits(batcher->batch, slot), slot->has_followers || !batcher->place.cache);
        slot->last_ticked = batcher->n_ticks;
    }
}

/* A sequence that was emptied under its slot is brought in again. */
static void begin_again(hth_batcher *batcher, hth_slot *slot)
{
    hth_slot_note_broken(slot);
    if (slot->n_breaks++ >= HTH_BREAKS_MAX)
        return; /* what is left of it is evaluated; the next failure is its own */
    if (hth_sequence_n_tokens(slot->seat->sequence) == 0) {
        hth_slot_leave(slot, batcher->pool, hth_batcher_session_until(batcher));
        slot->n_needed = slot->n_room; /* with its reply it may need more: the next tick sees whether that is there */
        slot->leader = NULL;
        slot->state = HTH_SLOT_PREFIX;
        hth_batcher_leave_followers(batcher, slot); /* else it might choose one of them, and both would wait */
    }
}

void hth_batcher_evaluate(hth_batcher *batcher)
{
    hearth_error err = { .message = "" };
    uint32_t n_slots;
    hth_decode_result result = HTH_DECODE_OK;
    hearth_status status;

    n_slots = hth_batch_plan(batcher->batch, &batcher->schedule, batcher->one_by_one > 0);
    if (n_slots == 0)
        return;
    batcher->n_ticks++;
    if (batcher->one_by_one > 0)
        batcher->one_by_one--;
    hth_pool_limit_idle(batcher->pool, hth_batch_n_idle_max(batcher->batch));
    (void)hth_pool_make_room(batcher->pool, hth_batch_n_rows(batcher->batch)); /* what was promised is there */
    status = hth_batch_evaluate(batcher->batch, &result, &err);
    if (status == HEARTH_OK && result == HTH_DECODE_NO_ROOM &&
        hth_pool_make_room(batcher->pool, hth_cells_n_unheld(hth_pool_cells(batcher->pool))))
        status = hth_batch_evaluate(batcher->batch, &result, &err); /* the engine sees it otherwise: all that can go */
    if (status == HEARTH_OK && result == HTH_DECODE_OK) {
        use_logits(batcher);
        return;
    }
    for (uint32_t i = 0; i < hth_batch_n_slots(batcher->batch); i++) {
        hth_slot *slot = hth_batch_slot(batcher->batch, i);

        if (slot->n_in_batch == 0)
            continue;
        if (result == HTH_DECODE_ABORTED)
            hth_slot_note_broken(slot); /* all are cancelled, and end with the next tick */
        else if (status != HEARTH_OK)
            begin_again(batcher, slot);
        if (n_slots > 1 || result == HTH_DECODE_ABORTED)
            continue;
        if (status != HEARTH_OK)
            hth_slot_stop(slot, status, HEARTH_FINISH_NONE, err.message);
        else if (slot->was_prefilled)
            hth_slot_stop(slot, HEARTH_OK, HEARTH_FINISH_LENGTH, NULL);
        else
            hth_slot_stop(slot, HEARTH_ENGINE, HEARTH_FINISH_NONE, "the engine has no room for the prompt");
    }
    if (n_slots > 1) /* whose fault it is shows when each is evaluated alone */
        batcher->one_by_one = n_slots;
}
