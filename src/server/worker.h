/*
 * worker.h - the process that owns one model, and answers for it on a unix socket
 *
 * Two kinds of threads: the event loop, which reads requests and writes replies, and the model's scheduler. What a
 * request's callbacks tell on the scheduler's thread is queued (worker_post.h) and written by the event loop. Slow
 * preparation (large bodies, tools, schemas, grammars) runs on a thread beside the loop.
 */
#ifndef HTH_SERVER_WORKER_H
#define HTH_SERVER_WORKER_H

#include "api/request.h"
#include "hearth.h"
#include "server/http.h"

typedef struct hth_worker_options {
    const char *model_path;
    const hearth_runtime_options *runtime; /* log included */
    const hearth_model_options *model;     /* without callbacks */
    const char *socket_path;
    int status_fd; /* of the status page; -1: none */
    int control_fd; /* lines to the front: "loading 0.42", "ready", "failed TEXT"; its end means that the front is gone. -1: none */
    hth_http_options http;
    hth_api_limits limits;
    const hth_api_defaults *defaults; /* of requests, as the operator gave them; NULL: none, here and below */
    const hth_api_defaults *advice;   /* what is recommended beside the model's file */
    const char *slot_directory;       /* where clients may save what slots hold; NULL: nowhere */
    uint32_t linger_ms;        /* the prompt of a request whose client left is read on for so long; 0: not at all */
    uint32_t silence_ms;       /* a stream that was silent for so long shows that it is alive; 0: never */
    uint32_t drain_timeout_ms; /* running requests may finish for so long when it is to stop */
    uint32_t save_timeout_ms;  /* of the shutdown save */
    bool sandbox;
} hth_worker_options;

/*
 * Load the model, serve until SIGTERM or SIGINT (then finish what runs up to a limit, save, return HEARTH_OK; a second
 * signal ends the process at once) or until the front is gone. Must run on the process' first thread, before any other exists.
 */
hearth_status hth_worker_run(const hth_worker_options *options, hearth_error *err);

#endif
