/*
 * leaf.h - finds the row that covers most of the tokens after a block boundary of a prompt
 *
 * A search goes from tier to tier. Each tier shows it the rows that begin at the boundary, with their tokens. The
 * tokens come from the head of a row in memory or from a record of an index, and have not been verified. So the result
 * is only a candidate: the user of the row reads it whole, verifies it, and compares its tokens with the prompt again.
 * Wrong tokens can lead to a bad choice, but never to a wrong row.
 */
#ifndef HTH_ROWS_LEAF_H
#define HTH_ROWS_LEAF_H

#include "rows/row.h"

typedef struct hth_leaf_search {
    /* The question. */
    hth_key boundary;
    uint32_t position;          /* of the boundary */
    const hearth_token *tokens; /* of the prompt after the boundary, [n_tokens] */
    size_t n_tokens;
    uint32_t n_window; /* a longer row can only be used as a whole; 0: any part of any row can be used */
    size_t n_rows_max; /* limit on the children of the boundary that one tier compares */
    /* True excludes a row; NULL: no row is excluded. Called inside transactions of the index. */
    bool (*is_out)(const hth_row_id *id, void *user_data);
    void *user_data;

    /* The result so far. */
    uint32_t n_shared; /* tokens shared by the row and the prompt; 0: no row was found */
    hth_row_meta row;
    uint32_t n_agreed; /* tokens that any row shares with the prompt, usable or not */
    bool is_cut;       /* a tier had more children than it looked at */
} hth_leaf_search;

/* Is it certain that nothing better can be found? */
bool hth_leaf_search_is_done(const hth_leaf_search *search);
/* Could a row with these properties be better than the result so far? */
bool hth_leaf_search_wants(const hth_leaf_search *search, const hth_row_id *id, uint32_t first_position,
                           uint32_t n_tokens);
/*
 * Compare a wanted row; tokens are u32 little-endian, [n_tokens]. True: it is the best one so far, and the caller sets
 * search->row.
 */
bool hth_leaf_search_compare(hth_leaf_search *search, const uint8_t *tokens, uint32_t n_tokens);

#endif
