#include "supervisor/model_worker.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/json_values.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/smaller.h"
#include "base/status.h"
#include "cache/ram_directory.h"
#include "supervisor/runtime_folder.h"
#include "supervisor/worker_arguments.h"
#include "wire/needs_text.h"

enum {
    SAVE_MS = 35000,      /* an ending worker takes at most 30 s to save */
    PROGRESS_STEPS = 20,  /* events of progress, in one process */
    LOOP_HANG_MS = 10000, /* an event loop counts as hung after this time, or after hang_ms if that is shorter */
};

static double draw(void)
{
    uint32_t number;

    hth_os_random(&number, sizeof(number));
    return number / 4294967296.0;
}

/* ---- events for operators (event_feed.h), which docs/monitoring.md describes ---- */

static void tell(const hth_model_worker *worker, const char *event, json_t *value_take)
{
    hth_event_feed_tell_take(worker->shared->feed, event, value_take);
}

static const char *reason_of(hth_departure departure)
{
    static const char *const reasons[] = {
        [HTH_DEPARTURE_NONE] = "order",
        [HTH_DEPARTURE_ROOM] = "room",
        [HTH_DEPARTURE_REST] = "rest",
        [HTH_DEPARTURE_PRESSURE] = "pressure",
    };

    return reasons[departure];
}

/* Report the progress of loading or, once READY, of hashing; at most PROGRESS_STEPS events of each for a process. */
static void tell_progress(hth_model_worker *worker)
{
    const unsigned step = (unsigned)(worker->life.progress * PROGRESS_STEPS);

    if (step <= worker->life.reported_progress)
        return;
    worker->life.reported_progress = step;
    tell(worker, worker->state == HTH_WORKER_READY ? "hashing" : "progress",
         json_pack("{s:s, s:f}", "model", worker->name, "progress", (double)step / PROGRESS_STEPS));
}

/* Rows or weights with this number of bytes, if any, have left this tier. */
static void tell_eviction(const hth_model_worker *worker, const char *tier, uint64_t bytes, hth_departure why)
{
    if (bytes > 0)
        tell(worker, "eviction",
             json_pack("{s:s, s:s, s:I, s:s}", "model", worker->name, "tier", tier, "bytes", (json_int_t)bytes,
                       "reason", reason_of(why)));
}

/* The process was told to end. */
static void tell_unload(const hth_model_worker *worker, const char *why)
{
    tell(worker, "unload",
         json_pack("{s:s, s:s, s:b}", "model", worker->name, "reason", why, "again", worker->life.start_again));
}

/*
 * ---- the share of a model in the memory for rows (ram_shares.h) ----
 *
 * The share is the quota of the process' RAM tier. A larger share counts at once, a smaller one when the process has
 * confirmed it, which rows in use may delay. Only one order is in progress at a time. The share of a model without a
 * process is the memory of its rows.
 */

enum {
    /*
     * A model counts as busy for this long after a use, so that two alternating models do not take each other's rows.
     */
    REST_MS = 2000,
    /* A model counts as short of room for this long after a row found no room. */
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

/* Call when the process has ended, and when rows were dropped. */
static void end_ram(hth_model_worker *worker)
{
    worker->awaits_ram = false;
    worker->ram_share = share_of(worker);
}

/* Free the memory of the RAM tier. A running process keeps its own. */
static void drop_rows(hth_model_worker *worker)
{
    if (worker->ram_fd >= 0)
        (void)close(worker->ram_fd); /* a running process has its own descriptor */
    worker->ram_fd = -1;
    if (!worker->process)
        end_ram(worker);
}

static void evict_rows(hth_model_worker *worker, hth_departure why)
{
    const uint64_t bytes = hth_model_worker_row_bytes(worker);

    drop_rows(worker);
    tell_eviction(worker, "ram", bytes, why);
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
        evict_rows(worker, HTH_DEPARTURE_ROOM);
        return;
    }
    if (!hth_worker_process_set_ram(worker->process, share_bytes))
        return; /* it is ending, or gets the order later */
    worker->ram_quota = share_bytes;
    worker->ram_used_before = worker->ram_used;
    worker->awaits_ram = true;
    if (share_bytes <= worker->ram_share)
        return;
    worker->ram_share = share_bytes;
    worker->ram_short_ns = 0;
}

/* Call when a process starts. */
static void begin_ram(hth_model_worker *worker)
{
    worker->ram_share = worker->shared->ram_share(worker, worker->shared->user_data);
    worker->ram_used = worker->ram_quota = worker->ram_share; /* rows are not known yet */
    worker->awaits_ram = false;
    worker->n_displaced = 0;
    worker->ram_short_ns = 0;
}

/* The process has reported the state of its RAM tier; user_data is the worker. */
static void note_ram(uint64_t quota, uint64_t used_bytes, uint64_t n_displaced, void *user_data)
{
    hth_model_worker *worker = user_data;
    const bool is_applied = worker->awaits_ram && quota == worker->ram_quota;
    const bool has_evicted = is_applied && quota < worker->ram_share && used_bytes < worker->ram_used_before;

    if (n_displaced > worker->n_displaced)
        worker->ram_short_ns = hth_os_monotonic_ns();
    worker->n_displaced = n_displaced;
    worker->ram_used = used_bytes;
    worker->awaits_ram &= !is_applied;
    if (!worker->awaits_ram) /* otherwise the larger share may be on its way */
        worker->ram_share = hth_smaller(worker->ram_share, hth_larger(quota, used_bytes));
    if (has_evicted)
        tell_eviction(worker, "ram", worker->ram_used_before - used_bytes, HTH_DEPARTURE_ROOM);
    if (is_applied)
        worker->shared->on_change(worker->shared->user_data);
}

/*
 * ---- the memory that a model will take, measured before it is loaded ----
 *
 * A short-lived process of the worker's program reads the metadata of the model and reports its needs
 * (hth_measure_run). A model that waits for its place is in no plan before that. The answer is kept (learned.h), and
 * reused while file and options are the same. Without an answer, the size of the files plus a constant for the process
 * is the estimate. After a process that was killed, by a signal or because it was late, another one is started, later
 * each time.
 */

enum {
    ASKED_MAX = 2,            /* concurrent measuring processes, for all models */
    TIMES_MAX = 5,            /* tries for one model */
    TURN_TIMES = 3,           /* a model waits for its turn to be measured at most this many times the longest answer */
    PROCESS_BYTES = 32 << 20, /* of a process, besides weights, cells and buffers, until one reports it: 20 to 30 MiB */
};

static bool is_known(const hth_model_worker *worker)
{
    return worker->learned.needs.n_ctx > 0;
}

/* Stop the measuring process, without waiting for its end. */
static void stop_asking(hth_model_worker *worker)
{
    hth_worker_shared *shared = worker->shared;

    if (!worker->asked)
        return;
    hth_worker_process_abandon(worker->asked); /* a process that hangs in a system call may end much later */
    assert(shared->n_abandoned < HTH_ABANDONED_MAX);
    shared->abandoned[shared->n_abandoned++] = worker->asked;
    worker->asked = NULL;
    shared->n_asked--;
    hth_worker_shared_reap(shared);
}

/* File or options may have changed: look up what is known about them. */
static void recall(hth_model_worker *worker)
{
    uint8_t key[HTH_LEARNED_KEY_BYTES];
    const bool has_key = hth_learned_key(worker->path, worker->arguments, key);

    if (has_key == worker->has_key && (!has_key || memcmp(key, worker->key, sizeof(key)) == 0))
        return;
    stop_asking(worker);
    worker->has_key = has_key;
    worker->was_asked = !has_key;
    worker->n_killed = 0;
    worker->ask_ns = 0;
    worker->answered_ns = 0;
    worker->bytes = 0;
    worker->measures = false;
    worker->has_worked = false;
    worker->learned = (hth_learned_model){ .bytes = 0 };
    if (!has_key)
        return;
    memcpy(worker->key, key, sizeof(key));
    if (!hth_learned_find(worker->shared->learned, key, &worker->learned))
        return;
    worker->bytes = worker->learned.bytes;
    worker->was_asked = is_known(worker);
}

void hth_worker_shared_reap(hth_worker_shared *shared)
{
    unsigned n = 0;

    for (unsigned i = 0; i < shared->n_abandoned; i++) {
        if (hth_worker_process_has_ended(shared->abandoned[i]))
            hth_worker_process_free(shared->abandoned[i]);
        else
            shared->abandoned[n++] = shared->abandoned[i];
    }
    shared->n_abandoned = n;
}

static uint64_t answer_ns(const hth_model_worker *worker)
{
    return hth_ms_to_ns(worker->shared->options->needs_timeout_ms);
}

/* Has it waited so long that it enters without known needs? */
static bool waited_long(const hth_model_worker *worker)
{
    return worker->waits_since_ns > 0 &&
           hth_os_monotonic_ns() > worker->waits_since_ns + TURN_TIMES * answer_ns(worker);
}

/* There was no answer this time. */
static void ask_later(hth_model_worker *worker, uint64_t now_ns)
{
    worker->n_killed++;
    worker->was_asked = worker->n_killed >= TIMES_MAX;
    worker->ask_ns = now_ns + (hth_ms_to_ns(worker->shared->options->needs_again_ms) << worker->n_killed);
}

static void on_needs(const char *line, void *user_data)
{
    hth_model_worker *worker = user_data;

    if (worker->answer.n_ctx == 0 && !hth_needs_read(line, &worker->answer))
        hth_log_line(worker->shared->log, HEARTH_LOG_DEBUG, "hearth", "model '%s': strange needs: %s", worker->name,
                     line);
}

/*
 * Must it be measured although its needs are known? Known needs do not show the memory that other programs have
 * released on devices since. So this is true before the first model is on a device, and once for each entry if other
 * programs used much of the device. A choice that was made to fit into less memory is also made again.
 */
static bool must_look(const hth_model_worker *worker, uint64_t now_ns)
{
    const hth_worker_shared *shared = worker->shared;
    const hth_model_needs *needs = &worker->learned.needs;

    if (!is_known(worker) || shared->options->device_memory_bytes > 0)
        return false;
    if (worker->answered_ns == 0 && hth_device_pools_are_unseen(&shared->seen, needs))
        return true;
    if (needs->fit.n_layers_max > 0 && worker->n_sights != shared->n_sights)
        return true;
    return worker->answered_ns < worker->waits_since_ns &&
           (worker->answered_ns == 0 ||
            now_ns >= worker->answered_ns + hth_ms_to_ns(shared->options->needs_again_ms)) &&
           shared->may_see_more(needs, shared->user_data);
}

/* Will an answer come later? Starts a measuring process if needed and possible. */
static bool ask(hth_model_worker *worker)
{
    const uint64_t now_ns = hth_os_monotonic_ns();
    hearth_error err = { .message = "" };

    if (worker->asked)
        return true;
    if ((worker->was_asked && !must_look(worker, now_ns)) || now_ns < worker->ask_ns)
        return false;
    if (waited_long(worker)) /* for its turn, or because its file keeps changing */
        return false;
    if (worker->shared->n_asked >= ASKED_MAX ||
        worker->shared->n_asked + worker->shared->n_abandoned >= HTH_ABANDONED_MAX)
        return true;
    worker->answer = (hth_model_needs){ .n_ctx = 0 };
    worker->asked_ns = now_ns;
    if (hth_worker_process_start(&(hth_worker_process_options){ .base = worker->shared->base,
                                                                .program = worker->shared->program,
                                                                .name = worker->name,
                                                                .worker = worker->arguments,
                                                                .ram_fd = -1,
                                                                .no_sandbox = worker->no_sandbox,
                                                                .measures = true,
                                                                .seen = &worker->shared->seen,
                                                                .on_needs = on_needs,
                                                                .user_data = worker },
                                 &worker->asked, &err) == HEARTH_OK) {
        worker->shared->n_asked++;
        return true;
    }
    hth_warn(worker->shared->log, "model '%s': the memory that it takes is unknown: %s", worker->name, err.message);
    ask_later(worker, now_ns);
    return false;
}

/* Take the answer if the process has ended. Go on without one if it is late. */
static void take_answer(hth_model_worker *worker, uint64_t now_ns)
{
    char cause[HTH_WORKER_CAUSE_BYTES] = "no answer in time";
    bool has_ended;

    if (!worker->asked)
        return;
    has_ended = hth_worker_process_has_ended(worker->asked);
    if (!has_ended && now_ns <= worker->asked_ns + answer_ns(worker))
        return;
    worker->was_asked = true;
    worker->answered_ns = now_ns;
    if (worker->answer.n_ctx > 0) {
        worker->learned.needs = worker->answer;
        worker->shared->on_needs(&worker->answer, worker->shared->user_data);
        hth_learned_note(worker->shared->learned, worker->key, &worker->learned);
    } else if (!is_known(worker)) {
        if (!has_ended || hth_worker_process_was_killed(worker->asked))
            ask_later(worker, now_ns);
        if (has_ended)
            hth_worker_process_last_lines(worker->asked, cause, sizeof(cause));
        hth_log_line(worker->shared->log, HEARTH_LOG_DEBUG, "hearth",
                     "model '%s': the size of its file counts, because its needs are unknown: %s", worker->name, cause);
    }
    worker->n_sights = worker->shared->n_sights; /* including those of this answer */
    stop_asking(worker);
    worker->shared->on_change(worker->shared->user_data);
}

/* Host memory that counts for the model, without rows. */
static uint64_t needed_host_bytes(const hth_model_worker *worker)
{
    const hth_model_needs *needs = &worker->learned.needs;
    /* Weights, cells and buffers that were not used yet are not in memory, but may be soon. */
    const uint64_t least = is_known(worker) ? hth_needs_host_bytes(needs) : worker->file_bytes + PROCESS_BYTES;

    return worker->bytes > least ? worker->bytes : least;
}

/* A process uses these bytes now, without rows. */
static void learn(hth_model_worker *worker, uint64_t bytes)
{
    if (bytes > worker->bytes)
        worker->bytes = bytes;
    if (!worker->has_key || !worker->has_worked || worker->bytes <= worker->learned.bytes + worker->learned.bytes / 64)
        return;
    worker->learned.bytes = worker->bytes;
    hth_learned_note(worker->shared->learned, worker->key, &worker->learned);
}

/*
 * ---- the memory of a model, and its turn among other models ----
 *
 * The memory of a process is measured once a second, without the rows of its RAM tier: these are in a memory file that
 * outlives processes, and have a separate budget. Repacked weights that stay in the folder of host weights while the
 * model is out are a separate entry, because they can be dropped alone.
 */

enum {
    LOOK_MS = 1000,
    HELD_MS = 10000, /* weights that another process held are not touched for this long */
};

static const char *host_folder(const hth_model_worker *worker)
{
    return hth_worker_arguments_value(worker->arguments, "--host-weights");
}

void hth_model_worker_find_weights(hth_model_worker *worker)
{
    const char *folder = host_folder(worker);

    worker->n_drops = worker->shared->n_drops;
    worker->host_bytes = *folder && worker->path ? hth_weight_regions_bytes(folder, worker->path) : 0;
    if (worker->host_bytes > 0 && hth_weight_model_digest(worker->path, worker->weights_file) != 0)
        worker->host_bytes = 0; /* the file is gone */
}

/* The file may be another one now. */
static void note_file(hth_model_worker *worker)
{
    worker->file_bytes = hth_model_files_bytes(worker->path);
    recall(worker);
}

/* Apply the model's options about memory and starting. False without memory: nothing changed. */
static bool take_residency(hth_model_worker *worker, const hth_server_model *model)
{
    const uint64_t keep_ns = model->rules.unload_after_ms > 0 ? hth_ms_to_ns(model->rules.unload_after_ms) : UINT64_MAX;
    char *path = model->path ? strdup(model->path) : NULL;

    if (model->path && !path)
        return false;
    free(worker->path);
    worker->path = path;
    hth_model_worker_find_weights(worker);
    worker->has_history = model->has_history;
    worker->on_demand = model->rules.start == HTH_START_ON_DEMAND;
    if (model->rules.is_pinned != worker->was_pinned_by_options) { /* otherwise an order since then counts */
        worker->is_pinned = model->rules.is_pinned;
        worker->is_host_pinned = false;
    }
    worker->was_pinned_by_options = model->rules.is_pinned;
    if (keep_ns != worker->keep_ns)
        worker->keep_once_ns = keep_ns;
    worker->keep_ns = keep_ns;
    worker->waits_since_ns = 0; /* other options may need a new measurement */
    note_file(worker);
    return true;
}

/* A process starts. */
static void note_start(hth_model_worker *worker)
{
    if (worker->state == HTH_WORKER_STOPPED) /* a new entry; WAITING kept its place */
        worker->entered_ns = worker->life.started_ns;
    note_file(worker);
    hth_model_worker_find_weights(worker);
    worker->is_invited = false;
    worker->summoned_ns = 0;
    worker->has_no_room = worker->drops_host = worker->drops_rows = false;
    worker->looked_ns = worker->life.started_ns;
    worker->measures = true;
}

static void note_end(hth_model_worker *worker)
{
    hth_model_worker_find_weights(worker);
    if (worker->drops_host)
        (void)hth_model_worker_evict_host_weights(worker, HTH_DEPARTURE_NONE);
    if (worker->drops_rows)
        evict_rows(worker, HTH_DEPARTURE_NONE);
    worker->drops_host = worker->drops_rows = false;
    worker->is_dismissed &= worker->life.start_again || worker->summoned_ns > 0; /* the next process leaves then */
}

static void note_use(hth_model_worker *worker)
{
    const uint64_t now_ns = hth_os_monotonic_ns(), stay_ns = hth_ms_to_ns(worker->shared->options->stay_ms);

    worker->comes_back = worker->waiters.n_holders > 0 || (worker->idle_ns > 0 && now_ns - worker->idle_ns < stay_ns);
    worker->used_ns = now_ns;
    worker->keep_once_ns = worker->keep_ns;
}

static void look(hth_model_worker *worker, uint64_t now_ns)
{
    uint64_t rows, bytes;

    if (!worker->process || !worker->measures || worker->looked_ns + hth_ms_to_ns(LOOK_MS) > now_ns)
        return;
    worker->looked_ns = now_ns;
    rows = hth_model_worker_row_bytes(worker);
    bytes = hth_os_process_resident_bytes(hth_worker_process_pid(worker->process));
    if (bytes > rows)
        learn(worker, bytes - rows);
}

hth_model_place hth_model_worker_place(const hth_model_worker *worker)
{
    if (worker->state == HTH_WORKER_STOPPED || worker->state == HTH_WORKER_BROKEN)
        return HTH_PLACE_OUT;
    return worker->state == HTH_WORKER_STOPPING && !worker->life.start_again && !worker->life.is_condemned &&
                   !worker->life.stopped_by_others
             ? HTH_PLACE_LEAVING
             : HTH_PLACE_IN;
}

bool hth_model_worker_is_in(const hth_model_worker *worker)
{
    return hth_model_worker_place(worker) != HTH_PLACE_OUT;
}

bool hth_model_worker_is_external(const hth_model_worker *worker)
{
    return worker->shared->options->residency_mode == HTH_RESIDENCY_EXTERNAL;
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
    return !hth_model_worker_is_in(worker) && !is_wanted(worker) ? 0 : worker->learned.needs.memory.host.compute_bytes;
}

void hth_model_worker_prepare(hth_model_worker *worker)
{
    const bool wants = is_wanted(worker) || worker->is_invited;

    worker->waits_for_needs = false;
    if (worker->n_drops != worker->shared->n_drops)
        hth_model_worker_find_weights(worker);
    if (hth_model_worker_is_in(worker) || !wants || !has_company(worker)) {
        worker->waits_since_ns = 0;
        return;
    }
    if (worker->waits_since_ns == 0)
        worker->waits_since_ns = hth_os_monotonic_ns();
    note_file(worker);
    hth_model_worker_find_weights(worker);
    worker->waits_for_needs = ask(worker);
}

void hth_model_worker_resident(const hth_model_worker *worker, const hth_device_pools *pools, hth_resident *out,
                               hth_resident *kept)
{
    const uint64_t oldest_ns = hth_waiters_oldest_ns(&worker->waiters);
    const uint64_t summoned_ns = worker->state == HTH_WORKER_BROKEN ? 0 : worker->summoned_ns;
    const bool is_out = !hth_model_worker_is_in(worker);
    const bool are_held = worker->held_ns > 0 && hth_os_monotonic_ns() < worker->held_ns + hth_ms_to_ns(HELD_MS);

    *out = (hth_resident){
        .place = hth_model_worker_place(worker),
        .n_uses = worker->waiters.n_holders,
        .bytes[0] = needed_host_bytes(worker),
        .wanted_ns = worker->waits_for_needs ? 0
                   : oldest_ns > 0           ? oldest_ns
                                             : summoned_ns,
        .since_ns = worker->entered_ns,
        .used_ns = worker->used_ns,
        .stay_ns = worker->comes_back ? hth_ms_to_ns(worker->shared->options->stay_ms) : 0,
        .keep_ns =
            worker->state == HTH_WORKER_READY ? worker->keep_once_ns : UINT64_MAX, /* idle time starts after loading */
        .is_pinned = worker->is_pinned,
        .is_dismissed = worker->is_dismissed && worker->state == HTH_WORKER_READY,
        /* All are measured first, because models that start with the server enter in their order. */
        .is_invited =
            worker->is_invited && !worker->waits_for_needs && (worker->shared->n_asked == 0 || waited_long(worker)),
    };
    hth_device_pools_share(pools, &worker->learned.needs, out->bytes);
    *kept = (hth_resident){ .place = HTH_PLACE_KEPT,
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
           strcmp(host_folder(a), host_folder(b)) == 0;
}

uint64_t hth_model_worker_evict_host_weights(hth_model_worker *worker, hth_departure why)
{
    uint64_t bytes;

    if (worker->weights_count != HTH_WEIGHTS_COUNT_HERE || worker->host_bytes == 0)
        return 0; /* other processes hold them */
    bytes = hth_weight_regions_drop(host_folder(worker), worker->path);
    worker->held_ns = bytes > 0 ? 0 : hth_os_monotonic_ns();
    worker->shared->n_drops++;
    hth_model_worker_find_weights(worker);
    tell_eviction(worker, "host_weights", bytes, why);
    if (bytes == 0)
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

bool hth_model_worker_is_idle(const hth_model_worker *worker)
{
    return worker->waiters.n == 0 && worker->waiters.n_holders == 0;
}

static hth_residency residency_of(const hth_model_worker *worker)
{
    if (hth_model_worker_is_in(worker))
        return worker->is_pinned ? HTH_RESIDENCY_PINNED_DEVICE : HTH_RESIDENCY_DEVICE;
    if (worker->host_bytes > 0)
        return worker->is_host_pinned ? HTH_RESIDENCY_PINNED_HOST : HTH_RESIDENCY_HOST;
    return HTH_RESIDENCY_EVICTED;
}

void hth_model_worker_tell_residency(hth_model_worker *worker)
{
    const hth_residency residency = residency_of(worker);

    if (residency == worker->reported_residency)
        return;
    tell(worker, "residency",
         json_pack("{s:s, s:s, s:s}", "model", worker->name, "residency", hth_residency_name(residency), "before",
                   hth_residency_name(worker->reported_residency)));
    worker->reported_residency = residency;
}

static void view_residency(const hth_model_worker *worker, uint64_t now_ns, hth_worker_view *out)
{
    const bool is_idle = hth_model_worker_is_idle(worker);
    const uint64_t idle_ns = is_idle && worker->used_ns > 0 ? now_ns - worker->used_ns : 0;

    out->n_uses = worker->waiters.n_holders;
    out->is_pinned = worker->is_pinned;
    out->residency = residency_of(worker);
    out->is_host_pinned = worker->is_host_pinned;
    out->waits_for_room = worker->state == HTH_WORKER_STOPPED && (worker->is_invited || worker->has_no_room);
    out->is_awaited = hth_model_worker_is_awaited(worker);
    out->is_closed = worker->is_closed;
    out->memory_bytes =
        needed_host_bytes(worker) + hth_needs_device_bytes(&worker->learned.needs) + hth_model_worker_row_bytes(worker);
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

/* ---- memory that a model can free under pressure (relief.h) ---- */

enum { STUCK_MS = 30000 };

/*
 * A tier that freed less than was ordered has rows that cannot leave now, because they are in use or not written yet.
 * It offers nothing until the next use of the model, or for STUCK_MS, so that the next tier gets its turn.
 */
static bool is_stuck(const hth_model_worker *worker, uint64_t stuck_ns)
{
    return stuck_ns > worker->used_ns && stuck_ns + hth_ms_to_ns(STUCK_MS) > hth_os_monotonic_ns();
}

/* If the needs are unknown, the whole model may be on devices. */
static uint64_t device_bytes(const hth_model_worker *worker)
{
    return worker->learned.needs.n_ctx > 0 ? hth_needs_device_bytes(&worker->learned.needs) : needed_host_bytes(worker);
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
        .absent_row_bytes = model.place == HTH_PLACE_OUT ? row_bytes + (rows.is_pinned ? 0 : rows.bytes[0]) : 0,
        .coming_bytes = model.place == HTH_PLACE_LEAVING ? model_bytes : coming_bytes,
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
    if (!is_stuck(worker, worker->life.ram_stuck_ns))
        out->ram_bytes = hth_smaller(status.counters.ram_bytes, model.bytes[0] + row_bytes);
    if (!is_stuck(worker, worker->life.ram_file_stuck_ns))
        out->ram_file_bytes = status.counters.ram_file_bytes;
    out->ram_file_folder = hth_worker_arguments_value(worker->arguments, "--ram-files");
}

void hth_model_worker_relieve(hth_model_worker *worker, const hth_relief_order *order)
{
    if (order->drops_rows) {
        evict_rows(worker, HTH_DEPARTURE_PRESSURE);
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

static void note_evicted(uint64_t ram_bytes, uint64_t ram_file_bytes, void *user_data)
{
    hth_model_worker *worker = user_data;

    if (ram_bytes < worker->evicting_ram_bytes)
        worker->life.ram_stuck_ns = hth_os_monotonic_ns();
    if (ram_file_bytes < worker->evicting_ram_file_bytes)
        worker->life.ram_file_stuck_ns = hth_os_monotonic_ns();
    worker->evicting_ram_bytes = worker->evicting_ram_file_bytes = 0;
    tell_eviction(worker, "ram", ram_bytes, HTH_DEPARTURE_PRESSURE);
    tell_eviction(worker, "ram_file", ram_file_bytes, HTH_DEPARTURE_PRESSURE);
}

/* ---- messages for requests ---- */

static uint64_t ms_until(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns > now_ns ? (then_ns - now_ns + 999999) / 1000000 : 0;
}

bool hth_model_worker_is_broken(const hth_model_worker *worker, hearth_error *err)
{
    uint64_t wait_s;

    if (worker->state != HTH_WORKER_BROKEN)
        return false;
    wait_s = (ms_until(worker->pause_end_ns, hth_os_monotonic_ns()) + 999) / 1000;
    wait_s += wait_s == 0;
    (void)hth_fail(err, HEARTH_BUSY,
                   "model '%s' is out of order, its worker having failed %u times in a row: %s; the "
                   "next try is in %llu s",
                   worker->name, worker->policy.n_deaths, worker->last_cause, (unsigned long long)wait_s);
    if (err)
        err->retry_after_s = (uint32_t)wait_s;
    return true;
}

/* True, with the message for requests, if it is not resident and only an order can load it. */
static bool is_absent(const hth_model_worker *worker, hearth_error *err)
{
    if (!hth_model_worker_is_external(worker) || worker->summoned_ns > 0 || worker->is_invited ||
        hth_model_worker_place(worker) == HTH_PLACE_IN)
        return false;
    (void)hth_fail(err, HEARTH_CANCELLED,
                   "model '%s' is not resident, and this server loads models by orders of operators only "
                   "(residency.mode is external); an operator loads it with POST /admin/models/%s/load",
                   worker->name, worker->name);
    return true;
}

/* ---- memory that outlives processes ---- */

static void make_ram(hth_model_worker *worker)
{
    if (worker->ram_bytes == 0 || worker->ram_fd >= 0)
        return;
    worker->ram_fd = hth_os_memory_file_new("hearth-ram"); /* empty; the worker enlarges it */
    if (worker->ram_fd < 0)
        hth_warn(worker->shared->log,
                 "model '%s': no memory that outlives its worker can be had (%s); what its RAM tier holds ends with it",
                 worker->name, strerror(errno));
}

/*
 * Keep only the part of the memory that holds rows. A process that ends in order releases the rest itself. This is for
 * a process that was killed, and for a file without rows.
 */
static void trim_rows(hth_model_worker *worker)
{
    size_t n_rows = 0;

    if (worker->ram_fd >= 0 && hth_ram_directory_trim(worker->ram_fd, &n_rows, NULL) == HEARTH_OK && n_rows == 0)
        drop_rows(worker);
}

/* ---- deaths ---- */

/* A WAITING worker keeps its place among the models; a BROKEN one gave it up. */
static void try_again(hth_model_worker *worker)
{
    if (worker->state == HTH_WORKER_WAITING) {
        hth_model_worker_start(worker);
        return;
    }
    (void)event_del(worker->pause); /* cannot fail here */
    worker->state = HTH_WORKER_STOPPED;
    worker->is_invited = true;
    worker->shared->on_change(worker->shared->user_data);
}

static void on_pause_over(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    try_again(user_data);
}

static void pause_before_next(hth_model_worker *worker, const hth_restart_life *life)
{
    hearth_error err;
    hth_restart next = hth_restart_after_death(&worker->policy, worker->shared->options->healthy_ms, life, draw());
    struct timeval pause = { .tv_sec = next.pause_ms / 1000, .tv_usec = (suseconds_t)(next.pause_ms % 1000) * 1000 };

    worker->state = next.is_broken ? HTH_WORKER_BROKEN : HTH_WORKER_WAITING;
    worker->pause_end_ns = hth_os_monotonic_ns() + hth_ms_to_ns(next.pause_ms);
    (void)event_add(worker->pause, &pause); /* may fail without memory; the tick checks the time, too */
    hth_log_line(worker->shared->log, HEARTH_LOG_ERROR, "hearth", "model '%s': its worker failed: %s; %s in %u ms",
                 worker->name, worker->last_death,
                 next.is_broken ? "it is out of order, and tried again" : "it starts again", next.pause_ms);
    tell(worker, "death",
         json_pack("{s:s, s:o, s:s, s:I, s:I}", "model", worker->name, "cause", hth_json_string(worker->last_death),
                   "state", hth_worker_state_name(worker->state), "deaths", (json_int_t)worker->n_deaths,
                   "restart_in_ms", (json_int_t)next.pause_ms));
    if (!next.is_broken)
        return;
    hth_model_worker_find_weights(worker);
    if (worker->policy.n_breaks > 1 && worker->ram_fd >= 0) {
        hth_warn(worker->shared->log, "model '%s': the next try begins with an empty RAM tier", worker->name);
        drop_rows(worker);
    }
    if (hth_model_worker_is_broken(worker, &err))
        hth_waiters_fail_overdue(&worker->waiters, &err);
}

/* Clients must not see folders: keep only the last part of a quoted path. */
static void copy_without_folders(char *out, size_t capacity, const char *text)
{
    size_t n = 0;

    while (*text && n + 1 < capacity) {
        if (text[0] == '\'' && text[1] == '/') {
            const size_t n_path = strcspn(text + 1, "'");
            const char *slash = text + n_path;

            while (*slash != '/')
                slash--;
            out[n++] = *text;
            text = slash + 1;
        } else {
            out[n++] = *text++;
        }
    }
    out[n] = '\0';
}

/* lines: the last lines of the process, or "". */
static void remember_death(hth_model_worker *worker, const char *cause, const char *lines)
{
    copy_without_folders(worker->last_cause, sizeof(worker->last_cause), cause); /* cut if too long, here and below */
    hth_end_at_character(worker->last_cause, sizeof(worker->last_cause));
    (void)snprintf(worker->last_death, sizeof(worker->last_death), "%s%s%s", cause, *lines ? "; its last lines: " : "",
                   lines);
    hth_end_at_character(worker->last_death, sizeof(worker->last_death));
}

static void suspect_rows(hth_model_worker *worker)
{
    hth_status status;

    hth_status_page_read(worker->page, &status);
    if (status.n_restoring == 0)
        return;
    hth_warn(worker->shared->log,
             "model '%s': %zu rows of the cache were being restored when its worker died; they are set aside",
             worker->name, status.n_restoring);
    hth_status_page_suspects_add(worker->page, (const uint8_t(*)[32])status.restoring, status.n_restoring);
}

static uint64_t retiring_ms(const hth_model_worker *worker)
{
    return (uint64_t)worker->shared->options->drain_timeout_ms + SAVE_MS;
}

/*
 * Another program, such as an out-of-memory daemon, ordered the process to end, and may do so repeatedly. New requests
 * wait for the next process, which starts when the restart policy allows it.
 */
static void on_stopping(void *user_data)
{
    hth_model_worker *worker = user_data;

    if (worker->state != HTH_WORKER_STARTING && worker->state != HTH_WORKER_READY)
        return; /* this server sent it */
    worker->state = HTH_WORKER_STOPPING;
    worker->life.stopped_by_others = true;
    worker->life.kill_ns = hth_os_monotonic_ns() + retiring_ms(worker) * 1000000;
    hth_info(worker->shared->log, "model '%s': its worker (pid %d) was told to end, not by this server", worker->name,
             hth_worker_process_pid(worker->process));
    tell_unload(worker, "others");
}

/* The process has ended: record the cause of its death, and free it. */
static void bury(hth_model_worker *worker, bool was_asked)
{
    char cause[HTH_WORKER_CAUSE_BYTES];
    char lines[sizeof(worker->last_death)];
    size_t n;

    if (was_asked && hth_worker_process_ended_in_order(worker->process))
        goto out;
    if (worker->life.verdict[0])
        (void)snprintf(cause, sizeof(cause), "%s", worker->life.verdict);
    else
        hth_worker_process_cause(worker->process, cause, sizeof(cause));
    n = strlen(cause) + strlen("; its last lines: ");
    hth_worker_process_last_lines(worker->process, lines, n < sizeof(lines) ? sizeof(lines) - n : 1);
    remember_death(worker, cause, lines);
out:
    hth_worker_process_free(worker->process);
    worker->process = NULL;
    trim_rows(worker);
    end_ram(worker);
    worker->evicting_ram_bytes = worker->evicting_ram_file_bytes = 0;
    hth_socket_folder_remove(worker->socket_path);
}

void hth_model_worker_reap(hth_model_worker *worker)
{
    uint64_t now_ns = hth_os_monotonic_ns();
    const hth_restart_life life = {
        .ready_ms = worker->life.ready_ns > 0 ? (now_ns - worker->life.ready_ns) / 1000000 : 0,
        .has_served = worker->life.has_served,
    };
    bool was_asked, was_stopped;
    hearth_error err;

    take_answer(worker, now_ns);
    if (!worker->process || !hth_worker_process_has_ended(worker->process))
        return;
    if (hth_worker_process_said_stopping(worker->process))
        on_stopping(worker); /* its end was seen before its message was read */
    was_stopped = worker->life.stopped_by_others && hth_worker_process_ended_in_order(worker->process);
    was_asked = worker->state == HTH_WORKER_STOPPING && !worker->life.is_condemned && !worker->life.stopped_by_others;
    if (!was_asked && !was_stopped) {
        worker->n_deaths++;
        suspect_rows(worker);
    }
    bury(worker, was_asked || was_stopped);
    if (was_stopped)
        remember_death(worker, "it was told to end, not by this server", "");
    if (!was_asked && !worker->shared->is_stopping &&
        !(was_stopped && worker->on_demand && worker->waiters.n == 0 &&
          !hth_model_worker_is_external(worker))) { /* the next request starts it */
        pause_before_next(worker, &life);
        return;
    }
    worker->state = HTH_WORKER_STOPPED;
    note_end(worker);
    hth_info(worker->shared->log, "model '%s': its worker has ended", worker->name);
    tell(worker, "unloaded", json_pack("{s:s}", "model", worker->name));
    if (worker->life.start_again && !worker->shared->is_stopping) {
        hth_model_worker_start(worker);
        return;
    }
    if (is_absent(worker, &err))
        hth_waiters_tell_failed(&worker->waiters, 0, &err);
    worker->shared->on_change(worker->shared->user_data);
}

/* Kill a process that hangs. It is reaped later. */
__attribute__((format(printf, 2, 3))) static void condemn(hth_model_worker *worker, const char *verdict, ...)
{
    va_list arguments;

    va_start(arguments, verdict);
    (void)vsnprintf(worker->life.verdict, sizeof(worker->life.verdict), verdict, arguments);
    va_end(arguments);
    worker->n_hangs++;
    worker->life.is_condemned = true;
    worker->state = HTH_WORKER_STOPPING;
    worker->life.kill_ns = 0;
    hth_warn(worker->shared->log, "model '%s': its worker (pid %d) is killed: %s", worker->name,
             hth_worker_process_pid(worker->process), worker->life.verdict);
    hth_worker_process_kill(worker->process);
}

/* ---- life ---- */

static void on_progress(float fraction, void *user_data)
{
    hth_model_worker *worker = user_data;

    worker->life.progress = fraction;
    worker->life.progress_ns = hth_os_monotonic_ns();
    tell_progress(worker);
}

static void on_hashing(float fraction, void *user_data)
{
    hth_model_worker *worker = user_data;

    worker->life.progress = fraction;
    if (worker->state == HTH_WORKER_READY)
        tell_progress(worker);
}

bool hth_model_worker_takes_requests(const hth_model_worker *worker)
{
    return worker->state == HTH_WORKER_READY && !worker->is_closed;
}

static bool takes_requests(void *user_data)
{
    return hth_model_worker_takes_requests(user_data);
}

static void on_ready(void *user_data)
{
    hth_model_worker *worker = user_data;

    if (worker->state != HTH_WORKER_STARTING)
        return; /* it was already told to end */
    worker->state = HTH_WORKER_READY;
    worker->was_ready = true;
    worker->life.progress = 1;
    worker->life.reported_progress = 0; /* of hashing, from here on */
    worker->life.ready_ns = hth_os_monotonic_ns();
    worker->used_ns = worker->life.ready_ns; /* idle time begins here */
    worker->load_ns = worker->life.ready_ns - worker->life.started_ns;
    hth_model_worker_find_weights(worker);
    hth_info(worker->shared->log, "model '%s': its worker (pid %d) is ready after %.1f s", worker->name,
             hth_worker_process_pid(worker->process), (double)worker->load_ns / 1e9);
    tell(worker, "ready",
         json_pack("{s:s, s:i, s:I}", "model", worker->name, "pid", hth_worker_process_pid(worker->process), "load_ms",
                   (json_int_t)(worker->load_ns / 1000000)));
    event_active(worker->notify, EV_TIMEOUT, 0);
}

static void notify_waiters(evutil_socket_t fd, short what, void *user_data)
{
    hth_model_worker *worker = user_data;

    (void)fd;
    (void)what;
    if (takes_requests(worker))
        hth_waiters_tell_ready(&worker->waiters, worker->socket_path, worker->generation, takes_requests, worker);
}

static hearth_status start_process(hth_model_worker *worker, hearth_error *err)
{
    hth_buffer adapters = { .text = NULL };
    int carrier_fd = -1;
    hearth_status status = hth_socket_folder_make(worker->shared->directory, worker->slot, worker->generation,
                                                  worker->socket_path, sizeof(worker->socket_path), err);

    if (status != HEARTH_OK)
        return status;
    if (!worker->page) {
        status = hth_status_page_new(&worker->page, &worker->status_fd, err);
        if (status != HEARTH_OK)
            return status;
    }
    hth_status_page_reset(worker->page);
    make_ram(worker);
    if (worker->adapters)
        hth_adapter_state_write(worker->adapters, &adapters);
    if (adapters.failed) {
        hth_buffer_deinit(&adapters);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the adapters of model '%s'", worker->name);
    }
    carrier_fd = hth_carrier_link_attach(worker->shared->carrier, worker->name, worker->arguments);
    status = hth_worker_process_start(&(hth_worker_process_options){ .base = worker->shared->base,
                                                                     .program = worker->shared->program,
                                                                     .name = worker->name,
                                                                     .worker = worker->arguments,
                                                                     .socket_path = worker->socket_path,
                                                                     .status_fd = worker->status_fd,
                                                                     .ram_fd = worker->ram_fd,
                                                                     .carrier_fd = carrier_fd > 0 ? carrier_fd : 0,
                                                                     .has_ram_quota = worker->ram_bytes > 0,
                                                                     .ram_quota = worker->ram_share,
                                                                     .adapter_state = adapters.text,
                                                                     .no_sandbox = worker->no_sandbox,
                                                                     .log = worker->shared->log,
                                                                     .on_progress = on_progress,
                                                                     .on_ready = on_ready,
                                                                     .on_hashing = on_hashing,
                                                                     .on_stopping = on_stopping,
                                                                     .on_evicted = note_evicted,
                                                                     .on_ram = note_ram,
                                                                     .user_data = worker },
                                      &worker->process, err);
    if (carrier_fd >= 0)
        (void)close(carrier_fd); /* the worker has its own */
    hth_buffer_deinit(&adapters);
    return status;
}

void hth_model_worker_start(hth_model_worker *worker)
{
    const uint64_t now_ns = hth_os_monotonic_ns();
    hearth_error err;

    assert(!worker->process);
    (void)event_del(worker->pause); /* cannot fail here */
    worker->generation++;
    worker->n_starts++;
    worker->life = (hth_worker_life){ .started_ns = now_ns, .progress_ns = now_ns };
    note_start(worker);
    begin_ram(worker);
    if (start_process(worker, &err) != HEARTH_OK) {
        hth_socket_folder_remove(worker->socket_path);
        worker->n_deaths++;
        remember_death(worker, err.message, "");
        pause_before_next(worker, &(hth_restart_life){ .ready_ms = 0 });
        return;
    }
    worker->state = HTH_WORKER_STARTING;
    hth_info(worker->shared->log, "model '%s': its worker starts (pid %d)", worker->name,
             hth_worker_process_pid(worker->process));
    tell(worker, "load",
         json_pack("{s:s, s:i, s:I}", "model", worker->name, "pid", hth_worker_process_pid(worker->process),
                   "generation", (json_int_t)worker->generation));
}

/* The silence after which its event loop counts as hung; 0: never. */
static uint32_t loop_hang_ms_of(const hth_model_worker *worker)
{
    uint32_t hang_ms = worker->shared->options->hang_ms;

    return hang_ms < LOOP_HANG_MS ? hang_ms : LOOP_HANG_MS;
}

void hth_model_worker_stop(hth_model_worker *worker, uint32_t drain_ms, uint32_t timeout_ms, bool again)
{
    const uint32_t hang_ms = loop_hang_ms_of(worker);
    uint64_t kill_ns;
    hearth_error err;

    /* Before it is ready, it has nothing to finish or save, and its event loop does not show whether it hangs. */
    if (worker->life.ready_ns == 0 && hang_ms > 0 && hang_ms < timeout_ms)
        timeout_ms = hang_ms;
    kill_ns = hth_os_monotonic_ns() + hth_ms_to_ns(timeout_ms);
    worker->life.start_again = again;
    worker->is_invited = false;
    worker->summoned_ns = 0;
    if (again)
        worker->drops_host = worker->drops_rows = false;
    if (!worker->process) {
        (void)event_del(worker->pause);
        worker->state = HTH_WORKER_STOPPED;
        worker->policy = (hth_restart_policy){ 0 };
        note_end(worker);
        if (again)
            worker->summoned_ns = hth_os_monotonic_ns();
        else if (is_absent(worker, &err))
            hth_waiters_tell_failed(&worker->waiters, 0, &err);
        worker->shared->on_change(worker->shared->user_data);
        return;
    }
    worker->policy = (hth_restart_policy){ 0 }; /* an order clears the history of deaths */
    if (worker->state == HTH_WORKER_STOPPING) {
        /* It must end now. The time until SIGKILL only gets shorter. */
        worker->life.kill_ns = worker->life.kill_ns > kill_ns ? kill_ns : worker->life.kill_ns;
        worker->life.is_condemned = false;
        worker->life.stopped_by_others = false;
        return;
    }
    worker->life.kill_ns = kill_ns;
    worker->state = HTH_WORKER_STOPPING;
    tell_unload(worker, worker->shared->is_stopping ? "shutdown" : reason_of(worker->departs));
    hth_worker_process_terminate(worker->process, drain_ms);
}

void hth_model_worker_retire(hth_model_worker *worker, bool drains, bool again)
{
    uint64_t ms = retiring_ms(worker);

    hth_model_worker_stop(worker, drains ? worker->shared->options->drain_timeout_ms : 0,
                          ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX, again);
}

/* The options change: keep only adapters that still mean the same. */
static void reconsider_adapters(hth_model_worker *worker, const char *const *options)
{
    if (worker->adapters && !hth_worker_arguments_have_same(worker->arguments, options, "--lora-dir")) {
        if (worker->adapters->n_loaded > 0)
            hth_warn(worker->shared->log,
                     "model '%s': lora_dir is another folder now; the adapters that were loaded from the old one go",
                     worker->name);
        hth_model_worker_drop_adapters(worker);
    }
    if (worker->adapters && !hth_worker_arguments_have_same(worker->arguments, options, "--lora"))
        hth_adapter_state_forget_configured(worker->adapters);
}

bool hth_model_worker_update(hth_model_worker *worker, const hth_server_model *model)
{
    const char *const *arguments;
    bool drains;

    if (!take_residency(worker, model))
        return false;
    if (worker->state == HTH_WORKER_BROKEN)
        worker->pause_end_ns = 0; /* the operator may have repaired it, or its file may be complete now */
    if (worker->ram_bytes == model->ram_bytes && worker->no_sandbox == worker->shared->options->no_sandbox &&
        hth_worker_arguments_equal(worker->arguments, model->worker))
        return true;
    arguments = hth_worker_arguments_copy(model->worker);
    if (!arguments)
        return false;
    drains = !hth_worker_arguments_mean_same(worker->arguments, model->worker);
    reconsider_adapters(worker, model->worker);
    free((void *)worker->arguments);
    worker->arguments = arguments;
    hth_model_worker_find_weights(worker);
    recall(worker);
    worker->measures = false; /* its process has the old options */
    worker->bytes = worker->learned.bytes;
    if (worker->ram_bytes != model->ram_bytes)
        drop_rows(worker);
    worker->ram_bytes = model->ram_bytes;
    worker->no_sandbox = worker->shared->options->no_sandbox;
    if (hth_model_worker_place(worker) == HTH_PLACE_IN) /* a worker that leaves goes on leaving */
        hth_model_worker_retire(worker, drains, true);
    return true;
}

/* ---- requests ---- */

void hth_model_worker_note_broken(hth_model_worker *worker, uint64_t generation)
{
    if (worker->state != HTH_WORKER_READY || worker->generation != generation)
        return;
    hth_model_worker_reap(worker);
    if (worker->state == HTH_WORKER_READY && worker->generation == generation && worker->life.doubted_ns == 0)
        worker->life.doubted_ns = hth_os_monotonic_ns();
}

void hth_model_worker_want(hth_model_worker *worker, uint64_t after, hth_worker_waiter *waiter)
{
    hearth_error err;

    if (worker->shared->is_stopping) {
        (void)hth_fail(&err, HEARTH_BUSY, "the server is shutting down");
        err.retry_after_s = HTH_STOPPING_RETRY_S;
        waiter->on_failed(waiter, &err);
        return;
    }
    if (after > 0 && worker->generation <= after)
        hth_model_worker_note_broken(worker, worker->generation);
    if ((!waiter->outlasts_breaks && hth_model_worker_is_broken(worker, &err)) || is_absent(worker, &err)) {
        waiter->on_failed(waiter, &err);
        return;
    }
    if (after == 0) /* otherwise it is the same use */
        note_use(worker);
    if (takes_requests(worker) && worker->generation > after) {
        hth_waiters_give(&worker->waiters, waiter, worker->socket_path, worker->generation);
        return;
    }
    if (after == 0 &&
        worker->waiters.n >=
            worker->shared->options->requests_max) { /* a request that had a worker before is never refused here */
        (void)hth_fail(&err, HEARTH_BUSY, "%u requests wait for model '%s' already", worker->waiters.n, worker->name);
        err.retry_after_s = 5;
        waiter->on_failed(waiter, &err);
        return;
    }
    waiter->after = after;
    waiter->until_ns = hth_os_monotonic_ns() + hth_ms_to_ns(worker->shared->options->relay.wait_timeout_ms);
    hth_waiters_add(&worker->waiters, waiter);
}

/* ---- adapters ---- */

bool hth_model_worker_set_adapters(hth_model_worker *worker, uint64_t generation, const hth_adapter_state *state)
{
    bool has_process = worker->state == HTH_WORKER_READY || worker->state == HTH_WORKER_STARTING ||
                       worker->state == HTH_WORKER_STOPPING;

    if (generation == 0 ? has_process : worker->generation != generation || worker->state != HTH_WORKER_READY)
        return false; /* the next process starts with the old state */
    if (!worker->adapters)
        worker->adapters = malloc(sizeof(*worker->adapters));
    if (worker->adapters) {
        *worker->adapters = *state;
        worker->adapters->added = 0;
    }
    return worker->adapters != NULL;
}

void hth_model_worker_drop_adapters(hth_model_worker *worker)
{
    free(worker->adapters);
    worker->adapters = NULL;
}

/* ---- pages ---- */

bool hth_model_worker_is_hashing(const hth_model_worker *worker)
{
    return worker->state == HTH_WORKER_READY && worker->life.progress < 1;
}

void hth_model_worker_view(const hth_model_worker *worker, hth_worker_view *out)
{
    uint64_t now_ns = hth_os_monotonic_ns();

    memset(out, 0, sizeof(*out));
    view_residency(worker, now_ns, out);
    out->model = worker->name;
    out->state = worker->state;
    out->was_ready = worker->was_ready;
    out->generation = worker->generation;
    out->n_starts = worker->n_starts;
    out->n_deaths = worker->n_deaths;
    out->n_hangs = worker->n_hangs;
    out->n_waiters = worker->waiters.n;
    if (worker->state == HTH_WORKER_WAITING || worker->state == HTH_WORKER_BROKEN)
        out->restart_in_ms = (uint32_t)ms_until(worker->pause_end_ns, now_ns); /* at most ten minutes */
    (void)snprintf(out->last_death, sizeof(out->last_death), "%s", worker->last_death);
    if (!worker->process)
        return;
    out->pid = hth_worker_process_pid(worker->process);
    out->load_progress = worker->life.progress;
    out->is_hashing = hth_model_worker_is_hashing(worker);
    out->socket_path = worker->state == HTH_WORKER_READY ? worker->socket_path : NULL;
    out->up_ms = (now_ns - worker->life.started_ns) / 1000000;
    out->resident_bytes = hth_os_process_resident_bytes(out->pid);
    hth_status_page_read(worker->page, &out->status);
}

/* How long the next load takes, or the rest of the one that goes on. */
static uint64_t load_left_ns(const hth_model_worker *worker)
{
    const uint64_t passed_ns =
        worker->state == HTH_WORKER_STARTING ? hth_os_monotonic_ns() - worker->life.started_ns : 0;

    if (worker->state == HTH_WORKER_READY || worker->load_ns == 0)
        return 0;
    return worker->load_ns > passed_ns ? worker->load_ns - passed_ns : 1000000;
}

void hth_model_worker_load(const hth_model_worker *worker, hth_worker_load *out)
{
    hth_status status = { .has_numbers = false }; /* the numbers are then zeros */
    uint8_t digest[HTH_STATUS_MODEL_BYTES], keyspace[HTH_STATUS_KEYSPACE_BYTES];

    if (worker->process)
        hth_status_page_read(worker->page, &status);
    *out = (hth_worker_load){ .load_ms = (uint32_t)hth_smaller(load_left_ns(worker) / 1000000, UINT32_MAX),
                              .is_ready = worker->state == HTH_WORKER_READY,
                              .is_broken = worker->state == HTH_WORKER_BROKEN,
                              .has_history = worker->has_history,
                              .n_at_work = worker->waiters.n_holders,
                              .n_waiting = worker->waiters.n,
                              .n_parallel = status.info.n_parallel,
                              .generation = worker->generation,
                              .n_deaths = worker->n_deaths,
                              .n_prompt_left = status.info.n_prompt_left,
                              .prompt_token_ns = status.info.prompt_token_ns,
                              .reply_token_ns = status.info.reply_token_ns };
    if (worker->shared->carrier)
        out->pull_token_ns = hth_carrier_link_token_ns(worker->shared->carrier, worker->name);
    if (!worker->page || !hth_status_page_model(worker->page, digest, keyspace))
        return;
    hth_hex_encode(digest, sizeof(digest), out->digest);
    hth_hex_encode(keyspace, sizeof(keyspace), out->keyspace);
}

/* ---- new and free ---- */

static void on_idle(void *user_data)
{
    hth_model_worker *worker = user_data;

    worker->used_ns = worker->idle_ns = hth_os_monotonic_ns();
    worker->has_worked |= worker->measures;
    worker->shared->on_change(worker->shared->user_data);
}

hearth_status hth_model_worker_new(hth_worker_shared *shared, const hth_server_model *model, unsigned slot,
                                   hth_model_worker **out, hearth_error *err)
{
    hth_model_worker *worker = calloc(1, sizeof(*worker));

    if (!worker)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for model '%s'", model->name);
    worker->shared = shared;
    worker->slot = slot;
    worker->status_fd = -1;
    worker->ram_fd = -1;
    worker->ram_bytes = model->ram_bytes;
    worker->no_sandbox = shared->options->no_sandbox;
    worker->was_asked = true; /* without a file */
    hth_waiters_init(&worker->waiters, on_idle, worker);
    worker->name = strdup(model->name);
    worker->arguments = hth_worker_arguments_copy(model->worker);
    worker->pause = evtimer_new(shared->base, on_pause_over, worker);
    worker->notify = evtimer_new(shared->base, notify_waiters, worker);
    if (!worker->name || !worker->arguments || !worker->pause || !worker->notify || !take_residency(worker, model)) {
        hth_model_worker_free(worker);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for model '%s'", model->name);
    }
    *out = worker;
    return HEARTH_OK;
}

void hth_model_worker_kill(hth_model_worker *worker)
{
    if (worker->process)
        hth_worker_process_kill(worker->process);
    if (worker->asked)
        hth_worker_process_kill(worker->asked);
}

void hth_model_worker_free(hth_model_worker *worker)
{
    if (!worker)
        return;
    hth_waiters_drop(&worker->waiters);
    hth_worker_process_free(worker->process);
    stop_asking(worker);
    hth_socket_folder_remove(worker->socket_path);
    drop_rows(worker);
    hth_status_page_free(worker->page);
    if (worker->status_fd >= 0)
        (void)close(worker->status_fd); /* the page is memory */
    if (worker->pause)
        event_free(worker->pause);
    if (worker->notify)
        event_free(worker->notify);
    free(worker->adapters);
    free((void *)worker->arguments);
    free(worker->path);
    free(worker->name);
    free(worker);
}

/*
 * ---- orders that change the place of a model's weights (docs/models.md) ----
 *
 * A model without a process has a host copy if its folder of host weights keeps them. A pin holds it in one place: on
 * the device no other model makes it leave; in host memory its copy is not removed. A pin does not bring
 * the model there, so an order does both.
 */

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
    tell(worker, "no_room", json_pack("{s:s}", "model", worker->name));
    if (is_absent(worker, &err))
        hth_waiters_tell_failed(&worker->waiters, 0, &err);
}

bool hth_model_worker_keeps_host_weights(const hth_model_worker *worker)
{
    return *host_folder(worker) && hth_worker_arguments_have_flag(worker->arguments, "--keep-host-weights");
}

bool hth_model_worker_must_load_for(const hth_model_worker *worker, hth_residency to)
{
    if (worker->state != HTH_WORKER_STOPPING && hth_model_worker_is_in(worker))
        return false;
    return to == HTH_RESIDENCY_DEVICE || to == HTH_RESIDENCY_PINNED_DEVICE ||
           (to != HTH_RESIDENCY_EVICTED && worker->host_bytes == 0);
}

/* End the process of a READY model. One that loads, or will load, leaves when it has filled the folder. */
static void leave_for_host(hth_model_worker *worker)
{
    if (worker->state == HTH_WORKER_STARTING || worker->state == HTH_WORKER_WAITING)
        worker->is_dismissed = true;
    else if (hth_model_worker_is_in(worker))
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
    const bool leaves = !worker->is_pinned && hth_model_worker_is_in(worker);

    if (!worker->is_pinned && worker->state != HTH_WORKER_BROKEN)
        hth_model_worker_retire(worker, true, false); /* a model that is out no longer waits for room */
    if (drops_rows && !worker->is_pinned && !worker->is_host_pinned) {
        worker->drops_rows = worker->process != NULL;
        if (!worker->process)
            evict_rows(worker, HTH_DEPARTURE_NONE);
    }
    return leaves;
}

/*
 * ---- checks for hangs and time-outs of a worker ----
 *
 * The front counts only silence that it has observed itself. If its own loop stalled (a suspended laptop, an overloaded
 * machine), it counts ages on the status page from the time when its loop ran again.
 */

enum { DOUBT_MS = 1000 }; /* after a broken connection, the loop must run within this time */

static void fail_late(const hth_model_worker *worker, hearth_error *err)
{
    char death[HTH_WORKER_CAUSE_BYTES + 32] = "";
    double wait_s = worker->shared->options->relay.wait_timeout_ms / 1e3;

    if (worker->last_cause[0])
        (void)snprintf(death, sizeof(death), "; it failed before: %s", worker->last_cause);
    if (worker->state == HTH_WORKER_STARTING)
        (void)hth_fail(err, HEARTH_TIMED_OUT, "model '%s' was not ready within %.4g s: it is loading (%.0f %%)%s",
                       worker->name, wait_s, 100.0 * (double)worker->life.progress, death);
    else if (worker->state == HTH_WORKER_STOPPED || worker->is_closed)
        (void)hth_fail(err, HEARTH_TIMED_OUT,
                       "model '%s' was not ready within %.4g s: the models that are in use leave no memory for it%s",
                       worker->name, wait_s, death);
    else
        (void)hth_fail(err, HEARTH_TIMED_OUT, "model '%s' was not ready within %.4g s: its worker is %s%s",
                       worker->name, wait_s, hth_worker_state_name(worker->state), death);
}

/* The part of an age that the front has observed. */
static uint64_t watched_ms(const hth_model_worker *worker, uint64_t age_ns, uint64_t now_ns)
{
    uint64_t watched_ns = now_ns - worker->shared->watching_since_ns;

    return (age_ns < watched_ns ? age_ns : watched_ns) / 1000000;
}

static void look_for_hangs(hth_model_worker *worker, uint64_t now_ns)
{
    uint32_t hang_ms = worker->shared->options->hang_ms;
    uint32_t start_timeout_ms = worker->shared->options->start_timeout_ms;
    const uint32_t loop_hang_ms = loop_hang_ms_of(worker);
    uint64_t tick_ns, loop_ns;

    hth_status_page_read_pulse(worker->page, &tick_ns, &loop_ns);
    if (loop_ns == UINT64_MAX)
        loop_ns = 0; /* the loop does not run at the very start and the end of a worker */
    else if (worker->state == HTH_WORKER_READY && loop_ns > now_ns - worker->life.ready_ns)
        loop_ns = now_ns - worker->life.ready_ns; /* it may not have run since */
    if (hang_ms > 0 && watched_ms(worker, tick_ns, now_ns) > hang_ms)
        condemn(worker, "an evaluation took longer than %.4g s", hang_ms / 1e3);
    else if (hang_ms > 0 && watched_ms(worker, loop_ns, now_ns) > loop_hang_ms)
        condemn(worker, "it did not answer for %.4g s", loop_hang_ms / 1e3);
    else if (worker->state == HTH_WORKER_STARTING && start_timeout_ms > 0 &&
             watched_ms(worker, now_ns - worker->life.progress_ns, now_ns) > start_timeout_ms)
        condemn(worker, "loading did not go on for %.4g s (at %.0f %%)", start_timeout_ms / 1e3,
                100.0 * (double)worker->life.progress);
}

/* An orderly end may take until kill_ns. A worker whose loop stalls is killed at once. */
static void look_after_ending(hth_model_worker *worker, uint64_t now_ns)
{
    const uint32_t loop_hang_ms = loop_hang_ms_of(worker);
    uint64_t tick_ns, loop_ns;
    bool stands_still;

    hth_status_page_read_pulse(worker->page, &tick_ns, &loop_ns);
    stands_still = loop_hang_ms > 0 && loop_ns < UINT64_MAX && watched_ms(worker, loop_ns, now_ns) > loop_hang_ms;
    if (now_ns < worker->life.kill_ns && !stands_still)
        return;
    worker->life.kill_ns = 0;
    (void)snprintf(worker->life.verdict, sizeof(worker->life.verdict), "killed, since it %s",
                   stands_still ? "stood still when asked to end" : "did not end in time when asked to");
    hth_worker_process_kill(worker->process);
}

/*
 * A connection of this worker broke: has its loop run since? Checked even with hang_ms 0, because the worker may be
 * dying.
 */
static void settle_doubt(hth_model_worker *worker, uint64_t now_ns)
{
    uint64_t doubted_for_ns = now_ns - worker->life.doubted_ns;
    uint64_t tick_ns, loop_ns;

    hth_status_page_read_pulse(worker->page, &tick_ns, &loop_ns);
    if (loop_ns < doubted_for_ns) {
        hearth_error err;

        worker->life.doubted_ns = 0;
        (void)hth_fail(&err, HEARTH_BUSY,
                       "the worker of model '%s' broke a connection, though it is well; its log may "
                       "tell why",
                       worker->name);
        err.retry_after_s = 1;
        hth_waiters_tell_failed(&worker->waiters, worker->generation, &err);
    } else if (watched_ms(worker, doubted_for_ns, now_ns) > DOUBT_MS) {
        condemn(worker, "it broke a connection and did not answer any more");
    }
}

void hth_model_worker_tick(hth_model_worker *worker, uint64_t now_ns)
{
    hth_model_worker_reap(worker); /* usually SIGCHLD has already done this */
    if (worker->process)
        hth_worker_process_tick(worker->process);
    if ((worker->state == HTH_WORKER_WAITING || worker->state == HTH_WORKER_BROKEN) && now_ns >= worker->pause_end_ns)
        try_again(worker);
    look(worker, now_ns);
    if (worker->state == HTH_WORKER_STARTING || worker->state == HTH_WORKER_READY)
        look_for_hangs(worker, now_ns);
    if (worker->state == HTH_WORKER_READY && worker->life.doubted_ns > 0)
        settle_doubt(worker, now_ns);
    if (worker->state == HTH_WORKER_STOPPING && worker->life.kill_ns > 0)
        look_after_ending(worker, now_ns);
    if (hth_waiters_has_late(&worker->waiters, now_ns)) {
        hearth_error err;

        fail_late(worker, &err);
        hth_waiters_tell_late(&worker->waiters, now_ns, &err);
    }
}
