/*
 * bench_html.c - a report as a page with plots
 */
#include <string.h>

#include "bench/bench_plot.h"
#include "bench/bench_report.h"

static const char style[] =
    ":root{color-scheme:light dark;--back:#fff;--text:#1d2430;--dim:#5c6675;--rule:#dfe3e8;"
    "--s0:#c2410c;--s1:#2563eb;--s2:#0f766e;--s3:#7c3aed;--s4:#a16207;--s5:#be185d;--s6:#4d7c0f;--s7:#475569}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#14181f;--text:#e6e9ee;--dim:#9aa4b2;--rule:#2b323d;"
    "--s0:#fb923c;--s1:#60a5fa;--s2:#2dd4bf;--s3:#a78bfa;--s4:#facc15;--s5:#f472b6;--s6:#a3e635;--s7:#94a3b8}}\n"
    "body{margin:0 auto;max-width:760px;padding:24px 16px;background:var(--back);color:var(--text);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:40px 0 8px}p{margin:4px 0;color:var(--dim)}\n"
    ".headline{font-size:19px;color:var(--text);margin:12px 0}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:16px 0}dt{color:var(--dim)}"
    "dd{margin:0;overflow-wrap:anywhere}\n"
    "div{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:8px 0}\n"
    "th,td{padding:3px 12px;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}"
    "th{font-weight:600}th small{color:var(--dim);font-weight:400;display:block}\n"
    "svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--dim)}.end{text-anchor:end}"
    ".mid{text-anchor:middle}\n"
    ".grid{stroke:var(--rule)}.axis{stroke:var(--dim);fill:none}\n"
    ".s0{fill:var(--s0);stroke:var(--s0)}.s1{fill:var(--s1);stroke:var(--s1)}.s2{fill:var(--s2);stroke:var(--s2)}"
    ".s3{fill:var(--s3);stroke:var(--s3)}.s4{fill:var(--s4);stroke:var(--s4)}.s5{fill:var(--s5);stroke:var(--s5)}"
    ".s6{fill:var(--s6);stroke:var(--s6)}.s7{fill:var(--s7);stroke:var(--s7)}\n"
    ".line{fill:none;stroke-width:2.5;stroke-linejoin:round}\n";

/* "<tag>text</tag>" */
static void add_element(hth_buffer *out, const char *tag, const char *text)
{
    const size_t n = strcspn(tag, " "); /* attributes may follow the name */

    hth_buffer_add_text(out, "<");
    hth_buffer_add_text(out, tag);
    hth_buffer_add_text(out, ">");
    hth_bench_escape_add(out, text);
    hth_buffer_add_text(out, "</");
    hth_buffer_add(out, tag, n);
    hth_buffer_add_text(out, ">");
}

static void add_facts(hth_buffer *out, const json_t *report)
{
    const char *name;
    json_t *value;

    hth_buffer_add_text(out, "<dl>\n");
    json_object_foreach(json_object_get(report, "facts"), name, value)
    {
        add_element(out, "dt", name);
        add_element(out, "dd", json_is_string(value) ? json_string_value(value) : "");
        hth_buffer_add_text(out, "\n");
    }
    hth_buffer_add_text(out, "</dl>\n");
}

static void add_table(hth_buffer *out, const json_t *section)
{
    size_t i;
    json_t *column, *row;
    char name[64], number[32];

    hth_buffer_add_text(out, "<div><table><thead><tr>");
    json_array_foreach(json_object_get(section, "columns"), i, column)
    {
        hth_buffer_add_text(out, "<th scope=\"col\">");
        hth_bench_escape_add(out, hth_bench_text(column, "title"));
        add_element(out, "small", hth_bench_text(column, "unit"));
        hth_buffer_add_text(out, "</th>");
    }
    hth_buffer_add_text(out, "</tr></thead><tbody>\n");
    json_array_foreach(json_object_get(section, "rows"), i, row)
    {
        hth_buffer_add_text(out, "<tr>");
        add_element(out, "th scope=\"row\"", hth_bench_row_name(row, name));
        for (size_t k = 1; k < json_array_size(row); k++)
            add_element(out, "td", hth_bench_number(hth_bench_cell(row, k), number));
        hth_buffer_add_text(out, "</tr>\n");
    }
    hth_buffer_add_text(out, "</tbody></table></div>\n");
}

static void add_section(hth_buffer *out, const json_t *section)
{
    hth_buffer_add_text(out, "<section>\n");
    add_element(out, "h2", hth_bench_text(section, "title"));
    hth_buffer_add_text(out, "\n");
    hth_bench_plot_add(out, section);
    add_table(out, section);
    if (*hth_bench_text(section, "note"))
        add_element(out, "p", hth_bench_text(section, "note"));
    hth_buffer_add_text(out, "\n</section>\n");
}

static const char title[] = "<title>hearth bench</title>";

bool hth_bench_html_is_ours(const char *text)
{
    return strstr(text, title) != NULL;
}

char *hth_bench_html(const json_t *report)
{
    hth_buffer out = { .text = NULL };
    size_t i;
    json_t *section;

    hth_buffer_add_text(&out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                              "<meta name=\"viewport\" content=\"width=device-width\">\n"
                              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                              "'unsafe-inline'\">\n");
    hth_buffer_add_text(&out, title);
    hth_buffer_add_text(&out, "\n<style>\n");
    hth_buffer_add_text(&out, style);
    hth_buffer_add_text(&out, "</style>\n</head>\n<body>\n<main>\n<h1>hearth bench</h1>\n");
    if (*hth_bench_text(report, "headline"))
        add_element(&out, "p class=\"headline\"", hth_bench_text(report, "headline"));
    add_facts(&out, report);
    json_array_foreach(json_object_get(report, "sections"), i, section)
    {
        add_section(&out, section);
    }
    hth_buffer_add_text(&out, "</main>\n</body>\n</html>\n");
    if (out.failed)
        hth_buffer_deinit(&out);
    return out.text;
}
