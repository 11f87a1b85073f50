/*
 * front_page.c - "/" for browsers: the page
 *
 * Only browsers accept HTML. Other clients request "/" to see whether a server is there, and get a line of text.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "front/front_request.h"
#include "front/page.h"

enum { NOT_MODIFIED = 304 };

/* Does a list such as "text/html, application/json;q=0.9" have the word, and not with "q=0"? list NULL: none. */
static bool takes(const char *list, const char *word)
{
    static const char blank[] = " \t";
    const size_t n_word = strlen(word);

    for (const char *at = list; at && *at; at += *at == ',') {
        const char *const entry = at + strspn(at, blank);
        const char *const rest = entry + strcspn(entry, ";, \t");
        const char *weight;

        at = entry + strcspn(entry, ",");
        if ((size_t)(rest - entry) != n_word || strncasecmp(entry, word, n_word) != 0)
            continue;
        weight = rest + strspn(rest, "; \t");
        return weight >= at || strncasecmp(weight, "q=", 2) != 0 || strtod(weight + 2, NULL) > 0;
    }
    return false;
}

static void add_headers(hth_http_exchange *exchange)
{
    static const char *const headers[][2] = {
        { "Cache-Control", "no-cache" }, /* browsers revalidate each time, by the ETag */
        { "Vary", "Accept, Accept-Encoding" },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "X-DNS-Prefetch-Control", "off" }, /* a link in a reply must not reveal its host's name by itself */
        { "Cross-Origin-Opener-Policy", "same-origin" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
    };

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        hth_http_header_add(exchange, headers[i][0], headers[i][1]);
    hth_http_header_add(exchange, "ETag", hth_page_built.etag);
    hth_http_header_add(exchange, "Content-Security-Policy", hth_page_built.policy);
}

bool hth_front_show_page(hth_front_request *r)
{
    const hth_page *page = &hth_page_built;
    const char *known = hth_http_header(r->exchange, "If-None-Match");
    const bool is_gzip = takes(hth_http_header(r->exchange, "Accept-Encoding"), "gzip");

    if (page->n_plain == 0 || r->options->options->no_ui || !takes(hth_http_header(r->exchange, "Accept"), "text/html"))
        return false;
    add_headers(r->exchange);
    if (known && strstr(known, page->etag)) {
        hth_front_request_answer_bytes(r, NOT_MODIFIED, NULL, NULL, 0);
        return true;
    }
    if (is_gzip)
        hth_http_header_add(r->exchange, "Content-Encoding", "gzip");
    hth_front_request_answer_bytes(r, 200, "text/html; charset=utf-8", is_gzip ? page->gzip : page->plain,
                                   is_gzip ? page->n_gzip : page->n_plain);
    return true;
}
