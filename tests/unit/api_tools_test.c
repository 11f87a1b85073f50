/*
 * api_tools_test.c - calls and JSON that a model is held to, from the request's JSON to the reply's
 *
 * Models here write nonsense; what is sensible in their replies is the grammar's doing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    hearth_runtime *runtime;
    hearth_model *stub;
    hearth_model *tiny; /* with a template of our own that knows tools */
} fixture;

static void set_up(fixture *f)
{
    hearth_model_options model_options = hearth_model_options_default();
    hearth_runtime_options options;
    char *text = hth_test_text(HTH_TEST_FIXTURES "/chat/tools.jinja");

    assert_non_null(text);
    f->directory = hth_test_directory_new();
    options = hth_test_runtime_options(f->directory);
    f->runtime = hth_test_runtime_open(&options);
    f->stub = hth_test_model_load(f->runtime, "stub:", NULL);
    model_options.chat_template = text;
    model_options.n_ctx = 2048;
    model_options.n_threads = 1;
    f->tiny = hth_test_model_load(f->runtime, HTH_TEST_MODELS "/hearth-tiny.gguf", &model_options);
    free(text);
}

static void tear_down(fixture *f)
{
    hearth_model_unref(f->stub);
    hearth_model_unref(f->tiny);
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define TOOLS                                                                                               \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\"," \
    "\"properties\":{"                                                                                      \
    "\"a\":{\"type\":\"boolean\"},\"b\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"a\",\"b\"]}}},"           \
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]"

/* The calls of a stream, as the message of a body has them. */
static json_t *calls_of(json_t *events)
{
    json_t *calls = hth_test_json_keep(json_array()), *event;
    size_t i;

    json_array_foreach(events, i, event)
    {
        json_t *delta = hth_test_at(event, "choices.0.delta.tool_calls.0"), *call;
        size_t index = (size_t)json_integer_value(json_object_get(delta, "index"));
        char *joined;

        if (!delta)
            continue;
        if (json_object_get(delta, "id")) {
            call = json_deep_copy(delta);
            json_object_del(call, "index");
            assert_int_equal(index, json_array_size(calls));
            json_array_append_new(calls, call);
            continue;
        }
        call = json_array_get(calls, index);
        assert_int_not_equal(asprintf(&joined, "%s%s", hth_test_text_at(call, "function.arguments"),
                                      hth_test_text_at(delta, "function.arguments")),
                             -1);
        json_object_set_new(hth_test_at(call, "function"), "arguments", json_string(joined));
        free(joined);
    }
    return calls;
}

FIXTURE_TEST(a_required_call_comes_streamed_or_not)
{
    hearth_model *models[] = { f->stub, f->tiny };

    for (size_t i = 0; i < 2; i++)
        for (int seed = 1; seed <= 4; seed++) {
            char text[2048];
            hth_test_answer whole, stream;
            json_t *body, *events, *calls, *arguments, *wanted;

            snprintf(text, sizeof(text),
                     "{" MESSAGES "," TOOLS
                     ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"temperature\":1,\"top_k\":0,"
                     "\"top_p\":1,\"min_p\":0,\"seed\":%d,\"max_tokens\":400}",
                     seed);
            whole = hth_test_api_run(models[i], HTH_API_CHAT, text);
            snprintf(text + strlen(text) - 1, 64, ",\"stream\":true}");
            stream = hth_test_api_run(models[i], HTH_API_CHAT, text);
            body = hth_test_json(hth_buffer_text(&whole.text));
            if (whole.status != 200)
                fail_msg("%s", hth_buffer_text(&whole.text));
            events = hth_test_events(hth_buffer_text(&stream.text));
            calls = calls_of(events);
            wanted = hth_test_at(body, "choices.0.message.tool_calls");
            /* The engine's grammars let a model talk before it calls; this one likes to talk. */
            if (!wanted && (i == 0 || strcmp(hth_test_text_at(body, "choices.0.finish_reason"), "length") != 0))
                fail_msg("%s", hth_buffer_text(&whole.text));
            assert_true(wanted ? json_equal(calls, wanted) : json_array_size(calls) == 0);
            if (strcmp(hth_test_text_at(body, "choices.0.finish_reason"), "length") != 0) {
                assert_string_equal(hth_test_text_at(body, "choices.0.finish_reason"), "tool_calls");
                arguments = hth_test_json(hth_test_text_at(wanted, "0.function.arguments"));
                if (i == 1 && strcmp(hth_test_text_at(wanted, "0.function.name"), "add") == 0) {
                    assert_true(json_is_boolean(hth_test_at(arguments, "a")));
                    assert_int_equal(strlen(hth_test_text_at(arguments, "b")), 1);
                }
            }
        }
}

FIXTURE_TEST(a_response_format_is_followed)
{
    for (int seed = 1; seed <= 4; seed++) {
        char text[1024];
        hth_test_answer answer;
        json_t *body, *content;

        snprintf(text, sizeof(text),
                 "{" MESSAGES
                 ",\"seed\":%d,\"max_tokens\":200,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":"
                 "{\"name\":\"n\",\"schema\":{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}},"
                 "\"required\":[\"ok\"],\"additionalProperties\":false}}},\"reasoning_effort\":\"none\"}",
                 seed);
        answer = hth_test_api_run(f->tiny, HTH_API_CHAT, text);
        body = hth_test_json(hth_buffer_text(&answer.text));
        if (answer.status != 200)
            fail_msg("%s", hth_buffer_text(&answer.text));
        content = hth_test_json(hth_test_text_at(body, "choices.0.message.content"));
        assert_true(json_is_boolean(hth_test_at(content, "ok")));
    }
}
