/*
 * record.h - the facts of one request for logs and metrics, at its end
 */
#ifndef HTH_WIRE_RECORD_H
#define HTH_WIRE_RECORD_H

#include "wire/frames.h"

enum { HTH_STATUS_CLIENT_GONE = 499 }; /* the client left before the end */

typedef struct hth_record {
    char request_id[65];
    char trace_id[33]; /* of the traceparent; "" without */
    const char *key;   /* name of the client's key; "" without */
    const char *peer;
    const char *method;
    const char *path;     /* as received; metrics use the endpoint */
    const char *endpoint; /* "/v1/chat/completions", "other" */
    const char *model;    /* "" where none is concerned */
    int status;           /* or HTH_STATUS_CLIENT_GONE */
    bool is_stream;
    bool has_summary; /* a model generated */
    hth_frame_summary summary;
    uint64_t n_tokens_in;  /* of inputs of embeddings that are done, also without a summary */
    uint64_t n_tokens_out; /* of the reply so far, likewise */
    uint64_t bytes_in;
    uint64_t bytes_out;
    double duration_ms;
    double first_byte_ms; /* from the request's end to the first byte of the reply; 0: there was none */
    const char *notes;    /* ignored fields of the request, a list (api/notes.h); NULL, "": none */
    const char *reason;   /* of a refusal, a label of metrics; NULL, "": not counted */
    const char *why;      /* of a refusal or failure: a sentence of the front, never text of a prompt; NULL, "": none */
    uint32_t n_resumed;   /* times that another worker continued it */
} hth_record;

#endif
