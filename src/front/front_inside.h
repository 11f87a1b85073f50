/*
 * front_inside.h - declarations shared by the files of the front: front.c (its life), front_request.h (one request)
 */
#ifndef HTH_FRONT_FRONT_INSIDE_H
#define HTH_FRONT_FRONT_INSIDE_H

#include "front/access_log.h"
#include "front/admin.h"
#include "front/front.h"
#include "front/keys.h"
#include "front/proxy.h"
#include "front/stored_responses.h"
#include "http/tls.h"
#include "supervisor/folder_watch.h"

struct event;
struct event_base;

/* The listener that an exchange came from. */
typedef enum hth_front_tag { HTH_FRONT_PUBLIC, HTH_FRONT_ADMIN } hth_front_tag;

/* A set of options, which lives while requests use its strings. */
typedef struct hth_front_options {
    const hth_server_options *options;
    size_t n_users; /* requests and the front itself */
    bool is_first;  /* the caller's, never released */
} hth_front_options;

typedef struct hth_adapter_order hth_adapter_order; /* front_adapters.c */

typedef struct hth_front {
    struct event_base *base;
    const hth_front_hooks *hooks;
    const hth_server_options *first_options; /* from the start; its addresses stay in use */
    hth_front_options *options;              /* in force */
    hth_server_log *server_log;
    hth_log log;
    hth_metrics *metrics;
    hth_keys *keys;
    hth_tls *tls; /* NULL: none */
    hth_http_server *http;
    hth_event_feed *feed;
    hth_supervisor *supervisor;
    hth_pressure_watch *pressure;
    hth_upstream *upstream;
    hth_kept_streams *kept;
    hth_proxy *proxy;
    hth_admin admin; /* for operators' pages; variable fields are filled for each request */
    hth_response_store *responses;
    hth_folder_watch *folders;
    hth_running_response *running; /* responses in the background */
    hth_adapter_order *orders;     /* about adapters, in order of arrival */
    uint32_t n_adapters;           /* number of ids given to adapters by such orders */
    bool is_ordering;              /* an order begins now */
    int64_t started_s;             /* Unix time; shown as the creation time of models */
    char id_prefix[17];            /* of ids of requests */
    uint64_t n_ids;
    hth_passed_over passed_over;
    hth_refusals refusals; /* limits lines about refused requests in the log */
    size_t n_requests;     /* in progress */
    bool is_draining;
    void (*on_last_over)(struct hth_front *front); /* called while it drains, with n_requests 0 */
    bool is_stopping;                              /* the workers are stopping */
    bool was_killed;                               /* by a second signal */
    struct event *signals[3];
    struct event *end_timer;   /* while draining, and after the end of the workers */
    uint64_t end_by_ns;        /* the time of end_timer */
    hth_buffer protocol_error; /* the last one written */
} hth_front;

/* Call after the end of all exchanges and before the end of the workers. */
void hth_front_orders_free(hth_front *front);
/* Are these options compatible with the adapters that were loaded at run time? False with err. */
bool hth_front_adapters_fit(hth_front *front, const hth_server_options *options, hearth_error *err);

/* ---- front_routes.c: the callbacks of the front's HTTP server; user_data is the front ---- */

/* An hth_http_handler. */
void hth_front_handle(hth_http_exchange *exchange, void *user_data);
/* An hth_http_gate_fn: without a valid key, or for an unknown path, the body is not read. */
bool hth_front_wants_body(hth_http_exchange *exchange, void *user_data);
/* An hth_http_error_fn. */
const char *hth_front_protocol_error(int status, const char *why, const char *path, void *user_data);

/* ---- sets of options ---- */

hth_front_options *hth_front_options_hold(hth_front *front);
void hth_front_options_drop(hth_front *front, hth_front_options *options);

#endif
