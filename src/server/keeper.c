/*
 * keeper.c - keeps a worker of one model running
 *
 * The front believes only the silence that it has watched itself: where its own loop was held up (a suspended laptop, a
 * machine without time to spare), ages on the status page are counted from when it turned again.
 */
#include "server/keeper.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "server/restart_policy.h"
#include "server/string_list.h"
#include "server/waiters.h"
#include "server/worker_process.h"

enum {
    LOOP_HANG_MS = 10000, /* an event loop that stood still for so long hangs, or hang_ms where that is less */
    DOUBT_MS = 1000,      /* the loop of a worker whose connection broke has so long to turn */
    SAVE_MS = 35000,      /* a worker saves for 30 s at most when it is told to end */
    CAUSE_BYTES = 320,
};

struct hth_keeper {
    hth_keeper_world *world;
    unsigned slot;

    char *name;
    char **worker; /* ending with NULL; one allocation with its strings */
    uint64_t ram_bytes;
    bool on_demand;
    bool no_sandbox;

    hth_worker_state state;
    bool is_condemned;   /* STOPPING because it was killed for verdict */
    bool start_again;    /* STOPPING: a new process follows */
    bool told_by_others; /* STOPPING: somebody else told the process to end, and nobody here has since */
    hth_worker_process *process;
    char socket_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    uint64_t generation;
    uint64_t started_ns;
    uint64_t progress_ns; /* STARTING: when something went on */
    float progress;
    bool was_ready;      /* this process or an earlier one */
    uint64_t ready_ns;   /* 0: it has not been ready */
    uint64_t doubted_ns; /* READY: when a connection was found broken; 0: never */
    uint64_t kill_ns;    /* STOPPING in order: when its patience ends; 0: that was it */
    char verdict[CAUSE_BYTES];

    struct event
        *news; /* READY: those who wait are to be told; not from within the process' callback, which could free it */

    /* WAITING, BROKEN */
    struct event *pause;
    uint64_t pause_end_ns;
    hth_restart_policy policy;

    /* Over all processes. */
    hth_status_page *page;
    int status_fd;
    int ram_fd; /* -1: none yet, or none to be had */
    hth_waiters waiters;
    uint64_t n_starts, n_deaths, n_hangs;
    char last_cause[CAUSE_BYTES]; /* of the last death, "" */
    char last_death[512];         /* with its last lines, which are not for clients */
};

const char *hth_worker_state_name(hth_worker_state state)
{
    static const char *const names[] = { "stopped", "starting", "ready", "stopping", "waiting", "broken" };

    return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

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

bool hth_keeper_is_broken(const hth_keeper *keeper, hearth_error *err)
{
    uint64_t wait_s;

    if (keeper->state != HTH_WORKER_BROKEN)
        return false;
    wait_s = (ms_until(keeper->pause_end_ns, hth_os_monotonic_ns()) + 999) / 1000;
    wait_s += wait_s == 0;
    (void)hth_fail(err, HEARTH_BUSY,
                   "model '%s' is out of order, its worker having failed %u times in a row: %s; the "
                   "next try is in %llu s",
                   keeper->name, keeper->policy.n_deaths, keeper->last_cause, (unsigned long long)wait_s);
    if (err)
        err->retry_after_s = (uint32_t)wait_s;
    return true;
}

static void fail_late(const hth_keeper *keeper, hearth_error *err)
{
    char death[CAUSE_BYTES + 32] = "";
    double wait_s = keeper->world->options->wait_timeout_ms / 1e3;

    if (keeper->last_cause[0])
        (void)snprintf(death, sizeof(death), "; it failed before: %s", keeper->last_cause);
    if (keeper->state == HTH_WORKER_STARTING)
        (void)hth_fail(err, HEARTH_TIMED_OUT, "model '%s' was not ready within %.4g s: it is loading (%.0f %%)%s",
                       keeper->name, wait_s, 100.0 * (double)keeper->progress, death);
    else
        (void)hth_fail(err, HEARTH_TIMED_OUT, "model '%s' was not ready within %.4g s: its worker is %s%s",
                       keeper->name, wait_s, hth_worker_state_name(keeper->state), death);
}

void hth_keeper_fail_waiters(hth_keeper *keeper, const hearth_error *err)
{
    hth_waiters_tell_failed(&keeper->waiters, 0, err);
}

/* ---- memory that outlives processes ---- */

static void drop_ram(hth_keeper *keeper)
{
    if (keeper->ram_fd >= 0)
        (void)close(keeper->ram_fd); /* a process that still runs has its own descriptor */
    keeper->ram_fd = -1;
}

static void make_ram(hth_keeper *keeper)
{
    if (keeper->ram_bytes == 0 || keeper->ram_fd >= 0)
        return;
    keeper->ram_fd = hth_os_memory_file_new("hearth-ram"); /* the worker makes it grow */
    if (keeper->ram_fd < 0)
        hth_warn(keeper->world->log,
                 "model '%s': no memory that outlives its worker can be had (%s); what its RAM tier holds ends with it",
                 keeper->name, strerror(errno));
}

/* ---- deaths ---- */

static void on_pause_over(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    hth_keeper_start(user_data);
}

static void pause_before_next(hth_keeper *keeper, uint64_t ready_ms)
{
    hearth_error err;
    hth_restart next = hth_restart_after_death(&keeper->policy, keeper->world->options->healthy_ms, ready_ms, draw());
    struct timeval pause = { .tv_sec = next.pause_ms / 1000, .tv_usec = (suseconds_t)(next.pause_ms % 1000) * 1000 };

    keeper->state = next.is_broken ? HTH_WORKER_BROKEN : HTH_WORKER_WAITING;
    keeper->pause_end_ns = hth_os_monotonic_ns() + hth_ms_to_ns(next.pause_ms);
    (void)event_add(keeper->pause, &pause); /* fails without memory; the tick looks at the time, too */
    hth_log_line(keeper->world->log, HEARTH_LOG_ERROR, "hearth", "model '%s': its worker failed: %s; %s in %u ms",
                 keeper->name, keeper->last_death,
                 next.is_broken ? "it is out of order, and tried again" : "it starts again", next.pause_ms);
    if (!next.is_broken)
        return;
    if (keeper->policy.n_breaks > 1 && keeper->ram_fd >= 0) {
        hth_warn(keeper->world->log, "model '%s': the next try begins with an empty RAM tier", keeper->name);
        drop_ram(keeper);
    }
    if (hth_keeper_is_broken(keeper, &err))
        hth_keeper_fail_waiters(keeper, &err);
}

/* Where files lie is not for clients: of a quoted path its last part is left. */
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

/* cause: of the death; lines: the process' last ones, or "". */
static void remember_death(hth_keeper *keeper, const char *cause, const char *lines)
{
    copy_without_folders(keeper->last_cause, sizeof(keeper->last_cause),
                         cause); /* cut where too long, here and below */
    hth_end_at_character(keeper->last_cause, sizeof(keeper->last_cause));
    (void)snprintf(keeper->last_death, sizeof(keeper->last_death), "%s%s%s", cause, *lines ? "; its last lines: " : "",
                   lines);
    hth_end_at_character(keeper->last_death, sizeof(keeper->last_death));
}

static void suspect_rows(hth_keeper *keeper)
{
    hth_status status;

    hth_status_page_read(keeper->page, &status);
    if (status.n_restoring == 0)
        return;
    hth_warn(keeper->world->log,
             "model '%s': %zu rows of the cache were being restored when its worker died; they are set aside",
             keeper->name, status.n_restoring);
    hth_status_page_suspects_add(keeper->page, (const uint8_t(*)[32])status.restoring, status.n_restoring);
}

/*
 * The process' socket has a folder of its own, in which the process may make and remove files: what took it over could
 * else put its own socket in the place of another model's.
 */
static hearth_status make_socket_folder(hth_keeper *keeper, hearth_error *err)
{
    int n = snprintf(keeper->socket_path, sizeof(keeper->socket_path), "%s/%u-%llu/s", keeper->world->directory,
                     keeper->slot, (unsigned long long)keeper->generation);
    char *slash;
    bool is_made;

    if (n < 0 || (size_t)n >= sizeof(keeper->socket_path)) {
        keeper->socket_path[0] = '\0';
        return hth_fail(err, HEARTH_MISUSE, "the runtime directory '%s' is too long for sockets in it",
                        keeper->world->directory);
    }
    slash = strrchr(keeper->socket_path, '/');
    *slash = '\0';
    is_made = mkdir(keeper->socket_path, 0700) == 0 || errno == EEXIST; /* of a start that failed */
    *slash = '/';
    return is_made ? HEARTH_OK
                   : hth_fail_errno(err, errno, "cannot make a folder for a socket in '%s'", keeper->world->directory);
}

static void remove_socket(hth_keeper *keeper)
{
    char *slash = strrchr(keeper->socket_path, '/');

    if (!slash)
        return;
    (void)unlink(keeper->socket_path); /* mostly gone already */
    *slash = '\0';
    (void)rmdir(keeper->socket_path); /* what somebody else put there stays */
    *slash = '/';
}

static uint64_t retiring_ms(const hth_keeper *keeper)
{
    return (uint64_t)keeper->world->options->drain_timeout_ms + SAVE_MS;
}

/*
 * Somebody else told the process to end, who may do so again and again (what looks after memory, for one): new requests
 * are for the next one, which comes when the restart policy says so.
 */
static void on_stopping(void *user_data)
{
    hth_keeper *keeper = user_data;

    if (keeper->state != HTH_WORKER_STARTING && keeper->state != HTH_WORKER_READY)
        return; /* it was we */
    keeper->state = HTH_WORKER_STOPPING;
    keeper->told_by_others = true;
    keeper->kill_ns = hth_os_monotonic_ns() + retiring_ms(keeper) * 1000000;
    hth_info(keeper->world->log, "model '%s': its worker (pid %d) was told to end, not by this server", keeper->name,
             hth_worker_process_pid(keeper->process));
}

/* The process has ended; say what it died of, and give it up. */
static void bury(hth_keeper *keeper, bool was_asked)
{
    char cause[CAUSE_BYTES];
    char lines[sizeof(keeper->last_death)];
    size_t n;

    if (was_asked && hth_worker_process_ended_in_order(keeper->process))
        goto out;
    if (keeper->verdict[0])
        (void)snprintf(cause, sizeof(cause), "%s", keeper->verdict);
    else
        hth_worker_process_cause(keeper->process, cause, sizeof(cause));
    n = strlen(cause) + strlen("; its last lines: ");
    hth_worker_process_last_lines(keeper->process, lines, n < sizeof(lines) ? sizeof(lines) - n : 1);
    remember_death(keeper, cause, lines);
out:
    hth_worker_process_free(keeper->process);
    keeper->process = NULL;
    remove_socket(keeper);
}

void hth_keeper_reap(hth_keeper *keeper)
{
    uint64_t now_ns = hth_os_monotonic_ns();
    uint64_t ready_ms = keeper->ready_ns > 0 ? (now_ns - keeper->ready_ns) / 1000000 : 0;
    bool was_asked, was_told;

    if (!keeper->process || !hth_worker_process_has_ended(keeper->process))
        return;
    if (hth_worker_process_said_stopping(keeper->process))
        on_stopping(keeper); /* where its end was seen before its word */
    was_told = keeper->told_by_others && hth_worker_process_ended_in_order(keeper->process);
    was_asked = keeper->state == HTH_WORKER_STOPPING && !keeper->is_condemned && !keeper->told_by_others;
    if (!was_asked && !was_told) {
        keeper->n_deaths++;
        suspect_rows(keeper);
    }
    bury(keeper, was_asked || was_told);
    if (was_told)
        remember_death(keeper, "it was told to end, not by this server", "");
    if (!was_asked && !keeper->world->is_stopping &&
        !(was_told && keeper->on_demand && keeper->waiters.n == 0)) { /* that one comes when somebody asks */
        pause_before_next(keeper, ready_ms);
        return;
    }
    keeper->state = HTH_WORKER_STOPPED;
    hth_info(keeper->world->log, "model '%s': its worker has ended", keeper->name);
    if (keeper->start_again && !keeper->world->is_stopping)
        hth_keeper_start(keeper);
    else
        keeper->world->on_stopped(keeper, keeper->world->user_data);
}

/* Kill a process that hangs; it is reaped when the system says so. */
static void condemn(hth_keeper *keeper, bool is_hang, const char *verdict)
{
    (void)snprintf(keeper->verdict, sizeof(keeper->verdict), "%s", verdict);
    keeper->n_hangs += is_hang;
    keeper->is_condemned = true;
    keeper->state = HTH_WORKER_STOPPING;
    keeper->kill_ns = 0;
    hth_warn(keeper->world->log, "model '%s': its worker (pid %d) is killed: %s", keeper->name,
             hth_worker_process_pid(keeper->process), verdict);
    hth_worker_process_kill(keeper->process);
}

/* ---- life ---- */

static void on_progress(float fraction, void *user_data)
{
    hth_keeper *keeper = user_data;

    keeper->progress = fraction;
    keeper->progress_ns = hth_os_monotonic_ns();
}

static bool is_ready(void *user_data)
{
    hth_keeper *keeper = user_data;

    return keeper->state == HTH_WORKER_READY;
}

static void on_ready(void *user_data)
{
    hth_keeper *keeper = user_data;

    if (keeper->state != HTH_WORKER_STARTING)
        return; /* it was told to end meanwhile */
    keeper->state = HTH_WORKER_READY;
    keeper->was_ready = true;
    keeper->progress = 1;
    keeper->ready_ns = hth_os_monotonic_ns();
    hth_info(keeper->world->log, "model '%s': its worker (pid %d) is ready after %.1f s", keeper->name,
             hth_worker_process_pid(keeper->process), (double)(keeper->ready_ns - keeper->started_ns) / 1e9);
    event_active(keeper->news, EV_TIMEOUT, 0);
}

static void tell_ready(evutil_socket_t fd, short what, void *user_data)
{
    hth_keeper *keeper = user_data;

    (void)fd;
    (void)what;
    if (is_ready(keeper))
        hth_waiters_tell_ready(&keeper->waiters, keeper->socket_path, keeper->generation, is_ready, keeper);
}

static hearth_status start_process(hth_keeper *keeper, hearth_error *err)
{
    hearth_status status = make_socket_folder(keeper, err);

    if (status != HEARTH_OK)
        return status;
    if (!keeper->page) {
        status = hth_status_page_new(&keeper->page, &keeper->status_fd, err);
        if (status != HEARTH_OK)
            return status;
    }
    hth_status_page_reset(keeper->page);
    make_ram(keeper);
    return hth_worker_process_start(&(hth_worker_process_options){ .base = keeper->world->base,
                                                                   .program = keeper->world->program,
                                                                   .name = keeper->name,
                                                                   .worker = (const char *const *)keeper->worker,
                                                                   .socket_path = keeper->socket_path,
                                                                   .status_fd = keeper->status_fd,
                                                                   .ram_fd = keeper->ram_fd,
                                                                   .no_sandbox = keeper->no_sandbox,
                                                                   .log = keeper->world->log,
                                                                   .on_progress = on_progress,
                                                                   .on_ready = on_ready,
                                                                   .on_stopping = on_stopping,
                                                                   .user_data = keeper },
                                    &keeper->process, err);
}

void hth_keeper_start(hth_keeper *keeper)
{
    hearth_error err;

    assert(!keeper->process);
    (void)event_del(keeper->pause); /* of an event of ours */
    keeper->generation++;
    keeper->n_starts++;
    keeper->started_ns = hth_os_monotonic_ns();
    keeper->progress_ns = keeper->started_ns;
    keeper->progress = 0;
    keeper->ready_ns = 0;
    keeper->doubted_ns = 0;
    keeper->kill_ns = 0;
    keeper->is_condemned = false;
    keeper->start_again = false;
    keeper->told_by_others = false;
    keeper->verdict[0] = '\0';
    if (start_process(keeper, &err) != HEARTH_OK) {
        remove_socket(keeper);
        keeper->n_deaths++;
        remember_death(keeper, err.message, "");
        pause_before_next(keeper, 0);
        return;
    }
    keeper->state = HTH_WORKER_STARTING;
    hth_info(keeper->world->log, "model '%s': its worker starts (pid %d)", keeper->name,
             hth_worker_process_pid(keeper->process));
}

static void stop(hth_keeper *keeper, uint32_t drain_ms, uint32_t timeout_ms, bool again)
{
    const uint64_t kill_ns = hth_os_monotonic_ns() + hth_ms_to_ns(timeout_ms);

    keeper->start_again = again;
    if (!keeper->process) {
        (void)event_del(keeper->pause);
        keeper->state = HTH_WORKER_STOPPED;
        keeper->policy = (hth_restart_policy){ 0 };
        if (again)
            hth_keeper_start(keeper);
        return;
    }
    keeper->policy = (hth_restart_policy){ 0 }; /* what comes next is somebody's wish, and gets a chance */
    if (keeper->state == HTH_WORKER_STOPPING) {
        /* That it ends is what is wanted now. Its patience, where it is not at its end, is not renewed. */
        keeper->kill_ns = keeper->kill_ns > kill_ns ? kill_ns : keeper->kill_ns;
        keeper->is_condemned = false;
        keeper->told_by_others = false;
        return;
    }
    keeper->kill_ns = kill_ns;
    keeper->state = HTH_WORKER_STOPPING;
    hth_worker_process_terminate(keeper->process, drain_ms);
}

void hth_keeper_stop(hth_keeper *keeper, uint32_t timeout_ms, bool again)
{
    stop(keeper, 0, timeout_ms, again);
}

void hth_keeper_retire(hth_keeper *keeper, bool drains, bool again)
{
    uint64_t ms = retiring_ms(keeper);

    stop(keeper, drains ? keeper->world->options->drain_timeout_ms : 0, ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX,
         again);
}

/* Value n of an option; "" without. */
static const char *value_of(const char *const *strings, const char *option, size_t n)
{
    for (size_t i = 0; strings[i] && strings[i + 1]; i++)
        if (strcmp(strings[i], option) == 0 && n-- == 0)
            return strings[i + 1];
    return "";
}

static bool is_same_option(const char *const *a, const char *const *b, const char *option)
{
    for (size_t n = 0;; n++) {
        const char *value = value_of(a, option, n);

        if (strcmp(value, value_of(b, option, n)) != 0)
            return false;
        if (!*value)
            return true;
    }
}

/* Would tokens of a reply that one of these began mean the same to the other? */
static bool is_same_model(const char *const *a, const char *const *b)
{
    static const char *const options[] = {
        "--model",   "--chat-template", "--chat-template-file", "--chat-template-kwargs", "--system", "--reasoning",
        "--predict", "--stop"
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (!is_same_option(a, b, options[i]))
            return false;
    return true;
}

bool hth_keeper_update(hth_keeper *keeper, const hth_server_model *model)
{
    char **worker;
    bool drains;

    keeper->on_demand = model->on_demand;
    if (keeper->ram_bytes == model->ram_bytes && keeper->no_sandbox == keeper->world->options->no_sandbox &&
        hth_string_list_equal(keeper->worker, model->worker))
        return true;
    worker = hth_string_list_copy(model->worker);
    if (!worker)
        return false;
    drains = !is_same_model((const char *const *)keeper->worker, model->worker);
    free((void *)keeper->worker);
    keeper->worker = worker;
    if (keeper->ram_bytes != model->ram_bytes)
        drop_ram(keeper);
    keeper->ram_bytes = model->ram_bytes;
    keeper->no_sandbox = keeper->world->options->no_sandbox;
    if (keeper->state != HTH_WORKER_STOPPED)
        hth_keeper_retire(keeper, drains, true);
    return true;
}

/* ---- hangs and time-outs ---- */

/* How much of an age was watched. */
static uint64_t watched_ms(const hth_keeper *keeper, uint64_t age_ns, uint64_t now_ns)
{
    uint64_t watched_ns = now_ns - keeper->world->watching_since_ns;

    return (age_ns < watched_ns ? age_ns : watched_ns) / 1000000;
}

static uint32_t loop_hang_ms(const hth_keeper *keeper)
{
    uint32_t hang_ms = keeper->world->options->hang_ms;

    return hang_ms < LOOP_HANG_MS ? hang_ms : LOOP_HANG_MS;
}

static void look_for_hangs(hth_keeper *keeper, uint64_t now_ns)
{
    uint32_t hang_ms = keeper->world->options->hang_ms;
    uint32_t start_timeout_ms = keeper->world->options->start_timeout_ms;
    uint64_t tick_ns, loop_ns;
    char verdict[CAUSE_BYTES];

    hth_status_page_read_pulse(keeper->page, &tick_ns, &loop_ns);
    if (loop_ns == UINT64_MAX)
        loop_ns = 0; /* it turns while the model is loaded, but not from the first moment, nor when the worker ends */
    else if (keeper->state == HTH_WORKER_READY && loop_ns > now_ns - keeper->ready_ns)
        loop_ns = now_ns - keeper->ready_ns; /* it may not have turned yet */
    if (hang_ms > 0 && watched_ms(keeper, tick_ns, now_ns) > hang_ms) {
        (void)snprintf(verdict, sizeof(verdict), "an evaluation took longer than %.4g s", hang_ms / 1e3);
        condemn(keeper, true, verdict);
    } else if (hang_ms > 0 && watched_ms(keeper, loop_ns, now_ns) > loop_hang_ms(keeper)) {
        (void)snprintf(verdict, sizeof(verdict), "it did not answer for %.4g s", loop_hang_ms(keeper) / 1e3);
        condemn(keeper, true, verdict);
    } else if (keeper->state == HTH_WORKER_STARTING && start_timeout_ms > 0 &&
               watched_ms(keeper, now_ns - keeper->progress_ns, now_ns) > start_timeout_ms) {
        (void)snprintf(verdict, sizeof(verdict), "loading did not go on for %.4g s (at %.0f %%)",
                       start_timeout_ms / 1e3, 100.0 * (double)keeper->progress);
        condemn(keeper, true, verdict);
    }
}

/* One that is to end in order may take long, and its requests wait; one that stands still is not waited for. */
static void look_after_ending(hth_keeper *keeper, uint64_t now_ns)
{
    uint64_t tick_ns, loop_ns;
    bool stands_still;

    hth_status_page_read_pulse(keeper->page, &tick_ns, &loop_ns);
    stands_still =
        loop_hang_ms(keeper) > 0 && loop_ns < UINT64_MAX && watched_ms(keeper, loop_ns, now_ns) > loop_hang_ms(keeper);
    if (now_ns < keeper->kill_ns && !stands_still)
        return;
    keeper->kill_ns = 0;
    (void)snprintf(keeper->verdict, sizeof(keeper->verdict), "killed, since it %s",
                   stands_still ? "stood still when asked to end" : "did not end in time when asked to");
    hth_worker_process_kill(keeper->process);
}

/* A connection of this worker's was broken: has its loop turned since? */
static void settle_doubt(hth_keeper *keeper, uint64_t now_ns)
{
    uint64_t doubted_for_ns = now_ns - keeper->doubted_ns;
    uint64_t tick_ns, loop_ns;

    hth_status_page_read_pulse(keeper->page, &tick_ns, &loop_ns);
    if (loop_ns < doubted_for_ns) {
        hearth_error err;

        keeper->doubted_ns = 0;
        (void)hth_fail(&err, HEARTH_BUSY,
                       "the worker of model '%s' broke a connection, though it is well; its log may "
                       "tell why",
                       keeper->name);
        err.retry_after_s = 1;
        hth_waiters_tell_failed(&keeper->waiters, keeper->generation, &err);
    } else if (watched_ms(keeper, doubted_for_ns, now_ns) > DOUBT_MS) {
        condemn(keeper, true, "it broke a connection and did not answer any more");
    }
}

void hth_keeper_tick(hth_keeper *keeper, uint64_t now_ns)
{
    hth_keeper_reap(keeper); /* mostly known already by a signal */
    if (keeper->process)
        hth_worker_process_tick(keeper->process);
    if ((keeper->state == HTH_WORKER_WAITING || keeper->state == HTH_WORKER_BROKEN) && now_ns >= keeper->pause_end_ns)
        hth_keeper_start(keeper);
    if (keeper->state == HTH_WORKER_STARTING || keeper->state == HTH_WORKER_READY)
        look_for_hangs(keeper, now_ns);
    if (keeper->state == HTH_WORKER_READY && keeper->doubted_ns > 0)
        settle_doubt(keeper, now_ns);
    if (keeper->state == HTH_WORKER_STOPPING && keeper->kill_ns > 0)
        look_after_ending(keeper, now_ns);
    if (hth_waiters_has_late(&keeper->waiters, now_ns)) {
        hearth_error err;

        fail_late(keeper, &err);
        hth_waiters_tell_late(&keeper->waiters, now_ns, &err);
    }
}

/* ---- requests ---- */

void hth_keeper_note_broken(hth_keeper *keeper, uint64_t generation)
{
    if (keeper->state != HTH_WORKER_READY || keeper->generation != generation)
        return;
    hth_keeper_reap(keeper);
    if (keeper->state == HTH_WORKER_READY && keeper->generation == generation && keeper->doubted_ns == 0)
        keeper->doubted_ns = hth_os_monotonic_ns();
}

void hth_keeper_want(hth_keeper *keeper, uint64_t after, hth_worker_waiter *waiter)
{
    hearth_error err;

    if (keeper->world->is_stopping) {
        (void)hth_fail(&err, HEARTH_BUSY, "the server is shutting down");
        err.retry_after_s = HTH_STOPPING_RETRY_S;
        waiter->on_failed(waiter, &err);
        return;
    }
    if (after > 0 && keeper->generation <= after)
        hth_keeper_note_broken(keeper, keeper->generation);
    if (keeper->state == HTH_WORKER_STOPPED)
        hth_keeper_start(keeper); /* which may fail */
    if (hth_keeper_is_broken(keeper, &err)) {
        waiter->on_failed(waiter, &err);
        return;
    }
    if (keeper->state == HTH_WORKER_READY && keeper->generation > after) {
        waiter->on_ready(waiter, keeper->socket_path, keeper->generation);
        return;
    }
    if (after == 0 && keeper->waiters.n >= keeper->world->options->requests_max) { /* others had their place */
        (void)hth_fail(&err, HEARTH_BUSY, "%u requests wait for model '%s' already", keeper->waiters.n, keeper->name);
        err.retry_after_s = 5;
        waiter->on_failed(waiter, &err);
        return;
    }
    if (keeper->state == HTH_WORKER_STOPPING)
        keeper->start_again = true;
    waiter->after = after;
    waiter->until_ns = hth_os_monotonic_ns() + hth_ms_to_ns(keeper->world->options->wait_timeout_ms);
    hth_waiters_add(&keeper->waiters, waiter);
}

/* ---- pages ---- */

const char *hth_keeper_name(const hth_keeper *keeper)
{
    return keeper->name;
}

hth_worker_state hth_keeper_state(const hth_keeper *keeper)
{
    return keeper->state;
}

bool hth_keeper_starts_with_server(const hth_keeper *keeper)
{
    return !keeper->on_demand;
}

void hth_keeper_view(const hth_keeper *keeper, hth_worker_view *out)
{
    uint64_t now_ns = hth_os_monotonic_ns();

    memset(out, 0, sizeof(*out));
    out->model = keeper->name;
    out->state = keeper->state;
    out->was_ready = keeper->was_ready;
    out->generation = keeper->generation;
    out->n_starts = keeper->n_starts;
    out->n_deaths = keeper->n_deaths;
    out->n_hangs = keeper->n_hangs;
    out->n_waiters = keeper->waiters.n;
    if (keeper->state == HTH_WORKER_WAITING || keeper->state == HTH_WORKER_BROKEN)
        out->restart_in_ms = (uint32_t)ms_until(keeper->pause_end_ns, now_ns); /* at most ten minutes */
    (void)snprintf(out->last_death, sizeof(out->last_death), "%s", keeper->last_death);
    if (!keeper->process)
        return;
    out->pid = hth_worker_process_pid(keeper->process);
    out->load_progress = keeper->progress;
    out->up_ms = (now_ns - keeper->started_ns) / 1000000;
    out->resident_bytes = hth_os_process_resident_bytes(out->pid);
    hth_status_page_read(keeper->page, &out->status);
}

/* ---- new and free ---- */

hearth_status hth_keeper_new(hth_keeper_world *world, const hth_server_model *model, unsigned slot, hth_keeper **out,
                             hearth_error *err)
{
    hth_keeper *keeper = calloc(1, sizeof(*keeper));

    if (!keeper)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for model '%s'", model->name);
    keeper->world = world;
    keeper->slot = slot;
    keeper->status_fd = -1;
    keeper->ram_fd = -1;
    keeper->ram_bytes = model->ram_bytes;
    keeper->no_sandbox = world->options->no_sandbox;
    keeper->on_demand = model->on_demand;
    hth_waiters_init(&keeper->waiters);
    keeper->name = strdup(model->name);
    keeper->worker = hth_string_list_copy(model->worker);
    keeper->pause = evtimer_new(world->base, on_pause_over, keeper);
    keeper->news = evtimer_new(world->base, tell_ready, keeper);
    if (!keeper->name || !keeper->worker || !keeper->pause || !keeper->news) {
        hth_keeper_free(keeper);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for model '%s'", model->name);
    }
    *out = keeper;
    return HEARTH_OK;
}

void hth_keeper_kill(hth_keeper *keeper)
{
    if (keeper->process)
        hth_worker_process_kill(keeper->process);
}

void hth_keeper_free(hth_keeper *keeper)
{
    if (!keeper)
        return;
    hth_waiters_drop(&keeper->waiters);
    hth_worker_process_free(keeper->process);
    remove_socket(keeper);
    drop_ram(keeper);
    hth_status_page_free(keeper->page);
    if (keeper->status_fd >= 0)
        (void)close(keeper->status_fd); /* nothing was written through it */
    if (keeper->pause)
        event_free(keeper->pause);
    if (keeper->news)
        event_free(keeper->news);
    free((void *)keeper->worker);
    free(keeper->name);
    free(keeper);
}
