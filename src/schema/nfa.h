/*
 * nfa.h - the set of texts of a regular expression or a list, as the code of a machine over characters
 *
 * The notation is ECMAScript's with the flag u, as in JSON Schema. A match may be anywhere in the text, unless "^" and
 * "$" anchor it. Characters, ".", classes, \d \D \w \W \s \S, \n \r \t \f \v \0 \cX \xHH \uHHHH \u{H...}, escaped
 * punctuation, groups (named ones, too), "|", repetitions (lazy ones, too: they match the same texts), "^" and "$"
 * anywhere. Not supported: look-around, back-references, \b, \B, \p.
 *
 * grammar/pattern.h searches for a match in a stream of bytes, and finds where it began. This module is about whole
 * texts. schema/dfa.h tells whether a text is in the set, and makes a machine of the texts that several sets share.
 *
 * Limits: a machine has at most HTH_NFA_CODE_MAX instructions, and reading is linear in them.
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
    hth_gbnf_range *ranges; /* the ranges of a set are sorted, and neither overlap nor touch */
    size_t n_code, n_ranges;
} hth_nfa;

/* The pattern is UTF-8. HEARTH_MISUSE with the reason why it cannot be used, without its name; HEARTH_NO_MEMORY. */
hearth_status hth_nfa_new_pattern(const char *pattern, size_t n_bytes, hth_nfa **out, hearth_error *err);

typedef struct hth_nfa_text {
    const char *bytes; /* UTF-8, [n] */
    size_t n;
} hth_nfa_text;

/* The set of exactly these texts, [n]. HEARTH_MISUSE if they are too long together; HEARTH_NO_MEMORY. */
hearth_status hth_nfa_new_texts(const hth_nfa_text *texts, size_t n, hth_nfa **out, hearth_error *err);
void hth_nfa_free(hth_nfa *nfa); /* accepts NULL */

#endif
