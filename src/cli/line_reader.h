/*
 * line_reader.h - the lines of a file or a pipe, by someone who has other things to wait for
 *
 * Reading is the caller's to time: when no whole line is there, it polls the descriptor and fills.
 */
#ifndef HTH_CLI_LINE_READER_H
#define HTH_CLI_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

typedef struct hth_line_reader hth_line_reader; /* one thread at a time */

/* "-" is standard input. HEARTH_NOT_FOUND, HEARTH_PERMISSION, HEARTH_IO, HEARTH_NO_MEMORY. */
hearth_status hth_line_reader_open(const char *path, hth_line_reader **out, hearth_error *err);
void hth_line_reader_close(hth_line_reader *reader); /* accepts NULL */

/* What messages call the file: its path, "standard input". */
const char *hth_line_reader_name(const hth_line_reader *reader);
/* What to poll for input before filling. */
int hth_line_reader_fd(const hth_line_reader *reader);

/* Read once; blocks where nothing is there. HEARTH_IO; HEARTH_TOO_LONG for a line beyond what a text may have. */
hearth_status hth_line_reader_fill(hth_line_reader *reader, hearth_error *err);

/*
 * The next line that is there: terminated, without its line end, n bytes, which may hold zeros; ours until the next call
 * of any function. NULL: fill first, or hth_line_reader_is_done.
 */
char *hth_line_reader_next(hth_line_reader *reader, size_t *n, uint64_t *number);
/* True when the file has ended and every line was given. */
bool hth_line_reader_is_done(const hth_line_reader *reader);

#endif
