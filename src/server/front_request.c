/*
 * front_request.c - one request at the front: who asks, may they, which model, and off to its worker
 *
 *   1. the path's route, the request's id, CORS
 *   2. the client's key and its limits
 *   3. the model that the body names, and earlier responses that it goes on from
 *   4. the relay (proxy.h), or a page that the front answers itself
 *
 * What is wrong on the way is answered at once in the shape of the path's API. Requests to models are logged and counted
 * when they are over, whoever answered them; pages for operators are not.
 */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/answers.h"
#include "api/notes.h"
#include "api/peek.h"
#include "base/os.h"
#include "base/status.h"
#include "server/cors.h"
#include "server/front_inside.h"
#include "server/front_stream.h"
#include "server/model_names.h"
#include "server/ollama_pages.h"
#include "server/past_search.h"
#include "server/routes.h"
#include "server/stored_responses.h"
#include "server/trace.h"

enum {
    BYTES_A_TOKEN = 4, /* a guess, of text */
    PROPS_BYTES_MAX = 64 << 10,
};

/* A request from its first byte in the front to its line in the log. What the record points to is here. */
typedef struct request {
    hth_front *front;
    hth_front_options *options; /* in force when it came */
    hth_http_exchange *exchange;
    const hth_route *route; /* NULL: none */
    hth_key_use *use;       /* NULL: nobody known */
    bool is_counted;        /* use has begun */
    bool wants_events;      /* a stream of them, as far as a glance at the body tells */
    uint64_t begin_ns;
    char id[HTH_KEPT_ID_BYTES];
    char traceparent[HTH_TRACEPARENT_BYTES];
    const char *method; /* in text, whole: what is checked is what is routed */
    const char *path;
    char peer[64];
    char model[129];
    hth_record record;
    hth_past_search past;         /* of /v1/responses */
    hth_running_response running; /* likewise, in the background */
    hth_stored_question question; /* of what is below it */
    char text[];
} request;

/* ---- ends ---- */

/*
 * What its key has used. Who leaves before the end has had tokens all the same: those of the reply are known, those of the
 * prompt are guessed.
 */
static uint64_t n_tokens_used(const hth_record *record)
{
    if (record->has_summary)
        return (uint64_t)record->summary.figures.n_prompt_tokens + record->summary.figures.n_reply_tokens;
    return record->n_tokens_out > 0 || record->status == HTH_STATUS_CLIENT_GONE
             ? record->n_tokens_out + record->bytes_in / BYTES_A_TOKEN
             : 0;
}

/* May one more refusal be logged? Says before it how many were not. */
static bool may_log_refusal(hth_front *front)
{
    uint64_t n_untold = 0;

    if (!hth_refusals_take(&front->refusals, hth_os_monotonic_ns(), &n_untold))
        return false;
    if (n_untold > 0)
        hth_warn(&front->log, "%" PRIu64 " requests were refused that no line tells of: there were too many at once",
                 n_untold);
    return true;
}

/* A line of the access log; of a refusal also without one, since a client's trouble begins there. */
static void log_request(const request *r)
{
    hth_front *front = r->front;
    const hth_record *record = &r->record;
    const bool is_refused = record->why && *record->why;

    if (is_refused && !may_log_refusal(front))
        return;
    if (!r->options->options->no_access_log)
        hth_server_log_request(front->server_log, record);
    else if (is_refused)
        hth_info(&front->log, "request %s of %s%s%s to %s %s is refused with %d: %s", record->request_id, record->peer,
                 record->key[0] ? ", key " : "", record->key, record->method, record->endpoint, record->status,
                 record->why);
}

/* It is over and was answered: tell logs, metrics and the key's limits. */
static void end(request *r)
{
    hth_front *front = r->front;
    hth_record *record = &r->record;

    if (r->is_counted)
        hth_key_use_end(r->use, hth_os_monotonic_ns(), n_tokens_used(record));
    hth_metrics_note(front->metrics, record);
    if (record->notes)
        hth_passed_over_log(&front->passed_over, &front->log, record->key, record->endpoint, record->notes);
    log_request(r);
    hth_front_options_drop(front, r->options);
    hth_running_fail(&r->running, record->why ? record->why : "the response was broken off");
    hth_past_search_deinit(&r->past);
    free(r);
    hth_front_note_over(front);
}

static void answer(request *r, int status, const char *content_type, const hth_buffer *body)
{
    r->record.status = status;
    r->record.bytes_out = body->n;
    r->record.duration_ms = (double)(hth_os_monotonic_ns() - r->begin_ns) / 1e6;
    hth_http_reply(r->exchange, status, content_type, hth_buffer_text(body), body->n);
    end(r);
}

static void refuse(request *r, const hth_api_error *error, const char *reason)
{
    hth_api_dialect dialect = hth_path_dialect(r->path);
    hth_buffer body = { .text = NULL };
    char seconds[16];

    if (error->retry_after_s > 0) {
        (void)snprintf(seconds, sizeof(seconds), "%u", error->retry_after_s); /* fits */
        hth_http_header_add(r->exchange, "Retry-After", seconds);
    }
    if (reason)
        hth_metrics_note_refused(r->front->metrics, reason);
    r->record.reason = reason;
    r->record.why = error->message;
    hth_api_error_write(dialect, error, &body);
    answer(r, hth_api_error_http_status(dialect, error), "application/json", &body);
    hth_buffer_deinit(&body);
}

static void on_relayed(const hth_record *record, void *user_data)
{
    request *r = user_data;

    r->record.status = record->status;
    r->record.is_stream = record->is_stream;
    r->record.has_summary = record->has_summary;
    r->record.summary = record->summary;
    r->record.n_tokens_out = record->n_tokens_out;
    r->record.bytes_out = record->bytes_out;
    r->record.duration_ms = record->duration_ms;
    r->record.first_byte_ms = record->first_byte_ms;
    r->record.n_resumed = record->n_resumed;
    r->record.notes = record->notes;
    r->record.why = record->why;
    end(r);
}

/* ---- who asks, and may they ---- */

static bool has_keys(const request *r)
{
    return r->options->options->n_keys > 0;
}

/* Where clients put a key that is not "Authorization: Bearer ...": those of Anthropic, Azure and Google. */
static const char *const key_headers[] = { "X-Api-Key", "Api-Key", "X-Goog-Api-Key" };

enum { N_KEY_HEADERS = sizeof(key_headers) / sizeof(key_headers[0]) };

static hth_key_use *find_key(hth_front *front, const hth_http_exchange *exchange)
{
    hth_key_use *use = hth_keys_find(front->keys, hth_http_header(exchange, "Authorization"), NULL);

    for (int i = 0; i < N_KEY_HEADERS && !use; i++)
        use = hth_keys_find(front->keys, NULL, hth_http_header(exchange, key_headers[i]));
    return use;
}

static bool shows_key(const hth_http_exchange *exchange)
{
    for (int i = 0; i < N_KEY_HEADERS; i++)
        if (hth_http_header(exchange, key_headers[i]))
            return true;
    return hth_http_header(exchange, "Authorization") != NULL;
}

static bool is_expired(const hth_key_use *use)
{
    return hth_key_is_expired(hth_key_use_key(use), (int64_t)hth_os_unix_seconds());
}

/* The key that the client shows, if any. False when the request was refused. */
static bool identify(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (!has_keys(r))
        return true;
    r->use = find_key(r->front, r->exchange);
    if (r->use)
        r->record.key = hth_key_use_key(r->use)->name;
    if (r->use && !is_expired(r->use))
        return true;
    if (r->use)
        hth_api_fail(&error, HTH_API_UNAUTHORIZED, NULL,
                     "the API key '%.64s' is expired; ask who gave it out for another one, or to let it live longer "
                     "(hearth key expire)",
                     r->record.key);
    else if (shows_key(r->exchange))
        hth_api_fail(&error, HTH_API_UNAUTHORIZED, NULL,
                     "the API key is not known here; check it with who gave it out");
    else
        hth_api_fail(&error, HTH_API_UNAUTHORIZED, NULL,
                     "this server wants an API key, as 'Authorization: Bearer KEY' or 'x-api-key: KEY'");
    hth_http_header_add(r->exchange, "WWW-Authenticate", "Bearer");
    refuse(r, &error, r->use ? "expired" : "unauthorized");
    return false;
}

/* Begin a request that costs something. False when it was refused. */
static bool admit(request *r)
{
    static const char *const reasons[] = { [HTH_KEY_TOO_MANY_REQUESTS] = "requests a minute",
                                           [HTH_KEY_TOO_MANY_TOKENS] = "tokens a minute",
                                           [HTH_KEY_TOO_MANY_AT_ONCE] = "requests at once" };
    const hth_server_options *options = r->options->options;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_key_verdict verdict;
    uint32_t retry_after_s = 0;

    if (r->front->is_draining) {
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "the server is shutting down; try again in a moment");
        error.retry_after_s = 5;
        refuse(r, &error, "draining");
        return false;
    }
    if (r->front->n_requests > options->requests_max) {
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%u requests are being served, which is as many as are allowed",
                     options->requests_max);
        error.retry_after_s = 1;
        refuse(r, &error, "overloaded");
        return false;
    }
    if (!r->use)
        return true;
    verdict = hth_key_use_begin(r->use, r->begin_ns, &retry_after_s);
    if (verdict == HTH_KEY_OK) {
        r->is_counted = true;
        return true;
    }
    hth_api_fail(&error, HTH_API_RATE_LIMITED, NULL, "this key has used up its %s; try again in %u s", reasons[verdict],
                 retry_after_s);
    error.retry_after_s = retry_after_s;
    refuse(r, &error, "rate_limited");
    return false;
}

/* May this client see pages for operators? False when it was refused. */
static bool may_administer(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (hth_http_tag(r->exchange) == HTH_FRONT_ADMIN)
        return true;
    if (r->use && hth_key_use_key(r->use)->is_admin)
        return true;
    /* Numbers are not worth a key where nothing else is, and there is no other place for them. */
    if (!has_keys(r) && !hth_server_has_admin(r->options->options) && strcmp(r->path, "/metrics") == 0)
        return true;
    hth_api_fail(&error, HTH_API_FORBIDDEN, NULL,
                 has_keys(r) || hth_server_has_admin(r->options->options)
                     ? "this page needs a key with 'admin = true', or the listener that 'admin' configures"
                     : "this page is served on the listener that 'admin' configures, and to keys with 'admin = "
                       "true'; neither is configured");
    refuse(r, &error, "forbidden");
    return false;
}

/* ---- which model ---- */

static bool may_use(const request *r, const char *model)
{
    return !r->use || hth_key_allows_model(hth_key_use_key(r->use), model);
}

/* The model that is asked for. NULL when the request was refused. */
static const hth_server_model *choose_model(request *r)
{
    const hth_server_options *options = r->options->options;
    const char *named = hth_http_query(r->exchange, "model");
    const hth_server_model *model;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_peeked peeked;
    size_t n = 0;
    const char *body = hth_http_body(r->exchange, &n);

    if (n > 0 && hth_api_peek(body, n, &peeked)) {
        if (!named && peeked.has_model)
            named = peeked.model;
        r->wants_events = peeked.has_stream && peeked.stream && hth_route_has_events(r->route);
    }
    if (!named && r->route->api == HTH_API_OLLAMA_SHOW && hth_api_peek_as(body, n, "name", &peeked) && peeked.has_model)
        named = peeked.model; /* under its older name */
    model = hth_model_choose(options, named, r->use ? hth_key_use_key(r->use) : NULL);
    if (model && !may_use(r, model->name)) {
        hth_api_fail(&error, HTH_API_FORBIDDEN, "model",
                     "this key may not use the model '%s'; GET /v1/models lists those it may", model->name);
        refuse(r, &error, "forbidden");
        return NULL;
    }
    if (!model) {
        hth_api_fail(&error, HTH_API_NOT_FOUND, "model",
                     hth_route_dialect(r->route) == HTH_API_OLLAMA /* whose clients look for these words */
                         ? "model '%.100s' not found; GET /api/tags lists those that there are"
                         : "there is no model '%.100s' here; GET /v1/models lists those that there are",
                     named ? named : "");
        refuse(r, &error, "not_found");
        return NULL;
    }
    (void)snprintf(r->model, sizeof(r->model), "%s", model->name); /* names are no longer */
    r->record.model = r->model;
    return model;
}

/* ---- answers of the front itself ---- */

/* What is known of a model without asking its worker. Strings of *view live as long as the supervisor's. */
static hth_api_listed_model listed(const hth_front *front, const hth_server_model *of, hth_worker_view *view)
{
    hth_api_listed_model model = {
        .name = of->name,
        .created_s = front->started_s,
        .aliases = of->aliases,
        .n_aliases = of->n_aliases,
        .tags = of->tags,
        .n_tags = of->n_tags,
    };

    for (size_t i = 0; i < hth_supervisor_n(front->supervisor); i++) {
        hth_supervisor_view(front->supervisor, i, view);
        if (strcmp(view->model, of->name) == 0) {
            model.info = view->status.has_numbers ? &view->status.info : NULL;
            break;
        }
    }
    return model;
}

/* A page about the models that the client may use. */
static void list_models(request *r)
{
    const hth_server_options *options = r->options->options;
    const char *type = "application/json", *bytes;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer body = { .text = NULL };
    size_t n = 0, n_bytes;
    hth_api_listed_model *models = calloc(options->n_models, sizeof(*models));
    hth_worker_view *views = calloc(options->n_models, sizeof(*views));

    if (models && views) {
        for (size_t i = 0; i < options->n_models; i++)
            if (may_use(r, options->models[i].name)) {
                models[n] = listed(r->front, &options->models[i], &views[n]);
                n++;
            }
        bytes = hth_http_body(r->exchange, &n_bytes);
        if (r->route->kind == HTH_ROUTE_MODELS)
            hth_api_models_write(models, n, &body);
        else
            (void)hth_ollama_page(&(hth_ollama_request){ .route = r->route,
                                                         .options = options,
                                                         .key = r->use ? hth_key_use_key(r->use) : NULL,
                                                         .models = models,
                                                         .n_models = n,
                                                         .bytes = bytes,
                                                         .n_bytes = n_bytes },
                                  &body, &type, &error); /* the error says whether */
    }
    if (!models || !views || body.failed)
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "no memory for the list of models");
    if (error.kind != HTH_API_NO_ERROR)
        refuse(r, &error, error.kind == HTH_API_OVERLOADED ? "overloaded" : NULL);
    else
        answer(r, 200, type, &body);
    hth_buffer_deinit(&body);
    free(models);
    free(views);
}

static void show_model(request *r)
{
    const char *name = r->path + strlen(r->route->path);
    const hth_server_model *model = hth_model_named(r->options->options, name);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_listed_model one;
    hth_worker_view view;
    hth_buffer body = { .text = NULL };

    if (!model || !may_use(r, model->name)) {
        hth_api_fail(&error, HTH_API_NOT_FOUND, "model",
                     "there is no model '%.100s' here; GET /v1/models lists those that there are", name);
        refuse(r, &error, "not_found");
        return;
    }
    one = listed(r->front, model, &view);
    one.asked = name;
    hth_api_model_write(&one, &body);
    if (body.failed) {
        hth_api_fail(&error, HTH_API_INVALID_VALUE, "model",
                     "the model cannot be shown under the name that was asked for; ask for it in UTF-8");
        refuse(r, &error, NULL);
    } else {
        answer(r, 200, "application/json", &body);
    }
    hth_buffer_deinit(&body);
}

/* ---- responses that were kept ---- */

/* What those show who may have a stream or a response again that this client asked for. */
static const uint8_t *key_of(const request *r)
{
    static const uint8_t nobody[HTH_KEPT_KEY_BYTES] = { 0 };

    static_assert(sizeof(((hth_server_key *)NULL)->sha256) == HTH_KEPT_KEY_BYTES, "a key is its digest");
    return r->use ? hth_key_use_key(r->use)->sha256 : nobody;
}

/* What the response to this request is kept under. */
static void key_of_response(const request *r, uint8_t key[HTH_SHA256_BYTES])
{
    char id[64];

    (void)snprintf(id, sizeof(id), "resp_%s", r->id); /* fits */
    hth_response_key(key_of(r), id, strlen(id), key);
}

static void on_record(const void *bytes, size_t n, void *user_data)
{
    request *r = user_data;
    uint8_t key[HTH_SHA256_BYTES];

    key_of_response(r, key);
    hth_response_store_put(r->front->responses, key, bytes, n);
    hth_running_end(&r->running);
}

static void on_begun(const void *bytes, size_t n, void *user_data)
{
    request *r = user_data;
    uint8_t key[HTH_SHA256_BYTES];

    key_of_response(r, key);
    hth_running_begin(&r->running, &r->front->running, r->front->responses, key, bytes, n);
}

/* The client has left while something was looked for. */
static void on_gone(void *user_data)
{
    request *r = user_data;

    hth_stored_cancel(&r->question);
    r->record.status = HTH_STATUS_CLIENT_GONE;
    r->record.duration_ms = (double)(hth_os_monotonic_ns() - r->begin_ns) / 1e6;
    end(r);
}

static void on_answer(int status, const hth_buffer *body, const hth_api_error *error, void *user_data)
{
    request *r = user_data;

    if (r->question.allow)
        hth_http_header_add(r->exchange, "Allow", r->question.allow);
    if (error)
        refuse(r, error, NULL);
    else
        answer(r, status, "application/json", body);
}

static void ask_stored(request *r)
{
    hth_http_watch_set(r->exchange, &(hth_http_watch){ .on_close = on_gone, .user_data = r });
    r->question = (hth_stored_question){
        .store = r->front->responses, .running = &r->front->running, .on_answer = on_answer, .user_data = r
    };
    memcpy(r->question.owner, key_of(r), sizeof(r->question.owner));
    hth_stored_ask(&r->question, r->exchange, r->route->path);
}

/* ---- kept streams ---- */

/* GET: it is over here when its stream begins, however long that takes. */
static void serve_stream(request *r)
{
    const char *id = r->path + strlen(r->route->path);
    hth_kept_streams *kept = r->front->kept;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer nothing = { .text = NULL };

    if (strcmp(r->method, "DELETE") == 0) {
        if (hth_front_stream_drop(kept, id, key_of(r), &error))
            answer(r, 204, NULL, &nothing);
        else
            refuse(r, &error, "not_found");
    } else if (strcmp(r->method, "GET") != 0) {
        hth_http_header_add(r->exchange, "Allow", "GET, DELETE");
        hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "'%.100s' takes GET and DELETE, not %s", r->path, r->method);
        error.status = 405;
        refuse(r, &error, NULL);
    } else if (hth_front_stream_read(kept, r->exchange, id, key_of(r), &error)) {
        r->record.status = 200;
        r->record.is_stream = true;
        end(r);
    } else {
        refuse(r, &error, "not_found");
    }
}

/* ---- the way through ---- */

enum { TARGET_BYTES = 128 };

/* What a client wrote, as a word of a target: cut, and without what means something there. No word that is known has such bytes. */
static void copy_word(char out[TARGET_BYTES / 4], const char *text)
{
    (void)snprintf(out, TARGET_BYTES / 4, "%s", text);
    for (; *out; out++)
        if (!isalnum((unsigned char)*out) && *out != '-')
            *out = '_';
}

/* Which slot, and what is to become of it. */
static void write_slot_target(const request *r, char target[TARGET_BYTES])
{
    const char *action = hth_http_query(r->exchange, "action");
    char number[TARGET_BYTES / 4], word[TARGET_BYTES / 4];

    copy_word(number, r->path + strlen(r->route->path));
    copy_word(word, action ? action : "");
    (void)snprintf(target, TARGET_BYTES, "%s%s?action=%s", r->route->path, number, word); /* fits */
}

static void relay(request *r)
{
    const hth_server_model *model = choose_model(r);
    hth_relay *relayed;
    bool wants_kept;
    char target[TARGET_BYTES];

    if (!model)
        return; /* and the request is over */
    wants_kept = r->route->kind == HTH_ROUTE_GENERATE && hth_front_wants_kept(r->exchange);
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
            refuse(r, &error, NULL);
            return;
        }
        if (asked)
            (void)snprintf(target, sizeof(target), "%s?endpoint=%s", r->route->path, asked->path);
    }
    /* Who has the id can ask for it again, without keys anybody: it is not to be guessed. */
    if (wants_kept || r->route->api == HTH_API_RESPONSES)
        hth_front_stream_id(r->id);
    relayed = hth_proxy_relay(r->front->proxy, r->exchange,
                              &(hth_relay_request){
                                  .model = r->model,
                                  .method = r->method,
                                  .target = target,
                                  .dialect = hth_route_dialect(r->route),
                                  .generates = r->route->kind == HTH_ROUTE_GENERATE,
                                  .is_once = hth_route_is_once(r->route, hth_http_query(r->exchange, "action")),
                                  .id = r->id,
                                  .request_id = r->record.request_id,
                                  .traceparent = r->traceparent,
                                  .salt = r->use ? hth_key_use_key(r->use)->salt : NULL,
                                  .past = r->past.records.text,
                                  .past_bytes = r->past.records.n,
                                  .on_record = r->route->api == HTH_API_RESPONSES ? on_record : NULL,
                                  .on_begun = r->route->api == HTH_API_RESPONSES ? on_begun : NULL,
                                  .wants_events = r->wants_events,
                                  .wants_kept = wants_kept,
                                  .key = key_of(r),
                                  .on_over = on_relayed,
                                  .user_data = r,
                              });
    if (relayed) /* otherwise there is no request any more */
        r->running.relay = relayed;
}

static void on_past(void *user_data)
{
    relay(user_data);
}

/* What it goes on from is looked for first. */
static void relay_response(request *r)
{
    size_t n = 0;
    const char *body = hth_http_body(r->exchange, &n);

    r->past = (hth_past_search){ .store = r->front->responses, .on_done = on_past, .user_data = r };
    (void)hth_api_peek_past(body ? body : "", n, &r->past.past); /* what is malformed is the worker's to refuse */
    memcpy(r->past.owner, key_of(r), sizeof(r->past.owner));
    hth_http_watch_set(r->exchange, &(hth_http_watch){ .on_close = on_gone, .user_data = r });
    hth_past_search_begin(&r->past);
}

/* Pages that are not logged: the request ends with them. */
static void operate(request *r)
{
    hth_front *front = r->front;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_admin admin;

    if (r->route->kind == HTH_ROUTE_ADMIN && !may_administer(r))
        return;
    hth_front_admin_fill(front, &admin);
    if (r->route->kind == HTH_ROUTE_ADMIN && strcmp(r->method, "POST") == 0)
        hth_info(&front->log, "request %s: an operator (%s%s%s) orders %s", r->record.request_id, r->peer,
                 r->record.key[0] ? ", key " : "", r->record.key, r->path);
    if (r->route->kind == HTH_ROUTE_HEALTH ? hth_admin_answer_public(&admin, r->exchange)
                                           : hth_admin_answer(&admin, r->exchange)) {
        hth_front_options_drop(front, r->options);
        free(r);
        hth_front_note_over(front);
        return;
    }
    hth_api_fail(&error, HTH_API_NOT_FOUND, NULL, "there is no page '%.100s'; docs/monitoring.md lists them", r->path);
    refuse(r, &error, NULL);
}

static void refuse_path(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_NOT_FOUND, NULL, "there is no path '%.100s'; docs/api.md lists those that there are",
                 r->path);
    refuse(r, &error, NULL);
}

/* Without keys, any page that the user of this machine looks at could have a model work for it. */
static void refuse_foreign(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    char message[sizeof(error.message)];

    hth_cors_refusal(hth_http_header(r->exchange, "Origin"), message, sizeof(message));
    hth_api_fail(&error, HTH_API_FORBIDDEN, NULL, "%s", message);
    refuse(r, &error, "forbidden");
}

/* Likewise a page whose name was made to lead here: what it only reads, it asks for without telling its origin. */
static void refuse_strange(request *r)
{
    const char *host = hth_http_header(r->exchange, "Host");
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_FORBIDDEN, NULL,
                 "this server asks for no keys, and is not known under the name '%.100s'; ask it by address or as "
                 "localhost, or say with --cors-origin https://%.100s (cors { origins = [...] } in the configuration) "
                 "that the name is yours",
                 host, host);
    refuse(r, &error, "forbidden");
}

static void refuse_method(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_http_header_add(r->exchange, "Allow", r->route->method);
    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "'%.100s' takes %s, not %s", r->path, r->route->method,
                 r->method);
    error.status = 405;
    refuse(r, &error, NULL);
}

/* Bodies are read as they are; what is in a compressed one would be told to be no JSON. */
static void refuse_encoding(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL,
                 "the body has Content-Encoding '%.40s', which is not read here; send it as it is",
                 hth_http_encoding(r->exchange));
    error.status = 415;
    refuse(r, &error, NULL);
}

/* llama-server's order to change what /props tells. */
static bool sets_props(const hth_route *route, const char *method)
{
    return route->kind == HTH_ROUTE_PROPS && strcmp(method, "POST") == 0;
}

static bool takes(const hth_route *route, const char *method)
{
    return !route->method || hth_method_is(route->method, method) || sets_props(route, method);
}

/*
 * There is nothing yet that can be changed while the server runs, here as in llama-server: where the order is allowed, it is
 * answered, and every field of it is told as one without effect.
 */
static void set_props(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer body = { .text = NULL };
    size_t n = 0;
    const char *text = hth_http_body(r->exchange, &n);
    hth_api_notes notes = { .text = "" };
    const char *field;
    json_t *object, *value;

    if (!r->options->options->allows_props) {
        hth_api_fail(&error, HTH_API_UNSUPPORTED, NULL,
                     "properties cannot be changed here; start the server with --props (props = true in the "
                     "configuration) to have the order answered, and change options in the configuration");
        refuse(r, &error, "forbidden");
        return;
    }
    object = n > 0 && n <= PROPS_BYTES_MAX ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(object)) {
        hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "the body must be a JSON object of at most %d bytes",
                     PROPS_BYTES_MAX);
        refuse(r, &error, NULL);
        json_decref(object);
        return;
    }
    json_object_foreach(object, field, value) hth_api_note(&notes, field);
    if (notes.text[0])
        hth_http_header_add(r->exchange, HTH_API_NOTES_HEADER, notes.text);
    json_decref(object);
    hth_buffer_add_text(&body, "{\"success\":true}");
    answer(r, 200, "application/json", &body);
    hth_buffer_deinit(&body);
}

/* Pages in an operator's browser reach what he reaches: whose they are, nobody knows there. */
static void refuse_page(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_FORBIDDEN, NULL,
                 "the operators' address takes nothing from pages in browsers, which the header Origin tells");
    refuse(r, &error, "forbidden");
}

/* A page whose name was made to lead here reads what it asks for without telling its origin. */
static bool is_rebound(const request *r)
{
    const char *host = hth_http_header(r->exchange, "Host");

    return host && strcmp(r->peer, "unix") != 0 && strcmp(r->path, "/metrics") != 0 &&
           !hth_host_is_own(r->options->options, host);
}

static void refuse_host(request *r)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_FORBIDDEN, NULL,
                 "the operators' pages are not served under the name '%.100s'; ask by address, or by the name that "
                 "'admin' configures",
                 hth_http_header(r->exchange, "Host"));
    refuse(r, &error, "forbidden");
}

static void serve(request *r)
{
    const hth_route *route = r->route;
    bool is_admins = hth_http_tag(r->exchange) == HTH_FRONT_ADMIN;

    if (!route) {
        refuse_path(r);
        return;
    }
    if (!takes(route, r->method)) {
        refuse_method(r);
        return;
    }
    if (route->kind == HTH_ROUTE_HEALTH) {
        operate(r);
        return;
    }
    if (route->kind == HTH_ROUTE_ROOT) { /* as open as /health */
        list_models(r);
        return;
    }
    if (is_admins && hth_http_header(r->exchange, "Origin")) {
        refuse_page(r);
        return;
    }
    if (is_admins && route->kind != HTH_ROUTE_HEALTH && is_rebound(r)) {
        refuse_host(r);
        return;
    }
    if (!is_admins && !has_keys(r) && strcmp(r->path, "/metrics") != 0 &&
        hth_host_is_strange(r->options->options, r->exchange)) {
        refuse_strange(r);
        return;
    }
    /* Who reaches the operators' listener needs no key. */
    if (!is_admins && !identify(r))
        return;
    switch (route->kind) {
    case HTH_ROUTE_ADMIN: operate(r); break;
    case HTH_ROUTE_MODELS:
    case HTH_ROUTE_OLLAMA_TAGS:
    case HTH_ROUTE_OLLAMA_PS:
    case HTH_ROUTE_OLLAMA_VERSION:
    case HTH_ROUTE_OLLAMA_PULL:
    case HTH_ROUTE_OLLAMA_FILES:
    case HTH_ROUTE_OLLAMA_EMBED: list_models(r); break;
    case HTH_ROUTE_MODEL: show_model(r); break;
    case HTH_ROUTE_STREAM: serve_stream(r); break;
    case HTH_ROUTE_EXPLAIN:
        if (!may_administer(r))
            return;
        relay(r);
        break;
    default:
        if (hth_http_encoding(r->exchange))
            refuse_encoding(r);
        else if (sets_props(route, r->method))
            set_props(r);
        else if (!admit(r))
            return;
        else if (route->kind == HTH_ROUTE_STORED)
            ask_stored(r);
        else if (hth_route_dialect(route) == HTH_API_OPENAI_RESPONSES)
            relay_response(r);
        else
            relay(r);
    }
}

static void copy(char *out, size_t capacity, const char *text)
{
    (void)snprintf(out, capacity, "%s", text); /* cut: for logs */
    hth_end_at_character(out, capacity);
}

static void name_request(request *r)
{
    hth_record *record = &r->record;
    hth_trace trace;

    (void)snprintf(r->id, sizeof(r->id), "%s%08" PRIx64, r->front->id_prefix, ++r->front->n_ids); /* 32 at most */
    /* What the client gave is missing or malformed: ours is as good. */
    (void)hth_request_id_begin(hth_http_header(r->exchange, "X-Request-Id"), record->request_id);
    (void)hth_trace_begin(hth_http_header(r->exchange, "Traceparent"), &trace);
    hth_trace_write(&trace, r->traceparent);
    (void)snprintf(record->trace_id, sizeof(record->trace_id), "%s", trace.trace_id); /* as long */
    hth_http_header_add(r->exchange, "X-Request-Id", record->request_id);
    if (hth_route_dialect(r->route) == HTH_API_ANTHROPIC)
        hth_http_header_add(r->exchange, "Request-Id", record->request_id);
}

/* NULL without memory. */
static request *request_new(const hth_http_exchange *exchange)
{
    const char *method = hth_http_method(exchange), *path = hth_http_path(exchange);
    size_t n_method = strlen(method) + 1, n_path = strlen(path) + 1;
    request *r = calloc(1, sizeof(*r) + n_method + n_path);

    if (!r)
        return NULL;
    r->method = memcpy(r->text, method, n_method);
    r->path = memcpy(r->text + n_method, path, n_path);
    copy(r->peer, sizeof(r->peer), hth_http_peer(exchange));
    return r;
}

void hth_front_handle(hth_http_exchange *exchange, void *user_data)
{
    static const char no_memory[] = "{\"error\":{\"message\":\"no memory for the request\",\"type\":\"server_error\"}}";
    hth_front *front = user_data;
    request *r = request_new(exchange);
    bool is_allowed;
    size_t n_body = 0;

    if (!r) {
        hth_http_reply(exchange, 503, "application/json", no_memory, sizeof(no_memory) - 1);
        return;
    }
    front->n_requests++;
    r->front = front;
    r->options = hth_front_options_hold(front);
    r->exchange = exchange;
    r->begin_ns = hth_os_monotonic_ns();
    r->route = hth_route_find(r->path);
    (void)hth_http_body(exchange, &n_body);
    r->record = (hth_record){
        .key = "",
        .peer = r->peer,
        .method = r->method,
        .path = r->path,
        .endpoint = r->route ? r->route->endpoint : "other",
        .model = r->model,
        .bytes_in = n_body,
    };
    name_request(r);
    if (r->options->options->log_prompts && n_body > 0)
        hth_info(&front->log, "request %s: body: %.*s", r->record.request_id, n_body < INT_MAX ? (int)n_body : INT_MAX,
                 hth_http_body(exchange, &n_body));
    if (hth_http_tag(exchange) == HTH_FRONT_ADMIN) {
        serve(r);
        return;
    }
    is_allowed = hth_cors_add(r->options->options, exchange);
    if (is_allowed && strcmp(r->method, "OPTIONS") == 0) {
        hth_buffer nothing = { .text = NULL };

        answer(r, 204, NULL, &nothing);
    } else if (hth_cors_is_foreign(r->options->options, exchange) &&
               (!has_keys(r) || hth_cors_is_preflight(exchange))) {
        refuse_foreign(r);
    } else {
        serve(r);
    }
}

bool hth_front_wants_body(hth_http_exchange *exchange, void *user_data)
{
    hth_front *front = user_data;
    const hth_route *route = hth_route_find(hth_http_path(exchange));
    const hth_key_use *use;

    if (!route || !takes(route, hth_http_method(exchange)))
        return false;
    if (hth_http_tag(exchange) == HTH_FRONT_ADMIN)
        return true;
    if (front->options->options->n_keys == 0)
        return !hth_cors_is_foreign(front->options->options, exchange);
    use = find_key(front, exchange);
    return use && !is_expired(use);
}

const char *hth_front_protocol_error(int status, const char *why, const char *path, void *user_data)
{
    hth_front *front = user_data;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_api_error_kind kind = status == 413 || status == 414 || status == 431 ? HTH_API_TOO_LARGE
                            : status == 408                                   ? HTH_API_TIMED_OUT
                            : status == 501                                   ? HTH_API_UNSUPPORTED
                            : status == 503                                   ? HTH_API_OVERLOADED
                                                                              : HTH_API_INVALID_VALUE;

    hth_metrics_note_refused(front->metrics, "protocol");
    if (may_log_refusal(front))
        hth_info(&front->log, "a request%s%s is refused with %d: %s", *path ? " to " : "", path, status, why);
    hth_api_fail(&error, kind, NULL, "%s", why);
    error.status = status;
    hth_buffer_clear(&front->protocol_error);
    hth_api_error_write(hth_path_dialect(path), &error, &front->protocol_error);
    return front->protocol_error.failed ? NULL : hth_buffer_text(&front->protocol_error);
}
