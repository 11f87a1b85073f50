/*
 * cors.h - may a page from elsewhere call us and read our replies? Only where the operator says so
 *
 * Two headers of a browser decide. Origin tells whose page asks; where no keys are asked for, a page whose origin is
 * neither ours nor listed is refused, since any page that somebody on this machine looks at could else have a model work
 * for it. Host tells under which name it asks: a page whose own name was made to lead here (DNS rebinding) asks without an
 * Origin, and is told by that name.
 */
#ifndef HTH_SERVER_CORS_H
#define HTH_SERVER_CORS_H

#include "server/http.h"
#include "server/options.h"

/* Add the headers of https://fetch.spec.whatwg.org/#http-cors-protocol. False: the request's origin may not, or has none. */
bool hth_cors_add(const hth_server_options *options, hth_http_exchange *exchange);
/* Is it the question that a browser asks before a request of a page? No key can come with it. */
bool hth_cors_is_preflight(const hth_http_exchange *exchange);
/*
 * Does the request come from a page whose origin is neither the server's own nor listed? Browsers say so, others do not. A
 * page whose own name leads to this machine is foreign, too: see hth_host_is_own.
 */
bool hth_cors_is_foreign(const hth_server_options *options, const hth_http_exchange *exchange);
/*
 * Is the Host that the client asked for one that only the operator gives to this server: an address, localhost, the
 * machine's name, or a name that is listened on? Any other name may be somebody's who had it lead here.
 */
bool hth_host_is_own(const hth_server_options *options, const char *host);
/* The same, or the host of a listed origin, as of a proxy before the server, or a name below "internal". */
bool hth_host_is_known(const hth_server_options *options, const char *host);
/*
 * Was the request sent under a name that is not known, from this machine? There a browser can be made to ask; what comes
 * from elsewhere came through something that the operator set up.
 */
bool hth_host_is_strange(const hth_server_options *options, const hth_http_exchange *exchange);

/* What is told to a page of an origin that is not listed, and how that is changed. At most n bytes. */
void hth_cors_refusal(const char *origin, char *text, size_t n);

#endif
