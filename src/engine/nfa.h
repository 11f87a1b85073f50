/*
 * nfa.h - sets of texts that a regular expression, or a list, describes: the code of a machine over characters
 *
 * The notation is ECMAScript's with the flag u, as JSON Schema has it, found anywhere in the text where it is not tied
 * with "^" and "$". Characters, ".", classes, \d \D \w \W \s \S, \n \r \t \f \v \0 \cX \xHH \uHHHH \u{H...}, escaped
 * punctuation, groups (named ones, too), "|", repetitions (lazy ones, too: they match the same texts), "^" and "$"
 * anywhere. Not: look-around, back-references, \b, \B, \p.
 *
 * engine/pattern.h looks for a match in bytes while they come, and knows where it began; this is for what is asked of
 * whole texts: is one in the set, and what do sets have in common (engine/dfa.h).
 *
 * Bounded: a machine has at most HTH_NFA_CODE_MAX instructions; reading is linear in them.
 */
#ifndef HTH_ENGINE_NFA_H
#define HTH_ENGINE_NFA_H

#include "engine/gbnf.h"

enum { HTH_NFA_CODE_MAX = 1 << 15, HTH_NFA_REPETITIONS_MAX = HTH_GBNF_REPETITIONS_MAX };

typedef enum hth_nfa_op {
    HTH_NFA_SET,   /* one character of ranges [a, b), then the next instruction */
    HTH_NFA_SPLIT, /* on at + a and at + b */
    HTH_NFA_JUMP,  /* on at + a */
    HTH_NFA_BEGIN, /* on only where the text begins */
    HTH_NFA_END,   /* on only where it ends */
    HTH_NFA_MATCH, /* whatever comes now is in the set */
} hth_nfa_op;

typedef struct hth_nfa_instruction {
    uint32_t op; /* hth_nfa_op */
    int32_t a, b;
} hth_nfa_instruction;

/* Immutable; any thread. It begins at code[0]. */
typedef struct hth_nfa {
    hth_nfa_instruction *code;
    hth_gbnf_range *ranges; /* those of one set are sorted and apart */
    size_t n_code, n_ranges;
} hth_nfa;

/* HEARTH_MISUSE says why the pattern, UTF-8, cannot be honoured, without naming it; HEARTH_NO_MEMORY. */
hearth_status hth_nfa_new_pattern(const char *pattern, size_t n_bytes, hth_nfa **out, hearth_error *err);
/* Exactly these texts, UTF-8, [n]. HEARTH_MISUSE where they are too long together; HEARTH_NO_MEMORY. */
hearth_status hth_nfa_new_texts(const char *const *texts, const size_t *n_bytes, size_t n, hth_nfa **out,
                                hearth_error *err);
void hth_nfa_free(hth_nfa *nfa); /* accepts NULL */
/*
 * Is this text, UTF-8, in the set? *steps is how much may be looked at, and what of it is left then. HEARTH_MISUSE where
 * that is not enough; HEARTH_NO_MEMORY.
 */
hearth_status hth_nfa_has(const hth_nfa *nfa, const char *text, size_t n_bytes, uint64_t *steps, bool *out);

#endif
