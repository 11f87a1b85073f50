/*
 * waiters_test.c - who began earlier is told first, also when it comes back
 */
#include <stddef.h>

#include "supervisor/waiters.h"
#include "support/cmocka_all.h"

enum { N = 5 };

typedef struct told {
    hth_worker_waiter waiter;
    int *n_told;
    int place; /* at which it was told; -1: it was not */
} told;

static void on_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    told *t = (told *)((char *)waiter - offsetof(told, waiter));

    (void)socket_path, (void)generation;
    t->place = (*t->n_told)++;
}

static bool yes(void *user_data)
{
    (void)user_data;
    return true;
}

static void add(hth_waiters *waiters, told *t, uint64_t since_ns, int *n_told)
{
    *t = (told){ .waiter = { .on_ready = on_ready, .since_ns = since_ns }, .n_told = n_told, .place = -1 };
    hth_waiters_add(waiters, &t->waiter);
}

TEST(who_began_earlier_is_told_first_in_whatever_order_they_come_back)
{
    static const uint64_t since[][N] = {
        { 1, 2, 3, 4, 5 }, { 5, 4, 3, 2, 1 }, { 3, 1, 5, 2, 4 }, { 2, 2, 1, 2, 1 }, { 0, 0, 0, 0, 0 },
    };

    for (size_t k = 0; k < sizeof(since) / sizeof(since[0]); k++) {
        hth_waiters waiters;
        told all[N];
        int n_told = 0;

        hth_waiters_init(&waiters, NULL, NULL);
        for (int i = 0; i < N; i++)
            add(&waiters, &all[i], since[k][i], &n_told);
        assert_int_equal(waiters.n, N);
        hth_waiters_tell_ready(&waiters, "s", 1, yes, NULL);
        assert_int_equal(n_told, N);
        assert_int_equal(waiters.n, 0);
        for (int i = 0; i < N; i++)
            for (int j = i + 1; j < N; j++) /* those that began together keep their order */
                assert_true(since[k][i] <= since[k][j] ? all[i].place < all[j].place : all[i].place > all[j].place);
    }
}

typedef struct late {
    hth_worker_waiter waiter; /* first */
    hth_waiters *waiters;
    hth_worker_waiter *added; /* by on_failed */
} late;

static void on_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    const late *l = (const late *)waiter;

    (void)err;
    if (l->added)
        hth_waiters_add(l->waiters, l->added);
}

TEST(one_that_comes_while_others_are_told_stays_behind_those_that_wait)
{
    hth_waiters waiters;
    late newcomer = { .waiter = { .on_failed = on_failed, .since_ns = 3, .until_ns = 5 } };
    late first = { .waiter = { .on_failed = on_failed, .since_ns = 1, .until_ns = 5 },
                   .waiters = &waiters,
                   .added = &newcomer.waiter };
    late second = { .waiter = { .on_failed = on_failed, .since_ns = 2, .until_ns = 50 } };
    const hearth_error err = { .status = HEARTH_TIMED_OUT };

    hth_waiters_init(&waiters, NULL, NULL);
    hth_waiters_add(&waiters, &first.waiter);
    hth_waiters_add(&waiters, &second.waiter);
    hth_waiters_tell_late(&waiters, 10, &err); /* the newcomer is late, too, but came during the walk */
    assert_int_equal(waiters.n, 2);
    assert_ptr_equal(waiters.first, &second.waiter);
    assert_int_equal(hth_waiters_oldest_ns(&waiters), 2);
    assert_true(hth_waiters_has_late(&waiters, 10));
}

static void count_idle(void *user_data)
{
    ++*(int *)user_data;
}

TEST(one_that_was_given_the_worker_holds_it_until_it_is_cancelled)
{
    hth_waiters waiters;
    told all[2];
    int n_told = 0, n_idle = 0;

    hth_waiters_init(&waiters, count_idle, &n_idle);
    add(&waiters, &all[0], 1, &n_told);
    add(&waiters, &all[1], 2, &n_told);
    hth_waiters_tell_ready(&waiters, "s", 1, yes, NULL);
    assert_int_equal(waiters.n_holders, 2);
    hth_worker_waiter_cancel(&all[0].waiter);
    hth_worker_waiter_cancel(&all[0].waiter); /* holds nothing now */
    assert_int_equal(n_idle, 0);
    hth_worker_waiter_cancel(&all[1].waiter);
    assert_int_equal(waiters.n_holders, 0);
    assert_int_equal(n_idle, 1);
}

TEST(one_in_the_middle_may_leave)
{
    hth_waiters waiters;
    told all[N];
    int n_told = 0;

    hth_waiters_init(&waiters, NULL, NULL);
    for (int i = 0; i < N; i++)
        add(&waiters, &all[i], (uint64_t)(N - i), &n_told);
    hth_worker_waiter_cancel(&all[2].waiter);
    hth_worker_waiter_cancel(&all[0].waiter); /* the last in line */
    add(&waiters, &all[0], 9, &n_told);
    hth_waiters_tell_ready(&waiters, "s", 1, yes, NULL);
    assert_int_equal(all[4].place, 0);
    assert_int_equal(all[3].place, 1);
    assert_int_equal(all[2].place, -1);
    assert_int_equal(all[1].place, 2);
    assert_int_equal(all[0].place, 3);
}
