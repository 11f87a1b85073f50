/*
 * backend_control.c - the control vectors of a model: their sum, its digest, and the contexts that apply it
 *
 * A model reads its control vectors once and adds them up. Each of its contexts gets the sum before its first
 * evaluation. The engine gets only the layers between the first and the last one that the sum changes, so equal digests
 * mean equal computations. A sum of zeros counts as no vector.
 *
 * Each architecture's graph must ask for the vector, and about 30 of v0.5.0 do not (llama-graph.h, build_cvec). The
 * engine does not report that. So a few tokens are evaluated without and with a vector of large values, and control
 * vectors are refused if the results are bit-identical.
 */
#include "llama/backend_inside.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"

enum { PROBE_TOKENS = 4, HINT_BYTES = 64 };

static size_t n_values(const hth_shim_control_sum *sum)
{
    return (size_t)(sum->n_layers - 1) * sum->n_embd;
}

/* ---- the sum ---- */

static hearth_status add_file(const hth_engine_model *model, const hth_control_vector *vector,
                              const hth_shim_control_sum *sum, hearth_error *err)
{
    hth_shim_file file = { 0 };
    char hint[HINT_BYTES];
    hearth_status status;

    if (access(vector->path, R_OK) != 0)
        return hth_fail_errno(err, errno, "cannot open the control vector '%s'%s", vector->path,
                              strchr(vector->path, ':') ? " (a scale behind ':' must be a number)" : "");
    status = hth_whole_file_check(vector->path, "a control vector", &file, err);
    if (status == HEARTH_OK)
        status = hth_shim_control_add(vector->path, vector->scale, sum, hint, sizeof(hint), err);
    /* Only a warning: some tools write another name of the same architecture. */
    if (status == HEARTH_OK && hint[0] && strcmp(hint, model->info.architecture) != 0)
        hth_warn(model->log, "the control vector '%s' names the architecture '%s', and the model's is '%s'",
                 vector->path, hint, model->info.architecture);
    return status;
}

/* Clear the layers outside [first, last]; the remaining range is stored in control. */
static hearth_status cut(hth_shim_control_sum *control, uint32_t first, uint32_t last, hearth_error *err)
{
    const uint32_t n_embd = control->n_embd;

    control->first = control->last = 0;
    for (size_t i = 0; i < n_values(control); i++) {
        uint32_t layer = (uint32_t)(i / n_embd) + 1;
        float *value = &control->values[i];

        if (!isfinite(*value))
            return hth_fail(err, HEARTH_MISUSE,
                            "the control vectors have a sum that is no finite number, in layer %u; correct the file or "
                            "its scale",
                            layer);
        *value = layer < first || layer > last ? 0 : *value + 0.0f; /* -0 becomes 0 */
        if (*value == 0)
            continue;
        control->first = control->first ? control->first : layer;
        control->last = layer;
    }
    return HEARTH_OK;
}

static hearth_status digest(const hth_shim_control_sum *control, uint8_t *out, hearth_error *err)
{
    static const char domain[] = "hearth-control-vector-v1"; /* with its NUL */
    hth_sha256 *sha = hth_sha256_new();
    uint8_t word[4];

    if (!sha)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the digest of a control vector");
    hth_sha256_update(sha, domain, sizeof(domain));
    hth_put_u32(word, control->first);
    hth_sha256_update(sha, word, sizeof(word));
    for (size_t i = (size_t)(control->first - 1) * control->n_embd; i < (size_t)control->last * control->n_embd; i++) {
        uint32_t bits;

        memcpy(&bits, &control->values[i], sizeof(bits));
        hth_put_u32(word, bits);
        hth_sha256_update(sha, word, sizeof(word));
    }
    hth_sha256_peek(sha, out);
    hth_sha256_free(sha);
    return HEARTH_OK;
}

/* ---- does the architecture support control vectors? ---- */

/* Evaluate the tokens in an empty context. vector, [n_embd_out], receives the engine's output for the last one. */
static hearth_status evaluate(const hth_engine_model *model, struct llama_context *llama, float *vector,
                              hearth_error *err)
{
    llama_token tokens[PROBE_TOKENS];
    const float *last;
    int32_t result = 0;
    hearth_status status;

    for (int32_t i = 0; i < PROBE_TOKENS; i++)
        tokens[i] = (llama_token)((7919 * i + 13) % (int32_t)model->info.n_vocab);
    llama_memory_clear(llama_get_memory(llama), false); /* accepts NULL */
    status = hth_shim_decode(llama, llama_batch_get_one(tokens, PROBE_TOKENS), &result, err);
    if (status != HEARTH_OK)
        return status;
    last = llama_get_embeddings_ith(llama, PROBE_TOKENS - 1);
    if (result != 0 || !last)
        return hth_fail(err, HEARTH_ENGINE, "the engine did not finish the test of a control vector (%d): %s", result,
                        hth_backend_llama_reason("it does not say why"));
    memcpy(vector, last, model->info.n_embedding * sizeof(*vector));
    return HEARTH_OK;
}

static hearth_status compare(const hth_engine_model *model, struct llama_context *llama,
                             const hth_shim_control_sum *control, bool *differ_out, hearth_error *err)
{
    size_t n = model->info.n_embedding, n_probe = n_values(control);
    hth_shim_control_sum probe = *control;
    float *both = malloc(2 * n * sizeof(*both));
    hearth_status status = HEARTH_NO_MEMORY;

    probe.values = malloc(n_probe * sizeof(*probe.values));
    if (both && probe.values) {
        for (size_t i = 0; i < n_probe; i++)
            probe.values[i] = (float)(i % 3) - 1;
        status = evaluate(model, llama, both, err);
        if (status == HEARTH_OK)
            status = hth_shim_control_apply(llama, &probe, err);
        if (status == HEARTH_OK)
            status = evaluate(model, llama, both + n, err);
        if (status == HEARTH_OK)
            *differ_out = memcmp(both, both + n, n * sizeof(*both)) != 0;
    } else {
        (void)hth_fail(err, status, "no memory for the test of a control vector");
    }
    free(both);
    free(probe.values);
    return status;
}

static hearth_status check_architecture(hth_engine_model *model, const hth_shim_control_sum *control, hearth_error *err)
{
    struct llama_context_params params = llama_context_default_params();
    struct llama_context *llama = NULL;
    bool differ = false;
    hearth_status status;

    if (!hth_backend_llama_embeds(model))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "control vectors are not for models of architecture '%s': their effect cannot be tested there",
                        model->info.architecture);
    params.n_ctx = HTH_CONTEXT_STEP;
    params.n_batch = params.n_ubatch = 2 * PROBE_TOKENS;
    params.n_seq_max = 1;
    params.n_threads = params.n_threads_batch = 1;
    params.embeddings = true;
    params.pooling_type = LLAMA_POOLING_TYPE_NONE;
    params.no_perf = true;
    status = hth_backend_llama_make_context(model, &params, &llama, err);
    if (status == HEARTH_OK)
        status = compare(model, llama, control, &differ, err);
    if (llama)
        llama_free(llama);
    if (status == HEARTH_OK && !differ)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "control vectors change nothing in models of architecture '%s': the engine does not apply them "
                        "there",
                        model->info.architecture);
    return status;
}

hearth_status hth_backend_llama_control_load(hth_engine_model *model, const hth_engine_model_params *params,
                                             hearth_error *err)
{
    const uint32_t n_layers = model->info.n_layers;
    const uint32_t first = params->control_layer_first ? params->control_layer_first : 1;
    const uint32_t last = params->control_layer_last ? params->control_layer_last : n_layers;
    hth_shim_control_sum control = { .n_layers = n_layers, .n_embd = (uint32_t)model->facts.n_embd };
    hearth_status status = HEARTH_OK;

    if (params->n_control_vectors == 0)
        return HEARTH_OK;
    if (n_layers < 2)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "control vectors change the layers behind the first, and the model has %u", n_layers);
    if (first > last || last > n_layers) /* n_layers itself is the engine's own default */
        return hth_fail(err, HEARTH_MISUSE,
                        "control vectors cannot change the layers %u to %u; the model's layers go from 1 to %u", first,
                        last, n_layers);
    control.values = calloc(n_values(&control), sizeof(float));
    if (!control.values)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a control vector");
    for (size_t i = 0; i < params->n_control_vectors && status == HEARTH_OK; i++)
        status = add_file(model, &params->control_vectors[i], &control, err);
    if (status == HEARTH_OK)
        status = cut(&control, first, last, err);
    if (status == HEARTH_OK && control.first > 0)
        status = check_architecture(model, &control, err);
    if (status == HEARTH_OK && control.first > 0)
        status = digest(&control, model->info.control_digest, err);
    if (status != HEARTH_OK || control.first == 0) {
        free(control.values);
        if (status == HEARTH_OK)
            hth_warn(model->log, "the control vectors change nothing: their sum is 0 in layers %u to %u", first, last);
        return status;
    }
    hth_info(model->log, "control vectors change layers %u to %u", control.first, control.last);
    model->control = control;
    return HEARTH_OK;
}
