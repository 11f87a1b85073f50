/*
 * report.h - results of the benchmarks, each on one line, with the target beside it
 *
 * A program prints its lines as text for people, as rows of a Markdown table (bench/cache.sh writes the head of the
 * table), or as one JSON object a line. A missed target is reported and does not fail the program.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>

#include "base/measure.h"
#include "hearth.h"

typedef enum hth_report_form { HTH_REPORT_TEXT, HTH_REPORT_MARKDOWN, HTH_REPORT_JSON } hth_report_form;

typedef struct hth_report {
    hth_report_form form;
    bool verbose; /* print details, too */
} hth_report;

/*
 * Take the report's options out of a program's arguments: --json, --markdown, --verbose. Returns the number of
 * remaining arguments, which move up.
 */
int hth_report_options(hth_report *report, int n_arguments, char **arguments);

typedef enum hth_bound { HTH_NO_BOUND, HTH_AT_MOST, HTH_AT_LEAST } hth_bound;

/* A result of own over peer. */
void hth_report_ratio(const hth_report *report, const char *name, const char *unit, double own, const char *peer_name,
                      double peer, hth_bound bound, double target);
/* The same of the medians; their ranges are a detail. */
void hth_report_medians(const hth_report *report, const char *name, const char *unit, const hth_samples *own,
                        const char *peer_name, const hth_samples *peer, hth_bound bound, double target);
/* A result that is one number. */
void hth_report_number(const hth_report *report, const char *name, double value, const char *unit, hth_bound bound,
                       double target);
/* The parts of a time, or the basis of the numbers: only with --verbose, on standard error. */
void hth_report_detail(const hth_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Report a failure on standard error, and end the program. */
void hth_report_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The same with err's message, if status is a failure. */
void hth_report_check(hearth_status status, const hearth_error *err);
/* A hearth_log_fn: warnings on standard error. */
void hth_report_log(hearth_log_level level, const char *source, const char *message, void *user_data);

#endif
