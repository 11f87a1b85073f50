/*
 * model_worker_moves.c - the place of a model's weights, and the orders that change it (docs/models.md)
 *
 * A model without a process has a host copy if its folder of host weights keeps them. A pin holds it in one place: on
 * the device no other model makes it leave; in host memory its copy is not removed. A pin does not bring
 * the model there, so an order does both.
 */
#include "base/os.h"
#include "base/status.h"
#include "supervisor/model_worker_inside.h"
#include "supervisor/worker_arguments.h"

hth_residency hth_model_worker_residency(const hth_model_worker *worker)
{
    if (hth_model_worker_residence(worker) != HTH_RESIDENCE_OUT)
        return worker->is_pinned ? HTH_RESIDENCY_PINNED_DEVICE : HTH_RESIDENCY_DEVICE;
    if (worker->host_bytes > 0)
        return worker->is_host_pinned ? HTH_RESIDENCY_PINNED_HOST : HTH_RESIDENCY_HOST;
    return HTH_RESIDENCY_EVICTED;
}

/* ---- a server whose models are moved by orders alone ---- */

bool hth_model_worker_is_external(const hth_model_worker *worker)
{
    return worker->shared->options->residency_mode == HTH_RESIDENCY_EXTERNAL;
}

bool hth_model_worker_is_absent(const hth_model_worker *worker, hearth_error *err)
{
    if (!hth_model_worker_is_external(worker) || worker->summoned_ns > 0 || worker->is_invited ||
        hth_model_worker_residence(worker) == HTH_RESIDENCE_IN)
        return false;
    (void)hth_fail(err, HEARTH_CANCELLED,
                   "model '%s' is not resident, and this server loads models by orders of operators only "
                   "(residency.mode is external); an operator loads it with POST /admin/models/%s/load",
                   worker->name, worker->name);
    return true;
}

void hth_model_worker_give_up(hth_model_worker *worker)
{
    hearth_error err;

    if (worker->state != HTH_WORKER_STOPPED || worker->waits_for_needs ||
        (worker->summoned_ns == 0 && !worker->is_invited && worker->waiters.n == 0))
        return;
    worker->summoned_ns = 0;
    worker->is_invited = false;
    worker->is_dismissed = false;
    worker->has_no_room = true;
    hth_warn(worker->shared->log,
             "model '%s': there is no room for it beside the others, and it stays out until it is ordered again",
             worker->name);
    hth_model_worker_tell_no_room(worker);
    if (hth_model_worker_is_absent(worker, &err))
        hth_model_worker_fail_waiters(worker, &err);
}

/* ---- orders ---- */

bool hth_model_worker_keeps_host_weights(const hth_model_worker *worker)
{
    const char *const *arguments = (const char *const *)worker->arguments;

    return *hth_worker_arguments_value(arguments, "--host-weights") &&
           hth_worker_arguments_have_flag(arguments, "--keep-host-weights");
}

bool hth_model_worker_must_load_for(const hth_model_worker *worker, hth_residency to)
{
    if (worker->state != HTH_WORKER_STOPPING && hth_model_worker_residence(worker) != HTH_RESIDENCE_OUT)
        return false;
    return to == HTH_RESIDENCY_DEVICE || to == HTH_RESIDENCY_PINNED_DEVICE ||
           (to != HTH_RESIDENCY_EVICTED && worker->host_bytes == 0);
}

/* End the process of a model that works; one that loads, or will, leaves when it has filled the folder. */
static void leave_for_host(hth_model_worker *worker)
{
    if (worker->state == HTH_WORKER_STARTING || worker->state == HTH_WORKER_WAITING)
        worker->is_dismissed = true;
    else if (hth_model_worker_residence(worker) != HTH_RESIDENCE_OUT)
        hth_model_worker_retire(worker, true, false);
}

void hth_model_worker_move(hth_model_worker *worker, hth_residency to)
{
    const bool must_load = hth_model_worker_must_load_for(worker, to);

    worker->is_pinned = to == HTH_RESIDENCY_PINNED_DEVICE;
    worker->is_host_pinned = to == HTH_RESIDENCY_PINNED_HOST;
    worker->is_dismissed = worker->drops_host = false;
    if (to == HTH_RESIDENCY_EVICTED) {
        hth_model_worker_retire(worker, true, false);
        worker->drops_host = worker->process != NULL;
    } else if (must_load) {
        hth_model_worker_summon(worker);
        worker->is_dismissed = to == HTH_RESIDENCY_HOST || to == HTH_RESIDENCY_PINNED_HOST;
    } else if (to == HTH_RESIDENCY_HOST || to == HTH_RESIDENCY_PINNED_HOST) {
        leave_for_host(worker);
    }
}

bool hth_model_worker_release(hth_model_worker *worker, bool drops_rows)
{
    const bool leaves = !worker->is_pinned && hth_model_worker_residence(worker) != HTH_RESIDENCE_OUT;

    if (!worker->is_pinned && worker->state != HTH_WORKER_BROKEN)
        hth_model_worker_retire(worker, true, false); /* one that is out waits for room no longer */
    if (drops_rows && !worker->is_pinned && !worker->is_host_pinned) {
        worker->drops_rows = worker->process != NULL;
        if (!worker->process)
            hth_model_worker_release_rows(worker);
    }
    return leaves;
}

bool hth_model_worker_compact(hth_model_worker *worker)
{
    if (worker->is_pinned || worker->state != HTH_WORKER_READY)
        return false;
    worker->must_compact = true;
    return true;
}

bool hth_model_worker_is_compacting(hth_model_worker *worker)
{
    worker->is_compacting &= worker->state == HTH_WORKER_STOPPING || worker->state == HTH_WORKER_STARTING;
    return worker->is_compacting;
}

bool hth_model_worker_begin_compacting(hth_model_worker *worker)
{
    const bool begins = worker->must_compact && !worker->is_pinned && worker->state == HTH_WORKER_READY;

    worker->must_compact = false;
    if (begins) {
        hth_model_worker_retire(worker, false, true);
        worker->is_compacting = true;
    }
    return begins;
}
