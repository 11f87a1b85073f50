/*
 * attention.h - replaces the engine's attention, where the build allows it; and the positions of a context's cells, for
 * attention that must not depend on the cells' places
 *
 * See attention.c. A build without it uses the engine's own attention, and hth_attention_is_on is then false.
 *
 * A sequence's cells in the buffer are usually in the order of their positions, but new tokens may also go to freed
 * cells at lower indexes. The engine does not expose positions: a mask only says open or closed. So a context that must
 * give the same bits wherever its cells lie records the positions itself, as tokens are evaluated and images are
 * restored.
 *
 * A context has one KV buffer for this, with the same cells in all layers. The context owns its order. Only the thread
 * that evaluates in the context calls these functions. The functions for the code that computes attention are at the
 * end and document their threads.
 */
#ifndef HTH_KERNELS_ATTENTION_H
#define HTH_KERNELS_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hth_cell_order hth_cell_order;
struct ggml_cgraph;

#ifdef HTH_ATTENTION_RANGES

/* Read HEARTH_ATTENTION ("engine": keep the engine's own attention). Call it once, before the first context. */
void hth_attention_start(void);
/* Does not change after hth_attention_start; any thread. */
bool hth_attention_is_on(void);

/* ---- positions ---- */

/* The caller owns the result. NULL: no memory. */
hth_cell_order *hth_cell_order_new(size_t n_cells);
void hth_cell_order_free(hth_cell_order *order); /* not between begin and end; accepts NULL */

/*
 * From begin to end, this thread's calls of the engine fill n cells of this context. The cells get these positions in
 * the order in which they are filled. positions, [n], is borrowed until end. A thread has at most one begun order.
 *
 * end returns false when the engine filled a different number of cells, or computed attention without the order. Then
 * the results of these calls must not be used.
 */
void hth_cell_order_begin(hth_cell_order *order, const int32_t *positions, size_t n);
bool hth_cell_order_end(hth_cell_order *order);

/* ---- for the code that computes attention ---- */

/*
 * Before and after a graph is computed, on the thread that asked for it. work is the buffer that the computing threads
 * share; it identifies the graph in between. Without a begun order these functions do nothing.
 */
void hth_cell_order_graph_begin(struct ggml_cgraph *graph, const void *work);
void hth_cell_order_graph_end(const void *work);
/*
 * The order of the graph that is computed with this buffer; NULL: its attention uses the buffer order of cells.
 * Borrowed until the graph's end. Any thread that computes the graph; the same holds for the next two functions.
 */
hth_cell_order *hth_cell_order_of(const void *work);
/* The positions of the first n cells, borrowed until the graph's end. NULL if there are fewer cells. */
const uint32_t *hth_cell_order_positions(const hth_cell_order *order, size_t n);
/* Note that the order could not be used: hth_cell_order_end will return false. */
void hth_cell_order_fail(hth_cell_order *order);

#else

static inline void hth_attention_start(void)
{
}

static inline bool hth_attention_is_on(void)
{
    return false;
}

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
