/*
 * supervisor_orders.c - orders of operators and clients: models move without a request
 */
#include <inttypes.h>

#include "base/os.h"
#include "base/status.h"
#include "supervisor/supervisor_inside.h"

enum { MIB = 1 << 20 };

/* May orders be given? */
static bool is_open(const hth_supervisor *supervisor, hearth_error *err)
{
    if (!supervisor->shared.is_stopping)
        return true;
    (void)hth_fail(err, HEARTH_BUSY, "the server is shutting down");
    err->retry_after_s = HTH_STOPPING_RETRY_S;
    return false;
}

/* The worker for an order. NULL: there is none, or the server ends. */
static hth_model_worker *worker_to_order(const hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    return is_open(supervisor, err) ? hth_supervisor_worker_of(supervisor, model, err) : NULL;
}

/* ---- room ---- */

static size_t index_of(const hth_supervisor *supervisor, const hth_model_worker *worker)
{
    size_t i = 0;

    while (supervisor->present.at[i] != worker)
        i++;
    return i;
}

/*
 * The models, in the supervisor's scratch, when those that leave have left, and none leaves for another one. Orders
 * that wait for the needs of their models come first, with an estimate.
 */
static hth_residency_limits look_ahead(hth_supervisor *supervisor)
{
    hth_residency_limits limits = hth_supervisor_take_snapshot(supervisor);

    for (size_t i = 0; i < supervisor->present.n + supervisor->leaving.n; i++) {
        hth_resident *model = &supervisor->residents[2 * i];

        if (model->residence == HTH_RESIDENCE_LEAVING)
            model->residence = HTH_RESIDENCE_OUT;
        if (hth_model_worker_is_awaited(hth_supervisor_worker_at(supervisor, i)) && model->wanted_ns == 0 &&
            !model->is_invited)
            model->wanted_ns = 1;
    }
    limits.is_external = true;
    limits.turn_ns = UINT64_MAX;
    return limits;
}

/* The k-th entry, of rows, leaves the scratch. A model that would map them needs room for them now. */
static void drop_rows(hth_supervisor *supervisor, size_t k)
{
    hth_resident *rows = &supervisor->residents[k];

    for (size_t i = 0; i < supervisor->present.n + supervisor->leaving.n; i++) {
        hth_resident *model = &supervisor->residents[2 * i];

        if (model->kept == rows) {
            model->kept = NULL;
            model->bytes[0] += rows->bytes[0];
        }
    }
    rows->bytes[0] = 0;
}

/* Does the i-th model of the scratch, which is wanted or invited, enter now, or when rows have made room for it? */
static bool would_enter(hth_supervisor *supervisor, const hth_residency_limits *limits, size_t i)
{
    const size_t n = 2 * (supervisor->present.n + supervisor->leaving.n);
    bool has_dropped = true;

    while (has_dropped) {
        hth_residency_plan(supervisor->residents, n, limits, hth_os_monotonic_ns(), supervisor->planned);
        has_dropped = false;
        for (size_t k = 1; k < n; k += 2)
            if (supervisor->planned[k] == HTH_RESIDENCY_LEAVE) {
                drop_rows(supervisor, k);
                has_dropped = true;
            }
    }
    return supervisor->planned[2 * i] == HTH_RESIDENCY_ENTER;
}

/* Where no model leaves for another one, an order to load one needs room for it. */
static hearth_status check_room(hth_supervisor *supervisor, const hth_model_worker *worker, hearth_error *err)
{
    const size_t i = index_of(supervisor, worker);
    hth_residency_limits limits;

    if (!hth_model_worker_is_external(worker) || hth_model_worker_state(worker) == HTH_WORKER_STOPPING)
        return HEARTH_OK;
    limits = look_ahead(supervisor);
    supervisor->residents[2 * i].wanted_ns = hth_os_monotonic_ns();
    if (would_enter(supervisor, &limits, i))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_FULL,
                    "there is no room for model '%s', which takes %" PRIu64 " MiB of the host's memory, beside those "
                    "that are in memory, and no model leaves by itself (residency.mode is external); unload others "
                    "first, or raise residency.memory, device_memory or models_max",
                    hth_model_worker_name(worker), supervisor->residents[2 * i].bytes[0] / MIB);
}

/* Pinned models must fit into memory together, so that they never wait for each other. */
static hearth_status check_pin(hth_supervisor *supervisor, const hth_model_worker *worker, hth_residency to,
                               hearth_error *err)
{
    const bool is_device = to == HTH_RESIDENCY_PINNED_DEVICE;
    const size_t at = index_of(supervisor, worker);
    const hth_residency_limits limits = hth_supervisor_take_snapshot(supervisor);
    uint64_t pinned[HTH_POOLS_MAX] = { 0 };
    size_t n = 0;

    if (!is_device && to != HTH_RESIDENCY_PINNED_HOST)
        return HEARTH_OK;
    supervisor->residents[2 * at].is_pinned = is_device;
    for (size_t i = 0; i < supervisor->present.n; i++) {
        const hth_model_worker *other = supervisor->present.at[i];
        const hth_resident *model = &supervisor->residents[2 * i];

        n += model->is_pinned;
        for (size_t k = 0; k < limits.n_pools && model->is_pinned; k++)
            pinned[k] += model->bytes[k];
        /* Weights in the folder count with one of those that share them; others come with their first load. */
        if (hth_model_worker_has_weights(other) && hth_model_worker_weights_are_pinned(other))
            pinned[0] += supervisor->residents[2 * i + 1].bytes[0];
        else if (i == at ? !is_device : hth_model_worker_is_host_pinned(other))
            pinned[0] += hth_model_worker_weights_bytes(other);
    }
    if (n > limits.n_models)
        return hth_fail(err, HEARTH_FULL,
                        "with model '%s', %zu models would be pinned, and residency.models_max is %zu; unpin one first",
                        hth_model_worker_name(worker), n, limits.n_models);
    for (size_t k = 0; k < limits.n_pools; k++)
        if (pinned[k] > limits.bytes[k])
            return hth_fail(err, HEARTH_FULL,
                            "with model '%s', pinned models would take %" PRIu64 " MiB of the %" PRIu64
                            " MiB for models %s; unpin one first",
                            hth_model_worker_name(worker), pinned[k] / MIB, limits.bytes[k] / MIB,
                            k == 0 ? "on the host" : "on a device");
    return HEARTH_OK;
}

/* ---- orders for one model ---- */

hearth_status hth_supervisor_load(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = worker_to_order(supervisor, model, err);

    if (!worker || hth_model_worker_is_broken(worker, err))
        return err->status;
    if (hth_model_worker_state(worker) == HTH_WORKER_STOPPED && check_room(supervisor, worker, err) != HEARTH_OK)
        return err->status;
    hth_model_worker_summon(worker);
    hth_supervisor_plan(supervisor);
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

    if (!worker || (!hth_model_worker_is_in(worker) && check_room(supervisor, worker, err) != HEARTH_OK))
        return err->status;
    hth_model_worker_retire(worker, false, true);
    hth_supervisor_plan(supervisor);
    return HEARTH_OK;
}

/* The weights of a model without a process go, though another model without one has them, but not pinned ones. */
static void evict_weights(hth_supervisor *supervisor, const hth_model_worker *worker)
{
    (void)hth_supervisor_take_snapshot(supervisor); /* the pin of this model is gone */
    for (size_t i = 0; i < supervisor->present.n + supervisor->leaving.n; i++) {
        hth_model_worker *other = hth_supervisor_worker_at(supervisor, i);

        if ((other == worker || hth_model_worker_shares_weights(worker, other)) && !hth_model_worker_is_in(other) &&
            !hth_model_worker_weights_are_pinned(other))
            (void)hth_model_worker_evict_host_weights(other, HTH_DEPARTURE_NONE);
    }
}

hearth_status hth_supervisor_set_residency(hth_supervisor *supervisor, const char *model, hth_residency to,
                                           hearth_error *err)
{
    hth_model_worker *worker = worker_to_order(supervisor, model, err);
    const bool needs_folder = to == HTH_RESIDENCY_HOST || to == HTH_RESIDENCY_PINNED_HOST;
    bool must_load;

    if (!worker)
        return err->status;
    if (needs_folder && !hth_model_worker_keeps_host_weights(worker))
        return hth_fail(err, HEARTH_UNSUPPORTED,
                        "model '%s' has no place in host memory without a worker; give it host_weights and "
                        "keep_host_weights",
                        model);
    hth_model_worker_find_weights(worker);
    must_load = hth_model_worker_must_load_for(worker, to);
    if ((must_load && hth_model_worker_is_broken(worker, err)) || check_pin(supervisor, worker, to, err) != HEARTH_OK ||
        (must_load && check_room(supervisor, worker, err) != HEARTH_OK))
        return err->status;
    hth_model_worker_move(worker, to);
    if (to == HTH_RESIDENCY_EVICTED)
        evict_weights(supervisor, worker);
    hth_supervisor_plan(supervisor);
    return HEARTH_OK;
}

/* ---- orders for several models ---- */

/* Append the name of a model to a list of the object. Without memory the list lacks it, and the order goes on. */
static void list(json_t *object, const char *key, const hth_model_worker *worker)
{
    (void)json_array_append_new(json_object_get(object, key), json_string(hth_model_worker_name(worker)));
}

static hearth_status lists_new(json_t *object, json_t **out, hearth_error *err)
{
    if (!object)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the list of models");
    *out = object;
    return HEARTH_OK;
}

hearth_status hth_supervisor_preload(hth_supervisor *supervisor, const char *const *models, size_t n, json_t **out,
                                     hearth_error *err)
{
    hth_residency_limits limits;

    if (n > supervisor->present.n) /* each costs a plan */
        return hth_fail(err, HEARTH_MISUSE, "%zu names are more than the %zu models; name each model once", n,
                        supervisor->present.n);
    for (size_t k = 0; k < n; k++) {
        const hth_model_worker *worker = worker_to_order(supervisor, models[k], err);

        if (!worker || hth_model_worker_is_broken(worker, err))
            return err->status;
    }
    if (!is_open(supervisor, err) ||
        lists_new(json_pack("{s:[], s:[], s:[]}", "loading", "resident", "no_room"), out, err) != HEARTH_OK)
        return err->status;
    limits = look_ahead(supervisor);
    for (size_t k = 0; k < n; k++) {
        hth_model_worker *worker = worker_to_order(supervisor, models[k], err);
        const size_t i = index_of(supervisor, worker);
        hth_resident *resident = &supervisor->residents[2 * i];

        if (resident->residence == HTH_RESIDENCE_IN) {
            list(*out, hth_model_worker_residence(worker) == HTH_RESIDENCE_IN ? "resident" : "loading", worker);
            hth_model_worker_summon(worker);
            continue;
        }
        resident->is_invited = true;
        if (would_enter(supervisor, &limits, i)) {
            hth_model_worker_invite(worker);
            resident->residence = HTH_RESIDENCE_IN; /* the next ones find the room that it leaves */
            if (resident->kept)
                supervisor->residents[resident->kept - supervisor->residents].is_pinned = true;
            list(*out, "loading", worker);
        } else {
            resident->is_invited = false;
            list(*out, "no_room", worker);
        }
    }
    hth_supervisor_plan(supervisor);
    return HEARTH_OK;
}

hearth_status hth_supervisor_release_all(hth_supervisor *supervisor, bool drops_rows, json_t **out, hearth_error *err)
{
    if (!is_open(supervisor, err) || lists_new(json_pack("{s:[]}", "releasing"), out, err) != HEARTH_OK)
        return err->status;
    for (size_t i = 0; i < supervisor->present.n; i++)
        if (hth_model_worker_release(supervisor->present.at[i], drops_rows))
            list(*out, "releasing", supervisor->present.at[i]);
    supervisor->shared.on_change(supervisor);
    return HEARTH_OK;
}

hearth_status hth_supervisor_compact(hth_supervisor *supervisor, json_t **out, hearth_error *err)
{
    if (!is_open(supervisor, err) || lists_new(json_pack("{s:[]}", "compacting"), out, err) != HEARTH_OK)
        return err->status;
    for (size_t i = 0; i < supervisor->present.n; i++)
        if (hth_model_worker_compact(supervisor->present.at[i]))
            list(*out, "compacting", supervisor->present.at[i]);
    hth_supervisor_plan(supervisor);
    return HEARTH_OK;
}
