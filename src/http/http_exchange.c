/*
 * http_exchange.c - a request as its handler sees it, and the reply as its client sees it
 *
 * One place writes a reply's head, from texts without line breaks: no value can begin a new line.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>

#include "base/os.h"
#include "http/http_inside.h"

enum { HEAD_BYTES_MAX = 1024, EXPAND_BYTES_MAX = 64 << 10 };

/* ---- the request ---- */

bool hth_http_exchange_decode_path(hth_http_exchange *exchange)
{
    const char *path = exchange->head.path;
    size_t n = 0;

    for (const char *c = strchr(path, '%'); c; c = strchr(c + 1, '%')) {
        if (strspn(c + 1, "0123456789abcdefABCDEF") < 2)
            return false;
    }
    exchange->path = evhttp_uridecode(path, 0, &n);
    return exchange->path && strlen(exchange->path) == n; /* no "%00" */
}

void hth_http_exchange_free(hth_http_exchange *exchange)
{
    hth_http_server *server = exchange->connection->server;

    if (exchange->is_counted)
        server->numbers.n_exchanges--;
    server->bodies_bytes -= exchange->body_capacity;
    if (exchange->headers)
        evbuffer_free(exchange->headers);
    free(exchange->body);
    free(exchange->query_value);
    free(exchange->path);
    free(exchange->text);
    free(exchange);
}

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
    /* The exchange keeps the text that the last call returned; nothing else of it changes. */
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

const char *hth_http_encoding(const hth_http_exchange *exchange)
{
    const char *coding = hth_http_header(exchange, "Content-Encoding");

    return coding && *coding && strcasecmp(coding, "identity") != 0 ? coding : NULL;
}

const char *hth_http_body(hth_http_exchange *exchange, size_t *n_out)
{
    *n_out = exchange->n_body;
    return exchange->body;
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

/* ---- a reply's head ---- */

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

/* How a client recognises the end of a reply. */
typedef enum framing { FRAMING_LENGTH, FRAMING_CHUNKS, FRAMING_END, FRAMING_NONE } framing;

/* The head of a reply. exchange may be NULL. False: no memory. */
static bool write_head(hth_http_connection *connection, const hth_http_exchange *exchange, int status,
                       const char *content_type, framing how, size_t n_body, size_t n_expand)
{
    hth_http_server *server = connection->server;
    struct evbuffer *output = bufferevent_get_output(connection->bev);
    int minor = exchange ? exchange->head.minor : 1, n;
    char head[HEAD_BYTES_MAX], length[64] = "";

    if (content_type && (!hth_http_is_value(content_type) || strlen(content_type) > HEAD_BYTES_MAX / 4))
        content_type = "application/octet-stream";
    if (how == FRAMING_LENGTH)
        (void)snprintf(length, sizeof(length), "Content-Length: %zu\r\n", n_body);
    else if (how == FRAMING_CHUNKS)
        (void)snprintf(length, sizeof(length), "Transfer-Encoding: chunked\r\n");
    n = snprintf(head, sizeof(head), "HTTP/1.1 %d %s\r\nDate: %s\r\n%s%s%s%s%s%s%s%s", status, reason_of(status),
                 date_of(server), server->server_name ? "Server: " : "", server->server_name ? server->server_name : "",
                 server->server_name ? "\r\n" : "", content_type ? "Content-Type: " : "",
                 content_type ? content_type : "", content_type ? "\r\n" : "", length,
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
static bool write_reply(hth_http_connection *connection, const hth_http_exchange *exchange, int status,
                        const char *content_type, const void *body, size_t n)
{
    struct evbuffer *output = bufferevent_get_output(connection->bev);
    bool has_body = n > 0 && !is_bodyless(status) && !is_head_request(exchange);

    /* A HEAD request for a body from elsewhere: its length is unknown here. */
    framing how = is_bodyless(status) || (n == 0 && is_head_request(exchange)) ? FRAMING_NONE : FRAMING_LENGTH;

    if (connection->server->is_draining)
        connection->closes = true;
    return write_head(connection, exchange, status, content_type, how, n, has_body && n <= EXPAND_BYTES_MAX ? n : 0) &&
           (!has_body || evbuffer_add(output, body, n) == 0);
}

void hth_http_write_error(hth_http_connection *connection, int status, const char *why)
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
        hth_http_connection_end_exchange(connection, !is_written);
    else
        hth_http_connection_flush(connection, !is_written);
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

void hth_http_reply(hth_http_exchange *exchange, int status, const char *content_type, const void *body, size_t n)
{
    hth_http_connection *connection = exchange->connection;

    assert(!exchange->has_begun);
    assert(status >= 200 && status <= 599);
    hth_http_connection_end_exchange(connection, !write_reply(connection, exchange, status, content_type, body, n));
}

/* Memory ran out in the middle of a stream: end the connection, but not while its writer is at work. */
static void fail_later(hth_http_connection *connection)
{
    bufferevent_trigger_event(connection->bev, BEV_EVENT_WRITING | BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
}

void hth_http_stream_begin(hth_http_exchange *exchange, int status, const char *content_type)
{
    hth_http_connection *connection = exchange->connection;
    framing how;

    assert(!exchange->has_begun);
    assert(status >= 200 && status <= 599);
    exchange->has_begun = true;
    exchange->is_bare = is_bodyless(status) || is_head_request(exchange);
    exchange->is_chunked = exchange->head.minor >= 1;
    how = is_bodyless(status) ? FRAMING_NONE : exchange->is_chunked ? FRAMING_CHUNKS : FRAMING_END;
    if (connection->server->is_draining || how == FRAMING_END)
        connection->closes = true;
    if (!write_head(connection, exchange, status, content_type, how, 0, 0) ||
        !hth_http_connection_write_later(connection))
        fail_later(connection);
}

void hth_http_stream_write(hth_http_exchange *exchange, const void *bytes, size_t n)
{
    hth_http_connection *connection = exchange->connection;
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
    if (!is_written || !hth_http_connection_write_later(connection))
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
    hth_http_connection *connection = exchange->connection;
    bool has_tail = exchange->is_chunked && !exchange->is_bare;

    assert(exchange->has_begun);
    hth_http_connection_end_exchange(
        connection, has_tail && evbuffer_add(bufferevent_get_output(connection->bev), "0\r\n\r\n", 5) != 0);
}

void hth_http_abort(hth_http_exchange *exchange)
{
    hth_http_connection *connection = exchange->connection;

    /* Where the connection's end is the stream's end, only a reset shows that the stream is incomplete. */
    if (exchange->has_begun && !exchange->is_chunked) {
        const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

        (void)setsockopt(bufferevent_getfd(connection->bev), SOL_SOCKET, SO_LINGER, &reset,
                         sizeof(reset)); /* a unix socket has none */
    }
    hth_http_connection_end_exchange(connection, true);
}
