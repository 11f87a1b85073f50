/*
 * worker_live_adapters.c - see worker_live_adapters.h
 */
#include "server/worker_live_adapters.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "models/model.h"
#include "server/adapter_files.h"
#include "server/adapter_state.h"

/* ---- lists ---- */

/* Folders stay private. NULL without memory. */
static json_t *adapter_json(const hearth_adapter *adapter)
{
    const char *slash = strrchr(adapter->path, '/');
    json_t *path = json_string(slash ? slash + 1 : adapter->path);
    char sha256[65];

    hth_hex_encode(adapter->sha256, sizeof(adapter->sha256), sha256);
    return json_pack("{s:I, s:s, s:o, s:f, s:s, s:s, s:s}", "id", (json_int_t)adapter->id, "name", adapter->name,
                     "path", path ? path : json_null(), "scale", (double)adapter->scale, "task_name", "",
                     "prompt_prefix", "", "sha256", sha256); /* a path that is no UTF-8 is null */
}

/* The loaded adapters, for free(): [*n_out]. NULL with err. */
static hearth_adapter *list_new(hearth_model *model, size_t *n_out, hearth_error *err)
{
    hearth_adapter *adapters = calloc(HTH_ADAPTERS_MAX, sizeof(*adapters));

    if (!adapters) {
        (void)hth_fail(err, HEARTH_NO_MEMORY, "no memory for the list of adapters"); /* NULL says it */
        return NULL;
    }
    adapters[0].struct_size = sizeof(*adapters);
    if (hearth_adapters_list(model, adapters, HTH_ADAPTERS_MAX, n_out, err) == HEARTH_OK)
        return adapters;
    free(adapters);
    return NULL;
}

hearth_status hth_adapters_write(hearth_model *model, hth_buffer *out, hearth_error *err)
{
    size_t n = 0;
    hearth_adapter *adapters = list_new(model, &n, err);
    json_t *list = json_array();

    if (!adapters) {
        json_decref(list);
        return err->status;
    }
    for (size_t i = 0; i < n && list; i++)
        if (json_array_append_new(list, adapter_json(&adapters[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    hth_buffer_add_json_take(out, list);
    free(adapters);
    return HEARTH_OK;
}

/* ---- a state ---- */

static bool is_loaded(const hearth_adapter *adapters, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (adapters[i].id == id)
            return true;
    return false;
}

static bool is_wanted(const hth_adapter_state *state, uint32_t id)
{
    for (size_t i = 0; i < state->n_loaded; i++)
        if (state->loaded[i].id == id)
            return true;
    return id < HTH_LIVE_ID_MIN;
}

static hearth_status load_live(hearth_model *model, const char *directory, const hth_live_adapter *one,
                               hearth_error *err)
{
    hearth_adapter_options options = hearth_adapter_options_default();
    char path[PATH_MAX];
    hearth_status status = hth_adapter_file_find(directory, one->file, path, err);

    if (status != HEARTH_OK)
        return status;
    options.name = one->name;
    options.scale = one->scale;
    return hth_model_adapter_load(model, path, &options, one->id, NULL, err);
}

/* Set the scales of the state. Other adapters keep theirs. */
static hearth_status set_scales(hearth_model *model, const hth_adapter_state *state, hearth_error *err)
{
    hearth_adapter_scale scales[HTH_ADAPTERS_MAX];
    size_t n = 0;
    hearth_adapter *adapters = list_new(model, &n, err);

    if (!adapters)
        return err->status;
    for (size_t i = 0; i < n; i++) {
        scales[i] = (hearth_adapter_scale){ adapters[i].id, adapters[i].scale };
        for (size_t j = 0; j < state->n_scales; j++)
            if (state->scales[j].id == adapters[i].id)
                scales[i].scale = state->scales[j].scale;
    }
    free(adapters);
    return hearth_adapters_scale(model, scales, n, err);
}

/*
 * Make the adapters equal to the state. If the added one cannot be loaded, all stays as it was. Others, which an
 * earlier worker had, are left out then, with a warning; log may be NULL.
 */
static hearth_status apply(hearth_model *model, const char *directory, const hth_adapter_state *state,
                           const hth_log *log, hearth_error *err)
{
    size_t n = 0;
    hearth_adapter *adapters = list_new(model, &n, err);
    hearth_status status = adapters ? HEARTH_OK : err->status;

    for (size_t i = 0; status == HEARTH_OK && i < state->n_loaded; i++) {
        const hth_live_adapter *one = &state->loaded[i];

        if (is_loaded(adapters, n, one->id))
            continue;
        status = set_scales(model, state, err); /* a deterministic model has one at most that is not 0 */
        if (status == HEARTH_OK)
            status = load_live(model, directory, one, err);
        if (status != HEARTH_OK && one->id != state->added) {
            hth_warn(log, "the adapter '%s', which an earlier worker had, is not loaded: %s", one->name, err->message);
            status = HEARTH_OK;
        }
    }
    for (size_t i = 0; status == HEARTH_OK && i < n; i++)
        if (!is_wanted(state, adapters[i].id))
            status = hearth_adapter_unload(model, adapters[i].id, err);
    free(adapters);
    return status == HEARTH_OK ? set_scales(model, state, err) : status;
}

void hth_adapters_restore(hearth_model *model, const char *directory, const char *text, const hth_log *log)
{
    hth_adapter_state *state = malloc(sizeof(*state));
    hth_api_error error = { .kind = HTH_API_NO_ERROR, .message = "no memory" };
    hearth_error err;

    if (!state || !hth_adapter_state_read(text, strlen(text), state, &error))
        hth_warn(log, "the adapters of an earlier worker are not loaded: %s", error.message);
    else if (apply(model, directory, state, log, &err) != HEARTH_OK)
        hth_warn(log, "the scales of an earlier worker's adapters are not set: %s", err.message);
    free(state);
}

void hth_task_set_adapters(hth_task *task)
{
    hearth_error err;
    hearth_status status = apply(task->model, task->adapters_directory, task->adapter_state, NULL, &err);

    if (status == HEARTH_OK)
        status = hth_adapters_write(task->model, &task->answer, &err);
    if (status == HEARTH_NO_MEMORY || status == HEARTH_BUSY || status == HEARTH_CANCELLED)
        hth_api_fail_status(&task->error, &err);
    else if (status != HEARTH_OK) /* of the file, or of its name */
        hth_api_fail(&task->error, HTH_API_INVALID_VALUE, NULL, "%s", err.message);
}
