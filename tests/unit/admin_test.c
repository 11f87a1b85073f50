/*
 * admin_test.c - pages for load balancers and operators say what is so, and nothing that is secret
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "front/admin.h"
#include "options/serve_config.h"
#include "support/cmocka_all.h"
#include "support/exposition.h"
#include "support/fake_http.h"
#include "support/fake_supervisor.h"

struct hth_event_feed {
    int n_listeners, n_listeners_max;
};

/* In place of the feed's. */
bool hth_event_feed_listen(hth_event_feed *feed, hth_http_exchange *exchange, hth_api_error *error)
{
    if (feed->n_listeners == feed->n_listeners_max) {
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "too many listen");
        return false;
    }
    feed->n_listeners++;
    hth_http_reply(exchange, 200, "text/event-stream", NULL, 0);
    return true;
}

struct hth_pressure_watch {
    uint64_t forced_bytes;
    hth_pressure_settings settings;
};

/* In place of the watch's. */
uint64_t hth_pressure_watch_force(hth_pressure_watch *watch, uint64_t n_bytes)
{
    watch->forced_bytes += n_bytes;
    return n_bytes / 2;
}

json_t *hth_pressure_watch_json(const hth_pressure_watch *watch)
{
    (void)watch;
    return json_pack("{s:{s:b}}", "system", "pressed", 0);
}

const hth_pressure_settings *hth_pressure_watch_settings(const hth_pressure_watch *watch)
{
    return &watch->settings;
}

void hth_pressure_watch_write_metrics(const hth_pressure_watch *watch, hth_buffer *out)
{
    (void)watch;
    (void)out;
}

typedef struct fixture {
    hth_admin admin;
    hth_pressure_watch pressure;
    hth_event_feed feed;
    hth_server_options options;
    hth_server_model models[2];
    hth_supervisor supervisor;
    hth_http_server http;
    hth_http_exchange exchange;
    int n_drains, n_reloads;
    int n_replies_at_drain;
    bool reload_fails;
    char named[128]; /* "NAME=SETTINGS" */
} fixture;

static void drain(void *user_data)
{
    fixture *f = user_data;

    f->n_drains++;
    f->n_replies_at_drain = f->exchange.n_replies;
}

static bool reload(void *user_data, hearth_error *err)
{
    fixture *f = user_data;

    f->n_reloads++;
    if (f->reload_fails)
        (void)hth_fail(err, HEARTH_MISUSE, "hearth.conf:3: 'ram' is 'lots'; it must be a size");
    return !f->reload_fails;
}

static hearth_status name_model(const char *name, const char *settings, void *user_data, hearth_error *err)
{
    fixture *f = user_data;

    if (f->reload_fails)
        return hth_fail(err, HEARTH_MISUSE, "there is no file for '%s'", settings);
    (void)snprintf(f->named, sizeof(f->named), "%s=%s", name, settings);
    return HEARTH_OK;
}

static hearth_status forget_model(const char *name, void *user_data, hearth_error *err)
{
    fixture *f = user_data;

    if (strncmp(f->named, name, strlen(name)) != 0)
        return hth_fail(err, HEARTH_NOT_FOUND, "no model '%s' was named", name);
    f->named[0] = '\0';
    return HEARTH_OK;
}

/* Knows one setting. */
static hearth_status set_pressure(const char *settings, void *user_data, hearth_error *err)
{
    fixture *f = user_data;

    if (sscanf(settings, "{\"high_percent\":%u}", &f->pressure.settings.marks.high_percent) != 1)
        return hth_fail(err, HEARTH_MISUSE, "'%s' is no setting", settings);
    return HEARTH_OK;
}

static void set_up(fixture *f)
{
    f->options = hth_server_options_default();
    f->pressure.settings = f->options.pressure;
    f->models[0].name = "chat";
    f->models[1].name = "org/embed";
    f->models[1].rules.start = HTH_START_ON_DEMAND;
    f->options.models = f->models;
    f->options.n_models = 2;
    f->supervisor.views[0] =
        (hth_worker_view){ .model = "chat", .state = HTH_WORKER_READY, .was_ready = true, .n_starts = 1, .pid = 42 };
    f->supervisor.views[1] = (hth_worker_view){ .model = "org/embed", .state = HTH_WORKER_STOPPED };
    f->supervisor.n = 2;
    f->admin = (hth_admin){
        .options = &f->options,
        .supervisor = &f->supervisor,
        .metrics = hth_metrics_new(),
        .http = &f->http,
        .feed = &f->feed,
        .pressure = &f->pressure,
        .drain = drain,
        .reload = reload,
        .name_model = name_model,
        .forget_model = forget_model,
        .set_pressure = set_pressure,
        .user_data = f,
        .json = hth_serve_json,
    };
}

static void tear_down(fixture *f)
{
    hth_metrics_free(f->admin.metrics);
    hth_buffer_deinit(&f->exchange.body);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void begin(fixture *f, const char *method, const char *path)
{
    f->exchange.method = method;
    f->exchange.path = path;
    f->exchange.headers[0] = '\0';
    f->exchange.request_body = NULL;
    f->exchange.n_replies = 0;
}

/* Ask a page that is there; its body. */
static const char *ask(fixture *f, const char *method, const char *path, int status)
{
    begin(f, method, path);
    if (!hth_admin_answer_public(&f->admin, &f->exchange) && !hth_admin_answer(&f->admin, &f->exchange))
        fail_msg("there is no page '%s'", path);
    assert_int_equal(f->exchange.n_replies, 1);
    if (f->exchange.status != status)
        fail_msg("%s %s is %d: %s", method, path, f->exchange.status, hth_buffer_text(&f->exchange.body));
    return hth_buffer_text(&f->exchange.body);
}

/* Likewise; its JSON, which the caller releases. */
static json_t *ask_json(fixture *f, const char *method, const char *path, int status)
{
    const char *body = ask(f, method, path, status);
    json_t *value = json_loads(body, JSON_REJECT_DUPLICATES, NULL);

    if (!value)
        fail_msg("no JSON: %s", body);
    assert_string_equal(f->exchange.content_type, "application/json");
    return value;
}

/* Its answer is an error whose message has this in it. */
static void assert_error(fixture *f, const char *method, const char *path, int status, const char *part)
{
    json_t *body = ask_json(f, method, path, status);
    const char *message = json_string_value(json_object_get(json_object_get(body, "error"), "message"));

    if (!message || !strstr(message, part))
        fail_msg("'%s' is not in '%s'", part, message ? message : "");
    json_decref(body);
}

/* ---- health and readiness ---- */

FIXTURE_TEST(health_is_ok_while_every_model_can_be_had)
{
    static const hth_worker_state states[] = { HTH_WORKER_STOPPED, HTH_WORKER_STARTING, HTH_WORKER_READY,
                                               HTH_WORKER_STOPPING, HTH_WORKER_WAITING };

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        f->supervisor.views[0].state = states[i];
        assert_string_equal(ask(f, "GET", "/health", 200), "{\"status\":\"ok\"}\n");
    }
    assert_string_equal(ask(f, "HEAD", "/v1/health", 200), "{\"status\":\"ok\"}\n");
}

FIXTURE_TEST(health_waits_for_the_first_model_of_the_start)
{
    hth_worker_view *chat = &f->supervisor.views[0], *embed = &f->supervisor.views[1];

    chat->was_ready = false;
    chat->state = HTH_WORKER_STARTING;
    chat->load_progress = 0.42f;
    assert_error(f, "GET", "/health", 503, "'chat' is being loaded: 42 %");
    assert_error(f, "GET", "/v1/health", 503, "'chat' is being loaded: 42 %");
    chat->state = HTH_WORKER_WAITING;
    memcpy(chat->last_death, "it is incomplete; /home/me/secret.gguf", 39);
    assert_error(f, "GET", "/health", 503, "'chat' could not be loaded yet, and is tried again");
    assert_null(strstr(hth_buffer_text(&f->exchange.body), "secret"));
    embed->was_ready = true; /* one is there: /ready waits for the others */
    assert_string_equal(ask(f, "GET", "/health", 200), "{\"status\":\"ok\"}\n");
    assert_error(f, "GET", "/ready", 503, "'chat' could not be loaded yet");
    embed->was_ready = false;
    f->models[0].rules.start = HTH_START_ON_DEMAND; /* nothing is loaded at start */
    assert_string_equal(ask(f, "GET", "/health", 200), "{\"status\":\"ok\"}\n");
}

FIXTURE_TEST(health_names_models_that_are_broken)
{
    f->supervisor.views[1].state = HTH_WORKER_BROKEN;
    f->supervisor.views[1].restart_in_ms = 1500;
    memcpy(f->supervisor.views[1].last_death, "killed by signal 9; /home/me/secret.gguf", 41);
    assert_error(f, "GET", "/health", 503, "model 'org/embed' is broken");
    assert_error(f, "GET", "/health", 503, "next start in 2 s");
    assert_null(strstr(hth_buffer_text(&f->exchange.body), "secret"));
}

FIXTURE_TEST(a_server_is_ready_once_its_models_were_loaded)
{
    hth_worker_view *view = &f->supervisor.views[0];

    assert_string_equal(ask(f, "GET", "/ready", 200), "{\"status\":\"ready\"}\n");
    view->was_ready = false;
    view->state = HTH_WORKER_STARTING;
    view->load_progress = 0.42f;
    assert_error(f, "GET", "/ready", 503, "'chat' is being loaded: 42 %");
    view->was_ready = true; /* requests wait for it, or are told */
    assert_string_equal(ask(f, "GET", "/ready", 200), "{\"status\":\"ready\"}\n");
    view->was_ready = false;
    view->n_starts = 3;
    view->state = HTH_WORKER_WAITING;
    memcpy(view->last_death, "it is incomplete", 17);
    assert_error(f, "GET", "/ready", 503, "'chat' could not be loaded yet, and is tried again");
    view->last_death[0] = '\0';
    view->state = HTH_WORKER_STOPPED;
    view->n_starts = 0;
    view->is_awaited = true;
    assert_error(f, "GET", "/ready", 503, "'chat' is being loaded: ");
    view->is_awaited = false; /* it was unloaded before it had started */
    assert_string_equal(ask(f, "GET", "/ready", 200), "{\"status\":\"ready\"}\n");
    view->is_awaited = true;
    f->models[0].rules.start = HTH_START_ON_DEMAND;
    assert_string_equal(ask(f, "GET", "/ready", 200), "{\"status\":\"ready\"}\n");
}

FIXTURE_TEST(a_server_that_stops_or_has_no_working_model_is_not_ready)
{
    f->supervisor.views[0].state = HTH_WORKER_BROKEN;
    assert_string_equal(ask(f, "GET", "/ready", 200), "{\"status\":\"ready\"}\n");
    f->supervisor.views[1].state = HTH_WORKER_BROKEN;
    assert_error(f, "GET", "/ready", 503, "every model is broken");
    f->admin.is_draining = true;
    assert_error(f, "GET", "/ready", 503, "stopping");
}

FIXTURE_TEST(many_broken_models_are_one_message_of_bounded_length)
{
    char name[400];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    f->supervisor.n = 8;
    for (int i = 0; i < 8; i++)
        f->supervisor.views[i] = (hth_worker_view){ .model = name, .state = HTH_WORKER_BROKEN };
    assert_error(f, "GET", "/health", 503, "is broken");
    assert_in_range(f->exchange.body.n, 100, 1000);
}

/* ---- pages ---- */

FIXTURE_TEST(metrics_are_in_prometheus_format)
{
    char problem[512];

    f->http.numbers.n_connections = 17;
    assert_true(hth_test_exposition_is_good(ask(f, "GET", "/metrics", 200), problem, sizeof(problem)));
    assert_string_equal(f->exchange.content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert_true(hth_test_exposition_value(f->exchange.body.text, "hearth_http_connections") == 17);
    assert_true(hth_test_exposition_value(f->exchange.body.text, "hearth_worker_up{model=\"chat\"}") == 1);
}

static json_int_t integer_at(const json_t *object, const char *a, const char *b)
{
    const json_t *value = json_object_get(object, a);

    value = b ? json_object_get(value, b) : value;
    if (!json_is_integer(value))
        fail_msg("there is no number '%s' '%s'", a, b ? b : "");
    return json_integer_value(value);
}

FIXTURE_TEST(workers_are_shown_with_their_state_and_numbers)
{
    hth_worker_view *view = &f->supervisor.views[0];
    json_t *page, *worker, *device;

    view->generation = 3;
    view->n_starts = 3;
    view->n_deaths = 2;
    view->n_hangs = 1;
    view->up_ms = 5000;
    view->n_waiters = 4;
    view->n_uses = 5;
    view->is_pinned = true;
    view->residency = HTH_RESIDENCY_PINNED_DEVICE;
    view->memory_bytes = 2 << 20;
    view->n_departures = 6;
    view->leaves_in_ms = 9000;
    f->supervisor.views[1].leaves_in_ms = UINT64_MAX;
    view->resident_bytes = 1 << 20;
    memcpy(view->last_death, "killed by signal 11", 20);
    view->status.has_numbers = true;
    view->status.tick_ns = 2500000;
    memcpy(view->status.info.architecture, "llama", 6);
    memset(view->status.info.description, 'd', sizeof(view->status.info.description)); /* not terminated */
    memcpy(view->status.info.strategy, "\xff", 2);
    view->status.info.n_params = UINT64_MAX;
    view->status.info.n_ctx = 4096;
    view->status.info.n_running = 2;
    memset(view->status.info.fingerprint, 0xab, 32);
    view->status.counters.rows_restored = 7;
    view->status.counters.hits_exact = 6;
    view->status.counters.disk_bytes = 123;
    view->status.counters.hits_by_tier[HEARTH_TIER_RAM] = 8;
    view->status.quotas.disk = 456;
    view->status.counters.write_queue_rows = 9;
    f->http.numbers.n_connections = 17;
    f->admin.n_requests = 3;

    page = ask_json(f, "GET", "/admin/models", 200);
    assert_string_equal(json_string_value(json_object_get(page, "version")), hearth_version());
    assert_true(json_is_false(json_object_get(page, "draining")));
    assert_int_equal(integer_at(page, "requests", NULL), 3);
    assert_int_equal(integer_at(page, "connections", NULL), 17);
    assert_int_equal(integer_at(page, "memory", "limit_bytes"), 1000);
    assert_int_equal(integer_at(page, "memory", "used_bytes"), 700);
    device = json_array_get(json_object_get(json_object_get(page, "memory"), "devices"), 0);
    assert_string_equal(json_string_value(json_object_get(device, "name")), "CUDA0");
    assert_int_equal(json_integer_value(json_object_get(device, "limit_bytes")), 500);
    assert_int_equal(json_integer_value(json_object_get(device, "used_bytes")), 600);
    assert_true(json_is_true(json_object_get(device, "pinned_over_commit")));
    device = json_array_get(json_object_get(json_object_get(page, "memory"), "devices"), 1);
    assert_null(json_object_get(device, "limit_bytes")); /* unknown */
    assert_int_equal(integer_at(page, "memory", "pinned_bytes"), 300);
    assert_int_equal(json_array_size(json_object_get(page, "models")), 2);

    worker = json_array_get(json_object_get(page, "models"), 0);
    assert_string_equal(json_string_value(json_object_get(worker, "name")), "chat");
    assert_string_equal(json_string_value(json_object_get(worker, "state")), "ready");
    assert_string_equal(json_string_value(json_object_get(worker, "last_death")), "killed by signal 11");
    assert_int_equal(integer_at(worker, "pid", NULL), 42);
    assert_int_equal(integer_at(worker, "generation", NULL), 3);
    assert_int_equal(integer_at(worker, "starts", NULL), 3);
    assert_int_equal(integer_at(worker, "deaths", NULL), 2);
    assert_int_equal(integer_at(worker, "hangs", NULL), 1);
    assert_int_equal(integer_at(worker, "up_ms", NULL), 5000);
    assert_int_equal(integer_at(worker, "waiting_requests", NULL), 4);
    assert_int_equal(integer_at(worker, "resident_bytes", NULL), 1 << 20);
    assert_int_equal(integer_at(worker, "running_requests", NULL), 5);
    assert_int_equal(integer_at(worker, "memory_bytes", NULL), 2 << 20);
    assert_int_equal(integer_at(worker, "departures", NULL), 6);
    assert_int_equal(integer_at(worker, "leaves_in_ms", NULL), 9000);
    assert_true(json_is_true(json_object_get(worker, "pinned")));
    assert_string_equal(json_string_value(json_object_get(worker, "residency")), "pinned_device");
    assert_string_equal(json_string_value(json_object_get(worker, "pin")), "device");
    assert_true(json_is_false(json_object_get(worker, "closed")));
    assert_null(json_object_get(json_array_get(json_object_get(page, "models"), 1), "leaves_in_ms"));
    assert_string_equal(json_string_value(json_object_get(json_object_get(worker, "model"), "architecture")), "llama");
    assert_int_equal(json_string_length(json_object_get(json_object_get(worker, "model"), "description")),
                     sizeof(view->status.info.description));
    assert_int_equal(integer_at(worker, "model", "n_params"), INT64_MAX);
    assert_int_equal(strspn(json_string_value(json_object_get(json_object_get(worker, "model"), "fingerprint")), "ab"),
                     64);
    assert_int_equal(integer_at(worker, "scheduler", "running"), 2);
    assert_int_equal(integer_at(worker, "scheduler", "cells"), 4096);
    assert_true(json_real_value(json_object_get(json_object_get(worker, "scheduler"), "evaluating_ms")) == 2.5);
    assert_true(json_is_null(json_object_get(json_object_get(worker, "scheduler"), "strategy")));
    assert_int_equal(integer_at(worker, "cache", "rows_restored"), 7);
    worker = json_object_get(worker, "cache");
    assert_int_equal(integer_at(worker, "hits", "exact"), 6);
    assert_int_equal(integer_at(worker, "disk", "bytes"), 123);
    assert_int_equal(integer_at(worker, "disk", "bytes_max"), 456);
    assert_int_equal(integer_at(worker, "hits_by_tier", "ram"), 8);
    assert_int_equal(integer_at(worker, "write_queue", "rows"), 9);
    json_decref(page);
}

FIXTURE_TEST(a_worker_without_a_process_shows_no_numbers_but_when_it_starts)
{
    json_t *page, *worker;

    f->supervisor.views[0].pid = 0;
    f->supervisor.views[0].state = HTH_WORKER_WAITING;
    f->supervisor.views[0].restart_in_ms = 800;
    f->supervisor.views[1].state = HTH_WORKER_STARTING;
    f->supervisor.views[1].load_progress = 0.5f;
    page = ask_json(f, "GET", "/admin/models", 200);
    worker = json_array_get(json_object_get(page, "models"), 0);
    assert_int_equal(integer_at(worker, "restart_in_ms", NULL), 800);
    assert_null(json_object_get(worker, "pid"));
    assert_null(json_object_get(worker, "model"));
    assert_null(json_object_get(worker, "cache"));
    assert_null(json_object_get(worker, "last_death"));
    worker = json_array_get(json_object_get(page, "models"), 1);
    assert_true(json_real_value(json_object_get(worker, "load_progress")) == 0.5);
    assert_null(json_object_get(worker, "hash_progress"));
    json_decref(page);
    f->supervisor.views[1].state = HTH_WORKER_READY;
    f->supervisor.views[1].is_hashing = true;
    f->supervisor.views[1].load_progress = 0.25f;
    page = ask_json(f, "GET", "/admin/models", 200);
    worker = json_array_get(json_object_get(page, "models"), 1);
    assert_true(json_real_value(json_object_get(worker, "hash_progress")) == 0.25);
    json_decref(page);
}

FIXTURE_TEST(the_configuration_is_shown_without_secrets)
{
    static const char *const worker[] = { "--model", "x.gguf", NULL }, *const models[] = { "chat" },
                             *const origins[] = { "https://a.example" };
    static const hth_server_address listen[] = { { .host = "127.0.0.1", .port = 8080 },
                                                 { .host = "::1", .port = 8080 },
                                                 { .path = "/run/hearth.sock" } };
    const hth_server_key keys[] = { { .name = "alice",
                                      .sha256 = { 0xde, 0xad, 0xbe, 0xef },
                                      .models = models,
                                      .n_models = 1,
                                      .requests_per_minute = 60,
                                      .salt = "pepper" } };
    json_t *page, *entry;

    f->models[0].worker = worker;
    f->models[0].ram_bytes = UINT64_C(1) << 33;
    f->options.listen = listen;
    f->options.n_listen = 3;
    f->options.keys = keys;
    f->options.n_keys = 1;
    f->options.cors_origins = origins;
    f->options.n_cors_origins = 1;
    f->options.admin = (hth_server_address){ .host = "localhost", .port = 9090 };
    page = ask_json(f, "GET", "/admin/config", 200);

    entry = json_array_get(json_object_get(page, "models"), 0);
    assert_string_equal(json_string_value(json_object_get(entry, "name")), "chat");
    assert_int_equal(integer_at(entry, "ram", NULL), UINT64_C(1) << 33);
    assert_int_equal(json_array_size(json_object_get(entry, "worker")), 2);
    entry = json_object_get(page, "listen");
    assert_string_equal(json_string_value(json_array_get(entry, 0)), "127.0.0.1:8080");
    assert_string_equal(json_string_value(json_array_get(entry, 1)), "[::1]:8080");
    assert_string_equal(json_string_value(json_array_get(entry, 2)), "unix:/run/hearth.sock");
    assert_string_equal(json_string_value(json_object_get(page, "admin")), "localhost:9090");
    entry = json_array_get(json_object_get(page, "keys"), 0);
    assert_string_equal(json_string_value(json_object_get(entry, "name")), "alice");
    assert_int_equal(integer_at(entry, "requests_per_minute", NULL), 60);
    assert_true(json_is_true(json_object_get(entry, "has_salt")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(json_object_get(page, "cors"), "origins"), 0)),
                        "https://a.example");
    assert_int_equal(integer_at(page, "limits", "schema_bytes_max"), 256 << 10);
    assert_int_equal(integer_at(page, "supervision", "retries_max"), 3);
    assert_int_equal(integer_at(page, "streams", "keep_alive_ms"), 5000);
    assert_int_equal(integer_at(page, "streams", "linger_ms"), 60000);
    assert_string_equal(json_string_value(json_object_get(json_object_get(page, "log"), "level")), "info");
    json_decref(page);
    assert_null(strstr(f->exchange.body.text, "pepper"));
    assert_null(strstr(f->exchange.body.text, "deadbeef"));
}

/* ---- orders ---- */

FIXTURE_TEST(a_drain_is_answered_before_it_begins_and_begins_once)
{
    assert_string_equal(ask(f, "POST", "/admin/drain", 202), "{\"status\":\"draining\"}\n");
    assert_int_equal(f->n_drains, 1);
    assert_int_equal(f->n_replies_at_drain, 1);
    f->admin.is_draining = true;
    assert_string_equal(ask(f, "POST", "/admin/drain", 202), "{\"status\":\"draining\"}\n");
    assert_int_equal(f->n_drains, 1);
}

FIXTURE_TEST(a_reload_that_fails_says_why)
{
    assert_string_equal(ask(f, "POST", "/admin/reload", 200), "{\"status\":\"reloaded\"}\n");
    f->reload_fails = true;
    assert_error(f, "POST", "/admin/reload", 400, "hearth.conf:3: 'ram' is 'lots'");
    assert_int_equal(f->n_reloads, 2);
}

FIXTURE_TEST(a_worker_is_restarted_by_its_models_name)
{
    char path[700];

    assert_string_equal(ask(f, "POST", "/admin/models/chat/restart", 202), "{\"status\":\"restarting\"}\n");
    assert_string_equal(f->supervisor.restarted, "chat");
    (void)ask(f, "POST", "/admin/models/org/embed/restart", 202);
    assert_string_equal(f->supervisor.restarted, "org/embed");
    assert_error(f, "POST", "/admin/models/nobody/restart", 404, "there is no model 'nobody'");

    memset(path, 'x', sizeof(path));
    memcpy(path, "/admin/models/", 14);
    memcpy(path + sizeof(path) - 9, "/restart", 9);
    assert_error(f, "POST", path, 404, "so long a name");
}

/* Give an order with this body. */
static void order(fixture *f, const char *path, const char *body, int status)
{
    begin(f, "POST", path);
    f->exchange.request_body = body;
    assert_true(hth_admin_answer(&f->admin, &f->exchange));
    if (f->exchange.status != status)
        fail_msg("POST %s %s is %d: %s", path, body ? body : "", f->exchange.status,
                 hth_buffer_text(&f->exchange.body));
}

FIXTURE_TEST(a_model_is_named_and_forgotten_while_the_server_runs)
{
    order(f, "/admin/models", "{\"name\":\"org/new\",\"path\":\"/m/new.gguf\",\"aliases\":[\"a\"],\"ram\":1}", 201);
    assert_string_equal(f->named, "org/new={\"path\":\"/m/new.gguf\",\"aliases\":[\"a\"],\"ram\":1}");
    assert_error(f, "DELETE", "/admin/models/other", 404, "no model 'other' was named");
    assert_string_equal(ask(f, "DELETE", "/admin/models/org/new", 200), "{\"status\":\"removed\"}\n");
    assert_string_equal(f->named, "");
    order(f, "/admin/models", "{\"path\":\"/m/new.gguf\"}", 400);
    order(f, "/admin/models", "{\"name\":1,\"path\":\"/m/new.gguf\"}", 400);
    order(f, "/admin/models", "{\"name\":\"a\",\"name\":\"b\",\"path\":\"/m/new.gguf\"}", 400);
    order(f, "/admin/models", "{\"name\":\"\",\"path\":\"/m/new.gguf\"}", 400);
    order(f, "/admin/models", "[]", 400);
    f->reload_fails = true;
    order(f, "/admin/models", "{\"name\":\"new\",\"path\":\"/none\"}", 400);
    assert_error(f, "PUT", "/admin/models", 405, "takes GET, POST");
}

FIXTURE_TEST(models_are_moved_by_orders_and_conflicts_have_reasons)
{
    static const char residency[] = "/admin/models/org/embed/residency";

    order(f, residency, "{\"residency\":\"device\"}", 202);
    assert_string_equal(f->supervisor.restarted, "org/embed");
    assert_string_equal(f->supervisor.order, "device");
    order(f, residency, "{\"residency\":\"host\"}", 409);
    assert_non_null(strstr(hth_buffer_text(&f->exchange.body), "has no folder"));
    order(f, residency, "{\"residency\":\"pinned_device\"}", 409);
    order(f, residency, "{\"residency\":\"moon\"}", 400);
    order(f, residency, NULL, 400);
    order(f, "/admin/models/nobody/residency", "{\"residency\":\"device\"}", 404);

    order(f, "/admin/preload", "{\"models\":[\"chat\"]}", 202);
    assert_string_equal(f->supervisor.order, "preload");
    order(f, "/admin/preload", "{\"models\":[\"nobody\"]}", 404);
    order(f, "/admin/preload", "{\"models\":[]}", 400);
    order(f, "/admin/preload", "{\"models\":[\"chat\",1]}", 400);
    order(f, "/admin/release_all", NULL, 202);
    assert_string_equal(f->supervisor.order, "release");
    order(f, "/admin/release_all", "{\"rows\":true}", 202);
    assert_string_equal(f->supervisor.order, "release rows");
    order(f, "/admin/release_all", "{\"rows\":1}", 400);
    order(f, "/admin/compact", NULL, 503); /* the server ends */
}

FIXTURE_TEST(pressure_is_shown_and_memory_is_freed_by_order)
{
    static const char *const wrong[] = { NULL, "", "{}", "[1]", "{\"free\":0}", "{\"free\":-1}", "{\"free\":\"1G\"}" };

    assert_string_equal(ask(f, "GET", "/admin/pressure", 200),
                        "{\"sources\":{\"system\":{\"pressed\":false}},\"settings\":{\"off\":false,\"high_percent\":95,"
                        "\"low_percent\":90,\"stall_percent\":20,\"min_evict_bytes\":67108864,\"poll_ms\":1000},"
                        "\"ordered\":[]}\n");
    begin(f, "POST", "/admin/pressure");
    f->exchange.request_body = "{\"free\":1000}";
    assert_true(hth_admin_answer(&f->admin, &f->exchange));
    assert_int_equal(f->exchange.status, 202);
    assert_non_null(strstr(hth_buffer_text(&f->exchange.body), "\"freeing\":500"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        begin(f, "POST", "/admin/pressure");
        f->exchange.request_body = wrong[i];
        assert_true(hth_admin_answer(&f->admin, &f->exchange));
        assert_int_equal(f->exchange.status, 400);
    }
    assert_int_equal(f->pressure.forced_bytes, 1000);
}

FIXTURE_TEST(marks_of_pressure_are_set_by_order_and_a_wrong_order_changes_nothing)
{
    static const char path[] = "/admin/pressure";

    order(f, path, "{\"high_percent\":80}", 200);
    assert_non_null(strstr(hth_buffer_text(&f->exchange.body), "\"high_percent\":80,"));
    assert_non_null(strstr(hth_buffer_text(&f->exchange.body), "\"ordered\":[\"high_percent\"]"));
    assert_null(strstr(hth_buffer_text(&f->exchange.body), "freeing"));
    assert_int_equal(f->pressure.forced_bytes, 0);
    order(f, path, "{\"high_percent\":70,\"free\":1000}", 202);
    assert_non_null(strstr(hth_buffer_text(&f->exchange.body), "\"high_percent\":70,"));
    assert_non_null(strstr(hth_buffer_text(&f->exchange.body), "\"freeing\":500"));
    assert_int_equal(f->pressure.forced_bytes, 1000);

    order(f, path, "{\"command\":\"true\",\"free\":1000}", 400);
    assert_non_null(strstr(hth_buffer_text(&f->exchange.body), "is no setting"));
    order(f, path, "{\"high_percent\":60,\"free\":0}", 400);
    assert_int_equal(f->pressure.settings.marks.high_percent, 70);
    assert_int_equal(f->pressure.forced_bytes, 1000);
}

FIXTURE_TEST(listening_to_events_is_limited_and_asking_for_the_head_alone_is_no_listening)
{
    f->feed.n_listeners_max = 1;
    assert_string_equal(ask(f, "HEAD", "/admin/events", 200), "");
    assert_int_equal(f->feed.n_listeners, 0);
    (void)ask(f, "GET", "/admin/events", 200);
    assert_int_equal(f->feed.n_listeners, 1);
    assert_error(f, "GET", "/admin/events", 503, "too many listen");
}

FIXTURE_TEST(a_page_asked_for_in_the_wrong_way_says_which_is_right)
{
    static const struct {
        const char *method, *path, *allowed;
    } cases[] = {
        { "POST", "/health", "Allow: GET, HEAD\n" },
        { "DELETE", "/ready", "Allow: GET, HEAD\n" },
        { "POST", "/metrics", "Allow: GET, HEAD\n" },
        { "PUT", "/admin/models", "Allow: GET, POST\n" },
        { "PUT", "/admin/pressure", "Allow: GET, POST\n" },
        { "POST", "/admin/config", "Allow: GET, HEAD\n" },
        { "POST", "/admin/events", "Allow: GET, HEAD\n" },
        { "GET", "/admin/drain", "Allow: POST\n" },
        { "GET", "/admin/models/chat/restart", "Allow: POST\n" },
        { "HEAD", "/admin/reload", "Allow: POST\n" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_error(f, cases[i].method, cases[i].path, 405, cases[i].path);
        assert_string_equal(f->exchange.headers, cases[i].allowed);
    }
    assert_int_equal(f->n_drains + f->n_reloads, 0);
    assert_string_equal(f->supervisor.restarted, "");
}

FIXTURE_TEST(what_is_no_page_is_left_to_the_caller)
{
    static const char *const paths[] = { "/",
                                         "/healthy",
                                         "/admin",
                                         "/admin/",
                                         "/admin/explain",
                                         "/admin/models/",
                                         "/admin/models/restart",
                                         "/admin/models//restart",
                                         "/admin/models/chat",
                                         "/metrics/" };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        begin(f, "GET", paths[i]);
        assert_false(hth_admin_answer_public(&f->admin, &f->exchange));
        assert_false(hth_admin_answer(&f->admin, &f->exchange));
        assert_int_equal(f->exchange.n_replies, 0);
    }
    begin(f, "GET", "/metrics"); /* not everybody's */
    assert_false(hth_admin_answer_public(&f->admin, &f->exchange));
}
