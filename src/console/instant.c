#include "console/instant.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t instant_max_s = INT64_C(253402300799); /* the last second of the year 9999 */

/* Does the text have this form, with a digit for each 0? */
static bool has_form(const char *text, const char *form)
{
    for (; *form; form++, text++)
        if (*form == '0' ? !isdigit((unsigned char)*text) : *text != *form)
            return false;
    return *text == '\0';
}

/* The number that begins there; 0: the text is shorter. */
static int number_at(const char *text, size_t at)
{
    return at < strlen(text) ? (int)strtol(text + at, NULL, 10) : 0;
}

static bool read_absolute(const char *text, int64_t *out)
{
    static const char *const forms[] = { "0000-00-00", "0000-00-00T00:00Z", "0000-00-00T00:00:00Z" };
    struct tm given, real;
    bool is_known = false;
    time_t at;

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        is_known = is_known || has_form(text, forms[i]);
    if (!is_known)
        return false;
    given = (struct tm){ .tm_year = number_at(text, 0) - 1900,
                         .tm_mon = number_at(text, 5) - 1,
                         .tm_mday = number_at(text, 8),
                         .tm_hour = number_at(text, 11),
                         .tm_min = number_at(text, 14),
                         .tm_sec = number_at(text, 17) };
    real = given;
    at = timegm(&real); /* which moves a day or an hour that does not exist */
    if (real.tm_mon != given.tm_mon || real.tm_mday != given.tm_mday || real.tm_hour != given.tm_hour ||
        real.tm_min != given.tm_min || real.tm_sec != given.tm_sec || at <= 0) /* 0 means "never" */
        return false;
    *out = (int64_t)at;
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
