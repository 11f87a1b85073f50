/*
 * cors.c - the headers that a browser asks for
 *
 * The origin is repeated rather than answered with "*", so that one list serves all; credentials (cookies) are never
 * allowed, keys are headers.
 */
#include "server/cors.h"

#include <string.h>
#include <strings.h>

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
    hth_http_header_add(exchange, "Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After");
    if (hth_http_header(exchange, "Access-Control-Request-Method")) {
        hth_http_header_add(exchange, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        hth_http_header_add(exchange, "Access-Control-Allow-Headers",
                            headers ? headers : "Authorization, Content-Type");
        hth_http_header_add(exchange, "Access-Control-Max-Age", "86400");
    }
    return true;
}

bool hth_cors_is_foreign(const hth_http_exchange *exchange)
{
    const char *origin = hth_http_header(exchange, "Origin"), *host = hth_http_header(exchange, "Host");
    const char *authority = origin ? strstr(origin, "://") : NULL;

    return origin && (!authority || !host || strcasecmp(authority + 3, host) != 0);
}
