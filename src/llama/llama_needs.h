/*
 * llama_needs.h - the memory that llama.cpp would take for a model and a context, without taking it
 */
#ifndef HTH_LLAMA_LLAMA_NEEDS_H
#define HTH_LLAMA_LLAMA_NEEDS_H

#include <llama.h>

#include "hearth.h"

#ifdef __cplusplus
extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

#include "base/status.h"
#include "engine/backend.h"

/*
 * Write the sizes for the host and the devices. weight_bytes: of the file. Reads the metadata again, and changes the
 * engine's log while it runs: no other thread may be in the engine. HEARTH_ENGINE.
 */
hearth_status hth_llama_needs(const char *path, const struct llama_model_params *model, uint64_t weight_bytes,
                              const struct llama_context_params *context, hth_engine_needs *out, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
