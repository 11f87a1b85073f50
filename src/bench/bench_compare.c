/*
 * bench_compare.c - compares two reports
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench_report.h"

static void add_facts(json_t *report, const char *letter, const json_t *of)
{
    static const char *const names[] = { "model", "server", "machine", "hearth", "date" };
    const json_t *facts = json_object_get(of, "facts");
    char name[32];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s %s", letter, names[i]);
        if (*hth_bench_text(facts, names[i]))
            hth_bench_report_add_fact(report, name, hth_bench_text(facts, names[i]));
    }
}

/* The element with this name in an array of objects; *index_out is its index. */
static const json_t *find_named(const json_t *array, const char *name, size_t *index_out)
{
    size_t i;
    json_t *object;

    json_array_foreach(array, i, object)
    {
        if (strcmp(hth_bench_text(object, "name"), name) == 0) {
            *index_out = i;
            return object;
        }
    }
    return NULL;
}

static const json_t *find_row(const json_t *rows, const json_t *like)
{
    char name[64], other[64];
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        if (strcmp(hth_bench_row_name(row, name), hth_bench_row_name(like, other)) == 0)
            return row;
    }
    return NULL;
}

/* Add the section of one column, unless the rows have nothing in common. */
static bool add_column(json_t *report, const json_t *a, size_t column_a, const json_t *b, size_t column_b)
{
    const json_t *columns = json_object_get(a, "columns"), *rows_b = json_object_get(b, "rows");
    const json_t *key = json_array_get(columns, 0), *column = json_array_get(columns, column_a);
    const char *better = hth_bench_text(column, "better"), *unit = hth_bench_text(column, "unit");
    char name[128], title[256];
    json_t *section, *row;
    size_t i;
    bool found = false;

    (void)snprintf(name, sizeof(name), "%s.%s", hth_bench_text(a, "name"), hth_bench_text(column, "name"));
    (void)snprintf(title, sizeof(title), "%s: %s (%s)", hth_bench_text(a, "title"), hth_bench_text(column, "title"),
                   unit);
    section =
        hth_bench_section_add(report, &(hth_bench_section){
                                          .name = name,
                                          .title = title,
                                          .note = !*better                    ? ""
                                                : strcmp(better, "less") == 0 ? "Less is better."
                                                                              : "More is better.",
                                          .plot = strcmp(hth_bench_text(a, "plot"), "bars") == 0 ? "bars" : "lines",
                                          .is_log = json_is_true(json_object_get(a, "log")),
                                          .columns = { { hth_bench_text(key, "name"), hth_bench_text(key, "title"),
                                                         hth_bench_text(key, "unit"), NULL, false },
                                                       { "a", "A", unit, *better ? better : NULL, true },
                                                       { "b", "B", unit, *better ? better : NULL, true },
                                                       { "ratio", "B / A", "x", *better ? better : NULL, false } },
                                      });
    json_array_foreach(json_object_get(a, "rows"), i, row)
    {
        const json_t *other = find_row(rows_b, row), *id = json_array_get(row, 0);
        const double x = hth_bench_cell(row, column_a), y = other ? hth_bench_cell(other, column_b) : NAN;

        if (!isfinite(x) || !isfinite(y))
            continue;
        hth_bench_row_add(section, json_string_value(id), json_number_value(id),
                          (const double[]){ x, y, x != 0 ? y / x : NAN });
        found = true;
    }
    if (!found) {
        json_t *sections = json_object_get(report, "sections");

        json_array_remove(sections, json_array_size(sections) - 1);
    }
    return found;
}

bool hth_bench_compare(const json_t *a, const json_t *b, json_t *report)
{
    const json_t *sections_b = json_object_get(b, "sections"), *other;
    size_t i, k, at = 0;
    json_t *section, *column;
    bool found = false;

    add_facts(report, "A", a);
    add_facts(report, "B", b);
    json_array_foreach(json_object_get(a, "sections"), i, section)
    {
        const json_t *twin = find_named(sections_b, hth_bench_text(section, "name"), &at);

        json_array_foreach(json_object_get(section, "columns"), k, column)
        {
            other = find_named(json_object_get(twin, "columns"), hth_bench_text(column, "name"), &at);
            if (k > 0 && at > 0 && other)
                found |= add_column(report, section, k, twin, at);
        }
    }
    return found;
}
