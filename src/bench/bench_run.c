#include "bench/bench_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/draw.h"
#include "base/measure.h"
#include "base/os.h"
#include "base/status.h"

enum { WARM_UP_TOKENS = 128, DRAWS_MAX = 100, SPARE_CELLS = 256 };

/* ---- progress ---- */

static void show(hth_bench_run *run)
{
    const double part = hth_ms_since(run->begin_ns) / 1e3 / run->options->seconds;

    hth_progress_draw(&run->open.progress, "measuring", part < 0.99 ? part : 0.99, run->doing);
}

void hth_bench_run_say(hth_bench_run *run, bool is_first, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(run->doing, sizeof(run->doing), format, arguments);
    va_end(arguments);
    if (is_first && !run->options->quiet && !isatty(STDERR_FILENO))
        (void)fprintf(stderr, "hearth: measuring: %s\n", run->doing);
    show(run);
}

/* ---- prompts ---- */

static bool is_ordinary(hearth_model *model, hearth_token token)
{
    unsigned flags = HEARTH_TOKEN_NORMAL;

    (void)hearth_token_flags(model, token, &flags, NULL); /* without a vocabulary, all tokens count as ordinary */
    return (flags & ~(unsigned)(HEARTH_TOKEN_NORMAL | HEARTH_TOKEN_USER_DEFINED)) == 0;
}

void hth_bench_run_new_prompt(hth_bench_run *run, hearth_token *tokens, size_t n)
{
    const uint64_t seed = run->options->seed + (++run->n_prompts << 32);
    uint64_t n_drawn = 0;

    for (size_t i = 0; i < n; i++)
        for (int tries = 0; tries < DRAWS_MAX && (tries == 0 || !is_ordinary(run->open.model, tokens[i])); tries++)
            tokens[i] = (hearth_token)(hth_draw_uniform(seed, n_drawn++) * run->info.n_vocab);
}

/* ---- requests ---- */

bool hth_bench_run_is_interrupted(const hth_bench_run *run)
{
    return __atomic_load_n(run->interrupted, __ATOMIC_RELAXED) != 0;
}

static void on_progress(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    hth_bench_run *run = user_data;

    (void)phase, (void)n_done, (void)n_total;
    show(run);
    if (hth_bench_run_is_interrupted(run))
        (void)hearth_cancel(run->open.model, id, NULL); /* it may have ended */
}

hearth_status hth_bench_run_ask(hth_bench_run *run, size_t n, hearth_stats *out, hearth_error *err)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_result *result = NULL;
    hearth_status status;

    if (hth_bench_run_is_interrupted(run))
        return HEARTH_CANCELLED;
    sampling.temperature = 0;
    request.tokens = run->tokens;
    request.n_tokens = n;
    request.n_predict = 1;
    request.ignore_eos = true;
    request.sampling = &sampling;
    request.on_progress = on_progress;
    request.user_data = run;
    status = hearth_complete(run->open.model, &request, &result, err);
    if (status == HEARTH_OK)
        *out = *result->stats;
    hearth_result_unref(result);
    return status;
}

/* ---- the model ---- */

static bool is_interrupted(void *user_data)
{
    return hth_bench_run_is_interrupted(user_data);
}

/* Cells for the longest prompt, limited by the model's training context, and for all sequences together. */
static uint32_t cells_needed(const hth_bench_run *run)
{
    const hth_bench_options *o = run->options;
    const uint32_t n_train = run->info.n_ctx_train > 0 ? run->info.n_ctx_train : UINT32_MAX; /* 0: not loaded before */
    const uint32_t n_longest = o->lengths.values[o->lengths.n - 1] + SPARE_CELLS;
    const uint32_t n_prompt = n_longest < n_train ? n_longest : n_train;
    const uint32_t n_side_by_side =
        o->sequences.values[o->sequences.n - 1] * (HTH_BENCH_DECODE_PROMPT + HTH_BENCH_DECODE_TOKENS) + SPARE_CELLS;

    return n_prompt > n_side_by_side ? n_prompt : n_side_by_side;
}

/* The first requests touch the weights and start the engine's threads. */
static hearth_status warm_up(hth_bench_run *run, hearth_error *err)
{
    hearth_stats stats;

    hth_bench_run_new_prompt(run, run->tokens, WARM_UP_TOKENS);
    return hth_bench_run_ask(run, WARM_UP_TOKENS, &stats, err);
}

hearth_status hth_bench_run_load(hth_bench_run *run, bool with_cache, hearth_error *err)
{
    hth_bench_options *options = run->options;
    hth_model_setup *setup = &options->setup;
    const size_t n_tokens = options->lengths.values[options->lengths.n - 1];
    hearth_status status;

    if (options->n_ctx == 0)
        setup->model.n_ctx = cells_needed(run);
    setup->model.n_parallel = options->sequences.values[options->sequences.n - 1];
    setup->model.fingerprint_mode = HEARTH_FINGERPRINT_FAST_UNSAFE; /* its rows live only as long as this process */
    setup->runtime.cache_disabled = !with_cache;
    run->open = (hth_open_model){ .setup = setup,
                                  .is_quiet = options->quiet || !with_cache, /* warnings are shown once */
                                  .is_verbose = options->verbose,
                                  .is_ended = is_interrupted,
                                  .user_data = run };
    hth_progress_init(&run->open.progress, !options->quiet);
    status = hth_open_model_load(&run->open, err);
    run->info = (hearth_model_info){ .struct_size = sizeof(run->info) };
    if (status == HEARTH_OK)
        status = hearth_model_info_get(run->open.model, &run->info, err);
    if (status == HEARTH_OK && !run->info.generates)
        status = hth_fail(err, HEARTH_UNSUPPORTED,
                          "the model makes embeddings only; bench measures models that generate text");
    if (status == HEARTH_OK && !run->tokens &&
        !(run->tokens = calloc(n_tokens > WARM_UP_TOKENS ? n_tokens : WARM_UP_TOKENS, sizeof(*run->tokens))))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt of %zu tokens", n_tokens);
    return status == HEARTH_OK ? warm_up(run, err) : status;
}

void hth_bench_run_close(hth_bench_run *run)
{
    hth_progress_end(&run->open.progress);
    hearth_model_unref(run->open.model);
    hearth_runtime_close(run->open.runtime);
    run->open.model = NULL;
    run->open.runtime = NULL;
}
