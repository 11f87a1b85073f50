/*
 * report.c - one line a result
 */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line. */
typedef struct measured {
    const char *name;
    const char *unit; /* of own and peer: "ms", "MB/s" */
    double own;
    const char *peer_name; /* the other side of the comparison; NULL: none, and value is own */
    double peer;
    double value;           /* compared with the target; a ratio if there is a peer */
    const char *value_unit; /* "" for a ratio */
    hth_bound bound;
    double target;
} measured;

int hth_report_options(hth_report *report, int n_arguments, char **arguments)
{
    int n_kept = 0;

    *report = (hth_report){ .form = HTH_REPORT_TEXT };
    for (int i = 0; i < n_arguments; i++) {
        if (strcmp(arguments[i], "--json") == 0)
            report->form = HTH_REPORT_JSON;
        else if (strcmp(arguments[i], "--markdown") == 0)
            report->form = HTH_REPORT_MARKDOWN;
        else if (strcmp(arguments[i], "--verbose") == 0)
            report->verbose = true;
        else
            arguments[n_kept++] = arguments[i];
    }
    return n_kept;
}

/* Three digits that matter, or more where they stand before the point. */
static const char *number(double value, char text[32])
{
    int n_decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;

    (void)snprintf(text, 32, "%.*f", n_decimals, value);
    return text;
}

static const char *bound_text(const measured *result)
{
    return result->bound == HTH_AT_MOST ? "at most" : "at least";
}

static bool is_met(const measured *result)
{
    return result->bound == HTH_NO_BOUND ||
           (result->bound == HTH_AT_MOST ? result->value <= result->target : result->value >= result->target);
}

static const char *space_before(const char *unit)
{
    return *unit ? " " : "";
}

static void print_text(const measured *result)
{
    char own[32], peer[32], value[32];

    (void)printf("%s: ", result->name);
    if (result->peer_name)
        (void)printf("%s %s; %s %s %s; ratio ", number(result->own, own), result->unit, result->peer_name,
                     number(result->peer, peer), result->unit);
    (void)printf("%s%s%s", number(result->value, value), space_before(result->value_unit), result->value_unit);
    if (result->bound != HTH_NO_BOUND)
        (void)printf(" (target: %s %g%s%s)%s", bound_text(result), result->target, space_before(result->value_unit),
                     result->value_unit, is_met(result) ? "" : " FALLS SHORT");
    (void)printf("\n");
}

static void print_markdown(const measured *result)
{
    char own[32], peer[32], value[32];

    (void)printf("| %s | ", result->name);
    if (result->peer_name)
        (void)printf("%s %s | %s: %s %s | ", number(result->own, own), result->unit, result->peer_name,
                     number(result->peer, peer), result->unit);
    else
        (void)printf("| | ");
    (void)printf("**%s%s%s** | ", number(result->value, value), space_before(result->value_unit), result->value_unit);
    if (result->bound != HTH_NO_BOUND)
        (void)printf("%s %g%s%s | %s |\n", bound_text(result), result->target, space_before(result->value_unit),
                     result->value_unit, is_met(result) ? "yes" : "**no**");
    else
        (void)printf("| |\n");
}

/* Names are our own: no character in them needs an escape. */
static void print_json(const measured *result)
{
    (void)printf("{\"name\": \"%s\"", result->name);
    if (result->peer_name)
        (void)printf(", \"own\": %.6g, \"peer_name\": \"%s\", \"peer\": %.6g, \"unit\": \"%s\"", result->own,
                     result->peer_name, result->peer, result->unit);
    (void)printf(", \"value\": %.6g, \"value_unit\": \"%s\"", result->value, result->value_unit);
    if (result->bound != HTH_NO_BOUND)
        (void)printf(", \"bound\": \"%s\", \"target\": %g, \"met\": %s", bound_text(result), result->target,
                     is_met(result) ? "true" : "false");
    (void)printf("}\n");
}

static void print_result(const hth_report *report, const measured *result)
{
    switch (report->form) {
    case HTH_REPORT_TEXT: print_text(result); break;
    case HTH_REPORT_MARKDOWN: print_markdown(result); break;
    case HTH_REPORT_JSON: print_json(result); break;
    }
    (void)fflush(stdout); /* what was measured is seen even when the rest fails */
}

void hth_report_ratio(const hth_report *report, const char *name, const char *unit, double own, const char *peer_name,
                      double peer, hth_bound bound, double target)
{
    print_result(report, &(measured){ .name = name,
                                      .unit = unit,
                                      .own = own,
                                      .peer_name = peer_name,
                                      .peer = peer,
                                      .value = peer > 0 ? own / peer : 0,
                                      .value_unit = "",
                                      .bound = bound,
                                      .target = target });
}

void hth_report_medians(const hth_report *report, const char *name, const char *unit, const hth_samples *own,
                        const char *peer_name, const hth_samples *peer, hth_bound bound, double target)
{
    hth_report_ratio(report, name, unit, hth_samples_median(own), peer_name, hth_samples_median(peer), bound, target);
    hth_report_detail(report, "%.2f .. %.2f %s, %s %.2f .. %.2f %s", hth_samples_min(own), hth_samples_max(own), unit,
                      peer_name, hth_samples_min(peer), hth_samples_max(peer), unit);
}

void hth_report_number(const hth_report *report, const char *name, double value, const char *unit, hth_bound bound,
                       double target)
{
    print_result(report, &(measured){ .name = name,
                                      .unit = unit,
                                      .own = value,
                                      .value = value,
                                      .value_unit = unit,
                                      .bound = bound,
                                      .target = target });
}

void hth_report_detail(const hth_report *report, const char *format, ...)
{
    va_list arguments;

    if (!report->verbose)
        return;
    va_start(arguments, format);
    (void)fputs("    ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
}

void hth_report_die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)fputs("bench: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void hth_report_check(hearth_status status, const hearth_error *err)
{
    if (status != HEARTH_OK)
        hth_report_die("%s", err->message);
}

void hth_report_log(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)level, (void)source, (void)user_data;
    (void)fprintf(stderr, "bench: %s\n", message);
}
