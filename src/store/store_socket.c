#include "store/store_socket.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/dns.h>
#include <event2/util.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/status.h"

/* ---- TLS ---- */

hearth_status hth_store_tls_new(const char *authorities, SSL_CTX **out, hearth_error *err)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    bool ok;

    *out = NULL;
    if (!tls)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for TLS to the store");
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    ok = SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) == 1 &&
         (authorities ? SSL_CTX_load_verify_file(tls, authorities) : SSL_CTX_set_default_verify_paths(tls)) == 1;
    ERR_clear_error();
    if (!ok) {
        SSL_CTX_free(tls);
        return authorities
                 ? hth_fail(err, HEARTH_CORRUPT,
                            "cannot read certificates of authorities from '%s'; it must be a PEM file", authorities)
                 : hth_fail(err, HEARTH_FAILED, "OpenSSL does not find the system's authorities");
    }
    *out = tls;
    return HEARTH_OK;
}

/* A session that accepts only a certificate of this host. NULL without memory. */
static SSL *session_for(SSL_CTX *tls, const char *host)
{
    SSL *ssl = SSL_new(tls);
    X509_VERIFY_PARAM *rules = ssl ? SSL_get0_param(ssl) : NULL;
    bool ok = false;

    if (!ssl)
        return NULL;
    ok = X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1; /* fails for a name */
    if (!ok)
        ok = X509_VERIFY_PARAM_set1_host(rules, host, 0) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
    ERR_clear_error();
    if (!ok) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

/* ---- a connection ---- */

static struct bufferevent *make(struct event_base *base, const char *host, SSL_CTX *tls)
{
    const int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
    struct bufferevent *bev;
    SSL *ssl;

    if (!tls)
        return bufferevent_socket_new(base, -1, options);
    ssl = session_for(tls, host);
    bev = ssl ? bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_CONNECTING, options) : NULL;
    if (ssl && !bev)
        SSL_free(ssl);
    if (bev)
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

hearth_status hth_store_socket_open(struct event_base *base, const hth_store_server *server, SSL_CTX *tls,
                                    hth_store_socket *out, hearth_error *err)
{
    *out = (hth_store_socket){ .bev = make(base, server->host, tls), .dns = evdns_base_new(base, 0) };
    if (!out->bev || !out->dns) {
        hth_store_socket_close(out);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a connection to the store");
    }
    /* After one kind of addresses, the other is waited for: by default for longer than a connection may take. */
    (void)evdns_base_set_option(out->dns, "getaddrinfo-allow-skew", "0.5");
#ifdef DNS_OPTIONS_ALL
    (void)evdns_base_resolv_conf_parse(out->dns, DNS_OPTIONS_ALL, "/etc/resolv.conf"); /* addresses need none */
#endif
    if (bufferevent_socket_connect_hostname(out->bev, out->dns, AF_UNSPEC, server->host, server->port) != 0) {
        hth_store_socket_close(out);
        return hth_fail(err, HEARTH_IO, "cannot look up '%s'", server->host);
    }
    return HEARTH_OK;
}

void hth_store_socket_close(hth_store_socket *socket)
{
    if (socket->bev)
        bufferevent_free(socket->bev);
    if (socket->dns)
        evdns_base_free(socket->dns, 1); /* its lookup fails, or else it would go on in freed memory */
    *socket = (hth_store_socket){ .bev = NULL };
}

void hth_store_socket_why(const hth_store_socket *socket, short what, char *out, size_t capacity)
{
    const int dns = bufferevent_socket_get_dns_error(socket->bev), errnum = EVUTIL_SOCKET_ERROR();
    const unsigned long tls = bufferevent_get_openssl_error(socket->bev);
    const SSL *ssl = bufferevent_openssl_get_ssl(socket->bev);
    const long verdict = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;

    if (dns != 0)
        (void)snprintf(out, capacity, "its name cannot be looked up: %s", evutil_gai_strerror(dns));
    else if (verdict != X509_V_OK)
        (void)snprintf(out, capacity, "its certificate is not accepted: %s", X509_verify_cert_error_string(verdict));
    else if (tls != 0)
        (void)snprintf(out, capacity, "TLS: %s", ERR_reason_error_string(tls));
    else if (what & BEV_EVENT_EOF)
        (void)snprintf(out, capacity, "it closed the connection");
    else
        (void)snprintf(out, capacity, "%s", evutil_socket_error_to_string(errnum)); /* all cut: for people */
}
