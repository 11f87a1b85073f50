/*
 * tick_bench.c - the cost of a tick beside the engine, and its allocations
 *
 *   tick_bench [--json|--markdown] [--verbose] DIRECTORY [N_SEQUENCES [ROUNDS]]
 *
 * On the stub engine, N_SEQUENCES (64) replies run at once. One of them notes the time of each of its tokens, two of
 * which are a tick apart, and the allocations of the scheduler's thread. Ticks count when all replies run, before the
 * first of them fills a block. The engine's own part, evaluating as many rows and sampling from each, is measured
 * without a scheduler and subtracted; medians. Then the same runs with other requests that wait for a place, each with
 * a time limit, which shows the cost of waiting requests.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "base/measure.h"
#include "base/os.h"
#include "engine/backend.h"
#include "report.h"
#include "stub/backend.h"

enum { N_SEQUENCES = 64, N_SEQUENCES_MAX = 128, ROUNDS = 10, N_PROMPT = 16, N_PREDICT = 200, N_AT_ENDS = 8 };
enum { N_WAITING_MAX = 10000, WAITING_ROUNDS = 3, QUEUE_TIMEOUT_MS = 3600000 };

static hearth_token token_of(unsigned sequence, size_t i)
{
    return (hearth_token)(' ' + (sequence * 7 + i * 13 + sequence * i) % 90);
}

/* ---- the engine alone ---- */

typedef struct engine_alone {
    const hth_backend *backend;
    hth_engine_model *model;
    hth_engine_context *context;
    hth_engine_sampler *samplers[N_SEQUENCES_MAX];
    hth_batch_row rows[N_SEQUENCES_MAX];
    unsigned n;
} engine_alone;

static void engine_decode(engine_alone *e)
{
    hearth_error err = { .message = "" };
    hth_decode_result result;

    hth_report_check(e->backend->decode(e->context, e->rows, e->n, &result, &err), &err);
    if (result != HTH_DECODE_OK)
        hth_report_die("the stub has no room");
}

static void engine_sample(engine_alone *e)
{
    hearth_error err = { .message = "" };

    for (unsigned i = 0; i < e->n; i++) {
        hth_sample_at at = { .position = e->rows[i].position + 1, .forbids_end = true };
        const hth_candidate *candidates;
        size_t n;

        hth_report_check(
            e->backend->sampler_apply(e->samplers[i], e->backend->logits(e->context, i), &at, &candidates, &n, &err),
            &err);
        e->rows[i].token = candidates[0].token;
        e->rows[i].position++;
        hth_report_check(e->backend->sampler_accept(e->samplers[i], e->rows[i].token, true, &err), &err);
    }
}

static void engine_open(engine_alone *e, unsigned n)
{
    static const hth_log no_log = { .level = HEARTH_LOG_ERROR };
    hth_engine_model_params model_params = { .log = &no_log };
    hth_engine_context_params params = { .n_ctx = n * (N_PROMPT + N_PREDICT), .n_batch = n, .n_seq_max = n };
    hearth_sampling sampling = hearth_sampling_default();
    hearth_error err = { .message = "" };

    *e = (engine_alone){ .backend = hth_backend_stub(), .n = n };
    sampling.temperature = 0;
    hth_report_check(e->backend->model_load("stub:", &model_params, &e->model, &err), &err);
    hth_report_check(e->backend->context_new(e->model, &params, &e->context, &err), &err);
    for (unsigned i = 0; i < n; i++) {
        hth_report_check(e->backend->sampler_new(e->model, &sampling, &e->samplers[i], &err), &err);
        e->rows[i] = (hth_batch_row){ .token = token_of(i, 0), .sequence = i, .wants_logits = true };
    }
}

static void engine_close(engine_alone *e)
{
    for (unsigned i = 0; i < e->n; i++)
        e->backend->sampler_free(e->samplers[i]);
    e->backend->context_free(e->context);
    e->backend->model_free(e->model);
}

static void measure_engine(unsigned n, hth_samples *decode_us, hth_samples *sample_us)
{
    static engine_alone e;

    engine_open(&e, n);
    for (unsigned i = 0; i < N_PROMPT + N_PREDICT; i++) {
        uint64_t begin = hth_os_monotonic_ns();
        uint64_t decoded;

        engine_decode(&e);
        decoded = hth_os_monotonic_ns();
        engine_sample(&e);
        if (i < N_PROMPT + N_AT_ENDS)
            continue;
        hth_samples_add(decode_us, (double)(decoded - begin) * 1e-3);
        hth_samples_add(sample_us, (double)(hth_os_monotonic_ns() - decoded) * 1e-3);
    }
    engine_close(&e);
}

/* ---- with the scheduler ---- */

/* Of the reply that is watched. Written on the scheduler thread, read when all replies have ended. */
typedef struct watched {
    uint64_t token_ns[N_PREDICT];
    uint64_t n_allocations[N_PREDICT];
    size_t n_tokens;
    bool has_company; /* every other reply ran still when it had its last token but N_AT_ENDS */
} watched;

typedef struct crowd_end {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n_running;
    unsigned n_waiting; /* for a place, while those run */
    bool all_are_here;
} crowd_end;

typedef struct member {
    watched *watched; /* NULL: nobody watches this one */
    bool is_first;
    crowd_end *end;
    unsigned n_all;
} member;

static bool note_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    member *m = user_data;
    watched *w = m->watched;

    (void)id;
    if (m->is_first && event->index == 0) { /* the scheduler stands still until everybody has come */
        pthread_mutex_lock(&m->end->lock);
        while (!m->end->all_are_here)
            pthread_cond_wait(&m->end->changed, &m->end->lock);
        pthread_mutex_unlock(&m->end->lock);
    }
    if (!w)
        return true;
    if (w->n_tokens < N_PREDICT) {
        w->token_ns[w->n_tokens] = hth_os_monotonic_ns();
        w->n_allocations[w->n_tokens] = hth_allocations_of_thread();
        w->n_tokens++;
    }
    if (w->n_tokens == N_PREDICT - N_AT_ENDS) {
        pthread_mutex_lock(&m->end->lock);
        w->has_company = m->end->n_running == m->n_all;
        pthread_mutex_unlock(&m->end->lock);
    }
    return true;
}

static void note_end(uint64_t id, const hearth_result *result, void *user_data)
{
    crowd_end *end = ((member *)user_data)->end;

    (void)id;
    if (result->status != HEARTH_OK)
        hth_report_die("%s", result->error.message);
    pthread_mutex_lock(&end->lock);
    end->n_running--;
    pthread_cond_signal(&end->changed);
    pthread_mutex_unlock(&end->lock);
}

static void note_waiting_end(uint64_t id, const hearth_result *result, void *user_data)
{
    crowd_end *end = user_data;

    (void)id;
    if (result->status != HEARTH_OK)
        hth_report_die("%s", result->error.message);
    pthread_mutex_lock(&end->lock);
    end->n_waiting--;
    pthread_cond_signal(&end->changed);
    pthread_mutex_unlock(&end->lock);
}

/* One that comes after those that run, and waits for a place. */
static void submit_waiting(hearth_model *model, unsigned i, crowd_end *end)
{
    hearth_request request = hearth_request_default();
    hearth_error err = { .message = "" };
    hearth_token tokens[N_PROMPT];

    for (size_t k = 0; k < N_PROMPT; k++)
        tokens[k] = token_of(i, k);
    request.tokens = tokens;
    request.n_tokens = N_PROMPT;
    request.prefill_only = true;
    request.queue_timeout_ms = QUEUE_TIMEOUT_MS;
    request.on_done = note_waiting_end;
    request.user_data = end;
    hth_report_check(hearth_submit(model, &request, NULL, &err), &err);
}

static void submit(hearth_model *model, unsigned round, unsigned i, member *m)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_error err = { .message = "" };
    hearth_token tokens[N_PROMPT];

    for (size_t k = 0; k < N_PROMPT; k++)
        tokens[k] = token_of(round * N_SEQUENCES_MAX + i, k);
    request.tokens = tokens;
    request.n_tokens = N_PROMPT;
    request.n_predict = N_PREDICT;
    request.ignore_eos = true;
    sampling.temperature = 0;
    request.sampling = &sampling;
    request.on_token = m->watched || m->is_first ? note_token : NULL;
    request.on_done = note_end;
    request.user_data = m;
    hth_report_check(hearth_submit(model, &request, NULL, &err), &err);
}

static void run_round(hearth_model *model, unsigned n, unsigned n_waiting, unsigned round, watched *w)
{
    static member members[N_SEQUENCES_MAX];
    crowd_end end = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .n_running = n, .n_waiting = n_waiting
    };

    w->n_tokens = 0;
    for (unsigned i = 0; i < n; i++) {
        members[i] = (member){
            .watched = i == n - 1 ? w : NULL, .is_first = i == 0, .end = &end, .n_all = n
        }; /* the last to begin */
        submit(model, round, i, &members[i]);
    }
    for (unsigned i = 0; i < n_waiting; i++)
        submit_waiting(model, i, &end);
    pthread_mutex_lock(&end.lock);
    end.all_are_here = true;
    pthread_cond_broadcast(&end.changed);
    while (end.n_running > 0 || end.n_waiting > 0)
        pthread_cond_wait(&end.changed, &end.lock);
    pthread_mutex_unlock(&end.lock);
    if (w->n_tokens != N_PREDICT)
        hth_report_die("a reply of %d tokens told of %zu", N_PREDICT, w->n_tokens);
}

typedef struct tick_times {
    hth_samples us;
    uint64_t n_ticks;
    uint64_t n_ticks_with_allocations;
    uint64_t n_allocations;
    unsigned n_rounds_apart; /* in which the replies did not run together */
} tick_times;

static void open_model(const char *directory, unsigned n, hearth_runtime **runtime, hearth_model **model)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_error err = { .message = "" };

    options.cache_directory = directory;
    options.disk_free_min = 0;
    options.log = hth_report_log;
    model_options.n_parallel = n;
    model_options.n_ctx = 2 * n * (N_PROMPT + N_PREDICT + 1);
    model_options.queue_max = N_WAITING_MAX;
    hth_report_check(hearth_runtime_open(&options, runtime, &err), &err);
    hth_report_check(hearth_model_load(*runtime, "stub:", &model_options, model, &err), &err);
}

/* A round with n replies that run and n_waiting that wait. */
static void measure_round(hearth_model *model, unsigned n, unsigned n_waiting, unsigned round, tick_times *times)
{
    static watched w;

    run_round(model, n, n_waiting, round, &w);
    times->n_rounds_apart += !w.has_company;
    for (size_t i = N_AT_ENDS; i < N_PREDICT - N_AT_ENDS; i++) {
        uint64_t n_allocations = w.n_allocations[i] - w.n_allocations[i - 1];

        hth_samples_add(&times->us, (double)(w.token_ns[i] - w.token_ns[i - 1]) * 1e-3);
        times->n_ticks++;
        times->n_ticks_with_allocations += n_allocations > 0;
        times->n_allocations += n_allocations;
    }
}

/* What those cost who wait, against a tick without them. */
static void measure_waiting(const hth_report *to, hearth_model *model, unsigned n, unsigned *round)
{
    static const unsigned n_waiting[] = { 0, 1000, N_WAITING_MAX };
    static tick_times times[sizeof(n_waiting) / sizeof(*n_waiting)];
    enum { KINDS = sizeof(n_waiting) / sizeof(*n_waiting) };

    for (unsigned i = 0; i < WAITING_ROUNDS; i++)
        for (unsigned k = 0; k < KINDS; k++)
            measure_round(model, n, n_waiting[k], (*round)++, &times[k]);
    for (unsigned k = 1; k < KINDS; k++) {
        hth_bound bound = times[k].n_rounds_apart + times[0].n_rounds_apart > 0 ? HTH_NO_BOUND : HTH_AT_MOST;
        char name[96];

        (void)snprintf(name, sizeof(name), "a tick of %u sequences while %u requests wait", n, n_waiting[k]);
        hth_report_medians(to, name, "µs", &times[k].us, "while none waits", &times[0].us, bound, 1.1);
    }
}

static void report(const hth_report *to, unsigned n, const tick_times *times, const hth_samples *decode_us,
                   const hth_samples *sample_us)
{
    double tick = hth_samples_median(&times->us);
    double decode = hth_samples_median(decode_us), sample = hth_samples_median(sample_us);
    /* One sequence at a time is not what has a target. */
    hth_bound bound = times->n_rounds_apart > 0 ? HTH_NO_BOUND : HTH_AT_MOST;
    char name[128];

    (void)snprintf(name, sizeof(name), "a tick of %u sequences on the stub, without the stub's own part%s", n,
                   times->n_rounds_apart > 0 ? " (they ran one after another)" : "");
    hth_report_number(to, name, tick - decode - sample, "µs", bound, 50);
    hth_report_detail(to, "a tick %.1f us (least %.1f), the stub's evaluation %.1f us, its sampling %.1f us", tick,
                      hth_samples_min(&times->us), decode, sample);
    if (!hth_allocations_are_counted())
        return;
    (void)snprintf(name, sizeof(name), "allocations in %llu steady ticks", (unsigned long long)times->n_ticks);
    hth_report_number(to, name, (double)times->n_allocations, "", bound, 0);
    hth_report_detail(to, "%llu ticks with allocations", (unsigned long long)times->n_ticks_with_allocations);
}

int main(int n_arguments, char **arguments)
{
    static hth_samples decode_us, sample_us;
    static tick_times times;
    hearth_runtime *runtime;
    hearth_model *model;
    hth_report to;
    unsigned n, n_rounds, round = 0;

    n_arguments = hth_report_options(&to, n_arguments, arguments);
    n = n_arguments > 2 ? (unsigned)strtoul(arguments[2], NULL, 10) : N_SEQUENCES;
    n_rounds = n_arguments > 3 ? (unsigned)strtoul(arguments[3], NULL, 10) : ROUNDS;
    if (n_arguments < 2 || n_arguments > 4 || n < 1 || n > N_SEQUENCES_MAX || n_rounds < 1) {
        (void)fprintf(stderr,
                      "usage: tick_bench [--json|--markdown] [--verbose] DIRECTORY [N_SEQUENCES [ROUNDS]]\n"
                      "N_SEQUENCES is at most %d.\n",
                      N_SEQUENCES_MAX);
        return 2;
    }
    open_model(arguments[1], n, &runtime, &model);
    while (round < n_rounds) {
        measure_engine(n, &decode_us, &sample_us); /* in turn, so that both see the same machine */
        measure_round(model, n, 0, round++, &times);
    }
    report(&to, n, &times, &decode_us, &sample_us);
    measure_waiting(&to, model, n, &round);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return 0;
}
