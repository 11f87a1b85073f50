/*
 * Kinds are tried in turn, the most specific first: a date inside a temporary path belongs to the path, and digits
 * inside a UUID are not a number.
 */
#include "base/changing_text.h"

#include <string.h>

#include "base/hex.h"

enum { REACH_BYTES = 256, DATE_WORDS_BYTES = 40 };

/* The text around the requested position. */
typedef struct around {
    const char *text;
    size_t n;
    size_t at;
} around;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return hth_hex_digit(c) >= 0;
}

static bool is_word(char c)
{
    return is_digit(c) || is_letter(c);
}

static bool is_path(char c)
{
    return is_word(c) || (c != '\0' && strchr("/._-+~@", c));
}

static char before(const around *a, size_t i)
{
    return i > 0 ? a->text[i - 1] : '\0';
}

static char behind(const around *a, size_t i)
{
    return i < a->n ? a->text[i] : '\0';
}

/* The run of such characters around the position. False: the position is not in such a run. */
static bool run_of(const around *a, bool (*is)(char), size_t *begin, size_t *end)
{
    if (a->at >= a->n || !is(a->text[a->at]))
        return false;
    for (*begin = a->at; *begin > 0 && is(a->text[*begin - 1]);)
        (*begin)--;
    for (*end = a->at; *end < a->n && is(a->text[*end]);)
        (*end)++;
    return true;
}

/* ---- forms of fixed shape ---- */

/* The end of a form that begins there; 0: no match. d: a digit, D: one or two digits, h: a hexadecimal digit. */
static size_t form_end(const around *a, const char *form, size_t begin)
{
    size_t i = begin;

    for (; *form; form++) {
        char c = behind(a, i);

        if (*form == 'd' || *form == 'D' ? !is_digit(c) : *form == 'h' ? !is_hex(c) : c != *form)
            return 0;
        i++;
        i += *form == 'D' && is_digit(behind(a, i));
    }
    return i;
}

/* A time may follow a date after a T, and a zone may follow a time. */
static bool may_border(char c)
{
    return !is_word(c) || c == 'T' || c == 'Z';
}

/* One of these forms, a list that ends with NULL. */
static bool find_form(const around *a, const char *const *forms, size_t *begin, size_t *end)
{
    for (; *forms; forms++) {
        size_t reach = strlen(*forms) * 2;

        for (*begin = a->at > reach ? a->at - reach : 0; *begin <= a->at; (*begin)++) {
            *end = form_end(a, *forms, *begin);
            if (*end > a->at && may_border(before(a, *begin)) && may_border(behind(a, *end)))
                return true;
        }
    }
    return false;
}

/* ---- dates in words ---- */

typedef enum date_word { NO_DATE_WORD, DAY_OR_YEAR, MONTH, WEEKDAY } date_word;

static bool begins(const char *word, size_t n, const char *name)
{
    if (n < 3 || n > strlen(name))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((word[i] | 0x20) != name[i])
            return false;
    return n == 3 || n == strlen(name);
}

static date_word date_word_of(const char *word, size_t n)
{
    static const char *const months[] = { "january", "february", "march",     "april",   "may",      "june",
                                          "july",    "august",   "september", "october", "november", "december" };
    static const char *const weekdays[] = {
        "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
    };
    size_t n_digits = 0;

    for (size_t i = 0; i < sizeof(months) / sizeof(months[0]); i++)
        if (begins(word, n, months[i]))
            return MONTH;
    for (size_t i = 0; i < sizeof(weekdays) / sizeof(weekdays[0]); i++)
        if (begins(word, n, weekdays[i]))
            return WEEKDAY;
    while (n_digits < n && is_digit(word[n_digits]))
        n_digits++;
    if ((n_digits == n || n_digits + 2 == n) && (n_digits == 1 || n_digits == 2)) /* also 1st, 2nd */
        return DAY_OR_YEAR;
    return n_digits == n && n == 4 ? DAY_OR_YEAR : NO_DATE_WORD;
}

static bool is_in_date_words(char c)
{
    return is_word(c) || c == ' ' || c == ',' || c == '.';
}

/* "Sunday, 22 November 2026", "Nov 22, 2026": consecutive date words, including a weekday or a month and a number. */
static bool is_date_in_words(const around *a, size_t *begin, size_t *end)
{
    bool has_month = false, has_number = false, has_weekday = false;
    size_t run_begin, run_end;

    if (!run_of(a, is_in_date_words, &run_begin, &run_end))
        return false;
    *begin = *end = run_begin;
    for (size_t i = run_begin; i < run_end;) {
        size_t word = i;
        date_word kind;

        while (i < run_end && is_word(a->text[i]))
            i++;
        kind = i > word ? date_word_of(a->text + word, i - word) : NO_DATE_WORD;
        if (i > word && kind == NO_DATE_WORD) {
            if (*end > a->at)
                break;
            has_month = has_number = has_weekday = false;
            *begin = *end = i;
        } else if (i > word) {
            if (*end <= *begin || *end + DATE_WORDS_BYTES < word) /* the first one */
                *begin = word;
            *end = i;
            has_month = has_month || kind == MONTH;
            has_number = has_number || kind == DAY_OR_YEAR;
            has_weekday = has_weekday || kind == WEEKDAY;
        }
        while (i < run_end && !is_word(a->text[i]))
            i++;
    }
    return *begin <= a->at && a->at < *end && (has_weekday || (has_month && has_number));
}

/* ---- runs of characters ---- */

static bool is_any_path(const around *a, size_t *begin, size_t *end)
{
    const char *slash;

    if (!run_of(a, is_path, begin, end))
        return false;
    slash = memchr(a->text + *begin, '/', *end - *begin);
    return slash && (slash == a->text + *begin || slash[-1] == '~') && *end - *begin > 2 &&
           memchr(slash + 1, '/', (size_t)(a->text + *end - slash - 1));
}

static bool is_temporary_path(const around *a, size_t *begin, size_t *end)
{
    static const char *const roots[] = { "/tmp/",         "/var/tmp/",     "/var/folders/",
                                         "/private/tmp/", "/private/var/", "/dev/shm/" };

    if (!run_of(a, is_path, begin, end))
        return false;
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
        if (*end - *begin > strlen(roots[i]) && memcmp(a->text + *begin, roots[i], strlen(roots[i])) == 0)
            return true;
    return false;
}

/* Hexadecimal, long enough, and neither a word nor a number. Version control shows digests of 7 characters. */
static bool is_digest(const around *a, size_t *begin, size_t *end)
{
    bool has_digit = false, has_letter = false;

    if (!run_of(a, is_word, begin, end) || *end - *begin < 7)
        return false;
    for (size_t i = *begin; i < *end; i++) {
        if (!is_hex(a->text[i]))
            return false;
        has_digit = has_digit || is_digit(a->text[i]);
        has_letter = has_letter || is_letter(a->text[i]);
    }
    return has_digit && has_letter;
}

static bool is_in_version(char c)
{
    return is_word(c) || c == '.';
}

/* Numbers separated by dots. The last part may be anything. */
static bool is_version(const around *a, size_t *begin, size_t *end)
{
    size_t i, n_dots = 0;

    if (!run_of(a, is_in_version, begin, end))
        return false;
    while (*end > *begin && a->text[*end - 1] == '.')
        (*end)--;
    *begin += a->text[*begin] == 'v' && is_digit(behind(a, *begin + 1));
    for (i = *begin; i < *end && (is_digit(a->text[i]) || (a->text[i] == '.' && is_digit(behind(a, i + 1)))); i++)
        n_dots += a->text[i] == '.';
    return n_dots > 0 && is_digit(a->text[*begin]) && *begin <= a->at && a->at < *end;
}

static bool is_number(const around *a, size_t *begin, size_t *end)
{
    return run_of(a, is_digit, begin, end);
}

bool hth_changing_text_at(const char *text, size_t n_bytes, size_t at, hth_changing_text *out)
{
    static const struct {
        const char *name;
        const char *forms[6];
        bool (*is)(const around *a, size_t *begin, size_t *end); /* in other forms; NULL: there are none */
    } kinds[] = {
        { "a UUID", { "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh" }, NULL },
        { "a temporary path", { NULL }, is_temporary_path },
        { "a date", { "dddd-D-D", "dddd/D/D", "D/D/dddd", "D.D.dddd", "D-D-dddd" }, is_date_in_words },
        { "a time", { "dd:dd:dd", "D:dd" }, NULL },
        { "a hexadecimal digest", { NULL }, is_digest },
        { "a version", { NULL }, is_version },
        { "a path", { NULL }, is_any_path },
        { "a number", { NULL }, is_number },
    };
    size_t skipped = at > REACH_BYTES ? at - REACH_BYTES : 0;
    around a = { .text = text + skipped, .n = n_bytes - skipped, .at = at - skipped };

    if (at >= n_bytes)
        return false;
    if (a.n > 2 * (size_t)REACH_BYTES)
        a.n = 2 * (size_t)REACH_BYTES;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t begin, end;

        if (!find_form(&a, kinds[i].forms, &begin, &end) && !(kinds[i].is && kinds[i].is(&a, &begin, &end)))
            continue;
        *out = (hth_changing_text){ .kind = kinds[i].name, .begin = begin + skipped, .end = end + skipped };
        return true;
    }
    return false;
}
