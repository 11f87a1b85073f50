/*
 * counters.c - shards, sums, and the sums noted at the last reset
 *
 * Memory is ordered in one place only: a snapshot reads the noted sum before it reads the shards, and the reset read
 * the shards before it noted the sum. So a snapshot never sees less than it subtracts.
 *
 * A maximum cannot be subtracted. A reset clears the shards' maxima. It may also clear the time of an event that was
 * added to its bucket after the reset. So a snapshot never reports a maximum below the start of the highest bucket with
 * an event.
 */
#include "cache/counters.h"

#include <assert.h>

static_assert((HTH_COUNTER_SHARDS & (HTH_COUNTER_SHARDS - 1)) == 0, "a shard is chosen by the upper bits of a product");
static_assert((int)HEARTH_HIT_PREFIX < HTH_COUNTER_HITS, "every kind of hit has a counter");
static_assert((int)HEARTH_TIER_REMOTE < HTH_COUNTER_TIERS, "every tier has a counter");
static_assert((int)HEARTH_SAVE_FINISH < HTH_COUNTER_SAVES, "every save reason has a counter");

enum { SUBS = 1 << HTH_HISTOGRAM_SUB_BITS, SHARD_BITS = 4 };

static_assert(1 << SHARD_BITS == HTH_COUNTER_SHARDS, "as many shards as the bits can name");

const char *hth_path_name(hth_path path)
{
    static const char *const names[HTH_PATHS] = { "lookup", "read", "unpack", "pack", "write" };

    return (unsigned)path < HTH_PATHS ? names[path] : "unknown";
}

/* ---- shards ---- */

/* Only the address of the thread-local variable matters: it differs between threads. */
static hth_counters_shard *own_shard(hth_counters *counters)
{
    static _Thread_local const char here = 0;
    uint64_t mixed = (uint64_t)(uintptr_t)&here * UINT64_C(0x9E3779B97F4A7C15); /* Fibonacci hashing */

    return &counters->shards[mixed >> (64 - SHARD_BITS)];
}

static void add(hth_counters *counters, unsigned cell, uint64_t n)
{
    atomic_fetch_add_explicit(&own_shard(counters)->cells[cell], n, memory_order_relaxed);
}

static uint64_t sum(const hth_counters *counters, unsigned cell)
{
    uint64_t total = 0;

    for (size_t i = 0; i < HTH_COUNTER_SHARDS; i++)
        total += atomic_load_explicit(&counters->shards[i].cells[cell], memory_order_relaxed);
    return total;
}

static uint64_t sum_since_reset(const hth_counters *counters, unsigned cell)
{
    uint64_t noted = atomic_load_explicit(&counters->noted[cell], memory_order_acquire);

    return sum(counters, cell) - noted;
}

/* ---- counting ---- */

void hth_count(hth_counters *counters, hth_counter which, uint64_t n)
{
    assert(which < HTH_COUNTERS);
    add(counters, which, n);
}

static unsigned hit_cell(unsigned hit, unsigned tier)
{
    return HTH_CELL_HITS + hit * HTH_COUNTER_TIERS + tier;
}

void hth_count_hit(hth_counters *counters, hearth_hit hit, hearth_tier tier)
{
    assert((unsigned)hit < HTH_COUNTER_HITS);
    assert((unsigned)tier < HTH_COUNTER_TIERS);
    add(counters, hit_cell(hit, tier), 1);
}

void hth_count_save(hth_counters *counters, hearth_save_reason reason)
{
    assert((unsigned)reason < HTH_COUNTER_SAVES);
    add(counters, HTH_CELL_SAVES + (unsigned)reason, 1);
}

static void raise_to(_Atomic uint64_t *highest, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(highest, memory_order_relaxed);

    while (seen < value &&
           !atomic_compare_exchange_weak_explicit(highest, &seen, value, memory_order_release, memory_order_relaxed))
        continue;
}

static unsigned bucket_cell(unsigned path, unsigned bucket)
{
    return HTH_CELL_BUCKETS + path * HTH_HISTOGRAM_BUCKETS + bucket;
}

void hth_histogram_add(hth_counters *counters, hth_path path, uint64_t ns)
{
    hth_counters_shard *shard = own_shard(counters);

    assert((unsigned)path < HTH_PATHS);
    if (ns > HTH_HISTOGRAM_NS_MAX)
        ns = HTH_HISTOGRAM_NS_MAX;
    atomic_fetch_add_explicit(&shard->cells[HTH_CELL_SUMS + (unsigned)path], ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&shard->cells[bucket_cell(path, hth_histogram_bucket(ns))], 1, memory_order_relaxed);
    raise_to(&shard->max_ns[path], ns);
}

/* ---- histograms ---- */

unsigned hth_histogram_bucket(uint64_t ns)
{
    unsigned bits, sub;

    if (ns >> HTH_HISTOGRAM_MIN_BITS == 0)
        return 0;
    if (ns >> HTH_HISTOGRAM_MAX_BITS != 0)
        return HTH_HISTOGRAM_BUCKETS - 1;
    bits = 63 - (unsigned)__builtin_clzll(ns);
    sub = (unsigned)(ns >> (bits - HTH_HISTOGRAM_SUB_BITS)) & (SUBS - 1);
    return 1 + (bits - HTH_HISTOGRAM_MIN_BITS) * SUBS + sub;
}

uint64_t hth_histogram_bucket_end(unsigned bucket)
{
    unsigned bits, sub;

    assert(bucket < HTH_HISTOGRAM_BUCKETS);
    if (bucket == 0)
        return UINT64_C(1) << HTH_HISTOGRAM_MIN_BITS;
    if (bucket == HTH_HISTOGRAM_BUCKETS - 1)
        return UINT64_MAX;
    bits = HTH_HISTOGRAM_MIN_BITS + (bucket - 1) / SUBS;
    sub = (bucket - 1) % SUBS;
    return (uint64_t)(SUBS + sub + 1) << (bits - HTH_HISTOGRAM_SUB_BITS);
}

uint64_t hth_histogram_percentile(const hth_histogram *histogram, double share)
{
    uint64_t rank, passed = 0;
    unsigned bucket = 0;

    if (histogram->count == 0)
        return 0;
    /* The rank of the event, from 1, in order of time. A NaN selects the first. */
    rank = share > 0 ? share < 1 ? (uint64_t)(share * (double)histogram->count) : histogram->count : 1;
    if (share > 0 && share < 1 && (double)rank < share * (double)histogram->count)
        rank++;
    if (rank < 1)
        rank = 1;
    if (rank > histogram->count)
        rank = histogram->count;
    while (passed + histogram->buckets[bucket] < rank)
        passed += histogram->buckets[bucket++];
    if (hth_histogram_bucket_end(bucket) - 1 < histogram->max_ns)
        return hth_histogram_bucket_end(bucket) - 1;
    return histogram->max_ns;
}

/* ---- reading ---- */

uint64_t hth_counted(const hth_counters *counters, hth_counter which)
{
    assert(which < HTH_COUNTERS);
    return sum(counters, which);
}

static void read_histogram(const hth_counters *counters, unsigned path, hth_histogram *out)
{
    unsigned highest = 0;
    uint64_t begin;

    *out = (hth_histogram){ .sum_ns = sum_since_reset(counters, HTH_CELL_SUMS + path) };
    for (unsigned i = 0; i < HTH_HISTOGRAM_BUCKETS; i++) {
        out->buckets[i] = sum_since_reset(counters, bucket_cell(path, i));
        out->count += out->buckets[i];
        if (out->buckets[i] > 0)
            highest = i;
    }
    if (out->count == 0)
        return;
    for (size_t i = 0; i < HTH_COUNTER_SHARDS; i++) {
        uint64_t max_ns = atomic_load_explicit(&counters->shards[i].max_ns[path], memory_order_relaxed);

        if (max_ns > out->max_ns)
            out->max_ns = max_ns;
    }
    begin = highest > 0 ? hth_histogram_bucket_end(highest - 1) : 0;
    if (out->max_ns < begin)
        out->max_ns = begin;
}

void hth_counters_snapshot_get(const hth_counters *counters, hth_counters_snapshot *out)
{
    for (unsigned i = 0; i < HTH_COUNTERS; i++)
        out->values[i] = sum_since_reset(counters, i);
    for (unsigned hit = 0; hit < HTH_COUNTER_HITS; hit++)
        for (unsigned tier = 0; tier < HTH_COUNTER_TIERS; tier++)
            out->hits[hit][tier] = sum_since_reset(counters, hit_cell(hit, tier));
    for (unsigned i = 0; i < HTH_COUNTER_SAVES; i++)
        out->saves[i] = sum_since_reset(counters, HTH_CELL_SAVES + i);
    for (unsigned i = 0; i < HTH_PATHS; i++)
        read_histogram(counters, i, &out->paths[i]);
}

uint64_t hth_counters_snapshot_hits(const hth_counters_snapshot *snapshot, hearth_hit hit)
{
    uint64_t total = 0;

    assert((unsigned)hit < HTH_COUNTER_HITS);
    for (unsigned tier = 0; tier < HTH_COUNTER_TIERS; tier++)
        total += snapshot->hits[hit][tier];
    return total;
}

void hth_counters_reset(hth_counters *counters)
{
    for (size_t i = 0; i < HTH_COUNTER_SHARDS; i++)
        for (unsigned path = 0; path < HTH_PATHS; path++)
            atomic_store_explicit(&counters->shards[i].max_ns[path], 0, memory_order_relaxed);
    for (unsigned cell = 0; cell < HTH_CELLS; cell++)
        atomic_store_explicit(&counters->noted[cell], sum(counters, cell), memory_order_release);
}
