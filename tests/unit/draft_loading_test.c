/*
 * draft_loading_test.c - a draft model beside a model, as a program sees it: loaded, refused, erased
 */
#include <stdlib.h>
#include <stdatomic.h>
#include <string.h>

#include "support/api.h"
#include "support/support.h"

/* A draft model pays beside it, however slow the machine is. */
static const char slow_model[] = "stub:step_us=3000";

/* Of the replies to long prompts: the draft model evaluates the prompt meanwhile. No block is filled. */
enum { REPLY_TOKENS = 150 };

static const char prompt[] = "The sea is calm tonight. The tide is full, the moon lies fair upon the straits.";

static hearth_model_options with_draft(const char *draft_model)
{
    hearth_model_options options = hearth_model_options_default();

    options.draft_model = draft_model;
    return options;
}

/* The text of a reply, and the number of its guessed tokens. Released with free. */
static char *reply_of(hearth_model *model, const hearth_request *request, uint32_t *n_draft_out)
{
    const hearth_result *result = hth_test_complete(model, request);
    char *text = strdup(result->text);

    assert_non_null(text);
    *n_draft_out = result->stats->draft_tokens;
    assert_true(result->stats->draft_accepted_tokens <= result->stats->draft_tokens);
    hearth_result_unref(result);
    return text;
}

/* The replies with a draft model are those without. */
static void compare(hth_test_stub *f, const char *draft_model, uint32_t draft_n_ctx, bool drafts)
{
    hearth_model_options options = with_draft(draft_model);
    hearth_request request = hth_test_greedy(prompt, 60);
    hearth_model *alone = hth_test_model_load(f->runtime, "stub:", NULL);
    uint32_t n_draft;
    char *expected, *text;

    options.draft_n_ctx = draft_n_ctx;
    f->model = hth_test_model_load(f->runtime, "stub:", &options);
    expected = reply_of(alone, &request, &n_draft);
    assert_int_equal(n_draft, 0);
    text = reply_of(f->model, &request, &n_draft);
    assert_string_equal(text, expected);
    assert_int_equal(n_draft > 0, drafts); /* before its cost is known, a guess is free */
    free(text);
    request.draft_max = 0;
    text = reply_of(f->model, &request, &n_draft);
    assert_string_equal(text, expected);
    assert_int_equal(n_draft, 0);
    free(text);
    free(expected);
    hth_test_model_end(f->runtime, f->model);
    hth_test_model_end(f->runtime, alone);
    f->model = NULL;
}

RUNTIME_TEST(replies_with_a_draft_model_are_those_without)
{
    compare(f, "stub:", 0, true);
    compare(f, "stub:errs=3", 0, true);
}

RUNTIME_TEST(a_request_that_the_draft_model_has_no_room_for_has_no_drafts)
{
    compare(f, "stub:", 32, false);
}

static void expect_refused(hth_test_stub *f, const char *path, const hearth_model_options *options,
                           hearth_status status, const char *message)
{
    hearth_error err = { .message = "" };

    assert_int_equal(hearth_model_load(f->runtime, path, options, &f->model, &err), status);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not said, but '%s'", message, err.message);
}

RUNTIME_TEST(a_draft_model_that_cannot_draft_is_refused_by_name)
{
    hearth_model_options options = with_draft("stub:vocab=300,words=1");

    expect_refused(f, "stub:vocab=300", &options, HEARTH_UNSUPPORTED,
                   "'stub:vocab=300,words=1' cannot draft for 'stub:vocab=300': it has another vocabulary, whose token "
                   "260 is ' v260' instead of ' w260'");
    options = with_draft("stub:vocab=1000");
    expect_refused(f, "stub:", &options, HEARTH_UNSUPPORTED, "another vocabulary, of 1000 tokens instead of 260");
    options = with_draft("stub:kind=window");
    expect_refused(f, "stub:", &options, HEARTH_UNSUPPORTED, "the sequences of 'stub:kind=window'");
    options = with_draft("stub:");
    expect_refused(f, "stub:kind=recurrent", &options, HEARTH_UNSUPPORTED, "the sequences of 'stub:kind=recurrent'");
    options = with_draft("/nowhere/small.gguf");
    expect_refused(f, "stub:", &options, HEARTH_NOT_FOUND, "/nowhere/small.gguf");
    options = with_draft("stub:");
    options.draft_n_gpu_layers = -2;
    expect_refused(f, "stub:", &options, HEARTH_MISUSE, "draft_n_gpu_layers is -2");
}

RUNTIME_TEST(a_load_that_is_started_has_its_draft_model)
{
    char path[] = "stub:errs=3";
    hearth_model_options options = with_draft(path);
    hearth_events *queue = NULL;
    hearth_request request = hth_test_greedy(prompt, 20);
    const hearth_event *event;
    hearth_error err;
    uint32_t n_draft;
    size_t n;

    assert_ok(hearth_events_open(NULL, &queue, &err), err);
    assert_ok(hearth_model_load_start(f->runtime, "stub:", &options, queue, NULL, NULL, &err), err);
    memset(path, 'x', sizeof(path) - 1); /* it was copied: a draft model "xxx" cannot be loaded */
    do
        assert_ok(hearth_events_take(queue, &event, 1, 60000, &n, &err), err);
    while (n == 0 || event->kind != HEARTH_EVENT_LOADED);
    f->model = event->model;
    assert_non_null(f->model);
    free(reply_of(f->model, &request, &n_draft)); /* guesses depend on what they cost */
    hearth_events_close(queue);
}

/* The hearth_work_fn: counts the rows that are put into contexts. */
static void count_rows(const hearth_work *work, void *user_data)
{
    atomic_uint *n_rows = user_data; /* the scheduler's thread goes on when the reply is there */

    *n_rows += work->kind == HEARTH_WORK_ROWS_BEGIN && work->n_keys > 0; /* the first one; others are read ahead */
}

RUNTIME_TEST(a_prompt_is_warm_for_the_draft_model_after_a_restart_and_its_rows_are_told)
{
    char *words = hth_test_prompt(600, 1);
    hearth_request request = hth_test_greedy(words, REPLY_TOKENS);
    hearth_model_options options = with_draft("stub:errs=3");
    const hearth_result *result;
    atomic_uint n_rows = 0;

    options.on_work = count_rows;
    options.work_user_data = &n_rows;
    f->model = hth_test_model_load(f->runtime, slow_model, &options);
    hearth_result_unref(hth_test_complete(f->model, &request));
    assert_int_equal(n_rows, 0);
    hth_test_model_end(f->runtime, f->model);
    f->model = hth_test_model_load(f->runtime, slow_model, &options);
    result = hth_test_complete(f->model, &request);
    assert_true(result->stats->rows_restored >= 2);
    assert_true(result->stats->draft_tokens > 0);
    assert_true(n_rows > result->stats->rows_restored); /* those of the model, and those of the draft model */
    hearth_result_unref(result);
    free(words);
}

RUNTIME_TEST(a_prompt_that_is_removed_leaves_no_row_of_the_draft_model)
{
    hearth_model_options options = with_draft("stub:");
    char *words = hth_test_prompt(600, 1);
    hearth_request request = hth_test_greedy(words, REPLY_TOKENS);
    uint32_t n_draft, n;
    hearth_error err;

    f->model = hth_test_model_load(f->runtime, slow_model, &options);
    free(reply_of(f->model, &request, &n_draft));
    assert_true(n_draft > 0);
    hth_test_flush(f->runtime);
    n = (uint32_t)hth_test_n_files(f->directory, "-block.kvc");
    assert_int_equal(n, 4); /* two blocks of each model */
    assert_ok(hearth_prompt_remove(f->model, &request, &n, &err), err);
    hth_test_flush(f->runtime);
    assert_int_equal(hth_test_n_files(f->directory, "-block.kvc"), 0);
    free(words);
}
