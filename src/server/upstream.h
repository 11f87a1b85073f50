/*
 * upstream.h - requests to workers: libcurl's multi interface on the front's event loop
 *
 * The only file that knows libcurl. Connections to a socket are kept and used again. All on the event loop's thread.
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
    /* Up to two pieces, sent one after the other without being copied: they live as long as the call. */
    const void *body[2];
    size_t body_bytes[2];
} hth_upstream_request;

/* None of these may end the call, but on_done, with which it has ended. */
typedef struct hth_upstream_watch {
    /* The reply's head. header(name) is valid in this call only; NULL: none. */
    void (*on_head)(int status, const char *content_type, uint32_t retry_after_s, void *user_data);
    /* A piece of its body. False: not now; the same piece comes again after hth_upstream_resume. */
    bool (*on_bytes)(const void *bytes, size_t n, void *user_data);
    /* HEARTH_OK: the reply is complete; otherwise the connection failed, and err says how. The call has ended. */
    void (*on_done)(hearth_status status, const hearth_error *err, void *user_data);
    void *user_data;
} hth_upstream_watch;

/* Never calls back before it returns. HEARTH_NO_MEMORY. */
hearth_status hth_upstream_begin(hth_upstream *upstream, const hth_upstream_request *request,
                                 const hth_upstream_watch *watch, hth_upstream_call **out, hearth_error *err);
void hth_upstream_resume(hth_upstream_call *call);
/* End it now: the connection is closed, which cancels the request in the worker. No callback comes. */
void hth_upstream_cancel(hth_upstream_call *call);

#endif
