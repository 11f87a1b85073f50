/*
 * front_request.c - the memory, the answer and the end of a request: logs, metrics, events and the key's limits
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/os.h"
#include "base/status.h"
#include "front/front_request.h"

enum {
    BYTES_A_TOKEN = 4, /* a guess, of text */
};

/* ---- sets of options ---- */

hth_front_options *hth_front_options_hold(hth_front *front)
{
    front->options->n_users++;
    return front->options;
}

void hth_front_options_drop(hth_front *front, hth_front_options *options)
{
    if (!options || --options->n_users > 0)
        return;
    if (!options->is_first && front->hooks->release)
        front->hooks->release(options->options, front->hooks->user_data);
    free(options);
}

hth_front_request *hth_front_request_new(const char *method, const char *path, const char *peer)
{
    size_t n_method = strlen(method) + 1, n_path = strlen(path) + 1;
    hth_front_request *r = calloc(1, sizeof(*r) + n_method + n_path);

    if (!r)
        return NULL;
    r->method = memcpy(r->text, method, n_method);
    r->path = memcpy(r->text + n_method, path, n_path);
    (void)snprintf(r->peer, sizeof(r->peer), "%s", peer); /* cut: for logs */
    hth_end_at_character(r->peer, sizeof(r->peer));
    return r;
}

const uint8_t *hth_front_owner(const hth_front_request *r)
{
    static const uint8_t no_key[HTH_KEPT_KEY_BYTES] = { 0 };

    if (r->has_owner)
        return r->owner;
    static_assert(sizeof(((hth_server_key *)NULL)->sha256) == HTH_KEPT_KEY_BYTES, "a key is its digest");
    return r->use ? hth_key_use_key(r->use)->sha256 : no_key;
}

const char *hth_front_below(const hth_front_request *r)
{
    return r->path + strlen(r->route->path);
}

void hth_front_response_key(const hth_front_request *r, uint8_t key[HTH_RESPONSE_KEY_BYTES])
{
    char id[64];

    (void)snprintf(id, sizeof(id), "resp_%s", r->id); /* fits */
    hth_response_key(hth_front_owner(r), id, strlen(id), key);
}

void hth_front_note_over(hth_front *front)
{
    if (--front->n_requests == 0 && front->is_draining)
        front->on_last_over(front);
}

/* ---- events for operators (event_feed.h), which docs/monitoring.md describes ---- */

void hth_front_tell_begin(hth_front_request *r)
{
    r->is_announced = true;
    hth_event_feed_tell_take(r->front->feed, "request",
                             json_pack("{s:s, s:s, s:s, s:b}", "id", r->record.request_id, "model", r->model,
                                       "endpoint", r->record.endpoint, "stream", r->wants_events));
}

static void add_figure(json_t *object, const hth_figure *figure, const hth_frame_figures *figures)
{
    const char *name = hth_figure_name(figure->kind, figures);

    if (figure->in_event && hth_figure_is_there(figure, figures))
        (void)json_object_set_new(object, figure->in_event, /* left out without memory */
                                  name                            ? json_string(name)
                                  : figure->kind == HTH_FIGURE_MS ? json_real(hth_figure_ms(figure, figures))
                                                                  : json_integer(hth_figure_count(figure, figures)));
}

/* Of a request for which a model worked: the tokens, the times, and the rest. NULL without memory. */
static json_t *figures_json(const hth_frame_figures *figures)
{
    json_t *object = json_object();

    for (size_t i = 0; i < HTH_FIGURES_COUNTS; i++)
        if (hth_figures[i].kind == HTH_FIGURE_COUNT)
            add_figure(object, &hth_figures[i], figures);
    for (size_t i = HTH_FIGURES_COUNTS; i < HTH_FIGURES; i++)
        add_figure(object, &hth_figures[i], figures);
    for (size_t i = 0; i < HTH_FIGURES_COUNTS; i++)
        if (hth_figures[i].kind != HTH_FIGURE_COUNT)
            add_figure(object, &hth_figures[i], figures);
    return object;
}

/* Report the end of a request, if its beginning was reported. */
static void tell_end(const hth_front_request *r)
{
    const hth_access_record *record = &r->record;
    json_t *event;

    if (!r->is_announced)
        return;
    event = json_pack("{s:s, s:s, s:s, s:i, s:f}", "id", record->request_id, "model", r->model, "endpoint",
                      record->endpoint, "status", record->status, "ms", record->duration_ms);
    if (record->has_summary)
        (void)json_object_update_new(event, figures_json(&record->summary.figures)); /* left out without memory */
    hth_event_feed_tell_take(r->front->feed, "request_end", event);
}

/* ---- ends ---- */

/*
 * The tokens that count against the request's key. They count even if the client left early: the number of the reply's
 * tokens is known then, the number of the prompt's is a guess. Completed inputs for embeddings may have more tokens,
 * because a query counts with each document. They count even if the request ends with an error.
 */
static uint64_t n_tokens_used(const hth_access_record *record)
{
    const uint64_t n_guess = record->bytes_in / BYTES_A_TOKEN;
    const uint64_t n_prompt = record->has_summary ? record->summary.figures.n_prompt_tokens : n_guess;
    const uint64_t n_in = record->n_tokens_in > n_prompt ? record->n_tokens_in : n_prompt;

    if (record->has_summary)
        return n_in + record->summary.figures.n_reply_tokens;
    return record->n_tokens_out > 0 || record->n_tokens_in > 0 || record->status == HTH_STATUS_CLIENT_GONE
             ? record->n_tokens_out + n_in
             : 0;
}

bool hth_front_may_log_refusal(hth_front *front)
{
    uint64_t n_unlogged = 0;

    if (!hth_refusals_take(&front->refusals, hth_os_monotonic_ns(), &n_unlogged))
        return false;
    if (n_unlogged > 0)
        hth_warn(&front->log, "%" PRIu64 " requests were refused that no line tells of: there were too many at once",
                 n_unlogged);
    return true;
}

/* A line of the access log. A refusal is logged even without an access log, because it explains a client's trouble. */
static void log_request(const hth_front_request *r)
{
    hth_front *front = r->front;
    const hth_access_record *record = &r->record;
    const bool is_refused = record->why && *record->why;

    if (is_refused && !hth_front_may_log_refusal(front))
        return;
    if (!r->options->options->no_access_log)
        hth_server_log_request(front->server_log, record);
    else if (is_refused)
        hth_info(&front->log, "request %s of %s%s%s to %s %s is refused with %d: %s", record->request_id, record->peer,
                 record->key[0] ? ", key " : "", record->key, record->method, record->endpoint, record->status,
                 record->why);
}

void hth_front_request_end(hth_front_request *r)
{
    hth_front *front = r->front;
    hth_access_record *record = &r->record;

    if (r->is_counted)
        hth_key_use_end(r->use, hth_os_monotonic_ns(), n_tokens_used(record));
    hth_metrics_note(front->metrics, record);
    tell_end(r);
    if (record->notes)
        hth_passed_over_log(&front->passed_over, &front->log, record->key, record->endpoint, record->notes);
    log_request(r);
    hth_front_options_drop(front, r->options);
    if (record->goes_on)
        hth_running_end(&r->running);
    else
        hth_running_fail(&r->running, record->why ? record->why : "the response was broken off");
    hth_past_search_deinit(&r->past);
    free(r);
    hth_front_note_over(front);
}

void hth_front_on_record(const void *bytes, size_t n, void *user_data)
{
    hth_front_request *r = user_data;
    uint8_t key[HTH_RESPONSE_KEY_BYTES];

    hth_front_response_key(r, key);
    hth_response_store_put(r->front->responses, key, bytes, n);
    hth_running_end(&r->running);
}

void hth_front_on_relayed(const hth_access_record *record, void *user_data)
{
    hth_front_request *r = user_data;

    r->record = *record;
    hth_front_request_end(r);
}

void hth_front_request_gone(hth_front_request *r)
{
    r->record.status = HTH_STATUS_CLIENT_GONE;
    r->record.duration_ms = (double)(hth_os_monotonic_ns() - r->begin_ns) / 1e6;
    hth_front_request_end(r);
}

void hth_front_request_drop(hth_front_request *r)
{
    hth_front *front = r->front;

    hth_front_options_drop(front, r->options);
    free(r);
    hth_front_note_over(front);
}

void hth_front_request_answer_bytes(hth_front_request *r, int status, const char *content_type, const void *bytes,
                                    size_t n)
{
    r->record.status = status;
    r->record.bytes_out = n;
    r->record.duration_ms = (double)(hth_os_monotonic_ns() - r->begin_ns) / 1e6;
    hth_http_reply(r->exchange, status, content_type, bytes, n);
    hth_front_request_end(r);
}

void hth_front_request_answer(hth_front_request *r, int status, const char *content_type, const hth_buffer *body)
{
    hth_front_request_answer_bytes(r, status, content_type, hth_buffer_text(body), body->n);
}

void hth_front_request_refuse(hth_front_request *r, const hth_api_error *error, const char *reason)
{
    hth_api_dialect dialect = hth_path_dialect(r->path);
    hth_buffer body = { .text = NULL };

    hth_http_retry_after_add(r->exchange, error->retry_after_s);
    if (reason)
        hth_metrics_note_refused(r->front->metrics, reason);
    r->record.reason = reason;
    r->record.why = error->message;
    hth_api_error_write(dialect, error, &body);
    hth_front_request_answer(r, hth_api_error_http_status(dialect, error), "application/json", &body);
    hth_buffer_deinit(&body);
}

void hth_front_request_fail(hth_front_request *r, const char *reason, hth_api_error_kind kind, const char *format, ...)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    va_list arguments;

    va_start(arguments, format);
    hth_api_fail_list(&error, kind, NULL, format, arguments);
    va_end(arguments);
    hth_front_request_refuse(r, &error, reason);
}

void hth_front_request_refuse_method(hth_front_request *r, const char *methods)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_http_header_add(r->exchange, "Allow", methods);
    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "'%.100s' takes %s, not %s", r->path, methods, r->method);
    error.status = 405;
    hth_front_request_refuse(r, &error, NULL);
}

bool hth_front_request_check_body(hth_front_request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    const bool may_be_empty = r->route->kind == HTH_ROUTE_SLOT || r->route->kind == HTH_ROUTE_STORED;
    char text[128];
    const char *problem = hth_body_problem(r->exchange, 0, may_be_empty, text);

    if (!problem)
        return true;
    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "%s", problem);
    error.status = 415;
    hth_front_request_refuse(r, &error, NULL);
    return false;
}
