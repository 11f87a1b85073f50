/*
 * restart_policy_test.c - pauses double, health forgives, and a crash loop breaks the circuit
 */
#include <stdlib.h>

#include "supervisor/restart_policy.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { HEALTHY_MS = 30000 };

/* The death of a process that served nothing. */
static hth_restart after(hth_restart_policy *policy, uint64_t ready_ms, double draw)
{
    const hth_restart_life life = { .ready_ms = ready_ms };

    return hth_restart_after_death(policy, HEALTHY_MS, &life, draw);
}

TEST(the_first_restart_is_at_once)
{
    hth_restart_policy policy = { 0 };
    hth_restart restart = after(&policy, 1000, 0.999);

    assert_false(restart.is_broken);
    assert_true(restart.pause_ms < HTH_RESTART_FIRST_MS);
}

TEST(pauses_double_with_half_of_them_drawn_by_lot)
{
    /* Lives long enough that they are no crash loop, too short to be forgiven. */
    const uint32_t expected[] = { 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000 };

    for (int high = 0; high < 2; high++) {
        hth_restart_policy policy = { 0 };

        (void)after(&policy, 20000, 0); /* the first is another test's */
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
            hth_restart restart = after(&policy, 20000, high ? 0.9999999 : 0.0);

            assert_false(restart.is_broken);
            assert_int_equal(restart.pause_ms, high ? expected[i] : expected[i] / 2);
        }
    }
}

TEST(a_worker_that_was_healthy_is_restarted_at_once_however_often_it_died_before)
{
    hth_restart_policy policy = { 0 };
    hth_restart restart;

    for (int i = 0; i < 20; i++)
        (void)after(&policy, 0, 0.5); /* only the last one matters here */
    restart = after(&policy, HEALTHY_MS, 0.5);
    assert_false(restart.is_broken);
    assert_true(restart.pause_ms < HTH_RESTART_FIRST_MS);
}

TEST(five_deaths_without_service_break_the_circuit_and_each_try_that_fails_doubles_the_pause)
{
    const uint32_t expected[] = { 30000, 60000, 120000, 240000, 480000, 600000, 600000 };
    hth_restart_policy policy = { 0 };

    for (int i = 0; i < HTH_RESTART_DEATHS_MAX - 1; i++)
        assert_false(after(&policy, 0, 0.5).is_broken);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        hth_restart restart = after(&policy, 0, 0.5);

        assert_true(restart.is_broken);
        assert_int_equal(restart.pause_ms, expected[i]);
    }
}

TEST(deaths_with_service_between_them_do_not_break_the_circuit)
{
    hth_restart_policy policy = { 0 };

    for (int i = 0; i < 100; i++)
        assert_false(after(&policy, 12001, 0.5).is_broken);
}

TEST(a_worker_that_served_starts_again_at_once_at_any_rate_of_deaths)
{
    const hth_restart_life life = { .ready_ms = 10, .has_served = true };
    hth_restart_policy policy = { 0 };

    for (int i = 0; i < HTH_RESTART_DEATHS_MAX; i++)
        (void)after(&policy, 0, 0.5);
    for (int i = 0; i < 200; i++) {
        const hth_restart restart = hth_restart_after_death(&policy, HEALTHY_MS, &life, 0.9);

        assert_false(restart.is_broken);
        assert_true(restart.pause_ms < HTH_RESTART_FIRST_MS);
    }
}

TEST(pauses_stay_within_their_bounds_whatever_happens)
{
    uint64_t seed = hth_test_seed();

    for (int round = 0; round < 100; round++) {
        hth_restart_policy policy = { 0 };

        for (int i = 0; i < 200; i++) {
            uint64_t ready_ms = hth_test_random(&seed, 4) == 0 ? UINT64_MAX : hth_test_random(&seed, 40000);
            hth_restart restart = after(&policy, ready_ms, (double)hth_test_random(&seed, 1000) / 1000.0);

            if (restart.is_broken) {
                assert_true(restart.pause_ms >= HTH_RESTART_BROKEN_MS);
                assert_true(restart.pause_ms <= HTH_RESTART_BROKEN_MAX_MS);
            } else {
                assert_true(restart.pause_ms <= HTH_RESTART_PAUSE_MAX_MS);
            }
        }
    }
}
