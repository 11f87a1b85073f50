/*
 * conversation_bench.c - the bytes that a growing conversation writes, against the KV bytes at its end
 *
 *   conversation_bench [--json|--markdown] [--verbose] MODEL N_TURNS N_TOKENS DIRECTORY
 *
 * Each turn's prompt is everything so far and a little more. The added prompt is three quarters of the turn, the reply
 * the rest. After each turn the program waits for the writers and lists the rows on disk: rows that a listing shows for
 * the first time were written in that turn. The sum over all kinds must be the number of written bytes that the runtime
 * counted. Rows that were written and removed within one turn are in no listing and show as the difference.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"
#include "base/measure.h"
#include "report.h"

enum { FLUSH_MS = 600000, ROWS_MAX = 4096, KINDS = HTH_ROW_KINDS };

typedef struct seen_row {
    uint8_t key[32];
    const char *kind;
} seen_row;

typedef struct bench {
    hth_report report;
    const char *model_path;
    const char *directory;
    size_t n_turns;
    size_t n_tokens; /* at the end of the last turn */
    hearth_runtime *runtime;
    hearth_model *model;
    hth_known known;
    hearth_token *tokens; /* [n_tokens] */
    seen_row seen[ROWS_MAX];
    size_t n_seen;
    uint64_t bytes[KINDS]; /* of rows seen, by hth_row_kind */
    uint64_t rows[KINDS];
} bench;

static void open_runtime(bench *b)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_error err = { .message = "" };

    options.cache_directory = b->directory;
    options.disk_free_min = 0;
    options.log = hth_report_log;
    model_options.n_ctx = (uint32_t)b->n_tokens + HTH_BLOCK_TOKENS;
    hth_report_check(hearth_runtime_open(&options, &b->runtime, &err), &err);
    hth_report_check(hearth_model_load(b->runtime, b->model_path, &model_options, &b->model, &err), &err);
    hth_report_check(hth_known_learn(b->runtime, b->model, &b->known, &err),
                     &err); /* for the bytes of a token's K and V */
}

/* ---- what is on disk ---- */

static bool is_seen(const bench *b, const hearth_row *row)
{
    for (size_t i = 0; i < b->n_seen; i++)
        if (strcmp(b->seen[i].kind, row->kind) == 0 && memcmp(b->seen[i].key, row->key, sizeof(row->key)) == 0)
            return true;
    return false;
}

static bool see_row(const hearth_row *row, void *user_data)
{
    bench *b = user_data;

    if (row->tier != HEARTH_TIER_DISK || is_seen(b, row))
        return true;
    if (b->n_seen == ROWS_MAX)
        hth_report_die("more than %d rows", ROWS_MAX);
    b->seen[b->n_seen].kind = row->kind;
    memcpy(b->seen[b->n_seen++].key, row->key, sizeof(row->key));
    for (int kind = 0; kind < KINDS; kind++) {
        if (strcmp(row->kind, hth_row_kind_name((hth_row_kind)kind)) == 0) {
            b->bytes[kind] += row->bytes;
            b->rows[kind]++;
        }
    }
    return true;
}

/* Count the rows that are new on disk. */
static void look_at_disk(bench *b)
{
    hearth_error err = { .message = "" };

    hth_report_check(hearth_runtime_flush(b->runtime, FLUSH_MS, &err), &err);
    hth_report_check(hearth_runtime_rows(b->runtime, see_row, b, &err), &err);
}

/* ---- turns ---- */

static void run_turn(bench *b, size_t n_before, size_t n_after)
{
    const size_t n_prompt = n_before + (n_after - n_before) * 3 / 4;
    const hearth_request request = hth_known_request(b->tokens, n_prompt, (int32_t)(n_after - n_prompt));
    hearth_error err = { .message = "" };
    const hearth_result *result;

    for (size_t i = n_before; i < n_prompt; i++)
        b->tokens[i] = hth_known_token(0, i);
    hth_report_check(hearth_complete(b->model, &request, &result, &err), &err);
    if (result->stats->completion_tokens != n_after - n_prompt)
        hth_report_die("a reply of %u tokens, not %zu", result->stats->completion_tokens, n_after - n_prompt);
    memcpy(b->tokens + n_prompt, result->tokens, (n_after - n_prompt) * sizeof(*b->tokens));
    hth_report_detail(&b->report, "prompt of %zu tokens: %u cached (%s), %.0f ms to the first token", n_prompt,
                      result->stats->cached_tokens, hearth_hit_name(result->stats->hit), result->stats->ttft_ms);
    hearth_result_unref(result);
}

static void report(const bench *b, uint64_t bytes_written)
{
    double kv = (double)(b->n_tokens * b->known.kv_bytes_a_token);
    uint64_t seen = 0;
    char name[128];

    for (int kind = 0; kind < KINDS; kind++)
        seen += b->bytes[kind];
    (void)snprintf(name, sizeof(name), "block rows written by %zu turns up to %zu tokens", b->n_turns, b->n_tokens);
    hth_report_ratio(&b->report, name, "MB", (double)b->bytes[HTH_ROW_BLOCK] * 1e-6, "KV of all tokens", kv * 1e-6,
                     HTH_AT_MOST, 1.02);
    for (int kind = HTH_ROW_TAIL; kind < KINDS; kind++) {
        if (b->rows[kind] == 0)
            continue;
        (void)snprintf(name, sizeof(name), "likewise, %" PRIu64 " %s rows", b->rows[kind],
                       hth_row_kind_name((hth_row_kind)kind));
        hth_report_ratio(&b->report, name, "MB", (double)b->bytes[kind] * 1e-6, "KV of all tokens", kv * 1e-6,
                         HTH_NO_BOUND, 0);
    }
    hth_report_ratio(&b->report, "likewise, written and removed within a turn", "MB",
                     (double)(bytes_written - seen) * 1e-6, "KV of all tokens", kv * 1e-6, HTH_NO_BOUND, 0);
}

int main(int n_arguments, char **arguments)
{
    static bench b;
    hearth_counters before = { .struct_size = sizeof(before) }, after = before;
    hearth_error err = { .message = "" };

    n_arguments = hth_report_options(&b.report, n_arguments, arguments);
    if (n_arguments != 5 || strtoul(arguments[2], NULL, 10) < 1 ||
        strtoul(arguments[3], NULL, 10) < 8 * strtoul(arguments[2], NULL, 10)) {
        (void)fprintf(stderr, "usage: conversation_bench [--json|--markdown] [--verbose] MODEL N_TURNS N_TOKENS "
                              "DIRECTORY\n");
        return 2;
    }
    b.model_path = arguments[1];
    b.n_turns = strtoul(arguments[2], NULL, 10);
    b.n_tokens = strtoul(arguments[3], NULL, 10);
    b.directory = arguments[4];
    b.tokens = calloc(b.n_tokens, sizeof(*b.tokens));
    if (!b.tokens)
        hth_report_die("no memory for %zu tokens", b.n_tokens);
    open_runtime(&b);
    look_at_disk(&b);
    memset(b.bytes, 0, sizeof(b.bytes)); /* the prompt for learning is not part of the conversation */
    memset(b.rows, 0, sizeof(b.rows));
    hth_report_check(hearth_runtime_counters(b.runtime, &before, &err), &err);
    for (size_t i = 0; i < b.n_turns; i++) {
        run_turn(&b, b.n_tokens * i / b.n_turns, b.n_tokens * (i + 1) / b.n_turns);
        look_at_disk(&b);
    }
    hth_report_check(hearth_runtime_counters(b.runtime, &after, &err), &err);
    if (after.saves_dropped > before.saves_dropped || after.writes_failed > before.writes_failed)
        hth_report_die("not every row was written");
    report(&b, after.bytes_written - before.bytes_written);
    hearth_model_unref(b.model);
    hearth_runtime_close(b.runtime);
    hth_known_deinit(&b.known);
    free(b.tokens);
    return 0;
}
