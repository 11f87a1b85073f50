/*
 * safetensors.c - read the header of a safetensors file, and open all files of a checkpoint
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

static hearth_status read_tensor(const char *path, const char *name, const json_t *value, uint64_t data_offset,
                                 uint64_t n_bytes, hth_safetensors_tensor *tensor, hearth_error *err)
{
    const struct element *element = find_element(json_string_value(json_object_get(value, "dtype")));
    const json_t *shape = json_object_get(value, "shape"), *offsets = json_object_get(value, "data_offsets");
    uint64_t n_elements = 1, n_needed, begin = 0, end = 0;

    *tensor = (hth_safetensors_tensor){ .name = name };
    if (hth_has_controls(name))
        return hth_fail(err, HEARTH_CORRUPT, "'%s': the name of a tensor has control characters; get the file again",
                        path);
    if (!element)
        return CORRUPT(path, tensor, "it has no dtype, or one that is not known");
    tensor->type_name = element->name;
    tensor->type = element->type;

    if (!json_is_array(shape))
        return CORRUPT(path, tensor, "it has no shape");
    if (json_array_size(shape) > HTH_SAFETENSORS_DIMS_MAX)
        return CORRUPT(path, tensor, "its shape has more than 8 dimensions");
    tensor->n_dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        if (!hth_json_size(json_array_get(shape, i), &tensor->shape[i]))
            return CORRUPT(path, tensor, "its shape has something else than sizes");
        else if (__builtin_mul_overflow(n_elements, tensor->shape[i], &n_elements))
            return CORRUPT(path, tensor, "its shape has more elements than can be counted");

    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !hth_json_size(json_array_get(offsets, 0), &begin) || !hth_json_size(json_array_get(offsets, 1), &end))
        return CORRUPT(path, tensor, "its data_offsets are not two sizes");
    if (begin > end)
        return CORRUPT(path, tensor, "its data end before they begin");
    if (end > n_bytes - data_offset)
        return CORRUPT(path, tensor, "its data go beyond the end of the file");
    tensor->begin = data_offset + begin;
    tensor->end = data_offset + end;
    if (__builtin_mul_overflow(n_elements, element->n_bytes, &n_needed) || n_needed != end - begin)
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

hearth_status hth_safetensors_open(const char *folder, const char *name, hth_safetensors *out, hearth_error *err)
{
    hth_mapped_file file;
    hearth_status status = hth_mapped_file_open(folder, name, UINT64_MAX, &file, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_safetensors_parse(file.path, file.bytes, file.n_bytes, out, err);
    if (status == HEARTH_OK)
        out->is_mapped = true;
    else
        hth_mapped_file_close(file.bytes, file.n_bytes);
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

/* ---- checkpoints ---- */

#define INDEX "model.safetensors.index.json"

enum { N_FILES_MAX = 4096 };

static hearth_status open_file(hth_checkpoint *checkpoint, const char *name, bool require_order, hearth_error *err)
{
    hth_safetensors *file = &checkpoint->files[checkpoint->n_files];
    hearth_status status = hth_safetensors_open(checkpoint->folder, name, file, err);

    if (status != HEARTH_OK)
        return status;
    checkpoint->n_files++;
    checkpoint->n_tensors += file->n_tensors;
    if (require_order && !file->has_argument_order)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "'%s/%s' has no argument_order in its metadata; convert without --require-argument-order",
                        checkpoint->folder, name);
    return HEARTH_OK;
}

/* Is it a plain file name? Files in other directories are refused. */
static bool is_plain_name(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < 256;
}

/* The files that the index names, each once, in the order of their first tensors. */
static hearth_status collect_names(const json_t *map, const char **names, size_t *n_out, hearth_error *err)
{
    json_t *seen = json_object(), *value;
    const char *tensor;
    hearth_status status = HEARTH_OK;

    json_object_foreach((json_t *)(uintptr_t)map, tensor, value)
    {
        const char *name = json_string_value(value);

        if (!is_plain_name(name)) {
            status = hth_fail(err, HEARTH_CORRUPT, "'" INDEX "', tensor '%.200s': '%.200s' is no name of a file there",
                              tensor, name ? name : "");
            break;
        }
        if (json_object_get(seen, name))
            continue;
        if (*n_out == N_FILES_MAX || json_object_set_new(seen, name, json_true()) != 0) {
            status = hth_fail(err, HEARTH_CORRUPT, "'" INDEX "' names more than %d files", N_FILES_MAX);
            break;
        }
        names[(*n_out)++] = name;
    }
    json_decref(seen);
    return status;
}

/* Does each file have exactly the tensors that the index lists for it? */
static hearth_status check_index(const hth_checkpoint *checkpoint, const json_t *map, const char *const *names,
                                 hearth_error *err)
{
    for (size_t f = 0; f < checkpoint->n_files; f++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is memory for all files */
        for (size_t i = 0; i < checkpoint->files[f].n_tensors; i++) {
            const char *tensor = checkpoint->files[f].tensors[i].name;
            const char *name = json_string_value(json_object_get(map, tensor));

            if (!name || strcmp(name, names[f]) != 0)
                return hth_fail(err, HEARTH_CORRUPT, "'%s/%s', tensor '%.200s': the index does not place it there",
                                checkpoint->folder, names[f], tensor);
        }
    if (checkpoint->n_tensors != json_object_size(map))
        return hth_fail(err, HEARTH_CORRUPT, "'%s/" INDEX "' names %zu tensors, and its files have %zu",
                        checkpoint->folder, json_object_size(map), checkpoint->n_tensors);
    return HEARTH_OK;
}

static hearth_status open_files(hth_checkpoint *checkpoint, const json_t *index, bool require_order, hearth_error *err)
{
    const json_t *map = json_object_get(index, "weight_map");
    const char **names = calloc(N_FILES_MAX, sizeof(const char *));
    size_t n_names = 0;
    hearth_status status = HEARTH_OK;

    checkpoint->files = calloc(N_FILES_MAX, sizeof(*checkpoint->files));
    if (!names || !checkpoint->files)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to open '%s'", checkpoint->folder);
    else if (index && !json_is_object(map))
        status = hth_fail(err, HEARTH_CORRUPT, "'%s/" INDEX "' has no weight_map", checkpoint->folder);
    else if (!index)
        status = open_file(checkpoint, "model.safetensors", require_order, err);
    else
        status = collect_names(map, names, &n_names, err);
    for (size_t i = 0; i < n_names && status == HEARTH_OK; i++)
        status = open_file(checkpoint, names[i], require_order, err);
    if (status == HEARTH_OK && index)
        status = check_index(checkpoint, map, names, err);
    free(names);
    return status;
}

hearth_status hth_checkpoint_open(const char *folder, bool require_order, hth_checkpoint *out, hearth_error *err)
{
    hth_checkpoint opened = { .folder = strdup(folder) };
    json_t *index = NULL;
    hearth_status status;

    if (!opened.folder)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to open '%s'", folder);
    status = hth_json_file_read(folder, "config.json", &opened.config, err);
    if (status == HEARTH_OK) {
        status = hth_json_file_read(folder, INDEX, &index, err);
        if (status == HEARTH_OK || status == HEARTH_NOT_FOUND)
            status = open_files(&opened, index, require_order, err);
    }
    json_decref(index);
    if (status == HEARTH_OK)
        *out = opened;
    else
        hth_checkpoint_close(&opened);
    return status;
}

void hth_checkpoint_close(hth_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->n_files; i++)
        hth_safetensors_close(&checkpoint->files[i]);
    free(checkpoint->files);
    json_decref(checkpoint->config);
    free(checkpoint->folder);
    *checkpoint = (hth_checkpoint){ 0 };
}
