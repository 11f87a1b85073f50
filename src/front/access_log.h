/*
 * access_log.h - the server's log: one line for each request and each event, as text for people or JSON for programs
 *
 * The log never has a prompt or a key. A line is one write of at most HTH_SERVER_LOG_LINE_BYTES_MAX bytes, with control
 * characters escaped. Logging never waits for a reader: a line that a full pipe or disk refuses is lost, and the next
 * written line is preceded by the number of lost ones. The process must ignore SIGPIPE. All functions of an
 * hth_server_log except new and free may be called on any thread.
 */
#ifndef HTH_FRONT_ACCESS_LOG_H
#define HTH_FRONT_ACCESS_LOG_H

#include "base/log.h"
#include "supervisor/server_options.h"
#include "wire/frames.h"

/* ---- the facts about one request for logs and metrics, at its end ---- */

enum { HTH_STATUS_CLIENT_GONE = 499 }; /* the client disconnected before the end */

typedef struct hth_access_record {
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
    const char *node;   /* of a fleet, that ended it; NULL, "": there is no fleet, or no model worked */
    bool goes_on;       /* at another node */
    uint32_t n_resumed; /* number of times that another worker continued it */
} hth_access_record;

/* ---- the log ---- */

typedef struct hth_server_log hth_server_log;

/* file NULL: standard error. HEARTH_IO, HEARTH_PERMISSION: the file cannot be opened for appending. */
hearth_status hth_server_log_new(const char *file, hth_log_format format, hearth_log_level level, hth_server_log **out,
                                 hearth_error *err);
void hth_server_log_free(hth_server_log *log); /* accepts NULL */
/* Reopen the file after it was moved away. On failure the old file stays in use. */
hearth_status hth_server_log_reopen(hth_server_log *log, hearth_error *err);
void hth_server_log_level_set(hth_server_log *log, hearth_log_level level);

/* A hearth_log_fn; user_data is the log. A source "worker NAME" becomes the source "worker" and the model NAME. */
void hth_server_log_fn(hearth_log_level level, const char *source, const char *message, void *user_data);
/* One line of the access log, at any level. */
void hth_server_log_request(hth_server_log *log, const hth_access_record *record);

/* ---- lines about refusals ---- */

enum {
    HTH_REFUSALS_AT_ONCE = 100,   /* burst of lines after a quiet time */
    HTH_REFUSALS_PER_SECOND = 10, /* afterwards */
};

/*
 * A refused client can retry at once and for ever, and must not fill the disk with log lines. So refusals share an
 * allowance of lines, which refills evenly. Metrics count all of them. All zeros at the beginning. One thread.
 */
typedef struct hth_refusals {
    uint64_t used_ns; /* used allowance, as the time in which it refills */
    uint64_t at_ns;
    uint64_t n_unlogged;
} hth_refusals;

/*
 * May a refusal at now_ns (monotonic) be logged? If so, *n_unlogged_out is the number of refusals since the last logged
 * one; otherwise the refusal is counted.
 */
bool hth_refusals_take(hth_refusals *refusals, uint64_t now_ns, uint64_t *n_unlogged_out);

/* ---- lines about ignored fields of requests ---- */

enum { HTH_PASSED_OVER_MAX = 1024 };

/*
 * A client sends the same fields with each request. The log has a line for the first time that a key sends a field. A
 * bounded number of pairs (key, field) is remembered; when the list is full, no more lines are logged. All zeros at the
 * beginning. One thread.
 */
typedef struct hth_passed_over {
    uint32_t logged[HTH_PASSED_OVER_MAX]; /* [n] checksums of key and field */
    size_t n;
} hth_passed_over;

/* Log the notes (api/notes.h) that are new for the key, at debug level. key "": no known key. */
void hth_passed_over_log(hth_passed_over *seen, const hth_log *log, const char *key, const char *endpoint,
                         const char *notes);

#endif
