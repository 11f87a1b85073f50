/*
 * exact_test.c - a deterministic context: a token's logits have the same bits in any company and after any past
 *
 * A text is computed alone, token by token, in a context of its own. Then a larger context lives through hundreds of
 * random steps: evaluations of single tokens and of chunks of several texts at once, with and without wishes for other
 * logits, in any order of rows; sequences that are shared, cut back, emptied; blocks that are cut out and restored,
 * whole and in part, into whatever cells are free, with other numbers of threads. Every row of logits that comes up
 * must be that of the text alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "engine/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum {
    N_TEXTS = 5,
    TEXT_TOKENS = 400,
    N_SHARED = 150, /* tokens that all texts begin with */
    N_SEQUENCES = 7,
    SCRATCH = N_SEQUENCES, /* to cut blocks with, as the scheduler does */
    N_CTX = 1280,          /* fewer cells than the sequences could use */
    N_BATCH = 200,
    PATH_BYTES = 4096,
    IMAGES = 12,
};

static const hth_backend *llama;
static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static const char attention_off[] = "the engine's own attention is in use";

typedef struct image {
    uint8_t *bytes;
    size_t n_bytes;
    size_t text;
    uint32_t begin, end;
} image;

typedef struct live {
    hth_engine_context *context;
    size_t text[N_SEQUENCES];  /* the text that the sequence holds a part of */
    uint32_t end[N_SEQUENCES]; /* 0: empty */
    image images[IMAGES];
    size_t n_compared;
} live;

typedef struct fixture {
    hth_engine_model *model;
    uint32_t n_vocab;
    const char *type;
    hearth_token texts[N_TEXTS][TEXT_TOKENS];
    uint64_t expected[N_TEXTS][TEXT_TOKENS]; /* digests of logits */
    uint64_t seed;
} fixture;

static hth_engine_context *context_new(fixture *f, uint32_t n_ctx, uint32_t n_batch, uint32_t n_threads)
{
    hth_engine_context_params params = { .n_ctx = n_ctx,
                                         .n_batch = n_batch,
                                         .n_seq_max = N_SEQUENCES + 1,
                                         .n_threads = n_threads,
                                         .type_k = f->type,
                                         .type_v = f->type,
                                         .deterministic = true };
    hth_engine_context_info info;
    hth_engine_context *context = NULL;
    hearth_error err = { .message = "" };

    if (llama->context_new(f->model, &params, &context, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    llama->context_info(context, &info);
    assert_true(info.is_deterministic);
    assert_int_equal(info.n_ctx, n_ctx);
    assert_int_equal(info.n_seq_max, N_SEQUENCES + 1);
    return context;
}

static void evaluate(hth_engine_context *context, const hth_batch_row *rows, size_t n_rows)
{
    hth_decode_result result;
    hearth_error err = { .message = "" };

    if (llama->decode(context, rows, n_rows, &result, &err) != HEARTH_OK || result != HTH_DECODE_OK)
        fail_msg("%d %s", (int)result, err.message);
}

static uint64_t digest_of(const fixture *f, const float *logits)
{
    uint8_t digest[HTH_SHA256_BYTES];

    hth_sha256_of(logits, f->n_vocab * sizeof(*logits), digest);
    return hth_get_u64(digest);
}

/* Each text alone, token by token. */
static void compute_alone(fixture *f)
{
    hth_engine_context *context = context_new(f, 512, 8, 1);

    for (size_t text = 0; text < N_TEXTS; text++) {
        for (uint32_t i = 0; i < TEXT_TOKENS; i++) {
            hth_batch_row row = { .token = f->texts[text][i], .position = i, .wants_logits = true };

            evaluate(context, &row, 1);
            f->expected[text][i] = digest_of(f, llama->logits(context, 0));
        }
        assert_true(llama->seq_remove(context, 0, 0, TEXT_TOKENS));
    }
    llama->context_free(context);
}

static void write_texts(fixture *f)
{
    for (size_t text = 0; text < N_TEXTS; text++)
        for (size_t i = 0; i < TEXT_TOKENS; i++)
            f->texts[text][i] =
                text > 0 && i < N_SHARED ? f->texts[0][i] : 3 + (hearth_token)hth_test_random(&f->seed, f->n_vocab - 3);
}

/* ---- steps ---- */

static uint32_t pick(fixture *f, uint32_t n)
{
    return (uint32_t)hth_test_random(&f->seed, n);
}

static void empty(live *l, uint32_t sequence)
{
    (void)llama->seq_remove(l->context, sequence, 0, UINT32_MAX);
    l->end[sequence] = 0;
}

/* An evaluation of some sequences: a few tokens of each, or a chunk. */
static void step_evaluate(fixture *f, live *l)
{
    hth_batch_row rows[N_BATCH];
    size_t n_rows = 0, first = pick(f, N_SEQUENCES);
    uint32_t share = pick(f, 4);
    hth_decode_result result = HTH_DECODE_OK;
    hearth_error err = { .message = "" };

    for (size_t k = 0; k < N_SEQUENCES; k++) {
        uint32_t sequence = (uint32_t)((first + k) % N_SEQUENCES);
        uint32_t n = share == 0 ? 1 : 1 + pick(f, share == 1 ? 3 : share == 2 ? 40 : N_BATCH);

        if (pick(f, 3) == 0)
            continue;
        if (l->end[sequence] == 0)
            l->text[sequence] = pick(f, N_TEXTS);
        for (uint32_t i = 0; i < n && n_rows < N_BATCH && l->end[sequence] + i < TEXT_TOKENS; i++)
            rows[n_rows++] = (hth_batch_row){ .token = f->texts[l->text[sequence]][l->end[sequence] + i],
                                              .position = l->end[sequence] + i,
                                              .sequence = sequence,
                                              .wants_logits = pick(f, 8) == 0 || i + 1 == n };
    }
    if (n_rows == 0)
        return;
    assert_int_equal(llama->decode(l->context, rows, n_rows, &result, &err), HEARTH_OK);
    if (result == HTH_DECODE_NO_ROOM) {
        empty(l, pick(f, N_SEQUENCES));
        return;
    }
    assert_int_equal(result, HTH_DECODE_OK);
    for (size_t i = 0; i < n_rows; i++) {
        const float *logits = llama->logits(l->context, i);
        size_t text = l->text[rows[i].sequence];

        l->end[rows[i].sequence] = rows[i].position + 1;
        assert_int_equal(logits != NULL, rows[i].wants_logits);
        if (!logits)
            continue;
        l->n_compared++;
        if (digest_of(f, logits) != f->expected[text][rows[i].position])
            fail_msg("text %zu, token %u, row %zu of %zu: other logits than alone", text, rows[i].position, i, n_rows);
    }
}

/* A sequence takes the beginning of another one. */
static void step_share(fixture *f, live *l)
{
    uint32_t from = pick(f, N_SEQUENCES), to = pick(f, N_SEQUENCES);
    hearth_error err = { .message = "" };

    if (from == to || l->end[from] == 0)
        return;
    empty(l, to);
    l->text[to] = l->text[from];
    l->end[to] = 1 + pick(f, l->end[from]);
    if (llama->seq_copy(l->context, from, to, 0, l->end[to], &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    if (l->end[to] <= N_SHARED) /* the same tokens, so any text may go on from them */
        l->text[to] = pick(f, N_TEXTS);
}

static void step_cut_back(fixture *f, live *l)
{
    uint32_t sequence = pick(f, N_SEQUENCES);
    uint32_t end = l->end[sequence] > 0 ? pick(f, l->end[sequence]) : 0;

    assert_true(llama->seq_remove(l->context, sequence, end, UINT32_MAX));
    l->end[sequence] = end;
}

/* Cut a range out of a sequence. */
static void step_save(fixture *f, live *l)
{
    uint32_t sequence = pick(f, N_SEQUENCES);
    image *to = &l->images[pick(f, IMAGES)];
    hearth_error err = { .message = "" };
    size_t capacity;

    if (l->end[sequence] < 2)
        return;
    free(to->bytes);
    to->text = l->text[sequence];
    to->begin = pick(f, 3) == 0 ? pick(f, l->end[sequence] - 1) : 0;
    to->end = to->begin + 1 + pick(f, l->end[sequence] - to->begin - 1);
    assert_int_equal(llama->seq_copy(l->context, sequence, SCRATCH, to->begin, to->end, &err), HEARTH_OK);
    capacity = llama->state_size(l->context, SCRATCH, HTH_STATE_CELLS);
    to->bytes = malloc(capacity);
    assert_non_null(to->bytes);
    assert_int_equal(llama->state_get(l->context, SCRATCH, HTH_STATE_CELLS, to->bytes, capacity, &to->n_bytes, &err),
                     HEARTH_OK);
    (void)llama->seq_remove(l->context, SCRATCH, 0, UINT32_MAX);
}

/* Restore an image behind a sequence that ends in it, or before it. */
static void step_restore(fixture *f, live *l)
{
    const image *from = &l->images[pick(f, IMAGES)];
    uint32_t to = pick(f, N_SEQUENCES), end;
    hearth_error err = { .message = "" };

    if (!from->bytes)
        return;
    if (from->begin == 0)
        empty(l, to);
    else if (l->text[to] != from->text || l->end[to] < from->begin || l->end[to] >= from->end)
        return;
    if (llama->state_set(l->context, SCRATCH, HTH_STATE_CELLS, from->bytes, from->n_bytes, from->begin, from->end,
                         &err) != HEARTH_OK) {
        empty(l, pick(f, N_SEQUENCES)); /* no room */
        return;
    }
    end = l->end[to] + 1 + pick(f, from->end - l->end[to]);
    if (end > from->end)
        end = from->end;
    if (llama->seq_copy(l->context, SCRATCH, to, l->end[to], end, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    (void)llama->seq_remove(l->context, SCRATCH, 0, UINT32_MAX);
    l->text[to] = from->text;
    l->end[to] = end;
}

static void live_through(fixture *f, size_t n_steps, uint32_t n_threads)
{
    live l = { .context = context_new(f, N_CTX, N_BATCH, n_threads) };

    for (size_t i = 0; i < n_steps; i++) {
        switch (pick(f, 12)) {
        case 0: step_share(f, &l); break;
        case 1: step_cut_back(f, &l); break;
        case 2:
        case 3: step_save(f, &l); break;
        case 4:
        case 5: step_restore(f, &l); break;
        case 6: empty(&l, pick(f, N_SEQUENCES)); break;
        default: step_evaluate(f, &l); break;
        }
    }
    assert_true(l.n_compared > n_steps / 2);
    for (size_t i = 0; i < IMAGES; i++)
        free(l.images[i].bytes);
    llama->context_free(l.context);
}

static bool can_be_exact(const char *path)
{
    hth_engine_model_params model_params = { .log = &silent };
    hth_engine_context_params params = { .n_ctx = 256, .n_batch = 8, .n_seq_max = 1, .n_threads = 1 };
    hth_engine_context_info info;
    hth_engine_model *model = NULL;
    hth_engine_context *context = NULL;
    hearth_error err = { .message = "" };

    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) != HEARTH_OK ||
        llama->model_load(path, &model_params, &model, &err) != HEARTH_OK ||
        llama->context_new(model, &params, &context, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    llama->context_info(context, &info);
    llama->context_free(context);
    llama->model_free(model);
    return strstr(info.params_text, " attn=own2 ") != NULL;
}

static void check_model(const char *path, const char *type)
{
    hth_engine_model_params model_params = { .log = &silent };
    hth_engine_model_info info;
    fixture *f = calloc(1, sizeof(*f));
    hearth_error err = { .message = "" };

    assert_non_null(f);
    f->seed = hth_test_seed();
    f->type = type;
    if (llama->model_load(path, &model_params, &f->model, &err) != HEARTH_OK)
        fail_msg("%s: %s", path, err.message);
    llama->model_info(f->model, &info);
    f->n_vocab = info.n_vocab;
    write_texts(f);
    compute_alone(f);
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads++)
        live_through(f, hth_test_number("HTH_STEPS", 150), n_threads);
    llama->model_free(f->model);
    free(f);
}

/* ---- tests ---- */

#define TINY HTH_TEST_MODELS "/hearth-tiny.gguf"

static void check_shape(const char *shape, const char *type)
{
    char path[PATH_BYTES];

    if (!can_be_exact(TINY)) {
        print_message("%s\n", attention_off);
        skip();
    }
    hth_test_model(shape, path, sizeof(path));
    check_model(path, type);
}

TEST(a_small_model_gives_the_same_logits_in_any_company)
{
    if (!can_be_exact(TINY)) {
        print_message("%s\n", attention_off);
        skip();
    }
    check_model(TINY, "f16");
}

TEST(so_it_is_with_f16_weights)
{
    check_shape("tiny-llama", "f16");
}

TEST(and_with_repacked_weights)
{
    check_shape("tiny-llama-wide", "f16");
}

TEST(and_with_quantised_cells)
{
    check_shape("tiny-llama", "q8_0");
}

/* A token's neighbours decide how many rows an expert gets. */
TEST(and_with_experts)
{
    check_shape("tiny-experts", "f16");
}

TEST(and_with_experts_of_repacked_weights)
{
    check_shape("tiny-experts-wide", "f16");
}

TEST(and_with_experts_of_i_quants_without_the_engines_panels)
{
    check_shape("tiny-experts-iq", "f16");
}

static int set_up(void **state)
{
    (void)state;
    return setenv("GGML_NO_IQ_PANEL", "1", 1); /* the engine reads it once */
}

GROUP(without_iq_panels, set_up, NULL)
