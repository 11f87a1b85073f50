/*
 * backend_settings.c - facts from a model's metadata, and the engine's contexts with the model's options, adapters and
 * control vectors
 */
#include "llama/backend_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_options.h"

bool hth_backend_llama_meta(const hth_engine_model *model, const char *key, char *text, size_t capacity)
{
    return hth_llama_placement_meta(model->placement, key, text, capacity) ||
           hth_shim_model_meta(model->llama, key, text, capacity);
}

bool hth_backend_llama_own_meta(const hth_engine_model *model, const char *key, char *text, size_t capacity)
{
    char full_key[128];

    (void)snprintf(full_key, sizeof(full_key), "%s.%s", model->info.architecture, key); /* fits */
    return hth_backend_llama_meta(model, full_key, text, capacity);
}

uint32_t hth_backend_llama_number(const hth_engine_model *model, const char *key, uint32_t fallback)
{
    char text[64];
    char *rest;
    unsigned long value;

    if (!hth_backend_llama_own_meta(model, key, text, sizeof(text)))
        return fallback;
    value = strtoul(text, &rest, 10);
    return rest == text || *rest || value > UINT32_MAX ? fallback : (uint32_t)value;
}

/* The engine uses the long factors if the context has more cells than this; the limit is for all sequences together. */
uint32_t hth_backend_llama_n_ctx_short(const hth_engine_model *model)
{
    return model->has_long_rope_factors
             ? hth_backend_llama_number(model, "rope.scaling.original_context_length", model->info.n_ctx_train)
             : 0;
}

/* False for models that are parts of others, or whose vectors mean nothing on their own. */
bool hth_backend_llama_embeds(const hth_engine_model *model)
{
    static const char *const others[] = { "dflash", "eagle3", "gemma4-assistant", "wavtokenizer-dec" };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(model->info.architecture, others[i]) == 0)
            return false;
    return !model->facts.is_diffusion && !(model->facts.has_encoder && model->facts.has_decoder);
}

/* ---- contexts ---- */

llama_seq_id *hth_backend_llama_batch_init(struct llama_batch *batch, size_t n)
{
    llama_seq_id *sequences = calloc(n, sizeof(*sequences));

    batch->token = calloc(n, sizeof(batch->token[0]));
    batch->pos = calloc(n, sizeof(batch->pos[0]));
    batch->n_seq_id = calloc(n, sizeof(batch->n_seq_id[0]));
    batch->seq_id = calloc(n, sizeof(batch->seq_id[0]));
    batch->logits = calloc(n, sizeof(batch->logits[0]));
    if (!sequences || !batch->token || !batch->pos || !batch->n_seq_id || !batch->seq_id || !batch->logits) {
        hth_backend_llama_batch_deinit(batch, sequences);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        batch->n_seq_id[i] = 1;
        batch->seq_id[i] = &sequences[i];
    }
    return sequences;
}

void hth_backend_llama_batch_deinit(struct llama_batch *batch, llama_seq_id *sequences)
{
    free(sequences);
    free(batch->token);
    free(batch->pos);
    free(batch->n_seq_id);
    free(batch->seq_id);
    free(batch->logits);
    *batch = (struct llama_batch){ .n_tokens = 0 };
}

static hearth_status new_context(hth_engine_model *model, struct llama_context_params *params,
                                 struct llama_context **out, hearth_error *err)
{
    hearth_status status;

    hth_backend_llama_adapters_hold(model);
    status = hth_shim_context_new(model->llama, params, out, err);
    hth_backend_llama_adapters_release(model);
    if (status != HEARTH_OK)
        return status;
    if (model->control.first > 0)
        status = hth_shim_control_apply(*out, &model->control, err);
    if (status != HEARTH_OK) {
        llama_free(*out);
        *out = NULL;
    }
    return status;
}

/* Not "auto": its choice cannot be queried, but is part of the parameters' hash. */
static enum llama_flash_attn_type flash_attention(const hth_engine_model *model)
{
    return model->options.flash_attention == HEARTH_FLASH_ATTENTION_OFF || !hth_backend_llama_has_flash(model)
             ? LLAMA_FLASH_ATTN_TYPE_DISABLED
             : LLAMA_FLASH_ATTN_TYPE_ENABLED;
}

static void set(float *to, double value)
{
    if (!isnan(value))
        *to = (float)value;
}

void hth_backend_llama_apply_options(const hth_engine_model *model, struct llama_context_params *params)
{
    static const enum llama_rope_scaling_type scalings[] = {
        [HEARTH_ROPE_SCALING_MODEL] = LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED,
        [HEARTH_ROPE_SCALING_NONE] = LLAMA_ROPE_SCALING_TYPE_NONE,
        [HEARTH_ROPE_SCALING_LINEAR] = LLAMA_ROPE_SCALING_TYPE_LINEAR,
        [HEARTH_ROPE_SCALING_YARN] = LLAMA_ROPE_SCALING_TYPE_YARN,
    };
    const hearth_engine_options *o = &model->options;

    params->flash_attn_type = flash_attention(model);
    if (o->n_threads_batch > 0)
        params->n_threads_batch = (int32_t)o->n_threads_batch;
    if (o->no_kv_offload)
        params->offload_kqv = false;
    params->rope_scaling_type = scalings[o->rope_scaling];
    params->yarn_orig_ctx = o->yarn_orig_ctx;
    set(&params->rope_freq_base, o->rope_freq_base);
    set(&params->rope_freq_scale, o->rope_freq_scale);
    set(&params->yarn_ext_factor, o->yarn_ext_factor);
    set(&params->yarn_attn_factor, o->yarn_attn_factor);
    set(&params->yarn_beta_slow, o->yarn_beta_slow);
    set(&params->yarn_beta_fast, o->yarn_beta_fast);
}

hearth_status hth_backend_llama_make_context(hth_engine_model *model, struct llama_context_params *params,
                                             struct llama_context **out, hearth_error *err)
{
    const bool is_wanted = model->options.flash_attention == HEARTH_FLASH_ATTENTION_ON;
    hearth_status status;
    char reason[256];

    hth_backend_llama_apply_options(model, params);
    status = new_context(model, params, out, err);
    if (status != HEARTH_ENGINE)
        return status;
    (void)snprintf(reason, sizeof(reason), "%s",
                   hth_backend_llama_reason("it does not say why")); /* truncated if too long */
    if (!is_wanted && params->flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED && !strstr(reason, "alloc")) {
        params->flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        status = new_context(model, params, out, NULL);
        if (status == HEARTH_OK)
            hth_warn(model->log, "flash attention is off, the engine refused it: %s", reason);
    }
    if (status == HEARTH_ENGINE)
        status = hth_fail(err, strstr(reason, "alloc") ? HEARTH_NO_MEMORY : HEARTH_ENGINE,
                          "the engine cannot make a context of %u tokens: %s", params->n_ctx, reason);
    return status;
}
