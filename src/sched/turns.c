/*
 * turns.c - see turns.h
 */
#include "sched/turns.h"

#include <string.h>

static bool has_digest(const hth_slot *slot, const uint8_t digest[32])
{
    return memcmp(hth_adapter_set_digest(slot->request->adapters), digest, 32) == 0;
}

/* The slot whose set comes next: the one that has waited longest, else one that has not waited yet. */
static const hth_slot *longest_waiting(const hth_turns *turns, hth_slot *const *slots, uint32_t n)
{
    const hth_slot *found = NULL;

    for (uint32_t i = 0; i < n; i++)
        if (!has_digest(slots[i], turns->digest) &&
            (!found || (slots[i]->turn_wait > 0 && (found->turn_wait == 0 || slots[i]->turn_wait < found->turn_wait))))
            found = slots[i];
    return found;
}

void hth_turns_next(hth_turns *turns, hth_slot *const *slots, uint32_t n, uint64_t now_ns, bool keeps)
{
    const hth_slot *other = longest_waiting(turns, slots, n);
    bool goes_on = false;

    for (uint32_t i = 0; i < n && !goes_on; i++)
        goes_on = has_digest(slots[i], turns->digest);
    if (other && (!goes_on || (now_ns >= turns->end_ns && !keeps))) {
        memcpy(turns->digest, hth_adapter_set_digest(other->request->adapters), sizeof(turns->digest));
        turns->end_ns = now_ns + hth_ms_to_ns(HTH_TURN_MS);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (has_digest(slots[i], turns->digest))
            slots[i]->turn_wait = 0;
        else if (slots[i]->turn_wait == 0)
            slots[i]->turn_wait = ++turns->n_waits;
    }
}
