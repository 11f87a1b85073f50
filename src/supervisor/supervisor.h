/*
 * supervisor.h - the front's workers: started, watched, replaced, stopped
 *
 *   STOPPED   no process: none was needed yet, or it was stopped in order
 *   STARTING  the process runs and loads its model
 *   READY     it answers on its socket
 *   STOPPING  it was told to end, and saves
 *   WAITING   it died; the next start comes after a pause that doubles each time, with jitter
 *   BROKEN    it died too often: requests are refused with the cause until a pause is over
 *
 * A worker is a process in a process group of its own. It ends when the front ends, even if the front is killed. It
 * writes log lines to a pipe (the front keeps the last ones for messages), reports loading and readiness on a control
 * socket, and has a status page (status_page.h), by which the front sees that it works. The front kills a worker that
 * hangs. The RAM tier is a memfd that the front holds and hands to the next worker. All functions run on the event
 * loop's thread and never block.
 */
#ifndef HTH_SUPERVISOR_SUPERVISOR_H
#define HTH_SUPERVISOR_SUPERVISOR_H

#include <jansson.h>

#include "base/log.h"
#include "supervisor/device_pools.h"
#include "supervisor/event_feed.h"
#include "supervisor/options.h"
#include "supervisor/patience.h"
#include "supervisor/waiters.h"
#include "wire/adapter_state.h"
#include "wire/worker_view.h"

struct event_base;

typedef struct hth_supervisor hth_supervisor;

/*
 * options are valid until the next hth_supervisor_reconfigure. program: the executable, as for execv. feed outlives it;
 * NULL: nobody is told of events.
 */
hearth_status hth_supervisor_new(struct event_base *base, const char *program, const hth_server_options *options,
                                 const hth_log *log, hth_event_feed *feed, hth_supervisor **out, hearth_error *err);
/* Kill the workers that still run, wait for them, and remove the sockets. Accepts NULL. */
void hth_supervisor_free(hth_supervisor *supervisor);

/*
 * Take new options: add new models, stop removed ones in order, and restart those whose worker's options changed.
 * Others go on. Indexes of models may change; names do not.
 */
void hth_supervisor_reconfigure(hth_supervisor *supervisor, const hth_server_options *options);
/* The same where options only have more or fewer models than before: the others are not touched. */
void hth_supervisor_set_models(hth_supervisor *supervisor, const hth_server_options *options);

/* Stop every worker: SIGTERM, after timeout_ms SIGKILL, and on_stopped when all have ended. */
void hth_supervisor_stop(hth_supervisor *supervisor, uint32_t timeout_ms, void (*on_stopped)(void *user_data),
                         void *user_data);

/* ---- for requests ---- */

/*
 * Wait for a ready worker of a model; start it if needed. after: the generation that failed for this waiter, so that a
 * later one is needed; 0: any will do. While that generation still runs, this acts as hth_supervisor_note_broken, too.
 * The waiter holds the worker from on_ready until it is cancelled or wants again.
 * HEARTH_NOT_FOUND when there is no such model; then no callback comes.
 */
hearth_status hth_supervisor_want(hth_supervisor *supervisor, const char *model, uint64_t after,
                                  hth_worker_waiter *waiter, hearth_error *err);

/*
 * A connection to this generation broke, so it probably died: the supervisor looks now. If the process lives but its
 * event loop stands still for a second, it is killed. If it is well, waiters that need a later generation fail with
 * HEARTH_BUSY, because none will come.
 */
void hth_supervisor_note_broken(hth_supervisor *supervisor, const char *model, uint64_t generation);

/*
 * The worker of this generation finished a reply, or brought one further. A death after that is no failed start: it
 * does not break the circuit.
 */
void hth_supervisor_note_served(hth_supervisor *supervisor, const char *model, uint64_t generation);

/*
 * What a request of this model waits for, as a client may read it: "loading 45%", "waiting for room, 2nd in line",
 * "waiting for another worker"; "": for nothing that is known. generation: that of the worker that has the request;
 * then the text is "hashing 45%" while this worker hashes the model's file, else "". 0: none has it.
 */
enum { HTH_WAIT_TEXT_BYTES = 64 };
void hth_supervisor_tell_wait(const hth_supervisor *supervisor, const char *model, uint64_t generation,
                              char out[HTH_WAIT_TEXT_BYTES]);

/* ---- adapters that were loaded since the server started (adapter_state.h) ---- */

/* Those of a model; NULL: none. Valid until the next change. */
const hth_adapter_state *hth_supervisor_adapters(const hth_supervisor *supervisor, const char *model);
/* The model that has the adapter of this name; NULL: none has. */
const char *hth_supervisor_adapter_owner(const hth_supervisor *supervisor, const char *name);
/*
 * The model's worker of this generation has taken the state; every later one begins with it. False: that worker ends or
 * was replaced meanwhile, the model is gone, or there is no memory. generation 0: the model has no process; else false.
 */
bool hth_supervisor_set_adapters(hth_supervisor *supervisor, const char *model, uint64_t generation,
                                 const hth_adapter_state *state);

/* ---- for pages, metrics and logs ---- */

size_t hth_supervisor_n(const hth_supervisor *supervisor);
/* Views are large (a few KiB): one at a time. Strings are valid until the next reconfiguration. */
void hth_supervisor_view(const hth_supervisor *supervisor, size_t i, hth_worker_view *out);
/* The same of the model of this name. False: there is none. */
bool hth_supervisor_view_of(const hth_supervisor *supervisor, const char *model, hth_worker_view *out);
/* Would every request of this model be refused now? Then *err has the reason. Cheap. */
bool hth_supervisor_is_broken(const hth_supervisor *supervisor, const char *model, hearth_error *err);

/* Memory of all models on the host, or on one device. */
typedef struct hth_supervisor_pool {
    char name[sizeof(((hth_device_pool *)NULL)->name)]; /* of the device; "": the host */
    uint64_t limit_bytes;                               /* UINT64_MAX: there is none */
    uint64_t used_bytes;     /* of models with a worker, and of rows that others left in memory */
    uint64_t pinned_bytes;   /* of them, those of pinned models */
    uint64_t models_bytes;   /* the limit, on the host without the memory for rows */
    uint64_t promised_bytes; /* of all pinned models, also those without a worker */
    bool pinned_over_commit; /* these are more than models_bytes */
} hth_supervisor_pool;

typedef struct hth_supervisor_memory {
    hth_supervisor_pool pools[HTH_POOLS_MAX]; /* [n], the host first */
    size_t n;
    uint64_t rows_limit_bytes; /* of the host's limit, for the rows of all models */
    uint64_t rows_bytes;       /* of the host's used bytes, rows in memory */
} hth_supervisor_memory;
hth_supervisor_memory hth_supervisor_memory_of(const hth_supervisor *supervisor);

/* ---- pressure ---- */

/*
 * Free so many bytes, as far as idle models and rows allow (relief.h), and the patience of who asks (NULL: has none).
 * is_device: of devices. Returns the bytes that will be free soon, those that were told to leave before included.
 */
uint64_t hth_supervisor_relieve(hth_supervisor *supervisor, uint64_t n_bytes, bool is_device, hth_patience *patience);
/* While memory is short, a model enters when all others but pinned ones have left. */
void hth_supervisor_hold(hth_supervisor *supervisor, bool is_held);

/* ---- orders: HEARTH_NOT_FOUND, HEARTH_BUSY while the server ends ---- */

/* Start the model's worker as if a request waited for it: other models may leave for it. */
hearth_status hth_supervisor_load(hth_supervisor *supervisor, const char *model, hearth_error *err);
/*
 * End the model's worker: requests at work end first, as far as drain_timeout_ms allows; the next request starts
 * another.
 */
hearth_status hth_supervisor_unload(hth_supervisor *supervisor, const char *model, hearth_error *err);
/*
 * Bring the model to this place and pin it there, or unpin it, until the server ends or the option of its pin changes.
 * HEARTH_UNSUPPORTED: its weights are kept in no folder. HEARTH_FULL: there is no room, for pinned models or at all.
 */
hearth_status hth_supervisor_set_residency(hth_supervisor *supervisor, const char *model, hth_residency to,
                                           hearth_error *err);
/*
 * Start the workers of these models, in this order, as far as there is room beside the models that are in memory. *out
 * becomes an object with lists of names, which the caller releases: loading, resident (a worker before), no_room.
 */
hearth_status hth_supervisor_preload(hth_supervisor *supervisor, const char *const *models, size_t n, json_t **out,
                                     hearth_error *err);
/* End the workers of all models that are not pinned, as unload does. *out: an object with the list releasing. */
hearth_status hth_supervisor_release_all(hth_supervisor *supervisor, bool drops_rows, json_t **out, hearth_error *err);
/* Restart the ready workers of models that are not pinned, one after another. *out has the list compacting. */
hearth_status hth_supervisor_compact(hth_supervisor *supervisor, json_t **out, hearth_error *err);
/*
 * Until the model's next use, its worker ends after keep_ms without use, in place of the option; 0: when its last
 * request has ended; UINT64_MAX: never.
 */
void hth_supervisor_keep(hth_supervisor *supervisor, const char *model, uint64_t keep_ms);
/* Stop the model's worker in order and start it again. */
hearth_status hth_supervisor_restart(hth_supervisor *supervisor, const char *model, hearth_error *err);

#endif
