/*
 * bench_compare.h - compares two reports of `hearth bench`
 */
#ifndef HTH_BENCH_BENCH_COMPARE_H
#define HTH_BENCH_BENCH_COMPARE_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Add a section for each measure that both have: A, B and B / A for the rows that both have. Their facts are added to
 * the report. False if they have nothing in common.
 */
bool hth_bench_compare(const json_t *a, const json_t *b, json_t *report);

#endif
