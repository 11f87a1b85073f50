/*
 * worker_routes.c - see worker_routes.h
 */
#include "server/worker_routes.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/answers.h"
#include "server/frames.h"

typedef enum page { PAGE_NONE, PAGE_MODELS, PAGE_PROPS, PAGE_SLOTS, PAGE_HEALTH } page_kind;

typedef struct route {
    const char *path;
    page_kind page; /* with GET; PAGE_NONE: POST, and then */
    hth_task_kind kind;
    hth_api_kind api;
} route;

static const route routes[] = {
    { "/v1/chat/completions", PAGE_NONE, HTH_TASK_GENERATE, HTH_API_CHAT },
    { "/chat/completions", PAGE_NONE, HTH_TASK_GENERATE, HTH_API_CHAT },
    { "/v1/completions", PAGE_NONE, HTH_TASK_GENERATE, HTH_API_COMPLETION },
    { "/v1/messages", PAGE_NONE, HTH_TASK_GENERATE, HTH_API_MESSAGES },
    { "/v1/messages/count_tokens", PAGE_NONE, HTH_TASK_ANSWER, HTH_API_COUNT_TOKENS },
    { "/completion", PAGE_NONE, HTH_TASK_GENERATE, HTH_API_NATIVE_COMPLETION },
    { "/completions", PAGE_NONE, HTH_TASK_GENERATE, HTH_API_NATIVE_COMPLETION },
    { "/tokenize", PAGE_NONE, HTH_TASK_ANSWER, HTH_API_TOKENIZE },
    { "/detokenize", PAGE_NONE, HTH_TASK_ANSWER, HTH_API_DETOKENIZE },
    { "/apply-template", PAGE_NONE, HTH_TASK_ANSWER, HTH_API_APPLY_TEMPLATE },
    { "/explain", PAGE_NONE, HTH_TASK_EXPLAIN, HTH_API_CHAT },
    { .path = "/v1/models", .page = PAGE_MODELS },
    { .path = "/models", .page = PAGE_MODELS },
    { .path = "/props", .page = PAGE_PROPS, .api = HTH_API_NATIVE_COMPLETION },
    { .path = "/slots", .page = PAGE_SLOTS, .api = HTH_API_NATIVE_COMPLETION },
    { .path = "/health", .page = PAGE_HEALTH, .api = HTH_API_NATIVE_COMPLETION },
    { .path = "/v1/health", .page = PAGE_HEALTH, .api = HTH_API_NATIVE_COMPLETION },
};

static const route *find(const char *path)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

/* Whose errors a path's client reads. */
static hth_api_dialect dialect_of(const char *path)
{
    const route *r = find(path);

    if (!r)
        return strncmp(path, "/v1/messages", 12) == 0 ? HTH_API_ANTHROPIC : HTH_API_OPENAI;
    return hth_api_kind_dialect(r->api);
}

const char *hth_worker_protocol_error(int status, const char *why, const char *path, hth_buffer *text)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_error_kind kind = status == 413 ? HTH_API_TOO_LARGE
                            : status == 408 ? HTH_API_TIMED_OUT
                            : status == 501 ? HTH_API_UNSUPPORTED
                                            : HTH_API_INVALID_VALUE;

    hth_api_fail(&error, kind, NULL, "%s", why);
    hth_buffer_clear(text);
    hth_api_error_write(dialect_of(path), &error, text);
    return text->failed ? NULL : hth_buffer_text(text);
}

/* ---- pages ---- */

/* An error with a status that no kind of the APIs' errors has. */
static void refuse(hth_http_exchange *exchange, hth_api_dialect dialect, int status, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer body = { .text = NULL };

    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "%s", message);
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

static void show(const hth_worker_self *self, hth_http_exchange *exchange, page_kind page)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_listed_model listed = { .name = self->name, .created_s = self->created_s, .info = &info };
    hth_buffer body = { .text = NULL };
    int status = 200;

    if (self->model)
        (void)hearth_model_info_get(self->model, &info, NULL); /* the model is there */
    switch (page) {
    case PAGE_MODELS: hth_api_models_write(&listed, 1, &body); break;
    case PAGE_PROPS: hth_api_props_write(&info, &body); break;
    case PAGE_SLOTS: hth_api_slots_write(&info, &body); break;
    default: status = hth_api_health_write(self->problem, &body); break;
    }
    reply_page(exchange, status, &body);
}

static void show_model(const hth_worker_self *self, hth_http_exchange *exchange, const char *name)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_listed_model listed = { .name = self->name, .created_s = self->created_s, .info = &info };
    hth_buffer body = { .text = NULL };

    if (strcmp(name, self->name) != 0) {
        refuse_unknown(exchange, HTH_API_OPENAI, "model", name);
        return;
    }
    (void)hearth_model_info_get(self->model, &info, NULL); /* the model is there */
    hth_api_model_write(&listed, &body);
    reply_page(exchange, 200, &body);
}

/* ---- requests ---- */

static bool begins_with(const char *text, const char *prefix)
{
    return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/* Bodies are JSON whatever their type says, unless that is another one without doubt. */
static bool may_be_json(hth_http_exchange *exchange)
{
    const char *type = hth_http_header(exchange, "Content-Type");
    size_t n, i = 0;
    const char *body = hth_http_body(exchange, &n);

    /* A reply that goes on elsewhere: its body was looked at before, and does not come first. */
    if (hth_http_header(exchange, HTH_HEADER_KNOWN))
        return true;
    if (!type || !(begins_with(type, "multipart/") || begins_with(type, "application/x-www-form-urlencoded")))
        return true;
    if (begins_with(type, "multipart/"))
        return false;
    while (i < n && strchr(" \t\r\n", body[i]) && body[i])
        i++;
    return i < n && body[i] == '{'; /* curl calls everything a form that is not said to be something else */
}

static bool is_method(const hth_http_exchange *exchange, page_kind page)
{
    const char *method = hth_http_method(exchange);

    return page == PAGE_NONE ? strcmp(method, "POST") == 0 : strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/* The endpoint whose prompt is to be explained. */
static const route *explained(hth_http_exchange *exchange)
{
    const char *name = hth_http_query(exchange, "endpoint");
    const route *r = find(name ? name : "/v1/chat/completions");

    return r && r->page == PAGE_NONE && r->kind == HTH_TASK_GENERATE ? r : NULL;
}

void hth_worker_route(const hth_worker_self *self, hth_http_exchange *exchange)
{
    static const char models[] = "/v1/models/";
    const char *path = hth_http_path(exchange);
    const bool names_model = strncmp(path, models, sizeof(models) - 1) == 0;
    const route *r = find(names_model ? "/v1/models" : path), *api = r;
    hth_api_dialect dialect = dialect_of(path);

    if (!r) {
        refuse_unknown(exchange, dialect, "endpoint", path);
        return;
    }
    if (!is_method(exchange, r->page)) {
        hth_http_header_add(exchange, "Allow", r->page == PAGE_NONE ? "POST" : "GET, HEAD");
        refuse(exchange, dialect, 405, r->page == PAGE_NONE ? "this endpoint takes POST" : "this endpoint takes GET");
        return;
    }
    if (self->problem && r->page != PAGE_HEALTH) {
        hth_api_error error = { .kind = HTH_API_NO_ERROR };

        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%s", self->problem);
        error.retry_after_s = 1;
        hth_job_reply_error(exchange, dialect, &error);
        return;
    }
    if (r->page != PAGE_NONE) {
        if (names_model)
            show_model(self, exchange, path + sizeof(models) - 1);
        else
            show(self, exchange, r->page);
        return;
    }
    if (!may_be_json(exchange)) {
        refuse(exchange, dialect, 415, "the body is a form; it must be JSON (Content-Type: application/json)");
        return;
    }
    if (r->kind == HTH_TASK_EXPLAIN)
        api = explained(exchange);
    if (!api)
        refuse(exchange, dialect, 400, "'endpoint' names no endpoint that generates, such as /v1/chat/completions");
    else
        hth_jobs_begin(self->jobs, exchange, r->kind, api->api);
}
