/*
 * checkpoint.c - open config.json and all safetensors files of a directory
 */
#include "convert/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/mapped_file.h"

#define INDEX "model.safetensors.index.json"

enum { N_FILES_MAX = 4096 };

static hearth_status open_file(hth_checkpoint *checkpoint, const char *name, bool require_order, hearth_error *err)
{
    hth_safetensors *file = &checkpoint->files[checkpoint->n_files];
    char path[HTH_CHECKPOINT_PATH_BYTES];
    hearth_status status = hth_checkpoint_path(checkpoint->folder, name, path, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_safetensors_open(path, file, err);
    if (status != HEARTH_OK)
        return status;
    checkpoint->n_files++;
    checkpoint->n_tensors += file->n_tensors;
    if (require_order && !file->has_argument_order)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "'%s' has no argument_order in its metadata; convert without --require-argument-order", path);
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
