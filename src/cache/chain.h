/*
 * chain.h - the rows of one prefix, from its beginning to its end
 */
#ifndef HTH_CACHE_CHAIN_H
#define HTH_CACHE_CHAIN_H

#include "cache/row.h"

/* Where rows are looked for: true and *out (never NULL) when there is such a row. */
typedef bool (*hth_chain_find_fn)(const hth_row_id *id, hth_row_meta *out, void *user_data);

typedef struct hth_chain {
    hth_row_meta *rows; /* [n], each stands on the one before; those that end the prefix come last, with their logits */
    size_t n;
    size_t capacity;
} hth_chain;

/*
 * The rows of the prefix of that key. *out is released with hth_chain_deinit. HEARTH_NOT_FOUND: no row with cells or state
 * ends the prefix, or one is missing before it; HEARTH_NO_MEMORY.
 */
hearth_status hth_chain_find(const hth_key *key, hth_chain_find_fn find, void *user_data, hth_chain *out,
                             hearth_error *err);
void hth_chain_deinit(hth_chain *chain); /* accepts a chain of zeros */

#endif
