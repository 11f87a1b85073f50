/*
 * cells_test.c - the books of a context's cells against a naive model
 *
 * The model is a table of sequences with the numbers of their cells; every count is made anew from it.
 */
#include "sched/cells.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"

enum { CELLS = 60, SEQUENCES = 7, ROUNDS = 30000 };

typedef struct sequence {
    uint32_t ids[CELLS];
    size_t n;
    bool held;
} sequence;

typedef struct model {
    sequence sequences[SEQUENCES];
    uint64_t seed;
} model;

static bool has(const sequence *one, uint32_t id)
{
    for (size_t i = 0; i < one->n; i++)
        if (one->ids[i] == id)
            return true;
    return false;
}

static unsigned n_owners(const model *m, uint32_t id, bool only_held)
{
    unsigned n = 0;

    for (size_t i = 0; i < SEQUENCES; i++)
        n += has(&m->sequences[i], id) && (!only_held || m->sequences[i].held);
    return n;
}

static void compare(const model *m, const hth_cells *cells)
{
    uint32_t n_unused = 0, n_unheld = 0;

    for (uint32_t id = 0; id < CELLS; id++) {
        n_unused += n_owners(m, id, false) == 0;
        n_unheld += n_owners(m, id, true) == 0;
    }
    assert_int_equal(hth_cells_n_total(cells), CELLS);
    assert_int_equal(hth_cells_n_unused(cells), n_unused);
    assert_int_equal(hth_cells_n_unheld(cells), n_unheld);
    for (size_t i = 0; i < SEQUENCES; i++) {
        const sequence *one = &m->sequences[i];
        uint32_t n_held = 0, n_twice = 0;

        for (size_t k = 0; k < one->n; k++) {
            n_held += n_owners(m, one->ids[k], true) > 0;
            n_twice += n_owners(m, one->ids[k], true) > 1;
        }
        assert_int_equal(hth_cells_count_held(cells, one->ids, one->n, 1), n_held);
        assert_int_equal(hth_cells_count_held(cells, one->ids, one->n, 2), n_twice);
    }
}

static void take(model *m, hth_cells *cells, sequence *one)
{
    uint32_t n = (uint32_t)hth_test_random(&m->seed, hth_cells_n_unused(cells) + 1);

    if (n > CELLS - one->n)
        n = CELLS - (uint32_t)one->n;
    hth_cells_take(cells, one->ids + one->n, n, one->held);
    for (size_t i = one->n; i < one->n + n; i++) { /* real numbers, which nobody has, and no two the same */
        assert_in_range(one->ids[i], 0, CELLS - 1);
        assert_int_equal(n_owners(m, one->ids[i], false), 0);
        for (size_t k = one->n; k < i; k++)
            assert_int_not_equal(one->ids[i], one->ids[k]);
    }
    one->n += n;
}

static void share(model *m, hth_cells *cells, sequence *one, const sequence *from)
{
    if (one->n > 0 || one == from)
        return;
    one->n = hth_test_random(&m->seed, from->n + 1);
    memcpy(one->ids, from->ids, one->n * sizeof(*one->ids));
    hth_cells_share(cells, one->ids, one->n, one->held);
}

static void shorten(model *m, hth_cells *cells, sequence *one)
{
    size_t n = hth_test_random(&m->seed, 3) ? hth_test_random(&m->seed, one->n + 1) : 0;

    hth_cells_drop(cells, one->ids + n, one->n - n, one->held);
    one->n = n;
}

TEST(the_books_agree_with_a_naive_model)
{
    hth_cells *cells = hth_cells_new(CELLS);
    model *m = calloc(1, sizeof(*m));

    assert_true(cells && m);
    m->seed = hth_test_seed();
    for (unsigned round = 0; round < ROUNDS; round++) {
        sequence *one = &m->sequences[hth_test_random(&m->seed, SEQUENCES)];

        switch (hth_test_random(&m->seed, 4)) {
        case 0: take(m, cells, one); break;
        case 1: share(m, cells, one, &m->sequences[hth_test_random(&m->seed, SEQUENCES)]); break;
        case 2: shorten(m, cells, one); break;
        default:
            one->held = !one->held;
            hth_cells_set_held(cells, one->ids, one->n, one->held);
            break;
        }
        compare(m, cells);
    }
    free(m);
    hth_cells_free(cells);
}

TEST(there_may_be_no_cells_at_all)
{
    hth_cells *cells = hth_cells_new(0);

    assert_non_null(cells);
    assert_int_equal(hth_cells_n_unused(cells), 0);
    hth_cells_take(cells, NULL, 0, true);
    hth_cells_free(cells);
    hth_cells_free(NULL);
}
