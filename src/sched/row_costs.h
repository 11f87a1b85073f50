/*
 * row_costs.h - the time of an evaluation by the number of its rows
 *
 * Engines compute rows in groups, so time does not grow evenly: with repacked weights on a processor, 16 rows take less
 * time than 15 (docs/performance.md). So the time is learned for each small number of rows, and per row for larger ones.
 *
 * A number that never occurred counts as if its last rows cost no more than those of prompts, the least that rows cost.
 * So a number that may pay is tried once. A measured time moves back to such an estimate while other numbers occur: a
 * number that was measured in a slow moment is tried again.
 */
#ifndef HTH_SCHED_ROW_COSTS_H
#define HTH_SCHED_ROW_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/strategy.h"

typedef struct hth_row_costs {
    uint64_t few_ns[HTH_CHUNK_MIN]; /* [n_rows] recent time of an evaluation; 0: unknown */
    uint64_t row_ns;                /* recent time of a row where there are more; 0: unknown */
    uint32_t oldest;                /* the next index that moves back */
} hth_row_costs;

/* An evaluation of n_rows > 0 rows took ns. */
void hth_row_costs_note(hth_row_costs *costs, uint32_t n_rows, uint64_t ns);
/* The time of an evaluation of n_rows > 0 rows in ns; 0: unknown. */
uint64_t hth_row_costs_of(const hth_row_costs *costs, uint32_t n_rows);
/* Were n_rows rows measured? */
bool hth_row_costs_knows(const hth_row_costs *costs, uint32_t n_rows);
/* The number of rows, at least n_rows > 0, that takes the least time: n_rows itself or the end of its group. */
uint32_t hth_row_costs_fill(const hth_row_costs *costs, uint32_t n_rows);

#endif
