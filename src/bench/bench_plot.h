/*
 * bench_plot.h - a section of a report as a plot, an <svg> element of a page; and text in a page
 */
#ifndef HTH_BENCH_BENCH_PLOT_H
#define HTH_BENCH_BENCH_PLOT_H

#include <jansson.h>

#include "api/buffer.h"

/* Append text with the characters of HTML escaped. */
void hth_bench_escape_add(hth_buffer *out, const char *text);

/*
 * Append the plot of the plotted columns; nothing if there are no values. The page defines the colors of the classes.
 */
void hth_bench_plot_add(hth_buffer *out, const json_t *section);

/*
 * The positions of ticks on an axis from low to high, low < high: on a logarithmic one (low > 0) powers of ten, with
 * twice and five times these if they are few; otherwise about five round numbers. Returns their number, at most n_max.
 */
size_t hth_bench_ticks(double low, double high, bool is_log, double *out, size_t n_max);

#endif
