/*
 * row.c - names of row kinds, lists of rows, and the comparison of rows with a prompt
 */
#include "rows/row.h"

#include <string.h>

#include "base/bytes.h"
#include "base/grow.h"

const char *const hth_row_kind_names[HTH_ROW_KINDS + 1] = {
    [HTH_ROW_BLOCK] = "block", [HTH_ROW_TAIL] = "tail",     [HTH_ROW_SNAPSHOT] = "snapshot",
    [HTH_ROW_STATE] = "state", [HTH_ROW_LOGITS] = "logits", [HTH_ROW_KINDS] = NULL,
};

const char *hth_row_kind_name(hth_row_kind kind)
{
    return (unsigned)kind < HTH_ROW_KINDS ? hth_row_kind_names[kind] : "unknown";
}

bool hth_row_list_add(hth_row_list *list, const hth_row_meta *meta)
{
    hth_row_meta *rows = hth_grown(list->rows, list->n, &list->capacity, sizeof(*rows));

    list->out_of_memory = !rows;
    if (!rows)
        return false;
    list->rows = rows;
    rows[list->n++] = *meta;
    return true;
}

size_t hth_row_insert_by_age(hth_row_meta *out, size_t n, size_t capacity, const hth_row_meta *meta)
{
    size_t at = n;

    while (at > 0 && out[at - 1].last_used_time < meta->last_used_time)
        at--;
    if (at == capacity)
        return n;
    if (n < capacity)
        n++;
    memmove(out + at + 1, out + at, (n - at - 1) * sizeof(*out));
    out[at] = *meta;
    return n;
}

/* ---- leaves ---- */

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
