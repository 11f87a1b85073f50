/*
 * worker_adapters.c - see worker_adapters.h
 *
 * A reply that continues in another worker needs the adapters that it began with. So the digest that tells whether a
 * worker can continue it covers them.
 */
#include "worker/worker_adapters.h"

#include <string.h>

#include "models/model.h"
#include "worker/worker_live_adapters.h"

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
        bool is_named = name && hth_model_adapters(task->model, name, task->adapters, &n);

        if (!is_named && name && task->names_adapter) { /* a name outside the body only chooses the model */
            hth_api_fail(&task->error, HTH_API_NOT_FOUND, "model",
                         "the adapter '%.128s' is not loaded any more; GET /v1/models lists the models that there are",
                         name);
            return false;
        }
        if (!is_named)
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

static void refuse(hth_http_exchange *exchange, hth_api_error_kind kind, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, kind, NULL, "%s", message);
    hth_job_reply_error(exchange, HTH_API_NATIVE, &error);
}

void hth_worker_show_adapters(const hth_live_adapters *live, hearth_model *model, hth_http_exchange *exchange)
{
    hth_buffer body = { .text = NULL };
    hearth_error err;

    if (hth_adapters_write(live, model, &body, &err) != HEARTH_OK)
        refuse(exchange, HTH_API_OVERLOADED, err.message);
    else if (body.failed)
        hth_http_abort(exchange);
    else
        hth_http_reply(exchange, 200, "application/json", hth_buffer_text(&body), body.n);
    hth_buffer_deinit(&body);
}
