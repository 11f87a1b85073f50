/*
 * backend_embedder.c - vectors of inputs, in a separate context
 *
 * The engine pools vectors only within one internal batch (ubatch). So an evaluation is one such batch: n_ubatch is
 * n_batch, and the context has room for it and no more. Each input is a sequence. All sequences are removed before the
 * next evaluation, so inputs never see each other.
 *
 * Encoders have no cells: attention stays within the batch, and the weights of some models have no positions beyond the
 * trained ones. The caller must respect n_ctx_train.
 */
#include "llama/backend_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

enum {
    N_INPUTS_MAX = 256,
    N_STATES_MAX = 8, /* inputs at once for a model that keeps recurrent state for each */
};

struct hth_engine_embedder {
    hth_engine_model *model;
    struct llama_context *llama;
    hth_embedder_params params;
    struct llama_batch batch; /* of n_tokens_max rows */
    llama_seq_id *sequences;  /* of its rows */
    uint32_t *first_row;      /* [n_inputs_max + 1], for each input of the last evaluation */
    size_t n_inputs;          /* of the last evaluation; 0: it failed */
    hth_llama_applied applied;
};

static enum llama_pooling_type engine_pooling(hearth_pooling pooling)
{
    switch (pooling) {
    case HEARTH_POOLING_NONE: return LLAMA_POOLING_TYPE_NONE;
    case HEARTH_POOLING_MEAN: return LLAMA_POOLING_TYPE_MEAN;
    case HEARTH_POOLING_CLS: return LLAMA_POOLING_TYPE_CLS;
    case HEARTH_POOLING_LAST: return LLAMA_POOLING_TYPE_LAST;
    case HEARTH_POOLING_RANK: return LLAMA_POOLING_TYPE_RANK;
    default: return LLAMA_POOLING_TYPE_UNSPECIFIED;
    }
}

void hth_backend_llama_embedder_free(hth_engine_embedder *embedder)
{
    if (!embedder)
        return;
    hth_backend_llama_adapters_part(&embedder->applied);
    if (embedder->llama) {
        hth_backend_llama_enter(embedder->model->log);
        llama_free(embedder->llama);
        hth_backend_llama_leave();
    }
    hth_backend_llama_batch_deinit(&embedder->batch, embedder->sequences);
    free(embedder->first_row);
    free(embedder);
}

static hearth_status allocate_arrays(hth_engine_embedder *embedder, hearth_error *err)
{
    const size_t n = embedder->params.n_tokens_max;

    embedder->first_row = calloc((size_t)embedder->params.n_inputs_max + 1, sizeof(embedder->first_row[0]));
    embedder->sequences = hth_backend_llama_batch_init(&embedder->batch, n);
    if (!embedder->first_row || !embedder->sequences)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for inputs of %zu tokens", n);
    for (size_t i = 0; i < n; i++)
        embedder->batch.logits[i] = true;
    return HEARTH_OK;
}

/* Approximate memory of an evaluation: a generating model also computes the logits of all rows, and copies them. */
static uint64_t evaluation_bytes(const hth_engine_model *model, uint64_t n_rows)
{
    const uint64_t n_activations = 16; /* a guess: number of vectors per row that exist at once */
    char text[16];
    uint64_t n_logits = 2 * (uint64_t)model->info.n_vocab;

    if (hth_backend_llama_own_meta(model, "attention.causal", text, sizeof(text)) && strcmp(text, "false") == 0)
        n_logits = 0;
    return n_rows * sizeof(float) * (n_rows + n_activations * (uint64_t)model->facts.n_embd + n_logits);
}

static hearth_status make_context(hth_engine_embedder *embedder, hearth_error *err)
{
    const hth_embedder_params *params = &embedder->params;
    /* With mean pooling, the engine aborts if it cannot divide the rows of its batch evenly among all sequences. */
    uint32_t n_rows = (params->n_tokens_max + params->n_inputs_max - 1) / params->n_inputs_max * params->n_inputs_max;
    uint32_t n_ctx = (n_rows + HTH_CONTEXT_STEP - 1) / HTH_CONTEXT_STEP * HTH_CONTEXT_STEP;
    struct llama_context_params llama = llama_context_default_params();
    hearth_status status = HEARTH_OK;

    if (!embedder->model->on_gpu)
        status = hth_backend_llama_check_memory(evaluation_bytes(embedder->model, n_rows), "embeddings", err);
    if (status != HEARTH_OK)
        return status;
    llama.n_ctx = n_ctx;
    llama.n_batch = llama.n_ubatch = n_rows;
    llama.n_seq_max = params->n_inputs_max;
    llama.n_threads = llama.n_threads_batch = (int32_t)(params->n_threads ? params->n_threads : hth_os_n_cpus());
    llama.pooling_type = engine_pooling(params->pooling);
    llama.abort_callback = params->abort;
    llama.abort_callback_data = params->abort_user_data;
    llama.embeddings = true;
    llama.no_perf = true;
    llama.swa_full = false;
    llama.kv_unified = true;
    return hth_backend_llama_make_context(embedder->model, &llama, &embedder->llama, err);
}

hearth_status hth_backend_llama_embedder_new(hth_engine_model *model, const hth_embedder_params *params,
                                             hth_engine_embedder **out, hearth_error *err)
{
    hth_engine_embedder *embedder;
    hearth_status status;

    if (!model || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "embeddings need a model and parameters");
    if (params->n_tokens_max < 1 || params->n_tokens_max > 1u << 16 || params->n_inputs_max < 1 ||
        params->n_inputs_max > N_INPUTS_MAX || params->n_threads > 1024 ||
        engine_pooling(params->pooling) == LLAMA_POOLING_TYPE_UNSPECIFIED)
        return hth_fail(err, HEARTH_MISUSE,
                        "embeddings of %u tokens, %u inputs, %u threads and pooling %d cannot be made",
                        params->n_tokens_max, params->n_inputs_max, params->n_threads, (int)params->pooling);
    if (!hth_backend_llama_embeds(model))
        return hth_fail(err, HEARTH_UNSUPPORTED, "models of architecture '%s' make no embeddings",
                        model->info.architecture);
    if (params->pooling == HEARTH_POOLING_RANK && !model->has_classifier)
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no classifier, so it gives no scores");
    embedder = calloc(1, sizeof(*embedder));
    if (!embedder)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for embeddings");
    embedder->model = model;
    embedder->params = *params;
    if ((model->facts.is_recurrent || model->facts.is_hybrid) && params->n_inputs_max > N_STATES_MAX)
        embedder->params.n_inputs_max = N_STATES_MAX;
    hth_backend_llama_enter(model->log);
    status = make_context(embedder, err);
    hth_backend_llama_leave();
    if (status == HEARTH_OK)
        status = allocate_arrays(embedder, err);
    if (status != HEARTH_OK) {
        hth_backend_llama_embedder_free(embedder);
        return status;
    }
    hth_backend_llama_adapters_join(&embedder->applied, model, embedder->llama);
    *out = embedder;
    return HEARTH_OK;
}

hearth_status hth_backend_llama_embedder_adapters(hth_engine_embedder *embedder, const hth_engine_adapter_use *uses,
                                                  size_t n, hearth_error *err)
{
    if (!embedder)
        return hth_fail(err, HEARTH_MISUSE, "adapters are applied by an embedder");
    return hth_backend_llama_applied_set(&embedder->applied, uses, n, err);
}

uint32_t hth_backend_llama_embedder_inputs(const hth_engine_embedder *embedder)
{
    return embedder->params.n_inputs_max;
}

static hearth_status fill_batch(hth_engine_embedder *embedder, const hth_embedder_input *inputs, size_t n_inputs,
                                hearth_error *err)
{
    struct llama_batch *batch = &embedder->batch;
    uint32_t n = 0;

    for (size_t i = 0; i < n_inputs; i++) {
        if (inputs[i].n_tokens < 1 || inputs[i].n_tokens > embedder->params.n_tokens_max - n)
            return hth_fail(err, HEARTH_MISUSE, "input %zu has %u tokens, behind %u others; there is room for 1 to %u",
                            i, inputs[i].n_tokens, n, embedder->params.n_tokens_max);
        embedder->first_row[i] = n;
        for (uint32_t k = 0; k < inputs[i].n_tokens; k++) {
            if (!hth_backend_llama_is_token(embedder->model, inputs[i].tokens[k]))
                return hth_fail(err, HEARTH_MISUSE, "input %zu has token %d, which is not in the vocabulary of %u", i,
                                inputs[i].tokens[k], embedder->model->info.n_vocab);
            batch->token[n] = inputs[i].tokens[k];
            batch->pos[n] = (llama_pos)k;
            embedder->sequences[n++] = (llama_seq_id)i;
        }
    }
    embedder->first_row[n_inputs] = n;
    batch->n_tokens = (int32_t)n;
    return HEARTH_OK;
}

hearth_status hth_backend_llama_embed(hth_engine_embedder *embedder, const hth_embedder_input *inputs, size_t n_inputs,
                                      hth_decode_result *result, hearth_error *err)
{
    int32_t answer = 0;
    hearth_status status;

    if (!embedder || !inputs || !result)
        return hth_fail(err, HEARTH_MISUSE, "embeddings need an embedder and inputs");
    embedder->n_inputs = 0;
    if (n_inputs < 1 || n_inputs > embedder->params.n_inputs_max)
        return hth_fail(err, HEARTH_MISUSE, "%zu inputs; 1 to %u can be evaluated at once", n_inputs,
                        embedder->params.n_inputs_max);
    status = fill_batch(embedder, inputs, n_inputs, err);
    if (status != HEARTH_OK)
        return status;
    hth_backend_llama_enter(embedder->model->log);
    llama_memory_clear(llama_get_memory(embedder->llama), false); /* accepts NULL */
    hth_backend_llama_adapters_hold(embedder->model);
    status = hth_shim_decode(embedder->llama, embedder->batch, &answer, err);
    hth_backend_llama_adapters_release(embedder->model);
    if (status == HEARTH_OK && answer != 0 && answer != 2)
        status = hth_fail(err, HEARTH_ENGINE, "the engine failed to evaluate inputs of %d tokens (%d): %s",
                          embedder->batch.n_tokens, answer, hth_backend_llama_reason("it does not say why"));
    hth_backend_llama_leave();
    if (status != HEARTH_OK)
        return status;
    *result = answer == 0 ? HTH_DECODE_OK : HTH_DECODE_ABORTED;
    embedder->n_inputs = answer == 0 ? n_inputs : 0;
    return HEARTH_OK;
}

const float *hth_backend_llama_embedding(hth_engine_embedder *embedder, size_t input, uint32_t token)
{
    if (!embedder || input >= embedder->n_inputs)
        return NULL;
    if (embedder->params.pooling != HEARTH_POOLING_NONE)
        return llama_get_embeddings_seq(embedder->llama, (llama_seq_id)input);
    if (token >= embedder->first_row[input + 1] - embedder->first_row[input])
        return NULL;
    return llama_get_embeddings_ith(embedder->llama, (int32_t)(embedder->first_row[input] + token));
}
