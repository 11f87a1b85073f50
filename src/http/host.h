/*
 * host.h - the addresses of a host, by /etc/hosts and DNS, for a thread that waits with a limit
 *
 * getaddrinfo waits for as long as the system's resolver does, which nothing can end.
 */
#ifndef HTH_HTTP_HOST_H
#define HTH_HTTP_HOST_H

#include <stdbool.h>

#include "hearth.h"

struct addrinfo;

/* Call this before several threads look up hosts. HEARTH_FAILED. */
hearth_status hth_host_allow_threads(hearth_error *err);

/*
 * Look up a host and a port in digits. Every few milliseconds goes_on says whether to wait on. nameservers: a file like
 * /etc/resolv.conf; NULL: that one. HEARTH_NOT_FOUND; HEARTH_TIMED_OUT: goes_on has said no; HEARTH_NO_MEMORY.
 */
hearth_status hth_host_find(const char *host, const char *port, const char *nameservers,
                            bool (*goes_on)(void *user_data), void *user_data, struct addrinfo **out,
                            hearth_error *err);
void hth_host_free(struct addrinfo *list); /* of hth_host_find; accepts NULL */

#endif
