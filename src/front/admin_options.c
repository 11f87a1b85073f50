/*
 * admin_options.c - /admin/config: the front's options, under their names in the configuration file; models with their
 * workers' command lines, keys without secrets
 *
 * A key appears with its name and limits only. Its digest would help to guess the key; with its salt, others could
 * compute the keys of the tenant's rows.
 */
#include "front/admin.h"

#include <stdio.h>
#include <string.h>

#include "front/admin_models.h"

/* Set a member. False without memory; a NULL value counts as one that could not be made. */
static bool set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

/* A text; null for NULL and for a text that is not UTF-8. */
static json_t *text_json(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;

    return value ? value : json_null();
}

/* The first n texts as an array, or those before a NULL. Pass SIZE_MAX for lists that end with NULL. */
static json_t *texts_json(const char *const *texts, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < n && texts && texts[i]; i++) {
        if (json_array_append_new(array, text_json(texts[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

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
    return text_json(text);
}

static json_t *model_json(const hth_server_model *model)
{
    json_t *worker = texts_json(model->worker, SIZE_MAX);
    size_t n = json_array_size(worker);

    /* The array has the same indexes as the list. The value behind the secret option is hidden. */
    for (size_t i = 0; i + 1 < n; i++)
        if (strcmp(model->worker[i], HTH_SERVER_SECRET_OPTION) == 0 &&
            json_array_set_new(worker, i + 1, json_string("(secret)")) != 0) {
            json_decref(worker);
            return NULL;
        }
    return json_pack("{s:o, s:o, s:o, s:s, s:b, s:o, s:o, s:o, s:o}", "name", text_json(model->name), "worker", worker,
                     "ram", hth_admin_count_json(model->ram_bytes), "start", model->on_demand ? "on-demand" : "at-once",
                     "pinned", model->is_pinned, "unload_after_ms", hth_admin_count_json(model->unload_after_ms),
                     "aliases", texts_json(model->aliases, model->n_aliases), "adapters",
                     texts_json(model->adapters, model->n_adapters), "tags", texts_json(model->tags, model->n_tags));
}

static json_t *key_json(const hth_server_key *key)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:o}", "name", text_json(key->name), "models",
                     texts_json(key->models, key->n_models), "requests_per_minute",
                     hth_admin_count_json(key->requests_per_minute), "tokens_per_minute",
                     hth_admin_count_json(key->tokens_per_minute), "concurrency",
                     hth_admin_count_json(key->concurrency), "has_salt", key->salt != NULL, "admin", key->is_admin,
                     "expires", key->expires_s ? hth_admin_count_json((uint64_t)key->expires_s) : json_null());
}

static json_t *limits_json(const hth_server_options *options)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "headers_bytes_max",
        hth_admin_count_json(options->headers_bytes_max), "body_bytes_max",
        hth_admin_count_json(options->body_bytes_max), "bodies_bytes_max",
        hth_admin_count_json(options->bodies_bytes_max), "json_depth_max",
        hth_admin_count_json(options->json_depth_max), "messages_max", hth_admin_count_json(options->messages_max),
        "schema_bytes_max", hth_admin_count_json(options->schema_bytes_max), "unknown_fields",
        options->unknown_fields == HTH_UNKNOWN_REFUSE ? "refuse" : "pass", "normalize",
        options->normalize == HTH_NORMALIZE_OFF ? "off" : "on", "connections_max",
        hth_admin_count_json(options->connections_max), "requests_max", hth_admin_count_json(options->requests_max),
        "idle_timeout_ms", hth_admin_count_json(options->idle_timeout_ms), "request_timeout_ms",
        hth_admin_count_json(options->request_timeout_ms), "write_timeout_ms",
        hth_admin_count_json(options->write_timeout_ms));
}

static json_t *responses_json(const hth_server_options *options)
{
    return json_pack("{s:o, s:o, s:o}", "directory", text_json(options->responses_directory), "bytes_max",
                     hth_admin_count_json(options->responses_bytes_max), "days_max",
                     hth_admin_count_json(options->responses_days_max));
}

static json_t *supervision_json(const hth_server_options *options)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "runtime_directory",
                     text_json(options->runtime_directory), "healthy_ms", hth_admin_count_json(options->healthy_ms),
                     "hang_ms", hth_admin_count_json(options->hang_ms), "start_timeout_ms",
                     hth_admin_count_json(options->start_timeout_ms), "wait_timeout_ms",
                     hth_admin_count_json(options->wait_timeout_ms), "drain_timeout_ms",
                     hth_admin_count_json(options->drain_timeout_ms), "retries_max",
                     hth_admin_count_json(options->retries_max), "no_sandbox", options->no_sandbox);
}

static json_t *residency_json(const hth_server_options *options)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "mode",
                     options->residency_mode == HTH_RESIDENCY_EXTERNAL ? "external" : "automatic", "memory",
                     hth_admin_count_json(options->memory_bytes), "device_memory",
                     hth_admin_count_json(options->device_memory_bytes), "ram",
                     hth_admin_count_json(hth_server_ram_total(options)), "models_max",
                     hth_admin_count_json(options->models_max), "turn_ms", hth_admin_count_json(options->turn_ms),
                     "stay_ms", hth_admin_count_json(options->stay_ms));
}

json_t *hth_admin_pressure_json(const hth_pressure_settings *settings)
{
    const hth_pressure_marks *marks = &settings->marks;

    return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o}", "off", settings->is_off, "high_percent",
                     hth_admin_count_json(marks->high_percent), "low_percent", hth_admin_count_json(marks->low_percent),
                     "stall_percent", hth_admin_count_json(marks->stall_percent), "min_evict_bytes",
                     hth_admin_count_json(marks->evict_bytes_min), "poll_ms", hth_admin_count_json(settings->poll_ms));
}

static json_t *pressure_json(const hth_server_options *options)
{
    json_t *page = hth_admin_pressure_json(&options->pressure);

    if (page && set(page, "nvidia_smi", json_boolean(options->pressure_nvidia_smi)) &&
        set(page, "command", text_json(options->pressure_command)) &&
        set(page, "library", text_json(options->pressure_library)))
        return page;
    json_decref(page);
    return NULL;
}

static json_t *streams_json(const hth_server_options *options)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "keep_alive_ms", hth_admin_count_json(options->keep_alive_ms),
                     "linger_ms", hth_admin_count_json(options->linger_ms), "keep_ms",
                     hth_admin_count_json(options->stream_keep_ms), "bytes_max",
                     hth_admin_count_json(options->stream_bytes_max), "total_bytes_max",
                     hth_admin_count_json(options->streams_bytes_max));
}

static json_t *log_json(const hth_server_options *options)
{
    static const char *const formats[] = { "auto", "text", "json" };
    static const char *const levels[] = { "error", "warning", "info", "debug" };

    return json_pack("{s:s, s:s, s:o, s:b, s:b}", "format", formats[options->log_format], "level",
                     levels[options->log_level], "file", text_json(options->log_file), "no_access_log",
                     options->no_access_log, "prompts", options->log_prompts);
}

/* Lists of options, one entry for each element. */
static json_t *lists_json(const hth_server_options *options)
{
    json_t *page = json_pack("{s:[], s:[], s:[]}", "models", "listen", "keys");
    bool is_good = page != NULL;

    for (size_t i = 0; is_good && i < options->n_models; i++)
        is_good = json_array_append_new(json_object_get(page, "models"), model_json(&options->models[i])) == 0;
    for (size_t i = 0; is_good && i < options->n_listen; i++)
        is_good = json_array_append_new(json_object_get(page, "listen"), address_json(&options->listen[i])) == 0;
    for (size_t i = 0; is_good && i < options->n_keys; i++)
        is_good = json_array_append_new(json_object_get(page, "keys"), key_json(&options->keys[i])) == 0;
    if (is_good)
        return page;
    json_decref(page);
    return NULL;
}

void hth_admin_write_options(const hth_server_options *options, hth_buffer *out)
{
    json_t *page = lists_json(options);

    if (page &&
        !(set(page, "admin", address_json(&options->admin)) &&
          set(page, "tls",
              json_pack("{s:o, s:o}", "certificate", text_json(options->tls_certificate), "key",
                        text_json(options->tls_key))) &&
          set(page, "cors",
              json_pack("{s:o}", "origins", texts_json(options->cors_origins, options->n_cors_origins))) &&
          set(page, "limits", limits_json(options)) && set(page, "responses", responses_json(options)) &&
          set(page, "default", text_json(options->default_model)) &&
          set(page, "supervision", supervision_json(options)) && set(page, "residency", residency_json(options)) &&
          set(page, "pressure", pressure_json(options)) && set(page, "streams", streams_json(options)) &&
          set(page, "log", log_json(options)) && set(page, "props", json_boolean(options->allows_props)) &&
          set(page, "no_slots", json_boolean(options->no_slots)) && set(page, "no_ui", json_boolean(options->no_ui)) &&
          set(page, "models_dir", text_json(options->models_folder)) &&
          set(page, "models_dir_names",
              text_json(options->models_folder_names == HTH_FOLDER_NAMES_METADATA ? "metadata" : "file")) &&
          set(page, "slot_save_path", text_json(options->slot_directory)) &&
          set(page, "slot_save_bytes_max", hth_admin_count_json(options->slot_bytes_max)) &&
          set(page, "allow_public_without_keys", json_boolean(options->allow_public_without_keys)))) {
        json_decref(page);
        page = NULL;
    }
    hth_buffer_add_json_take(out, page);
    hth_buffer_add_text(out, "\n");
}
