/*
 * relay_stage.h - clients, the proxy, and workers that say what a script says and break off where the test wants
 *
 * All in one thread, on the event base of http_stage.h. The program that includes this has the functions below instead
 * of the supervisor's: a worker is a fake_worker.h, and what becomes of it when its connection is reported broken is
 * the test's choice. Workers know their trade: of a reply that goes on they check what is known, and send what comes
 * after.
 */
#ifndef HTH_TESTS_RELAY_STAGE_H
#define HTH_TESTS_RELAY_STAGE_H

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "front/proxy.h"
#include "supervisor/waiters.h"
#include "support/cmocka_all.h"
#include "support/fake_worker.h"
#include "support/http_stage.h"
#include "support/support.h"
#include "wire/frames.h"

/* ---- a supervisor ---- */

/* What a worker whose connection broke turns out to be. */
typedef enum worker_fate {
    FATE_DEAD,      /* which is seen at once */
    FATE_DEAD_LATE, /* which is seen with the next one */
    FATE_STOPPED,   /* in order, and started again */
    FATE_WELL,
    FATE_GONE, /* dead, and no other one comes until the test starts it */
} worker_fate;

struct hth_supervisor {
    struct event_base *base;
    const char *directory;
    const char *model;
    hth_worker_state state;
    uint64_t generation, n_deaths;
    char path[108];
    fake_worker *worker; /* NULL: none */
    fake_handler handler;
    void *user_data;
    hth_waiters waiters;
    worker_fate fate;
    bool late_death;
    unsigned n_notes, n_views, n_served;
    const char *wait;       /* what requests wait for; NULL: unknown */
    const char *wait_there; /* likewise in the worker */
};

static bool worker_is_ready(void *user_data)
{
    const hth_supervisor *supervisor = user_data;

    return supervisor->state == HTH_WORKER_READY;
}

static void worker_start(hth_supervisor *supervisor)
{
    assert_null(supervisor->worker);
    supervisor->generation++;
    supervisor->n_deaths += supervisor->late_death;
    supervisor->late_death = false;
    (void)snprintf(supervisor->path, sizeof(supervisor->path), "%s/%llu.sock", supervisor->directory,
                   (unsigned long long)supervisor->generation); /* short */
    supervisor->worker =
        fake_worker_new(supervisor->base, supervisor->path, supervisor->handler, supervisor->user_data);
    supervisor->state = HTH_WORKER_READY;
    hth_waiters_tell_ready(&supervisor->waiters, supervisor->path, supervisor->generation, worker_is_ready, supervisor);
}

static void worker_end(hth_supervisor *supervisor, hth_worker_state state)
{
    fake_worker_free(supervisor->worker);
    supervisor->worker = NULL;
    supervisor->state = state;
}

static void on_fate(evutil_socket_t fd, short what, void *user_data)
{
    hth_supervisor *supervisor = user_data;

    (void)fd;
    (void)what;
    if (supervisor->fate == FATE_WELL) {
        const hearth_error err = { .status = HEARTH_BUSY, .message = "it is well", .retry_after_s = 3 };

        hth_waiters_tell_failed(&supervisor->waiters, supervisor->generation, &err);
    } else if (!supervisor->worker) {
        worker_start(supervisor);
    }
}

static void fate_soon(hth_supervisor *supervisor)
{
    const struct timeval now = { .tv_sec = 0 };

    assert_int_equal(event_base_once(supervisor->base, -1, EV_TIMEOUT, on_fate, supervisor, &now), 0);
}

REPLACING void hth_supervisor_note_served(hth_supervisor *supervisor, const char *model, uint64_t generation)
{
    assert_string_equal(model, supervisor->model);
    supervisor->n_served += generation == supervisor->generation;
}

REPLACING void hth_supervisor_note_broken(hth_supervisor *supervisor, const char *model, uint64_t generation)
{
    assert_string_equal(model, supervisor->model);
    supervisor->n_notes++;
    if (generation != supervisor->generation || supervisor->state != HTH_WORKER_READY)
        return;
    switch (supervisor->fate) {
    case FATE_GONE:
    case FATE_DEAD:
        supervisor->n_deaths++;
        worker_end(supervisor, HTH_WORKER_WAITING);
        break;
    case FATE_DEAD_LATE:
        supervisor->late_death = true;
        worker_end(supervisor, HTH_WORKER_READY); /* as far as anybody knows */
        break;
    case FATE_STOPPED: worker_end(supervisor, HTH_WORKER_STOPPING); break;
    case FATE_WELL: break;
    }
    if (supervisor->fate != FATE_GONE)
        fate_soon(supervisor);
}

REPLACING hearth_status hth_supervisor_want(hth_supervisor *supervisor, const char *model, uint64_t after,
                                            hth_worker_waiter *waiter, hearth_error *err)
{
    if (strcmp(model, supervisor->model) != 0)
        return hth_fail(err, HEARTH_NOT_FOUND, "there is no model '%s'", model);
    hth_worker_waiter_cancel(waiter);
    if (supervisor->state == HTH_WORKER_READY && supervisor->worker && supervisor->generation > after) {
        hth_waiters_give(&supervisor->waiters, waiter, supervisor->path, supervisor->generation);
        return HEARTH_OK;
    }
    waiter->after = after;
    hth_waiters_add(&supervisor->waiters, waiter);
    return HEARTH_OK;
}

REPLACING hearth_status hth_supervisor_want_loaded(hth_supervisor *supervisor, const char *model,
                                                   hth_worker_waiter *waiter, hearth_error *err)
{
    if (supervisor->state != HTH_WORKER_READY || !supervisor->worker)
        return hth_fail(err, HEARTH_BUSY, "the model '%s' is not loaded", model);
    return hth_supervisor_want(supervisor, model, 0, waiter, err);
}

REPLACING void hth_supervisor_tell_wait(const hth_supervisor *supervisor, const char *model, uint64_t generation,
                                        char out[HTH_WAIT_TEXT_BYTES])
{
    const char *text = generation > 0 ? supervisor->wait_there : supervisor->wait;

    assert_string_equal(model, supervisor->model);
    (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "%s", text ? text : "");
}

REPLACING uint64_t hth_supervisor_n_deaths(const hth_supervisor *supervisor, const char *model)
{
    assert_string_equal(model, supervisor->model);
    return supervisor->n_deaths;
}

REPLACING bool hth_supervisor_load_of(const hth_supervisor *supervisor, const char *model, hth_worker_load *out)
{
    *out = (hth_worker_load){
        .is_ready = supervisor->state == HTH_WORKER_READY,
        .generation = supervisor->generation,
        .n_deaths = supervisor->n_deaths,
    };
    return strcmp(model, supervisor->model) == 0;
}

REPLACING bool hth_supervisor_view_of(const hth_supervisor *supervisor, const char *model, hth_worker_view *out)
{
    assert_string_equal(model, supervisor->model);
    *out = (hth_worker_view){
        .model = supervisor->model,
        .state = supervisor->state,
        .generation = supervisor->generation,
        .n_deaths = supervisor->n_deaths,
    };
    if (supervisor->n_deaths > 0)
        (void)snprintf(out->last_death, sizeof(out->last_death),
                       "killed by signal 11 (Segmentation fault); its last lines: SECRET");
    return true;
}

/* For the page of metrics. */
REPLACING size_t hth_supervisor_n(const hth_supervisor *supervisor)
{
    (void)supervisor;
    return 1;
}

REPLACING void hth_supervisor_view(const hth_supervisor *supervisor, size_t i, hth_worker_view *out)
{
    (void)i;
    (void)hth_supervisor_view_of(supervisor, supervisor->model, out);
}

/* ---- what workers say ---- */

typedef struct script_step {
    uint32_t reply;
    hearth_token tokens[4]; /* [n_tokens] */
    uint32_t n_tokens;
    const char *bytes;
    bool has_ended;
    bool has_failed;
    uint32_t n_cached; /* not 0: a CACHED frame, and nothing else */
} script_step;

typedef struct reply_script {
    int status;
    bool is_stream;
    const char *content_type;
    const script_step *steps; /* [n_steps] */
    size_t n_steps;
} reply_script;

enum { RUNS_MAX = 64 };

/* How the n-th run goes. */
typedef struct script_run {
    size_t cut; /* bytes of the HTTP reply, after which the connection ends; 0: all of it is sent */
} script_run;

/* ---- the stage ---- */

typedef struct client_reply {
    int status;
    bool is_whole;   /* its end came, too */
    bool is_chunked; /* it is a stream */
    hth_buffer body;
} client_reply;

typedef struct relay_stage {
    hth_test_http http; /* its server is not used, its event base is */
    char *directory;
    hth_http_server *server;
    hth_upstream *upstream;
    hth_supervisor supervisor;
    hth_places *places;
    hth_proxy *proxy;
    hth_proxy_options options;
    hth_kept_streams *kept; /* NULL: relay_stage_keep was not called */

    /* Of the next request. */
    const char *model;
    hth_api_dialect dialect;
    bool generates;
    bool is_other; /* the next requests are of somebody else */
    bool is_once;
    bool wants_events;
    bool wants_kept; /* where streams are kept at all */

    /* What came of it. */
    unsigned n_relayed, n_over;
    hth_access_record record;                           /* of the last that is over */
    char why[sizeof(((hth_api_error *)NULL)->message)]; /* what its why points to */

    /* The workers' script. */
    const reply_script *script;
    script_run runs[RUNS_MAX];
    unsigned n_runs;
    size_t n_reply_bytes; /* of the last HTTP reply, had it been whole */
    char heads[RUNS_MAX][1024];
    char *bodies[RUNS_MAX];   /* the client's */
    size_t n_known[RUNS_MAX]; /* bytes of frames before it */

    client_reply reply; /* for the test to hear into */
} relay_stage;

static void script_head(hth_buffer *out, const char *content_type)
{
    hth_buffer_add_text(out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: ");
    hth_buffer_add_text(out, content_type);
    hth_buffer_add_text(out, "\r\n\r\n");
}

static void script_chunk(hth_buffer *out, const hth_buffer *bytes)
{
    char size[32];

    (void)snprintf(size, sizeof(size), "%zx\r\n", bytes->n);
    hth_buffer_add_text(out, size);
    hth_buffer_add(out, hth_buffer_text(bytes), bytes->n);
    hth_buffer_add_text(out, "\r\n");
}

typedef struct script_known {
    hth_buffer tokens[8]; /* of each reply, as hearth_token */
    bool has_ended[8];
    uint32_t n_cached[8];
} script_known;

/* What is known has to be what the script said, step by step. */
static void known_read(const char *bytes, size_t n, script_known *out)
{
    while (n > 0) {
        hth_frame frame;
        size_t n_used = 0;

        assert_int_equal(hth_frame_read(bytes, n, &frame, &n_used), HTH_FRAME_OK);
        assert_true(frame.kind == HTH_FRAME_STEP || frame.kind == HTH_FRAME_CACHED);
        assert_int_equal(frame.n_bytes, 0);
        assert_true(frame.reply < 8);
        assert_int_equal(frame.n_cached == 0 ? 0 : out->n_cached[frame.reply], 0); /* once */
        out->n_cached[frame.reply] += frame.n_cached;
        for (uint32_t i = 0; i < frame.n_tokens; i++) {
            hearth_token token = hth_frame_token(&frame, i);

            hth_buffer_add(&out->tokens[frame.reply], (const char *)&token, sizeof(token));
        }
        assert_false(out->has_ended[frame.reply]);
        out->has_ended[frame.reply] |= frame.reply_has_ended;
        bytes += n_used;
        n -= n_used;
    }
}

/* Is the step known? Its tokens have to be the next ones then, or none. */
static bool known_has(script_known *known, size_t *at, const script_step *step)
{
    const hth_buffer *tokens = &known->tokens[step->reply];
    size_t n_bytes = step->n_tokens * sizeof(hearth_token);

    if (step->n_cached > 0) {
        assert_true(known->n_cached[step->reply] == step->n_cached ||
                    (known->n_cached[step->reply] == 0 && tokens->n == 0)); /* it comes before tokens */
        return known->n_cached[step->reply] > 0;
    }
    if (at[step->reply] + n_bytes > tokens->n || (step->has_ended && !known->has_ended[step->reply]) ||
        (step->n_tokens == 0 && !step->has_ended))
        return false;
    assert_memory_equal(tokens->text + at[step->reply], step->tokens, n_bytes);
    at[step->reply] += n_bytes;
    return true;
}

static void script_write(const reply_script *script, const char *frames, size_t n_frames, hth_buffer *out)
{
    script_known known = { .has_ended = { false } };
    size_t at[8] = { 0 };
    hth_buffer frame = { .text = NULL };
    const hth_frame_summary summary = { .status = (uint32_t)script->status,
                                        .figures = { .n_prompt_tokens = 7, .n_reply_tokens = 9, .ttft_ms = 1.5 } };

    known_read(frames, n_frames, &known);
    script_head(out, HTH_FRAMES_CONTENT_TYPE);
    hth_frame_add_head(&frame, script->status, script->is_stream, 0, script->content_type, NULL);
    script_chunk(out, &frame);
    for (size_t i = 0; i < script->n_steps; i++) {
        const script_step *step = &script->steps[i];

        if (known_has(&known, at, step))
            continue;
        hth_buffer_clear(&frame);
        if (step->n_cached > 0)
            hth_frame_add_cached(&frame, step->reply, step->n_cached);
        else
            hth_frame_add_step(&frame, step->reply,
                               (step->has_ended ? HTH_STEP_ENDS : 0u) | (step->has_failed ? HTH_STEP_FAILS : 0u),
                               &(hth_frame_tokens){ .ids = step->tokens, .n = step->n_tokens }, step->bytes,
                               script->is_stream ? strlen(step->bytes) : 0);
        script_chunk(out, &frame);
    }
    /* A body comes from its beginning, whatever is known. */
    for (size_t i = 0; i < script->n_steps && !script->is_stream; i++) {
        hth_buffer_clear(&frame);
        hth_frame_add_bytes(&frame, script->steps[i].bytes, strlen(script->steps[i].bytes));
        if (frame.n > 0)
            script_chunk(out, &frame);
    }
    hth_buffer_clear(&frame);
    hth_frame_add_end(&frame, &summary);
    script_chunk(out, &frame);
    hth_buffer_clear(&frame);
    script_chunk(out, &frame);
    hth_buffer_deinit(&frame);
    for (size_t i = 0; i < 8; i++)
        hth_buffer_deinit(&known.tokens[i]);
}

/* Keep what was asked; returns the number of the run. */
static unsigned note_run(relay_stage *stage, const fake_request *request)
{
    unsigned run = stage->n_runs++;
    char number[32];

    assert_true(run < RUNS_MAX);
    (void)snprintf(stage->heads[run], sizeof(stage->heads[run]), "%s", request->head);
    stage->n_known[run] =
        fake_request_header(request, HTH_HEADER_KNOWN, number, sizeof(number)) ? strtoul(number, NULL, 10) : 0;
    assert_true(stage->n_known[run] <= request->n_body);
    stage->bodies[run] = strdup(request->body + stage->n_known[run]);
    assert_non_null(stage->bodies[run]);
    return run;
}

static void forget_runs(relay_stage *stage)
{
    for (unsigned i = 0; i < stage->n_runs; i++) {
        free(stage->bodies[i]);
        stage->bodies[i] = NULL;
    }
    stage->n_runs = 0;
}

static void play(fake_connection *connection, const fake_request *request, void *user_data)
{
    relay_stage *stage = user_data;
    unsigned run = note_run(stage, request);
    hth_buffer out = { .text = NULL };
    size_t cut = stage->runs[run].cut;

    script_write(stage->script, request->body, stage->n_known[run], &out);
    assert_false(out.failed);
    stage->n_reply_bytes = out.n;
    if (cut == 0 || cut >= out.n) {
        fake_write(connection, out.text, out.n);
    } else {
        fake_write(connection, out.text, cut);
        fake_end(connection);
    }
    hth_buffer_deinit(&out);
}

static void on_over(const hth_access_record *record, void *user_data)
{
    relay_stage *stage = user_data;

    stage->n_over++;
    stage->record = *record;
    (void)snprintf(stage->why, sizeof(stage->why), "%s", record->why ? record->why : ""); /* as long */
    stage->record.why = stage->why;
}

/* What the clients of the stage show. */
static const uint8_t relay_stage_key[HTH_KEPT_KEY_BYTES] = { 1, 2, 3 };
static const uint8_t relay_stage_other[HTH_KEPT_KEY_BYTES] = { 3, 2, 1 };

/* GET and DELETE of a stream, as the front has them; with the query "stranger" by somebody else. */
static void serve_kept(relay_stage *stage, hth_http_exchange *exchange, const char *id)
{
    const uint8_t *key = hth_http_query(exchange, "stranger") ? relay_stage_other : relay_stage_key;
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (strcmp(hth_http_method(exchange), "DELETE") == 0) {
        if (hth_kept_streams_drop(stage->kept, id, key, &error)) {
            hth_http_reply(exchange, 204, NULL, NULL, 0);
            return;
        }
    } else if (hth_kept_streams_read(stage->kept, exchange, id, key, &error)) {
        return;
    }
    hth_http_reply(exchange, hth_api_error_http_status(HTH_API_OPENAI, &error), NULL, error.message,
                   strlen(error.message));
}

static void relay(hth_http_exchange *exchange, void *user_data)
{
    static const char streams[] = "/v1/streams/";
    relay_stage *stage = user_data;
    const char *path = hth_http_path(exchange);
    char id[32];
    const hth_relay_request request = {
        .wants_events = stage->wants_events,
        .wants_kept = stage->wants_kept,
        .key = stage->is_other ? relay_stage_other : relay_stage_key,
        .model = stage->model,
        .method = hth_http_method(exchange),
        .target = hth_http_path(exchange),
        .dialect = stage->dialect,
        .generates = stage->generates,
        .is_once = stage->is_once,
        .id = id,
        .request_id = "of-the-client",
        .traceparent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
        .salt = "salt",
        .on_over = on_over,
        .user_data = stage,
    };

    if (stage->kept && strncmp(path, streams, sizeof(streams) - 1) == 0) {
        serve_kept(stage, exchange, path + sizeof(streams) - 1);
        return;
    }
    (void)snprintf(id, sizeof(id), "id%u", stage->n_relayed++);
    hth_proxy_relay(stage->proxy, exchange, &request);
}

static void relay_stage_open(relay_stage *stage)
{
    const hth_http_options http = hth_http_options_default();

    *stage = (relay_stage){ .model = "tiny", .generates = true };
    hth_test_http_open(&stage->http, NULL);
    stage->directory = hth_test_directory_new();
    assert_int_equal(hth_http_server_new(stage->http.base, &http, relay, stage, &stage->server, NULL), HEARTH_OK);
    assert_int_equal(hth_http_listen_tcp(stage->server, "127.0.0.1", 0, 0, NULL, NULL, &stage->http.port, NULL, NULL),
                     HEARTH_OK);
    assert_int_equal(hth_upstream_new(stage->http.base, &stage->upstream, NULL), HEARTH_OK);
    stage->supervisor = (hth_supervisor){
        .base = stage->http.base,
        .directory = stage->directory,
        .model = "tiny",
        .state = HTH_WORKER_STOPPED,
        .handler = play,
        .user_data = stage,
    };
    hth_waiters_init(&stage->supervisor.waiters, NULL, NULL);
    assert_int_equal(hth_places_new(&(hth_places_options){ .base = stage->http.base,
                                                           .supervisor = &stage->supervisor,
                                                           .name = "here",
                                                           .wait_timeout_ms = 60000 },
                                    &stage->places, NULL),
                     HEARTH_OK);
    stage->options = (hth_proxy_options){
        .upstream = stage->upstream,
        .places = stage->places,
        .limits = { .retries_max = 3, .wait_timeout_ms = 60000 },
    };
    assert_int_equal(hth_proxy_new(&stage->options, &stage->proxy, NULL), HEARTH_OK);
}

/* From now on streams are kept, of clients who want it. */
static inline void relay_stage_keep(relay_stage *stage, const hth_kept_options *options)
{
    assert_int_equal(hth_kept_streams_new(stage->http.base, options, &stage->kept, NULL), HEARTH_OK);
    hth_proxy_free(stage->proxy);
    stage->options.kept = stage->kept;
    assert_int_equal(hth_proxy_new(&stage->options, &stage->proxy, NULL), HEARTH_OK);
    stage->wants_kept = true;
}

static void relay_stage_close(relay_stage *stage)
{
    hth_test_http_until(&stage->http, hth_http_server_numbers(stage->server).n_connections == 0);
    hth_test_http_until(&stage->http, hth_proxy_n_relays(stage->proxy) == 0);
    assert_int_equal(stage->n_over, stage->n_relayed);
    hth_http_server_free(stage->server);
    hth_proxy_free(stage->proxy);
    hth_places_free(stage->places);
    hth_kept_streams_free(stage->kept);
    hth_upstream_free(stage->upstream);
    fake_worker_free(stage->supervisor.worker);
    assert_null(stage->supervisor.waiters.first);
    hth_test_http_close(&stage->http);
    hth_test_directory_remove(stage->directory);
    hth_buffer_deinit(&stage->reply.body);
    forget_runs(stage);
}

/* ---- clients ---- */

static bool read_chunks(const char *at, const char *end, client_reply *out)
{
    while (at < end) {
        char *after;
        size_t n = strtoul(at, &after, 16);

        if (end - after < 2 || (size_t)(end - after) < n + 4)
            return false;
        after += 2;
        hth_buffer_add(&out->body, after, n);
        at = after + n + 2;
        if (n == 0)
            return true;
    }
    return false;
}

/* What has been heard so far. */
static void client_reply_read(hth_test_client *client, client_reply *out)
{
    const char *body, *length;

    hth_buffer_clear(&out->body);
    out->is_whole = false;
    out->status = 0;
    hth_test_client_listen(client);
    body = strstr(client->heard, "\r\n\r\n");
    if (!body)
        return;
    body += 4;
    out->status = atoi(client->heard + 9);
    length = strstr(client->heard, "Content-Length: ");
    out->is_chunked = !length || length > body;
    if (out->is_chunked) {
        out->is_whole = read_chunks(body, client->heard + client->n_heard, out);
    } else {
        hth_buffer_add(&out->body, body, (size_t)(client->heard + client->n_heard - body));
        out->is_whole = out->body.n >= strtoul(length + 16, NULL, 10);
    }
}

/* Nothing to parse before it may be whole. */
static bool may_be_whole(hth_test_client *client)
{
    static const char end[] = "\r\n0\r\n\r\n";
    size_t n = sizeof(end) - 1;

    hth_test_client_listen(client);
    return client->is_at_end || !strstr(client->heard, "Transfer-Encoding") ||
           (client->n_heard > n && memcmp(client->heard + client->n_heard - n, end, n) == 0);
}

/* Until it is whole, or the connection has ended. */
static void client_hear(hth_test_client *client, client_reply *out)
{
    out->is_whole = false;
    hth_test_http_until(client->stage, (may_be_whole(client) ? client_reply_read(client, out) : (void)0,
                                        out->is_whole || client->is_at_end));
}

static void client_ask(hth_test_client *client, relay_stage *stage, const char *body)
{
    char head[256];

    hth_test_client_open(client, &stage->http);
    (void)snprintf(head, sizeof(head),
                   "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   strlen(body));
    hth_test_client_say(client, head);
    hth_test_client_say(client, body);
}

/* A request from its beginning to the end of stage->reply. */
static inline void exchange_whole(relay_stage *stage)
{
    hth_test_client client;
    unsigned n_over = stage->n_over;

    client_ask(&client, stage, "{\"a\":1}");
    client_hear(&client, &stage->reply);
    hth_test_client_close(&client);
    hth_test_http_until(&stage->http, stage->n_over > n_over);
}

#endif
