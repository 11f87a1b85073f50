/*
 * queue_test.c - whose turn it is: priority, aging, arrival
 */
#include "sched/waiting_line.h"

#include "support/cmocka_all.h"
#include "support/support.h"

enum { ROUNDS = 100000 };

static const uint64_t second = 1000000000u;

static hth_queue_place place(int32_t priority, uint64_t since_s, uint64_t number)
{
    return (hth_queue_place){ .priority = priority, .since_ns = since_s * second, .number = number };
}

static bool is_before(hth_queue_place a, hth_queue_place b, uint64_t now_s, uint64_t aging_s)
{
    return hth_queue_is_before(&a, &b, now_s * second, aging_s * second);
}

TEST(of_equals_the_first_to_come_is_first)
{
    assert_true(is_before(place(0, 5, 1), place(0, 5, 2), 5, 10));
    assert_false(is_before(place(0, 5, 2), place(0, 5, 1), 5, 10));
    assert_true(is_before(place(0, 4, 1), place(0, 5, 2), 6, 10));
    assert_false(is_before(place(0, 5, 1), place(0, 5, 1), 6, 10));
}

TEST(who_came_earlier_elsewhere_is_first)
{
    hth_queue_place old = place(0, 5, 2), young = place(0, 5, 1);

    old.came_ns = 3 * second;
    young.came_ns = 5 * second;
    assert_true(is_before(old, young, 5, 10));
    assert_false(is_before(young, old, 5, 10));
    old.priority = -1;
    assert_false(is_before(old, young, 5, 10)); /* it has waited no longer here */
}

TEST(a_higher_priority_comes_first)
{
    assert_true(is_before(place(1, 5, 2), place(0, 5, 1), 5, 10));
    assert_false(is_before(place(-1, 5, 1), place(0, 5, 2), 5, 10));
    assert_true(is_before(place(100, 5, 2), place(-100, 5, 1), 5, 10));
}

TEST(who_waits_rises_by_one_each_interval)
{
    hth_queue_place old = place(0, 0, 1);

    assert_true(is_before(place(1, 9, 2), old, 9, 10));
    assert_false(is_before(place(1, 10, 2), old, 10, 10)); /* now they are equal, and the older one comes first */
    assert_true(is_before(old, place(1, 10, 2), 10, 10));
    assert_true(is_before(place(2, 10, 2), old, 10, 10));
    assert_true(is_before(old, place(2, 20, 3), 20, 10));
    assert_true(is_before(place(-100, 0, 1), place(100, 2000, 2), 2000, 10)); /* nothing starves */
}

TEST(rising_together_changes_nothing)
{
    for (uint64_t now = 5; now < 500; now += 7)
        assert_true(is_before(place(1, 5, 2), place(0, 5, 1), now, 10));
}

static hth_queue_place any_place(uint64_t *seed, uint64_t now)
{
    return (hth_queue_place){
        .priority = (int32_t)hth_test_random(seed, 5) - 2,
        .since_ns = hth_test_random(seed, now + 1),
        .came_ns = hth_test_random(seed, 3),
        .number = hth_test_random(seed, 50),
    };
}

TEST(the_order_is_a_strict_one)
{
    uint64_t seed = hth_test_seed();

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t now = hth_test_random(&seed, 100), aging = 1 + hth_test_random(&seed, 20);
        hth_queue_place a = any_place(&seed, now), b = any_place(&seed, now), c = any_place(&seed, now);
        bool ab = hth_queue_is_before(&a, &b, now, aging), ba = hth_queue_is_before(&b, &a, now, aging);
        bool bc = hth_queue_is_before(&b, &c, now, aging), cb = hth_queue_is_before(&c, &b, now, aging);
        bool ac = hth_queue_is_before(&a, &c, now, aging), ca = hth_queue_is_before(&c, &a, now, aging);

        assert_false(hth_queue_is_before(&a, &a, now, aging));
        assert_false(ab && ba);
        assert_true(ab || ba || (a.number == b.number && a.came_ns == b.came_ns));
        if (ab && bc)
            assert_true(ac);
        if (!ab && !ba && !bc && !cb) /* equals of equals are equal */
            assert_true(!ac && !ca);
    }
}
