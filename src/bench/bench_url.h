/*
 * bench_url.h - send the load of `hearth bench --url` to a server and measure the replies
 */
#ifndef HTH_BENCH_BENCH_URL_H
#define HTH_BENCH_BENCH_URL_H

#include <jansson.h>
#include <signal.h>

#include "options/bench_options.h"

/*
 * Send the load and add the sections to the report. *n_failed_out is the number of requests without a complete reply,
 * which are not errors of the function. Setting interrupted ends it within a second: HEARTH_CANCELLED.
 */
hearth_status hth_bench_url_run(const hth_bench_options *options, const volatile sig_atomic_t *interrupted,
                                json_t *report, size_t *n_failed_out, hearth_error *err);

#endif
