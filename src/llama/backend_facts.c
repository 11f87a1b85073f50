/*
 * backend_facts.c - facts from a model's metadata
 */
#include "llama/backend_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hth_backend_llama_meta(const hth_engine_model *model, const char *key, char *text, size_t capacity)
{
    return hth_llama_placement_meta(model->placement, key, text, capacity) ||
           hth_shim_model_meta(model->llama, key, text, capacity);
}

uint32_t hth_backend_llama_number(const hth_engine_model *model, const char *key, uint32_t fallback)
{
    char full_key[128];
    char text[64];
    char *rest;
    unsigned long value;

    (void)snprintf(full_key, sizeof(full_key), "%s.%s", model->facts.architecture, key); /* fits */
    if (!hth_backend_llama_meta(model, full_key, text, sizeof(text)))
        return fallback;
    value = strtoul(text, &rest, 10);
    return rest == text || *rest || value > UINT32_MAX ? fallback : (uint32_t)value;
}

/* The engine uses the long factors if the context has more cells than this; the limit is for all sequences together. */
uint32_t hth_backend_llama_n_ctx_short(const hth_engine_model *model)
{
    return model->has_long_rope_factors ? hth_backend_llama_number(model, "rope.scaling.original_context_length",
                                                                   (uint32_t)model->facts.n_ctx_train)
                                        : 0;
}

/* False for models that are parts of others, or whose vectors mean nothing on their own. */
bool hth_backend_llama_embeds(const hth_engine_model *model)
{
    static const char *const others[] = { "dflash", "eagle3", "gemma4-assistant", "wavtokenizer-dec" };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(model->facts.architecture, others[i]) == 0)
            return false;
    return !model->facts.is_diffusion && !(model->facts.has_encoder && model->facts.has_decoder);
}

hearth_pooling hth_backend_llama_pooling(const hth_engine_model *model)
{
    char key[128], text[16];

    (void)snprintf(key, sizeof(key), "%s.pooling_type", model->facts.architecture); /* fits */
    if (!hth_backend_llama_meta(model, key, text, sizeof(text)))
        return HEARTH_POOLING_MODEL;
    switch (strtol(text, NULL, 10)) { /* llama_pooling_type */
    case LLAMA_POOLING_TYPE_NONE: return HEARTH_POOLING_NONE;
    case LLAMA_POOLING_TYPE_MEAN: return HEARTH_POOLING_MEAN;
    case LLAMA_POOLING_TYPE_CLS: return HEARTH_POOLING_CLS;
    case LLAMA_POOLING_TYPE_LAST: return HEARTH_POOLING_LAST;
    case LLAMA_POOLING_TYPE_RANK: return HEARTH_POOLING_RANK;
    default: return HEARTH_POOLING_MODEL;
    }
}
