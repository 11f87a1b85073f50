/*
 * lines.h - splits bytes from another process into lines of text
 */
#ifndef HTH_WIRE_LINES_H
#define HTH_WIRE_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum { HTH_LINE_BYTES_MAX = 1024 };

/* An incomplete line. All zeros at the beginning. */
typedef struct hth_lines {
    char text[HTH_LINE_BYTES_MAX];
    size_t n;
} hth_lines;

/* Gets a line without its newline, cut at HTH_LINE_BYTES_MAX - 1 bytes, made printable; valid during the call. */
typedef void (*hth_line_fn)(char *line, void *user_data);

/* Add bytes, and call on_line for each line that is complete now, except empty ones. */
void hth_lines_push(hth_lines *lines, const char *bytes, size_t n_bytes, hth_line_fn on_line, void *user_data);
/* There are no more bytes: call on_line for an incomplete last line. */
void hth_lines_end(hth_lines *lines, hth_line_fn on_line, void *user_data);

/* Replace invalid UTF-8 by question marks, and control characters, including two-byte ones (C1), by spaces. */
void hth_make_printable(char *text);

/* ---- the last lines, for messages ---- */

enum { HTH_LAST_LINES_BYTES = 2048 };

/* The last lines that fit, each with a newline. All zeros at the beginning. */
typedef struct hth_last_lines {
    char text[HTH_LAST_LINES_BYTES];
    size_t n;
} hth_last_lines;

void hth_last_lines_add(hth_last_lines *last, const char *line);
/* Write as many of the last lines as fit, the oldest first, with " | " between them; "" if none fits. */
void hth_last_lines_tell(const hth_last_lines *last, char *out, size_t capacity);

#endif
