/*
 * lines.c - splits bytes from another process into lines of text
 */
#include "wire/lines.h"

#include <string.h>

#include "base/controls.h"
#include "base/status.h"
#include "base/utf8.h"

void hth_make_printable(char *text)
{
    hth_utf8_mend(text);
    hth_controls_blank(text);
}

void hth_lines_end(hth_lines *lines, hth_line_fn on_line, void *user_data)
{
    char *text = lines->text;

    if (lines->n > 0 && text[lines->n - 1] == '\r')
        lines->n--;
    text[lines->n] = '\0';
    if (lines->n == sizeof(lines->text) - 1)
        hth_end_at_character(text, sizeof(lines->text));
    if (lines->n > 0) {
        hth_make_printable(text);
        on_line(text, user_data);
    }
    lines->n = 0;
}

void hth_lines_push(hth_lines *lines, const char *bytes, size_t n_bytes, hth_line_fn on_line, void *user_data)
{
    while (n_bytes > 0) {
        const char *end = memchr(bytes, '\n', n_bytes);
        size_t n = end ? (size_t)(end - bytes) : n_bytes;
        size_t room = sizeof(lines->text) - 1 - lines->n;

        memcpy(lines->text + lines->n, bytes, n < room ? n : room); /* the rest of an overlong line is lost */
        lines->n += n < room ? n : room;
        if (!end)
            return;
        hth_lines_end(lines, on_line, user_data);
        bytes += n + 1;
        n_bytes -= n + 1;
    }
}

/* ---- the last lines ---- */

void hth_last_lines_add(hth_last_lines *last, const char *line)
{
    size_t n = strlen(line);

    if (n >= sizeof(last->text))
        return; /* no stored line is that long */
    while (last->n + n + 1 > sizeof(last->text)) {
        const char *end = memchr(last->text, '\n', last->n);
        size_t n_oldest = end ? (size_t)(end - last->text) + 1 : last->n;

        last->n -= n_oldest;
        memmove(last->text, last->text + n_oldest, last->n);
    }
    memcpy(last->text + last->n, line, n);
    last->text[last->n + n] = '\n';
    last->n += n + 1;
}

void hth_last_lines_tell(const hth_last_lines *last, char *out, size_t capacity)
{
    size_t begin = last->n, n_needed = 1;

    /* Go back one line at a time while it fits. The separator needs two bytes more than a newline. */
    while (begin > 0) {
        size_t before = begin - 1;

        while (before > 0 && last->text[before - 1] != '\n')
            before--;
        n_needed += begin - before - 1 + (begin < last->n ? 3 : 0);
        if (n_needed > capacity)
            break;
        begin = before;
    }
    for (; begin < last->n; begin++) {
        if (last->text[begin] != '\n') {
            *out++ = last->text[begin];
        } else if (begin + 1 < last->n) {
            memcpy(out, " | ", 3);
            out += 3;
        }
    }
    *out = '\0';
}
