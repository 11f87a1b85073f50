#include "bench/bench_plot.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench_report.h"

enum {
    WIDTH = 720,
    HEIGHT = 340,
    LEFT = 70,
    RIGHT = 700,
    TOP = 40,
    BOTTOM = 290,
    TICKS_MAX = 32,
    LABEL_GAP = 34,
    SERIES_MAX = 8
};

typedef struct axis {
    double low, high;  /* values */
    double begin, end; /* positions in the plot */
    bool is_log;
} axis;

typedef struct plot {
    hth_buffer *out;
    const json_t *columns, *rows;
    size_t series[SERIES_MAX]; /* columns */
    size_t n_series;
    axis x, y;
} plot;

static void add(hth_buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(hth_buffer *out, const char *format, ...)
{
    char text[512]; /* of numbers and short words */
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    hth_buffer_add_text(out, text);
}

void hth_bench_escape_add(hth_buffer *out, const char *text)
{
    static const struct {
        char plain;
        const char *escaped;
    } escapes[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { '\'', "&#39;" } };

    while (*text) {
        const size_t n = strcspn(text, "&<>\"'");

        hth_buffer_add(out, text, n);
        text += n;
        for (size_t i = 0; *text && i < sizeof(escapes) / sizeof(escapes[0]); i++)
            if (*text == escapes[i].plain)
                hth_buffer_add_text(out, escapes[i].escaped);
        text += *text != '\0';
    }
}

/* ---- axes ---- */

static double place(const axis *a, double value)
{
    const double part = a->is_log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);

    return a->begin + part * (a->end - a->begin);
}

size_t hth_bench_ticks(double low, double high, bool is_log, double *out, size_t n_max)
{
    const double span = is_log ? log10(high / low) : high - low;
    const double power = pow(10, is_log ? floor(log10(low)) : floor(log10(span / 4)));
    const double factors[] = { 1, 2, 5, 10 };
    size_t n = 0;

    if (is_log) {
        for (double decade = power; decade > 0 && decade <= high && n < n_max; decade *= 10)
            for (size_t i = 0; i < (span < 3 ? 3u : 1u) && n < n_max; i++)
                if (decade * factors[i] >= low * 0.999 && decade * factors[i] <= high * 1.001)
                    out[n++] = decade * factors[i];
    } else {
        double step = power;

        for (size_t i = 0; i < 4 && span / step > 5; i++)
            step = power * factors[i];
        for (double i = ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && n < n_max; i++)
            out[n++] = i * step + 0.0; /* no -0 */
    }
    return n;
}

/* The range of the series' values, with room above and, on a logarithmic axis, below. False if there are no values. */
static bool find_values(plot *p, bool wants_log)
{
    double low = INFINITY, high = -INFINITY;
    size_t i;
    json_t *row;

    json_array_foreach(p->rows, i, row)
    {
        for (size_t k = 0; k < p->n_series; k++) {
            const double value = hth_bench_cell(row, p->series[k]);

            low = fmin(low, value); /* fmin and fmax ignore NAN */
            high = fmax(high, value);
        }
    }
    p->y = (axis){ .begin = BOTTOM, .end = TOP, .is_log = wants_log && low > 0 };
    if (p->y.is_log) {
        p->y.low = low / 1.3;
        p->y.high = high * 1.3;
    } else {
        p->y.low = fmin(0, low);
        p->y.high = high > 0 ? high * 1.08 : 1;
    }
    return isfinite(low) && isfinite(high);
}

static void find_names(plot *p)
{
    double low = INFINITY, high = -INFINITY;
    size_t i;
    json_t *row;

    json_array_foreach(p->rows, i, row)
    {
        low = fmin(low, hth_bench_cell(row, 0));
        high = fmax(high, hth_bench_cell(row, 0));
    }
    p->x = (axis){ .low = low, .high = high, .begin = LEFT + 30, .end = RIGHT - 30, .is_log = low > 0 };
    if (!(high > low))
        p->x = (axis){ .low = low - 1, .high = low + 1, .begin = LEFT, .end = RIGHT };
}

static void add_values(const plot *p)
{
    double ticks[TICKS_MAX];
    const size_t n = hth_bench_ticks(p->y.low, p->y.high, p->y.is_log, ticks, TICKS_MAX);

    for (size_t i = 0; i < n; i++) {
        const double y = place(&p->y, ticks[i]);

        add(p->out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, RIGHT);
        add(p->out, "<text class=\"end\" x=\"%d\" y=\"%.1f\">%.12g</text>\n", LEFT - 8, y + 4, ticks[i]);
    }
}

static void add_unit(const plot *p)
{
    const json_t *column = json_array_get(p->columns, p->series[0]), *key = json_array_get(p->columns, 0);
    const char *unit = hth_bench_text(key, "unit");

    add(p->out, "<text class=\"end\" x=\"%d\" y=\"%d\">", LEFT - 8, TOP - 16);
    hth_bench_escape_add(p->out, hth_bench_text(column, "unit"));
    add(p->out, "</text><text class=\"mid\" x=\"%d\" y=\"%d\">", (LEFT + RIGHT) / 2, HEIGHT - 8);
    hth_bench_escape_add(p->out, hth_bench_text(key, "title"));
    if (*unit) {
        hth_buffer_add_text(p->out, ", ");
        hth_bench_escape_add(p->out, unit);
    }
    hth_buffer_add_text(p->out, "</text>\n");
}

static void add_legend(const plot *p)
{
    int x = LEFT;

    for (size_t i = 0; i < p->n_series; i++) {
        const char *title = hth_bench_text(json_array_get(p->columns, p->series[i]), "title");

        add(p->out, "<rect class=\"s%zu\" x=\"%d\" y=\"8\" width=\"12\" height=\"12\" rx=\"2\"/>", i, x);
        add(p->out, "<text x=\"%d\" y=\"18\">", x + 18);
        hth_bench_escape_add(p->out, title);
        hth_buffer_add_text(p->out, "</text>\n");
        x += 40 + 8 * (int)strlen(title);
    }
}

static void add_name(const plot *p, double x, const json_t *row)
{
    char name[64];

    add(p->out, "<text class=\"mid\" x=\"%.1f\" y=\"%d\">", x, BOTTOM + 20);
    hth_bench_escape_add(p->out, hth_bench_row_name(row, name));
    hth_buffer_add_text(p->out, "</text>\n");
}

/* A value as text, which browsers show as a tooltip. */
static void add_tip(const plot *p, size_t series, const json_t *row)
{
    const json_t *column = json_array_get(p->columns, p->series[series]);
    char name[64], number[32];

    hth_buffer_add_text(p->out, "<title>");
    hth_bench_escape_add(p->out, hth_bench_text(column, "title"));
    hth_buffer_add_text(p->out, ", ");
    hth_bench_escape_add(p->out, hth_bench_row_name(row, name));
    add(p->out, ": %s ", hth_bench_number(hth_bench_cell(row, p->series[series]), number));
    hth_bench_escape_add(p->out, hth_bench_text(column, "unit"));
    hth_buffer_add_text(p->out, "</title>");
}

/* ---- the two kinds ---- */

static void add_line(const plot *p, size_t series)
{
    bool is_first = true;
    size_t i;
    json_t *row;

    add(p->out, "<path class=\"line s%zu\" d=\"", series);
    json_array_foreach(p->rows, i, row)
    {
        const double value = hth_bench_cell(row, p->series[series]);

        if (!isfinite(value))
            continue;
        add(p->out, "%s%.1f %.1f", is_first ? "M" : "L", place(&p->x, hth_bench_cell(row, 0)), place(&p->y, value));
        is_first = false;
    }
    hth_buffer_add_text(p->out, "\"/>\n");
    json_array_foreach(p->rows, i, row)
    {
        const double value = hth_bench_cell(row, p->series[series]);

        if (!isfinite(value))
            continue;
        add(p->out, "<circle class=\"s%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\">", series,
            place(&p->x, hth_bench_cell(row, 0)), place(&p->y, value));
        add_tip(p, series, row);
        hth_buffer_add_text(p->out, "</circle>\n");
    }
}

static void add_lines(plot *p)
{
    double last = -INFINITY;
    size_t i;
    json_t *row;

    find_names(p);
    json_array_foreach(p->rows, i, row)
    {
        const double x = place(&p->x, hth_bench_cell(row, 0));

        if (x - last < LABEL_GAP)
            continue;
        add_name(p, x, row);
        last = x;
    }
    for (size_t k = 0; k < p->n_series; k++)
        add_line(p, k);
}

static void add_bars(const plot *p)
{
    const double group = (double)(RIGHT - LEFT) / (double)json_array_size(p->rows);
    const double width = fmin(36, 0.8 * group / (double)p->n_series);
    size_t i;
    json_t *row;

    json_array_foreach(p->rows, i, row)
    {
        const double middle = LEFT + group * ((double)i + 0.5);

        add_name(p, middle, row);
        for (size_t k = 0; k < p->n_series; k++) {
            const double value = hth_bench_cell(row, p->series[k]);
            const double y = isfinite(value) ? place(&p->y, value) : BOTTOM;

            add(p->out, "<rect class=\"s%zu\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", k,
                middle + width * ((double)k - (double)p->n_series / 2), y, width - 2, BOTTOM - y);
            add_tip(p, k, row);
            hth_buffer_add_text(p->out, "</rect>\n");
        }
    }
}

static bool are_numbers(const json_t *rows)
{
    size_t i;
    json_t *row;

    json_array_foreach(rows, i, row)
    {
        if (!isfinite(hth_bench_cell(row, 0)))
            return false;
    }
    return true;
}

void hth_bench_plot_add(hth_buffer *out, const json_t *section)
{
    const bool has_lines = strcmp(hth_bench_text(section, "plot"), "lines") == 0;
    plot p = { .out = out, .columns = json_object_get(section, "columns"), .rows = json_object_get(section, "rows") };

    for (size_t i = 1; i < json_array_size(p.columns) && p.n_series < SERIES_MAX; i++)
        if (json_is_true(json_object_get(json_array_get(p.columns, i), "plotted")))
            p.series[p.n_series++] = i;
    if (p.n_series == 0 || !find_values(&p, has_lines && json_is_true(json_object_get(section, "log"))))
        return;
    add(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    hth_bench_escape_add(out, hth_bench_text(section, "title"));
    hth_buffer_add_text(out, "\">\n");
    add_values(&p);
    add(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, BOTTOM, RIGHT);
    add_unit(&p);
    add_legend(&p);
    if (has_lines && are_numbers(p.rows))
        add_lines(&p);
    else
        add_bars(&p);
    hth_buffer_add_text(out, "</svg>\n");
}
