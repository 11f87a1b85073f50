/*
 * http.h - the HTTP server of front and workers: connections, limits, time-outs, streams
 *
 * HTTP/1.1 and 1.0 on libevent's buffered sockets, with TLS on demand. libevent's own HTTP server (2.1.12) reports a
 * request only when it is complete, and answers errors in HTML. This server does more:
 *
 *   - It notices at once when a client disconnects while its request is pending. A client that only closed its sending
 *     side gets the reply, over HTTP/1.1 without TLS: "100 Continue" probes whether it is still there. After the
 *     beginning of a stream, closing that side counts as disconnecting.
 *   - A request has a deadline for its head and its body: a client that sends a byte a minute cannot hold a connection.
 *   - It counts connections and limits them.
 *   - It refuses a request that two parsers could understand differently.
 *   - Its protocol errors have a JSON body.
 *   - A writer can see how many bytes its client has not received yet.
 *
 * Everything runs on the thread of the event base, without a lock, in a process that ignores SIGPIPE. An exchange is
 * one request and its reply. It begins when the handler is called, and ends with the end of the reply or with on_close.
 * Do not use it afterwards.
 */
#ifndef HTH_HTTP_HTTP_H
#define HTH_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

struct event_base;
struct ssl_ctx_st;

typedef struct hth_http_server hth_http_server;
typedef struct hth_http_exchange hth_http_exchange;

/* A time limit of 0 means no limit. */
typedef struct hth_http_options {
    uint64_t headers_bytes_max; /* at most 64 MiB */
    uint64_t body_bytes_max;
    uint64_t bodies_bytes_max; /* memory of all requests' bodies; beyond it: 503; 0: no limit */
    uint32_t connections_max;
    uint32_t idle_timeout_ms;    /* for a connection without a request */
    uint32_t request_timeout_ms; /* from a request's first byte to its last */
    uint32_t write_timeout_ms;   /* a connection ends when its client receives no byte of a reply for this long */
    const char *server_name;     /* for the header Server, a constant of at most 100 bytes; NULL: none */
} hth_http_options;

static inline hth_http_options hth_http_options_default(void)
{
    return (hth_http_options){
        .headers_bytes_max = 32 << 10,
        .body_bytes_max = 32 << 20,
        .bodies_bytes_max = 1 << 30,
        .connections_max = 16384,
        .idle_timeout_ms = 300000,
        .request_timeout_ms = 30000,
        .write_timeout_ms = 60000,
    };
}

/* A request is complete. The handler answers it now or later, with hth_http_reply or a stream. */
typedef void (*hth_http_handler)(hth_http_exchange *exchange, void *user_data);
/*
 * The head of a request has arrived, but not its body. Returns whether the handler wants the body. If not, the handler
 * is called at once, without a body, and the connection ends with its reply. So a request that is refused by its head
 * costs no memory for its body.
 */
typedef bool (*hth_http_gate_fn)(hth_http_exchange *exchange, void *user_data);
/*
 * The JSON body of a reply to a request that cannot reach the handler: 400, 408, 413, 414, 417, 431, 501, 503, 505. why
 * is a sentence for the client. path is "" if unknown. The result is NUL-terminated and valid until the next call.
 */
typedef const char *(*hth_http_error_fn)(int status, const char *why, const char *path, void *user_data);

hearth_status hth_http_server_new(struct event_base *base, const hth_http_options *options, hth_http_handler handler,
                                  void *user_data, hth_http_server **out, hearth_error *err);
/*
 * Cut every connection; calls on_close of pending exchanges. Must not be called from a callback of the server. Accepts
 * NULL.
 */
void hth_http_server_free(hth_http_server *server);
/* Set new limits for later connections. */
void hth_http_server_set_options(hth_http_server *server, const hth_http_options *options);
/* user_data is the handler's. Without write_error, such replies have the body {"error":{"message":...}}. */
void hth_http_server_set_errors(hth_http_server *server, hth_http_error_fn write_error);
/* user_data is the handler's. Without a gate, all bodies are read. */
void hth_http_server_set_gate(hth_http_server *server, hth_http_gate_fn wants_body);

/*
 * Reserve room for n more connections for the listeners with this tag, from 0 to HTH_HTTP_TAGS - 1. Operators and other
 * machines can then connect even while clients hold all other connections. Call this before the listeners are added.
 */
enum { HTH_HTTP_TAGS = 4 };
void hth_http_server_reserve(hth_http_server *server, int tag, uint32_t n);

/*
 * Connections of the listeners with this tag come from other machines of one's own: their bodies may be this long, and
 * a machine that falls silent is noticed soon (hth_http_socket_probe). Call this before the listeners are added.
 */
void hth_http_server_set_nodes(hth_http_server *server, int tag, uint64_t body_bytes_max);

/*
 * Connections of the listeners with this tag that begin with this byte speak another protocol: take gets them, with the
 * byte unread, and owns the descriptor. Call this before the listeners are added.
 */
typedef void (*hth_http_other_fn)(int fd, void *user_data);
hearth_status hth_http_server_set_other(hth_http_server *server, int tag, uint8_t first_byte, hth_http_other_fn take,
                                        void *user_data, hearth_error *err);

typedef struct hth_http_listener hth_http_listener;
/* Returns the TLS context for a new connection. Called for each connection, so that certificates can be reloaded. */
typedef struct ssl_ctx_st *(*hth_http_tls_fn)(void *user_data);

/*
 * Listen on a TCP address. host is a name or an address, IPv4 or IPv6. port 0 takes any free port, and *port_out
 * receives it. Several listeners may be added. hth_http_tag of an exchange returns its listener's tag. tls NULL: no
 * TLS.
 */
hearth_status hth_http_listen_tcp(hth_http_server *server, const char *host, uint16_t port, int tag,
                                  hth_http_tls_fn tls, void *tls_user_data, uint16_t *port_out, hth_http_listener **out,
                                  hearth_error *err);
/*
 * Listen on a unix socket that has mode 0600 from the start. A socket file without a listening process is replaced.
 * HEARTH_BUSY: the socket is in use. HEARTH_FAILED: a file of another kind has this name; it stays. Closing the
 * listener removes the file.
 */
hearth_status hth_http_listen_unix(hth_http_server *server, const char *path, int tag, hth_http_listener **out,
                                   hearth_error *err);
void hth_http_listener_close(hth_http_listener *listener); /* established connections stay; accepts NULL */

/*
 * Serve a connection that was made elsewhere. Takes over the descriptor, which is non-blocking, even on failure. peer
 * names the client; tls NULL: no TLS. False without memory.
 */
bool hth_http_server_adopt_take(hth_http_server *server, int fd, const char *peer, int tag, struct ssl_ctx_st *tls);

/* The server is stopping: close connections as they become idle, and answer with "Connection: close" from now on. */
void hth_http_server_drain(hth_http_server *server);

/* Is there a complete or begun reply that its client has not fully received yet? */
bool hth_http_server_owes_replies(const hth_http_server *server);

typedef struct hth_http_numbers {
    uint32_t n_connections;
    uint32_t n_exchanges; /* pending */
    uint64_t n_accepted;
    uint64_t n_refused;    /* beyond connections_max */
    uint64_t n_timed_out;  /* while waiting for a request, or reading or answering one */
    uint64_t bodies_bytes; /* memory of the bodies of requests that are read or served */
} hth_http_numbers;
hth_http_numbers hth_http_server_numbers(const hth_http_server *server);

/* ---- a request ---- */

const char *hth_http_method(const hth_http_exchange *exchange); /* "POST" */
const char *hth_http_path(const hth_http_exchange *exchange);   /* decoded, without query */
const char *hth_http_query(const hth_http_exchange *exchange,
                           const char *name); /* decoded value, valid until the next call; NULL: none */
const char *hth_http_header(const hth_http_exchange *exchange, const char *name); /* any case; NULL: none */
/* The whole body, contiguous, valid until the exchange ends. NULL with 0 bytes if the gate did not want it. */
const char *hth_http_body(hth_http_exchange *exchange, size_t *n_out);
/*
 * Can the body of a POST be read as JSON, by the headers and the first byte? NULL: yes, or the method is another one.
 * Otherwise the reason for a reply with status 415, valid as long as text. A body counts as JSON unless its
 * Content-Type is clearly another one. n_before: bytes before the client's body; may_be_empty: the body may be missing.
 */
const char *hth_body_problem(hth_http_exchange *exchange, size_t n_before, bool may_be_empty, char text[128]);
const char *hth_http_peer(const hth_http_exchange *exchange); /* "127.0.0.1", "unix" */
int hth_http_tag(const hth_http_exchange *exchange);

/* Code that keeps the exchange after the handler returns sets these. Neither is called after the end of the reply. */
typedef struct hth_http_watch {
    void (*on_close)(void *user_data); /* the client disconnected: the exchange ends with this call. May be NULL */
    void (*on_room)(void *user_data);  /* the stream's backlog fell below half of its limit. May be NULL */
    void *user_data;
} hth_http_watch;
void hth_http_watch_set(hth_http_exchange *exchange, const hth_http_watch *watch);

/* ---- its reply ---- */

/* Call this before the reply begins. name and value are copied. A header whose value has a line break is omitted. */
void hth_http_header_add(hth_http_exchange *exchange, const char *name, const char *value);
/* Likewise for the header Retry-After; 0: no header. */
void hth_http_retry_after_add(hth_http_exchange *exchange, uint32_t seconds);
/* Send the whole reply. body may be NULL with n 0. Ends the exchange. */
void hth_http_reply(hth_http_exchange *exchange, int status, const char *content_type, const void *body, size_t n);

/* Begin a reply in pieces: chunked for HTTP/1.1, until the end of the connection for HTTP/1.0. */
void hth_http_stream_begin(hth_http_exchange *exchange, int status, const char *content_type);
void hth_http_stream_write(hth_http_exchange *exchange, const void *bytes, size_t n);
/* Written bytes that the client has not received. From HTH_HTTP_BACKLOG_MAX on, a writer should wait for on_room. */
size_t hth_http_stream_backlog(const hth_http_exchange *exchange);
enum { HTH_HTTP_BACKLOG_MAX = 256 << 10 };
void hth_http_stream_end(hth_http_exchange *exchange); /* ends the exchange */
/* Cut the connection without ending the stream: the client sees an incomplete reply. Ends the exchange. */
void hth_http_abort(hth_http_exchange *exchange);

#endif
