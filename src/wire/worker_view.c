/*
 * worker_view.c - the names of a worker's states and of the places of its model's weights, and the table of its numbers
 */
#include "wire/worker_view.h"

#include <stddef.h>
#include <string.h>

const char *hth_worker_state_name(hth_worker_state state)
{
    static const char *const names[] = { "stopped", "starting", "ready", "stopping", "waiting", "broken" };

    return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static const char *const residencies[] = { "evicted", "host", "device", "pinned_host", "pinned_device" };

const char *hth_residency_name(hth_residency residency)
{
    return residencies[residency];
}

bool hth_residency_read(const char *name, hth_residency *out)
{
    for (size_t i = 0; i < sizeof(residencies) / sizeof(residencies[0]); i++)
        if (strcmp(name, residencies[i]) == 0) {
            *out = (hth_residency)i;
            return true;
        }
    return false;
}

/* ---- numbers ---- */

#define PLACE(field) offsetof(hth_worker_view, field), sizeof(((const hth_worker_view *)NULL)->field)
#define WORKER(field) PLACE(field), false
#define MODEL(field) PLACE(status.info.field), true
#define CACHE(field) PLACE(status.counters.field), true
#define QUOTA(field) PLACE(status.quotas.field), true

const hth_worker_fact hth_worker_facts[HTH_WORKER_FACTS] = {
    { "", "generation", NULL, NULL, NULL, NULL, NULL, WORKER(generation) },
    { "", "up_ms", NULL, NULL, NULL, NULL, NULL, WORKER(up_ms) },
    { "", "starts", "hearth_worker_starts_total", "counter", "Processes that were started for the model.", NULL, NULL,
      WORKER(n_starts) },
    { "", "deaths", "hearth_worker_deaths_total", "counter", "Workers that ended without an order to.", NULL, NULL,
      WORKER(n_deaths) },
    { "", "hangs", "hearth_worker_hangs_total", "counter",
      "Workers that were killed because they hung; they count as deaths, too.", NULL, NULL, WORKER(n_hangs) },
    { "", "waiting_requests", "hearth_worker_waiting_requests", "gauge",
      "Requests that wait for the worker to be ready.", NULL, NULL, WORKER(n_waiters) },
    { "", "running_requests", "hearth_worker_running_requests", "gauge", "Requests that the worker has.", NULL, NULL,
      WORKER(n_uses) },
    { "", "memory_bytes", "hearth_model_memory_bytes", "gauge",
      "Memory that the model takes or, without a worker, will take: weights, cells, rows.", NULL, NULL,
      WORKER(memory_bytes) },
    { "", "measured_bytes", NULL, NULL, NULL, NULL, NULL, WORKER(measured_bytes) },
    { "", "ram_share_bytes", "hearth_model_ram_share_bytes", "gauge",
      "Memory that the model's rows may take now, a share of that for rows of all models.", NULL, NULL,
      WORKER(ram_share_bytes) },
    { "", "host_weights_bytes", NULL, NULL, NULL, NULL, NULL, WORKER(host_weights_bytes) },
    { "", "departures", "hearth_model_departures_total", "counter",
      "Workers that ended to make room for other models, or after a long rest.", NULL, NULL, WORKER(n_departures) },
    { "", "idle_ms", NULL, NULL, NULL, NULL, NULL, WORKER(idle_ms) },
    { "", "resident_bytes", "hearth_worker_resident_memory_bytes", "gauge",
      "Memory of the worker's process that is in RAM.", NULL, NULL, WORKER(resident_bytes) },

    { "scheduler", "running", "hearth_scheduler_running", "gauge", "Requests that run.", NULL, NULL, MODEL(n_running) },
    { "scheduler", "waiting", "hearth_scheduler_waiting", "gauge", "Requests in the scheduler's queue.", NULL, NULL,
      MODEL(n_waiting) },
    { "scheduler", "parallel", "hearth_scheduler_parallel", "gauge", "Requests that can run at once.", NULL, NULL,
      MODEL(n_parallel) },
    { "scheduler", "idle_sequences", "hearth_scheduler_idle_sequences", "gauge",
      "Finished requests whose cells are still in the context.", NULL, NULL, MODEL(n_idle_sequences) },
    { "scheduler", "cells", "hearth_scheduler_cells", "gauge", "Cells of the context.", NULL, NULL, MODEL(n_ctx) },
    { "scheduler", "cells_used", "hearth_scheduler_cells_used", "gauge",
      "Cells in use; one that sequences share counts once.", NULL, NULL, MODEL(n_cells_used) },
    { "scheduler", "evaluations", "hearth_scheduler_evaluations_total", "counter", "Evaluations of batches.", NULL,
      NULL, MODEL(n_ticks) },
    { "scheduler", "preempted", "hearth_scheduler_preempted_total", "counter",
      "Requests that made room for others and went on later.", NULL, NULL, MODEL(n_preempted) },

    { "cache.hits", "live", NULL, NULL, NULL, NULL, NULL, CACHE(hits_live) },
    { "cache.hits", "exact", NULL, NULL, NULL, NULL, NULL, CACHE(hits_exact) },
    { "cache.hits", "resume", NULL, NULL, NULL, NULL, NULL, CACHE(hits_resume) },
    { "cache.hits", "prefix", NULL, NULL, NULL, NULL, NULL, CACHE(hits_prefix) },
    { "cache.hits", "none", NULL, NULL, NULL, NULL, NULL, CACHE(misses) },
    { "cache.hits_by_tier", "live", NULL, NULL, NULL, NULL, NULL, CACHE(hits_by_tier[HEARTH_TIER_LIVE]) },
    { "cache.hits_by_tier", "ram", NULL, NULL, NULL, NULL, NULL, CACHE(hits_by_tier[HEARTH_TIER_RAM]) },
    { "cache.hits_by_tier", "ram_file", NULL, NULL, NULL, NULL, NULL, CACHE(hits_by_tier[HEARTH_TIER_RAM_FILE]) },
    { "cache.hits_by_tier", "disk", NULL, NULL, NULL, NULL, NULL, CACHE(hits_by_tier[HEARTH_TIER_DISK]) },
    { "cache", "requests", NULL, NULL, NULL, NULL, NULL, CACHE(requests) },
    { "cache", "tokens_prompt", NULL, NULL, NULL, NULL, NULL, CACHE(tokens_prompt) },
    { "cache", "tokens_cached", NULL, NULL, NULL, NULL, NULL, CACHE(tokens_cached) },
    { "cache", "tokens_generated", NULL, NULL, NULL, NULL, NULL, CACHE(tokens_generated) },
    { "cache", "rows_saved", NULL, NULL, NULL, NULL, NULL, CACHE(rows_saved) },
    { "cache.ram", "rows", "hearth_cache_rows", "gauge",
      "Rows in a tier; directories that workers share count in each of them.", "tier", "ram", CACHE(ram_rows) },
    { "cache.ram_file", "rows", "hearth_cache_rows", NULL, NULL, "tier", "ram_file", CACHE(ram_file_rows) },
    { "cache.disk", "rows", "hearth_cache_rows", NULL, NULL, "tier", "disk", CACHE(disk_rows) },
    { "cache.ram", "bytes", "hearth_cache_bytes", "gauge",
      "Bytes in a tier; directories that workers share count in each of them.", "tier", "ram", CACHE(ram_bytes) },
    { "cache.ram_file", "bytes", "hearth_cache_bytes", NULL, NULL, "tier", "ram_file", CACHE(ram_file_bytes) },
    { "cache.disk", "bytes", "hearth_cache_bytes", NULL, NULL, "tier", "disk", CACHE(disk_bytes) },
    { "cache.ram", "bytes_max", "hearth_cache_bytes_max", "gauge", "Quota of a tier; 0: it has none.", "tier", "ram",
      QUOTA(ram) },
    { "cache.ram_file", "bytes_max", "hearth_cache_bytes_max", NULL, NULL, "tier", "ram_file", QUOTA(ram_file) },
    { "cache.disk", "bytes_max", "hearth_cache_bytes_max", NULL, NULL, "tier", "disk", QUOTA(disk) },
    { "cache", "rows_restored", "hearth_cache_rows_restored_total", "counter", "Rows put into the context.", NULL, NULL,
      CACHE(rows_restored) },
    { "cache", "bytes_restored", "hearth_cache_bytes_restored_total", "counter", "Bytes of them.", NULL, NULL,
      CACHE(bytes_restored) },
    { NULL, NULL, "hearth_cache_rows_saved_total", "counter", "Rows cut out of the context, by why they were saved.",
      "reason", "unknown", CACHE(saves_by_reason[HEARTH_SAVE_UNKNOWN]) },
    { NULL, NULL, "hearth_cache_rows_saved_total", NULL, NULL, "reason", "cold",
      CACHE(saves_by_reason[HEARTH_SAVE_COLD]) },
    { NULL, NULL, "hearth_cache_rows_saved_total", NULL, NULL, "reason", "continued",
      CACHE(saves_by_reason[HEARTH_SAVE_CONTINUED]) },
    { NULL, NULL, "hearth_cache_rows_saved_total", NULL, NULL, "reason", "evict",
      CACHE(saves_by_reason[HEARTH_SAVE_EVICT]) },
    { NULL, NULL, "hearth_cache_rows_saved_total", NULL, NULL, "reason", "shutdown",
      CACHE(saves_by_reason[HEARTH_SAVE_SHUTDOWN]) },
    { NULL, NULL, "hearth_cache_rows_saved_total", NULL, NULL, "reason", "finish",
      CACHE(saves_by_reason[HEARTH_SAVE_FINISH]) },
    { "cache", "bytes_saved", "hearth_cache_bytes_saved_total", "counter", "Bytes of rows cut out of the context.",
      NULL, NULL, CACHE(bytes_saved) },
    { "cache", "rows_written", "hearth_cache_rows_written_total", "counter", "Rows published as files.", NULL, NULL,
      CACHE(rows_written) },
    { "cache", "bytes_written", "hearth_cache_bytes_written_total", "counter", "Bytes of them.", NULL, NULL,
      CACHE(bytes_written) },
    { "cache", "rows_evicted", "hearth_cache_rows_evicted_total", "counter", "Rows that made room for others.", NULL,
      NULL, CACHE(rows_evicted) },
    { "cache", "rows_removed", "hearth_cache_rows_removed_total", "counter", "Rows that longer ones superseded.", NULL,
      NULL, CACHE(rows_removed) },
    { "cache", "rows_quarantined", "hearth_cache_rows_quarantined_total", "counter",
      "Rows that failed their checks and were set aside.", NULL, NULL, CACHE(rows_quarantined) },
    { "cache", "saves_dropped", "hearth_cache_saves_dropped_total", "counter",
      "Rows not kept, the write queue or the RAM tier being full.", NULL, NULL, CACHE(saves_dropped) },
    { "cache", "writes_failed", "hearth_cache_writes_failed_total", "counter",
      "Rows not written: no space, no permission, an error.", NULL, NULL, CACHE(writes_failed) },
    { "cache.write_queue", "rows", "hearth_cache_write_queue_rows", "gauge",
      "Rows waiting to be written, or being written.", NULL, NULL, CACHE(write_queue_rows) },
    { "cache.write_queue", "bytes", "hearth_cache_write_queue_bytes", "gauge", "Bytes of them.", NULL, NULL,
      CACHE(write_queue_bytes) },
};

uint64_t hth_worker_fact_value(const hth_worker_fact *fact, const hth_worker_view *view)
{
    const char *place = (const char *)view + fact->offset;

    return fact->bytes == sizeof(uint64_t) ? *(const uint64_t *)place : *(const uint32_t *)place;
}
