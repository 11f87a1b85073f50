/*
 * proxy.h - relays each request to a worker, and to the next worker if that one dies
 *
 *   WAITING  no worker is ready yet
 *   IN LINE  a suspect (see below) waits for its turn
 *   RUNNING  a worker has the request; its frames become the client's bytes as they arrive
 *   OVER     the client has the whole reply, or disconnected
 *
 * If the worker's connection breaks before the END frame, RUNNING goes back to WAITING. The request is then sent again
 * with the known tokens, and the reply continues with the next byte. Requests that generate nothing have no frames:
 * they are sent again unchanged, as long as no byte of the reply was sent.
 *
 * When a worker dies or hangs, this counts against all of its requests; an orderly stop does not. A request that was
 * retried retries_max times in a row without progress, and loses another worker, gets an error: a request that kills
 * workers does so at the same place again. From its second death on, a request is a suspect. The suspects of a model
 * run one at a time until each has progressed by some tokens, and a death meanwhile counts against the running suspect
 * alone. This finds the one request that kills workers.
 *
 * If a client reads slowly, the proxy stops reading from the worker. A silent stream of events gets comments that say
 * what the request waits for; a stream of lines gets spaces. A stream that waits long for its worker begins with such a
 * comment or space; a later error is then an event of the stream. Event loop only.
 */
#ifndef HTH_FRONT_PROXY_H
#define HTH_FRONT_PROXY_H

#include "api/anchors.h"
#include "api/error.h"
#include "base/log.h"
#include "fleet/journals.h"
#include "front/access_log.h"
#include "front/journal_pieces.h"
#include "front/kept_streams.h"
#include "front/metrics.h"
#include "front/places.h"
#include "http/http.h"
#include "http/upstream.h"

typedef struct hth_proxy hth_proxy;

typedef struct hth_proxy_options {
    hth_upstream *upstream; /* this and the next four outlive the proxy */
    hth_places *places;
    hth_kept_streams *kept; /* NULL: no streams are kept */
    hth_journals *journals; /* NULL: no other node could go on with replies; outlives the proxy */
    hth_metrics *metrics;   /* counts tokens; may be NULL */
    const hth_log *log;
    hth_relay_limits limits;
    bool same_bits; /* tokens of other nodes are evaluated as they were there */
} hth_proxy_options;

hearth_status hth_proxy_new(const hth_proxy_options *options, hth_proxy **out, hearth_error *err);
/* Call after the end of all exchanges. Calls on_over of relays that still wait for it. Accepts NULL. */
void hth_proxy_free(hth_proxy *proxy);
void hth_proxy_set_limits(hth_proxy *proxy, const hth_relay_limits *limits);
size_t hth_proxy_n_relays(const hth_proxy *proxy);        /* number of relays whose on_over was not called yet */
const uint64_t *hth_proxy_n_asks(const hth_proxy *proxy); /* [HTH_ASK_ENDS], questions by their end (ask_counts.h) */
/*
 * End every relay now with an error. A stream of events that has begun gets the error as its last event; other replies
 * that have begun are cut. on_over is called from the event loop.
 */
void hth_proxy_end_all(hth_proxy *proxy, const hth_api_error *error);
/*
 * Replies that are generated at this place (NULL: here) go on at others, if others can take them: an on_leave of
 * hth_places_options.
 */
void hth_proxy_leave(hth_proxy *proxy, const hth_node *node);

typedef struct hth_relay hth_relay; /* one request */

typedef struct hth_relay_request {
    const char *model; /* as configured; copied, like the other texts */
    const char *method;
    const char *target;      /* path and query for the worker */
    hth_api_dialect dialect; /* of errors */
    bool generates;          /* ask for frames: another worker can continue the reply, and tokens are counted */
    bool names_adapter;      /* the model that the body names is an adapter: no other model may answer */
    bool is_once;            /* never sent to a second worker */
    bool is_local;           /* these six as in hth_place_seeker */
    bool is_elsewhere;
    uint64_t beginning;
    const hth_anchor *anchors; /* [n_anchors]; copied */
    size_t n_anchors;
    const char *adapter;
    const char *id;          /* of the reply: letters and digits, unique */
    const char *request_id;  /* for logs, here and in the worker; NULL: id */
    const char *traceparent; /* NULL: none */
    const char *salt;        /* of the client's key; NULL: none */
    /* Records of earlier responses that the body names, [past_bytes]; they live until on_over. */
    const void *past;
    size_t past_bytes;
    /*
     * The reply was completed: store this record. Called before on_over; bytes are valid during the call. NULL: not
     * stored.
     */
    void (*on_record)(const void *bytes, size_t n, void *user_data);
    /*
     * For a client that does not wait: it was answered with the beginning of the record, and the reply goes on, also at
     * another node if it is journaled.
     */
    void (*on_begun)(const void *bytes, size_t n, bool is_journaled, void *user_data);
    bool wants_events;  /* the reply will be a stream of events: it may begin with a comment while it waits */
    bool wants_kept;    /* the stream goes on without its client, and can be read again; id must be unguessable */
    const uint8_t *key; /* [HTH_KEPT_KEY_BYTES]: its readers must have the same key */
    const hth_access_record *record; /* facts about the request, with which on_over's record begins; NULL: none */
    /*
     * The relay is over, and the exchange has ended. The proxy fills these fields of record: status, is_stream,
     * has_summary, summary, n_tokens_in, n_tokens_out, bytes_out, first_byte_ms, duration_ms, notes, why, n_resumed.
     * Called once, from the event loop or, when memory ran out, within hth_proxy_relay.
     */
    void (*on_over)(const hth_access_record *record, void *user_data);
    void *user_data;
} hth_relay_request;

/*
 * Go on with a reply whose client was at another node: a kept stream, or a response without a client. request as for
 * hth_proxy_relay, with its texts. journaled is read during the call; known and events of rest are taken. Takes the
 * journal. NULL: no memory, or no stream can be kept now; the journal is left, and on_over is not called.
 */
hth_relay *hth_proxy_take_over(hth_proxy *proxy, const hth_relay_request *request, const hth_journaled *journaled,
                               hth_journal_rest *rest, hth_journal *journal);
/* Takes over an exchange whose request is complete. The result is valid until on_over; NULL: on_over was called. */
hth_relay *hth_proxy_relay(hth_proxy *proxy, hth_http_exchange *exchange, const hth_relay_request *request);
/* Cut off the reply. on_over will be called. */
void hth_proxy_cancel(hth_relay *relay);

#endif
