/*
 * continued_reply_test.c - replies that go on with the beginning that the client gave
 */
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/chat.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static const hearth_chat_turn question = { .struct_size = sizeof(hearth_chat_turn),
                                           .role = "user",
                                           .content = "How is the weather in Oslo?" };

RUNTIME_TEST(a_reply_that_goes_on_is_told_without_its_beginning)
{
    static const char *const names[] = { "Qwen-Qwen2.5-7B-Instruct.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja",
                                         "mistralai-Mistral-Nemo-Instruct-2407.jinja" };
    const hearth_chat_turn turns[] = {
        question, { .struct_size = sizeof(hearth_chat_turn), .role = "assistant", .content = "In Oslo there" }
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        hearth_model *model = hth_test_engine_template_model(f->runtime, names[i]);
        hearth_conversation c = hearth_conversation_default();
        const hearth_chat_prompt *prompt;

        c.turns = turns;
        c.n_turns = 2;
        c.continue_last = true;
        prompt = hth_test_chat_render(model, &c);
        assert_non_null(strstr(prompt->text, "In Oslo there"));
        for (size_t n_piece = 1; n_piece < 100; n_piece = 3 * n_piece + 1) {
            char *got = hth_test_chat_read(model, prompt, " is rain.", n_piece);

            assert_string_equal(got + strcspn(got, " "), " is rain.\n");
            assert_true(strncmp(got, "C: ", 3) == 0);
            free(got);
        }
        hearth_chat_prompt_free(prompt);
        hearth_model_unref(model);
    }
}

static char *render_continued(hearth_model *model, const char *content)
{
    const hearth_chat_turn turns[] = {
        question, { .struct_size = sizeof(hearth_chat_turn), .role = "assistant", .content = content }
    };
    hearth_conversation c = hearth_conversation_default();
    const hearth_chat_prompt *prompt;
    char *text;

    c.turns = turns;
    c.n_turns = 2;
    c.continue_last = true;
    prompt = hth_test_chat_render(model, &c);
    text = strdup(prompt->text);
    assert_non_null(text);
    hearth_chat_prompt_free(prompt);
    return text;
}

RUNTIME_TEST(a_reply_that_goes_on_has_its_reasoning_once)
{
    static const char qwen[] = "Qwen-Qwen3-0.6B.jinja", r1[] = "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja";
    static const struct {
        const char *name;
        const char *content;
        const char *begun; /* behind the assistant's name */
    } replies[] = {
        { qwen, "<think>It is wet.</think>In Oslo", "<think>\nIt is wet.\n</think>\n\nIn Oslo" },
        { qwen, "\n<think>\nIt is wet.\n</think>\n\nIn Oslo", "<think>\nIt is wet.\n</think>\n\nIn Oslo" },
        { qwen, "<think>It is wet.</think>", "<think>\nIt is wet.\n</think>\n\n" },
        { qwen, "<think>\nIt is wet.", "<think>\nIt is wet." },
        { qwen, "In Oslo", "<think>\n\n</think>\n\nIn Oslo" },
        { qwen, "In <think>Oslo</think>", "<think>\n\n</think>\n\nIn <think>Oslo</think>" },
        { r1, "<think>It is wet.</think>In Oslo", "<think>It is wet.</think>In Oslo" },
        { r1, "<think>\nIt is wet.\n</think>\n\nIn Oslo", "<think>\nIt is wet.\n</think>\n\nIn Oslo" },
        { r1, "<think>It is wet.", "<think>It is wet." },
    };

    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        hearth_model *model = hth_test_engine_template_model(f->runtime, replies[i].name);
        char *text = render_continued(model, replies[i].content);
        const char *name = strcasestr(text, "assistant");

        assert_non_null(name);
        assert_string_equal(strchr(name, '<'), replies[i].begun);
        free(text);
        hearth_model_unref(model);
    }
}
