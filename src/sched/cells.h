/*
 * cells.h - the accounting of a context's cells: the used cells, and the sequences that have them
 *
 * The engine only reports "no room". So the books number every cell of a sequence, and count the sequences that share
 * it and, among them, those that running requests hold. These counts give the number of unused cells, and the number
 * that would be unused if all finished sequences were emptied. The engine numbers its cells differently.
 *
 * The state of a recurrent model does not grow with the tokens. Its n_cells is the maximum that can be needed.
 */
#ifndef HTH_SCHED_CELLS_H
#define HTH_SCHED_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_cells hth_cells; /* one thread at a time */

hth_cells *hth_cells_new(uint32_t n_cells); /* NULL if out of memory */
void hth_cells_free(hth_cells *cells);      /* accepts NULL */

uint32_t hth_cells_n_total(const hth_cells *cells);
/* Cells in no sequence. */
uint32_t hth_cells_n_unused(const hth_cells *cells);
/* Cells in no held sequence: unused, or only in finished sequences. */
uint32_t hth_cells_n_unheld(const hth_cells *cells);

/* Number n cells that the engine filled for one sequence. At least n are unused (asserted). */
void hth_cells_take(hth_cells *cells, uint32_t *ids_out, size_t n, bool held);
/* Note that one more sequence has these cells. */
void hth_cells_share(hth_cells *cells, const uint32_t *ids, size_t n, bool held);
/* Note that one sequence fewer has them. */
void hth_cells_drop(hth_cells *cells, const uint32_t *ids, size_t n, bool held);
/* Note that a sequence with these cells is now held, or no longer held. */
void hth_cells_set_held(hth_cells *cells, const uint32_t *ids, size_t n, bool held);
/* How many of these are in n_least or more held sequences. */
uint32_t hth_cells_count_held(const hth_cells *cells, const uint32_t *ids, size_t n, unsigned n_least);

#endif
