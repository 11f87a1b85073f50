/*
 * word_wrap.h - a text that comes in pieces, in lines that break between words
 *
 * Only the present word waits, until it is whole or does not fit: then it begins the next line. A word longer than a
 * line goes on there, and the terminal breaks it at its edge. Wide characters (Chinese, emoji) are words of their own.
 * Lines of code, fenced with ``` or ~~~, are not changed. A space at the edge becomes the line end; all other bytes
 * come out as they came in.
 */
#ifndef HTH_CONSOLE_WORD_WRAP_H
#define HTH_CONSOLE_WORD_WRAP_H

#include "api/buffer.h"

enum { HTH_WORD_WRAP_BYTES = 256 }; /* a word of more bytes, such as one of many combining marks, does not wait */

/* All zeros, but for is_off, is the begin of a line. */
typedef struct hth_word_wrap {
    bool is_off; /* for callers, which give no columns then */

    int column;       /* of the cursor, without the word that waits */
    bool can_move;    /* a word that comes, or the one that waits, can begin the next line */
    bool left_out;    /* a space at the edge; the line ends before the next word */
    char part[4];     /* the begin of a character */
    size_t n_part;    /* bytes of it */
    size_t n_word;    /* bytes of the word that waits */
    int word_columns; /* their width */
    char word[HTH_WORD_WRAP_BYTES];

    /* of code */
    enum { HTH_WRAP_AT_INDENT, HTH_WRAP_AT_MARKS, HTH_WRAP_AT_REST } place; /* in the line */
    char mark;                                                              /* ` or ~, which the line begins with */
    int n_marks;                                                            /* of these; 0: another begin */
    bool has_rest;                                                          /* the line has more than marks */
    bool is_opening;  /* the line is a fence that opened the code */
    char open_mark;   /* of the fence that opened the code; 0: this is no code */
    int n_open_marks; /* of them; as many close it */
} hth_word_wrap;

/* Append what of a piece can be shown in a terminal of so many columns; 0: all of it, unchanged. */
void hth_word_wrap_add(hth_word_wrap *wrap, const char *text, size_t n_bytes, int columns, hth_buffer *out);
/* Append what waits: the text ends, or something else is written now. */
void hth_word_wrap_flush(hth_word_wrap *wrap, hth_buffer *out);
/* Another text begins, at the begin of a line. */
void hth_word_wrap_restart(hth_word_wrap *wrap);

#endif
