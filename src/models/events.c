/*
 * events.c - a queue of events: memory, taking, waking
 *
 *   source --put--> waiting --take--> taken --the next take--> spare --> waiting ...
 *
 * Events are written once, into blocks of memory, and handed out in place. A block is used again when all its events
 * were taken and the next take has begun. So a queue whose taker keeps up uses one or two blocks and allocates nothing.
 *
 * A put does not wake anybody. Who has put something tells so at the end of the scheduler's round (hth_events_round),
 * and a taker finds all that the round has brought. The descriptor is a pipe, made when it is asked for, with one byte
 * in it from such a moment on until no event waits; the byte goes in and out under the queue's lock, so the two agree.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "base/deadline.h"
#include "base/os.h"
#include "base/structs.h"
#include "models/events_inside.h"

enum {
    BLOCK_BYTES = 16 << 10,
    SPARE_MAX = 64, /* blocks that are kept */
    ALIGNMENT = 8,
};

typedef struct hth_event_record {
    size_t n_bytes; /* with what follows the event */
    struct hth_event_record *next_given;
    hearth_event event;
} hth_event_record;

static_assert(sizeof(hth_event_record) % ALIGNMENT == 0 && offsetof(hth_event_block, bytes) % ALIGNMENT == 0 &&
                  sizeof(hearth_logprob) % ALIGNMENT == 0 && sizeof(hearth_stats) % ALIGNMENT == 0 &&
                  sizeof(hearth_error) % 4 == 0,
              "what lies behind one of them is aligned");

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

hth_event_block *hth_event_block_small(void)
{
    return block_new(sizeof(hth_event_record) + aligned(sizeof(hearth_error)));
}

/* Reuse or free a block whose events are not needed any more. */
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

static void append_block(hth_event_chain *chain, hth_event_block *block)
{
    block->next = NULL;
    if (chain->last)
        chain->last->next = block;
    else
        chain->first = block;
    chain->last = block;
}

static hth_event_block *pop_block(hth_event_chain *chain)
{
    hth_event_block *block = chain->first;

    chain->first = block->next;
    if (!chain->first)
        chain->last = NULL;
    return block;
}

void hth_event_chain_move(hth_event_chain *to, hth_event_chain *from)
{
    if (from->first) {
        if (to->last)
            to->last->next = from->first;
        else
            to->first = from->first;
        to->last = from->last;
    }
    to->n_events += from->n_events;
    *from = (hth_event_chain){ .first = NULL };
}

/* Room for a record at the end of the chain; NULL without memory. */
static hth_event_record *make_room_locked(hearth_events *queue, hth_event_chain *chain, size_t n_bytes)
{
    hth_event_block *block = chain->last;

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
        append_block(chain, block);
    }
    block->n += n_bytes;
    return (hth_event_record *)(void *)(block->bytes + block->n - n_bytes);
}

/* A copy of n bytes at *at, which moves behind it. */
static const void *copy_behind(char **at, const void *bytes, size_t n)
{
    char *copy = *at;

    if (!bytes)
        return NULL;
    memcpy(copy, bytes, n);
    *at += aligned(n);
    return copy;
}

bool hth_events_put_locked(hth_event_source *source, const hearth_event *event, hth_event_block **reserve)
{
    hearth_events *queue = source->queue;
    hth_event_chain *chain = source->is_held ? &source->kept : &queue->waiting;
    size_t n_logprobs = event->logprobs ? (1 + (size_t)event->n_top_logprobs) * sizeof(*event->logprobs) : 0;
    size_t n_stats = event->stats ? sizeof(*event->stats) : 0, n_error = event->error ? sizeof(*event->error) : 0;
    size_t n_text = event->text ? event->n_bytes + 1 : 0;
    size_t n_bytes = sizeof(hth_event_record) + n_logprobs + n_stats + aligned(n_error) + aligned(n_text);
    hth_event_record *record = make_room_locked(queue, chain, n_bytes);
    char *at;

    if (!record && reserve && *reserve) {
        n_bytes = sizeof(*record) + aligned(n_error);
        append_block(chain, *reserve);
        *reserve = NULL;
        record = make_room_locked(queue, chain, n_bytes); /* that is what it is for */
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
    atomic_store_explicit(&queue->needs_wake, true, memory_order_relaxed);
    return true;
}

bool hth_events_are_many_locked(const hearth_events *queue)
{
    return queue->n_events >= queue->n_events_max || queue->n_bytes >= queue->n_bytes_max;
}

/* ---- opening and closing ---- */

static hearth_status read_options(const hearth_events_options *options, hearth_events_options *out, hearth_error *err)
{
    *out = hearth_events_options_default();
    if (options) {
        hearth_status status = hth_struct_read(out, sizeof(*out), options, "hearth_events_options", err);

        if (status != HEARTH_OK)
            return status;
    }
    if (out->n_events_max < 1 || out->n_bytes_max < 1)
        return hth_fail(err, HEARTH_MISUSE, "n_events_max and n_bytes_max of a queue must be at least 1");
    return HEARTH_OK;
}

hearth_status hearth_events_open(const hearth_events_options *options, hearth_events **out, hearth_error *err)
{
    hearth_events_options given;
    hearth_events *queue;
    hearth_status status;

    if (!out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_events_open: out is NULL");
    status = read_options(options, &given, err);
    if (status != HEARTH_OK)
        return status;
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

void hth_events_ref_locked(hearth_events *queue)
{
    queue->holders++;
}

void hth_events_unref(hearth_events *queue)
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

/* Free blocks, and the results and models of events that were not taken. */
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
    hth_event_chain dropped = { .first = NULL };
    hth_event_block *taken, *spare;
    hth_event_record *given;
    hth_event_source *source;

    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->is_closed = true;
    DL_FOREACH(queue->sources, source)
    {
        hth_event_chain_move(&dropped, &source->kept);
        for (uint32_t i = 0; i < source->n_replies; i++)
            if (source->teller && !source->replies[i].has_ended) /* one that is not found is about to end */
                (void)hearth_cancel(source->teller->model, source->first_id + i, NULL);
            else if (!source->teller)
                (void)hearth_model_load_cancel(source->runtime, source->first_id, NULL);
    }
    hth_event_chain_move(&dropped, &queue->waiting);
    taken = queue->taken;
    spare = queue->spare;
    given = queue->given;
    queue->taken = queue->spare = NULL;
    queue->given = NULL;
    pthread_mutex_unlock(&queue->lock);
    free_given(given); /* before taken, which contains them */
    free_blocks(taken);
    free_blocks(dropped.first);
    free_blocks(spare);
    hth_events_unref(queue);
}

/* ---- waking ---- */

void hth_events_tell_locked(hearth_events *queue)
{
    atomic_store_explicit(&queue->needs_wake, false, memory_order_relaxed);
    if (queue->waiting.n_events == 0 && !queue->is_woken)
        return;
    if (queue->has_descriptors && !queue->is_readable) {
        queue->is_readable = true;
        while (write(queue->write_fd, "", 1) < 0 && errno == EINTR) /* there is room for one byte */
            ;
    }
    pthread_cond_signal(&queue->changed);
}

void hearth_events_wake(hearth_events *queue)
{
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->is_woken = true;
    hth_events_tell_locked(queue);
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
    hth_events_tell_locked(queue);
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

/* Recycle the events of the take before. */
static void recycle_locked(hearth_events *queue)
{
    hth_event_block *last = queue->waiting.last;

    free_given(queue->given);
    queue->given = NULL;
    while (queue->taken) {
        hth_event_block *block = queue->taken;

        LL_DELETE(queue->taken, block);
        give_back_locked(queue, block);
    }
    if (last && last->n_read == last->n) { /* then it is the first, too */
        assert(last == queue->waiting.first);
        if (last->capacity == BLOCK_BYTES)
            last->n = last->n_read = 0;
        else
            free(pop_block(&queue->waiting));
    }
}

/* Take the next event; NULL: none waits. */
static const hearth_event *next_locked(hearth_events *queue)
{
    hth_event_chain *chain = &queue->waiting;
    hth_event_record *record;

    while (chain->first && chain->first->n_read == chain->first->n && chain->first->next) {
        hth_event_block *block = pop_block(chain);

        LL_PREPEND(queue->taken, block);
    }
    if (chain->n_events == 0 || !chain->first)
        return NULL;
    record = (hth_event_record *)(void *)(chain->first->bytes + chain->first->n_read);
    chain->first->n_read += record->n_bytes;
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
    hth_event_reply *reply, *next;

    DL_FOREACH_SAFE2(queue->paused, reply, next, next_paused)
    {
        const hth_event_source *source = reply->source;

        /* A repeated pause restarts stalled_ms. A request that is not found is about to end. */
        (void)source->teller->pause(source->teller->model, source->first_id + (uint64_t)(reply - source->replies),
                                    HTH_PAUSE_EVENTS, waits);
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
