/*
 * cutting.h - how a tokenizer.json splits a text before merging, in the engine's terms
 *
 * The engine knows patterns by name. A tokenizer that does anything else to a text is refused, because its tokens would
 * silently differ.
 */
#ifndef HTH_CONVERT_CUTTING_H
#define HTH_CONVERT_CUTTING_H

#include <jansson.h>

#include "base/status.h"

/*
 * For byte-level BPE: *pre is the engine's name for its pattern. HEARTH_UNSUPPORTED, with the pattern, if it has no
 * name.
 */
hearth_status hth_cutting_of_bytes(const json_t *tokenizer, const char **pre, hearth_error *err);

/* For pieces with U+2581 for spaces: *adds_space is whether one is put before a text. */
hearth_status hth_cutting_of_pieces(const json_t *tokenizer, bool *adds_space, hearth_error *err);

#endif
