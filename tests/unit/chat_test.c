/*
 * chat_test.c - conversations become prompts, and replies become deltas that are never taken back
 */
#include <stdlib.h>
#include <string.h>

#include "base/json_bounds.h"
#include "support/api.h"
#include "support/chat.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static const hearth_chat_tool weather = { .struct_size = sizeof(hearth_chat_tool),
                                          .name = "weather",
                                          .parameters = "{\"type\":\"object\"}" };
static const hearth_chat_turn question = { .struct_size = sizeof(hearth_chat_turn),
                                           .role = "user",
                                           .content = "How is the weather?" };

static hearth_conversation asking(void)
{
    hearth_conversation c = hearth_conversation_default();

    c.turns = &question;
    c.n_turns = 1;
    c.tools = &weather;
    c.n_tools = 1;
    return c;
}

STUB_TEST(every_part_of_a_conversation_is_in_its_prompt)
{
    const char *const parts[] = { "a", "b" };
    const hearth_chat_call call = {
        .struct_size = sizeof(hearth_chat_call), .id = "x1", .name = "weather", .arguments = "{\"city\":\"Oslo\"}"
    };
    const hearth_chat_turn turns[] = {
        { .struct_size = sizeof(hearth_chat_turn), .role = "system", .content = "Be brief." },
        { .struct_size = sizeof(hearth_chat_turn), .role = "user", .parts = parts, .n_parts = 2 },
        { .struct_size = sizeof(hearth_chat_turn),
          .role = "assistant",
          .reasoning = "hm",
          .content = "Let me see.",
          .calls = &call,
          .n_calls = 1 },
        { .struct_size = sizeof(hearth_chat_turn), .role = "tool", .content = "rain", .call_id = "x1" },
    };
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;

    c.turns = turns;
    c.n_turns = 4;
    c.no_thinking = true;
    c.template_values = "{\"k\":1}";
    prompt = hth_test_chat_render(f->model, &c);
    assert_string_equal(prompt->text, "<|im_start|>tools\nweather {\"type\":\"object\"}\n<|im_end|>\n"
                                      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nab<|im_end|>\n"
                                      "<|im_start|>assistant\n<think>hm</think>Let me see."
                                      "<call>weather {\"city\":\"Oslo\"}</call><|im_end|>\n"
                                      "<|im_start|>tool\nx1: rain<|im_end|>\n"
                                      "<|im_start|>assistant\n<think></think><values>{\"k\":1}</values>");
    assert_int_equal(prompt->n_bytes, strlen(prompt->text));
    hearth_chat_prompt_free(prompt);

    c = asking();
    c.continue_last = true;
    prompt = hth_test_chat_render(f->model, &c);
    assert_string_equal(strstr(prompt->text, "<|im_start|>user"), "<|im_start|>user\nHow is the weather?");
    hearth_chat_prompt_free(prompt);
}

STUB_TEST(a_grammar_comes_with_tools_and_is_lazy_unless_one_must_be_called)
{
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(f->model, &c);

    assert_non_null(strstr(prompt->grammar, "\"weather\""));
    assert_true(prompt->grammar_is_lazy);
    assert_int_equal(prompt->n_triggers, 1);
    assert_string_equal(prompt->triggers[0].text, "<call>");
    hearth_chat_prompt_free(prompt);

    c.tool_choice = HEARTH_TOOL_REQUIRED;
    prompt = hth_test_chat_render(f->model, &c);
    assert_non_null(prompt->grammar);
    assert_false(prompt->grammar_is_lazy);
    hearth_chat_prompt_free(prompt);

    c.tool_choice = HEARTH_TOOL_NONE;
    prompt = hth_test_chat_render(f->model, &c);
    assert_null(prompt->grammar);
    hearth_chat_prompt_free(prompt);
}

STUB_TEST(a_reply_reads_the_same_whatever_pieces_it_comes_in)
{
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        { "Hello.", "C:Hello.\n" },
        { "", "" },
        { "<think>a < b</think>Yes: \xc3\xa9.", "R:a < b\nC:Yes: \xc3\xa9.\n" },
        { "<think>never ends", "R:never ends\n" },
        { "<thin", "C:<thin\n" },
        { "I look.<call>weather {\"city\":\"</ca\"}</call>", "C:I look.\nF:weather()\nA:{\"city\":\"</ca\"}\n" },
        { "<call>weather {}</call><call>weather {\"a\":1}</call>", "F:weather()\nA:{}\nF:weather()\nA:{\"a\":1}\n" },
        { "<call>weather {\"city\":", "F:weather()\nA:{\"city\":\n" },
        { "a <call", "C:a <call\n" },
    };
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(f->model, &c);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t n_piece = 1; n_piece <= 64; n_piece = 2 * n_piece + 1) {
            char *got = hth_test_chat_read(f->model, prompt, rows[i].text, n_piece);

            assert_string_equal(got, rows[i].wanted);
            free(got);
        }
    hearth_chat_prompt_free(prompt);
}

STUB_TEST(a_nul_byte_ends_no_part_of_a_reply)
{
    static const char text[] = "<think>a\0b</think>c\0d<call>weather {\0}</call>";
    static const struct {
        hearth_chat_delta_kind kind;
        const char *wanted;
    } rows[] = { { HEARTH_DELTA_REASONING, "a\0b" },
                 { HEARTH_DELTA_CONTENT, "c\0d" },
                 { HEARTH_DELTA_ARGUMENTS, "{\0}" } };
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(f->model, &c);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n;
        char *got = hth_test_chat_said(f->model, prompt, text, sizeof(text) - 1, rows[i].kind, &n);

        assert_int_equal(n, 3);
        assert_memory_equal(got, rows[i].wanted, 3);
        free(got);
    }
    hearth_chat_prompt_free(prompt);
}

STUB_TEST(marks_are_content_where_they_were_not_asked_for)
{
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;
    char *got;

    c.tool_choice = HEARTH_TOOL_NONE;
    c.reasoning_in_content = true;
    prompt = hth_test_chat_render(f->model, &c);
    got = hth_test_chat_read(f->model, prompt, "<think>a</think><call>weather {}</call>", 3);
    assert_string_equal(got, "C:<think>a</think><call>weather {}</call>\n");
    free(got);
    hearth_chat_prompt_free(prompt);
}

STUB_TEST(a_long_reply_is_read_in_steps_and_nothing_of_it_is_lost)
{
    enum { N = 200000 };
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(f->model, &c);
    char *text = malloc(N + 64), *got;

    memset(text, 'a', N);
    strcpy(text + N, "<call>weather {\"b\":2}</call>");
    got = hth_test_chat_read(f->model, prompt, text, 7);
    assert_int_equal(strspn(got + 2, "a"), N);
    assert_string_equal(got + 2 + N, "\nF:weather()\nA:{\"b\":2}\n");
    free(got);
    free(text);
    hearth_chat_prompt_free(prompt);
}

STUB_TEST(what_is_wrong_with_a_conversation_is_named)
{
    hearth_chat_turn turn = question;
    hearth_chat_tool tool = weather;
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;
    hearth_error err;

#define REFUSED(words)                                                                            \
    do {                                                                                          \
        assert_int_equal(hearth_conversation_render(f->model, &c, &prompt, &err), HEARTH_MISUSE); \
        if (!strstr(err.message, words))                                                          \
            fail_msg("'%s' does not say '%s'", err.message, words);                               \
    } while (0)

    c.turns = &turn;
    c.tools = &tool;
    turn.role = NULL;
    REFUSED("no role");
    turn = question;
    tool.name = "two words";
    REFUSED("letters, digits");
    tool = weather;
    tool.parameters = "[]";
    REFUSED("JSON object");
    tool = weather;
    c.n_turns = 0;
    REFUSED("1 to 16384 turns");
    c = asking();
    c.n_tools = 4097;
    REFUSED("at most 4096 tools");
    c = asking();
    c.n_tools = 0;
    c.tool_choice = HEARTH_TOOL_REQUIRED;
    REFUSED("there are none");
    c = asking();
    c.struct_size = 3;
    REFUSED("struct_size");
    c = asking();
    c.turns = &turn;
    turn.content = "\xff";
    assert_int_equal(hearth_conversation_render(f->model, &c, &prompt, &err), HEARTH_INVALID_TEXT);
#undef REFUSED
}

STUB_TEST(control_tokens_are_part_of_the_text_where_they_are_asked_for)
{
    const hearth_token shown[] = { 258 };
    hearth_request request = hth_test_greedy("abc", 2);
    hearth_sampling sampling = *request.sampling;
    const hearth_result *result;

    request.sampling = &sampling;
    sampling.shown_tokens = shown;
    sampling.n_shown_tokens = 65;
    assert_int_equal(hearth_submit(f->model, &request, NULL, NULL), HEARTH_MISUSE);
    /* A reply that already consists of the token, and goes on: its name is in the text. */
    sampling.n_shown_tokens = 1;
    request.replayed = shown;
    request.n_replayed = 1;
    result = hth_test_complete(f->model, &request);
    assert_memory_equal(result->text, "<|im_start|>", 12);
    hearth_result_unref(result);
    sampling.n_shown_tokens = 0;
    result = hth_test_complete(f->model, &request);
    assert_int_not_equal(strncmp(result->text, "<|im_start|>", 12), 0);
    hearth_result_unref(result);
}

STUB_TEST(a_request_takes_all_of_a_rendering_at_once)
{
    hearth_conversation c = asking();
    hearth_request request = hth_test_greedy(NULL, 40);
    const hearth_chat_prompt *prompt;
    hearth_token *tokens = calloc(4096, sizeof(*tokens));
    const hearth_result *result;
    char *said;
    size_t n;

    c.tool_choice = HEARTH_TOOL_REQUIRED;
    prompt = hth_test_chat_render(f->model, &c);
    assert_int_equal(prompt->struct_size, sizeof(*prompt));
    request.chat = prompt;
    result = hth_test_complete(f->model, &request);
    assert_int_equal(hearth_tokenize(f->model, prompt->text, prompt->n_bytes,
                                     HEARTH_TOKENIZE_SPECIAL | HEARTH_TOKENIZE_BOS, tokens, 4096, &n, NULL),
                     HEARTH_OK);
    assert_int_equal(result->stats->prompt_tokens, n);
    assert_memory_equal(result->prompt, tokens, n * sizeof(*tokens));
    said = hth_test_chat_read(f->model, prompt, result->text, 8);
    assert_memory_equal(said, "F:weather()\nA:{", 14); /* which the grammar alone brings about */
    free(said);
    hearth_result_unref(result);

    request.tokens = tokens + 1; /* tokens go before the text, and the grammar holds all the same */
    request.n_tokens = n - 1;
    result = hth_test_complete(f->model, &request);
    assert_int_equal(result->stats->prompt_tokens, n - 1);
    assert_memory_equal(result->text, "<call>weather {", 15);
    hearth_result_unref(result);
    free(tokens);
    hearth_chat_prompt_free(prompt);
}

STUB_TEST(stop_texts_of_a_rendering_come_behind_those_of_the_request)
{
    hearth_conversation c = asking();
    hearth_request request = hth_test_greedy(NULL, 20);
    const hearth_chat_prompt *prompt;
    hearth_chat_prompt with_stop;
    const char *own[64], *of_template[1];
    const hearth_result *result;
    char first[2] = "";

    c.n_tools = 0;
    prompt = hth_test_chat_render(f->model, &c);
    request.chat = prompt;
    result = hth_test_complete(f->model, &request);
    first[0] = result->text[0];
    hearth_result_unref(result);

    with_stop = *prompt;
    with_stop.stop = of_template;
    with_stop.n_stop = 1;
    of_template[0] = first;
    for (size_t i = 0; i < 64; i++)
        own[i] = "never said";
    request.chat = &with_stop;
    request.stop = own;
    request.n_stop = 3;
    result = hth_test_complete(f->model, &request);
    assert_int_equal(result->n_bytes, 0);
    assert_int_equal(result->stop_number, 4);
    hearth_result_unref(result);
    request.n_stop = 64;
    assert_int_equal(hearth_submit(f->model, &request, NULL, NULL), HEARTH_MISUSE);
    hearth_chat_prompt_free(prompt);
}

STUB_TEST(a_rendering_and_a_request_must_not_contradict_each_other)
{
    static const hearth_token shown[] = { 258 };
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(f->model, &c);
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request request = hth_test_greedy("abc", 2);
    hearth_error err;

    request.chat = prompt;
    assert_int_equal(hearth_submit(f->model, &request, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "set prompt to NULL"));
    request.prompt = NULL;
    request.sampling = &sampling;
    sampling.grammar = "root ::= \"a\"";
    assert_int_equal(hearth_submit(f->model, &request, NULL, &err), HEARTH_MISUSE);
    sampling.grammar = NULL;
    sampling.shown_tokens = shown;
    sampling.n_shown_tokens = 1;
    assert_int_equal(hearth_submit(f->model, &request, NULL, &err), HEARTH_MISUSE);
    hearth_chat_prompt_free(prompt);
    hearth_chat_prompt_free(NULL);
}

TEST(json_is_measured_without_parsing_it)
{
    assert_int_equal(hth_json_measure("", 0).depth, 0);
    assert_int_equal(hth_json_measure("[[],{\"a[[[\":1}]", 15).depth, 2);
    assert_int_equal(hth_json_measure("[1,2,3]", 7).n_values, 4);
    assert_int_equal(hth_json_measure("\"\\\"[\"[", 6).depth, 1);
    assert_int_equal(hth_json_measure("]]]][", 5).depth, 1);
    assert_int_equal(hth_json_measure("\"\\", 2).depth, 0);
    assert_true(hth_json_is_within("[[1]]", 5, 2, 3));
    assert_false(hth_json_is_within("[[1]]", 5, 1, 3));
    assert_false(hth_json_is_within("[1,2]", 5, 2, 2));
}
