/*
 * checkpoint.h - a directory with a checkpoint in the hub's layout: config.json and safetensors files
 *
 * The tensors are in model.safetensors, or in the files that model.safetensors.index.json names. Those are in the same
 * directory, and have exactly the tensors that the index lists for them.
 */
#ifndef HTH_CONVERT_CHECKPOINT_H
#define HTH_CONVERT_CHECKPOINT_H

#include "convert/safetensors.h"

typedef struct hth_checkpoint {
    char *folder;
    json_t *config; /* config.json */
    hth_safetensors *files;
    size_t n_files;
    size_t n_tensors; /* of all files */
} hth_checkpoint;

/*
 * Open a directory. require_order: a file without "argument_order" is HEARTH_UNSUPPORTED. On success, and only then,
 * the caller calls hth_checkpoint_close. HEARTH_CORRUPT with a message that names the file and the tensor.
 */
hearth_status hth_checkpoint_open(const char *folder, bool require_order, hth_checkpoint *out, hearth_error *err);
void hth_checkpoint_close(hth_checkpoint *checkpoint);

#endif
