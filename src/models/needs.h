/*
 * needs.h - the memory that a model would need, queried from its file's metadata, and the choice of a context and of
 * layers on GPUs so that it fits (fit.c)
 */
#ifndef HTH_MODELS_NEEDS_H
#define HTH_MODELS_NEEDS_H

#include "models/fit_choice.h"

/* A choice of context and layers that was made so that the model fits. */
typedef struct hth_model_fit {
    uint32_t n_ctx_max;    /* of the choice; 0: nothing was chosen */
    uint32_t n_layers;     /* on GPUs */
    uint32_t n_layers_max; /* 0: there are no GPUs */
} hth_model_fit;

typedef struct hth_model_needs {
    hth_engine_needs memory; /* with the draft model */
    uint64_t process_bytes;  /* of a process that has loaded only the engine and the vocabulary */
    uint32_t n_ctx;
    uint32_t n_ctx_train; /* from the file; 0: unknown */
    uint32_t n_layers;    /* of the model; 0: unknown */
    hth_model_fit fit;
} hth_model_needs;

/*
 * Query the needs of a model with these options, except `fit`, which is ignored. Takes no memory for weights, cells and
 * buffers. The engine may end the process, and keeps some memory, so use a separate process. Waits for other queries.
 * HEARTH_UNSUPPORTED if the engine cannot report needs, or the process has models. Other statuses as for
 * hearth_model_load.
 */
hearth_status hth_model_needs_ask(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                  hth_model_needs *out, hearth_error *err);

/* The memory that a choice must fit into if the options have no limits. */
typedef enum hth_fit_room {
    HTH_FIT_FREE, /* the currently free memory: for a load */
    /*
     * For a plan, where other models may be unloaded: nine tenths of the machine's memory, and hth_fit_device_part of
     * GPUs.
     */
    HTH_FIT_TOTAL,
} hth_fit_room;

/* Is there a choice to make? */
static inline bool hth_model_must_fit(const hearth_model_options *options)
{
    return options->fit || options->n_gpu_layers == HEARTH_GPU_LAYERS_AUTO;
}

/*
 * Choose n_ctx and n_gpu_layers of options with `fit`, which hth_model_read_options has read, log the choice, and clear
 * `fit`. With HEARTH_GPU_LAYERS_AUTO alone, choose n_gpu_layers for the given n_ctx, or nothing if there are no GPUs;
 * host memory is then no limit. found is the memory found on GPUs, for HTH_FIT_TOTAL; NULL: none. Queries needs as
 * hth_model_needs_ask does, about a dozen times, and takes no other memory. If the engine does not report needs, the
 * options stay as they are, with a warning. HEARTH_NO_MEMORY, with the sizes, if not even the minimum context fits.
 * Other statuses as for hearth_model_load.
 */
hearth_status hth_model_fit_options(hearth_runtime *runtime, const char *path, hth_fit_room room,
                                    const hth_fit_found *found, hearth_model_options *options, hth_model_fit *out,
                                    hearth_error *err);

#endif
