/*
 * http_socket.h - bound sockets: TCP addresses by name, unix sockets by path
 *
 * These functions block while they look up names, so call them while a server starts. Descriptors are close-on-exec and
 * non-blocking, and they listen already.
 */
#ifndef HTH_HTTP_HTTP_SOCKET_H
#define HTH_HTTP_HTTP_SOCKET_H

#include <stdint.h>
#include <sys/socket.h>

#include "hearth.h"

/*
 * host: a name or an address; an IPv6 address may be in brackets; NULL or "*": all addresses. port 0: any free one.
 * HEARTH_NOT_FOUND: no such host; HEARTH_BUSY: the port is in use; HEARTH_PERMISSION.
 */
hearth_status hth_http_bind_tcp(const char *host, uint16_t port, int *fd_out, uint16_t *port_out, hearth_error *err);

/*
 * The socket has mode 0600 from the start. HEARTH_BUSY: a process listens there; HEARTH_FAILED: the name belongs to a
 * file that is not a socket.
 */
hearth_status hth_http_bind_unix(const char *path, int *fd_out, hearth_error *err);

/* A unix socket, not connected. -1 with errno. */
int hth_http_unix_socket(void);
/* Try to connect to path, then close. 0 or errno; EAGAIN: the queue of the listener is full. */
int hth_http_probe_unix(const char *path);

/*
 * Make a TCP connection that waits for bytes of another machine notice its silence: it breaks when its probes are not
 * acknowledged for HTH_HTTP_SILENT_MS. Bytes that were sent and not acknowledged have the system's long limit: with
 * TCP_USER_TIMEOUT, a receiver that pauses would break the connection, too. Failures only delay the discovery.
 */
enum { HTH_HTTP_SILENT_MS = 2000 };
void hth_http_socket_probe(int fd);
/* A TCP socket of this family with such probes, not connected. -1 with errno. */
int hth_http_node_socket(int family);

/* The text of a peer's address: "127.0.0.1", "::1", "unix". */
void hth_http_peer_text(const struct sockaddr *address, char *text, socklen_t capacity);

#endif
