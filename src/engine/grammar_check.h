/*
 * grammar_check.h - does a text make a grammar?
 *
 * For the C++ files, which cannot read gbnf.h (C's atomics).
 */
#ifndef HTH_ENGINE_GRAMMAR_CHECK_H
#define HTH_ENGINE_GRAMMAR_CHECK_H

#include "base/status.h"

/* What the schemas of one conversation, or of one grammar, may take together; HTH_SCHEMA_STEPS_MAX of schema.h. */
enum { HTH_CHECK_STEPS_MAX = 1 << 24 };

/*
 * Can a schema stand behind %json? What that takes goes off *steps. HEARTH_MISUSE says what cannot be honoured, and
 * where; HEARTH_NO_MEMORY.
 */
hearth_status hth_schema_check(const char *schema, size_t n_bytes, uint64_t *steps, hearth_error *err);

/* Is it a grammar that a sampler takes? token finds a token by its name, as hth_gbnf_token_fn does. Errors as there. */
hearth_status hth_grammar_check(const char *text, size_t n_bytes, uint32_t n_tokens,
                                bool (*token)(const void *data, const char *text, size_t n_bytes, hearth_token *out),
                                const void *data, hearth_error *err);

#endif
