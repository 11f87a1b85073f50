/*
 * attention_chunk.c - the attention of a chunk: up to 64 neighbouring rows of one sequence, or up to 64 heads of a row
 *
 * The chunk's open cells are processed 64 at a time. As for a single row, only open cells are counted, so the results
 * do not depend on where the cells lie, or on the cells between them. Scores, weights and sums are f32.
 *
 * Rows are the lanes of vectors. Q is transposed once, so that Q[d] is a vector of rows; scores[cell] = sum over d of
 * K[cell][d] * Q[d], out[d] += sum over cells of V[cell][d] * weights[cell]. So K and V are used in their memory
 * layout, and the highest score, the weights and their sum stay in their lanes. The arithmetic of a lane is that of its
 * row alone; a cell that the row does not see has weight 0. So a row gets the same bits alone and in a chunk, if the
 * tiles are the same: an ordered plan (attention_mask.h) starts tiles at positions that are multiples of 64.
 *
 * For a single row, the lanes are heads that share K and V, and out has a row of d for each head. So with few heads,
 * lanes are unused only in the scores. The additions and their order are the same.
 */
#include "kernels/attention_row.h"

#include <assert.h>
#include <ggml.h>
#include <math.h>
#include <string.h>

#include "kernels/attention_lanes.h"

#define N_ROWS HTH_CHUNK_ROWS /* rows in the vectors, however many the chunk has */
#define N_VECTORS (HTH_CHUNK_ROWS / N_LANES)
#define N_TILE ((size_t)64) /* cells */

/* Sums that are kept in registers at once: rows of the product times vectors; the narrow block is one vector wide. */
#if defined(__AVX512F__)
enum { N_BLOCK = 4, N_WIDE = 4, N_BLOCK_NARROW = 12 };
#else
enum { N_BLOCK = 4, N_WIDE = 2, N_BLOCK_NARROW = 8 };
#endif

static_assert(HTH_CHUNK_ROWS % (N_WIDE * N_LANES) == 0, "a chunk fills the vectors");

typedef struct work {
    const hth_mask_group *group;
    size_t head; /* the first */
    size_t n_heads;
    size_t n_lanes;   /* actual number of rows or heads */
    float *q;         /* [dk][N_ROWS] */
    float *out;       /* [dv][N_ROWS]; for a single row [n_heads][dv] */
    float *scores;    /* [N_TILE][N_ROWS], later the weights */
    float *k;         /* [N_TILE][dk] */
    float *v;         /* [N_TILE][dv] */
    float *highest;   /* [N_ROWS] */
    float *sum;       /* [N_ROWS], of the weights */
    float *factor;    /* [N_ROWS], of the earlier sums, in the current tile */
    bool is_row;      /* a single row */
    size_t n_vectors; /* that hold rows */
    uint32_t cells[N_TILE];
    size_t n_cells;
} work;

size_t hth_attention_chunk_floats(const hth_attention *a)
{
    return (N_ROWS + N_TILE) * (a->dk + a->dv) + N_TILE * N_ROWS + 3 * N_ROWS;
}

static work lay_out(const hth_attention *a, float *scratch)
{
    work w = { .scores = scratch };

    w.highest = w.scores + N_TILE * N_ROWS;
    w.sum = w.highest + N_ROWS;
    w.factor = w.sum + N_ROWS;
    w.q = w.factor + N_ROWS;
    w.out = w.q + a->dk * N_ROWS;
    w.k = w.out + a->dv * N_ROWS;
    w.v = w.k + N_TILE * a->dk;
    return w;
}

/* ---- products ---- */

/*
 * to[i] (+)= sum over s of a[i * a_row + s * a_step] * b[s], for n rows and n_wide vectors starting at b, both known at
 * compile time. The order of the additions is the same for every element.
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
                sums[i][j] = fused(all_lanes(a[i * a_row + s * a_step]), values[j], sums[i][j]);
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

static size_t row_of(const work *w, size_t lane)
{
    return w->n_heads > 1 ? w->group->row : w->group->row + lane;
}

static size_t head_of(const work *w, size_t lane)
{
    return w->n_heads > 1 ? w->head + lane : w->head;
}

/* Q, transposed and scaled; lanes that are not used are 0. */
static void load_queries(const hth_attention *a, work *w)
{
    const float *from[N_ROWS];
    size_t n_all = w->n_vectors * N_LANES;

    for (size_t lane = 0; lane < w->n_lanes; lane++)
        from[lane] = hth_attention_query(a, row_of(w, lane), head_of(w, lane));
    for (size_t d = 0; d < a->dk; d++) {
        for (size_t lane = 0; lane < w->n_lanes; lane++)
            w->q[d * N_ROWS + lane] = from[lane][d] * a->scale;
        for (size_t lane = w->n_lanes; lane < n_all; lane++)
            w->q[d * N_ROWS + lane] = 0;
    }
}

static void load_cells(const hth_attention *a, size_t kv_head, work *w)
{
    for (size_t c = 0; c < w->n_cells; c++) {
        hth_attention_floats(a->k, w->cells[c], kv_head, w->k + c * a->dk);
        hth_attention_floats(a->v, w->cells[c], kv_head, w->v + c * a->dv);
    }
}

/* Bits of the rows that see a cell; all ones if all rows do, including rows that the chunk does not have. */
static uint64_t rows_of(const hth_mask_plan *plan, const hth_mask_group *group, uint32_t cell)
{
    size_t i = (cell - group->first_cell) / 64;
    size_t columns = group->is_chunk ? (size_t)plan->words[group->columns + i] : 0;

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

/* Add the mask's values, if there are others than open and closed. */
static void add_values(const hth_attention *a, work *w)
{
    for (size_t lane = 0; lane < w->n_lanes; lane++) {
        const uint16_t *values = hth_attention_mask(a, row_of(w, lane));
        float factor = hth_attention_slope(a, head_of(w, lane));

        for (size_t c = 0; c < w->n_cells; c++)
            w->scores[c * N_ROWS + lane] =
                fused_one(factor, ggml_fp16_to_fp32(values[w->cells[c]]), w->scores[c * N_ROWS + lane]);
    }
}

static void finish_scores(const hth_attention *a, work *w)
{
    for (size_t c = 0; a->softcap != 0 && c < w->n_cells; c++)
        for (size_t i = c * N_ROWS; i < c * N_ROWS + w->n_lanes; i++)
            w->scores[i] = a->softcap * tanhf(w->scores[i] / a->softcap);
    if (a->plan->has_values)
        add_values(a, w);
    for (size_t c = 0; c < w->n_cells; c++) {
        uint64_t rows = rows_of(a->plan, w->group, w->cells[c]);

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

/* Turn scores into weights relative to the highest score so far, and rescale the earlier sums accordingly. */
static void weigh(const hth_attention *a, work *w)
{
    for (size_t j = 0; j < w->n_vectors * N_LANES; j += N_LANES) {
        lanes before = LOAD(w->highest + j), highest = before, sum = { 0 }, factor, base;

        for (size_t c = 0; c < w->n_cells; c++)
            highest = larger(LOAD(w->scores + c * N_ROWS + j), highest);
        base = finite_or_zero(highest); /* a row that has seen no cell yet has no highest score */
        for (size_t c = 0; c < w->n_cells; c++) {
            lanes x = LOAD(w->scores + c * N_ROWS + j) - base;

            exponential(&x);
            STORE(w->scores + c * N_ROWS + j, x);
            sum += x;
        }
        factor = before - base;
        exponential(&factor);
        STORE(w->highest + j, highest);
        STORE(w->sum + j, fused(LOAD(w->sum + j), factor, sum));
        STORE(w->factor + j, factor);
        for (size_t d = 0; !w->is_row && d < a->dv; d++)
            STORE(w->out + d * N_ROWS + j, LOAD(w->out + d * N_ROWS + j) * factor);
    }
}

/*
 * out[head][d] = out[head][d] * factor + sum over cells of V[cell][d] * weights[cell], in the order of the cells. The
 * products with the factor are rounded first, as for a chunk (weigh).
 */
static void add_to_row(const hth_attention *a, const work *w, size_t lane)
{
    float *out = w->out + lane * a->dv;
    size_t d = 0;

    for (size_t i = 0; i < a->dv; i++)
        out[i] *= w->factor[lane];
    for (; d + N_LANES <= a->dv; d += N_LANES) {
        lanes sum = LOAD(out + d);

        for (size_t c = 0; c < w->n_cells; c++)
            sum = fused(all_lanes(w->scores[c * N_ROWS + lane]), LOAD(w->v + c * a->dv + d), sum);
        STORE(out + d, sum);
    }
    for (; d < a->dv; d++) {
        float sum = out[d];

        for (size_t c = 0; c < w->n_cells; c++)
            sum = fused_one(w->scores[c * N_ROWS + lane], w->v[c * a->dv + d], sum);
        out[d] = sum;
    }
}

/* ---- a head ---- */

static void write_rows(const hth_attention *a, const work *w)
{
    for (size_t lane = 0; lane < w->n_lanes; lane++) {
        size_t head = head_of(w, lane);
        float *to = (float *)a->out->data + (row_of(w, lane) * a->n_heads + head) * a->dv;
        float sum = w->sum[lane];
        float factor = 1;

        if (a->sinks) { /* a sink takes weight that goes to no cell */
            float highest = a->sinks[head] > w->highest[lane] ? a->sinks[head] : w->highest[lane];

            factor = expf(w->highest[lane] - highest);
            sum = fused_one(sum, factor, expf(a->sinks[head] - highest));
        }
        factor = sum == 0 ? 0 : factor / sum;
        for (size_t d = 0; d < a->dv; d++)
            to[d] = (w->is_row ? w->out[lane * a->dv + d] : w->out[d * N_ROWS + lane]) * factor;
    }
}

void hth_attention_chunk(const hth_attention *a, const hth_mask_group *group, size_t head, size_t n_heads,
                         float *scratch)
{
    work w = lay_out(a, scratch);
    hth_open_cells walk = hth_mask_group_walk(a->plan, group);

    assert(n_heads == 1 || group->n_rows == 1);
    w.group = group;
    w.head = head;
    w.n_heads = n_heads;
    w.is_row = group->n_rows == 1;
    w.n_lanes = n_heads > 1 ? n_heads : group->n_rows;
    w.n_vectors = (w.n_lanes + N_LANES - 1) / N_LANES;
    load_queries(a, &w);
    memset(w.out, 0, (w.is_row ? w.n_lanes : N_ROWS) * a->dv * sizeof(w.out[0]));
    for (size_t lane = 0; lane < N_ROWS; lane++) {
        w.highest[lane] = -INFINITY;
        w.sum[lane] = 0;
    }
    while ((w.n_cells = hth_open_cells_next(&walk, w.cells, N_TILE)) > 0) {
        load_cells(a, head / a->n_group, &w);
        multiply(w.scores, w.k, a->dk, 1, w.n_cells, w.q, a->dk, w.n_vectors, false);
        finish_scores(a, &w);
        weigh(a, &w);
        if (w.is_row)
            for (size_t lane = 0; lane < w.n_lanes; lane++)
                add_to_row(a, &w, lane);
        else
            multiply(w.out, w.v, 1, a->dv, a->dv, w.scores, w.n_cells, w.n_vectors, true);
    }
    write_rows(a, &w);
}
