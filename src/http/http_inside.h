/*
 * http_inside.h - the types that the HTTP server's files share: server, listener, connection, exchange
 *
 *   http.c             the server, its listeners and its limits
 *   http_connection.c  a connection: its states, its input, its deadlines and its end
 *   http_exchange.c    a request as its handler sees it, and its reply
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
 *   FLUSH    the reply is complete, and the client has not taken all of it. The next request waits until it has.
 *   LINGER   the client has taken the reply, and the reply said that the connection ends. Closing over unread bytes
 *            would reset the connection and lose the reply, so input is dropped for a moment.
 *
 * The socket is read in every state, so that a client's end is noticed. Input that arrives ahead of its turn is
 * bounded. If a client sends more than that behind a pending request, reading pauses, and a timer checks whether it has
 * ended. A client that sends no more may still wait for its reply: it is asked (http_connection.c), and a timer checks
 * whether it has left.
 */
#ifndef HTH_HTTP_HTTP_INSIDE_H
#define HTH_HTTP_HTTP_INSIDE_H

#include <netinet/in.h>
#include <sys/queue.h>

#include "http/http.h"
#include "http/http_chunks.h"
#include "http/http_head.h"

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

/* What a connection waits for. Each wait has a time limit. */
typedef enum hth_http_wait {
    HTH_HTTP_WAIT_REQUEST, /* a request's first byte */
    HTH_HTTP_WAIT_READ,    /* its last byte */
    HTH_HTTP_WAIT_WRITE,   /* the client takes a byte of the reply */
    HTH_HTTP_WAIT_LINGER,  /* the client's end */
    HTH_HTTP_WAIT_LOOK,    /* the next check whether the client has left, where no event would tell */
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
    uint64_t since_ms;                     /* when it joined that list */
    size_t n_scanned;                      /* HEAD: scanned bytes of it */
    size_t headers_bytes_max, body_bytes_max;
    int tag;
    uint8_t state;
    uint8_t wait;
    bool closes;        /* after this reply */
    bool lingers;       /* before it closes */
    bool is_paused;     /* nothing is read */
    bool is_at_end;     /* the client has ended its sending */
    bool is_going_on;   /* inside hth_http_connection_go_on */
    bool is_dead;       /* freed when that call returns */
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
    struct evbuffer *headers; /* headers added to the reply; NULL: none */
    hth_http_watch watch;
    bool is_counted; /* the handler has been called with it */
    bool is_asked;   /* its client, which sends no more, was asked whether it waits */
    bool has_begun;  /* the reply is a stream */
    bool is_bare;    /* the stream has a head only: HEAD, 204, 304 */
    bool is_chunked; /* the stream */
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

struct hth_http_server {
    struct event_base *base;
    hth_http_options options;
    char *server_name;
    hth_http_handler handler;
    void *user_data;
    hth_http_error_fn write_error;
    hth_http_gate_fn wants_body; /* NULL: the handler wants all bodies */
    int reserved_tag;
    uint32_t n_reserved; /* connections for that tag, beyond the limit */
    LIST_HEAD(, hth_http_listener) listeners;
    /* Each list in the order of since_ms. HTH_HTTP_WAIT_NONE has a list, too. */
    struct hth_http_connections waiting[HTH_HTTP_WAITS + 1];
    struct event *sweep;  /* ends overdue waits */
    uint64_t sweep_ms;    /* its time; UINT64_MAX: it is not set */
    struct event *breath; /* accepts again after descriptors ran out */
    bool is_draining;
    hth_http_numbers numbers;
    size_t bodies_bytes;   /* memory of the bodies of all exchanges */
    uint64_t date_seconds; /* the second that date shows */
    char date[40];
};

uint64_t hth_http_now_ms(void);

/* ---- the server (http.c) ---- */

/* Check time limits no later than at ms. */
void hth_http_server_sweep_by(hth_http_server *server, uint64_t ms);
/* A connection has ended: there is room for others. */
void hth_http_server_breathe(hth_http_server *server);

/* ---- connections (http_connection.c) ---- */

/* Takes the descriptor, which is non-blocking, even on failure. NULL: no memory. tls NULL: plain. */
hth_http_connection *hth_http_connection_new_take(hth_http_server *server, int fd, const char *peer, int tag,
                                                  struct ssl_ctx_st *tls);
/* Close it now. on_close of its pending exchange is called. */
void hth_http_connection_cut(hth_http_connection *connection);
/* The time limit of its wait has passed. */
void hth_http_connection_expire(hth_http_connection *connection);
/* Close it if it is idle. */
void hth_http_connection_drain(hth_http_connection *connection);
/* The reply of its exchange is complete, or has been cut off (is_cut). This ends the exchange. */
void hth_http_connection_end_exchange(hth_http_connection *connection, bool is_cut);
/* A reply without an exchange is complete. */
void hth_http_connection_flush(hth_http_connection *connection, bool is_cut);
/* Step from state to state until an event is needed. Does nothing when called from such a step. */
void hth_http_connection_go_on(hth_http_connection *connection);
/* From now on the event loop writes the output as the client takes it. False: the connection is broken. */
bool hth_http_connection_write_later(hth_http_connection *connection);
/* The time limit of a wait, for the server's sweep. */
uint64_t hth_http_wait_ms(const hth_http_options *options, hth_http_wait wait);

/* ---- exchanges (http_exchange.c) ---- */

/* False: the path is no text. */
bool hth_http_exchange_decode_path(hth_http_exchange *exchange);
void hth_http_exchange_free(hth_http_exchange *exchange);
/* Reply to a malformed request. exchange is NULL if even its head was malformed. The connection closes after it. */
void hth_http_write_error(hth_http_connection *connection, int status, const char *why);

#endif
