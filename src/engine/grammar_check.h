/*
 * grammar_check.h - does a text make a grammar?
 *
 * For the C++ files, which cannot read gbnf.h (C's atomics) and include this within extern "C". schema.h says what is
 * accepted. Any thread; nothing is kept.
 */
#ifndef HTH_ENGINE_GRAMMAR_CHECK_H
#define HTH_ENGINE_GRAMMAR_CHECK_H

#include "base/status.h"

/* What the schemas of one conversation, or of one grammar, may take together: *steps begins with it. */
enum { HTH_CHECK_STEPS_MAX = 1 << 24 };

/*
 * Can a schema stand behind %json? What that takes goes off *steps, also where it fails. HEARTH_MISUSE says what cannot be honoured, and
 * where; HEARTH_NO_MEMORY.
 */
hearth_status hth_schema_check(const char *schema, size_t n_bytes, uint64_t *steps, hearth_error *err);

/*
 * Is it a grammar that a sampler takes, but for its length (HTH_GRAMMAR_BYTES_MAX), which is the caller's to look at? token
 * finds a token by its name; NULL: none has one. Errors as hth_gbnf_new.
 */
hearth_status hth_grammar_check(const char *text, size_t n_bytes, uint32_t n_tokens,
                                bool (*token)(const void *data, const char *text, size_t n_bytes, hearth_token *out),
                                const void *data, hearth_error *err);

#endif
