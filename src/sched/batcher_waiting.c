/*
 * batcher_waiting.c - the waiting line: who comes next
 */
#include "sched/batcher_inside.h"

#include <stdlib.h>

bool hth_batcher_enqueue(hth_batcher *batcher, hth_slot *slot)
{
    if (batcher->n_waiting == batcher->waiting_capacity) {
        uint32_t capacity = 2 * batcher->waiting_capacity + 16;
        hth_slot **grown = realloc(batcher->waiting, capacity * sizeof(hth_slot *));

        if (!grown)
            return false;
        batcher->waiting = grown;
        batcher->waiting_capacity = capacity;
    }
    batcher->waiting[batcher->n_waiting++] = slot;
    return true;
}

void hth_batcher_add(hth_batcher *batcher, hth_slot *slot)
{
    slot->number = ++batcher->n_arrived;
    if (hth_batcher_enqueue(batcher, slot))
        return;
    hth_slot_stop(slot, HEARTH_NO_MEMORY, HEARTH_FINISH_NONE, "no memory to queue the request");
    hth_batcher_end(batcher, slot);
}

hth_queue_place hth_batcher_place_of(const hth_slot *slot, uint64_t now)
{
    uint64_t ran = slot->ran_ns + (slot->started_ns > 0 ? now - slot->started_ns : 0);

    return (hth_queue_place){
        .priority = slot->request->priority,
        .since_ns = slot->request->submitted_ns + ran < now ? slot->request->submitted_ns + ran : now,
        .number = slot->number,
    };
}

uint64_t hth_batcher_aging(const hth_batcher *batcher)
{
    return hth_ms_to_ns(batcher->schedule.aging_ms);
}

bool hth_batcher_is_before(const hth_batcher *batcher, const hth_slot *a, const hth_slot *b, uint64_t now)
{
    hth_queue_place first = hth_batcher_place_of(a, now), second = hth_batcher_place_of(b, now);

    return hth_queue_is_before(&first, &second, now, hth_batcher_aging(batcher));
}

bool hth_batcher_is_parked(const hth_slot *slot)
{
    return slot->has_begun && hth_slot_is_paused(slot);
}

uint32_t hth_batcher_head(const hth_batcher *batcher, uint64_t now)
{
    uint32_t found = batcher->n_waiting;

    for (uint32_t i = 0; i < batcher->n_waiting; i++)
        if (!hth_batcher_is_parked(batcher->waiting[i]) &&
            (found == batcher->n_waiting ||
             hth_batcher_is_before(batcher, batcher->waiting[i], batcher->waiting[found], now)))
            found = i;
    return found;
}
