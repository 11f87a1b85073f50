/*
 * tier_quotas.c - see tier_quotas.h
 */
#include "cache/tier_quotas.h"

#include "cache/cache_inside.h"

/* The sum over all roots; 0 if one of them has no quota. */
static uint64_t quota_of(const hth_file_tier_set *files)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < hth_file_tier_set_n_roots(files); i++) {
        const uint64_t bytes_max = hth_file_tier_bytes_max(hth_file_tier_set_roots(files)[i]);

        if (bytes_max == UINT64_MAX)
            return 0;
        sum += bytes_max;
    }
    return sum;
}

hth_tier_quotas hth_tier_quotas_of(hth_cache *cache)
{
    hth_tier_quotas quotas = { .ram = 0 };
    hth_ram_tier_totals ram;

    if (!cache)
        return quotas;
    hth_ram_tier_totals_get(cache->ram, &ram);
    quotas.ram = ram.bytes_max;
    for (size_t i = 0; i < cache->n_levels; i++)
        *(cache->levels[i].tier == HEARTH_TIER_DISK ? &quotas.disk : &quotas.ram_file) =
            quota_of(cache->levels[i].files);
    return quotas;
}
