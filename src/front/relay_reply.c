/*
 * relay_reply.c - one relay and its client: whole replies, streams, errors and ends
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/ndjson.h"
#include "api/sse.h"
#include "base/os.h"
#include "front/proxy_inside.h"

static const char body_type[] = "application/json";
/* For when there is no memory for another text. */
static const char no_memory_body[] =
    "{\"error\":{\"message\":\"the server is out of memory\",\"type\":\"server_error\"}}";

static double ms_since(uint64_t ns)
{
    return (double)(hth_os_monotonic_ns() - ns) / 1e6;
}

static void note_byte(hth_relay *relay)
{
    if (relay->record.first_byte_ms <= 0)
        relay->record.first_byte_ms = ms_since(relay->begun_ns);
}

/* The relay is over. The caller ends the exchange, if there still is one. */
static hth_http_exchange *take_exchange(hth_relay *relay, int status)
{
    hth_http_exchange *exchange = relay->exchange;

    assert(exchange || relay->kept || relay->is_detached);
    hth_relay_let_go(relay);
    relay->exchange = NULL;
    relay->state = HTH_RELAY_OVER;
    relay->record.status = status;
    relay->record.duration_ms = ms_since(relay->begun_ns);
    relay->record.n_resumed = relay->n_runs > 1 ? relay->n_runs - 1 : 0;
    hth_proxy_note_over(relay);
    return exchange;
}

static void add_retry_after(hth_http_exchange *exchange, uint32_t seconds)
{
    char text[16];

    if (seconds == 0)
        return;
    (void)snprintf(text, sizeof(text), "%u", seconds); /* fits */
    hth_http_header_add(exchange, "Retry-After", text);
}

static void add_notes(hth_relay *relay)
{
    if (relay->notes[0] && relay->exchange)
        hth_http_header_add(relay->exchange, HTH_API_NOTES_HEADER, relay->notes);
}

/* ---- kept streams ---- */

static void on_kept_room(void *user_data)
{
    hth_relay_on_room(user_data);
}

static void on_given_up(void *user_data)
{
    hth_relay *relay = user_data;

    (void)take_exchange(relay, HTH_STATUS_CLIENT_GONE); /* kept had it */
    relay->kept = NULL;
}

/* The exchange may end before the reply: copy the parts of the request that another worker needs. */
static bool keep_request(hth_relay *relay)
{
    const char *type = hth_http_header(relay->exchange, "Content-Type"), *body;
    size_t n = 0;

    body = hth_http_body(relay->exchange, &n);
    relay->kept_body = malloc(n + 1);
    if (!relay->kept_body)
        return false;
    if (n > 0)
        memcpy(relay->kept_body, body, n);
    relay->n_kept_body = n;
    if (relay->call)
        hth_upstream_move_body(relay->call, HTH_RELAY_BODY_PIECE, relay->kept_body);
    (void)snprintf(relay->kept_type, sizeof(relay->kept_type), "%s",
                   type ? type : body_type); /* cut: nobody reads it */
    return true;
}

bool hth_relay_detach(hth_relay *relay, const void *body, size_t n)
{
    hth_http_exchange *exchange = relay->exchange;

    if (!keep_request(relay))
        return false;
    add_notes(relay);
    note_byte(relay);
    relay->is_detached = true;
    relay->exchange = NULL;
    hth_http_reply(exchange, 200, body_type, body, n);
    return true;
}

static void keep_stream(hth_relay *relay)
{
    const hth_kept_writer writer = { .on_room = on_kept_room, .on_given_up = on_given_up, .user_data = relay };
    hth_kept_streams *streams = relay->proxy->options.kept;
    size_t n = 0;

    (void)hth_http_body(relay->exchange, &n);
    if (!hth_kept_streams_have_room(streams, relay->key, n) || !keep_request(relay))
        return;
    relay->kept = hth_kept_stream_new(streams, relay->form == HTH_FORM_LINES ? HTH_KEPT_LINES : HTH_KEPT_EVENTS,
                                      relay->id, relay->key, n, &writer);
    if (relay->kept)
        hth_http_header_add(relay->exchange, HTH_HEADER_STREAM, relay->id);
}

/* ---- streams ---- */

void hth_relay_begin_stream(hth_relay *relay, int status, const char *content_type)
{
    relay->has_begun = true;
    relay->record.status = status;
    relay->form = strcmp(content_type, HTH_NDJSON_CONTENT_TYPE) == 0                             ? HTH_FORM_LINES
                : strncmp(content_type, HTH_SSE_CONTENT_TYPE, strlen(HTH_SSE_CONTENT_TYPE)) == 0 ? HTH_FORM_EVENTS
                                                                                                 : HTH_FORM_BYTES;
    relay->record.is_stream = relay->form != HTH_FORM_BYTES;
    if (relay->is_detached)
        return;
    if (relay->form != HTH_FORM_BYTES) {
        hth_http_header_add(relay->exchange, "Cache-Control", "no-cache");
        hth_http_header_add(relay->exchange, "X-Accel-Buffering", "no"); /* else nginx would buffer events */
    }
    add_notes(relay);
    if (relay->form != HTH_FORM_BYTES && relay->wants_kept)
        keep_stream(relay);
    note_byte(relay);
    relay->written_ns = hth_os_monotonic_ns();
    hth_http_stream_begin(relay->exchange, status, content_type);
    if (relay->kept) {
        hth_http_exchange *exchange = relay->exchange;

        relay->exchange = NULL;
        hth_kept_stream_take_reader(relay->kept, exchange);
    }
    if (relay->form != HTH_FORM_BYTES)
        hth_proxy_watch_time(relay->proxy);
}

void hth_relay_write(hth_relay *relay, const void *bytes, size_t n)
{
    const char *text = bytes;

    if (n == 0 || relay->state == HTH_RELAY_OVER)
        return;
    if (n > 1)
        relay->last_bytes[0] = text[n - 2];
    else
        relay->last_bytes[0] = relay->last_bytes[1];
    relay->last_bytes[1] = text[n - 1];
    relay->record.bytes_out += n;
    relay->written_ns = hth_os_monotonic_ns();
    if (relay->is_detached)
        return;
    if (!relay->kept)
        hth_http_stream_write(relay->exchange, bytes, n);
    else if (!hth_kept_stream_write(relay->kept, bytes, n))
        hth_relay_cut(relay, 503); /* no memory */
}

bool hth_relay_is_backlogged(const hth_relay *relay)
{
    if (relay->kept)
        return hth_kept_stream_is_full(relay->kept);
    return relay->has_begun && !relay->is_detached && hth_http_stream_backlog(relay->exchange) >= HTH_HTTP_BACKLOG_MAX;
}

void hth_relay_end_stream(hth_relay *relay, int status)
{
    hth_http_exchange *exchange = take_exchange(relay, status);

    if (relay->kept)
        hth_kept_stream_end(relay->kept, true);
    else if (exchange)
        hth_http_stream_end(exchange);
    relay->kept = NULL;
}

void hth_relay_cut(hth_relay *relay, int status)
{
    hth_http_exchange *exchange = take_exchange(relay, status);

    if (relay->kept)
        hth_kept_stream_end(relay->kept, false);
    else if (exchange)
        hth_http_abort(exchange);
    relay->kept = NULL;
}

void hth_relay_reply(hth_relay *relay, int status, const char *content_type, const void *body, size_t n)
{
    uint32_t retry_after_s = relay->retry_after_s;
    hth_http_exchange *exchange;

    add_notes(relay);
    note_byte(relay);
    relay->record.bytes_out = n;
    exchange = take_exchange(relay, status);
    if (!exchange)
        return; /* detached */
    add_retry_after(exchange, retry_after_s);
    hth_http_reply(exchange, status, content_type, body, n);
}

/* Is the stream between two events, so that another one can follow? */
static bool is_between_events(const hth_relay *relay)
{
    if (relay->form == HTH_FORM_BYTES || relay->record.bytes_out == 0)
        return relay->form != HTH_FORM_BYTES;
    if (relay->form == HTH_FORM_LINES) /* after a whole line or a space of keep_alive */
        return relay->last_bytes[1] == '\n' || relay->last_bytes[1] == ' ';
    return memcmp(relay->last_bytes, "\n\n", 2) == 0;
}

void hth_relay_fail(hth_relay *relay, const hth_api_error *error)
{
    int status = hth_api_error_http_status(relay->dialect, error);
    hth_buffer text = { .text = NULL };

    if (!relay->record.why) {                                                 /* the record outlives error */
        (void)snprintf(relay->why, sizeof(relay->why), "%s", error->message); /* as long */
        relay->record.why = relay->why;
    }
    if (relay->has_begun && is_between_events(relay)) {
        hth_api_error_write_event(relay->dialect, error, &text);
        if (text.failed) {
            hth_relay_cut(relay, status);
        } else {
            hth_relay_write(relay, text.text, text.n);
            if (relay->state != HTH_RELAY_OVER)
                hth_relay_end_stream(relay, status);
        }
    } else if (relay->has_begun) {
        hth_relay_cut(relay, status);
    } else {
        hth_api_error_write(relay->dialect, error, &text);
        relay->retry_after_s = error->retry_after_s;
        hth_relay_reply(relay, status, body_type, text.failed ? no_memory_body : text.text,
                        text.failed ? sizeof(no_memory_body) - 1 : text.n);
    }
    hth_buffer_deinit(&text);
}

void hth_relay_fail_status(hth_relay *relay, const hearth_error *err)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail_status(&error, err);
    hth_relay_fail(relay, &error);
}

void hth_relay_fail_with(hth_relay *relay, hth_api_error_kind kind, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, kind, NULL, "%s", message);
    hth_relay_fail(relay, &error);
}

void hth_relay_fail_without_memory(hth_relay *relay)
{
    hth_relay_fail_with(relay, HTH_API_OVERLOADED, "the server has no memory for the reply");
}

void hth_relay_on_close(void *user_data)
{
    hth_relay *relay = user_data;

    (void)take_exchange(relay, HTH_STATUS_CLIENT_GONE); /* it has ended */
}

/* What it waits for; "": nothing that is known, or its worker speaks itself. */
static void tell_wait(const hth_relay *relay, char out[HTH_WAIT_TEXT_BYTES])
{
    const bool is_there = relay->state == HTH_RELAY_RUNNING;

    out[0] = 0;
    if (relay->state == HTH_RELAY_WAITING || is_there)
        hth_supervisor_tell_wait(relay->proxy->options.supervisor, relay->model->name, is_there ? relay->generation : 0,
                                 out);
}

void hth_relay_begin_early(hth_relay *relay, uint64_t now_ns)
{
    char wait[HTH_WAIT_TEXT_BYTES];

    if (now_ns - relay->begun_ns < hth_ms_to_ns(relay->proxy->options.limits.keep_alive_ms))
        return;
    tell_wait(relay, wait);
    if (relay->state == HTH_RELAY_RUNNING && !*wait)
        return;
    hth_buffer_clear(&relay->body); /* of an earlier worker */
    relay->has_head = true;
    relay->is_stream = true;
    relay->status = 200;
    (void)snprintf(relay->content_type, sizeof(relay->content_type), "%s",
                   hth_api_stream_type(relay->dialect)); /* fits */
    hth_relay_begin_stream(relay, relay->status, relay->content_type);
    relay->written_ns = relay->begun_ns; /* so that the comment leaves now */
    hth_relay_keep_alive(relay, now_ns);
}

void hth_relay_keep_alive(hth_relay *relay, uint64_t now_ns)
{
    const uint64_t most_ns = hth_ms_to_ns(relay->proxy->options.limits.keep_alive_ms),
                   silence_ns = now_ns - relay->written_ns;
    hth_buffer text = { .text = NULL };
    char wait[HTH_WAIT_TEXT_BYTES];

    if (silence_ns < most_ns || !is_between_events(relay) || hth_relay_is_backlogged(relay))
        return;
    tell_wait(relay, wait);
    if (relay->state == HTH_RELAY_RUNNING && !*wait && silence_ns < 2 * most_ns)
        return; /* the worker should do it */
    if (relay->form == HTH_FORM_LINES)
        hth_ndjson_add_nothing(&text);
    else
        hth_sse_add_comment(&text, wait);
    if (!text.failed)
        hth_relay_write(relay, text.text, text.n);
    hth_buffer_deinit(&text);
}

void hth_relay_tell_break(hth_relay *relay)
{
    static const char comment[] = ": worker ended\n\n";

    if (relay->kept && relay->form == HTH_FORM_EVENTS && relay->has_begun && is_between_events(relay))
        hth_relay_write(relay, comment, sizeof(comment) - 1);
}
