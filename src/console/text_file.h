/*
 * text_file.h - reads files that hold one text: a prompt, a template, a grammar
 */
#ifndef HTH_CONSOLE_TEXT_FILE_H
#define HTH_CONSOLE_TEXT_FILE_H

#include "api/buffer.h"

/* The limit of a file, and of a line of prompts. */
enum { HTH_TEXT_FILE_BYTES_MAX = 256 << 20 };

/*
 * Read a whole file, without its last line end, as a new string; "-" is standard input. NULL, with a message on
 * standard error, if it cannot be read, is too large or contains a zero byte.
 */
char *hth_text_file_read(const char *path);
/* Append what a descriptor has up to its end. False, with errno: it cannot be read; EFBIG for more than n_max bytes. */
bool hth_read_to_end(int fd, size_t n_max, hth_buffer *out);

#endif
