/*
 * safetensors.c - read the header of a safetensors file
 *
 *   1. check the length, the depth and the number of values of the header before it is parsed
 *   2. read each tensor: its type, shape and position; their sizes must agree
 *   3. sort the tensors by position: each begins where the one before ends, and the last one ends with the file
 *   4. put them into the argument order, if the file has one
 */
#include "convert/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/controls.h"
#include "base/json_bounds.h"
#include "convert/mapped_file.h"

enum { LENGTH_BYTES = 8, DEPTH_MAX = 4 };

#define CORRUPT(path, tensor, problem) \
    hth_fail(err, HEARTH_CORRUPT, "'%s', tensor '%.200s': %s; get the file again", path, (tensor)->name, problem)

static const struct element {
    const char *name;
    uint64_t n_bytes;
    hth_safetensors_type type;
} elements[] = {
    { "F16", 2, HTH_SAFETENSORS_F16 },       { "BF16", 2, HTH_SAFETENSORS_BF16 },
    { "F32", 4, HTH_SAFETENSORS_F32 },       { "F64", 8, HTH_SAFETENSORS_OTHER },
    { "I64", 8, HTH_SAFETENSORS_OTHER },     { "I32", 4, HTH_SAFETENSORS_OTHER },
    { "I16", 2, HTH_SAFETENSORS_OTHER },     { "I8", 1, HTH_SAFETENSORS_OTHER },
    { "U64", 8, HTH_SAFETENSORS_OTHER },     { "U32", 4, HTH_SAFETENSORS_OTHER },
    { "U16", 2, HTH_SAFETENSORS_OTHER },     { "U8", 1, HTH_SAFETENSORS_OTHER },
    { "BOOL", 1, HTH_SAFETENSORS_OTHER },    { "F8_E4M3", 1, HTH_SAFETENSORS_OTHER },
    { "F8_E5M2", 1, HTH_SAFETENSORS_OTHER }, { "F8_E8M0", 1, HTH_SAFETENSORS_OTHER },
};

static const struct element *find_element(const char *name)
{
    for (size_t i = 0; name && i < sizeof(elements) / sizeof(elements[0]); i++)
        if (strcmp(elements[i].name, name) == 0)
            return &elements[i];
    return NULL;
}

/* The value of a non-negative JSON integer. */
static bool read_size(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static hearth_status read_shape(const char *path, const json_t *shape, hth_safetensors_tensor *tensor,
                                uint64_t *n_elements, hearth_error *err)
{
    if (!json_is_array(shape))
        return CORRUPT(path, tensor, "it has no shape");
    if (json_array_size(shape) > HTH_SAFETENSORS_DIMS_MAX)
        return CORRUPT(path, tensor, "its shape has more than 8 dimensions");
    tensor->n_dims = (uint32_t)json_array_size(shape);
    *n_elements = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        if (!read_size(json_array_get(shape, i), &tensor->shape[i]))
            return CORRUPT(path, tensor, "its shape has something else than sizes");
        else if (__builtin_mul_overflow(*n_elements, tensor->shape[i], n_elements))
            return CORRUPT(path, tensor, "its shape has more elements than can be counted");
    return HEARTH_OK;
}

static hearth_status read_place(const char *path, const json_t *offsets, uint64_t data_offset, uint64_t n_bytes,
                                hth_safetensors_tensor *tensor, hearth_error *err)
{
    uint64_t begin = 0, end = 0;

    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !read_size(json_array_get(offsets, 0), &begin) ||
        !read_size(json_array_get(offsets, 1), &end))
        return CORRUPT(path, tensor, "its data_offsets are not two sizes");
    if (begin > end)
        return CORRUPT(path, tensor, "its data end before they begin");
    if (end > n_bytes - data_offset)
        return CORRUPT(path, tensor, "its data go beyond the end of the file");
    tensor->begin = data_offset + begin;
    tensor->end = data_offset + end;
    return HEARTH_OK;
}

static hearth_status read_tensor(const char *path, const char *name, const json_t *value, uint64_t data_offset,
                                 uint64_t n_bytes, hth_safetensors_tensor *tensor, hearth_error *err)
{
    const struct element *element = find_element(json_string_value(json_object_get(value, "dtype")));
    uint64_t n_elements = 0, n_needed;
    hearth_status status;

    *tensor = (hth_safetensors_tensor){ .name = name };
    if (hth_has_controls(name))
        return hth_fail(err, HEARTH_CORRUPT, "'%s': the name of a tensor has control characters; get the file again",
                        path);
    if (!element)
        return CORRUPT(path, tensor, "it has no dtype, or one that is not known");
    tensor->type_name = element->name;
    tensor->type = element->type;
    status = read_shape(path, json_object_get(value, "shape"), tensor, &n_elements, err);
    if (status == HEARTH_OK)
        status = read_place(path, json_object_get(value, "data_offsets"), data_offset, n_bytes, tensor, err);
    if (status != HEARTH_OK)
        return status;
    if (__builtin_mul_overflow(n_elements, element->n_bytes, &n_needed) || n_needed != tensor->end - tensor->begin)
        return CORRUPT(path, tensor, "its data_offsets do not agree with its shape and dtype");
    return HEARTH_OK;
}

static hearth_status read_tensors(const char *path, uint64_t data_offset, hth_safetensors *file, hearth_error *err)
{
    const char *name;
    json_t *value;
    hearth_status status = HEARTH_OK;

    file->tensors = calloc(json_object_size(file->header) + 1, sizeof(*file->tensors));
    if (!file->tensors)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the tensors of '%s'", path);
    json_object_foreach(file->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        status = read_tensor(path, name, value, data_offset, file->n_bytes, &file->tensors[file->n_tensors++], err);
        if (status != HEARTH_OK)
            break;
    }
    return status;
}

static int compare_places(const void *a, const void *b)
{
    const hth_safetensors_tensor *x = *(const hth_safetensors_tensor *const *)a;
    const hth_safetensors_tensor *y = *(const hth_safetensors_tensor *const *)b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static hearth_status check_places(const char *path, uint64_t data_offset, const hth_safetensors *file,
                                  hearth_error *err)
{
    const hth_safetensors_tensor **sorted = calloc(file->n_tensors + 1, sizeof(const hth_safetensors_tensor *));
    uint64_t end = data_offset;
    hearth_status status = HEARTH_OK;

    if (!sorted)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the tensors of '%s'", path);
    for (size_t i = 0; i < file->n_tensors; i++)
        sorted[i] = &file->tensors[i];
    qsort(sorted, file->n_tensors, sizeof(const hth_safetensors_tensor *), compare_places);
    for (size_t i = 0; i < file->n_tensors && status == HEARTH_OK; i++) {
        if (sorted[i]->begin < end)
            status = CORRUPT(path, sorted[i], "its data overlap those of another tensor");
        else if (sorted[i]->begin > end)
            status = CORRUPT(path, sorted[i], "there is a hole before its data");
        end = sorted[i]->end;
    }
    free(sorted);
    if (status == HEARTH_OK && end != file->n_bytes)
        return hth_fail(err, HEARTH_CORRUPT, "'%s' has bytes behind its last tensor; get the file again", path);
    return status;
}

/* The tensors by name, for the argument order. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(((const hth_safetensors_tensor *)a)->name, ((const hth_safetensors_tensor *)b)->name);
}

static hearth_status set_order(const char *path, const json_t *order, hth_safetensors *file, hearth_error *err)
{
    hth_safetensors_tensor *ordered;
    hearth_status status = HEARTH_OK;

    if (!json_is_array(order) || json_array_size(order) != file->n_tensors)
        return hth_fail(err, HEARTH_CORRUPT, "'%s': argument_order is no list of its %zu tensors", path,
                        file->n_tensors);
    ordered = calloc(file->n_tensors + 1, sizeof(*ordered));
    if (!ordered)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the tensors of '%s'", path);
    qsort(file->tensors, file->n_tensors, sizeof(*file->tensors), compare_names);
    for (size_t i = 0; i < file->n_tensors && status == HEARTH_OK; i++) {
        const char *name = json_string_value(json_array_get(order, i));
        hth_safetensors_tensor wanted = { .name = name ? name : "" };
        hth_safetensors_tensor *found = bsearch(&wanted, file->tensors, file->n_tensors, sizeof(wanted), compare_names);

        if (!found || found->shape[0] == UINT64_MAX)
            status = hth_fail(err, HEARTH_CORRUPT, "'%s': argument_order names '%.200s' %s", path, wanted.name,
                              found ? "twice" : "which is no tensor of the file");
        else {
            ordered[i] = *found;
            found->shape[0] = UINT64_MAX; /* taken; a size is at most INT64_MAX */
        }
    }
    free(file->tensors);
    file->tensors = ordered;
    return status;
}

static hearth_status read_order(const char *path, hth_safetensors *file, hearth_error *err)
{
    const json_t *metadata = json_object_get(file->header, "__metadata__");
    const json_t *text = json_object_get(metadata, "argument_order");
    json_t *order;
    hearth_status status;

    if (metadata && !json_is_object(metadata))
        return hth_fail(err, HEARTH_CORRUPT, "'%s': __metadata__ is no object; get the file again", path);
    if (!text)
        return HEARTH_OK;
    if (!json_is_string(text) ||
        !hth_json_is_within(json_string_value(text), json_string_length(text), DEPTH_MAX, HTH_SAFETENSORS_VALUES_MAX))
        return hth_fail(err, HEARTH_CORRUPT, "'%s': argument_order is no list of tensors as text", path);
    order = json_loads(json_string_value(text), 0, NULL);
    status = set_order(path, order, file, err);
    json_decref(order);
    file->has_argument_order = status == HEARTH_OK;
    return status;
}

static hearth_status parse_header(const char *path, const char *text, uint64_t n, json_t **out, hearth_error *err)
{
    json_error_t problem = { .line = 0 };

    if (n == 0 || text[0] != '{')
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is no safetensors file: its header does not begin with '{'", path);
    if (!hth_json_is_within(text, (size_t)n, DEPTH_MAX, HTH_SAFETENSORS_VALUES_MAX))
        return hth_fail(err, HEARTH_CORRUPT, "'%s': the header is nested too deeply, or has more than %d values", path,
                        HTH_SAFETENSORS_VALUES_MAX);
    *out = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &problem);
    if (!*out)
        return hth_fail(err, HEARTH_CORRUPT, "'%s': the header is no JSON: %s; get the file again", path, problem.text);
    return HEARTH_OK;
}

hearth_status hth_safetensors_parse(const char *path, const uint8_t *bytes, uint64_t n_bytes, hth_safetensors *out,
                                    hearth_error *err)
{
    hth_safetensors file = { .bytes = bytes, .n_bytes = n_bytes };
    uint64_t n_header = 0, data_offset;
    hearth_status status;

    for (unsigned i = 0; i < LENGTH_BYTES && n_bytes >= LENGTH_BYTES; i++)
        n_header |= (uint64_t)bytes[i] << (8 * i);
    if (n_bytes < LENGTH_BYTES || n_header > n_bytes - LENGTH_BYTES)
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is too short for its header; get the file again", path);
    if (n_header > HTH_SAFETENSORS_HEADER_MAX)
        return hth_fail(err, HEARTH_CORRUPT, "'%s': the header is longer than %d bytes", path,
                        HTH_SAFETENSORS_HEADER_MAX);
    data_offset = LENGTH_BYTES + n_header;
    status = parse_header(path, (const char *)bytes + LENGTH_BYTES, n_header, &file.header, err);
    if (status == HEARTH_OK)
        status = read_tensors(path, data_offset, &file, err);
    if (status == HEARTH_OK)
        status = check_places(path, data_offset, &file, err);
    if (status == HEARTH_OK)
        status = read_order(path, &file, err);
    if (status == HEARTH_OK)
        *out = file;
    else
        hth_safetensors_close(&file);
    return status;
}

hearth_status hth_safetensors_open(const char *path, hth_safetensors *out, hearth_error *err)
{
    const uint8_t *bytes = NULL;
    uint64_t n_bytes = 0;
    hearth_status status = hth_mapped_file_open(path, UINT64_MAX, &bytes, &n_bytes, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_safetensors_parse(path, bytes, n_bytes, out, err);
    if (status == HEARTH_OK)
        out->is_mapped = true;
    else
        hth_mapped_file_close(bytes, n_bytes);
    return status;
}

void hth_safetensors_close(hth_safetensors *file)
{
    free(file->tensors);
    json_decref(file->header);
    if (file->is_mapped)
        hth_mapped_file_close(file->bytes, file->n_bytes);
    *file = (hth_safetensors){ 0 };
}
