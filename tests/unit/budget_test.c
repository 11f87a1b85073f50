/*
 * budget_test.c - the memory that models may take of a machine, or of a limit
 */
#include "supervisor/residency.h"

#include "support/cmocka_all.h"

enum { ARENA = 1000 };

TEST(a_limit_is_for_models_alone)
{
    const uint64_t budget = hth_budget_of(&(hth_budget_terms){ .arena_bytes = ARENA, .fraction = 1 });

    assert_int_equal(budget, ARENA);
    assert_int_equal(hth_on_demand_budget(budget, 0), ARENA);
}

TEST(models_take_a_fraction_or_what_scratch_leaves_below_the_ceiling)
{
    hth_budget_terms terms = { .arena_bytes = ARENA, .fraction = 1, .wiggle = 0.125 };

    assert_int_equal(hth_budget_of(&terms), 875); /* the ceiling */
    terms.fraction = 0.75;
    terms.max_scratch_bytes = 100;
    assert_int_equal(hth_budget_of(&terms), 750);
    terms.max_scratch_bytes = 200;
    assert_int_equal(hth_budget_of(&terms), 675);
    terms.max_scratch_bytes = 875; /* half of the ceiling at most */
    assert_int_equal(hth_budget_of(&terms), 438);
    terms.max_scratch_bytes = UINT64_MAX;
    assert_int_equal(hth_budget_of(&terms), 438);
}

TEST(pinned_models_take_theirs_first)
{
    const uint64_t budget = hth_budget_of(&(hth_budget_terms){ .arena_bytes = ARENA, .fraction = 1 });

    assert_int_equal(hth_on_demand_budget(budget, 400), 600);
    assert_int_equal(hth_on_demand_budget(budget, ARENA), 0);
    assert_int_equal(hth_on_demand_budget(budget, ARENA + 1), 0);
}

TEST(without_a_limit_there_is_always_room)
{
    const uint64_t budget =
        hth_budget_of(&(hth_budget_terms){ .arena_bytes = UINT64_MAX, .fraction = 0.9, .wiggle = 0.02 });

    assert_true(budget == UINT64_MAX);
    assert_true(hth_on_demand_budget(budget, UINT64_MAX / 2) == UINT64_MAX);
}

TEST(an_arena_of_which_nothing_may_be_taken_has_no_room)
{
    hth_budget_terms terms = { .arena_bytes = ARENA, .fraction = 0 };

    assert_int_equal(hth_budget_of(&terms), 0);
    terms = (hth_budget_terms){ .arena_bytes = ARENA, .fraction = 1, .wiggle = 1 };
    assert_int_equal(hth_budget_of(&terms), 0);
}
