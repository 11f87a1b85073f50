/*
 * trigger.h - when a lazy grammar begins to bind
 *
 * Reads the reply as it grows and says at which byte of it the grammar's text begins: where a word stands, where a
 * pattern's group does, or with a token.
 */
#ifndef HTH_ENGINE_TRIGGER_H
#define HTH_ENGINE_TRIGGER_H

#include "base/status.h"

typedef struct hth_triggers hth_triggers;

/* Copies what it needs; checked by hth_sampling_check. HEARTH_MISUSE names a pattern that does not compile. */
hearth_status hth_triggers_new(const hearth_sampling *sampling, hth_triggers **out, hearth_error *err);
void hth_triggers_free(hth_triggers *triggers); /* accepts NULL */

bool hth_triggers_has_token(const hth_triggers *triggers, hearth_token token);

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

#endif
