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

hearth_status hth_cache_unpin(hth_cache *cache, const hth_key *key, hearth_error *err)
{
    return cache->n_levels > 0 ? hth_file_tier_set_unpin(cache->levels[cache->n_levels - 1].files, key, err)
                               : no_files(err);
}

bool hth_cache_is_pinned(hth_cache *cache, const hth_key *key)
{
    return cache->n_levels > 0 && hth_file_tier_set_is_pinned(cache->levels[cache->n_levels - 1].files, key);
}
