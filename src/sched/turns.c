/*
 * This is start-time fair queueing (Goyal, Vin, Cheng, "Start-time Fair Queueing", 1996), with a request as a flow. A
 * slot is due at a virtual time, its set at the time of its earliest slot. The set that is due first gets the turn, the
 * clock moves to that time, and each of its n slots becomes due 1/n later than the clock. Unlike in the paper, a
 * newcomer is due one unit after the clock, so that a series of short requests does not keep the others waiting.
 */
#include "sched/turns.h"

#include <assert.h>
#include <string.h>

#define UNIT ((uint64_t)1 << 32)

static bool has_digest(const hth_slot *slot, const uint8_t digest[32])
{
    return memcmp(hth_adapter_set_digest(slot->request->adapters), digest, 32) == 0;
}

/* Is a's turn before b's? Of slots that are due at the same time, the one that has waited longest comes first. */
static bool is_before(const hth_slot *a, const hth_slot *b)
{
    if (a->turn_due != b->turn_due)
        return a->turn_due < b->turn_due;
    return a->turn_wait > 0 && (b->turn_wait == 0 || a->turn_wait < b->turn_wait);
}

/* Note which slots wait. Returns how many do not. */
static uint32_t note_waits(hth_turns *turns, hth_slot *const *slots, uint32_t n)
{
    uint32_t n_same = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (has_digest(slots[i], turns->digest)) {
            slots[i]->turn_wait = 0;
            n_same++;
        } else if (slots[i]->turn_wait == 0) {
            slots[i]->turn_wait = ++turns->n_waits;
        }
    }
    return n_same;
}

void hth_turns_next(hth_turns *turns, hth_slot *const *slots, uint32_t n, uint64_t now_ns, bool keeps)
{
    const hth_slot *first = slots[0];
    uint32_t n_same = note_waits(turns, slots, n);

    for (uint32_t i = 0; i < n; i++) {
        if (slots[i]->turn_due == 0 || n_same == n) /* a turn costs nothing if no other slot waits */
            slots[i]->turn_due = turns->clock + UNIT;
        if (is_before(slots[i], first))
            first = slots[i];
    }
    if (n_same > 0 && (n_same == n || now_ns < turns->end_ns || keeps))
        return;
    /* The set of that slot has the next turn. */
    memcpy(turns->digest, hth_adapter_set_digest(first->request->adapters), sizeof(turns->digest));
    turns->end_ns = now_ns + hth_ms_to_ns(HTH_TURN_MS);
    if (turns->clock < first->turn_due)
        turns->clock = first->turn_due;
    n_same = note_waits(turns, slots, n);
    assert(n_same > 0); /* first is among them */
    for (uint32_t i = 0; i < n; i++)
        if (slots[i]->turn_wait == 0)
            slots[i]->turn_due = turns->clock + UNIT / n_same;
}
