/*
 * http_socket.c - bind sockets, and say why that fails
 *
 * The file of a unix socket must never be accessible to other users, not even between bind and chmod. So the umask sets
 * the mode. The umask belongs to the process and is narrowed only around bind. The process that makes a file holds the
 * lock of its folder: otherwise two servers that start at the same time could both find a stale socket, and one could
 * remove the other's new one.
 */
#include "http/http_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"

enum { BACKLOG = 1024, HOST_TEXT_MAX = 256 };

static bool set_flags(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static int new_socket(int family)
{
    int fd = socket(family, SOCK_STREAM, 0);

    if (fd >= 0 && !set_flags(fd)) {
        int saved = errno;

        (void)close(fd); /* it was not used */
        errno = saved;
        return -1;
    }
    return fd;
}

/* ---- TCP ---- */

static hearth_status fail_tcp(hearth_error *err, int errnum, const char *host, uint16_t port)
{
    const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";

    switch (errnum) {
    case EADDRINUSE:
        return hth_fail(
            err, HEARTH_BUSY,
            "cannot listen on %s%s%s:%u: the port is in use by another process; stop that or choose another "
            "port",
            open, host, close, port);
    case EACCES:
    case EPERM:
        return hth_fail(
            err, HEARTH_PERMISSION,
            "cannot listen on %s%s%s:%u: not permitted; ports below 1024 need a privilege, choose a higher one", open,
            host, close, port);
    case EADDRNOTAVAIL:
        return hth_fail(err, HEARTH_FAILED,
                        "cannot listen on %s%s%s:%u: this machine has no such address; 0.0.0.0 stands for all it has",
                        open, host, close, port);
    default: return hth_fail_errno(err, errnum, "cannot listen on %s%s%s:%u", open, host, close, port);
    }
}

/* A listening socket, or -1 with errno. */
static int listen_on(const struct addrinfo *address, bool is_any)
{
    const int yes = 1, v6only = !is_any;
    int fd = new_socket(address->ai_family), saved;

    if (fd < 0)
        return -1;
    /* Without REUSEADDR a restart would wait for old connections. The other options only matter to other families. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        (address->ai_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) == 0) &&
        bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    saved = errno;
    (void)close(fd); /* errno reports bind's failure */
    errno = saved;
    return -1;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = { .v6 = { 0 } };
    socklen_t n = sizeof(address);

    if (getsockname(fd, &address.any, &n) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

/* A socket on the first usable address of this family. */
static int listen_on_family(const struct addrinfo *list, int family, bool is_any)
{
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int fd;

        if (a->ai_family != family)
            continue;
        fd = listen_on(a, is_any);
        if (fd >= 0 || errno == EADDRINUSE || errno == EACCES)
            return fd;
    }
    return -1;
}

hearth_status hth_http_bind_tcp(const char *host, uint16_t port, int *fd_out, uint16_t *port_out, hearth_error *err)
{
    bool is_any = !host || strcmp(host, "*") == 0;
    const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    char name[HOST_TEXT_MAX], service[8];
    struct addrinfo *list = NULL;
    size_t n = is_any ? 0 : strlen(host);
    int result, fd;

    if (n >= sizeof(name))
        return hth_fail(err, HEARTH_NOT_FOUND, "cannot listen on '%.60s...': the name of a host is shorter", host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']')
        (void)snprintf(name, sizeof(name), "%.*s", (int)n - 2, host + 1);
    else
        (void)snprintf(name, sizeof(name), "%s", is_any ? "*" : host);
    (void)snprintf(service, sizeof(service), "%u", port);
    result = getaddrinfo(is_any ? NULL : name, service, &hints, &list);
    if (result != 0)
        return hth_fail(err, HEARTH_NOT_FOUND,
                        "cannot listen on '%s': %s; give an address of this machine, or 0.0.0.0 for all", name,
                        result == EAI_SYSTEM ? strerror(errno) : gai_strerror(result));
    /*
     * Most clients use IPv4 for a name with addresses of both kinds ("localhost"). "*" is one IPv6 socket for both, if
     * the system has IPv6.
     */
    errno = EADDRNOTAVAIL;
    fd = listen_on_family(list, is_any ? AF_INET6 : AF_INET, is_any);
    if (fd < 0 && errno != EADDRINUSE && errno != EACCES) {
        int first = errno;

        fd = listen_on_family(list, is_any ? AF_INET : AF_INET6, is_any);
        if (fd < 0 && errno == 0)
            errno = first;
    }
    result = errno;
    freeaddrinfo(list);
    if (fd < 0)
        return fail_tcp(err, result, name, port);
    if (port_out)
        *port_out = port_of(fd);
    *fd_out = fd;
    return HEARTH_OK;
}

/* ---- unix sockets ---- */

static bool unix_address(const char *path, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(out->sun_path))
        return false;
    memcpy(out->sun_path, path, strlen(path) + 1);
    return true;
}

int hth_http_unix_socket(void)
{
    return new_socket(AF_UNIX);
}

int hth_http_probe_unix(const char *path)
{
    struct sockaddr_un address;
    int fd, result;

    if (!unix_address(path, &address))
        return ENAMETOOLONG;
    fd = new_socket(AF_UNIX);
    if (fd < 0)
        return errno;
    result = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    (void)close(fd); /* only the result matters */
    return result;
}

/* Make room for a new socket: remove a socket that no process listens on. */
static hearth_status clear_path(const struct sockaddr_un *address, hearth_error *err)
{
    const char *path = address->sun_path;
    struct stat st;
    int result;

    if (lstat(path, &st) != 0)
        return errno == ENOENT ? HEARTH_OK : hth_fail_errno(err, errno, "cannot listen on '%s'", path);
    if (!S_ISSOCK(st.st_mode))
        return hth_fail(err, HEARTH_FAILED,
                        "cannot listen on '%s': something that is no socket has this name; remove it or choose another",
                        path);
    result = hth_http_probe_unix(path);
    if (result == 0 || result == EAGAIN)
        return hth_fail(err, HEARTH_BUSY,
                        "cannot listen on '%s': another process listens there; stop it or choose another name", path);
    if (result != ECONNREFUSED && result != ENOENT)
        return hth_fail_errno(err, result, "cannot listen on '%s': cannot learn whether another process does", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return hth_fail_errno(err, errno, "cannot remove the old socket '%s'", path);
    return HEARTH_OK;
}

static hearth_status bind_unix(int fd, const struct sockaddr_un *address, hearth_error *err)
{
    hearth_status status = clear_path(address, err);
    mode_t old_mask;
    int result;

    if (status != HEARTH_OK)
        return status;
    old_mask = umask(0177);
    result = bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : errno;
    (void)umask(old_mask); /* never fails */
    if (result == 0 && listen(fd, BACKLOG) != 0) {
        result = errno;
        (void)unlink(address->sun_path); /* this process made it, and it is not used */
    }
    if (result == ENOENT)
        return hth_fail(err, HEARTH_NOT_FOUND, "cannot listen on '%s': there is no such folder; make it first",
                        address->sun_path);
    return result == 0 ? HEARTH_OK : hth_fail_errno(err, result, "cannot listen on '%s'", address->sun_path);
}

/* Lock the folder of a path. -1: there is no lock, and the bind goes on without it. */
static int lock_folder(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    free(copy);
    if (fd >= 0)
        (void)flock(fd, LOCK_EX); /* not all file systems have locks: without them, simultaneous starts may collide */
    return fd;
}

hearth_status hth_http_bind_unix(const char *path, int *fd_out, hearth_error *err)
{
    struct sockaddr_un address;
    hearth_status status;
    int fd, lock;

    if (!*path || !unix_address(path, &address))
        return hth_fail(
            err, HEARTH_FAILED,
            "cannot listen on '%s': the path of a socket has 1 to %zu bytes, this one %zu; choose a shorter one", path,
            sizeof(address.sun_path) - 1, strlen(path));
    fd = new_socket(AF_UNIX);
    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot listen on '%s'", path);
    lock = lock_folder(path);
    status = bind_unix(fd, &address, err);
    if (lock >= 0)
        (void)close(lock); /* this unlocks it */
    if (status != HEARTH_OK) {
        (void)close(fd); /* the failure was already reported */
        return status;
    }
    *fd_out = fd;
    return HEARTH_OK;
}

/* ---- other machines ---- */

void hth_http_socket_probe(int fd)
{
    const int yes = 1, n_probes = HTH_HTTP_SILENT_MS / 1000;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes)); /* these may fail: see the header */
#ifdef TCP_KEEPIDLE
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &yes, sizeof(yes)); /* after a second of silence */
#endif
#ifdef TCP_KEEPINTVL
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &yes, sizeof(yes)); /* and each second from then on */
#endif
#ifdef TCP_KEEPCNT
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n_probes, sizeof(n_probes));
#endif
}

int hth_http_node_socket(int family)
{
    const int fd = new_socket(family);

    if (fd >= 0)
        hth_http_socket_probe(fd);
    return fd;
}

/* ---- peers ---- */

void hth_http_peer_text(const struct sockaddr *address, char *text, socklen_t capacity)
{
    const char *written = NULL;

    if (address->sa_family == AF_INET) {
        written = inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, capacity);
    } else if (address->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;

        /* An IPv4 client of a socket for both families. */
        if (IN6_IS_ADDR_V4MAPPED(v6))
            written = inet_ntop(AF_INET, v6->s6_addr + 12, text, capacity);
        else
            written = inet_ntop(AF_INET6, v6, text, capacity);
    }
    if (!written)
        (void)snprintf(text, capacity, "unix");
}
