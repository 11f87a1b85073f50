/*
 * draft_bench.c - tokens a second with drafts, against the same reply without
 *
 *   draft_bench [--json|--markdown] [--verbose] MODEL N_PREDICT [ROUNDS [DRAFT_MODEL]]
 *
 * A grammar forces the reply to be a text that is known beforehand, so any model writes it, with drafts and without.
 * The prompt is a file of lines. There are four replies:
 *
 *   quote   the file as it is: it repeats itself
 *   edit    the file with a change in every third line
 *   words   a few words in random order: repetitions are frequent, and mean nothing
 *   random  random tokens: nothing repeats itself
 *
 * With a draft model there are two replies: one that the draft model drew, so that all its guesses are right, and
 * random tokens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/draw.h"
#include "base/measure.h"
#include "report.h"

enum {
    ROUNDS = 5,
    LINE = 12,
    CHANGED_LINES = 3,
    WORDS = 12,
    FIRST_TOKEN = 300,
    KINDS = 1500,
    TOKEN_TEXT = 16,
    SEED = 1
};

typedef struct bench {
    hth_report report;
    hearth_runtime *runtime;
    hearth_model *model;
    size_t n_tokens; /* of prompt and reply each */
    unsigned n_rounds;
    hearth_token *prompt, *reply;
    char *grammar;
    float temperature;
} bench;

static hearth_token token_of(uint64_t seed, size_t i, uint32_t kinds)
{
    return FIRST_TOKEN + (hearth_token)(hth_draw_uniform(seed, i) * kinds);
}

static void write_edit(bench *b)
{
    for (size_t i = 0; i < b->n_tokens; i++) {
        bool is_changed = i / LINE % CHANGED_LINES == 0 && i % LINE == LINE / 2;

        b->reply[i] = is_changed ? token_of(2, i, KINDS) : b->prompt[i];
    }
}

static void write_random(bench *b, uint32_t kinds)
{
    for (size_t i = 0; i < b->n_tokens; i++)
        b->reply[i] = token_of(3, i, kinds);
}

/* Tokens a second of the reply. */
static double measure_reply(bench *b, int32_t draft_max)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_error err = { .message = "" };
    const hearth_result *result;
    double rate;
    char *at = b->grammar;

    at += sprintf(at, "root ::=");
    for (size_t i = 0; i < b->n_tokens; i++)
        at += sprintf(at, " <[%d]>", b->reply[i]);
    sampling.grammar = b->grammar;
    sampling.temperature = b->temperature;
    sampling.seed = SEED;
    request.tokens = b->prompt;
    request.n_tokens = b->n_tokens;
    request.n_predict = (int32_t)b->n_tokens;
    request.sampling = &sampling;
    request.ignore_eos = true;
    request.draft_max = draft_max;
    hth_report_check(hearth_complete(b->model, &request, &result, &err), &err);
    if (result->stats->completion_tokens != b->n_tokens ||
        memcmp(result->tokens, b->reply, b->n_tokens * sizeof(*b->reply)) != 0)
        hth_report_die("the reply is another than the forced one");
    rate = result->stats->decode_tps;
    if (draft_max > 0)
        hth_report_detail(&b->report, "%.2f tokens/s in %u evaluations, %u of %u tokens of drafts accepted", rate,
                          result->stats->n_decode_evaluations, result->stats->draft_accepted_tokens,
                          result->stats->draft_tokens);
    hearth_result_unref(result);
    return rate;
}

static void measure(bench *b, const char *what, double target)
{
    static hth_samples with, without;
    char name[96];

    with.n = without.n = 0;
    for (unsigned i = 0; i < b->n_rounds; i++) {
        double plain = measure_reply(b, 0), drafted = measure_reply(b, HEARTH_DRAFT_MAX);

        hth_samples_add(&without, plain);
        hth_samples_add(&with, drafted);
    }
    (void)snprintf(name, sizeof(name), "%zu tokens with drafts: %s", b->n_tokens, what);
    hth_report_medians(&b->report, name, "tokens/s", &with, "without", &without, HTH_AT_LEAST, target);
}

/* The reply that a model draws. */
static void draw_reply(bench *b, const char *path, const hearth_model_options *options)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_error err = { .message = "" };
    const hearth_result *result;
    hearth_model *model;

    sampling.temperature = b->temperature;
    sampling.seed = SEED;
    request.tokens = b->prompt;
    request.n_tokens = b->n_tokens;
    request.n_predict = (int32_t)b->n_tokens;
    request.sampling = &sampling;
    request.ignore_eos = true;
    hth_report_check(hearth_model_load(b->runtime, path, options, &model, &err), &err);
    hth_report_check(hearth_complete(model, &request, &result, &err), &err);
    memcpy(b->reply, result->tokens, b->n_tokens * sizeof(*b->reply));
    hth_report_detail(&b->report, "the draft model alone: %.2f tokens/s", result->stats->decode_tps);
    hearth_result_unref(result);
    hearth_model_unref(model);
}

static void measure_text(bench *b)
{
    memcpy(b->reply, b->prompt, b->n_tokens * sizeof(*b->reply));
    measure(b, "a file as it is", 1.8);
    write_edit(b);
    measure(b, "a file with changes", 1.8);
    write_random(b, WORDS);
    measure(b, "a few words in random order", 0.97);
    write_random(b, KINDS);
    measure(b, "random tokens", 0.97);
}

static void measure_draft_model(bench *b)
{
    measure(b, "a reply that the draft model knows", 1.0);
    write_random(b, KINDS);
    measure(b, "random tokens, with a draft model", 0.97);
}

int main(int n_arguments, char **arguments)
{
    static bench b;
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hearth_error err = { .message = "" };

    n_arguments = hth_report_options(&b.report, n_arguments, arguments);
    if (n_arguments < 3 || n_arguments > 5 || strtoul(arguments[2], NULL, 10) < 2) {
        (void)fprintf(stderr,
                      "usage: draft_bench [--json|--markdown] [--verbose] MODEL N_PREDICT [ROUNDS [DRAFT_MODEL]]\n");
        return 2;
    }
    b.n_tokens = strtoul(arguments[2], NULL, 10);
    b.n_rounds = n_arguments > 3 ? (unsigned)strtoul(arguments[3], NULL, 10) : ROUNDS;
    b.prompt = calloc(b.n_tokens, sizeof(*b.prompt));
    b.reply = calloc(b.n_tokens, sizeof(*b.reply));
    b.grammar = malloc(b.n_tokens * TOKEN_TEXT + TOKEN_TEXT);
    if (!b.prompt || !b.reply || !b.grammar)
        hth_report_die("no memory");
    for (size_t i = 0; i < b.n_tokens; i++)
        b.prompt[i] = token_of(1, i, KINDS);
    options.cache_disabled = true;
    options.log = hth_report_log;
    model_options.n_ctx = (uint32_t)b.n_tokens * 2 + 1;
    model_options.n_parallel = 1;
    hth_report_check(hearth_runtime_open(&options, &b.runtime, &err), &err);
    if (n_arguments > 4) {
        b.temperature = 1;
        draw_reply(&b, arguments[4], &model_options);
        model_options.draft_model = arguments[4];
    }
    hth_report_check(hearth_model_load(b.runtime, arguments[1], &model_options, &b.model, &err), &err);
    if (n_arguments > 4)
        measure_draft_model(&b);
    else
        measure_text(&b);
    hearth_model_unref(b.model);
    hearth_runtime_close(b.runtime);
    free(b.prompt);
    free(b.reply);
    free(b.grammar);
    return 0;
}
