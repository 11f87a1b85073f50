/*
 * wrap.h - prints texts for people in lines that fit their terminal
 */
#ifndef HTH_CONSOLE_WRAP_H
#define HTH_CONSOLE_WRAP_H

#include <stddef.h>
#include <stdio.h>

#include "api/buffer.h"

/* The columns of the terminal out; 0: out is not a terminal, or the number is unknown. */
int hth_terminal_columns(FILE *out);

/*
 * Print the words of a text, and end the line. The first word is at column `at`, where the cursor is; further lines
 * begin at column `indent`. A word that is longer than a line is not broken.
 */
void hth_wrap_words(const char *text, size_t n_bytes, int at, int indent, FILE *out);

/*
 * Print a text of paragraphs: consecutive lines are refilled. A line that begins with a space stays a separate line; if
 * it is too long, it continues with an indentation.
 */
void hth_wrap_text(const char *text, FILE *out);

/*
 * ---- a text that comes in pieces ----
 *
 * Only the current word waits, until it is complete or does not fit; then it begins the next line. A word longer than a
 * line goes on there, and the terminal breaks it at its edge. Each wide character (Chinese, emoji) is a separate word.
 * Lines of code, fenced with ``` or ~~~, are unchanged. A space at the edge becomes the line end; all other bytes are
 * output unchanged.
 */

enum { HTH_WORD_WRAP_BYTES = 256 }; /* a longer word, such as one of many combining marks, does not wait */

/* All zeros, except is_off, is the beginning of a line. */
typedef struct hth_word_wrap {
    bool is_off; /* used by callers, which then pass 0 columns */

    int column;       /* of the cursor, without the waiting word */
    bool can_move;    /* the next word, or the waiting one, can begin the next line */
    bool left_out;    /* a space at the edge was omitted; the line ends before the next word */
    char part[4];     /* the beginning of an incomplete character */
    size_t n_part;    /* its bytes */
    size_t n_word;    /* bytes of the waiting word */
    int word_columns; /* their width */
    char word[HTH_WORD_WRAP_BYTES];

    /* of code */
    enum { HTH_WRAP_AT_INDENT, HTH_WRAP_AT_MARKS, HTH_WRAP_AT_REST } place; /* in the line */
    char mark;                                                              /* ` or ~ at the beginning of the line */
    int n_marks;      /* of these; 0: the line begins with something else */
    bool has_rest;    /* the line has more than marks */
    bool is_opening;  /* the line is the fence that opened the code */
    char open_mark;   /* of the fence that opened the code; 0: not in code */
    int n_open_marks; /* number of these marks; as many close the code */
} hth_word_wrap;

/* Append the part of a piece that can be shown on a terminal with this number of columns; 0: all of it, unchanged. */
void hth_word_wrap_add(hth_word_wrap *wrap, const char *text, size_t n_bytes, int columns, hth_buffer *out);
/* Append the waiting word, because the text ends or other output comes now. */
void hth_word_wrap_flush(hth_word_wrap *wrap, hth_buffer *out);
/* Begin another text, at the beginning of a line. */
void hth_word_wrap_restart(hth_word_wrap *wrap);

#endif
