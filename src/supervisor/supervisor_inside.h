/*
 * supervisor_inside.h - shared by the files of the supervisor: supervisor.c (workers, plans, the set of models),
 * supervisor_orders.c (orders of operators and clients), supervisor_ram.c (the memory for rows), supervisor_wait.c
 * (what requests wait for), supervisor_warnings.c
 */
#ifndef HTH_SUPERVISOR_SUPERVISOR_INSIDE_H
#define HTH_SUPERVISOR_SUPERVISOR_INSIDE_H

#include "supervisor/model_worker.h"
#include "supervisor/runtime_folder.h"
#include "supervisor/supervisor.h"

typedef struct hth_worker_list {
    hth_model_worker **at;
    size_t n;
} hth_worker_list;

struct hth_supervisor {
    hth_worker_shared shared;
    hth_runtime_folder folder; /* of the sockets */
    char *program;
    hth_worker_list present; /* in the order of the options */
    hth_worker_list leaving; /* their models were taken away; they end */
    unsigned n_slots;
    uint64_t ticked_ns;
    struct event *child_event;
    struct event *tick_event;
    struct event *sweep_event;    /* workers have stopped or became idle */
    struct event *stay_event;     /* an idle model has stayed for long enough */
    hth_resident *residents;      /* [2 * n of both lists]: of each worker itself and its rows; scratch of a plan */
    hth_residency_order *planned; /* likewise */
    uint64_t machine_bytes;       /* of memory, when the options came */
    uint64_t wrote_ns;            /* the time at which learned memory was written */
    bool is_planning;
    bool is_held;           /* by pressure */
    bool tells_uninvited;   /* once it is known whether there is room */
    bool is_over_committed; /* pinned models take more than there is, which was told */
    void (*on_stopped)(void *user_data);
    void *user_data;
};

/* The worker of a model that is served. NULL, with the error: there is none. */
hth_model_worker *hth_supervisor_worker_of(const hth_supervisor *supervisor, const char *model, hearth_error *err);
/* Of n workers, those that leave included. */
hth_model_worker *hth_supervisor_worker_at(const hth_supervisor *supervisor, size_t i);
/* The memory for all models, rows included; UINT64_MAX: no limit. */
uint64_t hth_supervisor_limit(const hth_supervisor *supervisor);
/* Write the models as a plan sees them to residents. Returns the limits. */
hth_residency_limits hth_supervisor_take_snapshot(hth_supervisor *supervisor);
/* Let models enter and leave. */
void hth_supervisor_plan(hth_supervisor *supervisor);

/* ---- supervisor_warnings.c ---- */

/* Tell the models that did not start with the server, once their needs are known. */
void hth_supervisor_warn_uninvited(hth_supervisor *supervisor);
/* A model enters: is it larger than the memory for all? */
void hth_supervisor_warn_large(const hth_supervisor *supervisor, const hth_model_worker *worker,
                               const hth_resident *model, const hth_residency_limits *limits);
/* Do pinned models take more than there is for all, since this plan? */
void hth_supervisor_warn_pinned(hth_supervisor *supervisor);

/* ---- supervisor_ram.c ---- */

/* The most memory that rows may take: free fragments between them, and lists of rows, are added to their quotas. */
uint64_t hth_supervisor_row_bytes_max(const hth_supervisor *supervisor);
/* Give shares to the workers. */
void hth_supervisor_share_ram(hth_supervisor *supervisor);
/* The share with which a worker may start now; user_data is the supervisor. */
uint64_t hth_supervisor_ram_share(const hth_model_worker *worker, void *user_data);

#endif
