/*
 * front_request.h - one request at the front, shared by the files that handle it
 *
 * front_routes.c handles its beginning, and front_request.c its end. front_access.c checks the key, front_models.c
 * chooses the model, and front_relay.c sends it to a worker. When a function returns false or NULL, it has answered:
 * the request is over, and its memory is freed.
 */
#ifndef HTH_FRONT_FRONT_REQUEST_H
#define HTH_FRONT_FRONT_REQUEST_H

#include "api/model_pages.h"
#include "front/front_inside.h"
#include "http/routes.h"
#include "http/trace.h"

/* A request, from its head to its line in the log. It owns the strings of record. */
typedef struct hth_front_request {
    hth_front *front;
    hth_front_options *options; /* in force when it came */
    hth_http_exchange *exchange;
    const hth_route *route; /* NULL: none */
    hth_key_use *use;       /* NULL: the client has no known key */
    bool is_counted;        /* use has begun */
    bool names_adapter;     /* the model that the body names is an adapter */
    bool is_told;           /* its beginning was reported to operators */
    bool wants_events;      /* the body asks for a stream of events (api/peek.h) */
    uint64_t begin_ns;
    char id[HTH_KEPT_ID_BYTES];
    char traceparent[HTH_TRACEPARENT_BYTES];
    const char *method; /* both whole, in text: the string that is checked is also routed */
    const char *path;
    char peer[64];
    char model[129];
    hth_record record;
    hth_past_search past;         /* of /v1/responses */
    hth_running_response running; /* likewise, in the background */
    hth_stored_question question; /* about stored responses */
    char text[];
} hth_front_request;

/* ---- front_request.c: ends ---- */

/* Report to operators that a model was chosen and the request goes to its worker. */
void hth_front_tell_begin(hth_front_request *r);
/* The request was answered: record it in logs, metrics and the key's limits, and free it. */
void hth_front_request_end(hth_front_request *r);
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
/* May one more line about a refused request be logged (hth_refusals)? If so, first logs the number of refusals that were not. */
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

/* ---- front_page.c ---- */

/* Answer "/" for a browser. False: the client is no browser, or there is no page; the request is not over. */
bool hth_front_show_page(hth_front_request *r);

/* ---- front_models.c ---- */

/* The requested model. NULL when the request was refused. */
const hth_server_model *hth_front_choose_model(hth_front_request *r);
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
