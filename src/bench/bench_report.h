/*
 * bench_report.h - the results of `hearth bench`, as one JSON object
 *
 *     { "format": "hearth-bench", "version": 1, "kind": "model", "headline": "...",
 *       "facts": { "model": "...", "machine": "...", ... },
 *       "sections": [ { "name": "prefill", "title": "...", "note": "...", "plot": "lines", "log": true,
 *                       "columns": [ { "name": "tokens", "title": "prompt", "unit": "tokens" }, ... ],
 *                       "rows": [ [512, 1843.2, null], ... ] } ] }
 *
 * The first column names a row, by a number or a text. The other columns have numbers, or null if nothing was measured.
 * Table, page and comparison are made from this object alone, so they also work on a file.
 */
#ifndef HTH_BENCH_BENCH_REPORT_H
#define HTH_BENCH_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "hearth.h"

enum { HTH_BENCH_COLUMNS_MAX = 8 };

typedef struct hth_bench_column {
    const char *name;
    const char *title;
    const char *unit;   /* "": none */
    const char *better; /* "less", "more", or NULL: neither */
    bool is_plotted;
} hth_bench_column;

typedef struct hth_bench_section {
    const char *name;
    const char *title;
    const char *note;
    const char *plot; /* "lines" over the first column, which has numbers, or "bars" for each row */
    bool is_log;      /* the scale of the values */
    hth_bench_column columns[HTH_BENCH_COLUMNS_MAX + 1]; /* up to the first one without a name */
} hth_bench_section;

/*
 * A report without sections, with the facts about this machine and program. argv is the command. NULL if out of memory.
 */
json_t *hth_bench_report_new(const char *kind, int argc, char **argv);
void hth_bench_report_add_fact(json_t *report, const char *name, const char *text);

/* Add a section without rows, and return it; it belongs to the report. NULL if out of memory. */
json_t *hth_bench_section_add(json_t *report, const hth_bench_section *section);
/* Add a row to a section: name, or number if name is NULL, and the values of the other columns; NAN: none. */
void hth_bench_row_add(json_t *section, const char *name, double number, const double *values);
/* Remove columns without values, and say so in the note. */
void hth_bench_section_tidy(json_t *section);

/*
 * By how many percent a time with the cache exceeds the faster of two runs without it. NAN if the two differ by more
 * than that, so that the number would only be noise. A run that is NAN is ignored.
 */
double hth_bench_cost(double with, const double without[2]);

/* A text; "" if the member is missing. */
const char *hth_bench_text(const json_t *object, const char *key);
/* A cell of a row; NAN: none. */
double hth_bench_cell(const json_t *row, size_t column);
/*
 * About three significant digits; integers without decimals, values below 1 with three decimals; "-" for NAN. Returns
 * text.
 */
const char *hth_bench_number(double value, char text[32]);
/* The name of a row, for display. Returns text. */
const char *hth_bench_row_name(const json_t *row, char text[64]);

/* Read a report from a file and check its form. */
hearth_status hth_bench_report_read(const char *path, json_t **out, hearth_error *err);

/*
 * Print it as tables of text, without control characters, because a report may come from a file. Columns are as wide as
 * their contents; notes and headline are wrapped at 80 bytes.
 */
void hth_bench_table_print(const json_t *report, FILE *out);

/* The page: one HTML file without scripts, which loads nothing. The caller frees it. NULL if out of memory. */
char *hth_bench_html(const json_t *report);
/* Is text the beginning of such a file? */
bool hth_bench_html_is_ours(const char *text);

/*
 * Add a section for each measure that a and b both have: A, B and B / A for the rows that both have. Their facts are
 * added to the report. False if they have nothing in common.
 */
bool hth_bench_compare(const json_t *a, const json_t *b, json_t *report);

#endif
