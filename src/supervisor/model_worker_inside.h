/*
 * model_worker_inside.h - shared by the files of a worker: model_worker.c (its life), model_worker_watch.c (hangs and
 * time-outs), model_worker_residency.c (its turn among other models), model_worker_needs.c (the memory that it takes),
 * model_worker_relief.c (memory that it can free under pressure), model_worker_ram.c (its share of the memory for
 * rows), model_worker_moves.c (orders that move it), model_worker_events.c (its events for operators)
 */
#ifndef HTH_SUPERVISOR_MODEL_WORKER_INSIDE_H
#define HTH_SUPERVISOR_MODEL_WORKER_INSIDE_H

#include <sys/un.h>

#include "engine/weight_region.h"
#include "supervisor/learned.h"
#include "supervisor/model_worker.h"
#include "supervisor/restart_policy.h"
#include "supervisor/worker_process.h"

enum { HTH_CAUSE_BYTES = 320 };

struct hth_model_worker {
    hth_worker_shared *shared;
    unsigned slot;

    char *name;
    char **arguments; /* ending with NULL; one allocation with its strings */
    uint64_t ram_bytes;
    bool on_demand;
    bool no_sandbox;
    bool awaits_ram; /* its process has not confirmed ram_quota */
    bool was_pinned_by_options;
    bool is_pinned;      /* its process stays, and */
    bool is_host_pinned; /* its weights in the folder: by the options, or by an order since */
    uint64_t keep_ns;    /* without use; UINT64_MAX: for ever */

    hth_worker_state state;
    bool is_condemned;   /* STOPPING: killed for verdict */
    bool start_again;    /* STOPPING: a new process follows */
    bool told_by_others; /* STOPPING: by another process' SIGTERM, not by this server */
    bool was_ready;      /* this process or an earlier one */
    hth_worker_process *process;
    char socket_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    uint64_t generation;
    uint64_t started_ns;
    uint64_t progress_ns;   /* STARTING: time of the last progress */
    float progress;         /* STARTING: of the load; READY: the part of the file that is hashed, 1: all */
    unsigned told_progress; /* in twentieths */
    uint64_t ready_ns;      /* of this process; 0: not yet */
    uint64_t doubted_ns;    /* READY: when a connection broke; 0: never */
    uint64_t kill_ns;       /* STOPPING: when SIGKILL comes; 0: it was sent */
    char verdict[HTH_CAUSE_BYTES];

    /*
     * READY: notifies those who wait. Not from within the process' callback, because a waiter could free the process.
     */
    struct event *notify;

    /* WAITING, BROKEN */
    struct event *pause;
    uint64_t pause_end_ns;
    hth_restart_policy policy;

    /* Over all processes. */
    hth_status_page *page;
    int status_fd;
    int ram_fd;                  /* -1: none */
    hth_adapter_state *adapters; /* that were loaded while the server runs; NULL: none were */
    hth_waiters waiters;
    uint64_t n_starts, n_deaths, n_hangs;

    /* Residency. */
    uint64_t host_bytes;                          /* of its weights in the folder of host weights */
    uint8_t weights_file[HTH_WEIGHT_MODEL_BYTES]; /* the identity of the file that they were made of */
    uint64_t n_drops;                             /* that all workers had made when it looked for them */
    uint64_t held_ns; /* the time at which another process was seen to hold them; 0: never */
    hth_weights_count weights_count;
    bool weights_are_pinned; /* by it, or by a model that shares them */
    uint64_t file_bytes;     /* of the model's files, at its last start */
    char *path;              /* of the model's file; NULL: unknown */
    uint64_t bytes;          /* the most that a process was seen to take; 0: none was seen */
    uint64_t looked_ns;      /* the time at which a process was looked at */
    uint64_t entered_ns;     /* this process, or the first of those that died since */
    uint64_t used_ns;        /* the end of the last use */
    uint64_t idle_ns;        /* the time at which its last request ended; 0: none has */
    bool comes_back;         /* its last request came within stay_ms after the one before, or beside it */
    uint64_t keep_once_ns;   /* in place of keep_ns until the next use */
    bool is_closed;          /* other models wait: new requests wait, too */
    bool is_invited;         /* it starts without a request, if there is room */
    bool has_no_room;        /* it was to start since it ended, and there was none */
    bool is_dismissed;       /* by an order, it leaves when it is ready and idle */
    bool drops_host;         /* when its process ends, its weights in the folder go, too */
    bool drops_rows;         /* likewise its rows in memory */
    bool must_compact;       /* its process is to be replaced by a new one */
    bool is_compacting;      /* that goes on */
    hth_residency told_residency;
    hth_departure departs; /* the cause while its process is told to end */
    uint64_t summoned_ns;  /* the time of an order to start it, until it starts; 0: none */
    uint64_t n_departures; /* to make room, after a long rest, or under pressure */
    uint64_t evicting_ram_bytes, evicting_ram_file_bytes; /* of rows that the process was told to evict */
    uint64_t ram_stuck_ns, ram_file_stuck_ns; /* the time at which a tier freed less than it was told; 0: never */

    /* Rows in memory. */
    uint64_t ram_share;       /* of the memory for rows: the quota, or more until it is confirmed and rows have left */
    uint64_t ram_used;        /* by rows, as the process told */
    uint64_t ram_quota;       /* that the process was told last */
    uint64_t ram_used_before; /* by rows, when it was told */
    uint64_t n_displaced;     /* rows that found no free room, as the process told */
    uint64_t ram_short_ns;    /* the time at which this number grew; 0: it did not, since the share grew */

    /* Needs. */
    uint8_t key[HTH_LEARNED_KEY_BYTES]; /* of file and options */
    bool has_key;                       /* the model has a file */
    bool was_asked;                     /* nobody needs to be asked for its needs, or can be */
    bool waits_for_needs;               /* it is not planned before they are known */
    bool measures;                      /* the process is one of this key; an older one may end meanwhile */
    bool has_worked;                    /* a process of this key did something: it has cells and buffers now */
    bool has_served;                    /* this process: see hth_supervisor_note_served */
    hth_learned_model learned;          /* of the key */
    hth_worker_process *asked;          /* the process that tells the needs; NULL: none */
    uint64_t asked_ns;
    uint64_t answered_ns;   /* it told its needs to this server, and so the free memory of devices; 0: never */
    uint64_t wished_ns;     /* since then it waits for its place; 0: it does not */
    uint64_t ask_ns;        /* not before this time */
    unsigned n_killed;      /* processes that were killed before they answered, or could not start */
    unsigned n_sights;      /* of the server, with which the answer was made */
    hth_model_needs answer; /* the lines that it has told */

    char last_cause[HTH_CAUSE_BYTES]; /* of the last death, "" */
    char last_death[512];             /* with its last lines, which are not for clients */
};

/* The silence after which its event loop hangs; 0: it never does. */
uint32_t hth_model_worker_loop_hang_ms(const hth_model_worker *worker);
/* Kill a process that hangs. It is reaped later. */
void hth_model_worker_condemn(hth_model_worker *worker, bool is_hang, const char *verdict);
/* The pause after a death is over. */
void hth_model_worker_try_again(hth_model_worker *worker);

/* ---- model_worker_residency.c ---- */

/* Take the model's options about memory and starting. False without memory: nothing changed. */
bool hth_model_worker_take_residency(hth_model_worker *worker, const hth_server_model *model);
/* A process starts; or it ended by an order. The model is used; some time has passed. */
void hth_model_worker_note_start(hth_model_worker *worker);
void hth_model_worker_note_end(hth_model_worker *worker);
void hth_model_worker_note_use(hth_model_worker *worker);
void hth_model_worker_look(hth_model_worker *worker, uint64_t now_ns);
void hth_model_worker_view_residency(const hth_model_worker *worker, uint64_t now_ns, hth_worker_view *out);

/* ---- model_worker_moves.c ---- */

/* True, with the message that requests get: it is not resident, and only an order brings it in. */
bool hth_model_worker_is_absent(const hth_model_worker *worker, hearth_error *err);

/* ---- model_worker_needs.c ---- */

/* File or options may have changed: recall all that was learned of them. */
void hth_model_worker_recall(hth_model_worker *worker);
/* Does the answer of the process that was asked come later? Ask one if nobody was asked yet. */
bool hth_model_worker_ask(hth_model_worker *worker);
/* Take the answer if the process has ended; do without when it is late. */
void hth_model_worker_take_answer(hth_model_worker *worker, uint64_t now_ns);
/* Has it waited for so long that it waits for nobody's needs any more? */
bool hth_model_worker_waited_long(const hth_model_worker *worker);
/* Without waiting for the end of the process. */
void hth_model_worker_stop_asking(hth_model_worker *worker);
/* Bytes of the host that count for the model, without rows. */
uint64_t hth_model_worker_host_bytes(const hth_model_worker *worker);
/* A process takes so many bytes now, without rows. */
void hth_model_worker_learn(hth_model_worker *worker, uint64_t bytes);

/* ---- model_worker_ram.c ---- */

/* A process starts; it has ended, or rows were dropped. */
void hth_model_worker_begin_ram(hth_model_worker *worker);
void hth_model_worker_end_ram(hth_model_worker *worker);
/* The process has told the state of its RAM tier; user_data is the worker. */
void hth_model_worker_note_ram(uint64_t quota, uint64_t used_bytes, uint64_t n_displaced, void *user_data);

/* ---- model_worker_relief.c ---- */

/* The process has evicted rows as told; user_data is the worker. */
void hth_model_worker_note_evicted(uint64_t ram_bytes, uint64_t ram_file_bytes, void *user_data);

/* ---- model_worker_events.c: operators are told ---- */

void hth_model_worker_tell_load(const hth_model_worker *worker);
/* Of loading or, once READY, of hashing; each twenty times a process at most. */
void hth_model_worker_tell_progress(hth_model_worker *worker);
void hth_model_worker_tell_ready(const hth_model_worker *worker);
/* Its process is told to end; it has ended as told. */
void hth_model_worker_tell_unload(const hth_model_worker *worker, const char *why);
void hth_model_worker_tell_unloaded(const hth_model_worker *worker);
/* So many bytes of rows in this tier are gone. */
void hth_model_worker_tell_eviction(const hth_model_worker *worker, const char *tier, uint64_t bytes,
                                    hth_departure why);
/* It was to enter by an order, and there is no room. */
void hth_model_worker_tell_no_room(const hth_model_worker *worker);
/* It died, and the pause before its next start has begun. */
void hth_model_worker_tell_death(const hth_model_worker *worker, uint32_t pause_ms);

#endif
