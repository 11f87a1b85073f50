/*
 * token_text.h - the text of one token, for display
 */
#ifndef HTH_SCHED_TOKEN_TEXT_H
#define HTH_SCHED_TOKEN_TEXT_H

#include "engine/backend.h"

enum { HTH_TOKEN_TEXT_BYTES = 64 };

/*
 * The text of the token, terminated, cut after a whole character. Control tokens give their names. Bytes that are no
 * character become U+FFFD. "" on failure.
 */
void hth_token_text(const hth_backend *backend, const hth_engine_model *model, hearth_token token,
                    char text[HTH_TOKEN_TEXT_BYTES]);

#endif
