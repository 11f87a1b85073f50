/*
 * llama_placement.h - the parameters of a model for llama.cpp: devices, buffers of tensors, overridden metadata
 */
#ifndef HTH_LLAMA_LLAMA_PLACEMENT_H
#define HTH_LLAMA_LLAMA_PLACEMENT_H

#include "llama/llama_devices.h"

#include <llama.h>

#ifdef __cplusplus
extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

typedef struct hth_llama_placement hth_llama_placement;

/*
 * Make the parameters from options that hth_engine_options_read accepted. path is the model's file, whose metadata is
 * read if any is overridden. devices must not move while the parameters exist. HEARTH_MISUSE for a pattern that is not
 * a regular expression, a buffer that the model does not have, more shares than devices, and metadata that cannot be
 * overridden.
 */
hearth_status hth_llama_placement_new(const char *path, const hearth_engine_options *options,
                                      hth_llama_devices *devices, int32_t n_gpu_layers, hth_llama_placement **out,
                                      hearth_error *err);
void hth_llama_placement_free(hth_llama_placement *placement); /* after freeing the model; accepts NULL */

/* Without a progress callback, and with the engine's default way of loading. */
const struct llama_model_params *hth_llama_placement_params(const hth_llama_placement *placement);
/* The overridden keys that the file does not have, separated by commas: the engine may not know them. "": none. */
const char *hth_llama_placement_added(const hth_llama_placement *placement);
/*
 * The part for ctx_params_hash, " experts=cpu", because another placement on devices rounds differently. "": nothing
 * was chosen.
 */
const char *hth_llama_placement_words(const hth_llama_placement *placement);
/* An overridden value as text; false: missing, or it does not fit. */
bool hth_llama_placement_meta(const hth_llama_placement *placement, const char *key, char *text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
