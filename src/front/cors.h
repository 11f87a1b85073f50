/*
 * cors.h - may a page from elsewhere call us and read our replies? Only if the operator says so
 *
 * Two headers of a browser decide. Origin names the page that asks. Without keys, a page is refused if its origin is
 * neither ours nor listed; otherwise any page that somebody opens on this machine could make a model work for it. Host
 * is the name under which the page asks. A page whose own name was made to lead here (DNS rebinding) sends no Origin,
 * and its Host gives it away.
 */
#ifndef HTH_FRONT_CORS_H
#define HTH_FRONT_CORS_H

#include "http/http.h"
#include "supervisor/options.h"

/* Add the headers of https://fetch.spec.whatwg.org/#http-cors-protocol. False: no origin, or a forbidden one. */
bool hth_cors_add(const hth_server_options *options, hth_http_exchange *exchange);
/* Is it a browser's preflight question for a page's request? No key can come with it. */
bool hth_cors_is_preflight(const hth_http_exchange *exchange);
/*
 * Does the request come from a page whose origin is neither the server's own nor listed? Only browsers send an origin.
 * A page whose own name leads to this machine is foreign, too: see hth_host_is_own.
 */
bool hth_cors_is_foreign(const hth_server_options *options, const hth_http_exchange *exchange);
/*
 * Is the request's Host one that only the operator gives to this server: an address, localhost, the machine's name, or
 * a name that is listened on? The owner of any other name may have made it lead here.
 */
bool hth_host_is_own(const hth_server_options *options, const char *host);
/* The same, or the host of a listed origin (as of a proxy before the server), or a name below "internal". */
bool hth_host_is_known(const hth_server_options *options, const char *host);
/*
 * Was the request sent under an unknown name, from this machine? A page can make a browser do that here. A request from
 * elsewhere came through something that the operator set up.
 */
bool hth_host_is_strange(const hth_server_options *options, const hth_http_exchange *exchange);

/* The message for a page of an unlisted origin, with the way to list it. At most n bytes. */
void hth_cors_refusal(const char *origin, char *text, size_t n);

#endif
