/*
 * metrics.c - counting, and the page that Prometheus reads
 *
 * Every metric is a number in a struct, found by a short search: a token of a stream costs the hash of a name and two
 * additions. Labels are bounded whatever the callers pass: models by the configuration; endpoints, reasons and
 * statuses by the size of their tables, with "other" for the rest. Without memory, something is not counted, with no
 * other effect.
 *
 * The samples of a family on the page are adjacent. A worker's view is large and costs system calls, so each is read
 * once: its numbers are copied into a table with a row for each worker, and the families are written from the table.
 */
#include "front/metrics.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Without memory for its table, an addition to a hash fails and the item is not in it. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/os.h"
#include "wire/exposition.h"

enum {
    ENDPOINTS_MAX = 64,
    REASONS_MAX = 32,
    STATUSES_MAX = 24,
    TEXT_BYTES = 64, /* of an endpoint or a reason */
    HITS = HEARTH_HIT_PREFIX + 1,
    TIERS = HEARTH_TIER_REMOTE + 1,
    MISSES = HEARTH_MISS_NO_LOGITS + 1,
};

/* A bounded set of texts. The first one is "other", for all that found no room. */
typedef struct metrics_texts {
    char texts[ENDPOINTS_MAX][TEXT_BYTES];
    size_t n;
} metrics_texts;
static_assert(REASONS_MAX <= (int)ENDPOINTS_MAX, "both are texts");

/* Requests to one endpoint for one model. */
typedef struct metrics_series {
    struct {
        int status; /* the first entry is 0, for statuses that found no room */
        uint64_t n;
    } statuses[STATUSES_MAX];
    size_t n_statuses;
    hth_observations duration;
} metrics_series;

/* The counters of a model: a row is its field and its family on the page. */
/* clang-format off */
#define COUNTERS_EACH(ROW)                                                                                             \
    ROW(n_prompt_tokens, "hearth_prompt_tokens_total", "Tokens of prompts, those from the cache included.")            \
    ROW(n_cached_tokens, "hearth_cached_prompt_tokens_total", "Tokens of prompts that needed no prefill.")             \
    ROW(n_reply_tokens, "hearth_generated_tokens_total", "Tokens of replies.")                                         \
    ROW(n_draft_tokens, "hearth_draft_tokens_total", "Guessed tokens that were evaluated.")                            \
    ROW(n_draft_accepted_tokens, "hearth_draft_accepted_tokens_total", "Guessed tokens that are in replies.")          \
    ROW(n_resumed, "hearth_resumed_requests_total",                                                                    \
        "Requests that went on in a new worker after theirs had died.")                                                \
    ROW(n_passed_over, "hearth_passed_over_requests_total",                                                            \
        "Requests with fields or parts that had no effect here.")
/* clang-format on */
#define COUNTER_FIELD(field, name, help) uint64_t field;

typedef struct metrics_model {
    UT_hash_handle hh;
    bool is_shown;                         /* it is or was configured, or it has a count */
    metrics_series *series[ENDPOINTS_MAX]; /* NULL: no request yet */
    COUNTERS_EACH(COUNTER_FIELD)
    uint64_t hits[HITS][TIERS];
    uint64_t misses[MISSES];
    hth_observations first_token;
    hth_observations token;
    hth_observations queue;
    char name[];
} metrics_model;

struct hth_metrics {
    metrics_model *models; /* by name; "" and "other" are always there */
    metrics_texts endpoints;
    metrics_texts reasons;
    uint64_t refused[REASONS_MAX];
    uint64_t started_s;
};

#define OTHER "other"

static const hth_scale duration_scale = {
    16, { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600 }
};
/* From a few milliseconds of a restored prompt to the prefill of a long one. */
static const hth_scale first_token_scale = {
    16, { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120 }
};
static const hth_scale token_scale = {
    15, { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2.5 }
};
static const hth_scale queue_scale = { 14,
                                       { 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60 } };

/* ---- labels ---- */

/* The index of a text; 0, "other", if its table is full. */
static size_t text_number(metrics_texts *texts, size_t capacity, const char *text)
{
    for (size_t i = 0; i < texts->n; i++)
        if (strncmp(texts->texts[i], text, TEXT_BYTES - 1) == 0)
            return i;
    if (texts->n == capacity)
        return 0;
    memcpy(texts->texts[texts->n], text, strnlen(text, TEXT_BYTES - 1)); /* zeros follow */
    return texts->n++;
}

static metrics_model *model_find(const hth_metrics *metrics, const char *name)
{
    metrics_model *model;

    HASH_FIND_STR(metrics->models, name, model);
    return model;
}

static int by_name(const metrics_model *a, const metrics_model *b)
{
    return strcmp(a->name, b->name);
}

static void model_free(metrics_model *model)
{
    for (size_t i = 0; i < ENDPOINTS_MAX; i++)
        free(model->series[i]);
    free(model);
}

/* NULL without memory. */
static metrics_model *model_add(hth_metrics *metrics, const char *name)
{
    const size_t n = strlen(name);
    metrics_model *model = model_find(metrics, name);

    if (model)
        return model;
    model = calloc(1, sizeof(*model) + n + 1);
    if (!model)
        return NULL;
    memcpy(model->name, name, n);
    HASH_ADD_KEYPTR(hh, metrics->models, model->name, n, model);
    if (!model_find(metrics, name)) {
        model_free(model);
        return NULL;
    }
    HASH_SORT(metrics->models, by_name);
    return model;
}

void hth_metrics_models_set(hth_metrics *metrics, const hth_server_options *options)
{
    for (size_t i = 0; i < options->n_models && HASH_COUNT(metrics->models) < HTH_METRICS_MODELS_MAX; i++) {
        metrics_model *model = model_add(metrics, options->models[i].name);

        if (model)
            model->is_shown = true;
    }
}

/* The model to count for. */
static metrics_model *model_of(hth_metrics *metrics, const char *name)
{
    metrics_model *model = model_find(metrics, name);

    if (!model)
        model = model_find(metrics, OTHER);
    assert(model);
    model->is_shown = true;
    return model;
}

/* ---- all metrics ---- */

hth_metrics *hth_metrics_new(void)
{
    hth_metrics *metrics = calloc(1, sizeof(*metrics));

    if (!metrics)
        return NULL;
    metrics->started_s = hth_os_unix_seconds();
    (void)text_number(&metrics->endpoints, ENDPOINTS_MAX, OTHER); /* the first of each */
    (void)text_number(&metrics->reasons, REASONS_MAX, OTHER);
    if (!model_add(metrics, "") || !model_add(metrics, OTHER)) {
        hth_metrics_free(metrics);
        return NULL;
    }
    return metrics;
}

void hth_metrics_free(hth_metrics *metrics)
{
    metrics_model *model, *next;

    if (!metrics)
        return;
    HASH_ITER(hh, metrics->models, model, next)
    {
        HASH_DEL(metrics->models, model);
        model_free(model);
    }
    free(metrics);
}

/* ---- counting ---- */

static void count_status(metrics_series *series, int status)
{
    if (status < 100 || status > 599)
        status = 0;
    for (size_t i = 0; i < series->n_statuses; i++) {
        if (series->statuses[i].status == status) {
            series->statuses[i].n++;
            return;
        }
    }
    if (series->n_statuses == STATUSES_MAX) {
        series->statuses[0].n++;
        return;
    }
    series->statuses[series->n_statuses].status = status;
    series->statuses[series->n_statuses++].n = 1;
}

static void note_summary(metrics_model *model, const hth_access_record *record)
{
    const hth_frame_figures *figures = &record->summary.figures;
    uint32_t hit = figures->hit < HITS ? figures->hit : HEARTH_HIT_NONE;
    uint32_t tier = figures->tier < TIERS ? figures->tier : HEARTH_TIER_NONE;
    double first_token_ms = figures->ttft_ms;

    model->n_prompt_tokens += figures->n_prompt_tokens;
    model->n_cached_tokens += figures->n_cached_tokens;
    model->n_reply_tokens += figures->n_reply_tokens;
    model->n_draft_tokens += figures->n_draft_tokens;
    model->n_draft_accepted_tokens += figures->n_draft_accepted_tokens;
    if (figures->hit != HTH_FRAME_NO_HIT)
        model->hits[hit][tier]++;
    if (figures->miss > HEARTH_MISS_NONE && figures->miss < MISSES)
        model->misses[figures->miss]++;
    hth_observations_add(&model->queue, &queue_scale, figures->queue_ms / 1000, 1);
    /* A worker does not know the wait for its start. After a take-over, it does not know that the reply had begun. */
    if (record->is_stream && (record->n_resumed > 0 || record->first_byte_ms > first_token_ms))
        first_token_ms = record->first_byte_ms;
    if (first_token_ms > 0)
        hth_observations_add(&model->first_token, &first_token_scale, first_token_ms / 1000, 1);
}

void hth_metrics_note(hth_metrics *metrics, const hth_access_record *record)
{
    metrics_model *model = model_of(metrics, record->model);
    size_t endpoint = text_number(&metrics->endpoints, ENDPOINTS_MAX, record->endpoint);
    metrics_series *series = model->series[endpoint];

    if (!series) {
        series = model->series[endpoint] = calloc(1, sizeof(*series));
        if (series)
            series->n_statuses = 1; /* 0, for all others */
    }
    if (series) {
        count_status(series, record->status);
        hth_observations_add(&series->duration, &duration_scale, record->duration_ms / 1000, 1);
    }
    model->n_resumed += record->n_resumed > 0;
    model->n_passed_over += record->notes && record->notes[0];
    if (record->has_summary)
        note_summary(model, record);
}

void hth_metrics_note_tokens(hth_metrics *metrics, const char *model, double ms, uint32_t n_tokens)
{
    if (n_tokens > 0)
        hth_observations_add(&model_of(metrics, model)->token, &token_scale, ms / n_tokens / 1000, n_tokens);
}

void hth_metrics_note_refused(hth_metrics *metrics, const char *reason)
{
    metrics->refused[text_number(&metrics->reasons, REASONS_MAX, reason)]++;
}

/* ---- the page ---- */

static const char counter[] = "counter", gauge[] = "gauge", histogram[] = "histogram";

static const hth_labels no_labels = { .n = 0 };

/* ---- counters of the front ---- */

static void write_one(hth_buffer *out, const char *name, const char *type, const char *help, uint64_t value)
{
    hth_exposition_family(out, name, type, help);
    hth_exposition_count(out, name, no_labels, value);
}

static void write_requests(const hth_metrics *metrics, hth_buffer *out)
{
    static const char name[] = "hearth_requests_total";

    hth_exposition_family(out, name, counter,
                          "Requests that are over, by the status of the reply; 499: the client left.");
    for (const metrics_model *model = metrics->models; model; model = model->hh.next) {
        for (size_t j = 0; j < metrics->endpoints.n; j++) {
            const metrics_series *series = model->series[j];

            for (size_t k = 0; series && k < series->n_statuses; k++) {
                char status[16];
                const hth_label labels[] = { { "endpoint", metrics->endpoints.texts[j] },
                                             { "model", model->name },
                                             { "status", k > 0 ? status : "other" } };

                (void)snprintf(status, sizeof(status), "%d", series->statuses[k].status); /* fits */
                if (series->statuses[k].n > 0)
                    hth_exposition_count(out, name, (hth_labels){ labels, 3 }, series->statuses[k].n);
            }
        }
    }
}

static void write_durations(const hth_metrics *metrics, hth_buffer *out)
{
    static const char name[] = "hearth_request_duration_seconds";

    hth_exposition_family(out, name, histogram, "From the whole request to the last byte of its reply.");
    for (const metrics_model *model = metrics->models; model; model = model->hh.next) {
        for (size_t j = 0; j < metrics->endpoints.n; j++) {
            const metrics_series *series = model->series[j];
            const hth_label labels[] = { { "endpoint", metrics->endpoints.texts[j] }, { "model", model->name } };

            if (series)
                hth_exposition_histogram(out, name, (hth_labels){ labels, 2 }, &duration_scale, &series->duration);
        }
    }
}

static void write_refused(const hth_metrics *metrics, hth_buffer *out)
{
    static const char name[] = "hearth_requests_refused_total";

    hth_exposition_family(out, name, counter, "Requests that were refused before a model was asked.");
    for (size_t i = 0; i < metrics->reasons.n; i++) {
        const hth_label label = { "reason", metrics->reasons.texts[i] };

        if (i > 0 || metrics->refused[i] > 0)
            hth_exposition_count(out, name, (hth_labels){ &label, 1 }, metrics->refused[i]);
    }
}

/* Has this model generated anything? The entry for requests without a model never has. */
static bool generates(const metrics_model *model)
{
    return model->is_shown && model->name[0];
}

static void write_tokens(const hth_metrics *metrics, hth_buffer *out)
{
    static const struct {
        const char *name;
        const char *help;
        size_t offset;
    } counts[] = {
#define ROW(field, name, help) { name, help, offsetof(metrics_model, field) },
        COUNTERS_EACH(ROW)
#undef ROW
    };

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        hth_exposition_family(out, counts[i].name, counter, counts[i].help);
        for (const metrics_model *model = metrics->models; model; model = model->hh.next) {
            const hth_label label = { "model", model->name };

            if (generates(model))
                hth_exposition_count(out, counts[i].name, (hth_labels){ &label, 1 },
                                     *(const uint64_t *)((const char *)model + counts[i].offset));
        }
    }
}

static void write_hits(const hth_metrics *metrics, hth_buffer *out)
{
    static const char name[] = "hearth_request_hits_total";

    hth_exposition_family(out, name, counter,
                          "Requests by what of their prompt was known, and the slowest tier that it came from.");
    for (const metrics_model *model = metrics->models; model; model = model->hh.next) {
        for (unsigned hit = 0; hit < HITS; hit++) {
            for (unsigned tier = 0; tier < TIERS; tier++) {
                const hth_label labels[] = { { "model", model->name },
                                             { "hit", hearth_hit_name((hearth_hit)hit) },
                                             { "tier", hearth_tier_name((hearth_tier)tier) } };

                if (model->hits[hit][tier] > 0)
                    hth_exposition_count(out, name, (hth_labels){ labels, 3 }, model->hits[hit][tier]);
            }
        }
    }
}

static void write_misses(const hth_metrics *metrics, hth_buffer *out)
{
    static const char name[] = "hearth_request_misses_total";

    hth_exposition_family(out, name, counter,
                          "Requests of which a part of the prompt was computed, by why that was so.");
    for (const metrics_model *model = metrics->models; model; model = model->hh.next) {
        for (unsigned miss = 0; miss < MISSES; miss++) {
            const hth_label labels[] = { { "model", model->name }, { "reason", hearth_miss_name((hearth_miss)miss) } };

            if (model->misses[miss] > 0)
                hth_exposition_count(out, name, (hth_labels){ labels, 2 }, model->misses[miss]);
        }
    }
}

static void write_times(const hth_metrics *metrics, hth_buffer *out)
{
    static const struct {
        const char *name;
        const char *help;
        const hth_scale *scale;
        size_t offset;
    } times[] = {
        { "hearth_time_to_first_token_seconds", "From the whole request to the first token of its reply.",
          &first_token_scale, offsetof(metrics_model, first_token) },
        { "hearth_inter_token_latency_seconds", "From one token of a reply to the next, as they come from the worker.",
          &token_scale, offsetof(metrics_model, token) },
        { "hearth_queue_time_seconds", "Waiting for the model's scheduler.", &queue_scale,
          offsetof(metrics_model, queue) },
    };

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        hth_exposition_family(out, times[i].name, histogram, times[i].help);
        for (const metrics_model *model = metrics->models; model; model = model->hh.next) {
            const hth_label label = { "model", model->name };

            if (generates(model))
                hth_exposition_histogram(out, times[i].name, (hth_labels){ &label, 1 }, times[i].scale,
                                         (const hth_observations *)((const char *)model + times[i].offset));
        }
    }
}

static void write_http(const hth_http_numbers *http, hth_buffer *out)
{
    write_one(out, "hearth_requests_in_flight", gauge, "Requests that are being answered now, this one included.",
              http->n_exchanges);
    write_one(out, "hearth_http_connections", gauge, "Connections of clients.", http->n_connections);
    write_one(out, "hearth_http_connections_accepted_total", counter, "Connections accepted.", http->n_accepted);
    write_one(out, "hearth_http_connections_refused_total", counter, "Connections refused, there being too many.",
              http->n_refused);
    write_one(out, "hearth_http_timeouts_total", counter,
              "Connections closed because a request or the taking of a reply took too long.", http->n_timed_out);
}

/* ---- counters of workers ---- */

enum { N_STATES = HTH_WORKER_BROKEN + 1, N_RESIDENCIES = HTH_RESIDENCY_PINNED_DEVICE + 1 };

typedef struct worker_row {
    const char *model; /* the view's; valid until the next reconfiguration */
    hth_worker_state state;
    hth_residency residency;
    bool has_numbers;
    uint64_t values[HTH_WORKER_FACTS];
} worker_row;

static void read_worker(const hth_supervisor *supervisor, size_t i, worker_row *row)
{
    hth_worker_view view;

    hth_supervisor_view(supervisor, i, &view);
    *row = (worker_row){
        .model = view.model,
        .state = view.state,
        .residency = view.residency,
        .has_numbers = view.status.has_numbers,
    };
    for (size_t j = 0; j < HTH_WORKER_FACTS; j++)
        row->values[j] = hth_worker_fact_value(&hth_worker_facts[j], &view);
}

static void write_states(const worker_row *rows, size_t n, hth_buffer *out)
{
    static const char up[] = "hearth_worker_up", state[] = "hearth_worker_state",
                      residency[] = "hearth_model_residency";

    hth_exposition_family(out, up, gauge, "1 while the worker takes requests.");
    for (size_t i = 0; i < n; i++) {
        const hth_label label = { "model", rows[i].model };

        hth_exposition_count(out, up, (hth_labels){ &label, 1 }, rows[i].state == HTH_WORKER_READY);
    }
    hth_exposition_family(out, state, gauge, "1 for the state that the worker is in.");
    for (size_t i = 0; i < n; i++) {
        for (unsigned j = 0; j < N_STATES; j++) {
            const hth_label labels[] = { { "model", rows[i].model },
                                         { "state", hth_worker_state_name((hth_worker_state)j) } };

            hth_exposition_count(out, state, (hth_labels){ labels, 2 }, rows[i].state == (hth_worker_state)j);
        }
    }
    hth_exposition_family(out, residency, gauge, "1 for the place of the model's weights.");
    for (size_t i = 0; i < n; i++) {
        for (unsigned j = 0; j < N_RESIDENCIES; j++) {
            const hth_label labels[] = { { "model", rows[i].model },
                                         { "residency", hth_residency_name((hth_residency)j) } };

            hth_exposition_count(out, residency, (hth_labels){ labels, 2 }, rows[i].residency == (hth_residency)j);
        }
    }
}

/* Facts [begin, end) belong to one metric. */
static void write_worker_family(const worker_row *rows, size_t n, size_t begin, size_t end, hth_buffer *out)
{
    const hth_worker_fact *facts = hth_worker_facts;

    hth_exposition_family(out, facts[begin].metric, facts[begin].type, facts[begin].help);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = begin; j < end; j++) {
            const hth_label labels[] = { { "model", rows[i].model }, { facts[j].label, facts[j].label_value } };

            if (rows[i].has_numbers || !facts[j].is_of_process)
                hth_exposition_count(out, facts[j].metric, (hth_labels){ labels, facts[j].label ? 2 : 1 },
                                     rows[i].values[j]);
        }
    }
}

static void write_workers(const hth_supervisor *supervisor, hth_buffer *out)
{
    size_t n = supervisor ? hth_supervisor_n(supervisor) : 0;
    worker_row *rows = n > 0 ? calloc(n, sizeof(*rows)) : NULL;

    if (n > 0 && !rows) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        read_worker(supervisor, i, &rows[i]);
    write_states(rows, n, out);
    for (size_t begin = 0, end; begin < HTH_WORKER_FACTS; begin = end) {
        for (end = begin + 1; end < HTH_WORKER_FACTS && hth_worker_facts[end].metric && !hth_worker_facts[end].type;)
            end++;
        if (hth_worker_facts[begin].metric)
            write_worker_family(rows, n, begin, end, out);
    }
    free(rows);
}

/* ---- the state of the front ---- */

static void write_process(const hth_metrics *metrics, hth_buffer *out)
{
    static const char cpu[] = "process_cpu_seconds_total", build[] = "hearth_build_info";
    const hth_label version = { "version", hearth_version() };
    struct rlimit descriptors;

    hth_exposition_family(out, build, gauge, "1, with the version of Hearth as its label.");
    hth_exposition_count(out, build, (hth_labels){ &version, 1 }, 1);
    hth_exposition_family(out, cpu, counter, "Processor time of the front, user and system.");
    hth_exposition_number(out, cpu, no_labels, (double)hth_os_process_cpu_ns() / 1e9);
    write_one(out, "process_resident_memory_bytes", gauge, "Memory of the front that is in RAM.",
              hth_os_process_resident_bytes(getpid()));
    write_one(out, "process_open_fds", gauge, "Descriptors that the front has open.", hth_os_n_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0)
        descriptors.rlim_cur = 0;
    write_one(out, "process_max_fds", gauge, "Descriptors that the front may have open.",
              (uint64_t)descriptors.rlim_cur);
    write_one(out, "process_start_time_seconds", gauge, "When the front started, Unix time.", metrics->started_s);
}

void hth_metrics_write(const hth_metrics *metrics, const hth_supervisor *supervisor, const hth_http_numbers *http,
                       hth_buffer *out)
{
    static const hth_http_numbers none;

    write_requests(metrics, out);
    write_refused(metrics, out);
    write_durations(metrics, out);
    write_tokens(metrics, out);
    write_hits(metrics, out);
    write_misses(metrics, out);
    write_times(metrics, out);
    write_http(http ? http : &none, out);
    write_workers(supervisor, out);
    write_process(metrics, out);
}
