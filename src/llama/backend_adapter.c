/*
 * backend_adapter.c - loads LoRA adapters, and selects those of the next evaluations
 *
 * The engine keeps the adapters of a model in a list that it reads while it prepares a context or an evaluation, and
 * each context points to the adapters that it applies. So no adapter may be added or removed in the meantime:
 * evaluations take the lock of the model's adapters shared, and a change takes it exclusively. Every thread passes the
 * turnstile first, and a waiting load holds it, so that a stream of evaluations cannot starve the load.
 *
 * A load checks and reads the file before it takes the lock, and the engine reads it from the page cache under the
 * lock. Freeing never waits: it only marks the adapter as gone. A thread that finds the lock free, or releases it,
 * frees the adapters that are gone.
 */
#include "llama/backend_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/module_lock.h"

struct hth_engine_adapter {
    hth_engine_model *model;
    struct llama_adapter_lora *llama;
    uint64_t n_pairs;
    hth_engine_adapter *next_gone;
};

/* ---- the lock ---- */

void hth_backend_llama_adapters_init(hth_engine_model *model)
{
    pthread_mutex_init(&model->turnstile, NULL);
    pthread_rwlock_init(&model->adapters_lock, NULL);
    atomic_init(&model->gone, NULL);
}

static bool applies(const hth_llama_applied *applied, const hth_engine_adapter *adapter)
{
    for (size_t i = 0; i < applied->n; i++)
        if (applied->adapters[i] == adapter->llama)
            return true;
    return false;
}

static hearth_status apply(hth_llama_applied *applied, size_t n, hearth_error *err)
{
    hearth_status status = hth_shim_adapters_apply(applied->llama, applied->adapters, applied->scales, n, err);

    applied->n = status == HEARTH_OK ? n : 0;
    return status;
}

/* Free the adapters that are gone. The caller holds the lock exclusively. */
static void bury(hth_engine_model *model)
{
    hth_engine_adapter *next, *adapter = atomic_exchange(&model->gone, NULL);

    for (; adapter; adapter = next) {
        next = adapter->next_gone;
        for (hth_llama_applied *applied = model->applied; applied; applied = applied->next)
            if (applies(applied, adapter))
                (void)apply(applied, 0, NULL); /* applying none cannot fail */
        hth_shim_adapter_free(adapter->llama);
        model->n_adapter_pairs -= adapter->n_pairs;
        free(adapter);
    }
}

static void bury_if_free(hth_engine_model *model)
{
    if (!atomic_load(&model->gone) || !hth_module_try_write_lock(&model->adapters_lock))
        return; /* the holder frees them */
    bury(model);
    hth_module_release(&model->adapters_lock);
}

void hth_backend_llama_adapters_deinit(hth_engine_model *model)
{
    bury(model);
    pthread_rwlock_destroy(&model->adapters_lock);
    pthread_mutex_destroy(&model->turnstile);
}

void hth_backend_llama_adapters_hold(hth_engine_model *model)
{
    hth_module_lock(&model->turnstile);
    hth_module_read_lock(&model->adapters_lock);
    hth_module_unlock(&model->turnstile);
}

void hth_backend_llama_adapters_release(hth_engine_model *model)
{
    hth_module_release(&model->adapters_lock);
    bury_if_free(model);
}

static void change_begin(hth_engine_model *model)
{
    hth_module_lock(&model->turnstile);
    hth_module_write_lock(&model->adapters_lock);
    hth_module_unlock(&model->turnstile);
}

/* ---- loading ---- */

/*
 * The maximum number of matrix pairs in all adapters of the model together; UINT64_MAX: the engine makes room for any
 * number. In the graphs of these architectures it makes no room (llama-context.cpp, graph_max_nodes, v0.5.0): a graph
 * may have 32 nodes for each tensor of the model, uses about a third of them, and a pair adds 4. Some architectures
 * compute a layer several times, using a pair each time.
 */
static uint64_t n_pairs_max(const hth_engine_model *model, uint64_t n_tensors)
{
    static const struct {
        const char *name;
        bool has_loops;
    } tight[] = {
        { "bailingmoe3", false }, { "deepseek4", false },   { "hrm_text", true },    { "hy_v4", false },
        { "kimi-k3", false },     { "kimi-linear", false }, { "minimax-01", false }, { "minimax-m3", false },
        { "nanbeige", true },     { "qwen35", false },      { "qwen35moe", false },  { "qwen3next", false },
        { "qwen4exp", false },
    };

    for (size_t i = 0; i < sizeof(tight) / sizeof(tight[0]); i++)
        if (strcmp(model->info.architecture, tight[i].name) == 0)
            return tight[i].has_loops ? 0 : 3 * n_tensors;
    return UINT64_MAX;
}

static hearth_status check_pairs(const hth_engine_model *model, const char *path, const hth_shim_adapter_size *size,
                                 hearth_error *err)
{
    uint64_t n_max = n_pairs_max(model, size->n_model_tensors);

    if (n_max == 0)
        return hth_fail(err, HEARTH_UNSUPPORTED, "models of architecture '%s' take no adapters",
                        model->info.architecture);
    if (size->n_pairs <= n_max - model->n_adapter_pairs)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_BUSY,
                    "the adapter '%s' changes %llu matrices; the loaded ones change %llu, and %llu can be changed at "
                    "once in models of architecture '%s': unload another one first",
                    path, (unsigned long long)size->n_pairs, (unsigned long long)model->n_adapter_pairs,
                    (unsigned long long)n_max, model->info.architecture);
}

static hearth_status load_checked(hth_engine_adapter *adapter, const char *path, const hth_shim_adapter_size *size,
                                  hearth_error *err)
{
    hth_engine_model *model = adapter->model;
    hearth_status status;

    change_begin(model);
    bury(model);
    status = check_pairs(model, path, size, err);
    if (status == HEARTH_OK)
        status = hth_shim_adapter_load(model->llama, path, &adapter->llama, err);
    if (status == HEARTH_OK)
        model->n_adapter_pairs += adapter->n_pairs = size->n_pairs;
    hth_backend_llama_adapters_release(model);
    if (status == HEARTH_ENGINE)
        return hth_fail(err, status, "the engine cannot load the adapter '%s': %s", path,
                        hth_backend_llama_reason("it does not say why"));
    return status;
}

/* Bring the file into the page cache. */
static hearth_status read_ahead(const char *path, hearth_error *err)
{
    enum { PIECE_BYTES = 1 << 20 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *piece = malloc(PIECE_BYTES);
    ssize_t n = fd < 0 ? -1 : piece ? 1 : 0;

    while (n > 0)
        n = read(fd, piece, PIECE_BYTES);
    if (n < 0)
        (void)hth_fail_errno(err, errno, "cannot read the adapter '%s'", path);
    if (fd >= 0)
        (void)close(fd); /* only read from */
    free(piece);
    return n < 0 ? HEARTH_IO : HEARTH_OK;
}

hearth_status hth_backend_llama_adapter_load(hth_engine_model *model, const char *path, hth_engine_adapter **out,
                                             hearth_error *err)
{
    hth_engine_adapter *adapter;
    hth_shim_adapter_size size = { 0 };
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
    status = hth_whole_file_check(path, "an adapter", &file, err);
    if (status == HEARTH_OK)
        status = hth_shim_adapter_check(path, model->path, model->info.architecture, &size, err);
    if (status == HEARTH_OK && !model->on_gpu)
        status = hth_backend_llama_check_memory(file.weight_bytes, "the adapter", err);
    if (status == HEARTH_OK)
        status = read_ahead(path, err);
    if (status == HEARTH_OK)
        status = load_checked(adapter, path, &size, err);
    hth_backend_llama_leave();
    if (status != HEARTH_OK) {
        free(adapter);
        return status;
    }
    *out = adapter;
    return HEARTH_OK;
}

void hth_backend_llama_adapter_free(hth_engine_adapter *adapter)
{
    hth_engine_model *model;

    if (!adapter)
        return;
    model = adapter->model;
    adapter->next_gone = atomic_load(&model->gone);
    while (!atomic_compare_exchange_weak(&model->gone, &adapter->next_gone, adapter))
        continue;
    hth_backend_llama_enter(model->log);
    bury_if_free(model);
    hth_backend_llama_leave();
}

/* ---- the adapters of a context ---- */

hearth_status hth_backend_llama_applied_set(hth_llama_applied *applied, const hth_engine_adapter_use *uses, size_t n,
                                            hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    bool is_same;

    if ((!uses && n > 0) || n > HTH_ADAPTERS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "a context applies at most %d adapters at once, not %zu", HTH_ADAPTERS_MAX,
                        n);
    hth_backend_llama_enter(applied->model->log);
    hth_backend_llama_adapters_hold(applied->model);
    is_same = n == applied->n;
    for (size_t i = 0; i < n; i++) {
        is_same &= applied->adapters[i] == uses[i].adapter->llama && applied->scales[i] == uses[i].scale;
        applied->adapters[i] = uses[i].adapter->llama;
        applied->scales[i] = uses[i].scale;
    }
    if (!is_same)
        status = apply(applied, n, err);
    hth_backend_llama_adapters_release(applied->model);
    hth_backend_llama_leave();
    return status;
}

/* ---- the contexts of a model ---- */

void hth_backend_llama_adapters_join(hth_llama_applied *applied, hth_engine_model *model, struct llama_context *llama)
{
    applied->model = model;
    applied->llama = llama;
    change_begin(model);
    applied->next = model->applied;
    model->applied = applied;
    hth_backend_llama_adapters_release(model);
}

void hth_backend_llama_adapters_part(hth_llama_applied *applied)
{
    hth_llama_applied **at;

    if (!applied->model)
        return; /* it was never added to the list */
    change_begin(applied->model);
    at = &applied->model->applied;
    while (*at != applied)
        at = &(*at)->next;
    *at = applied->next;
    hth_backend_llama_adapters_release(applied->model);
}
