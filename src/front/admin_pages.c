/*
 * admin_pages.c - see admin_pages.h
 *
 * Texts of the engine come from a worker's memory. A text that is not valid UTF-8 is shown as null.
 */
#include "front/admin_pages.h"

#include <stdio.h>
#include <string.h>

#include "api/json_values.h"
#include "wire/adapter_files.h"
#include "wire/needs_text.h"

/* ---- /admin/models: the workers ---- */

enum { GROUP_BYTES = 32 }; /* of one name in hth_worker_fact.group */

/* The text of a field of fixed size. */
#define TEXT_OF(field) hth_json_text(field, strnlen(field, sizeof(field)))

/* NULL for zeros, which mean unknown. */
static json_t *hex_json(const uint8_t bytes[32])
{
    static const uint8_t zeros[32];

    return memcmp(bytes, zeros, sizeof(zeros)) == 0 ? NULL : hth_json_hex(bytes, sizeof(zeros));
}

/* A number as JSON; at most INT64_MAX. NULL without memory. */
static json_t *count_json(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Set a member. False without memory; a NULL object or value means that, too. */
static bool set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

#define TEXT(field) TEXT_OF(info->field)

static json_t *model_json(const hearth_model_info *info)
{
    return json_pack("{s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:b, s:b, s:o*, s:o*}",
                     "architecture", TEXT(architecture), "description", TEXT(description), "quant_type",
                     TEXT(quant_type), "chat_template_kind", TEXT(chat_template_kind), "file_bytes",
                     count_json(info->file_bytes), "n_params", count_json(info->n_params), "n_ctx",
                     (json_int_t)info->n_ctx, "n_ctx_train", (json_int_t)info->n_ctx_train, "n_vocab",
                     (json_int_t)info->n_vocab, "block_tokens", (json_int_t)info->block_tokens, "rows_are_blocks",
                     info->rows_are_blocks, "deterministic", info->deterministic, "generates", info->generates,
                     "embeds", info->embeds, "ranks", info->ranks, "fingerprint", hex_json(info->fingerprint),
                     "ctx_params_hash", hex_json(info->ctx_params_hash));
}

/* The object of a group such as "cache.ram". Makes a missing one. NULL without memory. */
static json_t *group_of(json_t *worker, const char *group)
{
    json_t *object = worker;

    while (object && *group) {
        int n = (int)strcspn(group, ".");
        char name[GROUP_BYTES];
        json_t *inner;

        (void)snprintf(name, sizeof(name), "%.*s", n, group);
        inner = json_object_get(object, name);
        if (!inner && json_object_set_new(object, name, json_object()) == 0)
            inner = json_object_get(object, name);
        object = inner;
        group += n + (group[n] == '.');
    }
    return object;
}

static bool set_facts(json_t *worker, const hth_worker_view *view)
{
    for (size_t i = 0; i < HTH_WORKER_FACTS; i++) {
        const hth_worker_fact *fact = &hth_worker_facts[i];

        if (fact->group && (view->status.has_numbers || !fact->is_of_process) &&
            !set(group_of(worker, fact->group), fact->name, count_json(hth_worker_fact_value(fact, view))))
            return false;
    }
    return true;
}

/* The choice of --fit; NULL: none, or no memory. */
static json_t *fit_json(const hth_model_fit *fit)
{
    return fit->n_ctx_max > 0 ? json_pack("{s:I, s:I, s:I}", "n_ctx_max", (json_int_t)fit->n_ctx_max, "n_layers",
                                          (json_int_t)fit->n_layers, "n_layers_max", (json_int_t)fit->n_layers_max)
                              : NULL;
}

/* The memory needs according to the metadata of the model's file. NULL without memory. */
static json_t *needs_json(const hth_model_needs *needs)
{
    const hth_engine_needs *memory = &needs->memory;
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o*, s:[]}", "host_bytes", count_json(hth_needs_host_bytes(needs)),
        "weight_bytes", count_json(memory->host.weight_bytes), "repacked_bytes", count_json(memory->repacked_bytes),
        "cell_bytes", count_json(memory->host.cell_bytes), "compute_bytes", count_json(memory->host.compute_bytes),
        "process_bytes", count_json(needs->process_bytes), "n_ctx", (json_int_t)needs->n_ctx, "fit",
        fit_json(&needs->fit), "devices");
    json_t *devices = json_object_get(object, "devices");

    for (size_t i = 0; i < memory->n_devices; i++) {
        const hth_engine_device_share *device = &memory->devices[i];
        json_t *one =
            json_pack("{s:o*, s:o, s:o, s:o, s:o, s:o}", "name", TEXT_OF(device->name), "weight_bytes",
                      count_json(device->share.weight_bytes), "cell_bytes", count_json(device->share.cell_bytes),
                      "compute_bytes", count_json(device->share.compute_bytes), "free_bytes",
                      count_json(device->free_bytes), "total_bytes", count_json(device->total_bytes));

        if (json_array_append_new(devices, one) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* Set the members that exist in some states only, and the numbers. */
static bool set_state(json_t *object, const hth_worker_view *view)
{
    const hearth_model_info *info = &view->status.info;

    if (view->pid > 0 && !set(object, "pid", json_integer(view->pid)))
        return false;
    if (view->state == HTH_WORKER_STARTING && !set(object, "load_progress", json_real((double)view->load_progress)))
        return false;
    if (view->is_hashing && !set(object, "hash_progress", json_real((double)view->load_progress)))
        return false;
    if ((view->state == HTH_WORKER_WAITING || view->state == HTH_WORKER_BROKEN) &&
        !set(object, "restart_in_ms", json_integer(view->restart_in_ms)))
        return false;
    if (view->last_death[0] && !set(object, "last_death", TEXT_OF(view->last_death)))
        return false;
    if ((view->is_pinned || view->is_host_pinned) &&
        !set(object, "pin", json_string(view->is_pinned ? "device" : "host")))
        return false;
    if (!set(object, "pinned", json_boolean(view->is_pinned)) || !set(object, "closed", json_boolean(view->is_closed)))
        return false;
    if (view->leaves_in_ms < UINT64_MAX && !set(object, "leaves_in_ms", count_json(view->leaves_in_ms)))
        return false;
    if (view->needs.n_ctx > 0 && !set(object, "expected", needs_json(&view->needs)))
        return false;
    if (!set_facts(object, view))
        return false;
    return !view->status.has_numbers ||
           (set(object, "model", model_json(info)) && set(group_of(object, "scheduler"), "strategy", TEXT(strategy)) &&
            set(group_of(object, "scheduler"), "evaluating_ms", json_real((double)view->status.tick_ns / 1e6)));
}

static json_t *worker_json(const hth_worker_view *view)
{
    json_t *object = json_pack("{s:s, s:s, s:s}", "name", view->model, "state", hth_worker_state_name(view->state),
                               "residency", hth_residency_name(view->residency));

    if (object && set_state(object, view))
        return object;
    json_decref(object);
    return NULL;
}

/* Memory of all models on the host or a device. A missing limit is omitted. */
static json_t *pool_json(const hth_supervisor_pool *pool)
{
    json_t *name = pool->name[0] ? TEXT_OF(pool->name) : NULL;
    json_t *limit = pool->limit_bytes < UINT64_MAX ? count_json(pool->limit_bytes) : NULL;

    return json_pack("{s:o*, s:o*, s:o, s:o, s:b}", "name", name, "limit_bytes", limit, "used_bytes",
                     count_json(pool->used_bytes), "pinned_bytes", count_json(pool->pinned_bytes), "pinned_over_commit",
                     pool->pinned_over_commit);
}

/* NULL without memory. */
static json_t *memory_json(const hth_supervisor_memory *memory)
{
    json_t *object = pool_json(&memory->pools[0]), *devices = json_array();

    if (!set(object, "devices", devices))
        goto failed;
    if (!set(object, "rows",
             json_pack("{s:o, s:o}", "limit_bytes", count_json(memory->rows_limit_bytes), "used_bytes",
                       count_json(memory->rows_bytes))))
        goto failed;
    for (size_t k = 1; k < memory->n; k++)
        if (json_array_append_new(devices, pool_json(&memory->pools[k])) != 0)
            goto failed;
    return object;
failed:
    json_decref(object);
    return NULL;
}

json_t *hth_admin_models_json(const hth_supervisor *supervisor, bool is_draining, size_t n_requests,
                              const hth_http_numbers *http)
{
    const hth_supervisor_memory memory = hth_supervisor_memory_of(supervisor);
    json_t *page = json_pack("{s:s, s:b, s:I, s:I, s:o, s:[]}", "version", hearth_version(), "draining", is_draining,
                             "requests", (json_int_t)n_requests, "connections", (json_int_t)http->n_connections,
                             "memory", memory_json(&memory), "models");
    json_t *models = json_object_get(page, "models");
    hth_worker_view view;

    for (size_t i = 0; models && i < hth_supervisor_n(supervisor); i++) {
        hth_supervisor_view(supervisor, i, &view);
        if (json_array_append_new(models, worker_json(&view)) != 0)
            models = NULL;
    }
    if (models)
        return page;
    json_decref(page);
    return NULL;
}

/*
 * ---- /admin/config: the options under their names in the configuration file, with the command lines of workers ----
 *
 * A key appears with its name and limits only. Its digest would help to guess the key, and with its salt other parties
 * could compute the keys of the tenant's rows.
 */

static json_t *address_json(const hth_server_address *address)
{
    char text[512];

    if (address->path)
        (void)snprintf(text, sizeof(text), "unix:%s", address->path); /* paths of sockets are short */
    else if (address->host)
        (void)snprintf(text, sizeof(text), strchr(address->host, ':') ? "[%s]:%u" : "%s:%u", address->host,
                       address->port);
    else
        return json_null();
    return hth_json_string(text);
}

static json_t *options_of_model_json(const hth_admin *admin, const hth_server_model *model)
{
    json_t *worker = hth_json_strings(model->worker, SIZE_MAX), *rules, *object;
    size_t n = json_array_size(worker);

    /* The array has the same indexes as the list. The value after the secret option is hidden. */
    for (size_t i = 0; i + 1 < n; i++)
        if (strcmp(model->worker[i], HTH_SERVER_SECRET_OPTION) == 0 &&
            json_array_set_new(worker, i + 1, json_string("(secret)")) != 0) {
            json_decref(worker);
            return NULL;
        }
    object = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "name", hth_json_string(model->name), "worker", worker, "ram",
                       count_json(model->ram_bytes), "aliases", hth_json_strings(model->aliases, model->n_aliases),
                       "adapters", hth_json_strings(model->adapters, model->n_adapters), "tags",
                       hth_json_strings(model->tags, model->n_tags));
    rules = admin->json.rules(&model->rules);
    if (json_object_update_missing(object, rules) != 0) { /* also fails if one of them is NULL */
        json_decref(object);
        object = NULL;
    }
    json_decref(rules);
    return object;
}

static json_t *key_json(const hth_server_key *key)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:o}", "name", hth_json_string(key->name), "models",
                     hth_json_strings(key->models, key->n_models), "requests_per_minute",
                     count_json(key->requests_per_minute), "tokens_per_minute", count_json(key->tokens_per_minute),
                     "concurrency", count_json(key->concurrency), "has_salt", key->salt != NULL, "admin", key->is_admin,
                     "expires", key->expires_s ? count_json((uint64_t)key->expires_s) : json_null());
}

/* Options whose form differs from the configuration file; for lists, one entry for each element. */
static json_t *lists_json(const hth_admin *admin)
{
    const hth_server_options *options = admin->options;
    json_t *page = json_pack("{s:[], s:[], s:[]}", "models", "listen", "keys");
    bool is_good = page != NULL;

    for (size_t i = 0; is_good && i < options->n_models; i++)
        is_good = json_array_append_new(json_object_get(page, "models"),
                                        options_of_model_json(admin, &options->models[i])) == 0;
    for (size_t i = 0; is_good && i < options->n_listen; i++)
        is_good = json_array_append_new(json_object_get(page, "listen"), address_json(&options->listen[i])) == 0;
    for (size_t i = 0; is_good && i < options->n_keys; i++)
        is_good = json_array_append_new(json_object_get(page, "keys"), key_json(&options->keys[i])) == 0;
    if (is_good && json_object_set_new(page, "admin", address_json(&options->admin)) == 0)
        return page;
    json_decref(page);
    return NULL;
}

void hth_admin_write_options(const hth_admin *admin, hth_buffer *out)
{
    json_t *page = lists_json(admin), *rest = admin->json.server(admin->options);

    if (!page || json_object_update_missing(page, rest) != 0) {
        json_decref(page);
        page = NULL;
    }
    json_decref(rest);
    hth_buffer_add_json_take(out, page);
    hth_buffer_add_text(out, "\n");
}

/*
 * ---- the adapters of a model ----
 *
 * The worker knows what it has loaded, the state what it should have. Both lists are in the order of the ids.
 */

static json_t *find_adapter(const json_t *list, json_int_t id)
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
static json_t *loaded_json(json_t *listed, const hth_live_adapter *live)
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
static json_t *lost_json(const json_t *listed, const hth_adapter_state *state, const hth_live_adapter *live,
                         bool has_worker)
{
    const char *slash = strrchr(live->file, '/'), *why = json_string_value(json_object_get(listed, "error"));

    if (!why)
        why = has_worker ? "the worker does not have it" : "the model has no worker now";
    return json_pack("{s:I, s:s, s:s, s:f, s:b, s:b, s:s}", "id", (json_int_t)live->id, "name", live->name, "path",
                     slash ? slash + 1 : live->file, "scale", (double)hth_adapter_state_scale_of(state, live),
                     "configured", 0, "loaded", 0, "error", why);
}

/* NULL without memory. */
static json_t *adapters_json(const hth_adapter_state *state, const json_t *list)
{
    json_t *out = json_array(), *one;
    bool is_good = out != NULL;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (is_good && json_integer_value(json_object_get(one, "id")) < HTH_LIVE_ID_MIN)
            is_good = json_array_append_new(out, loaded_json(one, NULL)) == 0;
    }
    for (i = 0; is_good && state && i < state->n_loaded; i++) {
        const hth_live_adapter *live = &state->loaded[i];

        one = find_adapter(list, live->id);
        is_good = json_array_append_new(out, one && !json_object_get(one, "error")
                                                 ? loaded_json(one, live)
                                                 : lost_json(one, state, live, list != NULL)) == 0;
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
                     adapters_json(state, list), "files", files, "n_entries", (json_int_t)n_entries);
}
