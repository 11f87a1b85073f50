/*
 * trigger.h - when a lazy grammar begins to bind
 *
 * Reads the reply as it grows and says at which byte of it the grammar's text begins: where a word stands, where a
 * pattern's group does, or with a token.
 */
#ifndef HTH_ENGINE_TRIGGER_H
#define HTH_ENGINE_TRIGGER_H

#include "base/status.h"
#include "engine/vocabulary.h"

typedef struct hth_triggers hth_triggers;

/*
 * Copies what it needs; checked by hth_sampling_check. HEARTH_MISUSE names a pattern that does not compile, or says that
 * all of them would take too long.
 */
hearth_status hth_triggers_new(const hearth_sampling *sampling, hth_triggers **out, hearth_error *err);
void hth_triggers_free(hth_triggers *triggers); /* accepts NULL */

bool hth_triggers_has_token(const hth_triggers *triggers, hearth_token token);
size_t hth_triggers_n(const hth_triggers *triggers);
hearth_token hth_triggers_token(const hth_triggers *triggers, size_t i); /* -1: it is a text */

/*
 * Begin to ask about tokens that may come next. Where following the patterns for all of them took too long,
 * hth_triggers_is_too_much says so afterwards; what hth_triggers_try said since then is not to be used.
 */
void hth_triggers_begin_choice(hth_triggers *triggers);
bool hth_triggers_is_too_much(const hth_triggers *triggers);

/*
 * A token's text has come. *fires: the grammar begins, and *text_out, *n_out is what it has to take: from its beginning
 * to the end of this token, borrowed until the next call. HEARTH_NO_MEMORY.
 */
hearth_status hth_triggers_read(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes, bool *fires,
                                const uint8_t **text_out, size_t *n_out, hearth_error *err);
/* The same of a token that may come; nothing is remembered. Without memory nothing fires. */
void hth_triggers_try(hth_triggers *triggers, const uint8_t *bytes, size_t n_bytes, bool *fires,
                      const uint8_t **text_out, size_t *n_out);

/* May the grammar begin with this text, of n_bytes? */
typedef bool (*hth_triggers_may_begin_fn)(void *user_data, const uint8_t *bytes, size_t n_bytes);

/*
 * The same of all tokens, much faster than one by one: allowed[token] is false where its text would let the grammar begin
 * with something that may_begin says no to. Tokens without text are allowed, and those that are triggers themselves are
 * looked at as texts, too. [n_tokens of the vocabulary]. HEARTH_NO_MEMORY; see hth_triggers_is_too_much.
 */
hearth_status hth_triggers_mask(hth_triggers *triggers, const hth_vocabulary *vocabulary, bool *allowed,
                                hth_triggers_may_begin_fn may_begin, void *user_data, hearth_error *err);

#endif
