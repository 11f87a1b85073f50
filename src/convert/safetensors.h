/*
 * safetensors.h - the header of a safetensors file, checked to the last byte
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
/* Map a file and read it. Links are followed. HEARTH_NOT_FOUND, HEARTH_PERMISSION, HEARTH_IO, or as above. */
hearth_status hth_safetensors_open(const char *path, hth_safetensors *out, hearth_error *err);
void hth_safetensors_close(hth_safetensors *file);

#endif
