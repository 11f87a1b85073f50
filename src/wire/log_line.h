/*
 * log_line.h - one line of a log, in memory of a fixed size
 *
 * Nothing that is added can break the line or what reads it: control characters, C1 controls and what is no UTF-8 are
 * escaped, for JSON or for people, and every text has a bound of its own. A line that is full takes no more; it still
 * ends.
 */
#ifndef HTH_WIRE_LOG_LINE_H
#define HTH_WIRE_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A Linux pipe takes so many bytes whole or not at all, so lines of several processes on one pipe do not mix. */
enum { HTH_SERVER_LOG_LINE_MAX = 4096 };

typedef struct hth_line {
    char text[HTH_SERVER_LOG_LINE_MAX]; /* not terminated */
    size_t n;
    bool is_full; /* something did not fit */
} hth_line;

/* Texts of our own, as they are. */
void hth_line_add(hth_line *line, const char *text);
void hth_line_addf(hth_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * For people: at most n_max bytes of text, cut at a character. Control characters, backslashes and what is no UTF-8
 * become \xHH or \\; spaces, too, where is_word, so that a text cannot pretend to be the next field.
 */
void hth_line_add_plain(hth_line *line, const char *text, size_t n_max, bool is_word);

/*
 * Members of a JSON object, each with a comma before it: the line begins with "{" and a member. name is our own. A text
 * that is NULL or "" is left out; at most n_max bytes of its escaped form are written. A number that is none is 0.
 */
void hth_line_json_text(hth_line *line, const char *name, const char *text, size_t n_max);
void hth_line_json_count(hth_line *line, const char *name, uint64_t value);
void hth_line_json_ms(hth_line *line, const char *name, double ms);
void hth_line_json_bool(hth_line *line, const char *name, bool value);

/* The time now: RFC 3339 in UTC with milliseconds; or, short, the time of day here. */
void hth_line_add_time(hth_line *line, bool is_short);
/* The newline, for which there is always room. */
void hth_line_end(hth_line *line);

#endif
