/*
 * tls.h - the certificate of a listener, replaceable at run time
 *
 * TLS 1.2 and later, HTTP/1.1 by ALPN. A connection keeps the certificate that it began with. Everything runs on the
 * thread of the event base.
 */
#ifndef HTH_HTTP_TLS_H
#define HTH_HTTP_TLS_H

#include "hearth.h"

struct ssl_ctx_st;

typedef struct hth_tls hth_tls;

/*
 * certificate: a PEM file with the server's certificate first, then the chain to a known authority. key: a PEM file
 * with its private key, without a passphrase; may be the same file. Paths are copied.
 *
 * HEARTH_NOT_FOUND, HEARTH_PERMISSION, HEARTH_IO: a file cannot be read; HEARTH_CORRUPT: it has other content;
 * HEARTH_FAILED: certificate and key do not match, or OpenSSL refuses them.
 */
hearth_status hth_tls_new(const char *certificate, const char *key, hth_tls **out, hearth_error *err);
void hth_tls_free(hth_tls *tls); /* established connections stay; accepts NULL */

/* Read both files again. On failure the old certificate stays in use. */
hearth_status hth_tls_reload(hth_tls *tls, hearth_error *err);

/* An hth_http_tls_fn; user_data is the hth_tls. */
struct ssl_ctx_st *hth_tls_context(void *user_data);

#endif
