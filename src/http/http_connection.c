/*
 * http_connection.c - from bytes to exchanges, and the end of a connection
 *
 * Every event of a connection (bytes came, bytes left, its end, a time limit) leads to go_on. It steps from state to
 * state (http_inside.h) until the next step needs an event. A handler may reply, abort or write during a step. If that
 * ends the connection, the connection is only marked, and go_on frees it after the step.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/os.h"
#include "http/http_inside.h"

enum { LINGER_MS = 2000, LOOK_MS = 500, READ_AHEAD_BYTES = 16 << 10, BODY_BYTES_FIRST = 64 << 10 };

uint64_t hth_http_now_ms(void)
{
    return hth_os_monotonic_ns() / 1000000;
}

/* ---- what it waits for ---- */

uint64_t hth_http_wait_ms(const hth_http_options *options, hth_http_wait wait)
{
    switch (wait) {
    case HTH_HTTP_WAIT_REQUEST: return options->idle_timeout_ms;
    case HTH_HTTP_WAIT_READ: return options->request_timeout_ms;
    case HTH_HTTP_WAIT_WRITE: return options->write_timeout_ms;
    case HTH_HTTP_WAIT_LINGER: return LINGER_MS;
    case HTH_HTTP_WAIT_LOOK: return LOOK_MS;
    case HTH_HTTP_WAIT_NONE: break;
    }
    return 0;
}

static size_t n_unsent(const hth_http_connection *connection)
{
    return evbuffer_get_length(bufferevent_get_output(connection->bev));
}

/* What a connection in its state waits for. */
static hth_http_wait wait_of(const hth_http_connection *connection)
{
    switch ((hth_http_state)connection->state) {
    case HTH_HTTP_IDLE: return HTH_HTTP_WAIT_REQUEST;
    case HTH_HTTP_HANDSHAKE:
    case HTH_HTTP_HEAD:
    case HTH_HTTP_BODY: return HTH_HTTP_WAIT_READ;
    case HTH_HTTP_PENDING:
        if (n_unsent(connection) > 0)
            return HTH_HTTP_WAIT_WRITE;
        return connection->is_paused || connection->is_at_end ? HTH_HTTP_WAIT_LOOK : HTH_HTTP_WAIT_NONE;
    case HTH_HTTP_FLUSH: return HTH_HTTP_WAIT_WRITE;
    case HTH_HTTP_LINGER: break;
    }
    return HTH_HTTP_WAIT_LINGER;
}

/* The time limit runs from now on. */
static void wait_anew(hth_http_connection *connection)
{
    hth_http_server *server = connection->server;
    hth_http_wait wait = wait_of(connection);
    uint64_t limit_ms = hth_http_wait_ms(&server->options, wait);

    TAILQ_REMOVE(&server->waiting[connection->wait], connection, next);
    connection->wait = (uint8_t)wait;
    connection->since_ms = hth_http_now_ms();
    TAILQ_INSERT_TAIL(&server->waiting[wait], connection, next);
    if (limit_ms > 0)
        hth_http_server_sweep_by(server, connection->since_ms + limit_ms);
}

/* The time limit runs from now on if the wait is another one than before. */
static void set_state(hth_http_connection *connection, hth_http_state state)
{
    assert(!connection->is_dead);
    connection->state = (uint8_t)state;
    if (wait_of(connection) != connection->wait)
        wait_anew(connection);
}

/* The output grew or shrank. */
static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *change, void *user_data)
{
    hth_http_connection *connection = user_data;

    (void)output;
    if (wait_of(connection) != connection->wait || (change->n_deleted > 0 && connection->wait == HTH_HTTP_WAIT_WRITE))
        wait_anew(connection);
}

/* ---- writing ---- */

/* From now on the event loop writes the output as the client takes it. False: the connection is broken. */
static bool write_later(hth_http_connection *connection)
{
    connection->writes_later = true;
    return bufferevent_enable(connection->bev, EV_WRITE) == 0;
}

/*
 * Write the output now. One call sends most replies whole, and the event loop need not watch the socket, which would
 * cost two more system calls and a turn of the loop. False: the connection is broken.
 */
static bool write_now(hth_http_connection *connection)
{
    struct evbuffer *output = bufferevent_get_output(connection->bev);
    int n;

    if (connection->writes_later || evbuffer_get_length(output) == 0)
        return true;
    /* Unfreeze the end of the buffer from which only libevent takes. */
    (void)evbuffer_unfreeze(output, 1);
    n = evbuffer_write(output, bufferevent_getfd(connection->bev));
    (void)evbuffer_freeze(output, 1);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return false;
    return evbuffer_get_length(output) == 0 || write_later(connection);
}

bool hth_http_connection_write_later(hth_http_connection *connection)
{
    return connection->writes_later || write_later(connection);
}

/* ---- its end ---- */

static void connection_free(hth_http_connection *connection)
{
    hth_http_server *server = connection->server;

    TAILQ_REMOVE(&server->waiting[connection->wait], connection, next);
    server->numbers.n_connections--;
    /* libevent may free the bufferevent a little later. */
    bufferevent_setcb(connection->bev, NULL, NULL, NULL, NULL);
    (void)evbuffer_remove_cb(bufferevent_get_output(connection->bev), on_output, connection); /* it is there */
    bufferevent_free(connection->bev);
    free(connection);
    hth_http_server_breathe(server);
}

void hth_http_connection_cut(hth_http_connection *connection)
{
    hth_http_exchange *exchange = connection->exchange;

    if (connection->is_dead)
        return;
    connection->is_dead = true;
    if (exchange && exchange->is_counted && exchange->watch.on_close)
        exchange->watch.on_close(exchange->watch.user_data);
    if (exchange) {
        hth_http_exchange_free(exchange);
        connection->exchange = NULL;
    }
    if (!connection->is_going_on)
        connection_free(connection);
}

/* Read again. False: that failed, and the connection is cut. */
static bool resume(hth_http_connection *connection)
{
    if (connection->is_paused && bufferevent_enable(connection->bev, EV_READ) != 0) {
        hth_http_connection_cut(connection);
        return false;
    }
    connection->is_paused = false;
    return true;
}

/* Tell a TLS client that the end is intended. */
static void say_end(hth_http_connection *connection)
{
    struct ssl_st *ssl = bufferevent_openssl_get_ssl(connection->bev);

    if (!ssl || !SSL_is_init_finished(ssl))
        return;
    (void)SSL_shutdown(ssl); /* at best: the client may be gone */
    ERR_clear_error();
}

/* The client has taken the last reply. */
static void finish(hth_http_connection *connection)
{
    struct evbuffer *input = bufferevent_get_input(connection->bev);

    say_end(connection);
    if (connection->is_at_end || (!connection->lingers && evbuffer_get_length(input) == 0)) {
        hth_http_connection_cut(connection);
        return;
    }
    (void)shutdown(bufferevent_getfd(connection->bev),
                   SHUT_WR); /* fails only when the connection is gone, which is noticed next */
    (void)evbuffer_drain(input, evbuffer_get_length(input)); /* cannot fail: the bytes are there */
    if (resume(connection))
        set_state(connection, HTH_HTTP_LINGER);
}

/* ---- a request ---- */

static const char no_memory[] = "the server is out of memory; try again later";

/* Refuse a malformed request. */
static bool refuse(hth_http_connection *connection, int status, const char *why)
{
    hth_http_write_error(connection, status, why);
    return true;
}

/*
 * Skip empty lines before a request's line: some clients send them after a body. False while the input may be the first
 * half of one.
 */
static bool skip_empty_lines(struct evbuffer *input)
{
    char two[2];
    ev_ssize_t n;

    while ((n = evbuffer_copyout(input, two, 2)) == 2 && memcmp(two, "\r\n", 2) == 0)
        (void)evbuffer_drain(input, 2); /* they are there */
    return n != 1 || two[0] != '\r';
}

/* An exchange with room for a head. NULL: no memory. */
static hth_http_exchange *exchange_new(hth_http_connection *connection, size_t n_head)
{
    hth_http_exchange *exchange = calloc(1, sizeof(*exchange));

    if (!exchange)
        return NULL;
    exchange->connection = connection;
    exchange->text = malloc(n_head);
    if (!exchange->text) {
        hth_http_exchange_free(exchange);
        return NULL;
    }
    return exchange;
}

/* What the server says before a reply. Clients must take it whether they expect it or not; not all take other 1xx. */
static const char go_ahead[] = "HTTP/1.1 100 Continue\r\n\r\n";

/*
 * The client of a pending request sends no more: it closed its writing half and waits for the reply, or it has left.
 * Only bytes tell: the system of a client that has left answers them with a reset. A stream that had begun before, and
 * clients that cannot be asked (HTTP/1.0; TLS has no halves), count as gone.
 */
static void ask_whether_it_waits(hth_http_connection *connection)
{
    hth_http_exchange *exchange = connection->exchange;
    bool is_gone = false;

    if (!exchange->is_asked) {
        is_gone = exchange->has_begun || exchange->head.minor == 0 || connection->is_tls ||
                  bufferevent_write(connection->bev, go_ahead, sizeof(go_ahead) - 1) != 0 || !write_now(connection);
        exchange->is_asked = true;
    }
    if (is_gone || hth_os_peer_is_gone(bufferevent_getfd(connection->bev)))
        hth_http_connection_cut(connection);
    else
        wait_anew(connection); /* for the next look */
}

/* The request is complete, or as complete as the handler wants it. */
static void handle(hth_http_connection *connection)
{
    hth_http_server *server = connection->server;

    connection->exchange->is_counted = true;
    server->numbers.n_exchanges++;
    set_state(connection, HTH_HTTP_PENDING);
    server->handler(connection->exchange, server->user_data);
    if (!connection->is_dead && connection->state == HTH_HTTP_PENDING && connection->is_at_end)
        ask_whether_it_waits(connection);
}

/* Bytes that are here already are read in any case: small bodies come with their heads. */
static bool is_unwanted(const hth_http_connection *connection)
{
    hth_http_exchange *exchange = connection->exchange;
    const hth_http_server *server = connection->server;

    return (exchange->head.is_chunked ||
            exchange->head.body_bytes > evbuffer_get_length(bufferevent_get_input(connection->bev))) &&
           server->wants_body && !server->wants_body(exchange, server->user_data);
}

static bool begin_body(hth_http_connection *connection)
{
    hth_http_exchange *exchange = connection->exchange;
    const hth_http_head *head = &exchange->head;
    struct evbuffer *input = bufferevent_get_input(connection->bev);

    if (is_unwanted(connection)) {
        connection->closes = connection->lingers = true;
        handle(connection);
        return true;
    }
    if (head->body_bytes > connection->body_bytes_max)
        return refuse(connection, 413, "the request's body is larger than this server takes");
    if (head->expects_continue && (head->is_chunked || head->body_bytes > 0) && evbuffer_get_length(input) == 0 &&
        (bufferevent_write(connection->bev, go_ahead, sizeof(go_ahead) - 1) != 0 || !write_later(connection)))
        return refuse(connection, 503, no_memory);
    set_state(connection, HTH_HTTP_BODY);
    return true;
}

/* IDLE, HEAD: true when there is a next step. */
static bool read_head(hth_http_connection *connection)
{
    struct evbuffer *input = bufferevent_get_input(connection->bev);
    hth_http_exchange *exchange;
    size_t n_here, n_look, n_head;
    const char *why = NULL;
    unsigned char *bytes;
    bool has_line;
    int status;

    has_line = connection->n_scanned > 0 || skip_empty_lines(input);
    n_here = evbuffer_get_length(input);
    if (n_here == 0) {
        if (connection->state == HTH_HTTP_IDLE && connection->server->is_draining)
            connection->closes = true;
        if (connection->closes || connection->is_at_end)
            finish(connection);
        return false;
    }
    set_state(connection, HTH_HTTP_HEAD);
    if (!has_line) {
        if (connection->is_at_end)
            finish(connection);
        return false;
    }
    n_look = n_here < connection->headers_bytes_max ? n_here : connection->headers_bytes_max;
    bytes = evbuffer_pullup(input, (ev_ssize_t)n_look);
    if (!bytes)
        return refuse(connection, 503, no_memory);
    n_head = hth_http_head_find((const char *)bytes, n_look, &connection->n_scanned);
    if (n_head == SIZE_MAX)
        return refuse(connection, 400, "a line of the request's head does not end with CR LF");
    if (n_head == 0 && n_look == connection->headers_bytes_max)
        return memchr(bytes, '\n', n_look)
                 ? refuse(connection, 431, "the request's head is larger than this server takes")
                 : refuse(connection, 414, "the request's line is longer than this server takes");
    if (n_head == 0) {
        if (connection->is_at_end)
            finish(connection);
        return false;
    }
    exchange = exchange_new(connection, n_head);
    if (!exchange)
        return refuse(connection, 503, no_memory);
    connection->exchange = exchange;
    connection->n_scanned = 0;
    (void)evbuffer_remove(input, exchange->text, n_head); /* they are there */
    status = hth_http_head_parse(exchange->text, n_head, &exchange->head, &why);
    if (status != 0)
        return refuse(connection, status, why);
    if (!hth_http_exchange_decode_path(exchange))
        return refuse(connection, 400, "the request's path is not well encoded");
    connection->closes = !exchange->head.keep_alive;
    return begin_body(connection);
}

/* Make room for more of a body. False: no memory, or all bodies together have reached their limit. */
static bool body_reserve(hth_http_exchange *exchange, size_t n_more)
{
    size_t n = exchange->n_body + n_more + 1, capacity = exchange->body_capacity;
    hth_http_server *server = exchange->connection->server;
    char *body;

    if (n <= capacity)
        return true;
    if (capacity == 0)
        capacity = BODY_BYTES_FIRST;
    while (capacity < n)
        capacity *= 2;
    if (!exchange->head.is_chunked && capacity > exchange->head.body_bytes)
        capacity = (size_t)exchange->head.body_bytes + 1;
    if (server->options.bodies_bytes_max > 0 &&
        server->bodies_bytes + (capacity - exchange->body_capacity) > server->options.bodies_bytes_max)
        return false;
    body = realloc(exchange->body, capacity);
    if (!body)
        return false;
    server->bodies_bytes += capacity - exchange->body_capacity;
    exchange->body = body;
    exchange->body_capacity = capacity;
    return true;
}

static const char no_room[] = "the server has no memory for another request's body now; try again later";

/* 0: go on. Otherwise the status of a refusal, with its reason. */
static int read_chunks(hth_http_connection *connection, bool *is_complete, const char **why_out)
{
    hth_http_exchange *exchange = connection->exchange;
    struct evbuffer *input = bufferevent_get_input(connection->bev);

    while (evbuffer_get_length(input) > 0) {
        size_t n = evbuffer_get_contiguous_space(input), n_used = 0, n_piece = 0;
        const char *bytes = (const char *)evbuffer_pullup(input, (ev_ssize_t)n), *piece = NULL;
        hth_http_chunks_result result = hth_http_chunks_read(&exchange->chunks, bytes, n, &n_used, &piece, &n_piece);

        if (result == HTH_HTTP_CHUNKS_BAD) {
            *why_out = "the request's body is not well chunked";
            return 400;
        }
        if (n_piece > connection->body_bytes_max - exchange->n_body) {
            *why_out = "the request's body is larger than this server takes";
            return 413;
        }
        if (!body_reserve(exchange, n_piece)) {
            *why_out = no_room;
            return 503;
        }
        if (n_piece > 0)
            memcpy(exchange->body + exchange->n_body, piece, n_piece);
        exchange->n_body += n_piece;
        (void)evbuffer_drain(input, n_used); /* they are there */
        if (result == HTH_HTTP_CHUNKS_END) {
            *is_complete = true;
            return 0;
        }
    }
    return 0;
}

static int read_length(hth_http_connection *connection, bool *is_complete, const char **why_out)
{
    hth_http_exchange *exchange = connection->exchange;
    struct evbuffer *input = bufferevent_get_input(connection->bev);
    size_t n = evbuffer_get_length(input), n_left = (size_t)exchange->head.body_bytes - exchange->n_body;

    n = n < n_left ? n : n_left;
    if (!body_reserve(exchange, n)) {
        *why_out = no_room;
        return 503;
    }
    (void)evbuffer_remove(input, exchange->body + exchange->n_body, n); /* they are there */
    exchange->n_body += n;
    *is_complete = n == n_left;
    return 0;
}

/* BODY: true when there is a next step. */
static bool read_body(hth_http_connection *connection)
{
    hth_http_exchange *exchange = connection->exchange;
    bool is_complete = false;
    const char *why = NULL;
    int status = exchange->head.is_chunked ? read_chunks(connection, &is_complete, &why)
                                           : read_length(connection, &is_complete, &why);

    if (status != 0)
        return refuse(connection, status, why);
    if (!is_complete) {
        if (connection->is_at_end)
            hth_http_connection_cut(connection);
        return false;
    }
    exchange->body[exchange->n_body] = '\0';
    handle(connection);
    return true;
}

void hth_http_connection_end_exchange(hth_http_connection *connection, bool is_cut)
{
    assert(!connection->is_dead); /* an exchange that ended with on_close must not be used again */
    hth_http_exchange_free(connection->exchange);
    connection->exchange = NULL;
    hth_http_connection_flush(connection, is_cut);
}

void hth_http_connection_flush(hth_http_connection *connection, bool is_cut)
{
    if (is_cut || !write_now(connection)) {
        hth_http_connection_cut(connection);
        return;
    }
    connection->is_backlogged = false;
    if (connection->server->is_draining)
        connection->closes = true;
    set_state(connection, HTH_HTTP_FLUSH);
    if (n_unsent(connection) > 0 || connection->is_going_on)
        return;
    /* The replier must be done with this request before the handler is called with the next one. */
    if (connection->closes || connection->is_at_end || evbuffer_get_length(bufferevent_get_input(connection->bev)) > 0)
        bufferevent_trigger(connection->bev, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
    else
        set_state(connection, HTH_HTTP_IDLE);
}

/* ---- steps ---- */

/*
 * Pause reading while early input fills the buffer. libevent's high-water mark would do that, but in 2.1 it calls the
 * reader again and again as long as the mark is reached.
 */
static void pause_when_full(hth_http_connection *connection)
{
    bool has_turn = connection->state != HTH_HTTP_PENDING && connection->state != HTH_HTTP_FLUSH;

    if (has_turn || connection->is_paused || connection->is_at_end ||
        evbuffer_get_length(bufferevent_get_input(connection->bev)) < connection->headers_bytes_max + READ_AHEAD_BYTES)
        return;
    (void)bufferevent_disable(connection->bev, EV_READ); /* cannot fail for a socket */
    connection->is_paused = true;
    if (wait_of(connection) != connection->wait)
        wait_anew(connection);
}

/* True if another step follows. */
static bool step(hth_http_connection *connection)
{
    struct evbuffer *input = bufferevent_get_input(connection->bev);

    switch ((hth_http_state)connection->state) {
    case HTH_HTTP_IDLE:
    case HTH_HTTP_HEAD: return read_head(connection);
    case HTH_HTTP_BODY: return read_body(connection);
    case HTH_HTTP_FLUSH:
        if (n_unsent(connection) > 0)
            return false;
        if (connection->closes) {
            finish(connection);
            return false;
        }
        set_state(connection, HTH_HTTP_IDLE);
        return resume(connection);
    case HTH_HTTP_LINGER:
        (void)evbuffer_drain(input, evbuffer_get_length(input)); /* cannot fail: the bytes are there */
        return false;
    case HTH_HTTP_HANDSHAKE:
    case HTH_HTTP_PENDING: break;
    }
    return false;
}

void hth_http_connection_go_on(hth_http_connection *connection)
{
    assert(!connection->is_going_on);
    connection->is_going_on = true;
    while (!connection->is_dead && step(connection))
        continue;
    connection->is_going_on = false;
    if (connection->is_dead)
        connection_free(connection);
    else
        pause_when_full(connection);
}

static void on_read(struct bufferevent *bev, void *user_data)
{
    (void)bev;
    hth_http_connection_go_on(user_data);
}

static void on_written(struct bufferevent *bev, void *user_data)
{
    hth_http_connection *connection = user_data;

    if (connection->writes_later && !connection->is_tls && n_unsent(connection) == 0) {
        connection->writes_later = false;
        (void)bufferevent_disable(bev, EV_WRITE); /* cannot fail for a socket */
    }
    if (connection->is_backlogged && connection->exchange && n_unsent(connection) < HTH_HTTP_BACKLOG_MAX / 2) {
        hth_http_watch watch = connection->exchange->watch;

        connection->is_backlogged = false;
        connection->is_going_on = true;
        if (watch.on_room)
            watch.on_room(watch.user_data);
        connection->is_going_on = false;
        if (connection->is_dead) {
            connection_free(connection);
            return;
        }
    }
    if (connection->state == HTH_HTTP_FLUSH)
        hth_http_connection_go_on(connection);
}

static void on_event(struct bufferevent *bev, short what, void *user_data)
{
    hth_http_connection *connection = user_data;

    (void)bev;
    if (what & BEV_EVENT_CONNECTED) {
        set_state(connection, HTH_HTTP_IDLE);
        return;
    }
    connection->is_at_end = true;
    /* A client that closed only its writing half still gets its reply. TLS has no halves here: libevent has stopped
     * writing as well. */
    if ((what & BEV_EVENT_EOF) && (what & BEV_EVENT_READING) && !connection->is_tls) {
        if (connection->state == HTH_HTTP_FLUSH)
            return;
        if (connection->state == HTH_HTTP_PENDING) {
            ask_whether_it_waits(connection);
            return;
        }
    }
    hth_http_connection_cut(connection);
}

void hth_http_connection_expire(hth_http_connection *connection)
{
    if (connection->wait == HTH_HTTP_WAIT_LOOK) {
        if (connection->is_at_end || hth_os_peer_has_ended(bufferevent_getfd(connection->bev)))
            ask_whether_it_waits(connection);
        else
            wait_anew(connection);
        return;
    }
    if (connection->wait != HTH_HTTP_WAIT_LINGER)
        connection->server->numbers.n_timed_out++;
    if (connection->state == HTH_HTTP_HEAD || connection->state == HTH_HTTP_BODY) {
        hth_http_write_error(connection, 408, "the request did not come in time");
        return;
    }
    if (connection->state == HTH_HTTP_IDLE)
        say_end(connection);
    hth_http_connection_cut(connection);
}

void hth_http_connection_drain(hth_http_connection *connection)
{
    if (connection->state != HTH_HTTP_IDLE || connection->is_going_on)
        return;
    say_end(connection);
    hth_http_connection_cut(connection);
}

/* ---- its beginning ---- */

static struct bufferevent *bufferevent_for(struct event_base *base, int fd, struct ssl_ctx_st *tls)
{
    struct ssl_st *ssl;
    struct bufferevent *bev;

    if (!tls)
        return bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    ssl = SSL_new(tls);
    if (!ssl)
        return NULL;
    bev = bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (!bev)
        SSL_free(ssl);
    else
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    return bev;
}

hth_http_connection *hth_http_connection_new_take(hth_http_server *server, int fd, const char *peer, int tag,
                                                  struct ssl_ctx_st *tls)
{
    hth_http_connection *connection = calloc(1, sizeof(*connection));
    struct bufferevent *bev = connection ? bufferevent_for(server->base, fd, tls) : NULL;

    if (!bev || !evbuffer_add_cb(bufferevent_get_output(bev), on_output, connection)) {
        if (bev)
            bufferevent_free(bev);
        else
            (void)close(fd); /* no byte has left */
        free(connection);
        return NULL;
    }
    *connection = (hth_http_connection){
        .server = server,
        .bev = bev,
        .headers_bytes_max = server->options.headers_bytes_max,
        .body_bytes_max = server->options.body_bytes_max,
        .tag = tag,
        .is_tls = tls != NULL,
        .state = tls ? HTH_HTTP_HANDSHAKE : HTH_HTTP_IDLE,
        .wait = HTH_HTTP_WAIT_NONE,
    };
    (void)memccpy(connection->peer, peer, '\0', sizeof(connection->peer) - 1); /* the last byte stays 0 */
    server->numbers.n_connections++;
    TAILQ_INSERT_TAIL(&server->waiting[HTH_HTTP_WAIT_NONE], connection, next);
    wait_anew(connection);
    bufferevent_setcb(bev, on_read, on_written, on_event, connection);
    bufferevent_setwatermark(bev, EV_WRITE, HTH_HTTP_BACKLOG_MAX / 2 - 1, 0);
    /* A TLS bufferevent has to write by itself. */
    if (bufferevent_enable(bev, EV_READ) != 0 ||
        (tls ? !write_later(connection) : bufferevent_disable(bev, EV_WRITE) != 0)) {
        hth_http_connection_cut(connection);
        return NULL;
    }
    return connection;
}
