#include "chat/chat_server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/buffer.h"
#include "api/defaults.h"
#include "base/os.h"
#include "base/status.h"
#include "chat/dialog_signals.h"
#include "chat/dialog_source.h"
#include "http/fetch.h"

hearth_status hth_chat_server_base(const char *url, char out[HTH_CHAT_SERVER_URL_BYTES], hearth_error *err)
{
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        n--;
    if (n >= 3 && memcmp(url + n - 3, "/v1", 3) == 0)
        n -= 3;
    if (n == 0 || n >= HTH_CHAT_SERVER_URL_BYTES)
        return hth_fail(err, HEARTH_MISUSE,
                        "--url needs an address such as http://127.0.0.1:8080 or unix:/run/hearth.sock");
    (void)snprintf(out, HTH_CHAT_SERVER_URL_BYTES, "%.*s", (int)n, url);
    return HEARTH_OK;
}

hearth_status hth_chat_server_find(const char *base, const char *key, hth_chat_server_model *out, hearth_error *err)
{
    hth_buffer page = { .text = NULL };
    char shown[HTH_FETCH_URL_BYTES];
    json_t *object, *model;
    const char *id, *owner;
    long answer = 0;
    hearth_status status;

    status = hth_ask(base, "/v1/models", key, NULL, &answer, &page, err);
    object = json_loadb(hth_buffer_text(&page), page.n, 0, NULL);
    model = json_array_get(json_object_get(object, "data"), 0);
    id = json_string_value(json_object_get(model, "id"));
    owner = json_string_value(json_object_get(model, "owned_by"));
    if (status == HEARTH_OK && (answer == 401 || answer == 403))
        status = hth_fail(err, HEARTH_PERMISSION, "%s refuses: give a key with --api-key or $HEARTH_API_KEY",
                          hth_fetch_shown(base, shown));
    else if (status == HEARTH_OK && !id)
        status = hth_fail(err, HEARTH_NOT_FOUND, "%s lists no model (%ld); is this the address of a server?",
                          hth_fetch_shown(base, shown), answer);
    else if (status == HEARTH_OK && !(out->name = strdup(id)))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the name of a model");
    out->tells_timings = owner && (strcmp(owner, "hearth") == 0 || strcmp(owner, "llamacpp") == 0);
    json_decref(object);
    hth_buffer_deinit(&page);
    return status;
}

/*
 * ---- streamed replies ----
 *
 * Hearth and llama-server report a reply's numbers in `timings`; other servers only have `usage`.
 */

enum { LINE_BYTES_MAX = 16 << 20 };

static void take_text(hth_chat_stream *s, const json_t *delta, const char *key, bool is_thought)
{
    const json_t *text = json_object_get(delta, key);

    if (!json_is_string(text) || json_string_length(text) == 0)
        return;
    s->last_ns = hth_os_monotonic_ns();
    if (s->first_ns == 0)
        s->first_ns = s->last_ns;
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
    const json_t *cache = json_object_get(event, "cache");

    if (json_is_object(usage)) {
        f->has_counts = true;
        f->prompt_tokens = count_of(usage, "prompt_tokens");
        f->completion_tokens = count_of(usage, "completion_tokens");
        f->cached_tokens = count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    }
    if (!json_is_object(timings))
        return;
    if (!f->has_counts && json_object_get(timings, "cache_n")) { /* the usage comes at the end */
        f->has_counts = true;
        f->cached_tokens = count_of(timings, "cache_n");
        f->prompt_tokens = f->cached_tokens + count_of(timings, "prompt_n");
    }
    f->tokens_per_s = json_number_value(json_object_get(timings, "predicted_per_second"));
    if (!json_object_get(cache, "miss"))
        return;
    f->has_hit = true;
    copy_name(f->hit, sizeof(f->hit), cache, "hit");
    copy_name(f->tier, sizeof(f->tier), cache, "tier");
    copy_name(f->miss, sizeof(f->miss), cache, "miss");
    copy_name(f->left_text, sizeof(f->left_text), cache, "left_text");
    f->left_at = count_of(cache, "left_at");
}

/* The message of an error in the form of OpenAI's API. */
static void take_error(hth_chat_stream *s, const json_t *object)
{
    const json_t *error = json_object_get(object, "error");
    const char *message = json_string_value(json_is_string(error) ? error : json_object_get(error, "message"));

    if (message)
        (void)snprintf(s->message, sizeof(s->message), "%s", message); /* may be truncated */
    hth_end_at_character(s->message, sizeof(s->message));
}

static void take_event(hth_chat_stream *s, const char *text, size_t n_bytes)
{
    json_t *event = json_loadb(text, n_bytes, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");

    /* Some servers use the other name for reasoning, some both. */
    take_text(s, delta, json_object_get(delta, "reasoning_content") ? "reasoning_content" : "reasoning", true);
    take_text(s, delta, "content", false);
    s->has_ended |= json_is_string(json_object_get(choice, "finish_reason"));
    take_numbers(s->figures, event);
    s->has_timings |= json_is_object(json_object_get(event, "timings"));
    take_error(s, event);
    json_decref(event);
}

static void take_line(hth_chat_stream *s)
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

bool hth_chat_stream_take(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data)
{
    hth_chat_stream *s = user_data;
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

hearth_status hth_chat_stream_conclude(hth_chat_stream *s, const char *base, long status, hearth_error *err)
{
    char shown[HTH_FETCH_URL_BYTES];
    json_t *error;

    if (status != 200) {
        error = json_loadb(hth_buffer_text(&s->line), s->line.n, 0, NULL);
        take_error(s, error);
        json_decref(error);
        return hth_fail(err, HEARTH_FAILED, "%s answers %ld: %s", hth_fetch_shown(base, shown), status,
                        *s->message ? s->message : "without a message");
    }
    take_line(s); /* the last line may lack its end */
    if (*s->message)
        return hth_fail(err, HEARTH_FAILED, "%s: %s", hth_fetch_shown(base, shown), s->message);
    if (!s->has_ended)
        return hth_fail(err, HEARTH_IO, "%s broke the reply off", hth_fetch_shown(base, shown));
    return HEARTH_OK;
}

/* ---- replies of `hearth chat`; see dialog_source.h ---- */

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
