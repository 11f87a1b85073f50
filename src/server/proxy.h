/*
 * proxy.h - a client's request in the hands of a worker, and of the next one when that dies
 *
 *   WAITING  for a worker that is ready
 *   RUNNING  a worker has the request; its frames become the client's bytes as they come
 *   OVER     the client has everything, or went away
 *
 * RUNNING goes back to WAITING when the worker's connection breaks before the END frame: the request is sent again with the tokens that
 * are known, and the reply goes on with the next byte. After retries_max broken workers the client gets an error. While
 * a request is suspected, because more than one worker died with it, at most one suspect of a model runs at a time, so
 * that the one that kills is told from those that were there. Requests that generate nothing have no frames: they are
 * sent again as they are while nothing of the reply has left.
 *
 * The client's slowness reaches the worker: its bytes are not read while too many wait here. Event loop only.
 */
#ifndef HTH_SERVER_PROXY_H
#define HTH_SERVER_PROXY_H

#include "api/error.h"
#include "base/log.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/record.h"
#include "server/supervisor.h"
#include "server/upstream.h"

typedef struct hth_proxy hth_proxy;

typedef struct hth_proxy_options {
    hth_upstream *upstream; /* these outlive the proxy */
    hth_supervisor *supervisor;
    hth_metrics *metrics; /* told of tokens; may be NULL */
    const hth_log *log;
    uint32_t retries_max;
    uint32_t wait_timeout_ms;
} hth_proxy_options;

hearth_status hth_proxy_new(const hth_proxy_options *options, hth_proxy **out, hearth_error *err);
void hth_proxy_free(hth_proxy *proxy); /* its relays are over; accepts NULL */
void hth_proxy_set_limits(hth_proxy *proxy, uint32_t retries_max, uint32_t wait_timeout_ms);
size_t hth_proxy_n_relays(const hth_proxy *proxy);
/* End every relay now, with an error to those who have had nothing yet. */
void hth_proxy_end_all(hth_proxy *proxy, const hth_api_error *error);

typedef struct hth_relay_request {
    const char *model; /* configured under this name; copied, like the other texts */
    const char *method;
    const char *target;      /* path and query for the worker */
    hth_api_dialect dialect; /* of errors */
    bool generates;          /* ask for frames, and go on in a new worker */
    const char *id;          /* letters and digits, unique: the reply's, and the request's in logs */
    const char *traceparent; /* NULL: none */
    const char *salt;        /* of the client's key; NULL: none */
    /*
     * The relay is over, the exchange has ended. record's fields that the proxy knows are filled: status, is_stream,
     * summary, bytes_out, first_byte_ms, duration_ms, n_resumed. Called once, perhaps from within hth_proxy_relay.
     */
    void (*on_over)(const hth_record *record, void *user_data);
    void *user_data;
} hth_relay_request;

/* Take over an exchange whose request is complete. */
void hth_proxy_relay(hth_proxy *proxy, hth_http_exchange *exchange, const hth_relay_request *request);

#endif
