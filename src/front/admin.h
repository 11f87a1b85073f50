/*
 * admin.h - pages for operators: /health, /ready, /metrics, /admin/...
 *
 *   GET  /health              200 while every model is available; 503 names the broken ones
 *   GET  /ready               200 when requests are taken; 503 while starting or draining
 *   GET  /metrics             Prometheus
 *   GET  /admin/models        workers: state, pid, restarts, last death, numbers of cache and scheduler
 *   POST /admin/models {"name": NAME, "path": FILE, ...}; DELETE /admin/models/NAME: add or remove a model
 *   GET  /admin/events        a stream of events (event_feed.h)
 *   GET  /admin/pressure      the use of memory, and its marks; POST {"free": BYTES} frees memory, and marks,
 *                             {"high_percent": N, ...}, hold until a reload
 *   POST /admin/models/NAME/restart, /load, /unload; /residency {"residency": PLACE}
 *   POST /admin/preload {"models": [NAME, ...]}; /admin/release_all, also with {"rows": true}; /admin/compact
 *   POST /admin/explain       why a prompt is cold: a body for the endpoint named by ?endpoint=/v1/chat/completions
 *                             (default), relayed to the worker
 *   GET  /admin/fleet         this node and the others; POST {"drain": NODE} or {"undrain": NODE}; or
 *                             {"why": ENDPOINT, "body": TEXT}: the places that could take this request
 *   GET  /admin/config        the options in force, without secrets
 *   POST /admin/drain         like SIGTERM; POST /admin/reload: like SIGHUP
 *
 * The front checks the listener and the key. Event loop only.
 */
#ifndef HTH_FRONT_ADMIN_H
#define HTH_FRONT_ADMIN_H

#include "api/buffer.h"
#include "front/front.h"
#include "front/metrics.h"
#include "http/http.h"
#include "supervisor/event_feed.h"
#include "supervisor/pressure_watch.h"
#include "supervisor/server_options.h"
#include "supervisor/supervisor.h"

typedef struct hth_admin {
    const hth_server_options *options; /* in force; borrowed, like all pointers */
    hth_supervisor *supervisor;
    hth_metrics *metrics;
    hth_http_server *http;
    hth_event_feed *feed;
    hth_pressure_watch *pressure;
    bool is_draining;
    size_t n_requests;                                  /* pending */
    void (*drain)(void *user_data);                     /* begin to drain */
    bool (*reload)(void *user_data, hearth_error *err); /* read the configuration again; false: the old one stays */
    /*
     * Add a model, and remove one that was added so. settings: a JSON object with keys of a model's section. err is not
     * NULL.
     */
    hearth_status (*name_model)(const char *name, const char *settings, void *user_data, hearth_error *err);
    hearth_status (*forget_model)(const char *name, void *user_data, hearth_error *err);
    /* Apply all pressure settings in this JSON object, or none, with err, which is not NULL. */
    hearth_status (*set_pressure)(const char *settings, void *user_data, hearth_error *err);
    /* Append the metrics of the fleet, if there is one. */
    void (*fleet_metrics)(const void *user_data, hth_buffer *out);
    /* GET /admin/fleet, a new object; NULL without memory. */
    json_t *(*fleet)(void *user_data);
    /* Why a place takes a request, a new object; NULL with err, or without memory. */
    json_t *(*why)(const char *endpoint, const char *body, size_t n, void *user_data, hearth_error *err);
    /* The node of this name takes no more requests, or takes them again. err is not NULL. */
    hearth_status (*drain_node)(const char *name, bool is_draining, void *user_data, hearth_error *err);
    void *user_data;
    hth_options_json json;
} hth_admin;

/* Answer /health or /ready, which need no key. False: the path is neither. */
bool hth_admin_answer_public(const hth_admin *admin, hth_http_exchange *exchange);
/*
 * Answer /metrics or /admin/...; the key was checked. False: there is no such page, or it is /admin/explain, which the
 * front relays.
 */
bool hth_admin_answer(const hth_admin *admin, hth_http_exchange *exchange);

/* Does this order name paths of files or folders? Access to the operators' address is not enough for such an order. */
bool hth_admin_names_paths(const char *method, const char *path);

/* ---- pages, as JSON ---- */

/* The state of the server, and of every worker, as a new object. n_requests are pending. NULL without memory. */
json_t *hth_admin_models_json(const hth_supervisor *supervisor, bool is_draining, size_t n_requests,
                              const hth_http_numbers *http);

/* The options for /admin/config, without the digests and salts of keys. out->failed without memory. */
void hth_admin_write_options(const hth_admin *admin, hth_buffer *out);

/*
 * The adapters of a model, a new object; NULL without memory. directory: the folder of adapters; NULL: none. state: the
 * adapters that were loaded at run time; NULL: none. list: the worker's list (worker_live_adapters.h); NULL: there is
 * no worker. An adapter in the state that the worker does not have appears with "loaded": false and the reason.
 */
json_t *hth_adapter_page(const char *model, const char *directory, const hth_adapter_state *state, const json_t *list);

#endif
