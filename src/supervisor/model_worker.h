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

#include <sys/un.h>

#include "base/log.h"
#include "engine/weight_region.h"
#include "supervisor/carrier_link.h"
#include "supervisor/device_pools.h"
#include "supervisor/event_feed.h"
#include "supervisor/learned.h"
#include "supervisor/ram_shares.h"
#include "supervisor/relief.h"
#include "supervisor/residency.h"
#include "supervisor/restart_policy.h"
#include "supervisor/server_options.h"
#include "supervisor/waiters.h"
#include "supervisor/worker_process.h"
#include "wire/adapter_state.h"
#include "wire/status_page.h"
#include "wire/worker_view.h"

struct event;
struct event_base;

typedef struct hth_model_worker hth_model_worker;

enum {
    HTH_STOPPING_RETRY_S = 5, /* a guess: another server answers by then */
    HTH_ABANDONED_MAX = 16,   /* with more, no process is started to measure the needs of models */
    HTH_WORKER_CAUSE_BYTES = 320,
};

/* The cause of the end of a process, or of kept weights, that no operator ordered. */
typedef enum hth_departure {
    HTH_DEPARTURE_NONE,
    HTH_DEPARTURE_ROOM,
    HTH_DEPARTURE_REST,
    HTH_DEPARTURE_PRESSURE
} hth_departure;

/* The entry of a plan that counts repacked weights in a folder. Models of one file share such weights. */
typedef enum hth_weights_count {
    HTH_WEIGHTS_COUNT_HERE,      /* with the model; with its rows, while it is out */
    HTH_WEIGHTS_COUNT_APART,     /* with its rows, which stay: other models with a worker have them, too */
    HTH_WEIGHTS_COUNT_ELSEWHERE, /* with another model */
} hth_weights_count;

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
    hth_carrier_link *carrier;  /* NULL: none */
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

/* The life of a process. At its beginning, all fields but the first two are zeros. */
typedef struct hth_worker_life {
    uint64_t started_ns;
    uint64_t progress_ns;                     /* STARTING: time of the last progress */
    float progress;                           /* STARTING: of the load; READY: the part of the file that is hashed */
    unsigned reported_progress;               /* in twentieths */
    uint64_t ready_ns;                        /* 0: not yet */
    uint64_t doubted_ns;                      /* READY: when a connection broke; 0: never */
    uint64_t kill_ns;                         /* STOPPING: when SIGKILL comes; 0: it was sent */
    bool is_condemned;                        /* STOPPING: killed for verdict */
    bool start_again;                         /* STOPPING: a new process follows */
    bool stopped_by_others;                   /* STOPPING: another process sent SIGTERM, not this server */
    bool has_served;                          /* set by hth_supervisor_note_served */
    uint64_t ram_stuck_ns, ram_file_stuck_ns; /* when a tier freed less than was ordered; 0: never */
    char verdict[HTH_WORKER_CAUSE_BYTES];
} hth_worker_life;

/* The supervisor reads it; only model_worker.c changes it, except where a field says so. */
struct hth_model_worker {
    hth_worker_shared *shared;
    unsigned slot;

    char *name;
    uint64_t load_ns;             /* that the last load of the model took; 0: it was not loaded yet */
    const char *const *arguments; /* of its worker (worker_arguments.h) */
    uint64_t ram_bytes;
    bool on_demand;
    bool has_history; /* hth_server_model */
    bool no_sandbox;
    bool awaits_ram; /* its process has not confirmed ram_quota */
    bool was_pinned_by_options;
    bool is_pinned;      /* its process stays; set by the options, or by an order since */
    bool is_host_pinned; /* its weights stay in the folder; set likewise */
    uint64_t keep_ns;    /* time without use after which it leaves; UINT64_MAX: never */

    hth_worker_state state;
    bool was_ready; /* this process or an earlier one */
    hth_worker_process *process;
    hth_worker_life life; /* of this process */
    char socket_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    uint64_t generation;

    /* READY: notifies the waiters. Not done within the process' callback, because a waiter could free the process. */
    struct event *notify;

    /* WAITING, BROKEN */
    struct event *pause;
    uint64_t pause_end_ns;
    hth_restart_policy policy;

    /* Kept across processes. */
    hth_status_page *page;
    int status_fd;
    int ram_fd;                  /* -1: none */
    hth_adapter_state *adapters; /* that were loaded at run time; NULL: none */
    hth_waiters waiters;         /* the supervisor may end their wait, too */
    uint64_t n_starts, n_deaths, n_hangs;

    /* Residency. */
    uint64_t host_bytes;                          /* of its weights in the folder of host weights */
    uint8_t weights_file[HTH_WEIGHT_MODEL_BYTES]; /* the identity of the file that they were made from */
    uint64_t n_drops;                             /* the count of all drops when it last looked for its weights */
    uint64_t held_ns;                             /* when another process was last seen to hold them; 0: never */
    hth_weights_count weights_count;              /* set by the supervisor before a plan, like the next one */
    bool weights_are_pinned;                      /* by this model, or by one that shares the weights */
    uint64_t file_bytes;                          /* of the model's files, at its last start */
    char *path;                                   /* of the model's file; NULL: unknown */
    uint64_t bytes;                               /* the most that a process was measured to use; 0: not measured */
    uint64_t looked_ns;                           /* the time of the last measurement of a process */
    uint64_t entered_ns;                          /* when this process entered, or the first one before it that died */
    uint64_t used_ns;                             /* the end of the last use */
    uint64_t idle_ns;                             /* when its last request ended; 0: none has */
    bool comes_back;       /* its last request came within stay_ms after the previous one, or while that ran */
    uint64_t keep_once_ns; /* replaces keep_ns until the next use; an order may set it */
    bool is_closed;        /* other models wait, so new requests of this one wait, too */
    bool is_invited;       /* it starts without a request, if there is room */
    bool has_no_room;      /* since its last end it should have started, but there was no room */
    bool is_dismissed;     /* by an order, it leaves when it is ready and idle */
    bool drops_host;       /* when its process ends, its weights in the folder are removed, too */
    bool drops_rows;       /* likewise its rows in memory */
    bool must_compact;     /* its process is to be replaced by a new one; set by the supervisor, like the next one */
    bool is_compacting;    /* the replacement is in progress */
    hth_residency reported_residency;
    hth_departure departs; /* the cause while its process is told to end */
    uint64_t summoned_ns;  /* the time of an order to start it, until it starts; 0: none */
    uint64_t n_departures; /* to make room, after a long idle time, or under pressure */
    uint64_t evicting_ram_bytes, evicting_ram_file_bytes; /* of rows that the process was ordered to evict */

    /* Rows in memory. */
    uint64_t ram_share; /* of the memory for rows: the quota, or more until the quota is confirmed and rows have left */
    uint64_t ram_used;  /* by rows, as the process reported */
    uint64_t ram_quota; /* the last quota sent to the process */
    uint64_t ram_used_before; /* by rows, when the quota was sent */
    uint64_t n_displaced;     /* rows that found no free room, as the process reported */
    uint64_t ram_short_ns;    /* when n_displaced last grew; 0: not since the share grew */

    /* Needs. */
    uint8_t key[HTH_LEARNED_KEY_BYTES]; /* of file and options */
    bool has_key;                       /* the model has a file */
    bool was_asked;                     /* its needs need not be measured, or cannot be */
    bool waits_for_needs;               /* it is in no plan until its needs are known */
    bool measures;                      /* the process has this key; false: an older one is still ending */
    bool has_worked;                    /* a process of this key did work, so its cells and buffers are in memory */
    hth_learned_model learned;          /* of the key */
    hth_worker_process *asked;          /* the process that measures the needs; NULL: none */
    uint64_t asked_ns;
    uint64_t answered_ns; /* when a measuring process reported to this server, including free device memory; 0: never */
    uint64_t waits_since_ns; /* since when it waits for its place; 0: it does not wait */
    uint64_t ask_ns;         /* the earliest time of the next measurement */
    unsigned n_killed;       /* measuring processes that were killed before they answered, or could not start */
    unsigned n_sights;       /* the server's number of sights when the answer was made */
    hth_model_needs answer;  /* the lines reported so far */

    char last_cause[HTH_WORKER_CAUSE_BYTES]; /* of the last death, "" */
    char last_death[512];                    /* with its last lines, which are not for clients */
};

/* Free the abandoned processes that have ended. */
void hth_worker_shared_reap(hth_worker_shared *shared);

/* slot: a number that no other worker has or ever had. The model's strings are copied. */
hearth_status hth_model_worker_new(hth_worker_shared *shared, const hth_server_model *model, unsigned slot,
                                   hth_model_worker **out, hearth_error *err);
/* Kill the process without waiting; only hth_model_worker_free may follow. */
void hth_model_worker_kill(hth_model_worker *worker);
/* Kills the process and waits for it; drops the waiters. Accepts NULL. */
void hth_model_worker_free(hth_model_worker *worker);

/* Is it READY, and do requests wait in it until the file is hashed? */
bool hth_model_worker_is_hashing(const hth_model_worker *worker);
/* Is it READY, and not about to leave? */
bool hth_model_worker_takes_requests(const hth_model_worker *worker);

/* Start a process now, without a pause; only in STOPPED, WAITING, BROKEN. */
void hth_model_worker_start(hth_model_worker *worker);
/*
 * Tell the process to end, and kill it timeout_ms later. Running replies may end in it for drain_ms. again: start a new
 * process afterwards. Without a process the worker is STOPPED at once.
 */
void hth_model_worker_stop(hth_model_worker *worker, uint32_t drain_ms, uint32_t timeout_ms, bool again);
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

/* ---- residency ---- */

/* The evaluation buffers on the host, as far as they are known; 0 while the model is out and no request wants it. */
uint64_t hth_model_worker_scratch_bytes(const hth_model_worker *worker);
/* Do both have the same repacked weights in a folder? */
bool hth_model_worker_shares_weights(const hth_model_worker *a, const hth_model_worker *b);
/* Does it have a place among the models in memory? */
bool hth_model_worker_is_in(const hth_model_worker *worker);
/* Is it out while an order, an invitation or waiting requests want it in? */
bool hth_model_worker_is_awaited(const hth_model_worker *worker);
/* Call before a plan: starts measuring the needs of a model that waits for a place. */
void hth_model_worker_prepare(hth_model_worker *worker);
hth_model_place hth_model_worker_place(const hth_model_worker *worker);
/* The plan entries of the model, and of its weights in the folder of host weights (0 bytes: none). */
void hth_model_worker_resident(const hth_model_worker *worker, const hth_device_pools *pools, hth_resident *out,
                               hth_resident *kept);
/* While it is closed, new requests wait and running ones finish. */
void hth_model_worker_set_closed(hth_model_worker *worker, bool is_closed);
/* End the process because of a plan. */
void hth_model_worker_depart(hth_model_worker *worker, hth_departure why);
/*
 * Likewise, remove its repacked weights, if they count with it. Returns their bytes; 0 while another process holds
 * them.
 */
uint64_t hth_model_worker_evict_host_weights(hth_model_worker *worker, hth_departure why);
/* Memory of the rows in the RAM tier, also without a process. */
uint64_t hth_model_worker_row_bytes(const hth_model_worker *worker);
/* The first fills the plan entry for shares. The second sets the share that it gets, or must shrink to. */
void hth_model_worker_ram(const hth_model_worker *worker, uint64_t now_ns, hth_ram_holder *out);
void hth_model_worker_set_ram_share(hth_model_worker *worker, uint64_t share_bytes);
/* The plan entry for relief. is_device: for memory of devices. */
void hth_model_worker_relief(const hth_model_worker *worker, bool is_device, hth_relief_model *out);
/* Carry out an order of such a plan. */
void hth_model_worker_relieve(hth_model_worker *worker, const hth_relief_order *order);
/* Both start the worker when there is room; summon acts as if a request waited for it. A running process stays. */
void hth_model_worker_invite(hth_model_worker *worker);
void hth_model_worker_summon(hth_model_worker *worker);
/* Is the worker neither in use nor waited for? */
bool hth_model_worker_is_idle(const hth_model_worker *worker);

/* ---- moves ---- */

/* Is it moved by orders alone (residency.mode)? */
bool hth_model_worker_is_external(const hth_model_worker *worker);
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
/*
 * The process of this generation has applied the state, and new processes start with it. False: that process ends or
 * was replaced, or there is no memory. generation 0: the state is for new processes only; false if there is a process.
 */
bool hth_model_worker_set_adapters(hth_model_worker *worker, uint64_t generation, const hth_adapter_state *state);
void hth_model_worker_drop_adapters(hth_model_worker *worker);

void hth_model_worker_view(const hth_model_worker *worker, hth_worker_view *out);
void hth_model_worker_load(const hth_model_worker *worker, hth_worker_load *out); /* costs no system call */
/* True, with the message for requests, if the state is BROKEN. */
bool hth_model_worker_is_broken(const hth_model_worker *worker, hearth_error *err);

#endif
