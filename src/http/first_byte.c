#include "http/first_byte.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "base/status.h"

typedef struct connection {
    struct connection *prev, *next;
    hth_first_bytes *of;
    struct event *event;
    int fd;
    char peer[INET6_ADDRSTRLEN];
} connection;

struct hth_first_bytes {
    hth_first_bytes_options options;
    connection *waiting; /* the oldest first */
    uint32_t n_waiting;
};

/* The descriptor is the caller's again. */
static int forget(connection *c)
{
    hth_first_bytes *of = c->of;
    const int fd = c->fd;

    DL_DELETE(of->waiting, c);
    of->n_waiting--;
    event_free(c->event);
    free(c);
    return fd;
}

static void cut(connection *c)
{
    (void)close(forget(c)); /* nothing was written */
}

static void on_byte(evutil_socket_t fd, short what, void *user_data)
{
    connection *c = user_data;
    const hth_first_bytes_options *options = &c->of->options;
    char peer[INET6_ADDRSTRLEN];
    uint8_t byte;
    ssize_t n;

    if (!(what & EV_READ)) {
        cut(c);
        return;
    }
    n = recv((int)fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return; /* it waits on, with the same time limit */
    if (n != 1) {
        cut(c);
        return;
    }
    (void)snprintf(peer, sizeof(peer), "%s", c->peer); /* the same size */
    options->on_byte_take(forget(c), byte, peer, options->user_data);
}

hearth_status hth_first_bytes_new(const hth_first_bytes_options *options, hth_first_bytes **out, hearth_error *err)
{
    hth_first_bytes *waiting = calloc(1, sizeof(*waiting));

    if (!waiting)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for connections");
    waiting->options = *options;
    *out = waiting;
    return HEARTH_OK;
}

void hth_first_bytes_free(hth_first_bytes *waiting)
{
    while (waiting && waiting->waiting)
        cut(waiting->waiting); /* NOLINT(clang-analyzer-unix.Malloc): what was cut has left the list, here and below */
    free(waiting);
}

void hth_first_bytes_wait_take(hth_first_bytes *waiting, int fd, const char *peer)
{
    const struct timeval limit = { .tv_sec = waiting->options.timeout_ms / 1000,
                                   .tv_usec = 1000 * (suseconds_t)(waiting->options.timeout_ms % 1000) };
    connection *c = calloc(1, sizeof(*c));

    if (c)
        c->event = event_new(waiting->options.base, fd, EV_READ | EV_PERSIST, on_byte, c);
    if (!c || !c->event || event_add(c->event, &limit) != 0) {
        if (c && c->event)
            event_free(c->event);
        free(c);
        (void)close(fd);
        return;
    }
    c->of = waiting;
    c->fd = fd;
    (void)snprintf(c->peer, sizeof(c->peer), "%s", peer); /* cut: for logs */
    if (waiting->n_waiting == waiting->options.n_max)
        cut(waiting->waiting);
    DL_APPEND(waiting->waiting, c); /* NOLINT(clang-analyzer-unix.Malloc) */
    waiting->n_waiting++;
}
