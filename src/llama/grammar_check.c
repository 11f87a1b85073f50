/*
 * grammar_check.c - compiles grammars and schemas only to see whether they can be compiled
 */
#include "llama/llama_shim.h"

#include "grammar/gbnf_reader.h"
#include "schema/schema.h"

_Static_assert((int)HTH_CHECK_STEPS_MAX == (int)HTH_SCHEMA_STEPS_MAX, "one limit");

hearth_status hth_schema_check(const char *schema, size_t n_bytes, uint64_t *steps, hearth_error *err)
{
    hth_gbnf *grammar = NULL;
    hearth_status status = hth_schema_embedded(steps, schema, n_bytes, &grammar, err);

    hth_gbnf_unref(grammar);
    return status;
}

hearth_status hth_grammar_check(const char *text, size_t n_bytes, uint32_t n_tokens,
                                bool (*token)(const void *data, const char *text, size_t n_bytes, hearth_token *out),
                                const void *data, hearth_error *err)
{
    uint64_t steps = HTH_SCHEMA_STEPS_MAX;
    hth_gbnf_outside outside = {
        .n_tokens = n_tokens, .token = token, .token_data = data, .json = hth_schema_embedded, .json_data = &steps
    };
    hth_gbnf *grammar = NULL;
    hearth_status status = hth_gbnf_new(text, n_bytes, &outside, &grammar, err);

    hth_gbnf_unref(grammar);
    return status;
}
