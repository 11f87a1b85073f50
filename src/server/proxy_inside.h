/*
 * proxy_inside.h - what the files of the proxy share
 *
 *   proxy.c         all relays: their models and who has its turn, the clock, who is over
 *   relay.c         one relay and its workers
 *   relay_reply.c   one relay and its client
 *
 * Nothing here calls on_over but the proxy's own event, and only there a relay is freed. So whatever a function of one
 * does, a relay stays a valid object until the event loop goes on; it may be OVER.
 */
#ifndef HTH_SERVER_PROXY_INSIDE_H
#define HTH_SERVER_PROXY_INSIDE_H

#include "api/notes.h"
#include "server/proxy.h"

/* A model as relays see it. */
typedef struct hth_proxy_model {
    struct hth_proxy_model *next;
    size_t n_relays;
    uint64_t generation;         /* the newest that was seen; 0: none */
    uint64_t n_deaths;           /* of the model's workers until then */
    hth_relay *on_turn;          /* the suspect that may run; NULL: none */
    uint64_t generation_of_turn; /* the one that broke under a suspect on its turn last */
    hth_relay *line;             /* suspects that wait for theirs */
    char name[];
} hth_proxy_model;

struct hth_proxy {
    hth_proxy_options options;
    hth_proxy_model *models;
    hth_relay *relays;
    hth_relay *over; /* on_over is to be called */
    size_t n_relays; /* in both lists */
    struct event *soon;
    struct event *tick; /* pending while a stream has begun or a suspect waits, and once after */
    uint32_t tick_ms;
    uint64_t seed; /* of seeds */
    uint64_t n_seeds;
};

typedef enum hth_relay_state {
    HTH_RELAY_WAITING,
    HTH_RELAY_IN_LINE,
    HTH_RELAY_RUNNING,
    HTH_RELAY_OVER
} hth_relay_state;

struct hth_relay {
    hth_proxy *proxy;
    hth_proxy_model *model;
    hth_relay *prev, *next;           /* in one of the proxy's lists */
    hth_relay *line_prev, *line_next; /* IN_LINE: in the model's */
    hth_relay_state state;
    void (*on_over)(const hth_record *record, void *user_data);
    void *user_data;

    /* The request. */
    hth_http_exchange *exchange;                                        /* NULL: it has ended, or kept has it */
    const char *method, *target, *id, *request_id, *traceparent, *salt; /* in text */
    hth_api_dialect dialect;
    const void *past; /* [past_bytes] */
    size_t past_bytes;
    void (*on_record)(const void *bytes, size_t n, void *user_data); /* NULL: nobody keeps it */
    void (*on_begun)(const void *bytes, size_t n, void *user_data);  /* NULL: the client waits */
    bool is_detached; /* the client has been answered, and the exchange has ended */
    bool generates;
    bool is_once;
    bool wants_events;
    bool wants_kept; /* its stream, where it becomes one */
    uint8_t key[HTH_KEPT_KEY_BYTES];
    char *kept_body; /* owned: the request's, once its stream is kept, [n_kept_body]; NULL: the exchange has it */
    size_t n_kept_body;
    char kept_type[64]; /* Content-Type of that */
    uint64_t seed;
    uint64_t created_s;
    uint64_t begun_ns;

    /* Its workers. */
    hth_worker_waiter waiter;
    hth_upstream_call *call; /* NULL: none runs */
    uint64_t generation;     /* it was sent to last; 0: none */
    uint64_t n_deaths_then;  /* of the model's workers, before that one's */
    bool is_unjudged;        /* the connection broke, and whether the worker died is not known yet */
    bool is_cleared;         /* it came further than where workers died with it */
    uint32_t n_deaths;       /* held against it */
    uint32_t n_breaks;       /* connections that broke for whatever reason */
    uint32_t n_runs;
    uint64_t line_ns; /* IN_LINE: since then */

    /* What this worker says. */
    bool is_framed;
    bool has_run_head;
    bool is_refused; /* the stream has begun, and this worker answers with something else, which is in body */
    bool is_paused;  /* its bytes are not read until the client has taken some */
    uint32_t n_new_tokens;
    hth_buffer part;         /* of a frame that is not whole yet */
    hth_buffer ahead;        /* of a stream: bytes that the next step has released, too */
    hth_buffer record_bytes; /* what is to be kept of the reply */
    bool has_whole_record;
    uint64_t n_again;   /* of a body: bytes that the client has, and that this worker has yet to send once more */
    uint32_t again_crc; /* of those that it has sent */

    /* What workers have said. */
    bool has_head;
    bool is_stream;  /* its bytes come with tokens; otherwise as a body, once all tokens are known */
    bool has_begun;  /* the client has its head, and gets bytes as they come */
    bool is_events;  /* these are events */
    bool is_lines;   /* of them, each is a line of JSON */
    bool has_failed; /* the stream has the error that ends it */
    int status;
    uint32_t retry_after_s;
    char content_type[64];
    char notes[HTH_API_NOTES_BYTES]; /* of what was passed over; "" for none */
    hth_buffer body;                 /* of a reply that may still leave whole */
    uint32_t body_crc;               /* of what has left of one that is longer */
    hth_buffer known;                /* what is told to a worker: does not change while one has the request */
    hth_buffer fresh;                /* what this one adds to it */
    size_t fresh_last;
    bool is_known_lost;     /* known or fresh: too long, or no memory; it cannot go on elsewhere */
    uint64_t step_ns;       /* of the first reply's last step */
    uint64_t *more_step_ns; /* [HTH_API_REPLIES_MAX], of the others'; NULL: there are none, or no memory for it */

    /* What the client has got. */
    hth_kept_stream *kept; /* which has the exchange; NULL: nothing is kept */
    char last_bytes[2];
    uint64_t written_ns;
    hth_record record;
    char why[sizeof(((hth_api_error *)NULL)->message)]; /* record.why, where it is an error's */
    char text[];
};

/* ---- proxy.c ---- */

/* Its turn is over, if it has one or waits for one. */
void hth_relay_leave_line(hth_relay *relay);
/* May it run, being a suspect? Otherwise it is in line now. */
bool hth_relay_take_turn(hth_relay *relay);
/* Have the clock look at relays. */
void hth_proxy_watch_time(hth_proxy *proxy);
/* on_over will be called. */
void hth_proxy_note_over(hth_relay *relay);
/* The supervisor's view of a model; false where it has none. */
bool hth_proxy_view(const hth_proxy *proxy, const char *model, hth_worker_view *out);

/* ---- relay.c ---- */

/* Wait for a worker of a later generation than after. */
void hth_relay_ask(hth_relay *relay, uint64_t after);
/* Let go of whatever it waits for. */
void hth_relay_let_go(hth_relay *relay);
void hth_relay_on_room(void *user_data);

/* ---- relay_reply.c: each may end the exchange, and the relay with it ---- */

void hth_relay_begin_stream(hth_relay *relay, int status, const char *content_type);
/* The client gets this, and the reply is for nobody from now on. False, and nothing happens, without memory. */
bool hth_relay_detach(hth_relay *relay, const void *body, size_t n);
void hth_relay_write(hth_relay *relay, const void *bytes, size_t n);
void hth_relay_end_stream(hth_relay *relay, int status);
void hth_relay_reply(hth_relay *relay, int status, const char *content_type, const void *body, size_t n);
/* The client gets an error, in the way that is still open. */
void hth_relay_fail(hth_relay *relay, const hth_api_error *error);
void hth_relay_fail_status(hth_relay *relay, const hearth_error *err);
/* A stream whose end cannot be told: the client shall know that it is not whole. */
void hth_relay_cut(hth_relay *relay, int status);
void hth_relay_on_close(void *user_data);
/* Might a stream begin though no worker has the request? */
static inline bool hth_relay_may_begin_early(const hth_relay *relay)
{
    return relay->wants_events && relay->generates && !relay->has_begun && relay->state != HTH_RELAY_RUNNING &&
           relay->state != HTH_RELAY_OVER && relay->proxy->options.keep_alive_ms > 0;
}

/* A stream that waits for its worker: its head leaves, and a comment, where that has lasted for too long. */
void hth_relay_begin_early(hth_relay *relay, uint64_t now_ns);
/* A comment, or a space between lines, where the stream has been silent for too long and no worker says anything. */
void hth_relay_keep_alive(hth_relay *relay, uint64_t now_ns);
bool hth_relay_is_backlogged(const hth_relay *relay);

#endif
