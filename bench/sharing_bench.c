/*
 * sharing_bench.c - requests at once that share a prefix: their computed prompt tokens, and the time until all began
 *
 *   sharing_bench [--json|--markdown] [--verbose] MODEL N_REQUESTS N_SHARED N_OWN DIRECTORY
 *                 [ROUNDS [PEER_MS PEER_TOKENS]]
 *   sharing_bench prompts N_REQUESTS N_SHARED N_OWN ROUND
 *
 * The second form prints the prompts of a round as a JSON array of arrays, so that another program can get the same
 * tokens (sharing_peer.mjs). No part of a round's prompts is known before it. PEER_MS: the other program's time until
 * all its requests had their first token; PEER_TOKENS: prompt tokens that it computed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/measure.h"
#include "crowd.h"
#include "known.h"
#include "report.h"

enum { ROUNDS = 1, FLUSH_MS = 600000 };

typedef struct bench {
    hth_report report;
    const char *model_path;
    const char *directory;
    unsigned n_requests;
    size_t n_shared;
    size_t n_own;
    unsigned n_rounds;
    double peer_ms; /* 0: no peer */
    double peer_tokens;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_token *tokens; /* [n_shared + n_own] */
} bench;

/* Token i of request n. All requests of a round share the first n_shared. Every vocabulary that we measure has it. */
static hearth_token prompt_token(const bench *b, unsigned round, unsigned n, size_t i)
{
    size_t of = i < b->n_shared ? 0 : (size_t)n + 1;

    return (hearth_token)(300 + (round * 977 + of * 101 + i * 7919) % 1700);
}

static void use_prompt(bench *b, unsigned round, unsigned n)
{
    for (size_t i = 0; i < b->n_shared + b->n_own; i++)
        b->tokens[i] = prompt_token(b, round, n, i);
}

static void print_prompts(bench *b, unsigned round)
{
    for (unsigned n = 0; n < b->n_requests; n++) {
        (void)fputs(n == 0 ? "[[" : ",\n[", stdout);
        use_prompt(b, round, n);
        for (size_t i = 0; i < b->n_shared + b->n_own; i++)
            (void)printf("%s%d", i == 0 ? "" : ",", b->tokens[i]);
        (void)fputs("]", stdout);
    }
    (void)puts("]");
}

static void open_runtime(bench *b)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_error err = { .message = "" };

    options.ram_bytes_max = UINT64_C(2) << 30;
    options.cache_directory = b->directory;
    options.disk_free_min = 0;
    options.log = hth_report_log;
    /* As much as the peer is given: a place for every prompt, in blocks of 256. */
    model_options.n_ctx = b->n_requests * (uint32_t)((b->n_shared + b->n_own + 1 + 255) / 256 * 256);
    model_options.n_parallel = b->n_requests;
    hth_report_check(hearth_runtime_open(&options, &b->runtime, &err), &err);
    hth_report_check(hearth_model_load(b->runtime, b->model_path, &model_options, &b->model, &err), &err);
}

static void run_round(bench *b, unsigned round, hth_samples *ms, hth_samples *computed)
{
    const hearth_request request = hth_known_request(b->tokens, b->n_shared + b->n_own, 1);
    hearth_error err = { .message = "" };
    uint64_t begin = UINT64_MAX, end = 0;
    double n_computed = 0;
    hth_crowd crowd;

    hth_report_check(hearth_model_save(b->model, HEARTH_SAVE_EVICT, FLUSH_MS, &err), &err);
    hth_crowd_init(&crowd);
    for (unsigned i = 0; i < b->n_requests; i++) {
        use_prompt(b, round, i);
        (void)hth_crowd_submit(&crowd, b->model, &request);
    }
    hth_crowd_wait(&crowd);
    for (size_t i = 0; i < crowd.n; i++) {
        const hth_member *member = &crowd.members[i];

        begin = member->submitted_ns < begin ? member->submitted_ns : begin;
        end = member->token_ns[0] > end ? member->token_ns[0] : end;
        n_computed += member->stats.prompt_tokens - member->stats.cached_tokens;
        hth_report_detail(&b->report,
                          "request %zu: %u of %u tokens cached, %u of them shared, first token after %.1f ms", i,
                          member->stats.cached_tokens, member->stats.prompt_tokens, member->stats.shared_tokens,
                          member->stats.ttft_ms);
    }
    hth_samples_add(ms, (double)(end - begin) * 1e-6);
    hth_samples_add(computed, n_computed);
    hth_crowd_deinit(&crowd);
}

static void measure(bench *b)
{
    static hth_samples ms, computed;
    size_t n_least = b->n_shared + b->n_requests * b->n_own;
    char name[160];

    for (unsigned i = 0; i < b->n_rounds; i++)
        run_round(b, i, &ms, &computed);
    (void)snprintf(name, sizeof(name), "%u requests at once, %zu tokens shared and %zu own: prompt tokens computed",
                   b->n_requests, b->n_shared, b->n_own);
    hth_report_number(&b->report, name, hth_samples_median(&computed), "tokens", HTH_AT_MOST,
                      (double)(n_least + (size_t)b->n_requests * 32));
    if (b->peer_tokens > 0) {
        (void)snprintf(name, sizeof(name), "likewise, llama-server");
        hth_report_number(&b->report, name, b->peer_tokens, "tokens", HTH_NO_BOUND, 0);
    }
    (void)snprintf(name, sizeof(name), "likewise, until all %u have their first token", b->n_requests);
    if (b->peer_ms > 0)
        hth_report_ratio(&b->report, name, "ms", hth_samples_median(&ms), "llama-server", b->peer_ms, HTH_AT_MOST,
                         0.25);
    else
        hth_report_number(&b->report, name, hth_samples_median(&ms), "ms", HTH_NO_BOUND, 0);
    hth_report_detail(&b->report, "%.1f .. %.1f ms", hth_samples_min(&ms), hth_samples_max(&ms));
}

static bool read_sizes(bench *b, char **arguments)
{
    b->n_requests = (unsigned)strtoul(arguments[0], NULL, 10);
    b->n_shared = strtoul(arguments[1], NULL, 10);
    b->n_own = strtoul(arguments[2], NULL, 10);
    b->tokens = calloc(b->n_shared + b->n_own + 1, sizeof(*b->tokens));
    return b->n_requests >= 1 && b->n_requests <= HTH_CROWD_MAX && b->n_shared + b->n_own >= 1 && b->tokens;
}

static bool read_arguments(bench *b, int n_arguments, char **arguments)
{
    if ((n_arguments != 6 && n_arguments != 7 && n_arguments != 9) || !read_sizes(b, arguments + 2))
        return false;
    b->model_path = arguments[1];
    b->directory = arguments[5];
    b->n_rounds = n_arguments > 6 ? (unsigned)strtoul(arguments[6], NULL, 10) : ROUNDS;
    b->peer_ms = n_arguments > 8 ? strtod(arguments[7], NULL) : 0;
    b->peer_tokens = n_arguments > 8 ? strtod(arguments[8], NULL) : 0;
    return b->n_rounds > 0;
}

int main(int n_arguments, char **arguments)
{
    static bench b;

    n_arguments = hth_report_options(&b.report, n_arguments, arguments);
    if (n_arguments == 6 && strcmp(arguments[1], "prompts") == 0 && read_sizes(&b, arguments + 2)) {
        print_prompts(&b, (unsigned)strtoul(arguments[5], NULL, 10));
        free(b.tokens);
        return 0;
    }
    if (!read_arguments(&b, n_arguments, arguments)) {
        (void)fprintf(stderr, "usage: sharing_bench [--json|--markdown] [--verbose] MODEL N_REQUESTS N_SHARED N_OWN "
                              "DIRECTORY [ROUNDS [PEER_MS PEER_TOKENS]]\n"
                              "       sharing_bench prompts N_REQUESTS N_SHARED N_OWN ROUND\n");
        return 2;
    }
    open_runtime(&b);
    measure(&b);
    hearth_model_unref(b.model);
    hearth_runtime_close(b.runtime);
    free(b.tokens);
    return 0;
}
