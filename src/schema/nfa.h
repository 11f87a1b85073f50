/*
 * nfa.h - the set of texts of a regular expression, or of a list: the code of a machine over characters
 *
 * The notation is ECMAScript's with the flag u, as in JSON Schema. A match may be anywhere in the text, unless "^" and
 * "$" tie it. Characters, ".", classes, \d \D \w \W \s \S, \n \r \t \f \v \0 \cX \xHH \uHHHH \u{H...}, escaped
 * punctuation, groups (named ones, too), "|", repetitions (lazy ones, too: they match the same texts), "^" and "$"
 * anywhere. Not supported: look-around, back-references, \b, \B, \p.
 *
 * grammar/pattern.h looks for a match in bytes as they come, and knows where it began. This module answers questions
 * about whole texts: is a text in the set? The texts that several sets share are a machine of schema/dfa.h.
 *
 * Bounded: a machine has at most HTH_NFA_CODE_MAX instructions, and reading is linear in them.
 */
#ifndef HTH_SCHEMA_NFA_H
#define HTH_SCHEMA_NFA_H

#include "grammar/gbnf.h"

enum { HTH_NFA_CODE_MAX = 1 << 15, HTH_NFA_REPETITIONS_MAX = HTH_GBNF_REPETITIONS_MAX };

typedef enum hth_nfa_op {
    HTH_NFA_SET,   /* one character of ranges [a, b), then the next instruction */
    HTH_NFA_SPLIT, /* continue at + a and at + b */
    HTH_NFA_JUMP,  /* continue at + a */
    HTH_NFA_BEGIN, /* continue only where the text begins */
    HTH_NFA_END,   /* continue only where the text ends */
    HTH_NFA_MATCH, /* the text is in the set, with any continuation */
} hth_nfa_op;

typedef struct hth_nfa_instruction {
    uint32_t op; /* hth_nfa_op */
    int32_t a, b;
} hth_nfa_instruction;

/* Immutable; any thread. Starts at code[0]. */
typedef struct hth_nfa {
    hth_nfa_instruction *code;
    hth_gbnf_range *ranges; /* the ranges of one set are sorted and apart */
    size_t n_code, n_ranges;
} hth_nfa;

/* The pattern is UTF-8. HEARTH_MISUSE says why it cannot be used, without naming it; HEARTH_NO_MEMORY. */
hearth_status hth_nfa_new_pattern(const char *pattern, size_t n_bytes, hth_nfa **out, hearth_error *err);
/* The set of exactly these texts, UTF-8, [n]. HEARTH_MISUSE when they are too long together; HEARTH_NO_MEMORY. */
hearth_status hth_nfa_new_texts(const char *const *texts, const size_t *n_bytes, size_t n, hth_nfa **out,
                                hearth_error *err);
void hth_nfa_free(hth_nfa *nfa); /* accepts NULL */
/*
 * Is this text, UTF-8, in the set? The steps spent are subtracted from *steps. HEARTH_MISUSE when they do not suffice;
 * HEARTH_NO_MEMORY.
 */
hearth_status hth_nfa_has(const hth_nfa *nfa, const char *text, size_t n_bytes, uint64_t *steps, bool *out);

#endif
