/*
 * chain.h - the rows of one prefix, from its beginning to its end
 */
#ifndef HTH_ROWS_CHAIN_H
#define HTH_ROWS_CHAIN_H

#include "rows/row.h"

/* Find a row: true and *out (never NULL) when it exists. */
typedef bool (*hth_chain_find_fn)(const hth_row_id *id, hth_row_meta *out, void *user_data);

/* Each row stands on the row before it; the rows that end the prefix come last, logits included. */
typedef hth_row_list hth_chain;

/*
 * Find the rows of the prefix with this key. Release *out with hth_chain_deinit. HEARTH_NOT_FOUND: no row with cells or
 * state ends the prefix, or an earlier row is missing; HEARTH_NO_MEMORY.
 */
hearth_status hth_chain_find(const hth_key *key, hth_chain_find_fn find, void *user_data, hth_chain *out,
                             hearth_error *err);
void hth_chain_deinit(hth_chain *chain); /* accepts a zeroed chain */

#endif
