/*
 * report_page.c - print the page of a report of `hearth bench --json`, or of one in this form (draw.mjs)
 *
 *   report_page FILE
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench_report.h"

int main(int n_arguments, char **arguments)
{
    hearth_error err = { .message = "no file is named" };
    json_t *report = NULL;
    char *page = NULL;
    bool is_printed;

    if (n_arguments == 2 && hth_bench_report_read(arguments[1], &report, &err) == HEARTH_OK)
        page = hth_bench_html(report);
    is_printed = page && fputs(page, stdout) >= 0 && fflush(stdout) == 0;
    if (!is_printed)
        (void)fprintf(stderr, "report_page: %s\n", report ? "the page cannot be printed" : err.message);
    free(page);
    json_decref(report);
    return is_printed ? 0 : 1;
}
