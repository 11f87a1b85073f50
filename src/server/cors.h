/*
 * cors.h - may a page from elsewhere read our replies? Only where the operator says so
 */
#ifndef HTH_SERVER_CORS_H
#define HTH_SERVER_CORS_H

#include "server/http.h"
#include "server/options.h"

/* Add the headers of https://fetch.spec.whatwg.org/#http-cors-protocol. False: the request's origin may not, or has none. */
bool hth_cors_add(const hth_server_options *options, hth_http_exchange *exchange);
/*
 * Does the request come from a page of another origin than the server's own? Browsers say so, others do not. A page whose
 * own name leads to this machine (DNS rebinding) is foreign, too: see hth_host_is_own.
 */
bool hth_cors_is_foreign(const hth_server_options *options, const hth_http_exchange *exchange);
/*
 * Is the Host that the client asked for one that only the operator gives to this server: an address, localhost, the
 * machine's name, or a name that is listened on? Any other name may be somebody's who had it lead here.
 */
bool hth_host_is_own(const hth_server_options *options, const char *host);

#endif
