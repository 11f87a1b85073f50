/*
 * turns.h - whose turn it is among requests with different adapters
 *
 * The engine applies one set of adapters in an evaluation, and changing the set costs about as much as an evaluation.
 * So requests with one set run together for a while, their turn, before those with another set. A set gets as many
 * turns as it has requests, so a client gains nothing by spreading requests over many sets. Between two turns of a
 * request, every other request costs it at most one turn, and later requests do not overtake it.
 */
#ifndef HTH_SCHED_TURNS_H
#define HTH_SCHED_TURNS_H

#include "sched/slot.h"

enum { HTH_TURN_MS = 100 }; /* the length of a turn while others wait */

typedef struct hth_turns {
    uint8_t digest[32]; /* of the set whose turn it is */
    uint64_t end_ns;    /* of the turn, if others wait by then */
    uint64_t clock;     /* virtual time: the latest time at which a turn was due */
    uint64_t n_waits;   /* waits that have begun */
} hth_turns;

/*
 * Choose among slots that could be evaluated, [n], n >= 1. Afterwards turn_wait is 0 for those whose turn it is, and
 * not 0 for the others. With keeps, a turn may last beyond its end.
 */
void hth_turns_next(hth_turns *turns, hth_slot *const *slots, uint32_t n, uint64_t now_ns, bool keeps);

#endif
