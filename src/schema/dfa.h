/*
 * dfa.h - the intersection of sets of texts, as a deterministic automaton over characters
 *
 * The subset construction, for several machines at once. A state consists of the possible positions of each machine and
 * of the number of characters so far, as far as the length bounds need it. From each state a text of the set can be
 * completed.
 *
 * Limits: at most HTH_DFA_STATES_MAX states, HTH_DFA_CELLS_MAX transitions, and the steps that the caller allows.
 */
#ifndef HTH_SCHEMA_DFA_H
#define HTH_SCHEMA_DFA_H

#include "schema/nfa.h"

enum { HTH_DFA_STATES_MAX = 12000, HTH_DFA_CELLS_MAX = 1 << 21, HTH_DFA_PARTS_MAX = 64 };
#define HTH_DFA_NONE UINT32_MAX

typedef struct hth_dfa_part {
    const hth_nfa *nfa;
    bool is_excluded; /* its texts are not in the set */
} hth_dfa_part;

typedef struct hth_dfa {
    uint32_t n_states; /* 0: no text; the initial state is 0 */
    uint32_t n_atoms;
    uint32_t *firsts; /* atom i: characters [firsts[i], firsts[i + 1]), [n_atoms + 1] */
    uint32_t *next;   /* by state and atom; HTH_DFA_NONE */
    bool *accepts;    /* by state */
} hth_dfa;

/*
 * Make the machine of all texts of least to most characters (most UINT32_MAX: any number) that are in every part that
 * is not excluded, and in no excluded part. There are n_parts, at most HTH_DFA_PARTS_MAX. Unpaired surrogates are not
 * characters. The steps spent are subtracted from *steps. HEARTH_MISUSE beyond a limit; HEARTH_NO_MEMORY.
 */
hearth_status hth_dfa_new(const hth_dfa_part *parts, size_t n_parts, uint32_t least, uint32_t most, uint64_t *steps,
                          hth_dfa **out, hearth_error *err);
void hth_dfa_free(hth_dfa *dfa); /* accepts NULL */

/*
 * Is this text, UTF-8, in the set of the machine? The steps spent are subtracted from *steps. HEARTH_MISUSE if they are
 * not enough; HEARTH_NO_MEMORY.
 */
hearth_status hth_nfa_has(const hth_nfa *nfa, const char *text, size_t n_bytes, uint64_t *steps, bool *out);

#endif
