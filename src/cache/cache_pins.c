/*
 * cache_pins.c - pins of an open cache: where they are kept
 */
#include "cache/cache_inside.h"

static hearth_status no_files(hearth_error *err)
{
    return hth_fail(err, HEARTH_UNSUPPORTED, "the cache has no directory, and a pin is kept in one");
}

hearth_status hth_cache_pin(hth_cache *cache, const hth_key *key, hearth_error *err)
{
    return cache->n_levels > 0 ? hth_file_tier_set_pin(cache->levels[cache->n_levels - 1].files, key, err)
                               : no_files(err);
}

/* The pin may be in any level: an operator put it there, or the cache did when it had no slower level. */
hearth_status hth_cache_unpin(hth_cache *cache, const hth_key *key, hearth_error *err)
{
    hearth_status status = cache->n_levels > 0 ? HEARTH_NOT_FOUND : no_files(err);

    for (size_t i = 0; i < cache->n_levels; i++) {
        hearth_error why = { .message = "" };
        hearth_status result = hth_file_tier_set_unpin(cache->levels[i].files, key, &why);

        status = hth_status_merge(status, result, &why, err);
    }
    return status;
}

hearth_status hth_cache_unpin_to_remove(hth_cache *cache, const hth_key *key, hearth_error *err)
{
    hearth_error why = { .message = "" };
    hearth_status status = hth_cache_unpin(cache, key, &why);

    if (status == HEARTH_NOT_FOUND || status == HEARTH_UNSUPPORTED)
        return HEARTH_OK;
    if (err && status != HEARTH_OK)
        *err = why;
    return status;
}

bool hth_cache_is_pinned(hth_cache *cache, const hth_key *key)
{
    for (size_t i = 0; i < cache->n_levels; i++)
        if (hth_file_tier_set_is_pinned(cache->levels[i].files, key))
            return true;
    return false;
}
