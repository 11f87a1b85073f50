/*
 * fake_http.h - an exchange that keeps what it was answered, without a server
 *
 * For tests of pages. The program that includes this has these functions instead of the HTTP server's.
 */
#ifndef HTH_TESTS_FAKE_HTTP_H
#define HTH_TESTS_FAKE_HTTP_H

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/buffer.h"
#include "http/http.h"
#include "support/cmocka_all.h"

struct hth_http_exchange {
    const char *method;
    const char *path;
    const char *peer;
    const char *request_body;           /* NULL: none */
    const char *const *request_headers; /* name, value, ..., NULL; NULL: none */
    int n_replies;
    int status;
    char content_type[128];
    char headers[2048]; /* "Name: value\n" each */
    hth_buffer body;
};

struct hth_http_server {
    hth_http_numbers numbers;
};

REPLACING const char *hth_http_method(const hth_http_exchange *exchange)
{
    return exchange->method;
}

REPLACING const char *hth_http_path(const hth_http_exchange *exchange)
{
    return exchange->path;
}

REPLACING const char *hth_http_peer(const hth_http_exchange *exchange)
{
    return exchange->peer ? exchange->peer : "127.0.0.1";
}

REPLACING const char *hth_http_header(const hth_http_exchange *exchange, const char *name)
{
    for (const char *const *at = exchange->request_headers; at && *at; at += 2)
        if (strcasecmp(at[0], name) == 0)
            return at[1];
    return NULL;
}

REPLACING const char *hth_http_body(hth_http_exchange *exchange, size_t *n_out)
{
    *n_out = exchange->request_body ? strlen(exchange->request_body) : 0;
    return exchange->request_body;
}

REPLACING void hth_http_header_add(hth_http_exchange *exchange, const char *name, const char *value)
{
    size_t n = strlen(exchange->headers);

    (void)snprintf(exchange->headers + n, sizeof(exchange->headers) - n, "%s: %s\n", name, value); /* few in tests */
}

REPLACING void hth_http_reply(hth_http_exchange *exchange, int status, const char *content_type, const void *body,
                              size_t n)
{
    exchange->n_replies++;
    exchange->status = status;
    (void)snprintf(exchange->content_type, sizeof(exchange->content_type), "%s", content_type); /* short in tests */
    hth_buffer_clear(&exchange->body);
    hth_buffer_add(&exchange->body, body, n);
}

REPLACING hth_http_numbers hth_http_server_numbers(const hth_http_server *server)
{
    return server->numbers;
}

#endif
