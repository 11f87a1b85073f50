/*
 * cutting.h - how a tokenizer.json cuts a text before it merges, in the words of the engine
 *
 * The engine knows patterns by name. A tokenizer that does anything else to a text is refused, because its tokens would
 * differ without a message.
 */
#ifndef HTH_CONVERT_CUTTING_H
#define HTH_CONVERT_CUTTING_H

#include <jansson.h>

#include "base/status.h"

/* Of pairs of bytes: *pre is the engine's name for its pattern. HEARTH_UNSUPPORTED shows a pattern that has none. */
hearth_status hth_cutting_of_bytes(const json_t *tokenizer, const char **pre, hearth_error *err);

/* Of pieces with U+2581 for spaces: *adds_space tells whether one is put before a text. */
hearth_status hth_cutting_of_pieces(const json_t *tokenizer, bool *adds_space, hearth_error *err);

#endif
