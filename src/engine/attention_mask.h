/*
 * attention_mask.h - which cells a row of an attention mask leaves open
 */
#ifndef HTH_ENGINE_ATTENTION_MASK_H
#define HTH_ENGINE_ATTENTION_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A mask's values are added to the scores; this one, minus infinity as f16, closes a cell. */
#define HTH_MASK_CLOSED 0xfc00u

/* A walk over the open cells of one row, in the order of the cells. */
typedef struct hth_open_cells {
    const uint16_t *mask; /* [n_cells] */
    size_t n_cells;
    size_t block;  /* first cell of the next 64 to look at */
    uint64_t open; /* open cells of the 64 before that which were not given out yet */
} hth_open_cells;

/* Open cells of a row. */
size_t hth_open_cells_count(const uint16_t *mask, size_t n_cells);

/* The next open cells, at most n_max of them; fewer only at the end. */
size_t hth_open_cells_next(hth_open_cells *walk, uint32_t *cells, size_t n_max);
void hth_open_cells_skip(hth_open_cells *walk, size_t n);

/*
 * Is this row of a batch the token after the one in the row before, of the same sequence? two_before: the row before
 * that, or NULL. With every row before, it sees one cell more; a window may have dropped one cell, which row two_before
 * still sees. The last cell of another sequence's row is its own, which no other row sees.
 */
bool hth_mask_row_follows(const uint16_t *row, const uint16_t *before, const uint16_t *two_before, size_t n_cells);

#endif
