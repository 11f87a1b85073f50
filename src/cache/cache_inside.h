/*
 * cache_inside.h - shared by the files of the cache: cache.c, borrow.c and read_ahead.c
 */
#ifndef HTH_CACHE_CACHE_INSIDE_H
#define HTH_CACHE_CACHE_INSIDE_H

#include "base/read_ring.h"
#include "cache/cache.h"
#include "cache/rejected.h"
#include "cache/spare_rings.h"
#include "cache/writer.h"
#include "index/past.h"

enum { HTH_COLD_ROWS = 64 }; /* number of rows of a restore that a device reads at once: the depth of its ring */

/* A file tier of a cache. */
typedef struct hth_level {
    hth_file_tier_set *files;
    hearth_tier tier; /* HEARTH_TIER_RAM_FILE or HEARTH_TIER_DISK */
} hth_level;

struct hth_cache {
    hth_ram_tier *ram;
    hth_level levels[HTH_WRITER_TIERS_MAX]; /* the tiers that could be opened, the fastest first */
    size_t n_levels;
    hth_writer *writer; /* NULL without levels */
    hth_counters *counters;
    hth_counters *own_counters;     /* used when the options give none; freed with the cache */
    const hth_signing_key *key;     /* NULL: rows are not signed */
    _Atomic uint64_t evicted_noted; /* number of rows evicted before the last reset */
    hth_rejected rejected;
    hth_past past;
    hth_spare_rings rings; /* for restores; only with levels */
    bool save_on_second_use;
    bool has_many_cpus;
    const hth_fs *fs; /* never NULL */
    const hth_log *log;
    char hostname[256];
};

/* ---- reading a row from a file (borrow.c), for callers with several reads under way ---- */

typedef struct hth_row_read {
    hth_ring_read ring; /* the caller does this read between open and finish */
    hth_ram_row *row;   /* the reserved slab that receives the bytes */
    size_t level;
    uint64_t begun_ns;
} hth_row_read;

/*
 * Open the row's file in the fastest tier that has one. HEARTH_NOT_FOUND; HEARTH_NO_MEMORY when pinned rows fill the
 * RAM tier; HEARTH_CORRUPT, HEARTH_IO, HEARTH_PERMISSION. After HEARTH_OK, call finish or abort.
 */
hearth_status hth_cache_file_open(hth_cache *cache, const hth_row_meta *expected, hth_row_read *out, hearth_error *err);
void hth_cache_file_abort(hth_cache *cache, hth_row_read *read);
/*
 * Check the bytes that were read and make them a row of the RAM tier, pinned for the caller in *row_out.
 * HEARTH_CORRUPT: the file is set aside, and another hth_cache_file_open looks in the next tier. HEARTH_IO.
 */
hearth_status hth_cache_file_finish(hth_cache *cache, hth_row_read *read, const hth_keyspace *keyspace,
                                    const hth_row_meta *expected, hth_ram_row **row_out, hearth_error *err);
/* Hand a pinned row to the caller, or unpin it and fail. */
hearth_status hth_cache_borrow_pinned(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                                      hth_ram_row *row, hearth_tier tier, hth_borrowed_row *out, hearth_error *err);

/*
 * Reserve a row of the RAM tier for a row that is being computed or read. Blocks come in series, so memory is touched
 * ahead of them.
 */
hth_ram_row *hth_cache_reserve(hth_cache *cache, const hth_row_id *id, size_t n_bytes, bool is_computed);

/* Queue a row for the slowest file tier, if any: rows last longest there. If the queue is full, that is counted. */
static inline void hth_cache_store(hth_cache *cache, hth_ram_row *row)
{
    if (cache->writer)
        (void)hth_writer_publish(cache->writer, cache->n_levels - 1, row);
}

/* Queue a row for every file tier faster than level. If the queue is full, that is counted. */
static inline void hth_cache_fill_faster(hth_cache *cache, size_t level, hth_ram_row *row)
{
    for (size_t i = 0; i < level; i++)
        (void)hth_writer_publish(cache->writer, i, row);
}

#endif
