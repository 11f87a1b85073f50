/*
 * trace.h - the ids that identify a request in logs: its request id, and its place in a trace
 *
 * Traces are those of W3C Trace Context (https://www.w3.org/TR/trace-context/): a client's header traceparent names a
 * trace and the client's span in it. The request to a worker has the same trace and flags and a new span. A missing or
 * malformed header begins a new trace, as the recommendation requires. The functions are pure except for random bytes.
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
    char parent_id[17]; /* the client's span; "" if the trace begins here */
    char span_id[17];   /* this server's span */
    uint8_t flags;      /* 1: sampled; 2: the trace id is random */
} hth_trace;

/* Continue the client's trace. If header is NULL or malformed, begin a new one and return false. */
bool hth_trace_begin(const char *header, hth_trace *out);
/* Write the traceparent for the next hop, with this server's span as the parent. */
void hth_trace_write(const hth_trace *trace, char out[HTH_TRACEPARENT_BYTES]);

/*
 * Copy the client's X-Request-Id if it has 1 to 64 characters of A-Z a-z 0-9 . _ -. Otherwise (also NULL) make a new id
 * and return false.
 */
bool hth_request_id_begin(const char *header, char out[HTH_REQUEST_ID_BYTES]);

#endif
