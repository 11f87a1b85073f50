/*
 * supervisor.c - the front's workers, one keeper a model
 *
 * Three things drive it: SIGCHLD, upon which every keeper looks whether its own process has ended (no other child of this
 * process is touched); a timer that looks for hangs and time-outs; and requests. A keeper whose model was taken away stays
 * on a second list until its process has ended.
 */
#include "server/supervisor.h"

#include <assert.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/status.h"
#include "server/keeper.h"
#include "server/runtime_folder.h"

enum {
    TICK_MS = 250,
    LATE_MS = 1000,         /* a tick that comes so much too late has seen nothing */
    SOCKET_NAME_BYTES = 28, /* what a keeper puts behind the directory, for a hundred million processes */
};

typedef struct keepers {
    hth_keeper **at;
    size_t n;
} keepers;

struct hth_supervisor {
    hth_keeper_world world;
    hth_runtime_folder folder; /* of the sockets */
    char *program;
    keepers present; /* in the order of the options */
    keepers leaving; /* their models were taken away; they end */
    unsigned n_slots;
    uint64_t ticked_ns;
    struct event *child_event;
    struct event *tick_event;
    struct event *sweep_event; /* keepers have stopped */
    void (*on_stopped)(void *user_data);
    void *user_data;
};

/* ---- lists ---- */

static hth_keeper *find(const keepers *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(hth_keeper_name(list->at[i]), name) == 0)
            return list->at[i];
    }
    return NULL;
}

static bool contains(const keepers *list, const hth_keeper *keeper)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->at[i] == keeper)
            return true;
    }
    return false;
}

static void for_each(hth_supervisor *supervisor, void (*act)(hth_keeper *keeper))
{
    for (size_t i = 0; i < supervisor->present.n; i++)
        act(supervisor->present.at[i]);
    for (size_t i = 0; i < supervisor->leaving.n; i++)
        act(supervisor->leaving.at[i]);
}

/* ---- events ---- */

static void on_child(evutil_socket_t number, short what, void *user_data)
{
    (void)number;
    (void)what;
    for_each(user_data, hth_keeper_reap);
}

static void on_tick(evutil_socket_t fd, short what, void *user_data)
{
    hth_supervisor *supervisor = user_data;
    uint64_t now_ns = hth_os_monotonic_ns();

    (void)fd;
    (void)what;
    if (now_ns - supervisor->ticked_ns > hth_ms_to_ns(TICK_MS + LATE_MS))
        supervisor->world.watching_since_ns = now_ns;
    supervisor->ticked_ns = now_ns;
    for (size_t i = 0; i < supervisor->present.n; i++)
        hth_keeper_tick(supervisor->present.at[i], now_ns);
    for (size_t i = 0; i < supervisor->leaving.n; i++)
        hth_keeper_tick(supervisor->leaving.at[i], now_ns);
}

static void on_keeper_stopped(hth_keeper *keeper, void *user_data)
{
    hth_supervisor *supervisor = user_data;

    (void)keeper;
    event_active(supervisor->sweep_event, EV_TIMEOUT, 0); /* later: it is in use now */
}

/* Free those that left and have ended; tell when all have stopped. */
static void sweep(evutil_socket_t fd, short what, void *user_data)
{
    hth_supervisor *supervisor = user_data;
    keepers *leaving = &supervisor->leaving;
    void (*on_stopped)(void *user_data) = supervisor->on_stopped;
    size_t n = 0;

    (void)fd;
    (void)what;
    for (size_t i = 0; i < leaving->n; i++) {
        if (hth_keeper_state(leaving->at[i]) == HTH_WORKER_STOPPED)
            hth_keeper_free(leaving->at[i]);
        else
            leaving->at[n++] = leaving->at[i];
    }
    leaving->n = n;
    for (size_t i = 0; i < supervisor->present.n; i++)
        n += hth_keeper_state(supervisor->present.at[i]) != HTH_WORKER_STOPPED;
    if (!supervisor->world.is_stopping || n > 0 || !on_stopped)
        return;
    supervisor->on_stopped = NULL;
    on_stopped(supervisor->user_data);
}

/* ---- the set of models ---- */

void hth_supervisor_reconfigure(hth_supervisor *supervisor, const hth_server_options *options)
{
    hth_keeper_world *world = &supervisor->world;
    size_t n_all = options->n_models + supervisor->present.n + supervisor->leaving.n;
    keepers present = { .at = calloc(options->n_models + 1, sizeof(hth_keeper *)) };
    keepers leaving = { .at = calloc(n_all + 1, sizeof(hth_keeper *)) };
    keepers old[2] = { supervisor->present, supervisor->leaving };
    hearth_error err;

    world->options = options;
    if (!present.at || !leaving.at) {
        free(present.at);
        free(leaving.at);
        hth_log_line(world->log, HEARTH_LOG_ERROR, "hearth", "no memory for a list of models; the old one stays");
        return;
    }
    for (size_t i = 0; i < options->n_models; i++) {
        const hth_server_model *model = &options->models[i];
        hth_keeper *keeper = find(&old[0], model->name);
        bool was_leaving = !keeper;
        bool is_new = false;

        if (!keeper)
            keeper = find(&old[1], model->name);
        if (!keeper) {
            is_new = true;
            if (hth_keeper_new(world, model, supervisor->n_slots, &keeper, &err) != HEARTH_OK) {
                hth_log_line(world->log, HEARTH_LOG_ERROR, "hearth", "%s", err.message);
                continue;
            }
            supervisor->n_slots++;
        } else if (!hth_keeper_update(keeper, model)) {
            hth_log_line(world->log, HEARTH_LOG_ERROR, "hearth", "no memory for model '%s'; its old options stay",
                         model->name);
        }
        present.at[present.n++] = keeper;
        if (was_leaving && !is_new)
            hth_keeper_retire(keeper, true, hth_keeper_starts_with_server(keeper));
        else if (hth_keeper_state(keeper) == HTH_WORKER_STOPPED && hth_keeper_starts_with_server(keeper))
            hth_keeper_start(keeper);
    }
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
        (void)hth_fail(&err, HEARTH_NOT_FOUND, "model '%s' is not served any more", hth_keeper_name(old[0].at[i]));
        hth_keeper_fail_waiters(old[0].at[i], &err);
        hth_keeper_retire(old[0].at[i], true, false);
    }
    free(old[0].at);
    free(old[1].at);
    event_active(supervisor->sweep_event, EV_TIMEOUT, 0);
}

/* ---- new, stop, free ---- */

static bool add_events(hth_supervisor *supervisor)
{
    const struct timeval interval = { .tv_usec = TICK_MS * 1000L };
    struct event_base *base = supervisor->world.base;

    supervisor->child_event = evsignal_new(base, SIGCHLD, on_child, supervisor);
    supervisor->tick_event = event_new(base, -1, EV_PERSIST, on_tick, supervisor);
    supervisor->sweep_event = evtimer_new(base, sweep, supervisor);
    return supervisor->child_event && supervisor->tick_event && supervisor->sweep_event &&
           event_add(supervisor->child_event, NULL) == 0 && event_add(supervisor->tick_event, &interval) == 0;
}

hearth_status hth_supervisor_new(struct event_base *base, const char *program, const hth_server_options *options,
                                 const hth_log *log, hth_supervisor **out, hearth_error *err)
{
    hearth_status status;
    hth_supervisor *supervisor = calloc(1, sizeof(*supervisor));

    if (!supervisor)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the workers");
    supervisor->ticked_ns = hth_os_monotonic_ns();
    supervisor->program = strdup(program);
    supervisor->world = (hth_keeper_world){
        .base = base,
        .program = supervisor->program,
        .options = options,
        .log = log,
        .watching_since_ns = supervisor->ticked_ns,
        .on_stopped = on_keeper_stopped,
        .user_data = supervisor,
    };
    if (!supervisor->program || !add_events(supervisor)) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the workers");
        goto out;
    }
    status = hth_runtime_folder_make(options->runtime_directory, SOCKET_NAME_BYTES, log, &supervisor->folder, err);
    if (status != HEARTH_OK)
        goto out;
    supervisor->world.directory = supervisor->folder.path;
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

    supervisor->world.is_stopping = true;
    supervisor->on_stopped = on_stopped;
    supervisor->user_data = user_data;
    (void)hth_fail(&err, HEARTH_BUSY, "the server is shutting down");
    err.retry_after_s = HTH_STOPPING_RETRY_S;
    for (size_t i = 0; i < supervisor->present.n; i++) {
        hth_keeper_fail_waiters(supervisor->present.at[i], &err);
        hth_keeper_stop(supervisor->present.at[i], timeout_ms, false);
    }
    for (size_t i = 0; i < supervisor->leaving.n; i++)
        hth_keeper_stop(supervisor->leaving.at[i], timeout_ms, false);
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
    for_each(supervisor, hth_keeper_kill); /* all at once: each is waited for below */
    for_each(supervisor, hth_keeper_free);
    free(supervisor->present.at);
    free(supervisor->leaving.at);
    free_event(supervisor->child_event);
    free_event(supervisor->tick_event);
    free_event(supervisor->sweep_event);
    hth_runtime_folder_remove(&supervisor->folder);
    free(supervisor->program);
    free(supervisor);
}

/* ---- requests ---- */

static hth_keeper *keeper_of(const hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_keeper *keeper = find(&supervisor->present, model);

    if (!keeper)
        (void)hth_fail(err, HEARTH_NOT_FOUND, "there is no model '%s' here", model);
    return keeper;
}

hearth_status hth_supervisor_want(hth_supervisor *supervisor, const char *model, uint64_t after,
                                  hth_worker_waiter *waiter, hearth_error *err)
{
    hth_keeper *keeper = keeper_of(supervisor, model, err);

    if (!keeper)
        return HEARTH_NOT_FOUND;
    assert(!waiter->link);
    hth_keeper_want(keeper, after, waiter);
    return HEARTH_OK;
}

void hth_supervisor_note_broken(hth_supervisor *supervisor, const char *model, uint64_t generation)
{
    hth_keeper *keeper = find(&supervisor->present, model);

    if (keeper)
        hth_keeper_note_broken(keeper, generation);
}

/* ---- pages and orders ---- */

size_t hth_supervisor_n(const hth_supervisor *supervisor)
{
    return supervisor->present.n;
}

void hth_supervisor_view(const hth_supervisor *supervisor, size_t i, hth_worker_view *out)
{
    assert(i < supervisor->present.n);
    hth_keeper_view(supervisor->present.at[i], out);
}

bool hth_supervisor_is_broken(const hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    const hth_keeper *keeper = keeper_of(supervisor, model, err);

    return !keeper || hth_keeper_is_broken(keeper, err);
}

hearth_status hth_supervisor_restart(hth_supervisor *supervisor, const char *model, hearth_error *err)
{
    hth_keeper *keeper = keeper_of(supervisor, model, err);

    if (!keeper)
        return HEARTH_NOT_FOUND;
    if (supervisor->world.is_stopping)
        return hth_fail(err, HEARTH_BUSY, "the server is shutting down");
    hth_keeper_retire(keeper, false, true);
    return HEARTH_OK;
}
