/*
 * proxy_inside.h - what the files of the proxy share
 *
 *   proxy.c         all relays: their models and who has its turn, the clock, who is over
 *   relay.c         one relay and its workers
 *   relay_frames.c  one relay: the bytes of its worker become the bytes of its client
 *   relay_reply.c   one relay and its client
 *
 * Only the proxy's own event calls on_over and frees relays. So a relay stays a valid object until the event loop goes
 * on, whatever a function does; it may be OVER.
 */
#ifndef HTH_FRONT_PROXY_INSIDE_H
#define HTH_FRONT_PROXY_INSIDE_H

#include "api/notes.h"
#include "front/proxy.h"

/* A model and its relays. */
typedef struct hth_proxy_model {
    struct hth_proxy_model *next;
    size_t n_relays;
    uint64_t generation;         /* the latest that was seen; 0: none */
    uint64_t n_deaths;           /* of the model's workers before that generation */
    hth_relay *on_turn;          /* the suspect whose turn it is; NULL: none */
    uint64_t generation_of_turn; /* the last generation whose connection to the suspect on turn broke */
    hth_relay *line;             /* suspects that wait for their turn */
    char name[];
} hth_proxy_model;

struct hth_proxy {
    hth_proxy_options options;
    hth_proxy_model *models;
    hth_relay *relays;
    hth_relay *next; /* that the walk over relays goes on with; NULL: no walk, or its end */
    hth_relay *over; /* relays that wait for on_over */
    size_t n_relays; /* in both lists */
    struct event *soon;
    struct event *tick; /* active while a stream has begun or a suspect waits */
    uint32_t tick_ms;
};

typedef enum hth_relay_state {
    HTH_RELAY_WAITING,
    HTH_RELAY_IN_LINE,
    HTH_RELAY_RUNNING,
    HTH_RELAY_OVER
} hth_relay_state;

/* What came from the worker that has the request; relay_frames.c makes the transitions. */
typedef enum hth_run_state {
    HTH_RUN_SILENT, /* nothing */
    HTH_RUN_PLAIN,  /* the head of a reply without frames */
    HTH_RUN_FRAMES, /* the head of a reply of frames */
    HTH_RUN_REPLY,  /* and the HEAD frame */
} hth_run_state;

/* The form of a stream for the client, once it has begun. */
typedef enum hth_stream_form {
    HTH_FORM_BYTES, /* no events; also before it has begun */
    HTH_FORM_EVENTS,
    HTH_FORM_LINES, /* events, each a line of JSON */
} hth_stream_form;

enum { HTH_RELAY_BODY_PIECE = 2 }; /* of a request to a worker: the client's body, behind what is known and past */
enum { HTH_SUSPECT_DEATHS = 2 };   /* from so many on a request is a suspect */

struct hth_relay {
    hth_proxy *proxy;
    hth_proxy_model *model;
    hth_relay *prev, *next;           /* in one of the proxy's lists */
    hth_relay *line_prev, *line_next; /* IN_LINE: in the model's */
    hth_relay_state state;
    void (*on_over)(const hth_record *record, void *user_data);
    void *user_data;

    /* The request. */
    hth_http_exchange *exchange;                                        /* NULL: it has ended, or kept owns it */
    const char *method, *target, *id, *request_id, *traceparent, *salt; /* in text */
    hth_api_dialect dialect;
    const void *past; /* [past_bytes] */
    size_t past_bytes;
    void (*on_record)(const void *bytes, size_t n, void *user_data); /* NULL: not stored */
    void (*on_begun)(const void *bytes, size_t n, void *user_data);  /* NULL: the client waits for the reply */
    bool is_detached; /* the client was answered, the exchange has ended, the reply goes on */
    bool generates;
    bool names_adapter;
    bool is_once;
    bool wants_events;
    bool wants_kept; /* if the reply is a stream */
    uint8_t key[HTH_KEPT_KEY_BYTES];
    char *kept_body; /* owned: a copy of the body, [n_kept_body]; NULL: the exchange has the body */
    size_t n_kept_body;
    char kept_type[64]; /* its Content-Type */
    uint64_t seed;
    uint64_t created_s;
    uint64_t begun_ns;

    /* Its workers. */
    hth_worker_waiter waiter;
    hth_upstream_call *call; /* NULL: none */
    uint64_t generation;     /* of the last worker; 0: none */
    uint64_t n_deaths_then;  /* deaths of the model's workers before that generation */
    bool is_unjudged;        /* the connection broke; it is not known yet whether the worker died */
    bool is_cleared;         /* it came some tokens further since the last death, so it is no suspect */
    uint32_t n_deaths;       /* of workers that had it */
    uint32_t n_vain;         /* the last ones of these in a row in which it came no further */
    uint32_t n_breaks;       /* broken connections with which it came no further */
    uint32_t n_runs;
    uint64_t line_ns; /* IN_LINE: since when */

    /* From this worker. */
    hth_run_state run;
    bool is_refused; /* the stream has begun, but this worker answers otherwise; its answer is in body */
    bool is_paused;  /* reading stops until the client has taken bytes */
    uint32_t n_new_tokens;
    bool came_further;       /* by a token, or by tokens of its prompt that no worker before had computed */
    hth_buffer part;         /* the bytes of a partial frame */
    hth_buffer ahead;        /* bytes of a stream that belong to the next STEP */
    hth_buffer record_bytes; /* of the record that is stored */
    bool has_whole_record;
    uint64_t n_again;   /* bytes of a body that the client has, and that this worker will still repeat */
    uint32_t again_crc; /* of the repeated bytes so far */

    /* From all workers. */
    bool has_head;
    bool is_stream; /* bytes come with tokens; otherwise a body follows all tokens */
    bool has_begun; /* the client has the head */
    hth_stream_form form;
    bool has_failed; /* the client has the error event that ends the stream */
    int status;
    uint32_t retry_after_s;
    char content_type[64];
    char notes[HTH_API_NOTES_BYTES]; /* names of ignored fields; "": none */
    hth_buffer body;                 /* of a body that may still leave whole */
    uint32_t body_crc;               /* of the part of a longer body that has left */
    hth_buffer known;                /* frames sent before the request; fixed while a worker has the request */
    hth_buffer fresh;                /* frames of this worker, added to known later */
    size_t fresh_last;
    bool is_known_lost;     /* known and fresh are incomplete (too long, no memory): no other worker can continue */
    uint64_t step_ns;       /* time of the last step of reply 0 */
    uint64_t *more_step_ns; /* [HTH_API_REPLIES_MAX], of the others; NULL: none, or no memory */

    /* To the client. */
    hth_kept_stream *kept; /* owns the exchange; NULL: the stream is not kept */
    char last_bytes[2];
    uint64_t written_ns;
    hth_record record;
    char why[sizeof(((hth_api_error *)NULL)->message)]; /* memory of record.why */
    char text[];
};

/* ---- proxy.c ---- */

/* Give up the turn, or the wait for it. */
void hth_relay_leave_line(hth_relay *relay);
/* A suspect asks for its turn. False: it is IN_LINE now. */
bool hth_relay_take_turn(hth_relay *relay);
/* Start the clock that looks after relays. */
void hth_proxy_watch_time(hth_proxy *proxy);
/* The relay is over: on_over will be called. */
void hth_proxy_note_over(hth_relay *relay);

/* ---- relay.c ---- */

/* Wait for a worker of a later generation than after. */
void hth_relay_ask(hth_relay *relay, uint64_t after);
/* End the wait, the call and the turn. */
void hth_relay_let_go(hth_relay *relay);
void hth_relay_on_room(void *user_data);
/*
 * The worker sent bytes that are no frame or reply, as what says: end its call, and go on as with a broken connection.
 */
void hth_relay_give_up_call(hth_relay *relay, const char *what);

/* ---- relay_frames.c: each may end the relay ---- */

/* Take frames; the last one may be partial. */
void hth_relay_take_frames(hth_relay *relay, const char *bytes, size_t n);
/* Take bytes of a body, of a reply with frames or without. */
void hth_relay_take_body(hth_relay *relay, const char *bytes, size_t n);
/* A reply without frames is complete. */
void hth_relay_end_plain(hth_relay *relay);
/* The names of ignored fields, for a header of the reply. Texts that are no such list are dropped. */
void hth_relay_note_ignored(hth_relay *relay, const char *notes, size_t n);

/* ---- relay_reply.c: each may end the exchange and the relay ---- */

void hth_relay_begin_stream(hth_relay *relay, int status, const char *content_type);
/* Answer the client with this body; the reply goes on without it. False without memory: nothing changed. */
bool hth_relay_detach(hth_relay *relay, const void *body, size_t n);
void hth_relay_write(hth_relay *relay, const void *bytes, size_t n);
void hth_relay_end_stream(hth_relay *relay, int status);
void hth_relay_reply(hth_relay *relay, int status, const char *content_type, const void *body, size_t n);
/* End with an error: as a whole reply, as the last event of a stream, or by cutting it off. */
void hth_relay_fail(hth_relay *relay, const hth_api_error *error);
void hth_relay_fail_status(hth_relay *relay, const hearth_error *err);
void hth_relay_fail_with(hth_relay *relay, hth_api_error_kind kind, const char *message);
void hth_relay_fail_without_memory(hth_relay *relay);
/* Cut the reply off, so that the client sees that its end is missing. */
void hth_relay_cut(hth_relay *relay, int status);
void hth_relay_on_close(void *user_data);
/* Did workers die with this request too often, so that it has to wait for its turn? */
static inline bool hth_relay_is_suspect(const hth_relay *relay)
{
    return relay->n_deaths >= HTH_SUSPECT_DEATHS && !relay->is_cleared;
}
/* May the stream begin before a worker has the request? */
static inline bool hth_relay_may_begin_early(const hth_relay *relay)
{
    return relay->wants_events && relay->generates && !relay->has_begun &&
           !(relay->state == HTH_RELAY_RUNNING && relay->has_head) && relay->state != HTH_RELAY_OVER &&
           relay->proxy->options.limits.keep_alive_ms > 0;
}

/* Begin the stream with its head and a comment, if it has waited for its worker, or in it, for too long. */
void hth_relay_begin_early(hth_relay *relay, uint64_t now_ns);
/* Send a comment, with what the request waits for, or a space between lines, if the stream was silent for too long. */
void hth_relay_keep_alive(hth_relay *relay, uint64_t now_ns);
/* Tell the reader of a kept stream of events, with a comment, that the worker ended and the reply waits for another. */
void hth_relay_tell_break(hth_relay *relay);
bool hth_relay_is_backlogged(const hth_relay *relay);

#endif
