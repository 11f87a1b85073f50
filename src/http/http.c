/*
 * http.c - the server: its listeners, the number of its connections, and the timer that ends overdue waits
 *
 * There is one list of connections for each kind of wait. All waits in a list have the same time limit, so the first
 * connection has waited longest. One timer, set to the earliest limit, serves any number of connections.
 *
 * A connection's states:
 *
 *   HANDSHAKE -> IDLE -> HEAD -> BODY -> PENDING -> FLUSH -> IDLE ...
 *                                                       \-> LINGER
 *
 *   IDLE     no byte of a request is here
 *   HEAD     a part of the head is here
 *   BODY     the head is parsed; the body is not complete
 *   PENDING  the handler has the exchange
 *   FLUSH    the reply is complete, but the client has not received all of it. The next request waits for that.
 *   LINGER   the client has received the reply, which announced the end of the connection. Closing with unread bytes
 *            would reset the connection and lose the reply, so input is dropped for a moment.
 *
 * The socket is read in every state, so that a disconnect is noticed. Input that arrives early is bounded. If a client
 * sends more than the bound after a pending request, reading pauses, and a timer checks whether the client has
 * disconnected. A client that closed its sending side may still wait for its reply: it is probed, and a timer checks
 * whether it has left.
 *
 * Every event of a connection (bytes arrived, bytes were sent, it ended, a time limit passed) calls connection_go_on.
 * It steps from state to state until the next step needs an event. A handler may reply, abort or write during a step.
 * If that ends the connection, the connection is only marked, and connection_go_on frees it after the step.
 *
 * One function writes a reply's head, from texts without line breaks, so no value can begin a new line.
 */
#include "http/http.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "http/first_byte.h"
#include "http/http_head.h"
#include "http/http_socket.h"

typedef enum http_state {
    HTTP_HANDSHAKE,
    HTTP_IDLE,
    HTTP_HEAD,
    HTTP_BODY,
    HTTP_PENDING,
    HTTP_FLUSH,
    HTTP_LINGER,
} http_state;

/* What a connection waits for. Each wait has a time limit. */
typedef enum http_wait {
    HTTP_WAIT_REQUEST, /* a request's first byte */
    HTTP_WAIT_READ,    /* its last byte */
    HTTP_WAIT_WRITE,   /* the client receives a byte of the reply */
    HTTP_WAIT_LINGER,  /* the client closes */
    HTTP_WAIT_LOOK,    /* the next check whether the client has left, when no event would show it */
    HTTP_WAIT_NONE,    /* the handler */
} http_wait;
enum { HTTP_WAITS = HTTP_WAIT_NONE };

typedef struct http_connection http_connection;
TAILQ_HEAD(hth_http_connections, http_connection);

struct http_connection {
    hth_http_server *server;
    struct bufferevent *bev;
    hth_http_exchange *exchange;       /* from the end of the head to the end of the reply; otherwise NULL */
    TAILQ_ENTRY(http_connection) next; /* in server->waiting[wait] */
    uint64_t since_ms;                 /* when it joined that list */
    size_t n_scanned;                  /* HEAD: scanned bytes of it */
    size_t headers_bytes_max, body_bytes_max;
    int tag;
    uint8_t state;
    uint8_t wait;
    bool closes;        /* after this reply */
    bool lingers;       /* before it closes */
    bool is_paused;     /* nothing is read */
    bool is_at_end;     /* the client has ended its sending */
    bool is_going_on;   /* within connection_go_on */
    bool is_dead;       /* freed when that call returns */
    bool is_backlogged; /* on_room must be called later */
    bool is_tls;
    bool writes_later; /* the event loop writes; always with TLS */
    char peer[INET6_ADDRSTRLEN];
};

struct hth_http_exchange {
    http_connection *connection;
    hth_http_head head;
    char *path; /* decoded */
    char *query_value;
    hth_http_chunks chunks;
    char *body; /* n_body bytes and a NUL */
    size_t n_body, body_capacity;
    struct evbuffer *headers; /* headers added to the reply; NULL: none */
    hth_http_watch watch;
    bool is_counted; /* it was passed to the handler */
    bool is_asked;   /* its client, which closed its sending side, was probed */
    bool has_begun;  /* the reply is a stream */
    bool is_bare;    /* the stream has only a head: HEAD, 204, 304 */
    bool is_chunked; /* the stream */
    char text[];     /* of the head */
};

struct hth_http_listener {
    hth_http_server *server;
    struct evconnlistener *listener;
    char *path;             /* of a unix socket; NULL: TCP */
    uint64_t device, inode; /* of that socket file */
    int tag;
    hth_http_tls_fn tls;
    void *tls_user_data;
    LIST_ENTRY(hth_http_listener) next;
};

/* Another protocol on the ports of a tag. */
typedef struct other_protocol {
    hth_first_bytes *waiting; /* NULL: there is none */
    hth_http_other_fn take;
    void *user_data;
    hth_http_tls_fn tls; /* of the tag's listeners */
    void *tls_user_data;
    int tag;
    uint8_t first_byte;
} other_protocol;

struct hth_http_server {
    struct event_base *base;
    hth_http_options options;
    hth_http_handler handler;
    void *user_data;
    other_protocol other;
    hth_http_error_fn write_error;
    hth_http_gate_fn wants_body;        /* NULL: all bodies are read */
    uint32_t n_reserved[HTH_HTTP_TAGS]; /* connections for a tag, in addition to the limit */
    int nodes_tag;
    uint64_t nodes_body_bytes_max; /* of requests with that tag; 0: there are none */
    LIST_HEAD(, hth_http_listener) listeners;
    /* Each list is in the order of since_ms. HTTP_WAIT_NONE has a list, too. */
    struct hth_http_connections waiting[HTTP_WAITS + 1];
    struct event *sweep;        /* ends overdue waits */
    uint64_t sweep_ms;          /* its time; UINT64_MAX: it is not set */
    struct event *accept_pause; /* timer: accept again after descriptors ran out */
    bool is_draining;
    hth_http_numbers numbers;
    uint64_t date_seconds; /* the second that date shows */
    char date[40];
};

enum {
    ACCEPT_PAUSE_MS = 200,
    SWEEP_MS_MIN = 10,
    LINGER_MS = 2000,
    LOOK_MS = 500,
    FIRST_BYTE_MS = 5000,
    FIRST_BYTES_MAX = 64,
    READ_AHEAD_BYTES = 16 << 10,
    BODY_BYTES_FIRST = 64 << 10,
    HEAD_BYTES_MAX = 64 << 20, /* upper bound for the option: fields have 32-bit offsets */
    REPLY_HEAD_BYTES = 1024,
    EXPAND_BYTES_MAX = 64 << 10,
};

/* ---- time limits ---- */

static uint64_t now_ms(void)
{
    return hth_os_monotonic_ns() / 1000000;
}

static struct timeval timeval_of(uint64_t ms)
{
    return (struct timeval){ .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
}

/* The time limit of a wait. */
static uint64_t wait_ms(const hth_http_options *options, http_wait wait)
{
    switch (wait) {
    case HTTP_WAIT_REQUEST: return options->idle_timeout_ms;
    case HTTP_WAIT_READ: return options->request_timeout_ms;
    case HTTP_WAIT_WRITE: return options->write_timeout_ms;
    case HTTP_WAIT_LINGER: return LINGER_MS;
    case HTTP_WAIT_LOOK: return LOOK_MS;
    case HTTP_WAIT_NONE: break;
    }
    return 0;
}

/* Check time limits at ms at the latest. */
static void server_sweep_by(hth_http_server *server, uint64_t ms)
{
    uint64_t now = now_ms();
    struct timeval delay;

    if (ms >= server->sweep_ms)
        return;
    if (ms < now + SWEEP_MS_MIN)
        ms = now + SWEEP_MS_MIN;
    delay = timeval_of(ms - now);
    if (event_add(server->sweep, &delay) == 0)
        server->sweep_ms = ms;
}

static size_t n_unsent(const http_connection *connection)
{
    return evbuffer_get_length(bufferevent_get_output(connection->bev));
}

/* The wait of a connection in its current state. */
static http_wait wait_of(const http_connection *connection)
{
    switch ((http_state)connection->state) {
    case HTTP_IDLE: return HTTP_WAIT_REQUEST;
    case HTTP_HANDSHAKE:
    case HTTP_HEAD:
    case HTTP_BODY: return HTTP_WAIT_READ;
    case HTTP_PENDING:
        if (n_unsent(connection) > 0)
            return HTTP_WAIT_WRITE;
        return connection->is_paused || connection->is_at_end ? HTTP_WAIT_LOOK : HTTP_WAIT_NONE;
    case HTTP_FLUSH: return HTTP_WAIT_WRITE;
    case HTTP_LINGER: break;
    }
    return HTTP_WAIT_LINGER;
}

/* Restart the time limit. */
static void wait_anew(http_connection *connection)
{
    hth_http_server *server = connection->server;
    http_wait wait = wait_of(connection);
    uint64_t limit_ms = wait_ms(&server->options, wait);

    TAILQ_REMOVE(&server->waiting[connection->wait], connection, next);
    connection->wait = (uint8_t)wait;
    connection->since_ms = now_ms();
    TAILQ_INSERT_TAIL(&server->waiting[wait], connection, next);
    if (limit_ms > 0)
        server_sweep_by(server, connection->since_ms + limit_ms);
}

/* Set the state. Restart the time limit if the kind of wait changes. */
static void set_state(http_connection *connection, http_state state)
{
    assert(!connection->is_dead);
    connection->state = (uint8_t)state;
    if (wait_of(connection) != connection->wait)
        wait_anew(connection);
}

/* Called when the output grew or shrank. */
static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *change, void *user_data)
{
    http_connection *connection = user_data;

    (void)output;
    if (wait_of(connection) != connection->wait || (change->n_deleted > 0 && connection->wait == HTTP_WAIT_WRITE))
        wait_anew(connection);
}

/* ---- writing ---- */

/* Let the event loop write the output from now on, as the client receives it. False: the connection is broken. */
static bool write_later(http_connection *connection)
{
    if (connection->writes_later)
        return true;
    connection->writes_later = true;
    return bufferevent_enable(connection->bev, EV_WRITE) == 0;
}

/*
 * Write the output now. One call sends most replies whole. Then the event loop need not watch the socket, which would
 * cost two more system calls and a turn of the loop. False: the connection is broken.
 */
static bool write_now(http_connection *connection)
{
    struct evbuffer *output = bufferevent_get_output(connection->bev);
    int n;

    if (connection->writes_later || evbuffer_get_length(output) == 0)
        return true;
    /* Unfreeze the start of the buffer, from which usually only libevent removes bytes. */
    (void)evbuffer_unfreeze(output, 1);
    n = evbuffer_write(output, bufferevent_getfd(connection->bev));
    (void)evbuffer_freeze(output, 1);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return false;
    return evbuffer_get_length(output) == 0 || write_later(connection);
}

/* ---- the end of a connection ---- */

static void set_accepting(hth_http_server *server, bool accepts)
{
    hth_http_listener *listener;

    LIST_FOREACH(listener, &server->listeners, next)
    {
        /* If a listener cannot be enabled now, the end of the next connection tries again. */
        if (accepts)
            (void)evconnlistener_enable(listener->listener);
        else
            (void)evconnlistener_disable(listener->listener);
    }
}

static void on_pause_over(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    set_accepting(user_data, true);
}

static void exchange_free(hth_http_exchange *exchange)
{
    hth_http_server *server = exchange->connection->server;

    if (exchange->is_counted)
        server->numbers.n_exchanges--;
    server->numbers.bodies_bytes -= exchange->body_capacity;
    if (exchange->headers)
        evbuffer_free(exchange->headers);
    free(exchange->body);
    free(exchange->query_value);
    free(exchange->path);
    free(exchange);
}

static void connection_free(http_connection *connection)
{
    hth_http_server *server = connection->server;

    TAILQ_REMOVE(&server->waiting[connection->wait], connection, next);
    server->numbers.n_connections--;
    /* libevent may free the bufferevent later. */
    bufferevent_setcb(connection->bev, NULL, NULL, NULL, NULL);
    (void)evbuffer_remove_cb(bufferevent_get_output(connection->bev), on_output, connection); /* it exists */
    bufferevent_free(connection->bev);
    free(connection);
    if (event_pending(server->accept_pause, EV_TIMEOUT, NULL)) { /* now there is room for others: accept again */
        (void)event_del(server->accept_pause);                   /* it is pending */
        set_accepting(server, true);
    }
}

/* Close the connection now. Calls on_close of its pending exchange. */
static void connection_cut(http_connection *connection)
{
    hth_http_exchange *exchange = connection->exchange;

    if (connection->is_dead)
        return;
    connection->is_dead = true;
    if (exchange && exchange->is_counted && exchange->watch.on_close)
        exchange->watch.on_close(exchange->watch.user_data);
    if (exchange) {
        exchange_free(exchange);
        connection->exchange = NULL;
    }
    if (!connection->is_going_on)
        connection_free(connection);
}

/* Resume reading. False: that failed, and the connection is cut. */
static bool resume(http_connection *connection)
{
    if (connection->is_paused && bufferevent_enable(connection->bev, EV_READ) != 0) {
        connection_cut(connection);
        return false;
    }
    connection->is_paused = false;
    return true;
}

/* Tell a TLS client that the close is intended. */
static void say_end(http_connection *connection)
{
    struct ssl_st *ssl = bufferevent_openssl_get_ssl(connection->bev);

    if (!ssl || !SSL_is_init_finished(ssl))
        return;
    (void)SSL_shutdown(ssl); /* best effort: the client may be gone */
    ERR_clear_error();
}

/* The client has received the last reply: close, or linger. */
static void finish(http_connection *connection)
{
    struct evbuffer *input = bufferevent_get_input(connection->bev);

    say_end(connection);
    if (connection->is_at_end || (!connection->lingers && evbuffer_get_length(input) == 0)) {
        connection_cut(connection);
        return;
    }
    (void)shutdown(bufferevent_getfd(connection->bev),
                   SHUT_WR); /* fails only if the connection is gone, which is noticed next */
    (void)evbuffer_drain(input, evbuffer_get_length(input)); /* cannot fail: the bytes are there */
    if (resume(connection))
        set_state(connection, HTTP_LINGER);
}

/* ---- the request, as the handler sees it ---- */

const char *hth_http_method(const hth_http_exchange *exchange)
{
    return exchange->head.method;
}

const char *hth_http_path(const hth_http_exchange *exchange)
{
    return exchange->path;
}

/* A decoded copy of n bytes; NULL: no memory. */
static char *decode(const char *text, size_t n)
{
    char *copy = strndup(text, n), *decoded = copy ? evhttp_uridecode(copy, 1, NULL) : NULL;

    free(copy);
    return decoded;
}

const char *hth_http_query(const hth_http_exchange *exchange, const char *name)
{
    /* The exchange stores the text that the last call returned; nothing else in it changes. */
    hth_http_exchange *owner = exchange->connection->exchange;
    const char *at = exchange->head.query;

    assert(owner == exchange);
    while (at && *at) {
        size_t n = strcspn(at, "&"), n_name = strcspn(at, "=&");
        char *decoded = decode(at, n_name);
        bool is_it = decoded && strcmp(decoded, name) == 0;

        free(decoded);
        if (is_it) {
            size_t skip = n_name < n ? n_name + 1 : n_name;

            free(owner->query_value);
            owner->query_value = decode(at + skip, n - skip);
            return owner->query_value;
        }
        at += n;
        at += *at == '&';
    }
    return NULL;
}

const char *hth_http_header(const hth_http_exchange *exchange, const char *name)
{
    return hth_http_head_field(&exchange->head, exchange->text, name);
}

const char *hth_http_body(hth_http_exchange *exchange, size_t *n_out)
{
    *n_out = exchange->n_body;
    return exchange->body;
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

static bool may_be_json(const hth_http_exchange *exchange, size_t n_before, bool may_be_empty)
{
    const char *type = hth_http_header(exchange, "Content-Type"), *body = exchange->body;
    size_t i = n_before;

    if (!type || !(begins_with(type, "multipart/") || begins_with(type, "application/x-www-form-urlencoded")))
        return true;
    if (begins_with(type, "multipart/"))
        return false;
    while (i < exchange->n_body && strchr(" \t\r\n", body[i]) && body[i])
        i++;
    return i < exchange->n_body ? body[i] == '{' || body[i] == '[' /* curl labels every body as a form by default */
                                : i == exchange->n_body && may_be_empty;
}

const char *hth_body_problem(hth_http_exchange *exchange, size_t n_before, bool may_be_empty, char text[128])
{
    const char *coding = hth_http_header(exchange, "Content-Encoding");

    if (strcmp(exchange->head.method, "POST") != 0)
        return NULL;
    if (!may_be_json(exchange, n_before, may_be_empty))
        return "the body is a form; it must be JSON (Content-Type: application/json)";
    if (!coding || !*coding || strcasecmp(coding, "identity") == 0)
        return NULL;
    /* Bodies are not decompressed. Without this check, the error for a compressed body would be that it is not JSON. */
    (void)snprintf(text, 128, "the body has Content-Encoding '%.40s', which is not read here; send it as it is",
                   coding); /* fits */
    return text;
}

const char *hth_http_peer(const hth_http_exchange *exchange)
{
    return exchange->connection->peer;
}

int hth_http_tag(const hth_http_exchange *exchange)
{
    return exchange->connection->tag;
}

void hth_http_watch_set(hth_http_exchange *exchange, const hth_http_watch *watch)
{
    exchange->watch = *watch;
}

/* ---- whole replies ---- */

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 402, "Payment Required" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" },
        { 422, "Unprocessable Content" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 499, "Client Closed Request" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" },
        { 507, "Insufficient Storage" },
        { 529, "Overloaded" },
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
        if (reasons[i].status == status)
            return reasons[i].reason;
    }
    return status < 400 ? "OK" : "Error";
}

static const char *date_of(hth_http_server *server)
{
    static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    uint64_t seconds = hth_os_unix_seconds();
    time_t now = (time_t)seconds;
    struct tm t;

    if (seconds != server->date_seconds && gmtime_r(&now, &t)) {
        (void)snprintf(server->date, sizeof(server->date), "%s, %02d %s %04d %02d:%02d:%02d GMT", days[t.tm_wday % 7],
                       t.tm_mday, months[t.tm_mon % 12], (t.tm_year + 1900) % 10000, t.tm_hour, t.tm_min, t.tm_sec);
        server->date_seconds = seconds;
    }
    return server->date;
}

/* The way that a client recognises the end of a reply. */
typedef enum framing { FRAMING_LENGTH, FRAMING_CHUNKS, FRAMING_END, FRAMING_NONE } framing;

/* The head of a reply. exchange may be NULL. False: no memory. */
static bool write_head(http_connection *connection, const hth_http_exchange *exchange, int status,
                       const char *content_type, framing how, size_t n_body, size_t n_expand)
{
    hth_http_server *server = connection->server;
    struct evbuffer *output = bufferevent_get_output(connection->bev);
    const char *name = server->options.server_name;
    int minor = exchange ? exchange->head.minor : 1, n;
    char head[REPLY_HEAD_BYTES], length[64] = "";

    if (content_type && (!hth_http_is_value(content_type) || strlen(content_type) > REPLY_HEAD_BYTES / 4))
        content_type = "application/octet-stream";
    if (how == FRAMING_LENGTH)
        (void)snprintf(length, sizeof(length), "Content-Length: %zu\r\n", n_body);
    else if (how == FRAMING_CHUNKS)
        (void)snprintf(length, sizeof(length), "Transfer-Encoding: chunked\r\n");
    n = snprintf(head, sizeof(head), "HTTP/1.1 %d %s\r\nDate: %s\r\n%s%s%s%s%s%s%s%s", status, reason_of(status),
                 date_of(server), name ? "Server: " : "", name ? name : "", name ? "\r\n" : "",
                 content_type ? "Content-Type: " : "", content_type ? content_type : "", content_type ? "\r\n" : "",
                 length,
                 connection->closes ? "Connection: close\r\n"
                 : minor == 0       ? "Connection: keep-alive\r\n"
                                    : "");
    assert(n > 0 && (size_t)n < sizeof(head));
    return evbuffer_expand(output, (size_t)n + n_expand + 256) == 0 && evbuffer_add(output, head, (size_t)n) == 0 &&
           (!exchange || !exchange->headers || evbuffer_add_buffer(output, exchange->headers) == 0) &&
           evbuffer_add(output, "\r\n", 2) == 0;
}

/* Status codes that never have a body. */
static bool is_bodyless(int status)
{
    return status == 204 || status == 304;
}

static bool is_head_request(const hth_http_exchange *exchange)
{
    return exchange && exchange->head.method && strcmp(exchange->head.method, "HEAD") == 0;
}

/* A whole reply. False: no memory. */
static bool write_reply(http_connection *connection, const hth_http_exchange *exchange, int status,
                        const char *content_type, const void *body, size_t n)
{
    struct evbuffer *output = bufferevent_get_output(connection->bev);
    bool has_body = n > 0 && !is_bodyless(status) && !is_head_request(exchange);

    /* For a HEAD request, n 0 may mean that the length of the body is unknown. */
    framing how = is_bodyless(status) || (n == 0 && is_head_request(exchange)) ? FRAMING_NONE : FRAMING_LENGTH;

    if (connection->server->is_draining)
        connection->closes = true;
    return write_head(connection, exchange, status, content_type, how, n, has_body && n <= EXPAND_BYTES_MAX ? n : 0) &&
           (!has_body || evbuffer_add(output, body, n) == 0);
}

/* A reply is complete, or was cut off (is_cut); the exchange has ended, if there was one. */
static void connection_flush(http_connection *connection, bool is_cut)
{
    if (is_cut || !write_now(connection)) {
        connection_cut(connection);
        return;
    }
    connection->is_backlogged = false;
    if (connection->server->is_draining)
        connection->closes = true;
    set_state(connection, HTTP_FLUSH);
    if (n_unsent(connection) > 0 || connection->is_going_on)
        return;
    /* The code that replies must finish with this request before the handler gets the next one. */
    if (connection->closes || connection->is_at_end || evbuffer_get_length(bufferevent_get_input(connection->bev)) > 0)
        bufferevent_trigger(connection->bev, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
    else
        set_state(connection, HTTP_IDLE);
}

/* End the exchange: its reply is complete, or was cut off (is_cut). */
static void connection_end_exchange(http_connection *connection, bool is_cut)
{
    assert(!connection->is_dead); /* an exchange that ended with on_close must not be used */
    exchange_free(connection->exchange);
    connection->exchange = NULL;
    connection_flush(connection, is_cut);
}

/* Reply to a malformed request. exchange is NULL if even its head was malformed. The connection closes afterwards. */
static void http_write_error(http_connection *connection, int status, const char *why)
{
    hth_http_server *server = connection->server;
    hth_http_exchange *exchange = connection->exchange;
    const char *path = exchange && exchange->path ? exchange->path : "", *body = NULL;
    char text[256];
    bool is_written;

    if (server->write_error)
        body = server->write_error(status, why, path, server->user_data);
    if (!body) {
        (void)snprintf(text, sizeof(text), "{\"error\":{\"message\":\"%s\"}}", why);
        body = text;
    }
    connection->closes = connection->lingers = true;
    is_written = write_reply(connection, exchange, status, "application/json", body, strlen(body));
    if (exchange)
        connection_end_exchange(connection, !is_written);
    else
        connection_flush(connection, !is_written);
}

/* ---- a request, from bytes to the handler ---- */

static const char no_memory[] = "the server is out of memory; try again later";

/* Refuse a malformed request. */
static bool refuse(http_connection *connection, int status, const char *why)
{
    http_write_error(connection, status, why);
    return true;
}

/*
 * Skip empty lines before a request line: some clients send them after a body. False while the input may be the first
 * half of an empty line.
 */
static bool skip_empty_lines(struct evbuffer *input)
{
    char two[2];
    ev_ssize_t n;

    while ((n = evbuffer_copyout(input, two, 2)) == 2 && memcmp(two, "\r\n", 2) == 0)
        (void)evbuffer_drain(input, 2); /* cannot fail: they are there */
    return n != 1 || two[0] != '\r';
}

/* False: the path is not valid text. */
static bool exchange_decode_path(hth_http_exchange *exchange)
{
    const char *path = exchange->head.path;
    size_t n = 0;

    for (const char *c = strchr(path, '%'); c; c = strchr(c + 1, '%')) {
        if (strspn(c + 1, "0123456789abcdefABCDEF") < 2)
            return false;
    }
    exchange->path = evhttp_uridecode(path, 0, &n);
    return exchange->path && strlen(exchange->path) == n; /* has no "%00" */
}

/*
 * The interim reply that probes a client. Clients must accept it even if they do not expect it; not all accept other
 * 1xx.
 */
static const char go_ahead[] = "HTTP/1.1 100 Continue\r\n\r\n";

/*
 * The client of a pending request closed its sending side: it waits for the reply, or has left. Only sending bytes
 * shows which: the system of a client that has left answers them with a reset. Clients of a stream that has already
 * begun, and clients that cannot be probed (HTTP/1.0; TLS cannot be half-closed), count as gone.
 */
static void ask_whether_it_waits(http_connection *connection)
{
    hth_http_exchange *exchange = connection->exchange;
    bool is_gone = false;

    if (!exchange->is_asked) {
        is_gone = exchange->has_begun || exchange->head.minor == 0 || connection->is_tls ||
                  bufferevent_write(connection->bev, go_ahead, sizeof(go_ahead) - 1) != 0 || !write_now(connection);
        exchange->is_asked = true;
    }
    if (is_gone || hth_os_peer_is_gone(bufferevent_getfd(connection->bev)))
        connection_cut(connection);
    else
        wait_anew(connection); /* until the next check */
}

/* Call the handler: the request is complete, or its body is not wanted. */
static void handle(http_connection *connection)
{
    hth_http_server *server = connection->server;

    connection->exchange->is_counted = true;
    server->numbers.n_exchanges++;
    set_state(connection, HTTP_PENDING);
    server->handler(connection->exchange, server->user_data);
    if (!connection->is_dead && connection->state == HTTP_PENDING && connection->is_at_end)
        ask_whether_it_waits(connection);
}

/*
 * Is the rest of the body unwanted? Bytes that have already arrived are read in any case: small bodies come with their
 * heads.
 */
static bool is_unwanted(const http_connection *connection)
{
    hth_http_exchange *exchange = connection->exchange;
    const hth_http_server *server = connection->server;

    return (exchange->head.is_chunked ||
            exchange->head.body_bytes > evbuffer_get_length(bufferevent_get_input(connection->bev))) &&
           server->wants_body && !server->wants_body(exchange, server->user_data);
}

static bool begin_body(http_connection *connection)
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
    set_state(connection, HTTP_BODY);
    return true;
}

/* IDLE, HEAD: true when there is a next step. */
static bool read_head(http_connection *connection)
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
        if (connection->state == HTTP_IDLE && connection->server->is_draining)
            connection->closes = true;
        if (connection->closes || connection->is_at_end)
            finish(connection);
        return false;
    }
    set_state(connection, HTTP_HEAD);
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
    exchange = calloc(1, sizeof(*exchange) + n_head);
    if (!exchange)
        return refuse(connection, 503, no_memory);
    exchange->connection = connection;
    connection->exchange = exchange;
    connection->n_scanned = 0;
    (void)evbuffer_remove(input, exchange->text, n_head); /* cannot fail: they are there */
    status = hth_http_head_parse(exchange->text, n_head, &exchange->head, &why);
    if (status != 0)
        return refuse(connection, status, why);
    if (!exchange_decode_path(exchange))
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
    if (server->options.bodies_bytes_max > 0 && capacity > 1 && /* 1: a request without a body, never refused */
        server->numbers.bodies_bytes + (capacity - exchange->body_capacity) > server->options.bodies_bytes_max)
        return false;
    body = realloc(exchange->body, capacity);
    if (!body)
        return false;
    server->numbers.bodies_bytes += capacity - exchange->body_capacity;
    exchange->body = body;
    exchange->body_capacity = capacity;
    return true;
}

static const char no_room[] = "the server has no memory for another request's body now; try again later";

/* Read chunks. 0: go on. Otherwise the status of a refusal, with its reason. */
static int read_chunks(http_connection *connection, bool *is_complete, const char **why_out)
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
        (void)evbuffer_drain(input, n_used); /* cannot fail: they are there */
        if (result == HTH_HTTP_CHUNKS_END) {
            *is_complete = true;
            return 0;
        }
    }
    return 0;
}

static int read_length(http_connection *connection, bool *is_complete, const char **why_out)
{
    hth_http_exchange *exchange = connection->exchange;
    struct evbuffer *input = bufferevent_get_input(connection->bev);
    size_t n = evbuffer_get_length(input), n_left = (size_t)exchange->head.body_bytes - exchange->n_body;

    n = n < n_left ? n : n_left;
    if (!body_reserve(exchange, n)) {
        *why_out = no_room;
        return 503;
    }
    (void)evbuffer_remove(input, exchange->body + exchange->n_body, n); /* cannot fail: they are there */
    exchange->n_body += n;
    *is_complete = n == n_left;
    return 0;
}

/* BODY: true when there is a next step. */
static bool read_body(http_connection *connection)
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
            connection_cut(connection);
        return false;
    }
    exchange->body[exchange->n_body] = '\0';
    handle(connection);
    return true;
}

/* ---- steps ---- */

/*
 * Pause reading while early input fills the buffer. libevent's high-water mark would do that, but version 2.1 calls the
 * reader repeatedly while the mark is reached.
 */
static void pause_when_full(http_connection *connection)
{
    bool has_turn = connection->state != HTTP_PENDING && connection->state != HTTP_FLUSH;

    if (has_turn || connection->is_paused || connection->is_at_end ||
        evbuffer_get_length(bufferevent_get_input(connection->bev)) < connection->headers_bytes_max + READ_AHEAD_BYTES)
        return;
    (void)bufferevent_disable(connection->bev, EV_READ); /* cannot fail for a socket */
    connection->is_paused = true;
    if (wait_of(connection) != connection->wait)
        wait_anew(connection);
}

/* True if another step follows. */
static bool step(http_connection *connection)
{
    struct evbuffer *input = bufferevent_get_input(connection->bev);

    switch ((http_state)connection->state) {
    case HTTP_IDLE:
    case HTTP_HEAD: return read_head(connection);
    case HTTP_BODY: return read_body(connection);
    case HTTP_FLUSH:
        if (n_unsent(connection) > 0)
            return false;
        if (connection->closes) {
            finish(connection);
            return false;
        }
        set_state(connection, HTTP_IDLE);
        return resume(connection);
    case HTTP_LINGER:
        (void)evbuffer_drain(input, evbuffer_get_length(input)); /* cannot fail: the bytes are there */
        return false;
    case HTTP_HANDSHAKE:
    case HTTP_PENDING: break;
    }
    return false;
}

/* Step from state to state until an event is needed. Does nothing when called within such a step. */
static void connection_go_on(http_connection *connection)
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
    connection_go_on(user_data);
}

static void on_written(struct bufferevent *bev, void *user_data)
{
    http_connection *connection = user_data;

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
    if (connection->state == HTTP_FLUSH)
        connection_go_on(connection);
}

static void on_event(struct bufferevent *bev, short what, void *user_data)
{
    http_connection *connection = user_data;

    (void)bev;
    if (what & BEV_EVENT_CONNECTED) {
        set_state(connection, HTTP_IDLE);
        return;
    }
    connection->is_at_end = true;
    /*
     * A client that closed only its sending side still gets its reply. With TLS this is not possible: libevent has
     * stopped writing as well.
     */
    if ((what & BEV_EVENT_EOF) && (what & BEV_EVENT_READING) && !connection->is_tls) {
        if (connection->state == HTTP_FLUSH)
            return;
        if (connection->state == HTTP_PENDING) {
            ask_whether_it_waits(connection);
            return;
        }
    }
    connection_cut(connection);
}

/* The time limit of its wait has passed. */
static void connection_expire(http_connection *connection)
{
    if (connection->wait == HTTP_WAIT_LOOK) {
        if (connection->is_at_end || hth_os_peer_has_ended(bufferevent_getfd(connection->bev)))
            ask_whether_it_waits(connection);
        else
            wait_anew(connection);
        return;
    }
    if (connection->wait != HTTP_WAIT_LINGER)
        connection->server->numbers.n_timed_out++;
    if (connection->state == HTTP_HEAD || connection->state == HTTP_BODY) {
        http_write_error(connection, 408, "the request did not come in time");
        return;
    }
    if (connection->state == HTTP_IDLE)
        say_end(connection);
    connection_cut(connection);
}

static void sweep(evutil_socket_t fd, short what, void *user_data)
{
    hth_http_server *server = user_data;
    uint64_t now = now_ms();

    (void)fd;
    (void)what;
    server->sweep_ms = UINT64_MAX;
    for (int wait = 0; wait < HTTP_WAITS; wait++) {
        uint64_t limit_ms = wait_ms(&server->options, (http_wait)wait);
        http_connection *first;

        if (limit_ms == 0)
            continue;
        /*
         * An expired connection is now in another list or gone. Callbacks may end others, so start again from the first
         * each time.
         */
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a connection leaves its list before it is freed */
        while ((first = TAILQ_FIRST(&server->waiting[wait])) && now - first->since_ms >= limit_ms &&
               first->since_ms <= now)
            connection_expire(first);
        if (first)
            server_sweep_by(server, first->since_ms + limit_ms);
    }
}

/* ---- the beginning of a connection ---- */

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

static bool is_of_nodes(const hth_http_server *server, int tag)
{
    return server->nodes_body_bytes_max > 0 && tag == server->nodes_tag;
}

bool hth_http_server_adopt_take(hth_http_server *server, int fd, const char *peer, int tag, struct ssl_ctx_st *tls)
{
    http_connection *connection = calloc(1, sizeof(*connection));
    struct bufferevent *bev = connection ? bufferevent_for(server->base, fd, tls) : NULL;

    if (!bev || !evbuffer_add_cb(bufferevent_get_output(bev), on_output, connection)) {
        if (bev)
            bufferevent_free(bev);
        else
            (void)close(fd); /* nothing was sent */
        free(connection);
        return false;
    }
    *connection = (http_connection){
        .server = server,
        .bev = bev,
        .headers_bytes_max = server->options.headers_bytes_max,
        .body_bytes_max = is_of_nodes(server, tag) ? server->nodes_body_bytes_max : server->options.body_bytes_max,
        .tag = tag,
        .is_tls = tls != NULL,
        .state = tls ? HTTP_HANDSHAKE : HTTP_IDLE,
        .wait = HTTP_WAIT_NONE,
    };
    (void)memccpy(connection->peer, peer, '\0', sizeof(connection->peer) - 1); /* the last byte stays 0 */
    server->numbers.n_connections++;
    TAILQ_INSERT_TAIL(&server->waiting[HTTP_WAIT_NONE], connection, next);
    wait_anew(connection);
    bufferevent_setcb(bev, on_read, on_written, on_event, connection);
    bufferevent_setwatermark(bev, EV_WRITE, HTH_HTTP_BACKLOG_MAX / 2 - 1, 0);
    /* A TLS bufferevent has to write by itself. */
    if (bufferevent_enable(bev, EV_READ) != 0 ||
        (tls ? !write_later(connection) : bufferevent_disable(bev, EV_WRITE) != 0)) {
        connection_cut(connection);
        return false;
    }
    return true;
}

/* ---- listeners ---- */

/* Descriptors or memory ran out. A connection waits in the queue, and accepting it at once would spin. */
static void on_accept_error(struct evconnlistener *evlistener, void *user_data)
{
    hth_http_listener *listener = user_data;
    const struct timeval delay = timeval_of(ACCEPT_PAUSE_MS);

    (void)evlistener;
    if (event_add(listener->server->accept_pause, &delay) == 0)
        set_accepting(listener->server, false);
}

static uint64_t connections_max(const hth_http_listener *listener)
{
    const hth_http_server *server = listener->server;

    return (uint64_t)server->options.connections_max +
           (listener->tag >= 0 && listener->tag < HTH_HTTP_TAGS ? server->n_reserved[listener->tag] : 0);
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
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* affects only speed */
    if (is_of_nodes(server, listener->tag))
        hth_http_socket_probe(fd);
    if (listener->path)
        (void)snprintf(peer, sizeof(peer), "unix");
    else
        hth_http_peer_text(address, peer, sizeof(peer));
    if (server->other.waiting && listener->tag == server->other.tag) {
        server->other.tls = listener->tls;
        server->other.tls_user_data = listener->tls_user_data;
        hth_first_bytes_wait_take(server->other.waiting, fd, peer);
    } else if (!hth_http_server_adopt_take(server, fd, peer, listener->tag, tls)) {
        server->numbers.n_refused++;
    }
}

/* Takes over the listening descriptor. path is the path of a unix socket; NULL: TCP. */
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
        /*
         * Backlog 0: it listens already. It starts disabled, because libevent would hide a failure to enable it here.
         */
        if (!path || listener->path)
            listener->listener =
                evconnlistener_new(server->base, on_accept, listener,
                                   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED, 0, fd);
    }
    if (!listener || !listener->listener || evconnlistener_enable(listener->listener) != 0) {
        if (listener && listener->listener)
            evconnlistener_free(listener->listener);
        else
            (void)close(fd); /* it served no client */
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
        (void)unlink(path); /* this server made it */
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
        (void)unlink(listener->path); /* best effort */
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
    for (int wait = 0; wait <= HTTP_WAITS; wait++)
        TAILQ_INIT(&server->waiting[wait]);
    server->sweep = event_new(base, -1, 0, sweep, server);
    server->accept_pause = event_new(base, -1, 0, on_pause_over, server);
    if (!server->sweep || !server->accept_pause) {
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
    for (int wait = 0; wait <= HTTP_WAITS; wait++) {
        while (!TAILQ_EMPTY(&server->waiting[wait]))
            connection_cut(TAILQ_FIRST(&server->waiting[wait])); /* NOLINT(clang-analyzer-unix.Malloc): as above */
    }
    if (server->sweep)
        event_free(server->sweep);
    if (server->accept_pause)
        event_free(server->accept_pause);
    hth_first_bytes_free(server->other.waiting);
    free(server);
}

void hth_http_server_set_options(hth_http_server *server, const hth_http_options *options)
{
    assert(!options->server_name || hth_http_is_value(options->server_name));
    assert(!options->server_name || strlen(options->server_name) <= 100); /* it fits into REPLY_HEAD_BYTES */
    server->options = *options;
    if (server->options.headers_bytes_max < 4)
        server->options.headers_bytes_max = 4;
    if (server->options.headers_bytes_max > HEAD_BYTES_MAX)
        server->options.headers_bytes_max = HEAD_BYTES_MAX;
    /* Time limits may be shorter now. */
    server_sweep_by(server, now_ms());
}

void hth_http_server_set_errors(hth_http_server *server, hth_http_error_fn write_error)
{
    server->write_error = write_error;
}

void hth_http_server_set_gate(hth_http_server *server, hth_http_gate_fn wants_body)
{
    server->wants_body = wants_body;
}

void hth_http_server_set_nodes(hth_http_server *server, int tag, uint64_t body_bytes_max)
{
    server->nodes_tag = tag;
    server->nodes_body_bytes_max = body_bytes_max;
}

static void on_first_byte_take(int fd, uint8_t byte, const char *peer, void *user_data)
{
    hth_http_server *server = user_data;
    const other_protocol *other = &server->other;
    struct ssl_ctx_st *tls = NULL;

    if (byte == other->first_byte) {
        other->take(fd, other->user_data);
        return;
    }
    if (other->tls)
        tls = other->tls(other->tls_user_data);
    if (server->is_draining || (other->tls && !tls)) {
        (void)close(fd); /* nothing was written to it */
        server->numbers.n_refused++;
    } else if (!hth_http_server_adopt_take(server, fd, peer, other->tag, tls)) {
        server->numbers.n_refused++;
    }
}

hearth_status hth_http_server_set_other(hth_http_server *server, int tag, uint8_t first_byte, hth_http_other_fn take,
                                        void *user_data, hearth_error *err)
{
    server->other.take = take;
    server->other.user_data = user_data;
    server->other.tag = tag;
    server->other.first_byte = first_byte;
    return hth_first_bytes_new(&(hth_first_bytes_options){ .base = server->base,
                                                           .n_max = FIRST_BYTES_MAX,
                                                           .timeout_ms = FIRST_BYTE_MS,
                                                           .on_byte_take = on_first_byte_take,
                                                           .user_data = server },
                               &server->other.waiting, err);
}

void hth_http_server_reserve(hth_http_server *server, int tag, uint32_t n)
{
    assert(tag >= 0 && tag < HTH_HTTP_TAGS);
    server->n_reserved[tag] = n;
}

void hth_http_server_drain(hth_http_server *server)
{
    http_connection *connection, *next;

    server->is_draining = true;
    for (connection = TAILQ_FIRST(&server->waiting[HTTP_WAIT_REQUEST]); connection; connection = next) {
        next = TAILQ_NEXT(connection, next);
        if (connection->state != HTTP_IDLE || connection->is_going_on)
            continue;
        say_end(connection);
        connection_cut(connection);
    }
}

bool hth_http_server_owes_replies(const hth_http_server *server)
{
    return !TAILQ_EMPTY(&server->waiting[HTTP_WAIT_WRITE]);
}

hth_http_numbers hth_http_server_numbers(const hth_http_server *server)
{
    return server->numbers;
}

/* ---- the reply ---- */

/* Headers that the server itself writes. */
static bool is_own_header(const char *name)
{
    return strcasecmp(name, "content-length") == 0 || strcasecmp(name, "transfer-encoding") == 0 ||
           strcasecmp(name, "connection") == 0 || strcasecmp(name, "date") == 0 ||
           strcasecmp(name, "content-type") == 0;
}

void hth_http_header_add(hth_http_exchange *exchange, const char *name, const char *value)
{
    assert(!exchange->has_begun);
    if (!hth_http_is_token(name) || !hth_http_is_value(value) || is_own_header(name))
        return;
    if (!exchange->headers)
        exchange->headers = evbuffer_new();
    /* Without memory the reply goes out without this header, or not at all. */
    if (exchange->headers)
        (void)evbuffer_add_printf(exchange->headers, "%s: %s\r\n", name, value);
}

void hth_http_retry_after_add(hth_http_exchange *exchange, uint32_t seconds)
{
    char text[16];

    if (seconds == 0)
        return;
    (void)snprintf(text, sizeof(text), "%u", seconds); /* fits */
    hth_http_header_add(exchange, "Retry-After", text);
}

void hth_http_reply(hth_http_exchange *exchange, int status, const char *content_type, const void *body, size_t n)
{
    http_connection *connection = exchange->connection;

    assert(!exchange->has_begun);
    assert(status >= 200 && status <= 599);
    connection_end_exchange(connection, !write_reply(connection, exchange, status, content_type, body, n));
}

/* Memory ran out in the middle of a stream: end the connection, but not while its writer runs. */
static void fail_later(http_connection *connection)
{
    bufferevent_trigger_event(connection->bev, BEV_EVENT_WRITING | BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
}

void hth_http_stream_begin(hth_http_exchange *exchange, int status, const char *content_type)
{
    http_connection *connection = exchange->connection;
    framing how;

    assert(!exchange->has_begun);
    assert(status >= 200 && status <= 599);
    exchange->has_begun = true;
    exchange->is_bare = is_bodyless(status) || is_head_request(exchange);
    exchange->is_chunked = exchange->head.minor >= 1;
    how = is_bodyless(status) ? FRAMING_NONE : exchange->is_chunked ? FRAMING_CHUNKS : FRAMING_END;
    if (connection->server->is_draining || how == FRAMING_END)
        connection->closes = true;
    if (!write_head(connection, exchange, status, content_type, how, 0, 0) || !write_later(connection))
        fail_later(connection);
}

void hth_http_stream_write(hth_http_exchange *exchange, const void *bytes, size_t n)
{
    http_connection *connection = exchange->connection;
    struct evbuffer *output = bufferevent_get_output(connection->bev);
    bool is_written;

    assert(exchange->has_begun);
    if (n == 0 || exchange->is_bare)
        return;
    if (exchange->is_chunked) {
        char size[24];
        int n_size = snprintf(size, sizeof(size), "%zx\r\n", n);

        is_written = evbuffer_add(output, size, (size_t)n_size) == 0 && evbuffer_add(output, bytes, n) == 0 &&
                     evbuffer_add(output, "\r\n", 2) == 0;
    } else {
        is_written = evbuffer_add(output, bytes, n) == 0;
    }
    if (!is_written || !write_later(connection))
        fail_later(connection);
    if (evbuffer_get_length(output) >= HTH_HTTP_BACKLOG_MAX)
        connection->is_backlogged = true;
}

size_t hth_http_stream_backlog(const hth_http_exchange *exchange)
{
    return evbuffer_get_length(bufferevent_get_output(exchange->connection->bev));
}

void hth_http_stream_end(hth_http_exchange *exchange)
{
    http_connection *connection = exchange->connection;
    bool has_tail = exchange->is_chunked && !exchange->is_bare;

    assert(exchange->has_begun);
    connection_end_exchange(connection,
                            has_tail && evbuffer_add(bufferevent_get_output(connection->bev), "0\r\n\r\n", 5) != 0);
}

void hth_http_abort(hth_http_exchange *exchange)
{
    http_connection *connection = exchange->connection;

    /* If the end of the connection marks the end of the stream, only a reset shows that the stream is incomplete. */
    if (exchange->has_begun && !exchange->is_chunked) {
        const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

        (void)setsockopt(bufferevent_getfd(connection->bev), SOL_SOCKET, SO_LINGER, &reset,
                         sizeof(reset)); /* fails on a unix socket, which has no reset */
    }
    connection_end_exchange(connection, true);
}
