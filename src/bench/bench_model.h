/*
 * bench_model.h - the measures of `hearth bench MODEL`, in this process
 */
#ifndef HTH_BENCH_BENCH_MODEL_H
#define HTH_BENCH_BENCH_MODEL_H

#include <jansson.h>
#include <stdatomic.h>

#include "options/bench_options.h"

/*
 * Measure and add the sections to the report. Setting interrupted ends it soon: HEARTH_CANCELLED. Its files have been
 * removed when it returns.
 */
hearth_status hth_bench_model_run(hth_bench_options *options, atomic_bool *interrupted, json_t *report,
                                  hearth_error *err);

#endif
