/*
 * cors.c - the headers that a browser asks for
 *
 * The reply repeats the origin instead of "*", so one list serves all cases. Credentials (cookies) are never allowed;
 * keys are headers.
 */
#include "front/cors.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "http/origin.h"

enum { NAME_BYTES = 256, REQUESTED_BYTES_MAX = 2048 };

/* The headers that the APIs' clients send, for browsers that do not name theirs. */
static const char usual_headers[] =
    "Authorization, Content-Type, Accept, X-Api-Key, Api-Key, X-Goog-Api-Key, Anthropic-Version, Anthropic-Beta, "
    "Anthropic-Dangerous-Direct-Browser-Access, OpenAI-Organization, OpenAI-Project, OpenAI-Beta, X-Stainless-Arch, "
    "X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Runtime, X-Stainless-Runtime-Version, "
    "X-Stainless-Retry-Count, X-Stainless-Timeout, X-Stainless-Helper-Method, X-Request-Id, Last-Event-ID, Traceparent";

static bool is_allowed(const hth_server_options *options, const char *origin)
{
    for (size_t i = 0; i < options->n_cors_origins; i++)
        if (hth_origin_rule_has(options->cors_origins[i], origin))
            return true;
    return false;
}

/* Is it a list of header names and commas, of bounded length? The reply repeats the page's list. */
static bool is_list_of_names(const char *text)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_., ";
    const size_t n = strlen(text);

    return n > 0 && n <= REQUESTED_BYTES_MAX && strspn(text, characters) == n;
}

bool hth_cors_is_preflight(const hth_http_exchange *exchange)
{
    return strcmp(hth_http_method(exchange), "OPTIONS") == 0 && hth_http_header(exchange, "Origin") &&
           hth_http_header(exchange, "Access-Control-Request-Method");
}

static void add_preflight(hth_http_exchange *exchange)
{
    const char *headers = hth_http_header(exchange, "Access-Control-Request-Headers");
    const char *private_network = hth_http_header(exchange, "Access-Control-Request-Private-Network");

    /* A request with a wrong method for its path gets an error of its own. */
    hth_http_header_add(exchange, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    hth_http_header_add(exchange, "Access-Control-Allow-Headers",
                        headers && is_list_of_names(headers) ? headers : usual_headers);
    hth_http_header_add(exchange, "Access-Control-Max-Age", "86400");
    if (private_network && strcasecmp(private_network, "true") == 0)
        hth_http_header_add(exchange, "Access-Control-Allow-Private-Network", "true");
}

bool hth_cors_add(const hth_server_options *options, hth_http_exchange *exchange)
{
    const char *origin = hth_http_header(exchange, "Origin");

    if (!origin || options->n_cors_origins == 0)
        return false;
    hth_http_header_add(exchange, "Vary", "Origin");
    if (!is_allowed(options, origin))
        return false;
    hth_http_header_add(exchange, "Access-Control-Allow-Origin", origin);
    hth_http_header_add(exchange, "Access-Control-Expose-Headers", "*"); /* no reply depends on a cookie */
    if (hth_http_header(exchange, "Access-Control-Request-Method"))
        add_preflight(exchange);
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

/* The end of a host's name: the end of the text, or a port. */
static bool is_end_of_host(const char *text, bool has_brackets)
{
    if (has_brackets && *text++ != ']')
        return false;
    if (*text == ':')
        text += 1 + strspn(text + 1, "0123456789");
    return *text == '\0';
}

/* The name in a Host, without port and brackets. False: it is too long, or something else follows. */
static bool read_name(const char *host, char name[NAME_BYTES])
{
    const bool has_brackets = host[0] == '[';
    const char *begin = host + has_brackets;
    const size_t n = strcspn(begin, has_brackets ? "]" : ":");

    if (n >= NAME_BYTES || !is_end_of_host(begin + n, has_brackets))
        return false;
    memcpy(name, begin, n);
    name[n] = '\0';
    return true;
}

/* Is the name below a domain such as ".localhost"? */
static bool is_below(const char *name, const char *domain)
{
    const size_t n = strlen(name), n_domain = strlen(domain);

    return n > n_domain && strcasecmp(name + n - n_domain, domain) == 0;
}

bool hth_host_is_own(const hth_server_options *options, const char *host)
{
    char name[NAME_BYTES];

    if (!read_name(host, name))
        return false;
    if (is_address(name) || strcasecmp(name, "localhost") == 0 || is_machine(name) ||
        is_name_of(&options->admin, name) || is_below(name, ".localhost"))
        return true;
    for (size_t i = 0; i < options->n_listen; i++)
        if (is_name_of(&options->listen[i], name))
            return true;
    return false;
}

bool hth_host_is_known(const hth_server_options *options, const char *host)
{
    char name[NAME_BYTES];

    if (hth_host_is_own(options, host))
        return true;
    if (!read_name(host, name))
        return false;
    /* Names that no registry assigns. Containers use them for their machine: host.docker.internal. */
    if (is_below(name, ".internal"))
        return true;
    for (size_t i = 0; i < options->n_cors_origins; i++)
        if (hth_origin_rule_has_host(options->cors_origins[i], name, strlen(name)))
            return true;
    return false;
}

bool hth_host_is_strange(const hth_server_options *options, const hth_http_exchange *exchange)
{
    const char *host = hth_http_header(exchange, "Host"), *peer = hth_http_peer(exchange);

    return host && (strncmp(peer, "127.", 4) == 0 || strcmp(peer, "::1") == 0) && !hth_host_is_known(options, host);
}

bool hth_cors_is_foreign(const hth_server_options *options, const hth_http_exchange *exchange)
{
    const char *origin = hth_http_header(exchange, "Origin"), *host = hth_http_header(exchange, "Host");
    const char *authority = origin ? strstr(origin, "://") : NULL;

    return origin && !is_allowed(options, origin) &&
           (!authority || !host || strcasecmp(authority + 3, host) != 0 || !hth_host_is_own(options, host));
}

void hth_cors_refusal(const char *origin, char *text, size_t n)
{
    if (hth_origin_rule_fault(origin)) /* "null", or another origin that no list could name */
        (void)snprintf(text, n,
                       "pages of the origin '%.60s' may not use this server, and cannot be told from others (files and "
                       "frames in a sandbox have none of their own): serve the page from http://localhost, and allow "
                       "that with --cors-origin localhost, or cors { origins = [\"localhost\"] } in the configuration",
                       origin); /* cut, here and below */
    else
        (void)snprintf(text, n,
                       "pages of '%.100s' may not use this server; allow them with --cors-origin %.100s, or with "
                       "cors { origins = [\"%.100s\"] } in the configuration%s",
                       origin, origin, origin,
                       hth_origin_is_local(origin) ? "; 'localhost' there is all pages of this machine" : "");
}
