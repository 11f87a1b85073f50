/*
 * proxy.c - all relays: their models, the turns of suspects, the clock, and the end of relays
 */
#include "front/proxy.h"

#include <assert.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/draw.h"
#include "base/os.h"
#include "base/status.h"
#include "front/proxy_inside.h"

enum { TICK_MS_MIN = 10, TICK_MS_MAX = 1000 };

/* ---- models ---- */

/* NULL without memory. */
static hth_proxy_model *model_ref(hth_proxy *proxy, const char *name)
{
    hth_proxy_model *model;
    size_t n = strlen(name) + 1;

    LL_FOREACH(proxy->models, model)
    {
        if (strcmp(model->name, name) == 0)
            break;
    }
    if (!model) {
        model = calloc(1, sizeof(*model) + n);
        if (!model)
            return NULL;
        memcpy(model->name, name, n);
        LL_PREPEND(proxy->models, model);
    }
    model->n_relays++;
    return model;
}

/* A model that has had a worker is kept. Configured models alone have workers, so this memory is bounded. */
static void model_unref(hth_proxy *proxy, hth_proxy_model *model)
{
    if (--model->n_relays > 0 || model->generation > 0)
        return;
    LL_DELETE(proxy->models, model);
    free(model);
}

/* ---- turns ---- */

void hth_relay_leave_line(hth_relay *relay)
{
    hth_proxy_model *model = relay->model;

    if (relay->state == HTH_RELAY_IN_LINE) {
        DL_DELETE2(model->line, relay, line_prev, line_next);
        relay->state = HTH_RELAY_WAITING;
    }
    if (model->on_turn != relay)
        return;
    model->on_turn = NULL;
    event_active(relay->proxy->soon, EV_TIMEOUT, 0); /* gives the turn to the next one */
}

bool hth_relay_take_turn(hth_relay *relay)
{
    hth_proxy_model *model = relay->model;

    if (!model->on_turn && !model->line)
        model->on_turn = relay;
    if (model->on_turn == relay)
        return true;
    DL_APPEND2(model->line, relay, line_prev, line_next);
    relay->state = HTH_RELAY_IN_LINE;
    relay->line_ns = hth_os_monotonic_ns();
    hth_proxy_watch_time(relay->proxy);
    return false;
}

static void give_turn(hth_proxy_model *model)
{
    hth_relay *relay = model->line;

    if (model->on_turn || !relay)
        return;
    DL_DELETE2(model->line, relay, line_prev, line_next);
    relay->state = HTH_RELAY_WAITING;
    model->on_turn = relay;
    hth_relay_ask(relay, relay->generation);
}

/* ---- the clock ---- */

void hth_proxy_watch_time(hth_proxy *proxy)
{
    const struct timeval wait = { .tv_sec = proxy->tick_ms / 1000,
                                  .tv_usec = (suseconds_t)(proxy->tick_ms % 1000) * 1000 };

    if (!event_pending(proxy->tick, EV_TIMEOUT, NULL))
        (void)event_add(proxy->tick, &wait); /* fails without memory: the next one tries again */
}

static void fail_in_line(hth_relay *relay)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_OVERLOADED, NULL,
                 "workers of model '%s' died with this request, so it waits while other such requests are tried; it "
                 "waited too long",
                 relay->model->name);
    error.retry_after_s = 10;
    hth_relay_fail(relay, &error);
}

static void on_tick(evutil_socket_t fd, short what, void *user_data)
{
    hth_proxy *proxy = user_data;
    uint64_t now_ns = hth_os_monotonic_ns(), line_ns = hth_ms_to_ns(proxy->options.limits.wait_timeout_ms);
    bool is_needed = false;
    hth_relay *relay;

    (void)fd;
    (void)what;
    /* What ends a relay may end others: see hth_proxy_note_over. */
    for (proxy->next = proxy->relays; (relay = proxy->next) != NULL;) {
        proxy->next = relay->next;
        if (relay->form != HTH_FORM_BYTES && proxy->options.limits.keep_alive_ms > 0)
            hth_relay_keep_alive(relay, now_ns);
        else if (hth_relay_may_begin_early(relay))
            hth_relay_begin_early(relay, now_ns);
        is_needed = is_needed || relay->form != HTH_FORM_BYTES || relay->state == HTH_RELAY_IN_LINE ||
                    hth_relay_may_begin_early(relay);
        if (relay->state == HTH_RELAY_IN_LINE && now_ns - relay->line_ns >= line_ns)
            fail_in_line(relay);
    }
    if (is_needed)
        hth_proxy_watch_time(proxy);
}

/* ---- ends ---- */

void hth_proxy_note_over(hth_relay *relay)
{
    hth_proxy *proxy = relay->proxy;

    if (proxy->next == relay)
        proxy->next = relay->next;
    DL_DELETE(proxy->relays, relay);
    DL_APPEND(proxy->over, relay);
    event_active(proxy->soon, EV_TIMEOUT, 0);
}

static void relay_free(hth_relay *relay)
{
    hth_buffer_deinit(&relay->part);
    hth_buffer_deinit(&relay->ahead);
    hth_buffer_deinit(&relay->record_bytes);
    hth_buffer_deinit(&relay->body);
    hth_buffer_deinit(&relay->known);
    hth_buffer_deinit(&relay->fresh);
    free(relay->more_step_ns);
    free(relay->kept_body);
    model_unref(relay->proxy, relay->model);
    free(relay);
}

static void tell_over(hth_proxy *proxy)
{
    while (proxy->over) {
        hth_relay *relay = proxy->over;

        DL_DELETE(proxy->over, relay);
        proxy->n_relays--;
        relay->on_over(&relay->record, relay->user_data);
        relay_free(relay);
    }
}

static void on_soon(evutil_socket_t fd, short what, void *user_data)
{
    hth_proxy *proxy = user_data;
    hth_proxy_model *model;

    (void)fd;
    (void)what;
    LL_FOREACH(proxy->models, model)
    give_turn(model);
    tell_over(proxy);
}

void hth_proxy_end_all(hth_proxy *proxy, const hth_api_error *error)
{
    while (proxy->relays)
        hth_relay_fail(proxy->relays, error);
}

/* ---- beginnings ---- */

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *copy_text(char **at, const char *text)
{
    char *copy = *at;
    size_t n = text_bytes(text);

    if (!text)
        return NULL;
    memcpy(copy, text, n);
    *at += n;
    return copy;
}

/* NULL without memory. */
static hth_relay *relay_new(hth_proxy *proxy, hth_http_exchange *exchange, const hth_relay_request *request)
{
    size_t n_text = text_bytes(request->method) + text_bytes(request->target) + text_bytes(request->id) +
                    text_bytes(request->request_id) + text_bytes(request->traceparent) + text_bytes(request->salt);
    hth_relay *relay = calloc(1, sizeof(*relay) + n_text);
    hth_proxy_model *model = relay ? model_ref(proxy, request->model) : NULL;
    char *at;

    if (!model) {
        free(relay);
        return NULL;
    }
    relay->proxy = proxy;
    relay->model = model;
    relay->exchange = exchange;
    relay->on_over = request->on_over;
    relay->user_data = request->user_data;
    relay->on_record = request->on_record;
    relay->on_begun = request->on_begun;
    relay->past = request->past;
    relay->past_bytes = request->past_bytes;
    at = relay->text;
    relay->method = copy_text(&at, request->method);
    relay->target = copy_text(&at, request->target);
    relay->id = copy_text(&at, request->id);
    relay->request_id = request->request_id ? copy_text(&at, request->request_id) : relay->id;
    relay->traceparent = copy_text(&at, request->traceparent);
    relay->salt = copy_text(&at, request->salt);
    relay->dialect = request->dialect;
    relay->generates = request->generates;
    relay->names_adapter = request->names_adapter;
    relay->is_once = request->is_once;
    relay->wants_events = request->wants_events;
    relay->wants_kept = request->wants_kept && proxy->options.kept;
    if (relay->wants_kept)
        memcpy(relay->key, request->key, sizeof(relay->key));
    relay->begun_ns = hth_os_monotonic_ns();
    relay->created_s = hth_os_unix_seconds();
    relay->seed = hth_draw_seed();
    DL_APPEND(proxy->relays, relay);
    proxy->n_relays++;
    return relay;
}

static void refuse(hth_http_exchange *exchange, const hth_relay_request *request)
{
    static const char body[] = "{\"error\":{\"message\":\"the server is out of memory\",\"type\":\"server_error\"}}";
    const hth_api_error error = { .kind = HTH_API_OVERLOADED };
    hth_record record = { .status = hth_api_error_http_status(request->dialect, &error),
                          .bytes_out = sizeof(body) - 1 };

    hth_http_reply(exchange, record.status, "application/json", body, sizeof(body) - 1);
    request->on_over(&record, request->user_data);
}

hth_relay *hth_proxy_relay(hth_proxy *proxy, hth_http_exchange *exchange, const hth_relay_request *request)
{
    hth_relay *relay = relay_new(proxy, exchange, request);

    if (!relay) {
        refuse(exchange, request);
        return NULL;
    }
    hth_http_watch_set(
        exchange,
        &(hth_http_watch){ .on_close = hth_relay_on_close, .on_room = hth_relay_on_room, .user_data = relay });
    hth_relay_ask(relay, 0);
    return relay;
}

void hth_proxy_cancel(hth_relay *relay)
{
    if (relay->state != HTH_RELAY_OVER)
        hth_relay_cut(relay, HTH_STATUS_CLIENT_GONE);
}

/* ---- the proxy ---- */

hearth_status hth_proxy_new(const hth_proxy_options *options, hth_proxy **out, hearth_error *err)
{
    struct event_base *base = hth_upstream_base(options->upstream);
    hth_proxy *proxy = calloc(1, sizeof(*proxy));

    if (!proxy)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the proxy");
    proxy->options = *options;
    hth_proxy_set_limits(proxy, &options->limits);
    proxy->soon = event_new(base, -1, 0, on_soon, proxy);
    proxy->tick = event_new(base, -1, 0, on_tick, proxy);
    if (!proxy->soon || !proxy->tick) {
        hth_proxy_free(proxy);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the proxy");
    }
    *out = proxy;
    return HEARTH_OK;
}

void hth_proxy_free(hth_proxy *proxy)
{
    hth_proxy_model *model, *next;

    if (!proxy)
        return;
    assert(!proxy->relays);
    tell_over(proxy);
    LL_FOREACH_SAFE(proxy->models, model, next)
    free(model);
    if (proxy->soon)
        event_free(proxy->soon);
    if (proxy->tick)
        event_free(proxy->tick);
    free(proxy);
}

void hth_proxy_set_limits(hth_proxy *proxy, const hth_relay_limits *limits)
{
    const uint32_t keep_alive_ms = limits->keep_alive_ms, wait_ms = limits->wait_timeout_ms;
    const uint32_t shorter_ms = keep_alive_ms > 0 && keep_alive_ms < wait_ms ? keep_alive_ms : wait_ms;

    proxy->options.limits = *limits;
    proxy->tick_ms = shorter_ms / 4;
    if (proxy->tick_ms < TICK_MS_MIN)
        proxy->tick_ms = TICK_MS_MIN;
    if (proxy->tick_ms > TICK_MS_MAX)
        proxy->tick_ms = TICK_MS_MAX;
}

size_t hth_proxy_n_relays(const hth_proxy *proxy)
{
    return proxy->n_relays;
}
