/*
 * prefix_tree.h - the most used prefixes of a cache, as a tree
 *
 * A node is a run of rows that were always used together, so a conversation without branches is one node. A request
 * that used a row has used all rows before it. The cache counts the use only at some of these rows; the rows before
 * them get the sum.
 */
#ifndef HTH_ROWS_PREFIX_TREE_H
#define HTH_ROWS_PREFIX_TREE_H

#include "base/status.h"
#include "rows/row.h"

#define HTH_PREFIX_TREE_ROOT SIZE_MAX

typedef struct hth_prefix_node {
    hth_key key;       /* of the prefix that the run ends */
    size_t parent;     /* the index of an earlier node, or HTH_PREFIX_TREE_ROOT */
    uint32_t n_tokens; /* of the run */
    uint32_t end;      /* position after its last token */
    uint64_t rows;     /* of the run, with logits and states */
    uint64_t bytes;    /* of these rows */
    uint64_t uses;     /* at least this many requests used it */
} hth_prefix_node;

typedef struct hth_prefix_tree {
    hth_prefix_node *nodes; /* [n], the most used first, parents before their children */
    size_t n;
} hth_prefix_tree;

/*
 * Fill *out with the n_max most used of the nodes that were used at all. rows may hold copies of a row. The caller
 * calls hth_prefix_tree_deinit. HEARTH_NO_MEMORY.
 */
hearth_status hth_prefix_tree_init(hth_prefix_tree *out, const hth_row_meta *rows, size_t n_rows, size_t n_max,
                                   hearth_error *err);
void hth_prefix_tree_deinit(hth_prefix_tree *tree);

#endif
