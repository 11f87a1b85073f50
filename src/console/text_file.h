/*
 * text_file.h - reads files that hold one text (a prompt, a template, a grammar), and files of lines
 */
#ifndef HTH_CONSOLE_TEXT_FILE_H
#define HTH_CONSOLE_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/buffer.h"
#include "hearth.h"

/* The limit of a file, and of a line of prompts. */
enum { HTH_TEXT_FILE_BYTES_MAX = 256 << 20 };

/*
 * Read a whole file, without its last line end, as a new string; "-" is standard input. NULL, with a message on
 * standard error, if it cannot be read, is too large or contains a zero byte.
 */
char *hth_text_file_read(const char *path);
/* Append the bytes of a descriptor up to its end. False, with errno: it cannot be read; EFBIG: over n_max bytes. */
bool hth_read_to_end(int fd, size_t n_max, hth_buffer *out);

/*
 * Reads lines from a file or a pipe, for a caller that also waits for other events. The caller decides when to read: if
 * there is no whole line, it polls the descriptor and fills the reader. One thread at a time.
 */
typedef struct hth_line_reader hth_line_reader;

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
