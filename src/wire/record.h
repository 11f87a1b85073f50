/*
 * record.h - the facts about one request for logs and metrics, at its end
 */
#ifndef HTH_WIRE_RECORD_H
#define HTH_WIRE_RECORD_H

#include "wire/frames.h"

enum { HTH_STATUS_CLIENT_GONE = 499 }; /* the client disconnected before the end */

typedef struct hth_record {
    char request_id[65];
    char trace_id[33]; /* of the traceparent; "": none */
    const char *key;   /* name of the client's key; "": none */
    const char *peer;
    const char *method;
    const char *path;     /* as received; metrics use the endpoint */
    const char *endpoint; /* "/v1/chat/completions", "other" */
    const char *model;    /* "": none */
    int status;           /* or HTH_STATUS_CLIENT_GONE */
    bool is_stream;
    bool has_summary; /* a model worked on the request */
    hth_frame_summary summary;
    uint64_t n_tokens_in;  /* of completed inputs for embeddings, even without a summary */
    uint64_t n_tokens_out; /* of the reply so far, likewise */
    uint64_t bytes_in;
    uint64_t bytes_out;
    double duration_ms;
    double first_byte_ms; /* from the end of the request to the first byte of the reply; 0: there was none */
    const char *notes;    /* ignored fields of the request, a list (api/notes.h); NULL, "": none */
    const char *reason;   /* of a refusal, a label of metrics; NULL, "": not counted */
    const char *why;    /* of a refusal or failure: a sentence from the front, never text of a prompt; NULL, "": none */
    uint32_t n_resumed; /* number of times that another worker continued it */
} hth_record;

#endif
