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
        const char *unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end), *rest = end + 1;

        if (!unit || (*rest && strcasecmp(rest, "b") != 0 && strcasecmp(rest, "ib") != 0))
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

/* ---- addresses ---- */

enum { UNIX_PATH_BYTES = 108 };

static bool wrong_address(const char *shown, const char *text, hearth_error *err)
{
    return hth_value_wrong(shown, text,
                           "an address such as 127.0.0.1:8080, [::1]:8080, 0.0.0.0:8080, a port alone, or "
                           "unix:/run/hearth/hearth.sock (at most 107 bytes)",
                           err);
}

static bool read_port(const char *text, uint16_t *out)
{
    uint32_t port = 0;

    if (!*text || strlen(text) > 5 || text[strspn(text, "0123456789")])
        return false;
    for (; *text; text++)
        port = 10 * port + (uint32_t)(*text - '0');
    if (port > UINT16_MAX)
        return false;
    *out = (uint16_t)port;
    return true;
}

static bool is_host(const char *text, size_t n, bool in_brackets)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_%";

    for (size_t i = 0; i < n; i++)
        if (!strchr(characters, text[i]) && !(in_brackets && text[i] == ':'))
            return false;
    return n > 0 && n < HTH_ADDRESS_HOST_BYTES;
}

bool hth_address_read(const char *shown, const char *text, char *host_out, size_t n, uint16_t *port_out,
                      const char **path_out, hearth_error *err)
{
    const bool in_brackets = text[0] == '[';
    const char *host = in_brackets ? text + 1 : text;
    size_t n_host = strcspn(host, in_brackets ? "]" : ":");
    const char *rest = host + n_host;
    uint16_t port = HTH_ADDRESS_PORT;

    if (strncmp(text, "unix:", 5) == 0) {
        if (strlen(text + 5) == 0 || strlen(text + 5) >= UNIX_PATH_BYTES)
            return wrong_address(shown, text, err);
        host_out[0] = '\0';
        *port_out = 0;
        *path_out = text + 5;
        return true;
    }
    if (in_brackets && *rest++ != ']')
        return wrong_address(shown, text, err);
    if (!in_brackets && !*rest && read_port(text, &port)) {
        host = "127.0.0.1";
        n_host = strlen(host);
    } else if ((*rest && (*rest != ':' || !read_port(rest + 1, &port))) || !is_host(host, n_host, in_brackets)) {
        return wrong_address(shown, text, err);
    }
    if (n_host >= n)
        return wrong_address(shown, text, err);
    memcpy(host_out, host, n_host);
    host_out[n_host] = '\0';
    *port_out = port;
    *path_out = NULL;
    return true;
}

bool hth_address_check(const char *shown, const char *text, hearth_error *err)
{
    char host[HTH_ADDRESS_HOST_BYTES];
    const char *path;
    uint16_t port;

    return hth_address_read(shown, text, host, sizeof(host), &port, &path, err);
}
