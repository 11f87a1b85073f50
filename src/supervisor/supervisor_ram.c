/*
 * supervisor_ram.c - the memory for rows, and the shares of the workers in it (ram_shares.h)
 *
 * The plan of residency leaves this memory free, so rows never take that of models. A model that is larger than its
 * part of the memory takes that of rows: they have the rest.
 */
#include <stdlib.h>

#include "base/os.h"
#include "base/smaller.h"
#include "supervisor/supervisor_inside.h"

enum {
    SPARE_PART = 16,             /* of the quotas, that fragments may add; a sixteenth of the budget stays for rows */
    DIRECTORY_BYTES = 128 << 10, /* of the list of rows in a memory file, for some thousand rows */
};

uint64_t hth_supervisor_row_bytes_max(const hth_supervisor *supervisor)
{
    const uint64_t total = hth_server_ram_total(supervisor->shared.options);
    uint64_t n_files = 0;

    for (size_t i = 0; i < supervisor->present.n + supervisor->leaving.n; i++)
        n_files += hth_model_worker_row_bytes(hth_supervisor_worker_at(supervisor, i)) > 0;
    return total + total / SPARE_PART + n_files * DIRECTORY_BYTES;
}

/* The budget of all quotas. starts: a worker whose model counts, because it starts now; NULL: none. */
static uint64_t rows_budget(const hth_supervisor *supervisor, const hth_model_worker *starts)
{
    const uint64_t total = hth_server_ram_total(supervisor->shared.options), limit = hth_supervisor_limit(supervisor);
    uint64_t taken = 0, rest;

    for (size_t i = 0; i < supervisor->present.n + supervisor->leaving.n; i++) {
        const hth_model_worker *worker = hth_supervisor_worker_at(supervisor, i);
        hth_resident model, kept;

        hth_model_worker_resident(worker, &hth_device_pools_none, &model, &kept);
        taken += kept.bytes[0] + (model.residence == HTH_RESIDENCE_OUT && worker != starts ? 0 : model.bytes[0]);
    }
    rest = limit > taken ? limit - taken : 0;
    return hth_larger(hth_smaller(total, rest - rest / (SPARE_PART + 1)), total / SPARE_PART);
}

/* All models, for a plan; NULL without memory. at: the index of this worker. */
static hth_ram_holder *holders_of(const hth_supervisor *supervisor, const hth_model_worker *worker, size_t *at)
{
    const size_t n = supervisor->present.n + supervisor->leaving.n;
    const uint64_t now_ns = hth_os_monotonic_ns();
    hth_ram_holder *holders = calloc(n + 1, sizeof(*holders));

    for (size_t i = 0; holders && i < n; i++) {
        hth_model_worker_ram(hth_supervisor_worker_at(supervisor, i), now_ns, &holders[i]);
        if (hth_supervisor_worker_at(supervisor, i) == worker)
            *at = i;
    }
    return holders;
}

void hth_supervisor_share_ram(hth_supervisor *supervisor)
{
    const size_t n = supervisor->present.n + supervisor->leaving.n;
    hth_ram_holder *holders = holders_of(supervisor, NULL, NULL);
    uint64_t *shares = calloc(n + 1, sizeof(*shares));

    if (holders && shares && !supervisor->shared.is_stopping) {
        hth_ram_shares_plan(holders, n, rows_budget(supervisor, NULL), shares);
        for (size_t i = 0; i < n; i++)
            if (shares[i] != holders[i].share_bytes)
                hth_model_worker_set_ram_share(hth_supervisor_worker_at(supervisor, i), shares[i]);
    }
    free(holders);
    free(shares);
}

uint64_t hth_supervisor_ram_share(const hth_model_worker *worker, void *user_data)
{
    const hth_supervisor *supervisor = user_data;
    const size_t n = supervisor->present.n + supervisor->leaving.n;
    size_t at = n;
    hth_ram_holder *holders = holders_of(supervisor, worker, &at);
    uint64_t share = 0;

    if (holders && at < n)
        share = hth_ram_share_at_start(holders, n, rows_budget(supervisor, worker), at);
    free(holders);
    return share;
}
