/*
 * front_adapters.c - orders about adapters: list, load, unload, set scales
 *
 *   1. read the order; it waits in the queue of its model, because a change builds on the result of the last one
 *   2. check the names against the options in force, and make the model's new state (adapter_state.h)
 *   3. send the whole state to the model's worker, which loads and unloads
 *   4. when the worker has accepted, keep the state in the supervisor: every later worker starts with it
 *
 * A worker that dies in step 3 has accepted nothing: the state stays as it was, and the next worker starts with that.
 * An order goes on when its client leaves, or got a time-out error while the worker was busy with it. A list changes
 * nothing, and waits in no queue.
 */
#include <event2/event.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "api/fields.h"
#include "api/peek.h"
#include "base/os.h"
#include "base/status.h"
#include "front/front_request.h"
#include "front/model_names.h"
#include "wire/frames.h"

enum {
    REPLY_BYTES_MAX = 1 << 20,
    WAITING_MAX = 64, /* of a model */
    LIMIT_MS_MIN = 1000,
};

typedef enum order_kind {
    ORDER_LIST,
    ORDER_LOAD,
    ORDER_UNLOAD,
    ORDER_SCALE,  /* of one adapter */
    ORDER_SCALES, /* of all of them */
} order_kind;

struct hth_adapter_order {
    hth_front *front;
    hth_front_request *r; /* NULL: the client left */
    order_kind kind;
    char model[sizeof(((hth_front_request *)NULL)->model)];
    hth_live_adapter adapter;                      /* LOAD; UNLOAD and SCALE use its name, SCALE its scale */
    hearth_adapter_scale scales[HTH_ADAPTERS_MAX]; /* SCALES: [n_scales] */
    size_t n_scales;
    bool is_begun, is_repeated;
    hth_adapter_state state; /* the worker's new state */
    hth_buffer body;
    hth_worker_waiter waiter;
    hth_upstream_call *call; /* NULL: none */
    struct event *limit;     /* of the wait in the queue, and then for the worker's answer */
    uint64_t generation;     /* of the worker that has the order */
    uint64_t after;          /* of the last worker that failed the order: a later one is needed; 0: none */
    int status;              /* of its reply */
    hth_buffer reply;
    hth_adapter_order *next;
};

static void work(hth_front *front);

/* ---- ends ---- */

static void order_free(hth_adapter_order *o)
{
    hth_worker_waiter_cancel(&o->waiter);
    hth_upstream_cancel(o->call);
    if (o->limit)
        event_free(o->limit);
    hth_buffer_deinit(&o->body);
    hth_buffer_deinit(&o->reply);
    free(o);
}

/* End the order: the client has its answer, or left. */
static void end(hth_adapter_order *o)
{
    hth_front *front = o->front;

    LL_DELETE(front->orders, o);
    order_free(o);
    work(front);
}

static void refuse(hth_adapter_order *o, const hth_api_error *error)
{
    hth_front_request *r = o->r;

    o->r = NULL;
    if (r)
        hth_front_request_refuse(r, error, NULL);
    else
        hth_info(&o->front->log, "model '%s': an order about its adapters failed: %s", o->model, error->message);
    end(o);
}

__attribute__((format(printf, 3, 4))) static void refuse_with(hth_adapter_order *o, hth_api_error_kind kind,
                                                              const char *format, ...)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    va_list arguments;

    va_start(arguments, format);
    hth_api_fail_list(&error, kind, NULL, format, arguments);
    va_end(arguments);
    refuse(o, &error);
}

/* ---- limits ---- */

static uint32_t limit_ms(const hth_front *front)
{
    const uint32_t ms = front->options->options->relay.wait_timeout_ms;

    return ms > LIMIT_MS_MIN ? ms : LIMIT_MS_MIN;
}

static void limit_begin(hth_adapter_order *o)
{
    const uint32_t ms = limit_ms(o->front);
    const struct timeval time = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * (suseconds_t)1000 };

    (void)event_add(o->limit, &time); /* if it fails, there is no time limit */
}

/* A list, and an order in the queue, have changed nothing and end. An order at the worker may still succeed. */
static void on_limit(evutil_socket_t fd, short what, void *user_data)
{
    hth_adapter_order *o = user_data;
    const double seconds = limit_ms(o->front) / 1e3;
    hth_front_request *r = o->r;

    (void)fd;
    (void)what;
    if (!o->is_begun) {
        refuse_with(o, HTH_API_TIMED_OUT,
                    "the order waited %g s for an earlier one about the adapters of model '%s'; it changed nothing; "
                    "if the earlier one never ends, restart the model",
                    seconds, o->model);
    } else if (o->kind == ORDER_LIST) {
        refuse_with(o, HTH_API_TIMED_OUT,
                    "the worker of model '%s' has not answered within %g s; it may be busy with files", o->model,
                    seconds);
    } else if (r) {
        o->r = NULL;
        hth_front_request_fail(r, NULL, HTH_API_TIMED_OUT,
                               "the worker of model '%s' has not answered within %g s; it may still carry out the "
                               "order: GET /admin/models/NAME/adapters shows it",
                               o->model, seconds);
    }
}

static void on_gone(void *user_data)
{
    hth_adapter_order *o = user_data;
    hth_front_request *r = o->r;

    o->r = NULL;
    hth_front_request_gone(r);
    if (o->kind == ORDER_LIST)
        end(o);
}

void hth_front_orders_free(hth_front *front)
{
    hth_adapter_order *o, *next;

    LL_FOREACH_SAFE(front->orders, o, next)
    order_free(o);
    front->orders = NULL;
}

/* ---- 2. the new state of a model ---- */

static bool is_name(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
    return *text;
}

/* The model for which another order loads an adapter of this name now; NULL: none. */
static const char *loading_owner(const hth_adapter_order *o)
{
    for (const hth_adapter_order *other = o->front->orders; other; other = other->next)
        if (other != o && other->is_begun && other->kind == ORDER_LOAD &&
            strcmp(other->adapter.name, o->adapter.name) == 0)
            return other->model;
    return NULL;
}

static void plan_load(hth_adapter_order *o, const hth_server_model *model, hth_api_error *error)
{
    const char *name = o->adapter.name, *owner = loading_owner(o);
    const hth_server_model *other =
        hth_model_called(o->front->options->options, name, hth_supervisor_adapter_owner(o->front->supervisor, name));

    if (!is_name(name)) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, "name",
                     "the name of an adapter has 1 to 127 bytes, without control characters");
    } else if (other) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, "name",
                     "the name '%s' is taken: it means model '%s', or an adapter of it; give the adapter another one",
                     name, other->name);
    } else if (owner) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, "name",
                     "an adapter '%s' is being loaded for model '%s'; give this one another name", name, owner);
    } else if (model->n_adapters + o->state.n_loaded >= HTH_ADAPTERS_MAX) {
        hth_api_fail(error, HTH_API_INVALID_VALUE, NULL,
                     "model '%s' has %d adapters, which is as many as can be loaded; unload one first", model->name,
                     HTH_ADAPTERS_MAX);
    } else {
        if (o->adapter.id == 0) /* otherwise it has one from the first plan */
            o->adapter.id = HTH_LIVE_ID_MIN + o->front->n_adapters++;
        o->state.added = o->adapter.id;
        o->state.loaded[o->state.n_loaded++] = o->adapter;
    }
}

static bool is_configured(const hth_server_model *model, const char *name, uint32_t *id_out)
{
    for (size_t i = 0; i < model->n_adapters; i++)
        if (strcmp(model->adapters[i], name) == 0) {
            *id_out = (uint32_t)i;
            return true;
        }
    return false;
}

/* Find the adapter that the order names. */
static void plan_named(hth_adapter_order *o, const hth_server_model *model, hth_api_error *error)
{
    const hth_live_adapter *live = hth_adapter_state_find(&o->state, o->adapter.name);
    uint32_t id = 0;

    if (!live && !is_configured(model, o->adapter.name, &id))
        hth_api_fail(error, HTH_API_NOT_FOUND, "name", "model '%s' has no adapter '%.128s'", model->name,
                     o->adapter.name);
    else if (o->kind == ORDER_SCALE)
        (void)hth_adapter_state_scale(&o->state, live ? live->id : id, o->adapter.scale); /* there is room for all */
    else if (!live)
        hth_api_fail(error, HTH_API_INVALID_VALUE, "name",
                     "the adapter '%s' is one of the configuration: take it out of 'lora' of model '%s', and reload",
                     o->adapter.name, model->name);
    else
        hth_adapter_state_drop(&o->state, live->id);
}

/* Every adapter gets a scale: adapters that the order does not name get 0. */
static void plan_scales(hth_adapter_order *o, const hth_server_model *model, hth_api_error *error)
{
    size_t n_known = model->n_adapters + o->state.n_loaded;

    o->state.n_scales = 0;
    for (size_t i = 0; i < n_known; i++) /* they fit */
        (void)hth_adapter_state_scale(
            &o->state, i < model->n_adapters ? (uint32_t)i : o->state.loaded[i - model->n_adapters].id, 0);
    for (size_t i = 0; i < o->n_scales; i++) {
        for (size_t j = 0; j < i; j++)
            if (o->scales[j].id == o->scales[i].id)
                hth_api_fail(error, HTH_API_INVALID_VALUE, NULL, "adapter %u is named twice; give it one scale",
                             o->scales[i].id);
        if (!hth_adapter_state_scale(&o->state, o->scales[i].id, o->scales[i].scale) || o->state.n_scales > n_known) {
            hth_api_fail(error, HTH_API_INVALID_VALUE, NULL, "there is no adapter %u; %zu are loaded", o->scales[i].id,
                         n_known);
            return;
        }
    }
}

/*
 * False with error. An order is planned when it begins, so that an invalid one starts no worker, and again when it is
 * sent, because a reload may have changed the model.
 */
static bool plan(hth_adapter_order *o, hth_api_error *error)
{
    const hth_server_model *model = hth_model_exactly(o->front->options->options, o->model);
    const hth_adapter_state *state = hth_supervisor_adapters(o->front->supervisor, o->model);

    hth_buffer_deinit(&o->body);
    if (!model) {
        hth_api_fail(error, HTH_API_NOT_FOUND, NULL, "there is no model '%s' here", o->model);
        return false;
    }
    o->state = state ? *state : (hth_adapter_state){ .n_loaded = 0 };
    switch (o->kind) {
    case ORDER_LIST: return true;
    case ORDER_LOAD: plan_load(o, model, error); break;
    case ORDER_UNLOAD:
    case ORDER_SCALE: plan_named(o, model, error); break;
    case ORDER_SCALES: plan_scales(o, model, error); break;
    }
    hth_adapter_state_write(&o->state, &o->body);
    if (o->body.failed)
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for the adapters of model '%s'", o->model);
    return error->kind == HTH_API_NO_ERROR;
}

/* ---- 4. answers ---- */

/* list: the worker's list; NULL: none. */
static void answer(hth_adapter_order *o, const json_t *list)
{
    hth_front_request *r = o->r;
    const hth_server_model *model = hth_model_exactly(o->front->options->options, o->model);
    const char *type = "application/json";
    hth_buffer body = { .text = NULL };

    o->r = NULL;
    if (!r)
        return;
    if (r->route->kind == HTH_ROUTE_ADMIN) {
        hth_buffer_add_json_take(&body,
                                 hth_adapter_page(o->model, model ? model->adapters_directory : NULL,
                                                  hth_supervisor_adapters(o->front->supervisor, o->model), list));
        hth_buffer_add_text(&body, "\n");
    } else if (o->kind == ORDER_SCALES) {
        hth_buffer_add_text(&body, "{\"success\":true}");
    } else { /* vLLM's text */
        type = "text/plain; charset=utf-8";
        hth_buffer_add_text(&body, "Success: LoRA adapter '");
        hth_buffer_add_text(&body, o->adapter.name);
        hth_buffer_add_text(&body, o->kind == ORDER_LOAD ? "' added successfully." : "' removed successfully.");
    }
    if (body.failed)
        hth_front_request_fail(r, NULL, HTH_API_OVERLOADED, "no memory for the list of adapters");
    else
        hth_front_request_answer(r, 200, type, &body);
    hth_buffer_deinit(&body);
}

static void log_done(const hth_adapter_order *o)
{
    const hth_log *log = &o->front->log;

    if (o->kind == ORDER_LOAD)
        hth_info(log, "model '%s': the adapter '%s' is loaded from '%s'", o->model, o->adapter.name, o->adapter.file);
    else if (o->kind == ORDER_UNLOAD)
        hth_info(log, "model '%s': the adapter '%s' is unloaded", o->model, o->adapter.name);
}

static void finish(hth_adapter_order *o)
{
    json_t *reply = json_loadb(hth_buffer_text(&o->reply), o->reply.n, 0, NULL);
    const char *message = json_string_value(json_object_get(json_object_get(reply, "error"), "message"));

    hth_adapter_state_learn(&o->state, reply);
    if (o->status != 200 || !json_is_array(reply)) {
        refuse_with(o, o->status == 400 ? HTH_API_INVALID_VALUE : HTH_API_OVERLOADED, "%s",
                    message ? message : "the worker's answer cannot be read");
    } else if (o->kind != ORDER_LIST &&
               !hth_supervisor_set_adapters(o->front->supervisor, o->model, o->generation, &o->state)) {
        refuse_with(o, HTH_API_OVERLOADED,
                    "the model's worker was replaced meanwhile, and the new one has the adapters of before; try again");
    } else {
        log_done(o);
        answer(o, reply);
        end(o);
    }
    json_decref(reply);
}

/* ---- 3. the worker ---- */

static void on_head(const hth_upstream_head *head, void *user_data)
{
    hth_adapter_order *o = user_data;

    o->status = head->status;
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    hth_adapter_order *o = user_data;

    if (o->reply.n + n <= REPLY_BYTES_MAX) /* a reply that is cut is not valid JSON */
        hth_buffer_add(&o->reply, bytes, n);
    return true;
}

/* The worker is probably dead, and the supervisor may not know it yet: let the next orders wait for another worker. */
static void note_broken(const hth_adapter_order *o)
{
    for (hth_adapter_order *other = o->front->orders; other; other = other->next)
        if (!other->is_begun && strcmp(other->model, o->model) == 0)
            other->after = o->generation;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    hth_adapter_order *o = user_data;
    hearth_error unwanted;
    bool is_repeated;

    (void)err; /* of the connection */
    o->call = NULL;
    (void)event_del(o->limit);
    if (status == HEARTH_OK) {
        finish(o);
        return;
    }
    note_broken(o);
    hth_buffer_clear(&o->reply);
    is_repeated = o->is_repeated;
    hth_worker_waiter_cancel(&o->waiter);
    o->is_repeated = true; /* an adapter that kills every worker can be unloaded */
    o->waiter = (hth_worker_waiter){ .on_ready = o->waiter.on_ready,
                                     .on_failed = o->waiter.on_failed,
                                     .since_ns = hth_os_monotonic_ns() };
    if (o->kind != ORDER_UNLOAD || is_repeated ||
        hth_supervisor_want(o->front->supervisor, o->model, o->generation, &o->waiter, &unwanted) != HEARTH_OK)
        refuse_with(o, HTH_API_INTERNAL,
                    "the model's worker died with this order, or was stopped; the adapters are those of before");
}

static hth_adapter_order *order_of(hth_worker_waiter *waiter)
{
    return (hth_adapter_order *)((char *)waiter - offsetof(hth_adapter_order, waiter));
}

/* Send the planned order to the worker. */
static void send_order(hth_adapter_order *o, const char *socket_path)
{
    static const hth_upstream_header headers[] = { { "Content-Type", "application/json" }, { HTH_HEADER_LOST, "1" } };
    const hth_upstream_request request = {
        .socket_path = socket_path,
        .method = o->kind == ORDER_LIST ? "GET" : "POST",
        .target = "/lora-adapters",
        .headers = headers,
        .n_headers = sizeof(headers) / sizeof(headers[0]),
        .body = { o->body.text },
        .body_bytes = { o->body.n },
    };
    const hth_upstream_watch watch = { .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done, .user_data = o };
    hearth_error err;

    if (hth_upstream_begin(o->front->upstream, &request, &watch, &o->call, &err) != HEARTH_OK)
        refuse_with(o, HTH_API_OVERLOADED, "%s", err.message);
    else
        limit_begin(o);
}

static void on_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    hth_adapter_order *o = order_of(waiter);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    o->generation = generation;
    if (plan(o, &error))
        send_order(o, socket_path);
    else
        refuse(o, &error);
}

/* No worker comes. An adapter can be unloaded without one, because it may be the one that kills every worker. */
static void on_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    hth_adapter_order *o = order_of(waiter);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (o->kind != ORDER_UNLOAD || !plan(o, &error) ||
        !hth_supervisor_set_adapters(o->front->supervisor, o->model, 0, &o->state)) {
        hth_api_fail_order(&error, err);
        refuse(o, &error);
        return;
    }
    log_done(o);
    answer(o, NULL);
    end(o);
}

/* Is the order the first in the queue of its model? */
static bool is_first(const hth_adapter_order *o)
{
    const hth_adapter_order *other = o->front->orders;

    while (other != o && (other->kind == ORDER_LIST || strcmp(other->model, o->model) != 0))
        other = other->next;
    return other == o;
}

static hth_adapter_order *next_to_begin(const hth_front *front)
{
    hth_adapter_order *o = front->orders;

    while (o && (o->is_begun || (o->kind != ORDER_LIST && !is_first(o))))
        o = o->next;
    return o;
}

/* Begin the orders that wait for no other order. */
static void work(hth_front *front)
{
    hth_adapter_order *o;

    if (front->is_ordering)
        return; /* the loop below goes on */
    front->is_ordering = true;
    while ((o = next_to_begin(front))) {
        hth_api_error error = { .kind = HTH_API_NO_ERROR };
        hearth_error err;

        o->is_begun = true;
        (void)event_del(o->limit);
        o->waiter =
            (hth_worker_waiter){ .on_ready = on_ready, .on_failed = on_failed, .since_ns = hth_os_monotonic_ns() };
        if (!plan(o, &error))
            refuse(o, &error);
        else if (hth_supervisor_want(front->supervisor, o->model, o->after, &o->waiter, &err) != HEARTH_OK)
            refuse_with(o, HTH_API_NOT_FOUND, "%s", err.message);
    }
    front->is_ordering = false;
}

/* ---- 1. reading ---- */

/* Read the body of an order, in Hearth's or vLLM's form. */
static void read_object(hth_adapter_order *o, const char *bytes, size_t n, bool is_vllm, hth_api_error *error)
{
    static const char *const names[] = { "name", NULL };
    static const char *const load_names[] = { "name", "file", "scale", NULL };
    static const char *const scale_names[] = { "name", "scale", NULL };
    json_t *object =
        bytes && n <= HTH_ADAPTERS_JSON_BYTES_MAX ? json_loadb(bytes, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    hth_fields body = { .object = object, .error = error };

    if (!json_is_object(object)) {
        hth_api_fail(error, HTH_API_INVALID_JSON, NULL, "the body must be a JSON object of at most 64 KiB");
    } else {
        hth_fields_copy(&body, is_vllm ? "lora_name" : "name", o->adapter.name, sizeof(o->adapter.name));
        if (o->kind == ORDER_LOAD)
            hth_fields_copy(&body, is_vllm ? "lora_path" : "file", o->adapter.file, sizeof(o->adapter.file));
        if (o->kind == ORDER_SCALE)
            hth_fields_require(&body, "scale");
        if (!is_vllm && o->kind != ORDER_UNLOAD)
            hth_fields_float(&body, "scale", -HTH_ADAPTER_SCALE_MAX, HTH_ADAPTER_SCALE_MAX, &o->adapter.scale);
        if (!is_vllm) /* clients of vLLM send fields that change nothing here */
            hth_fields_rest(&body, o->kind == ORDER_LOAD ? load_names : o->kind == ORDER_SCALE ? scale_names : names);
    }
    json_decref(object);
}

/* A new order; NULL with error. */
static hth_adapter_order *order_new(hth_front_request *r, order_kind kind, hth_api_error *error)
{
    hth_adapter_order *o = calloc(1, sizeof(*o));
    size_t n = 0;
    const char *bytes = hth_http_body(r->exchange, &n);

    if (!o) {
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for an order about adapters");
        return NULL;
    }
    o->front = r->front;
    o->r = r;
    o->kind = kind;
    o->limit = evtimer_new(r->front->base, on_limit, o);
    if (!o->limit)
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for an order about adapters");
    else if (kind == ORDER_SCALES)
        (void)hth_adapter_scales_read(bytes, n, o->scales, &o->n_scales, error); /* error has the reason */
    else if (kind != ORDER_LIST)
        read_object(o, bytes, n, r->route->kind != HTH_ROUTE_ADMIN, error);
    if (error->kind == HTH_API_NO_ERROR)
        return o;
    order_free(o);
    return NULL;
}

/* Add an order for the request to the queue. */
static void begin(hth_front_request *r, order_kind kind, const char *model)
{
    hth_front *front = r->front;
    hth_adapter_order *o;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    int n_waiting = 0;

    LL_FOREACH(front->orders, o)
    n_waiting += (o->kind == ORDER_LIST) == (kind == ORDER_LIST) && strcmp(o->model, model) == 0;
    if (n_waiting >= WAITING_MAX)
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL,
                     "%d orders about the adapters of model '%.128s' wait; try again in a moment", n_waiting, model);
    o = n_waiting < WAITING_MAX ? order_new(r, kind, &error) : NULL;
    if (!o) {
        hth_front_request_refuse(r, &error, NULL);
        return;
    }
    (void)snprintf(o->model, sizeof(o->model), "%s", model); /* names are never longer */
    (void)snprintf(r->model, sizeof(r->model), "%s", model);
    hth_http_watch_set(r->exchange, &(hth_http_watch){ .on_close = on_gone, .user_data = o });
    LL_APPEND(front->orders, o);
    limit_begin(o);
    work(front);
}

bool hth_front_administer_adapters(hth_front_request *r)
{
    static const char prefix[] = "/admin/models/";
    static const struct {
        const char *end;
        const char *method;
        order_kind kind;
    } pages[] = {
        { "/adapters", "GET", ORDER_LIST },
        { "/adapters/load", "POST", ORDER_LOAD },
        { "/adapters/unload", "POST", ORDER_UNLOAD },
        { "/adapters/scale", "POST", ORDER_SCALE },
    };

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        char model[sizeof(r->model) + 1];
        size_t n;

        if (!hth_path_has_name(r->path, prefix, pages[i].end, &n))
            continue;
        (void)snprintf(model, sizeof(model), "%.*s", (int)n,
                       r->path + sizeof(prefix) - 1); /* a name that is cut is longer than any model's name */
        if (!hth_method_is(pages[i].method, r->method))
            hth_front_request_refuse_method(r, pages[i].method);
        else if (hth_front_request_check_body(r))
            begin(r, pages[i].kind, model);
        return true;
    }
    return false;
}

void hth_front_scale_adapters(hth_front_request *r)
{
    if (hth_front_choose_model(r))
        begin(r, ORDER_SCALES, r->model);
}

void hth_front_load_adapter(hth_front_request *r)
{
    if (hth_front_choose_model(r))
        begin(r, ORDER_LOAD, r->model);
}

void hth_front_unload_adapter(hth_front_request *r)
{
    const hth_server_options *options = r->options->options;
    const hth_server_model *model = NULL;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_peeked peeked;
    size_t n = 0;
    const char *body = hth_http_body(r->exchange, &n), *owner;

    (void)hth_api_peek_as(body ? body : "", n, "lora_name", &peeked); /* the order is parsed again later */
    owner = hth_supervisor_adapter_owner(r->front->supervisor, peeked.model);
    for (size_t i = 0; i < options->n_models && !model; i++)
        if (hth_model_has_adapter(&options->models[i], peeked.model, owner))
            model = &options->models[i];
    if (model || !peeked.has_model) {
        begin(r, ORDER_UNLOAD, model ? model->name : "");
        return;
    }
    hth_api_fail(&error, HTH_API_NOT_FOUND, "lora_name", "there is no adapter '%.128s' here", peeked.model);
    hth_front_request_refuse(r, &error, NULL);
}

/* ---- a reload ---- */

/* Is the name of the model's adapter unused by other models, aliases and adapters of these options? False with err. */
static bool is_name_free(const hth_server_options *options, const char *model, const char *adapter, hearth_error *err)
{
    const hth_server_model *other = hth_model_called(options, adapter, NULL);

    if (!other)
        return true;
    (void)hth_fail(err, HEARTH_MISUSE,
                   "the name '%s' would mean model '%s', or an adapter of it; it is an adapter that was loaded for "
                   "model '%s': unload it first",
                   adapter, other->name, model); /* false reports it */
    return false;
}

/* May the model keep the adapters in its state and those that orders are loading now? */
static bool fits(const hth_front *front, const hth_server_options *options, const hth_server_model *model,
                 const hth_adapter_state *state, hearth_error *err)
{
    size_t n = model->n_adapters;

    for (size_t i = 0; state && i < state->n_loaded; i++, n++)
        if (!is_name_free(options, model->name, state->loaded[i].name, err))
            return false;
    for (const hth_adapter_order *o = front->orders; o; o = o->next) {
        if (!o->is_begun || o->kind != ORDER_LOAD || strcmp(o->model, model->name) != 0)
            continue; /* others are checked when they begin */
        if (!is_name_free(options, model->name, o->adapter.name, err))
            return false;
        n++;
    }
    if (n <= HTH_ADAPTERS_MAX)
        return true;
    (void)hth_fail(err, HEARTH_MISUSE,
                   "model '%s' would have %zu adapters, with those that were loaded while the server runs, and at most "
                   "%d can be loaded: unload some first",
                   model->name, n, HTH_ADAPTERS_MAX); /* false reports it */
    return false;
}

bool hth_front_adapters_fit(hth_front *front, const hth_server_options *options, hearth_error *err)
{
    for (size_t i = 0; i < options->n_models; i++) {
        const hth_server_model *model = &options->models[i],
                               *old = hth_model_exactly(front->options->options, model->name);

        if (old && old->adapters_directory && model->adapters_directory &&
            strcmp(old->adapters_directory, model->adapters_directory) == 0 && /* otherwise its adapters are removed */
            !fits(front, options, model, hth_supervisor_adapters(front->supervisor, model->name), err))
            return false;
    }
    return true;
}
