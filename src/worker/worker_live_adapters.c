#include "worker/worker_live_adapters.h"

#include <stdlib.h>
#include <string.h>

#include "api/json_values.h"
#include "base/hex.h"
#include "base/status.h"
#include "models/model.h"
#include "wire/adapter_state.h"

/* ---- lists ---- */

/* One adapter as JSON, without its folder, which stays private. NULL without memory. */
static json_t *adapter_json(const hearth_adapter *adapter)
{
    const char *slash = strrchr(adapter->path, '/');
    const char *name = slash ? slash + 1 : adapter->path;

    return json_pack("{s:I, s:s, s:o, s:f, s:s, s:s, s:o}", "id", (json_int_t)adapter->id, "name", adapter->name,
                     "path", hth_json_string(name), "scale", (double)adapter->scale, "task_name", "", "prompt_prefix",
                     "", "sha256", hth_json_hex(adapter->sha256, sizeof(adapter->sha256)));
}

/* The loaded adapters, for free(): [*n_out]. NULL with err. */
static hearth_adapter *list_new(hearth_model *model, size_t *n_out, hearth_error *err)
{
    hearth_adapter *adapters = calloc(HTH_ADAPTERS_MAX, sizeof(*adapters));

    if (!adapters) {
        (void)hth_fail(err, HEARTH_NO_MEMORY, "no memory for the list of adapters"); /* NULL reports it */
        return NULL;
    }
    adapters[0].struct_size = sizeof(*adapters);
    if (hearth_adapters_list(model, adapters, HTH_ADAPTERS_MAX, n_out, err) == HEARTH_OK)
        return adapters;
    free(adapters);
    return NULL;
}

hearth_status hth_adapters_write(const hth_live_adapters *live, hearth_model *model, hth_buffer *out, hearth_error *err)
{
    size_t n = 0, n_lost = live ? live->n_lost : 0;
    hearth_adapter *adapters = list_new(model, &n, err);
    json_t *list = json_array();
    bool is_good = list != NULL;

    if (!adapters) {
        json_decref(list);
        return err->status;
    }
    for (size_t i = 0; i < n + n_lost && is_good; i++) {
        const hth_lost_adapter *lost = i < n ? NULL : &live->lost[i - n];

        is_good =
            json_array_append_new(list, lost ? json_pack("{s:I, s:s}", "id", (json_int_t)lost->id, "error", lost->why)
                                             : adapter_json(&adapters[i])) == 0;
    }
    if (!is_good) {
        json_decref(list);
        list = NULL;
    }
    hth_buffer_add_json_take(out, list);
    free(adapters);
    return HEARTH_OK;
}

/* ---- a state ---- */

static const hearth_adapter *find(const hearth_adapter *adapters, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (adapters[i].id == id)
            return &adapters[i];
    return NULL;
}

static bool is_wanted(const hth_adapter_state *state, uint32_t id)
{
    for (size_t i = 0; i < state->n_loaded; i++)
        if (state->loaded[i].id == id)
            return true;
    return id < HTH_LIVE_ID_MIN;
}

/* Load an adapter with its current scale: a deterministic model accepts at most one that is not 0. */
static hearth_status load_live(const hth_live_adapters *live, hearth_model *model, const hth_adapter_state *state,
                               const hth_live_adapter *one, hearth_error *err)
{
    const hth_adapter_identity identity = { .id = one->id, .load_scale = one->scale };
    hearth_adapter_options options = hearth_adapter_options_default();
    char path[PATH_MAX];
    hearth_status status = hth_adapter_file_find(live->directory, one->file, path, err);

    if (status != HEARTH_OK)
        return status;
    options.name = one->name;
    options.scale = hth_adapter_state_scale_of(state, one);
    return hth_model_adapter_load(model, path, &options, &identity, NULL, err);
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

static hearth_status unload_others(hearth_model *model, const hth_adapter_state *state, hearth_error *err)
{
    size_t n = 0;
    hearth_adapter *adapters = list_new(model, &n, err);
    hearth_status status = adapters ? HEARTH_OK : err->status;

    for (size_t i = 0; status == HEARTH_OK && i < n; i++)
        if (!is_wanted(state, adapters[i].id))
            status = hearth_adapter_unload(model, adapters[i].id, err);
    free(adapters);
    return status;
}

/* Make the adapters match the state. If the added adapter cannot be loaded, all others match the state. */
static hearth_status apply(const hth_live_adapters *live, hearth_model *model, const hth_adapter_state *state,
                           hearth_error *err)
{
    hearth_status status = unload_others(model, state, err);

    if (status == HEARTH_OK)
        status = set_scales(model, state, err);
    for (size_t i = 0; status == HEARTH_OK && i < state->n_loaded; i++)
        if (state->loaded[i].id == state->added)
            status = load_live(live, model, state, &state->loaded[i], err);
    return status;
}

static void restore_one(hth_live_adapters *live, hearth_model *model, const hth_adapter_state *state,
                        const hth_live_adapter *one, const hth_log *log)
{
    hearth_error err;

    if (load_live(live, model, state, one, &err) == HEARTH_OK)
        return;
    hth_warn(log, "the adapter '%s', which an earlier worker had, is not loaded; the next worker tries again: %s",
             one->name, err.message);
    live->lost[live->n_lost].id = one->id;
    memcpy(live->lost[live->n_lost++].why, err.message, sizeof(err.message));
}

/* Warn the operator of a replaced file: its rows and its effect are different. */
static void warn_of_replaced(hearth_model *model, const hth_adapter_state *state, const hth_log *log)
{
    size_t n = 0;
    hearth_error err;
    hearth_adapter *adapters = list_new(model, &n, &err);

    for (size_t i = 0; adapters && i < state->n_loaded; i++) {
        const hearth_adapter *now = find(adapters, n, state->loaded[i].id);
        char sha256[65];

        if (!now || !state->loaded[i].sha256[0])
            continue;
        hth_hex_encode(now->sha256, sizeof(now->sha256), sha256);
        if (strcmp(sha256, state->loaded[i].sha256) != 0)
            hth_warn(log,
                     "the file '%s' of the adapter '%s' was replaced after an operator loaded it; it is loaded as "
                     "it is now",
                     state->loaded[i].file, state->loaded[i].name);
    }
    free(adapters);
}

void hth_adapters_restore(hth_live_adapters *live, hearth_model *model, const char *text, const hth_log *log)
{
    hth_adapter_state *state = malloc(sizeof(*state));
    hth_api_error error = { .kind = HTH_API_NO_ERROR, .message = "no memory" };
    hearth_error err;

    if (!state || !hth_adapter_state_read(text, strlen(text), state, &error)) {
        hth_warn(log, "the adapters of an earlier worker are not loaded: %s", error.message);
        free(state);
        return;
    }
    if (set_scales(model, state, &err) != HEARTH_OK) /* first: this may make room for the others */
        hth_warn(log, "the scales of an earlier worker's adapters are not set: %s", err.message);
    for (size_t i = 0; i < state->n_loaded; i++)
        restore_one(live, model, state, &state->loaded[i], log);
    warn_of_replaced(model, state, log);
    free(state);
}

void hth_task_set_adapters(hth_task *task)
{
    hearth_error err;
    hearth_status status = apply(task->shared->live_adapters, task->shared->model, task->adapter_state, &err);

    if (status == HEARTH_OK)
        status = hth_adapters_write(task->shared->live_adapters, task->shared->model, &task->answer, &err);
    if (status == HEARTH_NO_MEMORY || status == HEARTH_BUSY || status == HEARTH_CANCELLED)
        hth_api_fail_status(&task->error, &err);
    else if (status != HEARTH_OK) /* the cause is the file or its name */
        hth_api_fail(&task->error, HTH_API_INVALID_VALUE, NULL, "%s", err.message);
}
