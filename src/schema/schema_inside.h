/*
 * schema_inside.h - shared by the files of the schema compiler
 *
 *   schema.c         reads the text; compiles the queue of goals; finishes the tables
 *   schema_string.c, schema_number.c, schema_array.c, schema_object.c   the types
 *   schema_sequence.c  members or values between brackets, with commas and counts
 *   schema_items.c   the subschemas that must hold together: references, allOf, derived subschemas; their goals
 *   schema_not.c     writes not, oneOf, conditions, dependencies and nullable as anyOf
 *   schema_check.c   does a schema accept a value; does a goal accept any value, and which
 *   schema_text.c    JSON as elements; the shared rules
 *   schema_work.c    locations, failures, lists of items, stored results
 *
 * An item is a subschema that must hold. A goal is a set of items that must hold together, and has one rule.
 *
 * One thread runs one compilation, and hth_schema_work belongs to it. Its status keeps the first failure ("the work has
 * failed"). After it all functions do nothing, and their results are undefined unless noted otherwise.
 */
#ifndef HTH_SCHEMA_SCHEMA_INSIDE_H
#define HTH_SCHEMA_SCHEMA_INSIDE_H

#include <jansson.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "grammar/gbnf_builder.h"
#include "schema/dfa.h"
#include "schema/schema.h"

/* Types as bits. INTEGER and FRACTION together are JSON Schema's "number". */
enum {
    HTH_TYPE_NULL = 1,
    HTH_TYPE_BOOLEAN = 2,
    HTH_TYPE_INTEGER = 4,
    HTH_TYPE_FRACTION = 8,
    HTH_TYPE_STRING = 16,
    HTH_TYPE_ARRAY = 32,
    HTH_TYPE_OBJECT = 64,
    HTH_TYPE_NUMBER = HTH_TYPE_INTEGER | HTH_TYPE_FRACTION,
    HTH_TYPE_ALL = 127,
};

/* Keywords of our own, in derived subschemas. */
#define HTH_SCHEMA_TYPES "\x01types" /* integer: type bits */
#define HTH_SCHEMA_DERIVED \
    "\x01"                 \
    "derived" /* true: it does not close an object to unnamed members */
#define HTH_SCHEMA_FROM \
    "\x01"              \
    "from" /* the keyword that it was derived from, for messages */
#define HTH_SCHEMA_NOT_PATTERN "\x01notPattern"
#define HTH_SCHEMA_NOT_TEXTS "\x01notTexts" /* a list of strings */

/* A location in the schema, for messages: a name or an index, and the parent location. */
typedef struct hth_schema_path {
    uint32_t parent;
    const char *key; /* borrowed; NULL: index is used */
    size_t index;
} hth_schema_path;

enum {
    HTH_ITEM_EXPANDED = 1, /* the items that it refers to or implies have been added */
    HTH_ITEM_CHOSEN = 2,   /* one alternative of its anyOf has been added */
    HTH_ITEM_ORIGIN = 4,   /* all other items of the goal come from it, so unevaluated... can be honored in it */
};

/* A subschema that must hold. After hth_schema_expand it is an object. */
typedef struct hth_schema_item {
    const json_t *schema;
    uint32_t path;
    uint32_t flags;
} hth_schema_item;

typedef struct hth_schema_items {
    hth_schema_item *at;
    size_t n, capacity;
    bool is_false; /* an item is false */
} hth_schema_items;

/* Expanded items, and their rule. */
typedef struct hth_schema_goal {
    UT_hash_handle hh;      /* by key */
    hth_schema_items items; /* owned */
    uint32_t rule;
    uintptr_t key[]; /* [2 * items.n]: the schema and the flags of each */
} hth_schema_goal;

/* A result that is stored under its source: a subschema derived from another one, or the machine of a pattern. */
typedef struct hth_schema_derived {
    uintptr_t key[2];        /* the source, and an hth_schema_derived_kind */
    bool is_known, is_begun; /* it is complete; it is being made */
    json_t *schema;          /* owned; NULL: none */
    hth_nfa *nfa;            /* owned */
    UT_hash_handle hh;
} hth_schema_derived;

enum { HTH_SCHEMA_TEXT_CLASSES = 64, HTH_SCHEMA_EXPAND_DEPTH_MAX = 128, HTH_SCHEMA_CODE_MAX = 1 << 20 };

/* A class of characters as strings spell them. */
typedef struct hth_schema_text_class {
    hth_gbnf_range *ranges; /* owned */
    size_t n;
    hth_gbnf_element element;
} hth_schema_text_class;

/* Shared rules: any value, any value of a type, the space that may occur between two JSON tokens. */
typedef enum hth_schema_shared_rule {
    HTH_SHARED_VALUE,
    HTH_SHARED_OBJECT,
    HTH_SHARED_ARRAY,
    HTH_SHARED_SPACE,
    HTH_SHARED_STRING,
    HTH_SHARED_CHARACTER,
    HTH_SHARED_NUMBER,
    HTH_SHARED_INTEGER,
    HTH_SHARED_BOOLEAN,
} hth_schema_shared_rule;

typedef struct hth_schema_work {
    hth_gbnf_builder tables;
    const json_t *root;
    bool is_literal;
    bool ignores_siblings; /* siblings of $ref: draft 7 and before */
    uint32_t repetitions_max;
    uint64_t steps;
    uint32_t depth;    /* of hth_schema_expand within itself */
    bool has_left_out; /* part of a negation was left out, at left_out_path */
    uint32_t left_out_path;
    uint32_t n_probes; /* goals that one search for an empty goal may still visit */
    hth_schema_notes *notes;

    hth_schema_path *paths;
    size_t n_paths, paths_capacity;

    hth_schema_goal *goals; /* by key, in the order in which they were asked for */
    size_t n_goal_items;

    hth_schema_derived *derived; /* by key */

    uint32_t shared[HTH_SHARED_BOOLEAN + 1]; /* the number of each shared rule, plus 1; 0: not read yet */
    uint32_t *at_most;                       /* rules of at most i characters, [n_at_most] */
    size_t n_at_most, at_most_capacity;
    uint32_t *digit_rules[2]; /* rules of free digits (schema_number.c): of all numbers, of whole numbers */
    hth_schema_text_class text_classes[HTH_SCHEMA_TEXT_CLASSES];
    size_t n_text_classes;
    size_t n_code; /* instructions of all patterns */
} hth_schema_work;

static inline bool hth_schema_failed(const hth_schema_work *w)
{
    return w->tables.status != HEARTH_OK;
}

/* ---- schema_work.c ---- */

/* Is there room for twice n_rules more rules of 8 elements? */
bool hth_schema_has_room(const hth_schema_work *w, size_t n_rules);

/* Fail with a message that names the keyword at a location. keyword NULL: it names only the location. */
void hth_schema_fail(hth_schema_work *w, uint32_t path, const char *keyword, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void hth_schema_fail_memory(hth_schema_work *w);
/* Note that a keyword was skipped. what is "dropped" or "ignored". */
void hth_schema_note(hth_schema_work *w, uint32_t path, const char *keyword, const char *what);
/* A location as text. A long one is truncated at its beginning, because its end is the most informative. */
void hth_schema_write_path(const hth_schema_work *w, uint32_t path, char *text, size_t capacity);
/* Add a location below another one. key must outlive the work. */
uint32_t hth_schema_path_key(hth_schema_work *w, uint32_t parent, const char *key);
uint32_t hth_schema_path_index(hth_schema_work *w, uint32_t parent, size_t index);
/* Spend steps. False, with the work failed at this location, if fewer are left. */
bool hth_schema_spend(hth_schema_work *w, uint32_t path, uint64_t n);
/* Append an item, unless schema is NULL. If out of memory, the work fails. */
void hth_schema_items_add(hth_schema_work *w, hth_schema_items *items, const json_t *schema, uint32_t path,
                          uint32_t flags);
void hth_schema_items_free(hth_schema_items *items);

typedef enum hth_schema_derived_kind {
    HTH_DERIVED_NOT,
    HTH_DERIVED_ONE_OF,
    HTH_DERIVED_WITHOUT_ONE_OF,
    HTH_DERIVED_IF,
    HTH_DERIVED_DEPENDENCIES,
    HTH_DERIVED_NULLABLE,
    HTH_DERIVED_PATTERN,
} hth_schema_derived_kind;
/* The entry of a result; initially all NULL and false. NULL with the work failed. */
hth_schema_derived *hth_schema_derived_of(hth_schema_work *w, const void *from, hth_schema_derived_kind kind);
/* The machine of a pattern, stored under from; NULL with the work failed. */
const hth_nfa *hth_schema_pattern(hth_schema_work *w, const char *pattern, const void *from, uint32_t path,
                                  const char *keyword);
/* Does the text match the pattern? The pattern's machine is stored under the pointer from. */
bool hth_schema_matches(hth_schema_work *w, const char *pattern, const void *from, const char *text, size_t n_bytes,
                        uint32_t path, const char *keyword);
/* Count the instructions of a machine, which is stored until the schema is compiled. False if there are too many. */
bool hth_schema_count_code(hth_schema_work *w, const hth_nfa *nfa, uint32_t path);

/* ---- schema_items.c ---- */

/*
 * Expand the items and return the rule of their goal, compiled later. HTH_GBNF_NONE: they accept nothing. Takes the
 * items over, or leaves some to be freed.
 */
uint32_t hth_schema_rule_of(hth_schema_work *w, hth_schema_items *items);
/* Replace the items by the closed set of items (schema_items.c). A oneOf calls it again, so its depth is bounded. */
void hth_schema_expand(hth_schema_work *w, hth_schema_items *items);
/* The target of a reference; NULL with the work failed. */
const json_t *hth_schema_resolve(hth_schema_work *w, const char *reference, uint32_t path);
/* The first item with an anyOf whose alternative is not chosen; items->n: none. */
size_t hth_schema_open_choice(const hth_schema_items *items);
/* The items, together with the given alternative from the anyOf of item choice, expanded. Free the result. */
hth_schema_items hth_schema_with_choice(hth_schema_work *w, const hth_schema_items *items, size_t choice,
                                        size_t alternative);
/* Does a keyword demand something of a value, itself or by other items? */
bool hth_schema_demands(const char *keyword);
/* Does an item have a keyword for values of this type? */
bool hth_schema_has_keywords_for(const hth_schema_items *items, uint32_t type);
/* The bits of "type" and HTH_SCHEMA_TYPES; all types if neither is given. */
uint32_t hth_schema_types_of(hth_schema_work *w, const json_t *schema, uint32_t path);
/* The types of values that the items allow. Unless is_literal, keywords imply a missing "type". */
uint32_t hth_schema_types(hth_schema_work *w, const hth_schema_items *items);
/* The location of the first item with a keyword; HTH_GBNF_NONE: none has it. */
uint32_t hth_schema_path_of(const hth_schema_items *items, const char *keyword);
/* A count of one subschema, such as minItems; fallback if it is absent or dropped. */
uint32_t hth_schema_count(hth_schema_work *w, const hth_schema_item *item, const char *keyword, uint32_t fallback);
/*
 * The bounds of a count of all items, such as minItems and maxItems: *least 0 and *most UINT32_MAX if there are none.
 */
void hth_schema_counts(hth_schema_work *w, const hth_schema_items *items, const char *const keywords[2],
                       uint32_t *least, uint32_t *most);

/*
 * Append the items of the member of this name or, with name NULL, of the members of a group, which match the patterns
 * whose bits are set. False if there must be no such member.
 */
bool hth_schema_member(hth_schema_work *w, const hth_schema_items *items, const char *name, uint32_t group,
                       hth_schema_items *out);

/* ---- schema_not.c ---- */

/* A subschema that accepts only values that schema refuses, perhaps not all of them. NULL with the work failed. */
const json_t *hth_schema_not(hth_schema_work *w, const json_t *schema, uint32_t path);
/* Fail because a negation cannot be expressed. */
void hth_schema_fail_not(hth_schema_work *w, uint32_t path);
/* The oneOf, if, dependencies or nullable of an item as another subschema. NULL: none, or it is being made. */
const json_t *hth_schema_one_of(hth_schema_work *w, const hth_schema_item *item);
const json_t *hth_schema_if(hth_schema_work *w, const hth_schema_item *item);
const json_t *hth_schema_dependencies(hth_schema_work *w, const hth_schema_item *item);
const json_t *hth_schema_nullable(hth_schema_work *w, const hth_schema_item *item);

/* ---- schema_check.c ---- */

typedef enum hth_schema_answer { HTH_NO, HTH_YES, HTH_UNKNOWN } hth_schema_answer;

/* The type of a value, as one bit. */
uint32_t hth_schema_type_of_value(const json_t *value);
/* Does the schema accept the value? */
hth_schema_answer hth_schema_accepts(hth_schema_work *w, const json_t *schema, const json_t *value, uint32_t path);
/* Is it certain that the items accept no value of these types? depth is 0, except for recursive calls. */
bool hth_schema_is_empty(hth_schema_work *w, const hth_schema_items *items, uint32_t types, int depth);

/* The item that lists its values; items->n: none. */
size_t hth_schema_list(hth_schema_work *w, const hth_schema_items *items);
/* The values on the list of one item that all items accept, in a new array. NULL if the work has failed. */
json_t *hth_schema_listed(hth_schema_work *w, const hth_schema_items *items, size_t list);
/* All values that the items accept, in a new array. NULL if there may be more than n_max, or the work has failed. */
json_t *hth_schema_values(hth_schema_work *w, const hth_schema_items *items, size_t n_max);

/* ---- the types: each function adds its alternatives to rule ---- */

void hth_schema_string(hth_schema_work *w, const hth_schema_items *items, uint32_t rule);
void hth_schema_number(hth_schema_work *w, const hth_schema_items *items, uint32_t types, uint32_t rule);
void hth_schema_array(hth_schema_work *w, const hth_schema_items *items, uint32_t rule);
void hth_schema_object(hth_schema_work *w, const hth_schema_items *items, uint32_t rule);

/* A member, or a value, that comes at most once. */
typedef struct hth_schema_part {
    uint32_t rule;
    bool is_required;
} hth_schema_part;

/* Brackets around parts, each at most once, in the given order or in any order, and any number of further parts. */
typedef struct hth_schema_sequence {
    const char *begin, *end; /* brackets */
    const hth_schema_part *parts;
    size_t n_parts;
    /* The rule of a further part; HTH_GBNF_NONE: none. They may be equal, so at most one counts for least. */
    uint32_t more;
    uint32_t least, most; /* parts in all; most UINT32_MAX: any number */
    const char *counts;   /* the keywords of least and most */
    bool is_any_order;    /* only with at most HTH_SCHEMA_ANY_ORDER_MAX parts */
    uint32_t path;
} hth_schema_sequence;

enum { HTH_SCHEMA_ANY_ORDER_MAX = 8 };

/* Add a sequence to rule. Counts that take too many rules are dropped. */
void hth_schema_add_sequence(hth_schema_work *w, const hth_schema_sequence *of, uint32_t rule);

/* The machines of the patterns, formats and excluded texts that the items require of a string. */
void hth_schema_text_parts(hth_schema_work *w, const hth_schema_items *items, hth_dfa_part parts[HTH_DFA_PARTS_MAX],
                           size_t *n_parts);
/* The rule for a machine's texts as the characters of a string, with the closing quote; HTH_GBNF_NONE: no text. */
uint32_t hth_schema_text_rule(hth_schema_work *w, const hth_dfa *dfa);

/* ---- schema_text.c ---- */

/* Push the elements of a text, or a rule, for the alternative that hth_schema_end will end. */
void hth_schema_push_text(hth_schema_work *w, const char *text);
void hth_schema_push_rule(hth_schema_work *w, uint32_t rule);
/* Push one class of n ranges, in any order. */
void hth_schema_push_ranges(hth_schema_work *w, const hth_gbnf_range *ranges, size_t n);
/* Push a value in its shortest spelling. Bounds of numbers are read from the same spelling. */
void hth_schema_push_value(hth_schema_work *w, const json_t *value);
void hth_schema_number_text(const json_t *number, char text[64]);
void hth_schema_push_string(hth_schema_work *w, const char *text, size_t n_bytes);
/* End an alternative of rule. Its elements are those pushed since the stack had base elements. */
void hth_schema_end(hth_schema_work *w, uint32_t rule, size_t base);
/* The number of a shared rule. */
uint32_t hth_schema_shared(hth_schema_work *w, hth_schema_shared_rule which);
void hth_schema_push_shared(hth_schema_work *w, hth_schema_shared_rule which);
/* Push the space that may occur between two JSON tokens. */
void hth_schema_push_space(hth_schema_work *w);
/* The rule of at most n <= repetitions_max characters and the closing quote. */
uint32_t hth_schema_at_most(hth_schema_work *w, uint32_t n);

#endif
