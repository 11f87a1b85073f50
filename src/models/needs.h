/*
 * needs.h - the memory that a model would take, asked from the metadata of its file
 */
#ifndef HTH_MODELS_NEEDS_H
#define HTH_MODELS_NEEDS_H

#include "engine/backend.h"

/* A choice of context and layers that was made so that the model fits (fit.h). */
typedef struct hth_model_fit {
    uint32_t n_ctx_max;    /* of the choice; 0: nothing was chosen */
    uint32_t n_layers;     /* on GPUs */
    uint32_t n_layers_max; /* 0: there are no GPUs */
} hth_model_fit;

typedef struct hth_model_needs {
    hth_engine_needs memory; /* with the draft model */
    uint64_t process_bytes;  /* of a process that has loaded the engine and the vocabulary, and nothing else */
    uint32_t n_ctx;
    uint32_t n_ctx_train; /* by the file; 0: unknown */
    uint32_t n_layers;    /* of the model; 0: not told */
    hth_model_fit fit;
} hth_model_needs;

/*
 * Ask for the needs of a model with these options, of which `fit` is not looked at. Takes no memory for weights, cells
 * and buffers. The engine may end the process, and keeps some memory: ask in a process of its own. Waits for other
 * questions. HEARTH_UNSUPPORTED: the engine cannot tell, or the process has models. Others as hearth_model_load.
 */
hearth_status hth_model_needs_ask(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                  hth_model_needs *out, hearth_error *err);

#endif
