/*
 * supervisor.c - the front's workers, one for each model
 *
 * Three things drive it: SIGCHLD, a timer that checks for hangs and time-outs, and requests. On SIGCHLD every worker
 * checks whether its own process has ended; no other child of this process is touched. A worker whose model was removed
 * stays on a second list until its process has ended.
 */
#include "supervisor/supervisor.h"

#include <assert.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/smaller.h"
#include "base/status.h"
#include "supervisor/model_worker.h"
#include "supervisor/runtime_folder.h"
#include "supervisor/worker_process.h"

typedef struct worker_list {
    hth_model_worker **at;
    size_t n;
} worker_list;

struct hth_supervisor {
    hth_worker_shared shared;
    hth_runtime_folder folder; /* of the sockets */
    char *program;
    worker_list present; /* in the order of the options */
    worker_list leaving; /* their models were removed; they end */
    unsigned n_slots;
    uint64_t ticked_ns;
    struct event *child_event;
    struct event *tick_event;
    struct event *sweep_event;    /* workers have stopped or become idle */
    struct event *stay_event;     /* an idle model has stayed for long enough */
    hth_resident *residents;      /* [2 * n of both lists]: for each worker itself and its rows; scratch of a plan */
    hth_residency_order *planned; /* likewise */
    uint64_t machine_bytes;       /* of memory, when the options came */
    uint64_t wrote_ns;            /* the time at which measured memory use was written */
    bool is_planning;
    bool is_held;           /* by pressure */
    bool tells_uninvited;   /* report models without room once that is known */
    bool is_over_committed; /* pinned models take too much memory, and a warning was logged */
    void (*on_stopped)(void *user_data);
    void *user_data;
};

enum {
    TICK_MS = 250,
    LATE_MS = 1000,         /* a tick that is this late restarts the watch for hangs */
    WRITE_MS = 1000,        /* between two writes of the measured memory use */
    SOCKET_NAME_BYTES = 28, /* that hth_socket_folder_make appends to the directory, for a hundred million processes */
};

#define MACHINE_FRACTION 0.9 /* of the machine's memory, the most for models */
#define MACHINE_WIGGLE 0.02  /* of the machine's memory, unused */

/* ---- lists ---- */

static hth_model_worker *find(const worker_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->at[i]->name, name) == 0)
            return list->at[i];
    }
    return NULL;
}

/* The number of all workers, including those that leave. */
static size_t n_workers(const hth_supervisor *supervisor)
{
    return supervisor->present.n + supervisor->leaving.n;
}

/* Worker i of all. */
static hth_model_worker *worker_at(const hth_supervisor *supervisor, size_t i)
{
    const size_t n = supervisor->present.n;

    return i < n ? supervisor->present.at[i] : supervisor->leaving.at[i - n];
}

static void for_each(hth_supervisor *supervisor, void (*act)(hth_model_worker *worker))
{
    for (size_t i = 0; i < n_workers(supervisor); i++)
        act(worker_at(supervisor, i));
}

static void on_change(void *user_data)
{
    hth_supervisor *supervisor = user_data;

    event_active(supervisor->sweep_event, EV_TIMEOUT, 0); /* later: it is in use now */
}

/* ---- residency ---- */

/*
 * An operator's limit is for models and their buffers alone. Of a machine's memory, models take at most nine tenths,
 * and leave room for a second set of the largest buffers: the first request for embeddings makes an embedder with its
 * own buffers.
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
    return hth_budget_of(&terms);
}

/* The memory for all models, rows included; UINT64_MAX: no limit. */
static uint64_t supervisor_limit(const hth_supervisor *supervisor)
{
    return host_limit_of(supervisor, 0);
}

/*
 * ---- the memory for rows, and the shares of the workers in it (ram_shares.h) ----
 *
 * The plan of residency leaves this memory free, so rows never take memory of models. A model that is larger than its
 * part of the memory takes part of the memory for rows, which have the rest.
 */

enum {
    SPARE_PART = 16, /* of the quotas: fragments may add this part of them; a sixteenth of the budget stays for rows */
    DIRECTORY_BYTES = 128 << 10, /* of the list of rows in a memory file, for some thousand rows */
};

/* The most memory that rows may take: their quotas, plus free fragments between rows, plus lists of rows. */
static uint64_t row_bytes_max(const hth_supervisor *supervisor)
{
    const uint64_t total = hth_server_ram_total(supervisor->shared.options);
    uint64_t n_files = 0;

    for (size_t i = 0; i < n_workers(supervisor); i++)
        n_files += hth_model_worker_row_bytes(worker_at(supervisor, i)) > 0;
    return total + total / SPARE_PART + n_files * DIRECTORY_BYTES;
}

/* The budget of all quotas. starts: a worker that starts now, so its model counts; NULL: none. */
static uint64_t rows_budget(const hth_supervisor *supervisor, const hth_model_worker *starts)
{
    const uint64_t total = hth_server_ram_total(supervisor->shared.options), limit = supervisor_limit(supervisor);
    uint64_t taken = 0, rest;

    for (size_t i = 0; i < n_workers(supervisor); i++) {
        const hth_model_worker *worker = worker_at(supervisor, i);
        hth_resident model, kept;

        hth_model_worker_resident(worker, &hth_device_pools_none, &model, &kept);
        taken += kept.bytes[0] + (model.place == HTH_PLACE_OUT && worker != starts ? 0 : model.bytes[0]);
    }
    rest = limit > taken ? limit - taken : 0;
    return hth_larger(hth_smaller(total, rest - rest / (SPARE_PART + 1)), total / SPARE_PART);
}

/* All models, for a plan; NULL without memory. *at (may be NULL): the index of this worker. */
static hth_ram_holder *holders_of(const hth_supervisor *supervisor, const hth_model_worker *worker, size_t *at)
{
    const size_t n = n_workers(supervisor);
    const uint64_t now_ns = hth_os_monotonic_ns();
    hth_ram_holder *holders = calloc(n + 1, sizeof(*holders));

    for (size_t i = 0; holders && i < n; i++) {
        hth_model_worker_ram(worker_at(supervisor, i), now_ns, &holders[i]);
        if (at && worker_at(supervisor, i) == worker)
            *at = i;
    }
    return holders;
}

/* Give shares to the workers. */
static void share_ram(hth_supervisor *supervisor)
{
    const size_t n = n_workers(supervisor);
    hth_ram_holder *holders = holders_of(supervisor, NULL, NULL);
    uint64_t *shares = calloc(n + 1, sizeof(*shares));

    if (holders && shares && !supervisor->shared.is_stopping) {
        hth_ram_shares_plan(holders, n, rows_budget(supervisor, NULL), shares);
        for (size_t i = 0; i < n; i++)
            if (shares[i] != holders[i].share_bytes)
                hth_model_worker_set_ram_share(worker_at(supervisor, i), shares[i]);
    }
    free(holders);
    free(shares);
}

/* The share that a worker may start with now; user_data is the supervisor. */
static uint64_t supervisor_ram_share(const hth_model_worker *worker, void *user_data)
{
    const hth_supervisor *supervisor = user_data;
    const size_t n = n_workers(supervisor);
    size_t at = n;
    hth_ram_holder *holders = holders_of(supervisor, worker, &at);
    uint64_t share = 0;

    if (holders && at < n)
        share = hth_ram_share_at_start(holders, n, rows_budget(supervisor, worker), at);
    free(holders);
    return share;
}

/* ---- plans ---- */

static hth_device_pools devices_of(const hth_supervisor *supervisor)
{
    hth_device_pools devices = { .n = 0 };

    for (size_t i = 0; i < n_workers(supervisor); i++)
        hth_device_pools_add(&devices, &worker_at(supervisor, i)->learned.needs);
    hth_device_pools_take_sights(&devices, &supervisor->shared.seen);
    return devices;
}

/* Add up the bytes of devices that models in memory take. False: those of one model are unknown. */
static bool sum_devices(const hth_supervisor *supervisor, const hth_device_pools *devices, uint64_t used[HTH_POOLS_MAX])
{
    for (size_t i = 0; i < n_workers(supervisor); i++) {
        const hth_model_worker *worker = worker_at(supervisor, i);

        if (!hth_model_worker_is_in(worker))
            continue;
        if (worker->learned.needs.n_ctx == 0)
            return false;
        hth_device_pools_share(devices, &worker->learned.needs, used);
    }
    return true;
}

/* Record the memory that other programs left free on devices, if the use of each model with a process is known. */
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
        .bytes[0] = host_limit_of(supervisor, row_bytes_max(supervisor)),
        .n_models = options->models_max > 0 ? options->models_max : SIZE_MAX,
        .turn_ns = hth_ms_to_ns(options->turn_ms),
        .is_held = supervisor->is_held,
        .is_external = options->residency_mode == HTH_RESIDENCY_EXTERNAL,
    };

    for (size_t i = 0; i < devices->n; i++)
        limits.bytes[1 + i] = hth_device_pool_limit(&devices->at[i], options->device_memory_bytes);
    return limits;
}

/*
 * ---- warnings about a plan: models without room, models larger than all memory, pins that memory cannot keep ----
 *
 * A warning changes no plan. Each cause is reported once, not with every plan: models without room once after the
 * start, or after a reload that added models; a large model each time it enters; pins again only after a plan in which
 * they had room. Until the needs of all models are known, there is no warning about room and pins.
 */

enum { MIB = 1 << 20 };

/* Log the models that did not start with the server, once their needs are known. */
static void warn_uninvited(hth_supervisor *supervisor)
{
    if (!supervisor->tells_uninvited || supervisor->shared.n_asked > 0)
        return;
    supervisor->tells_uninvited = false;
    for (size_t i = 0; i < supervisor->present.n; i++) {
        const hth_model_worker *worker = supervisor->present.at[i];

        if (!worker->on_demand && hth_model_worker_is_awaited(worker))
            hth_warn(
                supervisor->shared.log,
                "model '%s': there is no room for it beside the other models; it starts when there is, or with the "
                "first request for it",
                worker->name);
    }
}

/* A model enters: warn if it is larger than the memory for all models. */
static void warn_large(const hth_supervisor *supervisor, const hth_model_worker *worker, const hth_resident *model,
                       const hth_residency_limits *limits)
{
    for (size_t k = 0; k < limits->n_pools; k++)
        if (model->bytes[k] > limits->bytes[k])
            hth_warn(supervisor->shared.log,
                     "model '%s' takes %" PRIu64 " MiB %s, and there are %" PRIu64
                     " MiB for all models, so it enters alone and may not fit; raise %s, give it a smaller context%s, "
                     "or let --fit choose",
                     worker->name, model->bytes[k] / MIB, k == 0 ? "on the host" : "on a GPU", limits->bytes[k] / MIB,
                     k == 0 ? "residency.memory" : "residency.device_memory", k == 0 ? "" : " or fewer gpu_layers");
}

/* Warn if pinned models exceed the memory for all models since this plan. */
static void warn_pinned(hth_supervisor *supervisor)
{
    const bool was_over = supervisor->is_over_committed;
    hth_supervisor_memory memory;

    if (supervisor->shared.n_asked > 0)
        return; /* their needs will be known soon */
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

/* ---- carrying out plans ---- */

/* Returns the bytes that are free now. */
static uint64_t carry_out(const hth_supervisor *supervisor, hth_model_worker *worker, const hth_resident *resident,
                          hth_residency_order order, const hth_residency_limits *limits)
{
    if (order == HTH_RESIDENCY_LEAVE && resident->place == HTH_PLACE_KEPT)
        return hth_model_worker_evict_host_weights(worker, HTH_DEPARTURE_ROOM);
    if (order == HTH_RESIDENCY_ENTER) {
        warn_large(supervisor, worker, resident, limits);
        hth_model_worker_start(worker);
    } else if (order == HTH_RESIDENCY_LEAVE && resident->is_dismissed)
        hth_model_worker_retire(worker, true, false);
    else if (order == HTH_RESIDENCY_LEAVE && worker->state != HTH_WORKER_STOPPING)
        hth_model_worker_depart(worker, resident->keep_ns <= hth_os_monotonic_ns() - resident->used_ns
                                            ? HTH_DEPARTURE_REST
                                            : HTH_DEPARTURE_ROOM);
    else if (resident->place != HTH_PLACE_KEPT)
        hth_model_worker_set_closed(worker, order == HTH_RESIDENCY_CLOSE);
    return 0;
}

/* Choose the entry that counts the repacked weights of worker i. Pinned weights stay when its process has ended. */
static void count_weights(const hth_supervisor *supervisor, size_t i)
{
    const size_t n = n_workers(supervisor);
    size_t n_in = 0, first_in = n, last_used = n;
    hth_model_worker *worker = worker_at(supervisor, i);
    hth_weights_count with = HTH_WEIGHTS_COUNT_ELSEWHERE;
    bool are_pinned = false;

    for (size_t k = 0; k < n; k++) {
        const hth_model_worker *other = worker_at(supervisor, k);

        if (k != i && !hth_model_worker_shares_weights(worker, other))
            continue;
        are_pinned |= other->is_host_pinned;
        if (hth_model_worker_is_in(other)) {
            n_in++;
            first_in = k < first_in ? k : first_in;
        } else if (last_used == n || other->used_ns > worker_at(supervisor, last_used)->used_ns) {
            last_used = k;
        }
    }
    if (n_in == 0 ? i == last_used : i == first_in)
        with = n_in > 1 || (n_in == 1 && are_pinned) ? HTH_WEIGHTS_COUNT_APART : HTH_WEIGHTS_COUNT_HERE;
    worker->weights_count = with;
    worker->weights_are_pinned = are_pinned;
}

/*
 * Link the i-th model, if it is out, to the kept weights that it would map. While the model is wanted, so are the
 * weights.
 */
static void link_kept(hth_supervisor *supervisor, size_t i)
{
    const hth_model_worker *worker = worker_at(supervisor, i);
    hth_resident *model = &supervisor->residents[2 * i];

    for (size_t k = 0; k < n_workers(supervisor); k++) {
        hth_resident *kept = &supervisor->residents[2 * k + 1];

        if (model->place != HTH_PLACE_OUT || kept->bytes[0] == 0 ||
            (k != i && !hth_model_worker_shares_weights(worker, worker_at(supervisor, k))))
            continue;
        model->kept = kept;
        if (model->wanted_ns > 0 && (kept->wanted_ns == 0 || model->wanted_ns < kept->wanted_ns))
            kept->wanted_ns = model->wanted_ns;
    }
}

/* Write the snapshot of all models for a plan to residents. Returns the limits. */
static hth_residency_limits take_snapshot(hth_supervisor *supervisor)
{
    const hth_device_pools devices = devices_of(supervisor);
    const size_t n = n_workers(supervisor);

    for (size_t i = 0; i < n; i++)
        count_weights(supervisor, i);
    for (size_t i = 0; i < n; i++)
        hth_model_worker_resident(worker_at(supervisor, i), &devices, &supervisor->residents[2 * i],
                                  &supervisor->residents[2 * i + 1]);
    for (size_t i = 0; i < n; i++)
        link_kept(supervisor, i);
    return limits_of(supervisor, &devices);
}

/* Cancel the orders of models that have no room, unless memory is about to become free. */
static void give_up(hth_supervisor *supervisor, bool has_dropped)
{
    if (supervisor->shared.n_asked > 0 || has_dropped)
        return;
    for (size_t i = 0; i < n_workers(supervisor); i++)
        if (worker_at(supervisor, i)->state == HTH_WORKER_STOPPING)
            return;
    supervisor->tells_uninvited = false;
    for (size_t i = 0; i < supervisor->present.n; i++)
        hth_model_worker_give_up(supervisor->present.at[i]);
}

/* Models that are to be compacted restart one after another. */
static void compact_next(hth_supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->present.n; i++) {
        hth_model_worker *worker = supervisor->present.at[i];

        worker->is_compacting &= worker->state == HTH_WORKER_STOPPING || worker->state == HTH_WORKER_STARTING;
        if (worker->is_compacting)
            return;
    }
    for (size_t i = 0; i < supervisor->present.n; i++) {
        hth_model_worker *worker = supervisor->present.at[i];
        const bool begins = worker->must_compact && !worker->is_pinned && worker->state == HTH_WORKER_READY;

        worker->must_compact = false;
        if (!begins)
            continue;
        hth_model_worker_retire(worker, false, true);
        worker->is_compacting = true;
        return;
    }
}

/* Plan again when an idle model has stayed for long enough. Without memory, the tick does so a little later. */
static void plan_after_stay(hth_supervisor *supervisor, const hth_residency_limits *limits, size_t n, uint64_t now_ns)
{
    const uint64_t end_ns = hth_residency_stay_end(supervisor->residents, n, limits, now_ns);
    const uint64_t late_ns = hth_os_monotonic_ns(); /* carrying out orders took time */
    const uint64_t wait_us = end_ns > late_ns ? (end_ns - late_ns) / 1000 + 1 : 0;

    if (end_ns < UINT64_MAX)
        (void)event_add(supervisor->stay_event, &(struct timeval){ .tv_sec = (time_t)(wait_us / 1000000),
                                                                   .tv_usec = (suseconds_t)(wait_us % 1000000) });
}

/* Let models enter and leave. A callback of a waiter may call this again: then the running plan is repeated. */
static void supervisor_plan(hth_supervisor *supervisor)
{
    const size_t n = n_workers(supervisor);
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
        hth_model_worker_prepare(worker_at(supervisor, i));
    limits = take_snapshot(supervisor);
    now_ns = hth_os_monotonic_ns(); /* after the snapshot: no use in it is later */
    hth_residency_plan(supervisor->residents, 2 * n, &limits, now_ns, supervisor->planned);
    /*
     * A model that cannot start fails its requests. If none are left, a draining server stops in the middle of this
     * loop.
     */
    for (size_t i = 0; i < 2 * n && !supervisor->shared.is_stopping; i++) {
        const hth_resident *resident = &supervisor->residents[i];

        has_dropped |=
            carry_out(supervisor, worker_at(supervisor, i / 2), resident, supervisor->planned[i], &limits) > 0;
    }
    if (supervisor->shared.is_stopping) {
        supervisor->is_planning = false;
        return;
    }
    if (limits.is_external)
        give_up(supervisor, has_dropped);
    else
        warn_uninvited(supervisor);
    warn_pinned(supervisor);
    plan_after_stay(supervisor, &limits, 2 * n, now_ns);
    compact_next(supervisor);
    for_each(supervisor, hth_model_worker_tell_residency);
    supervisor->is_planning = false;
    share_ram(supervisor);
    if (has_dropped)
        on_change(supervisor); /* their memory is free now */
}

static void on_stay_end(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    supervisor_plan(user_data);
}

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
    for (size_t i = 0; i < n_workers(supervisor); i++)
        hth_model_worker_tick(worker_at(supervisor, i), now_ns);
    supervisor_plan(supervisor);
    if (now_ns >= supervisor->wrote_ns + hth_ms_to_ns(WRITE_MS)) {
        supervisor->wrote_ns = now_ns;
        hth_learned_write(supervisor->shared.learned);
    }
}

/* Free the leaving workers that have ended. Call on_stopped when all have stopped; otherwise plan again. */
static void sweep(evutil_socket_t fd, short what, void *user_data)
{
    hth_supervisor *supervisor = user_data;
    worker_list *leaving = &supervisor->leaving;
    void (*on_stopped)(void *user_data) = supervisor->on_stopped;
    size_t n = 0;

    (void)fd;
    (void)what;
    for (size_t i = 0; i < leaving->n; i++) {
        if (leaving->at[i]->state == HTH_WORKER_STOPPED && hth_model_worker_is_idle(leaving->at[i]))
            hth_model_worker_free(leaving->at[i]);
        else
            leaving->at[n++] = leaving->at[i];
    }
    leaving->n = n;
    n = 0;
    for (size_t i = 0; i < n_workers(supervisor); i++)
        n += worker_at(supervisor, i)->state != HTH_WORKER_STOPPED;
    if (!supervisor->shared.is_stopping) {
        supervisor_plan(supervisor);
        return;
    }
    if (n > 0 || !on_stopped)
        return;
    supervisor->on_stopped = NULL;
    on_stopped(supervisor->user_data);
}

/* ---- pressure ---- */

/* Judge the earlier departures, and mark models that stay because they were used lately. */
static void mark_recently_used(hth_departures *departures, uint64_t n_bytes, hth_relief_model *models, size_t n)
{
    const uint64_t now_ns = hth_os_monotonic_ns();
    uint64_t coming_bytes = 0;

    for (size_t i = 0; i < n; i++)
        coming_bytes += models[i].coming_bytes;
    hth_departures_judge(departures, n_bytes, coming_bytes);
    for (size_t i = 0; i < n; i++)
        models[i].stays = hth_departures_keep(departures, models[i].used_ns, now_ns);
}

uint64_t hth_supervisor_relieve(hth_supervisor *supervisor, uint64_t n_bytes, bool is_device,
                                hth_departures *departures)
{
    const size_t n = n_workers(supervisor);
    hth_relief_model *models = calloc(n + 1, sizeof(*models));
    hth_relief_order *orders = calloc(n + 1, sizeof(*orders));
    uint64_t freed = 0;

    if (models && orders && !supervisor->shared.is_stopping) {
        for (size_t i = 0; i < n; i++)
            hth_model_worker_relief(worker_at(supervisor, i), is_device, &models[i]);
        if (departures)
            mark_recently_used(departures, n_bytes, models, n);
        freed = hth_relief_plan(models, n, n_bytes, is_device, orders);
        for (size_t i = 0; i < n; i++) {
            hth_model_worker_relieve(worker_at(supervisor, i), &orders[i]);
            if (departures && orders[i].leaves)
                hth_departures_note(departures, n_bytes, models[i].model_bytes);
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
    size_t n_all = options->n_models + n_workers(supervisor);
    worker_list present = { .at = calloc(options->n_models + 1, sizeof(hth_model_worker *)) };
    worker_list leaving = { .at = calloc(n_all + 1, sizeof(hth_model_worker *)) };
    worker_list old[2] = { supervisor->present, supervisor->leaving };
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
            started_with_server = !worker->on_demand;
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
            hth_model_worker_retire(worker, true, !worker->on_demand);
        else if (!started_with_server && !worker->on_demand && worker->state == HTH_WORKER_STOPPED) {
            hth_model_worker_invite(worker); /* the others were invited before */
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
            if (find(&present, old[k].at[i]->name) != old[k].at[i])
                leaving.at[leaving.n++] = old[k].at[i];
        }
    }
    supervisor->leaving = leaving;
    for (size_t i = 0; i < old[0].n; i++) {
        if (find(&present, old[0].at[i]->name) == old[0].at[i])
            continue;
        (void)hth_fail(&err, HEARTH_NOT_FOUND, "model '%s' is not served any more", old[0].at[i]->name);
        hth_waiters_tell_failed(&old[0].at[i]->waiters, 0, &err);
        hth_model_worker_drop_adapters(old[0].at[i]); /* their names are free */
        hth_model_worker_retire(old[0].at[i], true, false);
    }
    free(old[0].at);
    free(old[1].at);
    supervisor_plan(supervisor);
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
        .ram_share = supervisor_ram_share,
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
    if (options->carrier)
        status = hth_carrier_link_new(&(hth_carrier_link_options){ .base = base,
                                                                   .program = supervisor->program,
                                                                   .arguments = options->carrier,
                                                                   .no_sandbox = options->no_sandbox,
                                                                   .log = log },
                                      &supervisor->shared.carrier, err);
    if (status != HEARTH_OK)
        goto out;
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
    for (size_t i = 0; i < supervisor->present.n; i++)
        hth_waiters_tell_failed(&supervisor->present.at[i]->waiters, 0, &err);
    for (size_t i = 0; i < n_workers(supervisor); i++)
        hth_model_worker_stop(worker_at(supervisor, i), 0, timeout_ms, false);
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
    for_each(supervisor, hth_model_worker_kill); /* kill all at once; the waits come below */
    for_each(supervisor, hth_model_worker_free);
    hth_worker_process_free_all(supervisor->shared.abandoned, supervisor->shared.n_abandoned);
    hth_carrier_link_free(supervisor->shared.carrier);
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

hth_carrier_link *hth_supervisor_carrier(const hth_supervisor *supervisor)
{
    return supervisor->shared.carrier;
}

/* ---- requests ---- */

/* The worker of a served model. NULL, with the error: there is none. */
static hth_model_worker *worker_of(const hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = find(&supervisor->present, model);

    if (!worker)
        (void)hth_fail(err, HEARTH_NOT_FOUND, "there is no model '%s' here", model);
    return worker;
}

hearth_status hth_supervisor_want(hth_supervisor *supervisor, const char *model, uint64_t after,
                                  hth_worker_waiter *waiter, hearth_error *err)
{
    hth_model_worker *worker = worker_of(supervisor, model, err);

    if (!worker)
        return HEARTH_NOT_FOUND;
    hth_worker_waiter_cancel(waiter); /* it may hold a worker */
    hth_model_worker_want(worker, after, waiter);
    if (worker->state == HTH_WORKER_STOPPED)
        supervisor_plan(supervisor);
    return HEARTH_OK;
}

hearth_status hth_supervisor_want_loaded(hth_supervisor *supervisor, const char *model, hth_worker_waiter *waiter,
                                         hearth_error *err)
{
    hth_model_worker *worker = worker_of(supervisor, model, err);

    if (!worker)
        return HEARTH_NOT_FOUND;
    if (!hth_model_worker_takes_requests(worker))
        return hth_fail(err, HEARTH_BUSY, "the model '%s' is not loaded", model);
    hth_worker_waiter_cancel(waiter); /* it may hold a worker */
    hth_waiters_give(&worker->waiters, waiter, worker->socket_path, worker->generation);
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

    if (worker && worker->process && worker->generation == generation)
        worker->life.has_served = true;
}

/* ---- adapters ---- */

const hth_adapter_state *hth_supervisor_adapters(const hth_supervisor *supervisor, const char *model)
{
    const hth_model_worker *worker = find(&supervisor->present, model);

    return worker ? worker->adapters : NULL;
}

const char *hth_supervisor_adapter_owner(const hth_supervisor *supervisor, const char *name)
{
    for (size_t i = 0; i < supervisor->present.n; i++) {
        const hth_adapter_state *state = supervisor->present.at[i]->adapters;

        if (state && hth_adapter_state_find(state, name))
            return supervisor->present.at[i]->name;
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
    out->waits_for_room &= !supervisor->tells_uninvited; /* otherwise it is not known yet whether there is room */
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

uint64_t hth_supervisor_n_deaths(const hth_supervisor *supervisor, const char *model)
{
    const hth_model_worker *worker = find(&supervisor->present, model);

    return worker ? worker->n_deaths : 0;
}

bool hth_supervisor_load_of(const hth_supervisor *supervisor, const char *model, hth_worker_load *out)
{
    const hth_model_worker *worker = find(&supervisor->present, model);

    if (worker)
        hth_model_worker_load(worker, out);
    return worker != NULL;
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
        .pools[0] = pool_of("", supervisor_limit(supervisor)),
        .rows_limit_bytes = row_bytes_max(supervisor),
    };

    for (size_t k = 1; k < out.n; k++)
        out.pools[k] = pool_of(devices.at[k - 1].name, limits.bytes[k]);
    for (size_t i = 0; i < n_workers(supervisor); i++) {
        hth_resident model, kept;

        hth_model_worker_resident(worker_at(supervisor, i), &devices, &model, &kept);
        out.rows_bytes += hth_model_worker_row_bytes(worker_at(supervisor, i));
        out.pools[0].used_bytes += kept.bytes[0];
        if (worker_at(supervisor, i)->weights_are_pinned)
            out.pools[0].pinned_bytes += kept.bytes[0];
        for (size_t k = 0; k < out.n && model.place != HTH_PLACE_OUT; k++) {
            out.pools[k].used_bytes += model.bytes[k];
            out.pools[k].pinned_bytes += model.is_pinned ? model.bytes[k] : 0;
        }
        for (size_t k = 0; k < out.n && model.place == HTH_PLACE_OUT && i < supervisor->present.n; k++)
            out.pools[k].promised_bytes += model.is_pinned ? model.bytes[k] : 0;
    }
    out.pools[0].used_bytes += out.rows_bytes;
    for (size_t k = 0; k < out.n; k++) {
        out.pools[k].promised_bytes += out.pools[k].pinned_bytes;
        out.pools[k].models_bytes = limits.bytes[k];
        out.pools[k].pinned_over_commit = out.pools[k].promised_bytes > limits.bytes[k];
    }
    return out;
}

/*
 * ---- texts for clients about waiting requests ----
 *
 * This code only reads workers, and changes nothing. A text is short ASCII without the names of other models, because
 * clients may not know them. It is a snapshot: a place in line may get worse when a model that has waited for longer
 * goes first. The progress of loading includes hashing of the file. If the engine has loaded before the hashing ends,
 * the worker accepts requests, and they wait in it for the rest of the hashing.
 */

/* Does its process end, with another one to follow? */
static bool comes_again(const hth_model_worker *worker)
{
    switch (worker->state) {
    case HTH_WORKER_WAITING:
    case HTH_WORKER_BROKEN: return true;
    case HTH_WORKER_STOPPING: return hth_model_worker_place(worker) == HTH_PLACE_IN;
    default: return false;
    }
}

/* The place of a model in the line for room, from 1. */
static unsigned place_in_line(const hth_supervisor *supervisor, const hth_model_worker *worker)
{
    hth_resident own, other, kept;
    unsigned place = 1;

    hth_model_worker_resident(worker, &hth_device_pools_none, &own, &kept);
    for (size_t i = 0; i < supervisor->present.n; i++) {
        if (supervisor->present.at[i] == worker)
            continue;
        hth_model_worker_resident(supervisor->present.at[i], &hth_device_pools_none, &other, &kept);
        place += other.place == HTH_PLACE_OUT && other.wanted_ns > 0 &&
                 (own.wanted_ns == 0 || other.wanted_ns < own.wanted_ns);
    }
    return place;
}

static const char *ending_of(unsigned n)
{
    if (n % 100 >= 11 && n % 100 <= 13)
        return "th";
    switch (n % 10) {
    case 1: return "st";
    case 2: return "nd";
    case 3: return "rd";
    default: return "th";
    }
}

void hth_supervisor_tell_wait(const hth_supervisor *supervisor, const char *model, uint64_t generation,
                              char out[HTH_WAIT_TEXT_BYTES])
{
    const hth_model_worker *worker = worker_of(supervisor, model, NULL);
    unsigned place;

    out[0] = 0;
    if (worker && generation == worker->generation && hth_model_worker_is_hashing(worker))
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "hashing %d%%", (int)(100 * worker->life.progress));
    if (!worker || generation > 0 || hth_model_worker_takes_requests(worker))
        return;
    if (worker->state == HTH_WORKER_STARTING) {
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "loading %d%%", (int)(100 * worker->life.progress));
    } else if (comes_again(worker)) {
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "waiting for another worker");
    } else {
        place = place_in_line(supervisor, worker);
        (void)snprintf(out, HTH_WAIT_TEXT_BYTES, "waiting for room, %u%s in line", place, ending_of(place));
    }
}

/* ---- orders of operators and clients: models move without a request ---- */

/* Are orders accepted? */
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
    return is_open(supervisor, err) ? worker_of(supervisor, model, err) : NULL;
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
 * Write to the supervisor's scratch the models as they are once leaving ones have left, without any model leaving for
 * another one. Orders that wait for the needs of their models come first, with an estimate.
 */
static hth_residency_limits look_ahead(hth_supervisor *supervisor)
{
    hth_residency_limits limits = take_snapshot(supervisor);

    for (size_t i = 0; i < n_workers(supervisor); i++) {
        hth_resident *model = &supervisor->residents[2 * i];

        if (model->place == HTH_PLACE_LEAVING)
            model->place = HTH_PLACE_OUT;
        if (hth_model_worker_is_awaited(worker_at(supervisor, i)) && model->wanted_ns == 0 && !model->is_invited)
            model->wanted_ns = 1;
    }
    limits.is_external = true;
    limits.turn_ns = UINT64_MAX;
    return limits;
}

/* Remove the k-th entry, of rows, from the scratch. A model that would map them now needs room for them. */
static void drop_rows(hth_supervisor *supervisor, size_t k)
{
    hth_resident *rows = &supervisor->residents[k];

    for (size_t i = 0; i < n_workers(supervisor); i++) {
        hth_resident *model = &supervisor->residents[2 * i];

        if (model->kept == rows) {
            model->kept = NULL;
            model->bytes[0] += rows->bytes[0];
        }
    }
    rows->bytes[0] = 0;
}

/* Would the i-th model of the scratch, which is wanted or invited, enter now, or after rows have made room for it? */
static bool would_enter(hth_supervisor *supervisor, const hth_residency_limits *limits, size_t i)
{
    const size_t n = 2 * n_workers(supervisor);
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

/* In the mode where no model leaves for another one, an order to load one needs room for it. */
static hearth_status check_room(hth_supervisor *supervisor, const hth_model_worker *worker, hearth_error *err)
{
    const size_t i = index_of(supervisor, worker);
    hth_residency_limits limits;

    if (!hth_model_worker_is_external(worker) || worker->state == HTH_WORKER_STOPPING)
        return HEARTH_OK;
    limits = look_ahead(supervisor);
    supervisor->residents[2 * i].wanted_ns = hth_os_monotonic_ns();
    if (would_enter(supervisor, &limits, i))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_FULL,
                    "there is no room for model '%s', which takes %" PRIu64 " MiB of the host's memory, beside those "
                    "that are in memory, and no model leaves by itself (residency.mode is external); unload others "
                    "first, or raise residency.memory, device_memory or models_max",
                    worker->name, supervisor->residents[2 * i].bytes[0] / MIB);
}

/* Pinned models must fit into memory together, so that they never wait for each other. */
static hearth_status check_pin(hth_supervisor *supervisor, const hth_model_worker *worker, hth_residency to,
                               hearth_error *err)
{
    const bool is_device = to == HTH_RESIDENCY_PINNED_DEVICE;
    const size_t at = index_of(supervisor, worker);
    const hth_residency_limits limits = take_snapshot(supervisor);
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
        /*
         * Weights in the folder count with one of the models that share them. Other weights appear with their first
         * load.
         */
        if (other->host_bytes > 0 && other->weights_are_pinned)
            pinned[0] += supervisor->residents[2 * i + 1].bytes[0];
        else if (i == at ? !is_device : other->is_host_pinned)
            pinned[0] += other->host_bytes > 0 ? other->host_bytes : other->learned.needs.memory.repacked_bytes;
    }
    if (n > limits.n_models)
        return hth_fail(err, HEARTH_FULL,
                        "with model '%s', %zu models would be pinned, and residency.models_max is %zu; unpin one first",
                        worker->name, n, limits.n_models);
    for (size_t k = 0; k < limits.n_pools; k++)
        if (pinned[k] > limits.bytes[k])
            return hth_fail(err, HEARTH_FULL,
                            "with model '%s', pinned models would take %" PRIu64 " MiB of the %" PRIu64
                            " MiB for models %s; unpin one first",
                            worker->name, pinned[k] / MIB, limits.bytes[k] / MIB,
                            k == 0 ? "on the host" : "on a device");
    return HEARTH_OK;
}

/* ---- orders for one model ---- */

hearth_status hth_supervisor_load(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = worker_to_order(supervisor, model, err);

    if (!worker || hth_model_worker_is_broken(worker, err))
        return err->status;
    if (worker->state == HTH_WORKER_STOPPED && check_room(supervisor, worker, err) != HEARTH_OK)
        return err->status;
    hth_model_worker_summon(worker);
    supervisor_plan(supervisor);
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
    hth_model_worker *worker = worker_of(supervisor, model, &err);

    if (!worker)
        return;
    worker->keep_once_ns = keep_ms < UINT64_MAX / 1000000 ? keep_ms * 1000000 : UINT64_MAX;
    supervisor->shared.on_change(supervisor);
}

hearth_status hth_supervisor_restart(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_model_worker *worker = worker_to_order(supervisor, model, err);

    if (!worker || (!hth_model_worker_is_in(worker) && check_room(supervisor, worker, err) != HEARTH_OK))
        return err->status;
    hth_model_worker_retire(worker, false, true);
    supervisor_plan(supervisor);
    return HEARTH_OK;
}

/*
 * Remove the weights of a model without a process, even if another model without one shares them, unless they are
 * pinned.
 */
static void evict_weights(hth_supervisor *supervisor, const hth_model_worker *worker)
{
    (void)take_snapshot(supervisor); /* the pin of this model is gone */
    for (size_t i = 0; i < n_workers(supervisor); i++) {
        hth_model_worker *other = worker_at(supervisor, i);

        if ((other == worker || hth_model_worker_shares_weights(worker, other)) && !hth_model_worker_is_in(other) &&
            !other->weights_are_pinned)
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
    supervisor_plan(supervisor);
    return HEARTH_OK;
}

/* ---- orders for several models ---- */

/* Append the name of a model to a list in the object. Without memory the name is missing, and the order goes on. */
static void list(json_t *object, const char *key, const hth_model_worker *worker)
{
    (void)json_array_append_new(json_object_get(object, key), json_string(worker->name));
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

        if (resident->place == HTH_PLACE_IN) {
            list(*out, hth_model_worker_place(worker) == HTH_PLACE_IN ? "resident" : "loading", worker);
            hth_model_worker_summon(worker);
            continue;
        }
        resident->is_invited = true;
        if (would_enter(supervisor, &limits, i)) {
            hth_model_worker_invite(worker);
            resident->place = HTH_PLACE_IN; /* the next models find the room that it leaves free */
            if (resident->kept)
                supervisor->residents[resident->kept - supervisor->residents].is_pinned = true;
            list(*out, "loading", worker);
        } else {
            resident->is_invited = false;
            list(*out, "no_room", worker);
        }
    }
    supervisor_plan(supervisor);
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
    for (size_t i = 0; i < supervisor->present.n; i++) {
        hth_model_worker *worker = supervisor->present.at[i];

        if (worker->is_pinned || worker->state != HTH_WORKER_READY)
            continue;
        worker->must_compact = true;
        list(*out, "compacting", worker);
    }
    supervisor_plan(supervisor);
    return HEARTH_OK;
}
