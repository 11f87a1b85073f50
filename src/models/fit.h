/*
 * fit.h - choose a model's context and layers on GPUs so that it fits into memory
 */
#ifndef HTH_MODELS_FIT_H
#define HTH_MODELS_FIT_H

#include "models/fit_choice.h"
#include "models/needs.h"

/* The memory that a choice must fit into, without limits in the options. */
typedef enum hth_fit_room {
    HTH_FIT_FREE, /* the memory that is free now: for a load */
    /* For a plan, in which other models may leave: nine tenths of the machine's, and hth_fit_device_part of GPUs. */
    HTH_FIT_TOTAL,
} hth_fit_room;

/* Is there a choice to make? */
static inline bool hth_model_must_fit(const hearth_model_options *options)
{
    return options->fit || options->n_gpu_layers == HEARTH_GPU_LAYERS_AUTO;
}

/*
 * Choose n_ctx and n_gpu_layers of options with `fit`, which hth_model_read_options has read, log the choice, and take
 * `fit` away. With HEARTH_GPU_LAYERS_AUTO alone, choose n_gpu_layers for n_ctx as it is, and nothing where there are no
 * GPUs; memory of the host is no limit then. found, of GPUs, is for HTH_FIT_TOTAL; NULL: nothing. Asks for needs as
 * hth_model_needs_ask, some dozen times, and takes no other memory. An engine that tells no needs leaves the options as
 * they are, with a warning. HEARTH_NO_MEMORY with the sizes: not even the least context fits. Others as
 * hearth_model_load.
 */
hearth_status hth_model_fit_options(hearth_runtime *runtime, const char *path, hth_fit_room room,
                                    const hth_fit_found *found, hearth_model_options *options, hth_model_fit *out,
                                    hearth_error *err);

#endif
