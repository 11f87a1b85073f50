/*
 * explain_test.c - hearth_explain: what it fills in, of which models, and that it says what a request then meets
 */
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    hearth_runtime_options options;
    hearth_runtime *runtime;
    char *prompt;
} fixture;

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->options = hth_test_runtime_options(f->directory);
    f->runtime = hth_test_runtime_open(&f->options);
    f->prompt = hth_test_prompt(700, 0);
}

static void tear_down(fixture *f)
{
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
    free(f->prompt);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void run(hearth_model *model, const char *prompt)
{
    hearth_request request = hth_test_greedy(prompt, 5);
    const hearth_result *result = hth_test_complete(model, &request);

    hearth_result_unref(result);
}

static hearth_explanation explain(hearth_model *model, const hearth_request *request)
{
    hearth_explanation e = { .struct_size = sizeof(e) };
    hearth_error err = { .message = "" };

    assert_ok(hearth_explain(model, request, &e, &err), err);
    assert_true(strlen(e.detail) > 10);
    return e;
}

static hearth_explanation explain_prompt(hearth_model *model, const char *prompt)
{
    hearth_request request = hth_test_greedy(prompt, 5);

    return explain(model, &request);
}

/* What was explained is what a request meets. */
static void check_against_a_run(hearth_model *model, const char *prompt, const hearth_explanation *e)
{
    hearth_request request = hth_test_greedy(prompt, 0);
    const hearth_result *result;

    /* Without what the context holds. */
    assert_int_equal(hearth_model_save(model, HEARTH_SAVE_EVICT, 60000, NULL), HEARTH_OK);
    result = hth_test_complete(model, &request);
    assert_int_equal(result->stats->cached_tokens, e->known_tokens);
    assert_int_equal(result->stats->hit == HEARTH_HIT_EXACT, e->knows_logits);
    hearth_result_unref(result);
}

FIXTURE_TEST(a_prompt_is_explained_as_it_then_runs)
{
    static const char *const kinds[] = { "stub:", "stub:kind=window,window=300", "stub:kind=recurrent",
                                         "stub:kind=hybrid" };
    char *other = hth_test_prompt(700, 0);

    other[600] = other[600] == 'x' ? 'y' : 'x';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        hearth_model *model = hth_test_model_load(f->runtime, kinds[i], NULL);
        hearth_explanation e = explain_prompt(model, f->prompt);

        assert_int_equal(e.known_tokens, 0);
        assert_int_equal(e.prompt_tokens, 701); /* with the one that begins every text */
        run(model, f->prompt);
        hth_test_flush(f->runtime); /* what was superseded is gone from everywhere */
        e = explain_prompt(model, f->prompt);
        assert_int_equal(e.known_tokens, 701);
        assert_int_equal(e.miss, HEARTH_MISS_NONE);
        assert_int_equal(e.left_at, 701);
        assert_string_equal(e.left_text, "");
        assert_int_equal(e.tier, HEARTH_TIER_RAM);
        check_against_a_run(model, f->prompt, &e);
        e = explain_prompt(model, other);
        assert_true(e.known_tokens < 701);
        assert_int_not_equal(e.miss, HEARTH_MISS_NONE);
        if (i < 2 || i == 3) /* where cells are kept, to the token */
            assert_int_equal(e.left_at, 601);
        check_against_a_run(model, other, &e);
        hearth_model_unref(model);
    }
    free(other);
}

FIXTURE_TEST(where_a_prompt_leaves_is_told_with_its_text)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    char *other = hth_test_prompt(700, 0);
    hearth_explanation e;

    run(model, f->prompt);
    other[600] = '\n';
    e = explain_prompt(model, other);
    assert_int_equal(e.left_at, 601);
    assert_string_equal(e.left_text, "\n");
    assert_int_equal(e.miss, HEARTH_MISS_NEVER_SEEN);
    assert_non_null(strstr(e.detail, "the first 601 of 701 tokens are known (ram)"));
    assert_non_null(strstr(e.detail, "token 602, '\\n', is where the prompt leaves"));
    assert_null(strchr(e.detail, '\n'));
    assert_string_equal(e.left_kind, "");
    free(other);
    hearth_model_unref(model);
}

FIXTURE_TEST(a_prompt_that_leaves_in_a_date_is_told_so)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    char *other = strdup(f->prompt);
    hearth_explanation e;

    memcpy(f->prompt + 592, " 2026-11-22 ", 12);
    memcpy(other + 592, " 2026-11-23 ", 12);
    run(model, f->prompt);
    e = explain_prompt(model, other);
    assert_int_equal(e.left_at, 603);
    assert_string_equal(e.left_text, "3");
    assert_string_equal(e.left_kind, "a date");
    assert_non_null(strstr(e.detail, "leaves what was seen before, in a date: '2026-11-23'"));
    free(other);
    hearth_model_unref(model);
}

FIXTURE_TEST(a_salt_of_a_model_is_told_to_the_operator)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *plain = hth_test_model_load(f->runtime, "stub:", NULL), *salted;
    hearth_request request = hth_test_greedy(f->prompt, 5);

    options.cache_salt = "house";
    salted = hth_test_model_load(f->runtime, "stub:", &options);
    run(salted, f->prompt);
    assert_int_equal(explain_prompt(salted, f->prompt).miss, HEARTH_MISS_NONE);
    assert_int_equal(explain_prompt(plain, f->prompt).miss, HEARTH_MISS_OTHER_TENANT);
    request.cache_salt = "house"; /* the same salt, wherever it is said */
    assert_int_equal(explain(plain, &request).miss, HEARTH_MISS_NONE);
    assert_int_equal(explain(salted, &request).miss, HEARTH_MISS_OTHER_TENANT);
    hearth_model_unref(plain);
    hearth_model_unref(salted);
}

FIXTURE_TEST(a_request_that_does_not_read_is_told_so)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    hearth_request request = hth_test_greedy(f->prompt, 5);

    run(model, f->prompt);
    request.no_cache_read = true;
    assert_int_equal(explain(model, &request).miss, HEARTH_MISS_NOT_READ);
    assert_int_equal(explain(model, &request).known_tokens, 0);
    hearth_model_unref(model);
}

FIXTURE_TEST(a_runtime_without_a_cache_knows_nothing)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_explanation e;

    (void)f;
    options.cache_disabled = true;
    runtime = hth_test_runtime_open(&options);
    model = hth_test_model_load(runtime, "stub:", NULL);
    e = explain_prompt(model, f->prompt);
    assert_int_equal(e.miss, HEARTH_MISS_NOT_READ);
    assert_int_equal(e.tier, HEARTH_TIER_NONE);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
}

FIXTURE_TEST(what_is_wrong_with_a_request_is_said_as_by_a_submit)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    hearth_explanation e = { .struct_size = sizeof(e) };
    hearth_request request = hth_test_greedy("", 5);
    hearth_token token = -1;

    assert_int_equal(hearth_explain(model, &request, &e, NULL), HEARTH_MISUSE);
    request.prompt = "\xff";
    assert_int_equal(hearth_explain(model, &request, &e, NULL), HEARTH_INVALID_TEXT);
    request.prompt = NULL;
    assert_int_equal(hearth_explain(model, &request, &e, NULL), HEARTH_MISUSE);
    request.tokens = &token;
    request.n_tokens = 1;
    assert_int_equal(hearth_explain(model, &request, &e, NULL), HEARTH_MISUSE);
    assert_int_equal(hearth_explain(model, NULL, &e, NULL), HEARTH_MISUSE);
    assert_int_equal(hearth_explain(NULL, &request, &e, NULL), HEARTH_MISUSE);
    assert_int_equal(hearth_explain(model, &request, NULL, NULL), HEARTH_MISUSE);
    request = hth_test_greedy(f->prompt, 5);
    hearth_model_unload(model);
    assert_int_equal(hearth_explain(model, &request, &e, NULL), HEARTH_CANCELLED);
    hearth_model_unref(model);
}

FIXTURE_TEST(a_caller_of_an_older_header_gets_what_it_knows_of)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    hearth_request request = hth_test_greedy(f->prompt, 5);
    hearth_explanation e;

    memset(&e, 0x55, sizeof(e));
    e.struct_size = offsetof(hearth_explanation, knows_logits);
    assert_int_equal(hearth_explain(model, &request, &e, NULL), HEARTH_OK);
    assert_int_equal(e.prompt_tokens, 701);
    assert_int_equal(e.struct_size, offsetof(hearth_explanation, knows_logits));
    assert_int_equal((unsigned char)e.detail[0], 0x55);
    hearth_model_unref(model);
}
