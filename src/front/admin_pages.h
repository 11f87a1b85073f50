/*
 * admin_pages.h - the pages of operators that are JSON
 */
#ifndef HTH_FRONT_ADMIN_PAGES_H
#define HTH_FRONT_ADMIN_PAGES_H

#include "front/admin.h"

/* The state of the server, and of every worker, as a new object. n_requests are pending. NULL without memory. */
json_t *hth_admin_models_json(const hth_supervisor *supervisor, bool is_draining, size_t n_requests,
                              const hth_http_numbers *http);

/* The options for /admin/config, without the digests and salts of keys. out->failed without memory. */
void hth_admin_write_options(const hth_admin *admin, hth_buffer *out);

/*
 * The adapters of a model, a new object; NULL without memory. directory: the folder of adapters; NULL: none. state: the
 * adapters that were loaded at run time; NULL: none. list: the worker's list (worker_live_adapters.h); NULL: there is no
 * worker. An adapter in the state that the worker does not have appears with "loaded": false and the reason.
 */
json_t *hth_adapter_page(const char *model, const char *directory, const hth_adapter_state *state, const json_t *list);

#endif
