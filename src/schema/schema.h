/*
 * schema.h - JSON schemas as grammars: every text of the grammar is JSON that the schema accepts
 *
 * Drafts 7 and 2020-12. The grammar is sound, not complete. It leaves out spellings (1.0 for 1), orders of members, and
 * texts that a reply should not have; docs/sampling.md lists them. A keyword that cannot be honored is an error. A
 * bound too large for a grammar, or an unknown keyword, is skipped with a note.
 *
 * All work is bounded, both for the output and for intermediate results:
 *
 *   text      HTH_SCHEMA_BYTES_MAX. Its nesting and number of values are measured before it is parsed.
 *   goals     sets of subschemas that must hold together. Each is compiled once, from a queue and not by recursion.
 *             There are at most HTH_SCHEMA_GOALS_MAX, with HTH_SCHEMA_ITEMS_MAX subschemas in all, which bounds the
 *             combinations of alternatives.
 *   patterns  machines of at most HTH_DFA_STATES_MAX states
 *   tables    the limits of gbnf.h
 *   steps     every loop over a schema's contents spends steps from one account of HTH_SCHEMA_STEPS_MAX. A step takes a
 *             few nanoseconds.
 *
 * A schema beyond a limit gets an error that names the location.
 */
#ifndef HTH_SCHEMA_SCHEMA_H
#define HTH_SCHEMA_SCHEMA_H

#include "grammar/gbnf.h"

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

/* The keywords that were skipped: "#/properties/a: maxLength dropped". The first HTH_SCHEMA_NOTES_MAX are kept. */
typedef struct hth_schema_notes {
    size_t n;
    char texts[HTH_SCHEMA_NOTES_MAX][HTH_SCHEMA_NOTE_BYTES];
} hth_schema_notes;

typedef struct hth_schema_options {
    /*
     * Read the schema literally. Otherwise it is read in a way that suits replies: keywords imply a missing "type"; an
     * object has only the named members, unless "additionalProperties" says otherwise; a list of items is complete.
     */
    bool is_literal;
    /* Larger bounds of lengths and counts are dropped; 0: HTH_GBNF_REPETITIONS_MAX. */
    uint32_t repetitions_max;
    /*
     * The text may be a list of a location and a schema, ["#/a/b", {...}]. The grammar is then that of the subschema at
     * the location.
     */
    bool may_have_place;
    /* The step budget that several schemas share; each subtracts its steps. NULL: a budget of its own. */
    uint64_t *steps;
} hth_schema_options;

/*
 * Compile a schema, JSON text of n_bytes, to a grammar. The caller owns the one reference to *out. options may be NULL.
 * Notes are appended to notes, which may be NULL. Any thread.
 *
 * HEARTH_MISUSE if the text is not JSON, is not a schema, accepts no value, or cannot be honored; the message names the
 * location: "at #/properties/a/pattern: ...". HEARTH_NO_MEMORY.
 */
hearth_status hth_schema_compile(const char *schema, size_t n_bytes, const hth_schema_options *options, hth_gbnf **out,
                                 hth_schema_notes *notes, hearth_error *err);

/*
 * An hth_gbnf_json_fn, for %json in a grammar. user_data points to a uint64_t, the step budget of all schemas in the
 * grammar; initially HTH_SCHEMA_STEPS_MAX. Counts above HTH_SCHEMA_EMBEDDED_REPETITIONS_MAX are dropped, so that many
 * schemas fit into one grammar.
 */
enum { HTH_SCHEMA_EMBEDDED_REPETITIONS_MAX = 1000 };
hearth_status hth_schema_embedded(void *user_data, const char *text, size_t n_bytes, hth_gbnf **out, hearth_error *err);

#endif
