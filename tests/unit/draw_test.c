/*
 * draw_test.c - draws are a function of seed and position, and fair
 */
#include <math.h>
#include <stdlib.h>

#include "sampling/filters.h"
#include "support/cmocka_all.h"

TEST(the_same_seed_and_position_draw_the_same)
{
    for (uint64_t position = 0; position < 100; position++) {
        double first = hth_draw_uniform(42, position);

        assert_true(first >= 0 && first < 1);
        assert_true(first == hth_draw_uniform(42, position));
        assert_true(first != hth_draw_uniform(43, position));
        assert_true(first != hth_draw_uniform(42, position + 1));
    }
}

TEST(draws_are_uniform_over_positions_and_over_seeds)
{
    enum { N = 100000, BINS = 20 };
    size_t by_position[BINS] = { 0 }, by_seed[BINS] = { 0 };
    double chi_position = 0, chi_seed = 0;

    for (uint64_t i = 0; i < N; i++) {
        by_position[(int)(hth_draw_uniform(7, i) * BINS)]++;
        by_seed[(int)(hth_draw_uniform(i, 7) * BINS)]++;
    }
    for (int i = 0; i < BINS; i++) {
        chi_position += pow((double)by_position[i] - N / BINS, 2) / (N / BINS);
        chi_seed += pow((double)by_seed[i] - N / BINS, 2) / (N / BINS);
    }
    assert_true(chi_position < 60); /* 19 degrees of freedom: over 60 once in 3 million */
    assert_true(chi_seed < 60);
}

TEST(candidates_are_drawn_as_often_as_they_are_likely)
{
    static const hth_candidate candidates[] = { { 5, 0.5f }, { 6, 0.3f }, { 7, 0.2f } };
    size_t counts[3] = { 0 };

    for (uint64_t i = 0; i < 100000; i++)
        counts[hth_draw_token(candidates, 3, 1, i) - 5]++;
    assert_in_range(counts[0], 49000, 51000);
    assert_in_range(counts[1], 29000, 31000);
    assert_in_range(counts[2], 19000, 21000);
    assert_int_equal(hth_draw_token(candidates, 1, 9, 9), 5);
}
