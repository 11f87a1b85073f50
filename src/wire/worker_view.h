/*
 * worker_view.h - the facts about the worker of one model, for pages, metrics and logs
 *
 * One table has its numbers, for /metrics and /admin/models. docs/monitoring.md lists them; unit/metrics and unit/admin
 * compare that list with the pages.
 */
#ifndef HTH_WIRE_WORKER_VIEW_H
#define HTH_WIRE_WORKER_VIEW_H

#include <stddef.h>

#include "models/needs.h"
#include "wire/status_page.h"

/* supervisor.h explains the states, model_worker.h the transitions. */
typedef enum hth_worker_state {
    HTH_WORKER_STOPPED,
    HTH_WORKER_STARTING,
    HTH_WORKER_READY,
    HTH_WORKER_STOPPING,
    HTH_WORKER_WAITING,
    HTH_WORKER_BROKEN,
} hth_worker_state;
const char *hth_worker_state_name(hth_worker_state state); /* "ready" */

/* The place of a model's weights. docs/models.md explains the words. */
typedef enum hth_residency {
    HTH_RESIDENCY_EVICTED, /* neither of the following */
    HTH_RESIDENCY_HOST,    /* there is no process, and the folder of host weights keeps them */
    HTH_RESIDENCY_DEVICE,  /* there is a process, or a place for the next one */
    HTH_RESIDENCY_PINNED_HOST,
    HTH_RESIDENCY_PINNED_DEVICE,
} hth_residency;
const char *hth_residency_name(hth_residency residency); /* "pinned_host" */
bool hth_residency_read(const char *name, hth_residency *out);

typedef struct hth_worker_view {
    const char *model;
    hth_worker_state state;
    hth_residency residency;
    bool was_ready;          /* it is ready, or was once */
    int pid;                 /* 0: none */
    const char *socket_path; /* while READY; valid during this turn of the event loop; else NULL */
    uint64_t generation;
    uint64_t n_starts;
    uint64_t n_deaths;      /* deaths without an order */
    uint64_t n_hangs;       /* part of them: killed because of a hang */
    float load_progress;    /* while STARTING: of the load; while is_hashing: of the hashing */
    bool is_hashing;        /* READY, and requests wait in the process until the model's file is hashed */
    uint32_t restart_in_ms; /* while WAITING or BROKEN */
    uint32_t n_waiters;
    uint32_t n_uses;             /* requests at work in the process */
    bool is_pinned;              /* its process stays */
    bool is_host_pinned;         /* its weights in the folder stay */
    bool waits_for_room;         /* there was no room to start it, and no request waits for it */
    bool is_awaited;             /* it is out, and was ordered or invited to enter, or requests wait */
    bool is_closed;              /* it will leave: new requests wait */
    uint64_t memory_bytes;       /* that the model uses, or will use: weights, cells, rows in memory */
    uint64_t ram_share_bytes;    /* of the memory for rows: the limit of its rows now; without a worker, their size */
    uint64_t host_weights_bytes; /* of its repacked weights in a folder, which models of the same file share */
    uint64_t measured_bytes;     /* the most that its process used, without rows; 0: unknown */
    hth_model_needs needs;       /* from the metadata of its file; n_ctx 0: unknown */
    uint64_t idle_ms;            /* since its last use; 0: it is in use, or was never used */
    uint64_t leaves_in_ms;       /* without further use; UINT64_MAX: never, or it has no process */
    uint64_t n_departures;       /* its process ended to make room, or after a long idle time */
    uint64_t up_ms;
    uint64_t resident_bytes; /* of the process; 0: unknown */
    char last_death[512];    /* "killed by signal 11 (Segmentation fault); its last lines: ..."; "": it never died */
    hth_status status;       /* zeros while there is no process */
} hth_worker_view;

enum {
    HTH_WORKER_DIGEST_BYTES = 2 * HTH_STATUS_MODEL_BYTES + 1,
    HTH_WORKER_KEYSPACE_BYTES = 2 * HTH_STATUS_KEYSPACE_BYTES + 1,
};

/* The few facts that the choice of a place needs. */
typedef struct hth_worker_load {
    bool is_ready;       /* its worker takes requests */
    bool is_broken;      /* HTH_WORKER_BROKEN */
    bool has_history;    /* it keeps the tokens of earlier conversations */
    uint32_t n_at_work;  /* requests that the worker has */
    uint32_t n_waiting;  /* for the worker */
    uint32_t n_parallel; /* requests that the worker runs at once; 0: not known */
    uint64_t generation; /* of the worker's process */
    uint64_t n_deaths;
    uint64_t n_prompt_left; /* these three as in hearth_model_info */
    uint64_t prompt_token_ns;
    uint64_t reply_token_ns;
    uint32_t load_ms;       /* until it is ready, as its last load took; 0: it is, or that is not known */
    uint32_t pull_token_ns; /* for a token of a prompt whose row comes from another node; 0: unknown */
    /* Of the model, in hex: replies go on only where it is equal. "": not known. */
    char digest[HTH_WORKER_DIGEST_BYTES];
    char keyspace[HTH_WORKER_KEYSPACE_BYTES]; /* rows are shared only where it is equal; likewise */
} hth_worker_load;

typedef struct hth_worker_fact {
    const char *group; /* object of /admin/models within the worker's, "cache.ram"; "": the worker's; NULL: not there */
    const char *name;  /* in that object */
    const char *metric; /* in /metrics; NULL: not there. Facts of one metric are adjacent. */
    const char *type;   /* "counter" or "gauge"; like help, only in the first fact of a metric, else NULL */
    const char *help;
    const char *label; /* NULL: only the model */
    const char *label_value;
    size_t offset; /* in hth_worker_view */
    size_t bytes;
    bool is_of_process; /* known only while the process reports its numbers (hth_status.has_numbers) */
} hth_worker_fact;

enum { HTH_WORKER_FACTS = 63 };
extern const hth_worker_fact hth_worker_facts[HTH_WORKER_FACTS];

/* The number of the fact in view. Any thread. */
uint64_t hth_worker_fact_value(const hth_worker_fact *fact, const hth_worker_view *view);

#endif
