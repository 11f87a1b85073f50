/*
 * upstream.h - requests to workers: libcurl's multi interface on the front's event loop
 *
 * The only one that knows libcurl. Connections to a socket are kept and used again. All on the event loop's thread.
 */
#ifndef HTH_SERVER_UPSTREAM_H
#define HTH_SERVER_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

struct event_base;

typedef struct hth_upstream hth_upstream;           /* all transfers */
typedef struct hth_upstream_call hth_upstream_call; /* one */

hearth_status hth_upstream_new(struct event_base *base, hth_upstream **out, hearth_error *err);
void hth_upstream_free(hth_upstream *upstream); /* its calls were ended; accepts NULL */

enum { HTH_UPSTREAM_PIECES = 3 };

typedef struct hth_upstream_header {
    const char *name;
    const char *value;
} hth_upstream_header;

typedef struct hth_upstream_request {
    const char *socket_path; /* of the worker */
    const char *method;
    const char *target;                 /* path and query, encoded */
    const hth_upstream_header *headers; /* [n_headers] */
    size_t n_headers;
    /* Up to three pieces, sent one after the other without being copied: they live as long as the call. */
    const void *body[HTH_UPSTREAM_PIECES];
    size_t body_bytes[HTH_UPSTREAM_PIECES];
} hth_upstream_request;

typedef struct hth_upstream_head {
    int status;
    const char *content_type; /* "": it says none */
    uint32_t retry_after_s;   /* 0: none */
    const char *notes;        /* the header HTH_API_NOTES_HEADER; "": it has none */
} hth_upstream_head;

/* None of these may end the call, but on_done, with which it has ended; they may cancel and release it, and others. */
typedef struct hth_upstream_watch {
    /* The reply's head, which lives as long as the callback. */
    void (*on_head)(const hth_upstream_head *head, void *user_data);
    /* A piece of its body. False: not now; the same piece comes again after hth_upstream_resume. */
    bool (*on_bytes)(const void *bytes, size_t n, void *user_data);
    /* HEARTH_OK: the reply is complete; otherwise the connection failed, and err says how. The call has ended. */
    void (*on_done)(hearth_status status, const hearth_error *err, void *user_data);
    void *user_data;
} hth_upstream_watch;

/*
 * Never calls back before it returns. HEARTH_NO_MEMORY; HEARTH_MISUSE: a header or the target has characters that would
 * end a line. All but the body is copied.
 */
hearth_status hth_upstream_begin(hth_upstream *upstream, const hth_upstream_request *request,
                                 const hth_upstream_watch *watch, hth_upstream_call **out, hearth_error *err);
/* on_bytes may be called again. It is not called before this returns. */
void hth_upstream_resume(hth_upstream_call *call);
/*
 * End it now: the connection is closed, which cancels the request in the worker. No callback comes. From within another
 * call's on_head or on_bytes, this one's body has to live until the event loop goes on.
 */
void hth_upstream_cancel(hth_upstream_call *call);
/*
 * No callback comes any more, and the body is not needed any more; the connection can be used again once the reply has
 * ended, which is awaited for a short time. For a reply whose end is known from what is in it.
 */
void hth_upstream_release(hth_upstream_call *call);

typedef struct hth_upstream_numbers {
    uint64_t n_connections_opened;
    uint32_t n_calls; /* begun and not ended */
} hth_upstream_numbers;
hth_upstream_numbers hth_upstream_counts(const hth_upstream *upstream);
struct event_base *hth_upstream_base(const hth_upstream *upstream); /* that it was made for */

#endif
