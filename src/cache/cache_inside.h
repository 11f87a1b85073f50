/*
 * cache_inside.h - the cache as its own files know it
 */
#ifndef HTH_CACHE_CACHE_INSIDE_H
#define HTH_CACHE_CACHE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/read_ring.h"
#include "cache/cache.h"
#include "cache/file_levels.h"
#include "cache/writer.h"
#include "index/past.h"

enum { HTH_COLD_ROWS = 64 }; /* number of rows of a restore that a device reads at once: the depth of its ring */

/*
 * ---- rejected.c: rows of file tiers that count as missing until they are set aside ----
 *
 * A writer thread quarantines a row that failed its checks, and the next maintenance removes a row without a file from
 * the index. Until then this list remembers the row, so that the recomputed row can be saved. A full list forgets its
 * oldest row, which then fails its checks again. A row that cannot be set aside, because the device fails, stays in the
 * list.
 */

enum { HTH_REJECTED_MAX = 256 };

typedef struct hth_rejected_row {
    hth_row_id id;
    hearth_tier tier;
} hth_rejected_row;

typedef struct hth_rejected {
    pthread_mutex_t lock; /* innermost */
    _Atomic size_t n;     /* read without the lock to see that the list is empty, as it nearly always is */
    hth_rejected_row rows[HTH_REJECTED_MAX];
} hth_rejected;

void hth_rejected_init(hth_rejected *rejected);
void hth_rejected_deinit(hth_rejected *rejected);

/* Any thread. */
bool hth_rejected_has(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);
void hth_rejected_add(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);
/* The row was saved again: forget it in every tier. */
void hth_rejected_forget(hth_rejected *rejected, const hth_row_id *id);
/* The tier itself now knows that the row is gone. */
void hth_rejected_forget_in(hth_rejected *rejected, const hth_row_id *id, hearth_tier tier);

/*
 * ---- spare_rings.c: read queues that are created when a cache opens, for use by restores ----
 *
 * A process may drop the privilege to create such queues, as a worker does once its model is loaded. It then keeps
 * using these. Only system queues are kept; threads are created on demand.
 */

enum { HTH_SPARE_RINGS_MAX = 4 }; /* restores that read from a cold disk at once; further ones create their own */

typedef struct hth_spare_rings {
    /* Fixed at the init. */
    const hth_fs *fs;
    unsigned depth;
    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    hth_read_ring *rings[HTH_SPARE_RINGS_MAX];
    size_t n;
} hth_spare_rings;

/* Create n queues, at most HTH_SPARE_RINGS_MAX; none if the system has no queue for this file layer. */
void hth_spare_rings_init(hth_spare_rings *spare, const hth_fs *fs, unsigned depth, size_t n);
/* All taken queues must have been given back. */
void hth_spare_rings_deinit(hth_spare_rings *spare);
/* Take a spare queue, or a new one, which may read with threads; NULL without memory. One thread uses it at a time. */
hth_read_ring *hth_spare_rings_take(hth_spare_rings *spare);
/* No read of the queue may be in flight. Accepts NULL. */
void hth_spare_rings_give(hth_spare_rings *spare, hth_read_ring *ring);

/* ---- the cache ---- */

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

/* Root i of all file tiers, the fastest tier first; NULL: there are no more. *tier_out (may be NULL): its tier. */
hth_file_tier *hth_cache_root(const hth_cache *cache, size_t i, hearth_tier *tier_out);

/* ---- reading a row from a file (borrow.c), for callers with several reads under way ---- */

typedef struct hth_row_read {
    hth_ring_read ring; /* the caller does this read between open and finish */
    hth_ram_row *row;   /* the reserved slab that receives the bytes */
    size_t level;
    uint64_t begun_ns;
} hth_row_read;

/*
 * Open the row's file in the fastest tier that has one. HEARTH_NOT_FOUND; HEARTH_NO_MEMORY when pinned rows fill the
 * RAM tier; HEARTH_CORRUPT, HEARTH_IO, HEARTH_PERMISSION. After HEARTH_OK, call finish.
 */
hearth_status hth_cache_file_open(hth_cache *cache, const hth_row_meta *expected, hth_row_read *out, hearth_error *err);
/*
 * Check the bytes that were read and make them a row of the RAM tier, pinned for the caller in *row_out.
 * HEARTH_CORRUPT: the file is set aside, and another hth_cache_file_open looks in the next tier. HEARTH_IO.
 */
hearth_status hth_cache_file_finish(hth_cache *cache, hth_row_read *read, const hth_keyspace *keyspace,
                                    const hth_row_meta *expected, hth_ram_row **row_out, hearth_error *err);
/* Hand a pinned row to the caller, or unpin it and fail. */
hearth_status hth_cache_borrow_pinned(hth_cache *cache, const hth_keyspace *keyspace, const hth_row_meta *expected,
                                      hth_ram_row *row, hearth_tier tier, hth_borrowed_row *out, hearth_error *err);

#endif
