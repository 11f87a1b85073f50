/*
 * grammar_fuzz.c - no grammar, schema or pattern, and no reply that follows one, crashes or holds up the sampler
 *
 * The first byte of an input says what it is: a grammar, a schema, a lazy grammar with the input's first line as a
 * pattern, or a pattern alone. They go to the sampler in this program, which the fuzzer sees into. What compiles is
 * followed for a few tokens, each the first that it allows from a place the input chooses; what the mask allows must be
 * accepted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "grammar/gbnf_reader.h"
#include "grammar/pattern.h"
#include "sampling/sampler.h"
#include "sampling/sampling.h"
#include "schema/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { N_MAX = 65536, TOKENS = 12 };

static const hth_backend *llama;
static hth_engine_model *model;
static hth_engine_model_info info;
static float logits[N_MAX];
static hth_vocabulary *vocabulary;

static hearth_status text_of_token(const void *of, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    return llama->piece(of, token, false, bytes, capacity, n_out, NULL);
}

static bool ends_reply(const void *of, hearth_token token)
{
    return llama->is_end(of, token);
}

static void open_model(void)
{
    hearth_error err = { .message = "" };
    static const hth_log silent = { .level = HEARTH_LOG_ERROR };
    hth_engine_model_params params = { .log = &silent };

    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) != HEARTH_OK ||
        llama->model_load(HTH_TEST_MODELS "/hearth-tiny.gguf", &params, &model, &err) != HEARTH_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        abort();
    }
    llama->model_info(model, &info);
    if (info.n_vocab > N_MAX || hth_vocabulary_new(&(hth_vocabulary_source){ .n_tokens = info.n_vocab,
                                                                             .piece = text_of_token,
                                                                             .is_end = ends_reply,
                                                                             .model = model },
                                                   &vocabulary, NULL) != HEARTH_OK)
        abort();
}

static hearth_status open_grammar(const hearth_sampling *sampling, hth_engine_sampler **out, hearth_error *err)
{
    hth_sampler_parts parts = { .n_vocab = info.n_vocab, .vocabulary = vocabulary };
    hearth_status status = hth_sampling_check(sampling, err);
    hth_schema_notes notes = { .n = 0 };
    uint64_t steps = HTH_SCHEMA_STEPS_MAX;
    hth_gbnf_outside outside = { .n_tokens = info.n_vocab, .json = hth_schema_embedded, .json_data = &steps };

    if (status == HEARTH_OK && sampling->json_schema)
        status = hth_schema_compile(sampling->json_schema, strlen(sampling->json_schema), NULL, &parts.gbnf_take,
                                    &notes, err);
    else if (status == HEARTH_OK)
        status = hth_gbnf_new(sampling->grammar, strlen(sampling->grammar), &outside, &parts.gbnf_take, err);
    return status == HEARTH_OK ? hth_sampler_new(sampling, &parts, out, err) : status;
}

static void follow(hth_engine_sampler *sampler, uint8_t choice)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        const hth_candidate *candidates;
        size_t n;

        for (uint32_t j = 0; j < info.n_vocab; j++)
            logits[j] = (float)((j * 2654435761u + i * 40503u + choice * 977u) % 1000) / 100;
        if (hth_sampler_apply(sampler, logits, &(hth_sample_at){ .position = i }, &candidates, &n, NULL) != HEARTH_OK)
            return;
        if (n == 0)
            abort();
        if (hth_sampler_accept(sampler, candidates[choice % n].token, true, NULL) == HEARTH_MISUSE)
            abort();
        if (llama->is_end(model, candidates[choice % n].token))
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hearth_trigger trigger = { .struct_size = sizeof(hearth_trigger), .kind = HEARTH_TRIGGER_PATTERN };
    hearth_sampling sampling = hearth_sampling_default();
    hth_engine_sampler *sampler = NULL;
    hth_pattern *pattern = NULL;
    hearth_error err;
    char *text, *line;

    if (!model)
        open_model();
    if (n_bytes < 2 || n_bytes > 8192)
        return 0;
    text = malloc(n_bytes);
    if (!text)
        return 0;
    memcpy(text, bytes + 1, n_bytes - 1);
    text[n_bytes - 1] = '\0';
    if (bytes[0] & 8)
        sampling.top_k = 0;
    switch (bytes[0] & 3) {
    case 0: sampling.grammar = text; break;
    case 1: sampling.json_schema = text; break;
    case 2:
        line = strchr(text, '\n');
        if (line) {
            *line = '\0';
            trigger.text = text;
            sampling.grammar = line + 1;
            sampling.grammar_is_lazy = true;
            sampling.triggers = &trigger;
            sampling.n_triggers = 1;
        }
        break;
    default:
        if (hth_pattern_new(text, &pattern, &err) == HEARTH_OK)
            hth_pattern_free(pattern);
    }
    if ((sampling.grammar || sampling.json_schema) && open_grammar(&sampling, &sampler, &err) == HEARTH_OK) {
        follow(sampler, bytes[0] >> 4);
        hth_sampler_free(sampler);
    }
    free(text);
    return 0;
}
