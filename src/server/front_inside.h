/*
 * front_inside.h - what the files of the front share: front.c (life), front_request.h (one request)
 */
#ifndef HTH_SERVER_FRONT_INSIDE_H
#define HTH_SERVER_FRONT_INSIDE_H

#include "server/access_log.h"
#include "server/admin.h"
#include "server/front.h"
#include "server/keys.h"
#include "server/passed_over.h"
#include "server/proxy.h"
#include "server/refusals.h"
#include "server/running_responses.h"
#include "server/tls.h"

struct event;
struct event_base;

/* Which listener an exchange came by. */
typedef enum hth_front_tag { HTH_FRONT_PUBLIC, HTH_FRONT_ADMIN } hth_front_tag;

/* A set of options, kept while requests use strings of it. */
typedef struct hth_front_options {
    const hth_server_options *options;
    size_t n_users; /* requests, and the front itself */
    bool is_first;  /* the caller's: not to be released */
} hth_front_options;

typedef struct hth_front {
    struct event_base *base;
    const hth_front_hooks *hooks;
    const hth_server_options *first_options; /* of the start: what is listened on */
    hth_front_options *options;              /* in force */
    hth_server_log *server_log;
    hth_log log;
    hth_metrics *metrics;
    hth_keys *keys;
    hth_tls *tls; /* NULL: none */
    hth_http_server *http;
    hth_supervisor *supervisor;
    hth_upstream *upstream;
    hth_kept_streams *kept;
    hth_proxy *proxy;
    hth_response_store *responses;
    hth_running_response *running; /* responses that nobody waits for */
    int64_t started_s;             /* Unix time: what models are said to be created at */
    char id_prefix[17];            /* of the ids that this process gives out */
    uint64_t n_ids;
    hth_passed_over passed_over;
    hth_refusals refusals; /* what the log was told of them */
    size_t n_requests;     /* begun and not over */
    bool is_draining;
    bool is_stopping; /* the workers were told */
    bool was_killed;  /* a second signal */
    struct event *signals[3];
    struct event *end_timer;   /* while it drains, and again when workers have ended */
    uint64_t end_by_ns;        /* then */
    hth_buffer protocol_error; /* the last one written */
} hth_front;

/* A hth_http_handler; user_data is the front. */
void hth_front_handle(hth_http_exchange *exchange, void *user_data);
/* A hth_http_gate_fn: who shows no key, or asks for what there is not, need not send more than his head. */
bool hth_front_wants_body(hth_http_exchange *exchange, void *user_data);
/* A hth_http_error_fn. */
const char *hth_front_protocol_error(int status, const char *why, const char *path, void *user_data);

/* One request is over: a front that drains may end. */
void hth_front_note_over(hth_front *front);
/* What the pages for operators are made of. */
void hth_front_admin_fill(hth_front *front, hth_admin *out);
/* SIGTERM, or an operator's order. */
void hth_front_drain(hth_front *front);
/* SIGHUP, or an operator's order. False: the new configuration is wrong, the old one stays. */
bool hth_front_reload(hth_front *front, hearth_error *err);

hth_front_options *hth_front_options_hold(hth_front *front);
void hth_front_options_drop(hth_front *front, hth_front_options *options);

#endif
