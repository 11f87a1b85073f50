/*
 * message_queue.h - a bounded queue of pointers from many threads to one
 *
 * Messages to a scheduler or a writer thread go through such a queue. The queue does not own its pointers: the receiver
 * owns those it takes. After closing, the receiver drains the queue, and later messages are refused.
 */
#ifndef HTH_BASE_MESSAGE_QUEUE_H
#define HTH_BASE_MESSAGE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_message_queue hth_message_queue;

/* Create a queue for at most capacity pointers; NULL without memory. */
hth_message_queue *hth_message_queue_new(size_t capacity);
/* Empty it first: remaining messages are not freed. Accepts NULL. */
void hth_message_queue_free(hth_message_queue *queue);

typedef enum hth_message_queue_result {
    HTH_MESSAGE_QUEUE_OK,
    HTH_MESSAGE_QUEUE_FULL,
    HTH_MESSAGE_QUEUE_CLOSED
} hth_message_queue_result;

/* Add one without waiting. Any thread. */
hth_message_queue_result hth_message_queue_put(hth_message_queue *queue, void *message);
/*
 * Take the oldest message. NULL if none arrives within timeout_ms (UINT32_MAX: no limit), or as soon as the queue is
 * closed and empty.
 */
void *hth_message_queue_take(hth_message_queue *queue, uint32_t timeout_ms);
void hth_message_queue_close(hth_message_queue *queue);
/* Is it closed and empty? */
bool hth_message_queue_is_closed(hth_message_queue *queue);
size_t hth_message_queue_count(hth_message_queue *queue);

#endif
