/*
 * http_reply.h - read an HTTP/1.1 reply as it arrives: its end, and the times of its events
 *
 * Reads heads, bodies of known length and chunked ones. Counts lines that begin with "data:", the events of a stream.
 * Keeps only the beginning of the body. Pure: the caller passes bytes and their time.
 */
#ifndef BENCH_HTTP_REPLY_H
#define BENCH_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_REPLY_HEAD_MAX = 16384, HTTP_REPLY_BODY_KEPT = 65536, HTTP_REPLY_EVENTS_TIMED = 2 };

typedef enum http_reply_part {
    HTTP_REPLY_HEAD,
    HTTP_REPLY_BODY,       /* of known length */
    HTTP_REPLY_TO_END,     /* until the connection ends */
    HTTP_REPLY_CHUNK_SIZE, /* a line with the size, or what is left of it */
    HTTP_REPLY_CHUNK,
    HTTP_REPLY_CHUNK_END, /* the line break after a chunk */
    HTTP_REPLY_TRAILER,   /* lines after the last chunk, up to an empty one */
    HTTP_REPLY_COMPLETE,
    HTTP_REPLY_BROKEN,
} http_reply_part;

typedef struct http_reply {
    http_reply_part part;
    int status;
    bool closes;      /* the connection ends with it */
    uint64_t n_left;  /* of the body or the chunk */
    size_t n_line;    /* bytes of the line that is being read */
    size_t n_matched; /* of "data:" at the beginning of a line of the body */
    size_t n_events;
    uint64_t event_ns[HTTP_REPLY_EVENTS_TIMED]; /* the times at which the first ones began */
    uint64_t first_ns;                          /* of the first byte; 0: none yet */
    uint64_t body_bytes;
    size_t n_head;
    char head[HTTP_REPLY_HEAD_MAX + 1];
    size_t n_kept;
    char body[HTTP_REPLY_BODY_KEPT + 1]; /* its beginning, NUL-terminated once complete */
} http_reply;

/* Ready for the next reply of the connection. */
void http_reply_begin(http_reply *reply);
/* Bytes that arrived at now_ns. Returns how many belong to this reply: fewer than n once it is complete or broken. */
size_t http_reply_feed(http_reply *reply, const char *bytes, size_t n, uint64_t now_ns);
/* The connection ended. This completes a reply without a length, and breaks any other. */
void http_reply_end(http_reply *reply);

#endif
