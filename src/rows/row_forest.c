/*
 * row_forest.c - sorts rows by position, so that parents come first, and finds each parent by its key
 */
#include "rows/row_forest.h"

#include <stdlib.h>

static int compare_names(const void *a, const void *b)
{
    return hth_row_id_compare(&((const hth_row_node *)a)->row->id, &((const hth_row_node *)b)->row->id);
}

static int compare_positions(const void *a, const void *b)
{
    const hth_row_meta *left = ((const hth_row_node *)a)->row, *right = ((const hth_row_node *)b)->row;
    const int order = hth_row_id_compare(&left->id, &right->id);

    if (left->first_position != right->first_position)
        return left->first_position < right->first_position ? -1 : 1;
    if (order)
        return order;
    return left->hit_count > right->hit_count ? -1 : left->hit_count < right->hit_count;
}

/* Copies have the same position, so they are neighbours. Returns the number of remaining nodes. */
static size_t drop_copies(hth_row_node *nodes, size_t n)
{
    size_t n_kept = 0;

    for (size_t i = 0; i < n; i++)
        if (n_kept == 0 || !hth_row_id_equal(&nodes[n_kept - 1].row->id, &nodes[i].row->id))
            nodes[n_kept++] = nodes[i];
    return n_kept;
}

static bool has_cells(const hth_row_meta *row)
{
    return row->id.kind == HTH_ROW_BLOCK || row->id.kind == HTH_ROW_TAIL || row->id.kind == HTH_ROW_SNAPSHOT;
}

/* The row with cells that has this key, in names, whose parent is the index of the node; NULL: none. */
static const hth_row_node *find(const hth_row_node *names, size_t n, const hth_key *key)
{
    size_t low = 0, high = n;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (memcmp(names[middle].row->id.key.bytes, key->bytes, HTH_KEY_BYTES) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < n && hth_key_equal(&names[low].row->id.key, key); low++)
        if (has_cells(names[low].row))
            return &names[low];
    return NULL;
}

static size_t parent_of(const hth_row_node *names, size_t n, const hth_row_meta *row)
{
    const hth_row_node *parent = NULL;

    if (row->n_tokens == 0)
        parent = find(names, n, &row->id.key);
    if (!parent && row->first_position > 0)
        parent = find(names, n, &row->parent);
    /* A parent begins earlier. This is checked because a damaged index must not cause an endless walk. */
    return parent && parent->row->first_position < row->first_position ? parent->parent : HTH_ROW_FOREST_ROOT;
}

hth_row_node *hth_row_forest_new(const hth_row_meta *rows, size_t n_rows, size_t *n_out)
{
    hth_row_node *nodes = malloc((n_rows + 1) * sizeof(*nodes)), *names = malloc((n_rows + 1) * sizeof(*names));
    size_t n;

    if (!nodes || !names) {
        free(nodes);
        free(names);
        return NULL;
    }
    for (size_t i = 0; i < n_rows; i++)
        nodes[i] = (hth_row_node){ .row = &rows[i], .parent = HTH_ROW_FOREST_ROOT };
    qsort(nodes, n_rows, sizeof(*nodes), compare_positions);
    n = drop_copies(nodes, n_rows);
    for (size_t i = 0; i < n; i++)
        names[i] = (hth_row_node){ .row = nodes[i].row, .parent = i };
    qsort(names, n, sizeof(*names), compare_names);
    for (size_t i = 0; i < n; i++)
        nodes[i].parent = parent_of(names, n, nodes[i].row);
    free(names);
    *n_out = n;
    return nodes;
}
