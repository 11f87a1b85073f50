/*
 * supervisor_warnings.c - what operators should know of a plan: models without room, models larger than all memory,
 * pins that memory cannot keep
 *
 * A warning changes no plan. Each is told once for its cause and not with every plan: models without room once after
 * the start, or after a reload that brought more; a large model each time that it enters; pins again only after a plan
 * in which they had room. Before the needs of all models are known, nothing is said of room and pins.
 */
#include <inttypes.h>

#include "base/status.h"
#include "supervisor/supervisor_inside.h"

enum { MIB = 1 << 20 };

void hth_supervisor_warn_uninvited(hth_supervisor *supervisor)
{
    if (!supervisor->tells_uninvited || supervisor->shared.n_asked > 0)
        return;
    supervisor->tells_uninvited = false;
    for (size_t i = 0; i < supervisor->present.n; i++) {
        const hth_model_worker *worker = supervisor->present.at[i];

        if (hth_model_worker_starts_with_server(worker) && hth_model_worker_is_awaited(worker))
            hth_warn(
                supervisor->shared.log,
                "model '%s': there is no room for it beside the other models; it starts when there is, or with the "
                "first request for it",
                hth_model_worker_name(worker));
    }
}

void hth_supervisor_warn_large(const hth_supervisor *supervisor, const hth_model_worker *worker,
                               const hth_resident *model, const hth_residency_limits *limits)
{
    for (size_t k = 0; k < limits->n_pools; k++)
        if (model->bytes[k] > limits->bytes[k])
            hth_warn(supervisor->shared.log,
                     "model '%s' takes %" PRIu64 " MiB %s, and there are %" PRIu64
                     " MiB for all models, so it enters alone and may not fit; raise %s, give it a smaller context%s, "
                     "or let --fit choose",
                     hth_model_worker_name(worker), model->bytes[k] / MIB, k == 0 ? "on the host" : "on a GPU",
                     limits->bytes[k] / MIB, k == 0 ? "residency.memory" : "residency.device_memory",
                     k == 0 ? "" : " or fewer gpu_layers");
}

void hth_supervisor_warn_pinned(hth_supervisor *supervisor)
{
    const bool was_over = supervisor->is_over_committed;
    hth_supervisor_memory memory;

    if (supervisor->shared.n_asked > 0)
        return; /* their needs come soon */
    memory = hth_supervisor_memory_of(supervisor);
    supervisor->is_over_committed = false;
    for (size_t k = 0; k < memory.n; k++) {
        const hth_supervisor_pool *pool = &memory.pools[k];

        if (!pool->pinned_over_commit)
            continue;
        if (!was_over && !supervisor->is_over_committed)
            hth_warn(supervisor->shared.log,
                     "pinned models take %" PRIu64 " MiB %s%s, and there are %" PRIu64
                     " MiB for all models, so they wait for each other or memory runs short; unpin one of them, or "
                     "raise %s",
                     pool->promised_bytes / MIB, k == 0 ? "on the host" : "on ", pool->name, pool->models_bytes / MIB,
                     k == 0 ? "residency.memory" : "residency.device_memory");
        supervisor->is_over_committed = true;
    }
}
