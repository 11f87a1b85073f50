/*
 * used_prefixes.c - see used_prefixes.h
 */
#include "models/used_prefixes.h"

#include <stdlib.h>

#include "base/grow.h"
#include "models/model_inside.h"

typedef struct row_list {
    hth_row_meta *rows; /* [n] */
    size_t n;
    size_t capacity;
    bool out_of_memory;
} row_list;

static bool add(const hth_cache_row *row, void *user_data)
{
    row_list *list = user_data;
    hth_row_meta *rows = hth_grown(list->rows, list->n, &list->capacity, sizeof(*rows));

    list->out_of_memory = !rows;
    if (!rows)
        return false;
    list->rows = rows;
    rows[list->n++] = row->meta;
    return true;
}

hearth_status hth_used_prefixes(hearth_model *model, size_t n_max, hth_prefix_tree *out, size_t *n_rows_out,
                                hearth_error *err)
{
    hth_cache *cache = hth_runtime_cache(model->runtime);
    row_list list = { .rows = NULL };
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
