/*
 * front_page.c - "/" for browsers: the page
 *
 * Only a browser says that it takes HTML. Other clients ask "/" whether there is a server, and get a line of text.
 */
#include <string.h>

#include "server/front_request.h"
#include "server/page.h"

enum { NOT_MODIFIED = 304 };

static bool is_in(const char *word, const char *header)
{
    return header && strstr(header, word);
}

/* "gzip;q=0" refuses it. */
static bool takes_gzip(const char *accepted)
{
    const char *gzip = accepted ? strstr(accepted, "gzip") : NULL;

    return gzip && (strncmp(gzip, "gzip;q=0", 8) != 0 || gzip[8] == '.');
}

static void add_headers(hth_http_exchange *exchange)
{
    static const char *const headers[][2] = {
        { "Cache-Control", "no-cache" }, /* ask each time: the ETag answers */
        { "Vary", "Accept, Accept-Encoding" },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
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
    const bool is_known = is_in(page->etag, hth_http_header(r->exchange, "If-None-Match"));
    const bool is_gzip = takes_gzip(hth_http_header(r->exchange, "Accept-Encoding"));

    if (page->n_plain == 0 || r->options->options->no_ui || !is_in("text/html", hth_http_header(r->exchange, "Accept")))
        return false;
    add_headers(r->exchange);
    if (is_known) {
        hth_front_request_answer_bytes(r, NOT_MODIFIED, NULL, NULL, 0);
        return true;
    }
    if (is_gzip)
        hth_http_header_add(r->exchange, "Content-Encoding", "gzip");
    hth_front_request_answer_bytes(r, 200, "text/html; charset=utf-8", is_gzip ? page->gzip : page->plain,
                                   is_gzip ? page->n_gzip : page->n_plain);
    return true;
}
