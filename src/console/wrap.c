/*
 * wrap.c - see wrap.h
 */
#include "console/wrap.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 80, COLUMNS_MIN = 40, COLUMNS_MAX = 100 };

int hth_terminal_columns(FILE *out)
{
    struct winsize size;

    return isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* The columns of a line: those of the terminal out, between 40 and 100; 80 if it is not a terminal. */
static int line_columns(FILE *out)
{
    const int columns = hth_terminal_columns(out);

    if (columns == 0)
        return COLUMNS;
    return columns < COLUMNS_MIN ? COLUMNS_MIN : columns > COLUMNS_MAX ? COLUMNS_MAX : columns;
}

/* Line ends count as spaces between words. Failures cannot be reported, here and below. */
void hth_wrap_words(const char *text, size_t n_bytes, int at, int indent, FILE *out)
{
    const int columns = line_columns(out);
    const char *end = text + n_bytes;
    int column = at;

    for (;;) {
        size_t n = 0;

        while (text < end && (*text == ' ' || *text == '\n'))
            text++;
        while (text + n < end && text[n] != ' ' && text[n] != '\n')
            n++;
        if (n == 0)
            break;
        if (column > at && column + 1 + (int)n > columns) {
            (void)fprintf(out, "\n%*s", indent, "");
            column = at = indent;
        }
        column += fprintf(out, "%s%.*s", column > at ? " " : "", (int)n, text);
        text += n;
    }
    (void)fputc('\n', out);
}

/*
 * The indentation of a continued line: after the gap of two spaces of a list, or a little further than the line's
 * beginning.
 */
static int indent_of(const char *line, size_t n)
{
    const size_t begin = strspn(line, " ");

    for (size_t i = begin; i + 2 < n; i++)
        if (line[i] == ' ' && line[i + 1] == ' ')
            return (int)(i + strspn(line + i, " "));
    return (int)begin + 4;
}

static void print_line(const char *line, size_t n, FILE *out)
{
    const int indent = indent_of(line, n);
    size_t n_begin = strspn(line, " ");

    if (n <= (size_t)line_columns(out)) {
        (void)fprintf(out, "%.*s\n", (int)n, line);
        return;
    }
    if (n_begin + 4 != (size_t)indent) /* a list: its gap stays */
        n_begin = (size_t)indent;
    (void)fprintf(out, "%.*s", (int)n_begin, line);
    hth_wrap_words(line + n_begin, n - n_begin, (int)n_begin, indent, out);
}

void hth_wrap_text(const char *text, FILE *out)
{
    while (*text) {
        size_t n = strcspn(text, "\n");

        if (n == 0 || *text == ' ') {
            print_line(text, n, out);
        } else {
            while (text[n] == '\n' && text[n + 1] != '\0' && text[n + 1] != '\n' && text[n + 1] != ' ')
                n += 1 + strcspn(text + n + 1, "\n");
            hth_wrap_words(text, n, 0, 0, out);
        }
        text += n + (text[n] == '\n');
    }
}
