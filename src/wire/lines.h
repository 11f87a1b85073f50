/*
 * lines.h - splits bytes from another process into lines of text
 */
#ifndef HTH_WIRE_LINES_H
#define HTH_WIRE_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { HTH_LINE_BYTES_MAX = 1024 };

/* A line that is not complete yet. All zeros at the beginning. */
typedef struct hth_lines {
    char text[HTH_LINE_BYTES_MAX];
    size_t n;
} hth_lines;

/* A line without its end, cut at HTH_LINE_BYTES_MAX - 1 bytes, made printable; valid for the call. */
typedef void (*hth_line_fn)(char *line, void *user_data);

/* Add bytes, and call on_line for each line that is complete now, except empty ones. */
void hth_lines_push(hth_lines *lines, const char *bytes, size_t n_bytes, hth_line_fn on_line, void *user_data);
/* No more bytes come: call on_line for an incomplete last line. */
void hth_lines_end(hth_lines *lines, hth_line_fn on_line, void *user_data);

/*
 * Replace invalid UTF-8 by question marks, and control characters, also those of two bytes (C1), by spaces.
 */
void hth_make_printable(char *text);

/* ---- the last lines, for messages ---- */

enum { HTH_LAST_LINES_BYTES = 2048 };

/* The last lines that fit, each with a newline behind it. All zeros at the beginning. */
typedef struct hth_last_lines {
    char text[HTH_LAST_LINES_BYTES];
    size_t n;
} hth_last_lines;

void hth_last_lines_add(hth_last_lines *last, const char *line);
/* As many of the last lines as fit, the oldest first, with " | " between them; "" when none fits. */
void hth_last_lines_tell(const hth_last_lines *last, char *out, size_t capacity);

#endif
