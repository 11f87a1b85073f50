/*
 * address.c - see address.h
 */
#include "options/address.h"

#include <string.h>

#include "options/values.h"

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
