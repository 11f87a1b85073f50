/*
 * wrap.h - texts for people in lines that fit their terminal
 */
#ifndef HTH_CONSOLE_WRAP_H
#define HTH_CONSOLE_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* Columns of the terminal that out is; 0: it is none, or does not tell. */
int hth_terminal_columns(FILE *out);

/* Columns of a line: those of the terminal that out is, between 40 and 100; elsewhere 80. */
int hth_wrap_columns(FILE *out);

/*
 * Print the words of a text, and end the line. The first one comes at column `at`, where the cursor is; further lines
 * begin at column `indent`. A word that is longer than a line is not broken.
 */
void hth_wrap_words(const char *text, size_t n_bytes, int at, int indent, FILE *out);

/*
 * Print a text of paragraphs: lines that follow each other are filled anew. A line that begins with a space stays a
 * line
 * of its own, and goes on behind its first column where it is too long.
 */
void hth_wrap_text(const char *text, FILE *out);

#endif
