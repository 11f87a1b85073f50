/*
 * llama_backend_test.c - whatever it is asked, the llama.cpp backend answers with a status and never ends the process
 *
 * Each wrong call here was measured to abort, throw, lie or corrupt when made on llama.cpp v0.5.0 itself.
 */
#include "support/llama_scene.h"

/* ---- batches ---- */

FIXTURE_TEST(a_batch_that_breaks_a_rule_is_misuse_and_changes_nothing)
{
    static const struct {
        const char *what;
        hth_batch_row rows[3];
        size_t n_rows;
    } cases[] = {
        { "token -1", { { -1, 8, 0, true, false } }, 1 },
        { "token beyond the vocabulary", { { 1 << 20, 8, 0, true, false } }, 1 },
        { "highest token", { { INT32_MAX, 8, 0, true, false } }, 1 },
        { "sequence of another context", { { 5, 0, N_SEQ_MAX, true, false } }, 1 },
        { "sequence 256", { { 5, 0, 256, true, false } }, 1 },
        { "sequence -1", { { 5, 0, UINT32_MAX, true, false } }, 1 },
        { "gap", { { 5, 9, 0, true, false } }, 1 },
        { "decrease", { { 5, 7, 0, true, false } }, 1 },
        { "position 7 first", { { 5, 7, 1, true, false } }, 1 },
        { "position -1", { { 5, UINT32_MAX, 1, true, false } }, 1 },
        { "position repeated in a batch", { { 5, 8, 0, false, false }, { 5, 8, 0, true, false } }, 2 },
        { "gap inside a batch", { { 5, 8, 0, false, false }, { 5, 10, 0, true, false } }, 2 },
        { "bad row after good ones",
          { { 5, 8, 0, false, false }, { 5, 9, 0, false, false }, { -5, 10, 0, true, false } },
          3 },
    };
    hth_decode_result result = HTH_DECODE_OK;
    hearth_error err;

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

FIXTURE_TEST(a_batch_of_no_or_too_many_rows_is_misuse)
{
    hth_decode_result result;

    assert_int_equal(evaluate(0, 0, 0, &result), HEARTH_MISUSE);
    assert_int_equal(evaluate(0, 0, N_BATCH + 1, &result), HEARTH_MISUSE);
    assert_int_equal(evaluate(0, 0, N_BATCH, &result), HEARTH_OK);
}

FIXTURE_TEST(a_full_context_has_no_room_and_is_unchanged)
{
    hth_decode_result result = HTH_DECODE_OK;

    fill(0, N_CTX - 8);
    assert_int_equal(evaluate(1, 0, 9, &result), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_NO_ROOM);
    assert_int_equal(llama->seq_end(context, 0), N_CTX - 8);
    assert_int_equal(llama->seq_end(context, 1), 0);
    assert_int_equal(evaluate(1, 0, 8, &result), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_OK);
}

FIXTURE_TEST(rows_without_logits_have_none)
{
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

FIXTURE_TEST(the_abort_callback_ends_a_decode)
{
    int n_asked = 0;
    hth_engine_context_params params = context_params();
    hth_engine_context *own = NULL;
    hth_batch_row row = { .token = 5, .wants_logits = true };
    hth_decode_result result = HTH_DECODE_OK;
    hearth_error err;

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

FIXTURE_TEST(a_copy_that_breaks_a_rule_is_misuse)
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

    fill(0, 64);
    fill(3, 4);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (llama->seq_copy(context, cases[i].from, cases[i].to, cases[i].begin, cases[i].end, &err) != HEARTH_MISUSE)
            fail_msg("a copy %s was accepted", cases[i].what);
    assert_int_equal(llama->seq_end(context, 1), 0);
    assert_int_equal(llama->seq_copy(context, 0, 3, 4, 64, &err), HEARTH_OK);
    assert_int_equal(llama->seq_end(context, 3), 64);
}

FIXTURE_TEST(shared_cells_cost_no_room)
{
    hearth_error err;

    fill(0, N_CTX - 64);
    for (uint32_t i = 1; i < N_SEQ_MAX; i++)
        assert_int_equal(llama->seq_copy(context, 0, i, 0, N_CTX - 64, &err), HEARTH_OK);
    assert_true(llama->seq_remove(context, 0, 0, UINT32_MAX));
    fill(0, 64);
}

FIXTURE_TEST(a_tail_can_be_removed_and_computed_again)
{
    hth_decode_result result;
    float *before = malloc(info.n_vocab * sizeof(float));

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

FIXTURE_TEST(removing_from_sequences_that_are_not_there_is_refused)
{
    assert_false(llama->seq_remove(context, N_SEQ_MAX, 0, UINT32_MAX));
    assert_false(llama->seq_remove(context, 256, 0, UINT32_MAX));
    assert_false(llama->seq_remove(context, UINT32_MAX, 0, UINT32_MAX));
    assert_true(llama->seq_remove(context, 1, 0, UINT32_MAX));
    assert_true(llama->seq_remove(context, 1, 5, 3));
    assert_int_equal(llama->seq_end(context, 256), 0);
}

/* ---- state ---- */

FIXTURE_TEST(an_empty_or_missing_sequence_has_no_state)
{
    uint8_t bytes[64];
    size_t n;
    hearth_error err;

    assert_int_equal(llama->state_size(context, 0, HTH_STATE_CELLS), 0);
    assert_int_equal(llama->state_size(context, 256, HTH_STATE_CELLS), 0);
    assert_int_equal(llama->state_size(context, UINT32_MAX, HTH_STATE_CELLS), 0);
    assert_int_equal(llama->state_get(context, 0, HTH_STATE_CELLS, bytes, sizeof(bytes), &n, &err), HEARTH_MISUSE);
    assert_int_equal(llama->state_get(context, 256, HTH_STATE_CELLS, bytes, sizeof(bytes), &n, &err), HEARTH_MISUSE);
    fill(0, 8);
    assert_int_equal(llama->state_get(context, 0, HTH_STATE_CELLS, bytes, sizeof(bytes), &n, &err), HEARTH_MISUSE);
}

FIXTURE_TEST(a_state_that_does_not_fit_its_place_is_refused)
{
    size_t n_bytes;
    uint8_t *bytes;
    hearth_error err;

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

FIXTURE_TEST(a_forged_state_empties_its_sequence_and_harms_no_other)
{
    /* offset, value; the image is: magic, id, streams, cells, 40 x (position, sequences, id), V layout, layers, type */
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

FIXTURE_TEST(a_state_cut_short_or_too_long_is_corrupt_at_every_length)
{
    size_t n_bytes;
    uint8_t *bytes;
    hearth_error err;

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

FIXTURE_TEST(a_state_without_room_fails_and_leaves_the_others)
{
    size_t n_bytes;
    uint8_t *bytes;
    hearth_error err;

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

FIXTURE_TEST(a_state_of_another_type_is_refused_by_a_context_that_has_seen_none)
{
    hth_engine_context_params params = context_params();
    hth_engine_context *own = NULL;
    size_t n_bytes;
    uint8_t *bytes;
    hearth_error err;

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

/* ---- log, module ---- */

TEST(the_engine_speaks_through_the_log_in_whole_lines_and_never_on_standard_error)
{
    hth_engine_model *own = NULL;
    hearth_error err;
    char *directory = hth_test_directory_new();
    char path[4096];
    int saved = dup(STDERR_FILENO);
    int file;
    struct stat st;

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

TEST(arguments_that_are_missing_are_misuse)
{
    hth_engine_model_params params = { .log = &counting };
    hth_engine_model_params no_log = { 0 };
    hth_engine_model *own = NULL;
    hth_decode_result result;
    hearth_error err;
    size_t n;

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

TEST(the_engine_is_loaded_once_for_the_whole_process)
{
    const hth_backend *other = NULL;
    hearth_error err;

    assert_int_equal(hth_backend_llama(NULL, &other, &err), HEARTH_OK);
    assert_ptr_equal(other, llama);
}

GROUP(with_the_engine, open_engine, close_engine)
