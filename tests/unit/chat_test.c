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

static void every_part_of_a_conversation_is_in_its_prompt(void **state)
{
    const hth_test_stub *f = *state;
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
    hearth_chat_prompt prompt;

    c.turns = turns;
    c.n_turns = 4;
    c.no_thinking = true;
    c.template_values = "{\"k\":1}";
    prompt = hth_test_chat_render(f->model, &c);
    assert_string_equal(prompt.text, "<|im_start|>tools\nweather {\"type\":\"object\"}\n<|im_end|>\n"
                                     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nab<|im_end|>\n"
                                     "<|im_start|>assistant\n<think>hm</think>Let me see."
                                     "<call>weather {\"city\":\"Oslo\"}</call><|im_end|>\n"
                                     "<|im_start|>tool\nx1: rain<|im_end|>\n"
                                     "<|im_start|>assistant\n<think></think><values>{\"k\":1}</values>");
    assert_int_equal(prompt.n_bytes, strlen(prompt.text));
    hearth_chat_prompt_free(&prompt);

    c = asking();
    c.continue_last = true;
    prompt = hth_test_chat_render(f->model, &c);
    assert_string_equal(strstr(prompt.text, "<|im_start|>user"), "<|im_start|>user\nHow is the weather?");
    hearth_chat_prompt_free(&prompt);
}

static void a_grammar_comes_with_tools_and_is_lazy_unless_one_must_be_called(void **state)
{
    const hth_test_stub *f = *state;
    hearth_conversation c = asking();
    hearth_chat_prompt prompt = hth_test_chat_render(f->model, &c);

    assert_non_null(strstr(prompt.grammar, "\"weather\""));
    assert_true(prompt.grammar_is_lazy);
    assert_int_equal(prompt.n_triggers, 1);
    assert_string_equal(prompt.triggers[0].text, "<call>");
    hearth_chat_prompt_free(&prompt);

    c.tool_choice = HEARTH_TOOL_REQUIRED;
    prompt = hth_test_chat_render(f->model, &c);
    assert_non_null(prompt.grammar);
    assert_false(prompt.grammar_is_lazy);
    hearth_chat_prompt_free(&prompt);

    c.tool_choice = HEARTH_TOOL_NONE;
    prompt = hth_test_chat_render(f->model, &c);
    assert_null(prompt.grammar);
    hearth_chat_prompt_free(&prompt);
}

static void a_reply_reads_the_same_whatever_pieces_it_comes_in(void **state)
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
    const hth_test_stub *f = *state;
    hearth_conversation c = asking();
    hearth_chat_prompt prompt = hth_test_chat_render(f->model, &c);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t n_piece = 1; n_piece <= 64; n_piece = 2 * n_piece + 1) {
            char *got = hth_test_chat_read(f->model, &prompt, rows[i].text, n_piece);

            assert_string_equal(got, rows[i].wanted);
            free(got);
        }
    hearth_chat_prompt_free(&prompt);
}

static void a_nul_byte_ends_no_part_of_a_reply(void **state)
{
    static const char text[] = "<think>a\0b</think>c\0d<call>weather {\0}</call>";
    static const struct {
        hearth_chat_delta_kind kind;
        const char *wanted;
    } rows[] = { { HEARTH_DELTA_REASONING, "a\0b" },
                 { HEARTH_DELTA_CONTENT, "c\0d" },
                 { HEARTH_DELTA_ARGUMENTS, "{\0}" } };
    const hth_test_stub *f = *state;
    hearth_conversation c = asking();
    hearth_chat_prompt prompt = hth_test_chat_render(f->model, &c);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n;
        char *got = hth_test_chat_said(f->model, &prompt, text, sizeof(text) - 1, rows[i].kind, &n);

        assert_int_equal(n, 3);
        assert_memory_equal(got, rows[i].wanted, 3);
        free(got);
    }
    hearth_chat_prompt_free(&prompt);
}

static void marks_are_content_where_they_were_not_asked_for(void **state)
{
    const hth_test_stub *f = *state;
    hearth_conversation c = asking();
    hearth_chat_prompt prompt;
    char *got;

    c.tool_choice = HEARTH_TOOL_NONE;
    c.reasoning_in_content = true;
    prompt = hth_test_chat_render(f->model, &c);
    got = hth_test_chat_read(f->model, &prompt, "<think>a</think><call>weather {}</call>", 3);
    assert_string_equal(got, "C:<think>a</think><call>weather {}</call>\n");
    free(got);
    hearth_chat_prompt_free(&prompt);
}

static void a_long_reply_is_read_in_steps_and_nothing_of_it_is_lost(void **state)
{
    enum { N = 200000 };
    const hth_test_stub *f = *state;
    hearth_conversation c = asking();
    hearth_chat_prompt prompt = hth_test_chat_render(f->model, &c);
    char *text = malloc(N + 64), *got;

    memset(text, 'a', N);
    strcpy(text + N, "<call>weather {\"b\":2}</call>");
    got = hth_test_chat_read(f->model, &prompt, text, 7);
    assert_int_equal(strspn(got + 2, "a"), N);
    assert_string_equal(got + 2 + N, "\nF:weather()\nA:{\"b\":2}\n");
    free(got);
    free(text);
    hearth_chat_prompt_free(&prompt);
}

static void what_is_wrong_with_a_conversation_is_named(void **state)
{
    const hth_test_stub *f = *state;
    hearth_chat_turn turn = question;
    hearth_chat_tool tool = weather;
    hearth_conversation c = asking();
    hearth_chat_prompt prompt;
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
    c.n_tools = 129;
    REFUSED("at most 128 tools");
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

static void control_tokens_are_part_of_the_text_where_they_are_asked_for(void **state)
{
    const hth_test_stub *f = *state;
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

static void json_is_measured_without_parsing_it(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_part_of_a_conversation_is_in_its_prompt, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_grammar_comes_with_tools_and_is_lazy_unless_one_must_be_called,
                                        hth_test_stub_set_up, hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_reply_reads_the_same_whatever_pieces_it_comes_in, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_nul_byte_ends_no_part_of_a_reply, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(marks_are_content_where_they_were_not_asked_for, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_long_reply_is_read_in_steps_and_nothing_of_it_is_lost, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_a_conversation_is_named, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(control_tokens_are_part_of_the_text_where_they_are_asked_for,
                                        hth_test_stub_set_up, hth_test_stub_tear_down),
        cmocka_unit_test(json_is_measured_without_parsing_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
