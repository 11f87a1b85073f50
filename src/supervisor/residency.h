/*
 * residency.h - decides which models have a worker when not all of them fit into memory
 *
 * A pure function plans from a snapshot of all models. The supervisor calls it after each change and carries out the
 * plan.
 *
 * Memory: the host and each device have a limit. The limit minus the pinned models that are in memory is the pool of
 * all others. Nothing is reserved for a pinned model that is out. A model enters when each pool has room for its part
 * there. A part that is larger than its pool enters when the pool is empty.
 *
 * Turns: models with waiting requests enter in the order of their oldest requests. If there is no room, idle models
 * leave, the least recently used first. A model leaves only if it frees memory of a pool that lacks room. Busy and
 * pinned models stay. So do idle models that were used less than their stay_ns ago: their client may ask again soon,
 * and alternating models would otherwise swap with each request. While the first in line waits for these, smaller
 * models may pass it. When it has waited for turn_ns, no model passes it any more, idle models leave at once, and as
 * many busy models as needed are closed. A closed model finishes its requests, accepts no new ones, and leaves. So a
 * model waits at most for turn_ns, the turns of the models before it in line, the longest request of a closed model and
 * the end of its process.
 *
 * External: an operator's program moves models. Only models that it ordered to enter wait. They enter when there is
 * room. Kept weights leave for them, but no model does, so the wait has no bound.
 */
#ifndef HTH_SUPERVISOR_RESIDENCY_H
#define HTH_SUPERVISOR_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backend.h"

enum { HTH_POOLS_MAX = 1 + HTH_DEVICES_MAX }; /* the host is the first one */

typedef enum hth_model_place {
    HTH_PLACE_OUT,     /* it has no place */
    HTH_PLACE_IN,      /* it has a process, or keeps its place for the next one */
    HTH_PLACE_LEAVING, /* its process ends, and no process follows */
    HTH_PLACE_KEPT,    /* weights that a folder keeps; they take host memory, but no place */
} hth_model_place;

/* Times are of one monotonic clock, nanoseconds. */
typedef struct hth_resident {
    hth_model_place place;
    uint32_t n_uses;               /* requests at work in its process */
    uint64_t bytes[HTH_POOLS_MAX]; /* of each pool: taken now, or on entering */
    /* The arrival time of its oldest waiting request; 0: none waits. KEPT: that of a model that would map them. */
    uint64_t wanted_ns;
    uint64_t since_ns; /* IN: the time at which it entered */
    uint64_t used_ns;  /* the time at which its last request arrived or ended, or its load ended; not after now */
    uint64_t keep_ns;  /* IN and not pinned: it leaves after this time without use; UINT64_MAX: never */
    uint64_t stay_ns;  /* IN: while idle, it makes no room for others until this long after its last use */
    /* OUT: the KEPT entry with the weights of this model, or NULL. They take no further room when the model enters. */
    const struct hth_resident *kept;
    bool is_pinned;    /* it leaves for no other model */
    bool is_invited;   /* OUT: it enters without a request if there is room beside all other models */
    bool is_dismissed; /* IN: by an order, it finishes its requests, accepts no new ones, and leaves */
} hth_resident;

typedef struct hth_residency_limits {
    size_t n_pools;                /* 1 .. HTH_POOLS_MAX */
    uint64_t bytes[HTH_POOLS_MAX]; /* of each pool: for all models; UINT64_MAX: no limit */
    size_t n_models;               /* IN and LEAVING; SIZE_MAX: no limit */
    uint64_t turn_ns;              /* a waiting model closes busy ones after this time */
    bool is_held;     /* memory is short: a model enters only when all others, except pinned ones, have left */
    bool is_external; /* models leave only when they are dismissed; KEPT entries make room */
} hth_residency_limits;

typedef enum hth_residency_order {
    HTH_RESIDENCY_STAY,
    HTH_RESIDENCY_ENTER, /* start a process */
    HTH_RESIDENCY_LEAVE, /* end the process; KEPT: drop the weights */
    HTH_RESIDENCY_CLOSE, /* IN: finish the running requests and accept no new ones */
} hth_residency_order;

/*
 * Write orders[i] for models[i], for i in [0, n). The pointers `kept` point into models. A model that was closed and is
 * not closed again accepts requests again. Any thread; allocates nothing; takes O(n * n) time.
 */
void hth_residency_plan(const hth_resident *models, size_t n, const hth_residency_limits *limits, uint64_t now_ns,
                        hth_residency_order *orders);
/*
 * The first time after now_ns at which such a plan may change without an event, because an idle model has stayed for
 * its stay_ns while others wait; UINT64_MAX: none. Any thread.
 */
uint64_t hth_residency_stay_end(const hth_resident *models, size_t n, const hth_residency_limits *limits,
                                uint64_t now_ns);

/*
 * ---- the budget: the part that models may take of an arena: a machine's memory, or an operator's limit ----
 *
 * The scratch of evaluations is the largest scratch of one model, but at most half of the ceiling. Models take a
 * fraction of the arena, or the rest below the ceiling. Rows in memory take part of that.
 */

typedef struct hth_budget_terms {
    uint64_t arena_bytes;       /* UINT64_MAX: no limit */
    double wiggle;              /* the part of it that no plan uses; 0 .. 1 */
    double fraction;            /* the largest part of it that models may take; 0 .. 1 */
    uint64_t max_scratch_bytes; /* of one model */
    uint64_t row_bytes;         /* for rows in memory of all models */
} hth_budget_terms;

/* The bytes for all models, without rows. A pure function. */
uint64_t hth_budget_of(const hth_budget_terms *terms);

/* The part of the budget that pinned models leave free. A budget of UINT64_MAX has no limit. */
static inline uint64_t hth_on_demand_budget(uint64_t budget_bytes, uint64_t pinned_bytes)
{
    if (budget_bytes == UINT64_MAX)
        return UINT64_MAX;
    return budget_bytes > pinned_bytes ? budget_bytes - pinned_bytes : 0;
}

#endif
