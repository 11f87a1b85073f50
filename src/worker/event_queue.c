/*
 * The collected events are an array. The events of one request are a list through this array. Text without a
 * token, and the progress of a restore, are kept with their reply until the event that they precede is read.
 */
#include "worker/event_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/status.h"

enum {
    EVENTS_AT_ONCE = 4096, /* then other work of the loop gets its turn */
    EVENTS_MAX = 1 << 20,  /* waiting; only a hung loop has this many */
    BYTES_MAX = 64 << 20,
    NONE = -1, /* no event */
};

typedef struct waiting_reply {
    hth_buffer text; /* text without a token */
    bool is_text_read;
    uint32_t n_done; /* unread progress of a restore; 0: none */
    uint32_t n_restored;
    hearth_result result; /* of DONE; borrows from the event, except stats */
    hearth_stats stats;
} waiting_reply;

struct hth_request_events {
    /* Fixed after the submission. */
    hth_event_queue *queue;
    void *owner;
    uint32_t n_replies;
    unsigned flags;         /* HEARTH_EVENTS_... */
    hth_slot_memory *slots; /* NULL: reply 0 is not recorded */
    const char *salt;
    hth_slot_adapters adapters; /* of the slot */
    uint32_t slot;

    /* Event loop only: a list through the collected events. */
    bool is_listed;
    hth_request_events *prev, *next;
    int first_event;
    int last_event;
    waiting_reply replies[]; /* [n_replies] */
};

struct hth_event_queue {
    hearth_events *library;
    int fd;
    const hearth_event *collected[EVENTS_AT_ONCE];
    int next_event[EVENTS_AT_ONCE]; /* index of the next event of the same request */
    hth_request_events *listed;     /* requests with collected events */
    hth_request_events *taken;
};

/* ---- making ---- */

hearth_status hth_event_queue_new(hth_event_queue **out, hearth_error *err)
{
    hearth_events_options options = hearth_events_options_default();
    hth_event_queue *queue = calloc(1, sizeof(*queue));
    hearth_status status;

    if (!queue)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    options.n_events_max = EVENTS_MAX;
    options.n_bytes_max = BYTES_MAX;
    status = hearth_events_open(&options, &queue->library, err);
    if (status == HEARTH_OK) {
        queue->fd = hearth_events_fd(queue->library);
        if (queue->fd < 0)
            status = hth_fail(err, HEARTH_IO, "cannot make a pipe for the worker's events");
    }
    if (status != HEARTH_OK) {
        hth_event_queue_free(queue);
        return status;
    }
    *out = queue;
    return HEARTH_OK;
}

void hth_event_queue_free(hth_event_queue *queue)
{
    if (!queue)
        return;
    hearth_events_close(queue->library);
    free(queue);
}

hth_request_events *hth_request_events_new(hth_event_queue *queue, uint32_t n_replies, void *owner)
{
    hth_request_events *events = calloc(1, sizeof(*events) + n_replies * sizeof(events->replies[0]));

    if (!events)
        return NULL;
    events->queue = queue;
    events->owner = owner;
    events->n_replies = n_replies;
    events->flags = HEARTH_EVENTS_RESTORE;
    return events;
}

void hth_request_events_want(hth_request_events *events, unsigned flags)
{
    events->flags |= flags;
}

void hth_request_events_remember(hth_request_events *events, hth_slot_memory *slots, const hearth_request *request,
                                 uint32_t slot)
{
    events->slots = slots;
    events->salt = request->cache_salt;
    events->adapters.n = request->n_adapters < HTH_ADAPTERS_MAX ? request->n_adapters : HTH_ADAPTERS_MAX;
    for (size_t i = 0; i < events->adapters.n; i++)
        events->adapters.list[i] = request->adapters[i];
    events->slot = slot;
}

uint32_t hth_request_events_n_restored(const hth_request_events *events, uint32_t i)
{
    return events->replies[i].n_restored;
}

void *hth_request_events_owner(const hth_request_events *events)
{
    return events->owner;
}

void hth_request_events_free(hth_request_events *events)
{
    if (!events)
        return;
    assert(!events->is_listed); /* the owner must have read the last event */
    if (events->queue->taken == events)
        events->queue->taken = NULL;
    for (uint32_t i = 0; i < events->n_replies; i++)
        hth_buffer_deinit(&events->replies[i].text);
    free(events);
}

void hth_request_part_connect(hth_request_part *part, hearth_request *request)
{
    request->events = part->events->queue->library;
    request->event_flags = part->events->flags;
    request->user_data = part;
}

void hth_request_part_open(hth_request_part *part)
{
    hth_events_release(part->source);
    part->source = NULL;
}

/* ---- collecting ---- */

void hth_event_queue_wake(hth_event_queue *queue)
{
    hearth_events_wake(queue->library);
}

int hth_event_queue_fd(const hth_event_queue *queue)
{
    return queue->fd;
}

static void list(hth_event_queue *queue, hth_request_events *events, int event)
{
    queue->next_event[event] = NONE;
    if (events->is_listed) {
        queue->next_event[events->last_event] = event;
        events->last_event = event;
        return;
    }
    events->is_listed = true;
    events->first_event = events->last_event = event;
    DL_APPEND(queue->listed, events);
}

void hth_event_queue_collect(hth_event_queue *queue)
{
    size_t n = 0;

    assert(!queue->listed);
    queue->taken = NULL;
    (void)hearth_events_take(queue->library, queue->collected, EVENTS_AT_ONCE, 0, &n, NULL); /* cannot fail here */
    for (size_t i = 0; i < n; i++) {
        const hth_request_part *part = queue->collected[i]->user_data;

        list(queue, part->events, (int)i);
    }
}

hth_request_events *hth_event_queue_take(hth_event_queue *queue)
{
    hth_request_events *events = queue->listed;

    assert(!queue->taken || queue->taken->first_event == NONE);
    queue->taken = events;
    if (!events)
        return NULL;
    DL_DELETE(queue->listed, events);
    events->is_listed = false;
    return events;
}

/* ---- reading ---- */

/* Record the evaluated tokens: the prompt and the reply without its last token, which was sampled but not evaluated. */
static void note_slot(const hth_request_events *events, const hearth_event *event)
{
    const hearth_stats *stats = event->result->stats;
    uint32_t n_prompt = stats->finish_tokens < stats->prompt_tokens ? stats->finish_tokens : stats->prompt_tokens;
    uint32_t n_reply = stats->finish_tokens - n_prompt;

    if (!events->slots || stats->finish_tokens == 0)
        return; /* the request never ran: the slot keeps its tokens */
    if (n_reply > stats->completion_tokens)
        n_reply = stats->completion_tokens;
    hth_slot_memory_note(events->slots, events->salt, &events->adapters, events->slot, event->result->prompt, n_prompt,
                         event->result->tokens, n_reply);
}

static hth_reply_event token_event(const hearth_event *event, uint32_t reply)
{
    return (hth_reply_event){
        .kind = HTH_REPLY_EVENT_TOKEN,
        .reply = reply,
        .token = {
            .token = event->token,
            .index = event->index,
            .text = event->text,
            .n_bytes = event->n_bytes,
            .logprobs = event->logprobs,
            .n_top_logprobs = event->n_top_logprobs,
            .is_replayed = event->is_replayed,
            .stats = event->stats,
            .sampler_state = event->sampler_state,
        },
    };
}

static bool read_progress(waiting_reply *waiting, uint32_t reply, hth_reply_event *out)
{
    if (waiting->n_done == 0)
        return false;
    *out = (hth_reply_event){ .kind = HTH_REPLY_EVENT_PROGRESS, .reply = reply, .n_done = waiting->n_done };
    waiting->n_done = 0;
    return true;
}

static bool read_text(waiting_reply *waiting, uint32_t reply, hth_reply_event *out)
{
    if (waiting->text.n == 0 || waiting->is_text_read)
        return false;
    *out = (hth_reply_event){
        .kind = HTH_REPLY_EVENT_TEXT,
        .reply = reply,
        .token = { .text = waiting->text.text, .n_bytes = waiting->text.n },
    };
    waiting->is_text_read = true; /* keep_text clears it */
    return true;
}

static void keep_text(waiting_reply *reply, const hearth_event *event)
{
    if (reply->is_text_read)
        hth_buffer_clear(&reply->text);
    reply->is_text_read = false;
    hth_buffer_add(&reply->text, event->text, event->n_bytes);
}

static hth_reply_event end_event(hth_request_events *events, const hearth_event *event, uint32_t reply)
{
    hearth_result *copy = &events->replies[reply].result;

    if (event->result) {
        *copy = *event->result; /* borrows its arrays */
        events->replies[reply].stats = *event->result->stats;
    }
    copy->stats = &events->replies[reply].stats;
    copy->status = event->status;
    if (event->error)
        copy->error = *event->error;
    if (events->replies[reply].text.failed)
        copy->status = hth_fail(&copy->error, HEARTH_NO_MEMORY, "no memory for the reply");
    if (copy->status == HEARTH_NO_MEMORY)
        copy->finish_reason = HEARTH_FINISH_NONE;
    if (reply == 0 && event->result)
        note_slot(events, event);
    return (hth_reply_event){ .kind = HTH_REPLY_EVENT_DONE, .reply = reply, .result = copy };
}

/* False: the event is held back with its reply. */
static bool read_event(hth_request_events *events, const hearth_event *event, uint32_t i, hth_reply_event *out)
{
    waiting_reply *reply = &events->replies[i];

    switch (event->kind) {
    case HEARTH_EVENT_PROGRESS:
        if (event->phase == HEARTH_PHASE_RESTORE) {
            reply->n_done = reply->n_restored = event->n_done;
            return false;
        }
        *out = (hth_reply_event){ .kind = HTH_REPLY_EVENT_PREFILL, .reply = i, .n_done = event->n_done };
        return true;
    case HEARTH_EVENT_TEXT: keep_text(reply, event); return false;
    case HEARTH_EVENT_TOKEN: *out = token_event(event, i); return true;
    case HEARTH_EVENT_DONE: *out = end_event(events, event, i); return true;
    default: return false; /* not an event of a request */
    }
}

/* Read the held-back parts of the reply that come before the event. Text waits for a token or the end. */
static bool read_before(waiting_reply *reply, const hearth_event *event, uint32_t i, hth_reply_event *out)
{
    if (event->kind == HEARTH_EVENT_TEXT ||
        (event->kind == HEARTH_EVENT_PROGRESS && event->phase == HEARTH_PHASE_RESTORE))
        return false;
    return read_progress(reply, i, out) || (event->kind != HEARTH_EVENT_PROGRESS && read_text(reply, i, out));
}

bool hth_event_queue_read(hth_event_queue *queue, hth_reply_event *out)
{
    hth_request_events *events = queue->taken;

    assert(events);
    while (events->first_event != NONE) {
        const hearth_event *event = queue->collected[events->first_event];
        const hth_request_part *part = event->user_data;
        uint32_t i = part->first + event->reply;

        assert(i < events->n_replies);
        if (read_before(&events->replies[i], event, i, out))
            return true;
        events->first_event = queue->next_event[events->first_event];
        if (read_event(events, event, i, out))
            return true;
    }
    return false;
}
