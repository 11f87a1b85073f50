/*
 * dialog_line.c - see dialog_line.h; libedit reads lines of a terminal
 */
#include "cli/dialog_line.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "api/buffer.h"
#include "cli/dialog_signals.h"

enum { HISTORY_LINES = 1000, MESSAGE_BYTES_MAX = 16 << 20 };

struct hth_dialog_line {
    EditLine *edit; /* NULL: no terminal */
    History *history;
    char *history_path;
    bool continues; /* the message has lines before this one */
    bool was_block;
    mbstate_t decoding;
    hth_buffer message;
    hth_buffer plain; /* a line without a terminal */
    hth_buffer ahead; /* what was read behind it */
};

/* ---- the terminal ---- */

static char *prompt_of(const hth_dialog_line *line)
{
    static char first[] = ">>> ", further[] = "... ";

    return line->continues ? further : first;
}

static char *show_prompt(EditLine *edit)
{
    void *line = NULL;

    (void)el_get(edit, EL_CLIENTDATA, &line); /* it was set */
    return prompt_of(line);
}

/* libedit's own reader would go on after a signal. */
static int read_character(EditLine *edit, wchar_t *out)
{
    void *data = NULL;
    hth_dialog_line *line;

    (void)el_get(edit, EL_CLIENTDATA, &data);
    line = data;
    while (hth_dialog_wait(STDIN_FILENO)) {
        char byte;
        ssize_t n = read(STDIN_FILENO, &byte, 1);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        switch (mbrtowc(out, &byte, 1, &line->decoding)) {
        case (size_t)-2: continue; /* the character has more bytes */
        case (size_t)-1: memset(&line->decoding, 0, sizeof(line->decoding)); continue;
        default: return 1;
        }
    }
    return -1;
}

static void open_editor(hth_dialog_line *line)
{
    HistEvent event;

    /* libedit and mbrtowc read characters of the locale; messages are UTF-8 also where there is none. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        (void)setlocale(LC_CTYPE, "C.UTF-8"); /* else only ASCII can be typed */
    line->edit = el_init("hearth", stdin, stdout, stderr);
    line->history = history_init();
    if (!line->edit || !line->history)
        return; /* then lines are read without editing */
    (void)el_set(line->edit, EL_CLIENTDATA, line);
    (void)el_set(line->edit, EL_PROMPT, show_prompt);
    (void)el_set(line->edit, EL_EDITOR, "emacs");
    (void)el_set(line->edit, EL_GETCFN, read_character);
    (void)el_set(line->edit, EL_SIGNAL, 0);
    (void)history(line->history, &event, H_SETSIZE, HISTORY_LINES);
    (void)history(line->history, &event, H_SETUNIQUE, 1);
    (void)el_set(line->edit, EL_HIST, history, line->history);
    (void)el_source(line->edit, NULL); /* the user's ~/.editrc, if there is one */
    if (line->history_path)
        (void)history(line->history, &event, H_LOAD, line->history_path); /* missing at first */
}

hth_dialog_line *hth_dialog_line_open(const char *history_path)
{
    hth_dialog_line *line = calloc(1, sizeof(*line));

    if (!line)
        return NULL;
    line->history_path = history_path ? strdup(history_path) : NULL;
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        open_editor(line);
    return line;
}

void hth_dialog_line_close(hth_dialog_line *line)
{
    HistEvent event;

    if (!line)
        return;
    if (line->history && line->history_path) {
        const mode_t before = umask(077); /* messages are private */

        (void)history(line->history, &event, H_SAVE, line->history_path); /* a convenience */
        (void)umask(before);
    }
    if (line->edit) {
        el_end(line->edit);
        (void)fputs("\n", stdout); /* the shell's prompt begins on a line of its own */
    }
    if (line->history)
        history_end(line->history);
    hth_buffer_deinit(&line->message);
    free(line->history_path);
    hth_buffer_deinit(&line->plain);
    hth_buffer_deinit(&line->ahead);
    free(line);
}

bool hth_dialog_line_is_terminal(const hth_dialog_line *line)
{
    return line->edit && line->history;
}

/* ---- lines ---- */

/* Without a terminal: the next line with its end, which the last may lack. Read here, so that signals end the wait. */
static const char *plain_line(hth_dialog_line *line, ssize_t *n_out)
{
    const char *end;
    char bytes[4096];
    ssize_t n = 1;

    hth_buffer_clear(&line->plain);
    if (isatty(STDIN_FILENO)) /* only the output is no terminal */
        (void)fputs(prompt_of(line), stderr);
    while (!(end = memchr(line->ahead.text ? line->ahead.text : "", '\n', line->ahead.n)) && n > 0) {
        n = hth_dialog_wait(STDIN_FILENO) ? read(STDIN_FILENO, bytes, sizeof(bytes)) : -1;
        if (n > 0)
            hth_buffer_add(&line->ahead, bytes, (size_t)n);
        if (line->ahead.failed || line->ahead.n > MESSAGE_BYTES_MAX)
            n = -1;
    }
    *n_out = end ? end + 1 - line->ahead.text : (n < 0 ? 0 : (ssize_t)line->ahead.n);
    hth_buffer_add(&line->plain, hth_buffer_text(&line->ahead), (size_t)*n_out);
    if (*n_out > 0) {
        memmove(line->ahead.text, line->ahead.text + *n_out, line->ahead.n - (size_t)*n_out);
        line->ahead.n -= (size_t)*n_out;
    }
    return hth_buffer_text(&line->plain);
}

/* One line without its end; NULL: none, because the input ended or Ctrl-C emptied the line. */
static const char *next_line(hth_dialog_line *line, size_t *n_out)
{
    const char *text;
    ssize_t n;
    int count = 0;

    if (hth_dialog_line_is_terminal(line)) {
        text = el_gets(line->edit, &count);
        n = count;
    } else {
        text = plain_line(line, &n);
    }
    if (!text || n <= 0)
        return NULL;
    *n_out = (size_t)n - (text[n - 1] == '\n');
    return text;
}

/* After Ctrl-C: a new line for a new message. */
static void forget_line(hth_dialog_line *line)
{
    hth_dialog_stop = 0;
    line->continues = false;
    hth_buffer_clear(&line->message);
    if (hth_dialog_line_is_terminal(line)) {
        el_reset(line->edit);
        (void)fputs("^C\n", stdout); /* only a display */
    }
}

static bool is_quotes(const char *text, size_t n)
{
    return n == 3 && memcmp(text, "\"\"\"", 3) == 0;
}

/* Read the lines of one message. False: the input ended before its end. */
static bool read_lines(hth_dialog_line *line)
{
    bool is_block = false;

    line->continues = line->was_block = false;
    hth_buffer_clear(&line->message);
    while (line->message.n < MESSAGE_BYTES_MAX) {
        size_t n = 0;
        const char *text = next_line(line, &n);
        bool goes_on;

        if (!text && hth_dialog_stop && !hth_dialog_ends) {
            forget_line(line);
            is_block = line->was_block = false;
            continue;
        }
        if (!text)
            return line->message.n > 0 && !hth_dialog_ends;
        if (is_quotes(text, n)) {
            if (is_block)
                return true;
            is_block = line->was_block = line->continues = true;
            continue;
        }
        goes_on = !is_block && n > 0 && text[n - 1] == '\\';
        if (line->continues && line->message.n > 0)
            hth_buffer_add(&line->message, "\n", 1);
        hth_buffer_add(&line->message, text, n - goes_on);
        line->continues = is_block || goes_on;
        if (!line->continues)
            return true;
    }
    return true;
}

bool hth_dialog_line_was_block(const hth_dialog_line *line)
{
    return line->was_block;
}

static void remember(hth_dialog_line *line)
{
    HistEvent event;

    if (hth_dialog_line_is_terminal(line))
        (void)history(line->history, &event, H_ENTER, hth_buffer_text(&line->message)); /* a convenience */
}

const char *hth_dialog_line_read(hth_dialog_line *line)
{
    while (read_lines(line)) {
        const char *text = hth_buffer_text(&line->message);

        if (text[strspn(text, " \t\r\n")] == '\0')
            continue;
        remember(line);
        return text;
    }
    return NULL;
}
