/*
 * tensor_names.h - map the tensors of a checkpoint to the engine's names, shapes and order of rows
 */
#ifndef HTH_CONVERT_TENSOR_NAMES_H
#define HTH_CONVERT_TENSOR_NAMES_H

#include "convert/architecture.h"
#include "convert/safetensors.h"
#include "engine/model_writer.h"

/* The difference between a tensor of the checkpoint and the engine's. */
typedef enum hth_tensor_change {
    HTH_TENSOR_SAME,
    /*
     * Rotary embeddings rotate pairs of values. A checkpoint pairs value i of a head with value i + head_length / 2;
     * the engine's llama pairs 2i with 2i + 1. So the rows of each head are reordered.
     */
    HTH_TENSOR_PAIRED,
    HTH_TENSOR_PLUS_ONE, /* gemma's norms are stored without the 1 that is added to them */
} hth_tensor_change;

typedef struct hth_mapped_tensor {
    const uint8_t *file;                  /* its bytes */
    const hth_safetensors_tensor *tensor; /* NULL: made by us (rope factors) */
    hth_tensor_change change;
    uint32_t head_length; /* of PAIRED */
} hth_mapped_tensor;

/*
 * Map all tensors of a checkpoint, in its order. *mapped and *named have *n_out entries each; the caller frees both.
 * HEARTH_CORRUPT, naming the tensor, if one is missing, has a shape that does not match config.json, or does not belong
 * to such a model; HEARTH_UNSUPPORTED if one has a type other than F32, F16 and BF16.
 */
hearth_status hth_tensors_map(const hth_checkpoint *checkpoint, const hth_architecture *architecture,
                              hth_mapped_tensor **mapped, hth_new_tensor **named, size_t *n_out, hearth_error *err);

#endif
