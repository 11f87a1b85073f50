/*
 * batch_costs.h - the time of an evaluation as a function of its number of rows
 *
 * Engines compute rows in groups, so time does not grow evenly: with repacked weights on a CPU, 16 rows take less time
 * than 15 (docs/performance.md). So the time is learned for each small number of rows, and per row for larger ones.
 *
 * A number of rows that was not measured gets an optimistic estimate: its extra rows cost as little as those of a
 * prompt. So it is tried once where it may pay. Each evaluation of fewer than HTH_CHUNK_MIN rows moves the time of one
 * other number, in turn, a sixteenth of the way down to its estimate, so a number that was measured at a slow moment is
 * tried again.
 */
#ifndef HTH_SCHED_BATCH_COSTS_H
#define HTH_SCHED_BATCH_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/strategy.h"

/* Zero before use; one thread at a time. */
typedef struct hth_batch_costs {
    uint64_t few_ns[HTH_CHUNK_MIN]; /* by number of rows, 0 is unused: recent time of an evaluation; 0: not measured */
    uint64_t row_ns;     /* recent time of a row in evaluations of HTH_CHUNK_MIN rows or more; 0: not measured */
    uint32_t moved_back; /* the number of rows whose time drifted back last */
} hth_batch_costs;

/* Record that an evaluation of n_rows > 0 rows took ns. */
void hth_batch_costs_note(hth_batch_costs *costs, uint32_t n_rows, uint64_t ns);
/*
 * The time of an evaluation of n_rows > 0 rows in ns, measured or estimated; 0 before any measurement. Before prompts
 * are measured, HTH_CHUNK_MIN rows or more get the estimate for HTH_CHUNK_MIN.
 */
uint64_t hth_batch_costs_of(const hth_batch_costs *costs, uint32_t n_rows);
/* Was an evaluation of n_rows rows measured? */
bool hth_batch_costs_knows(const hth_batch_costs *costs, uint32_t n_rows);
/*
 * The number of rows to pad n_rows > 0 to: the end of its group of 16 (below HTH_CHUNK_MIN) if that is at most 7 rows
 * away and more than about 6 % faster, otherwise n_rows.
 */
uint32_t hth_batch_costs_fill(const hth_batch_costs *costs, uint32_t n_rows);

#endif
