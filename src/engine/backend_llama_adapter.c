/*
 * backend_llama_adapter.c - load LoRA adapters, and choose those of the next evaluations
 *
 * The engine keeps the adapters of a model in a list that it reads while it prepares an evaluation, and each context
 * points to the adapters that it applies. So no adapter comes or goes during an evaluation: evaluations share the lock
 * of the model's adapters, and a change has it alone. Everybody passes the turnstile first, and a change that waits
 * keeps it, so that one evaluation after the other cannot keep it out.
 */
#include "engine/backend_llama_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/llama_adapters.h"
#include "engine/model_files.h"

struct hth_engine_adapter {
    hth_engine_model *model;
    struct llama_adapter_lora *llama;
};

void hth_backend_llama_adapters_hold(hth_engine_model *model)
{
    pthread_mutex_lock(&model->turnstile);
    pthread_rwlock_rdlock(&model->adapters_lock);
    pthread_mutex_unlock(&model->turnstile);
}

void hth_backend_llama_adapters_release(hth_engine_model *model)
{
    pthread_rwlock_unlock(&model->adapters_lock);
}

static void change_begin(hth_engine_model *model)
{
    pthread_mutex_lock(&model->turnstile);
    pthread_rwlock_wrlock(&model->adapters_lock);
    pthread_mutex_unlock(&model->turnstile);
}

static hearth_status load_checked(hth_engine_model *model, const char *path, struct llama_adapter_lora **out,
                                  hearth_error *err)
{
    hearth_status status;

    change_begin(model);
    status = hth_shim_adapter_load(model->llama, path, out, err);
    hth_backend_llama_adapters_release(model);
    if (status == HEARTH_ENGINE)
        return hth_fail(err, status, "the engine cannot load the adapter '%s': %s", path,
                        hth_backend_llama_reason("it does not say why"));
    return status;
}

hearth_status hth_backend_llama_adapter_load(hth_engine_model *model, const char *path, hth_engine_adapter **out,
                                             hearth_error *err)
{
    hth_engine_adapter *adapter;
    hth_shim_file file = { 0 };
    hearth_status status;

    if (!model || !path || !out)
        return hth_fail(err, HEARTH_MISUSE, "an adapter needs a model and a path");
    if (access(path, R_OK) != 0)
        return hth_fail_errno(err, errno, "cannot open the adapter '%s'", path);
    adapter = calloc(1, sizeof(*adapter));
    if (!adapter)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the adapter '%s'", path);
    adapter->model = model;
    hth_backend_llama_enter(model->log);
    status = hth_model_files_check(path, &file, err);
    if (status == HEARTH_OK)
        status = hth_shim_adapter_check(path, model->path, model->facts.architecture, err);
    if (status == HEARTH_OK && !model->on_gpu)
        status = hth_backend_llama_check_memory(file.weight_bytes, "the adapter", err);
    if (status == HEARTH_OK)
        status = load_checked(model, path, &adapter->llama, err);
    hth_backend_llama_leave();
    if (status != HEARTH_OK) {
        free(adapter);
        return status;
    }
    *out = adapter;
    return HEARTH_OK;
}

/* ---- the adapters of a context ---- */

static bool applies(const hth_engine_context *context, const hth_engine_adapter *adapter)
{
    for (size_t i = 0; i < context->n_adapters; i++)
        if (context->adapters[i] == adapter->llama)
            return true;
    return false;
}

static hearth_status apply(hth_engine_context *context, size_t n, hearth_error *err)
{
    hearth_status status = hth_shim_adapters_apply(context->llama, context->adapters, context->scales, n, err);

    context->n_adapters = status == HEARTH_OK ? n : 0;
    return status;
}

void hth_backend_llama_adapter_free(hth_engine_adapter *adapter)
{
    hth_engine_model *model;

    if (!adapter)
        return;
    model = adapter->model;
    hth_backend_llama_enter(model->log);
    change_begin(model);
    for (hth_engine_context *context = model->contexts; context; context = context->next_of_model)
        if (applies(context, adapter))
            (void)apply(context, 0, NULL); /* to apply none cannot fail */
    hth_shim_adapter_free(adapter->llama);
    hth_backend_llama_adapters_release(model);
    hth_backend_llama_leave();
    free(adapter);
}

hearth_status hth_backend_llama_adapters_apply(hth_engine_context *context, const hth_engine_adapter_use *uses,
                                               size_t n, hearth_error *err)
{
    bool is_same;
    hearth_status status;

    if (!context || (!uses && n > 0) || n > HTH_ADAPTERS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "a context applies at most %d adapters at once, not %zu", HTH_ADAPTERS_MAX,
                        n);
    is_same = n == context->n_adapters;
    for (size_t i = 0; i < n && is_same; i++)
        is_same = context->adapters[i] == uses[i].adapter->llama && context->scales[i] == uses[i].scale;
    if (is_same)
        return HEARTH_OK;
    hth_backend_llama_enter(context->model->log);
    hth_backend_llama_adapters_hold(context->model);
    for (size_t i = 0; i < n; i++) {
        context->adapters[i] = uses[i].adapter->llama;
        context->scales[i] = uses[i].scale;
    }
    status = apply(context, n, err);
    hth_backend_llama_adapters_release(context->model);
    hth_backend_llama_leave();
    return status;
}

/* ---- the contexts of a model ---- */

void hth_backend_llama_adapters_join(hth_engine_context *context)
{
    change_begin(context->model);
    context->next_of_model = context->model->contexts;
    context->model->contexts = context;
    hth_backend_llama_adapters_release(context->model);
}

void hth_backend_llama_adapters_part(hth_engine_context *context)
{
    hth_engine_context **at = &context->model->contexts;

    change_begin(context->model);
    while (*at && *at != context)
        at = &(*at)->next_of_model;
    if (*at)
        *at = context->next_of_model;
    hth_backend_llama_adapters_release(context->model);
}
