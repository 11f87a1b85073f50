/*
 * output.h - untrusted texts on standard output, its end, and errors
 */
#ifndef HTH_CONSOLE_OUTPUT_H
#define HTH_CONSOLE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "console/wrap.h"
#include "hearth.h"

/* The exit codes of the program. */
enum { HTH_EXIT_OK = 0, HTH_EXIT_FAILED = 1, HTH_EXIT_USAGE = 2, HTH_EXIT_INTERRUPTED = 130 };

/*
 * Write text from a model or another program to standard output: to a terminal without control characters, which could
 * control it, elsewhere unchanged. False: it could not be written.
 */
bool hth_output_text(const char *text, size_t n_bytes);

/*
 * Likewise for a piece of a reply; on a terminal, lines are broken between words, unless wrap->is_off. The current word
 * waits in wrap for its end, or for hth_output_reply_flush, which must be called at the end of the reply and before
 * other output.
 */
bool hth_output_reply(hth_word_wrap *wrap, const char *text, size_t n_bytes);
bool hth_output_reply_flush(hth_word_wrap *wrap);

/*
 * Print one line, without a newline in format, of at most 4095 bytes. Control characters of the arguments become
 * spaces. Failures are only reported by hth_output_end.
 */
void hth_output_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Flush standard output. Returns exit_code, or that of a failure, with a message, if output was lost. If the reader of
 * a pipe has left, there is no message.
 */
int hth_output_end(int exit_code);

/* Print an error on standard error. Returns `returned`, for the caller to return. */
int hth_say(const char *message, int returned);
int hth_sayf(int returned, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Nothing if its message is empty: then the error was already printed. */
void hth_say_error(const hearth_error *err);

#endif
