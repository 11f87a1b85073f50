/*
 * row.c - names of row kinds, and lists of rows
 */
#include "rows/row.h"

#include <string.h>

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
