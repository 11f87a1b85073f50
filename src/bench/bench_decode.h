/*
 * bench_decode.h - `hearth bench`: tokens per second of several replies at once
 */
#ifndef HTH_BENCH_BENCH_DECODE_H
#define HTH_BENCH_BENCH_DECODE_H

#include "bench/bench_run.h"

/*
 * Generate n replies at once, for at most ms milliseconds. *rate_out is the total tokens per second, from when each has
 * a few tokens until the first one ends; NAN if that point was not reached.
 */
hearth_status hth_bench_decode(hth_bench_run *run, uint32_t n, double ms, double *rate_out, hearth_error *err);

#endif
