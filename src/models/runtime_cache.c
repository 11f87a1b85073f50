/*
 * runtime_cache.c - the public functions for the cache of a runtime: counters, rows, limits
 *
 * All may be called while requests run. Functions that iterate over rows or remove files block only their caller.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/structs.h"
#include "models/runtime.h"

static_assert(HEARTH_PATHS == (int)HTH_PATHS, "the public paths are the counted ones");

const char *hearth_path_name(hearth_path path)
{
    return hth_path_name((hth_path)path);
}

/* ---- counters ---- */

hearth_status hearth_runtime_counters(hearth_runtime *runtime, hearth_counters *out, hearth_error *err)
{
    hearth_counters counters = { .struct_size = sizeof(counters) };
    hth_counters_snapshot *snapshot;

    if (!runtime || !out || out->struct_size < sizeof(size_t))
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_counters: set out->struct_size to sizeof(hearth_counters)");
    snapshot = malloc(sizeof(*snapshot));
    if (!snapshot)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to read the counters");
    hth_counters_snapshot_get(hth_runtime_counters(runtime), snapshot);
    counters.requests = snapshot->values[HTH_COUNT_REQUESTS];
    counters.hits_live = hth_counters_snapshot_hits(snapshot, HEARTH_HIT_LIVE);
    counters.hits_exact = hth_counters_snapshot_hits(snapshot, HEARTH_HIT_EXACT);
    counters.hits_resume = hth_counters_snapshot_hits(snapshot, HEARTH_HIT_RESUME);
    counters.hits_prefix = hth_counters_snapshot_hits(snapshot, HEARTH_HIT_PREFIX);
    counters.misses = hth_counters_snapshot_hits(snapshot, HEARTH_HIT_NONE);
    counters.tokens_prompt = snapshot->values[HTH_COUNT_TOKENS_PROMPT];
    counters.tokens_cached = snapshot->values[HTH_COUNT_TOKENS_CACHED];
    counters.tokens_generated = snapshot->values[HTH_COUNT_TOKENS_GENERATED];
    counters.rows_restored = snapshot->values[HTH_COUNT_ROWS_RESTORED];
    counters.bytes_restored = snapshot->values[HTH_COUNT_BYTES_RESTORED];
    counters.rows_saved = snapshot->values[HTH_COUNT_ROWS_SAVED];
    counters.bytes_saved = snapshot->values[HTH_COUNT_BYTES_SAVED];
    counters.rows_written = snapshot->values[HTH_COUNT_ROWS_WRITTEN];
    counters.bytes_written = snapshot->values[HTH_COUNT_BYTES_WRITTEN];
    counters.saves_dropped = snapshot->values[HTH_COUNT_SAVES_DROPPED];
    counters.writes_failed = snapshot->values[HTH_COUNT_WRITES_FAILED];
    counters.rows_quarantined = snapshot->values[HTH_COUNT_ROWS_QUARANTINED];
    counters.rows_removed = snapshot->values[HTH_COUNT_ROWS_REMOVED];
    for (unsigned hit = HEARTH_HIT_NONE + 1; hit < HTH_COUNTER_HITS; hit++)
        for (unsigned tier = 0; tier <= HEARTH_TIER_REMOTE; tier++)
            counters.hits_by_tier[tier] += snapshot->hits[hit][tier];
    for (unsigned reason = 0; reason <= HEARTH_SAVE_FINISH; reason++)
        counters.saves_by_reason[reason] = snapshot->saves[reason];
    free(snapshot);
    if (hth_runtime_cache(runtime))
        hth_cache_counters(hth_runtime_cache(runtime), &counters);
    hth_struct_write(out, &counters, sizeof(counters));
    return HEARTH_OK;
}

hearth_status hearth_runtime_counters_reset(hearth_runtime *runtime, hearth_error *err)
{
    if (!runtime)
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_counters_reset: runtime is NULL");
    hth_counters_reset(hth_runtime_counters(runtime));
    if (hth_runtime_cache(runtime))
        hth_cache_counters_reset(hth_runtime_cache(runtime));
    return HEARTH_OK;
}

hearth_status hearth_runtime_times(hearth_runtime *runtime, hearth_path path, hearth_times *out, hearth_error *err)
{
    hearth_times times = { .struct_size = sizeof(times) };
    hth_counters_snapshot *snapshot;
    const hth_histogram *histogram;

    if (!runtime || !out || out->struct_size < sizeof(size_t) || (unsigned)path >= HEARTH_PATHS)
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_runtime_times: name a path and set out->struct_size to sizeof(hearth_times)");
    snapshot = malloc(sizeof(*snapshot));
    if (!snapshot)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to read the counters");
    hth_counters_snapshot_get(hth_runtime_counters(runtime), snapshot);
    histogram = &snapshot->paths[path];
    times.count = histogram->count;
    times.total_ns = histogram->sum_ns;
    times.max_ns = histogram->max_ns;
    times.p50_ns = hth_histogram_percentile(histogram, 0.5);
    times.p90_ns = hth_histogram_percentile(histogram, 0.9);
    times.p99_ns = hth_histogram_percentile(histogram, 0.99);
    free(snapshot);
    hth_struct_write(out, &times, sizeof(times));
    return HEARTH_OK;
}

/* ---- rows ---- */

typedef struct listing {
    hearth_row_fn on_row;
    void *user_data;
    bool ended;
} listing;

static bool show_row(const hth_cache_row *row, void *user_data)
{
    listing *l = user_data;
    hearth_row shown = {
        .struct_size = sizeof(shown),
        .kind = hth_row_kind_name(row->meta.id.kind),
        .first_position = row->meta.first_position,
        .n_tokens = row->meta.n_tokens,
        .bytes = row->meta.bytes,
        .hit_count = row->meta.hit_count,
        .n_pins = row->n_pins,
        .tier = row->tier,
        .last_used_s = row->tier == HEARTH_TIER_RAM ? 0 : row->meta.last_used_time,
    };

    memcpy(shown.key, row->meta.id.key.bytes, sizeof(shown.key));
    l->ended = !l->on_row(&shown, l->user_data);
    return !l->ended;
}

hearth_status hearth_runtime_rows(hearth_runtime *runtime, hearth_row_fn on_row, void *user_data, hearth_error *err)
{
    listing l = { .on_row = on_row, .user_data = user_data };

    if (!runtime || !on_row)
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_rows: runtime or on_row is NULL");
    if (!hth_runtime_cache(runtime))
        return HEARTH_OK;
    return hth_cache_rows(hth_runtime_cache(runtime), show_row, &l, err);
}

hearth_status hearth_runtime_evict(hearth_runtime *runtime, uint64_t n_bytes, unsigned tiers, uint64_t *bytes_out,
                                   hearth_error *err)
{
    uint64_t evicted = 0;
    hearth_status status = HEARTH_OK;

    if (!runtime || tiers == 0 || tiers > (HEARTH_EVICT_RAM | HEARTH_EVICT_RAM_FILE | HEARTH_EVICT_DISK))
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_evict: tiers is %u; it must be a set of HEARTH_EVICT_...",
                        tiers);
    if (hth_runtime_cache(runtime))
        status = hth_cache_evict(hth_runtime_cache(runtime), n_bytes, tiers, &evicted, err);
    if (status == HEARTH_OK && bytes_out)
        *bytes_out = evicted;
    return status;
}

hearth_status hearth_runtime_gc(hearth_runtime *runtime, uint64_t *rows_out, hearth_error *err)
{
    uint64_t n_rows = 0;
    hearth_status status = HEARTH_OK;

    if (!runtime)
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_gc: runtime is NULL");
    if (hth_runtime_cache(runtime))
        status = hth_cache_gc(hth_runtime_cache(runtime), &n_rows, err);
    if (status == HEARTH_OK && rows_out)
        *rows_out = n_rows;
    return status;
}

hearth_status hearth_runtime_quarantine(hearth_runtime *runtime, const uint8_t key[32], hearth_error *err)
{
    hth_row_id id;
    bool is_gone = true;

    if (!runtime || !key)
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_quarantine: runtime or key is NULL");
    memcpy(id.key.bytes, key, sizeof(id.key.bytes));
    for (int kind = 0; hth_runtime_cache(runtime) && kind < HTH_ROW_KINDS; kind++) {
        id.kind = (hth_row_kind)kind;
        is_gone &= hth_cache_quarantine(hth_runtime_cache(runtime), &id, "a process may have died of it");
    }
    if (!is_gone)
        return hth_fail(err, HEARTH_IO, "a cached row that was to be set aside stays where it is; the log says why");
    return HEARTH_OK;
}

/* ---- the writers ---- */

hearth_status hearth_runtime_write_limits(hearth_runtime *runtime, uint32_t queue_rows_max, uint64_t queue_bytes_max,
                                          uint64_t bytes_per_s, hearth_error *err)
{
    hth_writer_limits limits;

    if (!runtime)
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_write_limits: runtime is NULL");
    if (!hth_runtime_cache(runtime))
        return HEARTH_OK;
    hth_cache_write_limits_get(hth_runtime_cache(runtime), &limits);
    if (queue_rows_max)
        limits.queue_rows_max = queue_rows_max;
    if (queue_bytes_max)
        limits.queue_bytes_max = queue_bytes_max;
    if (bytes_per_s)
        limits.bytes_per_s = bytes_per_s == UINT64_MAX ? 0 : bytes_per_s;
    hth_cache_write_limits_set(hth_runtime_cache(runtime), &limits);
    return HEARTH_OK;
}
