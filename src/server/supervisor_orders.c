/*
 * supervisor_orders.c - orders of operators and clients: models move without a request
 */
#include "base/status.h"
#include "server/supervisor_inside.h"

/* The worker for an order. NULL: there is none, or the server ends. */
static hth_model_worker *worker_to_order(const hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = hth_supervisor_worker_of(supervisor, model, err);

    if (!worker || !supervisor->shared.is_stopping)
        return worker;
    (void)hth_fail(err, HEARTH_BUSY, "the server is shutting down");
    err->retry_after_s = HTH_STOPPING_RETRY_S;
    return NULL;
}

hearth_status hth_supervisor_load(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = worker_to_order(supervisor, model, err);

    if (!worker || hth_model_worker_is_broken(worker, err))
        return err->status;
    if (hth_model_worker_state(worker) == HTH_WORKER_STOPPED || hth_model_worker_state(worker) == HTH_WORKER_STOPPING) {
        hth_model_worker_summon(worker);
        hth_supervisor_plan(supervisor);
    }
    return HEARTH_OK;
}

hearth_status hth_supervisor_unload(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = worker_to_order(supervisor, model, err);

    if (!worker)
        return err->status;
    hth_model_worker_retire(worker, true, false);
    return HEARTH_OK;
}

void hth_supervisor_keep(hth_supervisor *supervisor, const char *model, uint64_t keep_ms)
{
    hearth_error err;
    hth_model_worker *worker = hth_supervisor_worker_of(supervisor, model, &err);

    if (!worker)
        return;
    hth_model_worker_keep(worker, keep_ms < UINT64_MAX / 1000000 ? keep_ms * 1000000 : UINT64_MAX);
    supervisor->shared.on_change(supervisor);
}

hearth_status hth_supervisor_restart(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = worker_to_order(supervisor, model, err);

    if (!worker)
        return err->status;
    hth_model_worker_retire(worker, false, true);
    hth_supervisor_plan(supervisor);
    return HEARTH_OK;
}
