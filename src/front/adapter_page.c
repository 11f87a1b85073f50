/*
 * adapter_page.c - see adapter_page.h
 *
 * The worker knows what it has loaded, the state what it should have. Both lists are in the order of the ids.
 */
#include "front/adapter_page.h"

#include <string.h>

#include "wire/adapter_files.h"

static json_t *find(const json_t *list, json_int_t id)
{
    json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (json_integer_value(json_object_get(one, "id")) == id)
            return one;
    }
    return NULL;
}

/* An adapter that the worker has. */
static json_t *loaded(json_t *listed, const hth_live_adapter *live)
{
    json_t *one = json_copy(listed);
    const char *sha256 = json_string_value(json_object_get(one, "sha256"));
    bool is_good = json_object_set_new(one, "configured", json_boolean(!live)) == 0 &&
                   json_object_set_new(one, "loaded", json_true()) == 0;

    if (is_good && live)
        is_good =
            json_object_set_new(one, "replaced",
                                json_boolean(sha256 && live->sha256[0] && strcmp(sha256, live->sha256) != 0)) == 0;
    if (is_good)
        return one;
    json_decref(one);
    return NULL;
}

/* An adapter that the worker should have. listed NULL: the worker's list does not have it. */
static json_t *lost(const json_t *listed, const hth_adapter_state *state, const hth_live_adapter *live, bool has_worker)
{
    const char *slash = strrchr(live->file, '/'), *why = json_string_value(json_object_get(listed, "error"));

    if (!why)
        why = has_worker ? "the worker does not have it" : "the model has no worker now";
    return json_pack("{s:I, s:s, s:s, s:f, s:b, s:b, s:s}", "id", (json_int_t)live->id, "name", live->name, "path",
                     slash ? slash + 1 : live->file, "scale", (double)hth_adapter_state_scale_of(state, live),
                     "configured", 0, "loaded", 0, "error", why);
}

/* NULL without memory. */
static json_t *adapters(const hth_adapter_state *state, const json_t *list)
{
    json_t *out = json_array(), *one;
    bool is_good = out != NULL;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (is_good && json_integer_value(json_object_get(one, "id")) < HTH_LIVE_ID_MIN)
            is_good = json_array_append_new(out, loaded(one, NULL)) == 0;
    }
    for (i = 0; is_good && state && i < state->n_loaded; i++) {
        const hth_live_adapter *live = &state->loaded[i];

        one = find(list, live->id);
        is_good = json_array_append_new(out, one && !json_object_get(one, "error")
                                                 ? loaded(one, live)
                                                 : lost(one, state, live, list != NULL)) == 0;
    }
    if (is_good)
        return out;
    json_decref(out);
    return NULL;
}

json_t *hth_adapter_page(const char *model, const char *directory, const hth_adapter_state *state, const json_t *list)
{
    size_t n_entries;
    json_t *files = hth_adapter_files_list(directory, &n_entries);

    return json_pack("{s:s, s:s?, s:o, s:o, s:I}", "model", model, "lora_dir", directory, "adapters",
                     adapters(state, list), "files", files, "n_entries", (json_int_t)n_entries);
}
