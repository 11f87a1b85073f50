/*
 * mailbox.c - a ring under a mutex with one condition
 *
 * Messages are requests and rows, a few thousand a second at most, so a lock costs nothing that could be measured
 * beside an evaluation.
 */
#include "base/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/deadline.h"

struct hth_mailbox {
    size_t capacity; /* fixed at creation */

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t first; /* index of the oldest */
    size_t count;
    bool closed;
    void *ring[];
};

hth_mailbox *hth_mailbox_new(size_t capacity)
{
    hth_mailbox *box = malloc(sizeof(*box) + capacity * sizeof(box->ring[0]));

    if (!box)
        return NULL;
    box->capacity = capacity;
    box->first = 0;
    box->count = 0;
    box->closed = false;
    pthread_mutex_init(&box->lock, NULL);
    hth_condition_init(&box->changed);
    return box;
}

void hth_mailbox_free(hth_mailbox *box)
{
    if (!box)
        return;
    pthread_cond_destroy(&box->changed);
    pthread_mutex_destroy(&box->lock);
    free(box);
}

hth_mailbox_result hth_mailbox_put(hth_mailbox *box, void *message)
{
    hth_mailbox_result result = HTH_MAILBOX_OK;

    assert(message);
    pthread_mutex_lock(&box->lock);
    if (box->closed) {
        result = HTH_MAILBOX_CLOSED;
    } else if (box->count == box->capacity) {
        result = HTH_MAILBOX_FULL;
    } else {
        box->ring[(box->first + box->count) % box->capacity] = message;
        box->count++;
        pthread_cond_signal(&box->changed);
    }
    pthread_mutex_unlock(&box->lock);
    return result;
}

static void *take_locked(hth_mailbox *box)
{
    void *message;

    if (box->count == 0)
        return NULL;
    message = box->ring[box->first];
    box->first = (box->first + 1) % box->capacity;
    box->count--;
    return message;
}

void *hth_mailbox_take(hth_mailbox *box, uint32_t timeout_ms)
{
    void *message;

    pthread_mutex_lock(&box->lock);
    if (box->count == 0 && !box->closed && timeout_ms > 0) {
        struct timespec deadline = hth_deadline_after(timeout_ms);
        int waited = 0;

        while (box->count == 0 && !box->closed && waited != ETIMEDOUT)
            waited = pthread_cond_timedwait(&box->changed, &box->lock, &deadline);
    }
    message = take_locked(box);
    pthread_mutex_unlock(&box->lock);
    return message;
}

void *hth_mailbox_wait(hth_mailbox *box)
{
    void *message;

    pthread_mutex_lock(&box->lock);
    while (box->count == 0 && !box->closed)
        pthread_cond_wait(&box->changed, &box->lock);
    message = take_locked(box);
    pthread_mutex_unlock(&box->lock);
    return message;
}

void hth_mailbox_close(hth_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

size_t hth_mailbox_count(hth_mailbox *box)
{
    size_t count;

    pthread_mutex_lock(&box->lock);
    count = box->count;
    pthread_mutex_unlock(&box->lock);
    return count;
}

bool hth_mailbox_is_closed(hth_mailbox *box)
{
    bool closed;

    pthread_mutex_lock(&box->lock);
    closed = box->closed && box->count == 0;
    pthread_mutex_unlock(&box->lock);
    return closed;
}
