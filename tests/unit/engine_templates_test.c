/*
 * engine_templates_test.c - every template that the engine has built in has its name here, and says the same
 */
#include <llama.h>
#include <stdio.h>
#include <string.h>

#include "models/chat_templates.h"
#include "models/model.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

enum { NAMES_MAX = 256, TEXT_BYTES = 4096, TURNS_MAX = 6 };

/* Conversations by their roles; the contents have white space at their ends, which some templates trim. */
static const char *const conversations[][TURNS_MAX] = {
    { "user" },
    { "system", "user" },
    { "user", "assistant", "user" },
    { "system", "user", "assistant", "user", "assistant", "user" },
};

static const char *content_of(size_t i)
{
    static const char *const contents[] = { " Be brief. ", "Hi there \n", "  Hello.", "Why?", "So it is. ", " Bye" };

    return contents[i];
}

static size_t n_turns_of(const char *const roles[TURNS_MAX])
{
    size_t n = 0;

    while (n < TURNS_MAX && roles[n])
        n++;
    return n;
}

static void engine_says(const char *name, const char *const roles[TURNS_MAX], char out[TEXT_BYTES])
{
    struct llama_chat_message messages[TURNS_MAX];
    const size_t n = n_turns_of(roles);
    int32_t n_bytes;

    for (size_t i = 0; i < n; i++)
        messages[i] = (struct llama_chat_message){ roles[i], content_of(i) };
    n_bytes = llama_chat_apply_template(name, messages, n, true, out, TEXT_BYTES - 1);
    assert_true(n_bytes >= 0 && n_bytes < TEXT_BYTES);
    out[n_bytes] = '\0';
}

/* The token that begins this model's texts is the tokenizer's to add. */
static const char *behind_begin(const char *text)
{
    return strncmp(text, "<s>", strlen("<s>")) == 0 ? text + strlen("<s>") : text;
}

static void check_conversation(hearth_model *model, const char *name, const char *const roles[TURNS_MAX])
{
    hearth_chat_turn turns[TURNS_MAX];
    hearth_conversation conversation = hearth_conversation_default();
    const hearth_chat_prompt *prompt;
    char expected[TEXT_BYTES];
    hearth_error err;

    for (size_t i = 0; i < n_turns_of(roles); i++)
        turns[i] = (hearth_chat_turn){ .struct_size = sizeof(*turns), .role = roles[i], .content = content_of(i) };
    conversation.turns = turns;
    conversation.n_turns = n_turns_of(roles);
    assert_ok(hearth_conversation_render(model, &conversation, &prompt, &err), err);
    engine_says(name, roles, expected);
    if (strcmp(behind_begin(prompt->text), behind_begin(expected)) != 0)
        fail_msg("'%s' is '%s' and not '%s'", name, prompt->text, expected);
    hearth_chat_prompt_free(prompt);
}

TEST(every_template_of_the_engine_has_its_name)
{
    const char *names[NAMES_MAX];
    const int32_t n = llama_chat_builtin_templates(names, NAMES_MAX);

    assert_true(n > 40 && n <= NAMES_MAX);
    for (int32_t i = 0; i < n; i++)
        if (!hth_chat_template_named(names[i]))
            fail_msg("'%s' is no name of a template", names[i]);
}

TEST(each_says_what_the_engine_s_own_says)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_runtime *runtime;

    options.cache_disabled = true;
    runtime = hth_test_runtime_open(&options);
    for (size_t i = 0; i < hth_n_engine_templates; i++) {
        const char *name = hth_engine_templates[i].name;
        hearth_model_options model_options = hearth_model_options_default();
        hearth_model *model;

        model_options.chat_template = name;
        model = hth_test_model_load(runtime, MODEL, &model_options);
        for (size_t j = 0; j < sizeof(conversations) / sizeof(conversations[0]); j++)
            check_conversation(model, name, conversations[j]);
        hearth_model_unref(model);
    }
    hearth_runtime_close(runtime);
}
