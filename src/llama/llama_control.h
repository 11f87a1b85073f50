/*
 * llama_control.h - control vectors of llama.cpp, with every exception turned into a status
 */
#ifndef HTH_LLAMA_LLAMA_CONTROL_H
#define HTH_LLAMA_LLAMA_CONTROL_H

#include <llama.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"

/*
 * The sum of control vectors. Layer i (from 1) has the values from (i - 1) * n_embd on: the layout that the engine
 * takes. Layers are counted from 0, and the engine changes no layer 0.
 */
typedef struct hth_shim_control_sum {
    float *values; /* [(n_layers - 1) * n_embd] */
    uint32_t n_layers;
    uint32_t n_embd;
} hth_shim_control_sum;

/*
 * Add the directions of a whole GGUF file, times the scale. hint, [capacity], receives the architecture that the file
 * names; "": none. HEARTH_MISUSE names the way in which the file is no control vector for this shape.
 */
hearth_status hth_shim_control_add(const char *path, float scale, const hth_shim_control_sum *sum, char *hint,
                                   size_t capacity, hearth_error *err);
/* Let a context add the values of the layers first .. last to the outputs of these. */
hearth_status hth_shim_control_apply(struct llama_context *context, const hth_shim_control_sum *sum, uint32_t first,
                                     uint32_t last, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
