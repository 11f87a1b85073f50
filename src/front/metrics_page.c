/*
 * metrics_page.c - the page that Prometheus reads
 *
 * The samples of a family are adjacent. A worker's view is large and costs system calls, so each is read once: its
 * numbers are copied into a table with a row for each worker, and the families are written from the table.
 */
#include "front/metrics_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os.h"

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
    for (size_t i = 0; i < metrics->n_models; i++) {
        for (size_t j = 0; j < metrics->endpoints.n; j++) {
            const hth_metrics_series *series = metrics->models[i]->series[j];

            for (size_t k = 0; series && k < series->n_statuses; k++) {
                char status[16];
                const hth_label labels[] = { { "endpoint", metrics->endpoints.texts[j] },
                                             { "model", metrics->models[i]->name },
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
    for (size_t i = 0; i < metrics->n_models; i++) {
        for (size_t j = 0; j < metrics->endpoints.n; j++) {
            const hth_metrics_series *series = metrics->models[i]->series[j];
            const hth_label labels[] = { { "endpoint", metrics->endpoints.texts[j] },
                                         { "model", metrics->models[i]->name } };

            if (series)
                hth_exposition_histogram(out, name, (hth_labels){ labels, 2 }, &hth_metrics_duration_scale,
                                         &series->duration);
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
static bool generates(const hth_metrics_model *model)
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
#define ROW(field, name, help) { name, help, offsetof(hth_metrics_model, field) },
        HTH_METRICS_COUNTERS_EACH(ROW)
#undef ROW
    };

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        hth_exposition_family(out, counts[i].name, counter, counts[i].help);
        for (size_t j = 0; j < metrics->n_models; j++) {
            const hth_metrics_model *model = metrics->models[j];
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
    for (size_t i = 0; i < metrics->n_models; i++) {
        const hth_metrics_model *model = metrics->models[i];

        for (unsigned hit = 0; hit < HTH_METRICS_HITS; hit++) {
            for (unsigned tier = 0; tier < HTH_METRICS_TIERS; tier++) {
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
    for (size_t i = 0; i < metrics->n_models; i++) {
        const hth_metrics_model *model = metrics->models[i];

        for (unsigned miss = 0; miss < HTH_METRICS_MISSES; miss++) {
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
          &hth_metrics_first_token_scale, offsetof(hth_metrics_model, first_token) },
        { "hearth_inter_token_latency_seconds", "From one token of a reply to the next, as they come from the worker.",
          &hth_metrics_token_scale, offsetof(hth_metrics_model, token) },
        { "hearth_queue_time_seconds", "Waiting for the model's scheduler.", &hth_metrics_queue_scale,
          offsetof(hth_metrics_model, queue) },
    };

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        hth_exposition_family(out, times[i].name, histogram, times[i].help);
        for (size_t j = 0; j < metrics->n_models; j++) {
            const hth_metrics_model *model = metrics->models[j];
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
