/*
 * worker_routes.h - finds the endpoint of a request to a worker, and answers requests that need no model
 */
#ifndef HTH_WORKER_WORKER_ROUTES_H
#define HTH_WORKER_WORKER_ROUTES_H

#include "worker/worker_job.h"

/* The facts of a worker about itself. */
typedef struct hth_worker_self {
    hth_jobs *jobs;
    hearth_model *model;                           /* NULL: not loaded yet */
    const struct hth_live_adapters *live_adapters; /* worker_live_adapters.h */
    const hth_api_defaults *defaults;              /* for requests; NULL without a model */
    const char *name;                              /* of the model */
    const char *shown;                             /* its name for clients */
    const char *file;                              /* of the model */
    const char *problem;                           /* why no model accepts requests; NULL: the model does */
    json_int_t created_s;                          /* Unix time when the model was loaded */
} hth_worker_self;

/* Answer a request, or begin to. Event loop only. */
void hth_worker_route(const hth_worker_self *self, hth_http_exchange *exchange);
/* Like hth_http_error_fn. text receives the body. */
const char *hth_worker_protocol_error(int status, const char *why, const char *path, hth_buffer *text);

#endif
