/*
 * scheduler_threads_test.c - the scheduler under the hands of many threads
 *
 * Some threads submit, cancel and pause requests of their own, others save, ask for the status and end sessions, all
 * through the public interface on one model. Every accepted request ends exactly once; what ends well is what the
 * engine alone says (support/solo.h), what ends early a beginning of it. In the end the model is unloaded under what
 * still runs. For ThreadSanitizer above all.
 *
 * HEARTH_STRESS_REQUESTS: requests a thread (default 60).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hearth.h"
#include "stub/backend.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/solo.h"
#include "support/support.h"

enum { SUBMITTERS = 4, DISTURBERS = 2, PROMPTS = 12, TOKENS_MAX = 420, REPLY_MAX = 40, OPEN_MAX = 6 };

typedef struct world {
    char *directory;
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_token prompts[PROMPTS][TOKENS_MAX];
    size_t n_prompts[PROMPTS];
    hearth_token right[PROMPTS][REPLY_MAX];
    uint64_t n_requests;
    atomic_bool stops;
    atomic_uint n_wrong, n_twice, n_ended, n_well, n_accepted;
} world;

typedef struct job {
    world *w;
    unsigned prompt;
    atomic_bool ended;
    bool in_use;
    uint64_t id;
    char session[16];
    bool may_be_cancelled;
} job;

typedef struct hand {
    world *w;
    unsigned number;
    uint64_t seed;
    pthread_t thread;
    job jobs[OPEN_MAX];
} hand;

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    job *j = user_data;
    world *w = j->w;
    uint32_t n = result->stats->completion_tokens;

    (void)id;
    if (n > REPLY_MAX || (n > 0 && memcmp(result->tokens, w->right[j->prompt], n * sizeof(hearth_token)) != 0))
        atomic_fetch_add(&w->n_wrong, 1);
    if (result->status != HEARTH_OK && result->status != HEARTH_CANCELLED && result->status != HEARTH_TIMED_OUT)
        atomic_fetch_add(&w->n_wrong, 1);
    atomic_fetch_add(&w->n_well, result->status == HEARTH_OK);
    atomic_fetch_add(&w->n_ended, 1);
    if (atomic_exchange(&j->ended, true))
        atomic_fetch_add(&w->n_twice, 1);
}

static bool on_text(uint64_t id, const char *text, size_t n, void *user_data)
{
    (void)id, (void)text, (void)n, (void)user_data;
    return true;
}

static void submit(hand *h, job *j)
{
    world *w = h->w;
    hearth_request request = hth_test_greedy(NULL, 1 + (int32_t)hth_test_random(&h->seed, REPLY_MAX));
    hearth_status status;

    j->w = w;
    j->prompt = (unsigned)hth_test_random(&h->seed, PROMPTS);
    /* Not all: however slow the machine is, the others end as they should. */
    j->may_be_cancelled = hth_test_random(&h->seed, 2) == 0;
    atomic_store(&j->ended, false);
    request.tokens = w->prompts[j->prompt];
    request.n_tokens = w->n_prompts[j->prompt];
    request.priority = (int32_t)hth_test_random(&h->seed, 3);
    request.deadline_ms = hth_test_random(&h->seed, 10) == 0 ? 1 + (uint32_t)hth_test_random(&h->seed, 50) : 0;
    request.on_text = on_text;
    request.on_done = on_done;
    request.user_data = j;
    if (hth_test_random(&h->seed, 5) == 0) {
        (void)snprintf(j->session, sizeof(j->session), "talk %u", (unsigned)hth_test_random(&h->seed, 3));
        request.session_id = j->session;
    }
    status = hearth_submit(w->model, &request, &j->id, NULL);
    j->in_use = status == HEARTH_OK;
    atomic_fetch_add(&w->n_accepted, j->in_use);
    if (status != HEARTH_OK && status != HEARTH_BUSY && status != HEARTH_CANCELLED)
        atomic_fetch_add(&w->n_wrong, 1);
}

/* Submit, cancel, pause and go on, until all of its requests are submitted; then wait for them unless the end comes. */
static void *submit_all(void *context)
{
    hand *h = context;
    uint64_t n_left = h->w->n_requests;
    unsigned n_open = 0;

    while (n_left > 0 || n_open > 0) {
        job *j = &h->jobs[hth_test_random(&h->seed, OPEN_MAX)];

        n_open = 0;
        for (unsigned i = 0; i < OPEN_MAX; i++) {
            if (h->jobs[i].in_use && atomic_load(&h->jobs[i].ended))
                h->jobs[i].in_use = false;
            n_open += h->jobs[i].in_use;
        }
        if (!j->in_use && n_left > 0) {
            submit(h, j);
            n_left--;
        } else if (j->in_use) {
            switch (hth_test_random(&h->seed, 60)) {
            case 0:
                if (j->may_be_cancelled)
                    (void)hearth_cancel(h->w->model, j->id, NULL);
                break;
            case 1:
            case 2: (void)hearth_pause(h->w->model, j->id, true, NULL); break;
            default: (void)hearth_pause(h->w->model, j->id, false, NULL); break;
            }
        }
        (void)usleep(100);
    }
    return NULL;
}

static void *disturb(void *context)
{
    hand *h = context;
    world *w = h->w;

    while (!atomic_load(&w->stops)) {
        hearth_model_info info = { .struct_size = sizeof(info) };
        char session[16];

        switch (hth_test_random(&h->seed, 6)) {
        case 0: (void)hearth_model_save(w->model, HEARTH_SAVE_EVICT, 20000, NULL); break;
        case 1: (void)hearth_model_save(w->model, HEARTH_SAVE_SHUTDOWN, 20000, NULL); break;
        case 2:
            (void)snprintf(session, sizeof(session), "talk %u", (unsigned)hth_test_random(&h->seed, 3));
            (void)hearth_session_end(w->model, session, NULL, NULL);
            break;
        default: (void)hearth_model_info_get(w->model, &info, NULL); break;
        }
        (void)usleep(500);
    }
    return NULL;
}

static void make_world(world *w, const char *path, uint64_t *seed)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options model_options = hearth_model_options_default();
    hth_engine_model_params params = { .n_gpu_layers = 0 };
    const hth_backend *stub = hth_backend_stub();
    hearth_sampling greedy = hearth_sampling_default();
    hth_engine_model *model;

    greedy.temperature = 0;
    assert_int_equal(stub->model_load(path, &params, &model, NULL), HEARTH_OK);
    for (unsigned i = 0; i < PROMPTS; i++) {
        size_t shared = i == 0 ? 0 : hth_test_random(seed, w->n_prompts[i - 1]);

        w->n_prompts[i] = shared + 1 + hth_test_random(seed, 60);
        if (w->n_prompts[i] > TOKENS_MAX)
            w->n_prompts[i] = TOKENS_MAX;
        if (i % 4 == 0) {
            shared = 0;
            w->n_prompts[i] = 260 + 30 * i / 4;
        }
        for (size_t k = 0; k < w->n_prompts[i]; k++)
            w->prompts[i][k] = k < shared ? w->prompts[i - 1][k] : (hearth_token)('a' + hth_test_random(seed, 26));
        test_solo_chain(stub, model, w->prompts[i], w->n_prompts[i], &greedy, REPLY_MAX, 64, w->right[i]);
    }
    stub->model_free(model);
    w->directory = hth_test_directory_new();
    options.cache_directory = w->directory;
    options.disk_free_min = 0;
    options.ram_bytes_max = 4 << 20;
    options.log_level = HEARTH_LOG_ERROR;
    w->runtime = hth_test_runtime_open(&options);
    model_options.n_ctx = 1200;
    model_options.n_batch = 64;
    model_options.n_parallel = 5;
    model_options.queue_max = 20;
    model_options.aging_ms = 5;
    model_options.session_idle_ms = 20;
    model_options.stalled_ms = 100;
    model_options.max_tick_ms = 5;
    w->model = hth_test_model_load(w->runtime, path, &model_options);
}

static void stress(const char *path)
{
    world *w = calloc(1, sizeof(*w));
    hand *hands = calloc(SUBMITTERS + DISTURBERS, sizeof(*hands));
    uint64_t seed = hth_test_seed();
    static job last_jobs[OPEN_MAX];

    assert_true(w && hands);
    w->n_requests = hth_test_number("HEARTH_STRESS_REQUESTS", 60);
    make_world(w, path, &seed);
    for (unsigned i = 0; i < SUBMITTERS + DISTURBERS; i++) {
        hands[i] = (hand){ .w = w, .number = i, .seed = hth_test_random(&seed, UINT64_C(1) << 60) };
        assert_int_equal(pthread_create(&hands[i].thread, NULL, i < SUBMITTERS ? submit_all : disturb, &hands[i]), 0);
    }
    for (unsigned i = 0; i < SUBMITTERS; i++)
        (void)pthread_join(hands[i].thread, NULL);
    for (unsigned i = 0; i < OPEN_MAX; i++) { /* and unload under these */
        hearth_request request = hth_test_greedy(NULL, REPLY_MAX);

        last_jobs[i].w = w;
        last_jobs[i].prompt = i;
        atomic_store(&last_jobs[i].ended, false);
        request.tokens = w->prompts[i];
        request.n_tokens = w->n_prompts[i];
        request.on_done = on_done;
        request.user_data = &last_jobs[i];
        assert_int_equal(hearth_submit(w->model, &request, NULL, NULL), HEARTH_OK);
        atomic_fetch_add(&w->n_accepted, 1);
    }
    atomic_store(&w->stops, true);
    for (unsigned i = SUBMITTERS; i < SUBMITTERS + DISTURBERS; i++)
        (void)pthread_join(hands[i].thread, NULL);
    hearth_model_unref(w->model);
    hearth_runtime_close(w->runtime);
    hth_test_directory_remove(w->directory);
    printf("%s: %u requests accepted, %u ended, %u of them well\n", path, atomic_load(&w->n_accepted),
           atomic_load(&w->n_ended), atomic_load(&w->n_well));
    assert_int_equal(atomic_load(&w->n_wrong), 0);
    assert_int_equal(atomic_load(&w->n_twice), 0);
    assert_int_equal(atomic_load(&w->n_ended), atomic_load(&w->n_accepted));
    assert_true(atomic_load(&w->n_well) > 0);
    free(hands);
    free(w);
}

TEST(many_threads_at_one_model)
{
    stress("stub:");
    stress("stub:kind=window");
    stress("stub:kind=recurrent");
    stress("stub:kind=hybrid");
}
