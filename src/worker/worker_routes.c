/*
 * worker_routes.c - see worker_routes.h
 */
#include "worker/worker_routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/ollama_answers.h"
#include "http/body_check.h"
#include "http/routes.h"
#include "wire/frames.h"
#include "worker/worker_live_adapters.h"

const char *hth_worker_protocol_error(int status, const char *why, const char *path, hth_buffer *text)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_error_kind kind = status == 413 ? HTH_API_TOO_LARGE
                            : status == 408 ? HTH_API_TIMED_OUT
                            : status == 501 ? HTH_API_UNSUPPORTED
                                            : HTH_API_INVALID_VALUE;

    hth_api_fail(&error, kind, NULL, "%s", why);
    error.status = status;
    hth_buffer_clear(text);
    hth_api_error_write(hth_path_dialect(path), &error, text);
    return text->failed ? NULL : hth_buffer_text(text);
}

/* ---- pages ---- */

/* Reply with an error whose status belongs to no hth_api_error_kind. */
static void refuse(hth_http_exchange *exchange, hth_api_dialect dialect, int status, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer body = { .text = NULL };

    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "%s", message);
    error.status = status;
    hth_api_error_write(dialect, &error, &body);
    hth_http_reply(exchange, status, "application/json", hth_buffer_text(&body), body.n);
    hth_buffer_deinit(&body);
}

static void refuse_unknown(hth_http_exchange *exchange, hth_api_dialect dialect, const char *what, const char *name)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_NOT_FOUND, NULL, "there is no %s '%.256s' here", what, name);
    hth_job_reply_error(exchange, dialect, &error);
}

static void reply_page(hth_http_exchange *exchange, int status, hth_buffer *body_take)
{
    if (body_take->failed)
        hth_http_abort(exchange);
    else
        hth_http_reply(exchange, status, "application/json", hth_buffer_text(body_take), body_take->n);
    hth_buffer_deinit(body_take);
}

/* Answer GET /lora-adapters. live NULL omits adapters that could not be loaded. */
static void show_adapters(const hth_live_adapters *live, hearth_model *model, hth_http_exchange *exchange)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer body = { .text = NULL };
    hearth_error err;

    if (hth_adapters_write(live, model, &body, &err) == HEARTH_OK) {
        reply_page(exchange, 200, &body);
        return;
    }
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%s", err.message);
    hth_job_reply_error(exchange, HTH_API_NATIVE, &error);
    hth_buffer_deinit(&body);
}

static void show(const hth_worker_self *self, hth_http_exchange *exchange, hth_route_kind kind)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_listed_model listed = {
        .name = self->name, .shown = self->shown, .created_s = self->created_s, .info = &info
    };
    hth_buffer body = { .text = NULL };
    int status = 200;

    if (self->model)
        (void)hearth_model_info_get(self->model, &info, NULL); /* cannot fail with a model */
    switch (kind) {
    case HTH_ROUTE_MODELS: hth_api_models_write(&listed, 1, &body); break;
    case HTH_ROUTE_OLLAMA_TAGS: hth_api_ollama_tags_write(&listed, 1, &body); break;
    case HTH_ROUTE_OLLAMA_PS: hth_api_ollama_ps_write(&listed, 1, &body); break;
    case HTH_ROUTE_OLLAMA_VERSION: hth_api_ollama_version_write(&body); break;
    case HTH_ROUTE_MODEL: hth_api_model_write(&listed, &body); break;
    case HTH_ROUTE_PROPS:
        hth_api_props_write(self->model, &info, self->shown, self->file, self->defaults, &body);
        break;
    case HTH_ROUTE_SLOTS:
        hth_jobs_slots_write(self->jobs, &info, hth_http_header(exchange, HTH_HEADER_SALT), &body);
        break;
    default: status = hth_api_health_write(self->problem, &body); break;
    }
    reply_page(exchange, status, &body);
}

/* ---- requests ---- */

/* The reason why the body cannot be read; NULL: it can. */
static const char *body_problem(hth_http_exchange *exchange, const hth_route *route, char text[128])
{
    const char *known = hth_http_header(exchange, HTH_HEADER_KNOWN), *past = hth_http_header(exchange, HTH_HEADER_PAST);
    size_t n_before = (known ? strtoul(known, NULL, 10) : 0) + (past ? strtoul(past, NULL, 10) : 0);

    return strcmp(hth_http_method(exchange), "POST") == 0
             ? hth_body_problem(exchange, n_before, route->kind == HTH_ROUTE_SLOT, text)
             : NULL;
}

/* Can the worker answer the request? False: it was refused. */
static bool check(const hth_worker_self *self, hth_http_exchange *exchange, const hth_route *route)
{
    const char *path = hth_http_path(exchange);
    hth_api_dialect dialect = hth_path_dialect(path);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    const char *problem;
    char unreadable[128];

    if (!route || route->kind >= HTH_ROUTE_FRONT_ONLY) {
        refuse_unknown(exchange, dialect, "endpoint", path);
    } else if (!hth_method_is(route->method, hth_http_method(exchange))) {
        bool is_get = strcmp(route->method, "GET") == 0;
        char text[64];

        (void)snprintf(text, sizeof(text), "this endpoint takes %s", route->method); /* fits */
        hth_http_header_add(exchange, "Allow", is_get ? "GET, HEAD" : route->method);
        refuse(exchange, dialect, 405, text);
    } else if (self->problem && route->kind != HTH_ROUTE_HEALTH) {
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%s", self->problem);
        error.retry_after_s = 1;
        hth_job_reply_error(exchange, dialect, &error);
    } else if ((problem = body_problem(exchange, route, unreadable))) {
        refuse(exchange, dialect, 415, problem);
    } else {
        return true;
    }
    return false;
}

/* Explain the lookup of a prompt for an endpoint that generates. */
static void explain(const hth_worker_self *self, hth_http_exchange *exchange)
{
    const char *name = hth_http_query(exchange, "endpoint");
    const hth_route *asked = hth_route_find(name ? name : "/v1/chat/completions");

    if (asked && asked->kind == HTH_ROUTE_GENERATE)
        hth_jobs_begin(self->jobs, exchange, HTH_TASK_EXPLAIN, asked->api);
    else
        refuse(exchange, HTH_API_OPENAI, 400,
               "'endpoint' names no endpoint that generates, such as /v1/chat/completions");
}

void hth_worker_route(const hth_worker_self *self, hth_http_exchange *exchange)
{
    const hth_route *route = hth_route_find(hth_http_path(exchange));

    if (!check(self, exchange, route))
        return;
    switch (route->kind) {
    case HTH_ROUTE_GENERATE: hth_jobs_begin(self->jobs, exchange, HTH_TASK_GENERATE, route->api); break;
    case HTH_ROUTE_ASK: hth_jobs_begin(self->jobs, exchange, HTH_TASK_ANSWER, route->api); break;
    case HTH_ROUTE_EMBED: hth_jobs_begin(self->jobs, exchange, HTH_TASK_EMBED, route->api); break;
    case HTH_ROUTE_SLOT: hth_jobs_begin(self->jobs, exchange, HTH_TASK_SLOT, route->api); break;
    case HTH_ROUTE_EXPLAIN: explain(self, exchange); break;
    case HTH_ROUTE_PREFIXES: hth_jobs_begin(self->jobs, exchange, HTH_TASK_PREFIXES, route->api); break;
    case HTH_ROUTE_ADAPTERS:
        if (hth_method_is("POST", hth_http_method(exchange))) /* the front's state, whatever the client sent */
            hth_jobs_begin(self->jobs, exchange, HTH_TASK_ADAPTERS, route->api);
        else
            show_adapters(hth_http_header(exchange, HTH_HEADER_LOST) ? self->live_adapters : NULL, self->model,
                          exchange);
        break;
    case HTH_ROUTE_MODEL:
        if (strcmp(hth_http_path(exchange) + strlen(route->path), self->name) != 0) {
            refuse_unknown(exchange, HTH_API_OPENAI, "model", hth_http_path(exchange) + strlen(route->path));
            break;
        }
        /* fall through */
    default: show(self, exchange, route->kind);
    }
}
