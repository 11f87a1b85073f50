/*
 * Callbacks run on the scheduler's thread, which may not ask the model anything: what they tell is put into a queue,
 * and the test's thread writes the reply.
 */

#include "support/api_run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/request_parse.h"
#include "support/cmocka_all.h"

typedef enum happening_kind { TOKEN, TEXT, PROGRESS, DONE } happening_kind;

typedef struct happening {
    struct happening *next;
    happening_kind kind;
    uint64_t id;
    hearth_token_event token;
    hearth_logprob logprobs[65];
    hearth_stats stats; /* of TOKEN */
    char *text;
    size_t n_text;
    hearth_phase phase;
    uint32_t n_done;
    const hearth_result *result; /* of DONE: a reference */
} happening;

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    happening *first;
    happening **end;
} queue;

static void put(queue *q, happening *h)
{
    pthread_mutex_lock(&q->lock);
    *q->end = h;
    q->end = &h->next;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static happening *take(queue *q)
{
    happening *h;

    pthread_mutex_lock(&q->lock);
    while (!q->first)
        pthread_cond_wait(&q->changed, &q->lock);
    h = q->first;
    q->first = h->next;
    if (!q->first)
        q->end = &q->first;
    pthread_mutex_unlock(&q->lock);
    return h;
}

static happening *happening_new(happening_kind kind, uint64_t id)
{
    happening *h = calloc(1, sizeof(*h));

    if (!h)
        abort();
    h->kind = kind;
    h->id = id;
    return h;
}

static bool on_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    happening *h = happening_new(TEXT, id);

    h->text = calloc(1, n_bytes + 1);
    if (!h->text)
        abort();
    memcpy(h->text, text, n_bytes);
    h->n_text = n_bytes;
    put(user_data, h);
    return true;
}

static bool on_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    happening *h = happening_new(TOKEN, id);

    h->token = *event;
    h->token.text = NULL; /* it follows */
    if (event->logprobs)
        memcpy(h->logprobs, event->logprobs, (1 + event->n_top_logprobs) * sizeof(h->logprobs[0]));
    h->token.logprobs = event->logprobs ? h->logprobs : NULL;
    h->stats = *event->stats;
    h->token.stats = &h->stats;
    put(user_data, h);
    return event->n_bytes == 0 || on_text(id, event->text, event->n_bytes, user_data);
}

static void on_progress(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    happening *h = happening_new(PROGRESS, id);

    h->phase = phase;
    h->n_done = n_done;
    (void)n_total;
    put(user_data, h);
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    happening *h = happening_new(DONE, id);

    h->result = hearth_result_ref(result);
    put(user_data, h);
}

static void tell(hth_api_reply *reply, size_t i, const happening *h, hth_buffer *out)
{
    switch (h->kind) {
    case TOKEN: hth_api_reply_token(reply, i, &h->token, out); break;
    case TEXT: hth_api_reply_text(reply, i, h->text, h->n_text, out); break;
    case PROGRESS: hth_api_reply_progress(reply, i, h->phase, h->n_done); break;
    case DONE: hth_api_reply_done(reply, i, h->result, out); break;
    }
}

static void happening_free(happening *h)
{
    free(h->text);
    hearth_result_unref(h->result);
    free(h);
}

/* Run a prepared request; every reply of it ends before this does. */
static void run(hearth_model *model, hth_api_prepared *prepared, hth_api_reply *reply, hth_buffer *out)
{
    queue q = { .first = NULL };
    uint64_t *ids = calloc(prepared->n_requests, sizeof(*ids));
    size_t n_left = 0;

    q.end = &q.first;
    pthread_mutex_init(&q.lock, NULL);
    pthread_cond_init(&q.changed, NULL);
    for (size_t i = 0; i < prepared->n_requests && !hth_api_reply_has_ended(reply); i++) {
        hearth_request *request = &prepared->requests[i];
        hearth_error err;

        request->on_token = on_token;
        request->on_text = on_text;
        request->on_progress = on_progress;
        request->on_done = on_done;
        request->user_data = &q;
        if (hearth_submit(model, request, &ids[i], &err) != HEARTH_OK) {
            hth_api_error error = { .kind = HTH_API_NO_ERROR };

            hth_api_fail_status(&error, &err);
            hth_api_reply_fail(reply, &error, out);
        } else {
            n_left += request->n;
        }
    }
    while (n_left > 0) {
        happening *h = take(&q);

        for (size_t i = 0; i < prepared->n_requests; i++)
            if (h->id >= ids[i] && h->id < ids[i] + prepared->requests[i].n)
                tell(reply, i * prepared->requests[i].n + (size_t)(h->id - ids[i]), h, out);
        n_left -= h->kind == DONE;
        happening_free(h);
    }
    pthread_cond_destroy(&q.changed);
    pthread_mutex_destroy(&q.lock);
    free(ids);
}

static void script(hth_api_reply *reply, const char *const *texts, hearth_finish_reason finish, uint32_t stop_number,
                   hth_buffer *out)
{
    hearth_stats stats = { .struct_size = sizeof(stats) };
    hearth_result result = {
        .stats = &stats, .status = HEARTH_OK, .finish_reason = finish, .stop_number = stop_number
    };
    hearth_token token = 'x';
    uint32_t n = 0;

    hth_api_reply_progress(reply, 0, HEARTH_PHASE_RESTORE, 48); /* came to less in the end */
    hth_api_reply_progress(reply, 0, HEARTH_PHASE_RESTORE, 40);
    for (; *texts; texts++) {
        hth_api_reply_token(reply, 0, &(hearth_token_event){ .token = token, .index = n++, .text = *texts }, out);
        hth_api_reply_text(reply, 0, *texts, strlen(*texts), out);
    }
    result.text = "";
    stats.prompt_tokens = 50;
    stats.cached_tokens = 40;
    stats.completion_tokens = n;
    hth_api_reply_done(reply, 0, &result, out);
}

static void release_request(void *request)
{
    hth_api_request_free(request);
}

hth_api_request *hth_test_parsed(hth_api_kind kind, const char *body)
{
    return hth_test_parsed_with(kind, body, NULL, NULL);
}

hth_api_request *hth_test_parsed_with(hth_api_kind kind, const char *body, const hth_api_limits *limits,
                                      const hth_api_defaults *defaults)
{
    hth_api_error error;
    hth_api_request *request = hth_api_request_parse_with(kind, body, strlen(body), NULL, limits, defaults, &error);

    if (!request)
        fail_msg("%s: %s", body, error.message);
    return hth_test_keep(request, release_request);
}

static hth_test_answer answer(hearth_model *model, hth_api_kind kind, const char *body, const char *const *texts,
                              hearth_finish_reason finish, uint32_t stop_number)
{
    const hth_api_reply_options options = { .model = "m", .id = "0123", .created_s = 1700000000 };
    hth_test_answer out = { .status = 200 };
    hth_api_error error;
    hth_api_prepared prepared = { .n_requests = 0 };
    hth_api_request *request = hth_api_request_parse(kind, body, strlen(body), NULL, &error);
    hth_api_reply *reply = NULL;

    if (request && hth_api_prepare(model, request, 7, NULL, &prepared, &error))
        reply = hth_api_reply_new(model, request, &prepared, &options, &error);
    if (!reply) {
        out.status = hth_api_error_http_status(hth_api_kind_dialect(kind), &error);
        hth_api_error_write(hth_api_kind_dialect(kind), &error, &out.text);
    } else {
        if (texts)
            script(reply, texts, finish, stop_number, &out.text);
        else
            run(model, &prepared, reply, &out.text);
        assert_true(hth_api_reply_has_ended(reply));
        if (!request->stream && hth_api_reply_failure(reply) == 0)
            while (!hth_api_reply_body(reply, 1, &out.text))
                continue;
        out.status = hth_api_reply_http_status(reply);
    }
    assert_false(out.text.failed);
    (void)hth_test_keep(out.text.text, free);
    hth_api_reply_free(reply);
    hth_api_prepared_deinit(&prepared);
    hth_api_request_free(request);
    return out;
}

hth_test_answer hth_test_api_run(hearth_model *model, hth_api_kind kind, const char *body)
{
    return answer(model, kind, body, NULL, HEARTH_FINISH_STOP, 0);
}

hth_test_answer hth_test_api_script(hearth_model *model, hth_api_kind kind, const char *body, const char *const *texts,
                                    hearth_finish_reason finish)
{
    return answer(model, kind, body, texts, finish, 0);
}

hth_test_answer hth_test_api_stopped(hearth_model *model, hth_api_kind kind, const char *body, uint32_t stop_number)
{
    static const char *const texts[] = { "text", NULL };

    return answer(model, kind, body, texts, HEARTH_FINISH_STOP, stop_number);
}

/* ---- JSON ---- */

static void release_json(void *value)
{
    json_decref(value);
}

json_t *hth_test_json_keep(json_t *value)
{
    return hth_test_keep(value, release_json);
}

json_t *hth_test_json(const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);

    if (!value)
        fail_msg("'%s' is no JSON: %s", text, error.text);
    return hth_test_json_keep(value);
}

json_t *hth_test_events(const char *text)
{
    json_t *events = hth_test_json_keep(json_array());
    char name[64] = "";

    while (*text) {
        size_t n = strcspn(text, "\n");
        char *line = strndup(text, n);

        if (strncmp(line, "event: ", 7) == 0) {
            snprintf(name, sizeof(name), "%s", line + 7);
        } else if (strcmp(line, "data: [DONE]") == 0) {
            json_array_append_new(events, json_string("[DONE]"));
        } else if (strncmp(line, "data: ", 6) == 0) {
            json_t *event = hth_test_json(line + 6);

            if (name[0])
                json_object_set_new(event, "(event)", json_string(name));
            name[0] = '\0';
            json_array_append(events, event);
        } else {
            assert_int_equal(n, 0); /* nothing but what ends an event */
        }
        free(line);
        text += n + (text[n] == '\n');
    }
    return events;
}

json_t *hth_test_at(json_t *value, const char *path)
{
    char name[64];

    while (value && *path) {
        size_t n = strcspn(path, ".");

        assert_true(n < sizeof(name));
        memcpy(name, path, n);
        name[n] = '\0';
        value = json_is_array(value) ? json_array_get(value, strtoul(name, NULL, 10)) : json_object_get(value, name);
        path += n + (path[n] == '.');
    }
    return value;
}

const char *hth_test_text_at(json_t *value, const char *path)
{
    const char *text = json_string_value(hth_test_at(value, path));

    return text ? text : "";
}
