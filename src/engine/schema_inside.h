/*
 * schema_inside.h - what the files of the schema compiler share
 *
 *   schema.c         reads the text; the queue of goals; finishes the tables
 *   schema_items.c   which subschemas hold together: references, allOf, what derives from other keywords
 *   schema_not.c     negation, oneOf, conditions and dependencies, as anyOf
 *   schema_goal.c    one goal: its alternatives, or its types and values
 *   schema_check.c   is a value what a subschema accepts; may a goal have any value
 *   schema_string.c, schema_number.c, schema_array.c, schema_object.c   the types
 *   schema_text.c    JSON as elements; rules that all share
 *
 * Everything is one compilation's, and one thread's. The first failure is kept in status; after it nothing is done.
 */
#ifndef HTH_ENGINE_SCHEMA_INSIDE_H
#define HTH_ENGINE_SCHEMA_INSIDE_H

#include <jansson.h>

#include "engine/dfa.h"
#include "engine/gbnf_builder.h"
#include "engine/schema.h"

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

/* Keywords of our own, in subschemas that are derived from others. */
#define HTH_SCHEMA_TYPES "\x01types" /* integer: type bits */
#define HTH_SCHEMA_DERIVED \
    "\x01"                 \
    "derived" /* true: says nothing of members that it does not name */
#define HTH_SCHEMA_FROM \
    "\x01"              \
    "from" /* the keyword that it came of, for messages */
#define HTH_SCHEMA_NOT_PATTERN "\x01notPattern"
#define HTH_SCHEMA_NOT_TEXTS "\x01notTexts" /* a list of strings */

/* A place in the schema, for messages: a chain up to the root. */
typedef struct hth_schema_path {
    uint32_t parent;
    const char *key; /* borrowed; NULL: index */
    size_t index;
} hth_schema_path;

enum {
    HTH_ITEM_EXPANDED = 1, /* what it refers to and derives is among the items already */
    HTH_ITEM_CHOSEN = 2,   /* of its anyOf one alternative is among the items */
    HTH_ITEM_ORIGIN = 4,   /* all other items of the goal come from it, so unevaluated... may look at them */
};

/* A subschema that must hold. Objects only, after the items were expanded. */
typedef struct hth_schema_item {
    const json_t *schema;
    uint32_t path;
    uint32_t flags;
} hth_schema_item;

typedef struct hth_schema_items {
    hth_schema_item *at;
    size_t n, capacity;
    bool is_false; /* one of them accepts nothing */
} hth_schema_items;

/* Items that were expanded, and the rule that is theirs. */
typedef struct hth_schema_goal {
    size_t begin, end; /* in goal_items */
    uint32_t rule;
    uint32_t next; /* in the same bucket */
} hth_schema_goal;

/* What was derived from a subschema, or its pattern. */
typedef struct hth_schema_derived {
    const void *from;
    int kind;
    bool is_known, is_begun; /* was it made; is it being made */
    json_t *schema;          /* owned; NULL: nothing comes of it */
    hth_nfa *nfa;            /* owned */
} hth_schema_derived;

enum {
    HTH_SCHEMA_BUCKETS = 4096,
    HTH_SCHEMA_TEXT_CLASSES = 64,
    HTH_SCHEMA_EXPAND_DEPTH_MAX = 128,
    HTH_SCHEMA_CODE_MAX = 1 << 20
};

/* A class of characters as they stand in a string, with escapes. */
typedef struct hth_schema_text_class {
    hth_gbnf_range *ranges; /* owned */
    size_t n;
    hth_gbnf_element element;
} hth_schema_text_class;

typedef struct hth_schema_work {
    hth_gbnf_builder tables;
    const json_t *root;
    bool is_literal;
    bool ignores_siblings; /* of $ref: draft 7 and before */
    uint32_t repetitions_max;
    uint64_t steps;
    uint32_t depth;    /* of hth_schema_expand in itself, through oneOf */
    bool has_left_out; /* of a 'not' something was left out, at left_out_path */
    uint32_t left_out_path;
    uint32_t n_probes; /* left of what may be looked at to find a goal empty; then it counts as not empty */
    hth_schema_notes *notes;

    hth_schema_path *paths;
    size_t n_paths, paths_capacity;

    hth_schema_item *goal_items;
    size_t n_goal_items, goal_items_capacity;
    hth_schema_goal *goals;
    size_t n_goals, goals_capacity, n_compiled;
    uint32_t buckets[HTH_SCHEMA_BUCKETS];

    hth_schema_derived *derived; /* hash table of n_derived_slots */
    size_t n_derived, n_derived_slots;

    /* Rules that are made when they are first asked for; HTH_GBNF_NONE. */
    uint32_t space, value, object, array, string, character, number, integer, boolean, true_, false_, null;
    uint32_t *at_most;        /* characters, at most so many of them, [repetitions_max + 1] */
    uint32_t *digit_rules[2]; /* of numbers without a step; of whole ones. See schema_number.c */
    hth_schema_text_class text_classes[HTH_SCHEMA_TEXT_CLASSES];
    size_t n_text_classes;
    size_t n_code; /* instructions of all patterns, which are kept */
} hth_schema_work;

static inline bool hth_schema_failed(const hth_schema_work *w)
{
    return w->tables.status != HEARTH_OK;
}

/* ---- schema.c ---- */

/* Is there room for so many more rules, each of some elements, and as many again? */
bool hth_schema_has_room(const hth_schema_work *w, size_t n_rules);

/* Fail at a keyword of a place; keyword NULL: at the place itself. */
void hth_schema_fail(hth_schema_work *w, uint32_t path, const char *keyword, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void hth_schema_fail_memory(hth_schema_work *w);
/* Tell that a keyword was passed over: what is "dropped" or "ignored". */
void hth_schema_note(hth_schema_work *w, uint32_t path, const char *keyword, const char *what);
uint32_t hth_schema_path_key(hth_schema_work *w, uint32_t parent, const char *key);
uint32_t hth_schema_path_index(hth_schema_work *w, uint32_t parent, size_t index);
/* Spend steps; false, with the work failed at this place, when there are not so many left. */
bool hth_schema_spend(hth_schema_work *w, uint32_t path, uint64_t n);
/* The rule of items that must hold together, which are expanded by this. HTH_GBNF_NONE: they accept nothing. */
uint32_t hth_schema_rule_of(hth_schema_work *w, hth_schema_items *items);

/* ---- schema_items.c ---- */

void hth_schema_items_add(hth_schema_work *w, hth_schema_items *items, const json_t *schema, uint32_t path,
                          uint32_t flags);
void hth_schema_items_free(hth_schema_items *items);
/* Bring in what the items refer to and imply, each once. Of a oneOf this asks for more of the same, so its depth is
   bounded. */
void hth_schema_expand(hth_schema_work *w, hth_schema_items *items);
/* What a reference means; NULL, with the work failed, when nothing. */
const json_t *hth_schema_resolve(hth_schema_work *w, const char *reference, uint32_t path);
/* The item whose anyOf is still to be chosen from; items->n: none. */
size_t hth_schema_open_choice(const hth_schema_items *items);
/* The items, with one more and the choice of item made. */
void hth_schema_with_choice(hth_schema_work *w, const hth_schema_items *items, size_t choice, size_t alternative,
                            hth_schema_items *out);
/* Bits of "type" and our own types. */
uint32_t hth_schema_types_of(hth_schema_work *w, const json_t *schema, uint32_t path);
/* The types that the items leave; without any "type", those that their keywords are about. */
uint32_t hth_schema_types(hth_schema_work *w, const hth_schema_items *items);
/* A count such as minItems of one subschema; fallback where it has none, or one that is dropped. */
uint32_t hth_schema_count(hth_schema_work *w, const hth_schema_item *item, const char *keyword, uint32_t fallback);

/* ---- schema_not.c ---- */

/* Kinds of what is derived. */
enum {
    HTH_DERIVED_NOT,
    HTH_DERIVED_ONE_OF,
    HTH_DERIVED_WITHOUT_ONE_OF,
    HTH_DERIVED_IF,
    HTH_DERIVED_DEPENDENCIES,
    HTH_DERIVED_NULLABLE,
    HTH_DERIVED_PATTERN,
};
/* Where something derived is kept, until the next call; its fields are NULL at first. NULL without memory. */
hth_schema_derived *hth_schema_derived_of(hth_schema_work *w, const void *from, int kind);
/* A subschema that accepts what schema does not, or less. NULL with the work failed: it cannot be told. */
const json_t *hth_schema_not(hth_schema_work *w, const json_t *schema, uint32_t path);
/* The oneOf, if, dependencies and nullable of an item as subschemas of other keywords; NULL: it has none. */
const json_t *hth_schema_one_of(hth_schema_work *w, const hth_schema_items *context, const hth_schema_item *item);
const json_t *hth_schema_if(hth_schema_work *w, const hth_schema_item *item);
const json_t *hth_schema_dependencies(hth_schema_work *w, const hth_schema_item *item);
const json_t *hth_schema_nullable(hth_schema_work *w, const hth_schema_item *item);

/* ---- schema_goal.c ---- */

void hth_schema_compile_goal(hth_schema_work *w, const hth_schema_items *items, uint32_t rule);
/* All values that the items accept, where they are at most n_max; a new array, or NULL where they may be more. */
json_t *hth_schema_values(hth_schema_work *w, const hth_schema_items *items, size_t n_max);

/* ---- schema_check.c ---- */

typedef enum hth_schema_answer { HTH_NO, HTH_YES, HTH_UNKNOWN } hth_schema_answer;

/* Are two values the same, as JSON Schema has it? 1 and 1.0 are. Spends steps; false with the work failed, too. */
bool hth_schema_same(hth_schema_work *w, const json_t *a, const json_t *b, uint32_t path);
/* The type of a value, as one bit. */
uint32_t hth_schema_type_of_value(const json_t *value);
hth_schema_answer hth_schema_accepts(hth_schema_work *w, const json_t *schema, const json_t *value, uint32_t path);
hth_schema_answer hth_schema_items_accept(hth_schema_work *w, const hth_schema_items *items, const json_t *value);
/* Is there surely no value that all items accept, of these types? */
bool hth_schema_is_empty(hth_schema_work *w, const hth_schema_items *items, uint32_t types, int depth);

/* ---- the types: each adds alternatives to rule ---- */

void hth_schema_string(hth_schema_work *w, const hth_schema_items *items, uint32_t rule);
void hth_schema_number(hth_schema_work *w, const hth_schema_items *items, uint32_t types, uint32_t rule);
void hth_schema_array(hth_schema_work *w, const hth_schema_items *items, uint32_t rule);
void hth_schema_object(hth_schema_work *w, const hth_schema_items *items, uint32_t rule);

/* One of a list of members, or of values that come at most once each. */
typedef struct hth_schema_part {
    uint32_t rule;
    bool is_required;
} hth_schema_part;

/* What is between brackets: parts, each at most once, in this order or any, then any number of more. */
typedef struct hth_schema_sequence {
    const char *brackets; /* both */
    const hth_schema_part *parts;
    size_t n_parts;
    uint32_t more;        /* a rule; HTH_GBNF_NONE. They may be the same, so one of them at most counts for least */
    uint32_t least, most; /* in all; UINT32_MAX: any number */
    bool is_any_order;    /* of at most HTH_SCHEMA_ANY_ORDER_MAX parts */
    uint32_t path;
} hth_schema_sequence;

enum { HTH_SCHEMA_ANY_ORDER_MAX = 8 };

/* Add a sequence to rule. False: bounds on the count take too many rules. */
bool hth_schema_add_sequence(hth_schema_work *w, const hth_schema_sequence *sequence, uint32_t rule);

/* Is the text one of the pattern? from is what the machine is kept by. */
bool hth_schema_matches(hth_schema_work *w, const char *pattern, const void *from, const char *text, size_t n_bytes,
                        uint32_t path, const char *keyword);
/* What the member of this name must hold to. False: there must be none. */
bool hth_schema_member(hth_schema_work *w, const hth_schema_items *items, const char *name, hth_schema_items *out);
/* The machine of a pattern; NULL with the work failed. */
const hth_nfa *hth_schema_pattern(hth_schema_work *w, const char *pattern, const void *from, uint32_t path,
                                  const char *keyword);
/* The pattern of a format, or NULL. */
const char *hth_schema_format_pattern(const char *format);
/* Parts of a machine that a string must meet by its pattern, format and excluded texts. */
void hth_schema_text_parts(hth_schema_work *w, const hth_schema_items *items, hth_dfa_part parts[HTH_DFA_PARTS_MAX],
                           size_t *n_parts);
void hth_schema_lengths(hth_schema_work *w, const hth_schema_items *items, uint32_t *least, uint32_t *most);
/* A rule of a string's characters by a machine, and the closing quote; HTH_GBNF_NONE: it has none. */
uint32_t hth_schema_text_rule(hth_schema_work *w, const hth_dfa *dfa);

/* ---- schema_text.c ---- */

void hth_schema_push_text(hth_schema_work *w, const char *text);
void hth_schema_push_rule(hth_schema_work *w, uint32_t rule);
void hth_schema_push_class(hth_schema_work *w, uint32_t first, uint32_t last);
/* One class of n ranges, in any order. */
void hth_schema_push_ranges(hth_schema_work *w, const hth_gbnf_range *ranges, size_t n);
/* JSON, as short as it can be. The JSON text of a number is also what its bounds are read from. */
void hth_schema_push_value(hth_schema_work *w, const json_t *value);
void hth_schema_number_text(const json_t *number, char text[64]);
void hth_schema_push_string(hth_schema_work *w, const char *text, size_t n_bytes);
/* End an alternative of what was pushed since base. */
void hth_schema_end(hth_schema_work *w, uint32_t rule, size_t base);
uint32_t hth_schema_shared(hth_schema_work *w, uint32_t *which);
/* The elements of space, between two tokens. */
void hth_schema_push_space(hth_schema_work *w);
uint32_t hth_schema_at_most(hth_schema_work *w, uint32_t n);

#endif
