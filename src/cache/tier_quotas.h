/*
 * tier_quotas.h - the quotas of a cache's tiers
 */
#ifndef HTH_CACHE_TIER_QUOTAS_H
#define HTH_CACHE_TIER_QUOTAS_H

#include <stdint.h>

#include "cache/cache.h"

/* In bytes. 0: no such tier, or a tier without a quota. */
typedef struct hth_tier_quotas {
    uint64_t ram;
    uint64_t ram_file;
    uint64_t disk;
} hth_tier_quotas;

/* The quotas in force; all 0 if cache is NULL. Any thread. */
hth_tier_quotas hth_tier_quotas_of(hth_cache *cache);

#endif
