/*
 * bench_plot.h - a section of a report as a picture, an element <svg> of a page
 */
#ifndef HTH_BENCH_BENCH_PLOT_H
#define HTH_BENCH_BENCH_PLOT_H

#include <jansson.h>

#include "api/buffer.h"

/*
 * Append the picture of the plotted columns; nothing where there is no value. The page gives the classes their colours.
 */
void hth_bench_plot_add(hth_buffer *out, const json_t *section);

/*
 * The places of ticks on an axis from low to high, low < high: on a logarithmic one (low > 0) powers of ten, with twice
 * and five times these where they are few; otherwise five or so round numbers. Returns how many, at most n_max.
 */
size_t hth_bench_ticks(double low, double high, bool is_log, double *out, size_t n_max);

#endif
