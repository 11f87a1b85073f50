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
 * The sum of control vectors. Layer i (from 1) has the values from (i - 1) * n_embd on, which is the layout that the
 * engine expects. Layers are counted from 0, and the engine never changes layer 0.
 */
typedef struct hth_shim_control_sum {
    float *values; /* [(n_layers - 1) * n_embd] */
    uint32_t n_layers;
    uint32_t n_embd;
} hth_shim_control_sum;

/*
 * Add the directions of a GGUF file that is known to be whole, times the scale. hint, [capacity], receives the
 * architecture that the file names; "": none. HEARTH_MISUSE if the file is not a control vector for this shape; the
 * message says why.
 */
hearth_status hth_shim_control_add(const char *path, float scale, const hth_shim_control_sum *sum, char *hint,
                                   size_t capacity, hearth_error *err);
/* Make a context add the values of the layers first .. last to the outputs of these layers. */
hearth_status hth_shim_control_apply(struct llama_context *context, const hth_shim_control_sum *sum, uint32_t first,
                                     uint32_t last, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
