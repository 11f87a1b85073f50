/*
 * keep_alive.c - see keep_alive.h
 */
#include "api/keep_alive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 32 };

static const struct {
    const char *name;
    double ms;
} units[] = {
    { "ns", 1e-6 }, { "us", 1e-3 }, { "\xc2\xb5s", 1e-3 }, { "\xce\xbcs", 1e-3 },
    { "ms", 1 },    { "s", 1e3 },   { "m", 6e4 },          { "h", 3.6e6 },
};

enum { N_UNITS = sizeof(units) / sizeof(units[0]) };

/* Read digits with at most one point; *end is set past them. False if there are none, or too many. */
static bool read_number(const char *text, double *out, const char **end)
{
    const size_t n = strspn(text, "0123456789.");
    char number[NUMBER_BYTES_MAX + 1];
    char *stop;

    if (n == 0 || n > NUMBER_BYTES_MAX)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    *out = strtod(number, &stop);
    *end = text + n;
    return *stop == '\0';
}

bool hth_api_keep_alive_read(const char *text, uint64_t *ms)
{
    const bool is_negative = *text == '-';
    double sum = 0, number;

    text += *text == '-' || *text == '+';
    if (!*text)
        return false;
    while (*text) {
        size_t i = 0;

        if (!read_number(text, &number, &text))
            return false;
        while (*text && i < N_UNITS && strncmp(text, units[i].name, strlen(units[i].name)) != 0)
            i++;
        if (i == N_UNITS)
            return false;
        sum += number * (*text ? units[i].ms : 1e3); /* a number without a unit is in seconds */
        text += *text ? strlen(units[i].name) : 0;
    }
    *ms = hth_api_keep_alive_of((is_negative ? -sum : sum) / 1e3);
    return true;
}

uint64_t hth_api_keep_alive_of(double seconds)
{
    return seconds < 0 || seconds >= 1e12 ? UINT64_MAX : (uint64_t)ceil(seconds * 1e3);
}
