/*
 * message_queue_test.c - bounded, in order, and closed for good
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/message_queue.h"
#include "support/cmocka_all.h"

TEST(messages_come_out_in_order_and_a_full_queue_says_so)
{
    hth_message_queue *queue = hth_message_queue_new(2);
    int a, b, c;

    assert_int_equal(hth_message_queue_put(queue, &a), HTH_MESSAGE_QUEUE_OK);
    assert_int_equal(hth_message_queue_put(queue, &b), HTH_MESSAGE_QUEUE_OK);
    assert_int_equal(hth_message_queue_put(queue, &c), HTH_MESSAGE_QUEUE_FULL);
    assert_ptr_equal(hth_message_queue_take(queue, 0), &a);
    assert_int_equal(hth_message_queue_put(queue, &c), HTH_MESSAGE_QUEUE_OK);
    assert_ptr_equal(hth_message_queue_take(queue, 0), &b);
    assert_ptr_equal(hth_message_queue_take(queue, 0), &c);
    assert_null(hth_message_queue_take(queue, 1));
    hth_message_queue_free(queue);
}

TEST(a_closed_queue_is_drained_and_takes_no_more)
{
    hth_message_queue *queue = hth_message_queue_new(4);
    int a;

    assert_int_equal(hth_message_queue_put(queue, &a), HTH_MESSAGE_QUEUE_OK);
    hth_message_queue_close(queue);
    assert_int_equal(hth_message_queue_put(queue, &a), HTH_MESSAGE_QUEUE_CLOSED);
    assert_false(hth_message_queue_is_closed(queue));
    assert_ptr_equal(hth_message_queue_take(queue, UINT32_MAX), &a);
    assert_null(hth_message_queue_take(queue, UINT32_MAX));
    assert_true(hth_message_queue_is_closed(queue));
    hth_message_queue_free(queue);
}

enum { PRODUCERS = 4, EACH = 5000 };

static void *produce(void *queue)
{
    for (intptr_t i = 1; i <= EACH; i++)
        while (hth_message_queue_put(queue, (void *)i) == HTH_MESSAGE_QUEUE_FULL)
            sched_yield();
    return NULL;
}

TEST(nothing_is_lost_between_threads)
{
    hth_message_queue *queue = hth_message_queue_new(64);
    pthread_t threads[PRODUCERS];
    intptr_t sum = 0;

    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, produce, queue), 0);
    for (int i = 0; i < PRODUCERS * EACH; i++)
        sum += (intptr_t)hth_message_queue_take(queue, UINT32_MAX);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sum, (intptr_t)PRODUCERS * EACH * (EACH + 1) / 2);
    assert_int_equal(hth_message_queue_count(queue), 0);
    hth_message_queue_free(queue);
}
