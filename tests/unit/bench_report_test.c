/*
 * bench_report_test.c - reports of `hearth bench`: percentiles, ticks, tables, pages, comparisons, files
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/measure.h"
#include "bench/bench_plot.h"
#include "bench/bench_report.h"
#include "support/cmocka_all.h"

static json_t *report_of(double cold, double warm)
{
    char *argv[] = { "bench", "m.gguf", "--api-key", "secret", "--api=secret", "--quick" };
    json_t *report = hth_bench_report_new("model", 6, argv);
    json_t *section = hth_bench_section_add(
        report, &(hth_bench_section){ .name = "first",
                                      .title = "First <token>",
                                      .note = "A note.",
                                      .plot = "lines",
                                      .is_log = true,
                                      .columns = { { "tokens", "prompt", "tokens", NULL, false },
                                                   { "cold", "cold", "ms", "less", true },
                                                   { "warm", "<warm> & \"known\"", "ms", "less", true } } });

    hth_bench_row_add(section, NULL, 512, (const double[]){ cold, warm });
    hth_bench_row_add(section, NULL, 1024, (const double[]){ 2 * cold, NAN });
    return report;
}

static const json_t *section_of(const json_t *report, size_t i)
{
    return json_array_get(json_object_get(report, "sections"), i);
}

TEST(percentiles_lie_between_the_nearest_samples)
{
    static const double values[] = { 5, 1, 4, 2, 3 };
    hth_samples samples = { .n = 0 };

    assert_true(hth_samples_percentile(&samples, 0.5) == 0);
    for (size_t i = 0; i < 5; i++)
        hth_samples_add(&samples, values[i]);
    assert_true(hth_samples_percentile(&samples, 0) == 1);
    assert_true(hth_samples_median(&samples) == 3);
    assert_true(hth_samples_percentile(&samples, 1) == 5);
    assert_true(fabs(hth_samples_percentile(&samples, 0.9) - 4.6) < 1e-9);
    hth_samples_add(&samples, 6);
    assert_true(hth_samples_median(&samples) == 3.5);
    assert_true(hth_samples_min(&samples) == 1 && hth_samples_max(&samples) == 6);
}

TEST(ticks_are_round_numbers_inside_the_axis)
{
    double ticks[32];

    assert_int_equal(hth_bench_ticks(0.8, 40, true, ticks, 32), 5); /* 1 2 5 10 20 */
    assert_true(fabs(ticks[2] - 5) < 1e-9 && fabs(ticks[4] - 20) < 1e-9);
    assert_int_equal(hth_bench_ticks(0.01, 100000, true, ticks, 32), 8);
    assert_int_equal(hth_bench_ticks(0, 100, false, ticks, 32), 6); /* 0 20 .. 100 */
    assert_true(ticks[1] == 20 && ticks[5] == 100);
    assert_int_equal(hth_bench_ticks(0, 1e9, false, ticks, 2), 2);
}

TEST(numbers_have_three_digits_that_matter)
{
    char text[32];

    assert_string_equal(hth_bench_number(0, text), "0");
    assert_string_equal(hth_bench_number(0.01234, text), "0.012");
    assert_string_equal(hth_bench_number(1.234, text), "1.23");
    assert_string_equal(hth_bench_number(12.34, text), "12.3");
    assert_string_equal(hth_bench_number(17, text), "17");
    assert_string_equal(hth_bench_number(12345.6, text), "12346");
    assert_string_equal(hth_bench_number(NAN, text), "-");
}

TEST(a_cost_below_the_noise_of_the_machine_is_no_number)
{
    assert_true(fabs(hth_bench_cost(110, (const double[]){ 100, 104 }) - 10) < 1e-9);
    assert_true(fabs(hth_bench_cost(90, (const double[]){ 104, 100 }) + 10) < 1e-9);
    assert_true(isnan(hth_bench_cost(49, (const double[]){ 100, 190 })));
    assert_true(isnan(hth_bench_cost(103, (const double[]){ 100, 104 })));
    /* Of one run the noise is unknown. */
    assert_true(fabs(hth_bench_cost(49, (const double[]){ 100, NAN }) + 51) < 1e-9);
    assert_true(isnan(hth_bench_cost(NAN, (const double[]){ 100, 104 })));
}

TEST(the_command_of_a_report_has_no_password)
{
    char *argv[] = { "bench", "--url", "http://ann:secret@host:1/v1", "--u=http://ann:secret@host", "--quick" };
    json_t *report = hth_bench_report_new("server", 5, argv);

    assert_string_equal(hth_bench_text(json_object_get(report, "facts"), "command"),
                        "hearth bench --url http://host:1/v1 --url=http://host --quick");
    json_decref(report);
}

TEST(the_command_of_a_report_has_no_key)
{
    json_t *report = report_of(1, 1);

    assert_string_equal(hth_bench_text(json_object_get(report, "facts"), "command"),
                        "hearth bench m.gguf --api-key ... --api-key=... --quick");
    json_decref(report);
}

TEST(a_table_fits_a_terminal_and_shows_what_is_missing)
{
    json_t *report = report_of(120, 1.5);
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    json_object_set_new(report, "facts", json_object()); /* those of this machine may have a longer word */
    hth_bench_row_add(json_array_get(json_object_get(report, "sections"), 0), NULL, 8192,
                      (const double[]){ 12345.6, 0.01 });
    hth_bench_table_print(report, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "  prompt   cold  <warm> & \"known\"\n  tokens     ms                ms\n"));
    assert_non_null(strstr(text, "\n     512    120              1.50\n    1024    240                 -\n"));
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        assert_true(strcspn(line, "\n") <= 80);
    free(text);
    json_decref(report);
}

TEST(a_table_has_no_control_character_of_a_report)
{
    static const char red[] = "\x1b[31mred";
    json_t *report = report_of(1, 2), *section;
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    hth_bench_report_add_fact(report, red, red);
    section = hth_bench_section_add(
        report, &(hth_bench_section){ .name = "red",
                                      .title = red,
                                      .note = red,
                                      .plot = "bars",
                                      .columns = { { "a", red, red, NULL, false }, { "b", red, red, NULL, true } } });
    hth_bench_row_add(section, red, 0, (const double[]){ 1 });
    json_object_set_new(report, "headline", json_string(red));
    hth_bench_table_print(report, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "[31mred"));
    assert_null(strchr(text, '\x1b'));
    free(text);
    json_decref(report);
}

TEST(a_column_without_a_value_is_left_out_and_named)
{
    json_t *report = report_of(120, NAN), *section = json_array_get(json_object_get(report, "sections"), 0);

    hth_bench_section_tidy(section);
    assert_int_equal(json_array_size(json_object_get(section, "columns")), 2);
    assert_int_equal(json_array_size(json_array_get(json_object_get(section, "rows"), 0)), 2);
    assert_string_equal(hth_bench_text(section, "note"), "A note. Not measured here: <warm> & \"known\".");
    json_decref(report);
}

TEST(texts_are_escaped_in_a_page)
{
    hth_buffer out = { .text = NULL };

    hth_bench_escape_add(&out, "<a href=\"x\">'&'</a>");
    assert_string_equal(hth_buffer_text(&out), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
    hth_buffer_deinit(&out);
}

TEST(a_page_has_a_plot_of_each_section_and_nothing_that_runs)
{
    json_t *report = report_of(120, 1.5);
    char *page = hth_bench_html(report);

    assert_non_null(strstr(page, "<h2>First &lt;token&gt;</h2>"));
    assert_non_null(strstr(page, "aria-label=\"First &lt;token&gt;\""));
    assert_non_null(strstr(page, "<path class=\"line s1\""));
    assert_null(strstr(page, "<warm>"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "nan"));
    free(page);
    json_decref(report);
}

TEST(a_comparison_has_the_ratios_of_what_both_measured)
{
    json_t *a = report_of(100, 2), *b = report_of(50, 8), *both = hth_bench_report_new("comparison", 0, NULL), *row;

    assert_true(hth_bench_compare(a, b, both));
    assert_int_equal(json_array_size(json_object_get(both, "sections")), 2);
    assert_string_equal(hth_bench_text(section_of(both, 0), "name"), "first.cold");
    assert_int_equal(json_array_size(json_object_get(section_of(both, 0), "rows")), 2);
    assert_int_equal(json_array_size(json_object_get(section_of(both, 1), "rows")), 1); /* the other has no value */
    row = json_array_get(json_object_get(section_of(both, 1), "rows"), 0);
    assert_true(hth_bench_cell(row, 1) == 2 && hth_bench_cell(row, 2) == 8 && hth_bench_cell(row, 3) == 4);
    json_decref(both);

    json_object_set_new(json_array_get(json_object_get(b, "sections"), 0), "name", json_string("other"));
    both = hth_bench_report_new("comparison", 0, NULL);
    assert_false(hth_bench_compare(a, b, both));
    assert_int_equal(json_array_size(json_object_get(both, "sections")), 0);
    json_decref(both);
    json_decref(a);
    json_decref(b);
}

static hearth_status read_text(const char *text, json_t **out)
{
    char path[] = "/tmp/hearth-bench-report-XXXXXX";
    const int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    hearth_status status;

    (void)fputs(text, file);
    (void)fclose(file);
    status = hth_bench_report_read(path, out, NULL);
    (void)remove(path);
    return status;
}

TEST(a_file_of_another_form_is_refused)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "{\"format\": \"other\", \"version\": 1, \"sections\": []}",
        "{\"format\": \"hearth-bench\", \"version\": 2, \"sections\": []}",
        "{\"format\": \"hearth-bench\", \"version\": 1, \"sections\": {}}",
        "{\"format\": \"hearth-bench\", \"version\": 1, \"sections\": [{\"columns\": [{}, {}], \"rows\": [[1]]}]}",
        "{\"format\": \"hearth-bench\", \"version\": 1, \"sections\": [{\"columns\": [{}, {}], \"rows\": [[{}, 1]]}]}",
    };
    json_t *report = report_of(1, 2), *again = NULL;
    char *text = json_dumps(report, 0);

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(read_text(wrong[i], &again), HEARTH_CORRUPT);
    assert_int_equal(read_text(text, &again), HEARTH_OK);
    assert_true(json_equal(report, again));
    free(text);
    json_decref(again);
    json_decref(report);
}
