/*
 * line_reader.h - reads lines from a file or a pipe, for a caller that also waits for other events
 *
 * The caller decides when to read: if there is no whole line, it polls the descriptor and fills the reader.
 */
#ifndef HTH_CONSOLE_LINE_READER_H
#define HTH_CONSOLE_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

typedef struct hth_line_reader hth_line_reader; /* one thread at a time */

/* "-" is standard input. HEARTH_NOT_FOUND, HEARTH_PERMISSION, HEARTH_IO, HEARTH_NO_MEMORY. */
hearth_status hth_line_reader_open(const char *path, hth_line_reader **out, hearth_error *err);
void hth_line_reader_close(hth_line_reader *reader); /* accepts NULL */

/* The name of the file for messages: its path, or "standard input". */
const char *hth_line_reader_name(const hth_line_reader *reader);
/* The descriptor to poll before filling. */
int hth_line_reader_fd(const hth_line_reader *reader);

/* Read once; blocks while there is no input. HEARTH_IO; HEARTH_TOO_LONG for a line that exceeds the limit of a text. */
hearth_status hth_line_reader_fill(hth_line_reader *reader, hearth_error *err);

/*
 * The next whole line: terminated, without its line end, *n bytes, which may contain zeros. It is valid until the next
 * call of any function here. NULL: fill the reader first, or the file is done.
 */
char *hth_line_reader_next(hth_line_reader *reader, size_t *n, uint64_t *number);
/* True if the file has ended and all lines were returned. */
bool hth_line_reader_is_done(const hth_line_reader *reader);

#endif
