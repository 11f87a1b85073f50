/*
 * backend_sampler.c - the part of sampling that needs llama.cpp: its vocabulary and its tokenizer
 *
 * The engine's own samplers are not used. Its grammars end the process when a reply ends too early, throw when a token
 * is refused, print syntax errors to the terminal, and take unbounded time and memory for a very ambiguous grammar. Its
 * XTC draws from a stateful generator. Several filters allocate for each token. So the chain is ours (sampler.c), with
 * the engine's definitions.
 */
#include "llama/backend_sampler.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/gbnf_reader.h"
#include "llama/llama_shim.h"
#include "sampling/sampler.h"
#include "sampling/sampling.h"
#include "schema/schema.h"

/* A token of a grammar by its name, "<|im_start|>". */
static bool token_of_name(const void *user_data, const char *text, size_t n_bytes, hearth_token *out)
{
    hearth_token tokens[2];
    int32_t n = 0;

    if (n_bytes > 1024 ||
        hth_shim_tokenize(user_data, text, (int32_t)n_bytes, false, true, tokens, 2, &n, NULL) != HEARTH_OK)
        return false;
    *out = tokens[0];
    return n == 1;
}

static hearth_status read_grammar(const struct llama_model *llama, hth_grammar_memo *grammars, uint32_t n_vocab,
                                  const hearth_sampling *sampling, hth_gbnf **out, hearth_error *err)
{
    bool is_schema = sampling->json_schema != NULL;
    const char *given = is_schema ? sampling->json_schema : sampling->grammar;
    hth_gbnf *known = hth_grammar_memo_find(grammars, is_schema, given);
    uint64_t steps = HTH_SCHEMA_STEPS_MAX;
    hth_gbnf_outside outside = { .n_tokens = n_vocab,
                                 .token = token_of_name,
                                 .token_data = llama,
                                 .json = hth_schema_embedded,
                                 .json_data = &steps };
    hearth_status status;

    if (known) {
        *out = known;
        return HEARTH_OK;
    }
    if (is_schema)
        status = hth_schema_compile(sampling->json_schema, strlen(sampling->json_schema), NULL, out, NULL, err);
    else
        status = hth_gbnf_new(sampling->grammar, strlen(sampling->grammar), &outside, out, err);
    if (status == HEARTH_OK)
        hth_grammar_memo_keep(grammars, is_schema, given, *out);
    else
        hth_fail_prefix(err, "sampling: %s", is_schema ? "json_schema" : "grammar");
    return status;
}

/* Read the names of the tokens to be shown. */
static void read_shown(const struct llama_model *llama, const hearth_sampling *sampling,
                       hth_shown_token shown[HTH_SHOWN_TOKENS_MAX], hth_sampler_parts *parts)
{
    for (size_t i = 0; i < sampling->n_shown_tokens && i < HTH_SHOWN_TOKENS_MAX; i++) {
        hth_shown_token *to = &shown[parts->n_shown];
        int32_t n = 0;

        to->token = sampling->shown_tokens[i];
        if (to->token < 0 || (uint32_t)to->token >= parts->n_vocab ||
            hth_shim_piece(llama, to->token, true, (char *)to->bytes, sizeof(to->bytes), &n, NULL) != HEARTH_OK ||
            n <= 0)
            continue; /* not a token, or its name is too long */
        to->n_bytes = (uint32_t)n;
        parts->n_shown++;
    }
    parts->shown = shown;
}

static hearth_status tokenize(const void *llama, const char *text, hearth_token *tokens, size_t capacity, size_t *n_out,
                              hearth_error *err)
{
    int32_t n = 0;
    hearth_status status =
        hth_shim_tokenize(llama, text, (int32_t)strlen(text), false, true, tokens, (int32_t)capacity, &n, err);

    *n_out = (size_t)llabs(n); /* negative: this many do not fit */
    return status;
}

hearth_status hth_llama_sampler_new(const struct llama_model *llama, hth_texts *texts, hth_grammar_memo *grammars,
                                    const hearth_sampling *sampling, hth_engine_sampler **out, hearth_error *err)
{
    hth_sampler_parts parts = { .n_vocab = hth_texts_n_tokens(texts) };
    hth_shown_token shown[HTH_SHOWN_TOKENS_MAX];
    hth_thinking_parts thinking;
    hearth_status status = hth_sampling_check(sampling, err);

    if (status == HEARTH_OK)
        read_shown(llama, sampling, shown, &parts);
    if (status == HEARTH_OK)
        status = hth_texts_ends(texts, &parts.ends, &parts.n_ends, err);
    if (status == HEARTH_OK && hth_sampler_needs_text(sampling))
        status = hth_texts_vocabulary(texts, &parts.vocabulary, err);
    if (status == HEARTH_OK && hth_sampling_bounds_thinking(sampling)) {
        status = hth_thinking_read(sampling, tokenize, llama, &thinking, err);
        parts.thinking = &thinking;
    }
    if (status == HEARTH_OK && (sampling->grammar || sampling->json_schema))
        status = read_grammar(llama, grammars, parts.n_vocab, sampling, &parts.gbnf_take, err);
    return status == HEARTH_OK ? hth_sampler_new(sampling, &parts, out, err) : status;
}
