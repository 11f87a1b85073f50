/*
 * bench_url.c - send the load of `hearth bench --url` to a server and measure the replies
 *
 * Threads take the requests in the order of their planned arrival, as soon as the replies that a request needs are
 * available. Times count from the planned arrival, so a server that falls behind cannot hide it (no coordinated
 * omission).
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/measure.h"
#include "base/os.h"
#include "base/status.h"
#include "bench/bench_load.h"
#include "bench/bench_measure.h"
#include "bench/bench_report.h"
#include "chat/chat_server.h"
#include "console/progress.h"
#include "http/fetch.h"

enum { THREADS_MAX = 128, REQUESTS_MAX = 4096, REPLY_TOKENS = 32, SILENCE_S = 600, LOOK_MS = 200 };

typedef enum state { WAITS, RUNS, DONE, FAILED, LEFT_OUT } state;

/* A request and its outcome. Only its thread writes it while it runs. */
typedef struct exchange {
    const hth_bench_request *plan;
    state state; /* guarded by the lock */
    char *reply;
    uint64_t sent_ns, first_ns, last_ns, end_ns; /* monotonic */
    hth_dialog_figures figures;
} exchange;

typedef struct load {
    const hth_bench_options *options;
    const volatile sig_atomic_t *interrupted;
    const char *key; /* NULL: none */
    char base[HTH_CHAT_SERVER_URL_BYTES];
    char *model;
    hth_bench_request *requests; /* [n] */
    exchange *exchanges;         /* [n], one of each request */
    size_t n;
    uint64_t begin_ns;

    pthread_mutex_t lock; /* guards the fields below and all states */
    pthread_cond_t changed;
    size_t n_over; /* exchanges that neither wait nor run */
    size_t n_failed, n_left_out;
    char first_error[512];
} load;

typedef struct worker {
    load *load;
    hth_fetch *fetch;
    pthread_t thread;
    bool has_thread;
} worker;

static bool is_interrupted(const load *l)
{
    return __atomic_load_n(l->interrupted, __ATOMIC_RELAXED) != 0;
}

/* ---- the body of a request ---- */

static json_t *message(const char *role, const char *text)
{
    return json_pack("{s:s, s:s}", "role", role, "content", text);
}

static json_t *words_message(const char *role, uint64_t seed, uint32_t n)
{
    hth_buffer text = { .text = NULL };
    json_t *object;

    hth_bench_words_add(&text, seed, n);
    object = message(role, hth_buffer_text(&text));
    hth_buffer_deinit(&text);
    return object;
}

/* Is it a compaction, which begins a conversation with the replies of other requests? */
static bool summarises(const exchange *e)
{
    return e->plan->before[1] >= 0;
}

/* Append the conversation up to and including the request's message. Conversations are short. */
static void add_messages(const load *l, const exchange *e, json_t *out)
{
    const int32_t *before = e->plan->before;

    if (before[0] < 0 || summarises(e)) {
        json_array_append_new(out, words_message("system", e->plan->system_seed, e->plan->n_system_words));
    } else {
        add_messages(l, &l->exchanges[before[0]], out);
        json_array_append_new(out, message("assistant", l->exchanges[before[0]].reply));
    }
    if (summarises(e)) {
        hth_buffer text = { .text = NULL };

        for (size_t i = 0; i < HTH_BENCH_BEFORE_MAX; i++) {
            hth_buffer_add_text(&text, l->exchanges[before[i]].reply);
            hth_buffer_add_text(&text, "\n");
        }
        hth_bench_words_add(&text, e->plan->text_seed, e->plan->n_words);
        json_array_append_new(out, message("user", hth_buffer_text(&text)));
        hth_buffer_deinit(&text);
    } else {
        json_array_append_new(out, words_message("user", e->plan->text_seed, e->plan->n_words));
    }
}

static char *body_of(const load *l, const exchange *e)
{
    json_t *messages = json_array(), *body;
    char *text;

    add_messages(l, e, messages);
    body = json_pack("{s:s, s:o, s:b, s:{s:b}, s:i, s:i, s:i}", "model", l->model, "messages", messages, "stream", true,
                     "stream_options", "include_usage", true, "max_tokens", REPLY_TOKENS, "temperature", 0, "seed",
                     (int)(l->options->seed & INT32_MAX));
    text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

/* ---- one exchange ---- */

static void keep_text(bool is_thought, const char *text, size_t n_bytes, void *user_data)
{
    if (!is_thought)
        hth_buffer_add(user_data, text, n_bytes);
}

static hearth_status exchange_run(const load *l, exchange *e, hth_fetch *fetch, hearth_error *err)
{
    hth_buffer reply = { .text = NULL };
    const hth_dialog_hooks hooks = { .on_text = keep_text, .user_data = &reply };
    hth_chat_stream stream = { .hooks = &hooks, .figures = &e->figures };
    char url[HTH_FETCH_URL_BYTES], *body = body_of(l, e);
    hth_fetch_order order = { .url = url,
                              .key = l->key,
                              .json = body,
                              .silence_s = SILENCE_S,
                              .stop = l->interrupted,
                              .on_bytes = hth_chat_stream_take,
                              .user_data = &stream };
    hearth_status status = body ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a request");
    long answer = 0;

    (void)hth_fetch_address(l->base, "/v1/chat/completions", url, &order.socket); /* sized for it */
    e->sent_ns = hth_os_monotonic_ns();
    if (status == HEARTH_OK)
        status = hth_fetch_transfer(fetch, &order, &answer, err);
    if (status == HEARTH_OK)
        status = hth_chat_stream_conclude(&stream, l->base, answer, err);
    e->end_ns = hth_os_monotonic_ns();
    e->first_ns = stream.first_ns > 0 ? stream.first_ns : e->end_ns; /* a reply without text */
    e->last_ns = stream.last_ns;
    e->reply = strdup(hth_buffer_text(&reply));
    hth_buffer_deinit(&reply);
    hth_buffer_deinit(&stream.line);
    free(body);
    return e->reply ? status : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a reply");
}

/* ---- the order ---- */

static bool is_over(state s)
{
    return s != WAITS && s != RUNS;
}

/* May it be sent, or must it be left out because a reply that it needs did not arrive? WAITS: neither yet. */
static state readiness_locked(const load *l, const exchange *e)
{
    state found = RUNS;

    for (size_t i = 0; i < HTH_BENCH_BEFORE_MAX && e->plan->before[i] >= 0; i++) {
        const state before = l->exchanges[e->plan->before[i]].state;

        if (before == FAILED || before == LEFT_OUT)
            return LEFT_OUT;
        if (!is_over(before))
            found = WAITS;
    }
    return found;
}

/* The waiting request with the earliest arrival whose needed replies are available; NULL: none. */
static exchange *find_ready_locked(load *l)
{
    for (size_t i = 0; i < l->n; i++) {
        exchange *e = &l->exchanges[i];
        const state ready = e->state == WAITS ? readiness_locked(l, e) : WAITS;

        if (ready == RUNS)
            return e;
        if (ready == LEFT_OUT) {
            e->state = LEFT_OUT;
            l->n_over++;
            l->n_left_out++;
        }
    }
    return NULL;
}

/* Wait for a change, at most for ns, and at most LOOK_MS, because a signal does not wake the threads. */
static void wait_locked(load *l, uint64_t ns)
{
    const uint64_t most = hth_ms_to_ns(LOOK_MS);
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until); /* cannot fail with this clock */
    until.tv_nsec += (long)(ns < most ? ns : most);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&l->changed, &l->lock, &until); /* whatever ended it, the caller checks again */
}

/* The next request to send, at its time; NULL: none left. */
static exchange *next_locked(load *l)
{
    while (l->n_over < l->n && !is_interrupted(l)) {
        exchange *e = find_ready_locked(l);
        const uint64_t now = hth_os_monotonic_ns() - l->begin_ns;

        if (e && e->plan->at_ns <= now) {
            e->state = RUNS;
            return e;
        }
        wait_locked(l, e ? e->plan->at_ns - now : UINT64_MAX);
    }
    return NULL;
}

static void *work(void *context)
{
    worker *w = context;
    load *l = w->load;
    exchange *e;

    pthread_mutex_lock(&l->lock);
    while ((e = next_locked(l))) {
        hearth_error err = { .message = "" };
        hearth_status status;

        pthread_mutex_unlock(&l->lock);
        status = exchange_run(l, e, w->fetch, &err);
        pthread_mutex_lock(&l->lock);
        e->state = status == HEARTH_OK ? DONE : FAILED;
        l->n_over++;
        if (status != HEARTH_OK && l->n_failed++ == 0)
            (void)snprintf(l->first_error, sizeof(l->first_error), "%s", err.message);
        pthread_cond_broadcast(&l->changed);
    }
    pthread_cond_broadcast(&l->changed); /* the others have nothing left to wait for either */
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the report ---- */

/* Times of a request. */
enum { FIRST, FIRST_SENT, REPLY, N_TIMES };

/* The samples of one kind, or of all (HTH_BENCH_KINDS). */
typedef struct kind_samples {
    hth_samples times[N_TIMES], rate;
    size_t n, n_failed;
    double prompt_tokens, cached_tokens;
} kind_samples;

static void collect(const load *l, size_t kind, kind_samples *out)
{
    for (size_t i = 0; i < l->n; i++) {
        const exchange *e = &l->exchanges[i];
        const uint64_t planned = l->begin_ns + e->plan->at_ns;

        if (kind < HTH_BENCH_KINDS && (size_t)e->plan->kind != kind)
            continue;
        out->n++;
        out->n_failed += e->state != DONE;
        if (e->state != DONE)
            continue;
        hth_samples_add(&out->times[FIRST], (double)(e->first_ns - planned) / 1e6);
        hth_samples_add(&out->times[FIRST_SENT], (double)(e->first_ns - e->sent_ns) / 1e6);
        hth_samples_add(&out->times[REPLY], (double)(e->end_ns - planned) / 1e6);
        if (e->figures.completion_tokens > 1 && e->last_ns > e->first_ns)
            hth_samples_add(&out->rate, (e->figures.completion_tokens - 1) * 1e9 / (double)(e->last_ns - e->first_ns));
        out->prompt_tokens += e->figures.prompt_tokens;
        out->cached_tokens += e->figures.cached_tokens;
    }
}

static const char *const kind_names[] = { "chat", "agents", "prefix", "all" };

/* One of the times, of all kinds. */
static void add_times(json_t *report, const char *name, const char *title, const char *note,
                      const kind_samples *samples, size_t which)
{
    json_t *section = hth_bench_section_add(report, &(hth_bench_section){
                                                        .name = name,
                                                        .title = title,
                                                        .note = note,
                                                        .plot = "bars",
                                                        .columns = { { "load", "load", "", NULL, false },
                                                                     { "p50", "p50", "ms", "less", true },
                                                                     { "p90", "p90", "ms", "less", true },
                                                                     { "p99", "p99", "ms", "less", true },
                                                                     { "max", "slowest", "ms", "less", true } },
                                                    });

    for (size_t i = 0; i <= HTH_BENCH_KINDS; i++) {
        const hth_samples *s = &samples[i].times[which];

        if (s->n > 0)
            hth_bench_row_add(section, kind_names[i], 0,
                              (const double[]){ hth_samples_median(s), hth_samples_percentile(s, 0.9),
                                                hth_samples_percentile(s, 0.99), hth_samples_max(s) });
    }
}

static void add_work(json_t *report, const kind_samples *samples)
{
    json_t *section = hth_bench_section_add(
        report, &(hth_bench_section){ .name = "work",
                                      .title = "Requests, and tokens a second of a reply",
                                      .note = "Errors include requests that needed a reply that did not come. Known: "
                                              "prompt tokens that the server had in a cache, as far as it tells.",
                                      .plot = "bars",
                                      .columns = { { "load", "load", "", NULL, false },
                                                   { "requests", "requests", "", NULL, false },
                                                   { "errors", "errors", "", "less", false },
                                                   { "rate", "each", "tokens/s", "more", true },
                                                   { "prompt", "prompts", "tokens", NULL, false },
                                                   { "cached", "known", "%", "more", false } } });

    for (size_t i = 0; i <= HTH_BENCH_KINDS; i++) {
        const kind_samples *s = &samples[i];

        if (s->n > 0)
            hth_bench_row_add(section, kind_names[i], 0,
                              (const double[]){ (double)s->n, (double)s->n_failed,
                                                s->rate.n > 0 ? hth_samples_median(&s->rate) : NAN,
                                                s->prompt_tokens > 0 ? s->prompt_tokens : NAN,
                                                100 * s->cached_tokens / s->prompt_tokens });
    }
    hth_bench_section_tidy(section);
}

static void add_facts(const load *l, json_t *report, const kind_samples *all)
{
    char text[HTH_CHAT_SERVER_URL_BYTES + 1024], shown[HTH_FETCH_URL_BYTES], p50[32], p99[32];

    (void)snprintf(text, sizeof(text), "%s, model %s", hth_fetch_shown(l->base, shown), l->model); /* cut */
    hth_bench_report_add_fact(report, "server", text);
    if (all->n_failed > 0) {
        (void)snprintf(text, sizeof(text), "%zu of %zu, the first: %s", all->n_failed, all->n, l->first_error);
        hth_bench_report_add_fact(report, "errors", text);
    }
    if (all->times[FIRST].n == 0)
        return;
    (void)snprintf(text, sizeof(text), "%zu requests, %g a second: first token after %s ms (p50), %s ms (p99).", l->n,
                   l->options->rate, hth_bench_number(hth_samples_median(&all->times[FIRST]), p50),
                   hth_bench_number(hth_samples_percentile(&all->times[FIRST], 0.99), p99));
    json_object_set_new(report, "headline", json_string(text));
}

static hearth_status add_report(const load *l, json_t *report, hearth_error *err)
{
    kind_samples *samples = calloc(HTH_BENCH_KINDS + 1, sizeof(*samples));

    if (!samples)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the results");
    for (size_t i = 0; i <= HTH_BENCH_KINDS; i++)
        collect(l, i, &samples[i]);
    add_facts(l, report, &samples[HTH_BENCH_KINDS]);
    add_times(report, "first_token", "Time to the first token, from the planned arrival",
              "A request that needs another one's reply waits for it, and that counts.", samples, FIRST);
    add_times(report, "first_token_sent", "Time to the first token, from the moment of sending", "", samples,
              FIRST_SENT);
    add_times(report, "reply", "Time to the end of the reply, from the planned arrival", "", samples, REPLY);
    add_work(report, samples);
    free(samples);
    return HEARTH_OK;
}

/* ---- the run ---- */

static void show_progress(load *l)
{
    hth_progress progress;
    char detail[64], shown[HTH_FETCH_URL_BYTES];

    hth_progress_init(&progress, !l->options->quiet);
    if (!l->options->quiet && !isatty(STDERR_FILENO))
        (void)fprintf(stderr, "hearth: sending %zu requests to %s\n", l->n, hth_fetch_shown(l->base, shown));
    pthread_mutex_lock(&l->lock);
    while (l->n_over < l->n && !is_interrupted(l)) {
        (void)snprintf(detail, sizeof(detail), "%zu of %zu requests, %zu errors", l->n_over, l->n,
                       l->n_failed + l->n_left_out);
        hth_progress_draw(&progress, "measuring", (double)l->n_over / (double)l->n, detail);
        wait_locked(l, UINT64_MAX);
    }
    pthread_mutex_unlock(&l->lock);
    hth_progress_end(&progress);
}

static hearth_status run_workers(load *l, hearth_error *err)
{
    const size_t n_workers = l->n < THREADS_MAX ? l->n : THREADS_MAX;
    worker *workers = calloc(n_workers, sizeof(*workers));
    hearth_status status = HEARTH_OK;
    size_t n_threads = 0;

    for (size_t i = 0; workers && i < n_workers; i++)
        workers[i] = (worker){ .load = l, .fetch = hth_fetch_new() };
    l->begin_ns = hth_os_monotonic_ns();
    for (size_t i = 0; workers && i < n_workers; i++) {
        workers[i].has_thread = workers[i].fetch && pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
        n_threads += workers[i].has_thread;
    }
    if (n_threads > 0)
        show_progress(l);
    else
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for connections");
    for (size_t i = 0; workers && i < n_workers; i++) {
        if (workers[i].has_thread)
            pthread_join(workers[i].thread, NULL);
        hth_fetch_free(workers[i].fetch);
    }
    free(workers);
    return is_interrupted(l) ? HEARTH_CANCELLED : status;
}

static hearth_status find_server(load *l, hearth_error *err)
{
    const char *key = l->options->key ? l->options->key : getenv("HEARTH_API_KEY");
    hth_chat_server_model found = { .name = NULL };
    hearth_status status = hth_chat_server_base(l->options->url, l->base, err);

    l->key = key && *key ? key : NULL;
    if (status == HEARTH_OK && !l->options->model) {
        status = hth_chat_server_find(l->base, l->key, &found, err);
        l->model = found.name;
        return status;
    }
    if (status == HEARTH_OK && !(l->model = strdup(l->options->model)))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the name of a model");
    return status;
}

static hearth_status plan(load *l, hearth_error *err)
{
    const double n = l->options->rate * l->options->seconds;

    if (n > REQUESTS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "%g requests a second for %g seconds are more than %d; choose less",
                        l->options->rate, l->options->seconds, REQUESTS_MAX);
    l->n = n < 1 ? 1 : (size_t)n;
    l->requests = calloc(l->n, sizeof(*l->requests));
    l->exchanges = calloc(l->n, sizeof(*l->exchanges));
    if (!l->requests || !l->exchanges)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu requests", l->n);
    hth_bench_load_plan(l->options->seed, l->options->rate, l->requests, l->n);
    for (size_t i = 0; i < l->n; i++)
        l->exchanges[i].plan = &l->requests[i];
    return HEARTH_OK;
}

hearth_status hth_bench_url_run(const hth_bench_options *options, const volatile sig_atomic_t *interrupted,
                                json_t *report, size_t *n_failed_out, hearth_error *err)
{
    load l = { .options = options, .interrupted = interrupted };
    hearth_status status = plan(&l, err);

    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.changed, NULL);
    if (status == HEARTH_OK)
        status = find_server(&l, err);
    if (status == HEARTH_OK)
        status = run_workers(&l, err);
    if (status == HEARTH_OK)
        status = add_report(&l, report, err);
    *n_failed_out = l.n_failed + l.n_left_out;
    for (size_t i = 0; l.exchanges && i < l.n; i++)
        free(l.exchanges[i].reply);
    free(l.exchanges);
    free(l.requests);
    free(l.model);
    pthread_cond_destroy(&l.changed);
    pthread_mutex_destroy(&l.lock);
    return status;
}
