/*
 * embedder_test.c - the contexts of the embedder, and the bound of its line
 */
#include "sched/embedder.h"

#include <stdlib.h>
#include <string.h>

#include "stub/backend.h"
#include "support/cmocka_all.h"

typedef struct scene {
    hth_backend backend; /* the stub's, which counts the contexts that it makes */
    hth_engine_model *model;
    hth_embedder *embedder;
    uint64_t n_ids;
} scene;

static atomic_int n_contexts;

static hearth_status count_and_make(hth_engine_model *model, const hth_embedder_params *params,
                                    hth_engine_embedder **out, hearth_error *err)
{
    n_contexts++;
    return hth_backend_stub()->embedder_new(model, params, out, err);
}

static void open_scene(scene *s, const char *path, uint64_t bytes_max)
{
    static const hth_log silent = { .level = HEARTH_LOG_ERROR };
    hth_engine_model_params params = { .log = &silent };
    hth_embedder_options options = { .backend = &s->backend,
                                     .log = &silent,
                                     .n_tokens_max = 64,
                                     .n_threads = 1,
                                     .queue_max = 8,
                                     .bytes_max = bytes_max };

    *s = (scene){ .backend = *hth_backend_stub() };
    s->backend.embedder_new = count_and_make;
    n_contexts = 0;
    assert_int_equal(s->backend.model_load(path, &params, &s->model, NULL), HEARTH_OK);
    options.model = s->model;
    assert_int_equal(hth_embedder_new(&options, &s->embedder, NULL), HEARTH_OK);
}

static void close_scene(scene *s)
{
    hth_embedder_free(s->embedder);
    s->backend.model_free(s->model);
}

/* A request with one input of so many tokens. */
static hth_embed_job *job_of(scene *s, hearth_pooling pooling, uint32_t n_tokens)
{
    hth_embed_job *job = calloc(1, sizeof(*job));

    assert_non_null(job);
    job->tokens = calloc(n_tokens, sizeof(*job->tokens));
    job->n_tokens = calloc(1, sizeof(*job->n_tokens));
    assert_non_null(job->tokens);
    assert_non_null(job->n_tokens);
    job->n_tokens[0] = n_tokens;
    job->n_inputs = 1;
    job->id = ++s->n_ids;
    assert_int_equal(hth_embeddings_new(pooling, 8, job->n_tokens, 1, 1 << 20, &job->embeddings, NULL), HEARTH_OK);
    return job;
}

static hearth_status submit(scene *s, hearth_pooling pooling, uint32_t n_tokens, uint64_t *id_out)
{
    hth_embed_job *job = job_of(s, pooling, n_tokens);

    *id_out = job->id;
    return hth_embedder_submit(s->embedder, job, NULL);
}

TEST(requests_with_two_poolings_in_turn_keep_their_contexts)
{
    static const hearth_pooling poolings[] = { HEARTH_POOLING_MEAN, HEARTH_POOLING_LAST };
    scene s;
    uint64_t id;

    open_scene(&s, "stub:", UINT64_MAX);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(submit(&s, poolings[i % 2], 4, &id), HEARTH_OK);
        assert_true(hth_embedder_wait(s.embedder, id, UINT32_MAX));
    }
    assert_int_equal(n_contexts, 2);
    assert_int_equal(submit(&s, HEARTH_POOLING_CLS, 4, &id), HEARTH_OK); /* in place of mean, the least recent */
    assert_int_equal(submit(&s, HEARTH_POOLING_LAST, 4, &id), HEARTH_OK);
    assert_true(hth_embedder_wait(s.embedder, id, UINT32_MAX));
    assert_int_equal(n_contexts, 3);
    close_scene(&s);
}

TEST(requests_that_wait_have_a_bound_of_memory)
{
    const uint64_t n_bytes = 64 * 4 + 8 * 4; /* of one request: tokens and a vector */
    scene s;
    uint64_t id, first;

    open_scene(&s, "stub:delay_us=100000", 2 * n_bytes);
    assert_int_equal(submit(&s, HEARTH_POOLING_LAST, 64, &first), HEARTH_OK);
    assert_int_equal(submit(&s, HEARTH_POOLING_LAST, 64, &id), HEARTH_OK);
    assert_int_equal(submit(&s, HEARTH_POOLING_LAST, 1, &id), HEARTH_BUSY);
    assert_true(hth_embedder_cancel(s.embedder, first));
    assert_true(hth_embedder_wait(s.embedder, first, UINT32_MAX));
    assert_int_equal(submit(&s, HEARTH_POOLING_LAST, 64, &id), HEARTH_OK);
    close_scene(&s);
}

/* A slow reader: it keeps the vectors. */
static void keep(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    (void)id;
    *(const hearth_embeddings **)user_data = hearth_embeddings_ref(embeddings);
}

/* Submit a request whose vectors are kept, and wait until it has ended. */
static const hearth_embeddings *submit_and_keep(scene *s, bool counts_answer)
{
    hth_embed_job *job = job_of(s, HEARTH_POOLING_NONE, 64);
    const hearth_embeddings *kept = NULL;
    uint64_t id = job->id;

    job->counts_answer = counts_answer;
    job->on_done = keep;
    job->user_data = &kept;
    assert_int_equal(hth_embedder_submit(s->embedder, job, NULL), HEARTH_OK);
    assert_true(hth_embedder_wait(s->embedder, id, UINT32_MAX));
    assert_non_null(kept);
    return kept;
}

TEST(answers_that_are_still_being_read_count_in_the_bound_of_memory)
{
    const uint64_t n_vectors = 64 * 8 * 4, n_bytes = n_vectors + 64 * 4;
    const hearth_embeddings *slow, *mine;
    hearth_error err = { .message = "" };
    scene s;
    uint64_t id;

    open_scene(&s, "stub:", n_bytes + n_vectors - 1);
    slow = submit_and_keep(&s, true);
    assert_int_equal(hth_embedder_submit(s.embedder, job_of(&s, HEARTH_POOLING_NONE, 64), &err), HEARTH_BUSY);
    assert_non_null(strstr(err.message, "answers that are still being read"));
    assert_int_equal(err.retry_after_s, 1);
    assert_int_equal(submit(&s, HEARTH_POOLING_LAST, 4, &id), HEARTH_OK); /* there is room for it */
    assert_true(hth_embedder_wait(s.embedder, id, UINT32_MAX));
    hearth_embeddings_unref(slow);

    mine = submit_and_keep(&s, false); /* a program's own */
    slow = submit_and_keep(&s, true);
    close_scene(&s);
    assert_int_equal(slow->n_vectors[0], 64); /* the embeddings outlive the embedder */
    hearth_embeddings_unref(mine);
    hearth_embeddings_unref(slow);
}
