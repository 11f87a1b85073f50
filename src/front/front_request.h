/*
 * front_request.h - the front and one request, shared by the files that handle it
 *
 * front.c has the life of the front. front_routes.c handles the beginning of a request, and front_request.c its end.
 * front_access.c checks the key, front_models.c chooses the model, and front_relay.c sends it to a worker. When a
 * function returns false or NULL, it has answered: the request is over, and its memory is freed.
 */
#ifndef HTH_FRONT_FRONT_REQUEST_H
#define HTH_FRONT_FRONT_REQUEST_H

#include "api/model_pages.h"
#include "fleet/credit_feed.h"
#include "fleet/fleet_pem.h"
#include "fleet/journals.h"
#include "fleet/roster.h"
#include "front/access_log.h"
#include "front/admin.h"
#include "front/front.h"
#include "front/keys.h"
#include "front/places.h"
#include "front/proxy.h"
#include "front/shared_limits.h"
#include "front/stored_responses.h"
#include "http/routes.h"
#include "http/tls.h"
#include "http/trace.h"
#include "supervisor/folder_watch.h"

struct event;
struct event_base;

/* The listener that an exchange came from. */
typedef enum hth_front_tag { HTH_FRONT_PUBLIC, HTH_FRONT_ADMIN, HTH_FRONT_FLEET } hth_front_tag;

enum { HTH_MODEL_NAME_BYTES_MAX = 128 };

/* A set of options, which lives while requests use its strings. */
typedef struct hth_front_options {
    const hth_server_options *options;
    size_t n_users; /* requests and the front itself */
    bool is_first;  /* the caller's, never released */
} hth_front_options;

typedef struct hth_adapter_order hth_adapter_order; /* front_adapters.c */
typedef struct hth_peer_request hth_peer_request;   /* peer_request.c */
typedef struct hth_orphan hth_orphan;               /* takeover.c */

/* The front as a node of a fleet; zeros without one. */
typedef struct hth_fleet {
    hth_fleet_pem *pem;
    hth_nodes *nodes;                 /* NULL: no fleet */
    hth_store *store;                 /* NULL: none */
    hth_roster *roster;               /* likewise */
    hth_credit *credit;               /* NULL: the policy needs none */
    hth_credit_feed *feed;            /* NULL: no store, or no credit */
    bool shares_secret;               /* all nodes have the same */
    uint8_t secret[32];               /* of anchors */
    bool has_cache;                   /* the name of the cache is known */
    char cache[HTH_NODE_EPOCH_BYTES]; /* or else the epoch */
    hth_shared_limits *limits;
    hth_journals *journals;     /* NULL: no store, or no secret that all nodes have */
    hth_shared_records *shared; /* likewise */
    char name[HTH_NODE_NAME_BYTES];
    char epoch[HTH_NODE_EPOCH_BYTES];
    hth_buffer page; /* the last one for other nodes */
    uint64_t page_ns;
    char id[HTH_ROSTER_FLEET_BYTES]; /* of the fleet, in the store */
    uint16_t port;                   /* for other nodes */
} hth_fleet;

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
    hth_fleet fleet;
    hth_places *places;
    hth_kept_streams *kept;
    hth_proxy *proxy;
    hth_admin admin; /* for operators' pages; variable fields are filled for each request */
    hth_response_store *responses;
    hth_folder_watch *folders;
    hth_running_response *running; /* responses in the background */
    hth_adapter_order *orders;     /* about adapters, in order of arrival */
    uint32_t n_adapters;           /* number of ids given to adapters by such orders */
    bool is_ordering;              /* an order begins now */
    hth_peer_request *peers;       /* requests of other nodes */
    hth_orphan *orphans;           /* replies of other nodes that are being taken */
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

/* ---- front_fleet.c: the front as a node of a fleet ---- */

/* Name this node, and read the fleet's file, if there is one. */
hearth_status hth_front_fleet_open(hth_front *front, const hth_server_options *options, hearth_error *err);
/* Make the other nodes and front->places; the supervisor is there. */
hearth_status hth_front_fleet_begin(hth_front *front, const hth_server_options *options, hearth_error *err);
/* Before the listeners: connections for rows go to the carrier. */
hearth_status hth_front_fleet_listen(hth_front *front, hearth_error *err);
void hth_front_fleet_start(hth_front *front); /* ask other nodes, when the listeners are open */
void hth_front_fleet_end(hth_front *front);   /* after the end of all requests; the certificates stay */
/* What this node tells others of itself; valid until the next call. */
const hth_buffer *hth_front_fleet_page(hth_front *front);
/*
 * The model that a name means on other nodes, by the rules of model_names.h, without or with patterns; NULL: none has
 * it. *is_adapter_out: the name is an adapter's. Valid until the next look at a node.
 */
const char *hth_front_fleet_model(const hth_front *front, const char *name, bool by_patterns, bool *is_adapter_out);
/*
 * The anchors of a request of this route, at most HTH_ANCHORS_MAX; 0 without a fleet. adapter, salt: NULL: none.
 */
size_t hth_front_fleet_anchors(const hth_front *front, const hth_route *route, const char *model, const char *adapter,
                               const char *salt, const char *body, size_t n, hth_anchor *out);
/*
 * For POST /admin/fleet: which places could take a request with this body for this endpoint, [n], now, and why; a new
 * object. NULL with err.
 */
json_t *hth_front_fleet_why(const char *endpoint, const char *body, size_t n, void *user_data, hearth_error *err);
/* A digest of the beginning of a prompt, for hth_place_seeker. 0: unknown. */
uint64_t hth_front_beginning_of(const char *body, size_t n);
/* Has another node not told its models since this one started? */
bool hth_front_fleet_is_young(const hth_front *front);
/* Append the metrics of the fleet, if there is one; user_data is the front, as below. */
void hth_front_fleet_metrics(const void *user_data, hth_buffer *out);
/* GET /admin/fleet, as a new object; NULL without memory. */
json_t *hth_front_fleet_json(void *user_data);
/* Answer what another node asks, on its listener. */
void hth_front_fleet_handle(hth_front *front, hth_http_exchange *exchange);
/* Take no more requests, or take them again: this node, or the one of this name. */
hearth_status hth_front_fleet_drain(const char *name, bool is_draining, void *user_data, hearth_error *err);

/* ---- peer_request.c: requests of other nodes ---- */

void hth_peer_ask(hth_front *front, hth_http_exchange *exchange);
/* The node of this name does not answer any more: cut off its requests, of which nobody may hear. */
void hth_peer_end_of(hth_front *front, const char *node);
/* Cut off all: the nodes that asked continue elsewhere. */
void hth_peer_end_all(hth_front *front);

/* ---- sets of options ---- */

hth_front_options *hth_front_options_hold(hth_front *front);
void hth_front_options_drop(hth_front *front, hth_front_options *options);

/* ---- a request ---- */

typedef struct hth_front_request hth_front_request;

/*
 * What follows on a look at other nodes (takeover.c). begun: the record of the beginning of a response that runs at
 * another one, [n]; NULL: none does.
 */
typedef void hth_front_then(hth_front_request *r, const void *begun, size_t n);

/* A request, from its head to its line in the log. It owns the strings of record. */
struct hth_front_request {
    hth_front *front;
    hth_front_options *options; /* in force when it came */
    hth_http_exchange *exchange;
    const hth_route *route; /* NULL: none */
    hth_key_use *use;       /* NULL: the client has no known key */
    bool has_owner;         /* it began at another node, for the client with this key: */
    uint8_t owner[HTH_KEPT_KEY_BYTES];
    bool is_counted;    /* use has begun */
    bool names_adapter; /* the model that the body names is an adapter */
    bool is_announced;  /* its beginning was reported to operators */
    bool wants_events;  /* the body asks for a stream of events (api/peek.h) */
    uint64_t begin_ns;
    char id[HTH_KEPT_ID_BYTES];
    char traceparent[HTH_TRACEPARENT_BYTES];
    const char *method; /* both whole, in text: the string that is checked is also routed */
    const char *path;
    char peer[64];
    char model[HTH_MODEL_NAME_BYTES_MAX + 1];
    char adapter[HTH_MODEL_NAME_BYTES_MAX + 1]; /* with names_adapter: that the body names */
    bool is_elsewhere;                          /* the model is on other nodes alone */
    hth_access_record record;
    hth_past_search past;         /* of /v1/responses */
    hth_running_response running; /* likewise, in the background */
    hth_stored_question question; /* about stored responses */
    hth_journal_take take;        /* about a reply of another node, and what comes then */
    hth_front_then *then;
    char text[];
};

/* ---- front_request.c: beginnings and ends ---- */

/* The key that a client must send to get this client's streams and responses again, [HTH_KEPT_KEY_BYTES]. */
const uint8_t *hth_front_owner(const hth_front_request *r);
/* The part of the path behind that of its route. */
const char *hth_front_below(const hth_front_request *r);
/* The response store's key for the response to this request. */
void hth_front_response_key(const hth_front_request *r, uint8_t key[HTH_RESPONSE_KEY_BYTES]);
/* A request with copies of these texts, and nothing else; NULL without memory. */
hth_front_request *hth_front_request_new(const char *method, const char *path, const char *peer);

/* A request is over, of which front->n_requests counts the beginning: a draining front may end now. */
void hth_front_note_over(hth_front *front);

/* Report to operators that a model was chosen and the request goes to its worker. */
void hth_front_tell_begin(hth_front_request *r);
/* The request was answered: record it in logs, metrics and the key's limits, and free it. */
void hth_front_request_end(hth_front_request *r);
/* An on_record and an on_over of hth_relay_request, whose user_data is the request: its response is stored; its end. */
void hth_front_on_record(const void *bytes, size_t n, void *user_data);
void hth_front_on_relayed(const hth_access_record *record, void *user_data);
/* The client disconnected before its answer: record that, and free the request. */
void hth_front_request_gone(hth_front_request *r);
/* A page for operators was answered: free the request without recording it. */
void hth_front_request_drop(hth_front_request *r);
void hth_front_request_answer(hth_front_request *r, int status, const char *content_type, const hth_buffer *body);
void hth_front_request_answer_bytes(hth_front_request *r, int status, const char *content_type, const void *bytes,
                                    size_t n);
/* reason: a label of the metric of refused requests; NULL: not counted there. */
void hth_front_request_refuse(hth_front_request *r, const hth_api_error *error, const char *reason);
/* The same with a new error. */
void hth_front_request_fail(hth_front_request *r, const char *reason, hth_api_error_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Refuse a method that is not in this list, the methods of the path. */
void hth_front_request_refuse_method(hth_front_request *r, const char *methods);
/*
 * May one more line about a refused request be logged (hth_refusals)? If so, first logs the number of refusals that
 * were not.
 */
bool hth_front_may_log_refusal(hth_front *front);
/* Can the body of a POST be read (hth_body_problem)? False when the request was refused. */
bool hth_front_request_check_body(hth_front_request *r);

/* ---- front_access.c ---- */

bool hth_front_has_keys(const hth_front_request *r);
/* Does the client send a key that is known and not expired? */
bool hth_front_knows_key(hth_front *front, const hth_http_exchange *exchange);
/* Find the key that the client sends, if any. False when the request was refused. */
bool hth_front_identify(hth_front_request *r);
/* Count the request against the limits. False when it was refused. */
bool hth_front_admit(hth_front_request *r);
/* May this client see pages for operators? False when it was refused. */
bool hth_front_may_administer(hth_front_request *r);
/*
 * May it also give orders with paths? It may with an operator's key, or on the operators' unix socket, which only the
 * server's user and root can reach. A loopback port is open to every account of the machine, for which the server would
 * then read its own files. False when it was refused.
 */
bool hth_front_may_name_paths(hth_front_request *r);
bool hth_front_may_use(const hth_front_request *r, const char *model);

/* ---- front_models.c ---- */

/* Find the requested model: r->model, here or, with is_elsewhere, on other nodes. False when it was refused. */
bool hth_front_choose_model(hth_front_request *r);
/* A page about the models that the client may use. Ends the request. */
void hth_front_list_models(hth_front_request *r);
/* A page about one of them. Ends the request. */
void hth_front_show_model(hth_front_request *r);

/* POST /models/load and /models/unload. Ends the request. */
void hth_front_order_model(hth_front_request *r);

/* ---- front_relay.c: they end the request, at once or later ---- */

void hth_front_relay(hth_front_request *r);
/* Look up the earlier responses that it continues first. */
void hth_front_relay_response(hth_front_request *r);
/* A page of a stored response. */
void hth_front_ask_stored(hth_front_request *r);
/* Answer with a kept stream; the request is over when the stream begins. */
void hth_front_serve_stream(hth_front_request *r);

/* ---- takeover.c: this node goes on with replies of others, if the fleet has a store and one secret ---- */

hearth_status hth_front_takeover_begin(hth_front *front, hearth_error *err); /* after the fleet */
void hth_front_takeover_end(hth_front *front);                               /* after all requests, before the fleet */
/*
 * Take the stream of the path, then call back, or refuse the request if this node cannot go on with it. False: there is
 * no store now, and nothing is called.
 */
bool hth_front_take_stream(hth_front_request *r, hth_front_then *then);
/*
 * Look whether the response of the path runs at another node, then call back. If the request is to end it, it runs here
 * then. False: likewise, or it runs here.
 */
bool hth_front_look_for_response(hth_front_request *r, hth_front_then *then);
/* No node shall go on with the stream of the path. */
void hth_front_forget_stream(hth_front_request *r);

/* ---- front_prefixes.c: likewise ---- */

/* The most used prefixes of a model. */
void hth_front_show_prefixes(hth_front_request *r);

/* ---- front_adapters.c: likewise ---- */

/* Handle a path below /admin/models/NAME/adapters. False: it is another path, and the request is not over. */
bool hth_front_administer_adapters(hth_front_request *r);
/* llama.cpp's POST /lora-adapters. */
void hth_front_scale_adapters(hth_front_request *r);
/* Handle vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter. */
void hth_front_load_adapter(hth_front_request *r);
void hth_front_unload_adapter(hth_front_request *r);

#endif
