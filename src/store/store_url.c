#include "store/store_url.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/status.h"

enum { PORT = 6379, SENTINEL_PORT = 26379 };

static const char forms[] =
    "redis://[[USER:]PASSWORD@]HOST[:PORT][/NUMBER], rediss://... with TLS, or redis-sentinel://HOST[:PORT],.../NAME";

static hearth_status wrong(const char *why, hearth_error *err)
{
    return hth_fail(err, HEARTH_MISUSE, "the address of the store %s; it must be %s", why, forms);
}

/* Decode %XX in place. False: a byte is 0, or no two digits follow. */
static bool decode(char *text)
{
    char *out = text;

    for (; *text; text++) {
        const char digits[] = { text[1], text[1] ? text[2] : '\0', '\0' };
        uint8_t byte;

        if (*text != '%') {
            *out++ = *text;
            continue;
        }
        if (!hth_hex_decode(digits, &byte, 1) || byte == 0)
            return false;
        *out++ = (char)byte;
        text += 2;
    }
    *out = '\0';
    return true;
}

/* Digits only, at most max. */
static bool read_number(const char *text, unsigned long max, unsigned long *out)
{
    const size_t n = strlen(text);

    if (n == 0 || n > 9 || strspn(text, "0123456789") != n)
        return false;
    *out = strtoul(text, NULL, 10);
    return *out <= max;
}

/* text: "HOST", "HOST:PORT", "[IPV6]" or "[IPV6]:PORT"; it is cut. */
static bool read_server(char *text, uint16_t port, hth_store_server *out)
{
    char *host = text, *colon = strrchr(text, ':');
    unsigned long number = port;

    if (*text == '[') {
        char *end = strchr(text, ']');

        if (!end || (end[1] != '\0' && end[1] != ':'))
            return false;
        host = text + 1;
        colon = end[1] == ':' ? end + 1 : NULL;
        *end = '\0';
    } else if (colon && strchr(text, ':') != colon) {
        return false; /* an IPv6 address without brackets */
    }
    if (colon) {
        if (!read_number(colon + 1, UINT16_MAX, &number) || number == 0)
            return false;
        *colon = '\0';
    }
    *out = (hth_store_server){ .host = host, .port = (uint16_t)number };
    return *host != '\0' && strcspn(host, " /?#@") == strlen(host);
}

static bool read_servers(char *list, uint16_t port, hth_store_url *out)
{
    for (char *next = list; next;) {
        char *one = next, *comma = strchr(next, ',');

        next = comma ? comma + 1 : NULL;
        if (comma)
            *comma = '\0';
        if (out->n_servers == HTH_STORE_SERVERS_MAX || !read_server(one, port, &out->servers[out->n_servers]))
            return false;
        out->n_servers++;
    }
    return true;
}

/* Behind the scheme, and without it: "...@HOST/PATH". */
static char *read_scheme(char *text, bool *is_sentinel, bool *is_tls)
{
    static const struct {
        const char *text;
        bool is_sentinel, is_tls;
    } schemes[] = { { "redis://", false, false },
                    { "rediss://", false, true },
                    { "redis-sentinel://", true, false },
                    { "rediss-sentinel://", true, true } };

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const size_t n = strlen(schemes[i].text);

        if (strncmp(text, schemes[i].text, n) != 0)
            continue;
        *is_sentinel = schemes[i].is_sentinel;
        *is_tls = schemes[i].is_tls;
        return text + n;
    }
    return NULL;
}

static bool read_rights(char *rights, hth_store_url *out)
{
    char *colon = strchr(rights, ':');

    if (colon)
        *colon = '\0';
    out->user = colon && *rights ? rights : NULL;
    out->password = colon ? colon + 1 : rights;
    return decode(rights) && (!colon || decode(colon + 1));
}

hearth_status hth_store_url_read(const char *text, hth_store_url *out, hearth_error *err)
{
    const size_t n = strlen(text);
    bool is_sentinel = false;
    char *at, *path, *end_of_rights;
    unsigned long number = 0;

    memset(out, 0, sizeof(*out));
    if (n >= sizeof(out->text))
        return wrong("is too long", err);
    memcpy(out->text, text, n + 1);
    at = read_scheme(out->text, &is_sentinel, &out->is_tls);
    if (!at)
        return wrong("has another scheme", err);
    end_of_rights = strrchr(at, '@');
    if (end_of_rights) {
        *end_of_rights = '\0';
        if (!read_rights(at, out))
            return wrong("has a wrong %XX in its user or password", err);
        at = end_of_rights + 1;
    }
    path = strchr(at, '/');
    if (path)
        *path++ = '\0';
    if (!read_servers(at, is_sentinel ? SENTINEL_PORT : PORT, out) || (!is_sentinel && out->n_servers > 1))
        return wrong("has a wrong HOST or PORT, or more than one", err);
    if (is_sentinel && (!path || !*path || strcspn(path, "/ ") != strlen(path)))
        return wrong("lacks the name by which the sentinels know the primary", err);
    if (!is_sentinel && path && *path && !read_number(path, HTH_STORE_DATABASE_MAX, &number))
        return wrong("has a wrong NUMBER of a database", err);
    out->sentinel_name = is_sentinel ? path : NULL;
    out->database = (uint32_t)number;
    return HEARTH_OK;
}
