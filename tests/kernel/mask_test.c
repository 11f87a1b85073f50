/*
 * mask_test.c - a plan of a mask says which rows see which cells, in the order of the cells or of their positions
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/attention_mask.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static uint64_t seed;

static size_t draw(size_t bound)
{
    return (size_t)hth_test_random(&seed, bound);
}

static bool is_open(const uint16_t *mask, size_t n_cells, size_t row, size_t cell)
{
    return mask[row * n_cells + cell] != HTH_MASK_CLOSED;
}

/* A group says of each cell how many of its rows see it: none, some by name, or all. */
static void assert_group_is_right(const hth_mask_plan *plan, const hth_mask_group *group, const uint16_t *mask,
                                  size_t n_cells)
{
    hth_open_cells walk = hth_mask_group_walk(plan, group);
    uint32_t next = UINT32_MAX;
    size_t n_open = 0;
    bool any_left = hth_open_cells_next(&walk, &next, 1) == 1;

    for (size_t cell = 0; cell < n_cells; cell++) {
        size_t word = cell / 64 - group->first_cell / 64;
        uint64_t rows = 0;

        for (size_t r = 0; r < group->n_rows; r++)
            rows |= (uint64_t)is_open(mask, n_cells, group->row + r, cell) << r;
        assert_int_equal(any_left && next == cell, rows != 0);
        if (rows == 0)
            continue;
        n_open++;
        any_left = hth_open_cells_next(&walk, &next, 1) == 1;
        if (!group->is_chunk)
            continue;
        if ((plan->words[group->all + word] >> cell % 64 & 1) != 0)
            assert_int_equal(__builtin_popcountll(rows), group->n_rows);
        else
            assert_true(plan->words[plan->words[group->columns + word] + cell % 64] == rows);
    }
    assert_false(any_left);
    assert_int_equal(group->n_open, n_open);
}

TEST(a_plan_says_of_every_mask_which_rows_see_which_cells)
{
    enum { N_CELLS = 700, N_ROWS = 200 };
    static uint16_t mask[N_CELLS * N_ROWS];
    hth_mask_plan plan = { .groups = NULL };

    for (int round = 0; round < 100; round++) {
        size_t n_cells = 1 + draw(N_CELLS), n_rows = 1 + draw(N_ROWS), at = 0;
        size_t dense = draw(101);
        bool grows = draw(2) == 0; /* each row has what the one before had, and one more */
        size_t begin = draw(n_cells);

        for (size_t row = 0; row < n_rows; row++)
            for (size_t cell = 0; cell < n_cells; cell++)
                mask[row * n_cells + cell] = (grows ? cell < begin + row : draw(100) < dense) ? 0 : HTH_MASK_CLOSED;
        assert_true(hth_mask_plan_make(&plan, mask, n_cells * sizeof(mask[0]), n_rows, n_cells));
        assert_false(plan.has_values);
        for (size_t i = 0; i < plan.n_groups; i++) {
            assert_int_equal(plan.groups[i].row, at);
            assert_group_is_right(&plan, &plan.groups[i], mask, n_cells);
            at += plan.groups[i].n_rows;
        }
        assert_int_equal(at, n_rows);
    }
    mask[3] = 0xbc00;
    assert_true(hth_mask_plan_make(&plan, mask, 64 * sizeof(mask[0]), 1, 64));
    assert_true(plan.has_values);
    hth_mask_plan_free(&plan);
}

TEST(a_walk_can_skip_cells)
{
    static uint16_t mask[700];
    static uint32_t expected[700];
    hth_mask_plan plan = { .groups = NULL };
    uint32_t cells[64];

    for (int round = 0; round < 200; round++) {
        size_t n_cells = 1 + draw(700);
        size_t dense = draw(101);
        size_t n_open = 0, at, n;
        hth_open_cells walk;

        for (size_t i = 0; i < n_cells; i++) {
            mask[i] = draw(100) < dense ? (uint16_t)draw(0x7c00) : HTH_MASK_CLOSED;
            if (mask[i] != HTH_MASK_CLOSED)
                expected[n_open++] = (uint32_t)i;
        }
        assert_true(hth_mask_plan_make(&plan, mask, n_cells * sizeof(mask[0]), 1, n_cells));
        assert_int_equal(plan.groups[0].n_open, n_open);
        walk = hth_mask_group_walk(&plan, &plan.groups[0]);
        at = draw(n_open + 1);
        hth_open_cells_skip(&walk, at);
        while ((n = hth_open_cells_next(&walk, cells, 1 + draw(64))) > 0) {
            assert_true(at + n <= n_open);
            assert_memory_equal(cells, expected + at, n * sizeof(cells[0]));
            at += n;
        }
        assert_int_equal(at, n_open);
    }
    hth_mask_plan_free(&plan);
}

/* A sequence of n positions from first on, its cells anywhere; the last row sees all of them, each earlier one less. */
static void scatter(uint16_t *mask, uint32_t *positions, size_t n_rows, size_t n_cells, uint32_t first, size_t n)
{
    for (size_t i = 0; i < n_cells; i++)
        positions[i] = (uint32_t)draw(n_cells); /* of others */
    for (size_t i = 0; i < n_rows * n_cells; i++)
        mask[i] = HTH_MASK_CLOSED;
    for (size_t i = 0; i < n; i++) {
        size_t cell;

        do
            cell = draw(n_cells);
        while (is_open(mask, n_cells, n_rows - 1, cell));
        positions[cell] = first + (uint32_t)i;
        for (size_t row = i + n_rows < n ? 0 : i + n_rows - n; row < n_rows; row++)
            mask[row * n_cells + cell] = 0;
    }
}

TEST(an_ordered_plan_takes_cells_by_their_positions)
{
    static uint16_t mask[40 * 1024];
    static uint32_t positions[1024];
    hth_mask_plan plan = { .groups = NULL };
    bool has_gap;

    for (int round = 0; round < 200; round++) {
        size_t n_rows = 1 + draw(40), n_cells = 64 * (1 + draw(16)), n = n_rows + draw(n_cells - n_rows);
        uint32_t first = (uint32_t)draw(200);

        scatter(mask, positions, n_rows, n_cells, first, n);
        assert_true(hth_mask_plan_make(&plan, mask, n_cells * sizeof(mask[0]), n_rows, n_cells));
        assert_true(hth_mask_plan_order(&plan, positions, &has_gap));
        for (size_t i = 0; i < plan.n_groups; i++) {
            const hth_mask_group *group = &plan.groups[i];
            hth_open_cells walk = hth_mask_group_walk(&plan, group);
            size_t row = group->row + group->n_rows - 1, n_taken, n_all = 0;
            uint32_t cells[64];

            while ((n_taken = hth_open_cells_next(&walk, cells, 64)) > 0) {
                for (size_t k = 0; k < n_taken; k++) {
                    assert_int_equal(positions[cells[k]], first + n_all + k);
                    assert_true(is_open(mask, n_cells, row, cells[k]));
                }
                n_all += n_taken;
                assert_true(n_all == group->n_open || (first + n_all) % 64 == 0);
            }
            assert_int_equal(n_all, n - (n_rows - 1 - row));
        }
        assert_true(plan.n_ordered <= n); /* all rows share one list */
        if (plan.groups[0].n_open > 1) {
            hth_open_cells walk = hth_mask_group_walk(&plan, &plan.groups[0]);
            uint32_t lowest;

            assert_int_equal(hth_open_cells_next(&walk, &lowest, 1), 1);
            positions[lowest] += 2 * (uint32_t)n;
            assert_false(hth_mask_plan_order(&plan, positions, &has_gap));
            assert_true(has_gap);
        }
    }
    hth_mask_plan_free(&plan);
}

TEST(sequences_whose_cells_are_in_order_have_no_lists)
{
    enum { N_CELLS = 640, N_ROWS = 7, N_LAST = 400 };
    static uint16_t mask[N_ROWS * N_CELLS];
    static uint32_t positions[N_CELLS];
    hth_mask_plan plan = { .groups = NULL };
    bool has_gap;

    for (size_t row = 0; row < N_ROWS; row++)
        for (size_t cell = 0; cell < N_CELLS; cell++) {
            bool is_free = cell % 5 == 0; /* gaps between cells are no gaps between positions */

            mask[row * N_CELLS + cell] = is_free || cell > N_LAST + row ? HTH_MASK_CLOSED : 0;
            positions[cell] = (uint32_t)(70 + cell - cell / 5 - 1);
        }
    assert_true(hth_mask_plan_make(&plan, mask, N_CELLS * sizeof(mask[0]), N_ROWS, N_CELLS));
    assert_true(hth_mask_plan_order(&plan, positions, &has_gap));
    assert_int_equal(plan.n_ordered, 0);
    for (size_t i = 0; i < plan.n_groups; i++) {
        hth_open_cells walk = hth_mask_group_walk(&plan, &plan.groups[i]);
        uint32_t cells[64];

        assert_int_equal(hth_open_cells_next(&walk, cells, 64), 58); /* up to position 128 */
        assert_int_equal(cells[0], 1);
        assert_int_equal(hth_open_cells_next(&walk, cells, 64), 64);
        assert_int_equal(positions[cells[63]], 191);
    }
    hth_mask_plan_free(&plan);
}

/* As with a prefix that several requests share: their lists differ behind it. */
TEST(rows_of_another_sequence_have_another_list)
{
    enum { N_CELLS = 256, N_SHARED = 100, N_OWN = 20 };
    static uint16_t mask[2 * N_CELLS];
    static uint32_t positions[N_CELLS];
    hth_mask_plan plan = { .groups = NULL };
    bool has_gap;

    for (size_t i = 0; i < 2 * N_CELLS; i++)
        mask[i] = HTH_MASK_CLOSED;
    for (size_t i = 0; i < N_SHARED; i++) { /* from the last cell down */
        positions[N_CELLS - 1 - i] = (uint32_t)i;
        mask[N_CELLS - 1 - i] = mask[2 * N_CELLS - 1 - i] = 0;
    }
    for (size_t i = 0; i < N_OWN; i++) {
        positions[i] = positions[N_OWN + i] = (uint32_t)(N_SHARED + i);
        mask[i] = mask[N_CELLS + N_OWN + i] = 0;
    }
    assert_true(hth_mask_plan_make(&plan, mask, N_CELLS * sizeof(mask[0]), 2, N_CELLS));
    assert_true(hth_mask_plan_order(&plan, positions, &has_gap));
    assert_int_equal(plan.n_groups, 2);
    for (size_t i = 0; i < 2; i++) {
        hth_open_cells walk = hth_mask_group_walk(&plan, &plan.groups[i]);
        uint32_t cells[64];

        assert_int_equal(hth_open_cells_next(&walk, cells, 64), 64);
        assert_int_equal(cells[0], N_CELLS - 1);
        assert_int_equal(hth_open_cells_next(&walk, cells, 64), N_SHARED + N_OWN - 64);
        assert_int_equal(cells[N_SHARED - 64], i * N_OWN);
    }
    hth_mask_plan_free(&plan);
}

enum { RUN_CELLS = 400, RUN_ROWS = 130, RUN_WINDOW = 20 };

/* The rows of a window that moves by one cell a row. */
static void move_window(uint16_t *mask)
{
    for (size_t row = 0; row < RUN_ROWS; row++)
        for (size_t cell = 0; cell < RUN_CELLS; cell++)
            mask[row * RUN_CELLS + cell] = cell >= 50 + row && cell < 50 + row + RUN_WINDOW ? 0 : HTH_MASK_CLOSED;
}

/* Are the rows groups of chunks of these lengths, 1 for a row alone? lengths end with 0. */
static void assert_groups(const uint16_t *mask, const size_t *lengths)
{
    hth_mask_plan plan = { .groups = NULL };

    assert_true(hth_mask_plan_make(&plan, mask, RUN_CELLS * sizeof(mask[0]), RUN_ROWS, RUN_CELLS));
    for (size_t i = 0; i < plan.n_groups; i++) {
        assert_int_equal(plan.groups[i].n_rows, lengths[i] > 0 ? lengths[i] : 1);
        assert_int_equal(plan.groups[i].is_chunk, lengths[i] > 0);
    }
    hth_mask_plan_free(&plan);
}

TEST(rows_of_a_window_follow_one_another_and_other_sequences_do_not)
{
    static uint16_t mask[RUN_CELLS * RUN_ROWS];

    move_window(mask);
    assert_groups(mask, (size_t[]){ 64, 64, 2 });
    mask[64 * RUN_CELLS + 300] = 0; /* one cell more than the next token's: another sequence */
    assert_groups(mask, (size_t[]){ 64, 0, 64, 1 });
    move_window(mask);
    mask[40 * RUN_CELLS + 300] = 0;
    assert_groups(mask, (size_t[]){ 40, 0, 64, 25 });
    for (size_t row = 15; row < RUN_ROWS; row += 15)
        mask[row * RUN_CELLS + 300] = 0;
    assert_groups(mask, (size_t[RUN_ROWS]){ 0 }); /* too few to be chunks */
}

TEST(rows_of_an_encoder_that_see_the_same_input_follow_one_another)
{
    static const size_t inputs[] = { 40, 10, 80 }; /* RUN_ROWS in all */
    static uint16_t mask[RUN_CELLS * RUN_ROWS];
    size_t begin = 0;

    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        for (size_t row = begin; row < begin + inputs[i]; row++)
            for (size_t cell = 0; cell < RUN_CELLS; cell++)
                mask[row * RUN_CELLS + cell] = cell >= begin && cell < begin + inputs[i] ? 0 : HTH_MASK_CLOSED;
        begin += inputs[i];
    }
    assert_groups(mask, (size_t[]){ 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 16 });
}

TEST(a_sequence_that_goes_on_from_anothers_cells_is_not_taken_for_its_window)
{
    static uint16_t mask[RUN_CELLS * RUN_ROWS];

    /* Row 0 sees a prefix and a cell of its own; the others are a chunk that goes on from the same prefix. */
    for (size_t row = 0; row < RUN_ROWS; row++)
        for (size_t cell = 0; cell < RUN_CELLS; cell++)
            mask[row * RUN_CELLS + cell] =
                cell < 100 || (row == 0 ? cell == 390 : cell >= 200 && cell < 200 + row) ? 0 : HTH_MASK_CLOSED;
    assert_groups(mask, (size_t[]){ 0, 64, 64, 1 });
}

static int start(void **state)
{
    (void)state;
    seed = hth_test_seed();
    return 0;
}

GROUP(with_a_seed, start, NULL)
