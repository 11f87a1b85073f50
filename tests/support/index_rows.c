/*
 * index_rows.c - heads without tokens
 */
#include "support/index_rows.h"

#include <stdlib.h>

static hth_row_head *heads_of(const hth_row_meta *rows, size_t n)
{
    hth_row_head *heads = calloc(n, sizeof(*heads));

    if (!heads)
        abort();
    for (size_t i = 0; i < n; i++)
        heads[i].meta = rows[i];
    return heads;
}

hearth_status test_index_publish(hth_index *index, const hth_row_meta *rows, size_t n)
{
    hth_row_head *heads = heads_of(rows, n);
    hearth_status status = hth_index_publish(index, heads, n, NULL);

    free(heads);
    return status;
}

hearth_status test_index_adopt(hth_index *index, const hth_row_meta *rows, size_t n, size_t *adopted_out)
{
    hth_row_head *heads = heads_of(rows, n);
    hearth_status status = hth_index_adopt(index, heads, n, NULL, NULL, adopted_out, NULL);

    free(heads);
    return status;
}
