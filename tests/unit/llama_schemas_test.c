/*
 * llama_schemas_test.c - schemas of tools in templates that write calls as JSON, as elements, and as elements in
 * elements
 *
 * A shape that says another type than the schema makes a reply unreadable, and one that grows without end takes the
 * process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/chat.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { TEMPLATES = 3 };

typedef struct fixture {
    hth_test_stub base;
    hearth_model *models[TEMPLATES]; /* JSON; members as elements; members of members, too */
} fixture;

static void set_up(fixture *f)
{
    hth_test_runtime_set_up(&f->base);
    f->models[0] = hth_test_template_file_model(f->base.runtime, HTH_TEST_FIXTURES "/chat/tools.jinja");
    f->models[1] = hth_test_template_file_model(f->base.runtime, HTH_TEST_FIXTURES "/chat/tagged.jinja");
    f->models[2] = hth_test_template_file_model(f->base.runtime, HTH_TEST_FIXTURES "/chat/nested.jinja");
}

static void tear_down(fixture *f)
{
    for (size_t i = 0; i < TEMPLATES; i++)
        hearth_model_unref(f->models[i]);
    hth_test_stub_tear_down(&f->base);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static hearth_status render(hearth_model *model, const hearth_chat_tool *tools, size_t n_tools, bool any,
                            const hearth_chat_prompt **out, hearth_error *err)
{
    static const hearth_chat_turn turn = { .struct_size = sizeof(hearth_chat_turn), .role = "user", .content = "Hi" };
    hearth_conversation c = hearth_conversation_default();

    c.turns = &turn;
    c.n_turns = 1;
    c.tools = tools;
    c.n_tools = n_tools;
    c.any_parameters = any;
    *out = NULL;
    return hearth_conversation_render(model, &c, out, err);
}

/* Elements: what the reader of replies takes a member for, and what the grammar lets through. */
FIXTURE_TEST(members_are_what_all_that_is_said_of_them_makes_them)
{
    static const struct {
        const char *parameters, *wanted;
    } rows[] = {
        { "{\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3}}}",
          "hearth-tool-f-arg-a-schema ::= %json {\"type\":\"integer\",\"minimum\":3}\n" },
        { "{\"properties\":{\"a\":{\"type\":[\"string\",\"null\"]}}}",
          "tool-f-arg-a ::= (\"<parameter=\" \"a\" \">\\n\") xml" },
        { "{\"properties\":{\"a\":{}}}", "tool-f-arg-a ::= (\"<parameter=\" \"a\" \">\\n\") xml" },
        /* of several alternatives one may be a text */
        { "{\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"a\":{\"type\":\"string\"}}}]"
          "}",
          "tool-f-arg-a ::= (\"<parameter=\" \"a\" \">\\n\") xml" },
        { "{\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"a\":{\"type\":\"boolean\"}}}]"
          "}",
          "hearth-tool-f-arg-a-schema ::= %json {}\n" },
        { "{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"string\"}}},{\"properties\":{\"a\":{\"description\":\"x\"}}}]"
          "}",
          "tool-f-arg-a ::= (\"<parameter=\" \"a\" \">\\n\") xml" },
        /* one branch says that the other's member is required */
        { "{\"allOf\":[{\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
          "\"integer\"}"
          "}}]}",
          "\">\\n\") (tool-f-arg-a (tool-f-arg-b)*) \"</function>" },
        /* a reference and what stands beside it, by a name that is written with an escape */
        { "{\"$ref\":\"#/$defs/b%20c\",\"properties\":{\"z\":{\"type\":\"null\"}},\"$defs\":{\"b "
          "c\":{\"properties\":{\"a\":{"
          "\"type\":\"number\"}}}}}",
          "hearth-tool-f-arg-z-schema ::= %json {\"type\":\"null\"}\n" },
        /* definitions go along, those that matter */
        { "{\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}},\"$defs\":{\"n\":{\"type\":"
          "\"object\",\"properties\":{\"m\":{\"$ref\":\"#/$defs/m\"}}},\"m\":{\"enum\":[1]},\"far\":{\"enum\":[2]}}}",
          "%json "
          "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
          "n\"},\"$defs\":{\"m\":{\"enum\":[1]},\"n\":{\"type\":\"object\","
          "\"properties\":{\"m\":{\"$ref\":\"#/$defs/m\"}}}}}\n" },
        { "{\"properties\":{\"a\":{\"$ref\":\"#/properties/"
          "b\"},\"b\":{\"type\":\"object\",\"properties\":{\"c\":{\"$ref\":\"#/"
          "properties/b\"}}}}}",
          "hearth-tool-f-arg-a-schema ::= %json [\"#/properties/a\", {" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool),
                                        .name = "f",
                                        .parameters = rows[i].parameters };
        const hearth_chat_prompt *prompt;
        hearth_error err = { .message = "" };

        if (render(f->models[1], &tool, 1, false, &prompt, &err) != HEARTH_OK)
            fail_msg("%s: %s", rows[i].parameters, err.message);
        if (!prompt->grammar || !strstr(prompt->grammar, rows[i].wanted))
            fail_msg("%s: no %s in %s", rows[i].parameters, rows[i].wanted, prompt->grammar ? prompt->grammar : "none");
        hearth_chat_prompt_free(prompt);
    }
}

FIXTURE_TEST(schemas_take_no_names_of_rules_from_calls)
{
    const hearth_chat_tool tools[] = {
        { .struct_size = sizeof(hearth_chat_tool),
          .name = "get_table",
          .parameters = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}" },
        { .struct_size = sizeof(hearth_chat_tool), .name = "get_table_schema" },
    };
    const hearth_chat_prompt *prompt;
    hearth_error err = { .message = "" };

    assert_int_equal(render(f->models[0], tools, 2, false, &prompt, &err), HEARTH_OK);
    assert_non_null(strstr(prompt->grammar, "hearth-tool-get-table-schema ::= %json"));
    assert_non_null(strstr(prompt->grammar, "\ntool-get-table-schema ::= \"{\""));
    hearth_chat_prompt_free(prompt);
}

/* Parameters of n times what format makes of a number, between begin and end. The caller's. */
static char *repeated(const char *begin, const char *format, int n, const char *end)
{
    size_t capacity = strlen(begin) + strlen(end) + (size_t)n * (strlen(format) + 16) + 1, at;
    char *text = malloc(capacity);

    at = (size_t)snprintf(text, capacity, "%s", begin);
    for (int i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, capacity - at, "%s", i ? "," : "");
        /* The formats are this file's. NOLINTNEXTLINE(clang-diagnostic-format-nonliteral) */
        at += (size_t)snprintf(text + at, capacity - at, format, i);
    }
    (void)snprintf(text + at, capacity - at, "%s", end); /* fits */
    return text;
}

FIXTURE_TEST(schemas_that_would_grow_are_cut_or_refused)
{
    char *all[] = {
        repeated("{\"properties\":{", "\"p%d\":{\"$ref\":\"#\"}", 8, "}}"),
        repeated(
            "{\"properties\":{", "\"p%d\":{\"$ref\":\"#/$defs/x\"}", 1500,
            "},\"$defs\":{\"x\":{\"type\":\"integer\",\"description\":\"0123456789012345678901234567890123456789\"}}}"),
        repeated("{\"properties\":{", "\"p%d\":{\"type\":\"integer\"}", 9000, "}}"),
        repeated("{\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{",
                 "\"p%d\":{\"anyOf\":[{\"$ref\":\"#/properties/a\"},{"
                 "\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}",
                 10, "}}}}"),
        repeated("{\"type\":\"object\",\"anyOf\":[{\"type\":\"string\",\"properties\":{\"",
                 "_%d______________________________________", 400, "\":{}}},{}]}"),
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (size_t k = 0; k < TEMPLATES; k++) {
            const hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool),
                                            .name = "f",
                                            .parameters = all[i] };
            const hearth_chat_prompt *prompt;
            hearth_error err = { .message = "" };
            hearth_status status = render(f->models[k], &tool, 1, false, &prompt, &err);

            if (status != HEARTH_OK && status != HEARTH_MISUSE)
                fail_msg("%zu, %zu: %s", i, k, err.message);
            if (status == HEARTH_OK && prompt->parser)
                assert_true(strlen(prompt->parser) < (size_t)8 << 20);
            hearth_chat_prompt_free(prompt);
        }
        free(all[i]);
    }
}

/* What cannot be compiled binds nobody where that was asked for; the members stay what they are. */
FIXTURE_TEST(a_tool_that_cannot_be_compiled_may_be_called_with_anything)
{
    static const char parameters[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^(?!x).*$\"},"
        "\"b\":{\"type\":\"integer\",\"minimum\":1}}}";
    const hearth_chat_tool tool = { .struct_size = sizeof(hearth_chat_tool), .name = "f", .parameters = parameters };
    const hearth_chat_prompt *prompt;
    hearth_error err = { .message = "" };

    assert_int_equal(render(f->models[1], &tool, 1, false, &prompt, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "tool 'f'"));
    assert_int_equal(render(f->models[1], &tool, 1, true, &prompt, &err), HEARTH_OK);
    assert_non_null(strstr(prompt->text, "(?!x)"));
    assert_non_null(strstr(prompt->grammar, "hearth-tool-f-arg-b-schema ::= %json {}\n"));
    assert_non_null(strstr(prompt->grammar, "tool-f-arg-a ::= (\"<parameter=\" \"a\" \">\\n\") xml"));
    hearth_chat_prompt_free(prompt);
    assert_int_equal(render(f->models[0], &tool, 1, true, &prompt, &err), HEARTH_OK);
    assert_non_null(strstr(prompt->grammar, "hearth-tool-f-schema ::= %json {\"type\":\"object\"}\n"));
    hearth_chat_prompt_free(prompt);
}
