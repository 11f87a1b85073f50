#include "fleet/node_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_values.h"
#include "base/json_bounds.h"
#include "base/status.h"

enum {
    DEPTH_MAX = 8,
    VALUES_MAX = 1 << 20,
    COUNT_MAX = 1 << 20, /* of requests */
    TOKENS_MAX = 1 << 30,
    TOKEN_NS_MAX = 2000000000,
    LOAD_MS_MAX = 3600000,
    TEXT_BYTES_MAX = 256, /* of a name */
};

bool hth_node_name_is_valid(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t n = strlen(name);

    return n > 0 && n < HTH_NODE_NAME_BYTES && strspn(name, allowed) == n;
}

/* ---- writing ---- */

static json_t *model_json(const hth_node_model *model)
{
    return json_pack("{s:s, s:o, s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "name", model->name,
                     "aliases", hth_json_strings(model->aliases, model->n_aliases), "adapters",
                     hth_json_strings(model->adapters, model->n_adapters), "digest", model->digest, "keyspace",
                     model->keyspace ? model->keyspace : "", "state",
                     model->is_ready    ? "ready"
                     : model->is_broken ? "broken"
                                        : "absent",
                     "at_work", (json_int_t)model->n_at_work, "waiting", (json_int_t)model->n_waiting, "parallel",
                     (json_int_t)model->n_parallel, "prompt_left", (json_int_t)model->n_prompt_left, "prompt_token_ns",
                     (json_int_t)model->prompt_token_ns, "reply_token_ns", (json_int_t)model->reply_token_ns, "load_ms",
                     (json_int_t)model->load_ms, "pull_token_ns", (json_int_t)model->pull_token_ns, "history",
                     model->has_history);
}

void hth_node_page_write(const hth_node_page *page, hth_buffer *out)
{
    json_t *models = json_array();
    bool ok = models != NULL;

    for (size_t i = 0; i < page->n_models && i < HTH_NODE_MODELS_MAX && ok; i++)
        ok = json_array_append_new(models, model_json(&page->models[i])) == 0;
    hth_buffer_add_json_take(out, ok ? json_pack("{s:i, s:s, s:s, s:s, s:s, s:b, s:O}", "protocol", HTH_FLEET_PROTOCOL,
                                                 "version", page->version, "name", page->name, "epoch", page->epoch,
                                                 "cache", page->cache, "draining", page->is_draining, "models", models)
                                     : NULL);
    json_decref(models);
}

/* ---- reading ---- */

static const char *text_of(const json_t *object, const char *key, size_t n_max)
{
    const json_t *value = json_object_get(object, key);

    return json_is_string(value) && json_string_length(value) <= n_max ? json_string_value(value) : NULL;
}

/* A number that is missing, or above max, is 0. */
static uint32_t number_of(const json_t *object, const char *key, json_int_t max)
{
    const json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 && value <= max ? (uint32_t)value : 0;
}

static uint32_t count_of(const json_t *object, const char *key)
{
    return number_of(object, key, COUNT_MAX);
}

/* Texts of an array that are short enough, at *at, which moves behind them. Returns their number. */
static size_t list_of(const json_t *object, const char *key, const char ***at)
{
    const json_t *array = json_object_get(object, key);
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(array) && n < HTH_NODE_NAMES_MAX; i++) {
        const json_t *value = json_array_get(array, i);

        if (!json_is_string(value) || json_string_length(value) == 0 || json_string_length(value) > TEXT_BYTES_MAX)
            continue;
        *(*at)++ = json_string_value(value);
        n++;
    }
    return n;
}

static size_t n_names(const json_t *models)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(models); i++) {
        const json_t *model = json_array_get(models, i);

        n += json_array_size(json_object_get(model, "aliases")) + json_array_size(json_object_get(model, "adapters"));
    }
    return n;
}

/* False: the object is no model. */
static bool read_model(const json_t *object, const char ***names, hth_node_model *out)
{
    const char *state = text_of(object, "state", TEXT_BYTES_MAX);

    *out = (hth_node_model){ .name = text_of(object, "name", TEXT_BYTES_MAX),
                             .digest = text_of(object, "digest", TEXT_BYTES_MAX),
                             .keyspace = text_of(object, "keyspace", TEXT_BYTES_MAX),
                             .is_ready = state && strcmp(state, "ready") == 0,
                             .is_broken = state && strcmp(state, "broken") == 0,
                             .has_history = json_is_true(json_object_get(object, "history")),
                             .n_at_work = count_of(object, "at_work"),
                             .n_waiting = count_of(object, "waiting"),
                             .n_parallel = count_of(object, "parallel"),
                             .n_prompt_left = number_of(object, "prompt_left", TOKENS_MAX),
                             .prompt_token_ns = number_of(object, "prompt_token_ns", TOKEN_NS_MAX),
                             .reply_token_ns = number_of(object, "reply_token_ns", TOKEN_NS_MAX),
                             .load_ms = number_of(object, "load_ms", LOAD_MS_MAX),
                             .pull_token_ns = number_of(object, "pull_token_ns", TOKEN_NS_MAX) };
    if (!out->name || !*out->name)
        return false;
    if (!out->digest)
        out->digest = "";
    if (!out->keyspace)
        out->keyspace = "";
    out->aliases = *names;
    out->n_aliases = list_of(object, "aliases", names);
    out->adapters = *names;
    out->n_adapters = list_of(object, "adapters", names);
    return true;
}

static hearth_status read_models(const json_t *models, hth_node_page *out, hearth_error *err)
{
    const size_t n = json_array_size(models);
    const char **at;

    if (!json_is_array(models) || n > HTH_NODE_MODELS_MAX)
        return hth_fail(err, HEARTH_CORRUPT, "its list of models is missing, or has more than %d", HTH_NODE_MODELS_MAX);
    out->models = calloc(n + 1, sizeof(*out->models));
    out->names = calloc(n_names(models) + 1, sizeof(*out->names));
    if (!out->models || !out->names)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the page of a node");
    at = out->names;
    for (size_t i = 0; i < n; i++)
        out->n_models += read_model(json_array_get(models, i), &at, &out->models[out->n_models]);
    return HEARTH_OK;
}

static hearth_status read_page(const json_t *json, hth_node_page *out, hearth_error *err)
{
    const char *name = text_of(json, "name", HTH_NODE_NAME_BYTES - 1), *version = text_of(json, "version", 31),
               *epoch = text_of(json, "epoch", HTH_NODE_EPOCH_BYTES - 1),
               *cache = text_of(json, "cache", HTH_NODE_EPOCH_BYTES - 1);

    out->protocol = number_of(json, "protocol", INT32_MAX);
    (void)snprintf(out->version, sizeof(out->version), "%s", version ? version : "?"); /* these fit */
    if (name && hth_node_name_is_valid(name))
        (void)snprintf(out->name, sizeof(out->name), "%s", name);
    if (epoch)
        (void)snprintf(out->epoch, sizeof(out->epoch), "%s", epoch);
    (void)snprintf(out->cache, sizeof(out->cache), "%s", cache ? cache : out->epoch);
    if (out->protocol == 0)
        return hth_fail(err, HEARTH_CORRUPT, "it names no protocol");
    if (out->protocol != HTH_FLEET_PROTOCOL)
        return hth_fail(
            err, HEARTH_UNSUPPORTED,
            "it speaks protocol %u of fleets (Hearth %s), and this node %d; install the same version on both",
            out->protocol, out->version, HTH_FLEET_PROTOCOL);
    if (!out->name[0] || !out->epoch[0])
        return hth_fail(err, HEARTH_CORRUPT, "it has no name or no epoch");
    out->is_draining = json_is_true(json_object_get(json, "draining"));
    return read_models(json_object_get(json, "models"), out, err);
}

hearth_status hth_node_page_read(const char *bytes, size_t n, hth_node_page *out, hearth_error *err)
{
    hearth_status status;

    memset(out, 0, sizeof(*out));
    if (n <= HTH_NODE_PAGE_BYTES_MAX && hth_json_is_within(bytes, n, DEPTH_MAX, VALUES_MAX))
        out->json = json_loadb(bytes, n, 0, NULL);
    status = json_is_object(out->json) ? read_page(out->json, out, err)
                                       : hth_fail(err, HEARTH_CORRUPT, "its page is no object of JSON");
    if (status == HEARTH_OK)
        return status;
    json_decref(out->json);
    free(out->models);
    free((void *)out->names);
    out->json = NULL;
    out->models = NULL;
    out->names = NULL;
    out->n_models = 0;
    return status;
}

void hth_node_page_deinit(hth_node_page *page)
{
    json_decref(page->json);
    free(page->models);
    free((void *)page->names);
    memset(page, 0, sizeof(*page));
}
