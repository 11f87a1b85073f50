/*
 * token_text.h - the text of one token, for people
 */
#ifndef HTH_SCHED_TOKEN_TEXT_H
#define HTH_SCHED_TOKEN_TEXT_H

#include "engine/backend.h"

enum { HTH_TOKEN_TEXT_BYTES = 64 };

/*
 * Whole characters of the token's text, control tokens by name, terminated; what is no character becomes U+FFFD, and
 * what does not fit is left out. "" where the text cannot be had.
 */
void hth_token_text(const hth_backend *backend, const hth_engine_model *model, hearth_token token,
                    char text[HTH_TOKEN_TEXT_BYTES]);

#endif
