/*
 * dialog_server.c - replies of a server with OpenAI's API; see dialog_source.h
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/buffer.h"
#include "api/defaults.h"
#include "base/os.h"
#include "base/status.h"
#include "chat/chat_server.h"
#include "chat/dialog_signals.h"
#include "chat/dialog_source.h"
#include "http/fetch.h"

enum { SILENCE_S = 3600 };

typedef struct remote {
    hth_dialog_source source;
    hth_fetch *fetch;
    const hth_api_defaults *defaults;
    const char *key;
    hth_chat_server_model model;
    char base[HTH_CHAT_SERVER_URL_BYTES];
} remote;

/* ---- the request ---- */

static char *body_of(const remote *r, const hth_talk *talk)
{
    const hth_api_defaults *given = r->defaults;
    json_t *body = json_pack("{s:s, s:o, s:b, s:{s:b}}", "model", r->model.name, "messages", hth_talk_request(talk),
                             "stream", true, "stream_options", "include_usage", true);
    char *text;

    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
        const hth_sampling_number *number = &hth_sampling_numbers[i];
        double value;

        memcpy(&value, (const char *)&given->sampling + number->in_values, sizeof(value));
        if (strcmp(number->name, "temperature") == 0 && !isnan(talk->temperature))
            value = talk->temperature;
        if (!isnan(value))
            json_object_set_new(body, number->name, json_real(value));
    }
    if (r->model.tells_timings) /* a stopped reply has no end that would have them */
        json_object_set_new(body, "timings_per_token", json_true());
    if (!isnan(given->n_predict) && given->n_predict > 0)
        json_object_set_new(body, "max_tokens", json_integer((json_int_t)given->n_predict));
    if (given->reasoning == HTH_API_REASONING_OFF)
        json_object_set_new(body, "reasoning_effort", json_string("none"));
    if (given->template_values)
        json_object_set_new(body, "chat_template_kwargs", json_loads(given->template_values, 0, NULL));
    text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

/*
 * Signals stay blocked while writing to a terminal: one would end the write, and text would be lost. Writing to a pipe
 * may wait forever, so a signal must be able to end that.
 */
static bool take(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data)
{
    bool goes_on;

    if (isatty(STDOUT_FILENO))
        hth_dialog_signals_let_in(false);
    goes_on = hth_chat_stream_take(fetch, status, bytes, n_bytes, user_data);
    hth_dialog_signals_let_in(true);
    return goes_on && !hth_dialog_stop;
}

static hearth_status reply(hth_dialog_source *source, const hth_talk *talk, const hth_dialog_hooks *hooks,
                           hth_dialog_figures *out, hearth_error *err)
{
    remote *r = (remote *)source;
    hth_chat_stream s = { .hooks = hooks, .figures = out };
    const uint64_t begin_ns = hth_os_monotonic_ns();
    char url[HTH_FETCH_URL_BYTES], shown[HTH_FETCH_URL_BYTES], *body = body_of(r, talk);
    hth_fetch_order order = {
        .url = url, .key = r->key, .json = body, .silence_s = SILENCE_S, .stop = &hth_dialog_stop
    };
    hearth_status status;
    long answer = 0;

    *out = (hth_dialog_figures){ .has_counts = false };
    if (!body)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the conversation");
    (void)hth_fetch_address(r->base, "/v1/chat/completions", url, &order.socket); /* sized for it */
    order.on_bytes = take;
    order.user_data = &s;
    hth_dialog_signals_let_in(true);
    status = hth_fetch_transfer(r->fetch, &order, &answer, err);
    hth_dialog_signals_let_in(false);
    if (status == HEARTH_OK)
        status = hth_chat_stream_conclude(&s, r->base, answer, err);
    else if (hth_dialog_stop)
        status = HEARTH_CANCELLED;
    else if (status == HEARTH_CANCELLED)
        status = hth_fail(err, HEARTH_IO, "%s sends an event that is too large, or there is no memory for it",
                          hth_fetch_shown(r->base, shown));
    r->model.tells_timings |= s.has_timings;
    out->ttft_ms = s.first_ns > 0 ? (double)(s.first_ns - begin_ns) / 1e6 : 0;
    hth_buffer_deinit(&s.line);
    free(body);
    return status;
}

/* ---- open and close ---- */

static void close_remote(hth_dialog_source *source)
{
    remote *r = (remote *)source;

    hth_fetch_free(r->fetch);
    free(r->model.name);
    free(r);
}

hearth_status hth_dialog_server_open(const char *url, const char *key, const char *model,
                                     const hth_api_defaults *defaults, hth_dialog_source **out, hearth_error *err)
{
    remote *r = calloc(1, sizeof(*r));
    hearth_status status = HEARTH_OK;

    if (!r || !(r->fetch = hth_fetch_new())) {
        free(r);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a connection");
    }
    r->key = key;
    r->defaults = defaults;
    status = hth_chat_server_base(url, r->base, err);
    if (status == HEARTH_OK && model) { /* its first reply shows whether the server sends timings */
        r->model.name = strdup(model);
        if (!r->model.name)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the name of a model");
    } else if (status == HEARTH_OK) {
        hth_dialog_signals_end_at_once(true);
        status = hth_chat_server_find(r->base, key, &r->model, err);
        hth_dialog_signals_end_at_once(false);
    }
    if (status != HEARTH_OK) {
        close_remote(&r->source);
        return status;
    }
    r->source = (hth_dialog_source){ .model = r->model.name, .reply = reply, .close = close_remote };
    *out = &r->source;
    return HEARTH_OK;
}
