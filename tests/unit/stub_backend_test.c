/*
 * stub_backend_test.c - the stub engine behaves like an engine, and tells right from wrong state
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/backend.h"
#include "stub/backend.h"
#include "support/cmocka_all.h"

#define N_CTX 512

static const hth_backend *stub;
static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static const char *const kinds[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid",
                                     "stub:kind=hybrid,window=64" };

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* A model and a context on it. */
typedef struct engine {
    hth_engine_model *model;
    hth_engine_context *context;
    hth_engine_model_info info;
} engine;

static engine open_engine(const char *path)
{
    hth_engine_model_params model_params = { .log = &silent };
    hth_engine_context_params params = { .n_ctx = N_CTX, .n_batch = 256, .n_seq_max = 4 };
    engine e = { .model = NULL };
    hearth_error err;

    if (stub->model_load(path, &model_params, &e.model, &err) != HEARTH_OK ||
        stub->context_new(e.model, &params, &e.context, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    stub->model_info(e.model, &e.info);
    return e;
}

static void close_engine(engine e)
{
    stub->context_free(e.context);
    stub->model_free(e.model);
}

static int open_stub(void **state)
{
    (void)state;
    stub = hth_backend_stub();
    return stub->abi == HTH_BACKEND_ABI ? 0 : 1;
}

/* Evaluate text at positions from begin on; give the logits of the last row, valid until the next. */
static const float *evaluate(engine e, uint32_t sequence, uint32_t begin, const char *text)
{
    hth_batch_row rows[256];
    size_t n = strlen(text);
    hth_decode_result result = HTH_DECODE_ABORTED;
    hearth_error err;

    assert_true(n <= 256);
    for (size_t i = 0; i < n; i++)
        rows[i] = (hth_batch_row){ .token = (unsigned char)text[i],
                                   .position = begin + (uint32_t)i,
                                   .sequence = sequence,
                                   .wants_logits = i + 1 == n };
    assert_ok(stub->decode(e.context, rows, n, &result, &err), err);
    assert_int_equal(result, HTH_DECODE_OK);
    return stub->logits(e.context, n - 1);
}

static float *keep(engine e, const float *logits)
{
    float *copy = malloc(e.info.n_vocab * sizeof(float));

    assert_non_null(copy);
    assert_non_null(logits);
    memcpy(copy, logits, e.info.n_vocab * sizeof(float));
    return copy;
}

static bool equal(engine e, const float *a, const float *b)
{
    return memcmp(a, b, e.info.n_vocab * sizeof(float)) == 0;
}

static uint8_t *cut_part(engine e, uint32_t sequence, hth_state_part part, size_t *n_bytes)
{
    hearth_error err;
    uint8_t *bytes;

    *n_bytes = stub->state_size(e.context, sequence, part);
    bytes = malloc(*n_bytes);
    assert_non_null(bytes);
    assert_int_equal(stub->state_get(e.context, sequence, part, bytes, *n_bytes, n_bytes, &err), HEARTH_OK);
    return bytes;
}

static uint8_t *cut(engine e, uint32_t sequence, size_t *n_bytes)
{
    return cut_part(e, sequence, HTH_STATE_CELLS, n_bytes);
}

/* The whole state of a sequence, in the one or two parts that its kind has. */
typedef struct parts {
    uint8_t *cells;
    size_t cells_bytes;
    uint8_t *rest;
    size_t rest_bytes;
} parts;

static bool has_cells(engine e)
{
    return e.info.kind != HTH_MODEL_RECURRENT;
}

static bool has_rest(engine e)
{
    return e.info.kind == HTH_MODEL_RECURRENT || e.info.kind == HTH_MODEL_HYBRID;
}

static parts cut_all(engine e, uint32_t sequence)
{
    parts p = { .cells = NULL };

    if (has_cells(e))
        p.cells = cut_part(e, sequence, HTH_STATE_CELLS, &p.cells_bytes);
    if (has_rest(e))
        p.rest = cut_part(e, sequence, HTH_STATE_REST, &p.rest_bytes);
    return p;
}

static hearth_status put_all(engine e, uint32_t sequence, const parts *p, uint32_t end)
{
    hearth_status status = HEARTH_OK;
    hearth_error err;

    if (p->cells)
        status = stub->state_set(e.context, sequence, HTH_STATE_CELLS, p->cells, p->cells_bytes, 0, end, &err);
    if (p->rest && status == HEARTH_OK)
        status = stub->state_set(e.context, sequence, HTH_STATE_REST, p->rest, p->rest_bytes, 0, end, &err);
    return status;
}

static void free_parts(parts *p)
{
    free(p->cells);
    free(p->rest);
}

TEST(logits_depend_on_every_token_and_its_place)
{
    static const char *const texts[] = { "abcd", "abdc", "xbcd", "bcd", "aabcd" };

    for (size_t k = 0; k < N_KINDS; k++) {
        engine e = open_engine(kinds[k]);
        float *first = keep(e, evaluate(e, 0, 0, texts[0]));

        for (uint32_t i = 1; i < sizeof(texts) / sizeof(texts[0]); i++) {
            assert_true(stub->seq_remove(e.context, 1, 0, UINT32_MAX));
            assert_false(equal(e, first, evaluate(e, 1, 0, texts[i])));
        }
        assert_true(equal(e, first, evaluate(e, 2, 0, texts[0])));
        free(first);
        close_engine(e);
    }
}

TEST(chunks_and_other_sequences_do_not_change_logits)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        engine e = open_engine(kinds[k]);
        float *first = keep(e, evaluate(e, 0, 0, "one two three"));

        (void)evaluate(e, 1, 0, "one ");
        (void)evaluate(e, 2, 0, "else");
        (void)evaluate(e, 1, 4, "two");
        assert_true(equal(e, first, evaluate(e, 1, 7, " three")));
        free(first);
        close_engine(e);
    }
}

TEST(a_restored_state_goes_on_as_if_nothing_had_happened)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        engine e = open_engine(kinds[k]);
        char long_text[201];
        parts p;
        float *then;

        memset(long_text, 'x', 200); /* longer than the window */
        long_text[200] = '\0';
        (void)evaluate(e, 0, 0, long_text);
        p = cut_all(e, 0);
        then = keep(e, evaluate(e, 0, 200, "and on"));
        assert_true(stub->seq_remove(e.context, 0, 0, UINT32_MAX));
        (void)evaluate(e, 1, 0, "in the way");
        assert_int_equal(put_all(e, 2, &p, 200), HEARTH_OK);
        assert_int_equal(stub->seq_end(e.context, 2), 200);
        assert_true(equal(e, then, evaluate(e, 2, 200, "and on")));
        assert_true(stub->seq_remove(e.context, 2, 0, UINT32_MAX));

        if (p.cells)
            p.cells[p.cells_bytes - (has_rest(e) ? 64 : 1)] ^= 1; /* the last cell, before the names of the rest */
        else
            p.rest[p.rest_bytes - 1] ^= 1;
        assert_int_equal(put_all(e, 3, &p, 200), HEARTH_OK);
        assert_false(equal(e, then, evaluate(e, 3, 200, "and on")));
        free(then);
        free_parts(&p);
        close_engine(e);
    }
}

/* What the real engine would not notice: the sequence says that it is not whole, and its logits are wrong. */
TEST(a_state_that_lacks_a_part_is_not_whole_and_gives_other_logits)
{
    for (size_t k = 1; k < N_KINDS; k++) {
        engine e = open_engine(kinds[k]);
        char long_text[201];
        hearth_error err;
        float *then;
        parts p;

        memset(long_text, 'x', 200);
        long_text[200] = '\0';
        (void)evaluate(e, 0, 0, long_text);
        p = cut_all(e, 0);
        then = keep(e, evaluate(e, 0, 200, "and on"));
        if (p.cells) {
            hth_state_part part = has_rest(e) ? HTH_STATE_CELLS : HTH_STATE_CELLS_BARE;

            assert_int_equal(stub->state_set(e.context, 1, part, p.cells, p.cells_bytes, 0, 200, &err), HEARTH_OK);
            assert_int_equal(stub->seq_end(e.context, 1), 0);
            assert_false(equal(e, then, evaluate(e, 1, 200, "and on")));
        }
        if (p.cells && p.rest) { /* the rest of another length, or on nothing */
            assert_int_equal(stub->state_set(e.context, 2, HTH_STATE_REST, p.rest, p.rest_bytes, 0, 200, &err),
                             HEARTH_MISUSE);
            assert_int_equal(stub->state_set(e.context, 1, HTH_STATE_REST, p.rest, p.rest_bytes, 0, 200, &err),
                             HEARTH_MISUSE);
            assert_int_equal(stub->seq_end(e.context, 1), 0);
        }
        free(then);
        free_parts(&p);
        close_engine(e);
    }
}

TEST(rows_of_a_window_are_cut_at_once_and_only_the_last_ones_bring_it_back)
{
    engine e = open_engine("stub:kind=window,window=20");
    static const char *const texts[] = { "first block.", "second block", "third block " };
    uint8_t *bytes[3];
    size_t n_bytes[3];
    hearth_error err;
    float *then;

    for (uint32_t i = 0; i < 3; i++) {
        (void)evaluate(e, 0, 12 * i, texts[i]);
        assert_int_equal(stub->seq_copy(e.context, 0, 3, 12 * i, 12 * i + 12, &err), HEARTH_OK);
        bytes[i] = cut(e, 3, &n_bytes[i]);
        assert_true(stub->seq_remove(e.context, 3, 0, UINT32_MAX));
    }
    then = keep(e, evaluate(e, 0, 36, "!"));
    for (uint32_t n_bare = 0; n_bare < 3; n_bare++) {
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(stub->state_set(e.context, 3, i < n_bare ? HTH_STATE_CELLS_BARE : HTH_STATE_CELLS,
                                             bytes[i], n_bytes[i], 12 * i, 12 * i + 12, &err),
                             HEARTH_OK);
            assert_int_equal(stub->seq_copy(e.context, 3, 1, 12 * i, 12 * i + 12, &err), HEARTH_OK);
            assert_true(stub->seq_remove(e.context, 3, 0, UINT32_MAX));
        }
        /* The window of 20 needs the last two rows. */
        assert_int_equal(stub->seq_end(e.context, 1), n_bare < 2 ? 36 : 0);
        assert_int_equal(equal(e, then, evaluate(e, 1, 36, "!")), n_bare < 2);
        assert_true(stub->seq_remove(e.context, 1, 0, UINT32_MAX));
    }
    /* Cut late, the first one has lost its window: the image is not what it must be. */
    free(bytes[0]);
    assert_int_equal(stub->seq_copy(e.context, 0, 3, 0, 12, &err), HEARTH_OK);
    bytes[0] = cut(e, 3, &n_bytes[0]);
    assert_int_equal(stub->state_set(e.context, 3, HTH_STATE_CELLS, bytes[0], n_bytes[0], 0, 12, &err), HEARTH_CORRUPT);
    for (size_t i = 0; i < 3; i++)
        free(bytes[i]);
    free(then);
    close_engine(e);
}

TEST(a_hybrid_s_block_has_no_state_and_needs_one_at_the_end)
{
    static const char *const paths[] = { "stub:kind=hybrid", "stub:kind=hybrid,window=10" };

    for (size_t k = 0; k < 2; k++) {
        engine e = open_engine(paths[k]);
        uint8_t *bytes[2], *rest;
        size_t n_bytes[2], n_rest;
        hearth_error err;
        float *then;

        for (uint32_t i = 0; i < 2; i++) {
            (void)evaluate(e, 0, 12 * i, i == 0 ? "first block." : "second block");
            assert_int_equal(stub->seq_copy(e.context, 0, 3, 12 * i, 12 * i + 12, &err), HEARTH_OK);
            bytes[i] = cut(e, 3, &n_bytes[i]);
            assert_true(stub->seq_remove(e.context, 3, 0, UINT32_MAX));
        }
        rest = cut_part(e, 0, HTH_STATE_REST, &n_rest);
        then = keep(e, evaluate(e, 0, 24, "!"));
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(
                stub->state_set(e.context, 3, HTH_STATE_CELLS, bytes[i], n_bytes[i], 12 * i, 12 * i + 12, &err),
                HEARTH_OK);
            assert_int_equal(stub->seq_copy(e.context, 3, 1, 12 * i, 12 * i + 12, &err), HEARTH_OK);
            assert_true(stub->seq_remove(e.context, 3, 0, UINT32_MAX));
        }
        assert_int_equal(stub->seq_end(e.context, 1), 0);
        assert_int_equal(stub->state_set(e.context, 1, HTH_STATE_REST, rest, n_rest, 0, 24, &err), HEARTH_OK);
        assert_int_equal(stub->seq_end(e.context, 1), 24);
        assert_true(equal(e, then, evaluate(e, 1, 24, "!")));
        free(bytes[0]);
        free(bytes[1]);
        free(rest);
        free(then);
        close_engine(e);
    }
}

TEST(blocks_are_cut_and_put_back_through_a_scratch_sequence)
{
    engine e = open_engine("stub:");
    size_t n_bytes[2];
    uint8_t *bytes[2];
    float *then;
    hearth_error err;

    (void)evaluate(e, 0, 0, "first block.second block");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(stub->seq_copy(e.context, 0, 3, 12 * i, 12 * i + 12, &err), HEARTH_OK);
        bytes[i] = cut(e, 3, &n_bytes[i]);
        assert_true(stub->seq_remove(e.context, 3, 0, UINT32_MAX));
    }
    then = keep(e, evaluate(e, 0, 24, "!"));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(
            stub->state_set(e.context, 3, HTH_STATE_CELLS, bytes[i], n_bytes[i], 12 * i, 12 * i + 12, &err), HEARTH_OK);
        assert_int_equal(stub->seq_copy(e.context, 3, 1, 12 * i, 12 * i + 12, &err), HEARTH_OK);
        assert_true(stub->seq_remove(e.context, 3, 0, UINT32_MAX));
    }
    assert_true(equal(e, then, evaluate(e, 1, 24, "!")));

    /* The second block behind another first one, and a block at a place that is not its own. */
    (void)evaluate(e, 2, 0, "First block.");
    assert_int_equal(stub->state_set(e.context, 3, HTH_STATE_CELLS, bytes[1], n_bytes[1], 12, 24, &err), HEARTH_OK);
    assert_int_equal(stub->seq_copy(e.context, 3, 2, 12, 24, &err), HEARTH_OK);
    assert_false(equal(e, then, evaluate(e, 2, 24, "!")));
    assert_int_equal(stub->state_set(e.context, 3, HTH_STATE_CELLS, bytes[1], n_bytes[1], 0, 12, &err), HEARTH_CORRUPT);
    assert_int_equal(stub->seq_end(e.context, 3), 0);
    for (uint32_t i = 0; i < 12; i++)
        hth_put_u32(bytes[1] + 16 + 12 * i, i);
    assert_int_equal(stub->state_set(e.context, 3, HTH_STATE_CELLS, bytes[1], n_bytes[1], 0, 12, &err), HEARTH_OK);
    assert_true(stub->seq_remove(e.context, 2, 0, UINT32_MAX));
    (void)evaluate(e, 2, 0, "second block");
    free(then);
    then = keep(e, evaluate(e, 2, 12, "!"));
    assert_false(equal(e, then, evaluate(e, 3, 12, "!")));
    free(then);
    free(bytes[0]);
    free(bytes[1]);
    close_engine(e);
}

TEST(only_plain_sequences_are_rewound_and_recurrent_ones_have_nothing_to_share)
{
    hearth_error err;

    for (size_t k = 0; k < N_KINDS; k++) {
        engine e = open_engine(kinds[k]);
        bool is_plain = e.info.kind == HTH_MODEL_PLAIN;

        (void)evaluate(e, 0, 0, "0123456789");
        assert_int_equal(stub->seq_remove(e.context, 0, 5, UINT32_MAX), is_plain);
        assert_int_equal(stub->seq_end(e.context, 0), is_plain ? 5 : 10);
        assert_int_equal(stub->seq_copy(e.context, 0, 1, 0, 5, &err), has_cells(e) ? HEARTH_OK : HEARTH_MISUSE);
        assert_true(stub->seq_remove(e.context, 0, 0, UINT32_MAX));
        assert_int_equal(stub->seq_end(e.context, 0), 0);
        (void)evaluate(e, 0, 0, "again");
        close_engine(e);
    }
}

TEST(a_rewound_sequence_continues_like_one_never_longer)
{
    engine e = open_engine("stub:");
    float *then = keep(e, evaluate(e, 0, 0, "abcdef"));

    (void)evaluate(e, 1, 0, "abcXYZ");
    assert_true(stub->seq_remove(e.context, 1, 3, UINT32_MAX));
    assert_true(equal(e, then, evaluate(e, 1, 3, "def")));
    free(then);
    close_engine(e);
}

TEST(shared_cells_count_once_and_a_full_buffer_has_no_room)
{
    engine e = open_engine("stub:");
    hth_batch_row row = { .token = 'x', .sequence = 1 };
    hth_decode_result result = HTH_DECODE_OK;
    char text[257];
    hearth_error err;

    memset(text, 'y', 256);
    text[256] = '\0';
    (void)evaluate(e, 0, 0, text);
    (void)evaluate(e, 0, 256, text);
    assert_int_equal(stub->decode(e.context, &row, 1, &result, &err), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_NO_ROOM);
    assert_int_equal(stub->seq_end(e.context, 1), 0);
    assert_int_equal(stub->seq_copy(e.context, 0, 2, 0, 512, &err), HEARTH_OK);
    assert_true(stub->seq_remove(e.context, 0, 0, UINT32_MAX));
    assert_int_equal(stub->decode(e.context, &row, 1, &result, &err), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_NO_ROOM);
    assert_true(stub->seq_remove(e.context, 2, 0, UINT32_MAX));
    assert_int_equal(stub->decode(e.context, &row, 1, &result, &err), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_OK);
    close_engine(e);
}

static bool abort_at_third(void *user_data)
{
    return ++*(int *)user_data >= 3;
}

TEST(the_abort_callback_ends_a_decode)
{
    int n_asked = 0;
    engine e = open_engine("stub:");
    hth_engine_context_params params = {
        .n_ctx = 64, .n_batch = 8, .n_seq_max = 1, .abort = abort_at_third, .abort_user_data = &n_asked
    };
    hth_batch_row rows[8];
    hth_engine_context *context = NULL;
    hth_decode_result result = HTH_DECODE_OK;
    hearth_error err;

    for (uint32_t i = 0; i < 8; i++)
        rows[i] = (hth_batch_row){ .token = 'a', .position = i };
    assert_int_equal(stub->context_new(e.model, &params, &context, &err), HEARTH_OK);
    assert_int_equal(stub->decode(context, rows, 8, &result, &err), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_ABORTED);
    assert_int_equal(stub->seq_end(context, 0), 2);
    stub->context_free(context);
    close_engine(e);
}

TEST(a_broken_rule_is_misuse)
{
    static const hth_batch_row cases[] = {
        { .token = -1 },
        { .token = 260 },
        { .token = 'a', .sequence = 4 },
        { .token = 'a', .position = 1 },
        { .token = 'a', .position = UINT32_MAX },
    };
    engine e = open_engine("stub:");
    hth_decode_result result;
    hearth_error err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(stub->decode(e.context, &cases[i], 1, &result, &err), HEARTH_MISUSE);
    assert_int_equal(stub->decode(e.context, cases, 0, &result, &err), HEARTH_MISUSE);
    assert_int_equal(stub->decode(e.context, cases, 257, &result, &err), HEARTH_MISUSE);
    assert_int_equal(stub->state_size(e.context, 0, HTH_STATE_CELLS), 0);
    assert_int_equal(stub->state_size(e.context, 99, HTH_STATE_CELLS), 0);
    assert_false(stub->seq_remove(e.context, 99, 0, 1));
    close_engine(e);
}

TEST(parameters_in_the_path_are_read_and_checked)
{
    static const char *const bad[] = { "stub",       "stub:kind=square", "stub:vocab=10",      "stub:vocab=x",
                                       "stub:vocab", "stub:delay_us=-1", "stub:n_ctx_train=0", "stub:colour=red" };
    hth_engine_model_params params = { .log = &silent };
    hth_engine_model *model = NULL;
    engine e = open_engine("stub:n_ctx_train=1000,vocab=300,kind=hybrid");
    hearth_error err;

    assert_int_equal(e.info.n_ctx_train, 1000);
    assert_int_equal(e.info.n_vocab, 300);
    assert_int_equal(e.info.kind, HTH_MODEL_HYBRID);
    close_engine(e);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(stub->model_load(bad[i], &params, &model, &err), HEARTH_MISUSE);
    assert_null(model);
}

TEST(text_comes_back_from_its_tokens)
{
    static const char text[] = "plain <|im_end|> and \xe6\x9d\xb1";
    engine e = open_engine("stub:");
    hearth_token tokens[64];
    hth_tokenize_result result;
    char back[64];
    size_t n_tokens, n_special, n_bytes = 0, n;
    hearth_error err;

    assert_int_equal(stub->tokenize(e.model, text, strlen(text), 0, tokens, 64, &n_tokens, &result, NULL, &err),
                     HEARTH_OK);
    assert_int_equal(n_tokens, strlen(text));
    for (size_t i = 0; i < n_tokens; i++) {
        assert_int_equal(stub->piece(e.model, tokens[i], false, back + n_bytes, 64 - n_bytes, &n, &err), HEARTH_OK);
        n_bytes += n;
    }
    assert_memory_equal(back, text, strlen(text));
    assert_int_equal(stub->tokenize(e.model, text, strlen(text), HEARTH_TOKENIZE_SPECIAL | HEARTH_TOKENIZE_BOS, tokens,
                                    2, &n_special, &result, NULL, &err),
                     HEARTH_OK);
    assert_int_equal(result, HTH_TOKENIZE_MORE_ROOM);
    assert_int_equal(n_special, n_tokens - 10 + 1 + 1);
    close_engine(e);
}

TEST(a_reply_is_mostly_readable_and_ends)
{
    hearth_sampling sampling = { .temperature = 0, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 };
    hth_engine_sampler *sampler = NULL;
    size_t n_replies_ended = 0, n_bytes = 0, n_readable = 0;
    hearth_error err;

    for (uint32_t reply = 0; reply < 20; reply++) {
        engine e = open_engine("stub:");
        char prompt[16];
        const float *logits;

        (void)snprintf(prompt, sizeof(prompt), "prompt %u", reply);
        logits = evaluate(e, 0, 0, prompt);
        assert_int_equal(stub->sampler_new(e.model, &sampling, &sampler, &err), HEARTH_OK);
        for (uint32_t i = 0; i < 400; i++) {
            const hth_candidate *candidates;
            char text[2] = { 0 };
            size_t n;

            assert_int_equal(
                stub->sampler_apply(sampler, logits, &(hth_sample_at){ .position = 0 }, &candidates, &n, &err),
                HEARTH_OK);
            assert_int_equal(n, 1);
            if (stub->is_end(e.model, candidates[0].token)) {
                n_replies_ended++;
                break;
            }
            assert_int_equal(stub->piece(e.model, candidates[0].token, false, text, 1, &n, &err), HEARTH_OK);
            n_bytes += n;
            n_readable += text[0] >= ' ' && text[0] <= '~';
            logits = evaluate(e, 0, (uint32_t)strlen(prompt) + i, text);
        }
        stub->sampler_free(sampler);
        close_engine(e);
    }
    assert_true(n_replies_ended >= 15);
    assert_true(n_readable * 10 >= n_bytes * 9);
}

TEST(chat_is_rendered_as_chatml)
{
    const hearth_chat_turn turns[] = { { .role = "system", .content = "Be brief." },
                                       { .role = "user", .content = "Hello" } };
    const hearth_conversation conversation = { .turns = turns, .n_turns = 2 };
    engine e = open_engine("stub:");
    hearth_chat_prompt prompt = { 0 };
    hearth_error err;

    assert_int_equal(stub->chat_prompt(e.model, &conversation, &prompt, &err), HEARTH_OK);
    assert_string_equal(prompt.text, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
                                     "<|im_start|>assistant\n");
    hth_chat_prompt_clear(&prompt);
    assert_null(prompt.text);
    close_engine(e);
}

TEST(sampling_filters_as_it_is_told)
{
    hearth_sampling sampling = {
        .temperature = 1, .top_k = 3, .top_p = 1, .repeat_penalty = 2, .typical_p = 1, .repeat_last_n = 4
    };
    engine e = open_engine("stub:");
    hth_engine_sampler *sampler = NULL;
    const hth_candidate *candidates;
    float logits[260] = { 0 };
    size_t n;
    hearth_error err;

    logits[7] = 6;
    logits[9] = 5;
    logits[8] = 5;
    assert_int_equal(stub->sampler_new(e.model, &sampling, &sampler, &err), HEARTH_OK);
    assert_int_equal(stub->sampler_apply(sampler, logits, &(hth_sample_at){ .position = 0 }, &candidates, &n, &err),
                     HEARTH_OK);
    assert_int_equal(n, 3);
    assert_int_equal(candidates[0].token, 7);
    assert_int_equal(candidates[1].token, 8);
    assert_int_equal(candidates[2].token, 9);
    assert_int_equal(stub->sampler_accept(sampler, 7, true, &err), HEARTH_OK);
    assert_int_equal(stub->sampler_apply(sampler, logits, &(hth_sample_at){ .position = 0 }, &candidates, &n, &err),
                     HEARTH_OK);
    assert_int_equal(candidates[0].token, 8);
    for (hearth_token i = 100; i < 104; i++)
        assert_int_equal(stub->sampler_accept(sampler, i, true, &err), HEARTH_OK);
    assert_int_equal(stub->sampler_apply(sampler, logits, &(hth_sample_at){ .position = 0 }, &candidates, &n, &err),
                     HEARTH_OK);
    assert_int_equal(candidates[0].token, 7);
    stub->sampler_free(sampler);

    sampling = (hearth_sampling){ .temperature = 1, .top_p = 0.5f, .repeat_penalty = 1, .typical_p = 1 };
    assert_int_equal(stub->sampler_new(e.model, &sampling, &sampler, &err), HEARTH_OK);
    assert_int_equal(stub->sampler_apply(sampler, logits, &(hth_sample_at){ .position = 0 }, &candidates, &n, &err),
                     HEARTH_OK);
    assert_true(n < 260);
    stub->sampler_free(sampler);
    sampling.temperature = -1;
    assert_int_equal(stub->sampler_new(e.model, &sampling, &sampler, &err), HEARTH_MISUSE);
    close_engine(e);
}

GROUP(with_the_stub, open_stub, NULL)
