/*
 * llama_chat_test.c - the engine's own templates: calls of every family of models are found, hostile ones are survived
 *
 * Templates are those of the engine's source tree; where that is gone (the engine is kept without it), what needs them
 * is skipped.
 */
#include <dirent.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/prepare.h"
#include "dialects/request_parse.h"
#include "grammar/gbnf_reader.h"
#include "schema/schema.h"
#include "support/api.h"
#include "support/chat.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

static const hearth_chat_tool tools[] = {
    { .struct_size = sizeof(hearth_chat_tool),
      .name = "get_weather",
      .description = "Tells the weather",
      .parameters = "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}" },
    { .struct_size = sizeof(hearth_chat_tool), .name = "now" },
};
static const hearth_chat_turn question = { .struct_size = sizeof(hearth_chat_turn),
                                           .role = "user",
                                           .content = "How is the weather in Oslo?" };

static hearth_conversation asking(void)
{
    hearth_conversation c = hearth_conversation_default();

    c.turns = &question;
    c.n_turns = 1;
    c.tools = tools;
    c.n_tools = 2;
    return c;
}

/* Does a sampler take it? Names of tokens are not asked for. */
static bool is_grammar(const char *text, hearth_error *err)
{
    uint64_t steps = HTH_SCHEMA_STEPS_MAX;
    hth_gbnf_outside outside = { .n_tokens = 1, .json = hth_schema_embedded, .json_data = &steps };
    hth_gbnf *gbnf = NULL;
    hearth_status status = hth_gbnf_new(text, strlen(text), &outside, &gbnf, err);

    hth_gbnf_unref(gbnf);
    return status == HEARTH_OK;
}

RUNTIME_TEST(calls_of_every_family_are_found_in_their_notation)
{
    static const struct {
        const char *name, *reply, *wanted;
    } rows[] = {
        { "Qwen-Qwen2.5-7B-Instruct.jinja",
          "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
          "F:get_weather()\nA:{\"city\": \"Oslo\"}\n" },
        { "Qwen-Qwen3-0.6B.jinja",
          "<think>\nOslo, then.\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
          "{\"city\": \"Oslo\"}}\n</tool_call>",
          "R:Oslo, then.\n\nC:Let me look.\n\nF:get_weather()\nA:{\"city\": \"Oslo\"}\n" },
        { "mistralai-Mistral-Nemo-Instruct-2407.jinja",
          "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}, \"id\": \"123456789\"}]",
          "F:get_weather()\nA:{\"city\": \"Oslo\"}\n" },
        { "meta-llama-Llama-3.1-8B-Instruct.jinja", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}",
          "F:get_weather()\nA:{\"city\": \"Oslo\"}\n" },
        { "openai-gpt-oss-120b.jinja",
          "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
          "<|constrain|>json<|message|>{\"city\": \"Oslo\"}",
          "R:hm\nF:get_weather()\nA:{\"city\": \"Oslo\"}\n" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hearth_model *model = hth_test_engine_template_model(f->runtime, rows[i].name);
        hearth_conversation c = asking();
        const hearth_chat_prompt *prompt = hth_test_chat_render(model, &c);

        assert_non_null(strstr(prompt->text, "get_weather"));
        assert_true(prompt->grammar_is_lazy || !prompt->grammar);
        for (size_t n_piece = 1; n_piece < 1000; n_piece = 3 * n_piece + 1) {
            char *got = hth_test_chat_read(model, prompt, rows[i].reply, n_piece);

            char *id = strstr(got, "123456789"); /* known at the beginning where the piece is the whole */

            if (id)
                memmove(id, id + 9, strlen(id + 9) + 1);
            assert_string_equal(got, rows[i].wanted);
            free(got);
        }
        hearth_chat_prompt_free(prompt);
        hearth_model_unref(model);
    }
}

RUNTIME_TEST(a_nul_byte_ends_no_part_of_a_reply)
{
    static const char text[] = "<think>\na\0b\n</think>\n\nc\0d {", plain[] = "{ \0 } x\0y";
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen3-0.6B.jinja");
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(model, &c);
    size_t n;
    char *got = hth_test_chat_said(model, prompt, text, sizeof(text) - 1, HEARTH_DELTA_REASONING, &n);

    assert_true(n >= 3);
    assert_memory_equal(got, "a\0b", 3);
    free(got);
    got = hth_test_chat_said(model, prompt, text, sizeof(text) - 1, HEARTH_DELTA_CONTENT, &n);
    assert_int_equal(n, 5);
    assert_memory_equal(got, "c\0d {", 5);
    free(got);
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);

    model = hth_test_engine_template_model(
        f->runtime, "meta-llama-Llama-3.1-8B-Instruct.jinja"); /* a brace begins a call, which this is not */
    prompt = hth_test_chat_render(model, &c);
    got = hth_test_chat_said(model, prompt, plain, sizeof(plain) - 1, HEARTH_DELTA_CONTENT, &n);
    assert_int_equal(n, sizeof(plain) - 1);
    assert_memory_equal(got, plain, n);
    free(got);
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}

RUNTIME_TEST(several_calls_of_one_reply_are_told_apart)
{
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(model, &c);
    char *got = hth_test_chat_read(
        model, prompt,
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>\n"
        "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        5);

    assert_string_equal(got, "F:get_weather()\nA:{\"city\": \"Oslo\"}\nF:now()\nA:{}\n");
    free(got);
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}

RUNTIME_TEST(what_is_remembered_of_a_template_changes_no_prompt)
{
    const hearth_chat_turn turns[] = {
        { .struct_size = sizeof(hearth_chat_turn), .role = "system", .content = "Be brief." },
        { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "And Bergen?" },
    };
    hearth_model *warm = hth_test_engine_template_model(f->runtime, "Qwen-Qwen3-0.6B.jinja");
    hearth_model *cold = hth_test_engine_template_model(f->runtime, "Qwen-Qwen3-0.6B.jinja");
    hearth_conversation c = asking();
    const hearth_chat_prompt *first = hth_test_chat_render(warm, &c), *second, *other;

    c.turns = turns;
    c.n_turns = 2;
    second = hth_test_chat_render(warm, &c);
    other = hth_test_chat_render(cold, &c);
    assert_string_not_equal(first->text, second->text);
    assert_string_equal(second->text, other->text);
    assert_string_equal(second->grammar, other->grammar);
    assert_string_equal(second->parser, other->parser);
    assert_int_equal(second->n_triggers, other->n_triggers);
    hearth_chat_prompt_free(first);
    hearth_chat_prompt_free(other);

    /* Another tool is another grammar. */
    c.n_tools = 1;
    other = hth_test_chat_render(warm, &c);
    assert_string_not_equal(second->grammar, other->grammar);
    hearth_chat_prompt_free(second);
    hearth_chat_prompt_free(other);
    hearth_model_unref(warm);
    hearth_model_unref(cold);
}

enum { RENDERING_THREADS = 3, RENDERINGS = 6 };

typedef struct rendering {
    hearth_model *model;
    unsigned first; /* tools to begin with */
    const hearth_chat_prompt *const *expected;
    bool is_same;
} rendering;

/* Some of it with one tool and some with two, so that what is remembered of one is moved behind the other. */
static void *render_in_turns(void *context)
{
    rendering *r = context;

    r->is_same = true;
    for (unsigned i = 0; i < RENDERINGS; i++) {
        hearth_conversation c = asking();
        const hearth_chat_prompt *prompt;

        c.n_tools = 1 + (r->first + i) % 2;
        if (hearth_conversation_render(r->model, &c, &prompt, NULL) != HEARTH_OK) {
            r->is_same = false;
            return NULL;
        }
        if (strcmp(prompt->text, r->expected[c.n_tools - 1]->text) != 0 ||
            strcmp(prompt->grammar, r->expected[c.n_tools - 1]->grammar) != 0)
            r->is_same = false;
        hearth_chat_prompt_free(prompt);
    }
    return NULL;
}

RUNTIME_TEST(threads_that_share_a_template_get_what_each_gets_alone)
{
    hearth_model *alone = hth_test_engine_template_model(f->runtime, "Qwen-Qwen3-0.6B.jinja");
    hearth_model *shared = hth_test_engine_template_model(f->runtime, "Qwen-Qwen3-0.6B.jinja");
    const hearth_chat_prompt *expected[2];
    rendering all[RENDERING_THREADS];
    pthread_t threads[RENDERING_THREADS];

    for (unsigned i = 0; i < 2; i++) {
        hearth_conversation c = asking();

        c.n_tools = i + 1;
        expected[i] = hth_test_chat_render(alone, &c);
    }
    for (unsigned i = 0; i < RENDERING_THREADS; i++) {
        all[i] = (rendering){ .model = shared, .first = i, .expected = expected };
        assert_int_equal(pthread_create(&threads[i], NULL, render_in_turns, &all[i]), 0);
    }
    for (unsigned i = 0; i < RENDERING_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < RENDERING_THREADS; i++)
        assert_true(all[i].is_same);
    hearth_chat_prompt_free(expected[0]);
    hearth_chat_prompt_free(expected[1]);
    hearth_model_unref(alone);
    hearth_model_unref(shared);
}

RUNTIME_TEST(a_brace_that_is_no_call_loses_nothing_of_the_reply)
{
    hearth_model *model = hth_test_engine_template_model(f->runtime, "meta-llama-Llama-3.1-8B-Instruct.jinja");
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(model, &c);

    for (size_t n_piece = 1; n_piece < 40; n_piece += 3) {
        char *got = hth_test_chat_read(model, prompt, "Write {a: 1}, I think.", n_piece);

        assert_string_equal(got, "C:Write {a: 1}, I think.\n");
        free(got);
    }
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}

RUNTIME_TEST(a_call_that_is_required_is_a_grammar_from_the_first_token_on)
{
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;

    c.tool_choice = HEARTH_TOOL_REQUIRED;
    prompt = hth_test_chat_render(model, &c);
    assert_non_null(prompt->grammar);
    assert_false(prompt->grammar_is_lazy);
    assert_string_equal(prompt->grammar_prefix, "<|im_start|>assistant\n");
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}

/* As programs generate them for unsigned integers, and worse. */
RUNTIME_TEST(bounds_of_tools_beyond_what_is_followed_are_left_out)
{
    static const char *const parameters[] = {
        "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":1."
        "8446744073709552e19}}}",
        "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":"
        "18446744073709551615}}}",
        "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":[\"null\",\"integer\"],\"minimum\":-9223372036854775808,"
        "\"maximum\":9223372036854775807}}}",
        "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"integer\","
        "\"exclusiveMinimum\":9007199254740992},{\"type\":\"integer\",\"maximum\":-1e300}]}}}}",
        "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":-9007199254740991,"
        "\"maximum\":9007199254740991}}}",
    };
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool), .name = "f" };
    hearth_conversation c = asking();

    c.tools = &tool;
    c.n_tools = 1;
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
        for (int choice = 0; choice < 2; choice++) {
            const hearth_chat_prompt *prompt;
            hearth_error err;

            c.tool_choice = choice ? HEARTH_TOOL_REQUIRED : HEARTH_TOOL_AUTO;
            tool.parameters = parameters[i];
            prompt = hth_test_chat_render(model, &c);
            assert_non_null(prompt->grammar);
            if (!is_grammar(prompt->grammar, &err))
                fail_msg("%s: %s", parameters[i], err.message);
            hearth_chat_prompt_free(prompt);
        }
    hearth_model_unref(model);
}

/* Turns of two roles that alternate behind the system's, as Gemma's template wants them; it has no place for tools. */
static const char no_tools[] =
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}\n{% set messages = messages[1:] %}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}";

RUNTIME_TEST(a_call_is_demanded_in_words_where_the_template_has_no_tools)
{
    static const char calls[] = "[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}, "
                                "{\"name\": \"now\", \"arguments\": {}}]";
    hearth_model *model = hth_test_template_model(f->runtime, no_tools);
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;
    hearth_error err;

    prompt = hth_test_chat_render(model, &c);
    assert_null(strstr(prompt->text, "get_weather")); /* the model may, but need not call: it is as ever */
    hearth_chat_prompt_free(prompt);

    c.tool_choice = HEARTH_TOOL_REQUIRED;
    for (int parallel = 0; parallel < 2; parallel++) {
        c.parallel_calls = parallel;
        prompt = hth_test_chat_render(model, &c);
        assert_non_null(strstr(prompt->text, "{\"name\":\"get_weather\",\"description\":\"Tells the weather\","));
        assert_non_null(strstr(prompt->text, parallel ? "one or more calls" : "array of one call"));
        assert_non_null(strstr(prompt->text, "user: How is the weather in Oslo?\nassistant: "));
        assert_false(prompt->grammar_is_lazy);
        assert_non_null(prompt->grammar);
        assert_non_null(strstr(prompt->grammar, "%json {\"type\":\"object\",\"properties\":{\"city\":"));
        assert_true(is_grammar(prompt->grammar, &err));
        for (size_t n_piece = 1; parallel && n_piece < 1000; n_piece = 3 * n_piece + 1) {
            char *got = hth_test_chat_read(model, prompt, calls, n_piece);

            assert_string_equal(got, "F:get_weather()\nA:{\"city\": \"Oslo\"}\nF:now()\nA:{}\n");
            free(got);
        }
        hearth_chat_prompt_free(prompt);
    }
    hearth_model_unref(model);
}

RUNTIME_TEST(earlier_calls_stand_in_words_behind_the_words_of_the_system)
{
    static const hearth_chat_call call = {
        .struct_size = sizeof(hearth_chat_call), .id = "1", .name = "now", .arguments = "{\"zone\":\"CET\"}"
    };
    const hearth_chat_turn turns[] = {
        { .struct_size = sizeof(hearth_chat_turn), .role = "system", .content = "Be brief." },
        question,
        { .struct_size = sizeof(hearth_chat_turn), .role = "assistant", .calls = &call, .n_calls = 1 },
        { .struct_size = sizeof(hearth_chat_turn), .role = "tool", .content = "It is noon.", .call_id = "1" },
        { .struct_size = sizeof(hearth_chat_turn), .role = "tool", .content = "It rains.", .call_id = "2" },
        { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "Again!" },
    };
    hearth_model *model = hth_test_template_model(f->runtime, no_tools);
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;

    c.turns = turns;
    c.n_turns = sizeof(turns) / sizeof(turns[0]);
    c.tool_choice = HEARTH_TOOL_REQUIRED;
    prompt = hth_test_chat_render(model, &c);
    assert_int_equal(strncmp(prompt->text, "Be brief.\n\nReply with calls of tools.", 37), 0);
    assert_non_null(strstr(prompt->text, "assistant: [{\"name\":\"now\",\"arguments\":{\"zone\":\"CET\"}}]\n"
                                         "user: It is noon.\n\nIt rains.\n\nAgain!\nassistant: "));
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}

RUNTIME_TEST(every_interface_may_demand_a_call_where_the_template_has_no_tools)
{
    static const struct {
        hth_api_kind kind;
        const char *body;
    } rows[] = {
        { HTH_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"required\","
                        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}" },
        { HTH_API_MESSAGES,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":{\"type\":\"any\"},\"model\":\"m\","
          "\"max_tokens\":1,\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]}" },
        { HTH_API_RESPONSES,
          "{\"input\":\"x\",\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},"
          "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"function\",\"name\":\"g\"}]}" },
    };
    hearth_model *model = hth_test_template_model(f->runtime, no_tools);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_api_error problem;
        hth_api_prepared prepared = { 0 };
        hth_api_request *request =
            hth_api_request_parse(rows[i].kind, rows[i].body, strlen(rows[i].body), NULL, &problem);

        assert_non_null(request);
        if (!hth_api_prepare(model, request, 1, NULL, &prepared, &problem))
            fail_msg("%s", problem.message);
        hth_api_prepared_deinit(&prepared);
        hth_api_request_free(request);
    }
    hearth_model_unref(model);
}

/* Made with room for a token a byte; what is remembered of prompts is counted by their tokens (api/prompt.c). */
RUNTIME_TEST(a_prompt_holds_no_more_memory_than_its_tokens_take)
{
#ifdef __GLIBC__
    enum { TIMES = 60 };
    static const char sentence[] = "The fox ran over the hill. ";
    static const char head[] = "{\"max_tokens\":1,\"prompt\":\"", foot[] = "\"}";
    hearth_model *model = hth_test_template_model(f->runtime, "{{ messages }}");
    hth_buffer body = { .text = NULL };
    hth_api_request *request;
    hth_api_prepared prepared;
    hth_api_error problem;

    hth_buffer_add(&body, head, sizeof(head) - 1);
    for (unsigned i = 0; i < TIMES; i++)
        hth_buffer_add(&body, sentence, sizeof(sentence) - 1);
    hth_buffer_add(&body, foot, sizeof(foot) - 1);
    assert_false(body.failed);
    request = hth_api_request_parse(HTH_API_COMPLETION, body.text, body.n, NULL, &problem);
    assert_non_null(request);
    if (!hth_api_prepare(model, request, 1, NULL, &prepared, &problem))
        fail_msg("%s", problem.message);
    assert_true(prepared.prompts[0]->n_tokens < TIMES * sizeof(sentence) / 2);
    assert_true(malloc_usable_size(prepared.prompts[0]->tokens) <=
                prepared.prompts[0]->n_tokens * sizeof(hearth_token) + 64);
    hth_api_prepared_deinit(&prepared);
    hth_api_request_free(request);
    hth_buffer_deinit(&body);
    hearth_model_unref(model);
#else
    skip();
#endif
}

RUNTIME_TEST(a_schema_that_makes_no_grammar_is_told_with_its_tool_and_place)
{
    const hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool),
                                    .name = "f",
                                    .parameters = "{\"properties\":{\"a\":{\"anyOf\":[]}}}" };
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;
    hearth_error err;

    c.tools = &tool;
    c.n_tools = 1;
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "tool 'f'"));
    assert_non_null(strstr(err.message, "#/properties/a"));
    hearth_model_unref(model);
}

RUNTIME_TEST(counts_that_a_grammar_cannot_hold_do_not_fail_a_tool)
{
    static const char *const templates[] = { "Qwen-Qwen2.5-7B-Instruct.jinja", "Qwen3-Coder.jinja" };
    static char parameters[4096];
    const hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool), .name = "f", .parameters = parameters };
    size_t n;

    n = (size_t)snprintf(parameters, sizeof(parameters),
                         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":524288},"
                         "\"b\":{\"type\":\"array\",\"maxItems\":1e9}");
    for (int i = 0; i < 20; i++) /* each of them is small enough, all of them are not */
        n += (size_t)snprintf(parameters + n, sizeof(parameters) - n,
                              ",\"p%d\":{\"type\":\"string\",\"maxLength\":9000}", i);
    (void)snprintf(parameters + n, sizeof(parameters) - n, "}}");
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
        hearth_model *model = hth_test_engine_template_model(f->runtime, templates[i]);
        hearth_conversation c = asking();
        const hearth_chat_prompt *prompt;
        hearth_error err;

        c.tools = &tool;
        c.n_tools = 1;
        assert_ok(hearth_conversation_render(model, &c, &prompt, &err), err);
        assert_non_null(prompt->grammar);
        if (!is_grammar(prompt->grammar, &err))
            fail_msg("%s: %s", templates[i], err.message);
        hearth_chat_prompt_free(prompt);
        hearth_model_unref(model);
    }
}

RUNTIME_TEST(every_template_of_the_engine_survives_tools_and_nonsense)
{
    static const char *const nonsense[] = {
        "",
        "Hello, world. It rains.",
        "<tool_call>\n{\"name\": \"nobody\", \"arguments\": }}}}]]]",
        "<think><think></think></think><tool_call><tool_call>",
        "[TOOL_CALLS][[[{{\"name\": 1}]",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.now",
        "{\"name\": \"now\", \"parameters\": {\"a\": \"\\ud800\"}}",
        "<function=get_weather><parameter=city>Oslo</parameter></function>",
        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
    };
    DIR *directory = opendir(HTH_TEST_TEMPLATES);
    const struct dirent *entry;
    unsigned n = 0;

    if (!directory)
        skip();
    while ((entry = readdir(directory))) {
        hearth_model *model;
        hearth_conversation c = asking();
        const hearth_chat_prompt *prompt = NULL;
        hearth_error err;

        if (!strstr(entry->d_name, ".jinja"))
            continue;
        model = hth_test_engine_template_model(f->runtime, entry->d_name);
        if (hearth_conversation_render(model, &c, &prompt, &err) == HEARTH_OK) {
            for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
                free(hth_test_chat_read(model, prompt, nonsense[i], 2)); /* it fails the test itself */
            n++;
        }
        hearth_chat_prompt_free(prompt);
        hearth_model_unref(model);
    }
    closedir(directory);
    assert_in_range(n, 50, 1000);
}

RUNTIME_TEST(a_reply_of_nothing_but_brackets_ends_no_process)
{
    enum { N = 300000 };
    static const char *const beginnings[] = {
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": ",
        "",
    };
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt = hth_test_chat_render(model, &c);

    for (size_t i = 0; i < 2; i++)
        for (size_t depth = 64; depth < N; depth *= 8) {
            char *text = calloc(1, N + 256), *got;
            size_t n = strlen(beginnings[i]);

            memcpy(text, beginnings[i], n);
            memset(text + n, '[', depth);
            got = hth_test_chat_read(model, prompt, text, 997);
            free(got);
            free(text);
        }
    hearth_chat_prompt_free(prompt);
    hearth_model_unref(model);
}

RUNTIME_TEST(schemas_beyond_the_limits_are_refused_by_name)
{
    enum { N = 20000 };
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    char *deep = malloc(N), *wide = malloc(N);
    hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool), .name = "f" };
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;
    hearth_error err;
    size_t n = 0;

    strcpy(deep, "{\"a\":");
    memset(deep + 5, '[', N - 6);
    deep[N - 1] = '\0';
    n = (size_t)snprintf(wide, N, "{\"properties\":{");
    for (int i = 0; i < 300; i++)
        n += (size_t)snprintf(wide + n, N - n, "%s\"p%d\":{}", i ? "," : "", i);
    snprintf(wide + n, N - n, "}}");

    c.tools = &tool;
    c.n_tools = 1;
    tool.parameters = deep;
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "nested deeper"));
    tool.parameters = wide;
    prompt = hth_test_chat_render(model, &c);
    assert_non_null(prompt->grammar);
    hearth_chat_prompt_free(prompt);
    tool.parameters = "{\"type\":";
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "not valid JSON"));
    free(deep);
    free(wide);
    hearth_model_unref(model);
}

/* Parameters of a tool that the engine would follow without end, or for very long; ours are compiled. */
RUNTIME_TEST(schemas_that_the_engine_would_not_get_done_with_make_grammars)
{
    enum { N = 20000 };
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    char *types = calloc(1, N), *end = types;
    const char *const circle = "{\"type\":\"object\",\"properties\":{\"x\":{\"$ref\":\"#/$defs/n\"}},\"$defs\":{\"n\":{"
                               "\"type\":\"object\",\"properties\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/n\"}]}}}}}";
    hearth_chat_tool two[2] = { { .struct_size = sizeof(hearth_chat_tool), .name = "f", .parameters = circle },
                                { .struct_size = sizeof(hearth_chat_tool), .name = "g", .parameters = types } };
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;
    hearth_error err;

    for (int i = 0; i < 20; i++) /* each level is there once for each type */
        end += snprintf(end, N - (size_t)(end - types),
                        "{\"type\":[\"object\",\"object\",\"object\"],\"properties\":{\"a\":");
    end += snprintf(end, N - (size_t)(end - types), "{}");
    for (int i = 0; i < 20; i++)
        end += snprintf(end, N - (size_t)(end - types), "}}");

    c.tools = two;
    c.n_tools = 2;
    prompt = hth_test_chat_render(model, &c);
    assert_non_null(strstr(prompt->text, "allOf"));
    assert_non_null(prompt->grammar);
    if (!is_grammar(prompt->grammar, &err))
        fail_msg("%s", err.message);
    hearth_chat_prompt_free(prompt);
    free(types);
    hearth_model_unref(model);
}

/* The grammar has the schemas as they were given, whole or by members, whatever the engine would have made of them. */
RUNTIME_TEST(grammars_have_the_schemas_of_their_tools)
{
#define CODE "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[A-Z]+$\"},\"uniqueItems\":false}"
#define STEP "{\"type\":\"number\",\"multipleOf\":0.5}"
#define NODE "{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#/$defs/node\"}}}"
#define WHOLE                                                                                                          \
    "{\"type\":\"object\",\"properties\":{\"codes\":" CODE ",\"step\":" STEP ",\"list\":{\"$ref\":\"#/$defs/node\"}}," \
    "\"required\":[\"codes\"],\"$defs\":{\"node\":" NODE "}}"
    static const struct {
        const char *template_name, *wanted[3];
    } rows[] = {
        { "Qwen-Qwen2.5-7B-Instruct.jinja", { "%json " WHOLE "\n" } },
        { "openai-gpt-oss-120b.jinja", { "%json " WHOLE "\n" } },
        { "Qwen3-Coder.jinja",
          { "hearth-tool-f-arg-codes-schema ::= %json " CODE "\n", "hearth-tool-f-arg-step-schema ::= %json " STEP "\n",
            "tool-f-arg-list-schema ::= %json {\"$ref\":\"#/$defs/node\",\"$defs\":{\"node\":" NODE "}}\n" } },
        { "MiniMax-M3.jinja", { "hearth-tool-f-arg-step-schema ::= %json " STEP "\n" } },
    };
    const hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool), .name = "f", .parameters = WHOLE };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hearth_model *model = hth_test_engine_template_model(f->runtime, rows[i].template_name);
        hearth_conversation c = asking();
        const hearth_chat_prompt *prompt;
        hearth_error err;

        c.tools = &tool;
        c.n_tools = 1;
        prompt = hth_test_chat_render(model, &c);
        assert_non_null(prompt->grammar);
        for (size_t j = 0; j < 3 && rows[i].wanted[j]; j++)
            if (!strstr(prompt->grammar, rows[i].wanted[j]))
                fail_msg("%s: no %s in %s", rows[i].template_name, rows[i].wanted[j], prompt->grammar);
        if (!is_grammar(prompt->grammar, &err))
            fail_msg("%s: %s", rows[i].template_name, err.message);
        hearth_chat_prompt_free(prompt);
        hearth_model_unref(model);
    }
}

RUNTIME_TEST(a_grammar_that_is_too_large_is_left_out_where_it_only_helps)
{
    enum { N_TOOLS = 100, N = 8000 };
    hearth_model *model = hth_test_engine_template_model(f->runtime, "Qwen-Qwen2.5-7B-Instruct.jinja");
    static char names[N_TOOLS][16];
    static hearth_chat_tool many[N_TOOLS];
    char *parameters = calloc(1, N), *end = parameters;
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;
    hearth_error err;

    end += snprintf(end, N, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 40; i++)
        end += snprintf(end, N - (size_t)(end - parameters),
                        "%s\"a_long_and_winding_name_for_one_parameter_%d\":{\"type\":\"string\"}", i ? "," : "", i);
    (void)snprintf(end, N - (size_t)(end - parameters), "}}");
    for (int i = 0; i < N_TOOLS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "tool_%d", i);
        many[i] =
            (hearth_chat_tool){ .struct_size = sizeof(hearth_chat_tool), .name = names[i], .parameters = parameters };
    }
    c.tools = many;
    c.n_tools = N_TOOLS;
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_OK);
    assert_null(prompt->grammar);
    assert_int_equal(prompt->n_triggers, 0);
    assert_non_null(strstr(prompt->text, "parameter_39"));
    hearth_chat_prompt_free(prompt);
    c.tool_choice = HEARTH_TOOL_REQUIRED;
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "fewer tools"));
    free(parameters);
    hearth_model_unref(model);
}

RUNTIME_TEST(hostile_templates_are_refused_or_fail_with_a_status)
{
    enum { N = 700000 };
    char *text = malloc(N + 1);
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model = NULL;
    hearth_conversation c = asking();
    const hearth_chat_prompt *prompt;
    hearth_error err;

    options.chat_template = text;
    strcpy(text, "{{ ");
    memset(text + 3, '(', 5000);
    text[5003] = '\0';
    assert_int_equal(hearth_model_load(f->runtime, MODEL, &options, &model, &err), HEARTH_MISUSE);
    memset(text, ' ', N);
    text[N] = '\0';
    assert_int_equal(hearth_model_load(f->runtime, MODEL, &options, &model, &err), HEARTH_MISUSE);
    text[0] = '\0';
    for (int i = 0; i < 1000; i++)
        strcat(text, "{% if x %}");
    assert_int_equal(hearth_model_load(f->runtime, MODEL, &options, &model, &err), HEARTH_MISUSE);

    strcpy(text, "{{ raise_exception('no') }}");
    model = hth_test_template_model(f->runtime, text);
    assert_int_equal(hearth_conversation_render(model, &c, &prompt, &err), HEARTH_ENGINE);
    hearth_model_unref(model);
    free(text);
}
