/*
 * deterministic_test.c - a deterministic model: the same request has the same reply, bit for bit
 *
 * A set of requests runs one after the other on a model that knows nothing. Then it runs in other ways: from memory and
 * from files, all at once in contexts with room for few, with priorities that preempt, in parts (with replayed tokens),
 * with drafts, other threads, batches, chunks and numbers of slots, after restarts. Tokens and the bits of log
 * probabilities must be the same each time.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { REQUESTS = 10, PROMPT_MAX = 700, REPLY = 24, PATH_BYTES = 4096, N_TOP = 2 };

typedef struct wanted {
    hearth_token prompt[PROMPT_MAX];
    size_t n_prompt;
    hearth_sampling sampling;
    hearth_token reply[REPLY];
    size_t n_reply;
    hearth_logprob logprobs[REPLY * (1 + N_TOP)];
    uint64_t id;
    bool was_paused;
} wanted;

typedef struct fixture {
    char *directory;
    char path[PATH_BYTES];
    hearth_runtime *runtime;
    hearth_model *model;
    wanted requests[REQUESTS];
    uint64_t seed;
    /* Replies that have not come back; results [REQUESTS]. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_open;
    size_t n_paused;
    const hearth_result *results[REQUESTS];
} fixture;

/* The way in which the requests run. */
typedef struct way {
    const char *name;
    uint32_t n_parallel, n_ctx, n_batch, n_threads, prefill_chunk, draft_max;
    bool forgets;     /* the runtime is opened anew, in an empty directory */
    bool at_once;     /* all are submitted before the first has ended */
    bool in_parts;    /* each one runs again from the middle, its first tokens replayed */
    bool has_ranks;   /* later ones have higher priorities */
    bool backwards;   /* the last one first */
    bool is_uncached; /* requests read nothing */
    bool restores;    /* the rows of the way before are found */
    bool preempts;    /* later ones find the first in their replies, and take their places */
} way;

static void open_model(fixture *f, const way *w)
{
    hearth_runtime_options options;
    hearth_model_options model_options = hearth_model_options_default();

    if (w->forgets) {
        hth_test_directory_remove(f->directory);
        f->directory = hth_test_directory_new();
    }
    options = hth_test_runtime_options(f->directory);
    options.history_bytes_max = 1 << 20;
    model_options.deterministic = true;
    model_options.n_parallel = w->n_parallel ? w->n_parallel : 4;
    model_options.n_ctx = w->n_ctx ? w->n_ctx : 4096;
    model_options.n_threads = w->n_threads ? w->n_threads : 2;
    model_options.n_batch = w->n_batch ? w->n_batch : 512;
    model_options.prefill_chunk = w->prefill_chunk ? w->prefill_chunk : 256;
    model_options.draft_max = w->draft_max;
    f->runtime = hth_test_runtime_open(&options);
    f->model = hth_test_model_load(f->runtime, f->path, &model_options);
}

static void close_model(fixture *f)
{
    hth_test_model_end(f->runtime, f->model);
    hearth_runtime_close(f->runtime);
}

static hearth_request request_of(const wanted *w)
{
    hearth_request request = hearth_request_default();

    request.tokens = w->prompt;
    request.n_tokens = w->n_prompt;
    request.sampling = &w->sampling;
    request.n_predict = REPLY;
    request.ignore_eos = true;
    request.logprobs = true;
    request.n_top_logprobs = N_TOP;
    return request;
}

static void write_requests(fixture *f)
{
    static const size_t shared[] = { 0, 3, 90, 256, 300, 513 };

    for (size_t i = 0; i < REQUESTS; i++) {
        wanted *w = &f->requests[i];
        size_t n_shared = i == 0 ? 0 : shared[hth_test_random(&f->seed, sizeof(shared) / sizeof(shared[0]))];

        w->n_prompt = i == 0 ? PROMPT_MAX - REPLY : n_shared + 1 + hth_test_random(&f->seed, 120);
        for (size_t k = 0; k < w->n_prompt; k++)
            w->prompt[k] = k < n_shared && i > 0 ? f->requests[0].prompt[k]
                                                 : 3 + (hearth_token)hth_test_random(&f->seed, i % 2 ? 20 : 200);
        w->sampling = hearth_sampling_default();
        w->sampling.temperature = i % 3 == 0 ? 0 : 1.2f;
        w->sampling.seed = 100 + i;
    }
}

/* The last request goes on where the first one ended. */
static void continue_first(fixture *f)
{
    const wanted *first = &f->requests[0];
    wanted *last = &f->requests[REQUESTS - 1];

    memcpy(last->prompt, first->prompt, first->n_prompt * sizeof(*first->prompt));
    memcpy(last->prompt + first->n_prompt, first->reply, first->n_reply * sizeof(*first->reply));
    last->n_prompt = first->n_prompt + first->n_reply;
}

static void compare(const wanted *w, const hearth_result *result, size_t n_replayed, size_t i, const char *name)
{
    if (result->status != HEARTH_OK)
        fail_msg("%s, request %zu: %s", name, i, result->error.message);
    assert_int_equal(result->stats->completion_tokens, w->n_reply);
    for (size_t k = 0; k < w->n_reply; k++) {
        if (result->tokens[k] != w->reply[k])
            fail_msg("%s, request %zu: token %zu is %d instead of %d", name, i, k, result->tokens[k], w->reply[k]);
        if (k >= n_replayed && memcmp(&result->logprobs[k * (1 + N_TOP)], &w->logprobs[k * (1 + N_TOP)],
                                      (1 + N_TOP) * sizeof(hearth_logprob)) != 0)
            fail_msg("%s, request %zu: token %zu has other probabilities", name, i, k);
    }
}

static void take(uint64_t id, const hearth_result *result, void *user_data)
{
    fixture *f = user_data;

    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < REQUESTS; i++)
        if (f->requests[i].id == id)
            f->results[i] = hearth_result_ref(result);
    f->n_open--;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

/* The hearth_token_fn of requests that are to stay in their replies until others have come. */
static bool pause_once(uint64_t id, const hearth_token_event *event, void *user_data)
{
    fixture *f = user_data;

    (void)event;
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < REQUESTS; i++)
        if (f->requests[i].id == id && !f->requests[i].was_paused) {
            f->requests[i].was_paused = true;
            f->n_paused++;
            assert_int_equal(hearth_pause(f->model, id, true, NULL), HEARTH_OK);
            pthread_cond_signal(&f->changed);
        }
    pthread_mutex_unlock(&f->lock);
    return true;
}

static void submit(fixture *f, const way *w, size_t i)
{
    hearth_request request = request_of(&f->requests[i]);
    hearth_error err = { .message = "" };
    hearth_token guess[REPLY];

    request.no_cache_read = w->is_uncached;
    request.priority = w->has_ranks ? (int32_t)i : 0;
    request.on_done = take;
    request.user_data = f;
    if (w->preempts && i < w->n_parallel)
        request.on_token = pause_once;
    if (w->draft_max > 0) { /* the reply, with some wrong tokens */
        for (size_t k = 0; k < REPLY; k++)
            guess[k] = f->requests[i].reply[k] ^ (k % 7 == 6);
        request.draft_tokens = guess;
        request.n_draft_tokens = REPLY;
    }
    pthread_mutex_lock(&f->lock); /* take() waits until the id is known */
    f->n_open++;
    if (hearth_submit(f->model, &request, &f->requests[i].id, &err) != HEARTH_OK)
        fail_msg("%s, request %zu: %s", w->name, i, err.message);
    pthread_mutex_unlock(&f->lock);
}

static void wait_until_open(fixture *f, size_t n)
{
    pthread_mutex_lock(&f->lock);
    while (f->n_open > n)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static void wait_until_paused(fixture *f, size_t n)
{
    pthread_mutex_lock(&f->lock);
    while (f->n_paused < n)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

/* Let the first n go on when all others have ended. */
static void go_on(fixture *f, size_t n)
{
    wait_until_open(f, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(hearth_pause(f->model, f->requests[i].id, false, NULL), HEARTH_OK);
}

static void run_all(fixture *f, const way *w)
{
    uint64_t n_restored = 0, n_preempted = 0, n_drafted = 0;

    f->n_paused = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        f->requests[i].id = UINT64_MAX; /* ids of the runtime before would count as those of this one */
        f->requests[i].was_paused = false;
    }
    for (size_t k = 0; k < REQUESTS; k++) {
        submit(f, w, w->backwards ? REQUESTS - 1 - k : k);
        if (!w->at_once)
            wait_until_open(f, 0);
        if (w->preempts && k + 1 == w->n_parallel)
            wait_until_paused(f, w->n_parallel);
    }
    if (w->preempts)
        go_on(f, w->n_parallel);
    wait_until_open(f, 0);
    for (size_t i = 0; i < REQUESTS; i++) {
        compare(&f->requests[i], f->results[i], 0, i, w->name);
        n_restored += f->results[i]->stats->rows_restored;
        n_preempted += f->results[i]->stats->n_preempted;
        n_drafted += f->results[i]->stats->draft_tokens;
        hearth_result_unref(f->results[i]);
    }
    if (w->restores && n_restored == 0)
        fail_msg("%s: no row was restored", w->name);
    if (w->preempts && n_preempted == 0)
        fail_msg("%s: no request made room for another", w->name);
    if (w->draft_max > 0 && n_drafted == 0)
        fail_msg("%s: nothing was guessed", w->name);
}

/* Each reply goes on in the middle, as after the death of a worker. */
static void run_parts(fixture *f, const way *w)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        hearth_request request = request_of(&f->requests[i]);
        const hearth_result *result;

        request.replayed = f->requests[i].reply;
        request.n_replayed = 1 + hth_test_random(&f->seed, f->requests[i].n_reply - 1);
        result = hth_test_complete(f->model, &request);
        compare(&f->requests[i], result, request.n_replayed, i, w->name);
        hearth_result_unref(result);
    }
}

/* The replies that all others must equal. */
static void learn(fixture *f)
{
    const way cold = { .forgets = true, .n_parallel = 1, .n_threads = 1 };

    open_model(f, &cold);
    for (size_t i = 0; i < REQUESTS; i++) {
        wanted *w = &f->requests[i];
        hearth_request request = request_of(w);
        const hearth_result *result;

        if (i + 1 == REQUESTS) {
            continue_first(f);
            request = request_of(w);
        }
        request.no_cache_read = true;
        result = hth_test_complete(f->model, &request);
        w->n_reply = result->stats->completion_tokens;
        assert_int_equal(w->n_reply, REPLY);
        assert_int_equal(result->stats->cached_tokens, 0);
        memcpy(w->reply, result->tokens, w->n_reply * sizeof(*w->reply));
        memcpy(w->logprobs, result->logprobs, w->n_reply * (1 + N_TOP) * sizeof(*w->logprobs));
        hearth_result_unref(result);
    }
    close_model(f);
}

/* ---- refusals ---- */

/* Load a model; the message of a refusal goes to err. */
static hearth_status try_to_load(const char *path, int32_t n_gpu_layers, hearth_model_info *info, hearth_error *err)
{
    char *directory = hth_test_directory_new();
    hearth_runtime_options options = hth_test_runtime_options(directory);
    hearth_model_options model_options = hearth_model_options_default();
    hearth_runtime *runtime = hth_test_runtime_open(&options);
    hearth_model *model = NULL;
    hearth_status status;

    model_options.deterministic = true;
    model_options.n_ctx = 512;
    model_options.n_gpu_layers = n_gpu_layers;
    status = hearth_model_load(runtime, path, &model_options, &model, err);
    if (status == HEARTH_OK) {
        assert_int_equal(hearth_model_info_get(model, info, err), HEARTH_OK);
        hearth_model_unref(model);
    }
    hearth_runtime_close(runtime);
    hth_test_directory_remove(directory);
    return status;
}

/* A build with the engine's own attention refuses every model. */
static bool is_possible(void)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_error err = { .message = "" };
    hearth_status status = try_to_load(HTH_TEST_MODELS "/hearth-tiny.gguf", 0, &info, &err);

    if (status == HEARTH_OK)
        assert_true(info.deterministic);
    else if (status != HEARTH_UNSUPPORTED || !strstr(err.message, "own attention"))
        fail_msg("%s", err.message);
    return status == HEARTH_OK;
}

static void check_model(const char *shape)
{
    static const way ways[] = {
        { "cold, one after the other", .forgets = true },
        { "from files", .n_parallel = 2, .restores = true },
        { "from files, all at once", .n_parallel = 8, .at_once = true, .restores = true },
        { "cold, all at once", .forgets = true, .n_parallel = 10, .n_ctx = 8192, .at_once = true },
        { "in parts", .in_parts = true },
        { "in a small context", .forgets = true, .n_parallel = 5, .n_ctx = 1024, .at_once = true },
        { "with preemption", .forgets = true, .n_parallel = 3, .n_ctx = 2048, .at_once = true, .has_ranks = true,
          .preempts = true },
        { "small batches", .forgets = true, .n_batch = 65, .n_threads = 3, .at_once = true, .backwards = true },
        { "small chunks", .forgets = true, .prefill_chunk = 64, .n_threads = 1, .at_once = true },
        { "drafts", .draft_max = 6, .at_once = true },
        { "cold in parts", .forgets = true, .in_parts = true, .n_parallel = 1 },
        { "backwards", .forgets = true, .backwards = true },
        { "uncached, all at once", .at_once = true, .is_uncached = true, .n_parallel = 7 },
    };
    fixture *f;

    if (!is_possible())
        skip();
    f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->directory = hth_test_directory_new();
    f->seed = hth_test_seed();
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    if (shape)
        hth_test_model(shape, f->path, sizeof(f->path));
    else
        (void)snprintf(f->path, sizeof(f->path), "%s/hearth-tiny.gguf", HTH_TEST_MODELS);
    write_requests(f);
    learn(f);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        open_model(f, &ways[i]);
        if (ways[i].in_parts)
            run_parts(f, &ways[i]);
        else
            run_all(f, &ways[i]);
        close_model(f);
    }
    hth_test_directory_remove(f->directory);
    free(f);
}

/* ---- tests ---- */

TEST(replies_are_the_same_in_every_way_of_running)
{
    check_model(NULL);
}

TEST(so_they_are_with_repacked_weights)
{
    check_model("tiny-llama-wide");
}

TEST(so_they_are_with_f16_weights)
{
    check_model("tiny-llama");
}

static void expect_unsupported(hearth_status status, const hearth_error *err, const char *words)
{
    assert_int_equal(status, HEARTH_UNSUPPORTED);
    if (!strstr(err->message, words))
        fail_msg("'%s' does not say '%s'", err->message, words);
}

TEST(a_model_of_another_kind_is_refused_with_the_reason)
{
    static const char *const shapes[] = { "tiny-window", "tiny-recurrent", "tiny-hybrid" };

    if (!is_possible())
        skip();
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        hearth_error err = { .message = "" };
        char path[PATH_BYTES];

        hth_test_model(shapes[i], path, sizeof(path));
        assert_int_equal(try_to_load(path, 0, NULL, &err), HEARTH_UNSUPPORTED);
        assert_non_null(strstr(err.message, "deterministic: architecture '"));
    }
}

TEST(so_they_are_with_experts)
{
    check_model("tiny-experts-wide");
}

TEST(a_model_whose_experts_are_of_i_quants_is_refused_with_the_reason)
{
    hearth_error err = { .message = "" };
    char path[PATH_BYTES];

    if (!is_possible())
        skip();
    hth_test_model("tiny-experts-iq", path, sizeof(path));
    expect_unsupported(try_to_load(path, 0, NULL, &err), &err, "experts with weights of a type IQ1 to IQ4_XS");
}

TEST(a_model_without_flash_attention_is_refused_with_the_reason)
{
    hearth_error err = { .message = "" };
    char path[PATH_BYTES];

    if (!is_possible())
        skip();
    hth_test_model("tiny-grok", path, sizeof(path));
    expect_unsupported(try_to_load(path, 0, NULL, &err), &err, "this needs flash attention");
}

TEST(an_encoder_is_refused_with_the_reason)
{
    hearth_error err = { .message = "" };
    char path[PATH_BYTES];

    hth_test_model("tiny-bert", path, sizeof(path));
    assert_int_equal(try_to_load(path, 0, NULL, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "do not generate text"));
}

TEST(a_second_adapter_that_all_requests_would_have_is_refused)
{
    static const char reason[] = "a deterministic model runs a request with one adapter at most";
    hearth_adapter_options waiting = hearth_adapter_options_default();
    hearth_adapter_scale both[] = { { 0, 1 }, { 1, 0 } };
    const way w = { .forgets = true };
    fixture f = { .directory = hth_test_directory_new() };
    hearth_error err = { .message = "" };
    char paths[2][PATH_BYTES];
    hearth_request request;

    if (!is_possible())
        skip();
    (void)snprintf(f.path, sizeof(f.path), "%s/hearth-tiny.gguf", HTH_TEST_MODELS);
    open_model(&f, &w);
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(paths[i], PATH_BYTES, "%s/%zu.gguf", f.directory, i);
        hth_test_adapter("-g 1", f.path, paths[i]);
    }
    waiting.scale = 0;
    assert_ok(hearth_adapter_load(f.model, paths[0], NULL, NULL, &err), err);
    expect_unsupported(hearth_adapter_load(f.model, paths[1], NULL, NULL, &err), &err, reason);
    assert_ok(hearth_adapter_load(f.model, paths[1], &waiting, NULL, &err), err);
    assert_ok(hearth_adapters_scale(f.model, both, 2, &err), err);
    both[1].scale = 0.5f;
    expect_unsupported(hearth_adapters_scale(f.model, both, 2, &err), &err, reason);
    request = hth_test_greedy("It works", 3);
    hearth_result_unref(hth_test_complete(f.model, &request));
    request.adapters = both;
    request.n_adapters = 2;
    expect_unsupported(hearth_submit(f.model, &request, &(uint64_t){ 0 }, &err), &err, reason);
    close_model(&f);
    hth_test_directory_remove(f.directory);
}
