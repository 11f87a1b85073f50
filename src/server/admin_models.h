/*
 * admin_models.h - the page /admin/models
 */
#ifndef HTH_SERVER_ADMIN_MODELS_H
#define HTH_SERVER_ADMIN_MODELS_H

#include "api/buffer.h"
#include "server/http.h"
#include "server/supervisor.h"

/* The state of the server, and of every worker, as JSON. n_requests are pending. out->failed without memory. */
void hth_admin_models_write(const hth_supervisor *supervisor, bool is_draining, size_t n_requests,
                            const hth_http_numbers *http, hth_buffer *out);

#endif
