/*
 * supervisor.h - the front's workers: started, watched, replaced, stopped
 *
 *   STOPPED   no process: it was not needed yet, or it was stopped in order
 *   STARTING  the process runs and loads its model
 *   READY     it answers on its socket
 *   STOPPING  it was told to end, and saves its state
 *   WAITING   it died; it restarts after a pause that doubles each time, with jitter
 *   BROKEN    it died too often: requests are refused with the cause until a pause is over
 *
 * A worker is a process in its own process group. It ends when the front ends, even if the front is killed. It writes
 * log lines to a pipe (the front keeps the last ones for messages) and reports loading and readiness on a control
 * socket. Its status page (status_page.h) shows the front that it works. The front kills a worker that hangs. The RAM
 * tier is a memfd that the front holds and hands to the next worker. All functions run on the event loop's thread and
 * never block.
 */
#ifndef HTH_SUPERVISOR_SUPERVISOR_H
#define HTH_SUPERVISOR_SUPERVISOR_H

#include <jansson.h>

#include "base/log.h"
#include "supervisor/carrier_link.h"
#include "supervisor/device_pools.h"
#include "supervisor/event_feed.h"
#include "supervisor/pressure.h"
#include "supervisor/server_options.h"
#include "supervisor/waiters.h"
#include "wire/adapter_state.h"
#include "wire/worker_view.h"

struct event_base;

typedef struct hth_supervisor hth_supervisor;

/*
 * options must be valid until the next hth_supervisor_reconfigure. program: the executable, as for execv. feed must
 * outlive the supervisor; NULL: no events are reported.
 */
hearth_status hth_supervisor_new(struct event_base *base, const char *program, const hth_server_options *options,
                                 const hth_log *log, hth_event_feed *feed, hth_supervisor **out, hearth_error *err);
/* Kill the workers that still run, wait for them, and remove the sockets. Accepts NULL. */
void hth_supervisor_free(hth_supervisor *supervisor);

/*
 * Apply new options: add new models, stop removed ones in order, and restart models whose worker's options changed.
 * Others go on. Indexes of models may change; names do not.
 */
void hth_supervisor_reconfigure(hth_supervisor *supervisor, const hth_server_options *options);
/* The same for options that only add or remove models: the other models are not touched. */
void hth_supervisor_set_models(hth_supervisor *supervisor, const hth_server_options *options);

/* Stop every worker: SIGTERM, after timeout_ms SIGKILL, and on_stopped when all have ended. */
void hth_supervisor_stop(hth_supervisor *supervisor, uint32_t timeout_ms, void (*on_stopped)(void *user_data),
                         void *user_data);

/* The carrier of the workers' rows, borrowed; NULL: the server is no node of a fleet, or keeps no rows in files. */
hth_carrier_link *hth_supervisor_carrier(const hth_supervisor *supervisor);

/* ---- for requests ---- */

/*
 * Wait for a ready worker of a model; start it if needed. after: the generation that failed for this waiter, so that a
 * later one is needed; 0: any will do. While that generation still runs, this also acts like
 * hth_supervisor_note_broken. The waiter holds the worker from on_ready until it is cancelled or passed to this
 * function again. HEARTH_NOT_FOUND: there is no such model, and no callback comes.
 */
hearth_status hth_supervisor_want(hth_supervisor *supervisor, const char *model, uint64_t after,
                                  hth_worker_waiter *waiter, hearth_error *err);

/*
 * The same, without waiting and without a start, for what is no request: on_ready is called at once, or there is an
 * error and no callback comes. HEARTH_BUSY: the model has no ready worker.
 */
hearth_status hth_supervisor_want_loaded(hth_supervisor *supervisor, const char *model, hth_worker_waiter *waiter,
                                         hearth_error *err);

/*
 * A connection to this generation broke, so its process probably died: the supervisor checks now. If the process lives
 * but its event loop stalls for a second, it is killed. If it works, waiters that need a later generation fail with
 * HEARTH_BUSY, because none will come.
 */
void hth_supervisor_note_broken(hth_supervisor *supervisor, const char *model, uint64_t generation);

/*
 * The worker of this generation finished or continued a reply. A death after that is no failed start: it does not break
 * the circuit.
 */
void hth_supervisor_note_served(hth_supervisor *supervisor, const char *model, uint64_t generation);

/*
 * What a request of this model waits for, as text for a client: "loading 45%", "waiting for room, 2nd in line",
 * "waiting for another worker"; "": nothing known. generation: that of the worker that has the request; then the text
 * is "hashing 45%" while this worker hashes the model's file, else "". 0: no worker has it.
 */
enum { HTH_WAIT_TEXT_BYTES = 64 };
void hth_supervisor_tell_wait(const hth_supervisor *supervisor, const char *model, uint64_t generation,
                              char out[HTH_WAIT_TEXT_BYTES]);

/* Deaths of the model's workers without an order; 0: there is no such model. */
uint64_t hth_supervisor_n_deaths(const hth_supervisor *supervisor, const char *model);
/* How busy a model is here; costs no system call. False: there is no such model. */
bool hth_supervisor_load_of(const hth_supervisor *supervisor, const char *model, hth_worker_load *out);

/* ---- adapters that were loaded since the server started (adapter_state.h) ---- */

/* Those of a model; NULL: none. Valid until the next change. */
const hth_adapter_state *hth_supervisor_adapters(const hth_supervisor *supervisor, const char *model);
/* The model that has the adapter of this name; NULL: none has. */
const char *hth_supervisor_adapter_owner(const hth_supervisor *supervisor, const char *name);
/*
 * The model's worker of this generation has applied the state; every later one starts with it. False: that worker ends
 * or was replaced meanwhile, the model is gone, or there is no memory. generation 0: the model has no process; false if
 * it has one.
 */
bool hth_supervisor_set_adapters(hth_supervisor *supervisor, const char *model, uint64_t generation,
                                 const hth_adapter_state *state);

/* ---- for pages, metrics and logs ---- */

size_t hth_supervisor_n(const hth_supervisor *supervisor);
/* Views are large (a few KiB): one at a time. Strings are valid until the next reconfiguration. */
void hth_supervisor_view(const hth_supervisor *supervisor, size_t i, hth_worker_view *out);
/* The same for the model of this name. False: there is none. */
bool hth_supervisor_view_of(const hth_supervisor *supervisor, const char *model, hth_worker_view *out);

/* Memory of all models on the host, or on one device. */
typedef struct hth_supervisor_pool {
    char name[sizeof(((hth_device_pool *)NULL)->name)]; /* of the device; "": the host */
    uint64_t limit_bytes;                               /* UINT64_MAX: no limit */
    uint64_t used_bytes;     /* of models with a worker, and of rows that others left in memory */
    uint64_t pinned_bytes;   /* part of them: pinned models */
    uint64_t models_bytes;   /* the limit, on the host without the memory for rows */
    uint64_t promised_bytes; /* of all pinned models, also those without a worker */
    bool pinned_over_commit; /* promised_bytes exceeds models_bytes */
} hth_supervisor_pool;

typedef struct hth_supervisor_memory {
    hth_supervisor_pool pools[HTH_POOLS_MAX]; /* [n], the host first */
    size_t n;
    uint64_t rows_limit_bytes; /* of the host's limit, for the rows of all models */
    uint64_t rows_bytes;       /* part of the host's used bytes: rows in memory */
} hth_supervisor_memory;
hth_supervisor_memory hth_supervisor_memory_of(const hth_supervisor *supervisor);

/* ---- pressure ---- */

/*
 * Free n_bytes, as far as idle models, rows (relief.h) and earlier departures (NULL: none are noted) allow. is_device:
 * memory of devices. Returns the bytes that will be free soon, including those that were already leaving.
 */
uint64_t hth_supervisor_relieve(hth_supervisor *supervisor, uint64_t n_bytes, bool is_device,
                                hth_departures *departures);
/* While memory is short, a model enters only when all others, except pinned ones, have left. */
void hth_supervisor_hold(hth_supervisor *supervisor, bool is_held);

/* ---- orders: HEARTH_NOT_FOUND, HEARTH_BUSY while the server ends ---- */

/* Start the model's worker as if a request waited for it: other models may leave for it. */
hearth_status hth_supervisor_load(hth_supervisor *supervisor, const char *model, hearth_error *err);
/*
 * End the model's worker. Running requests end first, as far as drain_timeout_ms allows. The next request starts
 * another worker.
 */
hearth_status hth_supervisor_unload(hth_supervisor *supervisor, const char *model, hearth_error *err);
/*
 * Move the model to this place and pin it there, or unpin it, until the server ends or the option for its pin changes.
 * HEARTH_UNSUPPORTED: no folder keeps its weights. HEARTH_FULL: there is no room, for pinned models or at all.
 */
hearth_status hth_supervisor_set_residency(hth_supervisor *supervisor, const char *model, hth_residency to,
                                           hearth_error *err);
/*
 * Start the workers of these models, in this order, as far as there is room beside the models in memory. *out becomes
 * an object, which the caller releases, with lists of names: loading, resident (it had a worker), no_room.
 */
hearth_status hth_supervisor_preload(hth_supervisor *supervisor, const char *const *models, size_t n, json_t **out,
                                     hearth_error *err);
/*
 * End the workers of all models that are not pinned, like hth_supervisor_unload. *out: an object with the list
 * "releasing".
 */
hearth_status hth_supervisor_release_all(hth_supervisor *supervisor, bool drops_rows, json_t **out, hearth_error *err);
/* Restart the ready workers of models that are not pinned, one after another. *out has the list "compacting". */
hearth_status hth_supervisor_compact(hth_supervisor *supervisor, json_t **out, hearth_error *err);
/*
 * Until the model's next use, its worker ends after keep_ms without use; this overrides the option. 0: when its last
 * request has ended; UINT64_MAX: never.
 */
void hth_supervisor_keep(hth_supervisor *supervisor, const char *model, uint64_t keep_ms);
/* Stop the model's worker in order and start it again. */
hearth_status hth_supervisor_restart(hth_supervisor *supervisor, const char *model, hearth_error *err);

#endif
