/*
 * schema.h - JSON schemas as grammars: every text that the grammar has is JSON that the schema accepts
 *
 * Drafts 7 and 2020-12. The grammar is sound, not complete: it leaves out spellings (1.0 for 1), orders of members, and
 * what a reply should not have; docs/generation.md says which. A keyword that cannot be honoured is an error; a bound that
 * a grammar has no room for, and a keyword that is unknown, is passed over and told.
 *
 * Work is bounded by construction, in what is written and in what is looked at on the way:
 *
 *   text      HTH_SCHEMA_BYTES_MAX; its nesting and number of values are measured before it is parsed
 *   goals     sets of subschemas that must hold together. Each is compiled once, from a queue and not by recursion, and
 *             there are at most HTH_SCHEMA_GOALS_MAX, of HTH_SCHEMA_ITEMS_MAX subschemas in all: so combinations of
 *             alternatives end there
 *   patterns  machines of at most HTH_DFA_STATES_MAX states
 *   tables    the limits of gbnf.h
 *   steps     everything that loops over what a schema has spends them from one account of HTH_SCHEMA_STEPS_MAX, a few
 *             nanoseconds each
 *
 * Who goes beyond a limit gets an error that names the place.
 */
#ifndef HTH_ENGINE_SCHEMA_H
#define HTH_ENGINE_SCHEMA_H

#include "engine/gbnf.h"

enum {
    HTH_SCHEMA_BYTES_MAX = 256 << 10,
    HTH_SCHEMA_DEPTH_MAX = 64,
    HTH_SCHEMA_VALUES_MAX = 32768,
    HTH_SCHEMA_GOALS_MAX = 16384,
    HTH_SCHEMA_ITEMS_MAX = 1 << 18,
    HTH_SCHEMA_STEPS_MAX = 1 << 24,
    HTH_SCHEMA_NOTES_MAX = 24,
    HTH_SCHEMA_NOTE_BYTES = 160,
};

/* What was passed over: "#/properties/a: maxLength dropped". Those beyond the first HTH_SCHEMA_NOTES_MAX are not told. */
typedef struct hth_schema_notes {
    size_t n;
    char texts[HTH_SCHEMA_NOTES_MAX][HTH_SCHEMA_NOTE_BYTES];
} hth_schema_notes;

typedef struct hth_schema_options {
    /*
     * Read the schema literally. Otherwise, as replies are wanted: without "type" the keywords tell it; an object has no
     * members beyond those that are named, unless "additionalProperties" says so; a list of items is complete.
     */
    bool is_literal;
    /* Bounds of lengths and counts beyond this are dropped; 0: HTH_GBNF_REPETITIONS_MAX. */
    uint32_t repetitions_max;
    /* The text may be a list of a place, "#/a/b", and a schema: then the grammar is of what is at the place. */
    bool may_have_place;
    /* The account that steps are taken from, where several schemas share one; NULL: an account of its own. */
    uint64_t *steps;
} hth_schema_options;

/*
 * The grammar of a schema, JSON text of n_bytes. options may be NULL. notes, which may be NULL, are appended to. Any
 * thread. HEARTH_MISUSE names what is not JSON, not a schema, without any value, or cannot be honoured, and where:
 * "at #/properties/a/pattern: ..."; HEARTH_NO_MEMORY.
 */
hearth_status hth_schema_compile(const char *schema, size_t n_bytes, const hth_schema_options *options, hth_gbnf **out,
                                 hth_schema_notes *notes, hearth_error *err);

/*
 * An hth_gbnf_json_fn, for %json in a grammar. user_data: uint64_t, the steps that all its schemas may take together, at
 * first HTH_SCHEMA_STEPS_MAX. Counts beyond HTH_SCHEMA_EMBEDDED_REPETITIONS_MAX are dropped, so that many schemas have
 * room in one grammar.
 */
enum { HTH_SCHEMA_EMBEDDED_REPETITIONS_MAX = 1000 };
hearth_status hth_schema_embedded(void *user_data, const char *text, size_t n_bytes, hth_gbnf **out, hearth_error *err);

#endif
