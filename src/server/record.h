/*
 * record.h - one request, as logs and metrics tell of it once it is over
 */
#ifndef HTH_SERVER_RECORD_H
#define HTH_SERVER_RECORD_H

#include "server/frames.h"

enum { HTH_STATUS_CLIENT_GONE = 499 }; /* the client went away before the end */

typedef struct hth_record {
    char request_id[65];
    char trace_id[33]; /* of the traceparent; "" without */
    const char *key;   /* name of the client's key; "" without */
    const char *peer;
    const char *method;
    const char *path;     /* as it came; a label of metrics is the endpoint */
    const char *endpoint; /* "/v1/chat/completions", "other" */
    const char *model;    /* "" where none is concerned */
    int status;           /* or HTH_STATUS_CLIENT_GONE */
    bool is_stream;
    bool has_summary; /* a model generated */
    hth_frame_summary summary;
    uint64_t n_tokens_out; /* of the reply as far as it came, also where there is no summary */
    uint64_t bytes_in;
    uint64_t bytes_out;
    double duration_ms;
    double first_byte_ms; /* from the request's end to the first byte of the reply; 0: there was none */
    const char *notes;    /* what of the request was passed over, as a list (api/notes.h); NULL, "": nothing */
    const char *reason;   /* of a refusal, as metrics count it; NULL, "": none that is counted */
    const char *why;    /* a refusal or failure, in a sentence of the front's own; NULL, "": none. Never of a prompt */
    uint32_t n_resumed; /* times that it went on in a new worker */
} hth_record;

#endif
