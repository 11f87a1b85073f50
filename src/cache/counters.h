/*
 * counters.h - counts of the cache's work and histograms of its times
 *
 * Each counter exists once in each shard. A thread adds to one shard, by a relaxed atomic addition; a hash of the
 * address of its thread-local storage selects the shard. So threads rarely share a shard and never wait; two threads in
 * one shard are merely slower. Threads do not register, so a thread that ends leaves nothing behind. A reader sums the
 * shards.
 *
 * Counters never decrease. A reset records their current sums, and a snapshot subtracts the recorded sums: an addition
 * during a reset counts before or after it and is never lost. A snapshot is not atomic: counters read later may include
 * events that those read earlier do not.
 *
 * A zeroed struct is a valid hth_counters and needs no cleanup. It takes about 90 KB: too much for the stack.
 */
#ifndef HTH_CACHE_COUNTERS_H
#define HTH_CACHE_COUNTERS_H

#include <stdatomic.h>

#include "base/status.h"

typedef enum hth_counter {
    HTH_COUNT_ROWS_RESTORED,
    HTH_COUNT_BYTES_RESTORED,
    HTH_COUNT_ROWS_SAVED,
    HTH_COUNT_BYTES_SAVED,
    HTH_COUNT_ROWS_WRITTEN,
    HTH_COUNT_BYTES_WRITTEN,
    HTH_COUNT_SAVES_DROPPED,
    HTH_COUNT_WRITES_FAILED,
    HTH_COUNT_ROWS_QUARANTINED,
    HTH_COUNT_TOKENS_RESTORED,
    HTH_COUNT_REQUESTS, /* finished, in any way */
    HTH_COUNT_TOKENS_PROMPT,
    HTH_COUNT_TOKENS_CACHED,
    HTH_COUNT_TOKENS_GENERATED,
    HTH_COUNT_ROWS_REMOVED,
    HTH_COUNTERS,
} hth_counter;

/* The timed operations. */
typedef enum hth_path {
    HTH_PATH_LOOKUP, /* computing keys and asking indexes, per request */
    HTH_PATH_READ,   /* a row from a file or a network, checks included */
    HTH_PATH_UNPACK, /* a row's state into the context */
    HTH_PATH_PACK,   /* a row's state out of the context */
    HTH_PATH_WRITE,  /* a row published in a file tier */
    HTH_PATHS,
} hth_path;

/* "lookup", "read", "unpack", "pack", "write"; "unknown" for other values. A static string. */
const char *hth_path_name(hth_path path);

/* ---- histograms ---- */

/*
 * Buckets are log-linear: one below 1024 ns, then four for each power of two up to 2^37 ns (137 s), then one for the
 * rest. So a bucket's end is at most a quarter above its beginning.
 */
enum {
    HTH_HISTOGRAM_MIN_BITS = 10,
    HTH_HISTOGRAM_MAX_BITS = 37,
    HTH_HISTOGRAM_SUB_BITS = 2,
    HTH_HISTOGRAM_BUCKETS = 2 + ((HTH_HISTOGRAM_MAX_BITS - HTH_HISTOGRAM_MIN_BITS) << HTH_HISTOGRAM_SUB_BITS),
};

/* A longer time (36 minutes) counts as this one, so that one faulty clock does not spoil the sum. */
#define HTH_HISTOGRAM_NS_MAX (UINT64_C(1) << 41)

typedef struct hth_histogram {
    uint64_t count; /* sum over buckets */
    uint64_t sum_ns;
    uint64_t max_ns; /* the longest since the reset; during a reset, too low by up to the width of its bucket */
    uint64_t buckets[HTH_HISTOGRAM_BUCKETS];
} hth_histogram;

/* The bucket of a time. */
unsigned hth_histogram_bucket(uint64_t ns);
/* The first time that is too long for the bucket; UINT64_MAX for the last bucket. bucket < HTH_HISTOGRAM_BUCKETS. */
uint64_t hth_histogram_bucket_end(unsigned bucket);
/*
 * A time that at least the given share (0 .. 1) of all events did not exceed: the end of the bucket that holds the
 * event of that rank, or max_ns if that is lower. It exceeds the exact time by at most a quarter, or by 1023 ns. In the
 * last bucket it is max_ns. 0 if there are no events.
 */
uint64_t hth_histogram_percentile(const hth_histogram *histogram, double share);

/* ---- counting ---- */

enum {
    HTH_COUNTER_HITS = 8,  /* room for hearth_hit */
    HTH_COUNTER_TIERS = 8, /* room for hearth_tier */
    HTH_COUNTER_SAVES = 8, /* room for hearth_save_reason */
    HTH_COUNTER_SHARDS = 16,

    HTH_CELL_HITS = HTH_COUNTERS, /* [HTH_COUNTER_HITS][HTH_COUNTER_TIERS] */
    HTH_CELL_SAVES = HTH_CELL_HITS + HTH_COUNTER_HITS * HTH_COUNTER_TIERS,
    HTH_CELL_SUMS = HTH_CELL_SAVES + HTH_COUNTER_SAVES,
    HTH_CELL_BUCKETS = HTH_CELL_SUMS + HTH_PATHS, /* [HTH_PATHS][HTH_HISTOGRAM_BUCKETS] */
    HTH_CELLS = HTH_CELL_BUCKETS + HTH_PATHS * HTH_HISTOGRAM_BUCKETS,
};

/* The counters of one or more threads. Padding, not alignment, separates the shards, so any allocator will do. */
typedef struct hth_counters_shard {
    _Atomic uint64_t cells[HTH_CELLS];
    _Atomic uint64_t max_ns[HTH_PATHS];
    uint8_t padding[128];
} hth_counters_shard;

typedef struct hth_counters {
    hth_counters_shard shards[HTH_COUNTER_SHARDS];
    _Atomic uint64_t noted[HTH_CELLS]; /* sums at the last reset */
} hth_counters;

/* All functions of this part: any thread, lock-free, no allocation. */
void hth_count(hth_counters *counters, hth_counter which, uint64_t n);
/* Count a request by the kind of its hit, HEARTH_HIT_NONE for a miss, and by the tier of the hit. */
void hth_count_hit(hth_counters *counters, hearth_hit hit, hearth_tier tier);
void hth_count_save(hth_counters *counters, hearth_save_reason reason);
/* Add the time of one event. */
void hth_histogram_add(hth_counters *counters, hth_path path, uint64_t ns);

/* ---- reading: any thread ---- */

/* The count since the start, ignoring resets; for before-and-after comparisons. */
uint64_t hth_counted(const hth_counters *counters, hth_counter which);

/* All counts since the last reset. */
typedef struct hth_counters_snapshot {
    uint64_t values[HTH_COUNTERS];
    uint64_t hits[HTH_COUNTER_HITS][HTH_COUNTER_TIERS]; /* [hearth_hit][hearth_tier]; [HEARTH_HIT_NONE]: misses */
    uint64_t saves[HTH_COUNTER_SAVES];                  /* [hearth_save_reason] */
    hth_histogram paths[HTH_PATHS];
} hth_counters_snapshot;

void hth_counters_snapshot_get(const hth_counters *counters, hth_counters_snapshot *out);
/* Requests of one kind of hit, over all tiers. */
uint64_t hth_counters_snapshot_hits(const hth_counters_snapshot *snapshot, hearth_hit hit);

/* Restart at zero for all later snapshots. If several threads reset at once, one of the resets takes effect. */
void hth_counters_reset(hth_counters *counters);

#endif
