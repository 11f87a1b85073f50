/*
 * log_line.c - see log_line.h
 */
#include "wire/log_line.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/controls.h"
#include "base/utf8.h"

enum { ROOM = HTH_SERVER_LOG_LINE_MAX - 1 }; /* the newline always fits */

static void add(hth_line *line, const char *text, size_t n)
{
    if (n > ROOM - line->n) {
        line->is_full = true;
        return;
    }
    memcpy(line->text + line->n, text, n);
    line->n += n;
}

void hth_line_add(hth_line *line, const char *text)
{
    add(line, text, strlen(text));
}

void hth_line_addf(hth_line *line, const char *format, ...)
{
    char text[256];
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (n > 0)
        add(line, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void hth_line_end(hth_line *line)
{
    assert(line->n <= ROOM);
    line->text[line->n++] = '\n';
}

/* ---- characters ---- */

/* Bytes of the first character of a terminated text; 0: no valid character. */
static size_t character_bytes(const char *text)
{
    const int n = hth_utf8_character(text, 4); /* does not read past the terminator */

    return n > 0 ? (size_t)n : 0;
}

static size_t escape_hexadecimal(const char *text, size_t n, char *out, size_t capacity)
{
    size_t n_out = 0;

    for (size_t i = 0; i < n; i++)
        n_out += (size_t)snprintf(out + n_out, capacity - n_out, "\\x%02x", (unsigned char)text[i]);
    return n_out;
}

void hth_line_add_plain(hth_line *line, const char *text, size_t n_max, bool is_word)
{
    while (*text) {
        size_t n = character_bytes(text), n_step = n > 0 ? n : 1, n_out = n_step;
        char escaped[32];
        const char *out = text;

        if (n == 0 || hth_control_bytes(text, n) > 0 || hth_mark_bytes(text, n) > 0 || (is_word && *text == ' ')) {
            n_out = escape_hexadecimal(text, n_step, escaped, sizeof(escaped));
            out = escaped;
        } else if (*text == '\\') {
            n_out = 2;
            out = "\\\\";
        }
        if (n_out > n_max)
            return;
        add(line, out, n_out);
        n_max -= n_out;
        text += n_step;
    }
}

static void add_json_string(hth_line *line, const char *text, size_t n_max)
{
    hth_line_add(line, "\"");
    while (*text) {
        size_t n = character_bytes(text), n_step = n > 0 ? n : 1, n_out = n_step;
        char escaped[8];
        const char *out = text;

        if (n == 0) {
            n_out = 6;
            out = "\\ufffd";
        } else if (hth_control_bytes(text, n) > 0) { /* the last byte of a C1 control is its code */
            n_out = (size_t)snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned char)text[n - 1]);
            out = escaped;
        } else if (hth_mark_bytes(text, n) > 0) {
            const char *at = text;

            n_out = (size_t)snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned)hth_utf8_next(&at, text + n));
            out = escaped;
        } else if (*text == '"' || *text == '\\') {
            n_out = 2;
            out = *text == '"' ? "\\\"" : "\\\\";
        }
        if (n_out > n_max)
            break;
        add(line, out, n_out);
        n_max -= n_out;
        text += n_step;
    }
    hth_line_add(line, "\"");
}

/* ---- members ---- */

void hth_line_json_text(hth_line *line, const char *name, const char *text, size_t n_max)
{
    if (!text || !*text)
        return;
    hth_line_addf(line, ",\"%s\":", name);
    add_json_string(line, text, n_max);
}

void hth_line_json_count(hth_line *line, const char *name, uint64_t value)
{
    hth_line_addf(line, ",\"%s\":%" PRIu64, name, value);
}

void hth_line_json_ms(hth_line *line, const char *name, double ms)
{
    hth_line_addf(line, ",\"%s\":%.3f", name, isfinite(ms) ? ms : 0);
}

void hth_line_json_bool(hth_line *line, const char *name, bool value)
{
    hth_line_addf(line, ",\"%s\":%s", name, value ? "true" : "false");
}

/* ---- time ---- */

void hth_line_add_time(hth_line *line, bool is_short)
{
    struct timespec now = { 0 };
    struct tm parts = { 0 };
    char text[64];

    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail: the clock exists and the address is valid */
    /* NULL only for years that do not fit an int. */
    if (!(is_short ? localtime_r(&now.tv_sec, &parts) : gmtime_r(&now.tv_sec, &parts)))
        parts = (struct tm){ .tm_mday = 1, .tm_year = 70 };
    if (strftime(text, sizeof(text), is_short ? "%H:%M:%S" : "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        text[0] = '\0';
    hth_line_addf(line, "%s.%03d%s", text, (int)(now.tv_nsec / 1000000), is_short ? "" : "Z");
}
