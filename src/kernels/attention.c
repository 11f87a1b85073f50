/*
 * attention.c - replaces the CPU engine's flash attention: each row visits only the cells that it sees
 *
 * All sequences share one KV buffer (kv_unified), so the mask of a row closes every cell of every other sequence,
 * running or idle. The engine's kernels visit closed cells again for each head and each layer; its kernel for few rows
 * visits them one by one (docs/engine.md, "Attention over own cells"). The kernels also split the buffer, not the
 * sequence, over the threads. So other sequences, idle cells and the number of threads change the bits of a row.
 *
 * Here the masks of an evaluation are read once and converted to groups of rows, with bits for their open cells
 * (attention_mask.h). Decode rows, and short ends of prompts, walk over their own cells (attention_row.h). Chunks of
 * prompts (runs of 16 or more rows of one sequence) are computed in blocks of 64 rows by 64 cells (attention_chunk.c).
 * Tiles and parts are counted in open cells only. Parts are added in order, whichever thread computed them. So a row's
 * attention depends only on the values of its own cells, on their order in the buffer, and on whether the row is in a
 * chunk. It does not depend on where the cells lie, on the cells between them, on other sequences' rows, or on threads.
 * In a context with an order (attention_order.c), all rows are computed like chunks, and cells are visited by position,
 * so not even their order and the chunk matter. The engine still computes operations of other forms (several streams,
 * no mask, transposed results, ...).
 *
 * The linker redirects the engine's call of ggml_compute_forward_flash_attn_ext to the function here (--wrap). This
 * works because the engine is a set of static libraries in one module. The engine itself is not changed. Every thread
 * of the engine's pool enters with its number and a work buffer that all threads share. The call of ggml_graph_compute
 * is also redirected, because it means that masks are new.
 *
 * This relies on llama.cpp v0.5.0: on the struct below, on the functions declared below, on masks that do not change
 * while a graph is computed, and on a work buffer not smaller than the tiled kernel needs. src/CMakeLists.txt includes
 * this file only when the engine is that version and has these symbols with calls between its objects. Each call checks
 * the size of the work buffer. tests/unit/attention_test.c compares the results with the engine's own kernel.
 */
#include "kernels/attention.h"

#include <assert.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention_mask.h"
#include "kernels/attention_row.h"

enum {
    ATTENTION_ROWS_MAX = 512, /* rows of one evaluation: the engine's n_ubatch, as set by this backend */
    PLANS_MAX = 4,            /* masks of one graph: one for each kind of layer */
    PART_CELLS_MIN = 256,     /* open cells; a multiple of a tile */
    PARTS_MAX = 16,
    TILE_CELLS = 64,
    ORDERED_HEADS_MAX = 16, /* heads of a row that are computed together in an ordered plan */
};

#define CACHE_LINE_FLOATS ((size_t)16)

/* ggml_compute_params of v0.5.0. */
typedef struct engine_task {
    int thread;
    int n_threads;
    size_t work_bytes;
    void *work; /* shared by all threads */
    struct ggml_threadpool *pool;
    bool wants_reference;
} engine_task;

static_assert(sizeof(void *) == 8 && offsetof(engine_task, work_bytes) == 8 && offsetof(engine_task, work) == 16 &&
                  offsetof(engine_task, pool) == 24 && offsetof(engine_task, wants_reference) == 32,
              "as the engine lays it out");
static_assert(GGML_MAX_SRC >= 5 && sizeof(((struct ggml_tensor *)NULL)->op_params) >= 4 * sizeof(int32_t),
              "what the operation's parameters are read from");

/* Functions of the engine that its public headers do not declare. */
void ggml_barrier(struct ggml_threadpool *pool);
void ggml_threadpool_chunk_set(struct ggml_threadpool *pool, int value);
int ggml_threadpool_chunk_add(struct ggml_threadpool *pool, int value);
void __real_ggml_compute_forward_flash_attn_ext(const engine_task *task, struct ggml_tensor *operation);
void __wrap_ggml_compute_forward_flash_attn_ext(const engine_task *task, struct ggml_tensor *operation);
enum ggml_status __real_ggml_graph_compute(struct ggml_cgraph *graph, struct ggml_cplan *cplan);
enum ggml_status __wrap_ggml_graph_compute(struct ggml_cgraph *graph, struct ggml_cplan *cplan);

/* Set before the engine's first thread starts, only read afterwards. */
static bool is_on;

void hth_attention_start(void)
{
    const char *chosen = getenv("HEARTH_ATTENTION");

    is_on = !(chosen && strcmp(chosen, "engine") == 0);
}

bool hth_attention_is_on(void)
{
    return is_on;
}

/* ---- masks, read once a graph ------------------------------------------------------------------------------------ */

/* Counts the graphs whose computation has begun in this process. A mask that was read is valid within one graph. */
static atomic_uint n_graphs;

typedef struct known_mask {
    unsigned graph; /* n_graphs at that time; 0: unknown */
    const void *values;
    size_t n_rows;
    size_t n_cells;
    hth_mask_plan plan;
} known_mask;

/* Each engine thread reads the masks itself, so that no thread waits for another. */
typedef struct thread_masks {
    known_mask masks[PLANS_MAX];
    size_t oldest;
} thread_masks;

static _Thread_local thread_masks *own_masks;
static pthread_key_t own_masks_key; /* frees them when the thread ends */
static pthread_once_t own_masks_once = PTHREAD_ONCE_INIT;

static void free_masks(void *masks)
{
    for (size_t i = 0; i < PLANS_MAX; i++)
        hth_mask_plan_free(&((thread_masks *)masks)->masks[i].plan);
    free(masks);
}

static void make_key(void)
{
    if (pthread_key_create(&own_masks_key, free_masks) != 0)
        GGML_ABORT("attention: no key for what threads keep of masks");
}

static thread_masks *masks_of_thread(void)
{
    if (own_masks)
        return own_masks;
    (void)pthread_once(&own_masks_once, make_key);
    own_masks = calloc(1, sizeof(*own_masks));
    if (!own_masks || pthread_setspecific(own_masks_key, own_masks) != 0)
        GGML_ABORT("attention: no memory for what a thread keeps of masks");
    return own_masks;
}

/* In a context with an order, put the rows' cells in that order. */
static void put_in_order(hth_mask_plan *plan, hth_cell_order *order, const hth_attention *a)
{
    const uint32_t *positions;
    bool has_gap = false;

    if (!order)
        return;
    positions = hth_cell_order_positions(order, a->n_cells);
    if (positions && hth_mask_plan_order(plan, positions, &has_gap))
        return;
    if (positions && !has_gap)
        GGML_ABORT("attention: no memory for the order of the cells that %zu rows see", a->n_rows);
    hth_cell_order_fail(order);
}

/*
 * The plan of an operation's mask. All threads must take the same path, so without memory the process ends, as in the
 * engine.
 */
static const hth_mask_plan *plan_of(const engine_task *task, const hth_attention *a)
{
    thread_masks *own = masks_of_thread();
    unsigned graph = atomic_load_explicit(&n_graphs, memory_order_relaxed);
    known_mask *mask, *past = NULL;

    for (size_t i = 0; i < PLANS_MAX; i++) {
        mask = &own->masks[i];
        if (mask->graph == graph && graph != 0 && mask->values == a->mask->data && mask->n_rows == a->n_rows &&
            mask->n_cells == a->n_cells)
            return &mask->plan;
        if (mask->graph != graph && !past)
            past = mask;
    }
    mask = past ? past : &own->masks[own->oldest++ % PLANS_MAX]; /* a model with one mask uses memory for one plan */
    mask->graph = graph;
    mask->values = a->mask->data;
    mask->n_rows = a->n_rows;
    mask->n_cells = a->n_cells;
    if (!hth_mask_plan_make(&mask->plan, a->mask->data, a->mask->nb[1], a->n_rows, a->n_cells))
        GGML_ABORT("attention: no memory for the cells that %zu rows see", a->n_rows);
    put_in_order(&mask->plan, hth_cell_order_of(task->work), a);
    return &mask->plan;
}

enum ggml_status __wrap_ggml_graph_compute(struct ggml_cgraph *graph, struct ggml_cplan *cplan)
{
    enum ggml_status status;

    /* 0 means unknown, so skip it. */
    if (atomic_fetch_add_explicit(&n_graphs, 1, memory_order_relaxed) == UINT_MAX)
        atomic_fetch_add_explicit(&n_graphs, 1, memory_order_relaxed);
    hth_cell_order_graph_begin(graph, cplan->work_data);
    status = __real_ggml_graph_compute(graph, cplan);
    hth_cell_order_graph_end(cplan->work_data);
    return status;
}

/* ---- the work of an operation ------------------------------------------------------------------------------------ */

/* The same in every thread. */
typedef struct plan {
    hth_attention attention;
    const hth_mask_group *rows[ATTENTION_ROWS_MAX]; /* groups of one row */
    size_t n_rows;
    const hth_mask_group *chunks[ATTENTION_ROWS_MAX / HTH_RUN_ROWS];
    size_t n_chunks;
    bool is_ordered;     /* rows are computed like chunks */
    size_t n_slices;     /* of a row; a slice is a set of heads that are computed together */
    size_t slice_heads;  /* at most */
    size_t group_slices; /* slices of the heads that share K and V */
    size_t n_parts;      /* of each row; 1: a row is not split into parts */
    float *parts;        /* [n_rows][n_heads][n_parts][part_floats], if n_parts > 1 */
    float *scratch;      /* this thread's */
    float *total;        /* this thread's, one part per head */
    float *part;         /* likewise */
} plan;

static_assert(HTH_CHUNK_ROWS % HTH_RUN_ROWS == 0, "a run has no more groups than times HTH_RUN_ROWS rows");

static void share_out_rows(plan *p)
{
    const hth_mask_plan *masks = p->attention.plan;

    p->n_rows = p->n_chunks = 0;
    for (size_t i = 0; i < masks->n_groups; i++) {
        if (masks->groups[i].is_chunk)
            p->chunks[p->n_chunks++] = &masks->groups[i];
        else
            p->rows[p->n_rows++] = &masks->groups[i];
    }
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* The number of cells in a part of a row. It depends only on the number of the row's open cells. */
static size_t part_cells(size_t n_open)
{
    size_t n_parts = (n_open + PART_CELLS_MIN - 1) / PART_CELLS_MIN;
    size_t n;

    if (n_parts > PARTS_MAX)
        n_parts = PARTS_MAX;
    n = n_parts == 0 ? 1 : (n_open + n_parts - 1) / n_parts;
    return (n + TILE_CELLS - 1) / TILE_CELLS * TILE_CELLS;
}

static size_t most_parts(const plan *p)
{
    size_t most = 1;

    for (size_t i = 0; i < p->n_rows; i++) {
        size_t n_open = p->rows[i]->n_open;
        size_t n = (n_open + part_cells(n_open) - 1) / part_cells(n_open);

        if (n > most)
            most = n;
    }
    return most;
}

/* The number of floats of the work buffer that belong to one thread. */
static size_t thread_floats(const hth_attention *a, bool needs_chunk)
{
    size_t n = hth_attention_scratch_floats(a) + 2 * HTH_ATTENTION_HEADS_MAX * hth_attention_part_floats(a);

    if (needs_chunk && n < hth_attention_chunk_floats(a))
        n = hth_attention_chunk_floats(a);
    return (n + 2 * CACHE_LINE_FLOATS - 1) / CACHE_LINE_FLOATS * CACHE_LINE_FLOATS;
}

static void lay_out(const engine_task *task, plan *p)
{
    const hth_attention *a = &p->attention;
    size_t n_threads = (size_t)task->n_threads;
    size_t n_own = thread_floats(a, p->n_chunks > 0 || p->is_ordered);
    size_t n_used = n_threads * n_own;
    size_t n_left = task->work_bytes / sizeof(float) - n_used;

    p->slice_heads = p->is_ordered ? ORDERED_HEADS_MAX : HTH_ATTENTION_HEADS_MAX;
    if (p->slice_heads > a->n_group)
        p->slice_heads = a->n_group;
    p->group_slices = (a->n_group + p->slice_heads - 1) / p->slice_heads;
    p->n_slices = a->n_kv_heads * p->group_slices;
    p->scratch = (float *)task->work + (size_t)task->thread * n_own;
    p->total = p->scratch + hth_attention_scratch_floats(a);
    p->part = p->total + HTH_ATTENTION_HEADS_MAX * hth_attention_part_floats(a);
    p->parts = (float *)task->work + n_used;
    p->n_parts = 1;
    /* With few rows and few heads, some threads would be idle unless they share rows. */
    if (!p->is_ordered && n_threads > 1 && p->n_rows * p->n_slices < 4 * n_threads) {
        size_t n_parts = most_parts(p);

        if (p->n_rows * a->n_heads * n_parts * hth_attention_part_floats(a) <= n_left)
            p->n_parts = n_parts;
    }
}

/* The heads in slice i of a row. */
static size_t slice_heads(const plan *p, size_t i, size_t *head)
{
    size_t first = i % p->group_slices * p->slice_heads; /* in its group */
    size_t n_left = p->attention.n_group - first;

    *head = i / p->group_slices * p->attention.n_group + first;
    return n_left < p->slice_heads ? n_left : p->slice_heads;
}

/* Compute slice i of a row from its first open cell to its last. */
static void do_slice(const plan *p, const hth_mask_group *group, size_t i)
{
    const hth_attention *a = &p->attention;
    size_t part_floats = hth_attention_part_floats(a);
    size_t row = group->row;
    size_t n_open = group->n_open;
    hth_open_cells walk = hth_mask_group_walk(a->plan, group);
    size_t head;
    size_t n_heads = slice_heads(p, i, &head);

    if (p->is_ordered) {
        hth_attention_chunk(a, group, head, n_heads, p->scratch);
        return;
    }
    for (size_t h = 0; h < n_heads; h++)
        hth_attention_part_clear(a, p->total + h * part_floats);
    for (size_t at = 0; at < n_open; at += part_cells(n_open)) {
        hth_attention_cells(a, row, head, n_heads, &walk, part_cells(n_open), p->scratch, p->part, part_floats);
        for (size_t h = 0; h < n_heads; h++)
            hth_attention_part_add(a, p->total + h * part_floats, p->part + h * part_floats);
    }
    for (size_t h = 0; h < n_heads; h++)
        hth_attention_finish(a, row, head + h, p->total + h * part_floats);
}

static float *stored_part(const plan *p, size_t i_row, size_t head, size_t i_part)
{
    return p->parts +
           ((i_row * p->attention.n_heads + head) * p->n_parts + i_part) * hth_attention_part_floats(&p->attention);
}

/* Compute one part of slice i of a row, and keep it. */
static void do_part(const plan *p, size_t i_row, size_t i, size_t i_part)
{
    const hth_attention *a = &p->attention;
    size_t row = p->rows[i_row]->row;
    size_t n = part_cells(p->rows[i_row]->n_open);
    hth_open_cells walk = hth_mask_group_walk(a->plan, p->rows[i_row]);
    size_t head;
    size_t n_heads = slice_heads(p, i, &head);

    hth_open_cells_skip(&walk, i_part * n);
    hth_attention_cells(a, row, head, n_heads, &walk, n, p->scratch, stored_part(p, i_row, head, i_part),
                        p->n_parts * hth_attention_part_floats(a));
}

/* Add up the kept parts of a head, in the same order as do_slice. */
static void add_parts(const plan *p, size_t i_row, size_t head)
{
    hth_attention_part_clear(&p->attention, p->total);
    for (size_t i = 0; i < p->n_parts; i++)
        hth_attention_part_add(&p->attention, p->total, stored_part(p, i_row, head, i));
    hth_attention_finish(&p->attention, p->rows[i_row]->row, head, p->total);
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

/*
 * An item is a head of a chunk, a slice of a row, or a part of a slice. A prompt's last chunk sees the most cells, so
 * it comes first.
 */
static void do_item(const plan *p, size_t i)
{
    size_t n_chunk_items = p->n_chunks * p->attention.n_heads;
    size_t i_slice;

    if (i < n_chunk_items) {
        hth_attention_chunk(&p->attention, p->chunks[p->n_chunks - 1 - i / p->attention.n_heads],
                            i % p->attention.n_heads, 1, p->scratch);
        return;
    }
    i -= n_chunk_items;
    i_slice = i / p->n_parts;
    if (p->n_parts == 1)
        do_slice(p, p->rows[i_slice / p->n_slices], i_slice % p->n_slices);
    else
        do_part(p, i_slice / p->n_slices, i_slice % p->n_slices, i % p->n_parts);
}

/* Threads claim items one by one, because other work may delay a thread. */
static void do_items(const engine_task *task, const plan *p)
{
    size_t n_items = p->n_chunks * p->attention.n_heads + p->n_rows * p->n_slices * p->n_parts;

    if (task->thread == 0)
        ggml_threadpool_chunk_set(task->pool, task->n_threads);
    ggml_barrier(task->pool);
    for (size_t i = (size_t)task->thread; i < n_items; i = (size_t)ggml_threadpool_chunk_add(task->pool, 1))
        do_item(p, i);
    if (p->n_parts == 1)
        return;
    ggml_barrier(task->pool);
    for (size_t i = (size_t)task->thread; i < p->n_rows * p->attention.n_heads; i += (size_t)task->n_threads)
        add_parts(p, i / p->attention.n_heads, i % p->attention.n_heads);
}

static bool can_do(const engine_task *task, const struct ggml_tensor *operation, plan *p)
{
    return is_on && !task->wants_reference && task->work && hth_attention_read(operation, &p->attention) &&
           p->attention.n_rows <= ATTENTION_ROWS_MAX && p->attention.n_cells <= UINT32_MAX &&
           (size_t)task->n_threads * thread_floats(&p->attention, true) <= task->work_bytes / sizeof(float);
}

void __wrap_ggml_compute_forward_flash_attn_ext(const engine_task *task, struct ggml_tensor *operation)
{
    plan p;

    if (!can_do(task, operation, &p)) {
        hth_cell_order *order = hth_cell_order_of(task->work);

        if (order)
            hth_cell_order_fail(order);
        __real_ggml_compute_forward_flash_attn_ext(task, operation);
        return;
    }
    p.attention.plan = plan_of(task, &p.attention);
    p.is_ordered = p.attention.plan->is_ordered;
    share_out_rows(&p);
    lay_out(task, &p);
    do_items(task, &p);
}
