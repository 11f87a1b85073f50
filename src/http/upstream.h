/*
 * upstream.h - requests to workers and to other nodes, by libcurl's multi interface on the front's event loop
 *
 * A worker is asked on its unix socket, another node at its TCP address over TLS, where both sides show a certificate.
 * Connections are kept and reused. All functions run on the event loop's thread.
 */
#ifndef HTH_HTTP_UPSTREAM_H
#define HTH_HTTP_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

struct event_base;

typedef struct hth_upstream hth_upstream;           /* all transfers */
typedef struct hth_upstream_call hth_upstream_call; /* one */

hearth_status hth_upstream_new(struct event_base *base, hth_upstream **out, hearth_error *err);
/*
 * What requests to nodes show, and what they accept: PEM texts, which outlive the upstream. A node is accepted if its
 * certificate is an authority's or was signed by one; the name in it does not count.
 */
typedef struct hth_upstream_tls {
    const char *certificate;
    const char *key;
    const char *authorities;
} hth_upstream_tls;
/* Call it before the first request. */
void hth_upstream_set_tls(hth_upstream *upstream, const hth_upstream_tls *tls);
void hth_upstream_free(hth_upstream *upstream); /* after the end of all calls; accepts NULL */

/* Of a node's answers: "1" if a worker gave it, and not the node's server itself. */
#define HTH_HEADER_ANSWER "Hearth-Answer"

enum {
    HTH_UPSTREAM_PIECES = 4,
    HTH_UPSTREAM_STATUS_MAX = 599, /* a reply may have a greater status: libcurl accepts any three digits */
};

typedef struct hth_upstream_header {
    const char *name;
    const char *value;
} hth_upstream_header;

typedef struct hth_upstream_request {
    const char *socket_path; /* of the worker; NULL: a node is asked */
    const char *node;        /* "HOST:PORT" of the node; NULL: a worker is asked */
    uint32_t timeout_ms;     /* of the whole call; 0: none */
    const char *method;
    const char *target;                 /* path and query, encoded */
    const hth_upstream_header *headers; /* [n_headers] */
    size_t n_headers;
    /*
     * The pieces are sent one after another. They must live until the call has ended or is cancelled or released, or
     * until hth_upstream_move_body or hth_upstream_has_sent: a worker may reply before it has read them.
     */
    const void *body[HTH_UPSTREAM_PIECES];
    size_t body_bytes[HTH_UPSTREAM_PIECES];
} hth_upstream_request;

typedef struct hth_upstream_head {
    int status;
    const char *content_type; /* "": none */
    uint32_t retry_after_s;   /* 0: none */
    const char *notes;        /* the header HTH_API_NOTES_HEADER; "": none */
    bool is_of_worker;        /* the header HTH_HEADER_ANSWER: a node passes on what its worker says */
} hth_upstream_head;

/* Callbacks may cancel and release this call and others. */
typedef struct hth_upstream_watch {
    /* Gets the head of the reply, valid during the callback. */
    void (*on_head)(const hth_upstream_head *head, void *user_data);
    /* Gets a piece of the body. False: not accepted; it comes again after hth_upstream_resume. */
    bool (*on_bytes)(const void *bytes, size_t n, void *user_data);
    /* The call has ended. HEARTH_OK: the reply is complete; otherwise the connection failed, and err has the cause. */
    void (*on_done)(hearth_status status, const hearth_error *err, void *user_data);
    void *user_data;
} hth_upstream_watch;

/*
 * Begin a call. Copies everything except the pieces of the body. No callback is called before this returns.
 * HEARTH_NO_MEMORY; HEARTH_MISUSE if the method, the target or a header has characters that would end its line, or the
 * target does not begin with "/".
 */
hearth_status hth_upstream_begin(hth_upstream *upstream, const hth_upstream_request *request,
                                 const hth_upstream_watch *watch, hth_upstream_call **out, hearth_error *err);
/* Allow on_bytes to be called again. It is not called before this returns. */
void hth_upstream_resume(hth_upstream_call *call);
/* A piece of the body has moved here; unsent bytes are read from here. Size and content must be the same. */
void hth_upstream_move_body(hth_upstream_call *call, size_t piece, const void *bytes);
/* Has the reply begun after the whole body was sent? Then the pieces are not read any more. */
bool hth_upstream_has_sent(const hth_upstream_call *call);
/*
 * End the call by closing its connection, which cancels the request in the worker. No callback is called any more, and
 * the body may be freed.
 */
void hth_upstream_cancel(hth_upstream_call *call);
/*
 * Call this if the content shows that the reply is complete: no callback is called any more, and the body may be freed.
 * libcurl reads the end of the reply, for a short time at most, so that the connection can be reused.
 */
void hth_upstream_release(hth_upstream_call *call);

typedef struct hth_upstream_numbers {
    uint64_t n_connections_opened;
    uint32_t n_calls; /* in progress */
} hth_upstream_numbers;
hth_upstream_numbers hth_upstream_counts(const hth_upstream *upstream);
struct event_base *hth_upstream_base(const hth_upstream *upstream); /* as passed to hth_upstream_new */

#endif
