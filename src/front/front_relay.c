/*
 * front_relay.c - the path of a request from the front to its worker, and to kept responses and streams
 *
 * The relay (proxy.h) handles the rest of the request, and reports its end. If a response continues earlier ones, these
 * are looked up first. A response is stored for later requests for it. A background response has no waiting client.
 */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/peek.h"
#include "front/front_request.h"

/* ---- stored responses ---- */

static void on_begun(const void *bytes, size_t n, bool is_journaled, void *user_data)
{
    hth_front_request *r = user_data;
    uint8_t key[HTH_RESPONSE_KEY_BYTES];

    hth_front_response_key(r, key);
    hth_running_begin(&r->running, &r->front->running, r->front->responses, key, bytes, n, is_journaled);
}

/* The client disconnected during a lookup. */
static void on_gone(void *user_data)
{
    hth_front_request *r = user_data;

    hth_response_lookup_cancel(&r->question.lookup);
    hth_journal_take_cancel(&r->take);
    hth_front_request_gone(r);
}

static void on_answer(int status, const hth_buffer *body, const hth_api_error *error, void *user_data)
{
    hth_front_request *r = user_data;

    if (r->question.allow)
        hth_http_header_add(r->exchange, "Allow", r->question.allow);
    if (error)
        hth_front_request_refuse(r, error, NULL);
    else
        hth_front_request_answer(r, status, "application/json", body);
}

/* An hth_front_then. */
static void ask_stored(hth_front_request *r, const void *begun, size_t n)
{
    r->question = (hth_stored_question){ .store = r->front->responses,
                                         .running = &r->front->running,
                                         .begun = begun,
                                         .n_begun = n,
                                         .on_answer = on_answer,
                                         .user_data = r };
    memcpy(r->question.owner, hth_front_owner(r), sizeof(r->question.owner));
    hth_stored_ask(&r->question, r->exchange, r->route->path);
}

void hth_front_ask_stored(hth_front_request *r)
{
    hth_http_watch_set(r->exchange, &(hth_http_watch){ .on_close = on_gone, .user_data = r });
    if (!hth_front_look_for_response(r, ask_stored))
        ask_stored(r, NULL, 0);
}

/* ---- kept streams ---- */

/* Answer from the streams that are kept here. False with error: there is none of this id. */
static bool serve_kept(hth_front_request *r, hth_api_error *error)
{
    const char *id = hth_front_below(r);
    hth_kept_streams *kept = r->front->kept;

    if (strcmp(r->method, "DELETE") == 0) {
        if (!hth_kept_streams_drop(kept, id, hth_front_owner(r), error))
            return false;
        hth_front_forget_stream(r);
        hth_front_request_answer_bytes(r, 204, NULL, NULL, 0);
        return true;
    }
    if (!hth_kept_streams_read(kept, r->exchange, id, hth_front_owner(r), error))
        return false;
    r->record.status = 200;
    r->record.is_stream = true;
    hth_front_request_end(r);
    return true;
}

/* An hth_front_then. */
static void serve_own_stream(hth_front_request *r, const void *begun, size_t n)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    (void)begun; /* of responses */
    (void)n;
    if (!serve_kept(r, &error))
        hth_front_request_refuse(r, &error, "not_found");
}

void hth_front_serve_stream(hth_front_request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (strcmp(r->method, "DELETE") != 0 && strcmp(r->method, "GET") != 0) {
        hth_http_header_add(r->exchange, "Allow", "GET, DELETE");
        hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "'%.100s' takes GET and DELETE, not %s", r->path, r->method);
        error.status = 405;
        hth_front_request_refuse(r, &error, NULL);
        return;
    }
    if (serve_kept(r, &error))
        return;
    if (error.kind == HTH_API_NOT_FOUND && error.status == 0) { /* it may be at another node */
        hth_http_watch_set(r->exchange, &(hth_http_watch){ .on_close = on_gone, .user_data = r });
        if (hth_front_take_stream(r, serve_own_stream))
            return;
    }
    hth_front_request_refuse(r, &error, "not_found");
}

/* ---- the relay ---- */

enum { TARGET_BYTES = 128 };

/* Copy a client's word into a target, cut to size and without special characters, which no known word has. */
static void copy_word(char out[TARGET_BYTES / 4], const char *text)
{
    (void)snprintf(out, TARGET_BYTES / 4, "%s", text);
    for (; *out; out++)
        if (!isalnum((unsigned char)*out) && *out != '-')
            *out = '_';
}

/* The slot, and the action on it. */
static void write_slot_target(const hth_front_request *r, char target[TARGET_BYTES])
{
    const char *action = hth_http_query(r->exchange, "action");
    char number[TARGET_BYTES / 4], word[TARGET_BYTES / 4];

    copy_word(number, hth_front_below(r));
    copy_word(word, action ? action : "");
    (void)snprintf(target, TARGET_BYTES, "%s%s?action=%s", r->route->path, number, word); /* fits */
}

/* Does the body say how long its model stays loaded? */
static bool wants_to_keep(const hth_front_request *r, uint64_t *keep_ms)
{
    size_t n = 0;
    const char *body = hth_http_body(r->exchange, &n);

    return hth_route_dialect(r->route) == HTH_API_OLLAMA && n > 0 && hth_api_peek_keep_alive(body, n, keep_ms);
}

/* Is the request about this node's worker, and not about what a model says? */
static bool is_local(const hth_front_request *r)
{
    switch (r->route->kind) {
    case HTH_ROUTE_GENERATE:
    case HTH_ROUTE_EMBED:
    case HTH_ROUTE_ASK: return false;
    default: return true;
    }
}

void hth_front_relay(hth_front_request *r)
{
    const bool is_response = r->route->api == HTH_API_RESPONSES;
    hth_relay *relayed;
    uint64_t keep_ms = 0;
    bool wants_kept, keeps;
    char target[TARGET_BYTES];
    hth_anchor anchors[HTH_ANCHORS_MAX];
    const bool is_routed = r->front->fleet.nodes && r->route->kind == HTH_ROUTE_GENERATE;
    const char *salt = r->use ? hth_key_use_key(r->use)->salt : NULL;
    size_t n_body = 0;
    const char *body = hth_http_body(r->exchange, &n_body);

    if (!hth_front_choose_model(r))
        return; /* and the request is over */
    if (r->is_elsewhere && is_local(r)) {
        hth_front_request_fail(r, "not_found", HTH_API_NOT_FOUND,
                               "'%.100s' is about the models of this node, and '%s' is on others; ask one of them",
                               r->path, r->model);
        return;
    }
    keeps = wants_to_keep(r, &keep_ms);
    wants_kept = r->route->kind == HTH_ROUTE_GENERATE && hth_kept_is_wanted(r->exchange);
    (void)snprintf(target, sizeof(target), "%s", r->route->path);
    if (r->route->kind == HTH_ROUTE_SLOT)
        write_slot_target(r, target);
    if (r->route->kind == HTH_ROUTE_EXPLAIN) {
        const char *endpoint = hth_http_query(r->exchange, "endpoint");
        const hth_route *asked = endpoint ? hth_route_find(endpoint) : NULL;

        if (endpoint && (!asked || asked->kind != HTH_ROUTE_GENERATE)) {
            hth_api_error error = { .kind = HTH_API_NO_ERROR };

            hth_api_fail(&error, HTH_API_INVALID_VALUE, "endpoint",
                         "'%.60s' is no endpoint that generates; '/v1/chat/completions' is one", endpoint);
            hth_front_request_refuse(r, &error, NULL);
            return;
        }
        if (asked)
            (void)snprintf(target, sizeof(target), "%s?endpoint=%s", r->route->path, asked->path);
    }
    /* Without keys, any client that has the id can fetch the reply again. So the id must not be guessable. */
    if (wants_kept || is_response)
        hth_kept_id_draw(r->id);
    hth_front_tell_begin(r);
    relayed =
        hth_proxy_relay(r->front->proxy, r->exchange,
                        &(hth_relay_request){
                            .model = r->model,
                            .method = r->method,
                            .target = target,
                            .dialect = hth_route_dialect(r->route),
                            .generates = r->route->kind == HTH_ROUTE_GENERATE || r->route->kind == HTH_ROUTE_EMBED,
                            .names_adapter = r->names_adapter,
                            .is_once = hth_route_is_once(r->route, hth_http_query(r->exchange, "action")),
                            .is_local = is_local(r),
                            .is_elsewhere = r->is_elsewhere,
                            .beginning = is_routed ? hth_front_beginning_of(body, n_body) : 0,
                            .anchors = anchors,
                            .n_anchors = is_routed ? hth_front_fleet_anchors(r->front, r->route, r->model,
                                                                             r->names_adapter ? r->adapter : NULL, salt,
                                                                             body, n_body, anchors)
                                                   : 0,
                            .adapter = r->names_adapter ? r->adapter : NULL,
                            .id = r->id,
                            .request_id = r->record.request_id,
                            .traceparent = r->traceparent,
                            .salt = salt,
                            .past = r->past.records.text,
                            .past_bytes = r->past.records.n,
                            .on_record = is_response ? hth_front_on_record : NULL,
                            .on_begun = is_response ? on_begun : NULL,
                            .record = &r->record,
                            .wants_events = r->wants_events,
                            .wants_kept = wants_kept,
                            .key = hth_front_owner(r),
                            .on_over = hth_front_on_relayed,
                            .user_data = r,
                        });
    if (!relayed)
        return; /* and the request is gone */
    r->running.relay = relayed;
    if (keeps && !r->is_elsewhere)
        hth_supervisor_keep(r->front->supervisor, r->model, keep_ms);
}

static void on_past(void *user_data)
{
    hth_front_relay(user_data);
}

void hth_front_relay_response(hth_front_request *r)
{
    size_t n = 0;
    const char *body = hth_http_body(r->exchange, &n);

    r->past = (hth_past_search){ .store = r->front->responses, .on_done = on_past, .user_data = r };
    (void)hth_api_peek_past(body ? body : "", n, &r->past.past); /* the worker rejects a malformed body */
    memcpy(r->past.owner, hth_front_owner(r), sizeof(r->past.owner));
    hth_http_watch_set(r->exchange, &(hth_http_watch){ .on_close = on_gone, .user_data = r });
    hth_past_search_begin(&r->past);
}
