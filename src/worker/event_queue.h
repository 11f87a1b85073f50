/*
 * event_queue.h - delivers the events of a worker's requests from the library's queue to the event loop, grouped by
 * request
 *
 * The scheduler wakes the loop once a round. The loop collects the waiting events and takes one request after another
 * with all of its events, so that the events of one round are sent as one piece.
 *
 * The event of a token has the text that the token released. Text without a token (an echoed prompt, text that was held
 * back until the end) comes right before the next token of its reply, or right before the end. So a reader that has
 * some events of a reply has, for each token, either all of the released text or none.
 */
#ifndef HTH_WORKER_EVENT_QUEUE_H
#define HTH_WORKER_EVENT_QUEUE_H

#include "api/buffer.h"
#include "hearth.h"
#include "models/events.h"
#include "worker/slot_memory.h"

typedef struct hth_event_queue hth_event_queue;       /* of one worker */
typedef struct hth_request_events hth_request_events; /* the events of one request; belongs to one queue */

typedef enum hth_reply_event_kind {
    HTH_REPLY_EVENT_PROGRESS, /* number of prompt tokens restored */
    HTH_REPLY_EVENT_PREFILL,  /* number of prompt tokens evaluated; only if hth_request_events_want asked */
    HTH_REPLY_EVENT_TEXT,     /* text without a token */
    HTH_REPLY_EVENT_TOKEN,
    HTH_REPLY_EVENT_DONE, /* the last event of the reply */
} hth_reply_event_kind;

typedef struct hth_reply_event {
    hth_reply_event_kind kind;
    uint32_t reply;
    uint32_t n_done;             /* PROGRESS, PREFILL */
    hearth_token_event token;    /* TOKEN; TEXT: only text and n_bytes */
    const hearth_result *result; /* DONE: valid until the next hth_event_queue_collect */
} hth_reply_event;

/* HEARTH_NO_MEMORY, HEARTH_IO. */
hearth_status hth_event_queue_new(hth_event_queue **out, hearth_error *err);
void hth_event_queue_free(hth_event_queue *queue); /* after all hth_request_events; accepts NULL */

/* ---- before a request is submitted ---- */

/* owner: for hth_request_events_owner. NULL without memory. Any thread. */
hth_request_events *hth_request_events_new(hth_event_queue *queue, uint32_t n_replies, void *owner);
/* Call after the DONE of every submitted reply was read. Accepts NULL. Event loop. */
void hth_request_events_free(hth_request_events *events);
void *hth_request_events_owner(const hth_request_events *events);
/*
 * Ask for more. Call before a request is submitted. flags: HEARTH_EVENTS_STATS: TOKEN events have statistics, which are
 * large; HEARTH_EVENTS_PREFILL: PREFILL events come.
 */
void hth_request_events_want(hth_request_events *events, unsigned flags);

/*
 * When reply 0 ends, record its evaluated tokens in slots under the number slot. cache_salt of the request must outlive
 * the events. Call before a request is submitted.
 */
void hth_request_events_remember(hth_request_events *events, hth_slot_memory *slots, const hearth_request *request,
                                 uint32_t slot);

/* One submitted request of the library: the replies first, first + 1, ... of events. It must outlive the request. */
typedef struct hth_request_part {
    hth_request_events *events;
    uint32_t first;
    uint64_t id;              /* hearth_submit's id_out */
    hth_event_source *source; /* holds back the events until the part is opened */
    const void *owner;        /* the part's, for callbacks of the request that have the part as user_data */
} hth_request_part;

/* Send the events of a request to part. Then call hth_submit_held(model, request, &part->id, &part->source, ...). */
void hth_request_part_connect(hth_request_part *part, hearth_request *request);
/* Call after the submission: the loop may take the events from now on. */
void hth_request_part_open(hth_request_part *part);

/* Wake the loop. Any thread. */
void hth_event_queue_wake(hth_event_queue *queue);

/* ---- event loop ---- */

/*
 * The number of restored prompt tokens of reply i according to the collected events, whether or not PROGRESS was read
 * yet.
 */
uint32_t hth_request_events_n_restored(const hth_request_events *events, uint32_t i);

/* Readable while events wait, and after hth_event_queue_wake. */
int hth_event_queue_fd(const hth_event_queue *queue);
/* Collect the waiting events. All events collected before must have been read; their memory is no longer valid. */
void hth_event_queue_collect(hth_event_queue *queue);
/* Take the next request that has collected events; NULL: none. */
hth_request_events *hth_event_queue_take(hth_event_queue *queue);
/*
 * Read the next event of the request that was taken last. False: none is left. *out is valid until the next collection.
 */
bool hth_event_queue_read(hth_event_queue *queue, hth_reply_event *out);

#endif
