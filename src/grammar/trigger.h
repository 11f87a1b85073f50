/*
 * trigger.h - find where a lazy grammar begins to apply
 *
 * Reads the reply as it grows, and finds the first byte of the grammar's text: at a trigger word, at the group
 * of a trigger pattern, or at a trigger token.
 */
#ifndef HTH_GRAMMAR_TRIGGER_H
#define HTH_GRAMMAR_TRIGGER_H

#include "base/status.h"
#include "engine/vocabulary.h"

typedef struct hth_triggers hth_triggers;

/*
 * Copies its inputs. The caller has called hth_sampling_check. HEARTH_MISUSE if a pattern does not compile, or all
 * patterns together would take too long.
 */
hearth_status hth_triggers_new(const hearth_sampling *sampling, hth_triggers **out, hearth_error *err);
void hth_triggers_free(hth_triggers *triggers); /* accepts NULL */

/* Triggers are numbered as in sampling. has_token: is this token one of them? */
bool hth_triggers_has_token(const hth_triggers *triggers, hearth_token token);
size_t hth_triggers_n(const hth_triggers *triggers);
hearth_token hth_triggers_token(const hth_triggers *triggers, size_t i); /* -1: trigger i is a text */

/*
 * Begin to check candidates for the next token. If following the patterns for all of them takes too long,
 * hth_triggers_is_too_much becomes true, and every result of hth_triggers_try since this call is invalid.
 */
void hth_triggers_begin_choice(hth_triggers *triggers);
bool hth_triggers_is_too_much(const hth_triggers *triggers);

/*
 * Read the text of a drawn token. *fires: the grammar begins here. *text_out, of *n_out bytes, is then the grammar's
 * text up to the end of this token, borrowed until the next call. HEARTH_NO_MEMORY.
 */
hearth_status hth_triggers_read(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes, bool *fires,
                                const uint8_t **text_out, size_t *n_out, hearth_error *err);
/* The same for a candidate, which changes no state. If out of memory, nothing fires. */
void hth_triggers_try(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes, bool *fires,
                      const uint8_t **text_out, size_t *n_out);

/* May the grammar begin with this text, of n_bytes? */
typedef bool (*hth_triggers_may_begin_fn)(void *user_data, const uint8_t *bytes, size_t n_bytes);

/*
 * The same for all tokens, much faster than one by one. allowed[token], [n_tokens of the vocabulary], is false if its
 * text would make the grammar begin with a text that may_begin refuses. Tokens without text are allowed. Trigger tokens
 * are also checked as texts. HEARTH_NO_MEMORY; see hth_triggers_is_too_much.
 */
hearth_status hth_triggers_mask(hth_triggers *triggers, const hth_vocabulary *vocabulary, bool *allowed,
                                hth_triggers_may_begin_fn may_begin, void *user_data, hearth_error *err);

#endif
