/*
 * own_words_test.c - a conversation that comes back with its calls written otherwise has the tokens that it had
 *
 * The template of the stub writes the arguments of a call as the client gives them.
 */
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { TURN_END = 259, TOKENS_MAX = 4096, MEMORY = 1 << 20 };

static const hearth_chat_tool tools[] = { { .struct_size = sizeof(hearth_chat_tool), .name = "f" } };

/* A question, and, with arguments, the call that answers it and the tool's result. */
static const hearth_chat_prompt *render(hearth_model *model, const char *reasoning, const char *arguments)
{
    const hearth_chat_call call = {
        .struct_size = sizeof(call), .id = "c", .name = "f", .arguments = arguments ? arguments : "{}"
    };
    const hearth_chat_turn turns[] = {
        { .struct_size = sizeof(turns[0]), .role = "user", .content = "What is it?" },
        { .struct_size = sizeof(turns[0]), .role = "assistant", .reasoning = reasoning, .calls = &call, .n_calls = 1 },
        { .struct_size = sizeof(turns[0]), .role = "tool", .content = "It is.", .call_id = "c" },
    };
    hearth_conversation conversation = hearth_conversation_default();
    const hearth_chat_prompt *prompt;

    conversation.turns = turns;
    conversation.n_turns = arguments ? 3 : 1;
    conversation.tools = tools;
    conversation.n_tools = 1;
    assert_int_equal(hearth_conversation_render(model, &conversation, &prompt, NULL), HEARTH_OK);
    return prompt;
}

/* The model replies with this text, and ends. */
static void reply(hearth_model *model, const char *text, const char *salt, hearth_logit_bias *bias)
{
    const hearth_chat_prompt *prompt = render(model, NULL, NULL);
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_token tokens[256];
    const hearth_result *result;

    for (; text[request.n_replayed]; request.n_replayed++)
        tokens[request.n_replayed] = (unsigned char)text[request.n_replayed];
    tokens[request.n_replayed++] = TURN_END;
    sampling.logit_bias = bias;
    sampling.n_logit_bias = bias != NULL;
    request.chat = prompt;
    request.sampling = &sampling;
    request.cache_salt = salt;
    request.replayed = tokens;
    request.tell_replayed = true; /* the last one ends the reply */
    assert_int_equal(hearth_complete(model, &request, &result, NULL), HEARTH_OK);
    hearth_result_unref(result);
    hearth_chat_prompt_free(prompt);
}

typedef struct known {
    size_t n_tokens;
    uint32_t n_history;
} known;

static known ask(hearth_model *model, const char *reasoning, const char *arguments, const char *salt)
{
    const hearth_chat_prompt *prompt = render(model, reasoning, arguments);
    hearth_request request = hearth_request_default();
    hearth_explanation explanation = { .struct_size = sizeof(explanation) };
    known k = { .n_tokens = 0 };

    request.chat = prompt;
    request.cache_salt = salt;
    assert_int_equal(hearth_explain(model, &request, &explanation, NULL), HEARTH_OK);
    k.n_history = explanation.history_tokens;
    k.n_tokens = explanation.prompt_tokens;
    hearth_chat_prompt_free(prompt);
    return k;
}

typedef struct fixture {
    char *directory;
    hearth_runtime *runtime;
    hearth_model *model;
} fixture;

static void set_up(fixture *f)
{
    hearth_runtime_options options;

    f->directory = hth_test_directory_new();
    options = hth_test_runtime_options(f->directory);
    options.history_bytes_max = MEMORY;
    f->runtime = hth_test_runtime_open(&options);
    assert_int_equal(hearth_model_load(f->runtime, "stub:vocab=300", NULL, &f->model, NULL), HEARTH_OK);
}

static void tear_down(fixture *f)
{
    hearth_model_unref(f->model);
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

FIXTURE_TEST(a_call_that_comes_back_with_other_blanks_has_the_tokens_that_it_had)
{
    known own, others;

    reply(f->model, "<call>f {\"a\":[1,2]}</call>", "mine", NULL);
    own = ask(f->model, NULL, "{\"a\":[1,2]}", "mine");
    assert_true(own.n_history > 0);
    others = ask(f->model, NULL, "{ \"a\": [1, 2] }", "mine");
    assert_int_equal(others.n_tokens, own.n_tokens);
    assert_int_equal(others.n_history, own.n_history);
}

FIXTURE_TEST(what_is_not_the_same_reply_is_as_the_client_sent_it)
{
    known canonical;

    reply(f->model, "<think>hm</think><call>f {\"a\":[1,2]}</call>", "mine", NULL);
    assert_true(ask(f->model, "hm", "{\"a\": [1,2]}", "mine").n_history > 0);
    /* Without its reasoning, with other arguments, under another salt. */
    assert_int_equal(ask(f->model, NULL, "{\"a\": [1,2]}", "mine").n_history, 0);
    assert_int_equal(ask(f->model, "hm", "{\"a\": [1,3]}", "mine").n_history, 0);
    canonical = ask(f->model, "hm", "{\"a\": [1,2]}", "others");
    assert_int_equal(canonical.n_history, 0);
    assert_int_equal(canonical.n_tokens, ask(f->model, "hm", "{\"a\":[1,2]}", "others").n_tokens + 1);
}

FIXTURE_TEST(a_steered_reply_is_not_remembered)
{
    hearth_logit_bias bias = { .token = 'a', .bias = 1 };

    reply(f->model, "<call>f {\"a\":1}</call>", "mine", &bias);
    assert_int_equal(ask(f->model, NULL, "{\"a\":1}", "mine").n_history, 0);
}
