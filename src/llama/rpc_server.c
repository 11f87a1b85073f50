/*
 * rpc_server.c - checks whether a server of the engine's RPC backend answers
 *
 * llama.cpp v0.5.0 ends the process when an address has no port, no server listens, the versions differ or a server
 * hangs up. When the server is busy with another client, it waits forever. So the server is probed first, in the
 * engine's own protocol (ggml-rpc.cpp). All versions that greet have the same greeting:
 *
 *   to the server    u8 14 (hello), u64 24, 24 bytes of the transports that we know: only TCP
 *   from the server  u64 28, u8 major, u8 minor, u8 patch, u8 0, 24 bytes of transports
 *
 * in the machine's byte order, which is little-endian on all supported machines. Then the connection is reset, and the
 * server waits for its next client. It is reset and not closed, because a busy server reads the greeting later.
 * Answering on a closed connection would kill it (SIGPIPE); on a reset connection it just gets an error. A server may
 * still go away before the engine connects. Then the engine ends the process, and its message names the cause.
 */
#include "llama/llama_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ggml-rpc.h>

#include "base/os.h"
#include "engine/engine_options.h"

enum { HELLO = 14, TRANSPORTS_BYTES = 24, ANSWER_BYTES = 8 + 4 + TRANSPORTS_BYTES, WAIT_MS = 10000 };

_Static_assert(RPC_PROTO_MAJOR_VERSION == 7, "look at the greeting in ggml-rpc.cpp again");

/* Wait until the socket is ready; false on timeout. */
static bool wait_for(int fd, short events, uint64_t deadline)
{
    for (;;) {
        struct pollfd poll_fd = { .fd = fd, .events = events };
        uint64_t now = hth_os_monotonic_ns();
        int n = now < deadline ? poll(&poll_fd, 1, (int)((deadline - now) / 1000000u) + 1) : 0;

        if (n > 0)
            return true;
        if (n == 0 || errno != EINTR)
            return false;
    }
}

/* 0 or errno. */
static int connect_within(int fd, const struct sockaddr *address, socklen_t n_bytes, uint64_t deadline)
{
    int problem = 0;
    socklen_t n_problem = sizeof(problem);

    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof(struct linger)) != 0)
        return errno;
    if (connect(fd, address, n_bytes) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return errno;
    if (!wait_for(fd, POLLOUT, deadline))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &n_problem) == 0 ? problem : errno;
}

/* A connected socket; negative, with err set, on failure. */
static int open_connection(const char *address, uint64_t deadline, hearth_error *err)
{
    const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
    const char *colon = strchr(address, ':');
    char host[HTH_RPC_ADDRESS_BYTES];
    struct addrinfo *found = NULL;
    int problem, fd;

    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    problem = getaddrinfo(host, colon + 1, &hints, &found);
    if (problem != 0) {
        (void)hth_fail(err, HEARTH_ENGINE, "the RPC server '%s' cannot be found: %s", address, gai_strerror(problem));
        return -1;
    }
    fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    problem = fd < 0 ? errno : connect_within(fd, found->ai_addr, found->ai_addrlen, deadline);
    freeaddrinfo(found);
    if (problem == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd); /* nothing was sent */
    (void)hth_fail(err, HEARTH_ENGINE, "the RPC server '%s' cannot be reached: %s; is ggml-rpc-server running there?",
                   address, strerror(problem));
    return -1;
}

/* Read until the connection or the time ends. Returns the number of bytes. */
static size_t read_within(int fd, uint8_t *bytes, size_t n_bytes, uint64_t deadline, bool *is_late)
{
    size_t n = 0;

    *is_late = false;
    while (n < n_bytes) {
        ssize_t got;

        if (!wait_for(fd, POLLIN, deadline)) {
            *is_late = true;
            break;
        }
        got = read(fd, bytes + n, n_bytes - n);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    return n;
}

hearth_status hth_rpc_server_check(const char *address, hearth_error *err)
{
    const uint64_t n_hello = TRANSPORTS_BYTES, n_answer = ANSWER_BYTES - 8;
    uint64_t deadline = hth_os_monotonic_ns() + hth_ms_to_ns(WAIT_MS);
    uint8_t hello[1 + 8 + TRANSPORTS_BYTES] = { HELLO };
    uint8_t answer[ANSWER_BYTES];
    bool is_late = false;
    ssize_t n_sent;
    size_t n;
    int fd = open_connection(address, deadline, err);

    if (fd < 0)
        return HEARTH_ENGINE;
    memcpy(hello + 1, &n_hello, sizeof(n_hello));
    n_sent =
        send(fd, hello, sizeof(hello), MSG_NOSIGNAL); /* they fit, because they are the first bytes of the connection */
    n = n_sent == (ssize_t)sizeof(hello) ? read_within(fd, answer, sizeof(answer), deadline, &is_late) : 0;
    (void)close(fd); /* resets; the server accepts its next client */
    if (is_late)
        return hth_fail(
            err, HEARTH_ENGINE,
            "the RPC server '%s' does not answer; it serves one client at a time: does another process use it?",
            address);
    if (n < sizeof(answer) || memcmp(answer, &n_answer, sizeof(n_answer)) != 0)
        return hth_fail(err, HEARTH_ENGINE, "what listens at '%s' is no RPC server of this engine's version", address);
    if (answer[8] != RPC_PROTO_MAJOR_VERSION || answer[9] > RPC_PROTO_MINOR_VERSION)
        return hth_fail(err, HEARTH_ENGINE,
                        "the RPC server '%s' has version %d.%d.%d of the protocol, this engine %d.%d; build both from "
                        "the same version of llama.cpp",
                        address, answer[8], answer[9], answer[10], RPC_PROTO_MAJOR_VERSION, RPC_PROTO_MINOR_VERSION);
    return HEARTH_OK;
}
