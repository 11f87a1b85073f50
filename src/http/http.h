/*
 * http.h - the HTTP server of front and workers: connections, limits, time-outs, streams
 *
 * HTTP/1.1 and 1.0 on libevent's buffered sockets, with TLS on demand. libevent's own HTTP server (2.1.12) reports a
 * request only when it is complete, and answers errors in HTML. This server does more:
 *
 *   - It notices at once when a client goes away while its request is pending. One that only closed its writing half
 *     gets the reply, over HTTP/1.1 without TLS: it is asked with "100 Continue" whether it is still there. Behind the
 *     beginning of a stream, closing that half is leaving.
 *   - A request has a deadline for its head and its body: sending a byte a minute does not hold a connection.
 *   - It counts connections and limits them.
 *   - It refuses a request that two readers could understand in two ways.
 *   - Its protocol errors have a JSON body.
 *   - A writer learns how many bytes its client has not taken yet.
 *
 * Everything runs on the thread of the event base, without a lock, in a process that ignores SIGPIPE. An exchange is
 * one request and its reply. It begins with the handler and ends with the reply's end or with on_close. Do not use it
 * later.
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
    uint32_t write_timeout_ms;   /* a connection ends when its client takes no byte of a reply for so long */
    const char *server_name;     /* the header Server; NULL: none */
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
 * The head of a request has arrived, and its body has not. Does the handler want the body? If not, the handler is
 * called at once, without a body, and the connection ends with its reply. A request refused by its head then costs no
 * memory for its body.
 */
typedef bool (*hth_http_gate_fn)(hth_http_exchange *exchange, void *user_data);
/*
 * The JSON body of a reply to a request that cannot reach the handler: 400, 408, 413, 414, 417, 431, 501, 503, 505. why
 * is a sentence for the client. path is "" where it is not known. The result is NUL-terminated and valid until the next
 * call.
 */
typedef const char *(*hth_http_error_fn)(int status, const char *why, const char *path, void *user_data);

hearth_status hth_http_server_new(struct event_base *base, const hth_http_options *options, hth_http_handler handler,
                                  void *user_data, hth_http_server **out, hearth_error *err);
/* Cut every connection; on_close of pending exchanges is called. Not from a callback of the server. Accepts NULL. */
void hth_http_server_free(hth_http_server *server);
/* New limits for later connections. */
void hth_http_server_set_options(hth_http_server *server, const hth_http_options *options);
/* user_data is the handler's. Without write_error such replies carry {"error":{"message":...}}. */
void hth_http_server_set_errors(hth_http_server *server, hth_http_error_fn write_error);
/* user_data is the handler's. Without a gate the handler wants all bodies. */
void hth_http_server_set_gate(hth_http_server *server, hth_http_gate_fn wants_body);

/*
 * Reserve room for n more connections for the listeners with this tag. Operators can then connect even while clients
 * hold every other connection. Call it before the listeners are added.
 */
void hth_http_server_reserve(hth_http_server *server, int tag, uint32_t n);

typedef struct hth_http_listener hth_http_listener;
/* Returns the TLS context for a new connection. Called for each one, so that certificates can be reloaded. */
typedef struct ssl_ctx_st *(*hth_http_tls_fn)(void *user_data);

/*
 * Listen on a TCP address. host is a name or an address, IPv4 or IPv6. port 0 takes any free port, and *port_out
 * receives it. Several listeners may be added. hth_http_tag of an exchange returns its listener's tag. tls NULL: plain.
 */
hearth_status hth_http_listen_tcp(hth_http_server *server, const char *host, uint16_t port, int tag,
                                  hth_http_tls_fn tls, void *tls_user_data, uint16_t *port_out, hth_http_listener **out,
                                  hearth_error *err);
/*
 * Listen on a unix socket that has mode 0600 from its first moment. A socket file without a listening process is
 * replaced. HEARTH_BUSY: the socket is in use. HEARTH_FAILED: another kind of file has the name; it stays. Closing the
 * listener removes the file.
 */
hearth_status hth_http_listen_unix(hth_http_server *server, const char *path, int tag, hth_http_listener **out,
                                   hearth_error *err);
void hth_http_listener_close(hth_http_listener *listener); /* established connections stay; accepts NULL */

/*
 * Serve a connection that was made elsewhere. Takes the descriptor, which is non-blocking, even on failure. peer names
 * the client; tls NULL: plain. False without memory.
 */
bool hth_http_server_adopt_take(hth_http_server *server, int fd, const char *peer, int tag, struct ssl_ctx_st *tls);

/* The server is stopping: close connections as they become idle, and answer with "Connection: close" from now on. */
void hth_http_server_drain(hth_http_server *server);

/* Is there a reply that is complete or begun, and that its client has not fully taken yet? */
bool hth_http_server_owes_replies(const hth_http_server *server);

typedef struct hth_http_numbers {
    uint32_t n_connections;
    uint32_t n_exchanges; /* pending */
    uint64_t n_accepted;
    uint64_t n_refused;    /* beyond connections_max */
    uint64_t n_timed_out;  /* while a request was awaited, read or written */
    uint64_t bodies_bytes; /* memory of the bodies of requests that are read or served */
} hth_http_numbers;
hth_http_numbers hth_http_server_numbers(const hth_http_server *server);

/* ---- a request ---- */

const char *hth_http_method(const hth_http_exchange *exchange); /* "POST" */
const char *hth_http_path(const hth_http_exchange *exchange);   /* decoded, without query */
const char *hth_http_query(const hth_http_exchange *exchange,
                           const char *name); /* decoded value; NULL: none. Until the next call */
const char *hth_http_header(const hth_http_exchange *exchange, const char *name); /* any case; NULL: none */
/* The compression of a body, by its headers; NULL: none. This server decompresses nothing. */
const char *hth_http_encoding(const hth_http_exchange *exchange);
/* The whole body, contiguous, until the exchange ends. NULL with 0 bytes if the gate refused it. */
const char *hth_http_body(hth_http_exchange *exchange, size_t *n_out);
const char *hth_http_peer(const hth_http_exchange *exchange); /* "127.0.0.1", "unix" */
int hth_http_tag(const hth_http_exchange *exchange);

/* A holder that keeps the exchange beyond the handler sets these. Neither is called after the reply's end. */
typedef struct hth_http_watch {
    void (*on_close)(void *user_data); /* the client is gone: the exchange ends with this call. May be NULL */
    void (*on_room)(void *user_data);  /* a stream's backlog fell below half of its limit. May be NULL */
    void *user_data;
} hth_http_watch;
void hth_http_watch_set(hth_http_exchange *exchange, const hth_http_watch *watch);

/* ---- its reply ---- */

/* Call it before the reply begins. name and value are copied. A header whose value has a line break is left out. */
void hth_http_header_add(hth_http_exchange *exchange, const char *name, const char *value);
/* The header Retry-After, likewise; none for 0. */
void hth_http_retry_after_add(hth_http_exchange *exchange, uint32_t seconds);
/* The whole reply. body may be NULL with n 0. Ends the exchange. */
void hth_http_reply(hth_http_exchange *exchange, int status, const char *content_type, const void *body, size_t n);

/* A reply in pieces: chunked for HTTP/1.1, until the connection's end for HTTP/1.0. */
void hth_http_stream_begin(hth_http_exchange *exchange, int status, const char *content_type);
void hth_http_stream_write(hth_http_exchange *exchange, const void *bytes, size_t n);
/* Written bytes that the client has not taken. From HTH_HTTP_BACKLOG_MAX on, a writer waits for on_room. */
size_t hth_http_stream_backlog(const hth_http_exchange *exchange);
enum { HTH_HTTP_BACKLOG_MAX = 256 << 10 };
void hth_http_stream_end(hth_http_exchange *exchange); /* ends the exchange */
/* Cut the connection without the end of the stream: the client sees an incomplete reply. Ends the exchange. */
void hth_http_abort(hth_http_exchange *exchange);

#endif
