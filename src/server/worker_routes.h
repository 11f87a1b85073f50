/*
 * worker_routes.h - which endpoint a path and a method name, and the answers that need no work
 */
#ifndef HTH_SERVER_WORKER_ROUTES_H
#define HTH_SERVER_WORKER_ROUTES_H

#include "server/worker_job.h"

/* What a worker knows of itself. */
typedef struct hth_worker_self {
    hth_jobs *jobs;
    hearth_model *model;  /* NULL: not loaded yet */
    const char *name;     /* of the model */
    const char *file;     /* that it is loaded from */
    const char *problem;  /* why there is no model, or soon none; NULL: all is well */
    json_int_t created_s; /* since when there is one */
} hth_worker_self;

/* Answer a request, or begin to. Event loop. */
void hth_worker_route(const hth_worker_self *self, hth_http_exchange *exchange);
/* An hth_http_error_fn but for its user_data, which is a buffer for the text. */
const char *hth_worker_protocol_error(int status, const char *why, const char *path, hth_buffer *text);

#endif
