/*
 * cells.c - two counts for each cell, and a stack of unused cells
 */
#include "sched/cells.h"

#include <assert.h>
#include <stdlib.h>

typedef struct cell {
    uint16_t n_sequences;
    uint16_t n_held; /* of those, the held ones */
} cell;

struct hth_cells {
    cell *cells;     /* [n_total] */
    uint32_t *freed; /* [n_freed], a stack of unused cells that were used before */
    uint32_t n_freed;
    uint32_t n_fresh; /* cells [n_total - n_fresh, n_total) were never used, and their memory never touched */
    uint32_t n_total;
    uint32_t n_unheld;
};

void hth_cells_free(hth_cells *cells)
{
    if (!cells)
        return;
    free(cells->cells);
    free(cells->freed);
    free(cells);
}

hth_cells *hth_cells_new(uint32_t n_cells)
{
    hth_cells *cells = calloc(1, sizeof(*cells));

    if (!cells)
        return NULL;
    cells->cells = calloc(n_cells ? n_cells : 1, sizeof(*cells->cells));
    cells->freed = calloc(n_cells ? n_cells : 1, sizeof(*cells->freed));
    if (!cells->cells || !cells->freed) {
        hth_cells_free(cells);
        return NULL;
    }
    cells->n_total = cells->n_fresh = cells->n_unheld = n_cells;
    return cells;
}

uint32_t hth_cells_n_total(const hth_cells *cells)
{
    return cells->n_total;
}

uint32_t hth_cells_n_unused(const hth_cells *cells)
{
    return cells->n_freed + cells->n_fresh;
}

uint32_t hth_cells_n_unheld(const hth_cells *cells)
{
    return cells->n_unheld;
}

static void hold(hth_cells *cells, cell *one)
{
    cells->n_unheld -= one->n_held++ == 0;
}

static void let_go(hth_cells *cells, cell *one)
{
    assert(one->n_held > 0);
    cells->n_unheld += --one->n_held == 0;
}

void hth_cells_take(hth_cells *cells, uint32_t *ids_out, size_t n, bool held)
{
    assert(n <= hth_cells_n_unused(cells));
    for (size_t i = 0; i < n; i++)
        ids_out[i] = cells->n_freed > 0 ? cells->freed[--cells->n_freed] : cells->n_total - cells->n_fresh--;
    hth_cells_share(cells, ids_out, n, held);
}

void hth_cells_share(hth_cells *cells, const uint32_t *ids, size_t n, bool held)
{
    for (size_t i = 0; i < n; i++) {
        cells->cells[ids[i]].n_sequences++;
        if (held)
            hold(cells, &cells->cells[ids[i]]);
    }
}

void hth_cells_drop(hth_cells *cells, const uint32_t *ids, size_t n, bool held)
{
    for (size_t i = n; i-- > 0;) {
        cell *one = &cells->cells[ids[i]];

        if (held)
            let_go(cells, one);
        assert(one->n_sequences > 0);
        if (--one->n_sequences == 0)
            cells->freed[cells->n_freed++] = ids[i];
    }
}

void hth_cells_set_held(hth_cells *cells, const uint32_t *ids, size_t n, bool held)
{
    for (size_t i = 0; i < n; i++) {
        if (held)
            hold(cells, &cells->cells[ids[i]]);
        else
            let_go(cells, &cells->cells[ids[i]]);
    }
}

uint32_t hth_cells_count_held(const hth_cells *cells, const uint32_t *ids, size_t n, unsigned n_least)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += cells->cells[ids[i]].n_held >= n_least;
    return count;
}
