/*
 * counters.h - what the cache did, counted where it happens
 *
 * Relaxed atomics, so that any thread adds without waiting and a snapshot costs a few loads. A snapshot is not one
 * instant: counters that are read later may include events that earlier ones do not.
 */
#ifndef HTH_CACHE_COUNTERS_H
#define HTH_CACHE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

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
    HTH_COUNT_ROWS_REMOVED,
    HTH_COUNTERS,
} hth_counter;

typedef struct hth_counters {
    _Atomic uint64_t values[HTH_COUNTERS];
} hth_counters;

static inline void hth_count(hth_counters *counters, hth_counter which, uint64_t n)
{
    atomic_fetch_add_explicit(&counters->values[which], n, memory_order_relaxed);
}

static inline uint64_t hth_counted(const hth_counters *counters, hth_counter which)
{
    return atomic_load_explicit(&counters->values[which], memory_order_relaxed);
}

#endif
