/*
 * draft_requests_test.c - who may ask for drafts, as a program sees it
 */
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/support.h"

static const char prompt[] = "The sea is calm tonight. The tide is full, the moon lies fair upon the straits.";

static void expect_refused(hearth_model *model, const hearth_request *request, const char *message)
{
    hearth_error err = { .message = "" };
    const hearth_result *result = NULL;

    assert_int_equal(hearth_complete(model, request, &result, &err), HEARTH_MISUSE);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not said, but '%s'", message, err.message);
}

STUB_TEST(bad_drafts_are_refused_by_name)
{
    const hearth_token tokens[] = { 'a', 'b', 1000000 };
    hearth_request request = hth_test_greedy(prompt, 5);

    request.draft_max = 15;
    expect_refused(f->model, &request, "draft_max is 15; it must be 0 to 14");
    request = hth_test_greedy(prompt, 5);
    request.draft_min = -2;
    expect_refused(f->model, &request, "draft_min is -2; it must be 0 to 14");
    request = hth_test_greedy(prompt, 5);
    request.verify = true;
    expect_refused(f->model, &request, "verify needs draft_tokens");
    request.n_draft_tokens = 3;
    expect_refused(f->model, &request, "draft_tokens is NULL although its count is not 0");
    request.draft_tokens = tokens;
    expect_refused(f->model, &request, "draft_tokens[2] is 1000000; this model has tokens 0 to ");
}

RUNTIME_TEST(a_request_has_the_drafts_of_its_model_unless_it_asks_for_others)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_request request = hth_test_greedy(prompt, 40);
    const hearth_result *first, *second;

    options.draft_max = 15;
    assert_int_equal(hearth_model_load(f->runtime, "stub:", &options, &f->model, NULL), HEARTH_MISUSE);
    options.draft_max = 3;
    f->model = hth_test_model_load(f->runtime, "stub:", &options);
    request.draft_max = 0;
    first = hth_test_complete(f->model, &request);
    assert_int_equal(first->stats->draft_tokens, 0);

    request.draft_max = -1;
    request.draft_tokens = first->tokens; /* the reply is known */
    request.n_draft_tokens = first->stats->completion_tokens;
    /* Evaluations of the stub cost next to nothing, so drafts may seem to cost more than they save: then try again. */
    for (int n_tries = 0, n_drafted = 0; n_drafted == 0; n_tries++) {
        assert_true(n_tries < 50);
        if (n_tries > 0) { /* a new model has measured nothing yet */
            hearth_model_unref(f->model);
            f->model = hth_test_model_load(f->runtime, "stub:", &options);
        }
        second = hth_test_complete(f->model, &request);
        n_drafted = (int)second->stats->draft_tokens;
        assert_true(second->stats->n_decode_evaluations >= 39 / 4);
        assert_string_equal(second->text, first->text);
        hearth_result_unref(second);
    }

    request.verify = true;
    request.n_draft_tokens = 10;
    second = hth_test_complete(f->model, &request);
    assert_int_equal(second->stats->completion_tokens, 11);
    assert_int_equal(second->finish_reason, HEARTH_FINISH_LENGTH);
    assert_memory_equal(second->tokens, first->tokens, 11 * sizeof(*first->tokens));
    hearth_result_unref(second);
    hearth_result_unref(first);
}
