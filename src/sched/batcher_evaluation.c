/*
 * batcher_evaluation.c - one evaluation: gather the ready slots, and use its results
 */
#include "sched/batcher_inside.h"
#include "sched/slot_draft.h"

/* A reply has outgrown the cells that it was admitted for: reserve more, or let it wait in place. */
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

/*
 * Everybody who runs has outgrown the context, or is paused. Who is paused makes room first, for nobody is to wait for
 * a slow reader; then the youngest does, and goes on when there is some. What cannot be saved for that ends here, as in
 * a context that is full.
 */
static void relieve(hth_batcher *batcher)
{
    bool any_paused = false;

    for (uint32_t i = batcher->n_running; i-- > 0;) {
        const hth_slot *slot = batcher->running[i];

        /* One that tells has few cells or none, but cells are promised to it. */
        if ((slot->state != HTH_SLOT_EVALUATE && slot->state != HTH_SLOT_TELL) || !hth_slot_waits_for_reader(slot))
            continue;
        if (!slot->cannot_suspend && hth_batcher_suspend_at(batcher, i))
            return;
        any_paused = true;
    }
    if (any_paused)
        return; /* a paused slot that cannot be saved continues, or ends as stalled, before long */
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
    return slot->state == HTH_SLOT_EVALUATE && !slot->is_short && !hth_slot_waits_for_reader(slot);
}

/* Put the ready slots whose turn it is into the batch. */
static void add_turn(hth_batcher *batcher, uint32_t n_ready)
{
    if (n_ready == 0)
        return;
    hth_turns_next(&batcher->turns, batcher->ready, n_ready, hth_batcher_now(batcher), batcher->one_by_one > 0);
    for (uint32_t i = 0; i < n_ready; i++) {
        hth_slot *slot = batcher->ready[i];

        if (slot->turn_wait == 0)
            hth_batch_add(batcher->batch, slot); /* sorted: the longest unserved first */
        else if (slot->was_prefilled)
            hth_batch_hurry(batcher->batch);
    }
}

void hth_batcher_gather_ready(hth_batcher *batcher)
{
    bool any_short = false, any_other = false;
    uint32_t n_ready = 0;

    hth_batch_clear(batcher->batch);
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];

        if (slot->state == HTH_SLOT_EVALUATE)
            grow_room(batcher, slot);
        any_short |= slot->is_short;
        any_other |= !slot->is_short && slot->state != HTH_SLOT_PREFIX && !hth_slot_waits_for_reader(slot);
        if (hth_batcher_is_ready(slot))
            batcher->ready[n_ready++] = slot;
    }
    add_turn(batcher, n_ready);
    if (any_short && !any_other)
        relieve(batcher);
}

/* Draw after the last token, and after the tokens of the draft as long as they are the drawn ones. */
static void draw(const hth_batch *batch, hth_slot *slot)
{
    hth_slot_draw(slot);
    for (uint32_t i = 0; hth_slot_has_drawn_draft(slot, i); i++) {
        slot->logits = hth_batch_draft_logits(batch, slot, i);
        hth_slot_draw(slot);
    }
    hth_slot_end_draft(slot);
}

/* Draw and save after an evaluation that succeeded. */
static void use_logits(hth_batcher *batcher)
{
    for (uint32_t i = 0; i < hth_batch_n_slots(batcher->batch); i++)
        draw(batcher->batch, hth_batch_slot(batcher->batch, i)); /* first, because a reader waits for it */
    hth_workplace_note(&batcher->place, HEARTH_WORK_TOLD, NULL, 0);
    for (uint32_t i = 0; i < hth_batch_n_slots(batcher->batch); i++) {
        hth_slot *slot = hth_batch_slot(batcher->batch, i);

        if (slot->n_in_batch == 0)
            continue;
        hth_slot_save(slot, hth_batch_logits(batcher->batch, slot), slot->has_followers || !batcher->place.cache);
        slot->last_ticked = batcher->n_ticks;
    }
}

/* The sequence was emptied under its slot: restore or compute it again. */
static void begin_again(hth_batcher *batcher, hth_slot *slot)
{
    hth_slot_note_broken(slot);
    if (slot->n_breaks++ >= HTH_BREAKS_MAX)
        return; /* evaluate the rest; the next failure is its own */
    if (hth_sequence_n_tokens(slot->entry->sequence) == 0) {
        hth_slot_release(slot, batcher->pool, hth_batcher_session_until(batcher));
        slot->n_needed = slot->n_room; /* its reply may need more cells; the next tick checks */
        slot->leader = NULL;
        slot->state = HTH_SLOT_PREFIX;
        hth_batcher_leave_followers(batcher, slot); /* else they could wait for each other */
    }
}

void hth_batcher_evaluate(hth_batcher *batcher)
{
    hearth_error err = { .message = "" };
    uint32_t n_slots;
    hth_decode_result result = HTH_DECODE_OK;
    hearth_status status;
    bool is_alone; /* it fails for no other reason than its one slot */

    n_slots = hth_batch_plan(batcher->batch, &batcher->schedule, batcher->one_by_one > 0);
    if (n_slots == 0)
        return;
    is_alone = n_slots == 1 && hth_batch_n_draft(batcher->batch) == 0;
    batcher->n_ticks++;
    if (batcher->one_by_one > 0)
        batcher->one_by_one--;
    hth_pool_limit_idle(batcher->pool, hth_batch_n_idle_max(batcher->batch));
    (void)hth_pool_make_room(batcher->pool, hth_batch_n_rows(batcher->batch)); /* the promised cells are there */
    hth_batch_fill(batcher->batch, batcher->schedule.n_sequences, hth_cells_n_unused(hth_pool_cells(batcher->pool)));
    status = hth_batch_evaluate(batcher->batch, &result, &err);
    if (status == HEARTH_OK && result == HTH_DECODE_NO_ROOM &&
        hth_pool_make_room(batcher->pool, hth_cells_n_unheld(hth_pool_cells(batcher->pool))))
        status = hth_batch_evaluate(batcher->batch, &result, &err); /* empty all finished ones */
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
        if (!is_alone || result == HTH_DECODE_ABORTED)
            continue;
        if (status != HEARTH_OK)
            hth_slot_stop(slot, status, HEARTH_FINISH_NONE, err.message);
        else if (slot->was_prefilled)
            hth_slot_stop(slot, HEARTH_OK, HEARTH_FINISH_LENGTH, NULL);
        else
            hth_slot_stop(slot, HEARTH_ENGINE, HEARTH_FINISH_NONE, "the engine has no room for the prompt");
    }
    if (!is_alone) /* evaluate each alone and without a draft, to find the one that fails */
        batcher->one_by_one = n_slots;
}
