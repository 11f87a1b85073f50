/*
 * metrics_test.c - what is counted is on the page, the page is what Prometheus reads, and the manual lists all of it
 */
#include <event2/event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/credit.h"
#include "fleet/journals.h"
#include "fleet/nodes.h"
#include "fleet/roster.h"
#include "front/ask_counts.h"
#include "front/metrics.h"
#include "supervisor/pressure_watch.h"
#include "support/cmocka_all.h"
#include "support/exposition.h"
#include "support/fake_supervisor.h"
#include "support/support.h"

typedef struct fixture {
    hth_metrics *metrics;
    hth_supervisor supervisor;
    hth_http_numbers http;
    hth_buffer page;
} fixture;

static const hth_server_model models[] = { { .name = "chat" }, { .name = "embed" } };

static void set_up(fixture *f)
{
    hth_server_options options = hth_server_options_default();

    f->metrics = hth_metrics_new();
    assert_non_null(f->metrics);
    options.models = models;
    options.n_models = 2;
    hth_metrics_models_set(f->metrics, &options);
}

static void tear_down(fixture *f)
{
    hth_metrics_free(f->metrics);
    hth_buffer_deinit(&f->page);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* Write the page, which has to be well-formed. */
static const char *page(fixture *f)
{
    char problem[512];

    hth_buffer_clear(&f->page);
    hth_metrics_write(f->metrics, &f->supervisor, &f->http, &f->page);
    assert_false(f->page.failed);
    if (!hth_test_exposition_is_good(f->page.text, problem, sizeof(problem)))
        fail_msg("%s\n%s", problem, f->page.text);
    return f->page.text;
}

static void assert_sample(fixture *f, const char *sample, double value)
{
    double found = hth_test_exposition_value(page(f), sample);

    if (fabs(found - value) > 1e-9 * fabs(value))
        fail_msg("%s is %g, not %g\n%s", sample, found, value, f->page.text);
}

static hth_access_record record_of(const char *endpoint, const char *model, int status)
{
    return (hth_access_record){
        .endpoint = endpoint, .model = model, .status = status, .path = endpoint, .method = "POST"
    };
}

static hth_access_record chat_record(void)
{
    hth_access_record record = record_of("/v1/chat/completions", "chat", 200);

    record.has_summary = true;
    record.duration_ms = 300;
    record.summary = (hth_frame_summary){
        .status = 200,
        .figures.n_prompt_tokens = 1024,
        .figures.n_cached_tokens = 768,
        .figures.n_reply_tokens = 64,
        .figures.hit = HEARTH_HIT_PREFIX,
        .figures.tier = HEARTH_TIER_DISK,
        .figures.miss = HEARTH_MISS_EVICTED,
        .figures.queue_ms = 2,
        .figures.ttft_ms = 20,
    };
    return record;
}

static hth_worker_view worker_view(const char *model, hth_worker_state state)
{
    hth_worker_view view = { .model = model, .state = state, .pid = 4711, .generation = 3, .n_starts = 3 };

    view.n_deaths = 2;
    view.n_hangs = 1;
    view.resident_bytes = 123456789;
    view.n_waiters = 5;
    view.status.has_numbers = true;
    view.status.info.n_running = 7;
    view.status.info.n_ctx = 8192;
    view.status.info.n_ticks = 99;
    view.status.counters.rows_restored = 11;
    view.status.counters.disk_bytes = UINT64_C(1) << 40;
    view.status.counters.saves_by_reason[HEARTH_SAVE_FINISH] = 13;
    view.status.quotas.ram = 17;
    return view;
}

/* ---- the page ---- */

FIXTURE_TEST(a_page_before_the_first_request_is_well_formed_and_shows_every_model)
{
    hth_buffer empty = { .text = NULL };
    hth_metrics *metrics = hth_metrics_new();
    char problem[512];

    assert_sample(f, "hearth_prompt_tokens_total{model=\"chat\"}", 0);
    assert_sample(f, "hearth_time_to_first_token_seconds_count{model=\"embed\"}", 0);
    assert_sample(f, "hearth_prompt_tokens_total{model=\"other\"}", -1);
    assert_non_null(metrics);
    hth_metrics_write(metrics, NULL, NULL, &empty);
    assert_true(hth_test_exposition_is_good(hth_buffer_text(&empty), problem, sizeof(problem)));
    hth_buffer_deinit(&empty);
    hth_metrics_free(metrics);
}

FIXTURE_TEST(a_request_counts_by_endpoint_model_and_status)
{
    hth_access_record record = chat_record(), gone = record_of("/v1/chat/completions", "chat", 499);
    hth_access_record health = record_of("/health", "", 200);

    hth_metrics_note(f->metrics, &record);
    hth_metrics_note(f->metrics, &record);
    hth_metrics_note(f->metrics, &gone);
    hth_metrics_note(f->metrics, &health);
    assert_sample(f, "hearth_requests_total{endpoint=\"/v1/chat/completions\",model=\"chat\",status=\"200\"}", 2);
    assert_sample(f, "hearth_requests_total{endpoint=\"/v1/chat/completions\",model=\"chat\",status=\"499\"}", 1);
    assert_sample(f, "hearth_requests_total{endpoint=\"/health\",model=\"\",status=\"200\"}", 1);
    assert_sample(f, "hearth_request_duration_seconds_count{endpoint=\"/v1/chat/completions\",model=\"chat\"}", 3);
    assert_sample(f, "hearth_request_duration_seconds_sum{endpoint=\"/v1/chat/completions\",model=\"chat\"}", 0.6);
}

FIXTURE_TEST(what_a_model_did_counts_by_tokens_hits_and_misses)
{
    hth_access_record record = chat_record();

    hth_metrics_note(f->metrics, &record);
    record.summary.figures.hit = HEARTH_HIT_EXACT;
    record.summary.figures.tier = HEARTH_TIER_RAM;
    record.summary.figures.miss = HEARTH_MISS_NONE;
    record.summary.figures.n_cached_tokens = 1024;
    hth_metrics_note(f->metrics, &record);
    assert_sample(f, "hearth_prompt_tokens_total{model=\"chat\"}", 2048);
    assert_sample(f, "hearth_cached_prompt_tokens_total{model=\"chat\"}", 1792);
    assert_sample(f, "hearth_generated_tokens_total{model=\"chat\"}", 128);
    assert_sample(f, "hearth_request_hits_total{model=\"chat\",hit=\"prefix\",tier=\"disk\"}", 1);
    assert_sample(f, "hearth_request_hits_total{model=\"chat\",hit=\"exact\",tier=\"ram\"}", 1);
    assert_sample(f, "hearth_request_misses_total{model=\"chat\",reason=\"evicted\"}", 1);
    assert_sample(f, "hearth_request_misses_total{model=\"chat\",reason=\"none\"}", -1);
    assert_sample(f, "hearth_queue_time_seconds_sum{model=\"chat\"}", 0.004);
    assert_sample(f, "hearth_queue_time_seconds_bucket{model=\"chat\",le=\"0.001\"}", 0);
    assert_sample(f, "hearth_queue_time_seconds_bucket{model=\"chat\",le=\"0.005\"}", 2);
}

FIXTURE_TEST(the_first_token_of_a_stream_is_late_when_its_worker_was_waited_for)
{
    hth_access_record record = chat_record();

    record.is_stream = true;
    record.first_byte_ms = 5000; /* the worker started meanwhile */
    hth_metrics_note(f->metrics, &record);
    assert_sample(f, "hearth_time_to_first_token_seconds_sum{model=\"chat\"}", 5);

    record.first_byte_ms = 30; /* then the worker died, and the next one had its first token 90 ms after being asked */
    record.n_resumed = 1;
    record.summary.figures.ttft_ms = 90;
    hth_metrics_note(f->metrics, &record);
    assert_sample(f, "hearth_time_to_first_token_seconds_sum{model=\"chat\"}", 5.03);
    assert_sample(f, "hearth_resumed_requests_total{model=\"chat\"}", 1);

    record = chat_record(); /* the first byte of a reply that is no stream is its last token's */
    record.first_byte_ms = 280;
    hth_metrics_note(f->metrics, &record);
    assert_sample(f, "hearth_time_to_first_token_seconds_sum{model=\"chat\"}", 5.05);
    record.summary.figures.ttft_ms = 0; /* there was no token */
    hth_metrics_note(f->metrics, &record);
    assert_sample(f, "hearth_time_to_first_token_seconds_count{model=\"chat\"}", 3);
}

FIXTURE_TEST(several_tokens_that_come_together_share_their_time)
{
    hth_metrics_note_tokens(f->metrics, "chat", 40, 4);
    hth_metrics_note_tokens(f->metrics, "chat", 40, 1);
    hth_metrics_note_tokens(f->metrics, "chat", 40, 0);
    assert_sample(f, "hearth_inter_token_latency_seconds_bucket{model=\"chat\",le=\"0.01\"}", 4);
    assert_sample(f, "hearth_inter_token_latency_seconds_bucket{model=\"chat\",le=\"0.03\"}", 4);
    assert_sample(f, "hearth_inter_token_latency_seconds_count{model=\"chat\"}", 5);
    assert_sample(f, "hearth_inter_token_latency_seconds_sum{model=\"chat\"}", 0.08);
}

FIXTURE_TEST(a_value_at_a_bound_is_in_the_bucket_below_and_one_above_all_in_the_last)
{
    hth_access_record record = record_of("/tokenize", "chat", 200);

    record.duration_ms = 5;
    hth_metrics_note(f->metrics, &record);
    record.duration_ms = 1e9;
    hth_metrics_note(f->metrics, &record);
    assert_sample(f, "hearth_request_duration_seconds_bucket{endpoint=\"/tokenize\",model=\"chat\",le=\"0.005\"}", 1);
    assert_sample(f, "hearth_request_duration_seconds_bucket{endpoint=\"/tokenize\",model=\"chat\",le=\"600\"}", 1);
    assert_sample(f, "hearth_request_duration_seconds_bucket{endpoint=\"/tokenize\",model=\"chat\",le=\"+Inf\"}", 2);
}

FIXTURE_TEST(connections_and_requests_in_flight_are_those_of_the_http_server)
{
    f->http =
        (hth_http_numbers){ .n_connections = 4, .n_exchanges = 3, .n_accepted = 9, .n_refused = 2, .n_timed_out = 1 };
    assert_sample(f, "hearth_requests_in_flight", 3);
    assert_sample(f, "hearth_http_connections", 4);
    assert_sample(f, "hearth_http_connections_accepted_total", 9);
    assert_sample(f, "hearth_http_connections_refused_total", 2);
    assert_sample(f, "hearth_http_timeouts_total", 1);
}

FIXTURE_TEST(workers_show_their_state_and_their_numbers)
{
    f->supervisor.views[0] = worker_view("chat", HTH_WORKER_READY);
    f->supervisor.views[1] = (hth_worker_view){ .model = "embed", .state = HTH_WORKER_BROKEN, .n_starts = 9 };
    f->supervisor.n = 2;
    assert_sample(f, "hearth_worker_up{model=\"chat\"}", 1);
    assert_sample(f, "hearth_worker_up{model=\"embed\"}", 0);
    assert_sample(f, "hearth_worker_state{model=\"embed\",state=\"broken\"}", 1);
    assert_sample(f, "hearth_worker_state{model=\"embed\",state=\"ready\"}", 0);
    assert_sample(f, "hearth_worker_starts_total{model=\"embed\"}", 9);
    assert_sample(f, "hearth_worker_deaths_total{model=\"chat\"}", 2);
    assert_sample(f, "hearth_worker_hangs_total{model=\"chat\"}", 1);
    assert_sample(f, "hearth_worker_waiting_requests{model=\"chat\"}", 5);
    assert_sample(f, "hearth_worker_resident_memory_bytes{model=\"chat\"}", 123456789);
    assert_sample(f, "hearth_scheduler_running{model=\"chat\"}", 7);
    assert_sample(f, "hearth_scheduler_cells{model=\"chat\"}", 8192);
    assert_sample(f, "hearth_scheduler_evaluations_total{model=\"chat\"}", 99);
    assert_sample(f, "hearth_cache_rows_restored_total{model=\"chat\"}", 11);
    assert_sample(f, "hearth_cache_bytes{model=\"chat\",tier=\"disk\"}", (double)(UINT64_C(1) << 40));
    assert_sample(f, "hearth_cache_rows{model=\"chat\",tier=\"ram_file\"}", 0);
    assert_sample(f, "hearth_cache_bytes_max{model=\"chat\",tier=\"ram\"}", 17);
    /* Without a process there are none, rather than zeros. */
    assert_sample(f, "hearth_scheduler_running{model=\"embed\"}", -1);
    assert_sample(f, "hearth_cache_rows{model=\"embed\",tier=\"ram\"}", -1);
}

FIXTURE_TEST(rows_saved_count_by_the_reasons_of_the_library)
{
    char sample[128];

    f->supervisor.views[0] = worker_view("chat", HTH_WORKER_READY);
    f->supervisor.n = 1;
    for (unsigned i = 0; i <= HEARTH_SAVE_FINISH; i++)
        f->supervisor.views[0].status.counters.saves_by_reason[i] = 100 + i;
    for (unsigned i = 0; i <= HEARTH_SAVE_FINISH; i++) {
        (void)snprintf(sample, sizeof(sample), "hearth_cache_rows_saved_total{model=\"chat\",reason=\"%s\"}",
                       hearth_save_reason_name((hearth_save_reason)i));
        assert_sample(f, sample, 100 + i);
    }
}

FIXTURE_TEST(the_front_tells_of_itself)
{
    char build[64];

    (void)snprintf(build, sizeof(build), "hearth_build_info{version=\"%s\"}", hearth_version());
    assert_sample(f, build, 1);
    assert_true(hth_test_exposition_value(page(f), "process_cpu_seconds_total") > 0);
    assert_true(hth_test_exposition_value(f->page.text, "process_resident_memory_bytes") > 100000);
    assert_true(hth_test_exposition_value(f->page.text, "process_open_fds") >= 3);
    assert_true(hth_test_exposition_value(f->page.text, "process_max_fds") >= 3);
    assert_true(hth_test_exposition_value(f->page.text, "process_start_time_seconds") > 1.6e9);
}

/* ---- bounds ---- */

FIXTURE_TEST(a_model_that_is_not_configured_is_another_one)
{
    hth_access_record record = chat_record();

    for (int i = 0; i < 100; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "guess-%d", i);
        record.model = name;
        hth_metrics_note(f->metrics, &record);
        hth_metrics_note_tokens(f->metrics, name, 10, 1);
    }
    assert_sample(f, "hearth_requests_total{endpoint=\"/v1/chat/completions\",model=\"other\",status=\"200\"}", 100);
    assert_sample(f, "hearth_inter_token_latency_seconds_count{model=\"other\"}", 100);
    assert_null(strstr(f->page.text, "guess"));
}

FIXTURE_TEST(a_model_that_went_from_the_configuration_keeps_what_was_counted)
{
    const hth_server_model fewer[] = { { .name = "embed" }, { .name = "other" }, { .name = "new" } };
    hth_server_options options = hth_server_options_default();
    hth_access_record record = chat_record();

    hth_metrics_note(f->metrics, &record);
    options.models = fewer;
    options.n_models = 3;
    hth_metrics_models_set(f->metrics, &options);
    hth_metrics_models_set(f->metrics, &options);
    assert_sample(f, "hearth_prompt_tokens_total{model=\"chat\"}", 1024);
    assert_sample(f, "hearth_prompt_tokens_total{model=\"new\"}", 0);
    assert_sample(f, "hearth_prompt_tokens_total{model=\"other\"}", 0);
}

FIXTURE_TEST(names_of_models_are_escaped)
{
    const hth_server_model odd[] = { { .name = "a\"b\\c\nd\xc3\xa9" } };
    hth_server_options options = hth_server_options_default();
    hth_access_record record = chat_record();

    options.models = odd;
    options.n_models = 1;
    hth_metrics_models_set(f->metrics, &options);
    record.model = odd[0].name;
    hth_metrics_note(f->metrics, &record);
    assert_sample(f, "hearth_generated_tokens_total{model=\"a\\\"b\\\\c\\nd\xc3\xa9\"}", 64);
}

FIXTURE_TEST(endpoints_reasons_and_statuses_beyond_a_bound_are_others)
{
    hth_access_record record = record_of("other", "chat", 404);
    char name[128];

    hth_metrics_note(f->metrics, &record);
    hth_metrics_note_refused(f->metrics, "other");
    record = record_of("/props", "chat", 200);
    for (int status = -5; status < 700; status++) {
        record.status = status;
        hth_metrics_note(f->metrics, &record);
    }
    assert_sample(f, "hearth_requests_total{endpoint=\"/props\",model=\"chat\",status=\"100\"}", 1);
    assert_sample(f, "hearth_requests_total{endpoint=\"/props\",model=\"chat\",status=\"other\"}", 705 - 23);

    record.status = 404;
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof(name), "/endpoint/%03d/%070d", i, i);
        record.endpoint = name;
        hth_metrics_note(f->metrics, &record);
        hth_metrics_note_refused(f->metrics, name);
    }
    assert_sample(f, "hearth_requests_total{endpoint=\"other\",model=\"chat\",status=\"404\"}", 1 + 200 - 62);
    assert_sample(f, "hearth_requests_refused_total{reason=\"other\"}", 1 + 200 - 31);
}

FIXTURE_TEST(nonsense_from_a_worker_is_bounded)
{
    hth_access_record record = chat_record();

    record.summary.figures.hit = record.summary.figures.tier = record.summary.figures.miss = 77777;
    record.summary.figures.queue_ms = (double)NAN;
    record.summary.figures.ttft_ms = (double)INFINITY;
    record.duration_ms = -3;
    hth_metrics_note(f->metrics, &record);
    hth_metrics_note_tokens(f->metrics, "chat", -1, 3);
    assert_sample(f, "hearth_request_hits_total{model=\"chat\",hit=\"none\",tier=\"none\"}", 1);
    assert_sample(f, "hearth_queue_time_seconds_sum{model=\"chat\"}", 0);
    assert_sample(f, "hearth_time_to_first_token_seconds_sum{model=\"chat\"}", 0);
    assert_sample(f, "hearth_inter_token_latency_seconds_count{model=\"chat\"}", 3);
}

/* ---- the checker, and the manual ---- */

TEST(the_checker_finds_what_is_wrong)
{
    static const char *const texts[] = {
        "a 1\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total 1",
        "# HELP a_total h\n# TYPE a_total counter\na_total -1\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total x\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total{x=\"\\q\"} 1\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total{x=\"1\",x=\"2\"} 1\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total{x=\"1\"} 1\na_total{x=\"1\"} 2\n",
        "# HELP a_total h\n# TYPE a_total counter\na_total{x=\"\xff\"} 1\n",
        "# HELP a_total h\n# TYPE a_total counter\nb_total 1\n",
        "# HELP a_total h\n# TYPE a_total counter\n# HELP a_total h\n# TYPE a_total counter\n",
        "# HELP a h\n# TYPE a counter\na 1\n",
        "# HELP a_total h\n# TYPE a_total gauge\na_total 1\n",
        "# HELP a h\n# TYPE a_total counter\n",
        "# TYPE a gauge\na 1\n",
        "# HELP a h\n# TYPE a thing\na 1\n",
        "# HELP a h\na 1\n",
        "# HELP h h\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
        "# HELP h h\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
        "# HELP h h\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 1\n",
        "# HELP h h\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_count 2\n",
        "# HELP h h\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 2\n",
        "# HELP h h\n# TYPE h histogram\nh_bucket{a=\"1\",le=\"+Inf\"} 2\nh_sum{a=\"2\"} 2\nh_count{a=\"2\"} 2\n",
    };
    char problem[512];

    assert_true(hth_test_exposition_is_good("# HELP h h\n# TYPE h histogram\nh_bucket{a=\"1\",le=\"0.5\"} 1\n"
                                            "h_bucket{a=\"1\",le=\"+Inf\"} 2\nh_sum{a=\"1\"} 2\nh_count{a=\"1\"} 2\n"
                                            "# HELP b_total h\n# TYPE b_total counter\nb_total{x=\"\\\"\"} 1\n",
                                            problem, sizeof(problem)));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (hth_test_exposition_is_good(texts[i], problem, sizeof(problem)))
            fail_msg("taken: %s", texts[i]);
}

/* Names of the labels of a family's first sample, as the manual has them: "`a`, `b`"; "" without. */
static void labels_of(const char *text, const char *name, char *out, size_t capacity)
{
    char line[256];
    const char *sample;

    (void)snprintf(line, sizeof(line), "# TYPE %s ", name);
    sample = strstr(text, line);
    assert_non_null(sample);
    sample = strchr(sample, '\n') + 1;
    (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(sample, "\n"), sample);
    if (*sample == '#')
        fail_msg("%s has no sample; let this test make one", name);
    *out = '\0';
    for (char *at = strpbrk(line, "{ "); *at == '{' || *at == ','; at = strstr(at, "\"") + 1) {
        char *equals = strchr(at, '=');

        *equals = '\0';
        if (strcmp(at + 1, "le") != 0)
            (void)snprintf(out + strlen(out), capacity - strlen(out), "%s`%s`", *out ? ", " : "", at + 1);
        at = strchr(equals + 1, '"') + 1;
    }
}

typedef struct manual {
    const char *text;
    const char *page;
    size_t n;
} manual;

static void check_family(const char *name, const char *type, void *user_data)
{
    manual *m = user_data;
    char labels[256], row[512];

    labels_of(m->page, name, labels, sizeof(labels));
    (void)snprintf(row, sizeof(row), "\n| `%s` | %s | %s%s| ", name, type, labels, *labels ? " " : "");
    if (!strstr(m->text, row))
        fail_msg("docs/monitoring.md has no line beginning with:%s", row);
    m->n++;
}

/* A file of the source tree, terminated; the caller releases it. */
static char *read_source(const char *path)
{
    enum { BYTES_MAX = 1 << 17 };
    char whole[1024], *text = calloc(1, BYTES_MAX);
    FILE *file;

    (void)snprintf(whole, sizeof(whole), "%s/%s", HTH_TEST_SOURCE_DIR, path);
    file = fopen(whole, "r");
    assert_non_null(file);
    assert_in_range(fread(text, 1, BYTES_MAX - 1, file), 1, BYTES_MAX - 2);
    (void)fclose(file); /* only read from */
    return text;
}

/* Append the metrics that a watch of memory has, before its first look. */
static void add_pressure(fixture *f)
{
    const hth_server_options options = hth_server_options_default();
    const hth_pressure_orders orders = { .relieve = NULL };
    struct event_base *base = event_base_new();
    hth_pressure_watch *watch = NULL;
    hearth_error err;

    assert_non_null(base);
    assert_ok(hth_pressure_watch_new(base, "hearth", &options, &orders, NULL, NULL, &watch, &err), err);
    hth_pressure_watch_write_metrics(watch, &f->page);
    hth_pressure_watch_free(watch);
    event_base_free(base);
}

static void ignore_look(hth_node *node, bool is_new, void *user_data)
{
    (void)node;
    (void)is_new;
    (void)user_data;
}

/* Likewise those of a fleet with another node and a store. */
static void add_nodes(fixture *f)
{
    static const char *const addresses[] = { "127.0.0.1:1" }, *const none[] = { NULL };
    struct event_base *base = event_base_new();
    hth_nodes *nodes = NULL;
    hth_store *store = NULL;
    hth_roster *roster = NULL;
    hth_credit *credit = NULL;
    hth_carrier_link *carrier = NULL;
    hth_journals *journals = NULL;
    const uint64_t n_asks[HTH_ASK_ENDS] = { 0 };
    hearth_error err;

    assert_non_null(base);
    assert_ok(
        hth_nodes_new(
            &(hth_nodes_options){
                .base = base, .addresses = addresses, .n = 1, .name = "here", .epoch = "e", .on_look = ignore_look },
            &nodes, &err),
        err);
    assert_ok(hth_store_new(&(hth_store_options){ .base = base, .url = "redis://127.0.0.1:1" }, &store, &err), err);
    assert_ok(hth_roster_new(&(hth_roster_options){ .base = base, .store = store, .nodes = nodes }, &roster, &err),
              err);
    assert_ok(hth_credit_new(1, &credit, &err), err);
    assert_ok(hth_carrier_link_new(&(hth_carrier_link_options){ .base = base, .program = "/none", .arguments = none },
                                   &carrier, &err),
              err);
    assert_ok(hth_journals_new(
                  &(hth_journals_options){ .base = base, .store = store, .fleet = "0", .name = "here", .epoch = "e" },
                  &journals, &err),
              err);
    hth_nodes_write_metrics(nodes, &f->page);
    hth_roster_write_metrics(roster, &f->page);
    hth_credit_write_metrics(credit, &f->page);
    hth_carrier_link_write_metrics(carrier, &f->page);
    hth_journals_write_metrics(journals, &f->page);
    hth_ask_counts_write_metrics(n_asks, &f->page);
    hth_journals_free(journals);
    hth_carrier_link_free(carrier);
    hth_credit_free(credit);
    hth_roster_free(roster);
    hth_store_free(store);
    hth_nodes_free(nodes);
    event_base_free(base);
}

FIXTURE_TEST(the_manual_lists_every_metric_and_no_other)
{
    hth_access_record record = chat_record();
    char *text = read_source("docs/monitoring.md");
    manual m = { .text = text };
    size_t n_rows = 0;

    hth_metrics_note(f->metrics, &record);
    hth_metrics_note_refused(f->metrics, "unauthorized");
    f->supervisor.views[0] = worker_view("chat", HTH_WORKER_READY);
    f->supervisor.n = 1;
    (void)page(f);
    add_pressure(f);
    add_nodes(f);
    m.page = hth_buffer_text(&f->page);
    hth_test_exposition_families(m.page, check_family, &m);
    for (const char *at = text; (at = strstr(at, "\n| `")) != NULL; at++)
        n_rows += strncmp(at + 4, "hearth_", 7) == 0 || strncmp(at + 4, "process_", 8) == 0;
    assert_int_equal(n_rows, m.n);
    free(text);
}

/* Is there a family of that name, or of it without what a histogram adds? */
static bool is_family(const char *text, const char *name)
{
    static const char *const suffixes[] = { "", "_bucket", "_sum", "_count" };
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        size_t n_suffix = strlen(suffixes[i]);
        char line[256];

        if (n <= n_suffix || strcmp(name + n - n_suffix, suffixes[i]) != 0)
            continue;
        (void)snprintf(line, sizeof(line), "# TYPE %.*s %s", (int)(n - n_suffix), name, i > 0 ? "histogram\n" : "");
        if (strstr(text, line))
            return true;
    }
    return false;
}

FIXTURE_TEST(alerts_and_dashboard_ask_for_metrics_that_exist)
{
    static const char *const paths[] = { "packaging/prometheus-alerts.yml", "packaging/grafana-dashboard.json" };
    static const char name_characters[] = "abcdefghijklmnopqrstuvwxyz_";

    (void)page(f);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char *text = read_source(paths[i]);
        size_t n_found = 0;

        for (const char *at = text; (at = strpbrk(at, name_characters)) != NULL; n_found++) {
            char name[128];

            (void)snprintf(name, sizeof(name), "%.*s", (int)strspn(at, name_characters), at);
            at += strspn(at, name_characters);
            if ((strncmp(name, "hearth_", 7) == 0 || strncmp(name, "process_", 8) == 0) &&
                !is_family(f->page.text, name))
                fail_msg("%s asks for %s, which is none", paths[i], name);
        }
        assert_true(n_found > 10);
        free(text);
    }
}
