/*
 * api_prompt_test.c - prompts are found again by all that they are made of, and by nothing else
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/prepare.h"
#include "dialects/request_parse.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"

typedef struct key {
    uint8_t bytes[HTH_MEMO_KEY_BYTES];
} key;

static key key_of(hth_api_kind kind, const char *body, size_t i)
{
    hth_api_request *request = hth_test_parsed(kind, body);
    key k;

    assert_true(hth_api_prompt_key(request, i, k.bytes));
    return k;
}

static bool is_same(const key *a, const key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"

TEST(every_part_of_a_conversation_is_in_its_key)
{
    static const char *const bodies[] = {
        "{\"messages\":[" USER("ab") "," USER("c") "]}",
        "{\"messages\":[" USER("a") "," USER("bc") "]}",
        "{\"messages\":[" USER("abc") "]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"abc\"}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":"
        "\"bc\"}]}]}",
        "{\"messages\":[{\"role\":\"user\",\"name\":\"x\",\"content\":\"abc\"}]}",
        "{\"messages\":[" USER("abc") "],\"cache_salt\":\"s\"}",
        "{\"messages\":[" USER("abc") "],\"cache_salt\":\"t\"}",
        "{\"messages\":[" USER("abc") "],\"response_format\":{\"type\":\"json_object\"}}",
        "{\"messages\":[" USER("abc") "],\"chat_template_kwargs\":{\"a\":1}}",
        "{\"messages\":[" USER("abc") "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}",
        "{\"messages\":[" USER("abc") "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}",
        "{\"messages\":[" USER(
            "abc") "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":\"required\"}",
        "{\"messages\":[" USER(
            "abc") "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"parallel_tool_calls\":false}",
        "{\"messages\":[" USER("abc") ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
                                      "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}]}",
        "{\"messages\":[" USER("abc") ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"2\",\"type\":\"function\","
                                      "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}]}",
        "{\"messages\":[" USER("abc") ",{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"x\"}]}",
        "{\"messages\":[" USER("abc") ",{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":\"x\"}]}",
    };
    enum { N = sizeof(bodies) / sizeof(bodies[0]) };
    key keys[N], again;

    for (size_t i = 0; i < N; i++) {
        keys[i] = key_of(HTH_API_CHAT, bodies[i], 0);
        for (size_t j = 0; j < i; j++)
            if (is_same(&keys[i], &keys[j]))
                fail_msg("the same key for %s and %s", bodies[i], bodies[j]);
    }
    again = key_of(HTH_API_CHAT, "{\"temperature\":1,\"n\":3,\"stream\":true,\"messages\":[" USER("abc") "]}", 0);
    keys[2] = key_of(HTH_API_CHAT, bodies[2], 0); /* once more: the time is in it */
    assert_true(is_same(&again, &keys[2]));       /* how it is sampled is no part of the prompt */
}

TEST(texts_and_tokens_have_keys_of_their_own)
{
    key text = key_of(HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"ab\"}", 0);
    key tokens = key_of(HTH_API_NATIVE_COMPLETION, "{\"prompt\":[1,2,3]}", 0);
    key others = key_of(HTH_API_NATIVE_COMPLETION, "{\"prompt\":[1,2,4]}", 0);
    key mixed = key_of(HTH_API_NATIVE_COMPLETION, "{\"prompt\":[\"ab\",1,2,3]}", 0);
    key second = key_of(HTH_API_COMPLETION, "{\"model\":\"m\",\"prompt\":[\"x\",\"ab\"]}", 1);

    assert_false(is_same(&text, &tokens));
    assert_false(is_same(&tokens, &others));
    assert_false(is_same(&text, &mixed));
    assert_true(is_same(&text, &second)); /* whichever of a request's prompts it is */
}

/* One of so many tokens, in the memory only. */
static void keep(hth_memo *prompts, uint8_t number, size_t n_tokens)
{
    hth_api_prompt *prompt = hth_api_prompt_new();
    key k = { .bytes = { number } };

    prompt->n_tokens = n_tokens;
    prompt->tokens = calloc(n_tokens, sizeof(*prompt->tokens));
    hth_api_prompts_keep(prompts, k.bytes, prompt);
    hth_api_prompt_unref(prompt);
}

static bool has(hth_memo *prompts, const uint8_t bytes[HTH_MEMO_KEY_BYTES])
{
    hth_api_prompt *found = hth_memo_find(prompts, bytes);

    hth_api_prompt_unref(found);
    return found != NULL;
}

static bool has_number(hth_memo *prompts, uint8_t number)
{
    key k = { .bytes = { number } };

    return has(prompts, k.bytes);
}

TEST(the_least_recently_used_makes_room)
{
    hth_memo *prompts = hth_api_prompts_new(100000);
    key k = { .bytes = { 1 } };
    hth_api_prompt *held;

    for (uint8_t i = 0; i < 9; i++)
        keep(prompts, i, 2000);          /* about 9 KB */
    assert_true(has_number(prompts, 0)); /* now the newest */
    held = hth_memo_find(prompts, k.bytes);
    for (uint8_t i = 9; i < 14; i++)
        keep(prompts, i, 2000);
    assert_true(has_number(prompts, 0));
    assert_true(has_number(prompts, 13));
    assert_false(has_number(prompts, 2));
    assert_false(has_number(prompts, 3));
    keep(prompts, 99, 4000); /* larger than an eighth */
    assert_false(has_number(prompts, 99));
    keep(prompts, 13, 1000); /* made a second time */
    assert_true(has_number(prompts, 13));
    hth_memo_free(prompts);
    assert_int_equal(held->n_tokens, 2000); /* it stays for who holds it */
    hth_api_prompt_unref(held);
}

/* Prepare a completion of so many tokens; is its prompt in the memory then? */
static bool is_remembered(hearth_model *model, hth_memo *prompts, size_t n_tokens, bool fits)
{
    size_t n = 0;
    char *body = malloc(16 + 2 * n_tokens + 2);
    hth_api_prepared prepared = { .n_requests = 0 };
    hth_api_error error;
    hth_api_request *request;
    key k;

    for (size_t i = 0; i < n_tokens; i++)
        n += (size_t)sprintf(body + n, "%s7", i == 0 ? "{\"prompt\":[" : ",");
    (void)sprintf(body + n, "]}");
    request = hth_api_request_parse(HTH_API_NATIVE_COMPLETION, body, strlen(body), NULL, &error);
    assert_non_null(request);
    assert_int_equal(hth_api_prepare(model, request, 1, prompts, &prepared, &error), fits);
    assert_true(hth_api_prompt_key(request, 0, k.bytes));
    hth_api_prepared_deinit(&prepared);
    hth_api_request_free(request);
    free(body);
    return has(prompts, k.bytes);
}

RUNTIME_TEST(a_prompt_that_the_context_has_no_room_for_takes_no_place)
{
    enum { N_CTX = 64 };
    hearth_model_options options = hearth_model_options_default();
    hth_memo *prompts = hth_api_prompts_new(1 << 20);

    options.n_ctx = N_CTX;
    f->model = hth_test_model_load(f->runtime, "stub:", &options);
    assert_true(is_remembered(f->model, prompts, N_CTX, true));
    assert_false(is_remembered(f->model, prompts, N_CTX + 1, false));
    hth_memo_free(prompts);
}

/* ---- biases of texts ---- */

static hth_api_error prepare(hearth_model *model, const char *body, hth_api_request **request,
                             hth_api_prepared *prepared)
{
    hth_api_error error;

    *request = hth_api_request_parse(HTH_API_NATIVE_COMPLETION, body, strlen(body), NULL, &error);
    if (!*request)
        fail_msg("%s: %s", body, error.message);
    *prepared = (hth_api_prepared){ .n_requests = 0 };
    (void)hth_api_prepare(model, *request, 1, NULL, prepared, &error);
    return error;
}

RUNTIME_TEST(every_token_of_a_text_has_its_bias)
{
    static const char *const bodies[] = {
        "{\"prompt\":\"x\",\"logit_bias\":[[7,1],[\" <s>é\",-2.5],[\"\",3],[\"b\",false]]}",
        "{\"prompt\":\"x\",\"logit_bias\":{\"7\":1,\" <s>é\":-2.5,\"\":3,\"b\":false}}",
    };
    hearth_token tokens[16];
    size_t n = 0;
    hearth_error err;

    f->model = hth_test_model_load(f->runtime, "stub:", NULL);
    assert_int_equal(hearth_tokenize(f->model, " <s>é", strlen(" <s>é"), 0, tokens, 16, &n, &err), HEARTH_OK);
    for (size_t i = 0; i < 2; i++) {
        hth_api_request *request;
        hth_api_prepared prepared;
        const hearth_sampling *sampling;

        assert_int_equal(prepare(f->model, bodies[i], &request, &prepared).kind, HTH_API_NO_ERROR);
        sampling = &prepared.samplings[0];
        assert_int_equal(sampling->n_logit_bias, 1 + n + 1);
        assert_int_equal(sampling->logit_bias[0].token, 7);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(sampling->logit_bias[1 + k].token, tokens[k]);
            assert_true(sampling->logit_bias[1 + k].bias == -2.5f);
        }
        assert_true(sampling->logit_bias[1 + n].bias < -1e30f);
        hth_api_prepared_deinit(&prepared);
        hth_api_request_free(request);
    }
}

RUNTIME_TEST(texts_have_no_more_tokens_than_a_request_may_name)
{
    enum { TEXTS = 5, TEXT_BYTES = 1000 }; /* a token each byte */
    hth_buffer body = { .text = NULL };
    char text[TEXT_BYTES + 1];
    hth_api_request *request;
    hth_api_prepared prepared;
    hth_api_error error;

    f->model = hth_test_model_load(f->runtime, "stub:", NULL);
    memset(text, 'a', TEXT_BYTES);
    text[TEXT_BYTES] = '\0';
    hth_buffer_add_text(&body, "{\"prompt\":\"x\",\"logit_bias\":[[1,1]");
    for (int i = 0; i < TEXTS; i++) {
        hth_buffer_add_text(&body, ",[\"");
        hth_buffer_add_text(&body, text);
        hth_buffer_add_text(&body, "\",1]");
    }
    hth_buffer_add_text(&body, "]}");
    error = prepare(f->model, hth_buffer_text(&body), &request, &prepared);
    assert_int_equal(error.kind, HTH_API_INVALID_VALUE);
    assert_string_equal(error.param, "logit_bias");
    hth_api_request_free(request);
    hth_buffer_deinit(&body);
}

TEST(a_text_that_is_too_long_is_refused)
{
    char body[2048] = "{\"prompt\":\"x\",\"logit_bias\":{\"";
    size_t n = strlen(body);
    hth_api_error error;

    memset(body + n, 'a', 1025);
    memcpy(body + n + 1025, "\":1}}", 6);
    assert_null(hth_api_request_parse(HTH_API_NATIVE_COMPLETION, body, strlen(body), NULL, &error));
    assert_int_equal(error.kind, HTH_API_INVALID_VALUE);
    assert_string_equal(error.param, "logit_bias");
}
