/*
 * body_check.c - see body_check.h
 */
#include "http/body_check.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool begins_with(const char *text, const char *prefix)
{
    return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

static bool may_be_json(hth_http_exchange *exchange, size_t n_before, bool may_be_empty)
{
    const char *type = hth_http_header(exchange, "Content-Type");
    size_t n, i = n_before;
    const char *body = hth_http_body(exchange, &n);

    if (!type || !(begins_with(type, "multipart/") || begins_with(type, "application/x-www-form-urlencoded")))
        return true;
    if (begins_with(type, "multipart/"))
        return false;
    while (i < n && strchr(" \t\r\n", body[i]) && body[i])
        i++;
    return (i == n && may_be_empty) ||
           (i < n && (body[i] == '{' || body[i] == '[')); /* curl labels every body as a form by default */
}

const char *hth_body_problem(hth_http_exchange *exchange, size_t n_before, bool may_be_empty, char text[128])
{
    if (!may_be_json(exchange, n_before, may_be_empty))
        return "the body is a form; it must be JSON (Content-Type: application/json)";
    if (!hth_http_encoding(exchange))
        return NULL;
    /* Bodies are not decompressed. Without this check, the error for a compressed body would be that it is not JSON. */
    (void)snprintf(text, 128, "the body has Content-Encoding '%.40s', which is not read here; send it as it is",
                   hth_http_encoding(exchange)); /* fits */
    return text;
}
