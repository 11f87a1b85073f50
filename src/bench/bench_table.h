/*
 * bench_table.h - a report of `hearth bench` as tables of text
 */
#ifndef HTH_BENCH_BENCH_TABLE_H
#define HTH_BENCH_BENCH_TABLE_H

#include <jansson.h>
#include <stdio.h>

/* Sections with at most nine columns fit into 80 characters. */
void hth_bench_table_print(const json_t *report, FILE *out);

#endif
