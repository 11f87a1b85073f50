/*
 * attention.c - the CPU engine's flash attention of rows that decode, over the cells that each row sees
 *
 * All sequences share one KV buffer (kv_unified), so a row's mask closes every cell of every other sequence, running or
 * idle. The engine's kernel for few rows skips closed cells one by one, again for each head and each layer: with 8
 * sequences of 1024 tokens of a 1.1-billion-parameter shape 49 million cells a decode, 7 of 8 of them for nothing, which
 * made it 0.75 to 0.9 times as fast as with a buffer for each sequence (docs/engine.md, "Attention of rows that decode").
 * It also splits the buffer, not the sequence, over the threads, so that neighbours, idle cells and the number of threads
 * change the bits of a row.
 *
 * Here a row is a walk over its own open cells. They are counted into tiles and parts by themselves alone, parts are
 * added up in their order, and who computes a part does not matter. So a row's attention depends on the values of its
 * own cells and on the order in which they lie in the buffer, and on nothing else: neither on where they lie, nor on
 * what lies between them, nor on other rows, nor on threads.
 *
 * Which rows: those of a sequence with fewer than ATTENTION_ROWS_LONG tokens in the batch. Longer runs, chunks of
 * prompts, stay with the engine's tiled kernel, which is fast for them, and are given to it without the other rows. So
 * what a chunk computes does not depend on the rows beside it, nor what they compute on the chunk. Runs are told apart by
 * their masks. Operations of another form (several streams, no mask, transposed results, ...) are the engine's, too.
 *
 * How it gets there: the linker redirects the engine's call of ggml_compute_forward_flash_attn_ext to the function
 * here (--wrap), which is possible where the engine is a set of static libraries in one module. Nothing of the engine is
 * changed. Every thread of the engine's pool enters with its number and a work buffer that all of them share. What is
 * relied on, of llama.cpp v0.5.0: the struct below, that the work buffer is not smaller than the tiled kernel's need,
 * and the functions that are declared below. src/CMakeLists.txt builds this in only where the engine is that version
 * and has these symbols with calls between its objects; the size of the work buffer is checked at each call; and
 * tests/unit/attention_test.c holds the results against the engine's own kernel.
 */
#include "engine/attention.h"

#include <assert.h>
#include <ggml.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attention_mask.h"
#include "engine/attention_row.h"

enum {
    ATTENTION_ROWS_MAX = 512, /* rows of one evaluation: the engine's n_ubatch as this backend sets it */
    ATTENTION_ROWS_LONG = 64, /* from here on the engine's tiled kernel is used; its tile */
    PART_CELLS_MIN = 256,     /* open cells; a multiple of a tile */
    PARTS_MAX = 16,
    TILE_CELLS = 64,
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

/* Functions of the engine that it does not declare in public. */
void ggml_barrier(struct ggml_threadpool *pool);
void ggml_threadpool_chunk_set(struct ggml_threadpool *pool, int value);
int ggml_threadpool_chunk_add(struct ggml_threadpool *pool, int value);
void __real_ggml_compute_forward_flash_attn_ext(const engine_task *task, struct ggml_tensor *operation);
void __wrap_ggml_compute_forward_flash_attn_ext(const engine_task *task, struct ggml_tensor *operation);

/* Set before the engine's first thread starts, only read afterwards. */
static bool is_on;

void hth_attention_start(void)
{
    const char *wish = getenv("HEARTH_ATTENTION");

    is_on = !(wish && strcmp(wish, "engine") == 0);
}

bool hth_attention_is_on(void)
{
    return is_on;
}

/* ---- what to do with which rows ---------------------------------------------------------------------------------- */

/* The same in every thread, since each makes its own of the same masks. */
typedef struct plan {
    hth_attention attention;
    uint16_t rows[ATTENTION_ROWS_MAX]; /* to be done here */
    size_t n_rows;
    size_t n_slices;     /* of a row: heads that are done together */
    size_t slice_heads;  /* at most */
    size_t group_slices; /* slices of the heads that share K and V */
    size_t n_parts;      /* of each row; 1: parts are not shared out */
    float *parts;        /* [n_rows][n_heads][n_parts][part_floats], where they are */
    float *scratch;      /* this thread's */
    float *total;        /* this thread's, a part a head */
    float *part;         /* likewise */
} plan;

static const uint16_t *mask_of(const hth_attention *a, size_t row)
{
    return (const uint16_t *)((const char *)a->mask->data + row * a->mask->nb[1]);
}

/* The end of the run of one sequence's rows that begins at begin. */
static size_t run_end(const hth_attention *a, size_t begin)
{
    size_t end = begin + 1;

    while (end < a->n_rows && hth_mask_row_follows(mask_of(a, end), mask_of(a, end - 1),
                                                   end >= begin + 2 ? mask_of(a, end - 2) : NULL, a->n_cells))
        end++;
    return end;
}

/* The engine's kernel for some rows of an operation. */
static void run_engine(const engine_task *task, const struct ggml_tensor *operation, size_t begin, size_t end)
{
    struct ggml_tensor q = *operation->src[0];
    struct ggml_tensor mask = *operation->src[3];
    struct ggml_tensor out = *operation;

    q.data = (char *)q.data + begin * q.nb[1];
    q.ne[1] = (int64_t)(end - begin);
    mask.data = (char *)mask.data + begin * mask.nb[1];
    mask.ne[1] = (int64_t)(end - begin);
    out.data = (char *)out.data + begin * out.nb[2];
    out.ne[2] = (int64_t)(end - begin);
    out.src[0] = &q;
    out.src[3] = &mask;
    __real_ggml_compute_forward_flash_attn_ext(task, &out);
    ggml_barrier(task->pool); /* the work buffer and the counter of chunks are used again */
}

/* Long runs that lie side by side go to the engine at once; rows of it do not depend on each other. */
static void share_out_rows(const engine_task *task, const struct ggml_tensor *operation, plan *p)
{
    const hth_attention *a = &p->attention;
    size_t long_begin = 0;
    size_t long_end = 0;

    if (a->n_rows < ATTENTION_ROWS_LONG) {
        for (size_t i = 0; i < a->n_rows; i++)
            p->rows[p->n_rows++] = (uint16_t)i;
        return;
    }
    for (size_t begin = 0, end; begin < a->n_rows; begin = end) {
        end = run_end(a, begin);
        if (end - begin < ATTENTION_ROWS_LONG) {
            for (size_t i = begin; i < end; i++)
                p->rows[p->n_rows++] = (uint16_t)i;
            continue;
        }
        if (long_end != begin) {
            if (long_end > long_begin)
                run_engine(task, operation, long_begin, long_end);
            long_begin = begin;
        }
        long_end = end;
    }
    if (long_end > long_begin)
        run_engine(task, operation, long_begin, long_end);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* How a row is cut into parts, by the number of its open cells only. */
static size_t part_cells(size_t n_open)
{
    size_t n_parts = (n_open + PART_CELLS_MIN - 1) / PART_CELLS_MIN;
    size_t n;

    if (n_parts > PARTS_MAX)
        n_parts = PARTS_MAX;
    n = n_parts == 0 ? 1 : (n_open + n_parts - 1) / n_parts;
    return (n + TILE_CELLS - 1) / TILE_CELLS * TILE_CELLS;
}

static hth_open_cells walk_row(const hth_attention *a, size_t row)
{
    return (hth_open_cells){ .mask = mask_of(a, row), .n_cells = a->n_cells };
}

static size_t most_parts(const plan *p)
{
    size_t most = 1;

    for (size_t i = 0; i < p->n_rows; i++) {
        size_t n_open = hth_open_cells_count(mask_of(&p->attention, p->rows[i]), p->attention.n_cells);
        size_t n = (n_open + part_cells(n_open) - 1) / part_cells(n_open);

        if (n > most)
            most = n;
    }
    return most;
}

/* Floats of the work buffer that one thread has to itself. */
static size_t thread_floats(const hth_attention *a)
{
    size_t n = hth_attention_scratch_floats(a) + 2 * HTH_ATTENTION_HEADS_MAX * hth_attention_part_floats(a);

    return (n + 2 * CACHE_LINE_FLOATS - 1) / CACHE_LINE_FLOATS * CACHE_LINE_FLOATS;
}

static void lay_out(const engine_task *task, plan *p)
{
    const hth_attention *a = &p->attention;
    size_t n_threads = (size_t)task->n_threads;
    size_t n_used = n_threads * thread_floats(a);
    size_t n_left = task->work_bytes / sizeof(float) - n_used;

    p->slice_heads = a->n_group < HTH_ATTENTION_HEADS_MAX ? a->n_group : HTH_ATTENTION_HEADS_MAX;
    p->group_slices = (a->n_group + p->slice_heads - 1) / p->slice_heads;
    p->n_slices = a->n_kv_heads * p->group_slices;
    p->scratch = (float *)task->work + (size_t)task->thread * thread_floats(a);
    p->total = p->scratch + hth_attention_scratch_floats(a);
    p->part = p->total + HTH_ATTENTION_HEADS_MAX * hth_attention_part_floats(a);
    p->parts = (float *)task->work + n_used;
    p->n_parts = 1;
    /* With few rows and few heads, threads would have nothing to do unless they share rows. */
    if (n_threads > 1 && p->n_rows * p->n_slices < 4 * n_threads) {
        size_t n_parts = most_parts(p);

        if (p->n_rows * a->n_heads * n_parts * hth_attention_part_floats(a) <= n_left)
            p->n_parts = n_parts;
    }
}

/* The heads of slice i of a row. */
static size_t slice_heads(const plan *p, size_t i, size_t *head)
{
    size_t first = i % p->group_slices * p->slice_heads; /* in its group */
    size_t n_left = p->attention.n_group - first;

    *head = i / p->group_slices * p->attention.n_group + first;
    return n_left < p->slice_heads ? n_left : p->slice_heads;
}

/* Slice i of a row from its first open cell to its last. */
static void do_slice(const plan *p, size_t row, size_t i)
{
    const hth_attention *a = &p->attention;
    size_t part_floats = hth_attention_part_floats(a);
    size_t n_open = hth_open_cells_count(mask_of(a, row), a->n_cells);
    hth_open_cells walk = walk_row(a, row);
    size_t head;
    size_t n_heads = slice_heads(p, i, &head);

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

/* One part of slice i of a row, kept. */
static void do_part(const plan *p, size_t i_row, size_t i, size_t i_part)
{
    const hth_attention *a = &p->attention;
    size_t row = p->rows[i_row];
    size_t n = part_cells(hth_open_cells_count(mask_of(a, row), a->n_cells));
    hth_open_cells walk = walk_row(a, row);
    size_t head;
    size_t n_heads = slice_heads(p, i, &head);

    hth_open_cells_skip(&walk, i_part * n);
    hth_attention_cells(a, row, head, n_heads, &walk, n, p->scratch, stored_part(p, i_row, head, i_part),
                        p->n_parts * hth_attention_part_floats(a));
}

/* Add the kept parts of a head up, in the same order as do_slice. */
static void add_parts(const plan *p, size_t i_row, size_t head)
{
    hth_attention_part_clear(&p->attention, p->total);
    for (size_t i = 0; i < p->n_parts; i++)
        hth_attention_part_add(&p->attention, p->total, stored_part(p, i_row, head, i));
    hth_attention_finish(&p->attention, p->rows[i_row], head, p->total);
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

/* Items are taken one by one, since other work may hold a thread up. */
static void do_rows(const engine_task *task, const plan *p)
{
    size_t n_items = p->n_rows * p->n_slices * p->n_parts;

    if (task->thread == 0)
        ggml_threadpool_chunk_set(task->pool, task->n_threads);
    ggml_barrier(task->pool);
    for (size_t i = (size_t)task->thread; i < n_items; i = (size_t)ggml_threadpool_chunk_add(task->pool, 1)) {
        size_t i_slice = i / p->n_parts;

        if (p->n_parts == 1)
            do_slice(p, p->rows[i_slice / p->n_slices], i_slice % p->n_slices);
        else
            do_part(p, i_slice / p->n_slices, i_slice % p->n_slices, i % p->n_parts);
    }
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
           (size_t)task->n_threads * thread_floats(&p->attention) <= task->work_bytes / sizeof(float);
}

void __wrap_ggml_compute_forward_flash_attn_ext(const engine_task *task, struct ggml_tensor *operation)
{
    plan p;

    p.n_rows = 0;
    if (!can_do(task, operation, &p)) {
        __real_ggml_compute_forward_flash_attn_ext(task, operation);
        return;
    }
    share_out_rows(task, operation, &p);
    if (p.n_rows > 0) {
        lay_out(task, &p);
        do_rows(task, &p);
    }
}
