/*
 * front_routes.c - the route of a request, from its head to the part that answers it
 *
 *   1. the path's route, the request's id, CORS
 *   2. the client's key and its limits (front_access.c)
 *   3. the model that the body names (front_models.c), and the earlier responses that it continues
 *   4. the relay (front_relay.c), or a page that the front answers itself
 *
 * An error on the way is answered at once in the form of the path's API. Requests to models are logged and counted when
 * they end, whichever part answered them. Operators' pages are not logged or counted.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/notes.h"
#include "base/os.h"
#include "base/status.h"
#include "front/cors.h"
#include "front/front_request.h"
#include "front/page.h"

enum { PROPS_BYTES_MAX = 64 << 10, NOT_MODIFIED = 304 };

/* Answer a page without a log line, and end the request. */
static void operate(hth_front_request *r)
{
    hth_front *front = r->front;
    const bool is_post = strcmp(r->method, "POST") == 0;
    hth_admin admin;

    if (r->route->kind == HTH_ROUTE_ADMIN && hth_admin_names_paths(r->method, r->path) && !hth_front_may_name_paths(r))
        return;
    admin = front->admin;
    admin.options = front->options->options;
    admin.is_draining = front->is_draining;
    admin.n_requests = front->n_requests;
    if (r->route->kind == HTH_ROUTE_ADMIN && strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        hth_info(&front->log, "request %s: an operator (%s%s%s) orders %s%s%s", r->record.request_id, r->peer,
                 r->record.key[0] ? ", key " : "", r->record.key, is_post ? "" : r->method, is_post ? "" : " ",
                 r->path);
    if (r->route->kind == HTH_ROUTE_ADMIN && hth_front_administer_adapters(r))
        return;
    if (r->route->kind == HTH_ROUTE_HEALTH ? hth_admin_answer_public(&admin, r->exchange)
                                           : hth_admin_answer(&admin, r->exchange)) {
        hth_front_request_drop(r);
        return;
    }
    hth_front_request_fail(r, NULL, HTH_API_NOT_FOUND, "there is no page '%.100s'; docs/monitoring.md lists them",
                           r->path);
}

/* Without keys, any page that a user of this machine opens could use a model. */
static void refuse_foreign(hth_front_request *r)
{
    char message[sizeof(((hth_api_error *)NULL)->message)];

    hth_cors_refusal(hth_http_header(r->exchange, "Origin"), message, sizeof(message));
    hth_front_request_fail(r, "forbidden", HTH_API_FORBIDDEN, "%s", message);
}

/* Likewise a page whose name was made to resolve to this machine (DNS rebinding): its reads carry no Origin. */
static void refuse_strange(hth_front_request *r)
{
    const char *host = hth_http_header(r->exchange, "Host");

    hth_front_request_fail(
        r, "forbidden", HTH_API_FORBIDDEN,
        "this server asks for no keys, and is not known under the name '%.100s'; ask it by address or as localhost, or "
        "say with --cors-origin https://%.100s (cors { origins = [...] } in the configuration) that the name is yours",
        host, host);
}

/* llama-server's request to change what /props reports. */
static bool sets_props(const hth_route *route, const char *method)
{
    return route->kind == HTH_ROUTE_PROPS && strcmp(method, "POST") == 0;
}

static bool takes(const hth_route *route, const char *method)
{
    return !route->method || hth_method_is(route->method, method) || sets_props(route, method);
}

/*
 * No property can change while the server runs yet, here as in llama-server. If the request is allowed, it succeeds,
 * and every field is reported as ignored.
 */
static void set_props(hth_front_request *r)
{
    static const char done[] = "{\"success\":true}";
    size_t n = 0;
    const char *text = hth_http_body(r->exchange, &n);
    hth_api_notes notes = { .text = "" };
    const char *field;
    json_t *object, *value;

    if (!r->options->options->allows_props) {
        hth_front_request_fail(r, "forbidden", HTH_API_UNSUPPORTED,
                               "properties cannot be changed here; start the server with --props (props = true in the "
                               "configuration) to have the order answered, and change options in the configuration");
        return;
    }
    object = n > 0 && n <= PROPS_BYTES_MAX ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(object)) {
        hth_front_request_fail(r, NULL, HTH_API_INVALID_VALUE, "the body must be a JSON object of at most %d bytes",
                               PROPS_BYTES_MAX);
        json_decref(object);
        return;
    }
    json_object_foreach(object, field, value) hth_api_note(&notes, field);
    if (notes.text[0])
        hth_http_header_add(r->exchange, HTH_API_NOTES_HEADER, notes.text);
    json_decref(object);
    hth_front_request_answer_bytes(r, 200, "application/json", done, sizeof(done) - 1);
}

/* Uses llama-server's wording, which programs know. */
static void list_slots(hth_front_request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (!r->options->options->no_slots) {
        if (hth_front_admit(r))
            hth_front_relay(r);
        return;
    }
    hth_api_fail(&error, HTH_API_UNSUPPORTED, NULL,
                 "This server does not support slots endpoint. Start it without --no-slots (no_slots in the "
                 "configuration)");
    error.status = 501;
    hth_front_request_refuse(r, &error, NULL);
}

/*
 * A page whose name was made to resolve to this machine (DNS rebinding) reads without an Origin. A browser reaches a
 * unix socket through a forwarded port; other clients send no Host there, or any word. Only a name with a dot is a
 * site's name.
 */
static bool is_rebound(const hth_front_request *r)
{
    const char *host = hth_http_header(r->exchange, "Host");

    return host && (strcmp(r->peer, "unix") != 0 || strchr(host, '.')) && strcmp(r->path, "/metrics") != 0 &&
           !hth_host_is_own(r->options->options, host);
}

/* ---- "/": the page ---- */

/* Does a list such as "text/html, application/json;q=0.9" have the word, and not with "q=0"? list NULL: none. */
static bool accepts(const char *list, const char *word)
{
    static const char blank[] = " \t";
    const size_t n_word = strlen(word);

    for (const char *at = list; at && *at; at += *at == ',') {
        const char *const entry = at + strspn(at, blank);
        const char *const rest = entry + strcspn(entry, ";, \t");
        const char *weight;

        at = entry + strcspn(entry, ",");
        if ((size_t)(rest - entry) != n_word || strncasecmp(entry, word, n_word) != 0)
            continue;
        weight = rest + strspn(rest, "; \t");
        return weight >= at || strncasecmp(weight, "q=", 2) != 0 || strtod(weight + 2, NULL) > 0;
    }
    return false;
}

static void add_headers(hth_http_exchange *exchange)
{
    static const char *const headers[][2] = {
        { "Cache-Control", "no-cache" }, /* browsers revalidate each time, by the ETag */
        { "Vary", "Accept, Accept-Encoding" },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "X-DNS-Prefetch-Control", "off" }, /* a link in a reply must not reveal its host's name by itself */
        { "Cross-Origin-Opener-Policy", "same-origin" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
    };

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        hth_http_header_add(exchange, headers[i][0], headers[i][1]);
    hth_http_header_add(exchange, "ETag", hth_page_built.etag);
    hth_http_header_add(exchange, "Content-Security-Policy", hth_page_built.policy);
}

/*
 * Answer "/" for a browser. Only browsers accept HTML; other clients request "/" to see whether a server is there, and
 * get a line of text. False: the client is no browser, or there is no page; the request is not over.
 */
static bool show_page(hth_front_request *r)
{
    const hth_page *page = &hth_page_built;
    const char *known = hth_http_header(r->exchange, "If-None-Match");
    const bool is_gzip = accepts(hth_http_header(r->exchange, "Accept-Encoding"), "gzip");

    if (page->n_plain == 0 || r->options->options->no_ui ||
        !accepts(hth_http_header(r->exchange, "Accept"), "text/html"))
        return false;
    add_headers(r->exchange);
    if (known && strstr(known, page->etag)) {
        hth_front_request_answer_bytes(r, NOT_MODIFIED, NULL, NULL, 0);
        return true;
    }
    if (is_gzip)
        hth_http_header_add(r->exchange, "Content-Encoding", "gzip");
    hth_front_request_answer_bytes(r, 200, "text/html; charset=utf-8", is_gzip ? page->gzip : page->plain,
                                   is_gzip ? page->n_gzip : page->n_plain);
    return true;
}

static void serve_root(hth_front_request *r)
{
    if (!show_page(r))
        hth_front_list_models(r);
}

/* ---- the kinds of routes ---- */

static void serve_props(hth_front_request *r)
{
    if (!hth_front_request_check_body(r))
        return;
    if (sets_props(r->route, r->method))
        set_props(r);
    else if (hth_front_admit(r))
        hth_front_relay(r);
}

static void serve_adapters(hth_front_request *r)
{
    if (strcmp(r->method, "POST") == 0)
        hth_front_scale_adapters(r);
    else
        hth_front_relay(r);
}

static void ask_model(hth_front_request *r)
{
    if (hth_route_dialect(r->route) == HTH_API_OPENAI_RESPONSES)
        hth_front_relay_response(r);
    else
        hth_front_relay(r);
}

static const struct {
    void (*serve)(hth_front_request *r);
    bool is_work; /* the body is checked, and the request counts against the limits, before it is served */
} handlers[HTH_ROUTE_KINDS] = {
    [HTH_ROUTE_GENERATE] = { ask_model, true },
    [HTH_ROUTE_ASK] = { ask_model, true },
    [HTH_ROUTE_EMBED] = { ask_model, true },
    [HTH_ROUTE_STORED] = { hth_front_ask_stored, true },
    [HTH_ROUTE_EXPLAIN] = { hth_front_relay, false },
    [HTH_ROUTE_PREFIXES] = { hth_front_show_prefixes, false },
    [HTH_ROUTE_MODELS] = { hth_front_list_models, false },
    [HTH_ROUTE_MODEL] = { hth_front_show_model, false },
    [HTH_ROUTE_STREAM] = { hth_front_serve_stream, false },
    [HTH_ROUTE_PROPS] = { serve_props, false },
    [HTH_ROUTE_SLOTS] = { list_slots, false },
    [HTH_ROUTE_ADAPTERS] = { serve_adapters, true },
    [HTH_ROUTE_LOAD_ADAPTER] = { hth_front_load_adapter, true },
    [HTH_ROUTE_UNLOAD_ADAPTER] = { hth_front_unload_adapter, true },
    [HTH_ROUTE_LOAD_MODEL] = { hth_front_order_model, true },
    [HTH_ROUTE_UNLOAD_MODEL] = { hth_front_order_model, true },
    [HTH_ROUTE_SLOT] = { ask_model, true },
    [HTH_ROUTE_HEALTH] = { operate, false },
    [HTH_ROUTE_ADMIN] = { operate, false },
    [HTH_ROUTE_ROOT] = { serve_root, false },
    [HTH_ROUTE_OLLAMA_TAGS] = { hth_front_list_models, false },
    [HTH_ROUTE_OLLAMA_PS] = { hth_front_list_models, false },
    [HTH_ROUTE_OLLAMA_VERSION] = { hth_front_list_models, false },
    [HTH_ROUTE_OLLAMA_PULL] = { hth_front_list_models, false },
    [HTH_ROUTE_OLLAMA_FILES] = { hth_front_list_models, false },
};

/* May this client use the route? False when the request was refused. */
static bool may(hth_front_request *r)
{
    switch (r->route->right) {
    case HTH_FOR_OPERATORS: return hth_front_may_administer(r);
    case HTH_FOR_OPERATORS_TO_POST:
        return strcmp(r->method, "POST") != 0 || !hth_front_has_keys(r) || hth_front_may_administer(r);
    default: return true;
    }
}

static void serve(hth_front_request *r)
{
    const hth_route *route = r->route;
    bool is_admins = hth_http_tag(r->exchange) == HTH_FRONT_ADMIN;

    if (!route || !handlers[route->kind].serve) {
        hth_front_request_fail(r, NULL, HTH_API_NOT_FOUND,
                               "there is no path '%.100s'; docs/api.md lists those that there are", r->path);
        return;
    }
    if (!takes(route, r->method)) {
        hth_front_request_refuse_method(r, route->method);
        return;
    }
    if (route->right == HTH_FOR_ALL) {
        handlers[route->kind].serve(r);
        return;
    }
    /*
     * A page in an operator's browser can reach these addresses, and its Origin does not prove that the operator wanted
     * the request.
     */
    if (is_admins && hth_http_header(r->exchange, "Origin")) {
        hth_front_request_fail(
            r, "forbidden", HTH_API_FORBIDDEN,
            "the operators' address takes nothing from pages in browsers, which the header Origin tells");
        return;
    }
    if (is_admins && is_rebound(r)) {
        hth_front_request_fail(r, "forbidden", HTH_API_FORBIDDEN,
                               "the operators' pages are not served under the name '%.100s'; ask by address, or by the "
                               "name that 'admin' configures",
                               hth_http_header(r->exchange, "Host"));
        return;
    }
    if (!is_admins && !hth_front_has_keys(r) && strcmp(r->path, "/metrics") != 0 &&
        hth_host_is_strange(r->options->options, r->exchange)) {
        refuse_strange(r);
        return;
    }
    /* A client that reaches the operators' listener needs no key. */
    if (!is_admins && !hth_front_identify(r))
        return;
    if (!may(r))
        return;
    if (handlers[route->kind].is_work && (!hth_front_request_check_body(r) || !hth_front_admit(r)))
        return;
    handlers[route->kind].serve(r);
}

static void name_request(hth_front_request *r)
{
    hth_access_record *record = &r->record;
    hth_trace trace;

    (void)snprintf(r->id, sizeof(r->id), "%s%08" PRIx64, r->front->id_prefix, ++r->front->n_ids); /* 32 at most */
    /* If the client's id is missing or malformed, the server's own id is used. */
    (void)hth_request_id_begin(hth_http_header(r->exchange, "X-Request-Id"), record->request_id);
    (void)hth_trace_begin(hth_http_header(r->exchange, "Traceparent"), &trace);
    hth_trace_write(&trace, r->traceparent);
    (void)snprintf(record->trace_id, sizeof(record->trace_id), "%s", trace.trace_id); /* the same size */
    hth_http_header_add(r->exchange, "X-Request-Id", record->request_id);
    if (hth_route_dialect(r->route) == HTH_API_ANTHROPIC)
        hth_http_header_add(r->exchange, "Request-Id", record->request_id);
}

void hth_front_handle(hth_http_exchange *exchange, void *user_data)
{
    static const char no_memory[] = "{\"error\":{\"message\":\"no memory for the request\",\"type\":\"server_error\"}}";
    hth_front *front = user_data;
    hth_front_request *r;
    bool is_allowed;
    size_t n_body = 0;

    if (hth_http_tag(exchange) == HTH_FRONT_FLEET) {
        hth_front_fleet_handle(front, exchange);
        return;
    }
    r = hth_front_request_new(hth_http_method(exchange), hth_http_path(exchange), hth_http_peer(exchange));
    if (!r) {
        hth_http_reply(exchange, 503, "application/json", no_memory, sizeof(no_memory) - 1);
        return;
    }
    front->n_requests++;
    r->front = front;
    r->options = hth_front_options_hold(front);
    r->exchange = exchange;
    r->begin_ns = hth_os_monotonic_ns();
    r->route = hth_route_find(r->path);
    (void)hth_http_body(exchange, &n_body);
    r->record = (hth_access_record){
        .key = "",
        .peer = r->peer,
        .method = r->method,
        .path = r->path,
        .endpoint = r->route ? r->route->endpoint : "other",
        .model = r->model,
        .bytes_in = n_body,
    };
    name_request(r);
    if (r->options->options->log_prompts && n_body > 0)
        hth_info(&front->log, "request %s: body: %.*s", r->record.request_id, n_body < INT_MAX ? (int)n_body : INT_MAX,
                 hth_http_body(exchange, &n_body));
    if (hth_http_tag(exchange) == HTH_FRONT_ADMIN) {
        serve(r);
        return;
    }
    is_allowed = hth_cors_add(r->options->options, exchange);
    if (is_allowed && strcmp(r->method, "OPTIONS") == 0) {
        hth_front_request_answer_bytes(r, 204, NULL, NULL, 0);
    } else if (hth_cors_is_foreign(r->options->options, exchange) &&
               (!hth_front_has_keys(r) || hth_cors_is_preflight(exchange))) {
        refuse_foreign(r);
    } else {
        serve(r);
    }
}

bool hth_front_wants_body(hth_http_exchange *exchange, void *user_data)
{
    hth_front *front = user_data;
    const hth_route *route = hth_route_find(hth_http_path(exchange));

    if (hth_http_tag(exchange) == HTH_FRONT_FLEET)
        return true;
    if (!route || !takes(route, hth_http_method(exchange)))
        return false;
    if (hth_http_tag(exchange) == HTH_FRONT_ADMIN)
        return true;
    if (front->options->options->n_keys == 0)
        return !hth_cors_is_foreign(front->options->options, exchange);
    return hth_front_knows_key(front, exchange);
}

const char *hth_front_protocol_error(int status, const char *why, const char *path, void *user_data)
{
    hth_front *front = user_data;

    hth_metrics_note_refused(front->metrics, "protocol");
    if (hth_front_may_log_refusal(front))
        hth_info(&front->log, "a request%s%s is refused with %d: %s", *path ? " to " : "", path, status, why);
    return hth_protocol_error_text(status, why, path, &front->protocol_error);
}
