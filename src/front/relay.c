/*
 * relay.c - one relay and its workers: asked, listened to, replaced
 *
 *              hth_relay_ask                    run, when a worker is ready
 *   (begin) ----------------> WAITING ----------------------------------> RUNNING
 *                              ^  | ^                                      |  |
 *                give_turn     |  | `------------- broken -----------------'  | the last byte, or an error
 *                (proxy.c)     |  v on_ready: a suspect, not its turn         v
 *                            IN LINE                                         OVER <---- from any state: the client
 *                                                                                       left, or an error
 *
 * broken: the connection to the worker broke. judge decides whether the worker died: this is known when the supervisor
 * has seen the death, and at the latest when there is a later worker. A death counts against the request, and from the
 * second one on the request is a suspect (proxy.h). relay_frames.c has the states of one run.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "front/proxy_inside.h"

enum {
    BREAKS_MORE_MAX = 32, /* broken connections of a request that are not held against it, though it came no further */
    HEADERS_MAX = 12,
};

static void broken(hth_relay *relay);

/* ---- errors ---- */

/* An error that the client must not retry: its library would send the request again, and the next worker would die. */
static void fail_for_good(hth_relay *relay, const hth_api_error *error)
{
    if (!relay->has_begun && relay->exchange)
        hth_http_header_add(relay->exchange, "x-should-retry", "false");
    hth_warn(relay->proxy->options.log, "request %s: given up: %s", relay->request_id, error->message);
    hth_relay_fail(relay, error);
}

static void fail_after_deaths(hth_relay *relay)
{
    static const char lines[] = "; its last lines:"; /* of its log, which is not for clients */
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_worker_view view;
    const char *cause = "", *end;

    if (hth_supervisor_view_of(relay->proxy->options.supervisor, relay->model->name, &view))
        cause = view.last_death;
    end = strstr(cause, lines);
    hth_api_fail(&error, HTH_API_INTERNAL, NULL,
                 "workers of model '%s' died %u times while they computed this request, which is not tried again%s%.*s",
                 relay->model->name, relay->n_vain, cause[0] ? "; the last one: " : "",
                 end ? (int)(end - cause) : (int)strlen(cause), cause);
    fail_for_good(relay, &error);
}

static void fail_after_breaks(hth_relay *relay)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(
        &error, HTH_API_INTERNAL, NULL,
        "connections to workers of model '%s' broke off %u times while they computed this request, which is not "
        "tried again",
        relay->model->name, relay->n_breaks);
    fail_for_good(relay, &error);
}

static void fail_of_one_run(hth_relay *relay)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(
        &error, HTH_API_INTERNAL, NULL,
        "the connection to the worker of model '%s' broke off before its answer; the request is not tried again: the "
        "next worker's slots are empty, and the file may be written or not; send the prompt and the request anew",
        relay->model->name);
    fail_for_good(relay, &error);
}

/* ---- deaths ---- */

/* Did the worker die? Decide if this is known now. False: it was one death too many, and the relay is over. */
static bool judge(hth_relay *relay, const hth_worker_view *view)
{
    if (!relay->is_unjudged)
        return true;
    if (view->n_deaths > relay->n_deaths_then) {
        relay->is_unjudged = false;
        relay->is_cleared = false;
        relay->n_deaths++;
        relay->n_vain = relay->came_further && relay->proxy->options.limits.retries_max > 0 ? 0 : relay->n_vain + 1;
    } else if (view->generation > relay->generation) {
        relay->is_unjudged = false; /* it was stopped in order */
    }
    if (relay->n_vain <= relay->proxy->options.limits.retries_max)
        return true;
    fail_after_deaths(relay);
    return false;
}

/* ---- waiting ---- */

static hth_relay *relay_of(hth_worker_waiter *waiter)
{
    return (hth_relay *)((char *)waiter - offsetof(hth_relay, waiter));
}

static void run(hth_relay *relay, const char *socket_path, uint64_t generation);

static void on_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    hth_relay *relay = relay_of(waiter);
    hth_proxy_model *model = relay->model;

    /* A view costs system calls: take one for each generation, and after a broken connection. */
    if (generation != model->generation || relay->is_unjudged) {
        hth_worker_view view;

        if (hth_supervisor_view_of(relay->proxy->options.supervisor, model->name, &view)) {
            if (generation != model->generation)
                model->n_deaths = view.n_deaths;
            model->generation = generation;
            if (!judge(relay, &view))
                return;
        }
    }
    if (hth_relay_is_suspect(relay) && !hth_relay_take_turn(relay)) {
        hth_worker_waiter_cancel(&relay->waiter); /* asks again when its turn has come */
        return;
    }
    run(relay, socket_path, generation);
}

static void on_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    hth_relay *relay = relay_of(waiter);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_worker_view view;

    if (relay->is_unjudged && hth_supervisor_view_of(relay->proxy->options.supervisor, relay->model->name, &view)) {
        if (!judge(relay, &view))
            return;
        /* The worker is well although the connection broke. */
        if (relay->is_unjudged && view.state == HTH_WORKER_READY && view.generation == relay->generation) {
            relay->is_unjudged = false;
            hth_relay_ask(relay, 0);
            return;
        }
    }
    hth_api_fail(&error,
                 err->status == HEARTH_NOT_FOUND   ? HTH_API_NOT_FOUND
                 : err->status == HEARTH_CANCELLED ? HTH_API_NOT_RESIDENT
                                                   : HTH_API_OVERLOADED,
                 NULL, "%s", err->message);
    error.retry_after_s = err->retry_after_s;
    if (error.kind == HTH_API_OVERLOADED && error.retry_after_s == 0)
        error.retry_after_s = 1;
    hth_relay_fail(relay, &error);
}

void hth_relay_ask(hth_relay *relay, uint64_t after)
{
    hearth_error err;

    relay->state = HTH_RELAY_WAITING;
    hth_worker_waiter_cancel(&relay->waiter);
    relay->waiter = (hth_worker_waiter){ .on_ready = on_ready,
                                         .on_failed = on_failed,
                                         .since_ns = relay->begun_ns,
                                         .outlasts_breaks = relay->record.n_tokens_out > 0 };
    if (hth_supervisor_want(relay->proxy->options.supervisor, relay->model->name, after, &relay->waiter, &err) !=
        HEARTH_OK)
        hth_relay_fail_status(relay, &err);
    else if (hth_relay_may_begin_early(relay))
        hth_proxy_watch_time(relay->proxy);
}

void hth_relay_let_go(hth_relay *relay)
{
    hth_worker_waiter_cancel(&relay->waiter);
    hth_upstream_cancel(relay->call);
    relay->call = NULL;
    hth_relay_leave_line(relay);
}

void hth_relay_on_room(void *user_data)
{
    hth_relay *relay = user_data;

    if (relay->is_paused && relay->call)
        hth_upstream_resume(relay->call);
    relay->is_paused = false;
}

/* ---- a run ---- */

void hth_relay_give_up_call(hth_relay *relay, const char *what)
{
    hth_upstream_cancel(relay->call);
    relay->call = NULL;
    hth_warn(relay->proxy->options.log, "request %s: the worker of model '%s' sent something that is no %s",
             relay->request_id, relay->model->name, what);
    broken(relay);
}

static void on_head(const hth_upstream_head *head, void *user_data)
{
    hth_relay *relay = user_data;

    if (head->status > HTH_UPSTREAM_STATUS_MAX) {
        hth_relay_give_up_call(relay, "reply");
        return;
    }
    relay->run =
        relay->generates && strcmp(head->content_type, HTH_FRAMES_CONTENT_TYPE) == 0 ? HTH_RUN_FRAMES : HTH_RUN_PLAIN;
    if (relay->run == HTH_RUN_FRAMES)
        return;
    if (relay->has_begun) {
        relay->is_refused = true; /* only a resumed stream can have begun */
        relay->status = head->status;
        return;
    }
    hth_buffer_clear(&relay->body);
    relay->status = head->status;
    relay->retry_after_s = head->retry_after_s;
    (void)snprintf(relay->content_type, sizeof(relay->content_type), "%s", head->content_type); /* cut if too long */
    hth_relay_note_ignored(relay, head->notes, strlen(head->notes));
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    hth_relay *relay = user_data;

    if (hth_relay_is_backlogged(relay)) {
        relay->is_paused = true;
        return false;
    }
    if (relay->run >= HTH_RUN_FRAMES)
        hth_relay_take_frames(relay, bytes, n);
    else
        hth_relay_take_body(relay, bytes, n);
    return true;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    hth_relay *relay = user_data;

    relay->call = NULL;
    if (status == HEARTH_NO_MEMORY)
        hth_relay_fail_status(relay, err);
    else if (status == HEARTH_OK && relay->run < HTH_RUN_FRAMES)
        hth_relay_end_plain(relay);
    else
        broken(relay);
}

static void broken(hth_relay *relay)
{
    hth_proxy_model *model = relay->model;
    bool is_anothers_turn =
        (model->on_turn && model->on_turn != relay) || model->generation_of_turn == relay->generation;
    hth_worker_view view;

    if (relay->has_failed) {
        hth_relay_end_stream(relay, 500); /* the client has the error event */
        return;
    }
    if (!relay->generates && relay->has_begun) {
        hth_relay_cut(relay, 502);
        return;
    }
    if (model->on_turn == relay) {
        model->generation_of_turn = relay->generation;
        is_anothers_turn = false;
    }
    hth_relay_leave_line(relay);
    relay->n_breaks += !relay->came_further;
    relay->is_unjudged = !is_anothers_turn;
    hth_info(relay->proxy->options.log, "request %s: the connection to the worker of model '%s' broke",
             relay->request_id, model->name);
    hth_supervisor_note_broken(relay->proxy->options.supervisor, model->name, relay->generation);
    if (relay->is_known_lost && relay->has_begun) {
        hth_relay_fail_with(
            relay, HTH_API_OVERLOADED,
            "the reply was broken off with its worker and cannot go on: it is too long to be remembered here");
        return;
    }
    if (relay->is_once) {
        fail_of_one_run(relay);
        return;
    }
    if (relay->n_breaks > relay->proxy->options.limits.retries_max + BREAKS_MORE_MAX) {
        fail_after_breaks(relay);
        return;
    }
    if (relay->is_unjudged && hth_supervisor_view_of(relay->proxy->options.supervisor, model->name, &view) &&
        !judge(relay, &view))
        return;
    hth_relay_tell_break(relay);
    if (relay->state == HTH_RELAY_OVER) /* the comment found no memory */
        return;
    hth_relay_ask(relay, relay->generation);
}

static void add_header(hth_upstream_request *request, hth_upstream_header *headers, const char *name, const char *value)
{
    if (!value)
        return;
    assert(request->n_headers < HEADERS_MAX);
    headers[request->n_headers++] = (hth_upstream_header){ .name = name, .value = value };
}

static const char *number_text(char *text, size_t capacity, uint64_t number)
{
    (void)snprintf(text, capacity, "%llu", (unsigned long long)number); /* fits */
    return text;
}

/* Forget the reply: it begins anew. */
static void forget(hth_relay *relay)
{
    relay->has_head = false;
    relay->is_known_lost = false;
    relay->record.n_tokens_out = 0;
    hth_buffer_clear(&relay->body);
    hth_buffer_clear(&relay->known);
    hth_buffer_clear(&relay->fresh);
}

static void begin_run(hth_relay *relay)
{
    relay->run = HTH_RUN_SILENT;
    relay->is_refused = false;
    relay->is_paused = false;
    relay->n_new_tokens = 0;
    relay->came_further = false;
    relay->n_again = 0;
    hth_buffer_clear(&relay->part);
    hth_buffer_deinit(&relay->ahead);
    hth_buffer_deinit(&relay->record_bytes);
    relay->has_whole_record = false;
    /* After a whole reply that was an error, the next worker answers anew. */
    if (!relay->generates || (!relay->has_begun && (relay->is_known_lost || (relay->has_head && relay->status >= 400))))
        forget(relay);
    if (relay->fresh.n > 0)
        hth_buffer_add(&relay->known, relay->fresh.text, relay->fresh.n);
    hth_buffer_clear(&relay->fresh);
}

static const char *body_of(const hth_relay *relay, size_t *n_out)
{
    if (!relay->kept_body)
        return hth_http_body(relay->exchange, n_out);
    *n_out = relay->n_kept_body;
    return relay->kept_body;
}

/* Send the request. */
static void run(hth_relay *relay, const char *socket_path, uint64_t generation)
{
    const hth_upstream_watch watch = {
        .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done, .user_data = relay
    };
    const char *type = relay->kept_body ? relay->kept_type : hth_http_header(relay->exchange, "Content-Type");
    hth_upstream_header headers[HEADERS_MAX];
    hth_upstream_request request = {
        .socket_path = socket_path, .method = relay->method, .target = relay->target, .headers = headers
    };
    char seed[24], created[24], n_known[24], n_past[24];
    hearth_error err;

    begin_run(relay);
    if (relay->known.failed) {
        hth_relay_fail_without_memory(relay);
        return;
    }
    if (strcmp(relay->method, "POST") == 0) /* others have none; libcurl would not send HEAD with one */
        request.body[HTH_RELAY_BODY_PIECE] = body_of(relay, &request.body_bytes[HTH_RELAY_BODY_PIECE]);
    add_header(&request, headers, "Content-Type", type ? type : "application/json");
    add_header(&request, headers, HTH_HEADER_REQUEST_ID, relay->request_id);
    add_header(&request, headers, "traceparent", relay->traceparent);
    add_header(&request, headers, HTH_HEADER_SALT, relay->salt);
    add_header(&request, headers, HTH_HEADER_ADAPTER, relay->names_adapter ? "1" : NULL);
    if (relay->generates) {
        add_header(&request, headers, HTH_HEADER_FRAMES, "1");
        add_header(&request, headers, HTH_HEADER_ID, relay->id);
        add_header(&request, headers, HTH_HEADER_CREATED, number_text(created, sizeof(created), relay->created_s));
        add_header(&request, headers, HTH_HEADER_SEED, number_text(seed, sizeof(seed), relay->seed));
    }
    /*
     * This header tells the worker that the request was in a queue before and keeps its place, even with 0 known bytes.
     */
    if (relay->generates && relay->n_runs > 0) {
        request.body[0] = relay->known.text;
        request.body_bytes[0] = relay->known.n;
        add_header(&request, headers, HTH_HEADER_KNOWN, number_text(n_known, sizeof(n_known), relay->known.n));
    }
    if (relay->past_bytes > 0) {
        request.body[1] = relay->past;
        request.body_bytes[1] = relay->past_bytes;
        add_header(&request, headers, HTH_HEADER_PAST, number_text(n_past, sizeof(n_past), relay->past_bytes));
    }
    relay->generation = generation;
    relay->n_deaths_then = relay->model->n_deaths;
    relay->state = HTH_RELAY_RUNNING;
    relay->n_runs++;
    if (relay->n_runs > 1)
        hth_info(relay->proxy->options.log, "request %s: goes on in another worker of model '%s'", relay->request_id,
                 relay->model->name);
    if (hth_upstream_begin(relay->proxy->options.upstream, &request, &watch, &relay->call, &err) != HEARTH_OK)
        hth_relay_fail_status(relay, &err);
}
