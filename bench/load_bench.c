/*
 * load_bench.c - the load of a model whose repacked weights are in a region, against a load that repacks
 *
 *   load_bench [--json|--markdown] [--verbose] MODEL CACHE_DIRECTORY REGION_DIRECTORY [ROUNDS]
 *
 * Both kinds of loads take turns in one process. The model's file is in the page cache and its fingerprint is known. A
 * round is the load and the first evaluation of 64 tokens, which touches all weights.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "hearth.h"
#include "base/measure.h"
#include "report.h"

enum { N_TOKENS = 64, ROUNDS = 9 };

typedef struct times {
    hth_samples load, first_token;
} times;

static void round_of(hearth_runtime *runtime, const char *path, const char *host_weights, times *out)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_request request = hearth_request_default();
    hearth_token tokens[N_TOKENS];
    hearth_model *model = NULL;
    const hearth_result *result = NULL;
    hearth_error err = { .message = "" };
    uint64_t begin = hth_os_monotonic_ns();

    options.n_ctx = 4096;
    options.host_weights = host_weights;
    options.keep_host_weights = true;
    hth_report_check(hearth_model_load(runtime, path, &options, &model, &err), &err);
    if (out)
        hth_samples_add(&out->load, hth_ms_since(begin));
    for (size_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (hearth_token)(3 + i * 7 % 200);
    request.tokens = tokens;
    request.n_tokens = N_TOKENS;
    request.n_predict = 1;
    request.no_cache_read = true;
    hth_report_check(hearth_complete(model, &request, &result, &err), &err);
    if (out)
        hth_samples_add(&out->first_token, hth_ms_since(begin));
    hearth_result_unref(result);
    hearth_model_unref(model);
}

int main(int n_arguments, char **arguments)
{
    static times with, without;
    hth_report report = { .form = HTH_REPORT_TEXT };
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_runtime *runtime = NULL;
    hearth_error err = { .message = "" };
    unsigned n_rounds = ROUNDS;

    n_arguments = hth_report_options(&report, n_arguments, arguments);
    if (n_arguments < 4 || n_arguments > 5) {
        (void)fprintf(stderr, "usage: load_bench [--json|--markdown] [--verbose] MODEL CACHE_DIRECTORY "
                              "REGION_DIRECTORY [ROUNDS]\n");
        return 2;
    }
    if (n_arguments > 4)
        n_rounds = (unsigned)strtoul(arguments[4], NULL, 10);
    options.cache_directory = arguments[2];
    options.log = hth_report_log;
    hth_report_check(hearth_runtime_open(&options, &runtime, &err), &err);
    round_of(runtime, arguments[1], arguments[3], NULL); /* fills the region and learns the fingerprint */
    for (unsigned i = 0; i < n_rounds; i++) {
        round_of(runtime, arguments[1], NULL, &without);
        round_of(runtime, arguments[1], arguments[3], &with);
    }
    hth_report_medians(&report, "load of a model with its repacked weights in a region", "ms", &with.load, "repacking",
                       &without.load, HTH_AT_MOST, 0.3);
    hth_report_medians(&report, "the same, to the first token of 64 new ones", "ms", &with.first_token, "repacking",
                       &without.first_token, HTH_NO_BOUND, 0);
    hearth_runtime_close(runtime);
    return 0;
}
