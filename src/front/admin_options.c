/*
 * admin_options.c - /admin/config: the front's options, under their names in the configuration file; with the command
 * lines of workers, and keys without secrets
 *
 * A key appears with its name and limits only. Its digest would help to guess the key, and with its salt other parties
 * could compute the keys of the tenant's rows.
 */
#include "front/admin.h"

#include <stdio.h>
#include <string.h>

#include "api/json_values.h"
#include "front/admin_models.h"

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

static json_t *model_json(const hth_admin *admin, const hth_server_model *model)
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
    object =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "name", hth_json_string(model->name), "worker", worker, "ram",
                  hth_admin_count_json(model->ram_bytes), "aliases", hth_json_strings(model->aliases, model->n_aliases),
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
                     hth_admin_count_json(key->requests_per_minute), "tokens_per_minute",
                     hth_admin_count_json(key->tokens_per_minute), "concurrency",
                     hth_admin_count_json(key->concurrency), "has_salt", key->salt != NULL, "admin", key->is_admin,
                     "expires", key->expires_s ? hth_admin_count_json((uint64_t)key->expires_s) : json_null());
}

/* Options whose form differs from the configuration file; for lists, one entry for each element. */
static json_t *lists_json(const hth_admin *admin)
{
    const hth_server_options *options = admin->options;
    json_t *page = json_pack("{s:[], s:[], s:[]}", "models", "listen", "keys");
    bool is_good = page != NULL;

    for (size_t i = 0; is_good && i < options->n_models; i++)
        is_good = json_array_append_new(json_object_get(page, "models"), model_json(admin, &options->models[i])) == 0;
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
