/*
 * grammar_fuzz.c - no grammar, schema or pattern, and no reply that follows one, crashes or holds up the sampler
 *
 * The first byte of an input says what it is: a grammar, a schema, a lazy grammar with the input's first line as a
 * pattern, or a pattern alone. What compiles is followed for a few tokens, each the first that it allows from a place
 * the input chooses; what the mask allows must be accepted.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { N_MAX = 65536, TOKENS = 12 };

static const hth_backend *llama;
static hth_engine_model *model;
static hth_engine_model_info info;
static float logits[N_MAX];

static void open_model(void)
{
    static const hth_log silent = { .level = HEARTH_LOG_ERROR };
    hth_engine_model_params params = { .log = &silent };

    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, NULL) != HEARTH_OK ||
        llama->model_load(HTH_TEST_MODELS "/hearth-tiny.gguf", &params, &model, NULL) != HEARTH_OK)
        abort();
    llama->model_info(model, &info);
    if (info.n_vocab > N_MAX)
        abort();
}

static void follow(hth_engine_sampler *sampler, uint8_t choice)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        const hth_candidate *candidates;
        size_t n;

        for (uint32_t j = 0; j < info.n_vocab; j++)
            logits[j] = (float)((j * 2654435761u + i * 40503u + choice * 977u) % 1000) / 100;
        if (llama->sampler_apply(sampler, logits, &(hth_sample_at){ .position = i }, &candidates, &n, NULL) !=
            HEARTH_OK)
            return;
        if (n == 0)
            abort();
        if (llama->sampler_accept(sampler, candidates[choice % n].token, true, NULL) == HEARTH_MISUSE)
            abort();
        if (llama->is_end(model, candidates[choice % n].token))
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hearth_trigger trigger = { .kind = HEARTH_TRIGGER_PATTERN };
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
    if (sampling.grammar || sampling.json_schema) {
        if (llama->sampler_new(model, &sampling, &sampler, &err) == HEARTH_OK)
            follow(sampler, bytes[0] >> 4);
        llama->sampler_free(sampler);
    }
    free(text);
    return 0;
}
