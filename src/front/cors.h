/*
 * cors.h - may a page from another origin call this server and read its replies? Only if the operator allows it
 *
 * Two headers of a browser decide. Origin names the page that sends the request. Without keys, a page is refused if its
 * origin is neither the server's own nor listed; otherwise any page that a user opens on this machine could use a
 * model. Host is the name that the page uses for the server. A page whose own name was made to resolve to this machine
 * (DNS rebinding) sends no Origin, but its Host reveals it.
 */
#ifndef HTH_FRONT_CORS_H
#define HTH_FRONT_CORS_H

#include "http/http.h"
#include "supervisor/server_options.h"

/* Add the headers of https://fetch.spec.whatwg.org/#http-cors-protocol. False: no origin, or a forbidden one. */
bool hth_cors_add(const hth_server_options *options, hth_http_exchange *exchange);
/* Is it a browser's preflight request? It cannot carry a key. */
bool hth_cors_is_preflight(const hth_http_exchange *exchange);
/*
 * Does the request come from a page whose origin is neither the server's own nor listed? Only browsers send an origin.
 * A page whose own name resolves to this machine is foreign, too: see hth_host_is_own.
 */
bool hth_cors_is_foreign(const hth_server_options *options, const hth_http_exchange *exchange);
/*
 * Can only the operator give this Host to the server: an address, localhost, the machine's name, or a name in the
 * listen addresses? The owner of any other name may have made it resolve to this machine.
 */
bool hth_host_is_own(const hth_server_options *options, const char *host);
/*
 * The same, or the host of a listed origin (of a proxy in front of the server, for example), or a name below
 * "internal".
 */
bool hth_host_is_known(const hth_server_options *options, const char *host);
/*
 * Was the request sent from this machine under an unknown name? A page can make a browser on this machine do that. A
 * request from another machine came through a setup of the operator.
 */
bool hth_host_is_strange(const hth_server_options *options, const hth_http_exchange *exchange);

/* The error message for a page of an unlisted origin. It explains how to list the origin. At most n bytes. */
void hth_cors_refusal(const char *origin, char *text, size_t n);

#endif
