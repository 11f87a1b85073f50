/*
 * chat_templates_test.c - templates by name, and models that have none
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/chat_templates.h"
#include "models/model.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/gguf_edit.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

typedef struct fixture {
    char *directory;
    char bare[512]; /* a copy of the model without a template */
    hearth_runtime *runtime;
    unsigned n_warnings;
    char log[4096];
} fixture;

static void note(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;
    size_t n = strlen(f->log);

    if (strcmp(source, "hearth") != 0)
        return;
    f->n_warnings += level == HEARTH_LOG_WARNING;
    (void)snprintf(f->log + n, sizeof(f->log) - n, "%s\n", message);
}

static void set_up(fixture *f)
{
    hearth_runtime_options options = hearth_runtime_options_default();

    f->directory = hth_test_directory_new();
    (void)snprintf(f->bare, sizeof(f->bare), "%s/bare.gguf", f->directory);
    hth_test_gguf_hide(MODEL, f->bare, "tokenizer.chat_template");
    options.cache_disabled = true;
    options.log = note;
    options.log_user_data = f;
    options.log_level = HEARTH_LOG_INFO;
    f->runtime = hth_test_runtime_open(&options);
}

static void tear_down(fixture *f)
{
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static hearth_model *load(const fixture *f, const char *path, const char *chat_template)
{
    hearth_model_options options = hearth_model_options_default();

    options.chat_template = chat_template;
    return hth_test_model_load(f->runtime, path, &options);
}

/* A system message, one of the user, the reply, and another one of the user. */
static const hearth_chat_prompt *render(hearth_model *model, size_t n_turns)
{
    static const hearth_chat_turn turns[] = {
        { .struct_size = sizeof(hearth_chat_turn), .role = "system", .content = "Be brief." },
        { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "Hi" },
        { .struct_size = sizeof(hearth_chat_turn), .role = "assistant", .content = "Hello." },
        { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "Bye" }
    };
    hearth_conversation conversation = hearth_conversation_default();
    const hearth_chat_prompt *prompt;
    hearth_error err;

    conversation.turns = turns + (n_turns < 4);
    conversation.n_turns = n_turns;
    assert_ok(hearth_conversation_render(model, &conversation, &prompt, &err), err);
    return prompt;
}

FIXTURE_TEST(each_of_our_templates_marks_who_speaks)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        { "alpaca", "Be brief.\n\n### Instruction:\nHi\n\n### Response:\nHello.\n\n### Instruction:\nBye\n\n"
                    "### Response:\n" },
        { "chatml", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
                    "Hello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n" },
        { "gemma", "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n"
                   "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n" },
        { "llama2", "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s>[INST] Bye [/INST]" },
        { "llama3", "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user"
                    "<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
                    "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant"
                    "<|end_header_id|>\n\n" },
        { "mistral", "[INST] Be brief.\n\nHi[/INST] Hello.</s>[INST] Bye[/INST]" },
        { "phi3", "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello.<|end|>\n<|user|>\nBye"
                  "<|end|>\n<|assistant|>\n" },
        { "vicuna", "Be brief.\n\nUSER: Hi\nASSISTANT: Hello.</s>\nUSER: Bye\nASSISTANT:" },
        { "zephyr", "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello.</s>\n<|user|>\nBye</s>\n"
                    "<|assistant|>\n" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const hth_chat_template *named = hth_chat_template_named(cases[i].name);
        hearth_model *model = load(f, MODEL, cases[i].name);
        hearth_model_info info = { .struct_size = sizeof(info) };
        const hearth_chat_prompt *prompt = render(model, 4);

        assert_string_equal(prompt->text, cases[i].text);
        assert_true(prompt->n_stop >= 1);
        assert_string_equal(prompt->stop[prompt->n_stop - (named->stop[1] ? 2 : 1)], named->stop[0]);
        assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
        assert_string_equal(info.chat_template_kind, "given");
        hearth_chat_prompt_free(prompt);
        hearth_model_unref(model);
    }
    assert_int_equal(f->n_warnings, 0);
    assert_null(hth_chat_template_named("chatml "));
    assert_false(hth_chat_template_is_given(""));
}

FIXTURE_TEST(a_model_without_a_template_gets_chatml_and_one_warning)
{
    hearth_model *model = load(f, f->bare, NULL);
    hearth_model_info info = { .struct_size = sizeof(info) };
    const hearth_chat_prompt *prompt;

    assert_int_equal(f->n_warnings, 0); /* whoever completes texts need not know */
    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    assert_string_equal(info.chat_template_kind, "fallback");
    for (int i = 0; i < 2; i++) {
        prompt = render(model, 1);
        assert_string_equal(prompt->text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
        assert_string_equal(prompt->stop[prompt->n_stop - 2], "<|im_end|>");
        hearth_chat_prompt_free(prompt);
    }
    assert_int_equal(f->n_warnings, 1);
    assert_non_null(strstr(f->log, "model 'bare' has no chat template"));
    hearth_model_unref(model);
}

FIXTURE_TEST(a_model_s_own_template_is_left_alone)
{
    hearth_model *model = load(f, MODEL, NULL);
    hearth_model_info info = { .struct_size = sizeof(info) };
    const hearth_chat_prompt *prompt;

    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    assert_string_equal(info.chat_template_kind, "model");
    prompt = render(model, 1);
    assert_int_equal(prompt->n_stop, 0); /* nor are stop texts of ours added */
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}
