/*
 * sampling.c - samplers of the stub engine: the chain that all engines share, on the stub's vocabulary
 */
#include <string.h>

#include "grammar/gbnf_reader.h"
#include "sampling/sampling.h"
#include "stub/inside.h"

/* The names of control tokens that stand for themselves. */
static void read_shown(const hth_engine_model *model, const hearth_sampling *sampling,
                       hth_shown_token shown[HTH_SHOWN_TOKENS_MAX], hth_sampler_parts *parts)
{
    for (size_t i = 0; i < sampling->n_shown_tokens && i < HTH_SHOWN_TOKENS_MAX; i++) {
        hth_shown_token *to = &shown[parts->n_shown];
        size_t n = 0;

        to->token = sampling->shown_tokens[i];
        if (hth_stub_piece(model, to->token, true, (char *)to->bytes, sizeof(to->bytes), &n, NULL) != HEARTH_OK)
            continue; /* no token, or one whose name is longer than any that matters */
        to->n_bytes = (uint32_t)n;
        parts->n_shown++;
    }
    parts->shown = shown;
}

static hearth_status tokenize(const void *model, const char *text, hearth_token *tokens, size_t capacity, size_t *n_out,
                              hearth_error *err)
{
    hth_tokenize_result result;

    return hth_stub_tokenize(model, text, strlen(text), HEARTH_TOKENIZE_SPECIAL, tokens, capacity, n_out, &result, NULL,
                             err);
}

/* The chain is every engine's. What a schema needs beyond it, a converter, this engine has not. */
hearth_status hth_stub_sampler_new(const hth_engine_model *model, const hearth_sampling *sampling,
                                   hth_engine_sampler **out, hearth_error *err)
{
    hth_sampler_parts parts = { .n_vocab = model ? model->n_vocab : 0 };
    hth_shown_token shown[HTH_SHOWN_TOKENS_MAX];
    hth_thinking_parts thinking;
    hearth_status status;

    if (!model || !sampling || !out)
        return hth_fail(err, HEARTH_MISUSE, "sampling needs a model and options");
    status = hth_sampling_check(sampling, err);
    if (status != HEARTH_OK)
        return status;
    if (sampling->json_schema)
        return hth_fail(err, HEARTH_UNSUPPORTED, "sampling: the stub engine has no json_schema; leave it out");
    read_shown(model, sampling, shown, &parts);
    status = hth_texts_ends(model->texts, &parts.ends, &parts.n_ends, err);
    if (status == HEARTH_OK && hth_sampler_needs_text(sampling))
        status = hth_texts_vocabulary(model->texts, &parts.vocabulary, err);
    if (status == HEARTH_OK && hth_sampling_bounds_thinking(sampling)) {
        status = hth_thinking_read(sampling, tokenize, model, &thinking, err);
        parts.thinking = &thinking;
    }
    if (status == HEARTH_OK && sampling->grammar)
        status = hth_gbnf_new(sampling->grammar, strlen(sampling->grammar),
                              &(hth_gbnf_outside){ .n_tokens = parts.n_vocab }, &parts.gbnf_take, err);
    return status == HEARTH_OK ? hth_sampler_new(sampling, &parts, out, err) : status;
}
