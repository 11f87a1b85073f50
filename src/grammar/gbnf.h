/*
 * gbnf.h - the tables of a grammar, for a recognizer
 *
 * gbnf_reader.h makes them from text, schema.h from a JSON schema.
 */
#ifndef HTH_GRAMMAR_GBNF_H
#define HTH_GRAMMAR_GBNF_H

#include <stdatomic.h>

#include "base/status.h"

#define HTH_GBNF_LAST_CODE_POINT 0x10FFFFu

/* Limits that keep every table small; an error names the limit that is exceeded. */
enum {
    HTH_GBNF_REPETITIONS_MAX = 10000,
    HTH_GBNF_ELEMENTS_MAX = 1 << 18, /* after repetitions are written out */
    HTH_GBNF_RULES_MAX = 1 << 16,    /* the same, including the rules of groups and repetitions */
    HTH_GBNF_NESTING_MAX = 64,       /* of groups */
};

typedef enum hth_gbnf_type {
    HTH_GBNF_END,       /* of an alternative */
    HTH_GBNF_RULE,      /* value: a rule */
    HTH_GBNF_CLASS,     /* value: a class */
    HTH_GBNF_TOKEN,     /* value: the token */
    HTH_GBNF_TOKEN_NOT, /* value: any token but this one */
} hth_gbnf_type;

typedef struct hth_gbnf_element {
    uint32_t type; /* hth_gbnf_type */
    uint32_t value;
} hth_gbnf_element;

typedef struct hth_gbnf_alternative {
    uint32_t begin; /* its first element */
    uint32_t next;  /* the rule's next alternative; UINT32_MAX: none */
} hth_gbnf_alternative;

/* A range of code points, both ends included. The ranges of a class are sorted, and neither overlap nor touch. */
typedef struct hth_gbnf_range {
    uint32_t first;
    uint32_t last;
} hth_gbnf_range;

typedef struct hth_gbnf_class {
    uint64_t ascii[2]; /* bit c: character c < 128 is in it */
    uint32_t begin;    /* its ranges, [begin, end) */
    uint32_t end;
} hth_gbnf_class;

/* Shared. Immutable once it has been read. */
typedef struct hth_gbnf {
    atomic_uint n_refs;
    hth_gbnf_element *elements;
    hth_gbnf_alternative *alternatives;
    uint32_t *rules; /* the first alternative of each rule */
    hth_gbnf_class *classes;
    hth_gbnf_range *ranges;
    size_t n_elements, n_alternatives, n_rules, n_classes, n_ranges;
    uint32_t root;
    bool has_tokens; /* any element of the two token types */
} hth_gbnf;

hth_gbnf *hth_gbnf_ref(hth_gbnf *grammar); /* returns grammar; any thread, like unref */
void hth_gbnf_unref(hth_gbnf *grammar);    /* accepts NULL */
/* About how many bytes of memory the grammar takes. */
size_t hth_gbnf_bytes(const hth_gbnf *grammar);

/* Does the class contain this code point? */
bool hth_gbnf_class_has(const hth_gbnf *grammar, uint32_t class_id, uint32_t code_point);
/* Does the class contain any of the code points first .. last? */
bool hth_gbnf_class_has_any(const hth_gbnf *grammar, uint32_t class_id, uint32_t first, uint32_t last);

/* Sort ranges, and join those that overlap or touch. Returns the number of ranges that are left. */
size_t hth_gbnf_ranges_join(hth_gbnf_range *ranges, size_t n);
/* Replace joined ranges by all other characters. There must be room for one more range. Returns their number. */
size_t hth_gbnf_ranges_negate(hth_gbnf_range *ranges, size_t n);

#endif
