/*
 * render_test.c - conversations that a template or a grammar cannot take as they are go through all the same
 *
 * Templates are those of the engine's source tree; where that is gone, what needs them is skipped.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/render.h"
#include "support/api.h"
#include "support/chat.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

static const hearth_chat_call call = {
    .struct_size = sizeof(hearth_chat_call), .id = "call00001", .name = "look", .arguments = "{\"where\":\"here\"}"
};
static const char *const question[] = { "First,", " a question." };
static const hearth_chat_turn turns[] = {
    { .struct_size = sizeof(hearth_chat_turn), .role = "system", .content = "Be brief." },
    { .struct_size = sizeof(hearth_chat_turn), .role = "user", .parts = question, .n_parts = 2 },
    { .struct_size = sizeof(hearth_chat_turn), .role = "system", .content = "\nAgents: none.\nOthers: none." },
    { .struct_size = sizeof(hearth_chat_turn),
      .role = "assistant",
      .content = "I look.",
      .calls = &call,
      .n_calls = 1 },
    { .struct_size = sizeof(hearth_chat_turn),
      .role = "tool",
      .content = "a tree",
      .call_id = "call00001",
      .name = "look" },
    { .struct_size = sizeof(hearth_chat_turn), .role = "system", .content = "The date has changed." },
};
static const hearth_chat_tool tool = {
    .struct_size = sizeof(hearth_chat_tool),
    .name = "look",
    .description = "Looks",
    .parameters = "{\"type\":\"object\",\"properties\":{\"where\":{\"type\":\"string\"}},\"required\":[\"where\"]}"
};

static hearth_conversation with_late_systems(size_t n_turns, bool with_tools)
{
    hearth_conversation c = hearth_conversation_default();

    c.turns = turns;
    c.n_turns = n_turns;
    c.tools = &tool;
    c.n_tools = with_tools;
    return c;
}

static void check_shown(const char *name, hearth_model *model, size_t n_turns, bool with_tools)
{
    static const char *const texts[] = { "Be brief.", "a question.", "Agents: none.",
                                         NULL,        NULL,          "The date has changed." };
    hearth_conversation c = with_late_systems(n_turns, with_tools);
    const hearth_chat_prompt *prompt;
    hearth_error err;

    if (hth_api_render(model, &c, &prompt, NULL, &err) != HEARTH_OK)
        fail_msg("%s, %zu turns: %s", name, n_turns, err.message);
    for (size_t i = 0; i < n_turns; i++)
        /* Some show the first with a question at the end only. */
        if (texts[i] && (i > 0 || n_turns == 3) && !strstr(prompt->text, texts[i]))
            fail_msg("%s leaves '%s' out: %s", name, texts[i], prompt->text);
    hearth_chat_prompt_free(prompt);
}

/* Those that know nothing of tools' results, and refuse or leave out a turn of one. */
static bool has_no_results(const char *name)
{
    return strncmp(name, "google-gemma-2", 14) == 0 || strcmp(name, "llama-cpp-rwkv-world.jinja") == 0;
}

RUNTIME_TEST(any_template_takes_messages_of_the_system_between_others)
{
    DIR *directory = opendir(HTH_TEST_TEMPLATES);
    struct dirent *entry;
    int n = 0;

    if (!directory)
        skip();
    while ((entry = readdir(directory))) {
        hearth_model *model;
        char path[4096], *text;

        if (!strstr(entry->d_name, ".jinja"))
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", HTH_TEST_TEMPLATES, entry->d_name);
        text = hth_test_text(path);
        model = hth_test_template_model(f->runtime, text);
        check_shown(entry->d_name, model, 3, false);
        check_shown(entry->d_name, model, 3, true);
        if (!has_no_results(entry->d_name))
            check_shown(entry->d_name, model, 6, true);
        hearth_model_unref(model);
        free(text);
        n++;
    }
    (void)closedir(directory);
    assert_true(n > 20);
}

RUNTIME_TEST(a_conversation_that_grows_keeps_its_beginning)
{
    hearth_model *model;
    hearth_conversation first = with_late_systems(3, true), second = with_late_systems(5, true);
    const hearth_chat_prompt *a, *b;
    hearth_error err;

    model = hth_test_engine_template_model(f->runtime, "Qwen3.5-4B.jinja");
    first.no_reply = true;
    assert_int_equal(hearth_conversation_render(model, &first, &a, &err),
                     HEARTH_ENGINE); /* it takes one at the beginning */
    assert_int_equal(hth_api_render(model, &first, &a, NULL, &err), HEARTH_OK);
    assert_int_equal(hth_api_render(model, &second, &b, NULL, &err), HEARTH_OK);
    assert_non_null(strstr(a->text, "<system>\nAgents: none."));
    assert_memory_equal(a->text, b->text, a->n_bytes);
    hearth_chat_prompt_free(a);
    hearth_chat_prompt_free(b);
    hearth_model_unref(model);
}

/* A schema of more values than are read. */
static char *wide_schema(void)
{
    char *text = malloc(100000);
    size_t n = (size_t)sprintf(text, "{\"enum\":[0");

    for (int i = 0; i < 5000; i++)
        n += (size_t)sprintf(text + n, ",%d", i);
    (void)sprintf(text + n, "]}");
    return text;
}

RUNTIME_TEST(a_tool_whose_schema_makes_no_grammar_is_offered_without_one)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:", NULL);
    char *wide = wide_schema();
    hearth_chat_tool tools[7];
    hearth_conversation c = with_late_systems(2, false);
    hth_api_notes notes = { .n_bytes = 0 };
    const hearth_chat_prompt *prompt;
    hearth_error err;

    for (size_t i = 0; i < 7; i++)
        tools[i] = tool;
    tools[1] = (hearth_chat_tool){ .struct_size = sizeof(hearth_chat_tool), .name = "wide", .parameters = wide };
    tools[5] = (hearth_chat_tool){ .struct_size = sizeof(hearth_chat_tool), .name = "odd", .parameters = "[]" };
    c.tools = tools;
    c.n_tools = 7;
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_MISUSE);
    assert_int_equal(hth_api_render(model, &c, &prompt, &notes, &err), HEARTH_OK);
    assert_string_equal(notes.text, "tools.wide.parameters, tools.odd.parameters");
    assert_non_null(strstr(prompt->text, "look {\"type\":\"object\",\"properties\":{\"where\""));
    assert_non_null(
        strstr(prompt->text, "\nodd {\"type\":\"object\",\"properties\":{},\"additionalProperties\":true}\n"));
    hearth_chat_prompt_free(prompt);

    /* What is wrong with anything else is an error as ever. */
    c.template_values = "[]";
    assert_int_equal(hth_api_render(model, &c, &prompt, &notes, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "template_values"));
    free(wide);
    hearth_model_unref(model);
}

RUNTIME_TEST(so_is_one_whose_schema_the_engine_cannot_read)
{
    static const hearth_chat_tool tools[] = {
        { .struct_size = sizeof(hearth_chat_tool),
          .name = "good",
          .parameters = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}" },
        { .struct_size = sizeof(hearth_chat_tool),
          .name = "lost",
          .parameters = "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/nowhere\"}}}" },
    };
    hearth_conversation c = with_late_systems(2, false);
    hth_api_notes notes = { .n_bytes = 0 };

    const hearth_chat_prompt *prompt;
    hearth_model *model;
    hearth_error err;

    model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    c.tools = tools;
    c.n_tools = 2;
    assert_ok(hth_api_render(model, &c, &prompt, &notes, &err), err);
    assert_string_equal(notes.text, "tools.lost.parameters");
    assert_non_null(prompt->grammar);
    assert_non_null(strstr(prompt->text, "#/nowhere")); /* it is told as text */
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}
