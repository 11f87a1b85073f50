/*
 * trace.h - by which names a request is followed through logs: its request id, and its place in a trace
 *
 * Traces are those of W3C Trace Context (https://www.w3.org/TR/trace-context/): a client's header traceparent names a
 * trace and the client's span in it. What goes on to a worker has the same trace and flags and a span of our own. A
 * header that is missing or malformed begins a new trace, as the recommendation demands. Pure but for random bytes.
 */
#ifndef HTH_HTTP_TRACE_H
#define HTH_HTTP_TRACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HTH_TRACEPARENT_BYTES = 56, /* "00-<32>-<16>-<2>" and the terminator */
    HTH_REQUEST_ID_BYTES = 65,  /* at most 64, and the terminator */
};

typedef struct hth_trace {
    char trace_id[33];  /* lower-case hexadecimal, not all zeros; likewise below */
    char parent_id[17]; /* the client's span; "" where the trace begins here */
    char span_id[17];   /* ours */
    uint8_t flags;      /* 1: sampled; 2: the trace id is random */
} hth_trace;

/* Go on with the client's trace, or begin one where header is NULL or malformed; false then. */
bool hth_trace_begin(const char *header, hth_trace *out);
/* The traceparent for the next hop: our span is its parent. */
void hth_trace_write(const hth_trace *trace, char out[HTH_TRACEPARENT_BYTES]);

/*
 * The client's X-Request-Id where it is 1 to 64 characters of A-Z a-z 0-9 . _ -, else (also NULL) a new one; false
 * then.
 */
bool hth_request_id_begin(const char *header, char out[HTH_REQUEST_ID_BYTES]);

#endif
