/*
 * front_request.h - one request at the front, and what its files call of one another
 *
 * front_request.c has its life, front_access.c says who asks and whether they may, front_models.c which model is meant,
 * and front_relay.c sends it to its worker. A function that says false, or NULL, has answered: the request is over then,
 * and its memory gone.
 */
#ifndef HTH_SERVER_FRONT_REQUEST_H
#define HTH_SERVER_FRONT_REQUEST_H

#include "api/answers.h"
#include "server/front_inside.h"
#include "server/past_search.h"
#include "server/routes.h"
#include "server/stored_responses.h"
#include "server/trace.h"

/* A request from its first byte in the front to its line in the log. What the record points to is here. */
typedef struct hth_front_request {
    hth_front *front;
    hth_front_options *options; /* in force when it came */
    hth_http_exchange *exchange;
    const hth_route *route; /* NULL: none */
    hth_key_use *use;       /* NULL: nobody known */
    bool is_counted;        /* use has begun */
    bool wants_events;      /* a stream of them, as far as a glance at the body tells */
    uint64_t begin_ns;
    char id[HTH_KEPT_ID_BYTES];
    char traceparent[HTH_TRACEPARENT_BYTES];
    const char *method; /* in text, whole: what is checked is what is routed */
    const char *path;
    char peer[64];
    char model[129];
    hth_record record;
    hth_past_search past;         /* of /v1/responses */
    hth_running_response running; /* likewise, in the background */
    hth_stored_question question; /* of what is below it */
    char text[];
} hth_front_request;

/* ---- front_request.c: ends ---- */

/* It is over and was answered: tell logs, metrics and the key's limits. */
void hth_front_request_end(hth_front_request *r);
void hth_front_request_answer(hth_front_request *r, int status, const char *content_type, const hth_buffer *body);
/* reason: the label of the metric; NULL: it is not counted among the refused. */
void hth_front_request_refuse(hth_front_request *r, const hth_api_error *error, const char *reason);

/* ---- front_access.c ---- */

bool hth_front_has_keys(const hth_front_request *r);
/* Does the client show a key that is known and not expired? */
bool hth_front_knows_key(hth_front *front, const hth_http_exchange *exchange);
/* The key that the client shows, if any. False when the request was refused. */
bool hth_front_identify(hth_front_request *r);
/* Begin a request that costs something. False when it was refused. */
bool hth_front_admit(hth_front_request *r);
/* May this client see pages for operators? False when it was refused. */
bool hth_front_may_administer(hth_front_request *r);
bool hth_front_may_use(const hth_front_request *r, const char *model);

/* ---- front_models.c ---- */

/* The model that is asked for. NULL when the request was refused. */
const hth_server_model *hth_front_choose_model(hth_front_request *r);
/* A page about the models that the client may use. Ends the request. */
void hth_front_list_models(hth_front_request *r);
/* A page about one of them. Ends the request. */
void hth_front_show_model(hth_front_request *r);

/* ---- front_relay.c: they end the request, at once or later ---- */

void hth_front_relay(hth_front_request *r);
/* What the response goes on from is looked for first. */
void hth_front_relay_response(hth_front_request *r);
/* A question about a response that was kept. */
void hth_front_ask_stored(hth_front_request *r);
/* A stream that was kept: it is over here when its stream begins, however long that takes. */
void hth_front_serve_stream(hth_front_request *r);

#endif
