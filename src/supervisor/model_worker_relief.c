/*
 * model_worker_relief.c - what a model can free under pressure (relief.h)
 */
#include "base/os.h"
#include "base/smaller.h"
#include "supervisor/model_worker_inside.h"
#include "wire/needs_text.h"
#include "supervisor/worker_arguments.h"

enum { STUCK_MS = 30000 };

/*
 * A tier that freed less than it was told has rows that cannot leave now: those in use, and those that are not written
 * yet. It has nothing to offer until the next use of the model or for some time, so that the next tier has its turn.
 */
static bool is_stuck(const hth_model_worker *worker, uint64_t stuck_ns)
{
    return stuck_ns > worker->used_ns && stuck_ns + hth_ms_to_ns(STUCK_MS) > hth_os_monotonic_ns();
}

/* Where the needs are unknown, all of the model may be on devices. */
static uint64_t device_bytes(const hth_model_worker *worker)
{
    return worker->learned.needs.n_ctx > 0 ? hth_needs_device_bytes(&worker->learned.needs)
                                           : hth_model_worker_host_bytes(worker);
}

void hth_model_worker_relief(const hth_model_worker *worker, bool is_device, hth_relief_model *out)
{
    hth_resident model, rows;
    hth_status status;
    uint64_t model_bytes;
    const uint64_t row_bytes = hth_model_worker_row_bytes(worker);
    const uint64_t evicting_bytes = worker->evicting_ram_bytes + worker->evicting_ram_file_bytes;
    const uint64_t coming_bytes = is_device ? 0 : evicting_bytes;

    hth_model_worker_resident(worker, &hth_device_pools_none, &model, &rows);
    model_bytes = is_device ? device_bytes(worker) : model.bytes[0];
    *out = (hth_relief_model){
        .used_ns = worker->used_ns,
        .absent_row_bytes = model.residence == HTH_RESIDENCE_OUT ? row_bytes + (rows.is_pinned ? 0 : rows.bytes[0]) : 0,
        .coming_bytes = model.residence == HTH_RESIDENCE_LEAVING ? model_bytes : coming_bytes,
        .keeps_rows = worker->is_pinned || worker->is_host_pinned,
        .may_leave = worker->state == HTH_WORKER_READY && !worker->is_pinned && hth_model_worker_is_idle(worker),
    };
    if (!out->may_leave)
        return;
    out->model_bytes = hth_model_worker_is_external(worker) ? 0 : model_bytes + (is_device ? 0 : row_bytes);
    if (evicting_bytes > 0)
        return; /* its rows are leaving */
    hth_status_page_read(worker->page, &status);
    if (!status.has_numbers)
        return;
    if (!is_stuck(worker, worker->ram_stuck_ns))
        out->ram_bytes = hth_smaller(status.counters.ram_bytes, model.bytes[0] + row_bytes);
    if (!is_stuck(worker, worker->ram_file_stuck_ns))
        out->ram_file_bytes = status.counters.ram_file_bytes;
    out->ram_file_folder = hth_worker_arguments_value((const char *const *)worker->arguments, "--ram-files");
}

void hth_model_worker_relieve(hth_model_worker *worker, const hth_relief_order *order)
{
    if (order->drops_rows) {
        hth_model_worker_evict_rows(worker, HTH_DEPARTURE_PRESSURE);
        if (!worker->weights_are_pinned)
            (void)hth_model_worker_evict_host_weights(worker, HTH_DEPARTURE_PRESSURE);
    }
    if (order->leaves)
        hth_model_worker_depart(worker, HTH_DEPARTURE_PRESSURE);
    else if (order->ram_bytes + order->ram_file_bytes > 0 &&
             hth_worker_process_evict(worker->process, order->ram_bytes, order->ram_file_bytes)) {
        worker->evicting_ram_bytes = order->ram_bytes;
        worker->evicting_ram_file_bytes = order->ram_file_bytes;
    }
}

void hth_model_worker_note_evicted(uint64_t ram_bytes, uint64_t ram_file_bytes, void *user_data)
{
    hth_model_worker *worker = user_data;

    if (ram_bytes < worker->evicting_ram_bytes)
        worker->ram_stuck_ns = hth_os_monotonic_ns();
    if (ram_file_bytes < worker->evicting_ram_file_bytes)
        worker->ram_file_stuck_ns = hth_os_monotonic_ns();
    worker->evicting_ram_bytes = worker->evicting_ram_file_bytes = 0;
    if (ram_bytes > 0)
        hth_model_worker_tell_eviction(worker, "ram", ram_bytes, HTH_DEPARTURE_PRESSURE);
    if (ram_file_bytes > 0)
        hth_model_worker_tell_eviction(worker, "ram_file", ram_file_bytes, HTH_DEPARTURE_PRESSURE);
}
