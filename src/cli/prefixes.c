/*
 * prefixes.c - sorts rows by key, then walks from each row up to its root
 *
 * The root is stored in every row on the way, so each row is visited once.
 */
#include "cli/prefixes.h"

#include <stdlib.h>
#include <string.h>

typedef struct node {
    const hth_row_meta *row;
    size_t root; /* the index of a node; its own index for a root; SIZE_MAX: unknown yet */
    hth_prefix sum;
} node;

static int compare_keys(const void *a, const void *b)
{
    return memcmp(((const node *)a)->row->id.key.bytes, ((const node *)b)->row->id.key.bytes, HTH_KEY_BYTES);
}

/* The node of the row with cells that has this key; SIZE_MAX when there is none. */
static size_t find(const node *nodes, size_t n, const hth_key *key)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (memcmp(nodes[middle].row->id.key.bytes, key->bytes, HTH_KEY_BYTES) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < n && hth_key_equal(&nodes[low].row->id.key, key); low++)
        if (nodes[low].row->id.kind == HTH_ROW_BLOCK || nodes[low].row->id.kind == HTH_ROW_TAIL ||
            nodes[low].row->id.kind == HTH_ROW_SNAPSHOT)
            return low;
    return SIZE_MAX;
}

/* The parent of row i. The parent of a row without tokens is the row of the cells at the same position. */
static size_t parent_of(const node *nodes, size_t n, size_t i)
{
    const hth_row_meta *row = nodes[i].row;
    size_t at = SIZE_MAX;

    if (row->n_tokens == 0)
        at = find(nodes, n, &row->id.key);
    if (at == SIZE_MAX && row->first_position > 0)
        at = find(nodes, n, &row->parent);
    /* A parent begins earlier; checked, because a damaged index must not cause an endless walk. */
    return at != SIZE_MAX && at != i && nodes[at].row->first_position < row->first_position ? at : SIZE_MAX;
}

static size_t root_of(node *nodes, size_t n, size_t i)
{
    size_t at = i, root;

    while (nodes[at].root == SIZE_MAX) {
        size_t parent = parent_of(nodes, n, at);

        if (parent == SIZE_MAX)
            nodes[at].root = at;
        else
            at = parent;
    }
    root = nodes[at].root;
    for (at = i; nodes[at].root == SIZE_MAX;) { /* walk the same way again */
        size_t parent = parent_of(nodes, n, at);

        nodes[at].root = root;
        at = parent;
    }
    return root;
}

static int most_hits_first(const void *a, const void *b)
{
    const hth_prefix *left = a, *right = b;

    if (left->hits != right->hits)
        return left->hits < right->hits ? 1 : -1;
    return left->bytes < right->bytes ? 1 : left->bytes > right->bytes ? -1 : 0;
}

static void add(hth_prefix *sum, const hth_row_meta *row)
{
    uint32_t end = row->first_position + row->n_tokens;

    sum->rows++;
    sum->bytes += row->bytes;
    if (row->hit_count > sum->hits)
        sum->hits = row->hit_count;
    if (end > sum->n_tokens_max)
        sum->n_tokens_max = end;
}

bool hth_prefixes_rank(const hth_row_meta *rows, size_t n_rows, hth_prefix *top, size_t capacity, size_t *n_out)
{
    node *nodes = malloc((n_rows ? n_rows : 1) * sizeof(*nodes));
    hth_prefix *roots = malloc((n_rows ? n_rows : 1) * sizeof(*roots));
    size_t n_roots = 0;

    if (nodes && roots) {
        for (size_t i = 0; i < n_rows; i++)
            nodes[i] = (node){ .row = &rows[i], .root = SIZE_MAX };
        qsort(nodes, n_rows, sizeof(*nodes), compare_keys);
        for (size_t i = 0; i < n_rows; i++)
            add(&nodes[root_of(nodes, n_rows, i)].sum, nodes[i].row);
        for (size_t i = 0; i < n_rows; i++)
            if (nodes[i].root == i && nodes[i].row->n_tokens > 0) { /* logits alone are no prefix */
                nodes[i].sum.root = nodes[i].row->id.key;
                roots[n_roots++] = nodes[i].sum;
            }
        qsort(roots, n_roots, sizeof(*roots), most_hits_first);
        *n_out = n_roots < capacity ? n_roots : capacity;
        memcpy(top, roots, *n_out * sizeof(*top));
    }
    free(nodes);
    free(roots);
    return nodes && roots;
}
