/*
 * llama_adapters.h - LoRA adapters of llama.cpp, with every exception turned into a status
 *
 * The engine trusts an adapter's file: a value of another type, a shape that no matrix product can take or a type that
 * it cannot multiply ends the process. So the file is compared with that of the model before the engine sees it.
 */
#ifndef HTH_LLAMA_LLAMA_ADAPTERS_H
#define HTH_LLAMA_LLAMA_ADAPTERS_H

#include <llama.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"

typedef struct hth_shim_adapter_size {
    uint64_t n_pairs; /* number of matrices that it changes */
    uint64_t n_model_tensors;
} hth_shim_adapter_size;

/*
 * Check that the file at path, which is known to be whole, is an adapter for the model in the file at model_path. The
 * messages of HEARTH_MISUSE and HEARTH_UNSUPPORTED name the difference.
 */
hearth_status hth_shim_adapter_check(const char *path, const char *model_path, const char *architecture,
                                     hth_shim_adapter_size *out, hearth_error *err);
/*
 * For HEARTH_ENGINE, the engine's log has the reason. No context of the model may evaluate meanwhile; likewise below.
 */
hearth_status hth_shim_adapter_load(struct llama_model *model, const char *path, struct llama_adapter_lora **out,
                                    hearth_error *err);
void hth_shim_adapter_free(struct llama_adapter_lora *adapter);
/* Set the adapters of the next evaluations, [n]. */
hearth_status hth_shim_adapters_apply(struct llama_context *context, struct llama_adapter_lora **adapters,
                                      float *scales, size_t n, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
