/*
 * http_inside.h - what the files of the HTTP server share: server, listener, connection, exchange
 *
 *   http.c             the server, its listeners and its limits
 *   http_connection.c  a connection: its states, what it reads, its deadlines and its end
 *   http_exchange.c    a request as its handler sees it, and its reply
 *
 * A connection's states:
 *
 *   HANDSHAKE -> IDLE -> HEAD -> BODY -> PENDING -> FLUSH -> IDLE ...
 *                                                       \-> LINGER
 *
 *   IDLE     no byte of a request is here
 *   HEAD     some are, but not the whole head
 *   BODY     the head is parsed; the body is not complete
 *   PENDING  the handler has the exchange
 *   FLUSH    the reply is complete; the client has not taken all of it. Only then the next request is looked at.
 *   LINGER   the reply is taken, and said that the connection ends here; what the client still sends is dropped for a
 *            moment, because closing over unread bytes would reset the connection and cost it the reply.
 *
 * In all of them the socket is read, so that a client's end is noticed; what is read ahead of its turn is bounded. A client
 * that sends more than that behind a pending request is looked after now and then instead.
 */
#ifndef HTH_SERVER_HTTP_INSIDE_H
#define HTH_SERVER_HTTP_INSIDE_H

#include <netinet/in.h>
#include <sys/queue.h>

#include "server/http.h"
#include "server/http_chunks.h"
#include "server/http_head.h"

struct bufferevent;
struct evbuffer;
struct evbuffer_cb_info;
struct evconnlistener;
struct event;

typedef enum hth_http_state {
    HTH_HTTP_HANDSHAKE,
    HTH_HTTP_IDLE,
    HTH_HTTP_HEAD,
    HTH_HTTP_BODY,
    HTH_HTTP_PENDING,
    HTH_HTTP_FLUSH,
    HTH_HTTP_LINGER,
} hth_http_state;

/* What a connection waits for, each with its limit of time. */
typedef enum hth_http_wait {
    HTH_HTTP_WAIT_REQUEST, /* a request's first byte */
    HTH_HTTP_WAIT_READ,    /* its last byte */
    HTH_HTTP_WAIT_WRITE,   /* the client takes a byte of the reply */
    HTH_HTTP_WAIT_LINGER,  /* the client's end */
    HTH_HTTP_WAIT_LOOK,    /* a look whether the client has ended, which reading does not tell any more */
    HTH_HTTP_WAIT_NONE,    /* the handler */
} hth_http_wait;
enum { HTH_HTTP_WAITS = HTH_HTTP_WAIT_NONE };

typedef struct hth_http_connection hth_http_connection;
TAILQ_HEAD(hth_http_connections, hth_http_connection);

struct hth_http_connection {
    hth_http_server *server;
    struct bufferevent *bev;
    hth_http_exchange *exchange;           /* from the head's end to the reply's end; else NULL */
    TAILQ_ENTRY(hth_http_connection) next; /* in server->waiting[wait] */
    uint64_t since_ms;                     /* when it came there */
    size_t n_scanned;                      /* HEAD: bytes of it that were looked at */
    size_t headers_bytes_max, body_bytes_max;
    int tag;
    uint8_t state;
    uint8_t wait;
    bool closes;        /* after this reply */
    bool lingers;       /* before it closes */
    bool is_paused;     /* nothing is read */
    bool is_at_end;     /* the client sends no more */
    bool is_going_on;   /* inside hth_http_connection_go_on */
    bool is_dead;       /* freed when that returns */
    bool is_backlogged; /* on_room is owed */
    bool is_tls;
    bool writes_later; /* the event loop writes; always with TLS */
    char peer[INET6_ADDRSTRLEN];
};

struct hth_http_exchange {
    hth_http_connection *connection;
    char *text; /* of the head */
    hth_http_head head;
    char *path; /* decoded */
    char *query_value;
    hth_http_chunks chunks;
    char *body; /* n_body bytes and a NUL */
    size_t n_body, body_capacity;
    struct evbuffer *headers; /* those of the reply that were added; NULL: none */
    hth_http_watch watch;
    bool is_counted; /* the handler was told of it */
    bool has_begun;  /* the reply is a stream */
    bool is_bare;    /* the stream has a head only: HEAD, 204, 304 */
    bool is_chunked; /* the stream */
};

struct hth_http_listener {
    hth_http_server *server;
    struct evconnlistener *listener;
    char *path;             /* of a unix socket; NULL: TCP */
    uint64_t device, inode; /* of that */
    int tag;
    hth_http_tls_fn tls;
    void *tls_user_data;
    LIST_ENTRY(hth_http_listener) next;
};

struct hth_http_server {
    struct event_base *base;
    hth_http_options options;
    char *server_name;
    hth_http_handler handler;
    void *user_data;
    hth_http_error_fn write_error;
    hth_http_gate_fn wants_body; /* NULL: it wants all */
    int reserved_tag;
    uint32_t n_reserved; /* connections of that tag, beyond the limit */
    LIST_HEAD(, hth_http_listener) listeners;
    /* Each in the order of since_ms. HTH_HTTP_WAIT_NONE has a list, too. */
    struct hth_http_connections waiting[HTH_HTTP_WAITS + 1];
    struct event *sweep;  /* ends what waited too long */
    uint64_t sweep_ms;    /* when it comes; UINT64_MAX: it does not */
    struct event *breath; /* accepts again after descriptors ran out */
    bool is_draining;
    hth_http_numbers numbers;
    size_t bodies_bytes;   /* memory of the bodies of all exchanges */
    uint64_t date_seconds; /* of date */
    char date[40];
};

uint64_t hth_http_now_ms(void);

/* ---- the server (http.c) ---- */

/* Look at time limits no later than that. */
void hth_http_server_sweep_by(hth_http_server *server, uint64_t ms);
/* A connection has ended: there is room for others. */
void hth_http_server_breathe(hth_http_server *server);

/* ---- connections (http_connection.c) ---- */

/* Takes the descriptor, which is non-blocking, even on failure. NULL: no memory. tls NULL: plain. */
hth_http_connection *hth_http_connection_new_take(hth_http_server *server, int fd, const char *peer, int tag,
                                                  struct ssl_ctx_st *tls);
/* Close it now. on_close of its pending exchange is called. */
void hth_http_connection_cut(hth_http_connection *connection);
/* The limit of time of what it waits for has passed. */
void hth_http_connection_expire(hth_http_connection *connection);
/* Close it if it is idle. */
void hth_http_connection_drain(hth_http_connection *connection);
/* The reply of its exchange is complete, or will not be (is_cut). The exchange is gone after it. */
void hth_http_connection_end_exchange(hth_http_connection *connection, bool is_cut);
/* A reply that has no exchange is complete. */
void hth_http_connection_flush(hth_http_connection *connection, bool is_cut);
/* As far as it goes; not while it does already. */
void hth_http_connection_go_on(hth_http_connection *connection);
/* What is added to its output leaves as the client takes it, and not only with the reply's end. False: it is broken. */
bool hth_http_connection_write_later(hth_http_connection *connection);
/* For the server's sweep: how long a wait may be. */
uint64_t hth_http_wait_ms(const hth_http_options *options, hth_http_wait wait);

/* ---- exchanges (http_exchange.c) ---- */

/* False: the path is no text. */
bool hth_http_exchange_decode_path(hth_http_exchange *exchange);
void hth_http_exchange_free(hth_http_exchange *exchange);
/* Reply to what is no request; exchange NULL: even its head was none. The connection closes after it. */
void hth_http_write_error(hth_http_connection *connection, int status, const char *why);

#endif
