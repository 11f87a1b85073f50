/*
 * row_forest.h - rows, and the row that each of them stands on
 *
 * Rows form trees: the parent of a row is the row of its parent key. Logits and states have no tokens; their parent is
 * the row of the cells that end at the same position.
 */
#ifndef HTH_ROWS_ROW_FOREST_H
#define HTH_ROWS_ROW_FOREST_H

#include "rows/row.h"

#define HTH_ROW_FOREST_ROOT SIZE_MAX

typedef struct hth_row_node {
    const hth_row_meta *row;
    size_t parent; /* the index of an earlier node, or HTH_ROW_FOREST_ROOT if none of the rows is its parent */
} hth_row_node;

/*
 * The nodes of rows, parents before their children, as a new array that the caller frees. Rows with the same name, such
 * as copies in several tiers, share one node, for the most used copy. The nodes borrow the rows. *n_out: their number.
 * NULL without memory.
 */
hth_row_node *hth_row_forest_new(const hth_row_meta *rows, size_t n_rows, size_t *n_out);

#endif
