/*
 * values.c - reads numbers, sizes and words; the whole string must match
 */
#include "options/values.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "base/words.h"

bool hth_value_wrong(const char *name, const char *value, const char *expected, hearth_error *err)
{
    (void)hth_fail(err, HEARTH_MISUSE, "%s is '%s'; it must be %s", name, value, expected); /* the result reports it */
    return false;
}

bool hth_value_integer(const char *name, const char *value, long long low, long long high, long long *out,
                       hearth_error *err)
{
    char expected[96];
    char *end;
    long long number;

    errno = 0;
    number = strtoll(value, &end, 10);
    if (end == value || *end || errno || number < low || number > high) {
        (void)snprintf(expected, sizeof(expected), "a whole number from %lld to %lld", low, high);
        return hth_value_wrong(name, value, expected, err);
    }
    *out = number;
    return true;
}

bool hth_value_u32(const char *name, const char *value, long long low, long long high, uint32_t *out, hearth_error *err)
{
    long long number;

    if (!hth_value_integer(name, value, low, high, &number, err))
        return false;
    *out = (uint32_t)number;
    return true;
}

bool hth_value_i32(const char *name, const char *value, long long low, long long high, int32_t *out, hearth_error *err)
{
    long long number;

    if (!hth_value_integer(name, value, low, high, &number, err))
        return false;
    *out = (int32_t)number;
    return true;
}

bool hth_value_number(const char *name, const char *value, double low, double high, double *out, hearth_error *err)
{
    char expected[96];
    char *end;
    double number = strtod(value, &end);

    if (end == value || *end || !isfinite(number) || number < low || number > high) {
        (void)snprintf(expected, sizeof(expected), "a number from %g to %g", low, high);
        return hth_value_wrong(name, value, expected, err);
    }
    *out = number;
    return true;
}

bool hth_value_ms(const char *name, const char *value, uint32_t low, uint32_t high, uint32_t *out, hearth_error *err)
{
    static const struct {
        const char *name;
        uint32_t ms;
    } units[] = { { "", 1 }, { "ms", 1 }, { "s", 1000 }, { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
    char expected[128];
    char *end;
    unsigned long long number;
    uint64_t factor = 0;

    errno = 0;
    number = strtoull(value, &end, 10);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].name) == 0)
            factor = units[i].ms;
    if (value[0] < '0' || value[0] > '9' || errno || factor == 0 || number > high / factor || number * factor < low) {
        (void)snprintf(expected, sizeof(expected),
                       "a whole number from %u to %u, milliseconds, or a time such as 250ms, 30s, 5min or 2h", low,
                       high);
        return hth_value_wrong(name, value, expected, err);
    }
    *out = (uint32_t)(number * factor);
    return true;
}

/* Is it the rest of a unit after its letter: nothing, "b" or "ib"? */
static bool is_byte_unit(const char *rest)
{
    return !*rest || strcasecmp(rest, "b") == 0 || strcasecmp(rest, "ib") == 0;
}

bool hth_value_size(const char *name, const char *value, uint64_t low, uint64_t *out, hearth_error *err)
{
    static const char units[] = "KMGT";
    char expected[96];
    char *end;
    unsigned long long number;
    unsigned shift = 0;

    (void)snprintf(expected, sizeof(expected), "a number of bytes, at least %llu, such as 512M or 4G",
                   (unsigned long long)low);
    errno = 0;
    number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || errno)
        return hth_value_wrong(name, value, expected, err);
    if (*end) {
        const char *unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);

        if (!unit || !is_byte_unit(end + 1))
            return hth_value_wrong(name, value, expected, err);
        shift = 10 * (unsigned)(unit - units + 1);
    }
    if (number > UINT64_MAX >> shift || number << shift < low)
        return hth_value_wrong(name, value, expected, err);
    *out = number << shift;
    return true;
}

bool hth_value_word(const char *name, const char *value, const char *const *words, int *out, hearth_error *err)
{
    char expected[128];

    for (int i = 0; words[i]; i++)
        if (strcmp(value, words[i]) == 0) {
            *out = i;
            return true;
        }
    hth_words_list(words, expected, sizeof(expected));
    return hth_value_wrong(name, value, expected, err);
}

bool hth_value_too_many(const char *name, const char *value, size_t n_max, hearth_error *err)
{
    (void)hth_fail(err, HEARTH_MISUSE, "%s '%s' is one too many; at most %zu are allowed", name, value, n_max);
    return false; /* the result reports it */
}

bool hth_value_add_text(const char **list, size_t *n, size_t n_max, const char *name, const char *value,
                        hearth_error *err)
{
    if (!value) {
        *n = 0;
        return true;
    }
    if (!*value)
        return hth_value_wrong(name, value, "a text of at least one character", err);
    if (*n == n_max)
        return hth_value_too_many(name, value, n_max, err);
    list[(*n)++] = value;
    return true;
}
