/*
 * grammar_check.h - checks a schema or a grammar without keeping the result
 *
 * For the C++ files, which include this within extern "C"; they cannot read gbnf.h, which uses C's atomics. schema.h
 * describes the accepted schemas. Any thread.
 */
#ifndef HTH_LLAMA_GRAMMAR_CHECK_H
#define HTH_LLAMA_GRAMMAR_CHECK_H

#include "base/status.h"

/* The steps for all schemas of one conversation or one grammar together: the first value of *steps. */
enum { HTH_CHECK_STEPS_MAX = 1 << 24 };

/*
 * Can the schema be used after %json? The steps spent are subtracted from *steps, also on failure. HEARTH_MISUSE with a
 * message that names the keyword that is not supported, and its place; HEARTH_NO_MEMORY.
 */
hearth_status hth_schema_check(const char *schema, size_t n_bytes, uint64_t *steps, hearth_error *err);

/*
 * Is the text a grammar that a sampler accepts? The caller checks its length (HTH_GRAMMAR_BYTES_MAX). token finds a
 * token by its name; NULL: tokens have no names. Errors as hth_gbnf_new.
 */
hearth_status hth_grammar_check(const char *text, size_t n_bytes, uint32_t n_tokens,
                                bool (*token)(const void *data, const char *text, size_t n_bytes, hearth_token *out),
                                const void *data, hearth_error *err);

#endif
