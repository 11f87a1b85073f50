/*
 * stream_test.c - a stream's text is the request's, whoever reads it however slowly, and its end is never lost
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/text_stream.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PATIENCE_MS = 60000, TEXT_BYTES_MAX = 1 << 16 };

typedef struct fixture {
    char *directory;
    hearth_runtime *runtime;
    hearth_model *model;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    hearth_runtime_options options;
    hearth_model_options model_options = hearth_model_options_default();

    model_options.n_ctx = 1 << 16; /* room for replies that do not end by themselves within a test */
    f->directory = hth_test_directory_new();
    options = hth_test_runtime_options(f->directory);
    f->runtime = hth_test_runtime_open(&options);
    f->model = hth_test_model_load(f->runtime, "stub:n_ctx_train=65536", &model_options);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    hearth_model_unref(f->model);
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
    free(f);
    return 0;
}

static hearth_stream *open_stream(hearth_model *model, const hearth_request *request, size_t buffer_bytes)
{
    hearth_stream *stream = NULL;
    hearth_error err;

    if (hearth_stream_open(model, request, buffer_bytes, &stream, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return stream;
}

/* Read to the end in pieces of at most capacity bytes, each of whole characters. A new string. */
static char *read_all(hearth_stream *stream, size_t capacity, useconds_t pause_us)
{
    char *text = calloc(1, TEXT_BYTES_MAX);
    char *piece = malloc(capacity);
    size_t at = 0, n = 1;

    while (n > 0) {
        hearth_error err;

        if (hearth_stream_read(stream, piece, capacity, PATIENCE_MS, &n, &err) != HEARTH_OK)
            fail_msg("%s", err.message);
        assert_true(n <= capacity);
        assert_true(hth_utf8_is_valid(piece, n));
        assert_true(at + n < TEXT_BYTES_MAX);
        memcpy(text + at, piece, n);
        at += n;
        if (pause_us > 0)
            usleep(pause_us);
    }
    free(piece);
    return text;
}

static void the_text_read_is_that_of_the_blocking_form(void **state)
{
    static const size_t capacities[] = { 4, 5, 7, 64, 4096 };
    static const size_t buffers[] = { 0, 1, 16, 1000 };
    fixture *f = *state;
    hearth_request request = hth_test_greedy("Once upon a time there was a stream", 400);
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_result *expected;
    size_t n_ascii = 0;

    /* So hot that every byte comes: characters of two bytes, and many that become U+FFFD, which has three. */
    request.sampling = &sampling;
    sampling.temperature = 100;
    sampling.top_k = 0;
    sampling.top_p = 1;
    sampling.min_p = 0;
    sampling.seed = 4;
    expected = hth_test_complete(f->model, &request);
    while (n_ascii < expected->n_bytes && (unsigned char)expected->text[n_ascii] < 0x80)
        n_ascii++;
    assert_true(n_ascii < expected->n_bytes);

    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++)
        for (size_t j = 0; j < sizeof(buffers) / sizeof(buffers[0]); j++) {
            hearth_stream *stream = open_stream(f->model, &request, buffers[j]);
            char *text = read_all(stream, capacities[i], 0);
            const hearth_result *result = hearth_stream_result(stream);

            assert_string_equal(text, expected->text);
            assert_non_null(result);
            assert_int_equal(result->status, HEARTH_OK);
            assert_int_equal(result->finish_reason, HEARTH_FINISH_LENGTH);
            assert_string_equal(result->text, expected->text);
            assert_int_equal(result->stats->completion_tokens, 400);
            assert_memory_equal(result->tokens, expected->tokens, 400 * sizeof(hearth_token));
            hearth_stream_close(stream);
            free(text);
        }
    hearth_result_unref(expected);
}

static void a_slow_reader_gets_everything(void **state)
{
    fixture *f = *state;
    hearth_request request = hth_test_greedy("A slow reader", 100);
    const hearth_result *expected = hth_test_complete(f->model, &request);
    hearth_stream *stream = open_stream(f->model, &request, 32);
    char *text = read_all(stream, 8, 2000);

    assert_string_equal(text, expected->text);
    hearth_stream_close(stream);
    hearth_result_unref(expected);
    free(text);
}

static void the_end_is_told_again_and_again(void **state)
{
    fixture *f = *state;
    hearth_request request = hth_test_greedy("Again", 3);
    hearth_stream *stream = open_stream(f->model, &request, 0);
    char bytes[64];
    size_t n = 1;

    free(read_all(stream, 64, 0));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hearth_stream_read(stream, bytes, sizeof(bytes), 0, &n, NULL), HEARTH_OK);
        assert_int_equal(n, 0);
    }
    hearth_stream_close(stream);
}

static void the_result_is_there_once_the_end_was_told(void **state)
{
    fixture *f = *state;
    hearth_request request = hth_test_greedy("The result", 20);
    hearth_stream *stream = open_stream(f->model, &request, 0);
    char bytes[4];
    size_t n = 0;

    assert_null(hearth_stream_result(stream));
    assert_int_equal(hearth_stream_read(stream, bytes, sizeof(bytes), PATIENCE_MS, &n, NULL), HEARTH_OK);
    assert_in_range(n, 1, 4);
    assert_null(hearth_stream_result(stream)); /* 20 tokens are more than one piece of 4 bytes */
    free(read_all(stream, 64, 0));
    assert_non_null(hearth_stream_result(stream));
    assert_null(hearth_stream_result(NULL));
    hearth_stream_close(stream);
}

/* Keeps the scheduler's thread between `is_held` and `is_open`. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_held;
    bool is_open;
} gate;

static bool hold(uint64_t id, const char *text, size_t n, void *user_data)
{
    gate *g = user_data;

    (void)id, (void)text, (void)n;
    pthread_mutex_lock(&g->lock);
    g->is_held = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->is_open)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return false;
}

/* Run a request that keeps the scheduler's thread, and wait until it does. */
static void hold_scheduler(hearth_model *model, gate *g)
{
    hearth_request request = hth_test_greedy("It stands in the way", 30);

    request.on_text = hold;
    request.user_data = g;
    assert_int_equal(hearth_submit(model, &request, NULL, NULL), HEARTH_OK);
    pthread_mutex_lock(&g->lock);
    while (!g->is_held)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void open_gate(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->is_open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void a_read_that_waits_too_long_loses_nothing(void **state)
{
    fixture *f = *state;
    gate g = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    hearth_request request = hth_test_greedy("A read that times out", 30);
    const hearth_result *expected = hth_test_complete(f->model, &request);
    hearth_stream *stream;
    hearth_error err;
    char bytes[16] = "untouched";
    size_t n = 77;
    char *text;

    hold_scheduler(f->model, &g);
    stream = open_stream(f->model, &request, 0);
    assert_int_equal(hearth_stream_read(stream, bytes, sizeof(bytes), 0, &n, &err), HEARTH_TIMED_OUT);
    assert_int_equal(hearth_stream_read(stream, bytes, sizeof(bytes), 5, &n, &err), HEARTH_TIMED_OUT);
    assert_non_null(strstr(err.message, "within 5 ms"));
    assert_int_equal(n, 77);
    assert_string_equal(bytes, "untouched");
    open_gate(&g);
    text = read_all(stream, 16, 0);
    assert_string_equal(text, expected->text);
    hearth_stream_close(stream);
    hearth_result_unref(expected);
    free(text);
}

static void closing_in_the_middle_cancels(void **state)
{
    fixture *f = *state;
    hearth_model_info info = { .struct_size = sizeof(info) };
    hearth_request request = hth_test_greedy("Closing", 60000);
    hearth_stream *stream = open_stream(f->model, &request, 0);
    char bytes[64];
    size_t n = 0;

    assert_int_equal(hearth_stream_read(stream, bytes, sizeof(bytes), PATIENCE_MS, &n, NULL), HEARTH_OK);
    hearth_stream_close(stream);
    /* 60,000 tokens were not waited for. */
    assert_true(hth_test_counters(f->runtime).tokens_generated < 60000);
    request = hth_test_greedy("The next one", 5);
    stream = open_stream(f->model, &request, 0);
    free(read_all(stream, 64, 0));
    assert_int_equal(hearth_stream_result(stream)->status, HEARTH_OK);
    hearth_stream_close(stream);
    assert_int_equal(hearth_model_info_get(f->model, &info, NULL), HEARTH_OK);
    assert_int_equal(info.n_waiting, 0);
}

static void closing_without_a_read_and_closing_nothing_are_fine(void **state)
{
    fixture *f = *state;
    hearth_request request = hth_test_greedy("Nobody reads this", 50);

    for (int i = 0; i < 20; i++)
        hearth_stream_close(open_stream(f->model, &request, i % 2));
    hearth_stream_close(NULL);
}

static void a_reply_that_is_ended_from_outside_ends_the_stream(void **state)
{
    fixture *f = *state;
    hearth_request request = hth_test_greedy("Unloaded", 60000);
    hearth_stream *stream = open_stream(f->model, &request, 4096);
    hearth_runtime_options options = hth_test_runtime_options(f->directory);
    char bytes[64];
    size_t n = 0;
    char *rest;

    assert_int_equal(hearth_stream_read(stream, bytes, sizeof(bytes), PATIENCE_MS, &n, NULL), HEARTH_OK);
    hearth_runtime_close(f->runtime);
    rest = read_all(stream, 64, 0);
    assert_int_equal(hearth_stream_result(stream)->status, HEARTH_CANCELLED);
    assert_int_equal(hearth_stream_result(stream)->finish_reason, HEARTH_FINISH_CANCELLED);
    /* What was read before the end and after it is the whole text. */
    assert_int_equal(n + strlen(rest), hearth_stream_result(stream)->n_bytes);
    hearth_stream_close(stream);
    free(rest);
    f->runtime = hth_test_runtime_open(&options);
}

static void a_stream_outlives_the_callers_reference(void **state)
{
    fixture *f = *state;
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    hearth_request request = hth_test_greedy("Given back", 50);
    const hearth_result *expected = hth_test_complete(model, &request);
    hearth_stream *stream = open_stream(model, &request, 0);
    char *text;

    hearth_model_unref(model);
    text = read_all(stream, 64, 0);
    assert_string_equal(text, expected->text);
    hearth_stream_close(stream);
    hearth_result_unref(expected);
    free(text);
}

/* ---- many at once ---- */

typedef struct reader {
    hearth_model *model;
    unsigned index;
    char *text;
} reader;

static char *prompt_of(unsigned index)
{
    return hth_test_prompt(40 + 7 * index, index);
}

static void *read_one(void *user_data)
{
    reader *r = user_data;
    char *prompt = prompt_of(r->index);
    hearth_request request = hth_test_greedy(prompt, 120);
    hearth_stream *stream = NULL;

    if (hearth_stream_open(r->model, &request, 1 + r->index * 20, &stream, NULL) == HEARTH_OK)
        r->text = read_all(stream, 4 + r->index, 0);
    hearth_stream_close(stream);
    free(prompt);
    return NULL;
}

static void streams_of_many_threads_do_not_mix(void **state)
{
    enum { READERS = 8 };
    fixture *f = *state;
    reader readers[READERS];
    pthread_t threads[READERS];

    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (reader){ .model = f->model, .index = i };
        assert_int_equal(pthread_create(&threads[i], NULL, read_one, &readers[i]), 0);
    }
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < READERS; i++) {
        char *prompt = prompt_of(i);
        hearth_request request = hth_test_greedy(prompt, 120);
        const hearth_result *expected = hth_test_complete(f->model, &request);

        assert_non_null(readers[i].text);
        assert_string_equal(readers[i].text, expected->text);
        hearth_result_unref(expected);
        free(readers[i].text);
        free(prompt);
    }
}

/* ---- back-pressure ---- */

static hearth_model_info info_of(hearth_model *model)
{
    hearth_model_info info = { .struct_size = sizeof(info) };

    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    return info;
}

static void a_reply_that_nobody_reads_waits_and_holds_nobody_up(void **state)
{
    enum { BUFFER_BYTES = 64, TOKENS = 3000 };
    fixture *f = *state;
    hearth_request request = hth_test_greedy("Nobody reads this for a while", TOKENS);
    hearth_request other = hth_test_greedy("Somebody else", 500);
    const hearth_result *expected = hth_test_complete(f->model, &request);
    hearth_stream *stream = open_stream(f->model, &request, BUFFER_BYTES);
    const hearth_result *result = hth_test_complete(f->model, &other); /* 500 ticks */
    char *text;

    /* Every token of the stub gives a byte of text at least, but for one that it holds back. */
    assert_int_equal(result->stats->completion_tokens, 500);
    assert_true(info_of(f->model).n_running >= 1); /* it has run longest, so n_done is its */
    assert_true(info_of(f->model).n_done < 4 * BUFFER_BYTES);
    text = read_all(stream, 16, 0);
    assert_string_equal(text, expected->text);
    hearth_stream_close(stream);
    hearth_result_unref(expected);
    hearth_result_unref(result);
    free(text);
}

static void a_reply_that_nobody_takes_is_given_up(void **state)
{
    enum { POLLS_MAX = 60000 };
    fixture *f = *state;
    hearth_model_options options = hearth_model_options_default();
    hearth_request request = hth_test_greedy("Nobody takes this", 3000);
    hearth_model *model;
    hearth_stream *stream;
    const hearth_result *result;
    char *text;

    options.stalled_ms = 1;
    model = hth_test_model_load(f->runtime, "stub:", &options);
    stream = open_stream(model, &request, 64);
    for (int i = 0; i < POLLS_MAX && hth_test_counters(f->runtime).requests == 0; i++) /* until it has ended */
        usleep(1000);
    text = read_all(stream, 64, 0);
    result = hearth_stream_result(stream);
    assert_int_equal(result->status, HEARTH_TIMED_OUT);
    assert_int_equal(result->finish_reason, HEARTH_FINISH_TIMED_OUT);
    assert_true(result->stats->completion_tokens < 3000);
    assert_string_equal(text, result->text);
    hearth_stream_close(stream);
    hearth_model_unref(model);
    free(text);
}

/* ---- how it says no ---- */

static bool take_text(uint64_t id, const char *text, size_t n, void *user_data)
{
    (void)id, (void)text, (void)n, (void)user_data;
    return true;
}

static void take_nothing(uint64_t id, const hearth_result *result, void *user_data)
{
    (void)id, (void)result, (void)user_data;
}

static void expect_refused(hearth_model *model, const hearth_request *request, const char *word)
{
    hearth_stream *stream = NULL;
    hearth_error err = { .message = "" };

    assert_int_equal(hearth_stream_open(model, request, 0, &stream, &err), HEARTH_MISUSE);
    assert_null(stream);
    if (!strstr(err.message, word))
        fail_msg("'%s' does not name %s", err.message, word);
}

static void what_a_stream_cannot_do_is_refused(void **state)
{
    fixture *f = *state;
    hearth_request request = hth_test_greedy("No", 5);

    expect_refused(f->model, NULL, "request");
    expect_refused(NULL, &request, "model");
    request.on_text = take_text;
    expect_refused(f->model, &request, "on_text");
    request = hth_test_greedy("No", 5);
    request.on_done = take_nothing;
    expect_refused(f->model, &request, "on_done");
    request = hth_test_greedy("No", 5);
    request.n = 2;
    expect_refused(f->model, &request, "n is 2");
    request = hth_test_greedy("", 5);
    expect_refused(f->model, &request, "prompt is empty");
    request = hth_test_greedy("No", 5);
    request.struct_size = 3;
    expect_refused(f->model, &request, "struct_size");
}

static void a_read_without_room_for_a_character_is_refused(void **state)
{
    fixture *f = *state;
    hearth_request request = hth_test_greedy("Room", 5);
    hearth_stream *stream = open_stream(f->model, &request, 0);
    char bytes[4];
    size_t n = 77;
    hearth_error err;

    assert_int_equal(hearth_stream_read(stream, bytes, 3, 0, &n, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "at least 4"));
    assert_int_equal(hearth_stream_read(NULL, bytes, 4, 0, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_stream_read(stream, NULL, 4, 0, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_stream_read(stream, bytes, 4, 0, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(n, 77);
    hearth_stream_close(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_text_read_is_that_of_the_blocking_form, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_reader_gets_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_is_told_again_and_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_result_is_there_once_the_end_was_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_read_that_waits_too_long_loses_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closing_in_the_middle_cancels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closing_without_a_read_and_closing_nothing_are_fine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reply_that_is_ended_from_outside_ends_the_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_outlives_the_callers_reference, set_up, tear_down),
        cmocka_unit_test_setup_teardown(streams_of_many_threads_do_not_mix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reply_that_nobody_reads_waits_and_holds_nobody_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reply_that_nobody_takes_is_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_stream_cannot_do_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_read_without_room_for_a_character_is_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
