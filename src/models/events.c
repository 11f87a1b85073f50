/*
 * A request with a queue gets the callbacks of this file. They run on the scheduler thread of its model, copy their
 * arguments into the queue, and pause the reply when the queue reaches a bound. The queue's lock is held when a pause
 * begins and when it ends. Otherwise a pause could begin after the take that should end it, and the reply would stop
 * forever.
 *
 * A source with new events is in its model's list until the round is over. Then the taker is woken, and sources whose
 * replies have all ended are freed. The taker is the one thread that takes events of a queue.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/deadline.h"
#include "base/os.h"
#include "base/structs.h"
#include "models/events.h"
#include "models/model_inside.h"

/* Events are stored in blocks, one after another, and never move. */
typedef struct hth_event_block hth_event_block;
struct hth_event_block {
    hth_event_block *prev, *next;
    size_t capacity;
    size_t n;      /* bytes written */
    size_t n_read; /* of those, bytes taken */
    char bytes[];  /* [capacity], of records */
};

typedef struct event_chain {
    hth_event_block *blocks;
    size_t n_events; /* not taken yet */
} event_chain;

/* A reply of a source. A load has one. */
typedef struct event_reply event_reply;
struct event_reply {
    hth_event_source *source;
    hth_event_block *reserve; /* memory for its last event, in case there is no other */
    bool has_lost_events;     /* because memory ran out; scheduler thread */

    /* Guarded by the queue's lock. */
    bool has_ended;
    bool is_paused;
    event_reply *prev_paused, *next_paused;
};

struct hth_event_source {
    /* Fixed after hth_events_begin. */
    hearth_events *queue;    /* a reference */
    hearth_model *model;     /* borrowed; it lives until each reply has ended; NULL: a load */
    hearth_runtime *runtime; /* of a load; borrowed until the load has ended */
    void *user_data;
    hearth_missing_fn on_missing; /* the request's; NULL: none */
    uint64_t first_id;
    unsigned flags;
    uint32_t n_replies;

    /* Scheduler thread. */
    bool is_listed; /* in its model's list */
    hth_event_source *next_listed;

    /* Guarded by the queue's lock. */
    bool is_held;
    bool has_ended_round; /* a round with events of this source has ended */
    bool is_over;         /* all replies have ended; if it is held, its release frees it */
    uint32_t n_ended;
    event_chain kept; /* while it is held */
    hth_event_source *prev, *next;

    event_reply replies[]; /* [n_replies] */
};

struct hearth_events {
    /* Fixed. */
    size_t n_events_max;
    size_t n_bytes_max;

    /* Guards the fields below. Outermost lock: the locks of models, schedulers and loads are taken while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holders; /* the caller and the sources */
    bool is_closed;
    bool needs_wake;                /* an event was put since the taker was woken last */
    bool is_woken;                  /* by hearth_events_wake */
    bool has_descriptors;           /* the pipe exists */
    bool is_readable;               /* the pipe has a byte */
    int read_fd, write_fd;          /* a pipe; neither end blocks */
    event_chain waiting;            /* to be taken */
    size_t n_events;                /* not taken yet, including events of held sources */
    size_t n_bytes;                 /* their memory */
    hth_event_block *taken;         /* blocks of taken events, valid until the next take */
    struct hth_event_record *given; /* taken events that own a result */
    hth_event_block *spare;
    size_t n_spare;
    hth_event_source *sources;
    event_reply *paused;
};

/*
 * ---- a queue of events: memory, taking, waking ----
 *
 * source --put--> waiting --take--> taken --the next take--> spare --> waiting ...
 *
 * Events are written once, into blocks of memory, and returned in place. A block is reused when all its events have
 * been taken and the next take has begun. So a queue whose taker keeps up uses one or two blocks and allocates nothing.
 *
 * A put of a reply wakes no thread; the taker is woken at the end of the scheduler's round (hth_events_round), and
 * finds all events of the round. Loads, which have no rounds, wake the taker at once. The descriptor is a pipe, made on
 * request. From the wake-up until no event is waiting, it contains one byte. The byte is written and read under the
 * queue's lock, so it agrees with the queue.
 */

enum {
    BLOCK_BYTES = 16 << 10,
    SPARE_MAX = 64, /* maximum number of spare blocks */
    ALIGNMENT = 8,
};

typedef struct hth_event_record {
    size_t n_bytes; /* including the data after the event */
    struct hth_event_record *next_given;
    hearth_event event;
} hth_event_record;

static_assert(sizeof(hth_event_record) % ALIGNMENT == 0 && offsetof(hth_event_block, bytes) % ALIGNMENT == 0 &&
                  sizeof(hearth_logprob) % ALIGNMENT == 0 && sizeof(hearth_stats) % ALIGNMENT == 0 &&
                  sizeof(hearth_error) % 4 == 0,
              "whatever follows one of them in a block is aligned");

/* ---- memory ---- */

static size_t aligned(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static hth_event_block *block_new(size_t capacity)
{
    hth_event_block *block = malloc(sizeof(*block) + capacity);

    if (block)
        *block = (hth_event_block){ .capacity = capacity };
    return block;
}

/* Reuse or free a block whose events are no longer needed. */
static void give_back_locked(hearth_events *queue, hth_event_block *block)
{
    if (block->capacity != BLOCK_BYTES || queue->n_spare == SPARE_MAX) {
        free(block);
        return;
    }
    block->n = block->n_read = 0;
    LL_PREPEND(queue->spare, block);
    queue->n_spare++;
}

/* Move the blocks of from to the end of to. */
static void event_chain_move(event_chain *to, event_chain *from)
{
    DL_CONCAT(to->blocks, from->blocks);
    to->n_events += from->n_events;
    *from = (event_chain){ .blocks = NULL };
}

/* Room for a record at the end of the chain; NULL if out of memory. */
static hth_event_record *make_room_locked(hearth_events *queue, event_chain *chain, size_t n_bytes)
{
    hth_event_block *block = chain->blocks ? chain->blocks->prev : NULL; /* the last one */

    if (!block || block->capacity - block->n < n_bytes) {
        if (n_bytes <= BLOCK_BYTES && queue->spare) {
            block = queue->spare;
            LL_DELETE(queue->spare, block);
            queue->n_spare--;
        } else {
            block = block_new(n_bytes > BLOCK_BYTES ? n_bytes : BLOCK_BYTES);
        }
        if (!block)
            return NULL;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the first of a list has a prev */
        DL_APPEND(chain->blocks, block);
    }
    block->n += n_bytes;
    return (hth_event_record *)(void *)(block->bytes + block->n - n_bytes);
}

/* Copy n bytes to *at, and advance *at past them. */
static const void *copy_behind(char **at, const void *bytes, size_t n)
{
    char *copy = *at;

    if (!bytes)
        return NULL;
    memcpy(copy, bytes, n);
    *at += aligned(n);
    return copy;
}

/*
 * Add an event, with copies of everything it points to. The event takes over its result. If there is no other memory,
 * *reserve is used and becomes NULL. False if out of memory.
 */
static bool put_locked(hth_event_source *source, const hearth_event *event, hth_event_block **reserve)
{
    hearth_events *queue = source->queue;
    event_chain *chain = source->is_held ? &source->kept : &queue->waiting;
    size_t n_logprobs = event->logprobs ? (1 + (size_t)event->n_top_logprobs) * sizeof(*event->logprobs) : 0;
    size_t n_stats = event->stats ? sizeof(*event->stats) : 0, n_error = event->error ? sizeof(*event->error) : 0;
    size_t n_text = event->text ? event->n_bytes + 1 : 0;
    size_t n_bytes = sizeof(hth_event_record) + n_logprobs + n_stats + aligned(n_error) + aligned(n_text);
    hth_event_record *record = make_room_locked(queue, chain, n_bytes);
    char *at;

    if (!record && reserve && *reserve) {
        n_bytes = sizeof(*record) + aligned(n_error);
        DL_APPEND(chain->blocks, *reserve);
        *reserve = NULL;
        record = make_room_locked(queue, chain, n_bytes); /* this is what the reserve is for */
    }
    if (!record)
        return false;
    at = (char *)(record + 1);
    record->n_bytes = n_bytes;
    record->next_given = NULL;
    record->event = *event;
    record->event.struct_size = sizeof(*event);
    record->event.error = copy_behind(&at, event->error, n_error);
    record->event.logprobs = copy_behind(&at, event->logprobs, n_logprobs);
    record->event.stats = copy_behind(&at, event->stats, n_stats);
    if (n_text > 0) {
        memcpy(at, event->text, n_text - 1);
        at[n_text - 1] = '\0';
        record->event.text = at;
    }
    chain->n_events++;
    queue->n_events++;
    queue->n_bytes += n_bytes;
    queue->needs_wake = true;
    return true;
}

/* If events are waiting, wake the taker and make the descriptor readable. */
static void tell_locked(hearth_events *queue)
{
    queue->needs_wake = false;
    if (queue->waiting.n_events == 0 && !queue->is_woken)
        return;
    if (queue->has_descriptors && !queue->is_readable) {
        queue->is_readable = true;
        while (write(queue->write_fd, "", 1) < 0 && errno == EINTR) /* there is room for one byte */
            ;
    }
    pthread_cond_signal(&queue->changed);
}

static void unref(hearth_events *queue)
{
    bool is_last;

    pthread_mutex_lock(&queue->lock);
    is_last = --queue->holders == 0;
    pthread_mutex_unlock(&queue->lock);
    if (!is_last)
        return;
    if (queue->has_descriptors) {
        close(queue->read_fd);
        close(queue->write_fd);
    }
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

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
    unref(queue);
}

/* A new source; call enlist next. NULL if out of memory. */
static hth_event_source *source_new(hearth_events *queue, uint32_t n_replies, void *user_data)
{
    hth_event_source *source = calloc(1, sizeof(*source) + n_replies * sizeof(source->replies[0]));
    bool is_whole = source != NULL;

    for (uint32_t i = 0; source && i < n_replies; i++) {
        source->replies[i].source = source;
        source->replies[i].reserve = block_new(sizeof(hth_event_record) + aligned(sizeof(hearth_error)));
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

/* Add a source to its queue. From now on, closing the queue cancels it, so its model or runtime must be set before. */
static void enlist(hth_event_source *source)
{
    hearth_events *queue = source->queue;

    pthread_mutex_lock(&queue->lock);
    queue->holders++;
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
    event_chain_move(&queue->waiting, &source->kept);
    source->is_held = false;
    is_over = source->is_over;
    if (source->has_ended_round)
        tell_locked(queue);
    else /* the current round wakes the taker at its end, so that it finds all events of the round */
        queue->needs_wake = true;
    pthread_mutex_unlock(&queue->lock);
    if (is_over)
        source_free(source);
}

/* ---- putting in ---- */

static event_reply *reply_of(hth_event_source *source, uint64_t id)
{
    assert(id >= source->first_id && id - source->first_id < source->n_replies);
    return &source->replies[id - source->first_id];
}

/* An event with its common fields; the caller sets the others. */
static hearth_event event_of(const event_reply *reply, hearth_event_kind kind)
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

static void list_source(hth_event_source *source)
{
    if (source->is_listed)
        return;
    source->is_listed = true;
    LL_PREPEND2(source->model->listed, source, next_listed);
}

static void pause_locked(event_reply *reply)
{
    hth_event_source *source = reply->source;
    uint64_t id = source->first_id + (uint64_t)(reply - source->replies);

    reply->is_paused = hth_model_pause(source->model, id, HTH_PAUSE_EVENTS, true);
    if (reply->is_paused)
        DL_APPEND2(source->queue->paused, reply, prev_paused, next_paused);
}

/* False if the reply must end. */
static bool put(event_reply *reply, const hearth_event *event)
{
    hth_event_source *source = reply->source;
    hearth_events *queue = source->queue;
    bool is_put = false;

    pthread_mutex_lock(&queue->lock);
    if (!queue->is_closed) {
        is_put = put_locked(source, event, NULL);
        reply->has_lost_events |= !is_put;
        if ((queue->n_events >= queue->n_events_max || queue->n_bytes >= queue->n_bytes_max) && !reply->is_paused)
            pause_locked(reply);
    }
    pthread_mutex_unlock(&queue->lock);
    list_source(source);
    return is_put;
}

static bool on_token(uint64_t id, const hearth_token_event *token, void *user_data)
{
    event_reply *reply = reply_of(user_data, id);
    hearth_event event = event_of(reply, HEARTH_EVENT_TOKEN);

    event.text = token->text;
    event.n_bytes = token->n_bytes;
    event.token = token->token;
    event.index = token->index;
    event.is_replayed = token->is_replayed;
    event.sampler_state = token->sampler_state;
    event.logprobs = token->logprobs;
    event.n_top_logprobs = token->n_top_logprobs;
    event.stats = reply->source->flags & HEARTH_EVENTS_STATS ? token->stats : NULL;
    return put(reply, &event);
}

static bool on_text(uint64_t id, const char *text, size_t n_bytes, void *user_data)
{
    event_reply *reply = reply_of(user_data, id);
    hearth_event event = event_of(reply, HEARTH_EVENT_TEXT);

    event.text = text;
    event.n_bytes = n_bytes;
    return put(reply, &event);
}

static void on_progress(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    event_reply *reply = reply_of(user_data, id);
    hearth_event event = event_of(reply, HEARTH_EVENT_PROGRESS);

    if (!(reply->source->flags & (phase == HEARTH_PHASE_RESTORE ? HEARTH_EVENTS_RESTORE : HEARTH_EVENTS_PREFILL)))
        return;
    event.phase = phase;
    event.n_done = n_done;
    event.n_total = n_total;
    (void)put(reply, &event); /* the last event reports a loss */
}

static bool on_missing(const hearth_missing *missing, void *user_data)
{
    const hth_event_source *source = user_data;

    return source->on_missing(missing, source->user_data);
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    static const hearth_error no_memory = { .status = HEARTH_NO_MEMORY, .message = "no memory for the reply's events" };
    hth_event_source *source = user_data;
    hearth_events *queue = source->queue;
    event_reply *reply = reply_of(source, id);
    hearth_event event = event_of(reply, HEARTH_EVENT_DONE);

    event.status = reply->has_lost_events ? HEARTH_NO_MEMORY : result->status;
    if (event.status != HEARTH_OK)
        event.error = reply->has_lost_events ? &no_memory : &result->error;
    pthread_mutex_lock(&queue->lock);
    if (!queue->is_closed) {
        event.result = hearth_result_ref(result);
        (void)put_locked(source, &event, &reply->reserve); /* cannot fail, because of the reserve */
    }
    if (reply->is_paused)
        DL_DELETE2(queue->paused, reply, prev_paused, next_paused);
    reply->is_paused = false;
    reply->has_ended = true;
    source->n_ended++;
    pthread_mutex_unlock(&queue->lock);
    list_source(source);
}

/* ---- the end of a round ---- */

void hth_events_round(hearth_model *model)
{
    hth_event_source *source, *next;

    LL_FOREACH_SAFE2(model->listed, source, next, next_listed)
    {
        hearth_events *queue = source->queue;
        bool is_over;

        source->is_listed = false;
        pthread_mutex_lock(&queue->lock);
        source->has_ended_round = true;
        if (queue->needs_wake)
            tell_locked(queue);
        source->is_over = source->n_ended == source->n_replies;
        is_over = source->is_over && !source->is_held;
        pthread_mutex_unlock(&queue->lock);
        if (is_over)
            source_free(source);
    }
    model->listed = NULL;
}

/* ---- requests ---- */

hearth_status hth_events_connect(hearth_model *model, hearth_request *request, bool is_held, hth_event_source **out,
                                 hearth_error *err)
{
    hth_event_source *source;

    if (request->on_text || request->on_progress || request->on_token || request->on_done)
        return hth_fail(err, HEARTH_MISUSE,
                        "the request has events and a callback; its queue tells all, so set on_text, on_token, "
                        "on_progress and on_done to NULL");
    source = source_new(request->events, request->n, request->user_data);
    if (!source)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the events of a request");
    source->model = model;
    source->flags = request->event_flags;
    source->is_held = is_held;
    enlist(source);
    request->on_text = on_text;
    request->on_token = on_token;
    request->on_progress = on_progress;
    request->on_done = on_done;
    source->on_missing = request->on_missing;
    if (source->on_missing)
        request->on_missing = on_missing;
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
        (void)put_locked(source, &event, NULL);
    tell_locked(queue);
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
        is_put = put_locked(source, &event, &source->replies[0].reserve);
    tell_locked(queue);
    pthread_mutex_unlock(&queue->lock);
    if (!is_put)
        hearth_model_unref(model_take);
    source_free(source);
}

/* ---- opening and closing ---- */

hearth_status hearth_events_open(const hearth_events_options *options, hearth_events **out, hearth_error *err)
{
    hearth_events_options given = hearth_events_options_default();
    hearth_events *queue;
    hearth_status status = HEARTH_OK;

    if (!out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_events_open: out is NULL");
    if (options)
        status = hth_struct_read(&given, sizeof(given), options, "hearth_events_options", err);
    if (status != HEARTH_OK)
        return status;
    if (given.n_events_max < 1 || given.n_bytes_max < 1)
        return hth_fail(err, HEARTH_MISUSE, "n_events_max and n_bytes_max of a queue must be at least 1");
    queue = calloc(1, sizeof(*queue));
    if (!queue)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a queue of events");
    queue->n_events_max = given.n_events_max;
    queue->n_bytes_max = given.n_bytes_max;
    queue->holders = 1;
    pthread_mutex_init(&queue->lock, NULL);
    hth_condition_init(&queue->changed);
    *out = queue;
    return HEARTH_OK;
}

/* Free blocks, with the results and models of events that were not taken. */
static void free_blocks(hth_event_block *blocks)
{
    while (blocks) {
        hth_event_block *block = blocks;

        blocks = block->next;
        while (block->n_read < block->n) {
            hth_event_record *record = (hth_event_record *)(void *)(block->bytes + block->n_read);

            block->n_read += record->n_bytes;
            hearth_result_unref(record->event.result);
            hearth_model_unref(record->event.model);
        }
        free(block);
    }
}

static void free_given(hth_event_record *given)
{
    for (hth_event_record *record = given, *next; record; record = next) {
        next = record->next_given;
        hearth_result_unref(record->event.result);
    }
}

void hearth_events_close(hearth_events *queue)
{
    event_chain dropped = { .blocks = NULL };
    hth_event_block *taken, *spare;
    hth_event_record *given;
    hth_event_source *source;

    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->is_closed = true;
    DL_FOREACH(queue->sources, source)
    {
        event_chain_move(&dropped, &source->kept);
        for (uint32_t i = 0; i < source->n_replies; i++)
            if (source->model && !source->replies[i].has_ended) /* a request that is not found is about to end */
                (void)hearth_cancel(source->model, source->first_id + i, NULL);
            else if (!source->model)
                (void)hearth_model_load_cancel(source->runtime, source->first_id, NULL);
    }
    event_chain_move(&dropped, &queue->waiting);
    taken = queue->taken;
    spare = queue->spare;
    given = queue->given;
    queue->taken = queue->spare = NULL;
    queue->given = NULL;
    pthread_mutex_unlock(&queue->lock);
    free_given(given); /* before taken, which contains them */
    free_blocks(taken);
    free_blocks(dropped.blocks);
    free_blocks(spare);
    unref(queue);
}

/* ---- waking ---- */

void hearth_events_wake(hearth_events *queue)
{
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->is_woken = true;
    tell_locked(queue);
    pthread_mutex_unlock(&queue->lock);
}

static bool make_descriptors_locked(hearth_events *queue)
{
    int ends[2];

    if (queue->has_descriptors)
        return true;
    if (!hth_os_pipe(ends))
        return false;
    queue->read_fd = ends[0];
    queue->write_fd = ends[1];
    queue->has_descriptors = true;
    tell_locked(queue);
    return true;
}

int hearth_events_fd(hearth_events *queue)
{
    int fd = -1;

    if (!queue)
        return -1;
    pthread_mutex_lock(&queue->lock);
    if (make_descriptors_locked(queue))
        fd = queue->read_fd;
    pthread_mutex_unlock(&queue->lock);
    return fd;
}

/* ---- taking ---- */

/* Recycle the events of the previous take. */
static void recycle_locked(hearth_events *queue)
{
    hth_event_block *first = queue->waiting.blocks;

    free_given(queue->given);
    queue->given = NULL;
    while (queue->taken) {
        hth_event_block *block = queue->taken;

        LL_DELETE(queue->taken, block);
        give_back_locked(queue, block);
    }
    if (first && !first->next && first->n_read == first->n) {
        if (first->capacity == BLOCK_BYTES) {
            first->n = first->n_read = 0;
        } else {
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is alone in its list */
            DL_DELETE(queue->waiting.blocks, first);
            free(first);
        }
    }
}

/* Take the next event; NULL: none. */
static const hearth_event *next_locked(hearth_events *queue)
{
    event_chain *chain = &queue->waiting;
    hth_event_record *record;

    while (chain->blocks && chain->blocks->n_read == chain->blocks->n && chain->blocks->next) {
        hth_event_block *block = chain->blocks;

        DL_DELETE(chain->blocks, block);
        LL_PREPEND(queue->taken, block);
    }
    if (chain->n_events == 0 || !chain->blocks)
        return NULL;
    record = (hth_event_record *)(void *)(chain->blocks->bytes + chain->blocks->n_read);
    chain->blocks->n_read += record->n_bytes;
    chain->n_events--;
    queue->n_events--;
    queue->n_bytes -= record->n_bytes;
    if (record->event.result) {
        record->next_given = queue->given;
        queue->given = record;
    }
    return &record->event;
}

/* End the pauses if the queue is half empty again. Otherwise renew them, to show that the reader is alive. */
static void go_on_locked(hearth_events *queue)
{
    bool waits = queue->n_events > queue->n_events_max / 2 || queue->n_bytes > queue->n_bytes_max / 2;
    event_reply *reply, *next;

    DL_FOREACH_SAFE2(queue->paused, reply, next, next_paused)
    {
        const hth_event_source *source = reply->source;

        /* A repeated pause restarts stalled_ms. A request that is not found is about to end. */
        (void)hth_model_pause(source->model, source->first_id + (uint64_t)(reply - source->replies), HTH_PAUSE_EVENTS,
                              waits);
        if (waits)
            continue;
        reply->is_paused = false;
        DL_DELETE2(queue->paused, reply, prev_paused, next_paused);
    }
}

hearth_status hearth_events_take(hearth_events *queue, const hearth_event **events, size_t n, uint32_t timeout_ms,
                                 size_t *n_out, hearth_error *err)
{
    struct timespec deadline = hth_deadline_after(timeout_ms);
    size_t n_taken = 0;
    int waited = 0;

    if (!queue || !events || !n_out || n == 0)
        return hth_fail(err, HEARTH_MISUSE, "hearth_events_take: queue, events or n_out is NULL, or n is 0");
    pthread_mutex_lock(&queue->lock);
    recycle_locked(queue);
    while (queue->waiting.n_events == 0 && !queue->is_woken && timeout_ms > 0 && waited != ETIMEDOUT)
        waited = timeout_ms == UINT32_MAX ? pthread_cond_wait(&queue->changed, &queue->lock)
                                          : pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
    queue->is_woken = false;
    while (n_taken < n && (events[n_taken] = next_locked(queue)))
        n_taken++;
    if (n_taken > 0 && queue->paused)
        go_on_locked(queue);
    if (queue->waiting.n_events == 0 && queue->is_readable) {
        char byte;

        while (read(queue->read_fd, &byte, 1) < 0 && errno == EINTR)
            ;
        queue->is_readable = false;
    }
    pthread_mutex_unlock(&queue->lock);
    *n_out = n_taken;
    return HEARTH_OK;
}
