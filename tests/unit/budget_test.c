/*
 * budget_test.c - the memory that models may take of a machine, or of a limit
 */
#include "supervisor/residency.h"

#include "support/cmocka_all.h"

enum { ARENA = 1000 };

TEST(a_limit_is_for_models_alone)
{
    const hth_budget budget = hth_budget_of(&(hth_budget_terms){ .arena_bytes = ARENA, .fraction = 1 });

    assert_int_equal(budget.scratch_ceiling_bytes, ARENA);
    assert_int_equal(budget.weight_pool_bytes, ARENA);
    assert_int_equal(budget.on_demand_budget_bytes, ARENA);
    assert_false(budget.pinned_over_commit);
}

TEST(models_take_a_fraction_or_what_scratch_leaves_below_the_ceiling)
{
    hth_budget_terms terms = { .arena_bytes = ARENA, .fraction = 0.75, .wiggle = 0.125, .max_scratch_bytes = 100 };

    assert_int_equal(hth_budget_of(&terms).scratch_ceiling_bytes, 875);
    assert_int_equal(hth_budget_of(&terms).weight_pool_bytes, 750);
    terms.max_scratch_bytes = 200;
    assert_int_equal(hth_budget_of(&terms).weight_pool_bytes, 675);
    terms.max_scratch_bytes = 875; /* half of the ceiling at most */
    assert_int_equal(hth_budget_of(&terms).weight_pool_bytes, 438);
    terms.max_scratch_bytes = UINT64_MAX;
    assert_int_equal(hth_budget_of(&terms).weight_pool_bytes, 438);
}

TEST(pinned_models_take_theirs_first)
{
    hth_budget_terms terms = { .arena_bytes = ARENA, .fraction = 1, .pinned_bytes = 400 };

    assert_int_equal(hth_budget_of(&terms).on_demand_budget_bytes, 600);
    terms.pinned_bytes = ARENA;
    assert_int_equal(hth_budget_of(&terms).on_demand_budget_bytes, 0);
    assert_false(hth_budget_of(&terms).pinned_over_commit);
    terms.pinned_bytes = ARENA + 1;
    assert_int_equal(hth_budget_of(&terms).on_demand_budget_bytes, 0);
    assert_true(hth_budget_of(&terms).pinned_over_commit);
}

TEST(without_a_limit_there_is_always_room)
{
    const hth_budget_terms terms = {
        .arena_bytes = UINT64_MAX, .fraction = 0.9, .wiggle = 0.02, .pinned_bytes = UINT64_MAX / 2
    };

    assert_true(hth_budget_of(&terms).scratch_ceiling_bytes == UINT64_MAX);
    assert_true(hth_budget_of(&terms).on_demand_budget_bytes == UINT64_MAX);
    assert_false(hth_budget_of(&terms).pinned_over_commit);
}

TEST(an_arena_of_which_nothing_may_be_taken_has_no_room)
{
    hth_budget_terms terms = { .arena_bytes = ARENA, .fraction = 0 };

    assert_int_equal(hth_budget_of(&terms).weight_pool_bytes, 0);
    terms = (hth_budget_terms){ .arena_bytes = ARENA, .fraction = 1, .wiggle = 1, .pinned_bytes = 1 };
    assert_int_equal(hth_budget_of(&terms).weight_pool_bytes, 0);
    assert_true(hth_budget_of(&terms).pinned_over_commit);
}
