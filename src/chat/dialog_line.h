/*
 * dialog_line.h - user input: lines with editing and history on a terminal, plain lines elsewhere
 *
 * A message is one line. A backslash at the end continues it on the next line, and between two lines of three quotes
 * (""") it may have any number of lines, as in Ollama's program. On a terminal that marks pastes, a pasted text of
 * several lines is one message. Ctrl-C clears the line, and Ctrl-D in an empty line ends the input. Ctrl-C within a
 * paste also discards the rest of the paste.
 */
#ifndef HTH_CHAT_DIALOG_LINE_H
#define HTH_CHAT_DIALOG_LINE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hth_dialog_line hth_dialog_line; /* one thread */

/*
 * Call after hth_dialog_signals_catch. history_path is a file that stores the lines of a terminal; NULL: none. Returns
 * NULL if out of memory.
 */
hth_dialog_line *hth_dialog_line_open(const char *history_path);
void hth_dialog_line_close(hth_dialog_line *line); /* accepts NULL; writes the history */

/* Is it a terminal, with a prompt? */
bool hth_dialog_line_is_terminal(const hth_dialog_line *line);

/*
 * Was the last message between lines of quotes, or did it begin with a pasted text of several lines? If so, it is not a
 * command, whatever it begins with.
 */
bool hth_dialog_line_was_block(const hth_dialog_line *line);

/*
 * The next message that is not empty, borrowed until the next call; NULL if the input has ended, or a signal ends the
 * program. n_out receives its length; it may contain NUL bytes.
 */
const char *hth_dialog_line_read(hth_dialog_line *line, size_t *n_out);
/* A message why the input ended early; NULL: it did not. */
const char *hth_dialog_line_fault(const hth_dialog_line *line);

#endif
