/*
 * event_source.c - the producers of events: the replies of a request, and loads
 *
 * A request with a queue gets the callbacks of this file. They run on the scheduler thread of its model, copy their
 * arguments into the queue, and pause the reply when the queue exceeds a bound. The queue's lock is held when a pause
 * begins and when it ends (events.c). Otherwise a pause could begin after the take that should end it, and the reply
 * would stand still for ever.
 *
 * A source that has told something is in a list of its model's until the round is over, when takers are woken; one
 * whose replies have all ended is freed then.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "models/events_inside.h"

/* ---- making and freeing ---- */

static void source_free(hth_event_source *source)
{
    hearth_events *queue = source->queue;

    pthread_mutex_lock(&queue->lock);
    DL_DELETE(queue->sources, source);
    pthread_mutex_unlock(&queue->lock);
    for (uint32_t i = 0; i < source->n_replies; i++)
        free(source->replies[i].reserve);
    free(source);
    hth_events_unref(queue);
}

/* Call enlist next. NULL without memory. */
static hth_event_source *source_new(hearth_events *queue, uint32_t n_replies, void *user_data)
{
    hth_event_source *source = calloc(1, sizeof(*source) + n_replies * sizeof(source->replies[0]));
    bool is_whole = source != NULL;

    for (uint32_t i = 0; source && i < n_replies; i++) {
        source->replies[i].source = source;
        source->replies[i].reserve = hth_event_block_small();
        is_whole &= source->replies[i].reserve != NULL;
    }
    if (!is_whole) {
        for (uint32_t i = 0; source && i < n_replies; i++)
            free(source->replies[i].reserve);
        free(source);
        return NULL;
    }
    source->queue = queue;
    source->n_replies = n_replies;
    source->user_data = user_data;
    return source;
}

/* Add a source to its queue. From now on, closing the queue cancels it, so its model or runtime is set before. */
static void enlist(hth_event_source *source)
{
    hearth_events *queue = source->queue;

    pthread_mutex_lock(&queue->lock);
    hth_events_ref_locked(queue);
    DL_APPEND(queue->sources, source);
    pthread_mutex_unlock(&queue->lock);
}

void hth_events_drop(hth_event_source *source)
{
    if (source)
        source_free(source);
}

void hth_events_begin(hth_event_source *source, uint64_t first_id)
{
    pthread_mutex_lock(&source->queue->lock); /* hearth_events_close reads it */
    source->first_id = first_id;
    pthread_mutex_unlock(&source->queue->lock);
}

void hth_events_release(hth_event_source *source)
{
    hearth_events *queue = source->queue;
    bool is_over;

    pthread_mutex_lock(&queue->lock);
    hth_event_chain_move(&queue->waiting, &source->kept);
    source->is_held = false;
    is_over = source->is_over;
    if (source->has_ended_round)
        hth_events_tell_locked(queue);
    else /* the present round wakes takers at its end, so that they find all its events */
        atomic_store_explicit(&queue->needs_wake, true, memory_order_relaxed);
    pthread_mutex_unlock(&queue->lock);
    if (is_over)
        source_free(source);
}

/* ---- putting in ---- */

static hth_event_reply *reply_of(hth_event_source *source, uint64_t id)
{
    assert(id >= source->first_id && id - source->first_id < source->n_replies);
    return &source->replies[id - source->first_id];
}

/* An event with its common fields; the caller sets the others. */
static hearth_event event_of(const hth_event_reply *reply, hearth_event_kind kind)
{
    const hth_event_source *source = reply->source;
    uint32_t i = (uint32_t)(reply - source->replies);

    return (hearth_event){
        .kind = kind,
        .reply = i,
        .id = source->first_id + i,
        .user_data = source->user_data,
    };
}

static void note_told(hth_event_source *source)
{
    if (source->is_told)
        return;
    source->is_told = true;
    LL_PREPEND2(source->teller->told, source, next_told);
}

static void pause_locked(hth_event_reply *reply)
{
    hth_event_source *source = reply->source;
    uint64_t id = source->first_id + (uint64_t)(reply - source->replies);

    reply->is_paused = source->teller->pause(source->teller->model, id, HTH_PAUSE_EVENTS, true);
    if (reply->is_paused)
        DL_APPEND2(source->queue->paused, reply, prev_paused, next_paused);
}

/* False: end the reply. */
static bool put(hth_event_reply *reply, const hearth_event *event)
{
    hth_event_source *source = reply->source;
    hearth_events *queue = source->queue;
    bool is_put = false;

    pthread_mutex_lock(&queue->lock);
    if (!queue->is_closed) {
        is_put = hth_events_put_locked(source, event, NULL);
        reply->lost_events |= !is_put;
        if (hth_events_are_many_locked(queue) && !reply->is_paused)
            pause_locked(reply);
    }
    pthread_mutex_unlock(&queue->lock);
    note_told(source);
    return is_put;
}

static bool on_token(uint64_t id, const hearth_token_event *told, void *user_data)
{
    hth_event_reply *reply = reply_of(user_data, id);
    hearth_event event = event_of(reply, HEARTH_EVENT_TOKEN);

    event.text = told->text;
    event.n_bytes = told->n_bytes;
    event.token = told->token;
    event.index = told->index;
    event.is_replayed = told->is_replayed;
    event.sampler_state = told->sampler_state;
    event.logprobs = told->logprobs;
    event.n_top_logprobs = told->n_top_logprobs;
    event.stats = reply->source->flags & HEARTH_EVENTS_STATS ? told->stats : NULL;
    return put(reply, &event);
}

static bool on_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    hth_event_reply *reply = reply_of(user_data, id);
    hearth_event event = event_of(reply, HEARTH_EVENT_TEXT);

    event.text = text;
    event.n_bytes = n_bytes;
    return put(reply, &event);
}

static void on_progress(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    hth_event_reply *reply = reply_of(user_data, id);
    hearth_event event = event_of(reply, HEARTH_EVENT_PROGRESS);

    if (!(reply->source->flags & (phase == HEARTH_PHASE_RESTORE ? HEARTH_EVENTS_RESTORE : HEARTH_EVENTS_PREFILL)))
        return;
    event.phase = phase;
    event.n_done = n_done;
    event.n_total = n_total;
    (void)put(reply, &event); /* the last event reports a loss */
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    static const hearth_error no_memory = { .status = HEARTH_NO_MEMORY, .message = "no memory for the reply's events" };
    hth_event_source *source = user_data;
    hearth_events *queue = source->queue;
    hth_event_reply *reply = reply_of(source, id);
    hearth_event event = event_of(reply, HEARTH_EVENT_DONE);

    event.status = reply->lost_events ? HEARTH_NO_MEMORY : result->status;
    if (event.status != HEARTH_OK)
        event.error = reply->lost_events ? &no_memory : &result->error;
    pthread_mutex_lock(&queue->lock);
    if (!queue->is_closed) {
        event.result = hearth_result_ref(result);
        (void)hth_events_put_locked(source, &event, &reply->reserve); /* has memory */
    }
    if (reply->is_paused)
        DL_DELETE2(queue->paused, reply, prev_paused, next_paused);
    reply->is_paused = false;
    reply->has_ended = true;
    source->n_ended++;
    pthread_mutex_unlock(&queue->lock);
    note_told(source);
}

/* ---- the end of a round ---- */

void hth_events_round(hth_event_teller *teller)
{
    hth_event_source *source, *next;

    LL_FOREACH_SAFE2(teller->told, source, next, next_told)
    {
        hearth_events *queue = source->queue;
        bool is_over;

        source->is_told = false;
        pthread_mutex_lock(&queue->lock);
        source->has_ended_round = true;
        if (atomic_load_explicit(&queue->needs_wake, memory_order_relaxed))
            hth_events_tell_locked(queue);
        source->is_over = source->n_ended == source->n_replies;
        is_over = source->is_over && !source->is_held;
        pthread_mutex_unlock(&queue->lock);
        if (is_over)
            source_free(source);
    }
    teller->told = NULL;
}

/* ---- requests ---- */

hearth_status hth_events_connect(hth_event_teller *teller, hearth_request *request, bool is_held,
                                 hth_event_source **out, hearth_error *err)
{
    hth_event_source *source;

    if (request->on_text || request->on_progress || request->on_token || request->on_done)
        return hth_fail(err, HEARTH_MISUSE,
                        "the request has events and a callback; its queue tells all, so set on_text, on_token, "
                        "on_progress and on_done to NULL");
    source = source_new(request->events, request->n, request->user_data);
    if (!source)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the events of a request");
    source->teller = teller;
    source->flags = request->event_flags;
    source->is_held = is_held;
    enlist(source);
    request->on_text = on_text;
    request->on_token = on_token;
    request->on_progress = on_progress;
    request->on_done = on_done;
    request->user_data = source;
    *out = source;
    return HEARTH_OK;
}

/* ---- loads ---- */

hearth_status hth_events_load_new(hearth_events *queue, hearth_runtime *runtime, uint64_t id, void *user_data,
                                  hth_event_source **out, hearth_error *err)
{
    hth_event_source *source = source_new(queue, 1, user_data);

    if (!source)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the events of a load");
    source->runtime = runtime;
    source->first_id = id;
    enlist(source);
    *out = source;
    return HEARTH_OK;
}

void hth_events_load_progress(hth_event_source *source, float fraction)
{
    hearth_events *queue = source->queue;
    hearth_event event = event_of(&source->replies[0], HEARTH_EVENT_LOADING);

    event.fraction = fraction;
    pthread_mutex_lock(&queue->lock);
    if (!queue->is_closed)
        (void)hth_events_put_locked(source, &event, NULL);
    hth_events_tell_locked(queue);
    pthread_mutex_unlock(&queue->lock);
}

void hth_events_load_end(hth_event_source *source, hearth_model *model_take, hearth_status status,
                         const hearth_error *error)
{
    hearth_events *queue = source->queue;
    hearth_event event = event_of(&source->replies[0], HEARTH_EVENT_LOADED);
    bool is_put = false;

    event.model = model_take;
    event.status = status;
    event.error = status != HEARTH_OK ? error : NULL;
    pthread_mutex_lock(&queue->lock);
    if (!queue->is_closed)
        is_put = hth_events_put_locked(source, &event, &source->replies[0].reserve);
    hth_events_tell_locked(queue);
    pthread_mutex_unlock(&queue->lock);
    if (!is_put)
        hearth_model_unref(model_take);
    source_free(source);
}
