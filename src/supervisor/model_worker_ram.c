/*
 * model_worker_ram.c - the share of a model in the memory for rows (ram_shares.h)
 *
 * The share is the quota of the process' RAM tier. A larger share counts at once, a smaller one when the process has
 * confirmed it; rows in use may hold it up. One order is under way at a time. The share of a model without a process is
 * the memory of its rows.
 */
#include <sys/stat.h>

#include "base/os.h"
#include "base/smaller.h"
#include "supervisor/model_worker_inside.h"

enum {
    /* A model counts as busy for so long after a use: two that take turns do not take each other's rows. */
    REST_MS = 2000,
    /* So long after a row found no room, its model is short of room. */
    RECENT_MS = 2000,
};

uint64_t hth_model_worker_row_bytes(const hth_model_worker *worker)
{
    struct stat st;

    return worker->ram_fd >= 0 && fstat(worker->ram_fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static uint64_t share_of(const hth_model_worker *worker)
{
    return worker->process ? worker->ram_share : hth_smaller(worker->ram_share, hth_model_worker_row_bytes(worker));
}

void hth_model_worker_ram(const hth_model_worker *worker, uint64_t now_ns, hth_ram_holder *out)
{
    const uint64_t share = share_of(worker);
    const uint64_t rested_ns = worker->used_ns + hth_ms_to_ns(REST_MS);
    const uint64_t short_until_ns = worker->ram_short_ns + hth_ms_to_ns(RECENT_MS);
    const bool is_starting = worker->process && worker->state == HTH_WORKER_STARTING;

    *out = (hth_ram_holder){
        .share_bytes = share,
        .used_bytes = worker->process ? hth_smaller(worker->ram_used, share) : share,
        .coming_bytes = worker->process && worker->ram_quota < share ? share - worker->ram_quota : 0,
        .most_bytes = worker->ram_bytes,
        .used_ns = worker->used_ns,
        .has_worker = worker->process != NULL,
        .takes_orders = (is_starting || worker->state == HTH_WORKER_READY) && !worker->awaits_ram,
        .is_starting = is_starting,
        .is_busy = is_starting || !hth_model_worker_is_idle(worker) || (worker->process && now_ns < rested_ns),
        .is_pinned = worker->is_pinned,
        .is_short = worker->ram_short_ns > 0 && now_ns < short_until_ns,
    };
}

void hth_model_worker_set_ram_share(hth_model_worker *worker, uint64_t share_bytes)
{
    if (!worker->process) {
        hth_model_worker_evict_rows(worker, HTH_DEPARTURE_ROOM);
        return;
    }
    if (!hth_worker_process_set_ram(worker->process, share_bytes))
        return; /* it ends, or is told later */
    worker->ram_quota = share_bytes;
    worker->ram_used_before = worker->ram_used;
    worker->awaits_ram = true;
    if (share_bytes <= worker->ram_share)
        return;
    worker->ram_share = share_bytes;
    worker->ram_short_ns = 0;
}

void hth_model_worker_begin_ram(hth_model_worker *worker)
{
    worker->ram_share = worker->shared->ram_share(worker, worker->shared->user_data);
    worker->ram_used = worker->ram_quota = worker->ram_share; /* rows are not known yet */
    worker->awaits_ram = false;
    worker->n_displaced = 0;
    worker->ram_short_ns = 0;
}

void hth_model_worker_end_ram(hth_model_worker *worker)
{
    worker->awaits_ram = false;
    worker->ram_share = share_of(worker);
}

void hth_model_worker_note_ram(uint64_t quota, uint64_t used_bytes, uint64_t n_displaced, void *user_data)
{
    hth_model_worker *worker = user_data;
    const bool is_obeyed = worker->awaits_ram && quota == worker->ram_quota;
    const bool has_evicted = is_obeyed && quota < worker->ram_share && used_bytes < worker->ram_used_before;

    if (n_displaced > worker->n_displaced)
        worker->ram_short_ns = hth_os_monotonic_ns();
    worker->n_displaced = n_displaced;
    worker->ram_used = used_bytes;
    worker->awaits_ram &= !is_obeyed;
    if (!worker->awaits_ram) /* else the larger share may be on its way */
        worker->ram_share = hth_smaller(worker->ram_share, hth_larger(quota, used_bytes));
    if (has_evicted)
        hth_model_worker_tell_eviction(worker, "ram", worker->ram_used_before - used_bytes, HTH_DEPARTURE_ROOM);
    if (is_obeyed)
        worker->shared->on_change(worker->shared->user_data);
}
