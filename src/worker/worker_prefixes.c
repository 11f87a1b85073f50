/*
 * worker_prefixes.c - see worker_prefixes.h
 *
 * The page shows keys and numbers, and no token: who may see prompts is decided elsewhere.
 */
#include "worker/worker_prefixes.h"

#include <stdlib.h>

#include "api/json_values.h"
#include "models/prefix.h"

enum { NODES_MAX = 64 };

static json_t *node_json(const hth_prefix_node *node)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:[]}", "key", hth_json_hex(node->key.bytes, HTH_KEY_BYTES),
                     "tokens", (json_int_t)node->n_tokens, "end", (json_int_t)node->end, "rows", (json_int_t)node->rows,
                     "bytes", (json_int_t)node->bytes, "uses", (json_int_t)node->uses, "children");
}

/* The roots with their subtrees. NULL without memory. */
static json_t *tree_json(const hth_prefix_tree *tree)
{
    json_t *roots = json_array(), *nodes[NODES_MAX];

    for (size_t i = 0; i < tree->n; i++) {
        const size_t parent = tree->nodes[i].parent;

        nodes[i] = node_json(&tree->nodes[i]); /* valid after the array takes it over */
        if (json_array_append_new(parent == HTH_PREFIX_TREE_ROOT ? roots : json_object_get(nodes[parent], "children"),
                                  nodes[i]) != 0) {
            json_decref(roots);
            return NULL;
        }
    }
    return roots;
}

void hth_worker_prefixes_run(hth_task *task)
{
    hth_prefix_tree tree;
    size_t n_rows = 0;
    hearth_error err;

    if (hth_used_prefixes(task->model, NODES_MAX, &tree, &n_rows, &err) != HEARTH_OK) {
        hth_api_fail_status(&task->error, &err);
        return;
    }
    hth_buffer_add_json_take(&task->answer, json_pack("{s:s, s:I, s:o}", "model", task->model_name, "rows",
                                                      (json_int_t)n_rows, "prefixes", tree_json(&tree)));
    hth_prefix_tree_deinit(&tree);
}
