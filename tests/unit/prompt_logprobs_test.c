/*
 * prompt_logprobs_test.c - what a prompt's tokens are worth is what they would be worth as a reply
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_HEAD = 700, N_REPLY = 60, N_TOP = 3 };

/* A prompt and its greedy reply as one prompt. */
static hearth_token *joined(hearth_model *model, const char *prompt, const hearth_result *reply, size_t *n_out)
{
    size_t n = 0;
    hearth_token *tokens = malloc((strlen(prompt) + 8 + reply->stats->completion_tokens) * sizeof(*tokens));

    assert_int_equal(
        hearth_tokenize(model, prompt, strlen(prompt), HEARTH_TOKENIZE_BOS, tokens, strlen(prompt) + 8, &n, NULL),
        HEARTH_OK);
    memcpy(tokens + n, reply->tokens, reply->stats->completion_tokens * sizeof(*tokens));
    *n_out = n + reply->stats->completion_tokens;
    return tokens;
}

STUB_TEST(they_are_those_of_the_same_tokens_as_a_reply)
{
    char *prompt = hth_test_prompt(N_HEAD, 3);
    hearth_request write = hth_test_greedy(prompt, N_REPLY), read;
    const hearth_result *reply, *result;
    hearth_token *tokens;
    size_t n = 0;

    write.n_top_logprobs = N_TOP;
    write.ignore_eos = true;
    reply = hth_test_complete(f->model, &write);
    tokens = joined(f->model, prompt, reply, &n);
    read = hth_test_greedy(NULL, 2);
    read.tokens = tokens;
    read.n_tokens = n;
    read.n_top_logprobs = N_TOP;
    read.prompt_logprobs = true;
    for (int round = 0; round < 2; round++) { /* the second time everything is known, and computed all the same */
        result = hth_test_complete(f->model, &read);
        assert_int_equal(result->stats->prompt_tokens, n);
        assert_int_equal(result->stats->cached_tokens, 0);
        assert_non_null(result->prompt_logprobs);
        assert_true(isnan(result->prompt_logprobs[0].logprob));
        for (size_t i = 1; i < n; i++) {
            const hearth_logprob *told = result->prompt_logprobs + i * (1 + N_TOP);

            assert_int_equal(told[0].token, tokens[i]);
            assert_true(told[0].logprob <= 0 && told[1].logprob >= told[2].logprob);
        }
        assert_memory_equal(result->prompt_logprobs + (n - N_REPLY) * (1 + N_TOP), reply->logprobs,
                            (size_t)N_REPLY * (1 + N_TOP) * sizeof(*reply->logprobs));
        hearth_result_unref(result);
    }
    free(tokens);
    hearth_result_unref(reply);
    free(prompt);
}

STUB_TEST(who_asks_does_not_disturb_others)
{
    char *prompt = hth_test_prompt(N_HEAD, 4);
    hearth_request plain = hth_test_greedy(prompt, 20), asks = plain;
    const hearth_result *first, *between, *again;

    asks.prompt_logprobs = true;
    first = hth_test_complete(f->model, &plain);
    between = hth_test_complete(f->model, &asks);
    again = hth_test_complete(f->model, &plain);
    assert_string_equal(first->text, between->text);
    assert_string_equal(first->text, again->text);
    assert_int_equal(again->stats->cached_tokens, again->stats->prompt_tokens);
    assert_null(again->prompt_logprobs);
    hearth_result_unref(first);
    hearth_result_unref(between);
    hearth_result_unref(again);
    asks.n = 2;
    assert_int_equal(hearth_complete(f->model, &asks, (const hearth_result *[2]){ NULL }, NULL), HEARTH_MISUSE);
    free(prompt);
}

/* ---- OpenAI's form of it ---- */

STUB_TEST(an_echo_with_log_probabilities_begins_with_the_prompts)
{
    hth_test_answer answer = hth_test_api_run(f->model, HTH_API_COMPLETION,
                                              "{\"prompt\":\"abc\",\"max_tokens\":2,\"temperature\":0,\"echo\":true,"
                                              "\"logprobs\":2,\"logit_bias\":{\"122\":100}}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text)), *lists = hth_test_at(body, "choices.0.logprobs");
    static const int offsets[] = { 0, 0, 1, 2, 3, 4 }; /* the token that begins every text has none */

    assert_int_equal(answer.status, 200);
    assert_string_equal(hth_test_text_at(body, "choices.0.text"), "abczz");
    assert_int_equal(json_array_size(json_object_get(lists, "tokens")), 6);
    assert_int_equal(json_array_size(json_object_get(lists, "top_logprobs")), 6);
    assert_true(json_is_null(json_array_get(json_object_get(lists, "token_logprobs"), 0)));
    assert_true(json_is_null(json_array_get(json_object_get(lists, "top_logprobs"), 0)));
    assert_string_equal(hth_test_text_at(lists, "tokens.1"), "a");
    assert_string_equal(hth_test_text_at(lists, "tokens.5"), "z");
    for (size_t i = 1; i < 6; i++) {
        assert_true(json_is_real(json_array_get(json_object_get(lists, "token_logprobs"), i)));
        assert_int_equal(json_object_size(json_array_get(json_object_get(lists, "top_logprobs"), i)), 2);
        assert_int_equal(json_integer_value(json_array_get(json_object_get(lists, "text_offset"), i)), offsets[i]);
    }
}
