/*
 * worker_adapters.c - see worker_adapters.h
 *
 * A reply that continues in another worker needs the adapters that it began with. So the digest that tells whether a
 * worker can continue it covers them.
 */
#include "server/worker_adapters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "models/model.h"

enum { SCALES_BYTES_MAX = 64 << 10 };

/* ---- of a request ---- */

bool hth_task_choose_adapters(hth_task *task)
{
    hearth_request *request = &task->request->options;
    const char *name = task->request->model;
    uint8_t digest[32];
    hearth_status status;
    hearth_error err;
    size_t n = 0;

    memcpy(task->digest, task->model_digest, sizeof(task->digest));
    if (request->adapters) {
        n = request->n_adapters;
    } else {
        if (!name || !hth_model_adapters(task->model, name, task->adapters, &n))
            (void)hth_model_adapters(task->model, NULL, task->adapters, &n); /* of a model that is unloaded: none */
        request->adapters = task->adapters;
        request->n_adapters = n;
    }
    if (n == 0)
        return true;
    status = hth_model_adapters_digest(task->model, request->adapters, n, digest, &err);
    if (status == HEARTH_MISUSE || status == HEARTH_NOT_FOUND)
        hth_api_fail(&task->error, HTH_API_INVALID_VALUE, "lora", "%s; GET /lora-adapters lists them", err.message);
    else if (status != HEARTH_OK)
        hth_api_fail_status(&task->error, &err);
    if (status != HEARTH_OK)
        return false;
    for (size_t i = 0; i < sizeof(task->digest); i++)
        task->digest[i] ^= digest[i];
    return true;
}

/* ---- /lora-adapters ---- */

/* Folders stay private. */
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

static void refuse(hth_http_exchange *exchange, hth_api_error_kind kind, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, kind, NULL, "%s", message);
    hth_job_reply_error(exchange, HTH_API_NATIVE, &error);
}

void hth_worker_show_adapters(hearth_model *model, hth_http_exchange *exchange)
{
    hearth_adapter *adapters = calloc(HTH_ADAPTERS_MAX, sizeof(*adapters));
    hth_buffer body = { .text = NULL };
    json_t *list = json_array();
    hearth_error err;
    size_t n = 0;

    if (adapters)
        adapters[0].struct_size = sizeof(*adapters);
    if (!adapters || !list) {
        refuse(exchange, HTH_API_OVERLOADED, "no memory for the list of adapters");
    } else if (hearth_adapters_list(model, adapters, HTH_ADAPTERS_MAX, &n, &err) != HEARTH_OK) {
        refuse(exchange, HTH_API_OVERLOADED, err.message);
    } else {
        for (size_t i = 0; i < n; i++)
            json_array_append_new(list, adapter_json(&adapters[i]));
        hth_buffer_add_json_take(&body, json_incref(list));
        if (body.failed)
            hth_http_abort(exchange);
        else
            hth_http_reply(exchange, 200, "application/json", hth_buffer_text(&body), body.n);
    }
    hth_buffer_deinit(&body);
    json_decref(list);
    free(adapters);
}

/* One element of the body: {"id": 0, "scale": 0.5}. */
static bool read_scale(const json_t *element, hearth_adapter_scale *out)
{
    const json_t *id = json_object_get(element, "id"), *scale = json_object_get(element, "scale");

    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > UINT32_MAX ||
        !json_is_number(scale) || fabs(json_number_value(scale)) >= 0x1p31)
        return false;
    *out = (hearth_adapter_scale){ (uint32_t)json_integer_value(id), (float)json_number_value(scale) };
    return true;
}

void hth_worker_scale_adapters(hearth_model *model, hth_http_exchange *exchange)
{
    static const char done[] = "{\"success\":true}";
    hearth_adapter_scale scales[HTH_ADAPTERS_MAX];
    size_t n_bytes, n;
    const char *bytes = hth_http_body(exchange, &n_bytes);
    json_t *list =
        bytes && n_bytes <= SCALES_BYTES_MAX ? json_loadb(bytes, n_bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
    hearth_error err;
    bool ok = json_is_array(list) && json_array_size(list) <= HTH_ADAPTERS_MAX;

    n = ok ? json_array_size(list) : 0;
    for (size_t i = 0; i < n && ok; i++)
        ok = read_scale(json_array_get(list, i), &scales[i]);
    json_decref(list);
    if (!ok)
        refuse(exchange, HTH_API_INVALID_VALUE,
               "the body must be an array, of at most 64 KiB, of at most 64 objects with the id of an adapter and its "
               "scale, a number: "
               "[{\"id\": 0, \"scale\": 0.5}]");
    else if (hearth_adapters_scale(model, scales, n, &err) != HEARTH_OK)
        refuse(exchange, err.status == HEARTH_CANCELLED ? HTH_API_OVERLOADED : HTH_API_INVALID_VALUE, err.message);
    else
        hth_http_reply(exchange, 200, "application/json", done, sizeof(done) - 1);
}
