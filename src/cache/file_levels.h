/*
 * file_levels.h - the file tiers that options name, opened the fastest first
 *
 * The cache of a process opens them, and so does the carrier, which moves their rows between machines.
 */
#ifndef HTH_CACHE_FILE_LEVELS_H
#define HTH_CACHE_FILE_LEVELS_H

#include "cache/cache.h"

/* A file tier of a cache. */
typedef struct hth_level {
    hth_file_tier_set *files;
    hearth_tier tier; /* HEARTH_TIER_RAM_FILE or HEARTH_TIER_DISK */
} hth_level;

/*
 * Open the tiers of files that options name, the fastest first, and return their number. A tier that cannot be used is
 * left out, with one warning. Close them with hth_file_levels_close.
 */
size_t hth_file_levels_open(const hth_cache_options *options, hth_level levels[HTH_WRITER_TIERS_MAX]);
void hth_file_levels_close(hth_level *levels, size_t n);

#endif
