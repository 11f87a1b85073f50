/*
 * runtime_test.c - the public API on the stub engine: what its header promises, and how it says no
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"
#include "models/runtime.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    hearth_runtime *runtime;
    _Atomic int n_warnings;
} fixture;

static void count_warnings(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source, (void)message;
    if (level <= HEARTH_LOG_WARNING)
        atomic_fetch_add(&f->n_warnings, 1);
}

static hearth_runtime *open_runtime(fixture *f)
{
    hearth_runtime_options options = hth_test_runtime_options(f->directory);

    options.log = count_warnings;
    options.log_user_data = f;
    return hth_test_runtime_open(&options);
}

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->runtime = open_runtime(f);
}

static void tear_down(fixture *f)
{
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static hearth_model *load(hearth_runtime *runtime, const char *path)
{
    return hth_test_model_load(runtime, path, NULL);
}

/* ---- what is promised ---- */

FIXTURE_TEST(a_prompt_is_computed_once)
{
    hearth_model *model = load(f->runtime, "stub:");
    char *prompt = hth_test_prompt(700, 0);
    hearth_request request = hth_test_greedy(prompt, 20);
    const hearth_result *cold = hth_test_complete(model, &request);
    const hearth_result *live = hth_test_complete(model, &request);
    const hearth_result *warm;

    assert_int_equal(cold->stats->hit, HEARTH_HIT_NONE);
    assert_int_equal(cold->stats->cached_tokens, 0);
    assert_int_equal(live->stats->hit, HEARTH_HIT_EXACT);
    assert_int_equal(live->stats->n_prefill_evaluations, 0);
    assert_int_equal(live->stats->cached_tokens, live->stats->prompt_tokens);
    assert_string_equal(live->text, cold->text);

    /* A new runtime on the same directory: nothing is live, nothing in RAM. */
    hearth_model_unref(model);
    hearth_runtime_close(f->runtime);
    f->runtime = open_runtime(f);
    model = load(f->runtime, "stub:");
    warm = hth_test_complete(model, &request);
    assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
    assert_int_equal(warm->stats->tier, HEARTH_TIER_DISK);
    assert_int_equal(warm->stats->n_prefill_evaluations, 0);
    assert_string_equal(warm->text, cold->text);
    assert_memory_equal(warm->stats->finish_key, cold->stats->finish_key, 32);
    assert_int_equal(atomic_load(&f->n_warnings), 0);
    hearth_result_unref(cold);
    hearth_result_unref(live);
    hearth_result_unref(warm);
    hearth_model_unref(model);
    free(prompt);
}

FIXTURE_TEST(a_shared_beginning_is_used_to_the_token)
{
    hearth_model *model = load(f->runtime, "stub:");
    char *first = hth_test_prompt(1000, 0);
    char *second = hth_test_prompt(1000, 0);
    hearth_request request = hth_test_greedy(first, 5);
    const hearth_result *result = hth_test_complete(model, &request);
    hearth_counters before, after;

    hearth_result_unref(result);
    assert_int_equal(hearth_model_save(model, HEARTH_SAVE_EVICT, 10000, NULL), HEARTH_OK);
    before = hth_test_counters(f->runtime);
    memset(second + 650, '#', 350);
    request.prompt = second;
    result = hth_test_complete(model, &request);
    assert_int_equal(result->stats->hit, HEARTH_HIT_PREFIX);
    assert_in_range(result->stats->cached_tokens, 650, 652); /* and the token that begins every text */

    /* Compute it without anything cached: the same text. */
    request.no_cache_read = true;
    const hearth_result *alone = hth_test_complete(model, &request);
    assert_string_equal(alone->text, result->text);
    assert_int_equal(alone->stats->cached_tokens, 0);
    assert_int_equal(hearth_runtime_flush(f->runtime, 10000, NULL), HEARTH_OK);
    after = hth_test_counters(f->runtime);
    assert_true(after.rows_saved - before.rows_saved <= 6); /* new blocks, tails, logits; not the shared ones again */
    hearth_result_unref(result);
    hearth_result_unref(alone);
    hth_test_model_end(f->runtime, model);
    free(first);
    free(second);
}

FIXTURE_TEST(a_prompt_that_shares_1500_of_2048_tokens_writes_its_own_blocks_only)
{
    enum { N = 2048, SHARED = 1500, SHARED_BLOCKS = SHARED / 256 };
    hearth_model *model = load(f->runtime, "stub:");
    hearth_request request = hth_test_greedy(NULL, 1);
    hearth_token tokens[N];
    hearth_counters before, after;
    const hearth_result *first, *second;

    for (int i = 0; i < N; i++)
        tokens[i] = 'a' + i * 7 % 26;
    request.tokens = tokens;
    request.n_tokens = N;
    first = hth_test_complete(model, &request);
    assert_int_equal(hearth_model_save(model, HEARTH_SAVE_EVICT, 10000, NULL), HEARTH_OK);
    before = hth_test_counters(f->runtime);
    assert_int_equal(before.rows_written, N / 256 + 1); /* the blocks and the logits */

    for (int i = SHARED; i < N; i++)
        tokens[i] = 'A' + i * 5 % 26;
    second = hth_test_complete(model, &request);
    assert_int_equal(second->stats->hit, HEARTH_HIT_PREFIX);
    assert_int_equal(second->stats->cached_tokens, SHARED);
    assert_int_equal(hearth_runtime_flush(f->runtime, 10000, NULL), HEARTH_OK);
    after = hth_test_counters(f->runtime);
    assert_int_equal(after.rows_written - before.rows_written, N / 256 - SHARED_BLOCKS + 1);
    assert_true(after.bytes_written - before.bytes_written < before.bytes_written / 2);
    hearth_result_unref(first);
    hearth_result_unref(second);
    hearth_model_unref(model);
}

FIXTURE_TEST(a_conversation_goes_on_from_its_finish_key)
{
    hearth_model *model = load(f->runtime, "stub:");
    char *prompt = hth_test_prompt(300, 3);
    hearth_request request = hth_test_greedy(prompt, 30);
    const hearth_result *first = hth_test_complete(model, &request);
    hearth_token conversation[512];
    const hearth_result *second;
    size_t n = 0;

    assert_int_equal(hearth_model_save(model, HEARTH_SAVE_EVICT, 10000, NULL), HEARTH_OK);
    assert_int_equal(hearth_tokenize(model, prompt, strlen(prompt), HEARTH_TOKENIZE_BOS, conversation, 400, &n, NULL),
                     HEARTH_OK);
    for (uint32_t i = 0; i < first->stats->completion_tokens; i++)
        conversation[n++] = first->tokens[i];
    for (int i = 0; i < 20; i++)
        conversation[n++] = 'a' + i;
    request = hth_test_greedy(NULL, 10);
    request.tokens = conversation;
    request.n_tokens = n;
    request.parent_key = first->stats->finish_key;
    second = hth_test_complete(model, &request);
    assert_int_equal(second->stats->hit, HEARTH_HIT_RESUME);
    assert_int_equal(second->stats->cached_tokens, first->stats->finish_tokens);
    assert_int_equal(first->stats->finish_tokens, first->stats->prompt_tokens + first->stats->completion_tokens - 1);
    hearth_result_unref(first);
    hearth_result_unref(second);
    hearth_model_unref(model);
    free(prompt);
}

FIXTURE_TEST(the_first_digits_of_a_parent_key_are_enough_where_they_name_one_beginning)
{
    hearth_model *model = load(f->runtime, "stub:");
    char *prompt = hth_test_prompt(300, 3), *longer = hth_test_prompt(320, 3);
    hearth_request request = hth_test_greedy(prompt, 1); /* the finish key is that of the prompt */
    const hearth_result *first = hth_test_complete(model, &request), *second;
    uint8_t key[32] = { 0 };
    hearth_error err;

    memcpy(key, first->stats->finish_key, 6);
    key[5] &= 0xf0; /* 11 digits */
    request = hth_test_greedy(longer, 5);
    request.parent_key = key;
    assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_NOT_FOUND);
    request.n_parent_digits = 11;
    second = hth_test_complete(model, &request);
    assert_int_equal(second->stats->hit, HEARTH_HIT_RESUME);
    request.n_parent_digits = 1; /* 301 beginnings have at most 16 first digits */
    memset(key, 0, sizeof(key));
    for (int digit = 0; digit < 16; digit++) {
        key[0] = (uint8_t)(digit << 4);
        assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_MISUSE);
        assert_non_null(strstr(err.message, "the 1 digits of parent_key begin the keys of several beginnings"));
    }
    request.n_parent_digits = 65;
    assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "n_parent_digits is 65"));
    hearth_result_unref(first);
    hearth_result_unref(second);
    hearth_model_unref(model);
    free(longer);
    free(prompt);
}

FIXTURE_TEST(models_with_another_salt_share_nothing)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *ours = load(f->runtime, "stub:");
    hearth_model *theirs;
    char *prompt = hth_test_prompt(600, 1);
    hearth_request request = hth_test_greedy(prompt, 3);
    const hearth_result *result = hth_test_complete(ours, &request);

    hearth_result_unref(result);
    options.cache_salt = "tenant";
    assert_int_equal(hearth_model_load(f->runtime, "stub:", &options, &theirs, NULL), HEARTH_OK);
    result = hth_test_complete(theirs, &request);
    assert_int_equal(result->stats->hit, HEARTH_HIT_NONE);
    hearth_result_unref(result);
    hearth_model_unref(ours);
    hearth_model_unref(theirs);
    free(prompt);
}

FIXTURE_TEST(kinds_without_blocks_are_restored_whole_or_not_at_all)
{
    static const char *const paths[] = { "stub:kind=recurrent", "stub:kind=hybrid", "stub:kind=window" };
    char *prompt = hth_test_prompt(600, 2);
    char longer[1024];

    (void)snprintf(longer, sizeof(longer), "%s, and more", prompt);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        hearth_model *model = load(f->runtime, paths[i]);
        hearth_request request = hth_test_greedy(prompt, 10);
        const hearth_result *cold = hth_test_complete(model, &request);
        const hearth_result *warm, *more, *alone;

        assert_int_equal(hearth_model_save(model, HEARTH_SAVE_EVICT, 10000, NULL), HEARTH_OK);
        warm = hth_test_complete(model, &request);
        assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
        assert_string_equal(warm->text, cold->text);
        assert_int_equal(hearth_model_save(model, HEARTH_SAVE_EVICT, 10000, NULL), HEARTH_OK);
        request.prompt = longer;
        more = hth_test_complete(model, &request);
        assert_int_equal(more->stats->hit, HEARTH_HIT_PREFIX);
        assert_int_equal(more->stats->cached_tokens, cold->stats->prompt_tokens);
        request.no_cache_read = true;
        alone = hth_test_complete(model, &request);
        assert_string_equal(more->text, alone->text);
        hearth_result_unref(cold);
        hearth_result_unref(warm);
        hearth_result_unref(more);
        hearth_result_unref(alone);
        hearth_model_unref(model);
    }
    free(prompt);
}

/* ---- streams, cancels, lifetimes ---- */

typedef struct stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hearth_model *model;
    uint64_t cancel_id; /* cancel this one at the first text */
    bool refuse;        /* say no to the first text */
    size_t n_bytes;
    int n_done;
    hearth_status status;
    hearth_finish_reason reason;
} stream;

static bool on_text(uint64_t id, const char *text, size_t n, void *user_data)
{
    stream *s = user_data;

    (void)text;
    pthread_mutex_lock(&s->lock);
    s->n_bytes += n;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->cancel_id)
        assert_int_equal(hearth_cancel(s->model, id, NULL), HEARTH_OK);
    return !s->refuse;
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    stream *s = user_data;

    (void)id;
    pthread_mutex_lock(&s->lock);
    s->n_done++;
    s->status = result->status;
    s->reason = result->finish_reason;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void stream_init(stream *s, hearth_model *model, hearth_request *request)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->model = model;
    request->on_text = on_text;
    request->on_done = on_done;
    request->user_data = s;
}

static void await_done(stream *s, int n)
{
    pthread_mutex_lock(&s->lock);
    while (s->n_done < n)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void await_text(stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->n_bytes == 0)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

FIXTURE_TEST(a_cancelled_request_ends_once_and_keeps_what_it_computed)
{
    hearth_model *model = load(f->runtime, "stub:n_ctx_train=100000");
    hearth_model_info info = { .struct_size = sizeof(info) };
    char *prompt = hth_test_prompt(600, 4);
    hearth_request request = hth_test_greedy(prompt, -1);
    uint64_t id = 0;
    stream s;

    /* From a callback. */
    stream_init(&s, model, &request);
    s.cancel_id = 1;
    assert_int_equal(hearth_submit(model, &request, &id, NULL), HEARTH_OK);
    await_done(&s, 1);
    assert_int_equal(s.status, HEARTH_CANCELLED);
    assert_int_equal(s.reason, HEARTH_FINISH_CANCELLED);

    /* By the answer of a callback. */
    stream_init(&s, model, &request);
    s.refuse = true;
    assert_int_equal(hearth_submit(model, &request, &id, NULL), HEARTH_OK);
    await_done(&s, 1);
    assert_int_equal(s.status, HEARTH_CANCELLED);

    /* From another thread, one running and one waiting. */
    uint64_t waiting = 0;
    stream_init(&s, model, &request);
    assert_int_equal(hearth_submit(model, &request, &id, NULL), HEARTH_OK);
    assert_int_equal(hearth_submit(model, &request, &waiting, NULL), HEARTH_OK);
    await_text(&s);
    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    assert_int_equal(hearth_cancel(model, waiting, NULL), HEARTH_OK);
    assert_int_equal(hearth_cancel(model, id, NULL), HEARTH_OK);
    await_done(&s, 2);
    assert_int_equal(hearth_cancel(model, 999999, NULL), HEARTH_NOT_FOUND);

    request = hth_test_greedy(prompt, 1);
    const hearth_result *after = hth_test_complete(model, &request);
    assert_int_equal(after->stats->hit, HEARTH_HIT_EXACT);
    hearth_result_unref(after);
    hearth_model_unref(model);
    free(prompt);
}

FIXTURE_TEST(unloading_in_use_takes_effect_when_the_last_request_ended)
{
    hearth_model *model = load(f->runtime, "stub:n_ctx_train=4000");
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_request request = hth_test_greedy("hello", 1500);
    hearth_error err;
    stream s;

    stream_init(&s, model, &request);
    assert_int_equal(hearth_submit(model, &request, NULL, NULL), HEARTH_OK);
    await_text(&s);
    hearth_model_unload(model);
    hearth_model_unload(model);
    assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_CANCELLED);
    assert_non_null(strstr(err.message, "unload"));
    await_done(&s, 1);
    assert_int_equal(s.status, HEARTH_OK);
    assert_int_equal(s.reason, HEARTH_FINISH_LENGTH);
    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    assert_int_equal(info.activity, HEARTH_UNLOADED);
    hearth_model_unref(model);
}

FIXTURE_TEST(closing_the_runtime_cancels_what_runs_and_leaves_handles_valid)
{
    hearth_model *model = load(f->runtime, "stub:n_ctx_train=1000000");
    hearth_request request = hth_test_greedy("hello", -1);
    hearth_error err;
    stream s;

    stream_init(&s, model, &request);
    assert_int_equal(hearth_submit(model, &request, NULL, NULL), HEARTH_OK);
    await_text(&s);
    hearth_runtime_close(f->runtime);
    f->runtime = NULL;
    await_done(&s, 1);
    assert_int_equal(s.status, HEARTH_CANCELLED);
    assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_CANCELLED);
    hearth_model_unref(model);
}

FIXTURE_TEST(a_closed_runtime_logs_nothing)
{
    hearth_runtime *runtime = f->runtime;

    hth_runtime_ref(runtime); /* like a writer that hangs */
    hth_warn(hth_runtime_log(runtime), "in time");
    hearth_runtime_close(runtime);
    f->runtime = NULL;
    hth_warn(hth_runtime_log(runtime), "late");
    assert_int_equal(atomic_load(&f->n_warnings), 1);
    hth_runtime_unref(runtime);
}

FIXTURE_TEST(giving_back_the_last_reference_ends_its_requests)
{
    hearth_model *model = load(f->runtime, "stub:n_ctx_train=1000000");
    hearth_request request = hth_test_greedy("hello", -1);
    stream s;

    stream_init(&s, model, &request);
    assert_int_equal(hearth_submit(model, &request, NULL, NULL), HEARTH_OK);
    await_text(&s);
    hth_test_model_end(f->runtime, model);
    assert_int_equal(s.n_done, 1);
}

FIXTURE_TEST(loaded_models_are_listed)
{
    hearth_model *a = load(f->runtime, "stub:");
    hearth_model *b = load(f->runtime, "stub:vocab=300");
    hearth_model *listed[4] = { NULL };
    size_t n = 0;

    assert_int_equal(hearth_runtime_models(f->runtime, NULL, 0, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 2);
    assert_int_equal(hearth_runtime_models(f->runtime, listed, 4, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 2);
    assert_ptr_equal(listed[0], a);
    assert_ptr_equal(listed[1], b);
    for (size_t i = 0; i < n; i++)
        hearth_model_unref(listed[i]);
    hth_test_model_end(f->runtime, a);
    assert_int_equal(hearth_runtime_models(f->runtime, NULL, 0, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 1);
    hearth_model_unref(b);
}

typedef struct crowd {
    hearth_model *model;
    unsigned number;
    char *text;
} crowd;

static void *ask(void *context)
{
    crowd *c = context;
    char *prompt = hth_test_prompt(400 + c->number * 37, c->number % 3);
    hearth_request request = hth_test_greedy(prompt, 12);
    const hearth_result *result;

    if (hearth_complete(c->model, &request, &result, NULL) == HEARTH_OK)
        c->text = strdup(result->text);
    hearth_result_unref(result);
    free(prompt);
    return NULL;
}

FIXTURE_TEST(requests_from_many_threads_get_the_answers_they_get_alone)
{
    enum { N = 12 };
    hearth_model *model = load(f->runtime, "stub:");
    pthread_t threads[N];
    crowd crowds[N];

    for (unsigned i = 0; i < N; i++) {
        crowds[i] = (crowd){ .model = model, .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &crowds[i]), 0);
    }
    for (unsigned i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < N; i++) {
        crowd again = { .model = model, .number = i };

        (void)ask(&again);
        assert_non_null(crowds[i].text);
        assert_string_equal(crowds[i].text, again.text);
        free(crowds[i].text);
        free(again.text);
    }
    hearth_model_unref(model);
}

/* ---- text ---- */

FIXTURE_TEST(text_survives_tokens)
{
    static const char text[] = "Grüße, 日本語 and \"quotes\".";
    hearth_model *model = load(f->runtime, "stub:");
    hearth_token tokens[256];
    size_t n = 0, n_text = 0;
    char *back = NULL;

    assert_int_equal(hearth_tokenize(model, text, sizeof(text) - 1, 0, NULL, 0, &n, NULL), HEARTH_OK);
    assert_true(n > 0 && n <= 256);
    assert_int_equal(hearth_tokenize(model, text, sizeof(text) - 1, 0, tokens, 256, &n, NULL), HEARTH_OK);
    assert_int_equal(hearth_detokenize(model, tokens, n, false, &back, &n_text, NULL), HEARTH_OK);
    assert_string_equal(back, text);
    assert_int_equal(n_text, sizeof(text) - 1);
    hearth_free(back);
    hearth_model_unref(model);
}

FIXTURE_TEST(a_stop_text_ends_the_reply)
{
    hearth_model *model = load(f->runtime, "stub:");
    hearth_request request = hth_test_greedy("say something long", 200);
    const hearth_result *whole = hth_test_complete(model, &request);
    char stop[4] = "";
    const char *stops[1] = { stop };
    const hearth_result *cut;
    char *at;

    assert_true(whole->n_bytes > 60);
    memcpy(stop, whole->text + 40, 3);
    at = strstr(whole->text, stop);
    request.stop = stops;
    request.n_stop = 1;
    cut = hth_test_complete(model, &request);
    assert_int_equal(cut->finish_reason, HEARTH_FINISH_STOP);
    assert_int_equal(cut->n_bytes, at - whole->text);
    assert_memory_equal(cut->text, whole->text, cut->n_bytes);
    hearth_result_unref(whole);
    hearth_result_unref(cut);
    hearth_model_unref(model);
}

/* ---- how it says no ---- */

FIXTURE_TEST(requests_that_cannot_run_are_refused_with_a_reason)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model;
    char *prompt = hth_test_prompt(600, 0);
    hearth_token bad_tokens[] = { 5, 1 << 20 };
    const char *bad_stops[] = { "\xC3", "" };
    hearth_sampling sampling = hearth_sampling_default();
    hearth_error err;
    const hearth_result *result, *results[5];
    hearth_request request;

    options.n_ctx = 512;
    options.n_parallel = 2;
    options.queue_max = 3;
    assert_int_equal(hearth_model_load(f->runtime, "stub:", &options, &model, NULL), HEARTH_OK);

    request = hth_test_greedy("x", 1);
    request.n = 6; /* not BUSY: there will never be room for so many */
    assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "at most 5"));
    request.n = 5;
    assert_int_equal(hearth_complete(model, &request, results, &err), HEARTH_OK);
    for (int i = 0; i < 5; i++)
        hearth_result_unref(results[i]);
    request = hth_test_greedy(prompt, 1);
    assert_int_equal(hearth_complete(model, &request, &result, &err), HEARTH_TOO_LONG);
    assert_non_null(strstr(
        err.message, "the prompt (601 tokens) exceeds the available context size (512 tokens); shorten it, or give the "
                     "model a larger context (-c N, or context = N in a configuration)"));
    request = hth_test_greedy("\xff\xfe", 1);
    assert_int_equal(hearth_complete(model, &request, &result, &err), HEARTH_INVALID_TEXT);
    request = hth_test_greedy(NULL, 1);
    assert_int_equal(hearth_complete(model, &request, &result, &err), HEARTH_MISUSE);
    request = hth_test_greedy("x", 1);
    request.stop_tokens = bad_tokens;
    request.n_stop_tokens = 2;
    assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "stop_tokens[1] is 1048576"));
    request = hth_test_greedy("x", 1);
    request.stop = bad_stops;
    request.n_stop = 1;
    assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_INVALID_TEXT);
    request.n_stop = 2;
    bad_stops[0] = "good";
    assert_int_equal(hearth_submit(model, &request, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "stop text 1 is empty"));
    request = hth_test_greedy("x", -7);
    assert_int_equal(hearth_complete(model, &request, &result, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "n_predict"));
    request = hth_test_greedy("x", 1);
    sampling.top_p = 2;
    request.sampling = &sampling;
    assert_int_equal(hearth_complete(model, &request, &result, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "top_p"));
    request = hth_test_greedy(NULL, 1);
    request.tokens = bad_tokens;
    request.n_tokens = 2;
    assert_int_equal(hearth_complete(model, &request, &result, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "1048576"));
    request.struct_size = 3;
    assert_int_equal(hearth_complete(model, &request, &result, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_complete(NULL, &request, &result, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_save(model, HEARTH_SAVE_COLD, 1, &err), HEARTH_MISUSE);
    hearth_model_unref(model);
    free(prompt);
}

/* ---- strategies of the program ---- */

typedef struct planner {
    _Atomic int n_plans;
    _Atomic bool is_wrong;
} planner;

/* Everything that is ready, one token of each. */
static void plan_one_of_each(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk,
                             uint32_t *n_tokens_out, void *user_data)
{
    planner *p = user_data;

    atomic_fetch_add(&p->n_plans, 1);
    if (n == 0 || n_batch == 0 || chunk != 64)
        atomic_store(&p->is_wrong, true);
    for (size_t i = 0; i < n; i++) {
        const hearth_plan_item *item = hearth_plan_item_at(items, i);

        if (item->n_ready == 0 || n_tokens_out[i] != 0 || (item->is_decode && item->n_ready != 1))
            atomic_store(&p->is_wrong, true);
        n_tokens_out[i] = 1;
    }
}

static void plan_nothing(const hearth_plan_item *items, size_t n, uint32_t n_batch, uint32_t chunk,
                         uint32_t *n_tokens_out, void *user_data)
{
    (void)items, (void)n, (void)n_batch, (void)chunk, (void)n_tokens_out, (void)user_data;
}

static const hearth_result *complete_with(hearth_runtime *runtime, const char *strategy)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_request request = hth_test_greedy("a prompt of some tokens", 10);
    const hearth_result *result;
    hearth_model *model;

    options.strategy = strategy;
    options.prefill_chunk = 64;
    request.no_cache_read = true;
    model = hth_test_model_load(runtime, "stub:", &options);
    result = hth_test_complete(model, &request);
    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    assert_string_equal(info.strategy, strategy);
    hearth_model_unref(model);
    return result;
}

FIXTURE_TEST(a_strategy_of_the_program_fills_the_batches)
{
    planner p = { .n_plans = 0 };
    const hearth_result *usual, *own, *idle;

    assert_int_equal(hearth_runtime_add_strategy(f->runtime, "one_of_each", plan_one_of_each, &p, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, "nothing", plan_nothing, NULL, NULL), HEARTH_OK);
    usual = complete_with(f->runtime, "decode_maximal");
    assert_int_equal(atomic_load(&p.n_plans), 0);
    own = complete_with(f->runtime, "one_of_each");
    assert_string_equal(own->text, usual->text);
    assert_true(atomic_load(&p.n_plans) >= (int)own->stats->completion_tokens);
    assert_false(atomic_load(&p.is_wrong));
    idle = complete_with(f->runtime, "nothing"); /* it cannot stop the model */
    assert_string_equal(idle->text, usual->text);
    hearth_result_unref(usual);
    hearth_result_unref(own);
    hearth_result_unref(idle);
}

FIXTURE_TEST(a_strategy_has_a_name_of_its_own)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model = NULL;
    char name[65];
    hearth_error err;

    assert_int_equal(hearth_runtime_add_strategy(NULL, "a", plan_nothing, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, NULL, plan_nothing, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, "a", NULL, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, "", plan_nothing, NULL, &err), HEARTH_MISUSE);
    memset(name, 'x', 64);
    name[64] = '\0';
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, name, plan_nothing, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, name + 1, plan_nothing, NULL, &err), HEARTH_OK);
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, name + 1, plan_nothing, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, "balanced", plan_nothing, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "'balanced'"));
    for (char c = 'b'; c <= 'p'; c++)
        assert_int_equal(hearth_runtime_add_strategy(f->runtime, (char[]){ c, '\0' }, plan_nothing, NULL, &err),
                         HEARTH_OK);
    assert_int_equal(hearth_runtime_add_strategy(f->runtime, "q", plan_nothing, NULL, &err), HEARTH_FULL);
    options.strategy = "q";
    assert_int_equal(hearth_model_load(f->runtime, "stub:", &options, &model, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "'q'"));
    assert_null(model);
}

FIXTURE_TEST(models_that_cannot_be_loaded_are_refused_with_a_reason)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model = NULL;
    hearth_error err;

    assert_int_equal(hearth_model_load(f->runtime, "stub:nonsense=1", NULL, &model, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "nonsense"));
    options.n_batch = 0;
    assert_int_equal(hearth_model_load(f->runtime, "stub:", &options, &model, &err), HEARTH_MISUSE);
    options = hearth_model_options_default();
    options.struct_size = 4096;
    assert_int_equal(hearth_model_load(f->runtime, "stub:", &options, &model, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_load(f->runtime, NULL, NULL, &model, &err), HEARTH_MISUSE);
    assert_null(model);
}

FIXTURE_TEST(a_cache_directory_that_cannot_be_used_costs_a_warning)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_runtime *runtime;
    hearth_request request = hth_test_greedy("a prompt that is long enough to be kept in the cache", 5);
    const hearth_result *result;
    hearth_model *model;

    options.cache_directory = "/dev/null/nowhere";
    options.log = count_warnings;
    options.log_user_data = f;
    assert_int_equal(hearth_runtime_open(&options, &runtime, NULL), HEARTH_OK);
    assert_int_equal(atomic_load(&f->n_warnings), 1);
    model = load(runtime, "stub:");
    result = hth_test_complete(model, &request);
    hearth_result_unref(result);
    result = hth_test_complete(model, &request);
    assert_int_equal(result->stats->hit, HEARTH_HIT_EXACT); /* the RAM tier works alone */
    assert_int_equal(result->stats->tier, HEARTH_TIER_RAM);
    hearth_result_unref(result);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
}
