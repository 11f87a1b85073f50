/*
 * dialog_server.c - replies of a server with OpenAI's API; see dialog_source.h
 *
 * Hearth and llama-server tell numbers of a reply in `timings`; of other servers only `usage` is known.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/buffer.h"
#include "api/defaults.h"
#include "base/os.h"
#include "base/status.h"
#include "cli/dialog_signals.h"
#include "cli/dialog_source.h"
#include "server/ask.h"
#include "server/fetch.h"

enum { URL_BYTES = 2048, LINE_BYTES_MAX = 16 << 20, SILENCE_S = 3600 };

typedef struct remote {
    hth_dialog_source source;
    hth_fetch *fetch;
    const hth_api_defaults *defaults;
    const char *key;
    char *model;
    char base[URL_BYTES]; /* without "/" and "/v1" at its end */
} remote;

/* One reply: a stream of events, each a line that begins with "data:". */
typedef struct stream {
    const hth_dialog_hooks *hooks;
    hth_dialog_figures *figures;
    uint64_t begin_ns, first_ns;
    hth_buffer line;   /* not complete yet; of an error, its body */
    char message[256]; /* of an error event */
    bool has_ended;
} stream;

/* ---- the request ---- */

static char *body_of(const remote *r, const hth_talk *talk)
{
    const hth_api_defaults *given = r->defaults;
    json_t *body = json_pack("{s:s, s:o, s:b, s:{s:b}}", "model", r->model, "messages", hth_talk_request(talk),
                             "stream", true, "stream_options", "include_usage", true);
    char *text;

    for (size_t i = 0; i < HTH_API_SAMPLING_NUMBERS; i++) {
        const hth_api_sampling_number *number = &hth_api_sampling_numbers[i];
        double value;

        memcpy(&value, (const char *)&given->sampling + number->in_values, sizeof(value));
        if (strcmp(number->name, "temperature") == 0 && !isnan(talk->temperature))
            value = talk->temperature;
        if (!isnan(value))
            json_object_set_new(body, number->name, json_real(value));
    }
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

/* ---- events ---- */

static void take_text(stream *s, const json_t *delta, const char *key, bool is_thought)
{
    const json_t *text = json_object_get(delta, key);

    if (!json_is_string(text) || json_string_length(text) == 0)
        return;
    if (s->first_ns == 0)
        s->first_ns = hth_os_monotonic_ns();
    s->hooks->on_text(is_thought, json_string_value(text), json_string_length(text), s->hooks->user_data);
}

static uint32_t count_of(const json_t *object, const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static void copy_name(char *out, size_t capacity, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    (void)snprintf(out, capacity, "%s", text ? text : ""); /* names are short */
    hth_end_at_character(out, capacity);
}

static void take_numbers(hth_dialog_figures *f, const json_t *event)
{
    const json_t *usage = json_object_get(event, "usage"), *timings = json_object_get(event, "timings");

    if (json_is_object(usage)) {
        f->has_counts = true;
        f->prompt_tokens = count_of(usage, "prompt_tokens");
        f->cached_tokens = count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    }
    if (!json_is_object(timings))
        return;
    f->tokens_per_s = json_number_value(json_object_get(timings, "predicted_per_second"));
    if (!json_object_get(timings, "miss"))
        return;
    f->has_hit = true;
    copy_name(f->hit, sizeof(f->hit), timings, "hit");
    copy_name(f->tier, sizeof(f->tier), timings, "tier");
    copy_name(f->miss, sizeof(f->miss), timings, "miss");
    copy_name(f->left_text, sizeof(f->left_text), timings, "left_text");
    f->left_at = count_of(timings, "left_at");
}

/* The message of an error in the form of OpenAI's API. */
static void take_error(stream *s, const json_t *object)
{
    const json_t *error = json_object_get(object, "error");
    const char *message = json_string_value(json_is_string(error) ? error : json_object_get(error, "message"));

    if (message)
        (void)snprintf(s->message, sizeof(s->message), "%s", message); /* cut */
    hth_end_at_character(s->message, sizeof(s->message));
}

static void take_event(stream *s, const char *text, size_t n_bytes)
{
    json_t *event = json_loadb(text, n_bytes, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");

    /* Some servers use the other name for thoughts, some both. */
    take_text(s, delta, json_object_get(delta, "reasoning_content") ? "reasoning_content" : "reasoning", true);
    take_text(s, delta, "content", false);
    s->has_ended |= json_is_string(json_object_get(choice, "finish_reason"));
    take_numbers(s->figures, event);
    take_error(s, event);
    json_decref(event);
}

static void take_line(stream *s)
{
    const char *text = hth_buffer_text(&s->line);
    size_t n = s->line.n;

    n -= n > 0 && text[n - 1] == '\r';
    if (n < 5 || memcmp(text, "data:", 5) != 0)
        return;
    text += 5, n -= 5;
    while (n > 0 && *text == ' ')
        text++, n--;
    if (n == 6 && memcmp(text, "[DONE]", 6) == 0)
        s->has_ended = true;
    else
        take_event(s, text, n);
}

static bool on_bytes(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data)
{
    stream *s = user_data;
    const char *text = bytes;

    (void)fetch; /* no header is needed */
    while (status == 200 && n_bytes > 0) {
        const char *end = memchr(text, '\n', n_bytes);
        const size_t n = end ? (size_t)(end - text) : n_bytes;

        hth_buffer_add(&s->line, text, n);
        if (end) {
            take_line(s);
            hth_buffer_clear(&s->line);
        }
        text += n + (end != NULL);
        n_bytes -= n + (end != NULL);
    }
    hth_buffer_add(&s->line, text, n_bytes); /* an error */
    return !s->line.failed && s->line.n < LINE_BYTES_MAX;
}

static hearth_status conclude(stream *s, const remote *r, long status, hearth_error *err)
{
    json_t *error;

    if (status != 200) {
        error = json_loadb(hth_buffer_text(&s->line), s->line.n, 0, NULL);
        take_error(s, error);
        json_decref(error);
        return hth_fail(err, HEARTH_FAILED, "%s answers %ld: %s", r->base, status,
                        *s->message ? s->message : "without a message");
    }
    take_line(s); /* the last one may have no end */
    if (*s->message)
        return hth_fail(err, HEARTH_FAILED, "%s: %s", r->base, s->message);
    if (!s->has_ended)
        return hth_fail(err, HEARTH_IO, "%s broke the reply off", r->base);
    return HEARTH_OK;
}

static hearth_status reply(hth_dialog_source *source, const hth_talk *talk, const hth_dialog_hooks *hooks,
                           hth_dialog_figures *out, hearth_error *err)
{
    remote *r = (remote *)source;
    stream s = { .hooks = hooks, .figures = out, .begin_ns = hth_os_monotonic_ns() };
    char url[URL_BYTES + 32], *body = body_of(r, talk);
    hth_fetch_order order = {
        .url = url, .key = r->key, .json = body, .silence_s = SILENCE_S, .stop = &hth_dialog_stop
    };
    hearth_status status;
    long answer = 0;

    *out = (hth_dialog_figures){ .has_counts = false };
    if (!body)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the conversation");
    (void)snprintf(url, sizeof(url), "%s/v1/chat/completions", r->base); /* sized for it */
    order.on_bytes = on_bytes;
    order.user_data = &s;
    hth_dialog_signals_let_in(true);
    status = hth_fetch_transfer(r->fetch, &order, &answer, err);
    hth_dialog_signals_let_in(false);
    if (status == HEARTH_OK)
        status = conclude(&s, r, answer, err);
    else if (hth_dialog_stop)
        status = HEARTH_CANCELLED;
    out->ttft_ms = s.first_ns > 0 ? (double)(s.first_ns - s.begin_ns) / 1e6 : 0;
    hth_buffer_deinit(&s.line);
    free(body);
    return status;
}

/* ---- open and close ---- */

static void close_remote(hth_dialog_source *source)
{
    remote *r = (remote *)source;

    hth_fetch_free(r->fetch);
    free(r->model);
    free(r);
}

/* The first model of the server's list. */
static hearth_status find_model(remote *r, hearth_error *err)
{
    char url[URL_BYTES + 32];
    hth_buffer page = { .text = NULL };
    json_t *object;
    const char *id;
    long answer = 0;
    hearth_status status;

    (void)snprintf(url, sizeof(url), "%s/v1/models", r->base); /* sized for it */
    hth_dialog_signals_end_at_once(true);
    status = hth_ask(url, r->key, &answer, &page, err);
    hth_dialog_signals_end_at_once(false);
    object = json_loadb(hth_buffer_text(&page), page.n, 0, NULL);
    id = json_string_value(json_object_get(json_array_get(json_object_get(object, "data"), 0), "id"));
    if (status == HEARTH_OK && (answer == 401 || answer == 403))
        status = hth_fail(err, HEARTH_PERMISSION, "%s refuses: give a key with --api-key or $HEARTH_API_KEY", r->base);
    else if (status == HEARTH_OK && !id)
        status = hth_fail(err, HEARTH_NOT_FOUND, "%s lists no model (%ld); is this the address of a server?", r->base,
                          answer);
    else if (status == HEARTH_OK && !(r->model = strdup(id)))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the name of a model");
    json_decref(object);
    hth_buffer_deinit(&page);
    return status;
}

hearth_status hth_dialog_server_open(const char *url, const char *key, const char *model,
                                     const hth_api_defaults *defaults, hth_dialog_source **out, hearth_error *err)
{
    remote *r = calloc(1, sizeof(*r));
    hearth_status status = HEARTH_OK;
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        n--;
    if (n >= 3 && memcmp(url + n - 3, "/v1", 3) == 0)
        n -= 3;
    if (n == 0 || n >= URL_BYTES) {
        free(r);
        return hth_fail(err, HEARTH_MISUSE, "--url needs an address such as http://127.0.0.1:8080");
    }
    if (!r || !(r->fetch = hth_fetch_new())) {
        free(r);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a connection");
    }
    (void)snprintf(r->base, sizeof(r->base), "%.*s", (int)n, url);
    r->key = key;
    r->defaults = defaults;
    if (!model)
        status = find_model(r, err);
    else if (!(r->model = strdup(model)))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the name of a model");
    if (status != HEARTH_OK) {
        close_remote(&r->source);
        return status;
    }
    r->source = (hth_dialog_source){ .model = r->model, .reply = reply, .close = close_remote };
    *out = &r->source;
    return HEARTH_OK;
}
