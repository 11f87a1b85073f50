/*
 * bench_html.h - a report of `hearth bench` as a page with plots
 */
#ifndef HTH_BENCH_BENCH_HTML_H
#define HTH_BENCH_BENCH_HTML_H

#include <jansson.h>
#include <stdbool.h>

/* One HTML file without scripts, which loads nothing. A new string, which the caller frees; NULL if out of memory. */
char *hth_bench_html(const json_t *report);
/* Is text the beginning of such a file? */
bool hth_bench_html_is_ours(const char *text);

#endif
