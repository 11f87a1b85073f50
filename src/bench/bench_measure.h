/*
 * bench_measure.h - the measures of `hearth bench`: a model in this process, or a server
 *
 * They add sections to a report. Setting *interrupted ends them soon: HEARTH_CANCELLED.
 */
#ifndef HTH_BENCH_BENCH_MEASURE_H
#define HTH_BENCH_BENCH_MEASURE_H

#include <jansson.h>
#include <signal.h>

#include "options/bench_options.h"

/* Measure the model. Its files have been removed when it returns. */
hearth_status hth_bench_model_run(hth_bench_options *options, const volatile sig_atomic_t *interrupted, json_t *report,
                                  hearth_error *err);

/*
 * Send the load (bench_load.h) to the server and measure the replies. *n_failed_out is the number of requests without a
 * complete reply, which are not errors of the function.
 */
hearth_status hth_bench_url_run(const hth_bench_options *options, const volatile sig_atomic_t *interrupted,
                                json_t *report, size_t *n_failed_out, hearth_error *err);

#endif
