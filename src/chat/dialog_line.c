/*
 * dialog_line.c - see dialog_line.h; libedit reads lines of a terminal
 */
#include "chat/dialog_line.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "api/buffer.h"
#include "chat/dialog_signals.h"

enum { HISTORY_LINES = 1000, MESSAGE_BYTES_MAX = 16 << 20, TYPED_BYTES = 4096 };

/*
 * Bracketed paste: while a line is read, the terminal puts marks around a pasted text, so that its line ends do not
 * submit it. A libedit key is bound to the first mark. The second one alone does nothing.
 *
 * Meanwhile Ctrl-C is read as a byte, so that its position among the others is known: a signal would arrive with part
 * of a paste read, and the rest would be treated as typed lines.
 */
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";
static const wchar_t paste_end[] = L"\033[201~";
enum { N_PASTE_END = sizeof(paste_end) / sizeof(paste_end[0]) - 1, CTRL_C = 3 };

static const char too_long[] = "a message of standard input has 16 MiB or more; it and all behind it are left out";
static const char no_memory[] = "no memory for a message of standard input; it and all behind it are left out";

struct hth_dialog_line {
    EditLine *edit; /* NULL: not a terminal */
    History *history;
    char *history_path;
    bool continues; /* the message has lines before this one */
    bool was_block;
    bool has_begun;    /* a character of the line was requested */
    bool marks_pastes; /* the terminal marks pastes */
    bool has_paste;    /* the line begins with a pasted text of several lines */
    bool is_pasted;    /* the end of a paste is still to come */
    bool skips_paste;  /* the same, but after Ctrl-C */
    size_t n_skipped;  /* of its mark */
    mbstate_t decoding;
    char typed[TYPED_BYTES]; /* read from a paste, but not used yet */
    size_t n_typed, n_taken;
    hth_buffer message;
    hth_buffer plain; /* a line without a terminal */
    hth_buffer ahead; /* text read after it */
    const char *fault;
};

/* ---- the terminal ---- */

static char *prompt_of(const hth_dialog_line *line)
{
    static char first[] = ">>> ", further[] = "... ";

    return line->continues ? further : first;
}

static hth_dialog_line *line_of(EditLine *edit)
{
    void *line = NULL;

    (void)el_get(edit, EL_CLIENTDATA, &line); /* cannot fail: it was set */
    return line;
}

static char *show_prompt(EditLine *edit)
{
    return prompt_of(line_of(edit));
}

/* The next byte of the terminal; 0 or -1: none. Pastes are read in larger pieces, which is faster. */
static ssize_t next_byte(hth_dialog_line *line, char *out)
{
    while (line->n_taken == line->n_typed) {
        ssize_t n = hth_dialog_wait(STDIN_FILENO)
                      ? read(STDIN_FILENO, line->typed, line->is_pasted || line->skips_paste ? sizeof(line->typed) : 1)
                      : -1;

        if (n < 0 && errno == EINTR && !hth_dialog_stop)
            continue;
        if (n <= 0)
            return n;
        line->n_typed = (size_t)n;
        line->n_taken = 0;
    }
    *out = line->typed[line->n_taken++];
    return 1;
}

/* The next byte of a paste that Ctrl-C ended. */
static void skip(hth_dialog_line *line, char byte)
{
    if ((wchar_t)byte != paste_end[line->n_skipped])
        line->n_skipped = 0;
    line->n_skipped += (wchar_t)byte == paste_end[line->n_skipped];
    if (line->n_skipped == N_PASTE_END) {
        line->n_skipped = 0;
        line->skips_paste = false;
    }
}

/* A second Ctrl-C recovers from a paste whose end was lost. */
static void interrupt(hth_dialog_line *line)
{
    line->skips_paste = line->is_pasted;
    line->n_skipped = 0;
    memset(&line->decoding, 0, sizeof(line->decoding));
    hth_dialog_stop = 1;
    errno = EINTR;
}

/* libedit restores the terminal after the line. Its own way to set such a key (EL_SETTY) does not persist (3.1). */
static void make_ctrl_c_a_byte(void)
{
    struct termios mode;

    if (tcgetattr(STDIN_FILENO, &mode) != 0 || mode.c_cc[VINTR] != CTRL_C)
        return;
    mode.c_cc[VINTR] = _POSIX_VDISABLE;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &mode); /* if it fails, Ctrl-C is a signal */
}

/* libedit's own reader would continue after a signal. */
static int read_character(EditLine *edit, wchar_t *out)
{
    hth_dialog_line *line = line_of(edit);

    if (!line->has_begun) /* libedit has set the terminal by now */
        make_ctrl_c_a_byte();
    line->has_begun = true;
    for (;;) {
        char byte;
        ssize_t n = next_byte(line, &byte);

        if (n > 0 && byte == CTRL_C) {
            interrupt(line);
            return -1;
        }
        if (n < 0 && hth_dialog_stop)
            interrupt(line); /* a signal from another program */
        if (n <= 0)
            return (int)n;
        if (line->skips_paste) {
            skip(line, byte);
            continue;
        }
        switch (mbrtowc(out, &byte, 1, &line->decoding)) {
        case (size_t)-2: continue; /* the character has more bytes */
        case (size_t)-1: memset(&line->decoding, 0, sizeof(line->decoding)); continue;
        default: return 1;
        }
    }
}

/*
 * Terminals send a carriage return for each line end. Other control characters would act as keys if typed, so they are
 * left out.
 */
static void add_pasted(hth_buffer *text, wchar_t c)
{
    const bool is_control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || (c >= 0x7f && c < 0xa0);
    const wchar_t shown = c == '\r' ? '\n' : c;

    if (!is_control && text->n < MESSAGE_BYTES_MAX)
        hth_buffer_add(text, (const char *)&shown, sizeof(shown));
}

/* Read a paste up to its end mark, as wide characters. False if the input ended, or after Ctrl-C. */
static bool read_paste(EditLine *edit, hth_buffer *text)
{
    wchar_t c;

    for (size_t n_matched = 0; n_matched < N_PASTE_END;) {
        if (read_character(edit, &c) != 1)
            return false;
        if (c == paste_end[n_matched]) {
            n_matched++;
            continue;
        }
        for (size_t i = 0; i < n_matched; i++)
            add_pasted(text, paste_end[i]);
        n_matched = c == paste_end[0];
        if (n_matched == 0)
            add_pasted(text, c);
    }
    return true;
}

/* The function of the key for the first mark. The text is then in the line and can be edited. */
static unsigned char insert_paste(EditLine *edit, int key)
{
    static const wchar_t end = L'\0';
    hth_dialog_line *line = line_of(edit);
    const LineInfo *before = el_line(edit);
    const bool is_first = before->cursor == before->buffer;
    hth_buffer text = { .text = NULL };
    bool is_whole, is_inserted = false;

    (void)key; /* there is only one */
    line->is_pasted = true;
    is_whole = read_paste(edit, &text);
    line->is_pasted = false;
    hth_buffer_add(&text, (const char *)&end, sizeof(end));
    if (is_whole && !text.failed) {
        const wchar_t *inserted = (const wchar_t *)(void *)text.text; /* from malloc, so it is aligned */

        is_inserted = el_winsertstr(edit, inserted) == 0;
        line->has_paste |= is_inserted && is_first && wcschr(inserted, L'\n');
    }
    hth_buffer_deinit(&text);
    return !is_whole ? CC_EOF : is_inserted ? CC_REFRESH : CC_ERROR;
}

static unsigned char ignore_mark(EditLine *edit, int key)
{
    (void)edit, (void)key; /* nothing to do */
    return CC_NORM;
}

/* Called after the user's settings, which may replace all keys. */
static void bind_paste(hth_dialog_line *line)
{
    const char *terminal = getenv("TERM"), *editor = NULL;

    /* In vi's mode a bound sequence would delay the key Escape. */
    if (!terminal || strcmp(terminal, "dumb") == 0 || el_get(line->edit, EL_EDITOR, &editor) != 0 ||
        strcmp(editor, "emacs") != 0)
        return;
    /* el_set would copy the texts of EL_ADDFN, and nothing frees its copies. */
    (void)el_wset(line->edit, EL_ADDFN, L"hearth-paste", L"Insert a pasted text", insert_paste);
    (void)el_wset(line->edit, EL_ADDFN, L"hearth-paste-end", L"Ignore the end of a paste", ignore_mark);
    line->marks_pastes = el_set(line->edit, EL_BIND, "\\e[200~", "hearth-paste", NULL) == 0 &&
                         el_set(line->edit, EL_BIND, "\\e[201~", "hearth-paste-end", NULL) == 0;
}

static void open_editor(hth_dialog_line *line)
{
    HistEvent event;

    /* libedit and mbrtowc read characters in the locale's encoding; messages are UTF-8 even without a locale. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        (void)setlocale(LC_CTYPE, "C.UTF-8"); /* otherwise only ASCII can be typed */
    line->edit = el_init("hearth", stdin, stdout, stderr);
    line->history = history_init();
    if (!line->edit || !line->history)
        return; /* lines are then read without editing */
    (void)el_set(line->edit, EL_CLIENTDATA, line);
    (void)el_set(line->edit, EL_PROMPT, show_prompt);
    (void)el_set(line->edit, EL_EDITOR, "emacs");
    (void)el_set(line->edit, EL_GETCFN, read_character);
    (void)el_set(line->edit, EL_SIGNAL, 0);
    (void)history(line->history, &event, H_SETSIZE, HISTORY_LINES);
    (void)history(line->history, &event, H_SETUNIQUE, 1);
    (void)el_set(line->edit, EL_HIST, history, line->history);
    (void)el_source(line->edit, NULL); /* the user's ~/.editrc, if there is one */
    bind_paste(line);
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

        (void)history(line->history, &event, H_SAVE, line->history_path); /* only a convenience */
        (void)umask(before);
    }
    if (line->edit) {
        el_end(line->edit);
        (void)fputs("\n", stdout); /* so that the shell's prompt begins on a new line */
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

/*
 * Without a terminal: the next line with its line end, which the last line may lack. Read here, so that signals end the
 * wait.
 */
static const char *plain_line(hth_dialog_line *line, ssize_t *n_out)
{
    const char *end = NULL;
    char bytes[4096];
    size_t n_searched = 0;
    ssize_t n = 1;

    hth_buffer_clear(&line->plain);
    if (isatty(STDIN_FILENO)) /* only the output is not a terminal */
        (void)fputs(prompt_of(line), stderr);
    while (!line->fault) {
        if (line->ahead.n > n_searched)
            end = memchr(line->ahead.text + n_searched, '\n', line->ahead.n - n_searched);
        n_searched = end ? (size_t)(end - line->ahead.text) : line->ahead.n;
        if (n_searched >= MESSAGE_BYTES_MAX)
            line->fault = too_long;
        if (end || n <= 0)
            break;
        n = hth_dialog_wait(STDIN_FILENO) ? read(STDIN_FILENO, bytes, sizeof(bytes)) : -1;
        if (n > 0)
            hth_buffer_add(&line->ahead, bytes, (size_t)n);
        if (line->ahead.failed)
            line->fault = no_memory;
        else if (n < 0 && !hth_dialog_stop)
            line->fault = "standard input cannot be read";
    }
    *n_out = line->fault ? 0 : end ? end + 1 - line->ahead.text : (n < 0 ? 0 : (ssize_t)line->ahead.n);
    hth_buffer_add(&line->plain, hth_buffer_text(&line->ahead), (size_t)*n_out);
    if (line->plain.failed) {
        line->fault = no_memory;
        *n_out = 0;
    }
    if (*n_out > 0) {
        memmove(line->ahead.text, line->ahead.text + *n_out, line->ahead.n - (size_t)*n_out);
        line->ahead.n -= (size_t)*n_out;
    }
    return hth_buffer_text(&line->plain);
}

/* A line of the terminal with its end. */
static const char *edited_line(hth_dialog_line *line, ssize_t *n_out)
{
    const char *text;
    int count = 0;

    line->has_paste = line->has_begun = false;
    (void)fputs(line->marks_pastes ? paste_on : "", stdout); /* may fail, as below */
    text = el_gets(line->edit, &count);
    (void)fputs(line->marks_pastes ? paste_off : "", stdout);
    (void)fflush(stdout);
    *n_out = text ? count : 0;
    while (*n_out > 1 && text[*n_out - 2] == '\n') /* from a paste */
        --*n_out;
    return text;
}

/* One line without its line end; NULL if the input ended or Ctrl-C cleared the line. */
static const char *next_line(hth_dialog_line *line, size_t *n_out)
{
    const char *text;
    ssize_t n;

    text = hth_dialog_line_is_terminal(line) ? edited_line(line, &n) : plain_line(line, &n);
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

/* Read the lines of one message. False if the input ended early, or has a fault. */
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
            return line->message.n > 0 && !hth_dialog_ends && !line->fault;
        if (n == 3 && memcmp(text, "\"\"\"", 3) == 0) {
            if (is_block)
                return true;
            is_block = line->was_block = line->continues = true;
            continue;
        }
        line->was_block |= line->has_paste && line->message.n == 0;
        goes_on = !is_block && n > 0 && text[n - 1] == '\\';
        if (line->continues && line->message.n > 0)
            hth_buffer_add(&line->message, "\n", 1);
        hth_buffer_add(&line->message, text, n - goes_on);
        line->continues = is_block || goes_on;
        if (line->message.failed)
            break;
        if (!line->continues)
            return true;
    }
    line->fault = line->message.failed ? no_memory : too_long;
    return false;
}

const char *hth_dialog_line_fault(const hth_dialog_line *line)
{
    return line->fault;
}

bool hth_dialog_line_was_block(const hth_dialog_line *line)
{
    return line->was_block;
}

const char *hth_dialog_line_read(hth_dialog_line *line, size_t *n_out)
{
    while (read_lines(line)) {
        const char *text = hth_buffer_text(&line->message);
        HistEvent event;

        if (strspn(text, " \t\r\n") == line->message.n)
            continue;
        if (hth_dialog_line_is_terminal(line))
            (void)history(line->history, &event, H_ENTER, text); /* only a convenience */
        *n_out = line->message.n;
        return text;
    }
    return NULL;
}
