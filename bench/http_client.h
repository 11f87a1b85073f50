/*
 * http_client.h - the client's side of HTTP/1.1 for benchmarks: a connection, and a reply as it arrives
 *
 * The caller writes requests and reads bytes itself, to take little of the machine from the server. Replies have a body
 * of known length or a chunked one. Lines of it that begin with "data:" are counted, the events of a stream. Only the
 * beginning of the body is kept.
 */
#ifndef BENCH_HTTP_CLIENT_H
#define BENCH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

/*
 * Connect to a unix socket or, if path is NULL, to a port of this machine. Ends the program if there is no connection.
 */
int hth_dial(const char *path, uint16_t port);

enum { HTH_REPLY_HEAD_MAX = 16384, HTH_REPLY_BODY_KEPT = 1024, HTH_REPLY_EVENTS_TIMED = 2 };

typedef enum hth_reply_part {
    HTH_REPLY_HEAD,
    HTH_REPLY_BODY, /* of known length */
    HTH_REPLY_CHUNKS,
    HTH_REPLY_COMPLETE,
    HTH_REPLY_BROKEN, /* it is no such reply, or bytes follow it */
} hth_reply_part;

typedef struct hth_reply {
    hth_reply_part part;
    int status;
    bool closes;     /* the connection ends with it */
    uint64_t n_left; /* of a body of known length */
    hth_http_chunks chunks;
    size_t n_matched; /* of "data:" at the beginning of a line of the body */
    size_t n_events;
    uint64_t event_ns[HTH_REPLY_EVENTS_TIMED]; /* the times at which the first ones began */
    uint64_t first_ns;                         /* of the first byte; 0: none yet */
    uint64_t body_bytes;
    size_t n_head, n_scanned;
    size_t n_kept;
    char head[HTH_REPLY_HEAD_MAX + 1]; /* NUL-terminated, and so is the beginning of the body */
    char body[HTH_REPLY_BODY_KEPT + 1];
} hth_reply;

/* Ready for the next reply of the connection. */
void hth_reply_begin(hth_reply *reply);
/* Bytes that arrived at now_ns. */
void hth_reply_feed(hth_reply *reply, const char *bytes, size_t n, uint64_t now_ns);

#endif
