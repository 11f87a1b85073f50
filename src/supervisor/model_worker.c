/*
 * model_worker.c - see model_worker.h
 */
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "cache/ram_directory.h"
#include "supervisor/model_worker_inside.h"
#include "supervisor/runtime_folder.h"
#include "supervisor/string_list.h"
#include "supervisor/worker_arguments.h"

enum { SAVE_MS = 35000 }; /* an ending worker saves for at most 30 s */

static double draw(void)
{
    uint32_t number;

    hth_os_random(&number, sizeof(number));
    return number / 4294967296.0;
}

/* ---- messages ---- */

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

void hth_model_worker_fail_waiters(hth_model_worker *worker, const hearth_error *err)
{
    hth_waiters_tell_failed(&worker->waiters, 0, err);
}

/* ---- memory that outlives processes ---- */

void hth_model_worker_drop_rows(hth_model_worker *worker)
{
    if (worker->ram_fd >= 0)
        (void)close(worker->ram_fd); /* a running process has its own descriptor */
    worker->ram_fd = -1;
    if (!worker->process)
        hth_model_worker_end_ram(worker);
}

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
 * Keep of the memory only what holds rows. A process that ends in order gives the rest back itself; this is for one
 * that
 * was killed, and for a file without rows.
 */
static void trim_rows(hth_model_worker *worker)
{
    size_t n_rows = 0;

    if (worker->ram_fd >= 0 && hth_ram_directory_trim(worker->ram_fd, &n_rows, NULL) == HEARTH_OK && n_rows == 0)
        hth_model_worker_drop_rows(worker);
}

/* ---- deaths ---- */

/* A worker that waits keeps its place among the models; one that is out of order gave it up. */
void hth_model_worker_try_again(hth_model_worker *worker)
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
    hth_model_worker_try_again(user_data);
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
    hth_model_worker_tell_death(worker, next.pause_ms);
    if (!next.is_broken)
        return;
    hth_model_worker_find_weights(worker);
    if (worker->policy.n_breaks > 1 && worker->ram_fd >= 0) {
        hth_warn(worker->shared->log, "model '%s': the next try begins with an empty RAM tier", worker->name);
        hth_model_worker_drop_rows(worker);
    }
    if (hth_model_worker_is_broken(worker, &err))
        hth_waiters_tell_impatient(&worker->waiters, &err);
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
 * Another program told the process to end, and may do so again and again (an out-of-memory daemon, say). New requests
 * wait for the next process, which starts when the restart policy allows it.
 */
static void on_stopping(void *user_data)
{
    hth_model_worker *worker = user_data;

    if (worker->state != HTH_WORKER_STARTING && worker->state != HTH_WORKER_READY)
        return; /* this server did */
    worker->state = HTH_WORKER_STOPPING;
    worker->told_by_others = true;
    worker->kill_ns = hth_os_monotonic_ns() + retiring_ms(worker) * 1000000;
    hth_info(worker->shared->log, "model '%s': its worker (pid %d) was told to end, not by this server", worker->name,
             hth_worker_process_pid(worker->process));
    hth_model_worker_tell_unload(worker, "others");
}

/* The process has ended: note the cause of its death, and free it. */
static void bury(hth_model_worker *worker, bool was_asked)
{
    char cause[HTH_CAUSE_BYTES];
    char lines[sizeof(worker->last_death)];
    size_t n;

    if (was_asked && hth_worker_process_ended_in_order(worker->process))
        goto out;
    if (worker->verdict[0])
        (void)snprintf(cause, sizeof(cause), "%s", worker->verdict);
    else
        hth_worker_process_cause(worker->process, cause, sizeof(cause));
    n = strlen(cause) + strlen("; its last lines: ");
    hth_worker_process_last_lines(worker->process, lines, n < sizeof(lines) ? sizeof(lines) - n : 1);
    remember_death(worker, cause, lines);
out:
    hth_worker_process_free(worker->process);
    worker->process = NULL;
    trim_rows(worker);
    hth_model_worker_end_ram(worker);
    worker->evicting_ram_bytes = worker->evicting_ram_file_bytes = 0;
    hth_socket_folder_remove(worker->socket_path);
}

void hth_model_worker_reap(hth_model_worker *worker)
{
    uint64_t now_ns = hth_os_monotonic_ns();
    const hth_restart_life life = {
        .ready_ms = worker->ready_ns > 0 ? (now_ns - worker->ready_ns) / 1000000 : 0,
        .has_served = worker->has_served,
    };
    bool was_asked, was_told;
    hearth_error err;

    hth_model_worker_take_answer(worker, now_ns);
    if (!worker->process || !hth_worker_process_has_ended(worker->process))
        return;
    if (hth_worker_process_said_stopping(worker->process))
        on_stopping(worker); /* its end was seen before its message */
    was_told = worker->told_by_others && hth_worker_process_ended_in_order(worker->process);
    was_asked = worker->state == HTH_WORKER_STOPPING && !worker->is_condemned && !worker->told_by_others;
    if (!was_asked && !was_told) {
        worker->n_deaths++;
        suspect_rows(worker);
    }
    bury(worker, was_asked || was_told);
    if (was_told)
        remember_death(worker, "it was told to end, not by this server", "");
    if (!was_asked && !worker->shared->is_stopping &&
        !(was_told && worker->on_demand && worker->waiters.n == 0 &&
          !hth_model_worker_is_external(worker))) { /* the next request starts it */
        pause_before_next(worker, &life);
        return;
    }
    worker->state = HTH_WORKER_STOPPED;
    hth_model_worker_note_end(worker);
    hth_info(worker->shared->log, "model '%s': its worker has ended", worker->name);
    hth_model_worker_tell_unloaded(worker);
    if (worker->start_again && !worker->shared->is_stopping) {
        hth_model_worker_start(worker);
        return;
    }
    if (hth_model_worker_is_absent(worker, &err))
        hth_model_worker_fail_waiters(worker, &err);
    worker->shared->on_change(worker->shared->user_data);
}

void hth_model_worker_condemn(hth_model_worker *worker, bool is_hang, const char *verdict)
{
    (void)snprintf(worker->verdict, sizeof(worker->verdict), "%s", verdict);
    worker->n_hangs += is_hang;
    worker->is_condemned = true;
    worker->state = HTH_WORKER_STOPPING;
    worker->kill_ns = 0;
    hth_warn(worker->shared->log, "model '%s': its worker (pid %d) is killed: %s", worker->name,
             hth_worker_process_pid(worker->process), verdict);
    hth_worker_process_kill(worker->process);
}

/* ---- life ---- */

static void on_progress(float fraction, void *user_data)
{
    hth_model_worker *worker = user_data;

    worker->progress = fraction;
    worker->progress_ns = hth_os_monotonic_ns();
    hth_model_worker_tell_progress(worker);
}

static void on_hashing(float fraction, void *user_data)
{
    hth_model_worker *worker = user_data;

    worker->progress = fraction;
    if (worker->state == HTH_WORKER_READY)
        hth_model_worker_tell_progress(worker);
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
        return; /* it was told to end before */
    worker->state = HTH_WORKER_READY;
    worker->was_ready = true;
    worker->progress = 1;
    worker->told_progress = 0; /* of hashing, from here on */
    worker->ready_ns = hth_os_monotonic_ns();
    worker->used_ns = worker->ready_ns; /* a rest begins here */
    hth_model_worker_find_weights(worker);
    hth_info(worker->shared->log, "model '%s': its worker (pid %d) is ready after %.1f s", worker->name,
             hth_worker_process_pid(worker->process), (double)(worker->ready_ns - worker->started_ns) / 1e9);
    hth_model_worker_tell_ready(worker);
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
    status = hth_worker_process_start(&(hth_worker_process_options){ .base = worker->shared->base,
                                                                     .program = worker->shared->program,
                                                                     .name = worker->name,
                                                                     .worker = (const char *const *)worker->arguments,
                                                                     .socket_path = worker->socket_path,
                                                                     .status_fd = worker->status_fd,
                                                                     .ram_fd = worker->ram_fd,
                                                                     .has_ram_quota = worker->ram_bytes > 0,
                                                                     .ram_quota = worker->ram_share,
                                                                     .adapter_state = adapters.text,
                                                                     .no_sandbox = worker->no_sandbox,
                                                                     .log = worker->shared->log,
                                                                     .on_progress = on_progress,
                                                                     .on_ready = on_ready,
                                                                     .on_hashing = on_hashing,
                                                                     .on_stopping = on_stopping,
                                                                     .on_evicted = hth_model_worker_note_evicted,
                                                                     .on_ram = hth_model_worker_note_ram,
                                                                     .user_data = worker },
                                      &worker->process, err);
    hth_buffer_deinit(&adapters);
    return status;
}

void hth_model_worker_start(hth_model_worker *worker)
{
    hearth_error err;

    assert(!worker->process);
    (void)event_del(worker->pause); /* cannot fail here */
    worker->generation++;
    worker->n_starts++;
    worker->started_ns = hth_os_monotonic_ns();
    hth_model_worker_note_start(worker);
    hth_model_worker_begin_ram(worker);
    worker->progress_ns = worker->started_ns;
    worker->progress = 0;
    worker->told_progress = 0;
    worker->ram_stuck_ns = worker->ram_file_stuck_ns = 0;
    worker->ready_ns = 0;
    worker->has_served = false;
    worker->doubted_ns = 0;
    worker->kill_ns = 0;
    worker->is_condemned = false;
    worker->start_again = false;
    worker->told_by_others = false;
    worker->verdict[0] = '\0';
    if (start_process(worker, &err) != HEARTH_OK) {
        hth_socket_folder_remove(worker->socket_path);
        worker->n_deaths++;
        remember_death(worker, err.message, "");
        pause_before_next(worker, 0);
        return;
    }
    worker->state = HTH_WORKER_STARTING;
    hth_info(worker->shared->log, "model '%s': its worker starts (pid %d)", worker->name,
             hth_worker_process_pid(worker->process));
    hth_model_worker_tell_load(worker);
}

static void stop(hth_model_worker *worker, uint32_t drain_ms, uint32_t timeout_ms, bool again)
{
    const uint32_t hang_ms = hth_model_worker_loop_hang_ms(worker);
    uint64_t kill_ns;
    hearth_error err;

    /* Before it is ready it has nothing to finish and nothing to save, and its loop cannot tell whether it is well. */
    if (worker->ready_ns == 0 && hang_ms > 0 && hang_ms < timeout_ms)
        timeout_ms = hang_ms;
    kill_ns = hth_os_monotonic_ns() + hth_ms_to_ns(timeout_ms);
    worker->start_again = again;
    worker->is_invited = false;
    worker->summoned_ns = 0;
    if (again)
        worker->drops_host = worker->drops_rows = false;
    if (!worker->process) {
        (void)event_del(worker->pause);
        worker->state = HTH_WORKER_STOPPED;
        worker->policy = (hth_restart_policy){ 0 };
        hth_model_worker_note_end(worker);
        if (again)
            worker->summoned_ns = hth_os_monotonic_ns();
        else if (hth_model_worker_is_absent(worker, &err))
            hth_model_worker_fail_waiters(worker, &err);
        worker->shared->on_change(worker->shared->user_data);
        return;
    }
    worker->policy = (hth_restart_policy){ 0 }; /* an order clears the history of deaths */
    if (worker->state == HTH_WORKER_STOPPING) {
        /* Its end is wanted now. The time until SIGKILL only shrinks. */
        worker->kill_ns = worker->kill_ns > kill_ns ? kill_ns : worker->kill_ns;
        worker->is_condemned = false;
        worker->told_by_others = false;
        return;
    }
    worker->kill_ns = kill_ns;
    worker->state = HTH_WORKER_STOPPING;
    hth_model_worker_tell_unload(worker, worker->shared->is_stopping ? "shutdown" : NULL);
    hth_worker_process_terminate(worker->process, drain_ms);
}

void hth_model_worker_stop(hth_model_worker *worker, uint32_t timeout_ms)
{
    stop(worker, 0, timeout_ms, false);
}

void hth_model_worker_retire(hth_model_worker *worker, bool drains, bool again)
{
    uint64_t ms = retiring_ms(worker);

    stop(worker, drains ? worker->shared->options->drain_timeout_ms : 0, ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX,
         again);
}

/* The options change: keep only what still means the same. */
static void reconsider_adapters(hth_model_worker *worker, const char *const *options)
{
    const char *const *old = (const char *const *)worker->arguments;

    if (worker->adapters && !hth_worker_arguments_have_same(old, options, "--lora-dir")) {
        if (worker->adapters->n_loaded > 0)
            hth_warn(worker->shared->log,
                     "model '%s': lora_dir is another folder now; the adapters that were loaded from the old one go",
                     worker->name);
        hth_model_worker_drop_adapters(worker);
    }
    if (worker->adapters && !hth_worker_arguments_have_same(old, options, "--lora"))
        hth_adapter_state_forget_configured(worker->adapters);
}

bool hth_model_worker_update(hth_model_worker *worker, const hth_server_model *model)
{
    char **arguments;
    bool drains;

    if (!hth_model_worker_take_residency(worker, model))
        return false;
    if (worker->state == HTH_WORKER_BROKEN)
        worker->pause_end_ns = 0; /* the operator may have mended it, or its file is whole now */
    if (worker->ram_bytes == model->ram_bytes && worker->no_sandbox == worker->shared->options->no_sandbox &&
        hth_string_list_equal(worker->arguments, model->worker))
        return true;
    arguments = hth_string_list_copy(model->worker);
    if (!arguments)
        return false;
    drains = !hth_worker_arguments_mean_same((const char *const *)worker->arguments, model->worker);
    reconsider_adapters(worker, model->worker);
    free((void *)worker->arguments);
    worker->arguments = arguments;
    hth_model_worker_recall(worker);
    worker->measures = false; /* its process has the old options */
    worker->bytes = worker->learned.bytes;
    if (worker->ram_bytes != model->ram_bytes)
        hth_model_worker_drop_rows(worker);
    worker->ram_bytes = model->ram_bytes;
    worker->no_sandbox = worker->shared->options->no_sandbox;
    if (hth_model_worker_residence(worker) == HTH_RESIDENCE_IN) /* one that leaves does so */
        hth_model_worker_retire(worker, drains, true);
    return true;
}

/* ---- requests ---- */

void hth_model_worker_note_broken(hth_model_worker *worker, uint64_t generation)
{
    if (worker->state != HTH_WORKER_READY || worker->generation != generation)
        return;
    hth_model_worker_reap(worker);
    if (worker->state == HTH_WORKER_READY && worker->generation == generation && worker->doubted_ns == 0)
        worker->doubted_ns = hth_os_monotonic_ns();
}

void hth_model_worker_note_served(hth_model_worker *worker, uint64_t generation)
{
    if (worker->process && worker->generation == generation)
        worker->has_served = true;
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
    if ((!waiter->outlasts_breaks && hth_model_worker_is_broken(worker, &err)) ||
        hth_model_worker_is_absent(worker, &err)) {
        waiter->on_failed(waiter, &err);
        return;
    }
    if (after == 0) /* otherwise it is the same use */
        hth_model_worker_note_use(worker);
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

const hth_adapter_state *hth_model_worker_adapters(const hth_model_worker *worker)
{
    return worker->adapters;
}

bool hth_model_worker_set_adapters(hth_model_worker *worker, uint64_t generation, const hth_adapter_state *state)
{
    bool has_process = worker->state == HTH_WORKER_READY || worker->state == HTH_WORKER_STARTING ||
                       worker->state == HTH_WORKER_STOPPING;

    if (generation == 0 ? has_process : worker->generation != generation || worker->state != HTH_WORKER_READY)
        return false; /* the next process has begun with the old ones, or will */
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

const char *hth_model_worker_name(const hth_model_worker *worker)
{
    return worker->name;
}

hth_worker_state hth_model_worker_state(const hth_model_worker *worker)
{
    return worker->state;
}

float hth_model_worker_progress(const hth_model_worker *worker)
{
    return worker->progress;
}

bool hth_model_worker_is_hashing(const hth_model_worker *worker)
{
    return worker->state == HTH_WORKER_READY && worker->progress < 1;
}

uint64_t hth_model_worker_generation(const hth_model_worker *worker)
{
    return worker->generation;
}

bool hth_model_worker_starts_with_server(const hth_model_worker *worker)
{
    return !worker->on_demand;
}

void hth_model_worker_view(const hth_model_worker *worker, hth_worker_view *out)
{
    uint64_t now_ns = hth_os_monotonic_ns();

    memset(out, 0, sizeof(*out));
    hth_model_worker_view_residency(worker, now_ns, out);
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
    out->load_progress = worker->progress;
    out->is_hashing = hth_model_worker_is_hashing(worker);
    out->socket_path = worker->state == HTH_WORKER_READY ? worker->socket_path : NULL;
    out->up_ms = (now_ns - worker->started_ns) / 1000000;
    out->resident_bytes = hth_os_process_resident_bytes(out->pid);
    hth_status_page_read(worker->page, &out->status);
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
    worker->arguments = hth_string_list_copy(model->worker);
    worker->pause = evtimer_new(shared->base, on_pause_over, worker);
    worker->notify = evtimer_new(shared->base, notify_waiters, worker);
    if (!worker->name || !worker->arguments || !worker->pause || !worker->notify ||
        !hth_model_worker_take_residency(worker, model)) {
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
    hth_model_worker_stop_asking(worker);
    hth_socket_folder_remove(worker->socket_path);
    hth_model_worker_drop_rows(worker);
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
