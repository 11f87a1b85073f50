/*
 * mailbox_test.c - bounded, in order, and closed for good
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/mailbox.h"
#include "support/cmocka_all.h"

static void messages_come_out_in_order_and_a_full_box_says_so(void **state)
{
    hth_mailbox *box = hth_mailbox_new(2);
    int a, b, c;

    (void)state;
    assert_int_equal(hth_mailbox_put(box, &a), HTH_MAILBOX_OK);
    assert_int_equal(hth_mailbox_put(box, &b), HTH_MAILBOX_OK);
    assert_int_equal(hth_mailbox_put(box, &c), HTH_MAILBOX_FULL);
    assert_ptr_equal(hth_mailbox_take(box, 0), &a);
    assert_int_equal(hth_mailbox_put(box, &c), HTH_MAILBOX_OK);
    assert_ptr_equal(hth_mailbox_take(box, 0), &b);
    assert_ptr_equal(hth_mailbox_take(box, 0), &c);
    assert_null(hth_mailbox_take(box, 1));
    hth_mailbox_free(box);
}

static void a_closed_box_is_drained_and_takes_no_more(void **state)
{
    hth_mailbox *box = hth_mailbox_new(4);
    int a;

    (void)state;
    assert_int_equal(hth_mailbox_put(box, &a), HTH_MAILBOX_OK);
    hth_mailbox_close(box);
    assert_int_equal(hth_mailbox_put(box, &a), HTH_MAILBOX_CLOSED);
    assert_false(hth_mailbox_is_closed(box));
    assert_ptr_equal(hth_mailbox_wait(box), &a);
    assert_null(hth_mailbox_wait(box));
    assert_true(hth_mailbox_is_closed(box));
    hth_mailbox_free(box);
}

enum { PRODUCERS = 4, EACH = 5000 };

static void *produce(void *box)
{
    for (intptr_t i = 1; i <= EACH; i++)
        while (hth_mailbox_put(box, (void *)i) == HTH_MAILBOX_FULL)
            sched_yield();
    return NULL;
}

static void nothing_is_lost_between_threads(void **state)
{
    hth_mailbox *box = hth_mailbox_new(64);
    pthread_t threads[PRODUCERS];
    intptr_t sum = 0;

    (void)state;
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, produce, box), 0);
    for (int i = 0; i < PRODUCERS * EACH; i++)
        sum += (intptr_t)hth_mailbox_wait(box);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sum, (intptr_t)PRODUCERS * EACH * (EACH + 1) / 2);
    assert_int_equal(hth_mailbox_count(box), 0);
    hth_mailbox_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_out_in_order_and_a_full_box_says_so),
        cmocka_unit_test(a_closed_box_is_drained_and_takes_no_more),
        cmocka_unit_test(nothing_is_lost_between_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
