/*
 * admin_models.h - the page /admin/models
 */
#ifndef HTH_FRONT_ADMIN_MODELS_H
#define HTH_FRONT_ADMIN_MODELS_H

#include <jansson.h>

#include "http/http.h"
#include "supervisor/supervisor.h"

/* A number as JSON; at most INT64_MAX. NULL without memory. */
json_t *hth_admin_count_json(uint64_t value);

/* The state of the server, and of every worker, as a new object. n_requests are pending. NULL without memory. */
json_t *hth_admin_models_json(const hth_supervisor *supervisor, bool is_draining, size_t n_requests,
                              const hth_http_numbers *http);

#endif
