/*
 * cors.c - the headers that a browser asks for
 *
 * The origin is repeated rather than answered with "*", so that one list serves all; credentials (cookies) are never
 * allowed, keys are headers.
 */
#include "server/cors.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/notes.h"

enum { NAME_BYTES = 256 };

static bool is_allowed(const hth_server_options *options, const char *origin)
{
    for (size_t i = 0; i < options->n_cors_origins; i++)
        if (strcmp(options->cors_origins[i], "*") == 0 || strcasecmp(options->cors_origins[i], origin) == 0)
            return true;
    return false;
}

bool hth_cors_add(const hth_server_options *options, hth_http_exchange *exchange)
{
    const char *origin = hth_http_header(exchange, "Origin");
    const char *headers = hth_http_header(exchange, "Access-Control-Request-Headers");

    if (!origin || options->n_cors_origins == 0)
        return false;
    hth_http_header_add(exchange, "Vary", "Origin");
    if (!is_allowed(options, origin))
        return false;
    hth_http_header_add(exchange, "Access-Control-Allow-Origin", origin);
    hth_http_header_add(exchange, "Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After, " HTH_API_NOTES_HEADER);
    if (hth_http_header(exchange, "Access-Control-Request-Method")) {
        hth_http_header_add(exchange, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
        hth_http_header_add(exchange, "Access-Control-Allow-Headers",
                            headers ? headers : "Authorization, Content-Type");
        hth_http_header_add(exchange, "Access-Control-Max-Age", "86400");
    }
    return true;
}

static bool is_name_of(const hth_server_address *address, const char *name)
{
    return address->host && strcasecmp(address->host, name) == 0;
}

static bool is_machine(const char *name)
{
    char own[NAME_BYTES];

    return gethostname(own, sizeof(own)) == 0 && memchr(own, '\0', sizeof(own)) && own[0] && strcasecmp(own, name) == 0;
}

static bool is_address(const char *name)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* What follows a host's name: nothing, or a port. */
static bool is_end_of_host(const char *text, bool has_brackets)
{
    if (has_brackets && *text++ != ']')
        return false;
    if (*text == ':')
        text += 1 + strspn(text + 1, "0123456789");
    return *text == '\0';
}

bool hth_host_is_own(const hth_server_options *options, const char *host)
{
    const bool has_brackets = host[0] == '[';
    const char *begin = host + has_brackets;
    const size_t n = strcspn(begin, has_brackets ? "]" : ":"), n_suffix = strlen(".localhost");
    char name[NAME_BYTES];

    if (n >= sizeof(name) || !is_end_of_host(begin + n, has_brackets))
        return false;
    memcpy(name, begin, n);
    name[n] = '\0';
    if (is_address(name) || strcasecmp(name, "localhost") == 0 || is_machine(name) ||
        is_name_of(&options->admin, name) || (n > n_suffix && strcasecmp(name + n - n_suffix, ".localhost") == 0))
        return true;
    for (size_t i = 0; i < options->n_listen; i++)
        if (is_name_of(&options->listen[i], name))
            return true;
    return false;
}

bool hth_cors_is_foreign(const hth_server_options *options, const hth_http_exchange *exchange)
{
    const char *origin = hth_http_header(exchange, "Origin"), *host = hth_http_header(exchange, "Host");
    const char *authority = origin ? strstr(origin, "://") : NULL;

    return origin && (!authority || !host || strcasecmp(authority + 3, host) != 0 || !hth_host_is_own(options, host));
}
