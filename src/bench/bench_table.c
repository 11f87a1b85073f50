/*
 * bench_table.c - a report as tables of text
 */
#include <string.h>

#include "base/controls.h"
#include "bench/bench_report.h"

enum { LINE_BYTES = 80 };

/* A failure to write is reported by hth_output_end. */
static void print_text(const char *text, size_t n, FILE *out)
{
    (void)hth_controls_leave_out(text, n, out);
}

/* Print a text in a column, aligned to its right end. */
static void print_cell(int width, const char *text, FILE *out)
{
    const int n = (int)strlen(text);

    (void)fprintf(out, "  %*s", n < width ? width - n : 0, "");
    print_text(text, (size_t)n, out);
}

/*
 * Print first and then text, wrapped between words at LINE_BYTES bytes; a longer word gets a line of its own. Further
 * lines are indented to the width of first.
 */
static void print_wrapped(const char *first, const char *text, FILE *out)
{
    const size_t indent = strlen(first);
    size_t at = indent;

    print_text(first, indent, out);
    while (*(text += strspn(text, " "))) {
        const size_t n = strcspn(text, " ");

        if (at > indent && at + 1 + n > LINE_BYTES) {
            (void)fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        }
        if (at > indent) {
            (void)fputc(' ', out);
            at++;
        }
        print_text(text, n, out);
        at += n;
        text += n;
    }
    (void)fputc('\n', out);
}

static const char *cell_text(const json_t *row, size_t column, char text[64])
{
    return column == 0 ? hth_bench_row_name(row, text) : hth_bench_number(hth_bench_cell(row, column), text);
}

static int width_of(const json_t *section, size_t column)
{
    const json_t *head = json_array_get(json_object_get(section, "columns"), column);
    size_t width = strlen(hth_bench_text(head, "title")), i;
    const size_t n_unit = strlen(hth_bench_text(head, "unit"));
    json_t *row;
    char text[64];

    width = n_unit > width ? n_unit : width;
    json_array_foreach(json_object_get(section, "rows"), i, row)
    {
        const size_t n = strlen(cell_text(row, column, text));

        width = n > width ? n : width;
    }
    return (int)width;
}

static void print_head(const json_t *section, const char *key, FILE *out)
{
    const json_t *columns = json_object_get(section, "columns");

    for (size_t i = 0; i < json_array_size(columns); i++)
        print_cell(width_of(section, i), hth_bench_text(json_array_get(columns, i), key), out);
    (void)fputc('\n', out);
}

static void print_section(const json_t *section, FILE *out)
{
    size_t i;
    json_t *row;
    char text[64];

    (void)fputc('\n', out);
    print_text(hth_bench_text(section, "title"), strlen(hth_bench_text(section, "title")), out);
    (void)fputc('\n', out);
    print_head(section, "title", out);
    print_head(section, "unit", out);
    json_array_foreach(json_object_get(section, "rows"), i, row)
    {
        for (size_t k = 0; k < json_array_size(row); k++)
            print_cell(width_of(section, k), cell_text(row, k, text), out);
        (void)fputc('\n', out);
    }
    if (*hth_bench_text(section, "note"))
        print_wrapped("  ", hth_bench_text(section, "note"), out);
}

void hth_bench_table_print(const json_t *report, FILE *out)
{
    json_t *value, *section;
    const char *name;
    char label[32]; /* a longer name of a fact is cut */
    size_t i, n_label = 8;

    json_object_foreach(json_object_get(report, "facts"), name, value)
    {
        n_label = strlen(name) > n_label ? strlen(name) : n_label;
    }
    json_object_foreach(json_object_get(report, "facts"), name, value)
    {
        (void)snprintf(label, sizeof(label), "%-*s ", (int)n_label, name);
        print_wrapped(label, json_is_string(value) ? json_string_value(value) : "", out);
    }
    json_array_foreach(json_object_get(report, "sections"), i, section)
    {
        print_section(section, out);
    }
    if (*hth_bench_text(report, "headline")) {
        (void)fputc('\n', out);
        print_wrapped("", hth_bench_text(report, "headline"), out);
    }
}
