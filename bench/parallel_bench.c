/*
 * parallel_bench.c - tokens a second of several replies at once, against the engine's own batched benchmark
 *
 *   parallel_bench [--json|--markdown] [--verbose] MODEL N_REQUESTS N_TOKENS N_PREDICT DIRECTORY [ROUNDS [PEER_RATE]]
 *   parallel_bench ... MODEL N_REQUESTS N_TOKENS N_PREDICT DIRECTORY ROUNDS deterministic
 *
 * N_REQUESTS prompts of N_TOKENS each, without anything in common, are exact hits (known.h), so all replies begin at
 * once. Every round takes prompts that the context does not hold. The measured time is that of all replies running:
 * from the moment when each has a few tokens to the moment when the first one has its last. The context has room for
 * all of them and not much more. PEER_RATE is the engine's own rate with as many sequences of that length.
 *
 * With "deterministic", the peer is the same model without the mode, and the rounds take turns. Cold prompts of that
 * length, one after another, are compared, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crowd.h"
#include "known.h"
#include "base/measure.h"
#include "report.h"

enum { ROUNDS = 5, FLUSH_MS = 600000, N_WARM = 4, FIRST_COLD = 1500 };

typedef struct bench {
    hth_report report;
    const char *model_path;
    const char *directory;
    unsigned n_requests;
    size_t n_tokens;
    int32_t n_predict;
    unsigned n_rounds;
    double peer_rate; /* 0: none */
    bool compares;    /* two models of the runtime take turns */
    hearth_runtime *runtime;
    hearth_model *models[2]; /* [1]: deterministic, where they are compared */
    hth_known known[2];
    hearth_token *tokens; /* [n_tokens] */
} bench;

static void open_runtime(bench *b)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    size_t n_cells = b->n_requests * (b->n_tokens + (size_t)b->n_predict + 1) + HTH_BLOCK_TOKENS;
    hearth_error err = { .message = "" };

    options.ram_bytes_max = UINT64_C(2) << 30;
    options.cache_directory = b->directory;
    options.disk_free_min = 0;
    options.log = hth_report_log;
    model_options.n_ctx = (uint32_t)n_cells;
    model_options.n_parallel = b->n_requests;
    hth_report_check(hearth_runtime_open(&options, &b->runtime, &err), &err);
    for (unsigned i = 0; i < (b->compares ? 2u : 1u); i++) {
        model_options.deterministic = i == 1;
        hth_report_check(hearth_model_load(b->runtime, b->model_path, &model_options, &b->models[i], &err), &err);
        hth_report_check(hth_known_learn(b->runtime, b->models[i], &b->known[i], &err), &err);
    }
}

static void submit(bench *b, hearth_model *model, hth_crowd *crowd, unsigned prompt, int32_t n_predict)
{
    const hearth_request request = hth_known_request(b->tokens, b->n_tokens, n_predict);

    hth_known_tokens(prompt, b->tokens, b->n_tokens);
    (void)hth_crowd_submit(crowd, model, &request);
}

/* Tokens a second while all replies are under way; where they never are, of all of them from first to last. */
static double rate_of(const hth_crowd *crowd, bool *were_together)
{
    uint64_t begin = 0, end = UINT64_MAX, first = UINT64_MAX, last = 0;
    size_t n_in = 0, n_all = 0;

    for (size_t i = 0; i < crowd->n; i++) {
        const hth_member *member = &crowd->members[i];
        uint64_t warm = member->token_ns[N_WARM - 1], final = member->token_ns[member->n_tokens - 1];

        begin = warm > begin ? warm : begin;
        end = final < end ? final : end;
        first = member->token_ns[0] < first ? member->token_ns[0] : first;
        last = final > last ? final : last;
        n_all += member->n_tokens;
    }
    *were_together = begin < end;
    if (!*were_together)
        return (double)(n_all - 1) * 1e9 / (double)(last - first);
    for (size_t i = 0; i < crowd->n; i++)
        for (size_t k = 0; k < crowd->members[i].n_tokens; k++)
            n_in += crowd->members[i].token_ns[k] > begin && crowd->members[i].token_ns[k] <= end;
    return (double)n_in * 1e9 / (double)(end - begin);
}

/* One round of a model. */
static double run_round(bench *b, unsigned i_model, unsigned round, bool *were_together)
{
    unsigned first_prompt = (round + 1) * b->n_requests;
    hearth_error err = { .message = "" };
    hth_crowd crowd;
    double rate;

    hth_report_check(hearth_model_save(b->models[i_model], HEARTH_SAVE_EVICT, FLUSH_MS, &err), &err);
    for (unsigned i = 0; i < b->n_requests; i++)
        hth_report_check(
            hth_known_add(hth_runtime_cache(b->runtime), &b->known[i_model], first_prompt + i, b->n_tokens, &err),
            &err);
    hth_report_check(hearth_runtime_flush(b->runtime, FLUSH_MS, &err), &err);
    hth_crowd_init(&crowd);
    for (unsigned i = 0; i < b->n_requests; i++)
        submit(b, b->models[i_model], &crowd, first_prompt + i, b->n_predict);
    hth_crowd_wait(&crowd);
    for (size_t i = 0; i < crowd.n; i++)
        if (crowd.members[i].stats.hit != HEARTH_HIT_EXACT)
            hth_report_die("prompt %zu was no exact hit", i);
    rate = rate_of(&crowd, were_together);
    hth_crowd_deinit(&crowd);
    return rate;
}

/* Tokens a second of a cold prompt. */
static double run_cold(bench *b, unsigned i_model, unsigned round)
{
    double rate;
    hth_crowd crowd;

    hth_crowd_init(&crowd);
    submit(b, b->models[i_model], &crowd, FIRST_COLD + round, 1);
    hth_crowd_wait(&crowd);
    rate = (double)b->n_tokens * 1e3 / crowd.members[0].stats.prefill_ms;
    if (crowd.members[0].stats.cached_tokens > 0)
        hth_report_die("a cold prompt was known");
    hth_crowd_deinit(&crowd);
    return rate;
}

static void compare(bench *b)
{
    static hth_samples decoded[2], cold[2];
    bool together = true;
    char name[128];

    for (unsigned round = 0; round <= b->n_rounds; round++)
        for (unsigned i = 0; i < 2; i++) {
            double rate = run_round(b, i, round, &together);
            double cold_rate = run_cold(b, i, round);

            if (round == 0)
                continue; /* a warm-up */
            hth_samples_add(&decoded[i], rate);
            hth_samples_add(&cold[i], cold_rate);
        }
    (void)snprintf(name, sizeof(name), "deterministic, %u repl%s after %zu tokens each", b->n_requests,
                   b->n_requests == 1 ? "y" : "ies", b->n_tokens);
    hth_report_medians(&b->report, name, "tokens/s", &decoded[1], "not deterministic", &decoded[0],
                       b->n_requests == 8 ? HTH_AT_LEAST : HTH_NO_BOUND, 0.8);
    (void)snprintf(name, sizeof(name), "deterministic, a cold prompt of %zu tokens", b->n_tokens);
    hth_report_medians(&b->report, name, "tokens/s", &cold[1], "not deterministic", &cold[0], HTH_NO_BOUND, 0);
}

static void measure(bench *b)
{
    static hth_samples rates;
    bool together = true, all_together = true;
    char name[128];

    (void)run_round(b, 0, 0, &together);
    for (unsigned i = 0; i < b->n_rounds; i++) {
        hth_samples_add(&rates, run_round(b, 0, i + 1, &together));
        all_together = all_together && together;
    }
    (void)snprintf(name, sizeof(name), "decoding %u repl%s after %zu tokens each%s", b->n_requests,
                   b->n_requests == 1 ? "y" : "ies", b->n_tokens, all_together ? "" : ", one after another");
    if (b->peer_rate > 0)
        hth_report_ratio(&b->report, name, "tokens/s", hth_samples_median(&rates), "llama-batched-bench", b->peer_rate,
                         HTH_AT_LEAST, 0.98);
    else
        hth_report_number(&b->report, name, hth_samples_median(&rates), "tokens/s", HTH_NO_BOUND, 0);
    hth_report_detail(&b->report, "%.2f .. %.2f tokens/s", hth_samples_min(&rates), hth_samples_max(&rates));
}

static bool read_arguments(bench *b, int n_arguments, char **arguments)
{
    n_arguments = hth_report_options(&b->report, n_arguments, arguments);
    if (n_arguments < 6 || n_arguments > 8)
        return false;
    b->model_path = arguments[1];
    b->n_requests = (unsigned)strtoul(arguments[2], NULL, 10);
    b->n_tokens = strtoul(arguments[3], NULL, 10);
    b->n_predict = (int32_t)strtol(arguments[4], NULL, 10);
    b->directory = arguments[5];
    b->n_rounds = n_arguments > 6 ? (unsigned)strtoul(arguments[6], NULL, 10) : ROUNDS;
    b->compares = n_arguments > 7 && strcmp(arguments[7], "deterministic") == 0;
    b->peer_rate = n_arguments > 7 && !b->compares ? strtod(arguments[7], NULL) : 0;
    b->tokens = malloc((b->n_tokens + 1) * sizeof(*b->tokens));
    return b->n_requests >= 1 && b->n_requests <= HTH_CROWD_MAX && b->n_tokens > 0 &&
           b->n_tokens % HTH_BLOCK_TOKENS == 0 && b->n_predict > N_WARM && b->n_rounds > 0 && b->tokens;
}

int main(int n_arguments, char **arguments)
{
    static bench b;

    if (!read_arguments(&b, n_arguments, arguments)) {
        (void)fprintf(stderr,
                      "usage: parallel_bench [--json|--markdown] [--verbose] MODEL N_REQUESTS N_TOKENS N_PREDICT "
                      "DIRECTORY [ROUNDS [PEER_RATE | deterministic]]\n"
                      "N_REQUESTS is at most %d, N_TOKENS a multiple of 256, N_PREDICT more than %d.\n",
                      HTH_CROWD_MAX, N_WARM);
        return 2;
    }
    open_runtime(&b);
    if (b.compares)
        compare(&b);
    else
        measure(&b);
    for (unsigned i = 0; i < (b.compares ? 2u : 1u); i++)
        hearth_model_unref(b.models[i]);
    hearth_runtime_close(b.runtime);
    for (unsigned i = 0; i < (b.compares ? 2u : 1u); i++)
        hth_known_deinit(&b.known[i]);
    free(b.tokens);
    return 0;
}
