/*
 * dialog_line.h - what a user types: lines with editing and history on a terminal, plain lines elsewhere
 *
 * A message is one line. It goes on in the next line behind a backslash at the end, and has any number of lines between
 * two lines of three quotes ("""), as in Ollama's program. A pasted text of several lines is one message, on a terminal
 * that marks pastes. Ctrl-C empties the line, Ctrl-D in an empty line ends. Ctrl-C within a paste leaves out the rest
 * of it, too.
 */
#ifndef HTH_CHAT_DIALOG_LINE_H
#define HTH_CHAT_DIALOG_LINE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hth_dialog_line hth_dialog_line; /* one thread */

/*
 * After hth_dialog_signals_catch. history_path: a file that keeps the lines of a terminal (NULL: none does). NULL: no
 * memory.
 */
hth_dialog_line *hth_dialog_line_open(const char *history_path);
void hth_dialog_line_close(hth_dialog_line *line); /* accepts NULL; writes the history */

/* Is it a terminal, with a prompt? */
bool hth_dialog_line_is_terminal(const hth_dialog_line *line);

/*
 * Was the last message between lines of quotes, or did it begin with a pasted text of several lines? Then it is no
 * word, whatever it begins with.
 */
bool hth_dialog_line_was_block(const hth_dialog_line *line);

/*
 * The next message that is not empty, borrowed until the next call; NULL: the input has ended, or a signal ends the
 * program. n_out receives its bytes; it may have zero bytes among them.
 */
const char *hth_dialog_line_read(hth_dialog_line *line, size_t *n_out);
/* Why the input ended before its end, for people; NULL: it did not. */
const char *hth_dialog_line_fault(const hth_dialog_line *line);

#endif
