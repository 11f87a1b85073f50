/*
 * admin_models.c - /admin/models: the workers, as JSON
 *
 * Texts of the engine come from a worker's memory. A text that is not valid UTF-8 is shown as null.
 */
#include "front/admin_models.h"

#include <stdio.h>
#include <string.h>

#include "api/json_values.h"
#include "wire/needs_text.h"

enum { GROUP_BYTES = 32 }; /* of one name in hth_worker_fact.group */

/* The text of a field of fixed size. */
#define TEXT_OF(field) hth_json_text(field, strnlen(field, sizeof(field)))

/* NULL for zeros, which mean unknown. */
static json_t *hex_json(const uint8_t bytes[32])
{
    static const uint8_t zeros[32];

    return memcmp(bytes, zeros, sizeof(zeros)) == 0 ? NULL : hth_json_hex(bytes, sizeof(zeros));
}

json_t *hth_admin_count_json(uint64_t value)
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
                     hth_admin_count_json(info->file_bytes), "n_params", hth_admin_count_json(info->n_params), "n_ctx",
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
            !set(group_of(worker, fact->group), fact->name, hth_admin_count_json(hth_worker_fact_value(fact, view))))
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
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o*, s:[]}", "host_bytes",
        hth_admin_count_json(hth_needs_host_bytes(needs)), "weight_bytes",
        hth_admin_count_json(memory->host.weight_bytes), "repacked_bytes", hth_admin_count_json(memory->repacked_bytes),
        "cell_bytes", hth_admin_count_json(memory->host.cell_bytes), "compute_bytes",
        hth_admin_count_json(memory->host.compute_bytes), "process_bytes", hth_admin_count_json(needs->process_bytes),
        "n_ctx", (json_int_t)needs->n_ctx, "fit", fit_json(&needs->fit), "devices");
    json_t *devices = json_object_get(object, "devices");

    for (size_t i = 0; i < memory->n_devices; i++) {
        const hth_engine_device_share *device = &memory->devices[i];
        json_t *one = json_pack("{s:o*, s:o, s:o, s:o, s:o, s:o}", "name", TEXT_OF(device->name), "weight_bytes",
                                hth_admin_count_json(device->share.weight_bytes), "cell_bytes",
                                hth_admin_count_json(device->share.cell_bytes), "compute_bytes",
                                hth_admin_count_json(device->share.compute_bytes), "free_bytes",
                                hth_admin_count_json(device->free_bytes), "total_bytes",
                                hth_admin_count_json(device->total_bytes));

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
    if (view->leaves_in_ms < UINT64_MAX && !set(object, "leaves_in_ms", hth_admin_count_json(view->leaves_in_ms)))
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
    json_t *limit = pool->limit_bytes < UINT64_MAX ? hth_admin_count_json(pool->limit_bytes) : NULL;

    return json_pack("{s:o*, s:o*, s:o, s:o, s:b}", "name", name, "limit_bytes", limit, "used_bytes",
                     hth_admin_count_json(pool->used_bytes), "pinned_bytes", hth_admin_count_json(pool->pinned_bytes),
                     "pinned_over_commit", pool->pinned_over_commit);
}

/* NULL without memory. */
static json_t *memory_json(const hth_supervisor_memory *memory)
{
    json_t *object = pool_json(&memory->pools[0]), *devices = json_array();

    if (!set(object, "devices", devices))
        goto failed;
    if (!set(object, "rows",
             json_pack("{s:o, s:o}", "limit_bytes", hth_admin_count_json(memory->rows_limit_bytes), "used_bytes",
                       hth_admin_count_json(memory->rows_bytes))))
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
