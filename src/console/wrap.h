/*
 * wrap.h - prints texts for people in lines that fit their terminal
 */
#ifndef HTH_CONSOLE_WRAP_H
#define HTH_CONSOLE_WRAP_H

#include <stddef.h>
#include <stdio.h>

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

#endif
