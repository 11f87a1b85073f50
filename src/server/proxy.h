/*
 * proxy.h - a client's request in the hands of a worker, and of the next one when that dies
 *
 *   WAITING  for a worker that is ready
 *   IN LINE  a suspect waits for its turn
 *   RUNNING  a worker has the request; its frames become the client's bytes as they come
 *   OVER     the client has everything, or went away
 *
 * RUNNING goes back to WAITING when the worker's connection breaks before the END frame: the request is sent again with the
 * tokens that are known, and the reply goes on with the next byte. Requests that generate nothing have no frames: they are
 * sent again as they are while nothing of the reply has left.
 *
 * A broken connection is held against its request when the supervisor says that the worker died of itself or hung, and not
 * when it was stopped in order. A request that was tried again retries_max times and has another worker die gets an error,
 * and is not tried again. From its second death on it is a suspect: suspects of a model have their turn one after the
 * other, until they have come some tokens further, and a worker that dies meanwhile is held against the one whose turn it
 * is alone. So one request that kills workers is told from those that were there.
 *
 * The client's slowness reaches the worker: its bytes are not read while too many wait here. A stream of events that is
 * silent for long gets comments (of lines: space), and begins with one where it waits for its worker for long: what is wrong with the request
 * is told in an event then. Event loop only.
 */
#ifndef HTH_SERVER_PROXY_H
#define HTH_SERVER_PROXY_H

#include "api/error.h"
#include "base/log.h"
#include "server/http.h"
#include "server/kept_streams.h"
#include "server/metrics.h"
#include "server/record.h"
#include "server/supervisor.h"
#include "server/upstream.h"

typedef struct hth_proxy hth_proxy;

typedef struct hth_proxy_options {
    hth_upstream *upstream; /* these outlive the proxy */
    hth_supervisor *supervisor;
    hth_kept_streams *kept; /* NULL: no stream is kept */
    hth_metrics *metrics;   /* told of tokens; may be NULL */
    const hth_log *log;
    uint32_t retries_max;
    uint32_t wait_timeout_ms; /* of suspects, for their turn; the supervisor knows how long others wait */
    /*
     * A stream of events that was silent for so long shows that it is alive; 0: never. A worker that has the request does
     * so itself, by what its API has for that; the front does where none has it, or where twice that time has passed.
     */
    uint32_t keep_alive_ms;
} hth_proxy_options;

hearth_status hth_proxy_new(const hth_proxy_options *options, hth_proxy **out, hearth_error *err);
/* Its exchanges have ended; on_over is called for those that were not told yet. Accepts NULL. */
void hth_proxy_free(hth_proxy *proxy);
void hth_proxy_set_limits(hth_proxy *proxy, uint32_t retries_max, uint32_t wait_timeout_ms, uint32_t keep_alive_ms);
size_t hth_proxy_n_relays(const hth_proxy *proxy); /* whose on_over was not called yet */
/*
 * End every relay now: with an error, or as a stream's last event where that has begun; a stream that is none of events is
 * cut. on_over is called from the event loop.
 */
void hth_proxy_end_all(hth_proxy *proxy, const hth_api_error *error);

typedef struct hth_relay hth_relay; /* one request on its way */

typedef struct hth_relay_request {
    const char *model; /* configured under this name; copied, like the other texts */
    const char *method;
    const char *target;      /* path and query for the worker */
    hth_api_dialect dialect; /* of errors */
    bool generates;          /* ask for frames, and go on in a new worker */
    bool is_once;            /* not asked of a second worker when the first one had it */
    const char *id;          /* letters and digits, unique: the reply's */
    const char *request_id;  /* for logs, here and in the worker; NULL: id */
    const char *traceparent; /* NULL: none */
    const char *salt;        /* of the client's key; NULL: none */
    /* Records of earlier responses that the body names, [past_bytes]; they live until on_over. */
    const void *past;
    size_t past_bytes;
    /* What is to be kept of a reply that has ended well, before on_over; bytes live as long as the call. NULL: nothing. */
    void (*on_record)(const void *bytes, size_t n, void *user_data);
    /* Likewise of one whose client does not wait: he is answered with it as it is now, and it goes on without him. */
    void (*on_begun)(const void *bytes, size_t n, void *user_data);
    bool wants_events;  /* a stream of events: where it waits for its worker for long, it begins with a comment */
    bool wants_kept;    /* a stream of events goes on without its client, and can be read again; id is unguessable */
    const uint8_t *key; /* [HTH_KEPT_KEY_BYTES], what its readers have to show then */
    /*
     * The relay is over, the exchange has ended. record's fields that the proxy knows are filled: status, is_stream,
     * summary, n_tokens_out, bytes_out, first_byte_ms, duration_ms, n_resumed. Called once, from the event loop or, without memory, from
     * within hth_proxy_relay.
     */
    void (*on_over)(const hth_record *record, void *user_data);
    void *user_data;
} hth_relay_request;

/* Take over an exchange whose request is complete. Returns a name for it until on_over; NULL: that was called. */
hth_relay *hth_proxy_relay(hth_proxy *proxy, hth_http_exchange *exchange, const hth_relay_request *request);
/* Nobody wants it any more. on_over will be called. */
void hth_proxy_cancel(hth_relay *relay);

#endif
