/*
 * llama_schema.h - JSON schemas as grammars, through the converter of llama-common, without what it ignores
 *
 * C functions around C++, as in llama_shim.h; nothing throws.
 */
#ifndef HTH_ENGINE_LLAMA_SCHEMA_H
#define HTH_ENGINE_LLAMA_SCHEMA_H

#include "hearth.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"

/*
 * A GBNF grammar whose texts are JSON that the schema accepts (not all of it: properties come in the order of the
 * schema). *grammar_out is malloc'ed and terminated. HEARTH_MISUSE names what is not JSON, not a schema, or a keyword
 * that cannot be honoured, and where it is; HEARTH_NO_MEMORY. Any thread. The work is bounded by limits on nesting,
 * the number of subschemas, and the properties of one object.
 */
hearth_status hth_schema_to_grammar(const char *schema, size_t n_bytes, char **grammar_out, size_t *n_out,
                                    hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
