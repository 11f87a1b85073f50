/*
 * store_url.h - where a store is, as a text
 *
 *   redis://[[USER:]PASSWORD@]HOST[:PORT][/NUMBER]                          one server; NUMBER: of its database
 *   redis-sentinel://[[USER:]PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/NAME    the primary that sentinels know by NAME
 *
 * rediss:// and rediss-sentinel:// use TLS. IPv6 addresses are in brackets. In user and password, %XX is a byte. Ports
 * are 6379, and 26379 of sentinels, unless given.
 */
#ifndef HTH_STORE_STORE_URL_H
#define HTH_STORE_STORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

enum {
    HTH_STORE_URL_BYTES = 1024,
    HTH_STORE_SERVERS_MAX = 8,
    HTH_STORE_DATABASE_MAX = 65535,
};

typedef struct hth_store_server {
    const char *host;
    uint16_t port;
} hth_store_server;

/* Texts lie in the struct itself: do not copy it. */
typedef struct hth_store_url {
    bool is_tls;
    hth_store_server servers[HTH_STORE_SERVERS_MAX];
    size_t n_servers;
    const char *sentinel_name; /* NULL: the server is no sentinel */
    uint32_t database;
    const char *user;     /* NULL: none */
    const char *password; /* NULL: none */
    char text[HTH_STORE_URL_BYTES];
} hth_store_url;

/* HEARTH_MISUSE: it is no such text; the message does not show the password. */
hearth_status hth_store_url_read(const char *text, hth_store_url *out, hearth_error *err);

#endif
