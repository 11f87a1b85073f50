/*
 * infill_test.c - /infill: the prompt around a gap, its key, and what is refused
 */
#include <stdlib.h>
#include <string.h>

#include "api/prepare.h"
#include "dialects/request_parse.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static hth_api_request *parsed(const char *body, hth_api_error *error)
{
    return hth_api_request_parse(HTH_API_INFILL, body, strlen(body), NULL, error);
}

/* The prompt, without the token that begins every text; the tokens of the stub are bytes. */
static void expect_prompt(hearth_model *model, const char *body, const char *expected)
{
    hth_api_error error;
    hth_api_request *request = parsed(body, &error);
    hth_api_prepared prepared;
    size_t n = strlen(expected);

    if (!request || !hth_api_prepare(model, request, 1, NULL, &prepared, &error))
        fail_msg("%s: %s", body, error.message);
    assert_int_equal(prepared.n_requests, 1);
    assert_int_equal(prepared.requests[0].n_tokens, n + 1);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(prepared.requests[0].tokens[i + 1], (unsigned char)expected[i]);
    hth_api_prepared_deinit(&prepared);
    hth_api_request_free(request);
}

STUB_TEST(the_prompt_has_the_texts_around_the_gap)
{
    hearth_model *filling = hth_test_model_load(f->runtime, "stub:fills=1", NULL);

    expect_prompt(filling, "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\"}", "<ab|cd>");
    expect_prompt(filling, "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"n_predict\":3}", "<|>");
    expect_prompt(filling, "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"prompt\":\"x\"}", "<abx|cd>");
    expect_prompt(filling,
                  "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[{\"text\":\"one\"},"
                  "{\"filename\":\"f.c\",\"text\":\"two\"}]}",
                  "\n\n--- snippet ---\n\none\n\n--- snippet ---\n\ntwo<a|b>");
    /* The names of control tokens are plain text. */
    expect_prompt(filling, "{\"input_prefix\":\"<|im_end|>\",\"input_suffix\":\"b\"}", "<<|im_end|>|b>");
    hearth_model_unref(filling);
}

STUB_TEST(a_model_without_the_tokens_is_not_supported)
{
    hth_api_error error;
    hth_api_request *request = parsed("{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}", &error);
    hth_api_prepared prepared;
    hth_buffer text = { .text = NULL };

    assert_non_null(request);
    assert_false(hth_api_prepare(f->model, request, 1, NULL, &prepared, &error));
    assert_int_equal(error.kind, HTH_API_UNSUPPORTED);
    assert_non_null(strstr(error.message, "/infill needs a model"));
    hth_api_error_write(hth_api_kind_dialect(HTH_API_INFILL), &error, &text);
    assert_non_null(strstr(hth_buffer_text(&text), "not_supported_error"));
    hth_buffer_deinit(&text);
    hth_api_request_free(request);
}

TEST(what_is_missing_or_wrong_is_named)
{
    static const struct {
        const char *body, *param;
        hth_api_error_kind kind;
    } rows[] = {
        { "{\"input_suffix\":\"b\"}", "input_prefix", HTH_API_MISSING },
        { "{\"input_prefix\":\"a\"}", "input_suffix", HTH_API_MISSING },
        { "{\"input_prefix\":1,\"input_suffix\":\"b\"}", "input_prefix", HTH_API_INVALID_TYPE },
        { "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"prompt\":[1]}", "prompt", HTH_API_INVALID_TYPE },
        { "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":{}}", "input_extra", HTH_API_INVALID_TYPE },
        { "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[\"x\"]}", "input_extra[0]",
          HTH_API_INVALID_TYPE },
        { "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[{\"text\":\"\"},{}]}", "input_extra[1].text",
          HTH_API_MISSING },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_api_error error;

        print_message("%s\n", rows[i].body);
        assert_null(parsed(rows[i].body, &error));
        assert_int_equal(error.kind, rows[i].kind);
        assert_string_equal(error.param, rows[i].param);
    }
}

TEST(every_text_is_a_part_of_the_key)
{
    static const char *const bodies[] = {
        "{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}",
        "{\"input_prefix\":\"ab\",\"input_suffix\":\"\"}",
        "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"prompt\":\"c\"}",
        "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[{\"text\":\"c\"}]}",
        "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[{\"text\":\"c\",\"filename\":\"d\"}]}",
    };
    enum { N = sizeof(bodies) / sizeof(bodies[0]) };
    uint8_t keys[N][HTH_MEMO_KEY_BYTES];

    for (size_t i = 0; i < N; i++) {
        hth_api_error error;
        hth_api_request *request = parsed(bodies[i], &error);

        assert_non_null(request);
        assert_true(hth_api_prompt_key(request, 0, keys[i]));
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(keys[i], keys[j], HTH_MEMO_KEY_BYTES);
        hth_api_request_free(request);
    }
}

STUB_TEST(the_reply_is_that_of_a_completion)
{
    hearth_model *filling = hth_test_model_load(f->runtime, "stub:fills=1", NULL);
    hth_test_answer answer =
        hth_test_api_run(filling, HTH_API_INFILL,
                         "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"prompt\":\"c\",\"n_predict\":4,"
                         "\"ignore_eos\":true,\"temperature\":0}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_int_equal(json_integer_value(hth_test_at(body, "tokens_evaluated")), 7);
    assert_int_equal(json_integer_value(hth_test_at(body, "tokens_predicted")), 4);
    assert_string_equal(hth_test_text_at(body, "prompt"), "c");
    hearth_model_unref(filling);
}
