/*
 * row_transfer_cache.c - exports from an open cache, and imports into it
 *
 * A row that was just saved may be only in RAM, without any file. So an export borrows rows as a restore does, and an
 * import puts them where a save puts them. Neither accesses a file tier directly, bypassing the cache.
 */
#include <stdlib.h>
#include <string.h>

#include "transfer/row_transfer.h"

enum { FLUSH_MS = 60000 }; /* longest wait for room in RAM: rows can be evicted once written */

typedef struct place {
    hth_cache *cache;
    const hth_keyspace *keyspace;
} place;

static bool find(const hth_row_id *id, hth_row_meta *out, void *user_data)
{
    const place *p = user_data;

    return hth_cache_find(p->cache, id, out) != HEARTH_TIER_NONE;
}

static hearth_status read(const hth_row_meta *meta, uint8_t **bytes_out, size_t *n_out, void *user_data,
                          hearth_error *err)
{
    const place *p = user_data;
    hth_borrowed_row row;
    hearth_status status = hth_cache_borrow(p->cache, p->keyspace, meta, &row, err);
    size_t n_bytes;
    uint8_t *bytes;

    if (status == HEARTH_NOT_FOUND)
        hth_cache_note_gone(p->cache, &meta->id); /* so the next lookup finds another row */
    if (status != HEARTH_OK)
        return status;
    n_bytes = hth_ram_row_bytes(row.pin);
    bytes = malloc(n_bytes);
    if (bytes)
        memcpy(bytes, hth_ram_row_slab(row.pin), n_bytes);
    hth_cache_return_unused(p->cache, &row);
    if (!bytes)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a row of %zu bytes", n_bytes);
    *bytes_out = bytes;
    *n_out = n_bytes;
    return HEARTH_OK;
}

hearth_status hth_row_export_cached(hth_cache *cache, const hth_keyspace *keyspace, const hth_key *last,
                                    const hth_key *key, const char *path, const hth_export_options *options,
                                    hth_exported *out, hearth_error *err)
{
    place p = { .cache = cache, .keyspace = keyspace };
    const hth_row_source source = { .find = find, .read = read, .user_data = &p, .is_trusted = true };

    return hth_row_export_from(&source, last, key, path, options, out, err);
}

static hearth_status publish(const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes, bool *published_out,
                             void *user_data, hearth_error *err)
{
    hth_cache *cache = user_data;
    hearth_status status = hth_cache_put(cache, meta, bytes, n_bytes, published_out, err);

    if (status == HEARTH_FULL && hth_cache_flush(cache, FLUSH_MS))
        status = hth_cache_put(cache, meta, bytes, n_bytes, published_out, err);
    return status;
}

hearth_status hth_row_import_cached(hth_cache *cache, const char *path, const hth_import_options *options,
                                    hth_imported *out, hearth_error *err)
{
    const hth_row_sink sink = { .publish = publish, .user_data = cache };

    return hth_row_import_into(&sink, path, options, out, err);
}
