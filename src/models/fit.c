/*
 * fit.c - choose a model's context and layers on GPUs so that it fits into memory
 *
 * The needs of each candidate are queried as for a plan (needs.h), so the choice takes everything into account that a
 * plan does: draft model, cell types, repacked weights.
 */
#include "models/needs.h"

#include <assert.h>
#include <stdio.h>

#include "base/os.h"
#include "models/model_inside.h"

enum {
    N_CTX_MIN = 4096,     /* unless the options say otherwise */
    N_CTX_UNKNOWN = 8192, /* if the model's training context is unknown */
    HOST_MARGIN_SHARE = 16,
    PROCESS_GROWTH_BYTES = 16 << 20, /* 5 MiB after ten queries with llama.cpp v0.5.0 */
};

typedef struct asking {
    hearth_runtime *runtime;
    const char *path;
    hearth_model_options options; /* without fit */
    hth_fit_terms terms;
    hth_fit_limits limits;
    hth_fit_candidate asked; /* latest, with its needs */
    hth_model_needs needs;
    uint64_t process_bytes; /* of this process, at the first query */
} asking;

/* -1 stays unchanged, because it means all devices and layers to the engine. */
static int32_t gpu_layers(const asking *a, uint32_t n_layers)
{
    return n_layers == a->terms.n_layers_max ? a->options.n_gpu_layers : (int32_t)n_layers;
}

/*
 * A limit in the options applies to the whole process, which grows with each query. Free memory already excludes what
 * the process uses.
 */
static uint64_t process_bytes(const asking *a)
{
    return a->options.fit_bytes > 0 ? a->process_bytes + PROCESS_GROWTH_BYTES : 0;
}

static hearth_status ask(const hth_fit_candidate *candidate, void *user_data, hth_fit_answer *out, hearth_error *err)
{
    asking *a = user_data;
    hearth_model_options options = a->options;
    hearth_status status;

    if (a->options.progress && !a->options.progress(0, a->options.progress_user_data))
        return hth_fail(err, HEARTH_CANCELLED, "loading '%s' was cancelled", a->path);
    options.progress = NULL;
    options.n_ctx = candidate->n_ctx;
    options.n_gpu_layers = gpu_layers(a, candidate->n_layers);
    status = hth_model_needs_ask(a->runtime, a->path, &options, &a->needs, err);
    if (status != HEARTH_OK)
        return status;
    if (a->process_bytes == 0)
        a->process_bytes = a->needs.process_bytes;
    a->asked = *candidate;
    *out = hth_fit_compare(&a->needs.memory, process_bytes(a), &a->limits);
    return HEARTH_OK;
}

/* No limit if the system does not report its memory. */
static uint64_t host_limit(const hearth_model_options *options, hth_fit_room room)
{
    const uint64_t there = room == HTH_FIT_TOTAL ? hth_os_memory_bytes() : hth_os_memory_available_bytes();

    if (!options->fit) /* only layers are chosen, and the host maps weights that do not fit */
        return UINT64_MAX;
    if (options->fit_bytes > 0)
        return options->fit_bytes;
    if (there == 0)
        return UINT64_MAX;
    return room == HTH_FIT_TOTAL ? there / 10 * 9 : there / HOST_MARGIN_SHARE * (HOST_MARGIN_SHARE - 1);
}

static hth_fit_terms terms_of(const hearth_model_options *options, bool keeps_context, const hth_model_needs *facts)
{
    const uint32_t n_all = facts->n_layers + 1, /* the output counts as one, as in llama.cpp */
        n_known = facts->n_ctx_train > 0 ? facts->n_ctx_train : N_CTX_UNKNOWN,
                   n_ctx_train = n_known < HTH_N_CTX_MAX ? n_known : HTH_N_CTX_MAX,
                   n_ctx_max = options->n_ctx > 0 ? options->n_ctx : n_ctx_train,
                   n_ctx_min = options->fit_n_ctx > 0 ? options->fit_n_ctx : N_CTX_MIN;

    return (hth_fit_terms){
        .n_ctx_min = n_ctx_min < n_ctx_max && !keeps_context ? n_ctx_min : n_ctx_max,
        .n_ctx_max = n_ctx_max,
        .n_layers_max = options->n_gpu_layers >= 0 && (uint32_t)options->n_gpu_layers < n_all
                          ? (uint32_t)options->n_gpu_layers
                          : n_all,
    };
}

/* ---- messages ---- */

static unsigned long long mib(uint64_t bytes)
{
    return (unsigned long long)((bytes + (1 << 20) - 1) >> 20);
}

/* The memory of the latest needs, and its limit, on the host and all devices together. */
static void sum_up(const asking *a, hth_engine_share *parts, uint64_t *bytes, uint64_t *limit)
{
    const hth_engine_needs *memory = &a->needs.memory;

    *parts = memory->host;
    parts->weight_bytes += memory->repacked_bytes; /* twice: a worker has a copy in addition to the file */
    *limit = a->limits.host_bytes;
    for (size_t i = 0; i < memory->n_devices; i++) {
        const hth_engine_share *share = &memory->devices[i].share;
        const uint64_t device = hth_fit_device_limit(&memory->devices[i], &a->limits);

        parts->weight_bytes += share->weight_bytes;
        parts->cell_bytes += share->cell_bytes;
        parts->compute_bytes += share->compute_bytes;
        *limit += device < UINT64_MAX ? device : 0;
    }
    *bytes = hth_engine_share_bytes(parts) + process_bytes(a);
}

static void tell_choice(const asking *a)
{
    char layers[64] = "";
    hth_engine_share parts;
    uint64_t bytes, limit;

    if (a->limits.host_bytes == UINT64_MAX) {
        hth_info(hth_runtime_log(a->runtime),
                 "'%s': %u of %u layers on GPUs, as many as fit there with a context of %u", a->path, a->asked.n_layers,
                 a->terms.n_layers_max, a->asked.n_ctx);
        return;
    }
    sum_up(a, &parts, &bytes, &limit);
    if (a->needs.memory.n_devices > 0)
        (void)snprintf(layers, sizeof(layers), ", %u of %u layers on GPUs", a->asked.n_layers, a->terms.n_layers_max);
    hth_info(hth_runtime_log(a->runtime), "'%s': context %u of %u%s, so that the model takes %llu of %llu MiB", a->path,
             a->asked.n_ctx, a->terms.n_ctx_max, layers, mib(bytes), mib(limit));
}

static hearth_status refuse(const asking *a, hearth_error *err)
{
    hth_engine_share parts;
    uint64_t bytes, limit;

    sum_up(a, &parts, &bytes, &limit);
    return hth_fail(
        err, HEARTH_NO_MEMORY,
        "'%s' does not fit: with a context of %u tokens it takes %llu MiB (weights %llu, cells %llu, "
        "buffers %llu, process %llu), and there are %llu MiB for it; use a file of a smaller quant, type_k and type_v "
        "q8_0, a smaller fit_context, or more memory",
        a->path, a->asked.n_ctx, mib(bytes), mib(parts.weight_bytes), mib(parts.cell_bytes), mib(parts.compute_bytes),
        mib(process_bytes(a)), mib(limit));
}

/* ---- */

hearth_status hth_model_fit_options(hearth_runtime *runtime, const char *path, hth_fit_room room,
                                    const hth_fit_found *found, hearth_model_options *options, hth_model_fit *out,
                                    hearth_error *err)
{
    asking a = {
        .runtime = runtime,
        .path = path,
        .options = *options,
        .limits = { .host_bytes = host_limit(options, room),
                    .device_bytes = options->fit_device_bytes,
                    .takes_free = room == HTH_FIT_FREE,
                    .found = found },
    };
    hearth_error why = { .message = "" };
    hth_fit_choice choice = { .fits = false };
    hth_fit_answer answer;
    hearth_status status;
    const bool keeps_context = !options->fit;

    assert(hth_model_must_fit(options));
    if (options->n_gpu_layers == HEARTH_GPU_LAYERS_AUTO) /* all layers are the maximum */
        options->n_gpu_layers = a.options.n_gpu_layers = HEARTH_GPU_LAYERS_ALL;
    options->fit = a.options.fit = false;
    *out = (hth_model_fit){ .n_ctx_max = 0 };
    /* Any candidate gives the facts about the model. */
    a.terms.n_layers_max = 0;
    status = ask(&(hth_fit_candidate){ .n_ctx = keeps_context ? options->n_ctx : N_CTX_MIN }, &a, &answer, &why);
    if (status == HEARTH_OK && keeps_context && a.needs.memory.n_devices == 0)
        return HEARTH_OK;
    if (status == HEARTH_OK && keeps_context)
        options->n_ctx = a.needs.n_ctx;
    if (status == HEARTH_OK) {
        a.terms = terms_of(options, keeps_context, &a.needs);
        status = hth_fit_choose(&a.terms, ask, &a, &choice, &why);
    }
    if (status == HEARTH_OK && (choice.at.n_ctx != a.asked.n_ctx || choice.at.n_layers != a.asked.n_layers))
        status = ask(&choice.at, &a, &answer, &why); /* for its needs, which the message reports */
    if (status == HEARTH_UNSUPPORTED) {              /* also if another load began meanwhile */
        hth_warn(hth_runtime_log(runtime), "'%s' cannot be fitted into memory, and is loaded as it is: %s", path,
                 why.message);
        return HEARTH_OK;
    }
    if (status != HEARTH_OK) {
        if (err)
            *err = why;
        return status;
    }
    if (!choice.fits)
        return refuse(&a, err);
    tell_choice(&a);
    options->n_ctx = choice.at.n_ctx;
    options->n_gpu_layers = gpu_layers(&a, choice.at.n_layers);
    *out = (hth_model_fit){
        .n_ctx_max = a.terms.n_ctx_max,
        .n_layers = a.needs.memory.n_devices > 0 ? choice.at.n_layers : 0,
        .n_layers_max = a.needs.memory.n_devices > 0 ? a.terms.n_layers_max : 0,
    };
    return HEARTH_OK;
}
