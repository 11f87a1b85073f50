/*
 * lines.h - bytes from another process, as lines of text
 */
#ifndef HTH_SERVER_LINES_H
#define HTH_SERVER_LINES_H

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

/* Take bytes, and tell each line that they complete. Empty lines are not told. */
void hth_lines_push(hth_lines *lines, const char *bytes, size_t n_bytes, hth_line_fn on_line, void *user_data);
/* No more will come: tell what is left. */
void hth_lines_end(hth_lines *lines, hth_line_fn on_line, void *user_data);

/* Replace what is no character by question marks, and control characters by spaces, so that the text is UTF-8 for logs. */
void hth_make_printable(char *text);

/* ---- the last ones, for messages ---- */

enum { HTH_LAST_LINES_BYTES = 2048 };

/* The last lines that fit, each with a newline behind it. All zeros at the beginning. */
typedef struct hth_last_lines {
    char text[HTH_LAST_LINES_BYTES];
    size_t n;
} hth_last_lines;

void hth_last_lines_add(hth_last_lines *last, const char *line);
/* As many of the last ones as fit, the oldest first, with " | " between them; "" where not even one does. */
void hth_last_lines_tell(const hth_last_lines *last, char *out, size_t capacity);

#endif
