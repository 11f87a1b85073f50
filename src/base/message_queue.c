/*
 * message_queue.c - a ring under a mutex with one condition
 *
 * Messages are requests and rows, a few thousand a second at most. Compared with an evaluation, the cost of a lock is
 * too small to measure.
 */
#include "base/message_queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/deadline.h"

struct hth_message_queue {
    size_t capacity; /* fixed at creation */

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t first; /* index of the oldest */
    size_t count;
    bool closed;
    void *ring[];
};

hth_message_queue *hth_message_queue_new(size_t capacity)
{
    hth_message_queue *queue = malloc(sizeof(*queue) + capacity * sizeof(queue->ring[0]));

    if (!queue)
        return NULL;
    queue->capacity = capacity;
    queue->first = 0;
    queue->count = 0;
    queue->closed = false;
    pthread_mutex_init(&queue->lock, NULL);
    hth_condition_init(&queue->changed);
    return queue;
}

void hth_message_queue_free(hth_message_queue *queue)
{
    if (!queue)
        return;
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

hth_message_queue_result hth_message_queue_put(hth_message_queue *queue, void *message)
{
    hth_message_queue_result result = HTH_MESSAGE_QUEUE_OK;

    assert(message);
    pthread_mutex_lock(&queue->lock);
    if (queue->closed) {
        result = HTH_MESSAGE_QUEUE_CLOSED;
    } else if (queue->count == queue->capacity) {
        result = HTH_MESSAGE_QUEUE_FULL;
    } else {
        queue->ring[(queue->first + queue->count) % queue->capacity] = message;
        queue->count++;
        pthread_cond_signal(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return result;
}

void *hth_message_queue_take(hth_message_queue *queue, uint32_t timeout_ms)
{
    const bool is_bounded = timeout_ms != UINT32_MAX;
    struct timespec deadline = { 0 };
    void *message = NULL;
    int waited = timeout_ms > 0 ? 0 : ETIMEDOUT;

    pthread_mutex_lock(&queue->lock);
    if (is_bounded && queue->count == 0 && waited == 0)
        deadline = hth_deadline_after(timeout_ms);
    while (queue->count == 0 && !queue->closed && waited != ETIMEDOUT)
        waited = is_bounded ? pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline)
                            : pthread_cond_wait(&queue->changed, &queue->lock);
    if (queue->count > 0) {
        message = queue->ring[queue->first];
        queue->first = (queue->first + 1) % queue->capacity;
        queue->count--;
    }
    pthread_mutex_unlock(&queue->lock);
    return message;
}

void hth_message_queue_close(hth_message_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

size_t hth_message_queue_count(hth_message_queue *queue)
{
    size_t count;

    pthread_mutex_lock(&queue->lock);
    count = queue->count;
    pthread_mutex_unlock(&queue->lock);
    return count;
}

bool hth_message_queue_is_closed(hth_message_queue *queue)
{
    bool closed;

    pthread_mutex_lock(&queue->lock);
    closed = queue->closed && queue->count == 0;
    pthread_mutex_unlock(&queue->lock);
    return closed;
}
