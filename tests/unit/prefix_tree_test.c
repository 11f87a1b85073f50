/*
 * prefix_tree_test.c - rows become trees, used runs become nodes, and the most used ones stay
 */
#include <string.h>

#include "rows/prefix_tree.h"
#include "rows/row_forest.h"
#include "support/cmocka_all.h"

enum { BLOCK = HTH_BLOCK_TOKENS, NODES = 64 };

static hth_key key_of(uint8_t name)
{
    hth_key key = { .bytes = { name } };

    return key;
}

/* A row of 100 bytes. parent 0: none. */
static hth_row_meta row_of(uint8_t name, hth_row_kind kind, uint8_t parent, uint32_t first, uint32_t n, uint32_t hits)
{
    return (hth_row_meta){ .id = { .key = key_of(name), .kind = kind },
                           .parent = key_of(parent),
                           .first_position = first,
                           .n_tokens = n,
                           .bytes = 100,
                           .hit_count = hits };
}

static hth_row_meta block(uint8_t name, uint8_t parent, uint32_t number, uint32_t hits)
{
    return row_of(name, HTH_ROW_BLOCK, parent, number * BLOCK, BLOCK, hits);
}

static hth_prefix_tree tree_of(const hth_row_meta *rows, size_t n, size_t n_max)
{
    hth_prefix_tree tree;
    hearth_error err;

    assert_int_equal(hth_prefix_tree_init(&tree, rows, n, n_max, &err), HEARTH_OK);
    return tree;
}

TEST(a_chain_without_branches_is_one_node)
{
    const hth_row_meta rows[] = { row_of('t', HTH_ROW_TAIL, 'b', 2 * BLOCK, 10, 3), block('b', 'a', 1, 3),
                                  block('a', 0, 0, 3), row_of('t', HTH_ROW_LOGITS, 't', 2 * BLOCK + 10, 0, 3) };
    hth_prefix_tree tree = tree_of(rows, 4, NODES);

    assert_int_equal(tree.n, 1);
    assert_true(hth_key_equal(&tree.nodes[0].key, &rows[0].id.key));
    assert_int_equal(tree.nodes[0].n_tokens, 2 * BLOCK + 10);
    assert_int_equal(tree.nodes[0].end, 2 * BLOCK + 10);
    assert_int_equal(tree.nodes[0].rows, 4);
    assert_int_equal(tree.nodes[0].bytes, 400);
    assert_int_equal(tree.nodes[0].uses, 3);
    assert_true(tree.nodes[0].parent == HTH_PREFIX_TREE_ROOT);
    hth_prefix_tree_deinit(&tree);
}

TEST(prompts_with_a_common_beginning_share_a_node)
{
    const hth_row_meta rows[] = { block('a', 0, 0, 0), block('b', 'a', 1, 2), block('c', 'a', 1, 5) };
    hth_prefix_tree tree = tree_of(rows, 3, NODES);

    assert_int_equal(tree.n, 3);
    assert_int_equal(tree.nodes[0].uses, 7); /* of those that stand on it: it was used with each of them */
    assert_int_equal(tree.nodes[0].end, BLOCK);
    assert_int_equal(tree.nodes[1].uses, 5);
    assert_int_equal(tree.nodes[1].parent, 0);
    assert_int_equal(tree.nodes[1].end, 2 * BLOCK);
    assert_int_equal(tree.nodes[2].uses, 2);
    assert_int_equal(tree.nodes[2].parent, 0);
    hth_prefix_tree_deinit(&tree);
}

TEST(a_node_ends_where_fewer_requests_went_on)
{
    const hth_row_meta rows[] = { block('a', 0, 0, 9), block('b', 'a', 1, 9), block('c', 'b', 2, 1) };
    hth_prefix_tree tree = tree_of(rows, 3, NODES);

    assert_int_equal(tree.n, 2);
    assert_int_equal(tree.nodes[0].n_tokens, 2 * BLOCK);
    assert_int_equal(tree.nodes[1].n_tokens, BLOCK);
    assert_int_equal(tree.nodes[1].uses, 1);
    hth_prefix_tree_deinit(&tree);
}

TEST(copies_of_a_row_count_once_with_the_uses_of_the_most_used)
{
    const hth_row_meta rows[] = { block('a', 0, 0, 1), block('a', 0, 0, 4), block('a', 0, 0, 2) };
    hth_prefix_tree tree = tree_of(rows, 3, NODES);

    assert_int_equal(tree.n, 1);
    assert_int_equal(tree.nodes[0].rows, 1);
    assert_int_equal(tree.nodes[0].bytes, 100);
    assert_int_equal(tree.nodes[0].uses, 4);
    hth_prefix_tree_deinit(&tree);
}

TEST(the_most_used_nodes_stay_with_everything_below_them)
{
    const hth_row_meta rows[] = { block('a', 0, 0, 1),   block('b', 'a', 1, 8), block('c', 0, 0, 9),
                                  block('d', 'c', 1, 2), block('e', 'c', 1, 3), block('f', 0, 0, 0) };
    hth_prefix_tree tree = tree_of(rows, 6, 4);

    assert_int_equal(tree.n, 4);
    assert_true(hth_key_equal(&tree.nodes[0].key, &rows[2].id.key));
    assert_true(hth_key_equal(&tree.nodes[1].key, &rows[1].id.key)); /* 'a' has the uses of 'b', so they are one */
    assert_int_equal(tree.nodes[1].n_tokens, 2 * BLOCK);
    assert_int_equal(tree.nodes[2].parent, 0);
    assert_int_equal(tree.nodes[3].parent, 0);
    hth_prefix_tree_deinit(&tree);
}

TEST(rows_that_nobody_used_are_no_nodes)
{
    const hth_row_meta rows[] = { block('a', 0, 0, 0), row_of('x', HTH_ROW_LOGITS, 0, 5, 0, 7) };
    hth_prefix_tree tree = tree_of(rows, 2, NODES);

    assert_int_equal(tree.n, 0);
    hth_prefix_tree_deinit(&tree);
    tree = tree_of(NULL, 0, NODES);
    assert_int_equal(tree.n, 0);
    hth_prefix_tree_deinit(&tree);
}

TEST(rows_that_name_each_other_as_parents_are_roots)
{
    const hth_row_meta rows[] = { block('a', 'b', 1, 2), block('b', 'a', 1, 2) };
    hth_prefix_tree tree = tree_of(rows, 2, NODES);

    assert_int_equal(tree.n, 2);
    assert_true(tree.nodes[0].parent == HTH_PREFIX_TREE_ROOT);
    assert_true(tree.nodes[1].parent == HTH_PREFIX_TREE_ROOT);
    hth_prefix_tree_deinit(&tree);
}

/* A damaged index may say so; no row of a prefix has no tokens. */
TEST(rows_that_stand_on_no_tokens_are_roots)
{
    const hth_row_meta rows[] = { row_of('a', HTH_ROW_BLOCK, 0, 0, 0, 2), block('b', 'a', 1, 2), block('z', 0, 0, 9) };
    hth_prefix_tree tree = tree_of(rows, 3, NODES);

    assert_int_equal(tree.n, 2);
    assert_true(hth_key_equal(&tree.nodes[0].key, &rows[2].id.key));
    assert_true(hth_key_equal(&tree.nodes[1].key, &rows[1].id.key));
    assert_true(tree.nodes[1].parent == HTH_PREFIX_TREE_ROOT);
    hth_prefix_tree_deinit(&tree);
}
