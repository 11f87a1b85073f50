/*
 * chain.c - walks from a prefix's end back to its beginning, along the parents that rows name
 *
 * A step accepts a parent only if it ends where its child begins. So each step goes back, and even with a damaged index
 * the walk cannot loop.
 */
#include "rows/chain.h"

#include <stdlib.h>

/* Find the row with cells that has this key and ends at this position. */
static bool find_cells(const hth_key *key, uint32_t end, hth_chain_find_fn find, void *user_data, hth_row_meta *out)
{
    static const hth_row_kind kinds[] = { HTH_ROW_BLOCK, HTH_ROW_TAIL };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        hth_row_id id = { .key = *key, .kind = kinds[i] };

        if (find(&id, out, user_data) && out->n_tokens > 0 && out->n_tokens <= end &&
            out->first_position == end - out->n_tokens)
            return true;
    }
    return false;
}

static void turn_round(hth_chain *chain)
{
    for (size_t i = 0; i < chain->n / 2; i++) {
        hth_row_meta row = chain->rows[i];

        chain->rows[i] = chain->rows[chain->n - 1 - i];
        chain->rows[chain->n - 1 - i] = row;
    }
}

/*
 * Add the rows of all kinds that end the prefix, the last to be read first. The walk continues at *first_out's parent.
 */
static bool add_ends(hth_chain *chain, const hth_key *key, hth_chain_find_fn find, void *user_data, bool *has_first_out,
                     hth_row_meta *first_out)
{
    *has_first_out = false;
    for (int kind = HTH_ROW_KINDS - 1; kind >= 0; kind--) {
        hth_row_id id = { .key = *key, .kind = (hth_row_kind)kind };
        hth_row_meta row;

        if (!find(&id, &row, user_data))
            continue;
        if (!hth_row_list_add(chain, &row))
            return false;
        if (kind != HTH_ROW_LOGITS && (!*has_first_out || row.first_position < first_out->first_position)) {
            *has_first_out = true;
            *first_out = row;
        }
    }
    return true;
}

static hearth_status walk(const hth_key *key, hth_chain_find_fn find, void *user_data, hth_chain *chain,
                          hearth_error *err)
{
    hth_row_meta row;
    bool has_row;

    if (!add_ends(chain, key, find, user_data, &has_row, &row))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the rows of a prefix");
    if (!has_row)
        return hth_fail(err, HEARTH_NOT_FOUND,
                        "no row of the cache ends that prefix; 'hearth cache ls' shows its rows");
    while (row.first_position > 0 && row.n_tokens > 0) {
        uint32_t end = row.first_position;
        hth_key parent = row.parent;

        if (!find_cells(&parent, end, find, user_data, &row))
            return hth_fail(err, HEARTH_NOT_FOUND, "the cache lacks a row of the prefix, that before token %u", end);
        if (!hth_row_list_add(chain, &row))
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the rows of a prefix");
    }
    turn_round(chain);
    return HEARTH_OK;
}

hearth_status hth_chain_find(const hth_key *key, hth_chain_find_fn find, void *user_data, hth_chain *out,
                             hearth_error *err)
{
    hth_chain chain = { .rows = NULL };
    hearth_status status = walk(key, find, user_data, &chain, err);

    if (status != HEARTH_OK) {
        hth_chain_deinit(&chain);
        return status;
    }
    *out = chain;
    return HEARTH_OK;
}

void hth_chain_deinit(hth_chain *chain)
{
    free(chain->rows);
    *chain = (hth_chain){ .rows = NULL };
}
