/* leaf.c - compares rows with a prompt */
#include "rows/leaf.h"

#include "base/bytes.h"

bool hth_leaf_search_is_done(const hth_leaf_search *search)
{
    return search->n_shared == search->n_tokens;
}

bool hth_leaf_search_wants(const hth_leaf_search *search, const hth_row_id *id, uint32_t first_position,
                           uint32_t n_tokens)
{
    return hth_row_can_be_leaf(id, n_tokens) && first_position == search->position && n_tokens > search->n_shared &&
           (!search->is_out || !search->is_out(id, search->user_data));
}

/* Can the first n_shared tokens of a row be used alone? Its window cells must reach back to its first token. */
static bool is_divisible(uint32_t n_tokens, uint32_t n_shared, uint32_t n_window)
{
    return n_shared == n_tokens || n_window == 0 || n_tokens <= n_window;
}

bool hth_leaf_search_compare(hth_leaf_search *search, const uint8_t *tokens, uint32_t n_tokens)
{
    uint32_t n = n_tokens < search->n_tokens ? n_tokens : (uint32_t)search->n_tokens, n_shared = 0;

    while (n_shared < n && hth_get_u32(tokens + 4 * (size_t)n_shared) == (uint32_t)search->tokens[n_shared])
        n_shared++;
    if (search->n_agreed < n_shared)
        search->n_agreed = n_shared;
    if (n_shared <= search->n_shared || !is_divisible(n_tokens, n_shared, search->n_window))
        return false;
    search->n_shared = n_shared;
    return true;
}
