#include "console/wrap.h"

#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/utf8.h"

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

/*
 * ---- a text that comes in pieces ----
 *
 * A terminal puts a character behind the last column into the next line by itself, and wraps a wide one a column
 * earlier; so no line end is written there. A cursor behind the last column has column == columns.
 */

enum { TAB_COLUMNS = 8, FENCE_MARKS = 3 };

/* ---- widths ---- */

static pthread_once_t locale_once = PTHREAD_ONCE_INIT;
static locale_t utf8; /* 0: none, and all characters except ASCII count as narrow */

static void make_locale(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* The columns of a character. Controls have none: they do not reach a terminal. */
static int width_of(const char *bytes, size_t n)
{
    const char *at = bytes;
    const uint32_t character = n > 1 ? hth_utf8_next(&at, bytes + n) : (unsigned char)*bytes;
    const int width = wcwidth((wchar_t)character);

    if (character < 0x20 || (character >= 0x7f && character < 0xa0 && (n > 1 || character == 0x7f)))
        return 0;
    return width < 0 ? 1 : width;
}

/* ---- code ---- */

static void end_line_of_code(hth_word_wrap *wrap)
{
    if (wrap->open_mark && !wrap->is_opening && !wrap->has_rest && wrap->mark == wrap->open_mark &&
        wrap->n_marks >= wrap->n_open_marks)
        wrap->open_mark = '\0';
    wrap->place = HTH_WRAP_AT_INDENT;
    wrap->mark = '\0';
    wrap->n_marks = 0;
    wrap->has_rest = wrap->is_opening = false;
}

/* Update the state of fences with a character, or its first byte. */
static void look_for_code(hth_word_wrap *wrap, char c)
{
    const bool is_blank = c == ' ' || c == '\t', is_mark = c == '`' || c == '~';

    if (wrap->place == HTH_WRAP_AT_INDENT && is_mark) {
        wrap->place = HTH_WRAP_AT_MARKS;
        wrap->mark = c;
    } else if (wrap->place == HTH_WRAP_AT_INDENT ? !is_blank : c != wrap->mark) {
        wrap->place = HTH_WRAP_AT_REST;
    }
    if (wrap->place == HTH_WRAP_AT_MARKS) {
        wrap->n_marks++;
        if (wrap->n_marks >= FENCE_MARKS && (!wrap->open_mark || wrap->is_opening)) {
            wrap->is_opening = true;
            wrap->open_mark = c;
            wrap->n_open_marks = wrap->n_marks;
        }
    } else if (wrap->place == HTH_WRAP_AT_REST && !is_blank) {
        wrap->has_rest = true;
        if (wrap->is_opening && c == '`' && wrap->mark == '`') { /* ```words``` in a line are not a fence */
            wrap->open_mark = '\0';
            wrap->is_opening = false;
        }
    }
}

/* ---- lines ---- */

static void show(hth_word_wrap *wrap, const char *bytes, size_t n, int width, int columns, hth_buffer *out)
{
    hth_buffer_add(out, bytes, n);
    wrap->column = columns > 0 && wrap->column + width > columns ? width : wrap->column + width;
}

static void end_line(hth_word_wrap *wrap, hth_buffer *out)
{
    hth_buffer_add(out, "\n", 1);
    wrap->column = 0;
    wrap->left_out = false;
}

/* Output the waiting word; the rest of it follows. */
static void release(hth_word_wrap *wrap, hth_buffer *out)
{
    show(wrap, wrap->word, wrap->n_word, wrap->word_columns, 0, out);
    wrap->n_word = 0;
    wrap->word_columns = 0;
    wrap->can_move = false;
}

static void take_gap(hth_word_wrap *wrap, char c, int columns, hth_buffer *out)
{
    int width = 1;

    release(wrap, out);
    if (columns > 0 && !wrap->open_mark && wrap->column >= columns) {
        wrap->left_out = true;
        return;
    }
    if (c == '\t') { /* not beyond the last column */
        width = TAB_COLUMNS - wrap->column % TAB_COLUMNS;
        if (columns > 0 && wrap->column + width >= columns)
            width = wrap->column + 1 < columns ? columns - 1 - wrap->column : 0;
    }
    show(wrap, &c, 1, width, columns, out);
    wrap->can_move = true;
}

static void take_letter(hth_word_wrap *wrap, const char *bytes, size_t n, int columns, hth_buffer *out)
{
    const int width = width_of(bytes, n);

    if (wrap->left_out)
        end_line(wrap, out);
    if (width > 1 || wrap->open_mark || columns == 0 || wrap->n_word + n > sizeof(wrap->word)) {
        release(wrap, out);
        show(wrap, bytes, n, width, columns, out);
        wrap->can_move = width > 1; /* a break is possible after a wide character */
    } else if (wrap->can_move && wrap->column > 0 && (width > 0 || wrap->n_word > 0)) {
        memcpy(wrap->word + wrap->n_word, bytes, n);
        wrap->n_word += n;
        wrap->word_columns += width;
        if (wrap->column + wrap->word_columns > columns) {
            end_line(wrap, out);
            release(wrap, out);
        }
    } else {
        show(wrap, bytes, n, width, columns, out);
        wrap->can_move = wrap->can_move && width == 0; /* keep it for a mark on a wide character */
    }
}

static void take(hth_word_wrap *wrap, const char *bytes, size_t n, int columns, hth_buffer *out)
{
    if (*bytes == '\n') {
        release(wrap, out);
        end_line(wrap, out);
        end_line_of_code(wrap);
        return;
    }
    look_for_code(wrap, *bytes);
    if (*bytes == ' ' || *bytes == '\t')
        take_gap(wrap, *bytes, columns, out);
    else
        take_letter(wrap, bytes, n, columns, out);
}

/* ---- pieces ---- */

static void take_part(hth_word_wrap *wrap, int columns, hth_buffer *out)
{
    const size_t n = wrap->n_part;

    wrap->n_part = 0;
    if (n > 0)
        take(wrap, wrap->part, n, columns, out);
}

void hth_word_wrap_add(hth_word_wrap *wrap, const char *text, size_t n_bytes, int columns, hth_buffer *out)
{
    locale_t before;

    (void)pthread_once(&locale_once, make_locale);
    before = uselocale(utf8);
    if (columns > 0 && wrap->column > columns) /* it became narrower: the cursor after its own line breaks */
        wrap->column = (wrap->column - 1) % columns + 1;
    for (size_t i = 0; i < n_bytes; i++) {
        const bool goes_on = hth_utf8_goes_on(text[i]);

        if (!goes_on) /* a truncated character */
            take_part(wrap, columns, out);
        wrap->part[wrap->n_part++] = text[i];
        if (wrap->n_part >= hth_utf8_length(wrap->part[0]))
            take_part(wrap, columns, out);
    }
    (void)uselocale(before);
}

void hth_word_wrap_flush(hth_word_wrap *wrap, hth_buffer *out)
{
    release(wrap, out);
    hth_buffer_add(out, wrap->part, wrap->n_part);
    wrap->n_part = 0;
}

void hth_word_wrap_restart(hth_word_wrap *wrap)
{
    *wrap = (hth_word_wrap){ .is_off = wrap->is_off };
}
