/*
 * turns.h - whose turn it is among requests with different adapters
 *
 * The engine applies one set of adapters in an evaluation, and to change the set costs about as much as an evaluation.
 * So requests with one set run together for a while, their turn, before those with another set do. A set has as many
 * turns as it has requests, so who deals requests out to many sets gains nothing. Between two turns of a request, every
 * other request costs it one turn at most, and requests that come later do not pass.
 */
#ifndef HTH_SCHED_TURNS_H
#define HTH_SCHED_TURNS_H

#include "sched/slot.h"

enum { HTH_TURN_MS = 100 }; /* the length of a turn while others wait */

typedef struct hth_turns {
    uint8_t digest[32]; /* of the set whose turn it is */
    uint64_t end_ns;    /* of the turn, if others wait then */
    uint64_t clock;     /* virtual time: the latest that a turn was due */
    uint64_t n_waits;   /* waits that began */
} hth_turns;

/*
 * Choose among slots that could be evaluated, [n], n >= 1: those whose turn it is have a turn_wait of 0 afterwards, the
 * others another one. With keeps, a turn may last beyond its end.
 */
void hth_turns_next(hth_turns *turns, hth_slot *const *slots, uint32_t n, uint64_t now_ns, bool keeps);

#endif
