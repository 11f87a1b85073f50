/*
 * backend_settings.c - the engine's contexts, made with the model's options, adapters and control vectors
 */
#include "llama/backend_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_options.h"

hearth_status hth_backend_llama_control_apply(const hth_engine_model *model, struct llama_context *llama,
                                              hearth_error *err)
{
    const hth_llama_control *control = &model->control;

    return control->first ? hth_shim_control_apply(llama, &control->sum, control->first, control->last, err)
                          : HEARTH_OK;
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
    status = hth_backend_llama_control_apply(model, *out, err);
    if (status != HEARTH_OK) {
        hth_shim_context_free(*out);
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
