/*
 * relay_ask                    run, when a worker is ready, and another node has told what it knows of the prompt
 *   (begin) ----------------> WAITING ----------------------------------> RUNNING
 *                              ^  | ^                                      |  |
 *                give_turn     |  | `------------- broken -----------------'  | the last byte, or an error
 *                              |  v on_found: a suspect, not its turn         v
 *                            IN LINE                                         OVER <---- from any state: the client
 *                                                                                       left, or an error
 *
 * broken: the connection to the worker broke. judge decides whether the worker died: this is known when the supervisor
 * has seen the death, and at the latest when there is a later worker. A death counts against the request, and from the
 * second one on the request is a suspect (proxy.h).
 */
#include "front/proxy.h"

#include <assert.h>
#include <event2/event.h>
#include <jansson.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "api/notes.h"
#include "api/request.h"
#include "api/sse.h"
#include "base/draw.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/smaller.h"
#include "base/status.h"
#include "dialects/response_record.h"
#include "front/history_ask.h"
#include "front/relay_call.h"

/* A model and its relays. */
typedef struct proxy_model {
    struct proxy_model *next;
    size_t n_relays;
    hth_relay *on_turn;      /* the suspect whose turn it is; NULL: none */
    hth_place place_of_turn; /* the last place that the suspect at its turn lost */
    hth_relay *line;         /* suspects that wait for their turn */
    char name[];
} proxy_model;

struct hth_proxy {
    hth_proxy_options options;
    proxy_model *models;
    hth_relay *relays;
    hth_relay *next; /* next relay of the walk over relays; NULL: no walk, or its end */
    hth_relay *over; /* relays that wait for on_over */
    size_t n_relays; /* in both lists */
    struct event *soon;
    struct event *tick; /* active while a stream has begun or a suspect waits */
    uint32_t tick_ms;
    uint64_t n_asks[HTH_ASK_ENDS];
};

typedef enum relay_state { RELAY_WAITING, RELAY_IN_LINE, RELAY_RUNNING, RELAY_OVER } relay_state;

/* The bytes received so far from the worker that has the request. */
typedef enum run_state {
    RUN_SILENT,   /* nothing */
    RUN_NO_PLACE, /* the head of a node's answer that it has no place */
    RUN_PLAIN,    /* the head of a reply without frames */
    RUN_FRAMES,   /* the head of a reply of frames */
    RUN_REPLY,    /* and the HEAD frame */
} run_state;

/* The form of a stream for the client, once it has begun. */
typedef enum stream_form {
    FORM_BYTES, /* no events, or not begun yet */
    FORM_EVENTS,
    FORM_LINES, /* events, each a line of JSON */
} stream_form;

enum {
    TICK_MS_MIN = 10,
    TICK_MS_MAX = 1000,
    HISTORY_TIMES = 8, /* a longer history than so many times the body is none: text and tokens have 5 times its text */
    HISTORY_BYTES_MIN = 64 << 10,
    SUSPECT_DEATHS = 2,          /* deaths from which on a request is a suspect */
    BREAKS_MORE_MAX = 32,        /* broken connections without progress that a request is allowed */
    REFUSAL_BYTES_MAX = 4 << 10, /* of a node's answer that it has no place */
    CLEARED_TOKENS = 8,          /* a guess: a reply that progressed this far after a death was not its cause */
    BODY_BYTES_KEPT = 256 << 10, /* a longer body is sent as it arrives */
    AHEAD_BYTES_MAX = 256 << 20, /* of one step of a stream: far more than the text of a context */
    PART_BYTES_KEPT = 64 << 10,  /* a larger buffer of partial frames is freed when it is empty */
};

struct hth_relay {
    hth_proxy *proxy;
    proxy_model *model;
    hth_relay *prev, *next;           /* in one of the proxy's lists */
    hth_relay *line_prev, *line_next; /* IN_LINE: in the model's */
    relay_state state;

    /* The request. */
    hth_relay_request request;   /* its texts are in text, and its key below */
    hth_http_exchange *exchange; /* NULL: it has ended, or kept owns it */
    bool is_detached;            /* the client was answered and the exchange has ended, but the reply goes on */
    uint8_t key[HTH_KEPT_KEY_BYTES];
    char *kept_body; /* owned: a copy of the body, [n_kept_body]; NULL: the exchange has the body */
    size_t n_kept_body;
    char kept_type[64]; /* its Content-Type */
    uint64_t seed;
    uint64_t created_s;
    uint64_t begun_ns;

    /* Its workers. */
    hth_anchor *anchors; /* owned: of the seeker */
    hth_place_seeker seeker;
    hth_upstream_call *call; /* NULL: none */
    hth_history_ask *ask;    /* of the first run, which waits for it; NULL: none */
    bool has_asked;
    hth_place found;        /* with ask: the place; its socket_path is owned */
    hth_buffer history;     /* of the first run, until its worker has it */
    hth_place place;        /* the last one; generation 0: none */
    hth_place lost;         /* while is_unjudged: the place whose connection broke */
    bool is_unjudged;       /* it is not known yet whether the worker died there */
    bool is_cleared;        /* it progressed by some tokens since the last death, so it is no suspect */
    uint32_t n_deaths;      /* of workers that had it */
    uint32_t n_vain;        /* the last ones of these in a row without progress */
    uint32_t n_breaks;      /* broken connections without progress */
    uint32_t n_node_breaks; /* part of them: to nodes, which said nothing; a request must not break node after node */
    uint32_t n_runs;
    uint64_t line_ns; /* IN_LINE: begin of the wait */

    /* From this worker. */
    run_state run;
    int refusal;     /* the status of NO_PLACE */
    bool is_refused; /* the stream has begun, but this worker refused the request; its answer is in body */
    bool is_paused;  /* reading stops until the client has read bytes */
    uint32_t n_new_tokens;
    bool came_further;       /* progress by a token, or by prompt tokens that no earlier worker had computed */
    hth_buffer part;         /* the bytes of a partial frame */
    hth_buffer ahead;        /* bytes of a stream that belong to the next STEP */
    hth_buffer record_bytes; /* of the record that is stored */
    bool has_whole_record;
    uint64_t n_again;   /* bytes of a body that the client already has and this worker will still repeat */
    uint32_t again_crc; /* of the repeated bytes so far */

    /* From all workers. */
    bool has_head;
    bool is_stream; /* bytes come with tokens; otherwise a body follows all tokens */
    bool has_begun; /* the client has the head */
    stream_form form;
    bool has_failed; /* the client has the error event that ends the stream */
    int status;
    uint32_t retry_after_s;
    char content_type[64];
    char notes[HTH_API_NOTES_BYTES]; /* names of ignored fields; "": none */
    hth_buffer body;                 /* of a body that may still be sent whole */
    uint32_t body_crc;               /* of the part of a longer body that was sent */
    hth_buffer known; /* frames sent to the next worker before the request; fixed while a worker has the request */
    hth_buffer fresh; /* frames of this worker, added to known later */
    size_t fresh_last;
    size_t n_elsewhere;       /* of this run: the first bytes of known, whose tokens were drawn at other nodes */
    const hth_node *drew;     /* the node that drew the last known tokens; NULL: this one */
    size_t n_elsewhere_there; /* n_elsewhere of its run */
    bool is_known_lost;     /* known and fresh are incomplete (too long, or no memory): no other worker can continue */
    uint64_t step_ns;       /* time of the last step of reply 0 */
    uint64_t *more_step_ns; /* [HTH_API_REPLIES_MAX], of the other replies; NULL: none, or no memory */

    /* To the client. */
    hth_kept_stream *kept; /* owns the exchange; NULL: the stream is not kept */
    hth_journal *journal;  /* NULL: no other node could go on */
    char last_bytes[2];
    uint64_t written_ns;
    hth_access_record record;
    char why[sizeof(((hth_api_error *)NULL)->message)]; /* memory of record.why */
    char text[];
};

/* Did workers die with this request so often that it has to wait for its turn? */
static bool relay_is_suspect(const hth_relay *relay)
{
    return relay->n_deaths >= SUSPECT_DEATHS && !relay->is_cleared;
}

/* May the stream begin before a worker has the request? */
static bool relay_may_begin_early(const hth_relay *relay)
{
    return relay->request.wants_events && relay->request.generates && !relay->has_begun &&
           !(relay->state == RELAY_RUNNING && relay->has_head) && relay->state != RELAY_OVER &&
           relay->proxy->options.limits.keep_alive_ms > 0;
}

/* ---- models ---- */

/* NULL without memory. */
static proxy_model *model_ref(hth_proxy *proxy, const char *name)
{
    proxy_model *model;
    size_t n = strlen(name) + 1;

    LL_FOREACH(proxy->models, model)
    {
        if (strcmp(model->name, name) == 0)
            break;
    }
    if (!model) {
        model = calloc(1, sizeof(*model) + n);
        if (!model)
            return NULL;
        memcpy(model->name, name, n);
        LL_PREPEND(proxy->models, model);
    }
    model->n_relays++;
    return model;
}

/* A model that has had a suspect is kept. Only models with workers have them, so this memory is bounded. */
static void model_unref(hth_proxy *proxy, proxy_model *model)
{
    if (--model->n_relays > 0 || model->place_of_turn.generation > 0)
        return;
    LL_DELETE(proxy->models, model);
    free(model);
}

/* ---- turns and the clock ---- */

/* Start the timer for the time-outs of relays. */
static void proxy_watch_time(hth_proxy *proxy)
{
    const struct timeval wait = { .tv_sec = proxy->tick_ms / 1000,
                                  .tv_usec = (suseconds_t)(proxy->tick_ms % 1000) * 1000 };

    if (!event_pending(proxy->tick, EV_TIMEOUT, NULL))
        (void)event_add(proxy->tick, &wait); /* fails without memory: the next relay tries again */
}

/* Release the turn, or end the wait for it. */
static void relay_leave_line(hth_relay *relay)
{
    proxy_model *model = relay->model;

    if (relay->state == RELAY_IN_LINE) {
        DL_DELETE2(model->line, relay, line_prev, line_next);
        relay->state = RELAY_WAITING;
    }
    if (model->on_turn != relay)
        return;
    model->on_turn = NULL;
    event_active(relay->proxy->soon, EV_TIMEOUT, 0); /* gives the turn to the next one */
}

/* A suspect asks for its turn. False: it is IN_LINE now. */
static bool relay_take_turn(hth_relay *relay)
{
    proxy_model *model = relay->model;

    if (!model->on_turn && !model->line)
        model->on_turn = relay;
    if (model->on_turn == relay)
        return true;
    DL_APPEND2(model->line, relay, line_prev, line_next);
    relay->state = RELAY_IN_LINE;
    relay->line_ns = hth_os_monotonic_ns();
    proxy_watch_time(relay->proxy);
    return false;
}

/* ---- the journal, with which another node goes on if this one dies ---- */

/* No other node shall go on. */
static void journal_drop(hth_relay *relay)
{
    hth_journal_drop(relay->journal);
    relay->journal = NULL;
}

static void journal_add(hth_relay *relay, hth_piece_kind kind, const void *bytes, size_t n)
{
    uint8_t head[HTH_PIECE_HEAD_BYTES];

    if (!relay->journal)
        return;
    hth_piece_head(kind, n, head);
    hth_journal_add(relay->journal, head, sizeof(head));
    if (n > 0)
        hth_journal_add(relay->journal, bytes, n);
}

static void journal_frame(hth_relay *relay, const hth_frame *frame)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0;

    if (!relay->journal)
        return;
    hth_frame_add_known(&known, &last, frame);
    if (known.failed)
        journal_drop(relay);
    else if (known.n > 0)
        journal_add(relay, HTH_PIECE_TOKENS, known.text, known.n);
    hth_buffer_deinit(&known);
}

/* ---- the end of a relay ---- */

/* Note that the relay is over: on_over will be called. */
static void proxy_note_over(hth_relay *relay)
{
    hth_proxy *proxy = relay->proxy;

    if (proxy->next == relay)
        proxy->next = relay->next;
    DL_DELETE(proxy->relays, relay);
    DL_APPEND(proxy->over, relay);
    event_active(proxy->soon, EV_TIMEOUT, 0);
}

/* End the wait, the call and the turn. */
static void relay_let_go(hth_relay *relay)
{
    hth_place_seeker_cancel(&relay->seeker);
    hth_history_ask_cancel(relay->ask);
    relay->ask = NULL;
    hth_upstream_cancel(relay->call);
    relay->call = NULL;
    relay_leave_line(relay);
}

static double ms_since(uint64_t ns)
{
    return (double)(hth_os_monotonic_ns() - ns) / 1e6;
}

/* End the relay. The caller ends the exchange, if there still is one. */
static hth_http_exchange *take_exchange(hth_relay *relay, int status)
{
    hth_http_exchange *exchange = relay->exchange;

    assert(exchange || relay->kept || relay->is_detached);
    relay_let_go(relay);
    relay->exchange = NULL;
    relay->state = RELAY_OVER;
    if (relay->kept || relay->record.goes_on)
        hth_journal_leave(relay->journal); /* of a stream, which may still be read */
    else
        hth_journal_drop(relay->journal);
    relay->journal = NULL;
    relay->record.status = status;
    relay->record.duration_ms = ms_since(relay->begun_ns);
    relay->record.n_resumed = relay->n_runs > 1 ? relay->n_runs - 1 : 0;
    if (relay->place.generation > 0 && hth_places_has_fleet(relay->proxy->options.places))
        relay->record.node = hth_places_node_name(relay->proxy->options.places, &relay->place);
    proxy_note_over(relay);
    return exchange;
}

static void relay_on_room(void *user_data)
{
    hth_relay *relay = user_data;

    if (relay->is_paused && relay->call)
        hth_upstream_resume(relay->call);
    relay->is_paused = false;
}

/* ---- one relay and its client: whole replies, streams, errors and ends ---- */

static const char body_type[] = "application/json";
/* Used if there is no memory for another text. */
static const char no_memory_body[] =
    "{\"error\":{\"message\":\"the server is out of memory\",\"type\":\"server_error\"}}";

static void note_byte(hth_relay *relay)
{
    if (relay->record.first_byte_ms <= 0)
        relay->record.first_byte_ms = ms_since(relay->begun_ns);
}

/* The headers of a reply that tell about its request and its place. */
static void add_notes(hth_relay *relay)
{
    const hth_places *places = relay->proxy->options.places;

    if (relay->notes[0] && relay->exchange)
        hth_http_header_add(relay->exchange, HTH_API_NOTES_HEADER, relay->notes);
    if (relay->place.generation > 0 && relay->exchange && hth_places_has_fleet(places))
        hth_http_header_add(relay->exchange, HTH_HEADER_NODE, hth_places_node_name(places, &relay->place));
}

/* End a stream that has begun. is_whole false: it is cut off, so that the client sees that its end is missing. */
static void relay_end_stream(hth_relay *relay, int status, bool is_whole)
{
    hth_http_exchange *exchange;

    if (is_whole)
        journal_add(relay, HTH_PIECE_END, NULL, 0);
    exchange = take_exchange(relay, status);
    if (relay->kept)
        hth_kept_stream_end(relay->kept, is_whole);
    else if (exchange && is_whole)
        hth_http_stream_end(exchange);
    else if (exchange)
        hth_http_abort(exchange);
    relay->kept = NULL;
}

/* Cut off the reply. */
static void relay_cut(hth_relay *relay, int status)
{
    relay_end_stream(relay, status, false);
}

/* ---- kept streams ---- */

static void on_given_up(void *user_data)
{
    hth_relay *relay = user_data;

    journal_drop(relay);
    (void)take_exchange(relay, HTH_STATUS_CLIENT_GONE); /* kept owned it */
    relay->kept = NULL;
}

/* Another node took the reply: here it is over, and its client is told nothing. */
static void on_journal_lost(void *user_data)
{
    hth_relay *relay = user_data;
    hth_kept_stream *kept = relay->kept;

    relay->journal = NULL;
    relay->record.goes_on = true;
    (void)take_exchange(relay, HTH_STATUS_CLIENT_GONE); /* kept owned it, or there was none */
    relay->kept = NULL;
    if (kept)
        hth_kept_stream_discard(kept);
}

static const char *text_or_none(const char *text)
{
    return text ? text : "";
}

/* Begin the journal of a reply that outlives its client's connection. begun: of a response without a client, [n]. */
static void journal_begin(hth_relay *relay, const void *begun, size_t n)
{
    const hth_journal_owner owner = { .on_lost = on_journal_lost, .user_data = relay };
    const hth_relay_request *asked = &relay->request;
    hth_journals *journals = relay->proxy->options.journals;
    hth_journaled journaled = { .model = relay->model->name,
                                .target = asked->target,
                                .body_type = relay->kept_type,
                                .id = asked->id,
                                .request_id = asked->request_id,
                                .traceparent = text_or_none(asked->traceparent),
                                .salt = text_or_none(asked->salt),
                                .adapter = text_or_none(asked->adapter),
                                .names_adapter = asked->names_adapter,
                                .seed = relay->seed,
                                .created_s = relay->created_s,
                                .digest = relay->seeker.digest,
                                .keyspace = relay->seeker.keyspace,
                                .status = relay->status,
                                .content_type = begun ? "" : relay->content_type,
                                .body = relay->kept_body,
                                .n_body = relay->n_kept_body,
                                .past = asked->past,
                                .n_past = asked->past_bytes,
                                .begun = begun,
                                .n_begun = n };
    char name[HTH_JOURNAL_NAME_BYTES];
    hth_buffer first = { .text = NULL };

    if (!journals || !hth_journal_name(journals, asked->id, relay->key, sizeof(relay->key), name))
        return;
    hth_place_seeker_note_model(&relay->seeker);
    memcpy(journaled.key, relay->key, sizeof(journaled.key));
    hth_journaled_write(&journaled, &first);
    if (!first.failed)
        relay->journal = hth_journal_begin(journals, name, begun != NULL, first.text, first.n, &owner);
    hth_buffer_deinit(&first);
    if (relay->known.n > 0)
        journal_add(relay, HTH_PIECE_TOKENS, relay->known.text, relay->known.n);
    if (relay->fresh.n > 0)
        journal_add(relay, HTH_PIECE_TOKENS, relay->fresh.text, relay->fresh.n);
}

/* The exchange may end before the reply: copy the parts of the request that another worker needs. */
static bool keep_request(hth_relay *relay)
{
    const char *type = hth_http_header(relay->exchange, "Content-Type"), *body;
    size_t n = 0;

    body = hth_http_body(relay->exchange, &n);
    relay->kept_body = malloc(n + 1);
    if (!relay->kept_body)
        return false;
    if (n > 0)
        memcpy(relay->kept_body, body, n);
    relay->n_kept_body = n;
    if (relay->call)
        hth_upstream_move_body(relay->call, HTH_PIECE_BODY, relay->kept_body);
    if (relay->ask)
        hth_history_ask_move_body(relay->ask, HTH_PIECE_BODY, relay->kept_body);
    (void)snprintf(relay->kept_type, sizeof(relay->kept_type), "%s",
                   type ? type : body_type); /* cut if too long, which does no harm */
    return true;
}

/* Answer the client with this body; the reply goes on without the client. False without memory: nothing changed. */
static bool relay_detach(hth_relay *relay, const void *body, size_t n)
{
    hth_http_exchange *exchange = relay->exchange;

    if (!keep_request(relay))
        return false;
    add_notes(relay);
    note_byte(relay);
    relay->is_detached = true;
    relay->exchange = NULL;
    hth_http_reply(exchange, 200, body_type, body, n);
    return true;
}

/* NULL: none can be kept now, or there is no memory. */
static hth_kept_stream *kept_new(hth_relay *relay)
{
    const hth_kept_writer writer = { .on_room = relay_on_room, .on_given_up = on_given_up, .user_data = relay };

    return hth_kept_stream_new(relay->proxy->options.kept, relay->form == FORM_LINES ? HTH_KEPT_LINES : HTH_KEPT_EVENTS,
                               relay->request.id, relay->key, relay->n_kept_body, &writer);
}

static void keep_stream(hth_relay *relay)
{
    hth_kept_streams *streams = relay->proxy->options.kept;
    size_t n = 0;

    (void)hth_http_body(relay->exchange, &n);
    if (!hth_kept_streams_have_room(streams, relay->key, n) || !keep_request(relay))
        return;
    relay->kept = kept_new(relay);
    if (!relay->kept)
        return;
    hth_http_header_add(relay->exchange, HTH_HEADER_STREAM, relay->request.id);
    journal_begin(relay, NULL, 0);
}

/* ---- streams ---- */

static stream_form form_of(const char *content_type)
{
    return strcmp(content_type, HTH_NDJSON_CONTENT_TYPE) == 0                             ? FORM_LINES
         : strncmp(content_type, HTH_SSE_CONTENT_TYPE, strlen(HTH_SSE_CONTENT_TYPE)) == 0 ? FORM_EVENTS
                                                                                          : FORM_BYTES;
}

static void relay_begin_stream(hth_relay *relay, int status, const char *content_type)
{
    relay->has_begun = true;
    relay->record.status = status;
    relay->form = form_of(content_type);
    relay->record.is_stream = relay->form != FORM_BYTES;
    if (relay->is_detached)
        return;
    if (relay->form != FORM_BYTES) {
        hth_http_header_add(relay->exchange, "Cache-Control", "no-cache");
        hth_http_header_add(relay->exchange, "X-Accel-Buffering", "no"); /* otherwise nginx would buffer events */
    }
    add_notes(relay);
    if (relay->form != FORM_BYTES && relay->request.wants_kept)
        keep_stream(relay);
    note_byte(relay);
    relay->written_ns = hth_os_monotonic_ns();
    hth_http_stream_begin(relay->exchange, status, content_type);
    if (relay->kept) {
        hth_http_exchange *exchange = relay->exchange;

        relay->exchange = NULL;
        hth_kept_stream_take_reader(relay->kept, exchange);
    }
    if (relay->form != FORM_BYTES)
        proxy_watch_time(relay->proxy);
}

/* Write what nobody needs again. */
static void relay_write_once(hth_relay *relay, const void *bytes, size_t n)
{
    const char *text = bytes;

    if (n == 0 || relay->state == RELAY_OVER)
        return;
    if (n > 1)
        relay->last_bytes[0] = text[n - 2];
    else
        relay->last_bytes[0] = relay->last_bytes[1];
    relay->last_bytes[1] = text[n - 1];
    relay->record.bytes_out += n;
    relay->written_ns = hth_os_monotonic_ns();
    if (relay->is_detached)
        return;
    if (!relay->kept)
        hth_http_stream_write(relay->exchange, bytes, n);
    else if (!hth_kept_stream_write(relay->kept, bytes, n))
        relay_cut(relay, 503); /* no memory */
}

static void relay_write(hth_relay *relay, const void *bytes, size_t n)
{
    if (n > 0 && relay->kept)
        journal_add(relay, HTH_PIECE_EVENTS, bytes, n);
    relay_write_once(relay, bytes, n);
}

static bool relay_is_backlogged(const hth_relay *relay)
{
    if (relay->kept)
        return hth_kept_stream_is_full(relay->kept);
    return relay->has_begun && !relay->is_detached && hth_http_stream_backlog(relay->exchange) >= HTH_HTTP_BACKLOG_MAX;
}

static void relay_reply(hth_relay *relay, int status, const char *content_type, const void *body, size_t n)
{
    uint32_t retry_after_s = relay->retry_after_s;
    hth_http_exchange *exchange;

    add_notes(relay);
    note_byte(relay);
    relay->record.bytes_out = n;
    exchange = take_exchange(relay, status);
    if (!exchange)
        return; /* detached */
    hth_http_retry_after_add(exchange, retry_after_s);
    hth_http_reply(exchange, status, content_type, body, n);
}

/* Is the stream between two events, so that another one can follow? */
static bool is_between_events(const hth_relay *relay)
{
    if (relay->form == FORM_BYTES || relay->record.bytes_out == 0)
        return relay->form != FORM_BYTES;
    if (relay->form == FORM_LINES) /* after a whole line or a space of keep_alive */
        return relay->last_bytes[1] == '\n' || relay->last_bytes[1] == ' ';
    return memcmp(relay->last_bytes, "\n\n", 2) == 0;
}

/* End with an error: as a whole reply, as the last event of a stream, or by cutting it off. */
static void relay_fail(hth_relay *relay, const hth_api_error *error)
{
    int status = hth_api_error_http_status(relay->request.dialect, error);
    hth_buffer text = { .text = NULL };

    if (!relay->record.why) {                                                 /* the record outlives error */
        (void)snprintf(relay->why, sizeof(relay->why), "%s", error->message); /* both have the same size */
        relay->record.why = relay->why;
    }
    if (relay->has_begun && is_between_events(relay)) {
        hth_api_error_write_event(relay->request.dialect, error, &text);
        if (text.failed) {
            relay_cut(relay, status);
        } else {
            relay_write(relay, text.text, text.n);
            if (relay->state != RELAY_OVER)
                relay_end_stream(relay, status, true);
        }
    } else if (relay->has_begun) {
        relay_cut(relay, status);
    } else {
        hth_api_error_write(relay->request.dialect, error, &text);
        relay->retry_after_s = error->retry_after_s;
        relay_reply(relay, status, body_type, text.failed ? no_memory_body : text.text,
                    text.failed ? sizeof(no_memory_body) - 1 : text.n);
    }
    hth_buffer_deinit(&text);
}

static void relay_fail_status(hth_relay *relay, const hearth_error *err)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail_status(&error, err);
    relay_fail(relay, &error);
}

static void relay_fail_with(hth_relay *relay, hth_api_error_kind kind, const char *message)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, kind, NULL, "%s", message);
    relay_fail(relay, &error);
}

static void relay_fail_without_memory(hth_relay *relay)
{
    relay_fail_with(relay, HTH_API_OVERLOADED, "the server has no memory for the reply");
}

static void relay_on_close(void *user_data)
{
    hth_relay *relay = user_data;

    (void)take_exchange(relay, HTH_STATUS_CLIENT_GONE); /* it has ended */
}

/* The text of what it waits for; "": unknown, or its worker sends it. */
static void tell_wait(const hth_relay *relay, char out[HTH_WAIT_TEXT_BYTES])
{
    const bool is_there = relay->state == RELAY_RUNNING;

    out[0] = 0;
    if (relay->state == RELAY_WAITING || is_there)
        hth_places_tell_wait(relay->proxy->options.places, relay->model->name, is_there ? &relay->place : NULL, out);
}

/*
 * If the stream was silent for too long, send a comment that says what the request waits for, or a space between lines.
 */
static void relay_keep_alive(hth_relay *relay, uint64_t now_ns)
{
    const uint64_t most_ns = hth_ms_to_ns(relay->proxy->options.limits.keep_alive_ms),
                   silence_ns = now_ns - relay->written_ns;
    hth_buffer text = { .text = NULL };
    char wait[HTH_WAIT_TEXT_BYTES];

    if (silence_ns < most_ns || !is_between_events(relay) || relay_is_backlogged(relay))
        return;
    tell_wait(relay, wait);
    if (relay->state == RELAY_RUNNING && !*wait && silence_ns < 2 * most_ns)
        return; /* the worker should send it */
    if (relay->form == FORM_LINES)
        hth_ndjson_add_nothing(&text);
    else
        hth_sse_add_comment(&text, wait);
    if (!text.failed)
        relay_write_once(relay, text.text, text.n);
    hth_buffer_deinit(&text);
}

/* Begin the stream with its head and a comment if it has waited too long for its worker, or in it. */
static void relay_begin_early(hth_relay *relay, uint64_t now_ns)
{
    char wait[HTH_WAIT_TEXT_BYTES];

    if (now_ns - relay->begun_ns < hth_ms_to_ns(relay->proxy->options.limits.keep_alive_ms))
        return;
    tell_wait(relay, wait);
    if (relay->state == RELAY_RUNNING && !*wait)
        return;
    hth_buffer_clear(&relay->body); /* of an earlier worker */
    relay->has_head = true;
    relay->is_stream = true;
    relay->status = 200;
    (void)snprintf(relay->content_type, sizeof(relay->content_type), "%s",
                   hth_api_stream_type(relay->request.dialect)); /* fits */
    relay_begin_stream(relay, relay->status, relay->content_type);
    relay->written_ns = relay->begun_ns; /* so that the comment leaves now */
    relay_keep_alive(relay, now_ns);
}

/* Tell the reader of a kept stream of events, in a comment, that the worker ended and the reply waits for another. */
static void relay_tell_break(hth_relay *relay)
{
    static const char comment[] = ": worker ended\n\n";

    if (relay->kept && relay->form == FORM_EVENTS && relay->has_begun && is_between_events(relay))
        relay_write_once(relay, comment, sizeof(comment) - 1);
}

/*
 * ---- one relay: bytes from its worker become bytes for its client ----
 *
 * on head, with frames        SILENT -> FRAMES     HEAD frame: FRAMES -> REPLY    END frame: the relay is over
 *   on head, without frames     SILENT -> PLAIN      the end of the body: the relay is over
 *
 * STEP frames bring tokens and, in a stream, bytes; BYTES frames bring the bytes of a body, or bytes of a stream before
 * their STEP. The relay remembers tokens, so that another worker can continue the reply, and forwards the bytes.
 *
 * A body of at most BODY_BYTES_KEPT bytes is sent whole at its end, so another worker can start it again. A longer body
 * is sent as it arrives. If its worker dies, the next worker sends it from the beginning: the relay discards the bytes
 * that the client has, and checks with their checksum that they are the same.
 *
 * A worker that gets a reply whose stream has begun can refuse it. The worker's answer then goes to relay->body, and
 * its reason ends the stream (is_refused).
 */

/* The names of ignored fields, for a header of the reply. A text of another form is dropped. */
static void relay_note_ignored(hth_relay *relay, const char *notes, size_t n)
{
    const char *at = relay->notes;
    char note[HTH_API_NOTE_BYTES + 1];

    if (n == 0 || n >= sizeof(relay->notes))
        return;
    memcpy(relay->notes, notes, n);
    relay->notes[n] = '\0';
    while (hth_api_notes_next(&at, note))
        ;
    if (strcmp(at, ", " HTH_API_NOTES_REST) == 0)
        at += strlen(at);
    relay->notes[at - relay->notes] = '\0';
    relay->record.notes = relay->notes;
}

static void take_head(hth_relay *relay, const hth_frame *frame)
{
    relay->run = RUN_REPLY;
    if (relay->history.n > 0 && hth_upstream_has_sent(relay->call))
        hth_buffer_deinit(&relay->history);
    if (relay->has_begun) {
        relay->is_refused = frame->is_stream != relay->is_stream || frame->status != relay->status;
        relay->n_again = relay->is_stream || relay->is_refused ? 0 : relay->record.bytes_out;
        relay->again_crc = 0;
        return;
    }
    hth_buffer_clear(&relay->body); /* the worker sends it from its beginning */
    relay->has_head = true;
    relay->is_stream = frame->is_stream;
    relay->status = frame->status;
    relay->retry_after_s = frame->retry_after_s;
    memcpy(relay->content_type, frame->content_type, sizeof(relay->content_type));
    relay_note_ignored(relay, frame->notes, frame->n_notes);
    if (frame->is_stream)
        relay_begin_stream(relay, frame->status, frame->content_type);
}

static void remember(hth_relay *relay, const hth_frame *frame)
{
    if (relay->is_refused || relay->is_known_lost)
        return;
    journal_frame(relay, frame);
    hth_frame_add_known(&relay->fresh, &relay->fresh_last, frame);
    if (!relay->fresh.failed && relay->fresh.n + relay->known.n <= HTH_KNOWN_BYTES_MAX)
        return;
    relay->is_known_lost = true;
    hth_buffer_deinit(&relay->fresh);
    journal_drop(relay);
}

/* Add the time that the tokens took to the metrics. */
static void note_tokens(hth_relay *relay, const hth_frame *frame)
{
    hth_metrics *metrics = relay->proxy->options.metrics;
    uint64_t *step_ns = &relay->step_ns, now_ns;

    if (!metrics || frame->n_tokens == 0)
        return;
    if (frame->reply > 0) {
        if (!relay->more_step_ns)
            relay->more_step_ns = calloc(HTH_API_REPLIES_MAX, sizeof(*relay->more_step_ns));
        if (!relay->more_step_ns)
            return;
        step_ns = &relay->more_step_ns[frame->reply];
    }
    now_ns = hth_os_monotonic_ns();
    if (*step_ns > 0)
        hth_metrics_note_tokens(metrics, relay->model->name, (double)(now_ns - *step_ns) / 1e6, frame->n_tokens);
    *step_ns = now_ns;
}

/* ---- bodies, with frames and without ---- */

/* The client has bytes that differ from this worker's, and it is unknown which are right: cut off the reply. */
static void cut_different(hth_relay *relay)
{
    hth_warn(relay->proxy->options.log, "request %s: the next worker of model '%s' makes another reply of it: cut off",
             relay->request.request_id, relay->model->name);
    relay_cut(relay, 502);
}

/* Discard bytes that the client has, and return their number. The relay may be over. */
static size_t pass_over(hth_relay *relay, const void *bytes, size_t n)
{
    size_t n_passed = n < relay->n_again ? n : (size_t)relay->n_again;

    relay->again_crc = hth_crc32c(relay->again_crc, bytes, n_passed);
    relay->n_again -= n_passed;
    if (relay->n_again == 0 && relay->again_crc != relay->body_crc)
        cut_different(relay);
    return n_passed;
}

/*
 * Process more of a body. A short body is sent whole, so that another worker may start it again; a longer one is sent
 * as it arrives.
 */
static void relay_take_body(hth_relay *relay, const char *bytes, size_t n)
{
    if (relay->n_again > 0) {
        size_t n_passed = pass_over(relay, bytes, n);

        bytes += n_passed;
        n -= n_passed;
    }
    if (relay->state == RELAY_OVER || n == 0)
        return;
    if (relay->is_refused || !relay->has_begun) {
        if (relay->body.n + n <= BODY_BYTES_KEPT) {
            hth_buffer_add(&relay->body, bytes, n);
            if (relay->body.failed)
                relay_fail_without_memory(relay);
            return;
        }
        if (relay->is_refused) /* only the reason in its first bytes is needed */
            return;
        relay_begin_stream(relay, relay->status, relay->content_type); /* the body is too long to be kept */
        relay->body_crc = hth_crc32c(0, hth_buffer_text(&relay->body), relay->body.n);
        relay_write(relay, hth_buffer_text(&relay->body), relay->body.n);
        hth_buffer_deinit(&relay->body);
    }
    relay->body_crc = hth_crc32c(relay->body_crc, bytes, n);
    relay_write(relay, bytes, n);
}

/* ---- the contents of frames ---- */

static void take_step(hth_relay *relay, const hth_frame *frame)
{
    if (relay->n_new_tokens < CLEARED_TOKENS && relay->n_new_tokens + frame->n_tokens >= CLEARED_TOKENS)
        hth_places_note_served(&relay->seeker);
    relay->n_new_tokens += frame->n_tokens;
    relay->came_further = relay->came_further || frame->n_tokens > 0;
    relay->record.n_tokens_out += frame->n_tokens;
    if (relay->n_new_tokens >= CLEARED_TOKENS && relay_is_suspect(relay)) {
        relay->is_cleared = true;
        relay_leave_line(relay);
    }
    note_tokens(relay, frame);
    if (frame->n_tokens > 0 || frame->reply_has_ended || frame->reply_has_begun)
        remember(relay, frame);
    if (!relay->has_begun || !relay->is_stream)
        return;
    relay->has_failed = relay->has_failed || frame->has_failed;
    relay_write(relay, hth_buffer_text(&relay->ahead), relay->ahead.n);
    relay_write(relay, frame->bytes, frame->n_bytes);
    hth_buffer_deinit(&relay->ahead);
}

/* Keep bytes of a stream until their step comes. */
static void take_ahead(hth_relay *relay, const hth_frame *frame)
{
    if (frame->n_bytes > AHEAD_BYTES_MAX - relay->ahead.n) {
        relay_fail_with(relay, HTH_API_INTERNAL, "one event of the reply is larger than this server passes on");
        return;
    }
    hth_buffer_add(&relay->ahead, frame->bytes, frame->n_bytes);
    if (relay->ahead.failed)
        relay_fail_without_memory(relay);
}

static hth_api_error_kind kind_of(int status)
{
    switch (status) {
    case 404: return HTH_API_NOT_FOUND;
    case 413: return HTH_API_TOO_LARGE;
    case 503:
    case 529: return HTH_API_OVERLOADED;
    case 504: return HTH_API_TIMED_OUT;
    default: return status >= 400 && status < 500 ? HTH_API_INVALID_VALUE : HTH_API_INTERNAL;
    }
}

/*
 * The worker refused a reply whose stream has begun; its answer is in relay->body. End the stream with the reason. If
 * the client has tokens already, say that the reply cannot be continued.
 */
static void fail_as_refused(hth_relay *relay, int status)
{
    json_t *body = json_loadb(hth_buffer_text(&relay->body), relay->body.n, 0, NULL);
    const json_t *said = json_object_get(body, "error");
    const char *why = json_string_value(json_is_object(said) ? json_object_get(said, "message") : said);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (!why)
        why = "no reason given";
    if (relay->record.n_tokens_out == 0)
        hth_api_fail(&error, kind_of(status), NULL, "%s", why);
    else
        hth_api_fail(&error, status == 503 || status == 529 ? HTH_API_OVERLOADED : HTH_API_INTERNAL, NULL,
                     "the reply was broken off with its worker, and the next one cannot go on: %s", why);
    json_decref(body);
    hth_places_note_end(&relay->seeker, HTH_NODE_END_WELL);
    relay->record.why =
        "the reply was broken off with its worker, and the next one cannot go on"; /* not the worker's text */
    relay_fail(relay, &error);
}

/* Process a piece of the reply's record. A record that is not stored, or is too long, is dropped. */
static void take_record(hth_relay *relay, const hth_frame *frame)
{
    hth_buffer *record = &relay->record_bytes;
    hth_response_record read;

    if (!relay->request.on_record || relay->has_whole_record)
        return;
    if (record->n + frame->n_bytes > HTH_RESPONSE_RECORD_BYTES_MAX)
        record->failed = true;
    hth_buffer_add(record, frame->bytes, frame->n_bytes);
    if (!frame->has_begun) {
        relay->has_whole_record = frame->is_last && !record->failed;
        return;
    }
    if (!frame->is_last)
        return;
    if (relay->request.on_begun && relay->exchange && !relay->has_begun && !record->failed &&
        hth_response_record_read(record->text, record->n, &read) &&
        relay_detach(relay, read.response, read.n_response)) {
        journal_begin(relay, record->text, record->n);
        relay->request.on_begun(record->text, record->n, relay->journal != NULL, relay->request.user_data);
    }
    hth_buffer_deinit(record);
}

static void end_well(hth_relay *relay, int status)
{
    hth_places_note_served(&relay->seeker);
    hth_places_note_end(&relay->seeker, HTH_NODE_END_WELL);
    if (relay->has_whole_record)
        relay->request.on_record(relay->record_bytes.text, relay->record_bytes.n, relay->request.user_data);
    if (relay->has_begun)
        relay_end_stream(relay, status, true);
    else
        relay_reply(relay, relay->status, relay->content_type, hth_buffer_text(&relay->body), relay->body.n);
}

static void take_end(hth_relay *relay, const hth_frame *frame)
{
    hth_upstream_call *call = relay->call;
    int status = (int)frame->summary.status;

    relay->call = NULL;
    hth_upstream_release(call); /* before the exchange ends, so that its connection can be reused */
    relay->record.has_summary = true;
    relay->record.summary = frame->summary;
    if (relay->n_runs == 1 && frame->summary.figures.hit != HTH_FRAME_NO_HIT)
        hth_places_note_cached(&relay->seeker, frame->summary.figures.n_prompt_tokens,
                               frame->summary.figures.n_cached_tokens);
    if (status < 200 || status > 599)
        status = relay->status;
    if (relay->is_refused)
        fail_as_refused(relay, status);
    else if (relay->n_again > 0)
        cut_different(relay);
    else
        end_well(relay, status);
}

static void broken(hth_relay *relay, hth_node_end end);

/* The node lost its worker. */
static void take_break(hth_relay *relay, const hth_frame *frame)
{
    hth_upstream_call *call = relay->call;

    relay->call = NULL;
    hth_upstream_release(call);
    relay->place.generation = frame->generation; /* of the worker, which other requests may have lost, too */
    broken(relay, frame->has_died ? HTH_NODE_END_DIED : HTH_NODE_END_OTHER);
}

/* False: the frame is not allowed here. */
static bool take(hth_relay *relay, const hth_frame *frame)
{
    bool is_stream = relay->run == RUN_REPLY && relay->is_stream && !relay->is_refused;

    switch (frame->kind) {
    case HTH_FRAME_HEAD:
        if (relay->run == RUN_REPLY)
            return false;
        take_head(relay, frame);
        return true;
    case HTH_FRAME_STEP:
        if (frame->reply >= HTH_API_REPLIES_MAX || (frame->n_bytes > 0 && !is_stream))
            return false;
        take_step(relay, frame);
        return true;
    case HTH_FRAME_BYTES:
        if (relay->run != RUN_REPLY)
            return false;
        if (is_stream)
            take_ahead(relay, frame);
        else
            relay_take_body(relay, frame->bytes, frame->n_bytes);
        return true;
    case HTH_FRAME_CACHED:
    case HTH_FRAME_OUTCOME:
        if (frame->reply >= HTH_API_REPLIES_MAX)
            return false;
        remember(relay, frame);
        return true;
    case HTH_FRAME_MODEL: remember(relay, frame); return true;
    case HTH_FRAME_RECORD: take_record(relay, frame); return true;
    case HTH_FRAME_WORK:
        if (frame->n_worked > relay->record.n_tokens_in) { /* an earlier worker may have done more */
            relay->record.n_tokens_in = frame->n_worked;
            relay->came_further = true;
        }
        return true;
    case HTH_FRAME_END:
        if (relay->run != RUN_REPLY || relay->ahead.n > 0)
            return false;
        take_end(relay, frame);
        return true;
    case HTH_FRAME_BROKEN:
        if (!relay->place.node)
            return false;
        take_break(relay, frame);
        return true;
    }
    return false;
}

/* Process frames; the last one may be partial. False: the worker sent no frame. */
static bool relay_take_frames(hth_relay *relay, const char *bytes, size_t n)
{
    hth_upstream_call *call = relay->call;
    bool is_joined = relay->part.n > 0;
    hth_frame_result result = HTH_FRAME_OK;

    if (is_joined) {
        hth_buffer_add(&relay->part, bytes, n);
        bytes = relay->part.text;
        n = relay->part.n;
    }
    while (!relay->part.failed && result == HTH_FRAME_OK && relay->call == call) {
        hth_frame frame;
        size_t n_used = 0;

        result = hth_frame_read(bytes, n, &frame, &n_used);
        bytes += n_used;
        n -= n_used;
        if (result == HTH_FRAME_BAD || (result == HTH_FRAME_OK && !take(relay, &frame)))
            return false;
    }
    if (relay->call != call)
        return true; /* the call has ended */
    if (!is_joined && n > 0) {
        hth_buffer_add(&relay->part, bytes, n);
    } else if (is_joined && !relay->part.failed && bytes != relay->part.text) {
        /* Only after a whole frame: moving each piece of a long frame would take quadratic time. */
        memmove(relay->part.text, bytes, n);
        relay->part.n = n;
    }
    if (relay->part.failed)
        relay_fail_without_memory(relay);
    else if (n == 0 && relay->part.capacity > PART_BYTES_KEPT)
        hth_buffer_deinit(&relay->part);
    return true;
}

/* ---- replies without frames ---- */

/*
 * Did a stream of lines begin early with spaces only, while the worker's whole reply is one line? This happens when
 * Ollama's client loads a model.
 */
static bool is_one_line(const hth_relay *relay)
{
    return relay->is_refused && relay->form == FORM_LINES && relay->status == 200 && relay->record.n_tokens_out == 0;
}

/* A reply without frames is complete. */
static void relay_end_plain(hth_relay *relay)
{
    hth_places_note_end(&relay->seeker, HTH_NODE_END_WELL);
    if (is_one_line(relay)) {
        hth_buffer_add(&relay->body, "\n", 1);
        if (relay->body.failed) {
            relay_fail_without_memory(relay);
            return;
        }
        relay_write(relay, relay->body.text, relay->body.n);
        if (relay->state != RELAY_OVER)
            relay_end_stream(relay, relay->status, true);
    } else if (relay->is_refused)
        fail_as_refused(relay, relay->status);
    else if (relay->has_begun)
        relay_end_stream(relay, relay->status, true);
    else
        relay_reply(relay, relay->status, relay->content_type[0] ? relay->content_type : NULL,
                    hth_buffer_text(&relay->body), relay->body.n);
}

/* ---- one relay and its workers: request, reply, replacement ---- */

static void relay_ask(hth_relay *relay, const hth_place *after);

/*
 * Fail with an error that the client must not retry: its library would send the request again, and the next worker
 * would die.
 */
__attribute__((format(printf, 2, 3))) static void fail_for_good(hth_relay *relay, const char *format, ...)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    va_list arguments;

    va_start(arguments, format);
    hth_api_fail_list(&error, HTH_API_INTERNAL, NULL, format, arguments);
    va_end(arguments);
    if (!relay->has_begun && relay->exchange)
        hth_http_header_add(relay->exchange, "x-should-retry", "false");
    hth_warn(relay->proxy->options.log, "request %s: given up: %s", relay->request.request_id, error.message);
    relay_fail(relay, &error);
}

static void fail_after_deaths(hth_relay *relay)
{
    static const char lines[] = "; its last lines:"; /* of the worker's log, which is not for clients */
    char cause[sizeof(((hth_worker_view *)NULL)->last_death)] = "";
    const char *end;

    if (!relay->place.node)
        hth_places_last_death(relay->proxy->options.places, relay->model->name, cause, sizeof(cause));
    end = strstr(cause, lines);
    fail_for_good(
        relay, "workers of model '%s' died %u times while they computed this request, which is not tried again%s%.*s",
        relay->model->name, relay->n_vain, cause[0] ? "; the last one: " : "",
        end ? (int)(end - cause) : (int)strlen(cause), cause);
}

/* Decide whether the worker died, if that is known now. False: it was one death too many, and the relay is over. */
static bool judge(hth_relay *relay, hth_place_fate fate)
{
    if (!relay->is_unjudged)
        return true;
    if (fate == HTH_FATE_DIED) {
        relay->is_unjudged = false;
        relay->is_cleared = false;
        relay->n_deaths++;
        relay->n_vain = relay->came_further && relay->proxy->options.limits.retries_max > 0 ? 0 : relay->n_vain + 1;
    } else if (fate == HTH_FATE_ENDED) {
        relay->is_unjudged = false; /* it was stopped in order */
    }
    if (relay->n_vain <= relay->proxy->options.limits.retries_max)
        return true;
    fail_after_deaths(relay);
    return false;
}

static hth_place_fate fate_of_lost(const hth_relay *relay)
{
    return hth_places_fate(relay->proxy->options.places, relay->model->name, &relay->lost);
}

/* The same, later. */
static bool judge_lost(hth_relay *relay)
{
    return !relay->is_unjudged || judge(relay, fate_of_lost(relay));
}

/* Does a suspect at its turn explain the loss of this place? */
static bool is_anothers_turn(const hth_relay *relay)
{
    const proxy_model *model = relay->model;

    return (model->on_turn && model->on_turn != relay && model->on_turn->place.node == relay->place.node) ||
           hth_place_is_same(&model->place_of_turn, &relay->place);
}

/* The place was lost. end: how, as far as a node told it; this node's workers tell nothing. */
static void broken(hth_relay *relay, hth_node_end end)
{
    proxy_model *model = relay->model;
    bool is_anothers = is_anothers_turn(relay);

    if (!judge_lost(relay)) /* an earlier place: another node had the request meanwhile */
        return;
    if (relay->has_failed) {
        relay_end_stream(relay, 500, true); /* the client has the error event */
        return;
    }
    if (!relay->request.generates && relay->has_begun) {
        relay_cut(relay, 502);
        return;
    }
    if (model->on_turn == relay) {
        if (!relay->place.node || end == HTH_NODE_END_DIED)
            model->place_of_turn = relay->place;
        is_anothers = false;
    }
    relay_leave_line(relay);
    relay->n_breaks += !relay->came_further;
    relay->n_node_breaks += !relay->came_further && relay->place.node && end == HTH_NODE_END_BROKEN;
    relay->is_unjudged = !is_anothers;
    relay->lost = relay->place;
    hth_info(relay->proxy->options.log, "request %s: the connection to the worker of model '%s'%s%s broke",
             relay->request.request_id, model->name, relay->place.node ? " at node " : "",
             relay->place.node ? hth_node_name(relay->place.node) : "");
    hth_places_note_end(&relay->seeker, end);
    if (relay->is_known_lost && relay->has_begun) {
        relay_fail_with(
            relay, HTH_API_OVERLOADED,
            "the reply was broken off with its worker and cannot go on: it is too long to be remembered here");
        return;
    }
    if (relay->request.is_once) {
        fail_for_good(
            relay,
            "the connection to the worker of model '%s' broke off before its answer; the request is not tried again: "
            "the next worker's slots are empty, and the file may be written or not; send the prompt and the request "
            "anew",
            model->name);
        return;
    }
    if (relay->n_breaks > relay->proxy->options.limits.retries_max + BREAKS_MORE_MAX ||
        relay->n_node_breaks > relay->proxy->options.limits.retries_max) {
        fail_for_good(relay,
                      "connections to workers of model '%s' broke off %u times while they computed this request, which "
                      "is not tried again",
                      model->name, relay->n_breaks);
        return;
    }
    if (!judge(relay, end == HTH_NODE_END_DIED ? HTH_FATE_DIED : fate_of_lost(relay)))
        return;
    relay_tell_break(relay);
    if (relay->state == RELAY_OVER) /* there was no memory for the comment */
        return;
    relay_ask(relay, &relay->place);
}

/* ---- a node that has no place ---- */

static void take_refusal(hth_relay *relay, const char *bytes, size_t n)
{
    if (relay->part.n < REFUSAL_BYTES_MAX)
        hth_buffer_add(&relay->part, bytes, n < REFUSAL_BYTES_MAX ? n : REFUSAL_BYTES_MAX);
}

/* The answer is complete: another place is asked, or the same one when it can. */
static void end_refused(hth_relay *relay)
{
    if (relay->refusal == HTH_NO_PLACE_DIED || relay->refusal == HTH_NO_PLACE_ENDED) {
        broken(relay, relay->refusal == HTH_NO_PLACE_DIED ? HTH_NODE_END_DIED : HTH_NODE_END_OTHER);
        return;
    }
    hth_info(relay->proxy->options.log, "request %s: node %s has no place for model '%s': %s",
             relay->request.request_id, hth_node_name(relay->place.node), relay->model->name,
             hth_buffer_text(&relay->part));
    hth_places_note_refused(&relay->seeker, hth_buffer_text(&relay->part));
    relay_ask(relay, &relay->place);
}

/*
 * The worker sent bytes that are not a valid frame or reply; what describes the error. End its call, and go on as after
 * a broken connection.
 */
static void relay_give_up_call(hth_relay *relay, const char *what)
{
    hth_upstream_cancel(relay->call);
    relay->call = NULL;
    hth_warn(relay->proxy->options.log, "request %s: the worker of model '%s' sent something that is no %s",
             relay->request.request_id, relay->model->name, what);
    broken(relay, HTH_NODE_END_BROKEN);
}

static void on_head(const hth_upstream_head *head, void *user_data)
{
    hth_relay *relay = user_data;

    if (head->status > HTH_UPSTREAM_STATUS_MAX) {
        relay_give_up_call(relay, "reply");
        return;
    }
    relay->run = relay->place.node && !head->is_of_worker                                             ? RUN_NO_PLACE
               : relay->request.generates && strcmp(head->content_type, HTH_FRAMES_CONTENT_TYPE) == 0 ? RUN_FRAMES
                                                                                                      : RUN_PLAIN;
    relay->refusal = head->status;
    if (relay->run != RUN_PLAIN)
        return;
    if (relay->has_begun) {
        relay->is_refused = true; /* only a resumed stream can have begun */
        relay->status = head->status;
        return;
    }
    hth_buffer_clear(&relay->body);
    relay->status = head->status;
    relay->retry_after_s = head->retry_after_s;
    (void)snprintf(relay->content_type, sizeof(relay->content_type), "%s", head->content_type); /* cut if too long */
    relay_note_ignored(relay, head->notes, strlen(head->notes));
}

static bool on_bytes(const void *bytes, size_t n, void *user_data)
{
    hth_relay *relay = user_data;

    if (relay_is_backlogged(relay)) {
        relay->is_paused = true;
        return false;
    }
    if (relay->run == RUN_NO_PLACE)
        take_refusal(relay, bytes, n);
    else if (relay->run < RUN_FRAMES)
        relay_take_body(relay, bytes, n);
    else if (!relay_take_frames(relay, bytes, n))
        relay_give_up_call(relay, "frame");
    hth_journal_send(relay->journal);
    return true;
}

static void on_done(hearth_status status, const hearth_error *err, void *user_data)
{
    hth_relay *relay = user_data;

    relay->call = NULL;
    if (status == HEARTH_NO_MEMORY)
        relay_fail_status(relay, err);
    else if (status == HEARTH_OK && relay->run == RUN_NO_PLACE)
        end_refused(relay);
    else if (status == HEARTH_OK && relay->run < RUN_FRAMES)
        relay_end_plain(relay);
    else
        broken(relay, HTH_NODE_END_BROKEN);
}

/* Forget the reply: it starts again. */
static void forget(hth_relay *relay)
{
    journal_drop(relay);
    relay->has_head = false;
    relay->is_known_lost = false;
    relay->record.n_tokens_out = 0;
    hth_buffer_clear(&relay->body);
    hth_buffer_clear(&relay->known);
    hth_buffer_clear(&relay->fresh);
    relay->n_elsewhere_there = 0;
}

/*
 * Which of the known tokens were drawn elsewhere, as this node sees it? All that were known when the reply came to it:
 * what it drew since then, in this worker or an earlier one, is its own.
 */
static void note_elsewhere(hth_relay *relay, const hth_node *node)
{
    relay->n_elsewhere = relay->proxy->options.same_bits ? 0
                       : node == relay->drew             ? relay->n_elsewhere_there
                                                         : relay->known.n;
}

static void begin_run(hth_relay *relay, const hth_place *place)
{
    if (relay->n_new_tokens > 0) {
        relay->drew = relay->place.node;
        relay->n_elsewhere_there = relay->n_elsewhere;
    }
    relay->run = RUN_SILENT;
    relay->is_refused = false;
    relay->is_paused = false;
    relay->n_new_tokens = 0;
    relay->came_further = false;
    relay->n_again = 0;
    hth_buffer_clear(&relay->part);
    hth_buffer_deinit(&relay->ahead);
    hth_buffer_deinit(&relay->record_bytes);
    if (relay->n_runs > 0)
        hth_buffer_deinit(&relay->history);
    relay->has_whole_record = false;
    /* If the last worker's whole reply was an error, the next worker starts a new one. */
    if (!relay->request.generates ||
        (!relay->has_begun && (relay->is_known_lost || (relay->has_head && relay->status >= 400))))
        forget(relay);
    if (relay->fresh.n > 0)
        hth_buffer_add(&relay->known, relay->fresh.text, relay->fresh.n);
    hth_buffer_clear(&relay->fresh);
    note_elsewhere(relay, place->node);
}

/* The part of the request that is needed for the prompt. node NULL: for this node's worker. */
static void describe(const hth_relay *relay, const hth_node *node, const char *socket_path, hth_relay_call *call)
{
    hth_relay_body body = { .type = relay->kept_type, .bytes = relay->kept_body, .n = relay->n_kept_body };

    if (!relay->kept_body) {
        body.type = hth_http_header(relay->exchange, "Content-Type");
        body.bytes = hth_http_body(relay->exchange, &body.n);
    }
    hth_relay_call_init(call, &relay->request, &body, node, socket_path,
                        hth_places_own_name(relay->proxy->options.places));
}

/* The part that is needed for the reply. */
static void add_reply(const hth_relay *relay, hth_relay_call *call)
{
    if (relay->seeker.rows_node[0])
        hth_relay_call_add(call, HTH_HEADER_ROWS, relay->seeker.rows_node);
    hth_relay_call_add(call, HTH_HEADER_FRAMES, "1");
    hth_relay_call_add(call, HTH_HEADER_ID, relay->request.id);
    hth_relay_call_add_number(call, HTH_HEADER_CREATED, relay->created_s);
    hth_relay_call_add_number(call, HTH_HEADER_SEED, relay->seed);
    if (relay->history.n > 0)
        hth_relay_call_add_piece(call, HTH_PIECE_HISTORY, HTH_HEADER_HISTORY, relay->history.text, relay->history.n);
    if (relay->n_runs == 0)
        return;
    /* This header says that the request was in a queue before and keeps its place, even with 0 known bytes. */
    hth_relay_call_add_piece(call, HTH_PIECE_KNOWN, HTH_HEADER_KNOWN, relay->known.text, relay->known.n);
    hth_relay_call_add_number(call, HTH_HEADER_AGE, (hth_os_monotonic_ns() - relay->begun_ns) / 1000);
    if (relay->n_elsewhere > 0)
        hth_relay_call_add_number(call, HTH_HEADER_ELSEWHERE, relay->n_elsewhere);
}

/* Send the request. */
static void run(hth_relay *relay, const hth_place *place)
{
    const hth_relay_request *asked = &relay->request;
    const hth_upstream_watch watch = {
        .on_head = on_head, .on_bytes = on_bytes, .on_done = on_done, .user_data = relay
    };
    hth_relay_call call;
    hearth_error err;

    begin_run(relay, place);
    if (relay->known.failed) {
        relay_fail_without_memory(relay);
        return;
    }
    describe(relay, place->node, place->socket_path, &call);
    if (asked->generates)
        add_reply(relay, &call);
    relay->place = *place;
    relay->place.socket_path = NULL;
    relay->state = RELAY_RUNNING;
    relay->n_runs++;
    if (relay->n_runs > 1)
        hth_info(relay->proxy->options.log, "request %s: goes on in another worker of model '%s'%s%s",
                 asked->request_id, relay->model->name, place->node ? " at node " : "",
                 place->node ? hth_node_name(place->node) : "");
    if (hth_upstream_begin(relay->proxy->options.upstream, &call.request, &watch, &relay->call, &err) != HEARTH_OK)
        relay_fail_status(relay, &err);
}

/* ---- what another node knows of the prompt ---- */

static void on_asked(hth_ask_end end, hth_buffer *history_take, void *user_data)
{
    hth_relay *relay = user_data;
    hth_place found = relay->found;

    relay->proxy->n_asks[end]++;
    relay->ask = NULL;
    relay->history = *history_take;
    relay->found = (hth_place){ .generation = 0 };
    run(relay, &found);
    free((char *)found.socket_path); /* the relay's copy */
}

/* Before the first worker gets the request: ask the node whose rows it may fetch. False: it is not asked. */
static bool ask_history(hth_relay *relay, const hth_place *place)
{
    const size_t bytes_max = HTH_HISTORY_PART_BYTES_MAX;
    const hth_node *node;
    hth_relay_call call;
    size_t n;

    if (!relay->request.generates || relay->n_runs > 0 || relay->has_asked || !hth_places_knows(&relay->seeker, &node))
        return false;
    relay->has_asked = true;
    relay->found = *place;
    relay->found.socket_path = place->socket_path ? strdup(place->socket_path) : NULL;
    if (place->socket_path && !relay->found.socket_path)
        return false;
    describe(relay, node, NULL, &call);
    n = call.request.body_bytes[HTH_PIECE_BODY] + relay->request.past_bytes;
    relay->ask = hth_history_ask_begin(&(hth_history_ask_options){
        .upstream = relay->proxy->options.upstream,
        .places = relay->proxy->options.places,
        .model = relay->model->name,
        .node = node,
        .request = &call.request,
        .bytes_max =
            n < (bytes_max - HISTORY_BYTES_MIN) / HISTORY_TIMES ? HISTORY_TIMES * n + HISTORY_BYTES_MIN : bytes_max,
        .on_end = on_asked,
        .user_data = relay });
    return relay->ask != NULL;
}

static hth_relay *relay_of(hth_place_seeker *seeker)
{
    return (hth_relay *)((char *)seeker - offsetof(hth_relay, seeker));
}

static void on_found(hth_place_seeker *seeker, const hth_place *place)
{
    hth_relay *relay = relay_of(seeker);

    if (!judge_lost(relay))
        return;
    if (relay_is_suspect(relay) && !relay_take_turn(relay)) {
        hth_place_seeker_cancel(&relay->seeker); /* the relay asks again at its turn */
        return;
    }
    if (!ask_history(relay, place))
        run(relay, place);
}

static void on_failed(hth_place_seeker *seeker, const hearth_error *err)
{
    hth_relay *relay = relay_of(seeker);
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    if (relay->is_unjudged) {
        const hth_place_fate fate = fate_of_lost(relay);

        if (!judge(relay, fate))
            return;
        if (relay->is_unjudged && fate == HTH_FATE_WORKS) { /* although the connection broke */
            relay->is_unjudged = false;
            relay_ask(relay, NULL);
            return;
        }
    }
    hth_api_fail(&error,
                 err->status == HEARTH_NOT_FOUND   ? HTH_API_NOT_FOUND
                 : err->status == HEARTH_CANCELLED ? HTH_API_NOT_RESIDENT
                                                   : HTH_API_OVERLOADED,
                 NULL, "%s", err->message);
    error.retry_after_s = err->retry_after_s;
    if (error.kind == HTH_API_OVERLOADED && error.retry_after_s == 0)
        error.retry_after_s = 1;
    relay_fail(relay, &error);
}

/* Seek a place. after: the one that was lost; NULL: none. */
static void relay_ask(hth_relay *relay, const hth_place *after)
{
    hearth_error err;

    relay->state = RELAY_WAITING;
    relay->seeker.outlasts_breaks = relay->record.n_tokens_out > 0;
    if (hth_places_want(relay->proxy->options.places, relay->model->name, after, &relay->seeker, &err) != HEARTH_OK)
        relay_fail_status(relay, &err);
    else if (relay_may_begin_early(relay))
        proxy_watch_time(relay->proxy);
}

/* The reply goes on at another place, if it can. */
static void relay_move(hth_relay *relay)
{
    const bool can_go_on =
        relay->request.generates ? relay->run != RUN_PLAIN && !relay->is_known_lost : !relay->has_begun;

    relay->seeker.outlasts_breaks = relay->record.n_tokens_out > 0;
    if (relay->state != RELAY_RUNNING || !can_go_on || relay->request.is_once || relay->request.is_local ||
        relay->has_failed || relay->is_refused || !hth_places_has_other(&relay->seeker))
        return;
    hth_info(relay->proxy->options.log, "request %s: moves away from node %s", relay->request.request_id,
             hth_places_node_name(relay->proxy->options.places, &relay->place));
    hth_upstream_cancel(relay->call);
    relay->call = NULL;
    relay_leave_line(relay);
    relay_ask(relay, NULL);
}

/* ---- all relays ---- */

static void give_turn(proxy_model *model)
{
    hth_relay *relay = model->line;

    if (model->on_turn || !relay)
        return;
    DL_DELETE2(model->line, relay, line_prev, line_next);
    relay->state = RELAY_WAITING;
    model->on_turn = relay;
    relay_ask(relay, &relay->place);
}

static void fail_in_line(hth_relay *relay)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_OVERLOADED, NULL,
                 "workers of model '%s' died with this request, so it waits while other such requests are tried; it "
                 "waited too long",
                 relay->model->name);
    error.retry_after_s = 10;
    relay_fail(relay, &error);
}

static void on_tick(evutil_socket_t fd, short what, void *user_data)
{
    hth_proxy *proxy = user_data;
    uint64_t now_ns = hth_os_monotonic_ns(), line_ns = hth_ms_to_ns(proxy->options.limits.wait_timeout_ms);
    bool is_needed = false;
    hth_relay *relay;

    (void)fd;
    (void)what;
    /* The end of a relay may end others: see proxy_note_over. */
    for (proxy->next = proxy->relays; (relay = proxy->next) != NULL;) {
        proxy->next = relay->next;
        if (relay->form != FORM_BYTES && proxy->options.limits.keep_alive_ms > 0)
            relay_keep_alive(relay, now_ns);
        else if (relay_may_begin_early(relay))
            relay_begin_early(relay, now_ns);
        is_needed =
            is_needed || relay->form != FORM_BYTES || relay->state == RELAY_IN_LINE || relay_may_begin_early(relay);
        if (relay->state == RELAY_IN_LINE && now_ns - relay->line_ns >= line_ns)
            fail_in_line(relay);
    }
    if (is_needed)
        proxy_watch_time(proxy);
}

static void relay_free(hth_relay *relay)
{
    hth_buffer_deinit(&relay->part);
    hth_buffer_deinit(&relay->ahead);
    hth_buffer_deinit(&relay->record_bytes);
    hth_buffer_deinit(&relay->body);
    hth_buffer_deinit(&relay->known);
    hth_buffer_deinit(&relay->fresh);
    hth_buffer_deinit(&relay->history);
    free((char *)relay->found.socket_path); /* its copy */
    free(relay->more_step_ns);
    free(relay->kept_body);
    free(relay->anchors);
    model_unref(relay->proxy, relay->model);
    free(relay);
}

static void tell_over(hth_proxy *proxy)
{
    while (proxy->over) {
        hth_relay *relay = proxy->over;

        DL_DELETE(proxy->over, relay);
        proxy->n_relays--;
        relay->request.on_over(&relay->record, relay->request.user_data);
        relay_free(relay);
    }
}

static void on_soon(evutil_socket_t fd, short what, void *user_data)
{
    hth_proxy *proxy = user_data;
    proxy_model *model;

    (void)fd;
    (void)what;
    LL_FOREACH(proxy->models, model)
    give_turn(model);
    tell_over(proxy);
}

void hth_proxy_leave(hth_proxy *proxy, const hth_node *node)
{
    hth_relay *relay;

    for (proxy->next = proxy->relays; (relay = proxy->next) != NULL;) { /* as in on_tick */
        proxy->next = relay->next;
        if (relay->place.generation > 0 && relay->place.node == node)
            relay_move(relay);
    }
}

void hth_proxy_end_all(hth_proxy *proxy, const hth_api_error *error)
{
    while (proxy->relays) {
        hth_relay *relay = proxy->relays;

        relay->record.goes_on = hth_journal_is_stored(relay->journal);
        if (relay->record.goes_on)
            relay_cut(relay, HTH_STATUS_CLIENT_GONE); /* the client finds the rest at another node */
        else
            relay_fail(relay, error);
    }
}

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *copy_text(char **at, const char *text)
{
    char *copy = *at;
    size_t n = text_bytes(text);

    if (!text)
        return NULL;
    memcpy(copy, text, n);
    *at += n;
    return copy;
}

/* NULL without memory. */
static hth_relay *relay_new(hth_proxy *proxy, hth_http_exchange *exchange, const hth_relay_request *request)
{
    size_t n_text = text_bytes(request->method) + text_bytes(request->target) + text_bytes(request->id) +
                    text_bytes(request->request_id) + text_bytes(request->traceparent) + text_bytes(request->salt) +
                    text_bytes(request->adapter);
    hth_relay *relay = calloc(1, sizeof(*relay) + n_text);
    proxy_model *model = relay ? model_ref(proxy, request->model) : NULL;
    hth_relay_request *own;
    char *at;

    if (!model) {
        free(relay);
        return NULL;
    }
    relay->proxy = proxy;
    relay->model = model;
    relay->exchange = exchange;
    relay->request = *request;
    own = &relay->request;
    at = relay->text;
    own->model = model->name;
    own->method = copy_text(&at, request->method);
    own->target = copy_text(&at, request->target);
    own->id = copy_text(&at, request->id);
    own->request_id = request->request_id ? copy_text(&at, request->request_id) : own->id;
    own->traceparent = copy_text(&at, request->traceparent);
    own->salt = copy_text(&at, request->salt);
    own->adapter = copy_text(&at, request->adapter);
    own->wants_kept = request->wants_kept && proxy->options.kept;
    if (request->key)
        own->key = memcpy(relay->key, request->key, sizeof(relay->key));
    if (own->record)
        relay->record = *own->record;
    relay->begun_ns = hth_os_monotonic_ns();
    relay->anchors = request->n_anchors > 0 ? malloc(request->n_anchors * sizeof(hth_anchor)) : NULL;
    if (relay->anchors) /* without memory, nothing is known of the prompt */
        memcpy(relay->anchors, request->anchors, request->n_anchors * sizeof(hth_anchor));
    relay->seeker = (hth_place_seeker){ .on_found = on_found,
                                        .on_failed = on_failed,
                                        .since_ns = relay->begun_ns,
                                        .is_local = request->is_local,
                                        .is_elsewhere = request->is_elsewhere,
                                        .beginning = request->beginning,
                                        .anchors = relay->anchors,
                                        .n_anchors = relay->anchors ? request->n_anchors : 0,
                                        .adapter = own->adapter };
    relay->created_s = hth_os_unix_seconds();
    relay->seed = hth_draw_seed();
    DL_APPEND(proxy->relays, relay);
    proxy->n_relays++;
    return relay;
}

static void refuse(hth_http_exchange *exchange, const hth_relay_request *request)
{
    const hth_api_error error = { .kind = HTH_API_OVERLOADED };
    hth_access_record record = request->record ? *request->record : (hth_access_record){ .key = "" };

    record.status = hth_api_error_http_status(request->dialect, &error);
    record.bytes_out = sizeof(no_memory_body) - 1;
    hth_http_reply(exchange, record.status, body_type, no_memory_body, sizeof(no_memory_body) - 1);
    request->on_over(&record, request->user_data);
}

hth_relay *hth_proxy_relay(hth_proxy *proxy, hth_http_exchange *exchange, const hth_relay_request *request)
{
    hth_relay *relay = relay_new(proxy, exchange, request);

    if (!relay) {
        refuse(exchange, request);
        return NULL;
    }
    hth_http_watch_set(exchange,
                       &(hth_http_watch){ .on_close = relay_on_close, .on_room = relay_on_room, .user_data = relay });
    relay_ask(relay, NULL);
    return relay;
}

/* Make its kept stream, with what the client got elsewhere. False: none can be kept now, or there is no memory. */
static bool take_stream(hth_relay *relay, const hth_journaled *journaled, const hth_buffer *events)
{
    relay->has_head = relay->is_stream = relay->has_begun = relay->record.is_stream = true;
    relay->status = relay->record.status = journaled->status;
    (void)snprintf(relay->content_type, sizeof(relay->content_type), "%s", journaled->content_type); /* it had room */
    relay->form = form_of(journaled->content_type);
    relay->written_ns = relay->begun_ns;
    proxy_watch_time(relay->proxy);
    relay->kept = kept_new(relay);
    if (!relay->kept)
        return false;
    hth_kept_stream_note_taken(relay->kept);
    relay->record.bytes_out = events->n;
    if (events->n > 0)
        memcpy(relay->last_bytes, events->text + events->n - hth_smaller(events->n, sizeof(relay->last_bytes)),
               hth_smaller(events->n, sizeof(relay->last_bytes)));
    if (events->n == 0 || hth_kept_stream_write(relay->kept, events->text, events->n))
        return true;
    hth_kept_stream_discard(relay->kept);
    relay->kept = NULL;
    return false;
}

/* Undo relay_new. */
static void relay_undo(hth_relay *relay)
{
    hth_proxy *proxy = relay->proxy;

    DL_DELETE(proxy->relays, relay);
    proxy->n_relays--;
    relay_free(relay);
}

hth_relay *hth_proxy_take_over(hth_proxy *proxy, const hth_relay_request *request, const hth_journaled *journaled,
                               hth_journal_rest *rest, hth_journal *journal)
{
    const bool is_stream = *journaled->content_type != '\0';
    hth_relay *relay = is_stream && !proxy->options.kept ? NULL : relay_new(proxy, NULL, request);
    bool ok;

    if (!relay) {
        hth_journal_leave(journal);
        return NULL;
    }
    relay->kept_body = malloc(journaled->n_body + 1);
    ok = relay->kept_body != NULL;
    if (ok && journaled->n_body > 0)
        memcpy(relay->kept_body, journaled->body, journaled->n_body);
    relay->n_kept_body = journaled->n_body;
    (void)snprintf(relay->kept_type, sizeof(relay->kept_type), "%s", journaled->body_type); /* it had room */
    relay->seed = journaled->seed;
    relay->created_s = journaled->created_s;
    relay->is_detached = !is_stream;
    (void)snprintf(relay->seeker.digest, sizeof(relay->seeker.digest), "%s", journaled->digest); /* these had room */
    (void)snprintf(relay->seeker.keyspace, sizeof(relay->seeker.keyspace), "%s", journaled->keyspace);
    if (!ok || (is_stream && !take_stream(relay, journaled, &rest->events))) {
        relay_undo(relay);
        hth_journal_leave(journal);
        return NULL;
    }
    relay->known = rest->known;
    rest->known = (hth_buffer){ .text = NULL };
    relay->n_elsewhere_there = relay->known.n;
    relay->record.n_tokens_out = rest->n_tokens;
    relay->n_runs = 1;
    hth_journal_set_owner(journal, &(hth_journal_owner){ .on_lost = on_journal_lost, .user_data = relay });
    relay->journal = journal;
    relay_ask(relay, NULL);
    return relay;
}

void hth_proxy_cancel(hth_relay *relay)
{
    if (relay->state != RELAY_OVER)
        relay_cut(relay, HTH_STATUS_CLIENT_GONE);
}

hearth_status hth_proxy_new(const hth_proxy_options *options, hth_proxy **out, hearth_error *err)
{
    struct event_base *base = hth_upstream_base(options->upstream);
    hth_proxy *proxy = calloc(1, sizeof(*proxy));

    if (!proxy)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the proxy");
    proxy->options = *options;
    hth_proxy_set_limits(proxy, &options->limits);
    proxy->soon = event_new(base, -1, 0, on_soon, proxy);
    proxy->tick = event_new(base, -1, 0, on_tick, proxy);
    if (!proxy->soon || !proxy->tick) {
        hth_proxy_free(proxy);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the proxy");
    }
    *out = proxy;
    return HEARTH_OK;
}

void hth_proxy_free(hth_proxy *proxy)
{
    proxy_model *model, *next;

    if (!proxy)
        return;
    assert(!proxy->relays);
    tell_over(proxy);
    LL_FOREACH_SAFE(proxy->models, model, next)
    free(model);
    if (proxy->soon)
        event_free(proxy->soon);
    if (proxy->tick)
        event_free(proxy->tick);
    free(proxy);
}

void hth_proxy_set_limits(hth_proxy *proxy, const hth_relay_limits *limits)
{
    const uint32_t keep_alive_ms = limits->keep_alive_ms, wait_ms = limits->wait_timeout_ms;
    const uint32_t shorter_ms = keep_alive_ms > 0 && keep_alive_ms < wait_ms ? keep_alive_ms : wait_ms;

    proxy->options.limits = *limits;
    proxy->tick_ms = shorter_ms / 4;
    if (proxy->tick_ms < TICK_MS_MIN)
        proxy->tick_ms = TICK_MS_MIN;
    if (proxy->tick_ms > TICK_MS_MAX)
        proxy->tick_ms = TICK_MS_MAX;
}

size_t hth_proxy_n_relays(const hth_proxy *proxy)
{
    return proxy->n_relays;
}

const uint64_t *hth_proxy_n_asks(const hth_proxy *proxy)
{
    return proxy->n_asks;
}
