/*
 * attention_test.c - the attention that replaces the engine's computes the same, and a row of it knows nothing of
 * others
 *
 * Linked with the engine and with the replacement, in the same way as the engine module, so that single operations can
 * be given to both. What a cell holds is a function of the token in it, so that the same sequence can be laid into the
 * buffer in different ways.
 */
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/attention_mask.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_CELLS_MAX = 4096, N_ROWS_MAX = 512 };

typedef struct operation {
    enum ggml_type type_k, type_v;
    size_t n_cells, n_rows, n_heads, n_kv_heads, dk, dv;
    float softcap, bias;
    bool has_sinks;
    uint32_t tokens[N_CELLS_MAX]; /* what lies in each cell */
    uint32_t rows[N_ROWS_MAX];    /* what each row asks */
    uint16_t *mask;               /* [n_rows][n_cells] */
} operation;

static uint64_t seed;

static size_t draw(size_t bound)
{
    return (size_t)hth_test_random(&seed, bound);
}

/* A value in -1 .. 1 that belongs to (what, i). */
static float value(uint64_t what, size_t i)
{
    uint64_t x = what * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;

    x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (float)(x >> 40) / (float)(1 << 23) - 1;
}

enum { OF_K = 1, OF_V = 2, OF_Q = 3, OF_SINK = 4 };

static float value_of(int kind, uint32_t token, size_t head, size_t i)
{
    return value((uint64_t)kind << 40 | token, head << 16 | i) * (kind == OF_Q ? 3 : 1);
}

static operation *operation_new(size_t n_cells, size_t n_rows)
{
    operation *op = calloc(1, sizeof(*op));

    assert_non_null(op);
    assert_true(n_cells <= N_CELLS_MAX && n_rows <= N_ROWS_MAX);
    *op = (operation){ .type_k = GGML_TYPE_F16,
                       .type_v = GGML_TYPE_F16,
                       .n_cells = n_cells,
                       .n_rows = n_rows,
                       .n_heads = 4,
                       .n_kv_heads = 2,
                       .dk = 64,
                       .dv = 64 };
    op->mask = malloc(n_cells * n_rows * sizeof(op->mask[0]));
    assert_non_null(op->mask);
    for (size_t i = 0; i < n_cells * n_rows; i++)
        op->mask[i] = HTH_MASK_CLOSED;
    for (size_t i = 0; i < n_cells; i++)
        op->tokens[i] = 1000000 + (uint32_t)i; /* of somebody else */
    for (size_t i = 0; i < n_rows; i++)
        op->rows[i] = (uint32_t)i;
    return op;
}

static void operation_free(operation *op)
{
    free(op->mask);
    free(op);
}

static void open_cell(operation *op, size_t row, size_t cell)
{
    op->mask[row * op->n_cells + cell] = op->bias > 0 ? ggml_fp32_to_fp16(-(float)(op->tokens[cell] % 37)) : 0;
}

/* ---- running ---- */

static struct ggml_tensor *new_cells(struct ggml_context *ctx, const operation *op, enum ggml_type type, int kind,
                                     size_t d)
{
    struct ggml_tensor *t = ggml_new_tensor_3d(ctx, type, (int64_t)d, (int64_t)op->n_kv_heads, (int64_t)op->n_cells);
    float *row = malloc(d * sizeof(row[0]));

    assert_non_null(row);
    for (size_t cell = 0; cell < op->n_cells; cell++) {
        for (size_t head = 0; head < op->n_kv_heads; head++) {
            for (size_t i = 0; i < d; i++)
                row[i] = value_of(kind, op->tokens[cell], head, i);
            (void)ggml_quantize_chunk(type, row, (char *)t->data + cell * t->nb[2] + head * t->nb[1], 0, 1, (int64_t)d,
                                      NULL);
        }
    }
    free(row);
    return ggml_permute(ctx, t, 0, 2, 1, 3);
}

static struct ggml_tensor *new_queries(struct ggml_context *ctx, const operation *op)
{
    struct ggml_tensor *q =
        ggml_new_tensor_3d(ctx, GGML_TYPE_F32, (int64_t)op->dk, (int64_t)op->n_heads, (int64_t)op->n_rows);

    for (size_t row = 0; row < op->n_rows; row++)
        for (size_t head = 0; head < op->n_heads; head++)
            for (size_t i = 0; i < op->dk; i++)
                ((float *)q->data)[(row * op->n_heads + head) * op->dk + i] = value_of(OF_Q, op->rows[row], head, i);
    return ggml_permute(ctx, q, 0, 2, 1, 3);
}

typedef enum computed_by { OURS, OURS_IN_ORDER, ENGINE, ENGINE_REFERENCE } computed_by;

/* The first token of a sequence is a multiple, so the rest is the position. */
enum { SEQUENCE_TOKENS = 5000 };

/* The order of a context whose cells were restored with these positions. */
static hth_cell_order *new_order(const operation *op)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){ .mem_size = 4096, .no_alloc = true });
    struct ggml_tensor *k = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 1, (int64_t)op->n_cells);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    hth_cell_order *order = hth_cell_order_new(op->n_cells);
    int32_t *positions = malloc(op->n_cells * sizeof(*positions));

    assert_non_null(buffer);
    assert_non_null(order);
    assert_non_null(positions);
    for (size_t i = 0; i < op->n_cells; i++)
        positions[i] = (int32_t)(op->tokens[i] % SEQUENCE_TOKENS);
    ggml_set_name(k, "cache_k_l0");
    hth_cell_order_begin(order, positions, op->n_cells);
    ggml_backend_tensor_set(k, positions, 0, ggml_nbytes(k)); /* any bytes of this size */
    assert_true(hth_cell_order_end(order));
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    free(positions);
    return order;
}

/* The results, [n_rows][n_heads][dv]; to be freed. */
static float *compute(const operation *op, computed_by by, int n_threads)
{
    struct ggml_init_params params = { .mem_size = 64 << 20 };
    struct ggml_context *ctx = ggml_init(params);
    struct ggml_tensor *q, *k, *v, *mask, *out;
    struct ggml_cgraph *graph;
    struct ggml_cplan cplan;
    hth_cell_order *order = by == OURS_IN_ORDER ? new_order(op) : NULL;
    float *results = malloc(op->n_rows * op->n_heads * op->dv * sizeof(results[0]));

    assert_non_null(ctx);
    assert_non_null(results);
    q = new_queries(ctx, op);
    k = new_cells(ctx, op, op->type_k, OF_K, op->dk);
    v = new_cells(ctx, op, op->type_v, OF_V, op->dv);
    mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, (int64_t)op->n_cells, (int64_t)op->n_rows);
    memcpy(mask->data, op->mask, op->n_cells * op->n_rows * sizeof(op->mask[0]));
    out = ggml_flash_attn_ext(ctx, q, k, v, mask, 1 / sqrtf((float)op->dk), op->bias, op->softcap);
    if (op->has_sinks) {
        struct ggml_tensor *sinks = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, (int64_t)op->n_heads);

        for (size_t i = 0; i < op->n_heads; i++)
            ((float *)sinks->data)[i] = 3 * value_of(OF_SINK, 0, i, 0);
        ggml_flash_attn_ext_add_sinks(out, sinks);
    }
    graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, out);
    cplan = ggml_graph_plan(graph, n_threads, NULL);
    cplan.work_data = malloc(cplan.work_size);
    cplan.use_ref = by == ENGINE_REFERENCE;
    assert_non_null(cplan.work_data);
    if (by == ENGINE)
        (void)setenv("HEARTH_ATTENTION", "engine", 1);
    else
        (void)unsetenv("HEARTH_ATTENTION");
    hth_attention_start();
    if (order)
        hth_cell_order_begin(order, NULL, 0);
    assert_int_equal(ggml_graph_compute(graph, &cplan), GGML_STATUS_SUCCESS);
    if (order)
        assert_true(hth_cell_order_end(order)); /* it was used */
    hth_cell_order_free(order);
    memcpy(results, out->data, op->n_rows * op->n_heads * op->dv * sizeof(results[0]));
    free(cplan.work_data);
    ggml_free(ctx);
    return results;
}

/* A value as the type keeps it. */
static double kept(enum ggml_type type, float x)
{
    if (type == GGML_TYPE_F16)
        return (double)ggml_fp16_to_fp32(ggml_fp32_to_fp16(x));
    if (type == GGML_TYPE_BF16)
        return (double)ggml_bf16_to_fp32(ggml_fp32_to_bf16(x));
    return (double)x;
}

/* By the book, in doubles; for types whose values stand alone. */
static void expect(const operation *op, size_t row, size_t head, double *out)
{
    size_t kv_head = head / (op->n_heads / op->n_kv_heads);
    size_t n_regular = 1;
    double total = 0;
    double slope = 1;

    while (n_regular * 2 <= op->n_heads)
        n_regular *= 2;
    if (op->bias > 0 && head < n_regular)
        slope = pow(2, -(double)op->bias / (double)n_regular * (double)(head + 1));
    else if (op->bias > 0)
        slope = pow(2, -(double)op->bias / 2 / (double)n_regular * (double)(2 * (head - n_regular) + 1));
    memset(out, 0, op->dv * sizeof(out[0]));
    if (op->has_sinks)
        total = exp((double)(3 * value_of(OF_SINK, 0, head, 0)));
    for (size_t cell = 0; cell < op->n_cells; cell++) {
        double score = 0;

        if (op->mask[row * op->n_cells + cell] == HTH_MASK_CLOSED)
            continue;
        for (size_t i = 0; i < op->dk; i++)
            score += kept(op->type_k, value_of(OF_K, op->tokens[cell], kv_head, i)) *
                     (double)value_of(OF_Q, op->rows[row], head, i);
        score /= sqrt((double)op->dk);
        if (op->softcap > 0)
            score = (double)op->softcap * tanh(score / (double)op->softcap);
        score += slope * (double)ggml_fp16_to_fp32(op->mask[row * op->n_cells + cell]);
        total += exp(score);
        for (size_t i = 0; i < op->dv; i++)
            out[i] += exp(score) * kept(op->type_v, value_of(OF_V, op->tokens[cell], kv_head, i));
    }
    for (size_t i = 0; i < op->dv && total > 0; i++)
        out[i] /= total;
}

/* ---- results ---- */

static const float *result(const operation *op, const float *results, size_t row)
{
    return results + row * op->n_heads * op->dv;
}

static void assert_same_bits(const operation *op, const float *a, const float *b)
{
    assert_memory_equal(a, b, op->n_heads * op->dv * sizeof(a[0]));
}

/* A random form of operation with random open cells, among them a row that sees none and one that sees all. */
static operation *random_operation(enum ggml_type type_k, enum ggml_type type_v, bool is_quantised)
{
    static const size_t sizes[] = { 64, 128, 32, 192, 256 };
    static const size_t odd_sizes[] = { 64, 80, 40, 128, 13 };
    static const size_t groups[] = { 1, 2, 3, 8, 12 };
    operation *op = operation_new(1 + draw(1200), 1 + draw(7));

    op->type_k = type_k;
    op->type_v = type_v;
    op->n_kv_heads = 1 + draw(3);
    op->n_heads = op->n_kv_heads * groups[draw(5)];
    op->dk = is_quantised ? sizes[draw(5)] : odd_sizes[draw(5)];
    op->dv = is_quantised ? sizes[draw(5)] : odd_sizes[draw(5)];
    op->softcap = draw(3) == 0 ? 5 : 0;
    op->bias = draw(3) == 0 ? 8 : 0;
    op->has_sinks = draw(3) == 0;
    for (size_t row = 0; row < op->n_rows; row++) {
        size_t dense = row == 1 ? 0 : row == 2 ? 100 : 1 + draw(99);

        for (size_t cell = 0; cell < op->n_cells; cell++)
            if (draw(100) < dense)
                open_cell(op, row, cell);
    }
    return op;
}

/* Lay n tokens into free cells in their order, with random gaps; rows from row on see the tokens up to their own. */
static void lay_sequence(operation *op, uint32_t first_token, size_t n, size_t n_own_rows, size_t row, size_t gaps)
{
    size_t cell = draw(gaps + 1);

    for (size_t i = 0; i < n; i++) {
        while (op->tokens[cell] < 1000000)
            cell++;
        assert_true(cell < op->n_cells);
        op->tokens[cell] = first_token + (uint32_t)i;
        for (size_t r = 0; r < n_own_rows; r++)
            if (i + n_own_rows <= n + r)
                open_cell(op, row + r, cell);
        cell += 1 + (gaps > 0 && draw(4) == 0 ? draw(gaps) : 0);
    }
    for (size_t r = 0; r < n_own_rows; r++)
        op->rows[row + r] = first_token + (uint32_t)r;
}

/* Rows see no more than the last n cells that are open to them. */
static void narrow(operation *op, size_t n)
{
    for (size_t row = 0; row < op->n_rows; row++) {
        size_t n_seen = 0;

        for (size_t cell = op->n_cells; cell-- > 0;)
            if (op->mask[row * op->n_cells + cell] != HTH_MASK_CLOSED && n_seen++ >= n)
                op->mask[row * op->n_cells + cell] = HTH_MASK_CLOSED;
    }
}

/* One sequence's chunk of random length, perhaps with a window, of a random form of operation. */
static operation *random_chunk(enum ggml_type type_k, enum ggml_type type_v)
{
    size_t n_rows = 16 + draw(250);
    size_t n_tokens = n_rows + draw(500);
    operation *form = random_operation(type_k, type_v, false);
    operation *op = operation_new(2 * n_tokens + 64, n_rows);
    uint16_t *mask = op->mask;
    size_t n_cells = op->n_cells;

    *op = *form;
    op->mask = mask;
    op->n_cells = n_cells;
    op->n_rows = n_rows;
    for (size_t i = 0; i < n_cells; i++)
        op->tokens[i] = 1000000 + (uint32_t)i;
    lay_sequence(op, 5000, n_tokens, n_rows, 0, 3);
    if (draw(3) == 0)
        narrow(op, 1 + draw(300));
    operation_free(form);
    return op;
}

TEST(results_are_right_to_the_precision_of_floats)
{
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 };

    for (int round = 0; round < 80; round++) {
        operation *op = round % 4 == 0 ? random_chunk(types[draw(3)], types[draw(3)])
                                       : random_operation(types[draw(3)], types[draw(3)], false);
        float *results = compute(op, OURS, 1 + (int)draw(4));
        double *expected = malloc(op->dv * sizeof(expected[0]));

        assert_non_null(expected);
        for (size_t row = 0; row < op->n_rows; row++) {
            for (size_t head = 0; head < op->n_heads; head++) {
                expect(op, row, head, expected);
                for (size_t i = 0; i < op->dv; i++) {
                    double got = (double)result(op, results, row)[head * op->dv + i];

                    if (!(fabs(got - expected[i]) < 5e-6))
                        fail_msg("round %d row %zu head %zu: %.9g instead of %.9g (%s, %s, dk %zu, dv %zu, %zu cells)",
                                 round, row, head, got, expected[i], ggml_type_name(op->type_k),
                                 ggml_type_name(op->type_v), op->dk, op->dv, op->n_cells);
                }
            }
        }
        free(expected);
        free(results);
        operation_free(op);
    }
}

TEST(quantised_cells_give_what_the_engines_kernel_gives)
{
    static const enum ggml_type types[] = { GGML_TYPE_Q8_0, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,  GGML_TYPE_Q4_0,
                                            GGML_TYPE_Q4_1, GGML_TYPE_F16,  GGML_TYPE_IQ4_NL };

    for (int round = 0; round < 60; round++) {
        operation *op = random_operation(types[round % 7], types[draw(7)], true);
        float *results = compute(op, OURS, 1 + (int)draw(4));
        float *engine = compute(op, ENGINE_REFERENCE, 2);
        float tolerance = op->type_v == GGML_TYPE_F16 || op->type_k == GGML_TYPE_F16 ? 2e-2f : 1e-5f;

        /* For V of f16 the engine adds up in f16, and multiplies K of f16 with a Q of f16. */
        for (size_t i = 0; i < op->n_rows * op->n_heads * op->dv; i++)
            if (!(fabsf(results[i] - engine[i]) < tolerance))
                fail_msg("round %d: %.9g instead of %.9g (%s, %s, dk %zu, dv %zu, %zu cells)", round,
                         (double)results[i], (double)engine[i], ggml_type_name(op->type_k), ggml_type_name(op->type_v),
                         op->dk, op->dv, op->n_cells);
        free(results);
        free(engine);
        operation_free(op);
    }
}

TEST(a_row_is_the_same_wherever_its_cells_lie_and_whatever_threads_compute)
{
    static const enum ggml_type types[] = { GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_F32 };
    static const size_t lengths[] = { 1, 63, 64, 65, 255, 256, 257, 511, 513, 1000, 1500 };

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        operation *alone = operation_new((lengths[i] + 255) / 256 * 256, 1);
        operation *among = operation_new(N_CELLS_MAX, 3 + draw(6));
        size_t row = draw(among->n_rows);
        float *expected;

        alone->type_k = alone->type_v = among->type_k = among->type_v = types[i % 3];
        lay_sequence(alone, 5000, lengths[i], 1, 0, 0);
        expected = compute(alone, OURS, 1);
        lay_sequence(among, 5000, lengths[i], 1, row, 5);
        for (size_t r = 0; r < among->n_rows; r++)
            if (r != row)
                lay_sequence(among, 10000 * (uint32_t)(r + 1), 1 + draw(200), 1, r, 3);
        for (int n_threads = 1; n_threads <= 5; n_threads++) {
            float *results = compute(alone, OURS, n_threads);

            assert_same_bits(alone, results, expected);
            free(results);
            results = compute(among, OURS, n_threads);
            assert_same_bits(among, result(among, results, row), expected);
            free(results);
        }
        free(expected);
        operation_free(alone);
        operation_free(among);
    }
}

/* ---- in the order of positions ---- */

/* Lay n tokens into any free cells; otherwise as lay_sequence. */
static void scatter_sequence(operation *op, uint32_t first_token, size_t n, size_t n_own_rows)
{
    for (size_t i = 0; i < n; i++) {
        size_t cell = draw(op->n_cells);

        while (op->tokens[cell] < 1000000)
            cell = (cell + 1) % op->n_cells;
        op->tokens[cell] = first_token + (uint32_t)i;
        for (size_t r = 0; r < n_own_rows; r++)
            if (i + n_own_rows <= n + r)
                open_cell(op, r, cell);
    }
    for (size_t r = 0; r < n_own_rows; r++)
        op->rows[r] = first_token + (uint32_t)r;
}

/* Another operation of this form. */
static operation *like(const operation *form, size_t n_cells, size_t n_rows)
{
    operation *op = operation_new(n_cells, n_rows);

    op->type_k = form->type_k;
    op->type_v = form->type_v;
    op->n_heads = form->n_heads;
    op->n_kv_heads = form->n_kv_heads;
    op->dk = form->dk;
    op->dv = form->dv;
    op->softcap = form->softcap;
    op->bias = form->bias;
    op->has_sinks = form->has_sinks;
    return op;
}

/* A chunk computes rows as lanes, a single row heads as lanes: with every form of attention. */
TEST(in_order_a_row_is_the_same_alone_and_in_a_chunk_wherever_its_cells_lie)
{
    static const enum ggml_type types[] = { GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_F32, GGML_TYPE_BF16 };
    static const struct {
        float softcap, bias;
        bool has_sinks;
    } forms[] = { { 0, 0, false }, { 5, 0, false }, { 0, 8, false }, { 0, 0, true }, { 5, 8, true } };

    for (size_t round = 0; round < 40; round++) {
        operation *form = random_operation(types[round % 4], types[round % 4], true);
        size_t n_rows = 16 + draw(60), n_tokens = n_rows + draw(600);
        operation *chunk;
        float *expected;

        form->softcap = forms[round % 5].softcap;
        form->bias = forms[round % 5].bias;
        form->has_sinks = forms[round % 5].has_sinks;
        chunk = like(form, n_tokens + 64, n_rows);
        lay_sequence(chunk, SEQUENCE_TOKENS, n_tokens, n_rows, 0, 0);
        expected = compute(chunk, OURS_IN_ORDER, 1);
        for (size_t i = 0; i < 4; i++) {
            size_t row = draw(n_rows);
            operation *alone = like(form, 2 * n_tokens + 64, 1);
            operation *again = like(form, 2 * n_tokens + 64, n_rows);
            float *results;

            scatter_sequence(alone, SEQUENCE_TOKENS, n_tokens - n_rows + row + 1, 1);
            alone->rows[0] = chunk->rows[row];
            results = compute(alone, OURS_IN_ORDER, 1 + (int)draw(4));
            assert_same_bits(alone, results, result(chunk, expected, row));
            free(results);
            scatter_sequence(again, SEQUENCE_TOKENS, n_tokens, n_rows);
            results = compute(again, OURS_IN_ORDER, 1 + (int)draw(4));
            for (size_t r = 0; r < n_rows; r++)
                assert_same_bits(again, result(again, results, r), result(chunk, expected, r));
            free(results);
            operation_free(alone);
            operation_free(again);
        }
        free(expected);
        operation_free(chunk);
        operation_free(form);
    }
}

/* Rows that decode, a chunk, rows that decode, a short end of a prompt, a chunk, a row that decodes. */
static const struct {
    size_t n_tokens;
    size_t n_own_rows;
} mixture[] = { { 300, 1 }, { 70, 1 }, { 320, 128 }, { 90, 1 }, { 200, 40 }, { 64, 64 }, { 150, 63 }, { 1, 1 } };

enum { N_MIXTURE = sizeof(mixture) / sizeof(mixture[0]) };

TEST(a_chunk_and_rows_that_decode_do_not_change_each_other)
{
    operation *all;
    float *results;
    size_t n_rows = 0;

    for (size_t i = 0; i < N_MIXTURE; i++)
        n_rows += mixture[i].n_own_rows;
    all = operation_new(N_CELLS_MAX, n_rows);
    n_rows = 0;
    for (size_t i = 0; i < N_MIXTURE; i++) {
        lay_sequence(all, 10000 * (uint32_t)(i + 1), mixture[i].n_tokens, mixture[i].n_own_rows, n_rows, 2);
        n_rows += mixture[i].n_own_rows;
    }
    results = compute(all, OURS, 2);
    n_rows = 0;
    for (size_t i = 0; i < N_MIXTURE; i++) {
        operation *alone = operation_new(512, mixture[i].n_own_rows);
        float *expected;

        lay_sequence(alone, 10000 * (uint32_t)(i + 1), mixture[i].n_tokens, mixture[i].n_own_rows, 0, 0);
        expected = compute(alone, OURS, 1);
        for (size_t r = 0; r < mixture[i].n_own_rows; r++)
            assert_same_bits(all, result(all, results, n_rows + r), result(alone, expected, r));
        n_rows += mixture[i].n_own_rows;
        free(expected);
        operation_free(alone);
    }
    free(results);
    operation_free(all);
}

TEST(many_rows_that_share_a_prefix_are_no_chunk)
{
    enum { N = 80, N_PREFIX = 200 };
    operation *op = operation_new(512, N);
    operation *one = operation_new(512, 1);
    float *results, *expected;

    for (size_t cell = 0; cell < N_PREFIX + N; cell++)
        op->tokens[cell] = one->tokens[cell] = (uint32_t)cell;
    for (size_t row = 0; row < N; row++) {
        for (size_t cell = 0; cell < N_PREFIX; cell++)
            open_cell(op, row, cell);
        open_cell(op, row, N_PREFIX + row);
    }
    results = compute(op, OURS, 2);
    for (size_t cell = 0; cell < N_PREFIX; cell++)
        open_cell(one, 0, cell);
    open_cell(one, 0, N_PREFIX + 50);
    one->rows[0] = 50;
    expected = compute(one, OURS, 1);
    assert_same_bits(op, result(op, results, 50), expected);
    free(expected);
    free(results);
    operation_free(one);
    operation_free(op);
}

static int start(void **state)
{
    (void)state;
    seed = hth_test_seed();
    return 0;
}

GROUP(with_a_seed, start, NULL)
