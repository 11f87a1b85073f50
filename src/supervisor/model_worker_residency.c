/*
 * model_worker_residency.c - the memory of a model, and its turn among other models
 *
 * The memory of a process is measured once a second, without the rows of its RAM tier: they lie in a memory file that
 * outlives processes, and have a budget of their own (model_worker_ram.c). Repacked weights that stay in the folder of
 * host weights while the model is out are an entry of their own, because they can be dropped alone.
 */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/smaller.h"
#include "base/status.h"
#include "wire/model_files_size.h"
#include "supervisor/model_worker_inside.h"
#include "wire/needs_text.h"
#include "supervisor/worker_arguments.h"

enum {
    LOOK_MS = 1000,
    HELD_MS = 10000, /* weights that another process held are left alone for so long */
};

static const char *host_folder(const char *const *arguments)
{
    return hth_worker_arguments_value(arguments, "--host-weights");
}

static uint64_t host_bytes(const hth_model_worker *worker, const char *const *arguments)
{
    const char *folder = host_folder(arguments);

    return *folder && worker->path ? hth_weight_regions_bytes(folder, worker->path) : 0;
}

static void find_weights(hth_model_worker *worker, const char *const *arguments)
{
    worker->n_drops = worker->shared->n_drops;
    worker->host_bytes = host_bytes(worker, arguments);
    if (worker->host_bytes > 0 && hth_weight_model_digest(worker->path, worker->weights_file) != 0)
        worker->host_bytes = 0; /* the file is gone */
}

void hth_model_worker_find_weights(hth_model_worker *worker)
{
    find_weights(worker, (const char *const *)worker->arguments);
}

/* The file may be another one now. */
static void note_file(hth_model_worker *worker)
{
    worker->file_bytes = hth_model_files_bytes(worker->path);
    hth_model_worker_recall(worker);
}

bool hth_model_worker_take_residency(hth_model_worker *worker, const hth_server_model *model)
{
    const uint64_t keep_ns = model->rules.unload_after_ms > 0 ? hth_ms_to_ns(model->rules.unload_after_ms) : UINT64_MAX;
    char *path = model->path ? strdup(model->path) : NULL;

    if (model->path && !path)
        return false;
    free(worker->path);
    worker->path = path;
    find_weights(worker, model->worker);
    worker->on_demand = model->rules.start == HTH_START_ON_DEMAND;
    if (model->rules.is_pinned != worker->was_pinned_by_options) { /* else an order since then counts */
        worker->is_pinned = model->rules.is_pinned;
        worker->is_host_pinned = false;
    }
    worker->was_pinned_by_options = model->rules.is_pinned;
    if (keep_ns != worker->keep_ns)
        worker->keep_once_ns = keep_ns;
    worker->keep_ns = keep_ns;
    worker->wished_ns = 0; /* other options may be asked for anew */
    note_file(worker);
    return true;
}

void hth_model_worker_note_start(hth_model_worker *worker)
{
    if (worker->state == HTH_WORKER_STOPPED) /* a new entry; WAITING kept its place */
        worker->entered_ns = worker->started_ns;
    note_file(worker);
    hth_model_worker_find_weights(worker);
    worker->is_invited = false;
    worker->summoned_ns = 0;
    worker->has_no_room = worker->drops_host = worker->drops_rows = false;
    worker->looked_ns = worker->started_ns;
    worker->measures = true;
}

void hth_model_worker_note_end(hth_model_worker *worker)
{
    hth_model_worker_find_weights(worker);
    if (worker->drops_host)
        (void)hth_model_worker_evict_host_weights(worker, HTH_DEPARTURE_NONE);
    if (worker->drops_rows)
        hth_model_worker_release_rows(worker);
    worker->drops_host = worker->drops_rows = false;
    worker->is_dismissed &= worker->start_again || worker->summoned_ns > 0; /* the next process leaves then */
}

void hth_model_worker_release_rows(hth_model_worker *worker)
{
    const uint64_t bytes = hth_model_worker_row_bytes(worker);

    if (bytes == 0)
        return;
    hth_model_worker_drop_rows(worker);
    hth_model_worker_tell_eviction(worker, "ram", bytes, HTH_DEPARTURE_NONE);
}

void hth_model_worker_note_use(hth_model_worker *worker)
{
    const uint64_t now_ns = hth_os_monotonic_ns(), stay_ns = hth_ms_to_ns(worker->shared->options->stay_ms);

    worker->comes_back = worker->waiters.n_holders > 0 || (worker->idle_ns > 0 && now_ns - worker->idle_ns < stay_ns);
    worker->used_ns = now_ns;
    worker->keep_once_ns = worker->keep_ns;
}

void hth_model_worker_look(hth_model_worker *worker, uint64_t now_ns)
{
    uint64_t rows, bytes;

    if (!worker->process || !worker->measures || worker->looked_ns + hth_ms_to_ns(LOOK_MS) > now_ns)
        return;
    worker->looked_ns = now_ns;
    rows = hth_model_worker_row_bytes(worker);
    bytes = hth_os_process_resident_bytes(hth_worker_process_pid(worker->process));
    if (bytes > rows)
        hth_model_worker_learn(worker, bytes - rows);
}

hth_residence hth_model_worker_residence(const hth_model_worker *worker)
{
    if (worker->state == HTH_WORKER_STOPPED || worker->state == HTH_WORKER_BROKEN)
        return HTH_RESIDENCE_OUT;
    return worker->state == HTH_WORKER_STOPPING && !worker->start_again && !worker->is_condemned &&
                   !worker->told_by_others
             ? HTH_RESIDENCE_LEAVING
             : HTH_RESIDENCE_IN;
}

/* Does it take turns with other models? */
static bool has_company(const hth_model_worker *worker)
{
    const hth_server_options *options = worker->shared->options;

    return options->n_models > 1 || options->memory_bytes > 0 || options->device_memory_bytes > 0;
}

static bool is_wanted(const hth_model_worker *worker)
{
    return hth_waiters_oldest_ns(&worker->waiters) > 0 || worker->summoned_ns > 0;
}

bool hth_model_worker_is_awaited(const hth_model_worker *worker)
{
    return worker->state == HTH_WORKER_STOPPED && (is_wanted(worker) || worker->is_invited);
}

uint64_t hth_model_worker_scratch_bytes(const hth_model_worker *worker)
{
    return hth_model_worker_residence(worker) == HTH_RESIDENCE_OUT && !is_wanted(worker)
             ? 0
             : worker->learned.needs.memory.host.compute_bytes;
}

void hth_model_worker_prepare(hth_model_worker *worker)
{
    const bool wants = is_wanted(worker) || worker->is_invited;

    worker->waits_for_needs = false;
    if (worker->n_drops != worker->shared->n_drops)
        hth_model_worker_find_weights(worker);
    if (hth_model_worker_residence(worker) != HTH_RESIDENCE_OUT || !wants || !has_company(worker)) {
        worker->wished_ns = 0;
        return;
    }
    if (worker->wished_ns == 0)
        worker->wished_ns = hth_os_monotonic_ns();
    note_file(worker);
    hth_model_worker_find_weights(worker);
    worker->waits_for_needs = hth_model_worker_ask(worker);
}

void hth_model_worker_note_devices(const hth_model_worker *worker, hth_device_pools *pools)
{
    hth_device_pools_add(pools, &worker->learned.needs);
}

bool hth_model_worker_share_devices(const hth_model_worker *worker, const hth_device_pools *pools, uint64_t *bytes)
{
    hth_device_pools_share(pools, &worker->learned.needs, bytes);
    return worker->learned.needs.n_ctx > 0;
}

void hth_model_worker_resident(const hth_model_worker *worker, const hth_device_pools *pools, hth_resident *out,
                               hth_resident *kept)
{
    const uint64_t oldest_ns = hth_waiters_oldest_ns(&worker->waiters);
    const uint64_t summoned_ns = worker->state == HTH_WORKER_BROKEN ? 0 : worker->summoned_ns;
    const bool is_out = hth_model_worker_residence(worker) == HTH_RESIDENCE_OUT;
    const bool are_held = worker->held_ns > 0 && hth_os_monotonic_ns() < worker->held_ns + hth_ms_to_ns(HELD_MS);

    *out = (hth_resident){
        .residence = hth_model_worker_residence(worker),
        .n_uses = worker->waiters.n_holders,
        .bytes[0] = hth_model_worker_host_bytes(worker),
        .wanted_ns = worker->waits_for_needs ? 0
                   : oldest_ns > 0           ? oldest_ns
                                             : summoned_ns,
        .since_ns = worker->entered_ns,
        .used_ns = worker->used_ns,
        .stay_ns = worker->comes_back ? hth_ms_to_ns(worker->shared->options->stay_ms) : 0,
        .keep_ns =
            worker->state == HTH_WORKER_READY ? worker->keep_once_ns : UINT64_MAX, /* a rest begins when loading ends */
        .is_pinned = worker->is_pinned,
        .is_dismissed = worker->is_dismissed && worker->state == HTH_WORKER_READY,
        /* All are asked first, because those that start with the server enter in their order. */
        .is_invited = worker->is_invited && !worker->waits_for_needs &&
                      (worker->shared->n_asked == 0 || hth_model_worker_waited_long(worker)),
    };
    hth_device_pools_share(pools, &worker->learned.needs, out->bytes);
    *kept = (hth_resident){ .residence = HTH_RESIDENCE_KEPT,
                            .used_ns = worker->used_ns,
                            .is_pinned = worker->weights_are_pinned || are_held ||
                                         worker->weights_count == HTH_WEIGHTS_COUNT_APART };
    if (worker->weights_count == HTH_WEIGHTS_COUNT_APART || (is_out && worker->weights_count == HTH_WEIGHTS_COUNT_HERE))
        kept->bytes[0] = worker->host_bytes;
    if (is_out || worker->weights_count != HTH_WEIGHTS_COUNT_HERE)
        out->bytes[0] -= hth_smaller(out->bytes[0], worker->host_bytes); /* its process maps them */
}

bool hth_model_worker_shares_weights(const hth_model_worker *a, const hth_model_worker *b)
{
    return a->host_bytes > 0 && b->host_bytes > 0 &&
           memcmp(a->weights_file, b->weights_file, sizeof(a->weights_file)) == 0 &&
           strcmp(host_folder((const char *const *)a->arguments), host_folder((const char *const *)b->arguments)) == 0;
}

bool hth_model_worker_is_in(const hth_model_worker *worker)
{
    return hth_model_worker_residence(worker) != HTH_RESIDENCE_OUT;
}

uint64_t hth_model_worker_used_ns(const hth_model_worker *worker)
{
    return worker->used_ns;
}

void hth_model_worker_count_weights(hth_model_worker *worker, hth_weights_count with, bool are_pinned)
{
    worker->weights_count = with;
    worker->weights_are_pinned = are_pinned;
}

bool hth_model_worker_is_host_pinned(const hth_model_worker *worker)
{
    return worker->is_host_pinned;
}

bool hth_model_worker_weights_are_pinned(const hth_model_worker *worker)
{
    return worker->weights_are_pinned;
}

bool hth_model_worker_has_weights(const hth_model_worker *worker)
{
    return worker->host_bytes > 0;
}

uint64_t hth_model_worker_weights_bytes(const hth_model_worker *worker)
{
    return worker->host_bytes > 0 ? worker->host_bytes : worker->learned.needs.memory.repacked_bytes;
}

uint64_t hth_model_worker_evict_host_weights(hth_model_worker *worker, hth_departure why)
{
    uint64_t bytes;

    if (worker->weights_count != HTH_WEIGHTS_COUNT_HERE || worker->host_bytes == 0)
        return 0; /* what others hold is theirs */
    bytes = hth_weight_regions_drop(host_folder((const char *const *)worker->arguments), worker->path);
    worker->held_ns = bytes > 0 ? 0 : hth_os_monotonic_ns();
    worker->shared->n_drops++;
    hth_model_worker_find_weights(worker);
    if (bytes > 0)
        hth_model_worker_tell_eviction(worker, "host_weights", bytes, why);
    else
        hth_info(worker->shared->log, "model '%s': its kept weights stay, because another process holds them",
                 worker->name);
    return bytes;
}

void hth_model_worker_set_closed(hth_model_worker *worker, bool is_closed)
{
    if (worker->is_closed == is_closed)
        return;
    worker->is_closed = is_closed;
    if (is_closed)
        hth_info(worker->shared->log, "model '%s': its %u requests finish and new ones wait, because %s", worker->name,
                 worker->waiters.n_holders,
                 worker->is_dismissed ? "it leaves by an order" : "other models wait for its memory");
    else
        event_active(worker->notify, EV_TIMEOUT, 0);
}

void hth_model_worker_depart(hth_model_worker *worker, hth_departure why)
{
    static const char *const reasons[] = {
        [HTH_DEPARTURE_ROOM] = "to make room for other models",
        [HTH_DEPARTURE_REST] = "having rested for as long as it may",
        [HTH_DEPARTURE_PRESSURE] = "because the machine's memory is short",
    };
    const hth_restart_policy policy = worker->policy;

    worker->n_departures++;
    worker->is_closed = false;
    hth_info(worker->shared->log, "model '%s': its worker ends, %s; the next request starts another", worker->name,
             reasons[why]);
    worker->departs = why;
    hth_model_worker_retire(worker, false, false);
    worker->departs = HTH_DEPARTURE_NONE;
    worker->policy = policy; /* only an operator's order clears the history of deaths */
}

void hth_model_worker_invite(hth_model_worker *worker)
{
    worker->is_invited = true;
    worker->has_no_room = worker->is_dismissed = worker->drops_host = worker->drops_rows = false;
    worker->keep_once_ns = worker->keep_ns;
}

void hth_model_worker_summon(hth_model_worker *worker)
{
    worker->keep_once_ns = worker->keep_ns;
    worker->has_no_room = worker->is_dismissed = worker->drops_host = worker->drops_rows = false;
    if (worker->summoned_ns == 0 && (worker->state == HTH_WORKER_STOPPED || worker->state == HTH_WORKER_STOPPING))
        worker->summoned_ns = hth_os_monotonic_ns();
}

void hth_model_worker_keep(hth_model_worker *worker, uint64_t keep_ns)
{
    worker->keep_once_ns = keep_ns;
}

bool hth_model_worker_is_idle(const hth_model_worker *worker)
{
    return worker->waiters.n == 0 && worker->waiters.n_holders == 0;
}

void hth_model_worker_view_residency(const hth_model_worker *worker, uint64_t now_ns, hth_worker_view *out)
{
    const bool is_idle = hth_model_worker_is_idle(worker);
    const uint64_t idle_ns = is_idle && worker->used_ns > 0 ? now_ns - worker->used_ns : 0;

    out->n_uses = worker->waiters.n_holders;
    out->is_pinned = worker->is_pinned;
    out->residency = hth_model_worker_residency(worker);
    out->is_host_pinned = worker->is_host_pinned;
    out->waits_for_room = worker->state == HTH_WORKER_STOPPED && (worker->is_invited || worker->has_no_room);
    out->is_awaited = hth_model_worker_is_awaited(worker);
    out->is_closed = worker->is_closed;
    out->memory_bytes = hth_model_worker_host_bytes(worker) + hth_needs_device_bytes(&worker->learned.needs) +
                        hth_model_worker_row_bytes(worker);
    out->ram_share_bytes = worker->process ? worker->ram_share : hth_model_worker_row_bytes(worker);
    out->needs = worker->learned.needs;
    out->measured_bytes = worker->bytes;
    out->host_weights_bytes = worker->host_bytes;
    out->idle_ms = idle_ns / 1000000;
    out->leaves_in_ms = UINT64_MAX;
    if (worker->process && worker->keep_once_ns < UINT64_MAX && !worker->is_pinned &&
        !hth_model_worker_is_external(worker))
        out->leaves_in_ms = worker->keep_once_ns > idle_ns ? (worker->keep_once_ns - idle_ns) / 1000000 : 0;
    out->n_departures = worker->n_departures;
}
