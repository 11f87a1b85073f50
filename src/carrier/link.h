/*
 * link.h - a TLS connection to another node, for a thread that waits with a limit
 *
 * The socket never blocks. Where bytes do not come or go at once, the thread polls, and every few milliseconds a
 * callback says whether it should go on: so each transfer has its own rule when to give up, and ends soon after it is
 * told to. The process ignores SIGPIPE, or the thread blocks it.
 */
#ifndef HTH_CARRIER_LINK_H
#define HTH_CARRIER_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

struct ssl_ctx_st;
struct ssl_st;

typedef struct hth_link {
    struct ssl_st *ssl;
    bool (*goes_on)(void *user_data); /* false: every call fails from now on */
    void *user_data;
    uint64_t last_ns; /* when a byte last came or went, by hth_os_monotonic_ns */
    int fd;           /* -1: none */
} hth_link;

/*
 * Connect to "HOST:PORT" ("[::1]:80"), say HTH_CARRIER_PREAMBLE, and shake hands. context: of the fleet, see
 * hth_fleet_pem_context. goes_on and user_data of *link are set. Statuses of hth_host_find; HEARTH_IO: it does not
 * answer, or not in time; HEARTH_PERMISSION: it is no member of the fleet; HEARTH_NO_MEMORY. Close it in any case.
 */
hearth_status hth_link_connect(hth_link *link, struct ssl_ctx_st *context, const char *address, hearth_error *err);
/* The other side, on a connected socket, which the link takes over. */
hearth_status hth_link_accept(hth_link *link, struct ssl_ctx_st *context, int fd, hearth_error *err);
/* Ends the connection. */
void hth_link_close(hth_link *link);

/* All n bytes, or false: the connection ended, or goes_on said so. */
bool hth_link_read(hth_link *link, void *bytes, size_t n);
bool hth_link_write(hth_link *link, const void *bytes, size_t n);

#endif
