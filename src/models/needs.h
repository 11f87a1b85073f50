/*
 * needs.h - the memory that a model would take, asked from the metadata of its file
 */
#ifndef HTH_MODELS_NEEDS_H
#define HTH_MODELS_NEEDS_H

#include "engine/backend.h"

typedef struct hth_model_needs {
    hth_engine_needs memory; /* with the draft model */
    uint64_t process_bytes;  /* of a process that has loaded the engine and the vocabulary, and nothing else */
    uint32_t n_ctx;
} hth_model_needs;

/*
 * Ask for the needs of a model with these options. Takes no memory for weights, cells and buffers. The engine may end
 * the process, and keeps some memory: ask in a process of its own. HEARTH_UNSUPPORTED: the engine cannot tell. Others
 * as hearth_model_load.
 */
hearth_status hth_model_needs_ask(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                  hth_model_needs *out, hearth_error *err);

#endif
