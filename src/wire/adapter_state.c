#include "wire/adapter_state.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/fields.h"
#include "base/gguf_name.h"
#include "base/hex.h"
#include "base/status.h"

enum { FILES_MAX = 1000, ENTRIES_MAX = 4096 };

/* ---- reading ---- */

static void read_scale(const hth_fields *fields, float *out)
{
    hth_fields_require(fields, "scale");
    hth_fields_float(fields, "scale", -HTH_ADAPTER_SCALE_MAX, HTH_ADAPTER_SCALE_MAX, out);
}

/* False: the text is not a hash. */
static bool set_sha256(hth_live_adapter *one, const char *text)
{
    if (!hth_is_hex(text, sizeof(one->sha256) - 1))
        return false;
    (void)snprintf(one->sha256, sizeof(one->sha256), "%s", text); /* fits */
    return true;
}

static void read_loaded(const hth_fields *body, hth_adapter_state *out)
{
    const json_t *list = hth_fields_array(body, "loaded", HTH_ADAPTERS_MAX);

    for (size_t i = 0; i < json_array_size(list); i++) {
        hth_live_adapter *one = &out->loaded[out->n_loaded];
        uint32_t id_min = out->n_loaded > 0 ? one[-1].id + 1 : HTH_LIVE_ID_MIN;
        const char *sha256 = NULL;
        hth_fields fields;

        if (!hth_fields_item(body, "loaded", list, i, &fields))
            return;
        one->sha256[0] = '\0';
        hth_fields_require(&fields, "id");
        hth_fields_u32(&fields, "id", id_min, UINT32_MAX - 1, &one->id);
        hth_fields_copy(&fields, "name", one->name, sizeof(one->name));
        hth_fields_copy(&fields, "file", one->file, sizeof(one->file));
        read_scale(&fields, &one->scale);
        hth_fields_string(&fields, "sha256", sizeof(one->sha256) - 1, &sha256);
        if (sha256 && !set_sha256(one, sha256))
            hth_fields_fail(&fields, HTH_API_INVALID_VALUE, "sha256", "must have 64 hexadecimal digits");
        if (hth_fields_failed(body))
            return;
        out->n_loaded++;
    }
}

static void read_scales(const hth_fields *body, hth_adapter_state *out)
{
    const json_t *list = hth_fields_array(body, "scales", sizeof(out->scales) / sizeof(out->scales[0]));

    for (size_t i = 0; i < json_array_size(list); i++) {
        hearth_adapter_scale one = { 0 };
        hth_fields fields;

        if (!hth_fields_item(body, "scales", list, i, &fields))
            return;
        hth_fields_require(&fields, "id");
        hth_fields_u32(&fields, "id", 0, UINT32_MAX - 1, &one.id);
        read_scale(&fields, &one.scale);
        if (hth_fields_failed(body))
            return;
        (void)hth_adapter_state_scale(out, one.id, one.scale); /* there is room for all */
    }
}

bool hth_adapter_state_read(const char *text, size_t n, hth_adapter_state *out, hth_api_error *error)
{
    json_t *object = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    hth_fields body = { .object = object, .error = error };

    out->added = 0;
    out->n_loaded = 0;
    out->n_scales = 0;
    if (!json_is_object(object)) {
        hth_api_fail(error, HTH_API_INVALID_JSON, NULL, "the state of the adapters is no JSON object");
    } else {
        hth_fields_u32(&body, "added", 0, UINT32_MAX - 1, &out->added);
        read_loaded(&body, out);
        read_scales(&body, out);
    }
    json_decref(object);
    return error->kind == HTH_API_NO_ERROR;
}

bool hth_adapter_scales_read(const char *text, size_t n, hearth_adapter_scale out[HTH_ADAPTERS_MAX], size_t *n_out,
                             hth_api_error *error)
{
    json_t *list = text && n <= HTH_ADAPTERS_JSON_BYTES_MAX ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    size_t n_list = json_array_size(list);
    bool ok = json_is_array(list) && n_list <= HTH_ADAPTERS_MAX;

    for (size_t i = 0; i < n_list && ok; i++) {
        const json_t *id = json_object_get(json_array_get(list, i), "id");
        const json_t *scale = json_object_get(json_array_get(list, i), "scale");

        ok = json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= UINT32_MAX &&
             json_is_number(scale) && fabs(json_number_value(scale)) <= HTH_ADAPTER_SCALE_MAX;
        if (ok)
            out[i] = (hearth_adapter_scale){ (uint32_t)json_integer_value(id), (float)json_number_value(scale) };
    }
    json_decref(list);
    *n_out = n_list;
    if (!ok)
        hth_api_fail(error, HTH_API_INVALID_VALUE, NULL,
                     "the body must be an array, of at most 64 KiB, of at most 64 objects with the id of an adapter "
                     "and its scale, a number: [{\"id\": 0, \"scale\": 0.5}]");
    return ok;
}

/* ---- writing ---- */

void hth_adapter_state_write(const hth_adapter_state *state, hth_buffer *out)
{
    json_t *object = json_pack("{s:I, s:[], s:[]}", "added", (json_int_t)state->added, "loaded", "scales");
    bool is_good = object != NULL;

    for (size_t i = 0; is_good && i < state->n_loaded; i++) {
        const hth_live_adapter *one = &state->loaded[i];

        is_good = json_array_append_new(json_object_get(object, "loaded"),
                                        json_pack("{s:I, s:s, s:s, s:f, s:s*}", "id", (json_int_t)one->id, "name",
                                                  one->name, "file", one->file, "scale", (double)one->scale, "sha256",
                                                  one->sha256[0] ? one->sha256 : NULL)) == 0;
    }
    for (size_t i = 0; is_good && i < state->n_scales; i++)
        is_good = json_array_append_new(json_object_get(object, "scales"),
                                        json_pack("{s:I, s:f}", "id", (json_int_t)state->scales[i].id, "scale",
                                                  (double)state->scales[i].scale)) == 0;
    if (!is_good) {
        json_decref(object);
        object = NULL;
    }
    hth_buffer_add_json_take(out, object);
}

/* ---- changes ---- */

const hth_live_adapter *hth_adapter_state_find(const hth_adapter_state *state, const char *name)
{
    for (size_t i = 0; i < state->n_loaded; i++)
        if (strcmp(state->loaded[i].name, name) == 0)
            return &state->loaded[i];
    return NULL;
}

float hth_adapter_state_scale_of(const hth_adapter_state *state, const hth_live_adapter *one)
{
    for (size_t i = 0; i < state->n_scales; i++)
        if (state->scales[i].id == one->id)
            return state->scales[i].scale;
    return one->scale;
}

void hth_adapter_state_learn(hth_adapter_state *state, const json_t *list)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        const char *sha256 = json_string_value(json_object_get(one, "sha256"));
        json_int_t id = json_integer_value(json_object_get(one, "id"));

        for (size_t j = 0; sha256 && j < state->n_loaded; j++)
            if (state->loaded[j].id == id && !state->loaded[j].sha256[0])
                (void)set_sha256(&state->loaded[j], sha256); /* otherwise it stays unknown */
    }
}

static void drop_scale(hth_adapter_state *state, size_t i)
{
    memmove(&state->scales[i], &state->scales[i + 1], (--state->n_scales - i) * sizeof(state->scales[0]));
}

void hth_adapter_state_drop(hth_adapter_state *state, uint32_t id)
{
    for (size_t i = 0; i < state->n_loaded; i++)
        if (state->loaded[i].id == id) {
            memmove(&state->loaded[i], &state->loaded[i + 1], (--state->n_loaded - i) * sizeof(state->loaded[0]));
            break;
        }
    for (size_t i = 0; i < state->n_scales; i++)
        if (state->scales[i].id == id) {
            drop_scale(state, i);
            break;
        }
}

bool hth_adapter_state_scale(hth_adapter_state *state, uint32_t id, float scale)
{
    size_t i = 0;

    while (i < state->n_scales && state->scales[i].id != id)
        i++;
    if (i == sizeof(state->scales) / sizeof(state->scales[0]))
        return false;
    state->n_scales += i == state->n_scales;
    state->scales[i] = (hearth_adapter_scale){ id, scale };
    return true;
}

void hth_adapter_state_forget_configured(hth_adapter_state *state)
{
    for (size_t i = 0; i < state->n_scales;) {
        if (state->scales[i].id < HTH_LIVE_ID_MIN)
            drop_scale(state, i);
        else
            i++;
    }
}

/* ---- files ---- */

static bool has_parent(const char *file)
{
    for (const char *part = file; part; part = strchr(part, '/')) {
        part += strspn(part, "/");
        if (strcspn(part, "/") == 2 && strncmp(part, "..", 2) == 0)
            return true;
    }
    return false;
}

static bool is_beneath(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || (n == 1 && path[1]));
}

hearth_status hth_adapter_file_find(const char *directory, const char *file, char path[PATH_MAX], hearth_error *err)
{
    char joined[PATH_MAX], folder[PATH_MAX], found[PATH_MAX];
    struct stat st;

    if (!directory)
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "the model has no folder of adapters, so that none can be loaded while the server runs; name "
                        "one with lora_dir (--lora-dir)");
    if (has_parent(file))
        return hth_fail(err, HEARTH_MISUSE,
                        "the file '%s' has '..' in its path; name one beneath the folder of adapters", file);
    if (file[0] == '/' ? snprintf(joined, sizeof(joined), "%s", file) >= PATH_MAX
                       : snprintf(joined, sizeof(joined), "%s/%s", directory, file) >= PATH_MAX)
        return hth_fail(err, HEARTH_MISUSE, "the path of the file '%.200s' is too long", file);
    if (!realpath(directory, folder))
        return hth_fail_errno(err, errno, "cannot open the folder of adapters '%s'", directory);
    if (!realpath(joined, found))
        return hth_fail_errno(err, errno, "cannot open the file '%s' in the folder of adapters", file);
    if (!is_beneath(found, folder))
        return hth_fail(err, HEARTH_MISUSE, "the file '%s' is not beneath the folder of adapters (lora_dir)", file);
    if (stat(found, &st) != 0)
        return hth_fail_errno(err, errno, "cannot open the file '%s' in the folder of adapters", file);
    if (!S_ISREG(st.st_mode))
        return hth_fail(err, HEARTH_MISUSE, "'%s' in the folder of adapters is no file", file);
    memcpy(path, found, strlen(found) + 1);
    return HEARTH_OK;
}

static bool is_adapter(const char *name)
{
    const size_t n = strlen(name);

    return name[0] != '.' && hth_gguf_stem(name, n) < n;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

json_t *hth_adapter_files_list(const char *directory, size_t *n_entries_out)
{
    DIR *folder = directory ? opendir(directory) : NULL; /* NULL: unreadable */
    char **names = malloc(ENTRIES_MAX * sizeof(*names));
    json_t *list = json_array();
    const struct dirent *entry;
    size_t n = 0;

    *n_entries_out = 0;
    while (folder && names && *n_entries_out < ENTRIES_MAX && (entry = readdir(folder))) {
        char *name = is_adapter(entry->d_name) ? strdup(entry->d_name) : NULL;

        ++*n_entries_out;
        if (name)
            names[n++] = name;
    }
    if (folder)
        (void)closedir(folder); /* only read from */
    if (n > 1)
        qsort((void *)names, n, sizeof(*names), compare);
    for (size_t i = 0; i < n; i++) {
        if (i < FILES_MAX)
            (void)json_array_append_new(list, json_string(names[i])); /* a name that is not UTF-8 is omitted */
        free(names[i]);
    }
    free((void *)names);
    return list;
}
