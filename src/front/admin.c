/*
 * admin.c - the pages of operators, and the choice of the one that answers
 *
 * An order may end the process or change the options. So the reply is sent first if possible, and no code here uses the
 * front afterwards.
 *
 * Texts of the engine come from a worker's memory. A text that is not valid UTF-8 is shown as null.
 */
#include "front/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "api/json_values.h"
#include "api/sse.h"
#include "front/model_names.h"
#include "http/routes.h"
#include "wire/needs_text.h"

enum { ORDER_BYTES_MAX = 65536 };

static const char content_type_json[] = "application/json";

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

/* ---- answers ---- */

static void reply_error(hth_http_exchange *exchange, hth_api_dialect dialect, const hth_api_error *error)
{
    hth_buffer out = { .text = NULL };

    hth_api_error_write(dialect, error, &out);
    hth_http_reply(exchange, hth_api_error_http_status(dialect, error), content_type_json, hth_buffer_text(&out),
                   out.n);
    hth_buffer_deinit(&out);
}

/* Send body and release it. */
static void reply_take(hth_http_exchange *exchange, int status, const char *content_type, hth_buffer *body)
{
    if (body->failed) {
        hth_api_error error = { .kind = HTH_API_NO_ERROR };

        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "no memory for the page");
        reply_error(exchange, HTH_API_OPENAI, &error);
    } else {
        hth_http_reply(exchange, status, content_type, hth_buffer_text(body), body->n);
    }
    hth_buffer_deinit(body);
}

/* Send a page and release it. */
static void reply_json_take(hth_http_exchange *exchange, int status, json_t *page)
{
    hth_buffer out = { .text = NULL };

    hth_buffer_add_json_take(&out, page);
    hth_buffer_add_text(&out, "\n");
    reply_take(exchange, status, content_type_json, &out);
}

static void reply_no_memory(hth_http_exchange *exchange)
{
    reply_take(exchange, 503, content_type_json, &(hth_buffer){ .failed = true });
}

static void reply_status(hth_http_exchange *exchange, int status, const char *word)
{
    char body[64];
    int n = snprintf(body, sizeof(body), "{\"status\":\"%s\"}\n", word); /* fits: the words are from this file */

    hth_http_reply(exchange, status, content_type_json, body, (size_t)n);
}

/* Does the request have this method? False: it was answered with an error. */
static bool has_method(hth_http_exchange *exchange, hth_api_dialect dialect, const char *method)
{
    const char *given = hth_http_method(exchange);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (hth_method_is(method, given))
        return true;
    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "'%s' takes %s, not %s", hth_http_path(exchange), method, given);
    hth_http_header_add(exchange, "Allow", strcmp(method, "GET") == 0 ? "GET, HEAD" : method);
    error.status = 405;
    reply_error(exchange, dialect, &error);
    return false;
}

/* ---- /health and /ready ---- */

static void reply_unavailable(hth_http_exchange *exchange, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%s", message);
    reply_error(exchange, HTH_API_NATIVE, &error);
}

/* Append to a message that may be cut. */
static void append(char *message, size_t capacity, const char *text)
{
    size_t n = strlen(message);

    (void)snprintf(message + n, capacity - n, "%s%s", n > 0 ? "; " : "", text);
}

static void say_broken(const hth_worker_view *view, char *message, size_t capacity)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "model '%.100s' is broken: its worker died too often; next start in %u s",
                   view->model, (view->restart_in_ms + 999) / 1000);
    append(message, capacity, text);
}

/* Is the model, which starts with the server, still loading for the first time? A broken one does not count. */
static bool is_first_start(const hth_admin *admin, const hth_worker_view *view)
{
    const hth_server_model *model;

    if (view->was_ready || view->state == HTH_WORKER_BROKEN ||
        (view->state == HTH_WORKER_STOPPED && (!view->is_awaited || view->waits_for_room || view->n_starts > 0)))
        return false; /* it was unloaded, has no room, or left before it was ready */
    model = hth_model_exactly(admin->options, view->model);
    return model && model->rules.start == HTH_START_AT_ONCE;
}

static void say_first_start(const hth_worker_view *view, char *message, size_t capacity)
{
    char text[256];

    if (view->last_death[0])
        (void)snprintf(text, sizeof(text), "model '%.100s' could not be loaded yet, and is tried again", view->model);
    else
        (void)snprintf(text, sizeof(text), "model '%.100s' is being loaded: %.0f %%", view->model,
                       100.0 * (double)view->load_progress);
    append(message, capacity, text);
}

/* 503 until the first model is ready, because clients of llama-server wait for that; then 503 if a model is broken. */
static void answer_health(const hth_admin *admin, hth_http_exchange *exchange)
{
    char broken[512] = "", loading[512] = "";
    bool was_any_ready = false;
    hth_worker_view view;

    for (size_t i = 0; i < hth_supervisor_n(admin->supervisor); i++) {
        hth_supervisor_view(admin->supervisor, i, &view);
        was_any_ready |= view.was_ready;
        if (view.state == HTH_WORKER_BROKEN)
            say_broken(&view, broken, sizeof(broken));
        else if (is_first_start(admin, &view))
            say_first_start(&view, loading, sizeof(loading));
    }
    if (broken[0])
        reply_unavailable(exchange, broken);
    else if (loading[0] && !was_any_ready)
        reply_unavailable(exchange, loading);
    else
        reply_status(exchange, 200, "ok");
}

static void answer_ready(const hth_admin *admin, hth_http_exchange *exchange)
{
    char message[512] = "";
    hth_worker_view view;
    size_t n = hth_supervisor_n(admin->supervisor), n_broken = 0;

    for (size_t i = 0; i < n && !admin->is_draining; i++) {
        hth_supervisor_view(admin->supervisor, i, &view);
        n_broken += view.state == HTH_WORKER_BROKEN;
        if (is_first_start(admin, &view))
            say_first_start(&view, message, sizeof(message));
    }
    if (admin->is_draining)
        reply_unavailable(exchange, "the server is stopping: it takes no more requests");
    else if (message[0])
        reply_unavailable(exchange, message);
    else if (n > 0 && n_broken == n)
        reply_unavailable(exchange, "every model is broken; /health says more");
    else
        reply_status(exchange, 200, "ready");
}

bool hth_admin_answer_public(const hth_admin *admin, hth_http_exchange *exchange)
{
    const char *path = hth_http_path(exchange);
    bool is_ready = strcmp(path, "/ready") == 0;

    if (!is_ready && strcmp(path, "/health") != 0 && strcmp(path, "/v1/health") != 0)
        return false;
    if (!has_method(exchange, HTH_API_NATIVE, "GET"))
        return true;
    if (is_ready)
        answer_ready(admin, exchange);
    else
        answer_health(admin, exchange);
    return true;
}

/* ---- pages ---- */

static void answer_metrics(const hth_admin *admin, hth_http_exchange *exchange)
{
    hth_http_numbers numbers = hth_http_server_numbers(admin->http);
    hth_buffer out = { .text = NULL };

    hth_metrics_write(admin->metrics, admin->supervisor, &numbers, &out);
    hth_pressure_watch_write_metrics(admin->pressure, &out);
    if (admin->fleet_metrics)
        admin->fleet_metrics(admin->user_data, &out);
    reply_take(exchange, 200, HTH_METRICS_CONTENT_TYPE, &out);
}

static void answer_config(const hth_admin *admin, hth_http_exchange *exchange)
{
    hth_buffer out = { .text = NULL };

    hth_admin_write_options(admin, &out);
    reply_take(exchange, 200, content_type_json, &out);
}

static void answer_events(const hth_admin *admin, hth_http_exchange *exchange)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (strcmp(hth_http_method(exchange), "HEAD") == 0)
        hth_http_reply(exchange, 200, HTH_SSE_CONTENT_TYPE, NULL, 0);
    else if (!hth_event_feed_listen(admin->feed, exchange, &error))
        reply_error(exchange, HTH_API_OPENAI, &error);
}

/* ---- orders ---- */

static void answer_drain(const hth_admin *admin, hth_http_exchange *exchange)
{
    void (*drain)(void *user_data) = admin->is_draining ? NULL : admin->drain;
    void *user_data = admin->user_data;

    reply_status(exchange, 202, "draining");
    if (drain)
        drain(user_data);
}

static void answer_reload(const hth_admin *admin, hth_http_exchange *exchange)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hearth_error err = { .status = HEARTH_OK };

    if (admin->reload(admin->user_data, &err)) {
        reply_status(exchange, 200, "reloaded");
        return;
    }
    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "the configuration stays as it was: %s", err.message);
    reply_error(exchange, HTH_API_OPENAI, &error);
}

/* The names of settings that differ from the configuration; a new array. */
static json_t *ordered_json(json_t *settings, const json_t *configured)
{
    json_t *array = json_array();

    for (void *at = json_object_iter(settings); at; at = json_object_iter_next(settings, at))
        if (!json_equal(json_object_iter_value(at), json_object_get(configured, json_object_iter_key(at))))
            (void)json_array_append_new(array, json_string(json_object_iter_key(at))); /* omitted without memory */
    return array;
}

/* Reply with the state and, after an order to free memory, the bytes that will be free. */
static void reply_pressure(const hth_admin *admin, hth_http_exchange *exchange, const uint64_t *freeing)
{
    json_t *settings = admin->json.pressure(hth_pressure_watch_settings(admin->pressure));
    json_t *configured = admin->json.pressure(&admin->options->pressure);
    json_t *ordered = ordered_json(settings, configured);
    json_t *page = json_pack("{s:o, s:o, s:o}", "sources", hth_pressure_watch_json(admin->pressure), "settings",
                             settings, "ordered", ordered);

    json_decref(configured);
    if (freeing)
        (void)json_object_set_new(page, "freeing", json_integer((json_int_t)*freeing)); /* omitted without memory */
    reply_json_take(exchange, freeing ? 202 : 200, page);
}

static void reply_wrong(hth_http_exchange *exchange, const char *field, const char *form)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_INVALID_VALUE, field, "the body must be a JSON object with %s", form);
    reply_error(exchange, HTH_API_OPENAI, &error);
}

/* The body, if it is a JSON object of permitted size; the caller releases it. NULL: it is not. */
static json_t *read_order(hth_http_exchange *exchange)
{
    size_t n = 0;
    const char *body = hth_http_body(exchange, &n);
    json_t *order = n > 0 && n <= ORDER_BYTES_MAX ? json_loadb(body, n, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (json_is_object(order))
        return order;
    json_decref(order);
    return NULL;
}

static void reply_refusal(hth_http_exchange *exchange, const hearth_error *err)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail_order(&error, err);
    reply_error(exchange, HTH_API_OPENAI, &error);
}

/* Settings come first, so that a wrong one changes nothing. wanted: bytes to free; NULL: none. */
static void order_pressure(const hth_admin *admin, hth_http_exchange *exchange, const json_t *settings,
                           const json_t *wanted)
{
    char *text = json_dumps(settings, JSON_COMPACT);
    hearth_error err = { .status = HEARTH_OK };
    uint64_t freeing = 0;

    if (!text) {
        reply_no_memory(exchange);
    } else if (json_object_size(settings) > 0 && admin->set_pressure(text, admin->user_data, &err) != HEARTH_OK) {
        reply_refusal(exchange, &err);
    } else {
        if (wanted)
            freeing = hth_pressure_watch_force(admin->pressure, (uint64_t)json_integer_value(wanted));
        reply_pressure(admin, exchange, wanted ? &freeing : NULL);
    }
    free(text);
}

static void answer_pressure(const hth_admin *admin, hth_http_exchange *exchange)
{
    json_t *order, *wanted;

    if (strcmp(hth_http_method(exchange), "POST") != 0) {
        reply_pressure(admin, exchange, NULL);
        return;
    }
    order = read_order(exchange);
    wanted = json_incref(json_object_get(order, "free"));
    if (json_object_size(order) == 0 || (wanted && (!json_is_integer(wanted) || json_integer_value(wanted) <= 0))) {
        reply_wrong(exchange, "free",
                    "'free', a number of bytes above 0, or settings of pressure, such as 'high_percent'");
    } else {
        (void)json_object_del(order, "free"); /* it may not be there */
        order_pressure(admin, exchange, order, wanted);
    }
    json_decref(wanted);
    json_decref(order);
}

static void answer_preload(const hth_admin *admin, hth_http_exchange *exchange)
{
    json_t *order = read_order(exchange), *page = NULL;
    const json_t *models = json_object_get(order, "models");
    const size_t n = json_array_size(models);
    const char **names = (const char **)calloc(n + 1, sizeof(char *));
    hearth_error err = { .status = HEARTH_OK };
    size_t n_names = 0;

    while (names && n_names < n && json_is_string(json_array_get(models, n_names))) {
        names[n_names] = json_string_value(json_array_get(models, n_names));
        n_names++;
    }
    if (!names || n == 0 || n_names < n)
        reply_wrong(exchange, "models", "a list of names, 'models'");
    else if (hth_supervisor_preload(admin->supervisor, names, n, &page, &err) == HEARTH_OK)
        reply_json_take(exchange, 202, page);
    else
        reply_refusal(exchange, &err);
    free((void *)names);
    json_decref(order);
}

/* Also POST /admin/fleet. */
static void answer_fleet(const hth_admin *admin, hth_http_exchange *exchange)
{
    json_t *order = read_order(exchange);
    const char *drain = json_string_value(json_object_get(order, "drain")),
               *undrain = json_string_value(json_object_get(order, "undrain")),
               *why = json_string_value(json_object_get(order, "why"));
    const json_t *body = json_object_get(order, "body");
    hearth_error err = { .status = HEARTH_OK };
    json_t *page;

    if (strcmp(hth_http_method(exchange), "POST") != 0)
        reply_json_take(exchange, 200, admin->fleet(admin->user_data));
    else if (why && json_is_string(body)) {
        page = admin->why(why, json_string_value(body), json_string_length(body), admin->user_data, &err);
        if (err.status == HEARTH_OK)
            reply_json_take(exchange, 200, page);
        else
            reply_refusal(exchange, &err);
    } else if (!drain == !undrain)
        reply_wrong(exchange, "drain", "the name of a node as 'drain' or as 'undrain', or 'why' with 'body'");
    else if (admin->drain_node(drain ? drain : undrain, drain != NULL, admin->user_data, &err) == HEARTH_OK)
        reply_status(exchange, 202, drain ? "draining" : "undraining");
    else
        reply_refusal(exchange, &err);
    json_decref(order);
}

static void answer_release_all(const hth_admin *admin, hth_http_exchange *exchange)
{
    json_t *order = read_order(exchange), *page = NULL;
    const json_t *rows = json_object_get(order, "rows");
    hearth_error err = { .status = HEARTH_OK };
    size_t n_body;

    (void)hth_http_body(exchange, &n_body);
    if ((n_body > 0 && !order) || (rows && !json_is_boolean(rows)))
        reply_wrong(exchange, "rows", "true or false for 'rows', or there must be none");
    else if (hth_supervisor_release_all(admin->supervisor, json_is_true(rows), &page, &err) == HEARTH_OK)
        reply_json_take(exchange, 202, page);
    else
        reply_refusal(exchange, &err);
    json_decref(order);
}

static void answer_compact(const hth_admin *admin, hth_http_exchange *exchange)
{
    hearth_error err = { .status = HEARTH_OK };
    json_t *page = NULL;

    if (hth_supervisor_compact(admin->supervisor, &page, &err) == HEARTH_OK)
        reply_json_take(exchange, 202, page);
    else
        reply_refusal(exchange, &err);
}

static const char of_model[] = "/admin/models/";

/* POST /admin/models/NAME/ORDER */
static const struct order {
    const char *end; /* of the path */
    const char *status;
    hearth_status (*give)(hth_supervisor *supervisor, const char *model, hearth_error *err); /* NULL: /residency */
} orders[] = {
    { "/restart", "restarting", hth_supervisor_restart },
    { "/load", "loading", hth_supervisor_load },
    { "/unload", "unloading", hth_supervisor_unload },
    { "/residency", "moving", NULL },
};

static bool read_residency(hth_http_exchange *exchange, hth_residency *out)
{
    json_t *order = read_order(exchange);
    const char *name = json_string_value(json_object_get(order, "residency"));
    const bool is_known = name && hth_residency_read(name, out);

    json_decref(order);
    return is_known;
}

/* The name may have slashes. */
static void answer_order(const hth_admin *admin, hth_http_exchange *exchange, const struct order *order,
                         const char *name, size_t n_name)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hearth_error err = { .status = HEARTH_OK };
    hth_residency residency;
    char model[512];
    hearth_status status;

    if (n_name >= sizeof(model)) {
        hth_api_fail(&error, HTH_API_NOT_FOUND, NULL, "no model has so long a name");
        reply_error(exchange, HTH_API_OPENAI, &error);
        return;
    }
    memcpy(model, name, n_name);
    model[n_name] = '\0';
    if (!order->give && !read_residency(exchange, &residency)) {
        reply_wrong(exchange, "residency", "'residency': evicted, host, device, pinned_host or pinned_device");
        return;
    }
    status = order->give ? order->give(admin->supervisor, model, &err)
                         : hth_supervisor_set_residency(admin->supervisor, model, residency, &err);
    if (status == HEARTH_OK)
        reply_status(exchange, 202, order->status);
    else
        reply_refusal(exchange, &err);
}

/* Add a model: the body has its name, and keys of a model's section. */
static void answer_name_model(const hth_admin *admin, hth_http_exchange *exchange)
{
    json_t *order = read_order(exchange), *name = json_incref(json_object_get(order, "name"));
    hearth_error err = { .status = HEARTH_OK };
    char *settings;

    (void)json_object_del(order, "name"); /* the name is checked below */
    settings = order ? json_dumps(order, JSON_COMPACT) : NULL;
    if (!json_is_string(name) || json_string_length(name) == 0)
        reply_wrong(exchange, "name", "'name', a text, and the keys of a model's section, such as 'path'");
    else if (!settings)
        reply_no_memory(exchange);
    else if (admin->name_model(json_string_value(name), settings, admin->user_data, &err) == HEARTH_OK)
        reply_status(exchange, 201, "added");
    else
        reply_refusal(exchange, &err);
    free(settings);
    json_decref(name);
    json_decref(order);
}

bool hth_admin_names_paths(const char *method, const char *path)
{
    return strcmp(method, "POST") == 0 && strcmp(path, "/admin/models") == 0;
}

/* Also POST /admin/models. */
static void answer_models(const hth_admin *admin, hth_http_exchange *exchange)
{
    const hth_http_numbers numbers = hth_http_server_numbers(admin->http);

    if (strcmp(hth_http_method(exchange), "POST") == 0)
        answer_name_model(admin, exchange);
    else
        reply_json_take(exchange, 200,
                        hth_admin_models_json(admin->supervisor, admin->is_draining, admin->n_requests, &numbers));
}

static void answer_forget(const hth_admin *admin, hth_http_exchange *exchange, const char *name)
{
    hearth_error err = { .status = HEARTH_OK };

    if (admin->forget_model(name, admin->user_data, &err) == HEARTH_OK)
        reply_status(exchange, 200, "removed");
    else
        reply_refusal(exchange, &err);
}

/* The order in the path, and the bytes of the NAME in it; NULL: the path is no order. */
static const struct order *order_of(const char *path, size_t *n_name_out)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        if (hth_path_has_name(path, of_model, orders[i].end, n_name_out))
            return &orders[i];
    return NULL;
}

bool hth_admin_answer(const hth_admin *admin, hth_http_exchange *exchange)
{
    static const struct {
        const char *path;
        const char *method;
        void (*answer)(const hth_admin *admin, hth_http_exchange *exchange);
    } pages[] = {
        { "/admin/pressure", "GET, POST", answer_pressure }, { "/metrics", "GET", answer_metrics },
        { "/admin/models", "GET, POST", answer_models },     { "/admin/config", "GET", answer_config },
        { "/admin/events", "GET", answer_events },           { "/admin/drain", "POST", answer_drain },
        { "/admin/reload", "POST", answer_reload },          { "/admin/preload", "POST", answer_preload },
        { "/admin/compact", "POST", answer_compact },        { "/admin/release_all", "POST", answer_release_all },
        { "/admin/fleet", "GET, POST", answer_fleet },
    };
    const char *path = hth_http_path(exchange);
    size_t n_name = 0;
    const struct order *order = order_of(path, &n_name);

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(path, pages[i].path) != 0)
            continue;
        if (has_method(exchange, HTH_API_OPENAI, pages[i].method))
            pages[i].answer(admin, exchange);
        return true;
    }
    if (!order && strncmp(path, of_model, sizeof(of_model) - 1) == 0 &&
        strcmp(hth_http_method(exchange), "DELETE") == 0) {
        answer_forget(admin, exchange, path + sizeof(of_model) - 1);
        return true;
    }
    if (!order)
        return false;
    if (has_method(exchange, HTH_API_OPENAI, "POST"))
        answer_order(admin, exchange, order, path + sizeof(of_model) - 1, n_name);
    return true;
}
