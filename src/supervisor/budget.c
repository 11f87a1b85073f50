/*
 * budget.c - see budget.h
 */
#include "supervisor/budget.h"

/* A part of a number of bytes. UINT64_MAX (no limit) stays UINT64_MAX. */
static uint64_t part_of(uint64_t bytes, double part)
{
    if (part <= 0)
        return 0;
    return part >= 1 || bytes == UINT64_MAX ? bytes : (uint64_t)((double)bytes * part);
}

hth_budget hth_budget_of(const hth_budget_terms *terms)
{
    const uint64_t ceiling = part_of(terms->arena_bytes, 1 - terms->wiggle);
    const uint64_t fraction = part_of(terms->arena_bytes, terms->fraction);
    const uint64_t scratch = terms->max_scratch_bytes < ceiling / 2 ? terms->max_scratch_bytes : ceiling / 2;
    const uint64_t beside_scratch = ceiling - scratch;
    const uint64_t most = fraction < beside_scratch ? fraction : beside_scratch;
    const uint64_t pool = hth_on_demand_budget(most, terms->row_bytes);

    return (hth_budget){
        .scratch_ceiling_bytes = ceiling,
        .weight_pool_bytes = pool,
        .on_demand_budget_bytes = hth_on_demand_budget(pool, terms->pinned_bytes),
        .pinned_over_commit = terms->pinned_bytes > pool,
    };
}
