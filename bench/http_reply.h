/*
 * http_reply.h - a reply of HTTP/1.1 read as it comes: where it ends, and when its events came
 *
 * Reads heads, bodies of known length and chunked ones, and counts lines that begin with "data:", the events of a stream.
 * Nothing is kept but the beginning of the body. Pure: bytes and their time come in, nothing is called.
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
    uint64_t event_ns[HTTP_REPLY_EVENTS_TIMED]; /* when the first ones began */
    uint64_t first_ns;                          /* of the first byte; 0: none yet */
    uint64_t body_bytes;
    size_t n_head;
    char head[HTTP_REPLY_HEAD_MAX + 1];
    size_t n_kept;
    char body[HTTP_REPLY_BODY_KEPT + 1]; /* its beginning, NUL-terminated once complete */
} http_reply;

/* Ready for the next reply of the connection. */
void http_reply_begin(http_reply *reply);
/* Bytes that arrived at now_ns. Returns how many of them were this reply's: fewer than n once it is complete or broken. */
size_t http_reply_feed(http_reply *reply, const char *bytes, size_t n, uint64_t now_ns);
/* The connection ended: a reply without a length is complete by that, every other one is broken. */
void http_reply_end(http_reply *reply);

#endif
