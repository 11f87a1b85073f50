/*
 * bench_compare.h - two reports of `hearth bench` beside each other
 */
#ifndef HTH_BENCH_BENCH_COMPARE_H
#define HTH_BENCH_BENCH_COMPARE_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Add a section for each measure that both have: A, B and B / A by the rows that both have. Their facts become those of
 * the report. False: they have none in common.
 */
bool hth_bench_compare(const json_t *a, const json_t *b, json_t *report);

#endif
