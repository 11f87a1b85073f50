/*
 * bench_command.c - `hearth bench`: measure, or read two reports; then print and write the files
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "base/whole_file.h"
#include "bench/bench_measure.h"
#include "bench/bench_report.h"
#include "console/interrupt.h"
#include "console/output.h"
#include "http/fetch.h"
#include "options/commands.h"
#include "options/model_source.h"

enum { ARGUMENTS_MAX = 256, PAGE_NAME_BYTES = 160 };

static volatile sig_atomic_t interrupted; /* set on the thread that waits for signals */

static void interrupt(void *user_data)
{
    (void)user_data;
    __atomic_store_n(&interrupted, 1, __ATOMIC_RELAXED);
}

static hearth_status measure_server(const hth_bench_options *options, json_t *report, size_t *n_failed_out,
                                    hearth_error *err)
{
    if (!hth_interrupt_watch(interrupt, NULL))
        return hth_fail(err, HEARTH_FAILED, "no thread can be started");
    return hth_bench_url_run(options, &interrupted, report, n_failed_out, err);
}

static hearth_status measure_model(hth_bench_options *options, json_t *report, hearth_error *err)
{
    static char path[PATH_MAX]; /* lives as long as the options */
    /* Before signals are caught: an interrupted download needs no cleanup. */
    hearth_status status = hth_model_source_find(options->arguments[0], true, options->quiet, path, err);

    if (status != HEARTH_OK)
        return status;
    options->setup.path = path;
    if (!hth_interrupt_watch(interrupt, NULL))
        return hth_fail(err, HEARTH_FAILED, "no thread can be started");
    return hth_bench_model_run(options, &interrupted, report, err);
}

static hearth_status compare(const hth_bench_options *options, json_t *report, hearth_error *err)
{
    json_t *a = NULL, *b = NULL;
    hearth_status status = hth_bench_report_read(options->arguments[0], &a, err);

    if (status == HEARTH_OK)
        status = hth_bench_report_read(options->arguments[1], &b, err);
    if (status == HEARTH_OK && !hth_bench_compare(a, b, report))
        status = hth_fail(err, HEARTH_UNSUPPORTED, "'%s' and '%s' have no measure in common", options->arguments[0],
                          options->arguments[1]);
    json_decref(a);
    json_decref(b);
    return status;
}

/* Takes over the text. */
static hearth_status write_file(const char *path, char *text, hearth_error *err)
{
    hth_whole_file *file = NULL;
    hearth_status status;

    if (!text)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to write '%s'", path);
    status = hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_REPLACE, &file, err);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, text, strlen(text), err);
    status = hth_whole_file_end(file, status, err);
    free(text);
    return status;
}

/* May the default page be written: is the name unused, or is the file such a page? */
static bool is_free(const char *path)
{
    char head[4096] = "";
    /* Without O_NONBLOCK, opening a FIFO would wait for a writer. */
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat about;
    ssize_t n = -1;

    if (fd < 0)
        return errno == ENOENT;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        n = read(fd, head, sizeof(head) - 1);
    (void)close(fd); /* it was only read */
    return n >= 0 && hth_bench_html_is_ours(head);
}

/*
 * The default name of the page. A server's has its host and port, with "-" in place of characters other than letters,
 * digits, "." and "_", so that the pages of servers and models do not collide.
 */
static void name_page(const hth_bench_options *options, char out[PAGE_NAME_BYTES])
{
    const size_t n_most = PAGE_NAME_BYTES - sizeof(HTH_BENCH_PAGE_END);
    char shown[HTH_FETCH_URL_BYTES];
    const char *at = options->url ? hth_fetch_shown(options->url, shown) : "", *slashes = strstr(at, "://");
    size_t n = sizeof(HTH_BENCH_PAGE_BEGIN) - 1;
    bool is_apart = true;

    memcpy(out, HTH_BENCH_PAGE_BEGIN, n);
    at = slashes == at + strcspn(at, ":/?#") ? slashes + 3 : at;
    for (; *at && !strchr("/?#", *at) && n + 2 <= n_most; at++) {
        if (!isalnum((unsigned char)*at) && *at != '.' && *at != '_') {
            is_apart = true;
            continue;
        }
        if (is_apart)
            out[n++] = '-';
        out[n++] = *at;
        is_apart = false;
    }
    memcpy(out + n, HTH_BENCH_PAGE_END, sizeof(HTH_BENCH_PAGE_END));
}

/* The page was not requested, so failing to write it does not fail the command. */
static void write_page(const hth_bench_options *options, const json_t *report)
{
    hearth_error err = { .message = "another file has this name" };
    char page[PAGE_NAME_BYTES];

    name_page(options, page);
    if (is_free(page) && write_file(page, hth_bench_html(report), &err) == HEARTH_OK) {
        if (!options->quiet)
            (void)fprintf(stderr, "hearth: the page %s has these numbers as plots; open it in a browser\n", page);
    } else {
        (void)fprintf(stderr, "hearth: warning: %s is not written: %s; --html FILE names another\n", page, err.message);
    }
}

static hearth_status write_results(const hth_bench_options *options, const json_t *report, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    hth_bench_table_print(report, stdout);
    (void)fflush(stdout); /* before messages; failures are reported at the end */
    if (options->json_file)
        status = write_file(options->json_file, json_dumps(report, JSON_INDENT(2) | JSON_REAL_PRECISION(6)), err);
    if (status == HEARTH_OK && options->html_file)
        status = write_file(options->html_file, hth_bench_html(report), err);
    else if (status == HEARTH_OK && !options->no_html && !options->compares)
        write_page(options, report);
    return status;
}

int hth_command_bench(int argc, char **argv)
{
    static char *typed[ARGUMENTS_MAX]; /* a copy, because the parser reorders argv */
    const int n_typed = argc < ARGUMENTS_MAX ? argc : ARGUMENTS_MAX;
    static hth_bench_options options;
    hearth_error err = { .message = "" };
    hearth_status status;
    json_t *report;
    size_t n_failed = 0; /* requests to a server */
    int exit_code;

    memcpy(typed, argv, (size_t)n_typed * sizeof(typed[0]));
    if (!hth_bench_options_parse(argc, argv, &options, &exit_code))
        return exit_code;
    report = hth_bench_report_new(options.compares ? "comparison" : options.url ? "server" : "model", n_typed, typed);
    if (!report) {
        (void)fputs("hearth: no memory\n", stderr);
        return HTH_EXIT_FAILED;
    }
    if (options.compares)
        status = compare(&options, report, &err);
    else if (options.url)
        status = measure_server(&options, report, &n_failed, &err);
    else
        status = measure_model(&options, report, &err);
    if (status == HEARTH_OK)
        status = write_results(&options, report, &err);
    json_decref(report);
    if (__atomic_load_n(&interrupted, __ATOMIC_RELAXED))
        return HTH_EXIT_INTERRUPTED;
    if (status != HEARTH_OK)
        hth_say_error(&err);
    if (n_failed > 0)
        (void)fprintf(stderr, "hearth: %zu requests had no whole reply; the report has the first error\n", n_failed);
    return hth_output_end(status == HEARTH_OK && n_failed == 0 ? HTH_EXIT_OK : HTH_EXIT_FAILED);
}
