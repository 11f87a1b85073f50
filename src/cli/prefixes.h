/*
 * prefixes.h - which beginnings of prompts a cache serves most
 *
 * Rows form trees: a row stands on the one that its parent key names. All rows of one tree begin with the same tokens,
 * those of its root, which is a block or, for a short prompt, a tail.
 */
#ifndef HTH_CLI_PREFIXES_H
#define HTH_CLI_PREFIXES_H

#include "cache/row.h"

typedef struct hth_prefix {
    hth_key root;
    uint64_t hits; /* of its most used row: a request uses a row once */
    uint64_t rows;
    uint64_t bytes;
    uint32_t n_tokens_max; /* of the longest prefix in the tree */
} hth_prefix;

/*
 * The trees with the most hits, the most first, into top[capacity], *n_out how many. Rows whose ancestors are not among
 * rows count as trees of their own. False without memory.
 */
bool hth_prefixes_rank(const hth_row_meta *rows, size_t n_rows, hth_prefix *top, size_t capacity, size_t *n_out);

#endif
