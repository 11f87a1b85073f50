/*
 * idle_bench.c - the cost of a context full of finished sequences for later requests
 *
 *   idle_bench [--json|--markdown] [--verbose] MODEL N_CTX N_CONVERSATIONS DIRECTORY ROUNDS N_TOKENS...
 *
 * N_CONVERSATIONS that the cache knows (known.h) come in as exact hits, one after the other, until they have 90% of a
 * context of N_CTX. Then a new prompt of N_TOKENS is prefilled, and a reply is decoded, each in turns with the same in
 * an empty context. Last, the conversations come back, the oldest first, as in a server where they take turns: a new
 * prompt is prefilled in between. Their cost is compared with a memcpy of their bytes into as many pieces.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "crowd.h"
#include "known.h"
#include "base/measure.h"
#include "report.h"

enum { FLUSH_MS = 600000, N_REPLY = 64, N_WARM = 4, COPIES = 5 };

typedef struct bench {
    hth_report report;
    const char *model_path;
    const char *directory;
    uint32_t n_ctx;
    unsigned n_conversations;
    size_t n_tokens; /* of each: whole blocks */
    unsigned n_rounds;
    hearth_runtime *runtime;
    hearth_model *model;
    hth_known known;
    hearth_token *tokens; /* [n_ctx] */
    unsigned n_new;       /* prompts that were new, so far */
} bench;

static void open_runtime(bench *b)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_error err = { .message = "" };

    options.ram_bytes_max = UINT64_C(6) << 30;
    options.cache_directory = b->directory;
    options.disk_free_min = 0;
    options.write_queue_bytes_max = UINT64_MAX / 2;
    options.log = hth_report_log;
    model_options.n_ctx = b->n_ctx;
    hth_report_check(hearth_runtime_open(&options, &b->runtime, &err), &err);
    hth_report_check(hearth_model_load(b->runtime, b->model_path, &model_options, &b->model, &err), &err);
    hth_report_check(hth_known_learn(b->runtime, b->model, &b->known, &err), &err);
    for (unsigned i = 0; i < b->n_conversations; i++)
        hth_report_check(hth_known_add(hth_runtime_cache(b->runtime), &b->known, i, b->n_tokens, &err), &err);
    hth_report_check(hearth_runtime_flush(b->runtime, FLUSH_MS, &err), &err);
}

/* Ask for prompt number n; until its first token, in milliseconds. */
static double ask(bench *b, unsigned n, size_t n_tokens, int32_t n_predict, hearth_stats *stats,
                  double *tokens_a_second)
{
    const hearth_request request = hth_known_request(b->tokens, n_tokens, n_predict);
    hth_crowd crowd;
    hth_member *member;
    double ms;

    hth_known_tokens(n, b->tokens, n_tokens);
    hth_crowd_init(&crowd);
    member = hth_crowd_submit(&crowd, b->model, &request);
    hth_crowd_wait(&crowd);
    ms = (double)(member->token_ns[0] - member->submitted_ns) / 1e6;
    *stats = member->stats;
    if (tokens_a_second)
        *tokens_a_second = (double)(member->n_tokens - N_WARM) * 1e9 /
                           (double)(member->token_ns[member->n_tokens - 1] - member->token_ns[N_WARM - 1]);
    hth_crowd_deinit(&crowd);
    return ms;
}

static double ask_known(bench *b, unsigned n)
{
    hearth_stats stats;
    double ms = ask(b, n, b->n_tokens, 1, &stats, NULL);

    if (stats.hit != HEARTH_HIT_EXACT)
        hth_report_die("conversation %u was no exact hit", n);
    return ms;
}

static double ask_new(bench *b, size_t n_tokens)
{
    hearth_stats stats;
    double ms = ask(b, b->n_conversations + b->n_new++, n_tokens, 1, &stats, NULL);

    if (stats.cached_tokens != 0)
        hth_report_die("a new prompt had %u tokens in the cache", stats.cached_tokens);
    return ms;
}

/* What is written of one measurement is not to be paid by the next. */
static void flush(bench *b)
{
    hearth_error err = { .message = "" };

    hth_report_check(hearth_runtime_flush(b->runtime, FLUSH_MS, &err), &err);
}

static void empty(bench *b)
{
    hearth_error err = { .message = "" };

    hth_report_check(hearth_model_save(b->model, HEARTH_SAVE_EVICT, FLUSH_MS, &err), &err);
    flush(b);
}

static void fill(bench *b)
{
    for (unsigned i = 0; i < b->n_conversations; i++)
        (void)ask_known(b, i);
    flush(b);
}

/* ---- what is measured ---- */

static void measure_prompt(bench *b, size_t n_tokens)
{
    static hth_samples alone, beside;
    char name[160];

    alone.n = beside.n = 0;
    empty(b);
    (void)ask_new(b, n_tokens);
    for (unsigned i = 0; i < b->n_rounds; i++) {
        empty(b);
        hth_samples_add(&alone, ask_new(b, n_tokens));
        empty(b);
        fill(b);
        hth_samples_add(&beside, ask_new(b, n_tokens));
    }
    (void)snprintf(name, sizeof(name), "context of %u, 90%% of it idle: a new prompt of %zu tokens", b->n_ctx,
                   n_tokens);
    hth_report_medians(&b->report, name, "ms", &beside, "in an empty context", &alone, HTH_AT_MOST, 1.05);
}

static double reply_rate(bench *b)
{
    hearth_stats stats;
    double rate;

    (void)ask(b, 0, b->n_tokens, N_REPLY, &stats, &rate);
    return rate;
}

static void measure_reply(bench *b)
{
    static hth_samples alone, beside;
    char name[160];

    empty(b);
    (void)reply_rate(b);
    for (unsigned i = 0; i < b->n_rounds; i++) {
        empty(b);
        hth_samples_add(&alone, reply_rate(b));
        empty(b);
        fill(b);
        hth_samples_add(&beside, reply_rate(b));
    }
    (void)snprintf(name, sizeof(name), "context of %u, 90%% of it idle: decoding a reply", b->n_ctx);
    hth_report_medians(&b->report, name, "tokens/s", &beside, "in an empty context", &alone, HTH_AT_LEAST, 0.98);
}

static void measure_return(bench *b)
{
    static hth_samples times, copies;
    size_t n_bytes = b->n_tokens * b->known.kv_bytes_a_token;
    size_t n_blocks = b->n_tokens / HTH_BLOCK_TOKENS;
    size_t piece_bytes = HTH_BLOCK_TOKENS * b->known.kv_bytes_a_token / b->known.n_tensors;
    hth_copy copy;
    char name[160];

    if (!hth_copy_init(&copy, n_bytes))
        hth_report_die("no memory to copy %zu bytes", n_bytes);
    empty(b);
    fill(b);
    for (unsigned i = 0; i < b->n_conversations; i++) {
        (void)ask_new(b, 64);
        flush(b);
        hth_samples_add(&times, ask_known(b, i));
        for (int k = 0; k < COPIES; k++)
            hth_samples_add(&copies, hth_copy_pieces_ms(&copy, n_blocks, b->known.n_tensors, piece_bytes));
    }
    (void)snprintf(name, sizeof(name), "context of %u: the last %u conversations of %zu tokens come back", b->n_ctx,
                   b->n_conversations, b->n_tokens);
    hth_report_medians(&b->report, name, "ms", &times, "memcpy into the same places", &copies, HTH_AT_MOST, 2);
    hth_copy_deinit(&copy);
}

int main(int n_arguments, char **arguments)
{
    static bench b;

    n_arguments = hth_report_options(&b.report, n_arguments, arguments);
    if (n_arguments >= 7) {
        b.model_path = arguments[1];
        b.n_ctx = (uint32_t)strtoul(arguments[2], NULL, 10);
        b.n_conversations = (unsigned)strtoul(arguments[3], NULL, 10);
        b.directory = arguments[4];
        b.n_rounds = (unsigned)strtoul(arguments[5], NULL, 10);
        b.tokens = b.n_ctx > 0 ? malloc(b.n_ctx * sizeof(*b.tokens)) : NULL;
        if (b.n_conversations > 0)
            b.n_tokens = (size_t)b.n_ctx * 9 / 10 / b.n_conversations / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    }
    if (!b.tokens || b.n_tokens == 0 || b.n_rounds == 0) {
        (void)fprintf(stderr,
                      "usage: idle_bench [--json|--markdown] [--verbose] MODEL N_CTX N_CONVERSATIONS DIRECTORY ROUNDS "
                      "N_TOKENS...\nEach conversation needs 256 tokens of 90%% of N_CTX.\n");
        return 2;
    }
    open_runtime(&b);
    for (int i = 6; i < n_arguments; i++)
        measure_prompt(&b, strtoul(arguments[i], NULL, 10));
    measure_reply(&b);
    measure_return(&b);
    hearth_model_unref(b.model);
    hearth_runtime_close(b.runtime);
    hth_known_deinit(&b.known);
    free(b.tokens);
    return 0;
}
