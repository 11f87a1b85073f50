/*
 * row_transfer_tiers.c - exports from file tiers and imports into one, without an open cache
 */
#include <assert.h>
#include <stdlib.h>

#include "transfer/row_transfer.h"

typedef struct tier_list {
    hth_file_tier *const *list;
    size_t n;
} tier_list;

static bool find(const hth_row_id *id, hth_row_meta *out, void *user_data)
{
    const tier_list *t = user_data;

    for (size_t i = 0; i < t->n; i++)
        if (hth_file_tier_has(t->list[i], id, out))
            return true;
    return false;
}

static uint8_t *buffer_for(size_t n_bytes, void *user_data)
{
    uint8_t **bytes = user_data;

    free(*bytes); /* of a read that failed */
    *bytes = malloc(n_bytes);
    return *bytes;
}

/* A tier may know a row whose file is gone; then the next tier is tried. */
static hearth_status read(const hth_row_meta *meta, uint8_t **bytes_out, size_t *n_out, void *user_data,
                          hearth_error *err)
{
    const tier_list *t = user_data;
    hearth_status status = HEARTH_NOT_FOUND;
    uint8_t *bytes = NULL;

    for (size_t i = 0; i < t->n && status == HEARTH_NOT_FOUND; i++)
        status = hth_file_tier_read(t->list[i], &meta->id, buffer_for, &bytes, n_out, err);
    if (status == HEARTH_OK)
        *bytes_out = bytes;
    else
        free(bytes);
    return status;
}

hearth_status hth_row_export(hth_file_tier *const *tiers, size_t n_tiers, const hth_key *key, const char *path,
                             const hth_export_options *options, hth_exported *out, hearth_error *err)
{
    tier_list t = { .list = tiers, .n = n_tiers };
    const hth_row_source source = { .find = find, .read = read, .user_data = &t };

    assert(n_tiers > 0);
    return hth_row_export_from(&source, key, key, path, options, out, err);
}

static hearth_status publish(const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes, bool *published_out,
                             void *user_data, hearth_error *err)
{
    return hth_file_tier_publish(user_data, meta, bytes, n_bytes, published_out, err);
}

hearth_status hth_row_import(hth_file_tier *tier, const char *path, const hth_import_options *options,
                             hth_imported *out, hearth_error *err)
{
    const hth_row_sink sink = { .publish = publish, .user_data = tier };

    return hth_row_import_into(&sink, path, options, out, err);
}
