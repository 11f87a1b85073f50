/*
 * decode_bench.c - tokens a second while rows are written behind the requests, against the same without
 *
 *   decode_bench [--json|--markdown] [--verbose] MODEL N_PREDICT N_ROWS DIRECTORY [ROUNDS]
 *
 * The prompt is an exact hit each time, so the reply begins at once. In every second reply the writers are busy: N_ROWS
 * blocks of other prompts were queued under a limit of bytes a second, which is lifted as the request goes in. The name
 * of the result has the share of the queue that was written when the reply ended: below 100% if the writers were busy
 * throughout.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"
#include "base/measure.h"
#include "report.h"

enum { ROUNDS = 7, FLUSH_MS = 600000 };

typedef struct bench {
    hth_report report;
    const char *model_path;
    const char *directory;
    int32_t n_predict;
    unsigned n_rows;
    unsigned n_rounds;
    hearth_runtime *runtime;
    hearth_model *model;
    hth_known known;
    hearth_token tokens[HTH_BLOCK_TOKENS];
} bench;

static void open_runtime(bench *b)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_error err = { .message = "" };

    options.ram_bytes_max = UINT64_C(4) << 30;
    options.cache_directory = b->directory;
    options.disk_free_min = 0;
    options.write_queue_bytes_max = UINT64_MAX / 2;
    options.log = hth_report_log;
    model_options.n_ctx = HTH_BLOCK_TOKENS + (uint32_t)b->n_predict + 1;
    hth_report_check(hearth_runtime_open(&options, &b->runtime, &err), &err);
    hth_report_check(hearth_model_load(b->runtime, b->model_path, &model_options, &b->model, &err), &err);
    hth_report_check(hth_known_learn(b->runtime, b->model, &b->known, &err), &err);
    hth_report_check(hth_known_add(hth_runtime_cache(b->runtime), &b->known, 0, HTH_BLOCK_TOKENS, &err), &err);
    hth_known_tokens(0, b->tokens, HTH_BLOCK_TOKENS);
}

/* Tokens a second of one reply. */
static double reply(bench *b)
{
    const hearth_request request = hth_known_request(b->tokens, HTH_BLOCK_TOKENS, b->n_predict);
    hearth_error err = { .message = "" };
    const hearth_result *result;
    double rate;

    hth_report_check(hearth_complete(b->model, &request, &result, &err), &err);
    if (result->stats->hit != HEARTH_HIT_EXACT)
        hth_report_die("the prompt was no exact hit");
    rate = result->stats->decode_tps;
    hearth_result_unref(result);
    return rate;
}

static uint64_t queue_rows(const bench *b)
{
    hearth_counters counters = { .struct_size = sizeof(counters) };
    hearth_error err = { .message = "" };

    hth_report_check(hearth_runtime_counters(b->runtime, &counters, &err), &err);
    return counters.write_queue_rows;
}

/* One reply. The writers begin as it does. *left_out: rows that still wait at its end. */
static double reply_while_saving(bench *b, uint64_t *left_out)
{
    hearth_error err = { .message = "" };
    double rate;

    hth_report_check(hearth_runtime_write_limits(b->runtime, 0, 0, 1, &err), &err);
    for (unsigned i = 0; i < b->n_rows; i++)
        hth_report_check(hth_known_add_block(hth_runtime_cache(b->runtime), &b->known, &err), &err);
    hth_report_check(hearth_runtime_write_limits(b->runtime, 0, 0, UINT64_MAX, &err), &err);
    rate = reply(b);
    *left_out = queue_rows(b);
    hth_report_check(hearth_runtime_flush(b->runtime, FLUSH_MS, &err), &err);
    return rate;
}

static void measure(bench *b)
{
    static hth_samples with, without, left;
    char name[128];

    (void)reply(b);
    for (unsigned i = 0; i < b->n_rounds; i++) {
        uint64_t n_left = 0;

        hth_samples_add(&without, reply(b));
        hth_samples_add(&with, reply_while_saving(b, &n_left));
        hth_samples_add(&left, (double)n_left);
    }
    (void)snprintf(name, sizeof(name),
                   "decoding %d tokens while %u blocks (%.0f MB) are saved, %.0f%% of them by its end", b->n_predict,
                   b->n_rows, (double)(b->n_rows * b->known.block_bytes) * 1e-6,
                   100 * (1 - hth_samples_median(&left) / b->n_rows));
    hth_report_medians(&b->report, name, "tokens/s", &with, "without", &without, HTH_AT_LEAST, 0.97);
    hth_report_detail(&b->report, "%.0f rows waited still at the end", hth_samples_median(&left));
}

int main(int n_arguments, char **arguments)
{
    static bench b;

    n_arguments = hth_report_options(&b.report, n_arguments, arguments);
    if (n_arguments < 5 || n_arguments > 6 || strtoul(arguments[2], NULL, 10) < 2) {
        (void)fprintf(stderr, "usage: decode_bench [--json|--markdown] [--verbose] MODEL N_PREDICT N_ROWS DIRECTORY "
                              "[ROUNDS]\n");
        return 2;
    }
    b.model_path = arguments[1];
    b.n_predict = (int32_t)strtoul(arguments[2], NULL, 10);
    b.n_rows = (unsigned)strtoul(arguments[3], NULL, 10);
    b.directory = arguments[4];
    b.n_rounds = n_arguments > 5 ? (unsigned)strtoul(arguments[5], NULL, 10) : ROUNDS;
    open_runtime(&b);
    measure(&b);
    hearth_model_unref(b.model);
    hearth_runtime_close(b.runtime);
    hth_known_deinit(&b.known);
    return 0;
}
