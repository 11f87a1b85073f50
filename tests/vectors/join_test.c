/*
 * join_test.c - joined rows have the very bytes that the engine writes for the whole prefix, and it takes them
 *
 * A prefix is evaluated in one sequence, in contiguous cells. Its blocks and its tail are cut out as rows are, through
 * the scratch sequence; then the whole of it through the same sequence, since an image contains its id.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "state/image_join.h"
#include "support/cmocka_all.h"
#include "support/devices.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

enum { BLOCK = 256, N_TOKENS = 2 * BLOCK + 77, N_PIECES = 3, SEQUENCE = 0, SCRATCH = 1 };

static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static const hth_backend *llama;
static hth_engine_model *model;
static hth_engine_context *context;

static int open_model(void **state)
{
    hth_engine_model_params params = { .n_gpu_layers = hth_test_gpu_layers(),
                                       .rpc_servers = hth_test_rpc_servers(),
                                       .log = &silent };
    hearth_error err = { .message = "" };

    (void)state;
    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) != HEARTH_OK ||
        llama->model_load(MODEL, &params, &model, &err) != HEARTH_OK) {
        print_error("%s\n", err.message);
        return 1;
    }
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    llama->model_free(model);
    return 0;
}

static void evaluate_prefix(void)
{
    hth_batch_row rows[BLOCK];

    for (uint32_t begin = 0; begin < N_TOKENS; begin += BLOCK) {
        uint32_t n = N_TOKENS - begin < BLOCK ? N_TOKENS - begin : BLOCK;
        hth_decode_result result = HTH_DECODE_ABORTED;
        hearth_error err;

        for (uint32_t i = 0; i < n; i++)
            rows[i] = (hth_batch_row){ .token = (hearth_token)((begin + i) % 1000 + 5),
                                       .position = begin + i,
                                       .sequence = SEQUENCE };
        assert_int_equal(llama->decode(context, rows, n, &result, &err), HEARTH_OK);
        assert_int_equal(result, HTH_DECODE_OK);
    }
}

/* The state of [begin, end) as a row of these positions has it, malloc'ed. */
static hth_image_piece cut(uint32_t begin, uint32_t end)
{
    hearth_error err;
    size_t n_bytes;
    uint8_t *bytes;

    assert_int_equal(llama->seq_copy(context, SEQUENCE, SCRATCH, begin, end, &err), HEARTH_OK);
    n_bytes = llama->state_size(context, SCRATCH, HTH_STATE_CELLS);
    bytes = malloc(n_bytes);
    assert_non_null(bytes);
    assert_int_equal(llama->state_get(context, SCRATCH, HTH_STATE_CELLS, bytes, n_bytes, &n_bytes, &err), HEARTH_OK);
    assert_true(llama->seq_remove(context, SCRATCH, 0, UINT32_MAX));
    return (hth_image_piece){ .bytes = bytes, .n_bytes = n_bytes, .begin = begin, .end = end };
}

static void piece_free(hth_image_piece *piece)
{
    free((uint8_t *)(uintptr_t)piece->bytes);
}

static hth_image_chain *chain_of(const hth_image_piece *pieces, size_t n_pieces)
{
    hth_image_chain *chain = NULL;
    hth_image_format format;
    hearth_error err = { .message = "" };

    assert_true(hth_image_plain_format(&pieces[0], &format));
    assert_ok(hth_image_chain_new(&format, pieces, n_pieces, &chain, &err), err);
    return chain;
}

static void assert_range_is(const hth_image_chain *chain, const hth_image_piece *expected)
{
    size_t n_bytes = hth_image_chain_bytes(chain, expected->begin, expected->end);
    uint8_t *bytes = malloc(n_bytes);

    assert_non_null(bytes);
    assert_int_equal(n_bytes, expected->n_bytes);
    hth_image_chain_get(chain, expected->begin, expected->end, bytes);
    assert_memory_equal(bytes, expected->bytes, n_bytes);
    free(bytes);
}

static void check_type(const char *type)
{
    hth_engine_context_params params = {
        .n_ctx = 1024, .n_batch = BLOCK, .n_seq_max = 3, .n_threads = 1, .type_k = type, .type_v = type
    };
    hth_image_piece pieces[N_PIECES], whole;
    hth_image_chain *joined, *split;
    hearth_error err = { .message = "" };
    uint8_t *bytes;
    size_t n_bytes;

    assert_ok(llama->context_new(model, &params, &context, &err), err);
    evaluate_prefix();
    for (uint32_t i = 0; i < N_PIECES; i++)
        pieces[i] = cut(i * BLOCK, (i + 1) * BLOCK < N_TOKENS ? (i + 1) * BLOCK : N_TOKENS);
    whole = cut(0, N_TOKENS);

    joined = chain_of(pieces, N_PIECES);
    assert_range_is(joined, &whole);
    split = chain_of(&whole, 1);
    for (size_t i = 0; i < N_PIECES; i++)
        assert_range_is(split, &pieces[i]);

    n_bytes = hth_image_chain_bytes(joined, 0, N_TOKENS);
    bytes = malloc(n_bytes);
    assert_non_null(bytes);
    hth_image_chain_get(joined, 0, N_TOKENS, bytes);
    assert_true(llama->seq_remove(context, SEQUENCE, 0, UINT32_MAX)); /* room for the other */
    assert_int_equal(llama->state_set(context, SCRATCH, HTH_STATE_CELLS, bytes, n_bytes, 0, N_TOKENS, &err), HEARTH_OK);
    assert_int_equal(llama->seq_end(context, SCRATCH), N_TOKENS);

    free(bytes);
    hth_image_chain_free(joined);
    hth_image_chain_free(split);
    for (size_t i = 0; i < N_PIECES; i++)
        piece_free(&pieces[i]);
    piece_free(&whole);
    llama->context_free(context);
    context = NULL;
}

TEST(rows_of_a_real_model_join_to_the_engines_own_image_and_split_again)
{
    check_type("f16");
    check_type("q8_0");
}

GROUP(with_a_model, open_model, close_model)
