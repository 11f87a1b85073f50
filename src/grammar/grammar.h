/*
 * grammar.h - the tokens that may come next in a text that follows a grammar
 *
 * A recognizer with bounded work. It keeps all readings of the text so far in one shared graph (E. Scott and A.
 * Johnstone, "GLL Parsing", 2010; recognition only, no parse trees). So an ambiguous grammar takes polynomial time at
 * worst, while the list of stacks that the engine keeps doubles with every character.
 *
 * The work for one character and for one token is also limited. A grammar that exceeds a limit is refused with an
 * error, at the start or when it happens, and never blocks the caller.
 */
#ifndef HTH_GRAMMAR_GRAMMAR_H
#define HTH_GRAMMAR_GRAMMAR_H

#include "engine/vocabulary.h"
#include "grammar/gbnf.h"

typedef struct hth_grammar hth_grammar;

/*
 * Begin recognition. gbnf is taken over, even on failure; vocabulary is borrowed for the life of the grammar.
 * HEARTH_MISUSE if no token can come first, or the beginning needs too much work; HEARTH_NO_MEMORY.
 */
hearth_status hth_grammar_new(hth_gbnf *gbnf_take, const hth_vocabulary *vocabulary, hth_grammar **out,
                              hearth_error *err);
void hth_grammar_free(hth_grammar *grammar); /* accepts NULL */

/*
 * Begin to choose the next token. The three functions below then share one work limit. Beyond the limit no token is
 * allowed, and hth_grammar_mask fails.
 */
void hth_grammar_begin_choice(hth_grammar *grammar);

/*
 * May this token come next? A token that ends replies may come if the text is complete. Cheap: looks only at the
 * token's bytes.
 */
bool hth_grammar_allows(hth_grammar *grammar, hearth_token token);
/* May this text come next? It may end in the middle of a character. */
bool hth_grammar_allows_text(hth_grammar *grammar, const uint8_t *bytes, size_t n_bytes);

/*
 * Set allowed[token], [n_tokens of the vocabulary], for every token that may come next. Iterates over the sorted
 * vocabulary. HEARTH_MISUSE if the grammar is so ambiguous here that this would take too long.
 */
hearth_status hth_grammar_mask(hth_grammar *grammar, bool *allowed, hearth_error *err);

/*
 * Accept a token or a text. HEARTH_MISUSE if it is not allowed, or beyond the limits. After an error the grammar cannot
 * be used.
 */
hearth_status hth_grammar_accept(hth_grammar *grammar, hearth_token token, hearth_error *err);
hearth_status hth_grammar_accept_text(hth_grammar *grammar, const uint8_t *bytes, size_t n_bytes, hearth_error *err);

/* Could the text end here? */
bool hth_grammar_is_complete(const hth_grammar *grammar);

#endif
