/*
 * needs.h - the memory that a model would need, queried from its file's metadata
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

#endif
