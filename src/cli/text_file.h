/*
 * text_file.h - files that hold one text: a prompt, a template, a grammar
 */
#ifndef HTH_CLI_TEXT_FILE_H
#define HTH_CLI_TEXT_FILE_H

/* The most that is read of a file, or of a line of prompts. */
enum { HTH_TEXT_FILE_BYTES_MAX = 256 << 20 };

/*
 * A whole file, without its last line end, as a new string; "-" is standard input. NULL when it cannot be read, is too
 * large or holds a zero byte, which was said.
 */
char *hth_text_file_read(const char *path);

#endif
