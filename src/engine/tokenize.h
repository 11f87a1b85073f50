/*
 * tokenize.h - the tokens of a text, however many they are, and the texts that a tokenizer reads as one token
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

/*
 * ---- texts that a tokenizer reads as one token ----
 *
 * With HEARTH_TOKENIZE_SPECIAL, a tokenizer reads the text of a control token as that token, wherever it occurs. A
 * control token is one with HEARTH_TOKEN_CONTROL or HEARTH_TOKEN_UNKNOWN. The text of a token with
 * HEARTH_TOKEN_USER_DEFINED is always read as that token. These functions find such texts, including overlapping ones;
 * reads_controls says whether those of control tokens count.
 */

typedef struct hth_control_texts hth_control_texts; /* immutable: any number of threads may use it */

/* Queries the flags of every token once. NULL without memory. */
hth_control_texts *hth_control_texts_new(const hth_backend *backend, const hth_engine_model *model, uint32_t n_vocab);
void hth_control_texts_free(hth_control_texts *texts); /* accepts NULL */

bool hth_control_texts_is_control(const hth_control_texts *texts, hearth_token token);
/* Is it a control token or a user-defined one? */
bool hth_control_texts_is_whole(const hth_control_texts *texts, hearth_token token);

/* Does such a text begin before position and end after it? */
bool hth_control_texts_cross(const hth_control_texts *texts, bool reads_controls, const char *text, size_t n_bytes,
                             size_t position);

/* The end of the longest such text that begins at position; 0: none. */
size_t hth_control_texts_end(const hth_control_texts *texts, bool reads_controls, const char *text, size_t n_bytes,
                             size_t position);

#endif
