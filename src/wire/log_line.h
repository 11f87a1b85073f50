/*
 * log_line.h - one line of a log, in memory of a fixed size
 *
 * No added text can break the line or its reader: control characters, C1 controls, invisible marks (base/controls.h)
 * and invalid UTF-8 are escaped, for JSON or for people, and every text has its own bound. A full line accepts no more
 * text, but always gets its newline.
 */
#ifndef HTH_WIRE_LOG_LINE_H
#define HTH_WIRE_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A Linux pipe writes this many bytes atomically, so lines of several processes on one pipe do not mix. */
enum { HTH_SERVER_LOG_LINE_BYTES_MAX = 4096 };

typedef struct hth_line {
    char text[HTH_SERVER_LOG_LINE_BYTES_MAX]; /* not terminated */
    size_t n;
    bool is_full; /* a text did not fit */
} hth_line;

/* Add a trusted text, unescaped; hth_line_addf cuts it at 255 bytes. */
void hth_line_add(hth_line *line, const char *text);
void hth_line_addf(hth_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Add at most n_max bytes of text for people, cut between characters. Control characters, marks, backslashes and
 * invalid UTF-8 become \xHH or \\. With is_word, so do spaces, so that a text cannot imitate the next field.
 */
void hth_line_add_escaped(hth_line *line, const char *text, size_t n_max, bool is_word);

/*
 * Add members of a JSON object, each with a comma before it: the line must begin with "{" and a member. name is
 * trusted. A text that is NULL or "" is omitted; at most n_max bytes of its escaped form are written. A number that is
 * not finite becomes 0.
 */
void hth_line_json_text(hth_line *line, const char *name, const char *text, size_t n_max);
void hth_line_json_count(hth_line *line, const char *name, uint64_t value);
void hth_line_json_ms(hth_line *line, const char *name, double ms);
void hth_line_json_bool(hth_line *line, const char *name, bool value);

/* Add the current time: RFC 3339 in UTC with milliseconds or, if is_short, the local time of day. */
void hth_line_add_time(hth_line *line, bool is_short);
/* Add the newline, for which there is always room. */
void hth_line_end(hth_line *line);

#endif
