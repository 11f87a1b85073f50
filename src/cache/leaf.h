/*
 * leaf.h - the row that covers most of what follows a block boundary of a prompt
 *
 * A search goes from tier to tier, and each shows it the rows that begin at the boundary, with their tokens. Those come
 * from where nobody has verified them: the head of a row in memory, a record of an index. So what is found is a proposal.
 * Whoever uses the row reads it whole, verifies it, and compares its tokens with the prompt once more; wrong tokens can
 * make a search choose badly and never make a wrong row be served.
 */
#ifndef HTH_CACHE_LEAF_H
#define HTH_CACHE_LEAF_H

#include "cache/row.h"

typedef struct hth_leaf_search {
    /* What is looked for. */
    hth_key boundary;
    uint32_t position;          /* of the boundary */
    const hearth_token *tokens; /* of the prompt, from there on, [n_tokens] */
    size_t n_tokens;
    uint32_t n_window; /* of a row that is longer than it only the whole can be used; 0: any part of any row */
    size_t n_rows_max; /* children of the boundary that one tier looks at */
    /* Rows for which it says true are not there; NULL: none. Called inside transactions of the index. */
    bool (*is_out)(const hth_row_id *id, void *user_data);
    void *user_data;

    /* What was found so far. */
    uint32_t n_shared; /* tokens that the row and the prompt share; 0: no row was found */
    hth_row_meta row;
    uint32_t n_agreed; /* tokens that any row shares with the prompt, whether it can be used or not */
    bool is_cut;       /* a tier had more children than it looked at */
} hth_leaf_search;

/* Is there nothing better to be found? */
bool hth_leaf_search_is_done(const hth_leaf_search *search);
/* Could a row of which this is known be better than what was found? */
bool hth_leaf_search_wants(const hth_leaf_search *search, const hth_row_id *id, uint32_t first_position,
                           uint32_t n_tokens);
/*
 * Compare a row that is wanted; tokens are u32 little-endian, [n_tokens]. True: it is the best one so far, and the caller
 * says in search->row what it is.
 */
bool hth_leaf_search_compare(hth_leaf_search *search, const uint8_t *tokens, uint32_t n_tokens);

#endif
