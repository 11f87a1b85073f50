#include "support/exposition.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { NAME_BYTES = 128, LABELS_BYTES = 1024, LINES_MAX = 20000 };

/* A sample taken apart. */
typedef struct sample {
    char name[NAME_BYTES];
    char labels[LABELS_BYTES]; /* as they are written, without le */
    char le[64];               /* "": none */
    double value;
} sample;

typedef struct reader {
    const char *at;
    char *problem;
    size_t capacity;
    size_t line;
    char family[NAME_BYTES];
    char type[16]; /* "": between HELP and TYPE, or before the first */
    bool has_samples;
    /* Of the histogram whose samples are being read. */
    char labels[LABELS_BYTES];
    double bound, count; /* of the last bucket */
    enum { NO_HISTOGRAM, BUCKETS, SUM } stage;
    const char *families[LINES_MAX], *samples[LINES_MAX]; /* where names and samples were, in the text */
    size_t n_families, n_samples;
} reader;

static bool wrong(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(reader *r, const char *format, ...)
{
    va_list arguments;
    int n = snprintf(r->problem, r->capacity, "line %zu: ", r->line);

    va_start(arguments, format);
    (void)vsnprintf(r->problem + n, r->capacity - (size_t)n, format, arguments); /* a test's message may be cut */
    va_end(arguments);
    return false;
}

/* Copy what matches [a-zA-Z_:][a-zA-Z0-9_:]* (a label's name: no colon) and step over it. */
static bool take_name(const char **at, bool is_label, char name[NAME_BYTES])
{
    size_t n = 0;

    while (isalpha((unsigned char)(*at)[n]) || (*at)[n] == '_' || (!is_label && (*at)[n] == ':') ||
           (n > 0 && isdigit((unsigned char)(*at)[n])))
        n++;
    if (n == 0 || n >= NAME_BYTES)
        return false;
    memcpy(name, *at, n);
    name[n] = '\0';
    *at += n;
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);

    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* Was this name, or sample, up to its end character, there before? */
static bool was_there(const char *const *places, size_t n, const char *place, size_t n_bytes)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(places[i], place, n_bytes) == 0 && (places[i][n_bytes] == ' ' || places[i][n_bytes] == '\n'))
            return true;
    return false;
}

static bool read_comment(reader *r, const char *line, size_t n)
{
    bool is_help = strncmp(line, "# HELP ", 7) == 0;
    const char *at = line + 7;
    char name[NAME_BYTES];

    if (!is_help && strncmp(line, "# TYPE ", 7) != 0)
        return wrong(r, "neither HELP nor TYPE");
    if (!take_name(&at, false, name) || *at != ' ' || at + 1 >= line + n)
        return wrong(r, "no name, or nothing behind it");
    if (is_help) {
        if (r->stage != NO_HISTOGRAM)
            return wrong(r, "the histogram before is not whole");
        if (r->n_families > 0 && !r->type[0])
            return wrong(r, "no TYPE before");
        if (was_there(r->families, r->n_families, line + 7, strlen(name)))
            return wrong(r, "a second HELP of %s", name);
        if (memchr(line, '\\', n))
            return wrong(r, "a backslash");
        r->families[r->n_families++] = line + 7;
        memcpy(r->family, name, sizeof(name));
        r->type[0] = '\0';
        return true;
    }
    if (r->type[0] || strcmp(name, r->family) != 0)
        return wrong(r, "a TYPE of %s that does not follow its HELP", name);
    n -= (size_t)(at + 1 - line);
    if (n >= sizeof(r->type))
        return wrong(r, "an unknown type");
    memcpy(r->type, at + 1, n);
    r->type[n] = '\0';
    if (strcmp(r->type, "counter") != 0 && strcmp(r->type, "gauge") != 0 && strcmp(r->type, "histogram") != 0)
        return wrong(r, "an unknown type");
    if ((strcmp(r->type, "counter") == 0) != ends_with(name, "_total"))
        return wrong(r, "only counters end with _total, and all of them");
    return true;
}

/* Step over a value in quotes. */
static bool take_value(reader *r, const char **at, char *value, size_t capacity)
{
    const char *begin = ++*at;

    while (**at != '"') {
        if (**at == '\n' || **at == '\0')
            return wrong(r, "a label without end");
        if (**at == '\\') {
            ++*at;
            if (**at != '\\' && **at != '"' && **at != 'n')
                return wrong(r, "an unknown escape");
        }
        ++*at;
    }
    if (!hth_utf8_is_valid(begin, (size_t)(*at - begin)))
        return wrong(r, "a label that is not UTF-8");
    (void)snprintf(value, capacity, "%.*s", (int)(*at - begin), begin); /* only le is looked at, which is short */
    ++*at;
    return true;
}

static bool read_labels(reader *r, const char **at, sample *s)
{
    char names[16][NAME_BYTES];
    size_t n = 0;

    do {
        const char *begin = ++*at;
        char value[64];

        if (n == 16 || !take_name(at, true, names[n]) || strncmp(*at, "=\"", 2) != 0)
            return wrong(r, "a label without name or value");
        ++*at;
        if (!take_value(r, at, value, sizeof(value)))
            return false;
        for (size_t i = 0; i < n; i++)
            if (strcmp(names[i], names[n]) == 0)
                return wrong(r, "label %s twice", names[n]);
        if (strcmp(names[n], "le") == 0)
            memcpy(s->le, value, sizeof(value));
        else
            (void)snprintf(s->labels + strlen(s->labels), sizeof(s->labels) - strlen(s->labels), "%.*s,",
                           (int)(*at - begin), begin); /* long enough for tests */
        n++;
    } while (**at == ',');
    if (**at != '}')
        return wrong(r, "labels without end");
    ++*at;
    return true;
}

static bool check_histogram(reader *r, const sample *s)
{
    const char *suffix = s->name + strlen(r->family);

    if (strcmp(suffix, "_bucket") == 0) {
        double bound = strtod(s->le, NULL); /* reads "+Inf", too */

        if (!s->le[0])
            return wrong(r, "a bucket without le");
        if (r->stage == SUM)
            return wrong(r, "a bucket behind the sum");
        if (r->stage == NO_HISTOGRAM) {
            r->stage = BUCKETS;
            memcpy(r->labels, s->labels, sizeof(r->labels));
        } else if (strcmp(r->labels, s->labels) != 0 || bound <= r->bound || s->value < r->count) {
            return wrong(r, "buckets do not rise");
        }
        r->bound = bound;
        r->count = s->value;
        return true;
    }
    if (s->le[0] || strcmp(r->labels, s->labels) != 0)
        return wrong(r, "not of the histogram before");
    if (strcmp(suffix, "_sum") == 0) {
        if (r->stage != BUCKETS || !isinf(r->bound))
            return wrong(r, "a sum, but no bucket +Inf");
        r->stage = SUM;
        return true;
    }
    if (strcmp(suffix, "_count") != 0 || r->stage != SUM || s->value != r->count)
        return wrong(r, "a count that is not that of the bucket +Inf");
    r->stage = NO_HISTOGRAM;
    return true;
}

static bool read_sample(reader *r, const char *line, size_t n)
{
    const char *at = line;
    sample s = { .value = 0 };
    size_t n_family = strlen(r->family), n_key;
    char *end;

    if (!r->type[0])
        return wrong(r, "a sample without a TYPE");
    if (!take_name(&at, false, s.name))
        return wrong(r, "no name");
    if (*at == '{' && !read_labels(r, &at, &s))
        return false;
    n_key = (size_t)(at - line);
    if (*at != ' ')
        return wrong(r, "no space before the value");
    s.value = strtod(at + 1, &end);
    if (end == at + 1 || end != line + n || isspace((unsigned char)at[1]))
        return wrong(r, "no value");
    if (strcmp(r->type, "gauge") != 0 && (!isfinite(s.value) || s.value < 0))
        return wrong(r, "below zero");
    if (was_there(r->samples, r->n_samples, line, n_key))
        return wrong(r, "%.*s twice", (int)n_key, line);
    r->samples[r->n_samples++] = line;
    if (strncmp(s.name, r->family, n_family) != 0)
        return wrong(r, "%s is not of the family %s", s.name, r->family);
    if (strcmp(r->type, "histogram") == 0)
        return check_histogram(r, &s);
    if (s.le[0] || s.name[n_family])
        return wrong(r, "%s is not of the family %s", s.name, r->family);
    return true;
}

bool hth_test_exposition_is_good(const char *text, char *problem, size_t capacity)
{
    reader *r = calloc(1, sizeof(*r));
    bool is_good = r != NULL;

    if (!r)
        return false;
    *r = (reader){ .at = text, .problem = problem, .capacity = capacity };
    while (is_good && *r->at) {
        const char *end = strchr(r->at, '\n');

        r->line++;
        if (!end || r->line == LINES_MAX)
            is_good = wrong(r, "no end of the line");
        else
            is_good = *r->at == '#' ? read_comment(r, r->at, (size_t)(end - r->at))
                                    : read_sample(r, r->at, (size_t)(end - r->at));
        if (end)
            r->at = end + 1;
    }
    if (is_good && (r->stage != NO_HISTOGRAM || !r->type[0]))
        is_good = wrong(r, "the last family is not whole");
    free(r);
    return is_good;
}

double hth_test_exposition_value(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            return strtod(line + n, NULL);
    }
    return -1;
}

void hth_test_exposition_families(const char *text,
                                  void (*on_family)(const char *name, const char *type, void *user_data),
                                  void *user_data)
{
    for (const char *at = strstr(text, "# TYPE "); at; at = strstr(at + 1, "# TYPE ")) {
        char name[NAME_BYTES], type[16];

        if (sscanf(at, "# TYPE %127s %15s", name, type) == 2)
            on_family(name, type, user_data);
    }
}
