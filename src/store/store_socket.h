/*
 * store_socket.h - a connection to a server, with or without TLS, as a bufferevent
 */
#ifndef HTH_STORE_STORE_SOCKET_H
#define HTH_STORE_STORE_SOCKET_H

#include "store/store_url.h"

struct bufferevent;
struct event_base;
struct evdns_base;
struct ssl_ctx_st;

/*
 * What all connections accept: certificates of the authorities in this PEM file, or of the system's if it is NULL.
 * HEARTH_NOT_FOUND, HEARTH_CORRUPT, HEARTH_NO_MEMORY. Free with SSL_CTX_free.
 */
hearth_status hth_store_tls_new(const char *authorities, struct ssl_ctx_st **out, hearth_error *err);

typedef struct hth_store_socket {
    struct bufferevent *bev; /* NULL: none. Its callbacks are deferred */
    struct evdns_base *dns;
} hth_store_socket;

/*
 * Begin to connect; names are looked up meanwhile. tls NULL: plain. The caller sets the callbacks of bev, enables it,
 * and learns the rest by them. HEARTH_NO_MEMORY, HEARTH_IO; *out is empty then.
 */
hearth_status hth_store_socket_open(struct event_base *base, const hth_store_server *server, struct ssl_ctx_st *tls,
                                    hth_store_socket *out, hearth_error *err);
void hth_store_socket_close(hth_store_socket *socket); /* accepts an empty one; leaves an empty one */
/* The reason of an event of failure, for people. */
void hth_store_socket_why(const hth_store_socket *socket, short what, char *out, size_t capacity);

#endif
