/*
 * gbnf_reader.h - read grammars in the GBNF notation
 *
 * The notation is llama.cpp's (its grammars/README.md, v0.5.0): rules "name ::= ...", literals, character classes, ".",
 * groups, alternatives, "*", "+", "?", "{m,n}", tokens "<text>" and "<[id]>", negated "!<...>", comments.
 *
 * The engine's reader is lenient; ours is not. A rule that is defined twice, an empty class, {3,1} and a repetition
 * beyond the limit are errors. So is everything for which the engine only prints a message to the terminal. Left
 * recursion is allowed. One element is new: "%json {...}" stands for any text that a JSON schema accepts, and "%json
 * ["#/a/b", {...}]" for any text that the part of the schema at "#/a/b" accepts; its references may point anywhere in
 * the schema.
 */
#ifndef HTH_GRAMMAR_GBNF_READER_H
#define HTH_GRAMMAR_GBNF_READER_H

#include "grammar/gbnf_builder.h"

/* Find the token whose name is text (with its brackets). False if there is none, or more than one. */
typedef bool (*hth_gbnf_token_fn)(const void *user_data, const char *text, size_t n_bytes, hearth_token *out);

/* Make the grammar of the JSON text after %json, n_bytes long: an object or a list. */
typedef hearth_status (*hth_gbnf_json_fn)(void *user_data, const char *text, size_t n_bytes, hth_gbnf **out,
                                          hearth_error *err);

/* The definitions outside its text that a grammar may refer to. */
typedef struct hth_gbnf_outside {
    uint32_t n_tokens;       /* tokens must be below it */
    hth_gbnf_token_fn token; /* NULL: no token has a name */
    const void *token_data;
    hth_gbnf_json_fn json; /* NULL: %json is an error */
    void *json_data;
} hth_gbnf_outside;

/*
 * Read a grammar of n_bytes with the start rule "root". HEARTH_MISUSE with the line and the reason; HEARTH_NO_MEMORY.
 * The time is linear in the text, the written-out repetitions, and the grammars of its schemas.
 */
hearth_status hth_gbnf_new(const char *text, size_t n_bytes, const hth_gbnf_outside *outside, hth_gbnf **out,
                           hearth_error *err);
/* The same for rules among others of a builder, whose start rule is returned. Undefined if the builder has failed. */
uint32_t hth_gbnf_read(hth_gbnf_builder *builder, const char *text, size_t n_bytes, const hth_gbnf_outside *outside);

#endif
