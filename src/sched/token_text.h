/*
 * token_text.h - the text of one token, for display
 */
#ifndef HTH_SCHED_TOKEN_TEXT_H
#define HTH_SCHED_TOKEN_TEXT_H

#include "engine/backend.h"

enum { HTH_TOKEN_TEXT_BYTES = 64 };

/*
 * The text of the token, NUL-terminated, truncated after a whole character; for a control token, its name. Invalid
 * bytes become U+FFFD. "" on failure.
 */
void hth_token_text(const hth_backend *backend, const hth_engine_model *model, hearth_token token,
                    char text[HTH_TOKEN_TEXT_BYTES]);

#endif
