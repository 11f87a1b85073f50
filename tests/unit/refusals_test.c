/*
 * refusals_test.c - a flood of refusals gives a bounded number of lines, and none goes uncounted
 */
#include "front/access_log.h"
#include "support/cmocka_all.h"

#define SECOND UINT64_C(1000000000)

TEST(the_first_ones_are_logged_and_the_rest_is_counted)
{
    hth_refusals refusals = { .n_unlogged = 0 };
    uint64_t n_unlogged = 7;

    for (int i = 0; i < HTH_REFUSALS_AT_ONCE; i++) {
        assert_true(hth_refusals_take(&refusals, SECOND, &n_unlogged));
        assert_int_equal(n_unlogged, 0);
    }
    for (int i = 0; i < 1000; i++)
        assert_false(hth_refusals_take(&refusals, SECOND, &n_unlogged));
    assert_true(hth_refusals_take(&refusals, SECOND + SECOND / HTH_REFUSALS_PER_SECOND, &n_unlogged));
    assert_int_equal(n_unlogged, 1000);
    assert_false(hth_refusals_take(&refusals, SECOND + SECOND / HTH_REFUSALS_PER_SECOND, &n_unlogged));
}

TEST(a_flood_gives_so_many_lines_a_second)
{
    hth_refusals refusals = { .n_unlogged = 0 };
    uint64_t n_lines = 0, n_told = 0, n_unlogged;
    const uint64_t n = 100000, seconds = 20;

    for (uint64_t i = 0; i < n; i++)
        if (hth_refusals_take(&refusals, SECOND + i * seconds * SECOND / n, &n_unlogged)) {
            n_lines++;
            n_told += n_unlogged;
        }
    assert_in_range(n_lines, HTH_REFUSALS_AT_ONCE + (seconds - 1) * HTH_REFUSALS_PER_SECOND,
                    HTH_REFUSALS_AT_ONCE + seconds * HTH_REFUSALS_PER_SECOND);
    assert_int_equal(n_lines + n_told + refusals.n_unlogged, n);
}

TEST(a_quiet_time_gives_no_more_than_at_first)
{
    hth_refusals refusals = { .n_unlogged = 0 };
    uint64_t n_unlogged, n_lines = 0;

    assert_true(hth_refusals_take(&refusals, SECOND, &n_unlogged));
    for (int i = 0; i < 500; i++)
        n_lines += hth_refusals_take(&refusals, 1000000 * SECOND, &n_unlogged);
    assert_int_equal(n_lines, HTH_REFUSALS_AT_ONCE);
}

TEST(a_clock_that_stands_still_or_goes_back_gives_nothing)
{
    hth_refusals refusals = { .n_unlogged = 0 };
    uint64_t n_unlogged, n_lines = 0;

    for (int i = 0; i < 500; i++)
        n_lines += hth_refusals_take(&refusals, (uint64_t)(1000 - i) * SECOND, &n_unlogged);
    assert_int_equal(n_lines, HTH_REFUSALS_AT_ONCE);
}
