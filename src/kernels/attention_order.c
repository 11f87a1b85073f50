/*
 * attention_order.c - records which cell gets which position
 *
 * Evaluated tokens: the graph has an operation that writes the rows of K to the cells in a list. The list is an input,
 * so it is known before the graph is computed. Restored images: the engine writes K of each layer in runs of cells, in
 * the order of the image. The linker redirects the calls, as attention.c describes. Only the first layer's K is
 * tracked, because all layers have the same cells.
 *
 * This relies on llama.cpp v0.5.0: on the names of the tensors that hold K, on batches that are split in order, and on
 * images that are written in order. A wrong number of filled cells is detected, and so is a row that sees cells with a
 * gap between their positions (attention.c).
 */
#include "kernels/attention.h"

#include <ggml-backend.h>
#include <ggml.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define K_PREFIX "cache_k_l"

enum { GRAPHS_MAX = 64 }; /* graphs computed at the same time, with an order */

struct hth_cell_order {
    size_t n_cells;
    uint32_t *positions;
    /* The cells that are being filled. */
    const int32_t *coming;
    size_t n_coming;
    size_t n_filled;
    char first_k[GGML_MAX_NAME]; /* the tensor that represents all layers; "": not known yet */
    atomic_bool has_failed;
};

/* The context that this thread's calls of the engine concern. */
static _Thread_local hth_cell_order *current;

static struct {
    pthread_mutex_t lock;
    size_t n; /* entries in use; unordered */
    struct {
        const void *work;
        hth_cell_order *order;
    } graphs[GRAPHS_MAX];
} running = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* running.n without the lock: processes without deterministic models never take it. */
static atomic_size_t n_running;

void __real_ggml_backend_tensor_set(struct ggml_tensor *tensor, const void *values, size_t offset, size_t n_bytes);
void __wrap_ggml_backend_tensor_set(struct ggml_tensor *tensor, const void *values, size_t offset, size_t n_bytes);

hth_cell_order *hth_cell_order_new(size_t n_cells)
{
    hth_cell_order *order = calloc(1, sizeof(*order));

    if (!order)
        return NULL;
    order->n_cells = n_cells;
    order->positions = calloc(n_cells ? n_cells : 1, sizeof(order->positions[0]));
    if (!order->positions) {
        free(order);
        return NULL;
    }
    return order;
}

void hth_cell_order_free(hth_cell_order *order)
{
    if (!order)
        return;
    free(order->positions);
    free(order);
}

/* ---- filling cells ---- */

void hth_cell_order_begin(hth_cell_order *order, const int32_t *positions, size_t n)
{
    order->coming = positions;
    order->n_coming = n;
    order->n_filled = 0;
    order->first_k[0] = '\0';
    atomic_store(&order->has_failed, false);
    current = order;
}

bool hth_cell_order_end(hth_cell_order *order)
{
    current = NULL;
    order->coming = NULL;
    return order->n_filled == order->n_coming && !atomic_load(&order->has_failed);
}

void hth_cell_order_fail(hth_cell_order *order)
{
    atomic_store(&order->has_failed, true);
}

/* Assign the next position to the cell. */
static void fill(hth_cell_order *order, int64_t cell)
{
    if (order->n_filled == order->n_coming || cell < 0 || (uint64_t)cell >= order->n_cells)
        hth_cell_order_fail(order);
    else
        order->positions[cell] = (uint32_t)order->coming[order->n_filled++];
}

/* Is the tensor the K that represents all layers? */
static bool is_first_k(hth_cell_order *order, const struct ggml_tensor *tensor)
{
    const struct ggml_tensor *whole = tensor->view_src ? tensor->view_src : tensor;

    if (strncmp(whole->name, K_PREFIX, strlen(K_PREFIX)) != 0)
        return false;
    if (!order->first_k[0])
        memcpy(order->first_k, whole->name, sizeof(order->first_k));
    return strcmp(order->first_k, whole->name) == 0;
}

static void fill_by_graph(hth_cell_order *order, struct ggml_cgraph *graph)
{
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const struct ggml_tensor *node = ggml_graph_node(graph, i);
        const struct ggml_tensor *cells = node->src[1];

        if (node->op != GGML_OP_SET_ROWS || !is_first_k(order, node))
            continue;
        if (cells->type != GGML_TYPE_I64 || !cells->data || !ggml_is_contiguous(cells)) {
            hth_cell_order_fail(order);
            return;
        }
        for (int64_t j = 0; j < ggml_nelements(cells); j++)
            fill(order, ((const int64_t *)cells->data)[j]);
        return;
    }
}

void __wrap_ggml_backend_tensor_set(struct ggml_tensor *tensor, const void *values, size_t offset, size_t n_bytes)
{
    if (current && is_first_k(current, tensor) && tensor->nb[1] > 0)
        for (size_t cell = offset / tensor->nb[1]; cell < (offset + n_bytes) / tensor->nb[1]; cell++)
            fill(current, (int64_t)cell);
    __real_ggml_backend_tensor_set(tensor, values, offset, n_bytes);
}

/* ---- graphs ---- */

void hth_cell_order_graph_begin(struct ggml_cgraph *graph, const void *work)
{
    if (!current)
        return;
    fill_by_graph(current, graph);
    pthread_mutex_lock(&running.lock);
    if (running.n < GRAPHS_MAX) {
        atomic_fetch_add(&n_running, 1);
        running.graphs[running.n].work = work;
        running.graphs[running.n++].order = current;
    } else {
        hth_cell_order_fail(current);
    }
    pthread_mutex_unlock(&running.lock);
}

void hth_cell_order_graph_end(const void *work)
{
    if (!current)
        return;
    pthread_mutex_lock(&running.lock);
    for (size_t i = 0; i < running.n; i++)
        if (running.graphs[i].work == work) {
            running.graphs[i] = running.graphs[--running.n];
            atomic_fetch_sub(&n_running, 1);
            break;
        }
    pthread_mutex_unlock(&running.lock);
}

hth_cell_order *hth_cell_order_of(const void *work)
{
    hth_cell_order *found = NULL;

    if (atomic_load(&n_running) == 0)
        return NULL;
    pthread_mutex_lock(&running.lock);
    for (size_t i = 0; i < running.n && !found; i++)
        if (running.graphs[i].work == work)
            found = running.graphs[i].order;
    pthread_mutex_unlock(&running.lock);
    return found;
}

const uint32_t *hth_cell_order_positions(const hth_cell_order *order, size_t n)
{
    return n <= order->n_cells ? order->positions : NULL;
}
