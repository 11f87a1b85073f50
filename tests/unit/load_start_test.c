/*
 * load_start_test.c - a model is loaded by the library's own thread, and a queue of events hears of it
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hearth.h"
#include "support/api.h"
#include "support/slow_file.h"
#include "support/support.h"

#define TINY HTH_TEST_MODELS "/hearth-tiny.gguf"

enum { PATIENCE_MS = 60000 };

typedef struct fixture {
    char *directory;
    hearth_runtime *runtime;
    hearth_events *queue;
} fixture;

static void set_up(fixture *f)
{
    hearth_runtime_options options;

    f->directory = hth_test_directory_new();
    options = hth_test_runtime_options(f->directory);
    f->runtime = hth_test_runtime_open(&options);
    assert_int_equal(hearth_events_open(NULL, &f->queue, NULL), HEARTH_OK);
}

static void tear_down(fixture *f)
{
    slow_file_release();
    hearth_events_close(f->queue);
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static uint64_t start(const fixture *f, const char *path, const hearth_model_options *options, void *user_data)
{
    hearth_error err;
    uint64_t id = 0;

    assert_ok(hearth_model_load_start(f->runtime, path, options, f->queue, user_data, &id, &err), err);
    assert_true(id > 0);
    return id;
}

/* The load's last event, valid until the next take; *n_loading how many came before. */
static const hearth_event *wait_for_end(const fixture *f, uint64_t id, void *user_data, int *n_loading)
{
    const hearth_event *event;
    size_t n;
    float last = -1;

    for (*n_loading = 0;; ++*n_loading) {
        assert_int_equal(hearth_events_take(f->queue, &event, 1, PATIENCE_MS, &n, NULL), HEARTH_OK);
        assert_int_equal(n, 1);
        assert_int_equal(event->id, id);
        assert_ptr_equal(event->user_data, user_data);
        if (event->kind == HEARTH_EVENT_LOADED)
            return event;
        assert_int_equal(event->kind, HEARTH_EVENT_LOADING);
        assert_true(event->fraction >= 0 && event->fraction <= 1 && event->fraction > last);
        last = event->fraction;
    }
}

FIXTURE_TEST(a_model_is_loaded_and_works)
{
    hearth_model_options options = hearth_model_options_default();
    struct {
        hearth_cache_policy known;
        uint64_t later; /* a field that this library does not know */
    } policy = { .later = 0 };
    hearth_model_info info = { .struct_size = sizeof(info) };
    char name[] = "called so", strategy[] = "balanced", shares[] = "3,1", overrides[] = "a=CPU";
    const char *list[] = { overrides };
    hearth_engine_options engine = hearth_engine_options_default();
    hearth_request request = hth_test_greedy("It works", 5);
    const hearth_event *event;
    const hearth_result *result;
    hearth_model *model;
    int n_loading;
    uint64_t id;

    options.name = name;
    options.strategy = strategy;
    options.n_ctx = 1024;
    hearth_cache_policy_init(&policy.known, sizeof(policy));
    options.cache_policy = &policy.known;
    engine.tensor_split = shares;
    engine.tensor_overrides = list;
    engine.n_tensor_overrides = 1;
    options.engine = &engine;
    id = start(f, "stub:", &options, f);
    memset(shares, 'x', sizeof(shares) - 1);
    memset(overrides, 'x', sizeof(overrides) - 1);
    engine.struct_size = 0;
    memset(name, 'x', sizeof(name) - 1); /* they were copied */
    memset(strategy, 'x', sizeof(strategy) - 1);
    policy.known.struct_size = 0;
    event = wait_for_end(f, id, f, &n_loading);
    assert_int_equal(event->status, HEARTH_OK);
    assert_null(event->error);
    assert_true(n_loading >= 2);
    model = event->model;
    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    assert_string_equal(info.name, "called so");
    assert_string_equal(info.strategy, "balanced");
    result = hth_test_complete(model, &request);
    hearth_result_unref(result);
    hearth_model_unref(model);
}

FIXTURE_TEST(what_is_wrong_with_a_file_is_told)
{
    int n_loading;
    uint64_t id = start(f, "/nowhere/at/all.gguf", NULL, NULL);
    const hearth_event *event = wait_for_end(f, id, NULL, &n_loading);

    assert_int_equal(event->status, HEARTH_NOT_FOUND);
    assert_non_null(strstr(event->error->message, "/nowhere/at/all.gguf"));
    assert_null(event->model);
}

FIXTURE_TEST(a_load_is_cancelled_while_its_file_is_fingerprinted)
{
    const hearth_event *event;
    char path[512];
    int n_loading;
    uint64_t id;

    (void)snprintf(path, sizeof(path), "%s/model.gguf", f->directory);
    slow_file_new(TINY, path);
    id = start(f, path, NULL, NULL);
    usleep(300000); /* likely by then; at any time it is right */
    assert_int_equal(hearth_model_load_cancel(f->runtime, id, NULL), HEARTH_OK);
    event = wait_for_end(f, id, NULL, &n_loading);
    assert_int_equal(event->status, HEARTH_CANCELLED);
    assert_int_equal(hearth_model_load_cancel(f->runtime, id + 1, NULL), HEARTH_NOT_FOUND);
}

FIXTURE_TEST(closing_ends_loads)
{
    hearth_runtime_options options = hth_test_runtime_options(f->directory);
    const hearth_event *event;
    char path[512];
    int n_loading;
    uint64_t id;

    (void)snprintf(path, sizeof(path), "%s/model.gguf", f->directory);
    slow_file_new(TINY, path);
    for (int i = 0; i < 3; i++) { /* the queue, and perhaps a model in it */
        (void)start(f, i == 0 ? path : "stub:", NULL, NULL);
        if (i == 2)
            usleep(100000);
        hearth_events_close(f->queue);
        assert_int_equal(hearth_events_open(NULL, &f->queue, NULL), HEARTH_OK);
    }
    id = start(f, path, NULL, NULL);
    hearth_runtime_close(f->runtime);
    event = wait_for_end(f, id, NULL, &n_loading);
    assert_int_equal(event->status, HEARTH_CANCELLED);
    hearth_events_close(f->queue);
    f->queue = NULL;
    f->runtime = hth_test_runtime_open(&options);
}

static bool on_progress(float fraction, void *user_data)
{
    (void)fraction, (void)user_data;
    return true;
}

/* Ends of loading threads, which take a while. */
static pthread_key_t of_thread;
static atomic_uint n_begun, n_gone;

static void thread_ends(void *value)
{
    (void)value;
    (void)usleep(50000); /* no signal cuts it short */
    atomic_fetch_add(&n_gone, 1);
}

/* On a thread that loads, among others. */
static void mark_thread(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    char name[16] = "";

    (void)level, (void)source, (void)message;
    if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0 || strcmp(name, "hearth-load") != 0 ||
        pthread_getspecific(of_thread))
        return;
    atomic_fetch_add(&n_begun, 1);
    assert_int_equal(pthread_setspecific(of_thread, user_data), 0);
}

TEST(no_thread_that_loads_outlives_its_runtime)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    fixture f;

    assert_int_equal(pthread_key_create(&of_thread, thread_ends), 0);
    options.cache_disabled = true;
    options.engine_directory = HTH_TEST_ENGINE_DIR;
    options.log = mark_thread;
    options.log_level = HEARTH_LOG_DEBUG;
    options.log_user_data = &f;
    f.runtime = hth_test_runtime_open(&options);
    assert_int_equal(hearth_events_open(NULL, &f.queue, NULL), HEARTH_OK);
    for (unsigned i = 0; i < 3; i++) {
        int n_loading;
        uint64_t id = start(&f, TINY, NULL, NULL);
        const hearth_event *event = wait_for_end(&f, id, NULL, &n_loading);

        assert_int_equal(event->status, HEARTH_OK);
        hearth_model_unref(event->model);
    }
    hearth_runtime_close(f.runtime);
    assert_int_equal(atomic_load(&n_begun), 3);
    assert_int_equal(atomic_load(&n_gone), 3);
    hearth_events_close(f.queue);
    pthread_key_delete(of_thread);
}

FIXTURE_TEST(what_cannot_be_started_is_refused)
{
    hearth_model_options options = hearth_model_options_default();
    const hearth_event *event;
    hearth_error err;
    uint64_t id = 7;
    size_t n;

    assert_int_equal(hearth_model_load_start(NULL, "stub:", NULL, f->queue, NULL, &id, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_load_start(f->runtime, NULL, NULL, f->queue, NULL, &id, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_load_start(f->runtime, "stub:", NULL, NULL, NULL, &id, &err), HEARTH_MISUSE);
    options.progress = on_progress;
    assert_int_equal(hearth_model_load_start(f->runtime, "stub:", &options, f->queue, NULL, &id, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "progress"));
    options.progress = NULL;
    options.n_parallel = 0;
    assert_int_equal(hearth_model_load_start(f->runtime, "stub:", &options, f->queue, NULL, &id, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "n_parallel"));
    assert_int_equal(id, 7); /* outputs are written on success only */
    assert_int_equal(hearth_events_take(f->queue, &event, 1, 0, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 0);
}
