/*
 * attention_row.c - the engine's operation, and the attention of one row over its open cells
 *
 * Cells are processed 64 at a time, counted over the row's open cells only, so that the arithmetic cannot depend on
 * where they are or on what is between them. K and V of such a tile are converted to f32 once for all heads that share
 * them; scores, weights and sums are f32 throughout. K of a quantised type is multiplied by the engine's own function
 * for that type, with Q converted to the type which that function expects, as in the engine.
 */
#include "kernels/attention_row.h"

#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <string.h>

#include "kernels/attention_lanes.h"

#define N_TILE ((size_t)64)

/* Sums that are kept in registers at once. */
#define N_SUMS ((size_t)(N_LANES == 16 ? 4 : 8))

typedef float lanes8 __attribute__((vector_size(32)));
typedef float lanes4 __attribute__((vector_size(16)));

/* ---- reading the operation --------------------------------------------------------------------------------------- */

static bool is_plain(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

/* Can K of its type be multiplied, and V converted? */
static bool has_types(const hth_attention *a)
{
    const struct ggml_type_traits_cpu *k_traits = ggml_get_type_traits_cpu(a->k->type);
    enum ggml_type q_type = k_traits->vec_dot_type;

    if (!is_plain(a->v->type) && !ggml_get_type_traits(a->v->type)->to_float)
        return false;
    if (!is_plain(a->k->type) && !ggml_get_type_traits(a->k->type)->to_float)
        return false;
    return is_plain(a->k->type) || (k_traits->vec_dot && ggml_get_type_traits_cpu(q_type)->from_float &&
                                    ggml_row_size(q_type, (int64_t)a->dk) <= a->dk * sizeof(float));
}

static bool has_form(const hth_attention *a)
{
    const struct ggml_tensor *q = a->q, *k = a->k, *v = a->v, *mask = a->mask, *out = a->out;

    return q->type == GGML_TYPE_F32 && mask->type == GGML_TYPE_F16 && out->type == GGML_TYPE_F32 &&
           /* one stream, one mask for all heads */
           q->ne[3] == 1 && k->ne[3] == 1 && v->ne[3] == 1 && mask->ne[2] == 1 && mask->ne[3] == 1 &&
           /* sizes that fit together */
           q->ne[0] == k->ne[0] && v->ne[1] == k->ne[1] && v->ne[2] == k->ne[2] && q->ne[2] % k->ne[2] == 0 &&
           mask->ne[0] >= k->ne[1] && mask->ne[1] >= q->ne[1] && out->ne[0] == v->ne[0] && out->ne[1] == q->ne[2] &&
           out->ne[2] == q->ne[1] &&
           /* rows without gaps */
           q->nb[0] == sizeof(float) && mask->nb[0] == sizeof(uint16_t) && k->nb[0] == ggml_type_size(k->type) &&
           v->nb[0] == ggml_type_size(v->type) && ggml_is_contiguous(out);
}

bool hth_attention_read(const struct ggml_tensor *operation, hth_attention *out)
{
    const struct ggml_tensor *sinks = operation->src[4];
    hth_attention a = {
        .q = operation->src[0],
        .k = operation->src[1],
        .v = operation->src[2],
        .mask = operation->src[3],
        .out = operation,
    };

    if (!a.mask || !has_form(&a) || (sinks && (sinks->type != GGML_TYPE_F32 || sinks->ne[0] != a.q->ne[2])))
        return false;
    a.sinks = sinks ? sinks->data : NULL;
    a.n_rows = (size_t)a.q->ne[1];
    a.n_cells = (size_t)a.k->ne[1];
    a.n_heads = (size_t)a.q->ne[2];
    a.n_kv_heads = (size_t)a.k->ne[2];
    a.n_group = a.n_heads / a.n_kv_heads;
    a.dk = (size_t)a.k->ne[0];
    a.dv = (size_t)a.v->ne[0];
    memcpy(&a.scale, &operation->op_params[0], sizeof(a.scale));
    memcpy(&a.bias, &operation->op_params[1], sizeof(a.bias));
    memcpy(&a.softcap, &operation->op_params[2], sizeof(a.softcap));
    if (!has_types(&a))
        return false;
    *out = a;
    return true;
}

/* The ALiBi slope of a head: a geometric series; beyond a power of 2, the values in between are used. */
float hth_attention_slope(const hth_attention *a, size_t head)
{
    size_t n_regular = 1;

    if (a->bias <= 0)
        return 1;
    while (n_regular * 2 <= a->n_heads)
        n_regular *= 2;
    if (head < n_regular)
        return powf(2, -a->bias * (float)(head + 1) / (float)n_regular);
    return powf(2, -a->bias / 2 * (float)(2 * (head - n_regular) + 1) / (float)n_regular);
}

const uint16_t *hth_attention_mask(const hth_attention *a, size_t row)
{
    return (const uint16_t *)((const char *)a->mask->data + row * a->mask->nb[1]);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

/* The sum of 16 lanes. */
static float sum_of(const lanes values[N_PARTS])
{
    lanes8 eight[2];
    lanes4 four[2];

    memcpy(eight, values, sizeof(eight));
    eight[0] += eight[1];
    memcpy(four, eight, sizeof(four));
    four[0] += four[1];
    return (four[0][0] + four[0][2]) + (four[0][1] + four[0][3]);
}

static float dot(const float *a, const float *b, size_t n)
{
    lanes sum[2 * N_PARTS] = { { 0 } };
    float rest = 0;
    size_t i = 0;

    for (; i + 32 <= n; i += 32)
        for (size_t p = 0; p < 2 * N_PARTS; p++)
            sum[p] += LOAD(a + i + p * N_LANES) * LOAD(b + i + p * N_LANES);
    for (; i + 16 <= n; i += 16)
        for (size_t p = 0; p < N_PARTS; p++)
            sum[p] += LOAD(a + i + p * N_LANES) * LOAD(b + i + p * N_LANES);
    for (; i < n; i++)
        rest += a[i] * b[i];
    for (size_t p = 0; p < N_PARTS; p++)
        sum[p] += sum[N_PARTS + p];
    return sum_of(sum) + rest;
}

/* Turn scores into weights relative to the highest, and return their sum. Values from n on become 0. */
static float weigh(float *scores, size_t n, float highest)
{
    lanes sum[N_PARTS] = { { 0 } };

    for (size_t i = n; i < N_TILE; i++)
        scores[i] = -INFINITY;
    for (size_t i = 0; i < N_TILE; i += 16)
        for (size_t p = 0; p < N_PARTS; p++) {
            lanes x = LOAD(scores + i + p * N_LANES) - highest;

            exponential(&x);
            STORE(scores + i + p * N_LANES, x);
            sum[p] += x;
        }
    for (size_t i = n; i < N_TILE; i++)
        scores[i] = 0;
    return sum_of(sum);
}

/* sum[d] += weights[c] * values[c][d], in the order of c. */
static void add_weighted(float *sum, const float *values, size_t dv, const float *weights, size_t n)
{
    size_t d = 0;

    for (; d + N_SUMS * N_LANES <= dv; d += N_SUMS * N_LANES) {
        lanes s[N_SUMS];

        for (size_t i = 0; i < N_SUMS; i++)
            s[i] = LOAD(sum + d + i * N_LANES);
        for (size_t c = 0; c < n; c++)
            for (size_t i = 0; i < N_SUMS; i++)
                s[i] += weights[c] * LOAD(values + c * dv + d + i * N_LANES);
        for (size_t i = 0; i < N_SUMS; i++)
            STORE(sum + d + i * N_LANES, s[i]);
    }
    for (; d + N_LANES <= dv; d += N_LANES) {
        lanes s = LOAD(sum + d);

        for (size_t c = 0; c < n; c++)
            s += weights[c] * LOAD(values + c * dv + d);
        STORE(sum + d, s);
    }
    for (; d < dv; d++)
        for (size_t c = 0; c < n; c++)
            sum[d] += weights[c] * values[c * dv + d];
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* The scratch of hth_attention_cells. */
typedef struct tile {
    uint32_t cells[N_TILE];
    float bias[N_TILE]; /* the mask's values */
    size_t n;
    float *k; /* [n][dk], if K has a plain type */
    float *v; /* [n][dv] */
    float *q; /* room for [heads][dk] floats, in the type that K needs, if K is quantised */
} tile;

size_t hth_attention_scratch_floats(const hth_attention *a)
{
    return N_TILE * (a->dk + a->dv) + HTH_ATTENTION_HEADS_MAX * a->dk;
}

static const char *cell_of(const struct ggml_tensor *tensor, uint32_t cell, size_t kv_head)
{
    return (const char *)tensor->data + cell * tensor->nb[1] + kv_head * tensor->nb[2];
}

void hth_attention_floats(const struct ggml_tensor *tensor, uint32_t cell, size_t kv_head, float *to)
{
    const void *from = cell_of(tensor, cell, kv_head);
    size_t n = (size_t)tensor->ne[0];

    switch ((int)tensor->type) {
    case GGML_TYPE_F32: memcpy(to, from, n * sizeof(to[0])); break;
    case GGML_TYPE_F16: ggml_cpu_fp16_to_fp32(from, to, (int64_t)n); break;
    case GGML_TYPE_BF16: ggml_cpu_bf16_to_fp32(from, to, (int64_t)n); break;
    default: ggml_get_type_traits(tensor->type)->to_float(from, to, (int64_t)n); break;
    }
}

const float *hth_attention_query(const hth_attention *a, size_t row, size_t head)
{
    return (const float *)((const char *)a->q->data + row * a->q->nb[1] + head * a->q->nb[2]);
}

/* Load the next tile; false at the end. */
static bool load_tile(const hth_attention *a, const uint16_t *values, hth_open_cells *walk, size_t kv_head,
                      size_t n_max, tile *t)
{
    t->n = hth_open_cells_next(walk, t->cells, n_max < N_TILE ? n_max : N_TILE);
    for (size_t c = 0; c < t->n; c++) {
        uint32_t cell = t->cells[c];

        t->bias[c] = values ? ggml_fp16_to_fp32(values[cell]) : 0;
        if (is_plain(a->k->type))
            hth_attention_floats(a->k, cell, kv_head, t->k + c * a->dk);
        hth_attention_floats(a->v, cell, kv_head, t->v + c * a->dv);
    }
    return t->n > 0;
}

/* Compute the scores of a head in the tile; returns the highest. */
static float score(const hth_attention *a, const tile *t, size_t row, size_t head, size_t i_head, float *scores)
{
    const float *q = hth_attention_query(a, row, head);
    float factor = hth_attention_slope(a, head);
    float highest = -INFINITY;

    if (is_plain(a->k->type)) {
        for (size_t c = 0; c < t->n; c++)
            scores[c] = dot(q, t->k + c * a->dk, a->dk);
    } else {
        ggml_vec_dot_t vec_dot = ggml_get_type_traits_cpu(a->k->type)->vec_dot;

        for (size_t c = 0; c < t->n; c++)
            vec_dot((int)a->dk, &scores[c], 0, cell_of(a->k, t->cells[c], head / a->n_group), 0, t->q + i_head * a->dk,
                    0, 1);
    }
    for (size_t c = 0; c < t->n; c++) {
        float s = scores[c] * a->scale;

        if (a->softcap != 0)
            s = a->softcap * tanhf(s / a->softcap);
        s += factor * t->bias[c];
        scores[c] = s;
        if (s > highest)
            highest = s;
    }
    return highest;
}

static void add_tile(const hth_attention *a, const tile *t, size_t row, size_t head, size_t i_head, float *part)
{
    float scores[N_TILE];
    float highest = score(a, t, row, head, i_head, scores);

    if (highest > part[0]) {
        float factor = expf(part[0] - highest);

        part[0] = highest;
        for (size_t i = 1; i < 2 + a->dv; i++)
            part[i] *= factor;
    }
    part[1] += weigh(scores, t->n, part[0]);
    add_weighted(part + 2, t->v, a->dv, scores, t->n);
}

void hth_attention_cells(const hth_attention *a, size_t row, size_t head, size_t n_heads, hth_open_cells *walk,
                         size_t n, float *scratch, float *parts, size_t part_stride)
{
    tile t = { .k = scratch, .v = scratch + N_TILE * a->dk, .q = scratch + N_TILE * (a->dk + a->dv) };
    const uint16_t *values = a->plan->has_values ? hth_attention_mask(a, row) : NULL;
    enum ggml_type q_type = ggml_get_type_traits_cpu(a->k->type)->vec_dot_type;

    for (size_t i = 0; i < n_heads; i++) {
        if (!is_plain(a->k->type))
            ggml_get_type_traits_cpu(q_type)->from_float(hth_attention_query(a, row, head + i), t.q + i * a->dk,
                                                         (int64_t)a->dk);
        hth_attention_part_clear(a, parts + i * part_stride);
    }
    for (; n > 0 && load_tile(a, values, walk, head / a->n_group, n, &t); n -= t.n)
        for (size_t i = 0; i < n_heads; i++)
            add_tile(a, &t, row, head + i, i, parts + i * part_stride);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

size_t hth_attention_part_floats(const hth_attention *a)
{
    return 2 + a->dv;
}

void hth_attention_part_clear(const hth_attention *a, float *part)
{
    part[0] = -INFINITY;
    for (size_t i = 1; i < 2 + a->dv; i++)
        part[i] = 0;
}

void hth_attention_part_add(const hth_attention *a, float *part, const float *later)
{
    float highest = later[0] > part[0] ? later[0] : part[0];
    float factor, factor_later;

    if (later[1] == 0) /* the later part saw no cell */
        return;
    factor = part[1] == 0 ? 0 : expf(part[0] - highest);
    factor_later = expf(later[0] - highest);
    part[0] = highest;
    for (size_t i = 1; i < 2 + a->dv; i++)
        part[i] = part[i] * factor + later[i] * factor_later;
}

void hth_attention_finish(const hth_attention *a, size_t row, size_t head, float *part)
{
    float *out = (float *)a->out->data + (row * a->n_heads + head) * a->dv;
    float sum = part[1];
    float factor = 1;

    if (a->sinks) { /* a sink takes weight that goes to no cell */
        float highest = a->sinks[head] > part[0] ? a->sinks[head] : part[0];

        factor = expf(part[0] - highest);
        sum = sum * factor + expf(a->sinks[head] - highest);
    }
    factor = sum == 0 ? 0 : factor / sum;
    for (size_t i = 0; i < a->dv; i++)
        out[i] = part[2 + i] * factor;
}
