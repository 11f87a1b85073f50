/*
 * model_worker.h - keeps the worker of one model running
 *
 *   STOPPED   -> STARTING   hth_model_worker_start: with the server, at a request, or by an operator's order, when the
 *                           supervisor has room for it (residency.h)
 *   STARTING  -> READY      the worker reports that it is ready
 *   STARTING, READY -> STOPPING   it was told to end, or was killed because it hung
 *   STARTING, READY, STOPPING -> WAITING, BROKEN   it died, or was killed because it hung
 *   STOPPING  -> STOPPED    it ended as ordered; then STARTING at once if it is to restart
 *   WAITING   -> STARTING   the pause is over
 *   BROKEN    -> STOPPED    the pause is over; STARTING when there is room
 *
 * The status page, the memory of the RAM tier, the adapters that were loaded at run time, the waiters and the history
 * of deaths outlive a process. Event loop only. Any function with a non-const worker may call the callbacks of waiters.
 */
#ifndef HTH_SUPERVISOR_MODEL_WORKER_H
#define HTH_SUPERVISOR_MODEL_WORKER_H

#include "base/log.h"
#include "supervisor/device_pools.h"
#include "supervisor/event_feed.h"
#include "supervisor/learned.h"
#include "supervisor/model_events.h"
#include "supervisor/options.h"
#include "supervisor/ram_shares.h"
#include "supervisor/relief.h"
#include "supervisor/residency.h"
#include "supervisor/waiters.h"
#include "supervisor/worker_process.h"
#include "wire/adapter_state.h"
#include "wire/worker_view.h"

struct event_base;

typedef struct hth_model_worker hth_model_worker;

enum {
    HTH_STOPPING_RETRY_S = 5, /* a guess: another server answers by then */
    HTH_ABANDONED_MAX = 16,   /* with more, no process is started to measure the needs of models */
};

/* State that the workers of all models share. It outlives them. */
typedef struct hth_worker_shared {
    struct event_base *base;
    const char *program;
    const hth_server_options *options; /* in force */
    const hth_log *log;
    hth_event_feed *feed;       /* NULL: no events are reported */
    const char *directory;      /* of the sockets */
    uint64_t watching_since_ns; /* the event loop has not stalled since this time */
    bool is_stopping;           /* no more processes are started */
    hth_learned *learned;       /* the measured memory use of models; never NULL */
    hth_device_pools seen;      /* devices whose free memory this server has seen */
    unsigned n_sights;          /* sights that found more memory there */
    uint64_t n_drops;           /* of kept weights, which other models may have shared */
    unsigned n_asked;           /* processes that measure the needs of models now */
    unsigned n_abandoned;
    hth_worker_process *abandoned[HTH_ABANDONED_MAX]; /* too late: killed, not yet ended */
    /* A process ended in order and is not replaced, or a worker is no longer in use. Must not free a worker. */
    void (*on_change)(void *user_data);
    /* A measuring process has reported the needs of a model. */
    void (*on_needs)(const hth_model_needs *needs, void *user_data);
    /* Could another look at the devices of a model find more memory there? */
    bool (*may_see_more)(const hth_model_needs *needs, void *user_data);
    /* The share of the memory for rows that a worker's process may start with now. */
    uint64_t (*ram_share)(const hth_model_worker *worker, void *user_data);
    void *user_data;
} hth_worker_shared;

/* Free the abandoned processes that have ended. */
void hth_worker_shared_reap(hth_worker_shared *shared);

/* slot: a number that no other worker has or ever had. The model's strings are copied. */
hearth_status hth_model_worker_new(hth_worker_shared *shared, const hth_server_model *model, unsigned slot,
                                   hth_model_worker **out, hearth_error *err);
/* Kill the process without waiting; only hth_model_worker_free may follow. */
void hth_model_worker_kill(hth_model_worker *worker);
/* Kills the process and waits for it; drops the waiters. Accepts NULL. */
void hth_model_worker_free(hth_model_worker *worker);

const char *hth_model_worker_name(const hth_model_worker *worker);
hth_worker_state hth_model_worker_state(const hth_model_worker *worker);
/* 0 to 1. STARTING: progress of the load. READY: the part of the model's file that is hashed. */
float hth_model_worker_progress(const hth_model_worker *worker);
/* Is it READY, and do requests wait in it until the file is hashed? */
bool hth_model_worker_is_hashing(const hth_model_worker *worker);
/* The generation of its process, counted from 1. 0: it had no process yet. */
uint64_t hth_model_worker_generation(const hth_model_worker *worker);
/* Is it READY, and not about to leave? */
bool hth_model_worker_takes_requests(const hth_model_worker *worker);
bool hth_model_worker_starts_with_server(const hth_model_worker *worker);

/* Start a process now, without a pause; only in STOPPED, WAITING, BROKEN. */
void hth_model_worker_start(hth_model_worker *worker);
/* Tell the process to end, and kill it timeout_ms later. Without a process the worker is STOPPED at once. */
void hth_model_worker_stop(hth_model_worker *worker, uint32_t timeout_ms);
/*
 * Like hth_model_worker_stop, but with a long time-out, because the front goes on serving. drains: running replies may
 * end in the old process, because no other process could continue them. again: start a new process afterwards.
 */
void hth_model_worker_retire(hth_model_worker *worker, bool drains, bool again);
/*
 * Apply new options of the model. Restart the worker if its own options differ. False without memory: the old options
 * stay.
 */
bool hth_model_worker_update(hth_model_worker *worker, const hth_server_model *model);
/* If the process has ended, make the transition of the table above. */
void hth_model_worker_reap(hth_model_worker *worker);
/* Check for hangs, and for time-outs of starting, stopping and waiting. */
void hth_model_worker_tick(hth_model_worker *worker, uint64_t now_ns);

/* Add a waiter, which is in no list and holds no worker. A STOPPED worker does not start: the supervisor plans that. */
void hth_model_worker_want(hth_model_worker *worker, uint64_t after, hth_worker_waiter *waiter);
void hth_model_worker_note_broken(hth_model_worker *worker, uint64_t generation);
void hth_model_worker_note_served(hth_model_worker *worker, uint64_t generation);
/* All waiters fail with err. */
void hth_model_worker_fail_waiters(hth_model_worker *worker, const hearth_error *err);

/* ---- residency ---- */

/* The evaluation buffers on the host, as far as they are known; 0 while the model is out and no request wants it. */
uint64_t hth_model_worker_scratch_bytes(const hth_model_worker *worker);
/* The entry of a plan that counts repacked weights in a folder. Models of one file share such weights. */
typedef enum hth_weights_count {
    HTH_WEIGHTS_COUNT_HERE,      /* with the model; with its rows, while it is out */
    HTH_WEIGHTS_COUNT_APART,     /* with its rows, which stay: other models with a worker have them, too */
    HTH_WEIGHTS_COUNT_ELSEWHERE, /* with another model */
} hth_weights_count;

/* Do both have the same repacked weights in a folder? */
bool hth_model_worker_shares_weights(const hth_model_worker *a, const hth_model_worker *b);
/* Does it have a place among the models in memory? */
bool hth_model_worker_is_in(const hth_model_worker *worker);
uint64_t hth_model_worker_used_ns(const hth_model_worker *worker);
void hth_model_worker_count_weights(hth_model_worker *worker, hth_weights_count with, bool are_pinned);
/* The first is its own pin. The second is the pin of any model that shares its weights, by the last count. */
bool hth_model_worker_is_host_pinned(const hth_model_worker *worker);
bool hth_model_worker_weights_are_pinned(const hth_model_worker *worker);
bool hth_model_worker_has_weights(const hth_model_worker *worker); /* in the folder */
/* The size of its weights in the folder. While there are none, an estimate from its metadata. */
uint64_t hth_model_worker_weights_bytes(const hth_model_worker *worker);
/* Is it out while an order, an invitation or waiting requests want it in? */
bool hth_model_worker_is_awaited(const hth_model_worker *worker);
/* Call before a plan: starts measuring the needs of a model that waits for a place. */
void hth_model_worker_prepare(hth_model_worker *worker);
/* Add the devices that it uses. */
void hth_model_worker_note_devices(const hth_model_worker *worker, hth_device_pools *pools);
/* Add the bytes that it uses of them, from bytes[1] on. False: they are unknown. */
bool hth_model_worker_share_devices(const hth_model_worker *worker, const hth_device_pools *pools, uint64_t *bytes);
hth_residence hth_model_worker_residence(const hth_model_worker *worker);
/* The plan entries of the model, and of its weights in the folder of host weights (0 bytes: none). */
void hth_model_worker_resident(const hth_model_worker *worker, const hth_device_pools *pools, hth_resident *out,
                               hth_resident *kept);
/* While it is closed, new requests wait and running ones finish. */
void hth_model_worker_set_closed(hth_model_worker *worker, bool is_closed);
/* End the process because of a plan. */
void hth_model_worker_depart(hth_model_worker *worker, hth_departure why);
/* Likewise, drop the rows of a model without a process. */
void hth_model_worker_evict_rows(hth_model_worker *worker, hth_departure why);
/*
 * Likewise, remove its repacked weights, if they count with it. Returns their bytes; 0 while another process holds
 * them.
 */
uint64_t hth_model_worker_evict_host_weights(hth_model_worker *worker, hth_departure why);
/* Free the memory of the RAM tier. A running process keeps its own. */
void hth_model_worker_drop_rows(hth_model_worker *worker);
/* Memory of the rows in the RAM tier, also without a process. */
uint64_t hth_model_worker_row_bytes(const hth_model_worker *worker);
/* The first fills the plan entry for shares. The second sets the share that it gets, or must shrink to. */
void hth_model_worker_ram(const hth_model_worker *worker, uint64_t now_ns, hth_ram_holder *out);
void hth_model_worker_set_ram_share(hth_model_worker *worker, uint64_t share_bytes);
/* The plan entry for relief. is_device: for memory of devices. */
void hth_model_worker_relief(const hth_model_worker *worker, bool is_device, hth_relief_model *out);
/* Carry out an order of such a plan. */
void hth_model_worker_relieve(hth_model_worker *worker, const hth_relief_order *order);
/* Drop the rows of a model without a process, by an operator's order. */
void hth_model_worker_release_rows(hth_model_worker *worker);
/* Both start the worker when there is room; summon acts as if a request waited for it. A running process stays. */
void hth_model_worker_invite(hth_model_worker *worker);
void hth_model_worker_summon(hth_model_worker *worker);
/* Until its next use, it leaves after keep_ns without use; this overrides the option. */
void hth_model_worker_keep(hth_model_worker *worker, uint64_t keep_ns);
/* Is the worker neither in use nor waited for? */
bool hth_model_worker_is_idle(const hth_model_worker *worker);

/* ---- moves ---- */

/* Is it moved by orders alone (residency.mode)? */
bool hth_model_worker_is_external(const hth_model_worker *worker);
hth_residency hth_model_worker_residency(const hth_model_worker *worker);
/* Report its residency to operators if it changed. */
void hth_model_worker_tell_residency(hth_model_worker *worker);
/* Look for its repacked weights in the folder, where other processes may have written them. */
void hth_model_worker_find_weights(hth_model_worker *worker);
/* Do its weights stay in a folder when its process ends? */
bool hth_model_worker_keeps_host_weights(const hth_model_worker *worker);
/* Must a process be started to bring it to this place? */
bool hth_model_worker_must_load_for(const hth_model_worker *worker, hth_residency to);
/* Move it to this place, with this pin or none. The supervisor plans afterwards. */
void hth_model_worker_move(hth_model_worker *worker, hth_residency to);
/* Cancel an order to start that still waits after a plan. Only in the external mode. */
void hth_model_worker_give_up(hth_model_worker *worker);
/*
 * End its process, and drop its rows in memory if drops_rows. A pinned model stays. Returns whether a process leaves.
 */
bool hth_model_worker_release(hth_model_worker *worker, bool drops_rows);
/* Mark its process for replacement. False: it is pinned or not ready. Models are replaced one at a time. */
bool hth_model_worker_compact(hth_model_worker *worker);
bool hth_model_worker_begin_compacting(hth_model_worker *worker); /* false: it is not marked, or cannot now */
bool hth_model_worker_is_compacting(hth_model_worker *worker);

/* The adapters that every new process starts with, besides those of its options; NULL: none. */
const hth_adapter_state *hth_model_worker_adapters(const hth_model_worker *worker);
/*
 * The process of this generation has applied the state, and new processes start with it. False: that process ends or
 * was replaced, or there is no memory. generation 0: the state is for new processes only; false if there is a process.
 */
bool hth_model_worker_set_adapters(hth_model_worker *worker, uint64_t generation, const hth_adapter_state *state);
void hth_model_worker_drop_adapters(hth_model_worker *worker);

void hth_model_worker_view(const hth_model_worker *worker, hth_worker_view *out);
/* True, with the message for requests, if the state is BROKEN. */
bool hth_model_worker_is_broken(const hth_model_worker *worker, hearth_error *err);

#endif
