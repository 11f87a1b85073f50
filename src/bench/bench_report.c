#include "bench/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "api/buffer.h"
#include "base/os.h"
#include "base/status.h"
#include "console/instant.h"
#include "console/units.h"
#include "engine/backend.h"
#include "http/fetch.h"

static const char format[] = "hearth-bench";
enum { VERSION = 1, COLUMNS_MAX = 32, ROWS_MAX = 1000, SECTIONS_MAX = 1000 };

/* ---- facts ---- */

void hth_bench_report_add_fact(json_t *report, const char *name, const char *text)
{
    json_object_set_new(json_object_get(report, "facts"), name, json_string(text));
}

/* The processor's name; "" if the system does not list it in this file. */
static void read_processor(char *out, size_t capacity)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];

    out[0] = '\0';
    while (file && out[0] == '\0' && fgets(line, sizeof(line), file)) {
        const char *value = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && value) {
            value += 1 + strspn(value + 1, " ");
            (void)snprintf(out, capacity, "%.*s, ", (int)strcspn(value, "\n"), value);
        }
    }
    if (file)
        (void)fclose(file); /* it was only read */
}

static void add_machine(json_t *report)
{
    struct utsname name = { .sysname = "" };
    char processor[256], memory[32], text[1024];

    (void)uname(&name); /* empty names otherwise */
    read_processor(processor, sizeof(processor));
    (void)snprintf(text, sizeof(text), "%s%u CPUs, %s of memory, %s %s", processor, hth_os_n_cpus(),
                   hth_size_text(hth_os_memory_bytes(), memory), name.sysname, name.machine);
    hth_bench_report_add_fact(report, "machine", text);
}

static void add_versions(json_t *report)
{
    const hth_backend *backend = NULL;
    char text[256];

    if (hth_backend_llama(NULL, &backend, NULL) == HEARTH_OK)
        (void)snprintf(text, sizeof(text), "%s, engine %s", HEARTH_VERSION, backend->build());
    else
        (void)snprintf(text, sizeof(text), "%s", HEARTH_VERSION);
    hth_bench_report_add_fact(report, "hearth", text);
}

/* Is it this option, or an abbreviation that the option parser accepts? *n_out is its length, up to "=". */
static bool is_option(const char *argument, const char *option, size_t *n_out)
{
    *n_out = strcspn(argument, "=");
    return *n_out > 2 && strncmp(argument, option, *n_out) == 0;
}

/* The command as typed, without its secrets: the value of --api-key, and the name and password in --url. */
static void add_command(json_t *report, int argc, char **argv)
{
    hth_buffer text = { .text = NULL };
    bool is_secret = false, is_url = false;
    char shown[HTH_FETCH_URL_BYTES];
    size_t n;

    hth_buffer_add_text(&text, "hearth");
    for (int i = 0; i < argc; i++) {
        const bool is_value = is_secret || is_url;

        hth_buffer_add_text(&text, " ");
        if (is_value) {
            hth_buffer_add_text(&text, is_secret ? "..." : hth_fetch_shown(argv[i], shown));
            is_secret = is_url = false;
        } else if (is_option(argv[i], "--api-key", &n)) {
            hth_buffer_add_text(&text, argv[i][n] ? "--api-key=..." : argv[i]);
            is_secret = argv[i][n] == '\0';
        } else if (is_option(argv[i], "--url", &n)) {
            hth_buffer_add_text(&text, argv[i][n] ? "--url=" : argv[i]);
            hth_buffer_add_text(&text, argv[i][n] ? hth_fetch_shown(argv[i] + n + 1, shown) : "");
            is_url = argv[i][n] == '\0';
        } else {
            hth_buffer_add_text(&text, argv[i]);
        }
    }
    hth_bench_report_add_fact(report, "command", hth_buffer_text(&text));
    hth_buffer_deinit(&text);
}

json_t *hth_bench_report_new(const char *kind, int argc, char **argv)
{
    json_t *report = json_pack("{s:s, s:i, s:s, s:{}, s:[]}", "format", format, "version", VERSION, "kind", kind,
                               "facts", "sections");
    char date[HTH_INSTANT_BYTES];

    if (!report)
        return NULL;
    add_machine(report);
    add_versions(report);
    hth_instant_write((int64_t)hth_os_unix_seconds(), date);
    hth_bench_report_add_fact(report, "date", date);
    add_command(report, argc, argv);
    return report;
}

/* ---- sections ---- */

json_t *hth_bench_section_add(json_t *report, const hth_bench_section *s)
{
    json_t *section = json_pack("{s:s, s:s, s:s, s:s, s:b, s:[], s:[]}", "name", s->name, "title", s->title, "note",
                                s->note, "plot", s->plot, "log", (int)s->is_log, "columns", "rows");
    json_t *columns = json_object_get(section, "columns");

    for (const hth_bench_column *c = s->columns; c->name; c++)
        json_array_append_new(columns, json_pack("{s:s, s:s, s:s, s:s*, s:b}", "name", c->name, "title", c->title,
                                                 "unit", c->unit, "better", c->better, "plotted", (int)c->is_plotted));
    if (json_array_append_new(json_object_get(report, "sections"), section) != 0)
        return NULL;
    return section;
}

void hth_bench_row_add(json_t *section, const char *name, double number, const double *values)
{
    const size_t n_columns = json_array_size(json_object_get(section, "columns"));
    json_t *row = json_array();

    json_array_append_new(row, name ? json_string(name) : json_real(number));
    for (size_t i = 0; i + 1 < n_columns; i++)
        json_array_append_new(row, isfinite(values[i]) ? json_real(values[i]) : json_null());
    json_array_append_new(json_object_get(section, "rows"), row);
}

static bool has_value(const json_t *rows, size_t column)
{
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        if (json_is_number(json_array_get(row, column)))
            return true;
    }
    return false;
}

void hth_bench_section_tidy(json_t *section)
{
    json_t *columns = json_object_get(section, "columns"), *rows = json_object_get(section, "rows"), *row;
    char note[512];
    size_t i;

    (void)snprintf(note, sizeof(note), "%s", hth_bench_text(section, "note"));
    for (size_t column = json_array_size(columns); column-- > 1;) {
        if (has_value(rows, column))
            continue;
        (void)snprintf(note + strlen(note), sizeof(note) - strlen(note), " Not measured here: %s.",
                       hth_bench_text(json_array_get(columns, column), "title"));
        json_array_remove(columns, column);
        json_array_foreach(rows, i, row)
        {
            json_array_remove(row, column);
        }
    }
    json_object_set_new(section, "note", json_string(note));
}

/* ---- reading ---- */

const char *hth_bench_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

double hth_bench_cell(const json_t *row, size_t column)
{
    const json_t *cell = json_array_get(row, column);

    return json_is_number(cell) ? json_number_value(cell) : NAN;
}

double hth_bench_cost(double with, const double without[2])
{
    const double best = fmin(without[0], without[1]), noise = fabs(without[0] - without[1]);

    return fabs(with - best) < noise ? NAN : 100 * (with / best - 1);
}

const char *hth_bench_number(double value, char text[32])
{
    const double size = fabs(value);
    const int n_decimals = size >= 100 || size == floor(size) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;

    if (isfinite(value))
        (void)snprintf(text, 32, size < 1e12 ? "%.*f" : "%.*e", n_decimals, value);
    else
        (void)snprintf(text, 32, "-");
    return text;
}

const char *hth_bench_row_name(const json_t *row, char text[64])
{
    const json_t *name = json_array_get(row, 0);

    if (json_is_string(name))
        (void)snprintf(text, 64, "%s", json_string_value(name));
    else
        (void)snprintf(text, 64, "%.12g", json_number_value(name));
    return text;
}

static bool is_section(const json_t *section)
{
    const json_t *columns = json_object_get(section, "columns"), *rows = json_object_get(section, "rows");
    const size_t n_columns = json_array_size(columns);
    bool ok = n_columns > 1 && n_columns <= COLUMNS_MAX && json_is_array(rows) && json_array_size(rows) <= ROWS_MAX;
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        const json_t *name = json_array_get(row, 0);

        ok = ok && json_array_size(row) == n_columns && (json_is_string(name) || json_is_number(name));
    }
    return ok;
}

hearth_status hth_bench_report_read(const char *path, json_t **out, hearth_error *err)
{
    json_error_t where = { .text = "" };
    json_t *report = json_load_file(path, 0, &where), *sections = json_object_get(report, "sections"), *section;
    bool ok = strcmp(hth_bench_text(report, "format"), format) == 0 &&
              json_integer_value(json_object_get(report, "version")) == VERSION && json_is_array(sections) &&
              json_array_size(sections) <= SECTIONS_MAX;
    size_t i;

    if (!report)
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is no JSON: %s; give a file that 'hearth bench --json' wrote", path,
                        where.text);
    json_array_foreach(sections, i, section)
    {
        ok = ok && is_section(section);
    }
    if (!ok) {
        json_decref(report);
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is no report of this version of 'hearth bench --json'", path);
    }
    *out = report;
    return HEARTH_OK;
}
