/*
 * worker.h - the process that owns one model and serves it on a unix socket
 *
 * The event loop reads requests and writes replies. The scheduler's thread of the model puts events into a queue
 * (event_queue.h), which the event loop reads. Slow preparation (large bodies, tools, schemas, grammars) runs on other
 * threads (worker_job.h).
 */
#ifndef HTH_WORKER_WORKER_H
#define HTH_WORKER_WORKER_H

#include "api/request.h"
#include "hearth.h"
#include "http/http.h"
#include "models/adapter_spec.h"
#include "models/fit_choice.h"
#include "wire/worker_settings.h"

typedef struct hth_worker_options {
    const char *model_path;
    const hearth_runtime_options *runtime; /* log included */
    const hearth_model_options *model;     /* without callbacks */
    const hth_adapter_specs *adapters;
    const char *shown_name;    /* in replies; NULL: the model's name */
    const char *adapter_state; /* adapter_state.h: the state of the previous worker; NULL: none */
    const char *socket_path;
    int status_fd; /* of the status page; -1: none */
    /* Lines to the front: "loading 0.42", "ready", "failed TEXT". When it closes, the front is gone. -1: none. */
    int control_fd;
    int carrier_fd; /* to the process that fetches rows of other nodes, SOCK_SEQPACKET; -1: none */
    hth_http_options http;
    hth_worker_settings settings;
    const hth_api_defaults *defaults; /* for requests, from the operator; NULL: none, here and below */
    const hth_api_defaults *advice;   /* recommendations in a file beside the model's */
    uint32_t silence_ms;              /* after this time of silence a stream sends a keep-alive; 0: never */
    uint32_t drain_timeout_ms;        /* running requests may finish for this long after SIGTERM */
    uint32_t save_timeout_ms;         /* for the shutdown save */
    const hth_fit_found *found;       /* memory that the front found on devices: for hth_measure_run */
    bool sandbox;
} hth_worker_options;

/*
 * Load the model and serve until SIGTERM, SIGINT or the end of the front. Then let running requests finish for
 * drain_timeout_ms, save, and return HEARTH_OK; a second signal ends the process at once. Must run on the process'
 * first thread, before any other thread exists.
 */
hearth_status hth_worker_run(const hth_worker_options *options, hearth_error *err);

/*
 * Write the needs of the model to fd as lines "needs ..." (needs_text.h), for the front, which does not load the
 * engine. It starts a short process for this before it starts a worker, because the engine may end the process. Uses
 * the model's path and options, adapters, memory found on devices, log and sandbox of the options. Must run on the
 * process' first thread, before any other thread exists. Statuses as hth_model_needs_ask.
 */
hearth_status hth_measure_run(const hth_worker_options *options, int fd, hearth_error *err);

#endif
