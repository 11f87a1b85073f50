/*
 * instant.c - see instant.h
 */
#include "console/instant.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t instant_max_s = INT64_C(253402300799); /* the last second of the year 9999 */

/* Read n digits; false if there are fewer. */
static bool read_digits(const char **at, int n, int *out)
{
    int value = 0;

    for (int i = 0; i < n; i++, (*at)++) {
        if (!isdigit((unsigned char)**at))
            return false;
        value = 10 * value + (**at - '0');
    }
    *out = value;
    return true;
}

static bool read_separator(const char **at, char c)
{
    return *(*at)++ == c;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t days_before_year(int64_t year)
{
    return 365 * year + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
}

static bool read_date(const char **at, int64_t *days_out)
{
    static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int year, month, day;
    int64_t days;

    if (!read_digits(at, 4, &year) || !read_separator(at, '-') || !read_digits(at, 2, &month) ||
        !read_separator(at, '-') || !read_digits(at, 2, &day))
        return false;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > lengths[month - 1] + (month == 2 && is_leap(year)))
        return false;
    days = days_before_year(year) - days_before_year(1970) + day - 1;
    for (int i = 1; i < month; i++)
        days += lengths[i - 1] + (i == 2 && is_leap(year));
    *days_out = days;
    return true;
}

static bool read_time(const char **at, int64_t *seconds_out)
{
    int hour, minute, second = 0;

    if (!read_digits(at, 2, &hour) || !read_separator(at, ':') || !read_digits(at, 2, &minute))
        return false;
    if (**at == ':') {
        (*at)++;
        if (!read_digits(at, 2, &second))
            return false;
    }
    if (hour > 23 || minute > 59 || second > 59)
        return false;
    *seconds_out = INT64_C(3600) * hour + INT64_C(60) * minute + second;
    return true;
}

static bool read_absolute(const char *text, int64_t *out)
{
    const char *at = text;
    int64_t days, seconds = 0;

    if (!read_date(&at, &days))
        return false;
    if (*at && (!read_separator(&at, 'T') || !read_time(&at, &seconds) || !read_separator(&at, 'Z') || *at))
        return false;
    if (days == 0 && seconds == 0)
        return false; /* 0 means "never" */
    *out = 86400 * days + seconds;
    return true;
}

static bool read_relative(const char *text, int64_t now_s, int64_t *out)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } units[] = { { "min", 60 }, { "h", 3600 }, { "d", 86400 }, { "w", 604800 } };
    const size_t n = strspn(text, "0123456789");
    int64_t number = 0;

    if (n == 0 || n > 9)
        return false;
    for (size_t i = 0; i < n; i++)
        number = 10 * number + (text[i] - '0');
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text + n, units[i].name) != 0 || number > (instant_max_s - now_s) / units[i].seconds)
            continue;
        *out = now_s + number * units[i].seconds;
        return true;
    }
    return false;
}

bool hth_instant_read(const char *text, int64_t now_s, int64_t *out)
{
    if (now_s > 0 && strcmp(text, "never") == 0) {
        *out = 0;
        return true;
    }
    if (now_s > 0 && strcmp(text, "now") == 0) {
        *out = now_s;
        return true;
    }
    return read_absolute(text, out) || (now_s > 0 && read_relative(text, now_s, out));
}

void hth_instant_write(int64_t unix_s, char text[HTH_INSTANT_BYTES])
{
    const time_t at = (time_t)unix_s;
    struct tm parts;

    if (unix_s == 0 || unix_s > instant_max_s || !gmtime_r(&at, &parts) ||
        strftime(text, HTH_INSTANT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        (void)snprintf(text, HTH_INSTANT_BYTES, "never"); /* fits */
}
