/*
 * cells.h - which cells of the context are used, by whom, and how many are left
 *
 * The engine says no more than "no room", so this keeps its books: every cell that a sequence has is numbered here, with
 * how many sequences share it and how many of those are held by running requests. From that follows exactly how many
 * cells are free, and how many would be if all finished sequences went. The numbers are our own; the engine places cells
 * as it likes.
 *
 * For models whose state does not grow with the tokens (recurrent ones) n_cells is as many as can ever be asked for.
 */
#ifndef HTH_SCHED_CELLS_H
#define HTH_SCHED_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_cells hth_cells; /* one thread at a time */

hth_cells *hth_cells_new(uint32_t n_cells); /* NULL when there is no memory */
void hth_cells_free(hth_cells *cells);      /* accepts NULL */

uint32_t hth_cells_n_total(const hth_cells *cells);
/* In no sequence at all. */
uint32_t hth_cells_n_unused(const hth_cells *cells);
/* In no sequence that is held: unused, or of finished sequences alone. */
uint32_t hth_cells_n_unheld(const hth_cells *cells);

/* Number n cells that the engine filled for one sequence. There are as many unused (asserted). */
void hth_cells_take(hth_cells *cells, uint32_t *ids_out, size_t n, bool held);
/* One more sequence has these. */
void hth_cells_share(hth_cells *cells, const uint32_t *ids, size_t n, bool held);
/* One less. */
void hth_cells_drop(hth_cells *cells, const uint32_t *ids, size_t n, bool held);
/* A sequence that has these becomes held, or is no longer. */
void hth_cells_set_held(hth_cells *cells, const uint32_t *ids, size_t n, bool held);
/* How many of these are held by anybody. */
uint32_t hth_cells_count_held(const hth_cells *cells, const uint32_t *ids, size_t n);
/* How many are held by two sequences or more. */
uint32_t hth_cells_count_held_twice(const hth_cells *cells, const uint32_t *ids, size_t n);

#endif
