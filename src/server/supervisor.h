/*
 * supervisor.h - the front's workers: started, watched, replaced, stopped
 *
 *   STOPPED   no process: not asked for yet, or stopped in order
 *   STARTING  the process runs and loads its model
 *   READY     it answers on its socket
 *   STOPPING  it was told to end, and saves
 *   WAITING   it died; the next start comes after a pause that doubles each time, with jitter
 *   BROKEN    it died too often in too short a time: requests are refused with the cause until a pause is over
 *
 * A worker is a process of its own group that ends when the front does, however the front ends. It writes log lines to a
 * pipe (the last ones are kept for messages), tells on a control socket how loading goes and that it is ready, and has a
 * status page (status_page.h) by which the front sees that it works. One that hangs is killed. Its RAM tier is a memfd
 * that the front holds and hands to its successor. All on the event loop's thread; nothing blocks.
 */
#ifndef HTH_SERVER_SUPERVISOR_H
#define HTH_SERVER_SUPERVISOR_H

#include "base/log.h"
#include "server/options.h"
#include "server/status_page.h"

struct event_base;

typedef struct hth_supervisor hth_supervisor;

typedef enum hth_worker_state {
    HTH_WORKER_STOPPED,
    HTH_WORKER_STARTING,
    HTH_WORKER_READY,
    HTH_WORKER_STOPPING,
    HTH_WORKER_WAITING,
    HTH_WORKER_BROKEN,
} hth_worker_state;
const char *hth_worker_state_name(hth_worker_state state); /* "ready" */

/* options outlive the supervisor, or the next set. program: the executable to start, as for execv. */
hearth_status hth_supervisor_new(struct event_base *base, const char *program, const hth_server_options *options,
                                 const hth_log *log, hth_supervisor **out, hearth_error *err);
/* Kill what still runs, wait for it, and remove the sockets. Accepts NULL. */
void hth_supervisor_free(hth_supervisor *supervisor);

/*
 * Take new options: models that are new are added, those that are gone or whose worker's options changed are stopped in
 * order (and started again), the others are not touched. Indexes of models may change; names do not.
 */
void hth_supervisor_reconfigure(hth_supervisor *supervisor, const hth_server_options *options);

/* Stop every worker in order: SIGTERM, and on_stopped once all have ended. SIGKILL follows after timeout_ms. */
void hth_supervisor_stop(hth_supervisor *supervisor, uint32_t timeout_ms, void (*on_stopped)(void *user_data),
                         void *user_data);

/* ---- for requests ---- */

typedef struct hth_waiters hth_waiters;

/* One who waits for a worker; embedded in the waiting object, zeros but for the callbacks and since_ns. */
typedef struct hth_worker_waiter hth_worker_waiter;
struct hth_worker_waiter {
    /*
     * The worker is ready. socket_path is valid for the call; generation counts the model's processes, from 1. Either
     * callback may come from within hth_supervisor_want, and may call it again, with this waiter, too.
     */
    void (*on_ready)(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation);
    /*
     * It will not be soon: HEARTH_BUSY with retry_after_s, HEARTH_TIMED_OUT, or HEARTH_NOT_FOUND where the model was taken
     * away; the message says why.
     */
    void (*on_failed)(hth_worker_waiter *waiter, const hearth_error *err);
    /* Who began to want one earlier is told first; a request whose worker died goes before those that came after it. */
    uint64_t since_ns;
    /* The supervisor's, until one of the two was called or the waiter was cancelled. */
    hth_worker_waiter *next;
    hth_worker_waiter **link; /* NULL: it waits for nothing */
    hth_waiters *list;
    uint64_t until_ns;
    uint64_t after;
};

/*
 * Ask for a worker of a model, starting it where that is needed. after: a generation that failed, of which no more is
 * wanted; 0: any. Where that generation still runs, this is as hth_supervisor_note_broken, too. HEARTH_NOT_FOUND where
 * there is no such model (no callback comes then).
 */
hearth_status hth_supervisor_want(hth_supervisor *supervisor, const char *model, uint64_t after,
                                  hth_worker_waiter *waiter, hearth_error *err);
void hth_worker_waiter_cancel(hth_worker_waiter *waiter); /* accepts one that waits for nothing */

/*
 * A connection to that generation broke. It has probably died, which is looked at now; should it live on for a second
 * while its event loop stands still, it is killed. Should it be well, those who want none of that generation any more
 * fail with HEARTH_BUSY: there is no reason to end it, and no other one will come.
 */
void hth_supervisor_note_broken(hth_supervisor *supervisor, const char *model, uint64_t generation);

/* ---- for pages, metrics and logs ---- */

typedef struct hth_worker_view {
    const char *model;
    hth_worker_state state;
    bool was_ready; /* now, or some time before */
    int pid;        /* 0: none */
    uint64_t generation;
    uint64_t n_starts;
    uint64_t n_deaths;      /* that nobody asked for */
    uint64_t n_hangs;       /* of them, those that were killed because they hung */
    float load_progress;    /* while STARTING */
    uint32_t restart_in_ms; /* while WAITING or BROKEN */
    uint32_t n_waiters;
    uint64_t up_ms;
    uint64_t resident_bytes; /* of the process; 0: unknown */
    char last_death[512]; /* "killed by signal 11 (Segmentation fault); its last lines: ..."; "" where it never died */
    hth_status status;    /* zeros while there is no process */
} hth_worker_view;

size_t hth_supervisor_n(const hth_supervisor *supervisor);
/* Views are large (a few KiB): one at a time. Strings are valid until the next reconfiguration. */
void hth_supervisor_view(const hth_supervisor *supervisor, size_t i, hth_worker_view *out);
/* Cheap: is any request of this model sure to be refused? *err why. */
bool hth_supervisor_is_broken(const hth_supervisor *supervisor, const char *model, hearth_error *err);

/* Operator's orders. HEARTH_NOT_FOUND. */
hearth_status hth_supervisor_restart(hth_supervisor *supervisor, const char *model, hearth_error *err);

#endif
