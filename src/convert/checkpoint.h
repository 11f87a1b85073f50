/*
 * checkpoint.h - a folder with a checkpoint in the hub's layout: config.json and safetensors files
 *
 * The tensors lie in model.safetensors, or in the files that model.safetensors.index.json names. Those lie in the same
 * folder, and have exactly the tensors that the index gives them.
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
 * Open a folder. require_order: a file without "argument_order" is HEARTH_UNSUPPORTED. On success, and only then, the
 * caller ends it with hth_checkpoint_close. HEARTH_CORRUPT names the file, and the tensor.
 */
hearth_status hth_checkpoint_open(const char *folder, bool require_order, hth_checkpoint *out, hearth_error *err);
void hth_checkpoint_close(hth_checkpoint *checkpoint);

#endif
