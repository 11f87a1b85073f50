/*
 * batch_costs_test.c - times of evaluations: learned, guessed, forgotten, and the number of rows to fill up to
 */
#include "sched/batch_costs.h"

#include "support/cmocka_all.h"
#include "support/support.h"

/* The time of an engine that computes 16 rows at once in 14 units, and any others in 3 units each. */
static uint64_t time_of(uint32_t n_rows)
{
    return 1000 * (uint64_t)(n_rows / 16 * 14 + n_rows % 16 * 3);
}

static void note(hth_batch_costs *costs, uint32_t n_rows, unsigned n_times)
{
    while (n_times-- > 0)
        hth_batch_costs_note(costs, n_rows, time_of(n_rows));
}

static void expect_near(uint64_t ns, uint64_t expected)
{
    assert_in_range(ns, expected - expected / 50, expected + expected / 50);
}

TEST(nothing_is_known_before_the_first_evaluation)
{
    hth_batch_costs costs = { .row_ns = 0 };

    assert_false(hth_batch_costs_knows(&costs, 1));
    assert_int_equal(hth_batch_costs_of(&costs, 1), 0);
    assert_int_equal(hth_batch_costs_of(&costs, 64), 0);
    assert_int_equal(hth_batch_costs_fill(&costs, 9), 9);
}

TEST(an_unknown_number_costs_the_least_it_can)
{
    hth_batch_costs costs = { .row_ns = 0 };

    note(&costs, 1, 1);
    expect_near(hth_batch_costs_of(&costs, 5), 2 * time_of(1)); /* four more rows of a quarter each */
    note(&costs, 256, 1);
    expect_near(hth_batch_costs_of(&costs, 5), time_of(1) + 4 * time_of(256) / 256);
    note(&costs, 5, 1);
    expect_near(hth_batch_costs_of(&costs, 5), time_of(5));
    assert_true(hth_batch_costs_knows(&costs, 5));
    assert_false(hth_batch_costs_knows(&costs, 4));
    expect_near(hth_batch_costs_of(&costs, 512), time_of(512));
}

TEST(a_group_is_filled_where_that_takes_less_time)
{
    hth_batch_costs costs = { .row_ns = 0 };

    note(&costs, 256, 1);
    for (unsigned round = 0; round < 8; round++)
        for (uint32_t n = 1; n < HTH_CHUNK_MIN; n++)
            note(&costs, n, 1);
    assert_int_equal(hth_batch_costs_fill(&costs, 3), 3);
    assert_int_equal(hth_batch_costs_fill(&costs, 4), 4);
    assert_int_equal(hth_batch_costs_fill(&costs, 6), 6); /* a moment in which 6 took long is no reason */
    assert_int_equal(hth_batch_costs_fill(&costs, 9), 16);
    assert_int_equal(hth_batch_costs_fill(&costs, 15), 16);
    assert_int_equal(hth_batch_costs_fill(&costs, 16), 16);
    assert_int_equal(hth_batch_costs_fill(&costs, 17), 17);
    assert_int_equal(hth_batch_costs_fill(&costs, 31), 32);
    assert_int_equal(hth_batch_costs_fill(&costs, 63), 63); /* more rows would count as a prompt's */
    assert_int_equal(hth_batch_costs_fill(&costs, 100), 100);
}

TEST(a_moment_in_which_the_machine_stood_still_counts_little)
{
    hth_batch_costs costs = { .row_ns = 0 };

    note(&costs, 1, 8);
    hth_batch_costs_note(&costs, 1, 1000 * time_of(1));
    assert_true(hth_batch_costs_of(&costs, 1) < 2 * time_of(1));
    note(&costs, 1, 16);
    expect_near(hth_batch_costs_of(&costs, 1), time_of(1));
    for (unsigned i = 0; i < 64; i++) /* but a machine that stays slow is noticed */
        hth_batch_costs_note(&costs, 1, 1000 * time_of(1));
    expect_near(hth_batch_costs_of(&costs, 1), 1000 * time_of(1));
}

TEST(a_slow_moment_is_forgotten)
{
    hth_batch_costs costs = { .row_ns = 0 };

    note(&costs, 256, 1);
    note(&costs, 1, 8);
    hth_batch_costs_note(&costs, 16, 20 * time_of(16));
    assert_int_equal(hth_batch_costs_fill(&costs, 15), 15);
    note(&costs, 1, 128 * HTH_CHUNK_MIN);
    expect_near(hth_batch_costs_of(&costs, 16), time_of(1) + 15 * time_of(256) / 256);
    note(&costs, 15, 8);
    assert_int_equal(hth_batch_costs_fill(&costs, 15), 16); /* it is tried again */
}
