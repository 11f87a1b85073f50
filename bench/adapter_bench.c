/*
 * adapter_bench.c - the cost of requests with different adapters
 *
 *   adapter_bench [--json|--markdown] [--verbose] MODEL ADAPTER OTHER N_PROMPT N_REPLY ROUNDS
 *
 * One request after the other, each with a new prompt: all with one adapter, and alternating between the two. Then two
 * requests at once, with one adapter (they share evaluations) and with one each (they take turns). make_adapter makes
 * the adapters; only their shapes matter.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "crowd.h"
#include "known.h"
#include "base/measure.h"
#include "report.h"

enum { REQUESTS = 8 };

typedef struct bench {
    hth_report report;
    hearth_runtime *runtime;
    hearth_model *model;
    uint32_t ids[2];
    size_t n_prompt;
    int32_t n_reply;
    unsigned n_new; /* prompts so far */
} bench;

static void open_model(bench *b, char **paths)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_error err = { .message = "" };

    options.cache_disabled = true;
    options.log = hth_report_log;
    model_options.n_ctx = 4 * (uint32_t)(b->n_prompt + (size_t)b->n_reply + 256);
    hth_report_check(hearth_runtime_open(&options, &b->runtime, &err), &err);
    hth_report_check(hearth_model_load(b->runtime, paths[0], &model_options, &b->model, &err), &err);
    for (int i = 0; i < 2; i++)
        hth_report_check(hearth_adapter_load(b->model, paths[1 + i], NULL, &b->ids[i], &err), &err);
}

static void submit(bench *b, hth_crowd *crowd, unsigned which)
{
    hearth_adapter_scale adapter = { b->ids[which], 1 };
    hearth_token *tokens = calloc(b->n_prompt, sizeof(*tokens));
    hearth_request request = hth_known_request(tokens, b->n_prompt, b->n_reply);

    if (!tokens)
        hth_report_die("no memory for a prompt");
    hth_known_tokens(b->n_new++, tokens, b->n_prompt);
    request.no_cache_read = true;
    request.adapters = &adapter;
    request.n_adapters = 1;
    (void)hth_crowd_submit(crowd, b->model, &request);
    free(tokens);
}

/* Milliseconds of REQUESTS requests, n_at_once at a time; n_adapters in turn. */
static double run(bench *b, unsigned n_at_once, unsigned n_adapters)
{
    uint64_t begin_ns = hth_os_monotonic_ns();

    for (unsigned i = 0; i < REQUESTS; i += n_at_once) {
        hth_crowd crowd;

        hth_crowd_init(&crowd);
        for (unsigned k = 0; k < n_at_once; k++)
            submit(b, &crowd, (i + k) % n_adapters);
        hth_crowd_wait(&crowd);
        hth_crowd_deinit(&crowd);
    }
    return hth_ms_since(begin_ns);
}

static void measure(bench *b, unsigned n_rounds, unsigned n_at_once, const char *name, const char *peer,
                    hth_bound bound, double target)
{
    static hth_samples one, both;

    one.n = both.n = 0;
    (void)run(b, n_at_once, 2);
    for (unsigned i = 0; i < n_rounds; i++) {
        hth_samples_add(&one, 1e3 * REQUESTS / run(b, n_at_once, 1));
        hth_samples_add(&both, 1e3 * REQUESTS / run(b, n_at_once, 2));
    }
    hth_report_medians(&b->report, name, "requests/s", &both, peer, &one, bound, target);
}

int main(int argc, char **argv)
{
    bench b = { .n_new = 1 };
    unsigned n_rounds;
    char name[128];

    argc = hth_report_options(&b.report, argc, argv);
    if (argc != 7)
        hth_report_die(
            "usage: adapter_bench [--json|--markdown] [--verbose] MODEL ADAPTER OTHER N_PROMPT N_REPLY ROUNDS");
    b.n_prompt = strtoul(argv[4], NULL, 10);
    b.n_reply = (int32_t)strtol(argv[5], NULL, 10);
    n_rounds = (unsigned)strtoul(argv[6], NULL, 10);
    if (b.n_prompt < 1 || b.n_reply < 1 || n_rounds < 1)
        hth_report_die("N_PROMPT, N_REPLY and ROUNDS must be at least 1");
    open_model(&b, argv + 1);
    (void)snprintf(name, sizeof(name), "two adapters alternating, %zu + %d tokens", b.n_prompt, b.n_reply);
    measure(&b, n_rounds, 1, name, "one adapter", HTH_AT_LEAST, 0.9);
    (void)snprintf(name, sizeof(name), "two requests at once with an adapter each, %zu + %d tokens", b.n_prompt,
                   b.n_reply);
    measure(&b, n_rounds, 2, name, "with one adapter", HTH_NO_BOUND, 0);
    hearth_model_unref(b.model);
    hearth_runtime_close(b.runtime);
    return 0;
}
