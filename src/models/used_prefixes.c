/*
 * used_prefixes.c - see used_prefixes.h
 */
#include "models/used_prefixes.h"

#include <stdlib.h>

#include "models/model_inside.h"

static bool add(const hth_cache_row *row, void *user_data)
{
    return hth_row_list_add(user_data, &row->meta);
}

hearth_status hth_used_prefixes(hearth_model *model, size_t n_max, hth_prefix_tree *out, size_t *n_rows_out,
                                hearth_error *err)
{
    hth_cache *cache = hth_runtime_cache(model->runtime);
    hth_row_list list = { .rows = NULL };
    hearth_status status = cache ? hth_cache_rows(cache, add, &list, err) : HEARTH_OK;

    if (status == HEARTH_OK && list.out_of_memory)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to list the rows");
    if (status == HEARTH_OK)
        status = hth_prefix_tree_init(out, list.rows, list.n, n_max, err);
    if (status == HEARTH_OK)
        *n_rows_out = list.n;
    free(list.rows);
    return status;
}
