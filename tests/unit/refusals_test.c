/*
 * refusals_test.c - a flood of refusals gives a bounded number of lines, and none goes uncounted
 */
#include "front/access_log.h"
#include "support/cmocka_all.h"

#define SECOND UINT64_C(1000000000)

TEST(the_first_ones_are_logged_and_the_rest_is_counted)
{
    hth_refusals refusals = { .n_untold = 0 };
    uint64_t n_untold = 7;

    for (int i = 0; i < HTH_REFUSALS_AT_ONCE; i++) {
        assert_true(hth_refusals_take(&refusals, SECOND, &n_untold));
        assert_int_equal(n_untold, 0);
    }
    for (int i = 0; i < 1000; i++)
        assert_false(hth_refusals_take(&refusals, SECOND, &n_untold));
    assert_true(hth_refusals_take(&refusals, SECOND + SECOND / HTH_REFUSALS_PER_SECOND, &n_untold));
    assert_int_equal(n_untold, 1000);
    assert_false(hth_refusals_take(&refusals, SECOND + SECOND / HTH_REFUSALS_PER_SECOND, &n_untold));
}

TEST(a_flood_gives_so_many_lines_a_second)
{
    hth_refusals refusals = { .n_untold = 0 };
    uint64_t n_lines = 0, n_told = 0, n_untold;
    const uint64_t n = 100000, seconds = 20;

    for (uint64_t i = 0; i < n; i++)
        if (hth_refusals_take(&refusals, SECOND + i * seconds * SECOND / n, &n_untold)) {
            n_lines++;
            n_told += n_untold;
        }
    assert_in_range(n_lines, HTH_REFUSALS_AT_ONCE + (seconds - 1) * HTH_REFUSALS_PER_SECOND,
                    HTH_REFUSALS_AT_ONCE + seconds * HTH_REFUSALS_PER_SECOND);
    assert_int_equal(n_lines + n_told + refusals.n_untold, n);
}

TEST(a_quiet_time_gives_no_more_than_at_first)
{
    hth_refusals refusals = { .n_untold = 0 };
    uint64_t n_untold, n_lines = 0;

    assert_true(hth_refusals_take(&refusals, SECOND, &n_untold));
    for (int i = 0; i < 500; i++)
        n_lines += hth_refusals_take(&refusals, 1000000 * SECOND, &n_untold);
    assert_int_equal(n_lines, HTH_REFUSALS_AT_ONCE);
}

TEST(a_clock_that_stands_still_or_goes_back_gives_nothing)
{
    hth_refusals refusals = { .n_untold = 0 };
    uint64_t n_untold, n_lines = 0;

    for (int i = 0; i < 500; i++)
        n_lines += hth_refusals_take(&refusals, (uint64_t)(1000 - i) * SECOND, &n_untold);
    assert_int_equal(n_lines, HTH_REFUSALS_AT_ONCE);
}
