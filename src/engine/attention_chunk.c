/*
 * attention_chunk.c - the attention of a chunk: up to 64 neighbouring rows of one sequence
 *
 * The chunk's open cells are taken 64 at a time. As for a single row, only open cells are counted, so the results do
 * not depend on where the cells lie, or on the cells between them. Scores, weights and sums are f32.
 *
 * Rows are the lanes of vectors. Q is transposed once, so that Q[d] is a vector of rows; scores[cell] = sum over d of
 * K[cell][d] * Q[d], out[d] += sum over cells of V[cell][d] * weights[cell]. So K and V are used as they lie, and the
 * highest score, the weights and their sum stay in their lanes. The arithmetic of a lane is that of its row alone; a
 * cell that the row does not see has weight 0.
 */
#include "engine/attention_chunk.h"

#include <assert.h>
#include <ggml.h>
#include <math.h>
#include <string.h>

#include "engine/attention_lanes.h"

#define N_ROWS HTH_CHUNK_ROWS /* of the vectors, however many the chunk has */
#define N_VECTORS (HTH_CHUNK_ROWS / N_LANES)
#define N_TILE ((size_t)64) /* cells */

/* Sums that are kept in registers at once: rows of a product by vectors; the narrow block is one vector wide. */
#if defined(__AVX512F__)
enum { N_BLOCK = 4, N_WIDE = 4, N_BLOCK_NARROW = 12 };
#else
enum { N_BLOCK = 4, N_WIDE = 2, N_BLOCK_NARROW = 8 };
#endif

static_assert(HTH_CHUNK_ROWS % (N_WIDE * N_LANES) == 0, "a chunk fills the vectors");

typedef struct work {
    float *q;         /* [dk][N_ROWS] */
    float *out;       /* [dv][N_ROWS] */
    float *scores;    /* [N_TILE][N_ROWS], later the weights */
    float *k;         /* [N_TILE][dk] */
    float *v;         /* [N_TILE][dv] */
    float *highest;   /* [N_ROWS] */
    float *sum;       /* [N_ROWS], of the weights */
    size_t n_vectors; /* that hold rows */
    uint32_t cells[N_TILE];
    size_t n_cells;
} work;

size_t hth_attention_chunk_floats(const hth_attention *a)
{
    return (N_ROWS + N_TILE) * (a->dk + a->dv) + N_TILE * N_ROWS + 2 * N_ROWS;
}

static work lay_out(const hth_attention *a, float *scratch)
{
    work w = { .scores = scratch };

    w.highest = w.scores + N_TILE * N_ROWS;
    w.sum = w.highest + N_ROWS;
    w.q = w.sum + N_ROWS;
    w.out = w.q + a->dk * N_ROWS;
    w.k = w.out + a->dv * N_ROWS;
    w.v = w.k + N_TILE * a->dk;
    return w;
}

/* ---- products ---- */

/*
 * to[i] (+)= sum over s of a[i * a_row + s * a_step] * b[s], for n rows and n_wide vectors from b on, both known when
 * this is compiled. The order of the additions is the same for every element.
 */
static inline __attribute__((always_inline)) void block(float *to, const float *a, size_t a_row, size_t a_step,
                                                        const float *b, size_t n_steps, size_t n, size_t n_wide,
                                                        bool adds)
{
    const lanes none = { 0 };
    lanes sums[N_BLOCK_NARROW][N_WIDE];

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n_wide; j++)
            if (adds)
                sums[i][j] = LOAD(to + i * N_ROWS + j * N_LANES);
            else
                sums[i][j] = none;
    for (size_t s = 0; s < n_steps; s++) {
        lanes values[N_WIDE];

        for (size_t j = 0; j < n_wide; j++)
            values[j] = LOAD(b + s * N_ROWS + j * N_LANES);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n_wide; j++)
                sums[i][j] += a[i * a_row + s * a_step] * values[j];
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n_wide; j++)
            STORE(to + i * N_ROWS + j * N_LANES, sums[i][j]);
}

static inline __attribute__((always_inline)) void stripe(float *to, const float *a, size_t a_row, size_t a_step,
                                                         size_t n, const float *b, size_t n_steps, size_t n_block,
                                                         size_t n_wide, bool adds)
{
    size_t i = 0;

    for (; i + n_block <= n; i += n_block)
        block(to + i * N_ROWS, a + i * a_row, a_row, a_step, b, n_steps, n_block, n_wide, adds);
    for (; i < n; i++)
        block(to + i * N_ROWS, a + i * a_row, a_row, a_step, b, n_steps, 1, n_wide, adds);
}

/*
 * to[n][N_ROWS] (+)= a * b[n_steps][N_ROWS], the first n_vectors of the rows; a's element (i, s) lies at i * a_row + s
 * * a_step.
 */
static inline __attribute__((always_inline)) void multiply(float *to, const float *a, size_t a_row, size_t a_step,
                                                           size_t n, const float *b, size_t n_steps, size_t n_vectors,
                                                           bool adds)
{
    size_t j = 0;

    for (; j + N_WIDE <= n_vectors; j += N_WIDE)
        stripe(to + j * N_LANES, a, a_row, a_step, n, b + j * N_LANES, n_steps, N_BLOCK, N_WIDE, adds);
    for (; j < n_vectors; j++)
        stripe(to + j * N_LANES, a, a_row, a_step, n, b + j * N_LANES, n_steps, N_BLOCK_NARROW, 1, adds);
}

/* ---- a tile ---- */

/* Q, transposed and scaled; rows that the chunk does not have are 0. */
static void load_queries(const hth_attention *a, const hth_mask_group *group, size_t head, float *to)
{
    const float *from[N_ROWS];

    for (size_t row = 0; row < group->n_rows; row++)
        from[row] = hth_attention_query(a, group->row + row, head);
    for (size_t d = 0; d < a->dk; d++) {
        for (size_t row = 0; row < group->n_rows; row++)
            to[d * N_ROWS + row] = from[row][d] * a->scale;
        for (size_t row = group->n_rows; row < N_ROWS; row++)
            to[d * N_ROWS + row] = 0;
    }
}

static void load_cells(const hth_attention *a, size_t kv_head, work *w)
{
    for (size_t c = 0; c < w->n_cells; c++) {
        hth_attention_floats(a->k, w->cells[c], kv_head, w->k + c * a->dk);
        hth_attention_floats(a->v, w->cells[c], kv_head, w->v + c * a->dv);
    }
}

/* Bits of the rows that see a cell; all ones where all do, also for rows that the chunk does not have. */
static uint64_t rows_of(const hth_mask_plan *plan, const hth_mask_group *group, uint32_t cell)
{
    size_t i = (cell - group->first_cell) / 64;
    size_t columns = (size_t)plan->words[group->columns + i];

    if (columns == 0 || (plan->words[group->all + i] >> cell % 64 & 1) != 0)
        return UINT64_MAX;
    return plan->words[columns + cell % 64];
}

/* Scores of the rows that do not see a cell become minus infinity. */
static void close_cell(float *scores, uint64_t rows)
{
    static const uint32_t numbers[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    static const uint32_t closed_bits = 0xff800000u;
    bit_lanes places;

    memcpy(&places, numbers, sizeof(places));
    for (size_t j = 0; j < N_VECTORS; j++) {
        uint32_t few = (uint32_t)(rows >> j * N_LANES) & ((1u << N_LANES) - 1);
        bit_lanes open = (bit_lanes)((((bit_lanes){ 0 } + few) >> places & 1) != 0);
        bit_lanes bits;

        memcpy(&bits, scores + j * N_LANES, sizeof(bits));
        bits = (bits & open) | (~open & closed_bits);
        memcpy(scores + j * N_LANES, &bits, sizeof(bits));
    }
}

/* Add the mask's values, when they are not only open and closed. */
static void add_values(const hth_attention *a, const hth_mask_group *group, size_t head, work *w)
{
    float factor = hth_attention_slope(a, head);

    for (size_t row = 0; row < group->n_rows; row++) {
        const uint16_t *values = hth_attention_mask(a, group->row + row);

        for (size_t c = 0; c < w->n_cells; c++)
            w->scores[c * N_ROWS + row] += factor * ggml_fp16_to_fp32(values[w->cells[c]]);
    }
}

static void finish_scores(const hth_attention *a, const hth_mask_group *group, size_t head, work *w)
{
    for (size_t i = 0; a->softcap != 0 && i < w->n_cells * N_ROWS; i++)
        w->scores[i] = a->softcap * tanhf(w->scores[i] / a->softcap);
    if (a->plan->has_values)
        add_values(a, group, head, w);
    for (size_t c = 0; c < w->n_cells; c++) {
        uint64_t rows = rows_of(a->plan, group, w->cells[c]);

        if (rows != UINT64_MAX)
            close_cell(w->scores + c * N_ROWS, rows);
    }
}

static lanes finite_or_zero(lanes x)
{
    bit_lanes kept = (bit_lanes)(x > -INFINITY);
    bit_lanes bits;

    memcpy(&bits, &x, sizeof(bits));
    bits &= kept;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Turn scores into weights relative to the highest so far, and scale the earlier sums to it, too. */
static void weigh(const hth_attention *a, work *w)
{
    for (size_t j = 0; j < w->n_vectors * N_LANES; j += N_LANES) {
        lanes before = LOAD(w->highest + j), highest = before, sum = { 0 }, factor, base;

        for (size_t c = 0; c < w->n_cells; c++)
            highest = larger(LOAD(w->scores + c * N_ROWS + j), highest);
        base = finite_or_zero(highest); /* a row that saw no cell yet has no highest score */
        for (size_t c = 0; c < w->n_cells; c++) {
            lanes x = LOAD(w->scores + c * N_ROWS + j) - base;

            exponential(&x);
            STORE(w->scores + c * N_ROWS + j, x);
            sum += x;
        }
        factor = before - base;
        exponential(&factor);
        STORE(w->highest + j, highest);
        STORE(w->sum + j, LOAD(w->sum + j) * factor + sum);
        for (size_t d = 0; d < a->dv; d++)
            STORE(w->out + d * N_ROWS + j, LOAD(w->out + d * N_ROWS + j) * factor);
    }
}

/* ---- a head ---- */

static void write_rows(const hth_attention *a, const hth_mask_group *group, size_t head, const work *w)
{
    for (size_t row = 0; row < group->n_rows; row++) {
        float *to = (float *)a->out->data + ((group->row + row) * a->n_heads + head) * a->dv;
        float sum = w->sum[row];
        float factor = 1;

        if (a->sinks) { /* weight that goes to no cell */
            float highest = a->sinks[head] > w->highest[row] ? a->sinks[head] : w->highest[row];

            factor = expf(w->highest[row] - highest);
            sum = sum * factor + expf(a->sinks[head] - highest);
        }
        factor = sum == 0 ? 0 : factor / sum;
        for (size_t d = 0; d < a->dv; d++)
            to[d] = w->out[d * N_ROWS + row] * factor;
    }
}

void hth_attention_chunk(const hth_attention *a, const hth_mask_group *group, size_t head, float *scratch)
{
    work w = lay_out(a, scratch);
    hth_open_cells walk = hth_mask_group_walk(a->plan, group);

    w.n_vectors = (group->n_rows + N_LANES - 1) / N_LANES;
    load_queries(a, group, head, w.q);
    memset(w.out, 0, a->dv * N_ROWS * sizeof(w.out[0]));
    for (size_t row = 0; row < N_ROWS; row++) {
        w.highest[row] = -INFINITY;
        w.sum[row] = 0;
    }
    while ((w.n_cells = hth_open_cells_next(&walk, w.cells, N_TILE)) > 0) {
        load_cells(a, head / a->n_group, &w);
        multiply(w.scores, w.k, a->dk, 1, w.n_cells, w.q, a->dk, w.n_vectors, false);
        finish_scores(a, group, head, &w);
        weigh(a, &w);
        multiply(w.out, w.v, 1, a->dv, a->dv, w.scores, w.n_cells, w.n_vectors, true);
    }
    write_rows(a, group, head, &w);
}
