/*
 * budget.h - the part of an arena that models may take; an arena is a machine's memory or an operator's limit
 *
 * The scratch of evaluations is the largest scratch of one model, but at most half of the ceiling. Models take a
 * fraction of the arena, or the rest below the ceiling. Rows in memory take part of that. Pinned models come first.
 */
#ifndef HTH_SUPERVISOR_BUDGET_H
#define HTH_SUPERVISOR_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hth_budget_terms {
    uint64_t arena_bytes;       /* UINT64_MAX: no limit */
    double wiggle;              /* the part of it that no plan uses; 0 .. 1 */
    double fraction;            /* the largest part of it that models may take; 0 .. 1 */
    uint64_t max_scratch_bytes; /* of one model */
    uint64_t row_bytes;         /* for rows in memory of all models */
    uint64_t pinned_bytes;      /* that pinned models take */
} hth_budget_terms;

typedef struct hth_budget {
    uint64_t scratch_ceiling_bytes;
    uint64_t weight_pool_bytes;      /* of all models, without rows */
    uint64_t on_demand_budget_bytes; /* of models that are not pinned */
    bool pinned_over_commit;         /* pinned models take more than the whole budget */
} hth_budget;

/* A pure function. */
hth_budget hth_budget_of(const hth_budget_terms *terms);

/* The part of the pool that pinned models leave free. A pool of UINT64_MAX has no limit. */
static inline uint64_t hth_on_demand_budget(uint64_t weight_pool_bytes, uint64_t pinned_bytes)
{
    if (weight_pool_bytes == UINT64_MAX)
        return UINT64_MAX;
    return weight_pool_bytes > pinned_bytes ? weight_pool_bytes - pinned_bytes : 0;
}

#endif
