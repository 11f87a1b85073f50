/*
 * llama_scene.h - what tests of the llama.cpp backend share: the tiny model, a context, and a log that counts
 *
 * The file has GROUP(with_the_engine, open_engine, close_engine).
 */
#ifndef HTH_TESTS_LLAMA_SCENE_H
#define HTH_TESTS_LLAMA_SCENE_H

#include <pthread.h>
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
static pthread_mutex_t logging = PTHREAD_MUTEX_INITIALIZER;

static inline void count_line(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)level;
    (void)user_data;
    (void)pthread_mutex_lock(&logging); /* some tests load on a thread of their own */
    logged.n_lines++;
    logged.has_newline |= strchr(message, '\n') != NULL;
    (void)snprintf(logged.source, sizeof(logged.source), "%s", source);
    (void)snprintf(logged.line, sizeof(logged.line), "%s", message);
    (void)pthread_mutex_unlock(&logging);
}

static const hth_log counting = { .level = HEARTH_LOG_DEBUG, .write = count_line };

static inline hearth_status load(const char *path, hth_engine_model **out, hearth_error *err)
{
    hth_engine_model_params params = { .log = &counting };

    return llama->model_load(path, &params, out, err);
}

static inline hth_engine_context_params context_params(void)
{
    return (hth_engine_context_params){ .n_ctx = N_CTX, .n_batch = N_BATCH, .n_seq_max = N_SEQ_MAX, .n_threads = 1 };
}

static inline int open_engine(void **state)
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

static inline int close_engine(void **state)
{
    (void)state;
    llama->context_free(context);
    llama->model_free(model);
    llama->context_free(NULL);
    llama->model_free(NULL);
    return 0;
}

static inline int empty_sequences(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_SEQ_MAX; i++)
        if (!llama->seq_remove(context, i, 0, UINT32_MAX))
            return 1;
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(void, no_fixture, name, empty_sequences, NULL)

static inline hearth_status evaluate(uint32_t sequence, uint32_t begin, uint32_t end, hth_decode_result *result)
{
    hth_batch_row rows[2 * N_BATCH];
    hearth_error err;

    for (uint32_t i = begin; i < end; i++)
        rows[i - begin] = (hth_batch_row){
            .token = (hearth_token)(i % 1000 + 5), .position = i, .sequence = sequence, .wants_logits = i + 1 == end
        };
    return llama->decode(context, rows, end - begin, result, &err);
}

static inline void fill(uint32_t sequence, uint32_t end)
{
    hth_decode_result result = HTH_DECODE_ABORTED;

    for (uint32_t begin = 0; begin < end; begin += N_BATCH) {
        uint32_t next = end - begin < N_BATCH ? end : begin + N_BATCH;

        assert_int_equal(evaluate(sequence, begin, next, &result), HEARTH_OK);
        assert_int_equal(result, HTH_DECODE_OK);
    }
}

/* The state of a sequence, malloc'ed. */
static inline uint8_t *cut(uint32_t sequence, size_t *n_bytes)
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

#endif
