/*
 * waiters_test.c - who began earlier is told first, also when it comes back
 */
#include <stddef.h>

#include "server/waiters.h"
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
