/*
 * grammar.h - which tokens may come next in a text that must follow a grammar
 *
 * A recogniser with a bounded appetite. All ways to read the text so far are kept at once in one shared graph (E. Scott
 * and A. Johnstone, "GLL Parsing", 2010; only recognition, no parse trees), so that ambiguity costs a polynomial at
 * worst, where a list of stacks, as the engine keeps it, doubles with every character of an ambiguous grammar. What a
 * character and what a token may cost is limited on top of that; a grammar beyond the limits is refused by name, at
 * once or where it happens, and never holds up whoever asks.
 */
#ifndef HTH_ENGINE_GRAMMAR_H
#define HTH_ENGINE_GRAMMAR_H

#include "engine/gbnf.h"
#include "engine/vocabulary.h"

typedef struct hth_grammar hth_grammar;

/*
 * Begin to recognise. gbnf is taken over, also on failure; vocabulary is borrowed for the life of the grammar.
 * HEARTH_MISUSE when nothing can come first, or too much at once; HEARTH_NO_MEMORY.
 */
hearth_status hth_grammar_new(hth_gbnf *gbnf_take, const hth_vocabulary *vocabulary, hth_grammar **out,
                              hearth_error *err);
void hth_grammar_free(hth_grammar *grammar); /* accepts NULL */

/*
 * Begin to choose the next token. The three functions below share one limit of work from here on; beyond it nothing is
 * allowed and hth_grammar_mask fails.
 */
void hth_grammar_begin_choice(hth_grammar *grammar);

/* May this token come next? One that ends replies may where the text is complete. Cheap: looks at its bytes only. */
bool hth_grammar_allows(hth_grammar *grammar, hearth_token token);
/* May this text come next? Nothing else is asked of it: it may stop in the middle of a character. */
bool hth_grammar_allows_text(hth_grammar *grammar, const uint8_t *bytes, size_t n_bytes);

/*
 * The same of all tokens: allowed[token] is set where it may come next, [n_tokens of the vocabulary]. Walks the sorted
 * vocabulary. HEARTH_ENGINE when the grammar is so ambiguous here that this would take too long.
 */
hearth_status hth_grammar_mask(hth_grammar *grammar, bool *allowed, hearth_error *err);

/* A token or a text came. HEARTH_MISUSE when it may not; HEARTH_ENGINE beyond the limits; the grammar is spent then. */
hearth_status hth_grammar_accept(hth_grammar *grammar, hearth_token token, hearth_error *err);
hearth_status hth_grammar_accept_text(hth_grammar *grammar, const uint8_t *bytes, size_t n_bytes, hearth_error *err);

/* Could the text end here? */
bool hth_grammar_is_complete(const hth_grammar *grammar);

#endif
