/*
 * pull_judge_test.c - when a node stops waiting for rows of another one, and what that costs at most
 */
#include <string.h>

#include "carrier/pull_judge.h"
#include "support/cmocka_all.h"

#define MS HTH_PULL_MS
#define SECOND (1000 * MS)
#define MB UINT64_C(1000000)

/* A fetch of so many bytes over a link of this rate, in bytes a second: the time at which it ends, either way. */
static uint64_t ended_after(uint64_t compute_ns, uint64_t bytes, double rate, bool *came_out)
{
    for (uint64_t ns = 0;; ns += MS) {
        const double got = rate * (double)ns / 1e9;
        const hth_pull pull = { .compute_ns = compute_ns,
                                .bytes_total = bytes,
                                .bytes_got = got < (double)bytes ? (uint64_t)got : bytes,
                                .passed_ns = ns,
                                .data_ns = ns,
                                .silent_ns = rate > 0 ? 0 : ns };

        *came_out = pull.bytes_got == bytes;
        if (*came_out || !hth_pull_goes_on(&pull))
            return ns;
    }
}

TEST(a_fast_link_is_waited_for)
{
    bool came;

    assert_true(ended_after(21 * SECOND, 46 * MB, 125e6, &came) < 400 * MS);
    assert_true(came);
    assert_true(ended_after(0, 46 * MB, 1e6, &came) < 47 * SECOND); /* no time to compare with */
    assert_true(came);
}

TEST(a_slow_link_costs_a_twentieth_of_computing)
{
    bool came;

    for (uint64_t compute_ns = SECOND; compute_ns <= 100 * SECOND; compute_ns *= 10) {
        assert_true(ended_after(compute_ns, 46 * MB, 46e6 * 1e9 / (double)compute_ns / 1.1, &came) <=
                    compute_ns / 20 + MS);
        assert_false(came);
    }
}

TEST(a_silent_link_costs_a_quarter_at_most)
{
    bool came;

    for (uint64_t compute_ns = 100 * MS; compute_ns <= 100 * SECOND; compute_ns *= 10)
        assert_true(ended_after(compute_ns, 46 * MB, 0, &came) <= compute_ns / 4);
    assert_true(ended_after(1000 * SECOND, 46 * MB, 0, &came) <= 3 * SECOND);
    assert_true(ended_after(0, 46 * MB, 0, &came) <= 3 * SECOND);
}

TEST(a_link_that_stalls_in_the_middle_is_left)
{
    const hth_pull pull = { .compute_ns = 10 * SECOND,
                            .bytes_total = 46 * MB,
                            .bytes_got = 45 * MB,
                            .passed_ns = 2 * SECOND,
                            .data_ns = 2 * SECOND,
                            .silent_ns = 1001 * MS };

    assert_false(hth_pull_goes_on(&pull));
}

/* A fetch whose link brings so many bytes of 46 MB in 1 s, and then is as slow as that: does it go on? */
static bool goes_on_after_a_second(uint64_t compute_ns, uint64_t bytes, bool needs_all)
{
    const hth_pull pull = { .compute_ns = compute_ns,
                            .bytes_total = 46 * MB,
                            .bytes_got = bytes,
                            .passed_ns = SECOND,
                            .data_ns = SECOND,
                            .needs_all = needs_all };

    return hth_pull_goes_on(&pull);
}

TEST(rows_of_which_a_part_is_of_no_use_have_a_fifth_of_the_time)
{
    assert_true(goes_on_after_a_second(10 * SECOND, 6 * MB, false));
    assert_false(goes_on_after_a_second(10 * SECOND, 6 * MB, true)); /* it would take 7.7 s */
    assert_true(goes_on_after_a_second(10 * SECOND, 24 * MB, true));
    assert_false(goes_on_after_a_second(4 * SECOND, 46 * MB, true)); /* or it would cost a quarter, and more */
}

TEST(a_fetch_that_would_end_too_late_is_left_early)
{
    assert_true(goes_on_after_a_second(10 * SECOND, 5200000, false));
    assert_false(goes_on_after_a_second(10 * SECOND, 4800000, false)); /* 9.6 s, and 9 are allowed */
}

TEST(before_a_worker_has_measured_its_time_there_is_a_guess)
{
    assert_true(hth_pull_compute_ns(7, 2048) == 7);
    assert_true(hth_pull_compute_ns(0, 2048) == 2048 * 2 * MS);
}

TEST(a_node_that_was_slow_is_asked_again_after_a_while)
{
    assert_false(hth_pull_is_worth_it(SECOND, 46 * MB, 46e6, SECOND));
    assert_true(hth_pull_is_worth_it(SECOND, 46 * MB, 60e6, SECOND));
    assert_true(hth_pull_is_worth_it(SECOND, 46 * MB, 46e6, HTH_PULL_FORGET_NS));
    assert_true(hth_pull_is_worth_it(SECOND, 46 * MB, 0, 0));
    assert_true(hth_pull_is_worth_it(0, 46 * MB, 1, 0));
}

TEST(a_rate_is_half_what_was_known_and_small_fetches_do_not_count)
{
    hth_pull_past past = { .rate = 0 };

    hth_pull_note(&past, 10 * MB, SECOND, false, SECOND, 100 * SECOND);
    assert_true(past.rate == 10e6);
    hth_pull_note(&past, 20 * MB, SECOND, true, SECOND, 110 * SECOND);
    assert_true(past.rate == 15e6);
    hth_pull_note(&past, 1000, SECOND, false, SECOND, 139 * SECOND);
    hth_pull_note(&past, 10 * MB, 0, false, SECOND, 139 * SECOND);
    assert_true(past.rate == 15e6);
    assert_true(past.rated_ns == 110 * SECOND); /* or small fetches would keep an old rate for ever */
    hth_pull_note(&past, 10 * MB, SECOND, false, SECOND, 110 * SECOND + HTH_PULL_FORGET_NS);
    assert_true(past.rate == 10e6); /* the old rate did not count */
}

TEST(a_node_that_was_silent_is_left_alone_for_a_while)
{
    hth_pull_past past = { .rate = 0 };

    assert_true(hth_pull_may_begin(&past, SECOND, SECOND));
    hth_pull_note(&past, 1000, SECOND, false, SECOND, 100 * SECOND); /* it broke off, or nobody waited */
    assert_true(hth_pull_may_begin(&past, SECOND, 100 * SECOND));
    hth_pull_note(&past, 10 * MB, SECOND, true, SECOND, 100 * SECOND); /* its rate tells whether it is worth it */
    assert_true(hth_pull_may_begin(&past, SECOND, 100 * SECOND));
    hth_pull_note(&past, 1000, SECOND, true, SECOND, 100 * SECOND);
    assert_false(hth_pull_may_begin(&past, SECOND, 101 * SECOND));
    assert_false(hth_pull_may_begin(&past, 2 * SECOND, 101 * SECOND));
    assert_true(hth_pull_may_begin(&past, 3 * SECOND, 101 * SECOND));
    assert_true(hth_pull_may_begin(&past, 0, 101 * SECOND));
    assert_true(hth_pull_may_begin(&past, SECOND, 100 * SECOND + HTH_PULL_FORGET_NS));
    hth_pull_note(&past, 0, 0, true, 0, 200 * SECOND);
    assert_false(hth_pull_may_begin(&past, 1000 * SECOND, 201 * SECOND));
    assert_false(hth_pull_may_begin(&past, 0, 201 * SECOND));
}
