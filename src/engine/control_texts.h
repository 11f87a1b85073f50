/*
 * control_texts.h - where texts of control tokens lie in a text
 *
 * A tokenizer that is asked to (HEARTH_TOKENIZE_SPECIAL) reads the text of a control token as that token, wherever it
 * stands. These functions find such texts, overlapping ones included. A control token is one with HEARTH_TOKEN_CONTROL
 * or HEARTH_TOKEN_UNKNOWN: these are the tokens whose texts are read as text without that flag.
 */
#ifndef HTH_ENGINE_CONTROL_TEXTS_H
#define HTH_ENGINE_CONTROL_TEXTS_H

#include "engine/backend.h"

typedef struct hth_control_texts hth_control_texts; /* never changes: any number of threads may use it */

/* Asks for the flags of every token once. NULL without memory. */
hth_control_texts *hth_control_texts_new(const hth_backend *backend, const hth_engine_model *model, uint32_t n_vocab);
void hth_control_texts_free(hth_control_texts *texts); /* accepts NULL */

bool hth_control_texts_is_control(const hth_control_texts *texts, hearth_token token);

/* Does the text of a control token begin before position and end behind it? */
bool hth_control_texts_cross(const hth_control_texts *texts, const char *text, size_t n_bytes, size_t position);

/*
 * The end of the longest control text that begins at position; 0: none begins there.
 */
size_t hth_control_texts_end(const hth_control_texts *texts, const char *text, size_t n_bytes, size_t position);

#endif
