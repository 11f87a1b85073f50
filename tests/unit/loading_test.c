/*
 * loading_test.c - a file is fingerprinted while the engine loads it, and a model has the fingerprint of what was
 * loaded
 */
#include <pthread.h>
#include <string.h>

#include "hearth.h"
#include "models/fingerprint.h"
#include "models/model.h"
#include "support/api.h"
#include "support/slow_file.h"
#include "support/support.h"

#define TINY HTH_TEST_MODELS "/hearth-tiny.gguf"

typedef struct fixture {
    char *directory;
    char path[512]; /* of a model that is read slowly */
    hearth_runtime *runtime;
} fixture;

static void set_up(fixture *f)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_error err;

    f->directory = hth_test_directory_new();
    (void)snprintf(f->path, sizeof(f->path), "%s/model.gguf", f->directory);
    slow_file_new(TINY, f->path);
    options.cache_directory = f->directory;
    options.ram_bytes_max = 64 << 20;
    options.disk_free_min = 0;
    assert_ok(hearth_runtime_open(&options, &f->runtime, &err), err);
}

static void tear_down(fixture *f)
{
    slow_file_release();
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* ---- the fingerprint ---- */

static const hth_fingerprint_options safe = { .mode = HEARTH_FINGERPRINT_SAFE };

static hth_fingerprinting *begin(const char *path)
{
    hth_fingerprinting *begun;

    assert_int_equal(hth_fingerprinting_new(path, &safe, NULL, NULL, &begun, NULL), HEARTH_OK);
    return begun;
}

static void expect_changed(hth_fingerprinting *begun, const char *path)
{
    uint8_t found[32];
    hearth_error err;

    slow_file_release();
    assert_int_equal(hth_fingerprinting_wait(begun, NULL, NULL, found, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "changed while it was loaded; load it again"));
    hth_fingerprinting_free(begun);
}

FIXTURE_TEST(a_fingerprint_that_is_waited_for_is_the_files)
{
    hth_fingerprinting *begun = begin(f->path);
    hth_fingerprint expected;
    uint8_t found[32];

    slow_file_release();
    assert_int_equal(hth_fingerprinting_wait(begun, NULL, NULL, found, NULL), HEARTH_OK);
    hth_fingerprinting_free(begun);
    assert_int_equal(hth_fingerprint_file(TINY, &safe, &expected, NULL), HEARTH_OK);
    assert_memory_equal(found, expected.bytes, sizeof(found));
}

FIXTURE_TEST(a_file_that_changed_meanwhile_has_no_fingerprint)
{
    hth_fingerprinting *begun = begin(f->path);

    slow_file_touch(f->path);
    expect_changed(begun, f->path);
}

FIXTURE_TEST(nor_has_one_that_another_took_the_place_of)
{
    hth_fingerprinting *begun = begin(f->path);
    char other[600];

    (void)snprintf(other, sizeof(other), "%s.other", f->path);
    slow_file_new(TINY, other); /* with the same bytes */
    assert_int_equal(rename(other, f->path), 0);
    expect_changed(begun, f->path);
}

FIXTURE_TEST(what_is_no_file_is_told_to_who_waits)
{
    hth_fingerprinting *begun = begin("/nowhere/at/all");
    uint8_t found[32];
    hearth_error err;

    assert_int_equal(hth_fingerprinting_wait(begun, NULL, NULL, found, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    hth_fingerprinting_free(begun);
}

FIXTURE_TEST(who_gives_up_does_not_wait_for_the_file)
{
    hth_fingerprinting *begun = begin(f->path);
    uint8_t found[32];

    hth_fingerprinting_cancel(begun);
    assert_int_equal(hth_fingerprinting_wait(begun, NULL, NULL, found, NULL), HEARTH_CANCELLED);
    hth_fingerprinting_free(begun);
    hth_fingerprinting_free(begin(f->path));
    hth_fingerprinting_free(NULL);
}

typedef struct progress {
    float last;
    size_t n;
    bool goes_back;
    size_t n_stop; /* stop with this call; 0: never */
} progress;

static bool note_progress(float fraction, void *user_data)
{
    progress *p = user_data;

    p->goes_back |= fraction < p->last;
    p->last = fraction;
    if (++p->n == 3)
        slow_file_release();
    return p->n != p->n_stop;
}

FIXTURE_TEST(who_waits_hears_how_much_is_hashed)
{
    hth_fingerprinting *begun = begin(f->path);
    progress told = { .n = 0 };
    uint8_t found[32];

    assert_true(hth_fingerprinting_fraction(begun) < 1); /* its first piece is not read yet */
    assert_int_equal(hth_fingerprinting_wait(begun, note_progress, &told, found, NULL), HEARTH_OK);
    assert_true(told.n >= 3);
    assert_false(told.goes_back);
    assert_true(told.last >= 1);
    hth_fingerprinting_free(begun);
}

FIXTURE_TEST(who_waits_may_stop_the_work)
{
    hth_fingerprinting *begun = begin(f->path);
    progress told = { .n_stop = 2 };
    uint8_t found[32];

    assert_int_equal(hth_fingerprinting_wait(begun, note_progress, &told, found, NULL), HEARTH_CANCELLED);
    hth_fingerprinting_free(begun);
}

/* ---- the model ---- */

static hearth_model *load_engine_watched(const fixture *f, hearth_work_fn on_work, void *user_data)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model;
    hearth_error err;

    options.n_ctx = 512;
    options.n_threads = 1;
    options.on_work = on_work;
    options.work_user_data = user_data;
    assert_ok(hth_model_load_engine(f->runtime, f->path, &options, &model, &err), err);
    return model;
}

FIXTURE_TEST(a_load_is_as_far_as_the_engine_and_the_hashing_are)
{
    hearth_model_options options = hearth_model_options_default();
    progress told = { .n = 3 }; /* so that nothing is released here */
    hearth_model *model;
    hearth_error err;

    options.n_ctx = 512;
    options.n_threads = 1;
    options.progress = note_progress;
    options.progress_user_data = &told;
    assert_ok(hth_model_load_engine(f->runtime, f->path, &options, &model, &err), err);
    assert_true(told.n > 3);
    assert_true(told.last < 1); /* the engine is ready, and the file is not hashed */
    slow_file_release();
    assert_ok(hth_model_identify(model, &err), err);
    assert_true(told.last >= 1);
    assert_false(told.goes_back);
    hth_test_model_end(f->runtime, model);
}

static hearth_model *load_engine(const fixture *f)
{
    return load_engine_watched(f, NULL, NULL);
}

static hearth_model_info info_of(hearth_model *model)
{
    hearth_model_info info = { .struct_size = sizeof(info) };

    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    return info;
}

FIXTURE_TEST(a_model_is_of_use_before_its_fingerprint_is_known)
{
    static const uint8_t zeros[32];
    hearth_model *model = load_engine(f);
    hearth_request request = hearth_request_default();
    hearth_model_info info = info_of(model);
    hth_fingerprint expected;
    const hearth_result *result;
    hearth_token tokens[64];
    hearth_error err;
    size_t n = 0;

    assert_string_equal(info.name, "model");
    assert_int_equal(info.n_ctx, 512);
    assert_int_equal(info.activity, HEARTH_IDLE);
    assert_memory_equal(info.fingerprint, zeros, sizeof(zeros));
    assert_int_equal(hearth_tokenize(model, "a fox", 5, 0, tokens, 64, &n, NULL), HEARTH_OK);
    assert_true(n > 0);
    assert_int_equal(hearth_runtime_models(f->runtime, NULL, 0, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 0);

    slow_file_release();
    assert_int_equal(hth_model_identify(model, &err), HEARTH_OK);
    info = info_of(model);
    assert_int_equal(hth_fingerprint_file(TINY, &safe, &expected, NULL), HEARTH_OK);
    assert_memory_equal(info.fingerprint, expected.bytes, sizeof(expected.bytes));
    assert_int_equal(hearth_runtime_models(f->runtime, NULL, 0, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 1);
    request.prompt = "Once upon a time";
    request.n_predict = 3;
    assert_int_equal(hearth_complete(model, &request, &result, NULL), HEARTH_OK);
    hearth_result_unref(result);
    hearth_model_unref(model);
}

FIXTURE_TEST(a_model_that_is_given_up_before_ends_at_once)
{
    hearth_model_unref(load_engine(f));
}

typedef struct waiting {
    hearth_model *model;
    hearth_status status;
} waiting;

static void *identify(void *context)
{
    waiting *w = context;

    w->status = hth_model_identify(w->model, NULL);
    return NULL;
}

FIXTURE_TEST(shutting_a_model_down_ends_the_wait_for_its_fingerprint)
{
    waiting w = { .model = load_engine(f) };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, identify, &w), 0);
    hth_model_shut_down(w.model);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(w.status, HEARTH_CANCELLED);
    hearth_model_unref(w.model);
}

/* What a watcher was told, which lets the file be read once it has seen enough. */
typedef struct watcher {
    pthread_mutex_t lock;
    int n_begun;
    bool is_at_work;
} watcher;

static void watch(const hearth_work *work, void *user_data)
{
    watcher *w = user_data;

    pthread_mutex_lock(&w->lock);
    w->n_begun += work->kind == HEARTH_WORK_BEGINS;
    if (work->kind == HEARTH_WORK_BEGINS || work->kind == HEARTH_WORK_ENDS)
        w->is_at_work = work->kind == HEARTH_WORK_BEGINS;
    if (w->n_begun == 20)
        slow_file_release();
    pthread_mutex_unlock(&w->lock);
}

FIXTURE_TEST(who_watches_sees_that_the_file_is_still_read)
{
    watcher w = { .n_begun = 0 };
    hearth_model *model;

    pthread_mutex_init(&w.lock, NULL);
    model = load_engine_watched(f, watch, &w);
    pthread_mutex_lock(&w.lock);
    assert_int_equal(w.n_begun, 0); /* nobody waits for it */
    pthread_mutex_unlock(&w.lock);
    assert_int_equal(hth_model_identify(model, NULL), HEARTH_OK); /* which is slow for ever without the watcher */
    pthread_mutex_lock(&w.lock);
    assert_true(w.n_begun >= 20);
    pthread_mutex_unlock(&w.lock);
    hth_test_model_end(f->runtime, model);
    assert_false(w.is_at_work);
    pthread_mutex_destroy(&w.lock);
}

static bool touch(float fraction, void *user_data)
{
    const fixture *f = user_data;

    (void)fraction;
    slow_file_touch(f->path);
    slow_file_release();
    return true;
}

FIXTURE_TEST(a_file_that_changes_while_it_is_loaded_is_refused)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model = NULL;
    hearth_error err;
    size_t n = 1;

    options.n_ctx = 512;
    options.progress = touch;
    options.progress_user_data = f;
    assert_int_equal(hearth_model_load(f->runtime, f->path, &options, &model, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, f->path));
    assert_null(model);
    assert_int_equal(hearth_runtime_models(f->runtime, NULL, 0, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 0);
}

FIXTURE_TEST(a_file_that_is_no_model_is_not_read_to_its_end)
{
    hearth_model *model;
    hearth_error err;
    FILE *file = fopen(f->path, "r+");

    assert_non_null(file);
    assert_int_equal(fwrite("PK\3\4", 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(hearth_model_load(f->runtime, f->path, NULL, &model, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, f->path));
}
