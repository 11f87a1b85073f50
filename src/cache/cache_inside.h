/*
 * cache_inside.h - what the files of the cache share: cache.c (finding, borrowing, watching) and save.c
 */
#ifndef HTH_CACHE_CACHE_INSIDE_H
#define HTH_CACHE_CACHE_INSIDE_H

#include "cache/cache.h"
#include "cache/rejected.h"
#include "cache/writer.h"

/* A file tier of a cache. */
typedef struct hth_level {
    hth_file_tier *files;
    hearth_tier tier; /* HEARTH_TIER_RAM_FILE or HEARTH_TIER_DISK */
} hth_level;

struct hth_cache {
    hth_ram_tier *ram;
    hth_level levels[HTH_WRITER_TIERS_MAX]; /* those that could be opened, the fastest first */
    size_t n_levels;
    hth_writer *writer; /* NULL without levels */
    hth_counters counters;
    hth_rejected rejected;
    bool save_on_second_use;
    const hth_log *log;
    char hostname[256];
};

/* Queue a row for the slowest file tier, which is where rows last; nothing without one. A full queue is counted. */
static inline void hth_cache_store(hth_cache *cache, hth_ram_row *row)
{
    if (cache->writer)
        (void)hth_writer_publish(cache->writer, cache->n_levels - 1, row);
}

#endif
