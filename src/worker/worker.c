/*
 * worker.c - a worker's life: load, serve, stop
 *
 *   LOADING   a thread loads the model; requests are refused, with the progress as the reason
 *   READY     the file is still being hashed, and requests wait
 *   SERVING
 *   DRAINING  ordered to stop: new requests are refused, running ones may finish for a while
 *
 * Then the event loop ends, and everything that the context holds is saved. If the front is gone, there are no clients:
 * the worker ends at once and saves what it can.
 */
#include "worker/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/os.h"
#include "base/status.h"
#include "dialects/ollama_answers.h"
#include "http/routes.h"
#include "models/model.h"
#include "models/needs.h"
#include "models/runtime.h"
#include "wire/needs_text.h"
#include "wire/status_page.h"
#include "worker/sandbox.h"
#include "worker/worker_job.h"
#include "worker/worker_live_adapters.h"
#include "worker/worker_rows.h"

enum {
    TURNS_A_SECOND = 1000 / HTH_STATUS_TURN_MS,
    NAME_BYTES = 128,
};

/* An order of the front about rows in memory, which a thread carries out. Event loop only, except the marked fields. */
typedef struct row_order {
    hearth_runtime *runtime;
    bool sets_quota; /* ram_bytes is the new quota of the RAM tier; else so many bytes are evicted */
    uint64_t ram_bytes, ram_file_bytes;
    pthread_t thread;
    bool is_running;
    atomic_bool has_ended;              /* set by the thread: the next two may be read */
    uint64_t ram_freed, ram_file_freed; /* likewise */
} row_order;

typedef struct worker {
    const hth_worker_options *options;
    hth_log log;
    struct event_base *base;
    struct event *on_term, *on_int, *on_turn, *on_events, *on_control, *on_carrier, *on_drained;
    hth_http_server *http;
    hth_http_listener *listener;
    hth_event_queue *queue;
    hth_worker_rows *rows; /* NULL: there is no carrier */
    hth_jobs *jobs;
    hearth_model *served;      /* model, from the end of loading on; NULL before */
    const char *problem;       /* why no model accepts requests; NULL: the model does */
    json_int_t created_s;      /* Unix time when the model was loaded */
    hth_api_defaults defaults; /* for requests: the operator's, then the recommended ones; final after loading */
    hth_status_page *page;
    hth_buffer error_text;
    char name[NAME_BYTES]; /* of the model */
    const char *shown;     /* its name for clients */
    char loading_problem[64];
    unsigned n_turns;
    int sent_percent; /* of loading, then of hashing */
    bool sent_hashing;
    bool is_serving;
    bool is_draining;
    uint32_t drain_ms;    /* the time limit of running replies while draining */
    hearth_status status; /* how serving ended */
    hearth_error *err;

    /* Owned by the loading thread, unless marked otherwise. */
    pthread_t loading_thread;
    bool has_thread; /* event loop's: the thread must be joined */
    bool is_loading; /* event loop's: the end of loading was not handled yet */
    atomic_bool stops_loading;
    atomic_bool is_ending; /* the loop has ended */
    atomic_int percent;
    atomic_bool has_loaded; /* successfully or not: the fields below may be read */
    hearth_runtime *runtime;
    hearth_model *model;
    hth_live_adapters live_adapters;
    row_order order;                                /* event loop's, like the next six fields */
    uint64_t ram_quota;                             /* the last quota from the front */
    uint64_t evict_ram_bytes, evict_ram_file_bytes; /* likewise */
    bool has_ram_quota;                             /* it is not in force yet */
    bool has_eviction;                              /* it has not begun yet */
    hth_ram_tier_totals sent_ram;                   /* of the RAM tier, as last reported to the front */
    hearth_status load_status;
    hearth_error load_error;
    atomic_bool has_identified; /* likewise for these */
    hearth_status identify_status;
    hearth_error identify_error;
} worker;

/* ---- reports to the front ---- */

__attribute__((format(printf, 2, 3))) static void tell(const worker *w, const char *format, ...)
{
    char line[700];
    va_list arguments;
    int n;

    if (w->options->control_fd < 0)
        return;
    va_start(arguments, format);
    n = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    if (n < 0)
        return;
    if ((size_t)n > sizeof(line) - 2)
        n = sizeof(line) - 2;
    line[n++] = '\n';
    while (write(w->options->control_fd, line, (size_t)n) < 0 && errno == EINTR) /* no process reads it */
        ;
}

/* ---- the scheduler's thread ---- */

static void on_work(const hearth_work *work, void *user_data)
{
    const worker *w = user_data;

    if (!w->page)
        return;
    switch (work->kind) {
    case HEARTH_WORK_BEGINS: hth_status_page_tick_begin(w->page); break;
    case HEARTH_WORK_ENDS: hth_status_page_tick_end(w->page); break;
    case HEARTH_WORK_DELIVERED: break;
    case HEARTH_WORK_ROWS_BEGIN: hth_status_page_restoring(w->page, work->keys, work->n_keys); break;
    case HEARTH_WORK_ROWS_END: hth_status_page_restoring(w->page, NULL, 0); break;
    }
}

/* ---- loading ---- */

static bool on_progress(float fraction, void *user_data)
{
    worker *w = user_data;

    atomic_store(&w->percent, (int)(100 * fraction));
    return !atomic_load(&w->stops_loading);
}

/* Quarantine rows that may have killed earlier workers. They stay suspects until all of them are quarantined. */
static void set_suspects_aside(worker *w)
{
    uint8_t(*keys)[32] = calloc(HTH_STATUS_SUSPECTS_MAX, sizeof(*keys));
    size_t n = keys ? hth_status_page_suspects(w->page, keys, HTH_STATUS_SUSPECTS_MAX) : 0;
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        hearth_error err;

        if (hearth_runtime_quarantine(w->runtime, keys[i], &err) == HEARTH_OK)
            continue;
        hth_warn(&w->log, "%s", err.message);
        all = false;
    }
    if (n > 0 && all)
        hth_status_page_suspects_clear(w->page);
    free(keys);
}

static void *load(void *context)
{
    worker *w = context;
    hearth_model_options model = *w->options->model;

    hth_os_thread_name("hearth-load");
    model.progress = on_progress;
    model.progress_user_data = w;
    model.on_work = on_work;
    model.work_user_data = w;
    w->load_status = hearth_runtime_open(w->options->runtime, &w->runtime, &w->load_error);
    if (w->load_status == HEARTH_OK && w->page)
        set_suspects_aside(w);
    if (w->load_status == HEARTH_OK)
        w->load_status = hth_model_load_engine(w->runtime, w->options->model_path, &model, &w->model, &w->load_error);
    if (w->load_status == HEARTH_OK && w->options->adapters)
        w->load_status = hth_adapter_specs_load(w->options->adapters, w->model, &w->load_error);
    if (w->load_status == HEARTH_OK && w->options->adapters && w->options->adapter_state)
        hth_adapters_restore(&w->live_adapters, w->model, w->options->adapter_state, &w->log);
    atomic_store(&w->has_loaded, true);
    hth_event_queue_wake(w->queue);
    /*
     * This thread sets has_loaded, then reads is_ending. end_loading does the reverse. So at least one of them sees the
     * other's flag.
     */
    if (w->load_status != HEARTH_OK || atomic_load(&w->is_ending))
        return NULL;
    w->identify_status = hth_model_identify(w->model, &w->identify_error);
    atomic_store(&w->has_identified, true);
    hth_event_queue_wake(w->queue);
    return NULL;
}

static void end_with(worker *w, hearth_status status, const hearth_error *error)
{
    if (w->status == HEARTH_OK && status != HEARTH_OK) {
        w->status = status;
        if (w->err)
            *w->err = *error;
    }
    (void)event_base_loopbreak(w->base); /* fails only without an event base */
}

static void publish_numbers(const worker *w)
{
    hearth_counters counters = { .struct_size = sizeof(counters) };
    hearth_model_info info = { .struct_size = sizeof(info) };
    const hth_tier_quotas quotas = hth_tier_quotas_of(hth_runtime_cache(w->runtime));

    if (hearth_runtime_counters(w->runtime, &counters, NULL) == HEARTH_OK &&
        hearth_model_info_get(w->model, &info, NULL) == HEARTH_OK)
        hth_status_page_numbers_set(w->page, &counters, &info, &quotas);
}

static void add_text(hth_sha256 *sha, const char *text)
{
    hth_sha256_update(sha, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* A digest of the defaults that affect prompts and the ends of replies. False without memory. */
static bool digest_defaults(const hth_api_defaults *defaults, uint8_t out[HTH_SHA256_BYTES])
{
    hth_sha256 *sha = hth_sha256_new();
    char numbers[64];

    if (!sha)
        return false;
    (void)snprintf(numbers, sizeof(numbers), "%d %.0f", (int)defaults->reasoning, defaults->n_predict); /* fits */
    add_text(sha, numbers);
    add_text(sha, defaults->system);
    add_text(sha, defaults->template_values);
    for (size_t i = 0; i < defaults->n_stop; i++)
        add_text(sha, defaults->stop[i]);
    hth_sha256_peek(sha, out);
    hth_sha256_free(sha);
    return true;
}

/*
 * A digest of everything that determines the meaning of a reply's tokens, and the bytes that they become: the model's
 * file, the settings of its prompt, and the format of replies.
 */
static void digest_of(const worker *w, const hearth_model_info *info, uint8_t out[HTH_FRAME_MODEL_BYTES])
{
    const char *chat_template = w->options->model->chat_template;
    uint8_t parts[sizeof(info->fingerprint) + (size_t)2 * HTH_SHA256_BYTES + 4] = { 0 }, digest[HTH_SHA256_BYTES];

    memcpy(parts, info->fingerprint, sizeof(info->fingerprint));
    if (chat_template)
        hth_sha256_of(chat_template, strlen(chat_template), parts + sizeof(info->fingerprint));
    (void)digest_defaults(&w->defaults,
                          parts + sizeof(info->fingerprint) + HTH_SHA256_BYTES); /* zeros if there was no memory */
    hth_put_u32(parts + sizeof(parts) - 4, HTH_REPLY_FORMAT);
    hth_sha256_of(parts, sizeof(parts), digest);
    memcpy(out, digest, HTH_FRAME_MODEL_BYTES);
}

static void complete_defaults(worker *w)
{
    hth_sampling_advice advice;
    hth_api_defaults of_model;

    hth_model_advice(w->model, &advice);
    of_model = hth_api_defaults_of_model(&advice);
    w->defaults = w->options->defaults ? *w->options->defaults : hth_api_defaults_none();
    hth_api_defaults_add(&w->defaults, &of_model);
    if (w->options->advice)
        hth_api_defaults_add(&w->defaults, w->options->advice);
}

/* Report the RAM tier to the front if it changed, or if must. */
static void tell_ram(worker *w, bool must)
{
    const hth_ram_tier_totals *sent = &w->sent_ram;
    hth_ram_tier_totals now;

    if (!hth_runtime_cache(w->runtime))
        return;
    hth_cache_ram_totals(hth_runtime_cache(w->runtime), &now);
    if (must || now.bytes_max != sent->bytes_max || now.bytes != sent->bytes ||
        now.rows_displaced != sent->rows_displaced)
        tell(w, "ram %" PRIu64 " %" PRIu64 " %" PRIu64, now.bytes_max, now.bytes, now.rows_displaced);
    w->sent_ram = now;
}

static void loaded(worker *w)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    const hearth_engine_options *engine = w->options->model->engine;

    w->is_loading = false;
    if (atomic_load(&w->stops_loading)) { /* ordered to stop: no request was served, and none will be */
        end_with(w, HEARTH_OK, NULL);
        return;
    }
    if (w->load_status != HEARTH_OK) {
        tell(w, "failed %s", w->load_error.message);
        end_with(w, w->load_status, &w->load_error);
        return;
    }
    (void)hearth_model_info_get(w->model, &info, NULL);        /* cannot fail: it is loaded */
    (void)snprintf(w->name, sizeof(w->name), "%s", info.name); /* both have the same size */
    complete_defaults(w);
    w->served = w->model;
    w->created_s = (json_int_t)hth_os_unix_seconds();
    w->problem = NULL;
    hth_jobs_set_model(w->jobs, w->model, w->name, w->shown);
    if (w->page)
        publish_numbers(w);
    if (w->options->sandbox)
        (void)hth_sandbox_calls(engine && engine->numa != HEARTH_NUMA_OFF,
                                &w->log);                    /* on failure it has logged the reason, here and below */
    if (w->has_ram_quota && hth_runtime_cache(w->runtime)) { /* the first request needs it */
        hth_cache_set_ram_bytes_max(hth_runtime_cache(w->runtime), w->ram_quota);
        w->has_ram_quota = false;
        tell_ram(w, true);
    }
    tell(w, "ready");
    hth_info(&w->log, "model '%s' is ready on %s: a context of %u tokens, %u sequences at once", w->name,
             w->options->socket_path, info.n_ctx, info.n_parallel);
}

static void identified(worker *w)
{
    uint8_t digest[HTH_FRAME_MODEL_BYTES];
    hearth_model_info info = { .struct_size = sizeof(info) };

    pthread_join(w->loading_thread, NULL);
    w->has_thread = false;
    if (w->identify_status != HEARTH_OK) {
        tell(w, "failed %s", w->identify_error.message);
        end_with(w, w->identify_status, &w->identify_error);
        return;
    }
    if (w->sent_hashing)
        tell(w, "hashing 1");
    (void)hearth_model_info_get(w->model, &info, NULL); /* cannot fail: it is loaded */
    digest_of(w, &info, digest);
    if (w->page)
        hth_status_page_model_set(w->page, digest, info.keyspace);
    w->is_serving = true;
    hth_jobs_set_digest(w->jobs, digest);
    if (w->page)
        publish_numbers(w);
}

/* ---- stopping ---- */

/* Stop when every request is answered and every reply is sent. */
static void stop_if_drained(worker *w)
{
    if (w->is_draining && !w->is_loading && hth_jobs_n(w->jobs) == 0 &&
        hth_http_server_numbers(w->http).n_connections == 0)
        end_with(w, HEARTH_OK, NULL);
}

static void drain(worker *w)
{
    uint32_t ms = w->drain_ms;
    const struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = 1000 * (suseconds_t)(ms % 1000) };

    if (w->is_draining)
        return;
    w->is_draining = true;
    tell(w, "stopping");
    w->problem = "this model's worker is stopping";
    /* From now on these signals have their default actions. */
    (void)event_del(w->on_term);
    (void)event_del(w->on_int);
    atomic_store(&w->stops_loading, true);
    hth_http_listener_close(w->listener);
    w->listener = NULL;
    hth_http_server_drain(w->http);
    hth_jobs_end_lingering(w->jobs);
    (void)event_add(w->on_drained, &limit); /* without memory, it waits for all running requests */
    stop_if_drained(w);
}

/* ---- orders of the front ---- */

static void *carry_out_rows(void *user_data)
{
    row_order *o = user_data;

    hth_os_thread_name("hearth-evict");
    o->ram_freed = o->ram_file_freed = 0;
    if (o->sets_quota)
        hth_cache_set_ram_bytes_max(hth_runtime_cache(o->runtime), o->ram_bytes);
    /* A failure frees less, as the front sees from the result. */
    if (!o->sets_quota && o->ram_bytes > 0)
        (void)hearth_runtime_evict(o->runtime, o->ram_bytes, HEARTH_EVICT_RAM, &o->ram_freed, NULL);
    if (!o->sets_quota && o->ram_file_bytes > 0)
        (void)hearth_runtime_evict(o->runtime, o->ram_file_bytes, HEARTH_EVICT_RAM_FILE, &o->ram_file_freed, NULL);
    atomic_store(&o->has_ended, true);
    return NULL;
}

/* Wait for the end of the order, if one runs. */
static void end_order(row_order *o)
{
    if (!o->is_running)
        return;
    pthread_join(o->thread, NULL);
    o->is_running = false;
    atomic_store(&o->has_ended, false);
}

/* Begin one order at a time: a waiting eviction comes before a quota. Without memory, the next turn tries again. */
static void begin_order(worker *w)
{
    row_order *o = &w->order;

    if (o->is_running || !w->served || !(w->has_eviction || (w->has_ram_quota && hth_runtime_cache(w->runtime))))
        return;
    o->runtime = w->runtime;
    o->sets_quota = !w->has_eviction;
    o->ram_bytes = o->sets_quota ? w->ram_quota : w->evict_ram_bytes;
    o->ram_file_bytes = w->evict_ram_file_bytes;
    o->is_running = pthread_create(&o->thread, NULL, carry_out_rows, o) == 0;
    if (o->is_running && o->sets_quota)
        w->has_ram_quota = false;
    else if (o->is_running)
        w->has_eviction = false;
}

/* Report the result of a finished order, and begin the next. */
static void take_order(worker *w)
{
    row_order *o = &w->order;

    if (o->is_running && atomic_load(&o->has_ended)) {
        end_order(o);
        if (o->sets_quota)
            tell_ram(w, true);
        else
            tell(w, "evicted %" PRIu64 " %" PRIu64, o->ram_freed, o->ram_file_freed);
    }
    begin_order(w);
}

static void evict(worker *w, const char *numbers)
{
    char *end;

    if (!w->served) {
        tell(w, "evicted 0 0");
        return;
    }
    w->evict_ram_bytes = strtoull(numbers, &end, 10);
    w->evict_ram_file_bytes = strtoull(end, NULL, 10);
    w->has_eviction = true;
    begin_order(w);
}

/* Carry out the front's commands "drain MS", "evict RAM RAM_FILE" and "ram QUOTA", one a line. */
static void carry_out(worker *w, const char *bytes, size_t n)
{
    char text[128], *at = NULL;

    n = n < sizeof(text) ? n : sizeof(text) - 1;
    memcpy(text, bytes, n);
    text[n] = '\0';
    for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
        if (strncmp(line, "drain ", 6) == 0)
            w->drain_ms = (uint32_t)strtoul(line + 6, NULL, 10);
        else if (strncmp(line, "evict ", 6) == 0)
            evict(w, line + 6);
        else if (strncmp(line, "ram ", 4) == 0) {
            w->ram_quota = strtoull(line + 4, NULL, 10);
            w->has_ram_quota = true;
            begin_order(w);
        }
    }
}

static void on_signal(evutil_socket_t number, short what, void *user_data)
{
    worker *w = user_data;
    char bytes[128];
    ssize_t n = w->options->control_fd >= 0 ? recv(w->options->control_fd, bytes, sizeof(bytes), MSG_DONTWAIT) : 0;

    (void)number;
    (void)what;
    if (n > 0)
        carry_out(w, bytes, (size_t)n); /* sent before the signal, but perhaps not read yet */
    drain(w);
}

static void on_drained(evutil_socket_t fd, short what, void *user_data)
{
    worker *w = user_data;

    (void)fd;
    (void)what;
    if (!w->is_loading) /* otherwise the end of loading, which was ordered to stop, does this */
        end_with(w, HEARTH_OK, NULL);
}

static void on_control(evutil_socket_t fd, short what, void *user_data)
{
    worker *w = user_data;
    char bytes[128];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    (void)what;
    if (n > 0)
        carry_out(w, bytes, (size_t)n);
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
        return;
    (void)event_del(w->on_control);
    atomic_store(&w->stops_loading, true);
    w->is_draining = true;
    if (!w->is_loading)
        end_with(w, HEARTH_OK, NULL);
}

static void on_carrier(evutil_socket_t fd, short what, void *user_data)
{
    worker *w = user_data;

    (void)fd;
    (void)what;
    if (!hth_worker_rows_take(w->rows, w->served))
        (void)event_del(w->on_carrier); /* the front keeps the other end, so it is gone, too */
}

/* ---- requests ---- */

/* The reason why the body cannot be read; NULL: it can. */
static const char *body_problem(hth_http_exchange *exchange, const hth_route *route, char text[128])
{
    static const char *const parts[] = { HTH_HEADER_KNOWN, HTH_HEADER_PAST, HTH_HEADER_HISTORY };
    size_t n_before = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *n = hth_http_header(exchange, parts[i]);

        n_before += n ? strtoul(n, NULL, 10) : 0;
    }
    return hth_body_problem(exchange, n_before, route->kind == HTH_ROUTE_SLOT, text);
}

/* Can the worker answer the request? False: it was refused. */
static bool check(const worker *w, hth_http_exchange *exchange, const hth_route *route)
{
    const char *path = hth_http_path(exchange), *problem;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    char unreadable[128];

    if (!route || route->kind >= HTH_ROUTE_FRONT_ONLY) {
        hth_api_fail(&error, HTH_API_NOT_FOUND, NULL, "there is no endpoint '%.256s' here", path);
    } else if (!hth_method_is(route->method, hth_http_method(exchange))) {
        hth_http_header_add(exchange, "Allow", strcmp(route->method, "GET") == 0 ? "GET, HEAD" : route->method);
        hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "this endpoint takes %s", route->method);
        error.status = 405;
    } else if (w->problem && route->kind != HTH_ROUTE_HEALTH) {
        hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%s", w->problem);
        error.retry_after_s = 1;
    } else if ((problem = body_problem(exchange, route, unreadable))) {
        hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL, "%s", problem);
        error.status = 415;
    }
    if (error.kind == HTH_API_NO_ERROR)
        return true;
    hth_job_reply_error(exchange, hth_path_dialect(path), &error);
    return false;
}

static void reply_page(hth_http_exchange *exchange, int status, hth_buffer *body_take)
{
    if (body_take->failed)
        hth_http_abort(exchange);
    else
        hth_http_reply(exchange, status, "application/json", hth_buffer_text(body_take), body_take->n);
    hth_buffer_deinit(body_take);
}

/* Answer GET /lora-adapters. The front also asks for adapters that could not be loaded. */
static void show_adapters(const worker *w, hth_http_exchange *exchange)
{
    const hth_live_adapters *live = hth_http_header(exchange, HTH_HEADER_LOST) ? &w->live_adapters : NULL;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer body = { .text = NULL };
    hearth_error err;

    if (hth_adapters_write(live, w->served, &body, &err) == HEARTH_OK) {
        reply_page(exchange, 200, &body);
        return;
    }
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "%s", err.message);
    hth_job_reply_error(exchange, HTH_API_NATIVE, &error);
    hth_buffer_deinit(&body);
}

static void show(const worker *w, hth_http_exchange *exchange, hth_route_kind kind)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_listed_model listed = { .name = w->name, .shown = w->shown, .created_s = w->created_s, .info = &info };
    hth_buffer body = { .text = NULL };
    int status = 200;

    if (w->served)
        (void)hearth_model_info_get(w->served, &info, NULL); /* cannot fail with a model */
    switch (kind) {
    case HTH_ROUTE_MODELS: hth_api_models_write(&listed, 1, &body); break;
    case HTH_ROUTE_OLLAMA_TAGS: hth_api_ollama_tags_write(&listed, 1, &body); break;
    case HTH_ROUTE_OLLAMA_PS: hth_api_ollama_ps_write(&listed, 1, &body); break;
    case HTH_ROUTE_OLLAMA_VERSION: hth_api_ollama_version_write(&body); break;
    case HTH_ROUTE_MODEL: hth_api_model_write(&listed, &body); break;
    case HTH_ROUTE_PROPS:
        hth_api_props_write(w->served, &info, w->shown, w->options->model_path, &w->defaults, &body);
        break;
    case HTH_ROUTE_SLOTS:
        hth_jobs_slots_write(w->jobs, &info, hth_http_header(exchange, HTH_HEADER_SALT), &body);
        break;
    default: status = hth_api_health_write(w->problem, &body); break;
    }
    reply_page(exchange, status, &body);
}

/* Explain the lookup of a prompt for an endpoint that generates. */
static void explain(const worker *w, hth_http_exchange *exchange)
{
    const char *name = hth_http_query(exchange, "endpoint");
    const hth_route *asked = hth_route_find(name ? name : "/v1/chat/completions");
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (asked && asked->kind == HTH_ROUTE_GENERATE) {
        hth_jobs_begin(w->jobs, exchange, HTH_TASK_EXPLAIN, asked->api);
        return;
    }
    hth_api_fail(&error, HTH_API_INVALID_VALUE, NULL,
                 "'endpoint' names no endpoint that generates, such as /v1/chat/completions");
    hth_job_reply_error(exchange, HTH_API_OPENAI, &error);
}

static void show_model(const worker *w, hth_http_exchange *exchange, const char *name)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (strcmp(name, w->name) == 0) {
        show(w, exchange, HTH_ROUTE_MODEL);
        return;
    }
    hth_api_fail(&error, HTH_API_NOT_FOUND, NULL, "there is no model '%.256s' here", name);
    hth_job_reply_error(exchange, HTH_API_OPENAI, &error);
}

/* A request that generates, or the question what is known of its prompt. */
static hth_task_kind kind_of(const hth_http_exchange *exchange)
{
    const char *ask = hth_http_header(exchange, HTH_HEADER_ASK);

    return ask && strcmp(ask, HTH_ASK_HISTORY) == 0 ? HTH_TASK_HISTORY : HTH_TASK_GENERATE;
}

static void on_request(hth_http_exchange *exchange, void *user_data)
{
    const worker *w = user_data;
    const hth_route *route = hth_route_find(hth_http_path(exchange));

    if (!check(w, exchange, route))
        return;
    switch (route->kind) {
    case HTH_ROUTE_GENERATE: hth_jobs_begin(w->jobs, exchange, kind_of(exchange), route->api); break;
    case HTH_ROUTE_ASK: hth_jobs_begin(w->jobs, exchange, HTH_TASK_ANSWER, route->api); break;
    case HTH_ROUTE_EMBED: hth_jobs_begin(w->jobs, exchange, HTH_TASK_EMBED, route->api); break;
    case HTH_ROUTE_SLOT: hth_jobs_begin(w->jobs, exchange, HTH_TASK_SLOT, route->api); break;
    case HTH_ROUTE_EXPLAIN: explain(w, exchange); break;
    case HTH_ROUTE_PREFIXES: hth_jobs_begin(w->jobs, exchange, HTH_TASK_PREFIXES, route->api); break;
    case HTH_ROUTE_ADAPTERS:
        if (hth_method_is("POST", hth_http_method(exchange))) /* the front's state, whatever the client sent */
            hth_jobs_begin(w->jobs, exchange, HTH_TASK_ADAPTERS, route->api);
        else
            show_adapters(w, exchange);
        break;
    case HTH_ROUTE_MODEL: show_model(w, exchange, hth_http_path(exchange) + strlen(route->path)); break;
    default: show(w, exchange, route->kind);
    }
}

static const char *on_protocol_error(int status, const char *why, const char *path, void *user_data)
{
    worker *w = user_data;

    return hth_protocol_error_text(status, why, path, &w->error_text);
}

/* ---- the loop ---- */

static void on_events(evutil_socket_t fd, short what, void *user_data)
{
    worker *w = user_data;

    (void)fd;
    (void)what;
    hth_jobs_take_events(w->jobs);
    if (w->is_loading && atomic_load(&w->has_loaded))
        loaded(w);
    if (w->has_thread && !w->is_loading && atomic_load(&w->has_identified))
        identified(w);
    stop_if_drained(w);
}

static void on_turn(evutil_socket_t fd, short what, void *user_data)
{
    worker *w = user_data;
    int percent = atomic_load(&w->percent);

    (void)fd;
    (void)what;
    if (w->page)
        hth_status_page_loop_turns(w->page);
    if (w->is_loading && percent != w->sent_percent) {
        tell(w, "loading %d.%02d", percent / 100, percent % 100);
        (void)snprintf(w->loading_problem, sizeof(w->loading_problem), "the model is being loaded, %d %%", percent);
        w->sent_percent = percent;
    } else if (w->has_thread && percent != w->sent_percent) { /* the engine has loaded; the file is still hashed */
        tell(w, "hashing %d.%02d", percent / 100, percent % 100);
        w->sent_percent = percent;
        w->sent_hashing = true;
    }
    stop_if_drained(w);
    take_order(w);
    if (w->served)
        tell_ram(w, false);
    if (w->page && w->served)
        publish_numbers(w);
    if (++w->n_turns % TURNS_A_SECOND == 0)
        hth_jobs_look_after(w->jobs);
}

/* ---- beginning and end ---- */

static hearth_status make_events(worker *w, hearth_error *err)
{
    const struct timeval turn = { .tv_usec = 1000 * (suseconds_t)HTH_STATUS_TURN_MS };
    int control = w->options->control_fd, carrier = w->options->carrier_fd;

    w->on_term = evsignal_new(w->base, SIGTERM, on_signal, w);
    w->on_int = evsignal_new(w->base, SIGINT, on_signal, w);
    w->on_turn = event_new(w->base, -1, EV_PERSIST, on_turn, w);
    w->on_events = event_new(w->base, hth_event_queue_fd(w->queue), EV_READ | EV_PERSIST, on_events, w);
    w->on_drained = event_new(w->base, -1, 0, on_drained, w);
    if (control >= 0)
        w->on_control = event_new(w->base, control, EV_READ | EV_PERSIST, on_control, w);
    if (carrier >= 0)
        w->on_carrier = event_new(w->base, carrier, EV_READ | EV_PERSIST, on_carrier, w);
    if (!w->on_term || !w->on_int || !w->on_turn || !w->on_events || !w->on_drained ||
        (control >= 0 && (!w->on_control || event_add(w->on_control, NULL) != 0)) ||
        (carrier >= 0 && (!w->on_carrier || event_add(w->on_carrier, NULL) != 0)) || event_add(w->on_term, NULL) != 0 ||
        event_add(w->on_int, NULL) != 0 || event_add(w->on_turn, &turn) != 0 || event_add(w->on_events, NULL) != 0)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker's events");
    return HEARTH_OK;
}

static hearth_status set_up(worker *w, hearth_error *err)
{
    const hth_worker_options *options = w->options;
    hth_task_shared shared = { .settings = &options->settings,
                               .defaults = &w->defaults,
                               .live_adapters = &w->live_adapters };
    hth_http_options http = options->http;
    hearth_status status = HEARTH_OK;
    int failed;

    http.body_bytes_max =
        options->settings.requests.body_bytes_max +
        (options->control_fd >= 0 ? HTH_KNOWN_BYTES_MAX + HTH_PAST_BYTES_MAX + HTH_HISTORY_PART_BYTES_MAX : 0);
    w->base = event_base_new();
    if (!w->base)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for an event loop");
    if (options->status_fd >= 0)
        status = hth_status_page_open(options->status_fd, &w->page, err);
    if (w->page)
        hth_status_page_loop_turns(w->page); /* from here on, also while loading */
    if (status == HEARTH_OK)
        status = hth_event_queue_new(&w->queue, err);
    shared.queue = w->queue;
    if (status == HEARTH_OK && options->carrier_fd >= 0)
        status = hth_worker_rows_new(options->carrier_fd, &w->rows, err);
    shared.rows = w->rows;
    if (status == HEARTH_OK)
        status = hth_jobs_new(&shared, options->silence_ms, &w->jobs, err);
    if (status == HEARTH_OK)
        status = hth_http_server_new(w->base, &http, on_request, w, &w->http, err);
    if (status == HEARTH_OK)
        status = hth_http_listen_unix(w->http, options->socket_path, 0, &w->listener, err);
    if (status == HEARTH_OK)
        status = make_events(w, err);
    if (status != HEARTH_OK)
        return status;
    hth_http_server_set_errors(w->http, on_protocol_error);
    (void)snprintf(w->loading_problem, sizeof(w->loading_problem), "the model is being loaded"); /* fits */
    w->problem = w->loading_problem;
    w->shown = options->shown_name ? options->shown_name : w->name;
    failed = pthread_create(&w->loading_thread, NULL, load, w);
    if (failed)
        return hth_fail_errno(err, failed, "cannot start a thread");
    w->has_thread = true;
    w->is_loading = true;
    return HEARTH_OK;
}

/* The loop has ended early: the loading thread is loading, waiting for the hash, or has just finished either. */
static void end_loading(worker *w)
{
    atomic_store(&w->stops_loading, true);
    atomic_store(&w->is_ending, true);
    if (atomic_load(&w->has_loaded))
        hth_model_shut_down(w->model);
    pthread_join(w->loading_thread, NULL);
    w->has_thread = false;
}

static void tear_down(worker *w)
{
    hearth_error err;
    struct event *events[] = { w->on_term,    w->on_int,     w->on_turn,   w->on_events,
                               w->on_drained, w->on_control, w->on_carrier };

    if (w->has_thread)
        end_loading(w);
    end_order(&w->order);
    hth_http_listener_close(w->listener);
    hth_http_server_free(w->http); /* cancels its requests */
    hth_jobs_free(w->jobs);        /* waits for the end of cancelled requests, which is soon */
    /* Save what the context holds. A waiting front sees progress in the reported work. */
    if (w->is_serving &&
        hearth_model_save(w->model, HEARTH_SAVE_SHUTDOWN, w->options->save_timeout_ms, &err) != HEARTH_OK)
        hth_warn(&w->log, "at the end: %s", err.message);
    hearth_model_unref(w->model);
    hearth_runtime_close(w->runtime);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        if (events[i])
            event_free(events[i]);
    hth_event_queue_free(w->queue);
    hth_worker_rows_free(w->rows);
    hth_status_page_free(w->page);
    hth_buffer_deinit(&w->error_text);
    if (w->base)
        event_base_free(w->base);
}

/* Called before any other thread exists, because later threads inherit the restrictions. */
static void enter_sandbox(const hth_worker_options *options, const hearth_runtime_options *runtime,
                          const char *socket_path, const char *slot_directory)
{
    const hth_log log = { .level = runtime->log_level, .write = runtime->log, .user_data = runtime->log_user_data };
    hth_sandbox_paths *paths = hth_sandbox_paths_of_worker(options->model_path, options->adapters, options->model,
                                                           runtime, socket_path, slot_directory);

    if (paths)
        (void)hth_sandbox_files(paths, &log);
    else
        hth_warn(&log, "no memory to restrict access to files");
    hth_sandbox_paths_free(paths);
}

hearth_status hth_worker_run(const hth_worker_options *options, hearth_error *err)
{
    worker w = {
        .options = options,
        .drain_ms = options->drain_timeout_ms,
        .log = { .level = options->runtime->log_level,
                 .write = options->runtime->log,
                 .user_data = options->runtime->log_user_data },
        .err = err,
        .sent_percent = -1,
        .live_adapters = { .directory = options->adapters ? options->adapters->directory : NULL },
    };

    if (options->sandbox)
        enter_sandbox(options, options->runtime, options->socket_path, options->settings.slot_directory);
    w.status = set_up(&w, err);
    if (w.status == HEARTH_OK)
        (void)event_base_dispatch(w.base); /* until a handler breaks it */
    else
        tell(&w, "failed %s", err ? err->message : "to begin");
    if (w.page)
        hth_status_page_loop_ends(w.page); /* the rest, such as saving, may take longer */
    tear_down(&w);
    return w.status;
}

/* ---- the needs of a model, without a worker ---- */

/* The weights of adapters are about as large as their files. */
static uint64_t adapter_bytes(const hth_adapter_specs *adapters)
{
    hth_adapter_spec spec;
    uint64_t sum = 0;

    for (size_t i = 0; adapters && i < adapters->n; i++)
        if (hth_adapter_spec_read(adapters->list[i], &spec, NULL) == HEARTH_OK)
            sum += hth_model_files_bytes(spec.path);
    return sum;
}

static hearth_status tell_needs(const hth_model_needs *needs, int fd, hearth_error *err)
{
    hth_buffer text = { .text = NULL };
    bool ok;

    hth_needs_write(needs, &text);
    ok = !text.failed;
    for (const char *line = hth_buffer_text(&text), *end; ok && (end = strchr(line, '\n')) != NULL; line = end + 1)
        ok = dprintf(fd, "needs %.*s\n", (int)(end - line), line) > 0;
    hth_buffer_deinit(&text);
    return ok ? HEARTH_OK : hth_fail(err, HEARTH_IO, "cannot tell the needs of the model");
}

hearth_status hth_measure_run(const hth_worker_options *options, int fd, hearth_error *err)
{
    hearth_runtime_options runtime_options = hearth_runtime_options_default();
    hearth_runtime *runtime = NULL;
    hearth_model_options model = *options->model;
    hth_model_fit fit = { .n_ctx_max = 0 };
    hth_model_needs needs;
    hearth_status status;

    runtime_options.cache_disabled = true;
    runtime_options.engine_directory = options->runtime->engine_directory;
    runtime_options.log = options->runtime->log;
    runtime_options.log_user_data = options->runtime->log_user_data;
    runtime_options.log_level = options->runtime->log_level;
    if (options->sandbox)
        enter_sandbox(options, &runtime_options, NULL, NULL);
    status = hearth_runtime_open(&runtime_options, &runtime, err);
    if (status == HEARTH_OK && hth_model_must_fit(&model))
        status = hth_model_fit_options(runtime, options->model_path, HTH_FIT_TOTAL, options->found, &model, &fit, err);
    if (status == HEARTH_OK)
        status = hth_model_needs_ask(runtime, options->model_path, &model, &needs, err);
    hearth_runtime_close(runtime);
    if (status != HEARTH_OK)
        return status;
    needs.fit = fit;
    needs.memory.host.weight_bytes += adapter_bytes(options->adapters);
    return tell_needs(&needs, fd, err);
}
