/*
 * gbnf.h - grammars in the GBNF notation, as tables that a recogniser can run
 *
 * The notation is llama.cpp's (its grammars/README.md, v0.5.0): rules "name ::= ...", literals, character classes, ".",
 * groups, alternatives, "*", "+", "?", "{m,n}", tokens "<text>" and "<[id]>", negated "!<...>", comments. Ours differs
 * where the engine's reader is lenient: a rule that is defined twice, an empty class, {3,1} and a repetition beyond the
 * limit are errors, as are the texts that it prints to the terminal. Left recursion is allowed. One thing is added: an
 * element "%json {...}" is any text that a JSON schema accepts, and "%json ["#/a/b", {...}]" what the part of a schema at
 * a place accepts, whose references lead anywhere in it.
 */
#ifndef HTH_ENGINE_GBNF_H
#define HTH_ENGINE_GBNF_H

#include <stdatomic.h>

#include "base/status.h"

/* Limits that keep every table small; a message names the one that is passed. */
enum {
    HTH_GBNF_REPETITIONS_MAX = 10000,
    HTH_GBNF_ELEMENTS_MAX = 1 << 18, /* after repetitions were written out */
    HTH_GBNF_RULES_MAX = 1 << 16,    /* likewise, with those of groups and repetitions */
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

/* Characters: ranges of code points, both ends included, sorted and apart. */
typedef struct hth_gbnf_range {
    uint32_t first;
    uint32_t last;
} hth_gbnf_range;

typedef struct hth_gbnf_class {
    uint64_t ascii[2]; /* bit c: character c < 128 is in it */
    uint32_t begin;    /* its ranges, [begin, end) */
    uint32_t end;
} hth_gbnf_class;

/* Shared, and immutable once it was read. */
typedef struct hth_gbnf {
    atomic_uint n_refs;
    hth_gbnf_element *elements;
    hth_gbnf_alternative *alternatives;
    uint32_t *rules; /* first alternative of each */
    hth_gbnf_class *classes;
    hth_gbnf_range *ranges;
    size_t n_elements, n_alternatives, n_rules, n_classes, n_ranges;
    uint32_t root;
    bool has_tokens; /* any element of the two token types */
} hth_gbnf;

/* The token that text (with its brackets) is the name of; false: none, or more than one. */
typedef bool (*hth_gbnf_token_fn)(const void *user_data, const char *text, size_t n_bytes, hearth_token *out);

/* The grammar of what stands behind %json: JSON text of n_bytes, an object or a list. */
typedef hearth_status (*hth_gbnf_json_fn)(void *user_data, const char *text, size_t n_bytes, hth_gbnf **out,
                                          hearth_error *err);

/* What a grammar may name that is not in its text. */
typedef struct hth_gbnf_outside {
    uint32_t n_tokens;       /* tokens must be below it */
    hth_gbnf_token_fn token; /* NULL: no token has a name */
    const void *token_data;
    hth_gbnf_json_fn json; /* NULL: %json is an error */
    void *json_data;
} hth_gbnf_outside;

/*
 * Read a grammar, n_bytes long, with the start rule "root". HEARTH_MISUSE with the line and the cause; HEARTH_NO_MEMORY.
 * Linear in the text, in what its repetitions write out, and in the grammars of its schemas.
 */
hearth_status hth_gbnf_new(const char *text, size_t n_bytes, const hth_gbnf_outside *outside, hth_gbnf **out,
                           hearth_error *err);
hth_gbnf *hth_gbnf_ref(hth_gbnf *grammar);
void hth_gbnf_unref(hth_gbnf *grammar); /* accepts NULL */
/* The memory that it takes, about. */
size_t hth_gbnf_bytes(const hth_gbnf *grammar);

bool hth_gbnf_class_has(const hth_gbnf *grammar, uint32_t class_id, uint32_t code_point);
/* Does the class have any of the code points first .. last? */
bool hth_gbnf_class_has_any(const hth_gbnf *grammar, uint32_t class_id, uint32_t first, uint32_t last);

#endif
