/*
 * bench_decode.h - `hearth bench`: tokens a second of several replies at once
 */
#ifndef HTH_BENCH_BENCH_DECODE_H
#define HTH_BENCH_BENCH_DECODE_H

#include "bench/bench_run.h"

/*
 * Generate n replies at once, for at most ms milliseconds. *rate_out: tokens a second of all of them together, from the
 * moment when each has a few tokens until the first one ends; NAN: that moment did not come.
 */
hearth_status hth_bench_decode(hth_bench_run *run, uint32_t n, double ms, double *rate_out, hearth_error *err);

#endif
