#include "carrier/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/os.h"
#include "base/status.h"
#include "http/host.h"
#include "http/http_socket.h"
#include "wire/carrier_messages.h"

enum {
    SLICE_MS = 5, /* between two questions whether to go on */
    PIECE_BYTES = 1 << 20,
    HOST_BYTES = 256,
    PREAMBLE_BYTES = sizeof(HTH_CARRIER_PREAMBLE) - 1,
};

/* Wait for events. False: give up. */
static bool wait_for(hth_link *link, short events)
{
    for (;;) {
        struct pollfd p = { .fd = link->fd, .events = events };
        int n;

        if (!link->goes_on(link->user_data))
            return false;
        n = poll(&p, 1, SLICE_MS);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            link->last_ns = hth_os_monotonic_ns();
            return true;
        }
    }
}

/* After a call of OpenSSL that did not finish: wait for what it needs. False: it failed, or give up. */
static bool wait_for_tls(hth_link *link, int result)
{
    switch (SSL_get_error(link->ssl, result)) {
    case SSL_ERROR_WANT_READ: return wait_for(link, POLLIN);
    case SSL_ERROR_WANT_WRITE: return wait_for(link, POLLOUT);
    default: return false;
    }
}

bool hth_link_read(hth_link *link, void *bytes, size_t n)
{
    for (size_t at = 0, n_read = 0; at < n; at += n_read) {
        const size_t n_piece = n - at < PIECE_BYTES ? n - at : PIECE_BYTES;
        int result;

        ERR_clear_error();
        n_read = 0;
        result = SSL_read_ex(link->ssl, (uint8_t *)bytes + at, n_piece, &n_read);
        if (result <= 0 && !wait_for_tls(link, result))
            return false;
        if (result > 0) {
            link->last_ns = hth_os_monotonic_ns();
            if (!link->goes_on(link->user_data))
                return false;
        }
    }
    return true;
}

bool hth_link_write(hth_link *link, const void *bytes, size_t n)
{
    for (size_t at = 0, n_written = 0; at < n; at += n_written) {
        const size_t n_piece = n - at < PIECE_BYTES ? n - at : PIECE_BYTES;
        int result;

        ERR_clear_error();
        n_written = 0;
        result = SSL_write_ex(link->ssl, (const uint8_t *)bytes + at, n_piece, &n_written);
        if (result <= 0 && !wait_for_tls(link, result))
            return false;
        if (result > 0) {
            link->last_ns = hth_os_monotonic_ns();
            if (!link->goes_on(link->user_data))
                return false;
        }
    }
    return true;
}

/* ---- in the clear ---- */

static bool say_preamble(hth_link *link)
{
    for (size_t at = 0; at < PREAMBLE_BYTES;) {
        const ssize_t n = send(link->fd, HTH_CARRIER_PREAMBLE + at, PREAMBLE_BYTES - at, MSG_NOSIGNAL);

        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || !wait_for(link, POLLOUT))
            return false;
    }
    return true;
}

static bool hear_preamble(hth_link *link)
{
    char bytes[PREAMBLE_BYTES];

    for (size_t at = 0; at < sizeof(bytes);) {
        const ssize_t n = recv(link->fd, bytes + at, sizeof(bytes) - at, 0);

        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || !wait_for(link, POLLIN))
            return false;
    }
    return memcmp(bytes, HTH_CARRIER_PREAMBLE, sizeof(bytes)) == 0;
}

/* ---- TLS ---- */

static void set_no_delay(int fd)
{
    const int yes = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* without it requests come later */
}

static hearth_status shake_hands(hth_link *link, SSL_CTX *context, bool is_server, hearth_error *err)
{
    int result;

    link->ssl = SSL_new(context);
    if (!link->ssl || SSL_set_fd(link->ssl, link->fd) != 1)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a connection to another node");
    if (is_server)
        SSL_set_accept_state(link->ssl);
    else
        SSL_set_connect_state(link->ssl);
    do {
        ERR_clear_error();
        result = SSL_do_handshake(link->ssl);
    } while (result <= 0 && wait_for_tls(link, result));
    if (result > 0)
        return HEARTH_OK;
    if (SSL_get_verify_result(link->ssl) != X509_V_OK)
        return hth_fail(err, HEARTH_PERMISSION,
                        "a node that is asked for rows, or asks for them, has not the file of this fleet");
    return hth_fail(err, HEARTH_IO, "a node that is asked for rows, or asks for them, broke off, or was too slow");
}

hearth_status hth_link_accept(hth_link *link, struct ssl_ctx_st *context, int fd, hearth_error *err)
{
    const int flags = fcntl(fd, F_GETFL);

    link->fd = fd;
    link->last_ns = hth_os_monotonic_ns();
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return hth_fail_errno(err, errno, "cannot use the connection of another node");
    hth_http_socket_probe(fd);
    set_no_delay(fd);
    if (!hear_preamble(link))
        return hth_fail(err, HEARTH_IO, "another node asked for rows without a beginning, or was too slow");
    return shake_hands(link, context, true, err);
}

/* ---- connecting ---- */

/* "HOST:PORT" to both. */
static bool split(const char *address, char host[HOST_BYTES], const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t n = colon ? (size_t)(colon - address) : 0;

    if (n > 2 && address[0] == '[' && address[n - 1] == ']') {
        address++;
        n -= 2;
    }
    if (n == 0 || n >= HOST_BYTES || !colon[1])
        return false;
    memcpy(host, address, n);
    host[n] = '\0';
    *port = colon + 1;
    return true;
}

static bool connect_to(hth_link *link, const struct addrinfo *address)
{
    socklen_t n = sizeof(int);
    int failed = 0;

    link->fd = hth_http_node_socket(address->ai_family);
    if (link->fd < 0)
        return false;
    set_no_delay(link->fd);
    if (connect(link->fd, address->ai_addr, address->ai_addrlen) == 0)
        return true;
    if (errno == EINPROGRESS && wait_for(link, POLLOUT) &&
        getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &failed, &n) == 0 && failed == 0)
        return true;
    (void)close(link->fd); /* nothing was sent */
    link->fd = -1;
    return false;
}

hearth_status hth_link_connect(hth_link *link, struct ssl_ctx_st *context, const char *address, hearth_error *err)
{
    struct addrinfo *list = NULL;
    char host[HOST_BYTES];
    const char *port;
    bool is_connected = false;
    hearth_status status;

    link->fd = -1;
    link->last_ns = hth_os_monotonic_ns();
    if (!split(address, host, &port))
        return hth_fail(err, HEARTH_NOT_FOUND, "'%s' is no address of a node", address);
    status = hth_host_find(host, port, NULL, link->goes_on, link->user_data, &list, err);
    if (status != HEARTH_OK)
        return status;
    for (const struct addrinfo *a = list; a && !is_connected && link->goes_on(link->user_data); a = a->ai_next)
        is_connected = connect_to(link, a);
    hth_host_free(list);
    if (!is_connected || !say_preamble(link))
        return hth_fail(err, HEARTH_IO, "the node at '%s' does not take connections", address);
    return shake_hands(link, context, false, err);
}

void hth_link_close(hth_link *link)
{
    SSL_free(link->ssl);
    link->ssl = NULL;
    if (link->fd >= 0)
        (void)close(link->fd); /* what was sent before does not matter any more */
    link->fd = -1;
    ERR_clear_error();
}
