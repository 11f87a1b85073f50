/*
 * http_fuzz.c - no bytes of a connection crash the HTTP server or stay in it, however they are cut
 *
 * An input goes through a connection twice, at once and in pieces, and the handler has to see the same requests both
 * times. The first byte of an input says how large the pieces are and how the client leaves. Afterwards no connection
 * and no exchange is left, and all that came back is replies.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { TURNS_MAX = 100000, QUIET_TURNS = 3, INPUT_BYTES_MAX = 8192 };

typedef struct seen {
    uint64_t hash; /* of all requests */
    uint32_t n_requests;
} seen;

typedef struct stage {
    struct event_base *base;
    hth_http_server *server;
    hth_http_exchange *held;
    seen seen;
    char reply[16]; /* what came back first */
    size_t n_reply;
} stage;

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static void add(seen *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->hash = (s->hash ^ (uint8_t)bytes[i]) * UINT64_C(1099511628211);
    s->hash = (s->hash ^ n) * UINT64_C(1099511628211);
}

static void on_close(void *user_data)
{
    stage *s = user_data;

    s->held = NULL;
}

static void handle(hth_http_exchange *exchange, void *user_data)
{
    stage *s = user_data;
    const hth_http_watch watch = { .on_close = on_close, .user_data = s };
    const char *path = hth_http_path(exchange), *query = hth_http_query(exchange, "q");
    size_t n;
    const char *body = hth_http_body(exchange, &n);

    check(body[n] == '\0', "the body has no end");
    add(&s->seen, hth_http_method(exchange), strlen(hth_http_method(exchange)));
    add(&s->seen, path, strlen(path));
    add(&s->seen, body, n);
    s->seen.n_requests++;
    hth_http_header_add(exchange, "X-Path", path);
    if (query)
        hth_http_header_add(exchange, query, path);
    switch (path[0] == '/' ? path[1] : '\0') {
    case 'h':
        s->held = exchange;
        hth_http_watch_set(exchange, &watch);
        break;
    case 's':
        hth_http_stream_begin(exchange, 200, path);
        hth_http_stream_write(exchange, body, n);
        hth_http_stream_write(exchange, path, strlen(path));
        hth_http_stream_end(exchange);
        break;
    case 'a': hth_http_abort(exchange); break;
    case 'n': hth_http_reply(exchange, 204, path, NULL, 0); break;
    default: hth_http_reply(exchange, 200, path, body, n); break;
    }
}

static void open_stage(stage *s)
{
    hth_http_options options = hth_http_options_default();

    options.headers_bytes_max = 300;
    options.body_bytes_max = 700;
    options.bodies_bytes_max = 4096;
    s->base = event_base_new();
    if (!s->base || signal(SIGPIPE, SIG_IGN) == SIG_ERR ||
        hth_http_server_new(s->base, &options, handle, s, &s->server, NULL) != HEARTH_OK)
        abort();
}

/* Let the server work, and take what it sends. False when nothing happened. */
static bool turn(stage *s, int fd)
{
    char bytes[4096];
    uint32_t n_requests = s->seen.n_requests;
    bool was_held = s->held;
    ssize_t n;

    if (event_base_loop(s->base, EVLOOP_NONBLOCK) < 0)
        abort();
    n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    for (ssize_t i = 0; i < n && s->n_reply < sizeof(s->reply) - 1; i++)
        s->reply[s->n_reply++] = bytes[i];
    if (s->held) {
        hth_http_exchange *held = s->held;

        s->held = NULL;
        hth_http_reply(held, 200, "text/plain", "held", 4);
    }
    return n > 0 || was_held || s->seen.n_requests != n_requests;
}

static void settle(stage *s, int fd)
{
    int n_quiet = 0;

    for (int i = 0; n_quiet < QUIET_TURNS; i++) {
        check(i < TURNS_MAX, "the server does not come to rest");
        n_quiet = turn(s, fd) ? 0 : n_quiet + 1;
    }
}

/* The requests that the handler saw. */
static seen run(stage *s, const uint8_t *bytes, size_t n, size_t n_piece, bool closes_half)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0)
        abort();
    s->seen = (seen){ .hash = UINT64_C(14695981039346656037) };
    s->n_reply = 0;
    memset(s->reply, 0, sizeof(s->reply));
    if (!hth_http_server_adopt_take(s->server, fds[0], "peer", 0, NULL))
        abort();
    for (size_t at = 0; at < n;) {
        size_t n_next = n - at < n_piece ? n - at : n_piece;
        ssize_t sent = send(fds[1], bytes + at, n_next, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN)
            break; /* the server has closed */
        at += sent > 0 ? (size_t)sent : 0;
        (void)turn(s, fds[1]); /* whether something happens is seen below */
    }
    settle(s, fds[1]);
    if (closes_half) {
        (void)shutdown(fds[1], SHUT_WR); /* the server may have closed */
        settle(s, fds[1]);
    }
    (void)close(fds[1]); /* nothing is read from it any more */
    for (int i = 0; hth_http_server_numbers(s->server).n_connections > 0; i++) {
        check(i < TURNS_MAX, "a connection is left");
        (void)event_base_loop(s->base, EVLOOP_NONBLOCK);
    }
    check(hth_http_server_numbers(s->server).n_exchanges == 0, "an exchange is left");
    check(hth_http_server_numbers(s->server).bodies_bytes == 0, "memory of a body is left");
    check(s->n_reply == 0 || strncmp(s->reply, "HTTP/1.1 ", s->n_reply < 9 ? s->n_reply : 9) == 0,
          "no reply came back");
    return s->seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    static stage s;
    seen whole, pieces;
    bool closes_half;

    if (!s.base)
        open_stage(&s);
    if (n_bytes < 1 || n_bytes > INPUT_BYTES_MAX)
        return 0;
    closes_half = bytes[0] & 1;
    whole = run(&s, bytes + 1, n_bytes - 1, n_bytes, closes_half);
    pieces = run(&s, bytes + 1, n_bytes - 1, 1 + (bytes[0] >> 1) % 40, closes_half);
    check(whole.n_requests == pieces.n_requests && whole.hash == pieces.hash, "pieces make other requests");
    return 0;
}
