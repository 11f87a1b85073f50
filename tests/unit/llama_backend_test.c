/*
 * llama_backend_test.c - whatever it is asked, the llama.cpp backend answers with a status and never ends the process
 *
 * Each wrong call here was measured to abort, throw, lie or corrupt when made on llama.cpp v0.5.0 itself.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"
#define N_CTX 512
#define N_BATCH 64
#define N_SEQ_MAX 4

static const hth_backend *llama;
static hth_engine_model *model;
static hth_engine_context *context;
static hth_engine_model_info info;

/* Log lines of the engine, counted; the last one is kept. */
static struct {
    size_t n_lines;
    bool has_newline;
    char source[32];
    char line[1024];
} logged;

static void count_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)level;
    (void)user_data;
    logged.n_lines++;
    logged.has_newline |= strchr(message, '\n') != NULL;
    (void)snprintf(logged.source, sizeof(logged.source), "%s", source);
    (void)snprintf(logged.line, sizeof(logged.line), "%s", message);
}

static const hth_log counting = { .level = HEARTH_LOG_DEBUG, .write = count_line };

static hearth_status load(const char *path, hth_engine_model **out, hearth_error *err)
{
    hth_engine_model_params params = { .log = &counting };

    return llama->model_load(path, &params, out, err);
}

static hth_engine_context_params context_params(void)
{
    return (hth_engine_context_params){ .n_ctx = N_CTX, .n_batch = N_BATCH, .n_seq_max = N_SEQ_MAX, .n_threads = 1 };
}

static int open_engine(void **state)
{
    hth_engine_context_params params = context_params();
    hearth_error err = { .message = "" };

    (void)state;
    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) != HEARTH_OK || load(MODEL, &model, &err) != HEARTH_OK ||
        llama->context_new(model, &params, &context, &err) != HEARTH_OK) {
        print_error("%s\n", err.message);
        return 1;
    }
    llama->model_info(model, &info);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    llama->context_free(context);
    llama->model_free(model);
    llama->context_free(NULL);
    llama->model_free(NULL);
    return 0;
}

static int empty_sequences(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_SEQ_MAX; i++)
        if (!llama->seq_remove(context, i, 0, UINT32_MAX))
            return 1;
    return 0;
}

static hearth_status evaluate(uint32_t sequence, uint32_t begin, uint32_t end, hth_decode_result *result)
{
    hth_batch_row rows[2 * N_BATCH];
    hearth_error err;

    for (uint32_t i = begin; i < end; i++)
        rows[i - begin] = (hth_batch_row){
            .token = (hearth_token)(i % 1000 + 5), .position = i, .sequence = sequence, .wants_logits = i + 1 == end
        };
    return llama->decode(context, rows, end - begin, result, &err);
}

static void fill(uint32_t sequence, uint32_t end)
{
    hth_decode_result result = HTH_DECODE_ABORTED;

    for (uint32_t begin = 0; begin < end; begin += N_BATCH) {
        uint32_t next = end - begin < N_BATCH ? end : begin + N_BATCH;

        assert_int_equal(evaluate(sequence, begin, next, &result), HEARTH_OK);
        assert_int_equal(result, HTH_DECODE_OK);
    }
}

/* The state of a sequence, malloc'ed. */
static uint8_t *cut(uint32_t sequence, size_t *n_bytes)
{
    hearth_error err;
    uint8_t *bytes;

    *n_bytes = llama->state_size(context, sequence, HTH_STATE_CELLS);
    assert_true(*n_bytes > 0);
    bytes = malloc(*n_bytes);
    assert_non_null(bytes);
    assert_int_equal(llama->state_get(context, sequence, HTH_STATE_CELLS, bytes, *n_bytes, n_bytes, &err), HEARTH_OK);
    return bytes;
}

/* ---- batches ---- */

static void a_batch_that_breaks_a_rule_is_misuse_and_changes_nothing(void **state)
{
    static const struct {
        const char *what;
        hth_batch_row rows[3];
        size_t n_rows;
    } cases[] = {
        { "token -1", { { -1, 8, 0, true } }, 1 },
        { "token beyond the vocabulary", { { 1 << 20, 8, 0, true } }, 1 },
        { "highest token", { { INT32_MAX, 8, 0, true } }, 1 },
        { "sequence of another context", { { 5, 0, N_SEQ_MAX, true } }, 1 },
        { "sequence 256", { { 5, 0, 256, true } }, 1 },
        { "sequence -1", { { 5, 0, UINT32_MAX, true } }, 1 },
        { "gap", { { 5, 9, 0, true } }, 1 },
        { "decrease", { { 5, 7, 0, true } }, 1 },
        { "position 7 first", { { 5, 7, 1, true } }, 1 },
        { "position -1", { { 5, UINT32_MAX, 1, true } }, 1 },
        { "position repeated in a batch", { { 5, 8, 0, false }, { 5, 8, 0, true } }, 2 },
        { "gap inside a batch", { { 5, 8, 0, false }, { 5, 10, 0, true } }, 2 },
        { "bad row after good ones", { { 5, 8, 0, false }, { 5, 9, 0, false }, { -5, 10, 0, true } }, 3 },
    };
    hth_decode_result result = HTH_DECODE_OK;
    hearth_error err;

    (void)state;
    fill(0, 8);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (llama->decode(context, cases[i].rows, cases[i].n_rows, &result, &err) != HEARTH_MISUSE)
            fail_msg("%s was accepted", cases[i].what);
        assert_int_equal(llama->seq_end(context, 0), 8);
        assert_int_equal(llama->seq_end(context, 1), 0);
        assert_null(llama->logits(context, 0));
    }
    assert_int_equal(evaluate(0, 8, 9, &result), HEARTH_OK);
}

static void a_batch_of_no_or_too_many_rows_is_misuse(void **state)
{
    hth_decode_result result;

    (void)state;
    assert_int_equal(evaluate(0, 0, 0, &result), HEARTH_MISUSE);
    assert_int_equal(evaluate(0, 0, N_BATCH + 1, &result), HEARTH_MISUSE);
    assert_int_equal(evaluate(0, 0, N_BATCH, &result), HEARTH_OK);
}

static void a_full_context_has_no_room_and_is_unchanged(void **state)
{
    hth_decode_result result = HTH_DECODE_OK;

    (void)state;
    fill(0, N_CTX - 8);
    assert_int_equal(evaluate(1, 0, 9, &result), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_NO_ROOM);
    assert_int_equal(llama->seq_end(context, 0), N_CTX - 8);
    assert_int_equal(llama->seq_end(context, 1), 0);
    assert_int_equal(evaluate(1, 0, 8, &result), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_OK);
}

static void rows_without_logits_have_none(void **state)
{
    (void)state;
    fill(0, 10);
    assert_null(llama->logits(context, 0));
    assert_null(llama->logits(context, 8));
    assert_non_null(llama->logits(context, 9));
    assert_null(llama->logits(context, 10));
    assert_null(llama->logits(context, SIZE_MAX));
}

static bool abort_at_once(void *user_data)
{
    (*(int *)user_data)++;
    return true;
}

static void the_abort_callback_ends_a_decode(void **state)
{
    int n_asked = 0;
    hth_engine_context_params params = context_params();
    hth_engine_context *own = NULL;
    hth_batch_row row = { .token = 5, .wants_logits = true };
    hth_decode_result result = HTH_DECODE_OK;
    hearth_error err;

    (void)state;
    params.abort = abort_at_once;
    params.abort_user_data = &n_asked;
    assert_int_equal(llama->context_new(model, &params, &own, &err), HEARTH_OK);
    assert_int_equal(llama->decode(own, &row, 1, &result, &err), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_ABORTED);
    assert_true(n_asked > 0);
    assert_true(llama->seq_remove(own, 0, 0, UINT32_MAX));
    assert_int_equal(llama->seq_end(own, 0), 0);
    llama->context_free(own);
}

/* ---- sequences ---- */

static void a_copy_that_breaks_a_rule_is_misuse(void **state)
{
    static const struct {
        const char *what;
        uint32_t from, to, begin, end;
    } cases[] = {
        { "to itself", 0, 0, 0, 8 },
        { "from no sequence", 256, 1, 0, 8 },
        { "to no sequence", 0, N_SEQ_MAX, 0, 8 },
        { "from sequence -1", UINT32_MAX, 1, 0, 8 },
        { "nothing", 0, 1, 4, 4 },
        { "backwards", 0, 1, 8, 4 },
        { "more than there is", 0, 1, 0, 65 },
        { "of an empty sequence", 1, 2, 0, 1 },
        { "to the open end", 0, 1, 0, UINT32_MAX },
        { "over positions held", 0, 3, 2, 6 },
    };
    hearth_error err;

    (void)state;
    fill(0, 64);
    fill(3, 4);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (llama->seq_copy(context, cases[i].from, cases[i].to, cases[i].begin, cases[i].end, &err) != HEARTH_MISUSE)
            fail_msg("a copy %s was accepted", cases[i].what);
    assert_int_equal(llama->seq_end(context, 1), 0);
    assert_int_equal(llama->seq_copy(context, 0, 3, 4, 64, &err), HEARTH_OK);
    assert_int_equal(llama->seq_end(context, 3), 64);
}

static void shared_cells_cost_no_room(void **state)
{
    hearth_error err;

    (void)state;
    fill(0, N_CTX - 64);
    for (uint32_t i = 1; i < N_SEQ_MAX; i++)
        assert_int_equal(llama->seq_copy(context, 0, i, 0, N_CTX - 64, &err), HEARTH_OK);
    assert_true(llama->seq_remove(context, 0, 0, UINT32_MAX));
    fill(0, 64);
}

static void a_tail_can_be_removed_and_computed_again(void **state)
{
    hth_decode_result result;
    float *before = malloc(info.n_vocab * sizeof(float));

    (void)state;
    assert_non_null(before);
    fill(0, 64);
    assert_int_equal(evaluate(0, 64, 80, &result), HEARTH_OK);
    memcpy(before, llama->logits(context, 15), info.n_vocab * sizeof(float));
    assert_true(llama->seq_remove(context, 0, 64, UINT32_MAX));
    assert_int_equal(llama->seq_end(context, 0), 64);
    assert_int_equal(evaluate(0, 64, 80, &result), HEARTH_OK);
    assert_memory_equal(before, llama->logits(context, 15), info.n_vocab * sizeof(float));
    free(before);
}

static void removing_from_sequences_that_are_not_there_is_refused(void **state)
{
    (void)state;
    assert_false(llama->seq_remove(context, N_SEQ_MAX, 0, UINT32_MAX));
    assert_false(llama->seq_remove(context, 256, 0, UINT32_MAX));
    assert_false(llama->seq_remove(context, UINT32_MAX, 0, UINT32_MAX));
    assert_true(llama->seq_remove(context, 1, 0, UINT32_MAX));
    assert_true(llama->seq_remove(context, 1, 5, 3));
    assert_int_equal(llama->seq_end(context, 256), 0);
}

/* ---- state ---- */

static void an_empty_or_missing_sequence_has_no_state(void **state)
{
    uint8_t bytes[64];
    size_t n;
    hearth_error err;

    (void)state;
    assert_int_equal(llama->state_size(context, 0, HTH_STATE_CELLS), 0);
    assert_int_equal(llama->state_size(context, 256, HTH_STATE_CELLS), 0);
    assert_int_equal(llama->state_size(context, UINT32_MAX, HTH_STATE_CELLS), 0);
    assert_int_equal(llama->state_get(context, 0, HTH_STATE_CELLS, bytes, sizeof(bytes), &n, &err), HEARTH_MISUSE);
    assert_int_equal(llama->state_get(context, 256, HTH_STATE_CELLS, bytes, sizeof(bytes), &n, &err), HEARTH_MISUSE);
    fill(0, 8);
    assert_int_equal(llama->state_get(context, 0, HTH_STATE_CELLS, bytes, sizeof(bytes), &n, &err), HEARTH_MISUSE);
}

static void a_state_that_does_not_fit_its_place_is_refused(void **state)
{
    size_t n_bytes;
    uint8_t *bytes;
    hearth_error err;

    (void)state;
    fill(0, 40);
    bytes = cut(0, &n_bytes);
    assert_int_equal(llama->state_set(context, 256, HTH_STATE_CELLS, bytes, n_bytes, 0, 40, &err), HEARTH_MISUSE);
    assert_int_equal(llama->state_set(context, UINT32_MAX, HTH_STATE_CELLS, bytes, n_bytes, 0, 40, &err),
                     HEARTH_MISUSE);
    assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n_bytes, 40, 40, &err), HEARTH_MISUSE);
    assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n_bytes, 0, 41, &err), HEARTH_CORRUPT);
    assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n_bytes, 0, 39, &err), HEARTH_CORRUPT);
    assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n_bytes, 1, 41, &err), HEARTH_CORRUPT);
    assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n_bytes, 0, UINT32_MAX, &err), HEARTH_MISUSE);
    assert_int_equal(llama->seq_end(context, 1), 0);
    assert_int_equal(llama->seq_end(context, 0), 40);
    assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n_bytes, 0, 40, &err), HEARTH_OK);
    assert_int_equal(llama->seq_end(context, 1), 40);
    free(bytes);
}

static void a_forged_state_empties_its_sequence_and_harms_no_other(void **state)
{
    /* offset, value; the blob is: magic, id, streams, cells, 40 x (position, sequences, id), V layout, layers, type */
    static const struct {
        const char *what;
        size_t offset;
        uint32_t value;
    } cases[] = {
        { "magic", 0, 0 },
        { "streams", 8, 2 },
        { "no streams", 8, 0 },
        { "67 million cells", 12, 67000000 },
        { "no cells", 12, 0 },
        { "fewer cells", 12, 39 },
        { "position repeated", 16, 1 },
        { "position outside", 16, 40 },
        { "position -1", 16, UINT32_MAX },
        { "cell of no sequence", 20, 0 },
        { "cell of many sequences", 20, 1u << 30 },
        { "V layout", 16 + 40 * 12, 7 },
        { "no layers", 20 + 40 * 12, 0 },
        { "other layers", 20 + 40 * 12, 5 },
        { "two billion layers", 20 + 40 * 12, 1u << 31 },
        { "type", 24 + 40 * 12, 8 },
        { "negative type", 24 + 40 * 12, UINT32_MAX },
        { "row bytes", 28 + 40 * 12, 64 },
        { "enormous rows", 32 + 40 * 12, UINT32_MAX },
    };
    size_t n_bytes, n_again;
    uint8_t *bytes, *forged, *again;
    hearth_error err;

    (void)state;
    fill(0, 40);
    bytes = cut(0, &n_bytes);
    forged = malloc(n_bytes);
    assert_non_null(forged);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fill(1, 8);
        memcpy(forged, bytes, n_bytes);
        hth_put_u32(forged + cases[i].offset, cases[i].value);
        if (llama->state_set(context, 1, HTH_STATE_CELLS, forged, n_bytes, 0, 40, &err) != HEARTH_CORRUPT)
            fail_msg("a state with forged %s was not refused as corrupt", cases[i].what);
        assert_int_equal(llama->seq_end(context, 1), 0);
    }
    again = cut(0, &n_again);
    assert_int_equal(n_again, n_bytes);
    assert_memory_equal(again, bytes, n_bytes);
    free(again);
    free(forged);
    free(bytes);
}

static void a_state_cut_short_or_too_long_is_corrupt_at_every_length(void **state)
{
    size_t n_bytes;
    uint8_t *bytes;
    hearth_error err;

    (void)state;
    fill(0, 8);
    bytes = cut(0, &n_bytes);
    bytes = realloc(bytes, n_bytes + 1);
    assert_non_null(bytes);
    bytes[n_bytes] = 0;
    for (size_t n = 0; n < n_bytes; n += n < 200 ? 1 : 97)
        assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n, 0, 8, &err), HEARTH_CORRUPT);
    assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n_bytes + 1, 0, 8, &err), HEARTH_CORRUPT);
    assert_int_equal(llama->state_set(context, 1, HTH_STATE_CELLS, bytes, n_bytes, 0, 8, &err), HEARTH_OK);
    free(bytes);
}

static void a_state_without_room_fails_and_leaves_the_others(void **state)
{
    size_t n_bytes;
    uint8_t *bytes;
    hearth_error err;

    (void)state;
    fill(0, 100);
    bytes = cut(0, &n_bytes);
    fill(1, N_CTX - 150);
    assert_int_equal(llama->state_set(context, 2, HTH_STATE_CELLS, bytes, n_bytes, 0, 100, &err), HEARTH_ENGINE);
    assert_int_equal(llama->seq_end(context, 2), 0);
    assert_int_equal(llama->seq_end(context, 0), 100);
    assert_int_equal(llama->seq_end(context, 1), N_CTX - 150);
    assert_true(llama->seq_remove(context, 1, 0, UINT32_MAX));
    assert_int_equal(llama->state_set(context, 2, HTH_STATE_CELLS, bytes, n_bytes, 0, 100, &err), HEARTH_OK);
    free(bytes);
}

static void a_state_of_another_type_is_refused_by_a_context_that_has_seen_none(void **state)
{
    hth_engine_context_params params = context_params();
    hth_engine_context *own = NULL;
    size_t n_bytes;
    uint8_t *bytes;
    hearth_error err;

    (void)state;
    fill(0, 16);
    bytes = cut(0, &n_bytes);
    params.type_k = "q8_0";
    params.type_v = "q8_0";
    assert_int_equal(llama->context_new(model, &params, &own, &err), HEARTH_OK);
    assert_int_equal(llama->state_set(own, 0, HTH_STATE_CELLS, bytes, n_bytes, 0, 16, &err), HEARTH_ENGINE);
    assert_int_equal(llama->seq_end(own, 0), 0);
    llama->context_free(own);
    free(bytes);
}

/* ---- model, vocabulary, text ---- */

static void the_model_describes_itself(void **state)
{
    (void)state;
    assert_int_equal(info.kind, HTH_MODEL_PLAIN);
    assert_string_equal(info.architecture, "llama");
    assert_string_equal(info.quant_type, "q8_0");
    assert_string_equal(info.chat_template_kind, "model");
    assert_int_equal(info.n_vocab, 2048);
    assert_int_equal(info.n_layers, 6);
    assert_int_equal(info.n_ctx_train, 2048);
    assert_true(info.n_params > 1000000);
    assert_true(info.weight_bytes > 1000000);
    assert_non_null(strstr(llama->build(), "0.5.0"));
}

static void parameters_name_what_changes_the_state_and_nothing_else(void **state)
{
    static const char *const named[] = { "k=f16", "v=f16", "fa=1", "unified=1", "rows=1", "block=256", "rope_type=" };
    hth_engine_context_params params = context_params();
    hth_engine_context_info own_info, other_info;
    hth_engine_context *other = NULL;
    hearth_error err;

    (void)state;
    llama->context_info(context, &own_info);
    assert_int_equal(own_info.n_ctx, N_CTX);
    assert_int_equal(own_info.n_batch, N_BATCH);
    assert_int_equal(own_info.n_seq_max, N_SEQ_MAX);
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        assert_non_null(strstr(own_info.params_text, named[i]));

    params = (hth_engine_context_params){ .n_ctx = 1024, .n_batch = 256, .n_seq_max = 9, .n_threads = 2 };
    assert_int_equal(llama->context_new(model, &params, &other, &err), HEARTH_OK);
    llama->context_info(other, &other_info);
    assert_string_equal(other_info.params_text, own_info.params_text);
    llama->context_free(other);

    params.type_k = "q8_0";
    assert_int_equal(llama->context_new(model, &params, &other, &err), HEARTH_OK);
    llama->context_info(other, &other_info);
    assert_string_not_equal(other_info.params_text, own_info.params_text);
    llama->context_free(other);
}

static void only_cells_that_others_look_at_cost_them_anything(void **state)
{
    static const char *const shapes[] = { "tiny-llama", "tiny-recurrent", "tiny-hybrid" };
    hth_engine_context_params params = context_params();

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        hth_engine_context *other = NULL;
        hth_engine_context_info other_info;
        hth_engine_model *shape;
        char path[4096];
        hearth_error err;

        hth_test_model(shapes[i], path, sizeof(path));
        if (load(path, &shape, &err) != HEARTH_OK || llama->context_new(shape, &params, &other, &err) != HEARTH_OK)
            fail_msg("%s", err.message);
        llama->context_info(other, &other_info);
        assert_int_equal(other_info.idle_cost.cells_max == UINT32_MAX, strcmp(shapes[i], "tiny-recurrent") == 0);
        if (other_info.idle_cost.cells_max == UINT32_MAX)
            assert_int_equal(other_info.idle_cost.row_ps + other_info.idle_cost.sequence_ps, 0);
        llama->context_free(other);
        llama->model_free(shape);
    }
}

static void a_bad_context_parameter_is_a_status(void **state)
{
    static const struct {
        hth_engine_context_params params;
        hearth_status status;
    } cases[] = {
        { { .n_ctx = 512, .n_batch = 0, .n_seq_max = 1 }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 1u << 30, .n_seq_max = 1 }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 0 }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 257 }, HEARTH_MISUSE },
        { { .n_ctx = UINT32_MAX, .n_batch = 64, .n_seq_max = 1 }, HEARTH_MISUSE },
        { { .n_ctx = 1000000000, .n_batch = 64, .n_seq_max = 1 }, HEARTH_NO_MEMORY },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 1, .n_threads = 100000 }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 1, .type_k = "q9_9" }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 1, .type_v = "" }, HEARTH_MISUSE },
    };
    hth_engine_context *other = NULL;
    hearth_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(llama->context_new(model, &cases[i].params, &other, &err), cases[i].status);
    assert_null(other);
}

static void text_comes_back_from_its_tokens(void **state)
{
    static const char text[] = "The captain looked at the sea.\nÆble, 東京 🙂";
    hearth_token tokens[256];
    hth_tokenize_result result;
    char back[512];
    size_t n_tokens, n_bytes = 0, n;
    hearth_error err;

    (void)state;
    assert_int_equal(llama->tokenize(model, text, strlen(text), 0, tokens, 256, &n_tokens, &result, &err), HEARTH_OK);
    assert_int_equal(result, HTH_TOKENIZE_OK);
    for (size_t i = 0; i < n_tokens; i++) {
        assert_int_equal(llama->piece(model, tokens[i], false, back + n_bytes, sizeof(back) - n_bytes, &n, &err),
                         HEARTH_OK);
        n_bytes += n;
    }
    assert_int_equal(n_bytes, strlen(text));
    assert_memory_equal(back, text, n_bytes);
}

static void too_many_tokens_are_counted(void **state)
{
    hearth_token tokens[4];
    hth_tokenize_result result;
    size_t n_with, n_without;
    hearth_error err;

    (void)state;
    assert_int_equal(llama->tokenize(model, "one two three four", 18, 0, NULL, 0, &n_without, &result, &err),
                     HEARTH_OK);
    assert_int_equal(result, HTH_TOKENIZE_MORE_ROOM);
    assert_true(n_without > 2);
    assert_int_equal(
        llama->tokenize(model, "one two three four", 18, HEARTH_TOKENIZE_BOS, tokens, 1, &n_with, &result, &err),
        HEARTH_OK);
    assert_int_equal(result, HTH_TOKENIZE_MORE_ROOM);
    assert_int_equal(n_with, n_without + 1);
    assert_int_equal(llama->tokenize(model, "", 0, 0, tokens, 4, &n_without, &result, &err), HEARTH_OK);
    assert_int_equal(n_without, 0);
    assert_int_equal(llama->tokenize(model, NULL, 0, HEARTH_TOKENIZE_BOS, tokens, 4, &n_with, &result, &err),
                     HEARTH_OK);
    assert_int_equal(n_with, 1);
}

static void control_tokens_are_read_and_written_only_when_asked_for(void **state)
{
    hearth_token tokens[64];
    hth_tokenize_result result;
    char bytes[64];
    size_t n;
    hearth_error err;

    (void)state;
    assert_int_equal(llama->tokenize(model, "<|im_end|>", 10, HEARTH_TOKENIZE_SPECIAL, tokens, 64, &n, &result, &err),
                     HEARTH_OK);
    assert_int_equal(n, 1);
    assert_true(llama->is_end(model, tokens[0]));
    assert_int_equal(llama->piece(model, tokens[0], true, bytes, sizeof(bytes), &n, &err), HEARTH_OK);
    assert_int_equal(n, 10);
    assert_memory_equal(bytes, "<|im_end|>", 10);
    assert_int_equal(llama->piece(model, tokens[0], false, bytes, sizeof(bytes), &n, &err), HEARTH_OK);
    assert_int_equal(n, 0);
    assert_int_equal(llama->piece(model, tokens[0], true, bytes, 3, &n, &err), HEARTH_MISUSE);
    assert_int_equal(llama->tokenize(model, "<|im_end|>", 10, 0, tokens, 64, &n, &result, &err), HEARTH_OK);
    assert_true(n > 1);
}

static void tokens_outside_the_vocabulary_are_misuse(void **state)
{
    static const hearth_token tokens[] = { -1, INT32_MIN, 2048, INT32_MAX };
    hearth_sampling sampling = hearth_sampling_default();
    hth_engine_sampler *sampler = NULL;
    char bytes[16];
    size_t n;
    hearth_error err;

    (void)state;
    assert_int_equal(llama->sampler_new(model, &sampling, &sampler, &err), HEARTH_OK);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        assert_int_equal(llama->piece(model, tokens[i], true, bytes, sizeof(bytes), &n, &err), HEARTH_MISUSE);
        assert_int_equal(llama->sampler_accept(sampler, tokens[i], true, &err), HEARTH_MISUSE);
        assert_false(llama->is_end(model, tokens[i]));
    }
    llama->sampler_free(sampler);
}

static void chat_goes_through_the_model_s_template(void **state)
{
    const hearth_chat_message messages[] = { { "user", "Hello!" } };
    char *text = NULL;
    hearth_error err;

    (void)state;
    assert_int_equal(llama->chat_render(model, messages, 1, &text, &err), HEARTH_OK);
    assert_non_null(strstr(text, "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"));
    free(text);
    assert_int_equal(llama->chat_render(model, messages, 0, &text, &err), HEARTH_MISUSE);
}

static void a_given_template_is_used_and_a_broken_one_refused(void **state)
{
    const hearth_chat_message messages[] = { { "user", "Hello!" }, { "assistant", "Yes?" } };
    hth_engine_model_params params = { .log = &counting };
    hth_engine_model *own = NULL;
    hth_engine_model_info own_info;
    char *text = NULL;
    hearth_error err;

    (void)state;
    params.chat_template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]";
    assert_int_equal(llama->model_load(MODEL, &params, &own, &err), HEARTH_OK);
    llama->model_info(own, &own_info);
    assert_string_equal(own_info.chat_template_kind, "given");
    if (llama->chat_render(own, messages, 2, &text, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    assert_string_equal(text, "[user] Hello!\n[assistant] Yes?\n[assistant]");
    free(text);
    llama->model_free(own);

    params.chat_template = "{% for m in messages %}{{ m.content }}";
    own = NULL;
    assert_int_equal(llama->model_load(MODEL, &params, &own, &err), HEARTH_MISUSE);
    assert_null(own);

    params.chat_template = "{{ raise_exception('no thanks') }}";
    if (llama->model_load(MODEL, &params, &own, &err) == HEARTH_OK) {
        assert_int_equal(llama->chat_render(own, messages, 2, &text, &err), HEARTH_ENGINE);
        assert_non_null(strstr(err.message, "no thanks"));
        llama->model_free(own);
    }
}

/* ---- sampling ---- */

static float *logits_with(size_t n, const float *values)
{
    float *logits = malloc(info.n_vocab * sizeof(float));

    assert_non_null(logits);
    for (size_t i = 0; i < info.n_vocab; i++)
        logits[i] = -10;
    memcpy(logits, values, n * sizeof(float));
    return logits;
}

static size_t sample(hearth_sampling sampling, const float *logits, hearth_token accepted, const hth_candidate **out,
                     hth_engine_sampler **sampler)
{
    hearth_error err;
    size_t n = 0;

    assert_int_equal(llama->sampler_new(model, &sampling, sampler, &err), HEARTH_OK);
    if (accepted >= 0)
        assert_int_equal(llama->sampler_accept(*sampler, accepted, true, &err), HEARTH_OK);
    assert_int_equal(llama->sampler_apply(*sampler, logits, &(hth_sample_at){ .position = 0 }, out, &n, &err),
                     HEARTH_OK);
    return n;
}

static void candidates_come_likeliest_first_and_sum_to_one(void **state)
{
    float *logits = logits_with(5, (float[]){ 1, 3, 2, 3, 0 });
    hearth_sampling sampling = { .temperature = 1, .top_k = 4, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 };
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    double total = 0;
    size_t n = sample(sampling, logits, -1, &candidates, &sampler);

    (void)state;
    assert_int_equal(n, 4);
    assert_int_equal(candidates[0].token, 1);
    assert_int_equal(candidates[1].token, 3);
    assert_int_equal(candidates[2].token, 2);
    assert_int_equal(candidates[3].token, 0);
    for (size_t i = 0; i < n; i++)
        total += candidates[i].probability;
    assert_true(total > 0.99999 && total < 1.00001);
    llama->sampler_free(sampler);
    free(logits);
}

static void temperature_zero_takes_the_likeliest_and_of_equals_the_lowest_id(void **state)
{
    float *logits = logits_with(5, (float[]){ 1, 3, 2, 3, 0 });
    hearth_sampling sampling = {
        .temperature = 0, .top_p = 1, .repeat_penalty = 1, .typical_p = 1, .repeat_last_n = 64
    };
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;

    (void)state;
    assert_int_equal(sample(sampling, logits, -1, &candidates, &sampler), 1);
    assert_int_equal(candidates[0].token, 1);
    assert_true(candidates[0].probability == 1);
    llama->sampler_free(sampler);

    sampling.repeat_penalty = 2;
    assert_int_equal(sample(sampling, logits, 1, &candidates, &sampler), 1);
    assert_int_equal(candidates[0].token, 3);
    llama->sampler_free(sampler);
    free(logits);
}

static void filters_keep_at_least_one_candidate_at_any_temperature(void **state)
{
    static const hearth_sampling cases[] = {
        { .temperature = 1e-30f, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1000, .top_p = 0, .min_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 0.8f, .top_k = 1, .top_p = 0.5f, .min_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 0.8f,
          .top_k = INT32_MAX,
          .top_p = 1,
          .repeat_penalty = 1000,
          .typical_p = 1,
          .repeat_last_n = 65536 },
    };
    float *logits = logits_with(3, (float[]){ 1e30f, -1e30f, 5 });

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const hth_candidate *candidates;
        hth_engine_sampler *sampler;

        assert_true(sample(cases[i], logits, 0, &candidates, &sampler) >= 1);
        assert_true(candidates[0].probability > 0);
        llama->sampler_free(sampler);
    }
    free(logits);
}

static void logits_that_are_no_numbers_are_never_chosen(void **state)
{
    float *logits = logits_with(4, (float[]){ (float)(0.0 / 0.0), (float)(1.0 / 0.0), 5, (float)(-1.0 / 0.0) });
    hearth_sampling sampling = { .temperature = 1, .top_k = 2, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 };
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    hearth_error err;
    size_t n;

    (void)state;
    assert_true(sample(sampling, logits, -1, &candidates, &sampler) >= 1);
    assert_int_equal(candidates[0].token, 2);
    for (size_t i = 0; i < info.n_vocab; i++)
        logits[i] = (float)(0.0 / 0.0);
    assert_int_equal(llama->sampler_apply(sampler, logits, &(hth_sample_at){ .position = 0 }, &candidates, &n, &err),
                     HEARTH_ENGINE);
    llama->sampler_free(sampler);
    free(logits);
}

static void bad_sampling_values_are_misuse(void **state)
{
    static const hearth_sampling cases[] = {
        { .temperature = -1, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = (float)(0.0 / 0.0), .top_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1, .top_k = -1, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1, .top_p = 1.5f, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1, .top_p = 1, .min_p = -0.5f, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1, .top_p = 1, .repeat_penalty = 0, .typical_p = 1 },
        { .temperature = 1, .top_p = 1, .repeat_penalty = 1, .typical_p = 1, .repeat_last_n = UINT32_MAX },
    };
    hth_engine_sampler *sampler = NULL;
    hearth_error err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(llama->sampler_new(model, &cases[i], &sampler, &err), HEARTH_MISUSE);
    assert_null(sampler);
}

/* ---- files ---- */

static void write_file(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static void assert_load_fails(const char *path, hearth_status expected)
{
    hth_engine_model *own = NULL;
    hearth_error err = { .message = "" };
    hearth_status status = load(path, &own, &err);

    if (status != expected)
        fail_msg("'%s': status %s (%s) instead of %s", path, hearth_status_name(status), err.message,
                 hearth_status_name(expected));
    assert_null(own);
    assert_non_null(strstr(err.message, path));
    assert_null(strchr(err.message, '\n'));
}

static void a_file_that_is_no_model_is_named_with_what_is_wrong(void **state)
{
    char *directory = hth_test_directory_new();
    char path[4096], fifo[4096];
    uint8_t noise[4096];
    uint64_t seed = hth_test_seed();

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/model.gguf", directory);
    (void)snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
    assert_load_fails(path, HEARTH_NOT_FOUND);
    assert_load_fails(directory, HEARTH_IO);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_load_fails(fifo, HEARTH_IO);
    write_file(path, "", 0);
    assert_load_fails(path, HEARTH_CORRUPT);
    write_file(path, "GG", 2);
    assert_load_fails(path, HEARTH_CORRUPT);
    write_file(path, "GGUF", 4);
    assert_load_fails(path, HEARTH_CORRUPT);
    write_file(path, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    assert_load_fails(path, HEARTH_UNSUPPORTED); /* a whole GGUF, of no architecture */
    for (int i = 0; i < 50; i++) {
        for (size_t k = 0; k < sizeof(noise); k++)
            noise[k] = (uint8_t)hth_test_random(&seed, 256);
        write_file(path, noise, sizeof(noise));
        assert_load_fails(path, HEARTH_CORRUPT);
        memcpy(noise, "GGUF\3\0\0\0", 8);
        write_file(path, noise, sizeof(noise));
        assert_load_fails(path, HEARTH_CORRUPT);
    }
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0), 0);
        assert_load_fails(path, HEARTH_PERMISSION);
    }
    hth_test_directory_remove(directory);
}

/* The whole model file, malloc'ed. */
static uint8_t *read_model(size_t *n_bytes)
{
    struct stat st;
    uint8_t *bytes;
    FILE *file = fopen(MODEL, "rb");

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    *n_bytes = (size_t)st.st_size;
    bytes = malloc(*n_bytes);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n_bytes, file), *n_bytes);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

static void a_model_cut_short_is_corrupt_at_every_length(void **state)
{
    char *directory = hth_test_directory_new();
    char path[4096];
    size_t n_bytes;
    uint8_t *bytes = read_model(&n_bytes);

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/model.gguf", directory);
    for (size_t n = 1; n < n_bytes; n += 1 + n / 12) {
        write_file(path, bytes, n);
        assert_load_fails(path, HEARTH_CORRUPT);
    }
    write_file(path, bytes, n_bytes - 1);
    assert_load_fails(path, HEARTH_CORRUPT);
    free(bytes);
    hth_test_directory_remove(directory);
}

/* Each of these ended the process when the engine read it. */
static void a_model_with_impossible_metadata_is_corrupt(void **state)
{
    static const struct {
        const char *key;
        uint32_t value;
    } cases[] = {
        { "llama.block_count", 0 },
        { "llama.block_count", 513 },
        { "llama.attention.layer_norm_rms_epsilon", 0xbf800000 /* -1 */ },
        { "llama.attention.layer_norm_rms_epsilon", 0x7fc00000 /* not a number */ },
    };
    char *directory = hth_test_directory_new();
    char path[4096];
    size_t n_bytes;
    uint8_t *bytes = read_model(&n_bytes);

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/model.gguf", directory);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t *at = memmem(bytes, n_bytes, cases[i].key, strlen(cases[i].key));
        uint32_t before;

        assert_non_null(at);
        at += strlen(cases[i].key) + 4; /* after the type */
        before = hth_get_u32(at);
        hth_put_u32(at, cases[i].value);
        write_file(path, bytes, n_bytes);
        assert_load_fails(path, HEARTH_CORRUPT);
        hth_put_u32(at, before);
    }
    memcpy(memmem(bytes, n_bytes, "<0x41>", 6), "<0x42>", 6); /* two tokens of one name */
    write_file(path, bytes, n_bytes);
    assert_load_fails(path, HEARTH_CORRUPT);
    free(bytes);
    hth_test_directory_remove(directory);
}

static bool stop_loading(float fraction, void *user_data)
{
    (*(int *)user_data)++;
    return fraction < 0.5f;
}

static void loading_can_be_cancelled(void **state)
{
    int n_reports = 0;
    hth_engine_model_params params = { .log = &counting, .progress = stop_loading, .progress_user_data = &n_reports };
    hth_engine_model *own = NULL;
    hearth_error err;

    (void)state;
    assert_int_equal(llama->model_load(MODEL, &params, &own, &err), HEARTH_CANCELLED);
    assert_null(own);
    assert_true(n_reports > 0);
}

static void a_model_loads_without_mapping_the_file(void **state)
{
    hth_engine_model_params params = { .log = &counting, .no_mmap = true };
    hth_engine_model *own = NULL;
    hearth_error err;

    (void)state;
    assert_int_equal(llama->model_load(MODEL, &params, &own, &err), HEARTH_OK);
    llama->model_free(own);
}

/* ---- log, module ---- */

static void the_engine_speaks_through_the_log_in_whole_lines_and_never_on_standard_error(void **state)
{
    hth_engine_model *own = NULL;
    hearth_error err;
    char *directory = hth_test_directory_new();
    char path[4096];
    int saved = dup(STDERR_FILENO);
    int file;
    struct stat st;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/stderr", directory);
    file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(saved >= 0 && file >= 0);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    logged.n_lines = 0;
    (void)load(MODEL, &own, &err);
    llama->model_free(own);
    (void)load("/dev/null", &own, &err);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_int_equal(fstat(file, &st), 0);
    (void)close(saved);
    (void)close(file);
    hth_test_directory_remove(directory);
    assert_int_equal(st.st_size, 0);
    assert_true(logged.n_lines > 5);
    assert_false(logged.has_newline);
    assert_string_equal(logged.source, "llama.cpp");
}

static void arguments_that_are_missing_are_misuse(void **state)
{
    hth_engine_model_params params = { .log = &counting };
    hth_engine_model_params no_log = { 0 };
    hth_engine_model *own = NULL;
    hth_decode_result result;
    hearth_error err;
    size_t n;

    (void)state;
    assert_int_equal(llama->model_load(NULL, &params, &own, &err), HEARTH_MISUSE);
    assert_int_equal(llama->model_load(MODEL, NULL, &own, &err), HEARTH_MISUSE);
    assert_int_equal(llama->model_load(MODEL, &no_log, &own, &err), HEARTH_MISUSE);
    assert_int_equal(llama->context_new(NULL, NULL, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(llama->decode(context, NULL, 1, &result, &err), HEARTH_MISUSE);
    assert_int_equal(llama->decode(NULL, NULL, 0, NULL, NULL), HEARTH_MISUSE);
    assert_int_equal(llama->state_get(context, 0, HTH_STATE_CELLS, NULL, 0, &n, &err), HEARTH_MISUSE);
    assert_int_equal(llama->state_set(context, 0, HTH_STATE_CELLS, NULL, 0, 0, 1, &err), HEARTH_MISUSE);
    assert_int_equal(llama->sampler_new(model, NULL, NULL, &err), HEARTH_MISUSE);
    llama->sampler_free(NULL);
}

static void the_engine_is_loaded_once_for_the_whole_process(void **state)
{
    const hth_backend *other = NULL;
    hearth_error err;

    (void)state;
    assert_int_equal(hth_backend_llama("/nonexistent", &other, &err), HEARTH_OK);
    assert_ptr_equal(other, llama);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_batch_that_breaks_a_rule_is_misuse_and_changes_nothing, empty_sequences),
        cmocka_unit_test_setup(a_batch_of_no_or_too_many_rows_is_misuse, empty_sequences),
        cmocka_unit_test_setup(a_full_context_has_no_room_and_is_unchanged, empty_sequences),
        cmocka_unit_test_setup(rows_without_logits_have_none, empty_sequences),
        cmocka_unit_test_setup(the_abort_callback_ends_a_decode, empty_sequences),
        cmocka_unit_test_setup(a_copy_that_breaks_a_rule_is_misuse, empty_sequences),
        cmocka_unit_test_setup(shared_cells_cost_no_room, empty_sequences),
        cmocka_unit_test_setup(a_tail_can_be_removed_and_computed_again, empty_sequences),
        cmocka_unit_test_setup(removing_from_sequences_that_are_not_there_is_refused, empty_sequences),
        cmocka_unit_test_setup(an_empty_or_missing_sequence_has_no_state, empty_sequences),
        cmocka_unit_test_setup(a_state_that_does_not_fit_its_place_is_refused, empty_sequences),
        cmocka_unit_test_setup(a_forged_state_empties_its_sequence_and_harms_no_other, empty_sequences),
        cmocka_unit_test_setup(a_state_cut_short_or_too_long_is_corrupt_at_every_length, empty_sequences),
        cmocka_unit_test_setup(a_state_without_room_fails_and_leaves_the_others, empty_sequences),
        cmocka_unit_test_setup(a_state_of_another_type_is_refused_by_a_context_that_has_seen_none, empty_sequences),
        cmocka_unit_test(the_model_describes_itself),
        cmocka_unit_test(parameters_name_what_changes_the_state_and_nothing_else),
        cmocka_unit_test(only_cells_that_others_look_at_cost_them_anything),
        cmocka_unit_test(a_bad_context_parameter_is_a_status),
        cmocka_unit_test(text_comes_back_from_its_tokens),
        cmocka_unit_test(too_many_tokens_are_counted),
        cmocka_unit_test(control_tokens_are_read_and_written_only_when_asked_for),
        cmocka_unit_test(tokens_outside_the_vocabulary_are_misuse),
        cmocka_unit_test(chat_goes_through_the_model_s_template),
        cmocka_unit_test(a_given_template_is_used_and_a_broken_one_refused),
        cmocka_unit_test(candidates_come_likeliest_first_and_sum_to_one),
        cmocka_unit_test(temperature_zero_takes_the_likeliest_and_of_equals_the_lowest_id),
        cmocka_unit_test(filters_keep_at_least_one_candidate_at_any_temperature),
        cmocka_unit_test(logits_that_are_no_numbers_are_never_chosen),
        cmocka_unit_test(bad_sampling_values_are_misuse),
        cmocka_unit_test(a_file_that_is_no_model_is_named_with_what_is_wrong),
        cmocka_unit_test(a_model_cut_short_is_corrupt_at_every_length),
        cmocka_unit_test(a_model_with_impossible_metadata_is_corrupt),
        cmocka_unit_test(loading_can_be_cancelled),
        cmocka_unit_test(a_model_loads_without_mapping_the_file),
        cmocka_unit_test(the_engine_speaks_through_the_log_in_whole_lines_and_never_on_standard_error),
        cmocka_unit_test(arguments_that_are_missing_are_misuse),
        cmocka_unit_test(the_engine_is_loaded_once_for_the_whole_process),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
