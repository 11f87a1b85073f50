/*
 * pause_bench.c - the pauses of a running reply during another request's long prefill, and the speed of that prefill
 *
 *   pause_bench [--json|--markdown] [--verbose] MODEL N_TOKENS DIRECTORY [MAX_TICK_MS...]
 *
 * First a prompt of N_TOKENS is prefilled alone. Then, for each MAX_TICK_MS (default: 250), a reply is generated, and
 * once it runs another such prompt is prefilled beside it. Pauses are the times between two tokens of the reply, from
 * the prompt's submission to its first token. The bound is the larger of 2 x MAX_TICK_MS and one evaluation of the
 * smallest chunk. That evaluation is measured in the same place: the last tokens of a prompt of that length, the others
 * being known, with chunks of 64.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/measure.h"
#include "base/os.h"
#include "crowd.h"
#include "known.h"
#include "report.h"

enum { FLUSH_MS = 600000, STREAM_TOKENS = 256, STREAM_REPLY = 2048, STREAM_WARM = 8, CHUNK = 64, N_CHUNKS = 12 };

typedef struct bench {
    hth_report report;
    const char *model_path;
    const char *directory;
    size_t n_tokens;
    unsigned n_prompts; /* used so far: no prompt comes twice */
    hearth_runtime *runtime;
    hth_known known;
    hearth_token *tokens; /* [n_tokens] */
    double alone_rate;    /* prompt tokens a second */
    double chunk_ms;
} bench;

static hearth_model *load(bench *b, uint32_t prefill_chunk, uint32_t max_tick_ms)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_error err = { .message = "" };
    hearth_model *model = NULL;

    options.n_ctx = (uint32_t)b->n_tokens + STREAM_TOKENS + STREAM_REPLY + 2 * HTH_BLOCK_TOKENS;
    options.prefill_chunk = prefill_chunk;
    options.max_tick_ms = max_tick_ms;
    hth_report_check(hearth_model_load(b->runtime, b->model_path, &options, &model, &err), &err);
    return model;
}

static void open_runtime(bench *b)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_error err = { .message = "" };

    options.ram_bytes_max = UINT64_C(2) << 30;
    options.cache_directory = b->directory;
    options.disk_free_min = 0;
    options.log = hth_report_log;
    hth_report_check(hearth_runtime_open(&options, &b->runtime, &err), &err);
}

/* Request a prompt that was not asked for before. */
static hearth_request new_prompt(bench *b, size_t n_tokens, int32_t n_predict)
{
    hth_known_tokens(++b->n_prompts, b->tokens, n_tokens);
    return hth_known_request(b->tokens, n_tokens, n_predict);
}

/* ---- what it is held against ---- */

static double read_rate(const bench *b, const hth_member *reader)
{
    if (reader->stats.cached_tokens != 0)
        hth_report_die("%u tokens of a new prompt were cached", reader->stats.cached_tokens);
    return (double)b->n_tokens * 1e9 / (double)(reader->token_ns[0] - reader->submitted_ns);
}

static void measure_alone(bench *b)
{
    hearth_model *model = load(b, HTH_BLOCK_TOKENS, 250);
    hearth_request request;
    hearth_error err = { .message = "" };
    hth_crowd crowd;
    hth_member *reader;

    hth_report_check(hth_known_learn(b->runtime, model, &b->known, &err), &err);
    hth_crowd_init(&crowd);
    request = new_prompt(b, b->n_tokens, 1);
    reader = hth_crowd_submit(&crowd, model, &request);
    hth_crowd_wait(&crowd);
    b->alone_rate = read_rate(b, reader);
    hth_crowd_deinit(&crowd);
    hearth_model_unref(model);
}

typedef struct chunk_times {
    hth_samples ms;
    uint64_t last_ns;
    uint32_t n_done;
} chunk_times;

static void note_chunk(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    chunk_times *times = user_data;
    uint64_t now = hth_os_monotonic_ns();

    (void)id, (void)n_total;
    if (phase != HEARTH_PHASE_PREFILL)
        return;
    if (times->last_ns != 0 && n_done == times->n_done + CHUNK)
        hth_samples_add(&times->ms, (double)(now - times->last_ns) * 1e-6);
    times->last_ns = now;
    times->n_done = n_done;
}

/* One evaluation of the smallest chunk at the end of a long prompt, without anything beside it. */
static void measure_chunk(bench *b)
{
    static chunk_times times;
    hearth_model *model = load(b, CHUNK, 250);
    size_t n_known = (b->n_tokens - N_CHUNKS * CHUNK) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    hearth_request request = new_prompt(b, b->n_tokens, 1);
    hearth_error err = { .message = "" };
    const hearth_result *result;

    if (n_known > 0)
        hth_report_check(hth_known_add(hth_runtime_cache(b->runtime), &b->known, b->n_prompts, n_known, &err), &err);
    request.on_progress = note_chunk;
    request.user_data = &times;
    hth_report_check(hearth_complete(model, &request, &result, &err), &err);
    hearth_result_unref(result);
    hearth_model_unref(model);
    if (times.ms.n == 0)
        (void)fprintf(stderr, "bench: no prompt was read in chunks of %d tokens; their time counts as 0\n", CHUNK);
    b->chunk_ms = hth_samples_median(&times.ms);
    hth_report_detail(&b->report, "a chunk of %d tokens: %.1f .. %.1f ms, %zu of them", CHUNK,
                      hth_samples_min(&times.ms), hth_samples_max(&times.ms), times.ms.n);
}

/* ---- both at once ---- */

/* The pause that at least this part of them do not exceed: not interpolated, so that a rare long one counts. */
static double at_or_above(const hth_samples *pauses, double part)
{
    const double n = (double)pauses->n - 1;

    return hth_samples_percentile(pauses, n > 0 ? ceil(part * n) / n : 1);
}

static void report(const bench *b, uint32_t max_tick_ms, const hth_samples *pauses, double rate, bool ended_early)
{
    /* A reply that was not there all the time says nothing about its pauses. */
    hth_bound at_most = ended_early ? HTH_NO_BOUND : HTH_AT_MOST, at_least = ended_early ? HTH_NO_BOUND : HTH_AT_LEAST;
    double bound = 2.0 * max_tick_ms > b->chunk_ms ? 2.0 * max_tick_ms : b->chunk_ms;
    char name[160], peer[96];

    (void)snprintf(name, sizeof(name), "pauses of a reply while %zu tokens are read, max_tick_ms %u%s: 99th percentile",
                   b->n_tokens, max_tick_ms, ended_early ? " (the reply ended before the prompt)" : "");
    (void)snprintf(peer, sizeof(peer), "the larger of 2 x max_tick_ms and a chunk of %d (%.0f ms)", CHUNK, b->chunk_ms);
    hth_report_ratio(&b->report, name, "ms", at_or_above(pauses, 0.99), peer, bound, at_most, 1);
    hth_report_number(&b->report, "likewise, median", hth_samples_median(pauses), "ms", HTH_NO_BOUND, 0);
    hth_report_number(&b->report, "likewise, longest", hth_samples_max(pauses), "ms", HTH_NO_BOUND, 0);
    hth_report_ratio(&b->report, "likewise, the prompt's speed", "tokens/s", rate, "alone", b->alone_rate, at_least,
                     0.8);
    hth_report_detail(&b->report, "%zu pauses", pauses->n);
}

static void measure_both(bench *b, uint32_t max_tick_ms)
{
    static hth_samples pauses;
    hearth_model *model = load(b, HTH_BLOCK_TOKENS, max_tick_ms);
    hearth_error err = { .message = "" };
    hearth_request request;
    hth_crowd crowd;
    hth_member *stream, *reader;
    bool ended_early;

    pauses.n = 0;
    hth_crowd_init(&crowd);
    request = new_prompt(b, STREAM_TOKENS, STREAM_REPLY);
    stream = hth_crowd_submit(&crowd, model, &request);
    hth_crowd_wait_tokens(stream, STREAM_WARM);
    request = new_prompt(b, b->n_tokens, 1);
    reader = hth_crowd_submit(&crowd, model, &request);
    hth_crowd_wait_tokens(reader, SIZE_MAX);
    (void)hearth_cancel(model, stream->id, &err); /* it may have ended */
    hth_crowd_wait(&crowd);
    ended_early = stream->status == HEARTH_OK;
    for (size_t i = 1; i < stream->n_tokens; i++)
        if (stream->token_ns[i] > reader->submitted_ns && stream->token_ns[i - 1] < reader->token_ns[0])
            hth_samples_add(&pauses, (double)(stream->token_ns[i] - stream->token_ns[i - 1]) * 1e-6);
    report(b, max_tick_ms, &pauses, read_rate(b, reader), ended_early);
    hth_crowd_deinit(&crowd);
    hearth_model_unref(model);
}

int main(int n_arguments, char **arguments)
{
    static bench b;

    n_arguments = hth_report_options(&b.report, n_arguments, arguments);
    if (n_arguments >= 4) {
        b.model_path = arguments[1];
        b.n_tokens = strtoul(arguments[2], NULL, 10);
        b.directory = arguments[3];
        b.tokens = calloc(b.n_tokens + STREAM_TOKENS, sizeof(*b.tokens));
    }
    if (n_arguments < 4 || b.n_tokens <= N_CHUNKS * CHUNK || !b.tokens) {
        (void)fprintf(stderr,
                      "usage: pause_bench [--json|--markdown] [--verbose] MODEL N_TOKENS DIRECTORY "
                      "[MAX_TICK_MS...]\nN_TOKENS is more than %d.\n",
                      N_CHUNKS * CHUNK);
        return 2;
    }
    open_runtime(&b);
    measure_alone(&b);
    measure_chunk(&b);
    if (n_arguments == 4)
        measure_both(&b, 250);
    for (int i = 4; i < n_arguments; i++)
        measure_both(&b, (uint32_t)strtoul(arguments[i], NULL, 10));
    hearth_runtime_close(b.runtime);
    hth_known_deinit(&b.known);
    free(b.tokens);
    return 0;
}
