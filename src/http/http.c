/*
 * http.c - the server: its listeners, the number of its connections, and the timer that ends overdue waits
 *
 * There is one list of connections for each kind of wait. All waits of a list have the same time limit, so the first
 * connection has waited longest. One timer, set to the earliest end, serves any number of connections.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/listener.h>

#include "base/status.h"
#include "http/http_inside.h"
#include "http/http_socket.h"

enum {
    BREATH_MS = 200,
    SWEEP_MS_MIN = 10,
    HEAD_BYTES_MAX = 64 << 20, /* at most, whatever the options allow: numbers of 32 bits locate the fields */
};

static struct timeval timeval_of(uint64_t ms)
{
    return (struct timeval){ .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
}

/* ---- time limits ---- */

void hth_http_server_sweep_by(hth_http_server *server, uint64_t ms)
{
    uint64_t now = hth_http_now_ms();
    struct timeval delay;

    if (ms >= server->sweep_ms)
        return;
    if (ms < now + SWEEP_MS_MIN)
        ms = now + SWEEP_MS_MIN;
    delay = timeval_of(ms - now);
    if (event_add(server->sweep, &delay) == 0)
        server->sweep_ms = ms;
}

static void sweep(evutil_socket_t fd, short what, void *user_data)
{
    hth_http_server *server = user_data;
    uint64_t now = hth_http_now_ms();

    (void)fd;
    (void)what;
    server->sweep_ms = UINT64_MAX;
    for (int wait = 0; wait < HTH_HTTP_WAITS; wait++) {
        uint64_t limit_ms = hth_http_wait_ms(&server->options, (hth_http_wait)wait);
        hth_http_connection *first;

        if (limit_ms == 0)
            continue;
        /* An expired connection is now in another list or gone. Callbacks may end others, so begin anew each time. */
        while ((first = TAILQ_FIRST(&server->waiting[wait])) && now - first->since_ms >= limit_ms &&
               first->since_ms <= now)
            hth_http_connection_expire(first);
        if (first)
            hth_http_server_sweep_by(server, first->since_ms + limit_ms);
    }
}

/* ---- listeners ---- */

static void set_accepting(hth_http_server *server, bool accepts)
{
    hth_http_listener *listener;

    LIST_FOREACH(listener, &server->listeners, next)
    {
        /* A listener that cannot be enabled now is tried again when the next connection ends. */
        if (accepts)
            (void)evconnlistener_enable(listener->listener);
        else
            (void)evconnlistener_disable(listener->listener);
    }
}

static void on_breath(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    set_accepting(user_data, true);
}

void hth_http_server_breathe(hth_http_server *server)
{
    if (event_pending(server->breath, EV_TIMEOUT, NULL)) {
        (void)event_del(server->breath); /* it is pending */
        set_accepting(server, true);
    }
}

/* Descriptors or memory ran out. A connection waits in the queue, and accepting at once would spin. */
static void on_accept_error(struct evconnlistener *evlistener, void *user_data)
{
    hth_http_listener *listener = user_data;
    const struct timeval delay = timeval_of(BREATH_MS);

    (void)evlistener;
    if (event_add(listener->server->breath, &delay) == 0)
        set_accepting(listener->server, false);
}

static uint64_t connections_max(const hth_http_listener *listener)
{
    const hth_http_server *server = listener->server;

    return (uint64_t)server->options.connections_max + (listener->tag == server->reserved_tag ? server->n_reserved : 0);
}

static void on_accept(struct evconnlistener *evlistener, evutil_socket_t fd, struct sockaddr *address, int n_address,
                      void *user_data)
{
    hth_http_listener *listener = user_data;
    hth_http_server *server = listener->server;
    struct ssl_ctx_st *tls = listener->tls ? listener->tls(listener->tls_user_data) : NULL;
    char peer[INET6_ADDRSTRLEN];
    const int yes = 1;

    (void)evlistener;
    (void)n_address;
    server->numbers.n_accepted++;
    if (server->numbers.n_connections >= connections_max(listener) || (listener->tls && !tls)) {
        server->numbers.n_refused++;
        (void)close(fd); /* nothing was written to it */
        return;
    }
    if (!listener->path)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* only speed depends on it */
    if (listener->path)
        (void)snprintf(peer, sizeof(peer), "unix");
    else
        hth_http_peer_text(address, peer, sizeof(peer));
    if (!hth_http_connection_new_take(server, fd, peer, listener->tag, tls))
        server->numbers.n_refused++;
}

/* Takes the listening descriptor. path is the path of a unix socket; NULL: TCP. */
static hearth_status listener_new_take(hth_http_server *server, int fd, const char *path,
                                       const hth_http_listener *settings, hth_http_listener **out, hearth_error *err)
{
    hth_http_listener *listener = malloc(sizeof(*listener));
    struct stat st;

    if (listener) {
        *listener = *settings;
        listener->server = server;
        listener->path = path ? strdup(path) : NULL;
        if (path && stat(path, &st) == 0) {
            listener->device = (uint64_t)st.st_dev;
            listener->inode = (uint64_t)st.st_ino;
        }
        /* 0: it listens already. It starts disabled, because libevent hides a failure to enable it here. */
        if (!path || listener->path)
            listener->listener =
                evconnlistener_new(server->base, on_accept, listener,
                                   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED, 0, fd);
    }
    if (!listener || !listener->listener || evconnlistener_enable(listener->listener) != 0) {
        if (listener && listener->listener)
            evconnlistener_free(listener->listener);
        else
            (void)close(fd); /* no client was served by it */
        if (listener)
            free(listener->path);
        free(listener);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to listen");
    }
    evconnlistener_set_error_cb(listener->listener, on_accept_error);
    LIST_INSERT_HEAD(&server->listeners, listener, next);
    if (out)
        *out = listener;
    return HEARTH_OK;
}

hearth_status hth_http_listen_tcp(hth_http_server *server, const char *host, uint16_t port, int tag,
                                  hth_http_tls_fn tls, void *tls_user_data, uint16_t *port_out, hth_http_listener **out,
                                  hearth_error *err)
{
    const hth_http_listener settings = { .tag = tag, .tls = tls, .tls_user_data = tls_user_data };
    uint16_t port_taken = 0;
    int fd = -1;
    hearth_status status = hth_http_bind_tcp(host, port, &fd, &port_taken, err);

    if (status == HEARTH_OK)
        status = listener_new_take(server, fd, NULL, &settings, out, err);
    if (status == HEARTH_OK && port_out)
        *port_out = port_taken;
    return status;
}

hearth_status hth_http_listen_unix(hth_http_server *server, const char *path, int tag, hth_http_listener **out,
                                   hearth_error *err)
{
    const hth_http_listener settings = { .tag = tag };
    int fd = -1;
    hearth_status status = hth_http_bind_unix(path, &fd, err);

    if (status != HEARTH_OK)
        return status;
    status = listener_new_take(server, fd, path, &settings, out, err);
    if (status != HEARTH_OK)
        (void)unlink(path); /* it is ours */
    return status;
}

void hth_http_listener_close(hth_http_listener *listener)
{
    struct stat st;

    if (!listener)
        return;
    LIST_REMOVE(listener, next);
    /* Do not remove a successor's socket of the same name. */
    if (listener->path && lstat(listener->path, &st) == 0 && (uint64_t)st.st_dev == listener->device &&
        (uint64_t)st.st_ino == listener->inode)
        (void)unlink(listener->path); /* at best */
    evconnlistener_free(listener->listener);
    free(listener->path);
    free(listener);
}

/* ---- the server ---- */

hearth_status hth_http_server_new(struct event_base *base, const hth_http_options *options, hth_http_handler handler,
                                  void *user_data, hth_http_server **out, hearth_error *err)
{
    hth_http_server *server = calloc(1, sizeof(*server));

    if (!server)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for an HTTP server");
    server->base = base;
    server->handler = handler;
    server->user_data = user_data;
    server->sweep_ms = UINT64_MAX;
    LIST_INIT(&server->listeners);
    for (int wait = 0; wait <= HTH_HTTP_WAITS; wait++)
        TAILQ_INIT(&server->waiting[wait]);
    server->sweep = event_new(base, -1, 0, sweep, server);
    server->breath = event_new(base, -1, 0, on_breath, server);
    if (!server->sweep || !server->breath) {
        hth_http_server_free(server);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for an HTTP server");
    }
    hth_http_server_set_options(server, options);
    *out = server;
    return HEARTH_OK;
}

void hth_http_server_free(hth_http_server *server)
{
    if (!server)
        return;
    for (hth_http_listener *listener = LIST_FIRST(&server->listeners), *next; listener; listener = next) {
        next = LIST_NEXT(listener, next);
        hth_http_listener_close(listener);
    }
    for (int wait = 0; wait <= HTH_HTTP_WAITS; wait++) {
        while (!TAILQ_EMPTY(&server->waiting[wait]))
            hth_http_connection_cut(TAILQ_FIRST(&server->waiting[wait]));
    }
    if (server->sweep)
        event_free(server->sweep);
    if (server->breath)
        event_free(server->breath);
    free(server->server_name);
    free(server);
}

void hth_http_server_set_options(hth_http_server *server, const hth_http_options *options)
{
    free(server->server_name);
    server->server_name = options->server_name && hth_http_is_value(options->server_name)
                            ? strndup(options->server_name, 100)
                            : NULL; /* without memory the header is left out */
    server->options = *options;
    server->options.server_name = NULL;
    if (server->options.headers_bytes_max < 4)
        server->options.headers_bytes_max = 4;
    if (server->options.headers_bytes_max > HEAD_BYTES_MAX)
        server->options.headers_bytes_max = HEAD_BYTES_MAX;
    /* Time limits may be shorter now. */
    hth_http_server_sweep_by(server, hth_http_now_ms());
}

void hth_http_server_set_errors(hth_http_server *server, hth_http_error_fn write_error)
{
    server->write_error = write_error;
}

void hth_http_server_set_gate(hth_http_server *server, hth_http_gate_fn wants_body)
{
    server->wants_body = wants_body;
}

void hth_http_server_reserve(hth_http_server *server, int tag, uint32_t n)
{
    server->reserved_tag = tag;
    server->n_reserved = n;
}

void hth_http_server_drain(hth_http_server *server)
{
    hth_http_connection *connection, *next;

    server->is_draining = true;
    for (connection = TAILQ_FIRST(&server->waiting[HTH_HTTP_WAIT_REQUEST]); connection; connection = next) {
        next = TAILQ_NEXT(connection, next);
        hth_http_connection_drain(connection);
    }
}

bool hth_http_server_owes_replies(const hth_http_server *server)
{
    return !TAILQ_EMPTY(&server->waiting[HTH_HTTP_WAIT_WRITE]);
}

hth_http_numbers hth_http_server_numbers(const hth_http_server *server)
{
    return server->numbers;
}
