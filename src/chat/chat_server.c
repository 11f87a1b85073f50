/*
 * chat_server.c - see chat_server.h
 */
#include "chat/chat_server.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "base/status.h"
#include "http/ask.h"
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
