/*
 * supervisor.c - the front's workers, one a model
 *
 * Three things drive it: SIGCHLD, upon which every worker looks whether its own process has ended (no other child of
 * this process is touched); a timer that looks for hangs and time-outs; and requests. A worker whose model was taken
 * away stays on a second list until its process has ended.
 */
#include "supervisor/supervisor.h"

#include <assert.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/smaller.h"
#include "base/status.h"
#include "supervisor/budget.h"
#include "supervisor/supervisor_inside.h"
#include "supervisor/worker_process.h"

enum {
    TICK_MS = 250,
    LATE_MS = 1000,         /* a tick that comes so much too late has seen nothing */
    WRITE_MS = 1000,        /* between two writings of the memory that models were seen to take */
    SOCKET_NAME_BYTES = 28, /* that hth_socket_folder_make puts behind the directory, for a hundred million processes */
};

#define MACHINE_FRACTION 0.9 /* of the machine's memory, the most for models */
#define MACHINE_WIGGLE 0.02  /* of the machine's memory, for nobody */

/* ---- lists ---- */

static hth_model_worker *find(const hth_worker_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(hth_model_worker_name(list->at[i]), name) == 0)
            return list->at[i];
    }
    return NULL;
}

static bool contains(const hth_worker_list *list, const hth_model_worker *worker)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->at[i] == worker)
            return true;
    }
    return false;
}

static void for_each(hth_supervisor *supervisor, void (*act)(hth_model_worker *worker))
{
    for (size_t i = 0; i < supervisor->present.n; i++)
        act(supervisor->present.at[i]);
    for (size_t i = 0; i < supervisor->leaving.n; i++)
        act(supervisor->leaving.at[i]);
}

/* ---- events ---- */

static void on_child(evutil_socket_t number, short what, void *user_data)
{
    hth_supervisor *supervisor = user_data;

    (void)number;
    (void)what;
    for_each(supervisor, hth_model_worker_reap);
    hth_worker_shared_reap(&supervisor->shared);
}

static void on_tick(evutil_socket_t fd, short what, void *user_data)
{
    hth_supervisor *supervisor = user_data;
    uint64_t now_ns = hth_os_monotonic_ns();

    (void)fd;
    (void)what;
    if (now_ns - supervisor->ticked_ns > hth_ms_to_ns(TICK_MS + LATE_MS))
        supervisor->shared.watching_since_ns = now_ns;
    supervisor->ticked_ns = now_ns;
    for (size_t i = 0; i < supervisor->present.n; i++)
        hth_model_worker_tick(supervisor->present.at[i], now_ns);
    for (size_t i = 0; i < supervisor->leaving.n; i++)
        hth_model_worker_tick(supervisor->leaving.at[i], now_ns);
    hth_supervisor_plan(supervisor);
    if (now_ns >= supervisor->wrote_ns + hth_ms_to_ns(WRITE_MS)) {
        supervisor->wrote_ns = now_ns;
        hth_learned_write(supervisor->shared.learned);
    }
}

static void on_change(void *user_data)
{
    hth_supervisor *supervisor = user_data;

    event_active(supervisor->sweep_event, EV_TIMEOUT, 0); /* later: it is in use now */
}

/* ---- residency ---- */

/*
 * An operator's limit is for models alone, with their buffers. Of a machine, they take nine tenths at most, and leave
 * room for a second set of the largest buffers, because an embedder that comes with the first request for embeddings
 * makes its own.
 */
static uint64_t host_limit_of(const hth_supervisor *supervisor, uint64_t row_bytes)
{
    const uint64_t limit = supervisor->shared.options->memory_bytes, machine = supervisor->machine_bytes;
    hth_budget_terms terms = { .arena_bytes = limit, .fraction = 1, .row_bytes = row_bytes };

    if (limit == 0) {
        terms.arena_bytes = machine > 0 ? machine : UINT64_MAX;
        terms.fraction = MACHINE_FRACTION;
        terms.wiggle = MACHINE_WIGGLE;
        for (size_t i = 0; i < supervisor->present.n; i++)
            terms.max_scratch_bytes =
                hth_larger(terms.max_scratch_bytes, hth_model_worker_scratch_bytes(supervisor->present.at[i]));
    }
    return hth_budget_of(&terms).weight_pool_bytes;
}

uint64_t hth_supervisor_limit(const hth_supervisor *supervisor)
{
    return host_limit_of(supervisor, 0);
}

hth_model_worker *hth_supervisor_worker_at(const hth_supervisor *supervisor, size_t i)
{
    const size_t n = supervisor->present.n;

    return i < n ? supervisor->present.at[i] : supervisor->leaving.at[i - n];
}

static hth_device_pools devices_of(const hth_supervisor *supervisor)
{
    hth_device_pools devices = { .n = 0 };

    for (size_t i = 0; i < supervisor->present.n + supervisor->leaving.n; i++)
        hth_model_worker_note_devices(hth_supervisor_worker_at(supervisor, i), &devices);
    hth_device_pools_take_sights(&devices, &supervisor->shared.seen);
    return devices;
}

/* Add up the bytes that models in memory take of devices. False: those of one are unknown. */
static bool sum_devices(const hth_supervisor *supervisor, const hth_device_pools *devices, uint64_t used[HTH_POOLS_MAX])
{
    for (size_t i = 0; i < supervisor->present.n + supervisor->leaving.n; i++) {
        const hth_model_worker *worker = hth_supervisor_worker_at(supervisor, i);

        if (hth_model_worker_residence(worker) == HTH_RESIDENCE_OUT)
            continue;
        if (!hth_model_worker_share_devices(worker, devices, used))
            return false;
    }
    return true;
}

/* See what other programs left free on devices, as far as the use of each model with a process is known. */
static void on_needs(const hth_model_needs *needs, void *user_data)
{
    hth_supervisor *supervisor = user_data;
    const hth_device_pools devices = devices_of(supervisor);
    uint64_t used[HTH_POOLS_MAX] = { 0 };

    if (sum_devices(supervisor, &devices, used))
        supervisor->shared.n_sights += hth_device_pools_see(&supervisor->shared.seen, needs, &devices, used);
}

static bool may_see_more(const hth_model_needs *needs, void *user_data)
{
    const hth_supervisor *supervisor = user_data;
    const hth_device_pools devices = devices_of(supervisor);
    uint64_t used[HTH_POOLS_MAX] = { 0 };

    return sum_devices(supervisor, &devices, used) &&
           hth_device_pools_may_grow(&supervisor->shared.seen, needs, &devices, used);
}

static hth_residency_limits limits_of(const hth_supervisor *supervisor, const hth_device_pools *devices)
{
    const hth_server_options *options = supervisor->shared.options;
    hth_residency_limits limits = {
        .n_pools = 1 + devices->n,
        .bytes[0] = host_limit_of(supervisor, hth_supervisor_row_bytes_max(supervisor)),
        .n_models = options->models_max > 0 ? options->models_max : SIZE_MAX,
        .turn_ns = hth_ms_to_ns(options->turn_ms),
        .is_held = supervisor->is_held,
        .is_external = options->residency_mode == HTH_RESIDENCY_EXTERNAL,
    };

    for (size_t i = 0; i < devices->n; i++)
        limits.bytes[1 + i] = hth_device_pool_limit(&devices->at[i], options->device_memory_bytes);
    return limits;
}

/* Returns the bytes that are free now. */
static uint64_t obey(const hth_supervisor *supervisor, hth_model_worker *worker, const hth_resident *resident,
                     hth_residency_order order, const hth_residency_limits *limits)
{
    if (order == HTH_RESIDENCY_LEAVE && resident->residence == HTH_RESIDENCE_KEPT)
        return hth_model_worker_evict_host_weights(worker, HTH_DEPARTURE_ROOM);
    if (order == HTH_RESIDENCY_ENTER) {
        hth_supervisor_warn_large(supervisor, worker, resident, limits);
        hth_model_worker_start(worker);
    } else if (order == HTH_RESIDENCY_LEAVE && resident->is_dismissed)
        hth_model_worker_retire(worker, true, false);
    else if (order == HTH_RESIDENCY_LEAVE && hth_model_worker_state(worker) != HTH_WORKER_STOPPING)
        hth_model_worker_depart(worker, resident->keep_ns <= hth_os_monotonic_ns() - resident->used_ns
                                            ? HTH_DEPARTURE_REST
                                            : HTH_DEPARTURE_ROOM);
    else if (resident->residence != HTH_RESIDENCE_KEPT)
        hth_model_worker_set_closed(worker, order == HTH_RESIDENCY_CLOSE);
    return 0;
}

/* Choose the entry with which the repacked weights of worker i count. Pinned ones stay when its process has ended. */
static void count_weights(const hth_supervisor *supervisor, size_t i)
{
    const size_t n = supervisor->present.n + supervisor->leaving.n;
    size_t n_in = 0, first_in = n, last_used = n;
    hth_model_worker *worker = hth_supervisor_worker_at(supervisor, i);
    hth_weights_count with = HTH_WEIGHTS_COUNT_ELSEWHERE;
    bool are_pinned = false;

    for (size_t k = 0; k < n; k++) {
        const hth_model_worker *other = hth_supervisor_worker_at(supervisor, k);

        if (k != i && !hth_model_worker_shares_weights(worker, other))
            continue;
        are_pinned |= hth_model_worker_is_host_pinned(other);
        if (hth_model_worker_is_in(other)) {
            n_in++;
            first_in = k < first_in ? k : first_in;
        } else if (last_used == n || hth_model_worker_used_ns(other) >
                                         hth_model_worker_used_ns(hth_supervisor_worker_at(supervisor, last_used))) {
            last_used = k;
        }
    }
    if (n_in == 0 ? i == last_used : i == first_in)
        with = n_in > 1 || (n_in == 1 && are_pinned) ? HTH_WEIGHTS_COUNT_APART : HTH_WEIGHTS_COUNT_HERE;
    hth_model_worker_count_weights(worker, with, are_pinned);
}

/* Link the i-th model, if it is out, to the kept weights that it would map. While it is wanted, they are, too. */
static void link_kept(hth_supervisor *supervisor, size_t i)
{
    const hth_model_worker *worker = hth_supervisor_worker_at(supervisor, i);
    hth_resident *model = &supervisor->residents[2 * i];

    for (size_t k = 0; k < supervisor->present.n + supervisor->leaving.n; k++) {
        hth_resident *kept = &supervisor->residents[2 * k + 1];

        if (model->residence != HTH_RESIDENCE_OUT || kept->bytes[0] == 0 ||
            (k != i && !hth_model_worker_shares_weights(worker, hth_supervisor_worker_at(supervisor, k))))
            continue;
        model->kept = kept;
        if (model->wanted_ns > 0 && (kept->wanted_ns == 0 || model->wanted_ns < kept->wanted_ns))
            kept->wanted_ns = model->wanted_ns;
    }
}

hth_residency_limits hth_supervisor_take_snapshot(hth_supervisor *supervisor)
{
    const hth_device_pools devices = devices_of(supervisor);
    const size_t n = supervisor->present.n + supervisor->leaving.n;

    for (size_t i = 0; i < n; i++)
        count_weights(supervisor, i);
    for (size_t i = 0; i < n; i++)
        hth_model_worker_resident(hth_supervisor_worker_at(supervisor, i), &devices, &supervisor->residents[2 * i],
                                  &supervisor->residents[2 * i + 1]);
    for (size_t i = 0; i < n; i++)
        link_kept(supervisor, i);
    return limits_of(supervisor, &devices);
}

/* Models that were ordered to enter and have no room stay out, unless some is about to be free. */
static void give_up(hth_supervisor *supervisor, bool has_dropped)
{
    const size_t n = supervisor->present.n + supervisor->leaving.n;

    if (supervisor->shared.n_asked > 0 || has_dropped)
        return;
    for (size_t i = 0; i < n; i++)
        if (hth_model_worker_state(hth_supervisor_worker_at(supervisor, i)) == HTH_WORKER_STOPPING)
            return;
    supervisor->tells_uninvited = false;
    for (size_t i = 0; i < supervisor->present.n; i++)
        hth_model_worker_give_up(supervisor->present.at[i]);
}

/* Models that are to be compacted restart one after another. */
static void compact_next(hth_supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->present.n; i++)
        if (hth_model_worker_is_compacting(supervisor->present.at[i]))
            return;
    for (size_t i = 0; i < supervisor->present.n; i++)
        if (hth_model_worker_begin_compacting(supervisor->present.at[i]))
            return;
}

/* Plan again when an idle model has stayed for long enough. Without memory, the tick does so a little later. */
static void plan_after_stay(hth_supervisor *supervisor, const hth_residency_limits *limits, size_t n, uint64_t now_ns)
{
    const uint64_t end_ns = hth_residency_stay_end(supervisor->residents, n, limits, now_ns);
    const uint64_t late_ns = hth_os_monotonic_ns(); /* obeying took time */
    const uint64_t wait_us = end_ns > late_ns ? (end_ns - late_ns) / 1000 + 1 : 0;

    if (end_ns < UINT64_MAX)
        (void)event_add(supervisor->stay_event, &(struct timeval){ .tv_sec = (time_t)(wait_us / 1000000),
                                                                   .tv_usec = (suseconds_t)(wait_us % 1000000) });
}

static void on_stay_end(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    hth_supervisor_plan(user_data);
}

/* A callback of a waiter may come back here: the plan that runs is made again then. */
void hth_supervisor_plan(hth_supervisor *supervisor)
{
    const size_t n = supervisor->present.n + supervisor->leaving.n;
    hth_residency_limits limits;
    bool has_dropped = false;
    uint64_t now_ns;

    if (supervisor->is_planning || supervisor->shared.is_stopping) {
        if (supervisor->is_planning)
            on_change(supervisor);
        return;
    }
    supervisor->is_planning = true;
    for (size_t i = 0; i < n; i++)
        hth_model_worker_prepare(hth_supervisor_worker_at(supervisor, i));
    limits = hth_supervisor_take_snapshot(supervisor);
    now_ns = hth_os_monotonic_ns(); /* after the snapshot: no use in it is later */
    hth_residency_plan(supervisor->residents, 2 * n, &limits, now_ns, supervisor->planned);
    /* A model that cannot start fails its requests; without any left, a draining server stops in the middle of this. */
    for (size_t i = 0; i < 2 * n && !supervisor->shared.is_stopping; i++) {
        const hth_resident *resident = &supervisor->residents[i];

        has_dropped |= obey(supervisor, hth_supervisor_worker_at(supervisor, i / 2), resident, supervisor->planned[i],
                            &limits) > 0;
    }
    if (supervisor->shared.is_stopping) {
        supervisor->is_planning = false;
        return;
    }
    if (limits.is_external)
        give_up(supervisor, has_dropped);
    else
        hth_supervisor_warn_uninvited(supervisor);
    hth_supervisor_warn_pinned(supervisor);
    plan_after_stay(supervisor, &limits, 2 * n, now_ns);
    compact_next(supervisor);
    for_each(supervisor, hth_model_worker_tell_residency);
    supervisor->is_planning = false;
    hth_supervisor_share_ram(supervisor);
    if (has_dropped)
        on_change(supervisor); /* their memory is free now */
}

/* Free those that left and have ended; tell when all have stopped. Otherwise plan anew. */
static void sweep(evutil_socket_t fd, short what, void *user_data)
{
    hth_supervisor *supervisor = user_data;
    hth_worker_list *leaving = &supervisor->leaving;
    void (*on_stopped)(void *user_data) = supervisor->on_stopped;
    size_t n = 0;

    (void)fd;
    (void)what;
    for (size_t i = 0; i < leaving->n; i++) {
        if (hth_model_worker_state(leaving->at[i]) == HTH_WORKER_STOPPED && hth_model_worker_is_idle(leaving->at[i]))
            hth_model_worker_free(leaving->at[i]);
        else
            leaving->at[n++] = leaving->at[i];
    }
    leaving->n = n;
    n = 0;
    for (size_t i = 0; i < leaving->n; i++)
        n += hth_model_worker_state(leaving->at[i]) != HTH_WORKER_STOPPED;
    for (size_t i = 0; i < supervisor->present.n; i++)
        n += hth_model_worker_state(supervisor->present.at[i]) != HTH_WORKER_STOPPED;
    if (!supervisor->shared.is_stopping) {
        hth_supervisor_plan(supervisor);
        return;
    }
    if (n > 0 || !on_stopped)
        return;
    supervisor->on_stopped = NULL;
    on_stopped(supervisor->user_data);
}

/* ---- pressure ---- */

/* Judge what left before, and let models stay that were used lately. */
static void be_patient(hth_patience *patience, uint64_t n_bytes, hth_relief_model *models, size_t n)
{
    const uint64_t now_ns = hth_os_monotonic_ns();
    uint64_t coming_bytes = 0;

    for (size_t i = 0; i < n; i++)
        coming_bytes += models[i].coming_bytes;
    hth_patience_judge(patience, n_bytes, coming_bytes);
    for (size_t i = 0; i < n; i++)
        models[i].stays = hth_patience_keeps(patience, models[i].used_ns, now_ns);
}

uint64_t hth_supervisor_relieve(hth_supervisor *supervisor, uint64_t n_bytes, bool is_device, hth_patience *patience)
{
    const size_t n = supervisor->present.n + supervisor->leaving.n;
    hth_relief_model *models = calloc(n + 1, sizeof(*models));
    hth_relief_order *orders = calloc(n + 1, sizeof(*orders));
    uint64_t freed = 0;

    if (models && orders && !supervisor->shared.is_stopping) {
        for (size_t i = 0; i < n; i++)
            hth_model_worker_relief(hth_supervisor_worker_at(supervisor, i), is_device, &models[i]);
        if (patience)
            be_patient(patience, n_bytes, models, n);
        freed = hth_relief_plan(models, n, n_bytes, is_device, orders);
        for (size_t i = 0; i < n; i++) {
            hth_model_worker_relieve(hth_supervisor_worker_at(supervisor, i), &orders[i]);
            if (patience && orders[i].leaves)
                hth_patience_note(patience, n_bytes, models[i].model_bytes);
        }
        on_change(supervisor);
    }
    free(models);
    free(orders);
    return freed;
}

void hth_supervisor_hold(hth_supervisor *supervisor, bool is_held)
{
    if (supervisor->is_held == is_held)
        return;
    supervisor->is_held = is_held;
    on_change(supervisor);
}

/* ---- the set of models ---- */

/* updates: options of models that stay may have changed. */
static void reconfigure(hth_supervisor *supervisor, const hth_server_options *options, bool updates)
{
    hth_worker_shared *shared = &supervisor->shared;
    size_t n_all = options->n_models + supervisor->present.n + supervisor->leaving.n;
    hth_worker_list present = { .at = calloc(options->n_models + 1, sizeof(hth_model_worker *)) };
    hth_worker_list leaving = { .at = calloc(n_all + 1, sizeof(hth_model_worker *)) };
    hth_worker_list old[2] = { supervisor->present, supervisor->leaving };
    hth_resident *residents = calloc(2 * (n_all + 1), sizeof(*residents));
    hth_residency_order *planned = calloc(2 * (n_all + 1), sizeof(*planned));
    hearth_error err;

    shared->options = options;
    supervisor->machine_bytes = hth_os_memory_bytes();
    if (!present.at || !leaving.at || !residents || !planned) {
        free(present.at);
        free(leaving.at);
        free(residents);
        free(planned);
        hth_log_line(shared->log, HEARTH_LOG_ERROR, "hearth", "no memory for a list of models; the old one stays");
        return;
    }
    for (size_t i = 0; i < options->n_models; i++) {
        const hth_server_model *model = &options->models[i];
        hth_model_worker *worker = find(&old[0], model->name);
        bool was_leaving = !worker;
        bool is_new = false, started_with_server = false;

        if (!worker)
            worker = find(&old[1], model->name);
        else
            started_with_server = hth_model_worker_starts_with_server(worker);
        if (!worker) {
            is_new = true;
            if (hth_model_worker_new(shared, model, supervisor->n_slots, &worker, &err) != HEARTH_OK) {
                hth_log_line(shared->log, HEARTH_LOG_ERROR, "hearth", "%s", err.message);
                continue;
            }
            supervisor->n_slots++;
        } else if ((updates || was_leaving) && !hth_model_worker_update(worker, model)) {
            hth_log_line(shared->log, HEARTH_LOG_ERROR, "hearth", "no memory for model '%s'; its old options stay",
                         model->name);
        }
        present.at[present.n++] = worker;
        if (was_leaving && !is_new)
            hth_model_worker_retire(worker, true, hth_model_worker_starts_with_server(worker));
        else if (!started_with_server && hth_model_worker_starts_with_server(worker) &&
                 hth_model_worker_state(worker) == HTH_WORKER_STOPPED) {
            hth_model_worker_invite(worker); /* the others were, and may have left since */
            supervisor->tells_uninvited = true;
        }
    }
    free(supervisor->residents);
    free(supervisor->planned);
    supervisor->residents = residents;
    supervisor->planned = planned;
    supervisor->present = present;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < old[k].n; i++) {
            if (!contains(&present, old[k].at[i]))
                leaving.at[leaving.n++] = old[k].at[i];
        }
    }
    supervisor->leaving = leaving;
    for (size_t i = 0; i < old[0].n; i++) {
        if (contains(&present, old[0].at[i]))
            continue;
        (void)hth_fail(&err, HEARTH_NOT_FOUND, "model '%s' is not served any more",
                       hth_model_worker_name(old[0].at[i]));
        hth_model_worker_fail_waiters(old[0].at[i], &err);
        hth_model_worker_drop_adapters(old[0].at[i]); /* their names are free */
        hth_model_worker_retire(old[0].at[i], true, false);
    }
    free(old[0].at);
    free(old[1].at);
    hth_supervisor_plan(supervisor);
    event_active(supervisor->sweep_event, EV_TIMEOUT, 0);
}

void hth_supervisor_reconfigure(hth_supervisor *supervisor, const hth_server_options *options)
{
    reconfigure(supervisor, options, true);
}

void hth_supervisor_set_models(hth_supervisor *supervisor, const hth_server_options *options)
{
    reconfigure(supervisor, options, false);
}

/* ---- new, stop, free ---- */

static bool add_events(hth_supervisor *supervisor)
{
    const struct timeval interval = { .tv_usec = TICK_MS * 1000L };
    struct event_base *base = supervisor->shared.base;

    supervisor->child_event = evsignal_new(base, SIGCHLD, on_child, supervisor);
    supervisor->tick_event = event_new(base, -1, EV_PERSIST, on_tick, supervisor);
    supervisor->sweep_event = evtimer_new(base, sweep, supervisor);
    supervisor->stay_event = evtimer_new(base, on_stay_end, supervisor);
    return supervisor->child_event && supervisor->tick_event && supervisor->sweep_event && supervisor->stay_event &&
           event_add(supervisor->child_event, NULL) == 0 && event_add(supervisor->tick_event, &interval) == 0;
}

hearth_status hth_supervisor_new(struct event_base *base, const char *program, const hth_server_options *options,
                                 const hth_log *log, hth_event_feed *feed, hth_supervisor **out, hearth_error *err)
{
    hearth_status status;
    hth_supervisor *supervisor = calloc(1, sizeof(*supervisor));

    if (!supervisor)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the workers");
    supervisor->ticked_ns = hth_os_monotonic_ns();
    supervisor->program = strdup(program);
    supervisor->shared = (hth_worker_shared){
        .base = base,
        .program = supervisor->program,
        .options = options,
        .log = log,
        .feed = feed,
        .watching_since_ns = supervisor->ticked_ns,
        .learned = hth_learned_open(options->learned_path, log),
        .on_change = on_change,
        .on_needs = on_needs,
        .may_see_more = may_see_more,
        .ram_share = hth_supervisor_ram_share,
        .user_data = supervisor,
    };
    if (!supervisor->program || !supervisor->shared.learned || !add_events(supervisor)) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the workers");
        goto out;
    }
    status = hth_runtime_folder_make(options->runtime_directory, SOCKET_NAME_BYTES, log, &supervisor->folder, err);
    if (status != HEARTH_OK)
        goto out;
    supervisor->shared.directory = supervisor->folder.path;
    hth_supervisor_reconfigure(supervisor, options);
    *out = supervisor;
    supervisor = NULL;
out:
    hth_supervisor_free(supervisor);
    return status;
}

void hth_supervisor_stop(hth_supervisor *supervisor, uint32_t timeout_ms, void (*on_stopped)(void *user_data),
                         void *user_data)
{
    hearth_error err;

    supervisor->shared.is_stopping = true;
    supervisor->on_stopped = on_stopped;
    supervisor->user_data = user_data;
    (void)hth_fail(&err, HEARTH_BUSY, "the server is shutting down");
    err.retry_after_s = HTH_STOPPING_RETRY_S;
    for (size_t i = 0; i < supervisor->present.n; i++) {
        hth_model_worker_fail_waiters(supervisor->present.at[i], &err);
        hth_model_worker_stop(supervisor->present.at[i], timeout_ms);
    }
    for (size_t i = 0; i < supervisor->leaving.n; i++)
        hth_model_worker_stop(supervisor->leaving.at[i], timeout_ms);
    event_active(supervisor->sweep_event, EV_TIMEOUT, 0);
}

static void free_event(struct event *event)
{
    if (event)
        event_free(event);
}

void hth_supervisor_free(hth_supervisor *supervisor)
{
    if (!supervisor)
        return;
    for_each(supervisor, hth_model_worker_kill); /* all at once: each is waited for below */
    for_each(supervisor, hth_model_worker_free);
    hth_worker_process_free_all(supervisor->shared.abandoned, supervisor->shared.n_abandoned);
    free(supervisor->present.at);
    free(supervisor->leaving.at);
    free(supervisor->residents);
    free(supervisor->planned);
    free_event(supervisor->child_event);
    free_event(supervisor->tick_event);
    free_event(supervisor->sweep_event);
    free_event(supervisor->stay_event);
    hth_runtime_folder_remove(&supervisor->folder);
    hth_learned_close(supervisor->shared.learned);
    free(supervisor->program);
    free(supervisor);
}

/* ---- requests ---- */

hth_model_worker *hth_supervisor_worker_of(const hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = find(&supervisor->present, model);

    if (!worker)
        (void)hth_fail(err, HEARTH_NOT_FOUND, "there is no model '%s' here", model);
    return worker;
}

hearth_status hth_supervisor_want(hth_supervisor *supervisor, const char *model, uint64_t after,
                                  hth_worker_waiter *waiter, hearth_error *err)
{
    hth_model_worker *worker = hth_supervisor_worker_of(supervisor, model, err);

    if (!worker)
        return HEARTH_NOT_FOUND;
    hth_worker_waiter_cancel(waiter); /* it may hold a worker */
    hth_model_worker_want(worker, after, waiter);
    if (hth_model_worker_state(worker) == HTH_WORKER_STOPPED)
        hth_supervisor_plan(supervisor);
    return HEARTH_OK;
}

void hth_supervisor_note_broken(hth_supervisor *supervisor, const char *model, uint64_t generation)
{
    hth_model_worker *worker = find(&supervisor->present, model);

    if (worker)
        hth_model_worker_note_broken(worker, generation);
}

void hth_supervisor_note_served(hth_supervisor *supervisor, const char *model, uint64_t generation)
{
    hth_model_worker *worker = find(&supervisor->present, model);

    if (worker)
        hth_model_worker_note_served(worker, generation);
}

/* ---- adapters ---- */

const hth_adapter_state *hth_supervisor_adapters(const hth_supervisor *supervisor, const char *model)
{
    const hth_model_worker *worker = find(&supervisor->present, model);

    return worker ? hth_model_worker_adapters(worker) : NULL;
}

const char *hth_supervisor_adapter_owner(const hth_supervisor *supervisor, const char *name)
{
    for (size_t i = 0; i < supervisor->present.n; i++) {
        const hth_adapter_state *state = hth_model_worker_adapters(supervisor->present.at[i]);

        if (state && hth_adapter_state_find(state, name))
            return hth_model_worker_name(supervisor->present.at[i]);
    }
    return NULL;
}

bool hth_supervisor_set_adapters(hth_supervisor *supervisor, const char *model, uint64_t generation,
                                 const hth_adapter_state *state)
{
    hth_model_worker *worker = find(&supervisor->present, model);

    return worker && hth_model_worker_set_adapters(worker, generation, state);
}

/* ---- pages and orders ---- */

size_t hth_supervisor_n(const hth_supervisor *supervisor)
{
    return supervisor->present.n;
}

static void view(const hth_supervisor *supervisor, const hth_model_worker *worker, hth_worker_view *out)
{
    hth_model_worker_view(worker, out);
    out->waits_for_room &= !supervisor->tells_uninvited; /* else it is not known yet whether there is room */
}

void hth_supervisor_view(const hth_supervisor *supervisor, size_t i, hth_worker_view *out)
{
    assert(i < supervisor->present.n);
    view(supervisor, supervisor->present.at[i], out);
}

bool hth_supervisor_view_of(const hth_supervisor *supervisor, const char *model, hth_worker_view *out)
{
    const hth_model_worker *worker = find(&supervisor->present, model);

    if (worker)
        view(supervisor, worker, out);
    return worker != NULL;
}

bool hth_supervisor_is_broken(const hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    const hth_model_worker *worker = hth_supervisor_worker_of(supervisor, model, err);

    return !worker || hth_model_worker_is_broken(worker, err);
}

static hth_supervisor_pool pool_of(const char *name, uint64_t limit_bytes)
{
    hth_supervisor_pool pool = { .limit_bytes = limit_bytes };

    (void)snprintf(pool.name, sizeof(pool.name), "%s", name); /* fits */
    return pool;
}

hth_supervisor_memory hth_supervisor_memory_of(const hth_supervisor *supervisor)
{
    const hth_device_pools devices = devices_of(supervisor);
    const hth_residency_limits limits = limits_of(supervisor, &devices);
    hth_supervisor_memory out = {
        .n = limits.n_pools,
        .pools[0] = pool_of("", hth_supervisor_limit(supervisor)),
        .rows_limit_bytes = hth_supervisor_row_bytes_max(supervisor),
    };

    for (size_t k = 1; k < out.n; k++)
        out.pools[k] = pool_of(devices.at[k - 1].name, limits.bytes[k]);
    for (size_t i = 0; i < supervisor->present.n + supervisor->leaving.n; i++) {
        hth_resident model, kept;

        hth_model_worker_resident(hth_supervisor_worker_at(supervisor, i), &devices, &model, &kept);
        out.rows_bytes += hth_model_worker_row_bytes(hth_supervisor_worker_at(supervisor, i));
        out.pools[0].used_bytes += kept.bytes[0];
        if (hth_model_worker_weights_are_pinned(hth_supervisor_worker_at(supervisor, i)))
            out.pools[0].pinned_bytes += kept.bytes[0];
        for (size_t k = 0; k < out.n && model.residence != HTH_RESIDENCE_OUT; k++) {
            out.pools[k].used_bytes += model.bytes[k];
            out.pools[k].pinned_bytes += model.is_pinned ? model.bytes[k] : 0;
        }
        for (size_t k = 0; k < out.n && model.residence == HTH_RESIDENCE_OUT && i < supervisor->present.n; k++)
            out.pools[k].promised_bytes += model.is_pinned ? model.bytes[k] : 0;
    }
    out.pools[0].used_bytes += out.rows_bytes;
    for (size_t k = 0; k < out.n; k++) {
        out.pools[k].promised_bytes += out.pools[k].pinned_bytes;
        out.pools[k].models_bytes = limits.bytes[k];
        out.pools[k].pinned_over_commit =
            hth_budget_of(&(hth_budget_terms){ .arena_bytes = limits.bytes[k],
                                               .fraction = 1,
                                               .pinned_bytes = out.pools[k].promised_bytes })
                .pinned_over_commit;
    }
    return out;
}
