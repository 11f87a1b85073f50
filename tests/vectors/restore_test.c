/*
 * restore_test.c - a restored prefix continues bit for bit like the unbroken run
 *
 * The unbroken run prefills blocks of 256, cutting each out as soon as it is evaluated, then a shorter chunk, then
 * single tokens, and keeps all logits. The restored run begins in a fresh context, puts the cut blocks back and does
 * the rest in the same chunks. Every logit must have the same bits. One test does this in a fresh process, through a
 * file.
 *
 * Recurrent state is cut once, after the last block; models of nothing else have no blocks. Of models with a window,
 * the blocks before it are put back bare. Models of each kind are made here, of random weights. Set
 * HTH_TEST_EXTRA_MODEL to the path of one more GGUF file to run it on that, too, and support/devices.h says how to run
 * all of it on other devices than the CPU. Models with a window are right only up to rounding, because
 * their restored cells lie elsewhere; a hundredth of the largest logit is allowed. A cell that is missing changes far
 * more. Where a device rounds more coarsely, twice as much is allowed as the place of cells alone changes there: a run
 * without any restore, whose cells lie elsewhere, tells how much that is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/backend.h"
#include "stub/backend.h"
#include "support/cmocka_all.h"
#include "support/devices.h"
#include "support/support.h"

#define BLOCK 256
#define N_BLOCKS 3
#define N_CHUNK 64
#define N_STEPS 24
#define N_PREFIX (BLOCK * N_BLOCKS)
#define N_TAIL 100 /* what may follow the blocks */
#define N_ROWS_MAX (N_BLOCKS + 2)
#define SEQUENCE 0
#define SCRATCH 1
#define OTHER 2

/* An engine, a model on it, and what its unbroken run left. */
typedef struct run {
    const hth_backend *backend;
    hth_engine_model *model;
    hth_engine_context *context;
    hth_engine_model_info info;
    bool in_blocks;
    bool has_rest;
    uint32_t n_prefix; /* the blocks, perhaps with a tail */
    size_t n_rows;
    uint8_t *rows[N_ROWS_MAX]; /* images: of each block, of the tail, then of the rest */
    size_t row_bytes[N_ROWS_MAX];
    float *logits;  /* [1 + N_STEPS][n_vocab]: after the chunk, and after each step */
    float rounding; /* the most that they differ where cells lie elsewhere, as far as that was looked at */
} run;

static const char *const shapes[] = { "tiny-llama",  "tiny-window",        "tiny-window600", "tiny-recurrent",
                                      "tiny-hybrid", "tiny-hybrid-window", "tiny-qwen35" };

static const hth_log silent = { .level = HEARTH_LOG_ERROR };

static hearth_token token_at(const run *r, uint32_t position)
{
    return (hearth_token)((position * 7919u + 13u) % r->info.n_vocab);
}

static hth_engine_context *open_context(const run *r, const char *type)
{
    hth_engine_context_params params = {
        .n_ctx = 1024, .n_batch = 512, .n_seq_max = 4, .n_threads = 2, .type_k = type, .type_v = type
    };
    hth_engine_context *context = NULL;
    hth_engine_context_info info;
    hearth_error err;

    assert_ok(r->backend->context_new(r->model, &params, &context, &err), err);
    r->backend->context_info(context, &info);
    if (r->backend != hth_backend_stub())
        assert_int_equal(strstr(info.params_text, " devices=") != NULL, hth_test_has_devices());
    return context;
}

static bool open_model(run *r, const char *path)
{
    hth_engine_model_params params = { .n_gpu_layers = hth_test_gpu_layers(),
                                       .rpc_servers = hth_test_rpc_servers(),
                                       .log = &silent };
    hearth_error err;

    *r = (run){ .backend = hth_backend_stub(), .n_prefix = N_PREFIX };
    if (strncmp(path, "stub:", 5) != 0 && hth_backend_llama(HTH_TEST_ENGINE_DIR, &r->backend, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    if (strncmp(path, "stub:", 5) != 0 && access(path, R_OK) != 0)
        return false;
    assert_ok(r->backend->model_load(path, &params, &r->model, &err), err);
    r->backend->model_info(r->model, &r->info);
    r->in_blocks = r->info.kind != HTH_MODEL_RECURRENT;
    r->has_rest = r->info.kind == HTH_MODEL_RECURRENT || r->info.kind == HTH_MODEL_HYBRID;
    assert_int_not_equal(r->info.kind, HTH_MODEL_UNCACHED);
    return true;
}

static void close_model(run *r)
{
    r->backend->context_free(r->context);
    r->backend->model_free(r->model);
    for (size_t i = 0; i < r->n_rows; i++)
        free(r->rows[i]);
    free(r->logits);
}

/* Evaluate positions [begin, end) as one batch and give the last one's logits. */
static const float *evaluate(run *r, uint32_t begin, uint32_t end)
{
    hth_batch_row rows[BLOCK];
    hth_decode_result result = HTH_DECODE_ABORTED;
    hearth_error err;
    const float *logits;

    for (uint32_t i = begin; i < end; i++)
        rows[i - begin] = (hth_batch_row){
            .token = token_at(r, i), .position = i, .sequence = SEQUENCE, .wants_logits = i + 1 == end
        };
    assert_ok(r->backend->decode(r->context, rows, end - begin, &result, &err), err);
    assert_int_equal(result, HTH_DECODE_OK);
    logits = r->backend->logits(r->context, end - begin - 1);
    assert_non_null(logits);
    return logits;
}

static void get_row(run *r, uint32_t sequence, hth_state_part part)
{
    size_t n_bytes = r->backend->state_size(r->context, sequence, part);
    size_t n_written = 0;
    hearth_error err;

    assert_true(n_bytes > 0);
    r->rows[r->n_rows] = malloc(n_bytes);
    assert_non_null(r->rows[r->n_rows]);
    assert_ok(r->backend->state_get(r->context, sequence, part, r->rows[r->n_rows], n_bytes, &n_written, &err), err);
    assert_int_equal(n_written, n_bytes);
    r->row_bytes[r->n_rows++] = n_bytes;
}

static uint32_t row_end(const run *r, uint32_t begin)
{
    return begin + BLOCK < r->n_prefix ? begin + BLOCK : r->n_prefix;
}

static void cut_block(run *r, uint32_t begin)
{
    hearth_error err;

    assert_ok(r->backend->seq_copy(r->context, SEQUENCE, SCRATCH, begin, row_end(r, begin), &err), err);
    get_row(r, SCRATCH, HTH_STATE_CELLS);
    assert_true(r->backend->seq_remove(r->context, SCRATCH, 0, UINT32_MAX));
}

/* By how much a logit may differ from the unbroken run's. */
static float tolerance(const run *r)
{
    float largest = 0;

    if (r->backend == hth_backend_stub() || r->info.n_window == 0)
        return 0;
    for (size_t i = 0; i < (size_t)(1 + N_STEPS) * r->info.n_vocab; i++)
        largest = fmaxf(largest, fabsf(r->logits[i]));
    return fmaxf(largest / 100, 2 * r->rounding);
}

static bool is_same(float a, float b, float allowed)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (allowed > 0 && fabsf(a - b) <= allowed);
}

/* The chunk and the steps after the prefix. How many logits are unlike those of the unbroken run. */
static size_t continue_run(run *r, float *logits)
{
    size_t row_bytes = r->info.n_vocab * sizeof(float);
    float allowed = r->logits ? tolerance(r) : 0;
    size_t n_differing = 0;

    for (uint32_t i = 0; i <= N_STEPS; i++) {
        uint32_t end = r->n_prefix + N_CHUNK + i;
        const float *now = evaluate(r, i == 0 ? r->n_prefix : end - 1, end);
        float *then = logits + (size_t)i * r->info.n_vocab;

        if (!r->logits)
            memcpy(then, now, row_bytes);
        else
            for (uint32_t k = 0; k < r->info.n_vocab; k++)
                n_differing += !is_same(now[k], then[k], allowed);
    }
    return n_differing;
}

/* The same tokens in other cells: those of another sequence come before them. Nothing is cut and nothing restored. */
static void measure_rounding(run *r, const char *type)
{
    const size_t n = (size_t)(1 + N_STEPS) * r->info.n_vocab;
    hth_batch_row other = { .sequence = OTHER };
    hth_decode_result result = HTH_DECODE_ABORTED;
    float *elsewhere = malloc(n * sizeof(*elsewhere));
    float *unbroken = r->logits;
    hearth_error err;

    assert_non_null(elsewhere);
    r->logits = NULL; /* so that they are kept, not compared */
    r->context = open_context(r, type);
    assert_int_equal(r->backend->decode(r->context, &other, 1, &result, &err), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_OK);
    for (uint32_t begin = 0; begin < r->n_prefix; begin += BLOCK)
        evaluate(r, begin, row_end(r, begin));
    (void)continue_run(r, elsewhere);
    for (size_t i = 0; i < n; i++)
        r->rounding = fmaxf(r->rounding, fabsf(elsewhere[i] - unbroken[i]));
    free(elsewhere);
    r->logits = unbroken;
    r->backend->context_free(r->context);
    r->context = NULL;
}

static void run_unbroken(run *r, const char *type)
{
    float *logits = malloc((1 + N_STEPS) * r->info.n_vocab * sizeof(float));

    assert_non_null(logits);
    r->context = open_context(r, type);
    for (uint32_t begin = 0; begin < r->n_prefix; begin += BLOCK) {
        evaluate(r, begin, row_end(r, begin));
        if (r->in_blocks)
            cut_block(r, begin);
    }
    if (r->has_rest)
        get_row(r, SEQUENCE, HTH_STATE_REST);
    (void)continue_run(r, logits);
    r->logits = logits;
    r->backend->context_free(r->context);
    r->context = NULL;
    if (hth_test_has_devices() && r->backend != hth_backend_stub() && r->info.n_window > 0)
        measure_rounding(r, type);
}

static void put_block(run *r, size_t row, uint32_t begin)
{
    uint32_t end = row_end(r, begin);
    bool is_bare = r->info.kind == HTH_MODEL_WINDOW && end + r->info.n_window <= r->n_prefix;
    hearth_error err;

    assert_ok(r->backend->state_set(r->context, SCRATCH, is_bare ? HTH_STATE_CELLS_BARE : HTH_STATE_CELLS, r->rows[row],
                                    r->row_bytes[row], begin, end, &err),
              err);
    assert_ok(r->backend->seq_copy(r->context, SCRATCH, SEQUENCE, begin, end, &err), err);
    assert_true(r->backend->seq_remove(r->context, SCRATCH, 0, UINT32_MAX));
}

static void restore(run *r, const char *type)
{
    hearth_error err;

    r->context = open_context(r, type);
    for (uint32_t begin = 0; r->in_blocks && begin < r->n_prefix; begin += BLOCK)
        put_block(r, begin / BLOCK, begin);
    if (r->has_rest && r->backend->state_set(r->context, SEQUENCE, HTH_STATE_REST, r->rows[r->n_rows - 1],
                                             r->row_bytes[r->n_rows - 1], 0, r->n_prefix, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    assert_int_equal(r->backend->seq_end(r->context, SEQUENCE), r->n_prefix);
}

static void assert_restores_prefix(const char *path, const char *type, uint32_t n_prefix)
{
    run r;

    if (!open_model(&r, path)) {
        print_message("no model '%s', skipped\n", path);
        return;
    }
    r.n_prefix = n_prefix;
    run_unbroken(&r, type);
    restore(&r, type);
    assert_int_equal(continue_run(&r, r.logits), 0);
    close_model(&r);
}

static void assert_restores(const char *path, const char *type)
{
    if (type && getenv("HTH_TEST_F16_ONLY")) /* for devices whose drivers fail with other cells */
        return;
    assert_restores_prefix(path, type, N_PREFIX);
    assert_restores_prefix(path, type, N_PREFIX + N_TAIL);
}

static const char *extra_model(void)
{
    return getenv("HTH_TEST_EXTRA_MODEL");
}

TEST(a_restored_prefix_continues_bit_for_bit_with_f16)
{
    assert_restores(HTH_TEST_MODELS "/hearth-tiny.gguf", NULL);
    assert_restores(HTH_TEST_SHARED_DIR "/models/stories260K.gguf", NULL);
    if (extra_model())
        assert_restores(extra_model(), NULL);
}

TEST(a_restored_prefix_continues_bit_for_bit_with_q8_0)
{
    assert_restores(HTH_TEST_MODELS "/hearth-tiny.gguf", "q8_0");
}

TEST(a_restored_prefix_continues_bit_for_bit_on_the_stub_of_every_kind)
{
    assert_restores("stub:", NULL);
    assert_restores("stub:kind=window", NULL);
    assert_restores("stub:kind=recurrent", NULL);
    assert_restores("stub:kind=hybrid", NULL);
    assert_restores("stub:kind=window,window=300", NULL);
    assert_restores("stub:kind=hybrid,window=64", NULL);
}

TEST(models_of_every_kind_go_on_after_a_restore)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char path[4096];

        hth_test_model(shapes[i], path, sizeof(path));
        print_message("%s\n", shapes[i]);
        assert_restores(path, NULL);
        assert_restores(path, "q8_0");
    }
}

static void assert_restored_row_cuts_to_the_same_bytes(const char *path)
{
    run r;
    uint8_t *first[N_ROWS_MAX];
    size_t n_rows;

    if (!open_model(&r, path))
        return;
    run_unbroken(&r, NULL);
    restore(&r, NULL);
    n_rows = r.n_rows;
    memcpy(first, r.rows, sizeof(first));
    r.n_rows = 0;
    for (uint32_t block = 0; r.in_blocks && block < N_BLOCKS; block++)
        cut_block(&r, block * BLOCK);
    if (r.has_rest)
        get_row(&r, SEQUENCE, HTH_STATE_REST);
    assert_int_equal(r.n_rows, n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        assert_memory_equal(r.rows[i], first[i], r.row_bytes[i]);
        free(first[i]);
    }
    close_model(&r);
}

TEST(a_restored_row_cuts_to_the_same_bytes)
{
    assert_restored_row_cuts_to_the_same_bytes(HTH_TEST_MODELS "/hearth-tiny.gguf");
    assert_restored_row_cuts_to_the_same_bytes("stub:");
    assert_restored_row_cuts_to_the_same_bytes("stub:kind=hybrid");
    assert_restored_row_cuts_to_the_same_bytes("stub:kind=recurrent");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char path[4096];

        hth_test_model(shapes[i], path, sizeof(path));
        if (!strstr(path, "window")) /* blocks before the window are cut at once or never */
            assert_restored_row_cuts_to_the_same_bytes(path);
    }
}

/* Swapping the contents of two blocks, positions kept, must be seen in what follows: a row belongs to its prefix. */
TEST(a_block_of_another_prefix_changes_what_follows)
{
    const char *const paths[] = { "stub:", HTH_TEST_MODELS "/hearth-tiny.gguf" };

    for (size_t i = 0; i < 2; i++) {
        run r;
        uint8_t *cells;

        assert_true(open_model(&r, paths[i]));
        run_unbroken(&r, NULL);
        cells = r.rows[1] + 16; /* after magic, sequence id, streams, cell count */
        assert_int_equal(r.row_bytes[0], r.row_bytes[1]);
        memcpy(cells + BLOCK * 12, r.rows[0] + 16 + BLOCK * 12, r.row_bytes[0] - 16 - BLOCK * 12);
        restore(&r, NULL);
        assert_true(continue_run(&r, r.logits) > 0);
        close_model(&r);
    }
}

/* ---- through a file, in another process ---- */

static void write_bytes(FILE *file, const void *bytes, size_t n_bytes)
{
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
}

static void read_bytes(FILE *file, void *bytes, size_t n_bytes)
{
    assert_int_equal(fread(bytes, 1, n_bytes, file), n_bytes);
}

static void write_run(const run *r, const char *path)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    write_bytes(file, &r->n_rows, sizeof(r->n_rows));
    for (size_t i = 0; i < r->n_rows; i++) {
        write_bytes(file, &r->row_bytes[i], sizeof(r->row_bytes[i]));
        write_bytes(file, r->rows[i], r->row_bytes[i]);
    }
    write_bytes(file, r->logits, (1 + N_STEPS) * r->info.n_vocab * sizeof(float));
    write_bytes(file, &r->rounding, sizeof(r->rounding));
    assert_int_equal(fclose(file), 0);
}

static void read_run(run *r, const char *path)
{
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    read_bytes(file, &r->n_rows, sizeof(r->n_rows));
    assert_true(r->n_rows <= N_ROWS_MAX);
    for (size_t i = 0; i < r->n_rows; i++) {
        read_bytes(file, &r->row_bytes[i], sizeof(r->row_bytes[i]));
        r->rows[i] = malloc(r->row_bytes[i]);
        assert_non_null(r->rows[i]);
        read_bytes(file, r->rows[i], r->row_bytes[i]);
    }
    r->logits = malloc((1 + N_STEPS) * r->info.n_vocab * sizeof(float));
    assert_non_null(r->logits);
    read_bytes(file, r->logits, (1 + N_STEPS) * r->info.n_vocab * sizeof(float));
    read_bytes(file, &r->rounding, sizeof(r->rounding));
    assert_int_equal(fclose(file), 0);
}

/* The second process. Its exit status is the answer. */
PLAYER(words)
{
    const char *model = words[0], *path = words[1];
    run r;
    size_t n_differing;

    if (!open_model(&r, model))
        return 2;
    read_run(&r, path);
    restore(&r, NULL);
    n_differing = continue_run(&r, r.logits);
    close_model(&r);
    return n_differing > 0;
}

static void assert_continues_in_a_fresh_process(const char *model)
{
    char *directory = hth_test_directory_new();
    char path[4096];
    int status = -1;
    pid_t pid;
    run r;

    (void)snprintf(path, sizeof(path), "%s/run", directory);
    assert_true(open_model(&r, model));
    run_unbroken(&r, NULL);
    write_run(&r, path);
    close_model(&r);

    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        PLAY(model, path);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    hth_test_directory_remove(directory);
}

TEST(a_fresh_process_continues_bit_for_bit)
{
    assert_continues_in_a_fresh_process(extra_model() ? extra_model() : HTH_TEST_MODELS "/hearth-tiny.gguf");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char path[4096];

        hth_test_model(shapes[i], path, sizeof(path));
        assert_continues_in_a_fresh_process(path);
    }
}
