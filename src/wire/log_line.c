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

enum {
    ROOM = HTH_SERVER_LOG_LINE_BYTES_MAX - 1, /* the newline always fits */
    ESCAPED_BYTES = 32,                       /* of a character, with the terminator */
};

static void add(hth_line *line, const char *text, size_t n)
{
    line->is_full |= n > ROOM - line->n;
    if (line->is_full)
        return;
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

/*
 * Escape the character of n bytes at text; n is 0 for an invalid byte. Returns the number of bytes written; 0: no
 * escape needed.
 */
typedef size_t escape_fn(const char *text, size_t n, char out[ESCAPED_BYTES]);

static size_t escape_plain(const char *text, size_t n, char out[ESCAPED_BYTES])
{
    size_t n_out = 0;

    if (*text == '\\')
        return (size_t)snprintf(out, ESCAPED_BYTES, "\\\\");
    if (n > 0 && hth_control_bytes(text, n) == 0 && hth_mark_bytes(text, n) == 0)
        return 0;
    for (size_t i = 0; i < (n > 0 ? n : 1); i++)
        n_out += (size_t)snprintf(out + n_out, ESCAPED_BYTES - n_out, "\\x%02x", (unsigned char)text[i]);
    return n_out;
}

static size_t escape_word(const char *text, size_t n, char out[ESCAPED_BYTES])
{
    return *text == ' ' ? (size_t)snprintf(out, ESCAPED_BYTES, "\\x20") : escape_plain(text, n, out);
}

static size_t escape_json(const char *text, size_t n, char out[ESCAPED_BYTES])
{
    const char *at = text;
    unsigned code;

    if (*text == '"' || *text == '\\')
        return (size_t)snprintf(out, ESCAPED_BYTES, "\\%c", *text);
    if (n == 0)
        code = 0xfffd;
    else if (hth_control_bytes(text, n) > 0 || hth_mark_bytes(text, n) > 0)
        code = (unsigned)hth_utf8_next(&at, text + n);
    else
        return 0;
    return (size_t)snprintf(out, ESCAPED_BYTES, "\\u%04x", code);
}

static void add_escaped(hth_line *line, const char *text, size_t n_max, escape_fn *escape)
{
    while (*text) {
        const int n = hth_utf8_character(text, 4); /* does not read past the terminator */
        const size_t n_step = n > 0 ? (size_t)n : 1;
        char escaped[ESCAPED_BYTES];
        const size_t n_escaped = escape(text, n > 0 ? n_step : 0, escaped), n_out = n_escaped ? n_escaped : n_step;

        if (n_out > n_max)
            return;
        add(line, n_escaped ? escaped : text, n_out);
        n_max -= n_out;
        text += n_step;
    }
}

void hth_line_add_escaped(hth_line *line, const char *text, size_t n_max, bool is_word)
{
    add_escaped(line, text, n_max, is_word ? escape_word : escape_plain);
}

/* ---- members ---- */

void hth_line_json_text(hth_line *line, const char *name, const char *text, size_t n_max)
{
    if (!text || !*text)
        return;
    hth_line_addf(line, ",\"%s\":\"", name);
    add_escaped(line, text, n_max, escape_json);
    hth_line_add(line, "\"");
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
