/*
 * prefixes.c - sum up the rows of each tree at its root
 */
#include "cli/prefixes.h"

#include <stdlib.h>

#include "rows/row_forest.h"

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
    size_t n = 0, n_roots = 0;
    hth_row_node *nodes = hth_row_forest_new(rows, n_rows, &n);
    size_t *roots = malloc((n + 1) * sizeof(*roots)); /* of each node, the index of its sum */
    hth_prefix *sums = calloc(n + 1, sizeof(*sums));

    if (nodes && roots && sums) {
        for (size_t i = 0; i < n; i++) {
            const bool is_root = nodes[i].parent == HTH_ROW_FOREST_ROOT;

            roots[i] = is_root ? n_roots : roots[nodes[i].parent];
            if (is_root && nodes[i].row->n_tokens == 0)
                continue; /* logits alone are not a prefix */
            if (is_root)
                sums[n_roots++].root = nodes[i].row->id.key;
            add(&sums[roots[i]], nodes[i].row);
        }
        qsort(sums, n_roots, sizeof(*sums), most_hits_first);
        *n_out = n_roots < capacity ? n_roots : capacity;
        memcpy(top, sums, *n_out * sizeof(*top));
    }
    free(nodes);
    free(roots);
    free(sums);
    return nodes && roots && sums;
}
