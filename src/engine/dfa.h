/*
 * dfa.h - what sets of texts have in common, as a deterministic machine over characters
 *
 * The subset construction for several machines at once, with the length of the text beside: a state is what each of them
 * may be at, and how many characters came, as far as the bounds care. States from which no text of the set can be reached
 * are left out, so whoever follows the machine never gets stuck.
 *
 * Bounded: at most HTH_DFA_STATES_MAX states and HTH_DFA_CELLS_MAX transitions, and as much work as the caller allows.
 */
#ifndef HTH_ENGINE_DFA_H
#define HTH_ENGINE_DFA_H

#include "engine/nfa.h"

enum { HTH_DFA_STATES_MAX = 12000, HTH_DFA_CELLS_MAX = 1 << 21, HTH_DFA_PARTS_MAX = 64 };
#define HTH_DFA_NONE UINT32_MAX

typedef struct hth_dfa_part {
    const hth_nfa *nfa;
    bool is_excluded; /* texts of it are not wanted */
} hth_dfa_part;

typedef struct hth_dfa {
    uint32_t n_states; /* 0: no text at all; it begins in state 0 */
    uint32_t n_atoms;
    uint32_t *firsts; /* atom i: characters [firsts[i], firsts[i + 1]), [n_atoms + 1] */
    uint32_t *next;   /* by state and atom; HTH_DFA_NONE */
    bool *accepts;    /* by state */
} hth_dfa;

/*
 * The texts of least to most characters (most UINT32_MAX: any number) that are in all parts, [n_parts] of at most
 * HTH_DFA_PARTS_MAX, that are not excluded, and in none that is. Half a surrogate pair is no character. *steps is how much
 * may be looked at, and what of it is left then. HEARTH_MISUSE beyond a limit; HEARTH_NO_MEMORY.
 */
hearth_status hth_dfa_new(const hth_dfa_part *parts, size_t n_parts, uint32_t least, uint32_t most, uint64_t *steps,
                          hth_dfa **out, hearth_error *err);
void hth_dfa_free(hth_dfa *dfa); /* accepts NULL */

#endif
