/*
 * output.h - texts of others on standard output, its end, and errors
 */
#ifndef HTH_CONSOLE_OUTPUT_H
#define HTH_CONSOLE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "console/word_wrap.h"
#include "hearth.h"

/*
 * Write text of a model or another program to standard output: to a terminal without control characters, which would
 * command it, elsewhere as it is. False: it could not be written.
 */
bool hth_output_text(const char *text, size_t n_bytes);

/*
 * The same for a piece of a reply; a terminal gets its lines broken between words, unless wrap->is_off. The present
 * word waits in wrap for its end, or for hth_output_reply_flush: at the reply's end, and before other output.
 */
bool hth_output_reply(hth_word_wrap *wrap, const char *text, size_t n_bytes);
bool hth_output_reply_flush(hth_word_wrap *wrap);

/*
 * Print one line, without a newline in format, of at most 4095 bytes. Control characters of the arguments become
 * spaces.
 * Only the end tells a failure.
 */
void hth_output_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Flush standard output. Returns exit_code, or that of a failure if output was lost; with a message, unless the reader
 * of a pipe has left.
 */
int hth_output_end(int exit_code);

/* Print an error on standard error. Returns what it is given, for the caller to return. */
int hth_say(const char *message, int returned);
void hth_say_error(const hearth_error *err);

#endif
