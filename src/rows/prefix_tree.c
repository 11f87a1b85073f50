/*
 *   1. from the leaves up, count the uses of each row: its own, or the sum of its children's if that is larger
 *   2. from the roots down, join each row with its parent if nothing else stands on the parent and both have the same
 *      uses; logits and states belong to the run of their cells
 *   3. keep the most used runs: a parent has at least as many uses as its children, so it is kept if they are
 */
#include "rows/prefix_tree.h"

#include <stdlib.h>

#include "rows/row_forest.h"

/* Of a row. */
typedef struct branch {
    uint64_t uses;
    uint64_t uses_above; /* of its children */
    size_t n_children;   /* with tokens */
    size_t run;          /* index of its run, or HTH_PREFIX_TREE_ROOT */
} branch;

/* A run, and its index before the runs are sorted. */
typedef struct run {
    hth_prefix_node node;
    size_t index;
} run;

static void count_uses(const hth_row_node *rows, branch *branches, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        const size_t parent = rows[i].parent;

        branches[i].uses = rows[i].row->hit_count;
        if (branches[i].uses_above > branches[i].uses)
            branches[i].uses = branches[i].uses_above;
        if (parent == HTH_ROW_FOREST_ROOT)
            continue;
        branches[parent].uses_above += branches[i].uses;
        branches[parent].n_children += rows[i].row->n_tokens > 0;
    }
}

/* Put the row into the run of its parent or, if it begins one, into runs[*n_runs]. */
static void place(const hth_row_node *rows, branch *branches, size_t i, run *runs, size_t *n_runs)
{
    const hth_row_meta *row = rows[i].row;
    const branch *above = rows[i].parent == HTH_ROW_FOREST_ROOT ? NULL : &branches[rows[i].parent];
    const branch *parent = above && above->run != HTH_PREFIX_TREE_ROOT ? above : NULL;
    const bool joins = parent && (row->n_tokens == 0 || (parent->n_children == 1 && parent->uses == branches[i].uses));
    hth_prefix_node *node;

    if (!parent && row->n_tokens == 0) {
        branches[i].run = HTH_PREFIX_TREE_ROOT; /* not a prefix; in a damaged index, rows may stand on it */
        return;
    }
    if (!joins) {
        runs[*n_runs] = (run){ .node.parent = parent ? parent->run : HTH_PREFIX_TREE_ROOT,
                               .node.uses = branches[i].uses,
                               .index = *n_runs };
        (*n_runs)++;
    }
    branches[i].run = joins ? parent->run : *n_runs - 1;
    node = &runs[branches[i].run].node;
    node->rows++;
    node->bytes += row->bytes;
    if (row->n_tokens == 0)
        return;
    node->key = row->id.key;
    node->n_tokens += row->n_tokens;
    node->end = row->first_position + row->n_tokens;
}

static int most_used_first(const void *a, const void *b)
{
    const run *left = a, *right = b;

    if (left->node.uses != right->node.uses)
        return left->node.uses < right->node.uses ? 1 : -1;
    return left->index < right->index ? -1 : 1; /* parents were made before their children */
}

/* Keep the first n runs. places receives their new indexes. */
static void keep(const run *runs, size_t n, size_t *places, hth_prefix_node *nodes)
{
    for (size_t i = 0; i < n; i++) {
        places[runs[i].index] = i;
        nodes[i] = runs[i].node;
        if (nodes[i].parent != HTH_PREFIX_TREE_ROOT)
            nodes[i].parent = places[nodes[i].parent];
    }
}

hearth_status hth_prefix_tree_init(hth_prefix_tree *out, const hth_row_meta *rows, size_t n_rows, size_t n_max,
                                   hearth_error *err)
{
    size_t n = 0, n_runs = 0, n_kept = 0;
    hth_row_node *forest = hth_row_forest_new(rows, n_rows, &n);
    branch *branches = calloc(n + 1, sizeof(*branches));
    run *runs = calloc(n + 1, sizeof(*runs));
    size_t *places = malloc((n + 1) * sizeof(*places));
    hth_prefix_node *nodes = malloc((n_max + 1) * sizeof(*nodes));
    hearth_status status = HEARTH_OK;

    if (forest && branches && runs && places && nodes) {
        count_uses(forest, branches, n);
        for (size_t i = 0; i < n; i++)
            place(forest, branches, i, runs, &n_runs);
        qsort(runs, n_runs, sizeof(*runs), most_used_first);
        while (n_kept < n_runs && n_kept < n_max && runs[n_kept].node.uses > 0)
            n_kept++;
        keep(runs, n_kept, places, nodes);
        *out = (hth_prefix_tree){ .nodes = nodes, .n = n_kept };
    } else {
        free(nodes);
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to sort %zu rows", n_rows);
    }
    free(forest);
    free(branches);
    free(runs);
    free(places);
    return status;
}

void hth_prefix_tree_deinit(hth_prefix_tree *tree)
{
    free(tree->nodes);
    *tree = (hth_prefix_tree){ .n = 0 };
}
