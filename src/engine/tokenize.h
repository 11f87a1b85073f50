/*
 * tokenize.h - the tokens of a text, however many they are
 */
#ifndef HTH_ENGINE_TOKENIZE_H
#define HTH_ENGINE_TOKENIZE_H

#include <stdatomic.h>

#include "engine/backend.h"

/*
 * A new array of the text's tokens, released with free. is_gone returns true when the tokens are no longer needed (may
 * be NULL); the status is then HEARTH_CANCELLED. Statuses as the engine's, and HEARTH_NO_MEMORY.
 */
hearth_status hth_tokenize(const hth_backend *backend, const hth_engine_model *model, const char *text, size_t n_bytes,
                           unsigned flags, const atomic_bool *is_gone, hearth_token **tokens_out, size_t *n_out,
                           hearth_error *err);

#endif
