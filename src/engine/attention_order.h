/*
 * attention_order.h - the positions of a context's cells, for attention that must not depend on the cells' places
 *
 * The order of a sequence's cells in the buffer is usually that of their positions, but new tokens also go to freed
 * cells below. The engine tells positions to nobody: a mask only says open or closed. So a context that must give the
 * same bits in any place notes the positions itself, as tokens are evaluated and images are restored.
 *
 * A context has one KV buffer for this, with the same cells in all layers. One thread at a time uses it. The threads
 * that compute a graph read it meanwhile.
 */
#ifndef HTH_ENGINE_ATTENTION_ORDER_H
#define HTH_ENGINE_ATTENTION_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_cell_order hth_cell_order;
struct ggml_cgraph;

#ifdef HTH_ATTENTION_RANGES

/* NULL: no memory. */
hth_cell_order *hth_cell_order_new(size_t n_cells);
void hth_cell_order_free(hth_cell_order *order); /* accepts NULL */

/*
 * Until the end, this thread's calls of the engine fill n cells of this context, which get these positions in their
 * order. The positions stay valid until then. end returns false when the engine filled other cells than announced, or
 * computed attention that does not use the order: then the results are not to be trusted. Calls do not nest.
 */
void hth_cell_order_begin(hth_cell_order *order, const int32_t *positions, size_t n);
bool hth_cell_order_end(hth_cell_order *order);

/* ---- for the code that computes attention ---- */

/* Before and after a graph is computed on this thread; work is the buffer that the computing threads share. */
void hth_cell_order_graph_begin(struct ggml_cgraph *graph, const void *work);
void hth_cell_order_graph_end(const void *work);
/* The order of the graph that is computed with this buffer; NULL: its attention goes by the places of cells. */
hth_cell_order *hth_cell_order_of(const void *work);
/* The positions of the first n cells; NULL: there are fewer. */
const uint32_t *hth_cell_order_positions(const hth_cell_order *order, size_t n);
/* The order could not be used. */
void hth_cell_order_fail(hth_cell_order *order);

#else

static inline hth_cell_order *hth_cell_order_new(size_t n_cells)
{
    (void)n_cells;
    return NULL;
}

static inline void hth_cell_order_free(hth_cell_order *order)
{
    (void)order;
}

static inline void hth_cell_order_begin(hth_cell_order *order, const int32_t *positions, size_t n)
{
    (void)order;
    (void)positions;
    (void)n;
}

static inline bool hth_cell_order_end(hth_cell_order *order)
{
    (void)order;
    return false;
}

#endif
#endif
