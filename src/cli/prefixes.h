/*
 * prefixes.h - the most used prefixes of a cache
 *
 * Rows form trees: the parent of a row is the row of its parent key. All rows of a tree begin with the same tokens,
 * those of its root, which is a block or, for a short prompt, a tail.
 */
#ifndef HTH_CLI_PREFIXES_H
#define HTH_CLI_PREFIXES_H

#include "rows/row.h"

typedef struct hth_prefix {
    hth_key root;
    uint64_t hits; /* of its most used row, because a request uses a row once */
    uint64_t rows;
    uint64_t bytes;
    uint32_t n_tokens_max; /* of the longest prefix in the tree */
} hth_prefix;

/*
 * Write the trees with the most hits to top[capacity], most used first, and their number to *n_out. A row whose
 * ancestors are not among rows counts as a tree of its own. False if out of memory.
 */
bool hth_prefixes_rank(const hth_row_meta *rows, size_t n_rows, hth_prefix *top, size_t capacity, size_t *n_out);

#endif
