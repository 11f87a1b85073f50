/*
 * safetensors.h - the header of a safetensors file, checked to the last byte; and a directory with such files
 *
 * A file is:
 *
 *   u64     length of the header, little-endian, at most HTH_SAFETENSORS_HEADER_MAX
 *   header  a JSON object: the name of each tensor, with its type, shape and position in the data; "__metadata__"
 *           is an object of strings
 *   data    the tensors, row by row, little-endian; without gaps or overlaps, in any order
 *
 * The file is mapped. Only the header is read here; the data is read when a tensor is used.
 */
#ifndef HTH_CONVERT_SAFETENSORS_H
#define HTH_CONVERT_SAFETENSORS_H

#include <jansson.h>

#include "base/status.h"

enum {
    HTH_SAFETENSORS_HEADER_MAX = 100000000, /* the limit of the format's own library */
    HTH_SAFETENSORS_VALUES_MAX = 2000000,   /* JSON values of a header; a tensor has about ten */
    HTH_SAFETENSORS_DIMS_MAX = 8,
};

typedef enum hth_safetensors_type {
    HTH_SAFETENSORS_F16,
    HTH_SAFETENSORS_BF16,
    HTH_SAFETENSORS_F32,
    HTH_SAFETENSORS_OTHER, /* well-formed, but not a type of weights that we read */
} hth_safetensors_type;

typedef struct hth_safetensors_tensor {
    const char *name; /* without control characters */
    const char *type_name;
    hth_safetensors_type type;
    uint32_t n_dims;
    uint64_t shape[HTH_SAFETENSORS_DIMS_MAX];
    uint64_t begin, end; /* its bytes, from the beginning of the file */
} hth_safetensors_tensor;

typedef struct hth_safetensors {
    const uint8_t *bytes; /* of the whole file */
    uint64_t n_bytes;
    hth_safetensors_tensor *tensors; /* in the argument order, otherwise in the header's order */
    size_t n_tensors;
    bool has_argument_order;
    bool is_mapped;
    json_t *header; /* owns the names */
} hth_safetensors;

/*
 * Read a file in memory, which must stay valid. path is used only in messages. The metadata "argument_order" is a JSON
 * list, as text, of the names of all tensors. HEARTH_CORRUPT with a message that names the file, the tensor and the
 * fault. On success, and only then, the caller calls hth_safetensors_close.
 */
hearth_status hth_safetensors_parse(const char *path, const uint8_t *bytes, uint64_t n_bytes, hth_safetensors *out,
                                    hearth_error *err);
/* Map FOLDER/NAME and read it. Links are followed. HEARTH_NOT_FOUND, HEARTH_PERMISSION, HEARTH_IO, or as above. */
hearth_status hth_safetensors_open(const char *folder, const char *name, hth_safetensors *out, hearth_error *err);
void hth_safetensors_close(hth_safetensors *file);

/*
 * ---- checkpoints ----
 *
 * A directory with a checkpoint in the hub's layout has config.json and safetensors files. The tensors are in
 * model.safetensors, or in the files that model.safetensors.index.json names. Those are in the same directory, and have
 * exactly the tensors that the index lists for them.
 */

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
