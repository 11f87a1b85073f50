/*
 * hostile_templates_test.c - chat templates that would take all memory, stack or time are refused, and named
 */
#include <string.h>

#include "support/api.h"
#include "support/chat.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

#define LOOP "{% for i in range(9000) %}{% for j in range(9000) %}"
#define END_LOOP "{% endfor %}{% endfor %}"

static void need_bounds(void)
{
#ifndef HTH_TEST_TEMPLATE_BOUNDS
    skip();
#endif
}

/* A slow machine may meet the bound of time first. */
static void refused_when_read(const hth_test_stub *f, const char *text, const char *why)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model = NULL;
    hearth_error err = { .message = "" };

    need_bounds();
    options.chat_template = text;
    assert_int_equal(hearth_model_load(f->runtime, MODEL, &options, &model, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "chat template"));
    if (!strstr(err.message, why) && !strstr(err.message, "it runs for more than 5 s"))
        fail_msg("'%s' for %s", err.message, text);
}

RUNTIME_TEST(a_template_that_takes_memory_without_end_is_refused)
{
    static const char *const texts[] = {
        "{{ 'a' * 2000000000 }}",
        "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
        "{{ range(2000000000) | list }}",
        /* Nested values: their destructors recurse. */
        "{% set ns = namespace(l=[]) %}" LOOP "{% set ns.l = [ns.l] %}" END_LOOP,
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refused_when_read(f, texts[i], "256 MiB");
}

RUNTIME_TEST(a_template_that_recurses_without_end_is_refused)
{
    static const char *const texts[] = {
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}",
        "{% macro f() %}{% for i in range(2) %}{% if true %}{{ [{'a': f()}] }}{% endif %}{% endfor %}{% endmacro %}"
        "{{ f() }}",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refused_when_read(f, texts[i], "calls itself");
}

RUNTIME_TEST(a_template_that_runs_without_end_is_refused)
{
    refused_when_read(f, LOOP "{% for k in range(9000) %}{% if false %}{% endif %}{% endfor %}" END_LOOP,
                      "runs for more than 5 s");
}

RUNTIME_TEST(a_template_that_behaves_until_a_request_comes_fails_that_request)
{
    static const hearth_chat_turn turn = {
        .struct_size = sizeof(turn), .role = "user", .content = "the word", .name = NULL
    };
    hearth_model *model;
    hearth_chat_turn other = turn;
    hearth_conversation c = hearth_conversation_default();
    const hearth_chat_prompt *prompt;
    hearth_error err;

    need_bounds();
    model = hth_test_template_model(f->runtime,
                                    "{% if messages[0].content == 'the word' %}{{ 'a' * 2000000000 }}{% endif %}"
                                    "{{ messages[0].content }}");
    c.turns = &turn;
    c.n_turns = 1;
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_ENGINE);
    assert_non_null(strstr(err.message, "the chat template: it needs more than 512 MiB"));
    other.content = "another";
    c.turns = &other;
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_OK);
    assert_string_equal(prompt->text, "another");
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}
