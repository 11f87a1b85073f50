/*
 * worker_post.c - the queue of events, sorted by the requests that they are of
 *
 * What was collected is an array of events; those of one box are a list through it. Text by itself and progress of a
 * restore are kept with their reply, and come out right before the event that they belong to.
 */
#include "server/worker_post.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"

enum {
    EVENTS_AT_ONCE = 4096, /* then others get a turn */
    EVENTS_MAX = 1 << 20,  /* that wait; only a loop that hangs has so many */
    BYTES_MAX = 64 << 20,
    NONE = -1, /* no event */
};

typedef struct box_reply {
    hth_buffer text; /* by itself, not read yet */
    bool is_text_read;
    uint32_t n_done; /* of a restore, not read yet; 0: nothing new */
    uint32_t n_restored;
    hearth_result result; /* as it was read; borrows from the event, but for its statistics */
    hearth_stats stats;
} box_reply;

struct hth_box {
    /* Fixed once it was submitted. */
    hth_post *post;
    void *owner;
    uint32_t n_replies;
    unsigned flags;         /* HEARTH_EVENTS_... */
    hth_slot_memory *slots; /* NULL: nothing is noted */
    const char *salt;
    uint32_t slot;

    /* The loop's: what was collected for it, a list through the post's events. */
    bool is_listed;
    hth_box *next;
    int first_event;
    int last_event;
    box_reply replies[]; /* [n_replies] */
};

struct hth_post {
    hearth_events *queue;
    int fd;
    const hearth_event *events[EVENTS_AT_ONCE];
    int next_event[EVENTS_AT_ONCE]; /* of the same box */
    hth_box *first;
    hth_box **end;
    hth_box *taken;
};

/* ---- making ---- */

hearth_status hth_post_new(hth_post **out, hearth_error *err)
{
    hearth_events_options options = hearth_events_options_default();
    hth_post *post = calloc(1, sizeof(*post));
    hearth_status status;

    if (!post)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the worker");
    options.n_events_max = EVENTS_MAX;
    options.n_bytes_max = BYTES_MAX;
    post->end = &post->first;
    status = hearth_events_open(&options, &post->queue, err);
    if (status == HEARTH_OK) {
        post->fd = hearth_events_fd(post->queue);
        if (post->fd < 0)
            status = hth_fail(err, HEARTH_IO, "cannot make a pipe for the worker's events");
    }
    if (status != HEARTH_OK) {
        hth_post_free(post);
        return status;
    }
    *out = post;
    return HEARTH_OK;
}

void hth_post_free(hth_post *post)
{
    if (!post)
        return;
    hearth_events_close(post->queue);
    free(post);
}

hth_box *hth_box_new(hth_post *post, uint32_t n_replies, void *owner)
{
    hth_box *box = calloc(1, sizeof(*box) + n_replies * sizeof(box->replies[0]));

    if (!box)
        return NULL;
    box->post = post;
    box->owner = owner;
    box->n_replies = n_replies;
    box->flags = HEARTH_EVENTS_RESTORE;
    return box;
}

void hth_box_tell_stats(hth_box *box)
{
    box->flags |= HEARTH_EVENTS_STATS;
}

void hth_box_tell_prefill(hth_box *box)
{
    box->flags |= HEARTH_EVENTS_PREFILL;
}

void hth_box_remember(hth_box *box, hth_slot_memory *slots, const char *salt, uint32_t slot)
{
    box->flags |= HEARTH_EVENTS_PROMPT;
    box->slots = slots;
    box->salt = salt;
    box->slot = slot;
}

uint32_t hth_box_n_restored(const hth_box *box, uint32_t i)
{
    return box->replies[i].n_restored;
}

void *hth_box_owner(const hth_box *box)
{
    return box->owner;
}

void hth_box_free(hth_box *box)
{
    if (!box)
        return;
    assert(!box->is_listed); /* its last event is read before its owner frees it */
    if (box->post->taken == box)
        box->post->taken = NULL;
    for (uint32_t i = 0; i < box->n_replies; i++)
        hth_buffer_deinit(&box->replies[i].text);
    free(box);
}

void hth_box_part_connect(hth_box_part *part, hearth_request *request)
{
    request->events = part->box->post->queue;
    request->event_flags = part->box->flags;
    request->user_data = part;
}

void hth_box_part_open(hth_box_part *part)
{
    hth_events_release(part->source);
    part->source = NULL;
}

/* ---- collecting ---- */

void hth_post_wake(hth_post *post)
{
    hearth_events_wake(post->queue);
}

int hth_post_fd(const hth_post *post)
{
    return post->fd;
}

static void list(hth_post *post, hth_box *box, int event)
{
    post->next_event[event] = NONE;
    if (box->is_listed) {
        post->next_event[box->last_event] = event;
        box->last_event = event;
        return;
    }
    box->is_listed = true;
    box->first_event = box->last_event = event;
    box->next = NULL;
    *post->end = box;
    post->end = &box->next;
}

void hth_post_collect(hth_post *post)
{
    size_t n = 0;

    assert(!post->first);
    post->taken = NULL;
    (void)hearth_events_take(post->queue, post->events, EVENTS_AT_ONCE, 0, &n, NULL); /* nothing in it can fail */
    for (size_t i = 0; i < n; i++) {
        const hth_box_part *part = post->events[i]->user_data;

        list(post, part->box, (int)i);
    }
}

hth_box *hth_post_take(hth_post *post)
{
    hth_box *box = post->first;

    assert(!post->taken || post->taken->first_event == NONE);
    post->taken = box;
    if (!box)
        return NULL;
    post->first = box->next;
    if (!post->first)
        post->end = &post->first;
    box->is_listed = false;
    return box;
}

/* ---- reading ---- */

/* Prompt and reply as far as they were evaluated: of a reply that ended in order, all but its last token. */
static void note_slot(const hth_box *box, const hearth_event *event)
{
    const hearth_stats *stats = event->result->stats;
    uint32_t n_prompt = stats->finish_tokens < stats->prompt_tokens ? stats->finish_tokens : stats->prompt_tokens;
    uint32_t n_reply = stats->finish_tokens - n_prompt;

    if (!box->slots || !event->prompt || stats->finish_tokens == 0)
        return; /* it never ran: what the slot holds stays */
    if (n_reply > stats->completion_tokens)
        n_reply = stats->completion_tokens;
    hth_slot_memory_note(box->slots, box->salt, box->slot, event->prompt, n_prompt, event->result->tokens, n_reply);
}

static hth_news token_news(const hearth_event *event, uint32_t reply)
{
    return (hth_news){
        .kind = HTH_NEWS_TOKEN,
        .reply = reply,
        .event = {
            .token = event->token,
            .index = event->index,
            .text = event->text,
            .n_bytes = event->n_bytes,
            .logprobs = event->logprobs,
            .n_top_logprobs = event->n_top_logprobs,
            .is_replayed = event->is_replayed,
            .stats = event->stats,
        },
    };
}

/* How much was restored, where that is new. */
static bool read_progress(box_reply *waiting, uint32_t reply, hth_news *out)
{
    if (waiting->n_done == 0)
        return false;
    *out = (hth_news){ .kind = HTH_NEWS_PROGRESS, .reply = reply, .n_done = waiting->n_done };
    waiting->n_done = 0;
    return true;
}

static bool read_text(box_reply *waiting, uint32_t reply, hth_news *out)
{
    if (waiting->text.n == 0 || waiting->is_text_read)
        return false;
    *out = (hth_news){
        .kind = HTH_NEWS_TEXT,
        .reply = reply,
        .event = { .text = waiting->text.text, .n_bytes = waiting->text.n },
    };
    waiting->is_text_read = true; /* it stays there until the next one */
    return true;
}

static void keep_text(box_reply *reply, const hearth_event *event)
{
    if (reply->is_text_read)
        hth_buffer_clear(&reply->text);
    reply->is_text_read = false;
    hth_buffer_add(&reply->text, event->text, event->n_bytes);
}

static hth_news end_news(hth_box *box, const hearth_event *event, uint32_t reply)
{
    hearth_result *told = &box->replies[reply].result;

    if (event->result) {
        *told = *event->result; /* borrows what it holds */
        box->replies[reply].stats = *event->result->stats;
    }
    told->stats = &box->replies[reply].stats;
    told->status = event->status;
    if (event->error)
        told->error = *event->error;
    if (box->replies[reply].text.failed)
        told->status = hth_fail(&told->error, HEARTH_NO_MEMORY, "no memory for the reply");
    if (told->status == HEARTH_NO_MEMORY)
        told->finish_reason = HEARTH_FINISH_NONE;
    if (reply == 0 && event->result)
        note_slot(box, event);
    return (hth_news){ .kind = HTH_NEWS_DONE, .reply = reply, .result = told };
}

/* What an event says, where that is news by itself. */
static bool read_event(hth_box *box, const hearth_event *event, uint32_t i, hth_news *out)
{
    box_reply *reply = &box->replies[i];

    switch (event->kind) {
    case HEARTH_EVENT_PROGRESS:
        if (event->phase == HEARTH_PHASE_RESTORE) {
            reply->n_done = reply->n_restored = event->n_done;
            return false;
        }
        *out = (hth_news){ .kind = HTH_NEWS_PREFILL, .reply = i, .n_done = event->n_done };
        return true;
    case HEARTH_EVENT_TEXT: keep_text(reply, event); return false;
    case HEARTH_EVENT_TOKEN: *out = token_news(event, i); return true;
    case HEARTH_EVENT_DONE: *out = end_news(box, event, i); return true;
    default: return false; /* none of a request */
    }
}

/* Does what waits in a reply come before the event? Text waits for a token or the end. */
static bool read_before(box_reply *reply, const hearth_event *event, uint32_t i, hth_news *out)
{
    if (event->kind == HEARTH_EVENT_TEXT ||
        (event->kind == HEARTH_EVENT_PROGRESS && event->phase == HEARTH_PHASE_RESTORE))
        return false;
    return read_progress(reply, i, out) || (event->kind != HEARTH_EVENT_PROGRESS && read_text(reply, i, out));
}

bool hth_post_read(hth_post *post, hth_news *out)
{
    hth_box *box = post->taken;

    assert(box);
    while (box->first_event != NONE) {
        const hearth_event *event = post->events[box->first_event];
        const hth_box_part *part = event->user_data;
        uint32_t i = part->first + event->reply;

        assert(i < box->n_replies);
        if (read_before(&box->replies[i], event, i, out))
            return true;
        box->first_event = post->next_event[box->first_event];
        if (read_event(box, event, i, out))
            return true;
    }
    return false;
}
