/*
 * api_anthropic_test.c - Anthropic's messages: blocks, events, and what usage counts
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/answers.h"
#include "dialects/request_parse.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define HEAD "\"model\":\"m\",\"max_tokens\":30"
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define TOOLS                                                                                              \
    "\"tools\":[{\"name\":\"weather\",\"input_schema\":{\"type\":\"object\"},\"cache_control\":{\"type\":" \
    "\"ephemeral\"}}]"

TEST(blocks_become_turns_of_those_who_speak)
{
    hth_api_request *r = hth_test_parsed(
        HTH_API_MESSAGES,
        "{" HEAD ",\"system\":[{\"type\":\"text\",\"text\":\"Be brief.\",\"cache_control\":{\"type\":\"ephemeral\"}}],"
        "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"\"},"
        "{\"type\":\"redacted_thinking\",\"data\":\"x\"},{\"type\":\"text\",\"text\":\"I look.\"},"
        "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"weather\",\"input\":{\"city\":\"Oslo\"}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":[{\"type\":"
        "\"text\","
        "\"text\":\"rain\"}]},{\"type\":\"text\",\"text\":\"and\"},{\"type\":\"text\",\"text\":\"now?\"}]}]," TOOLS
        ",\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true},\"stop_sequences\":[\"x\"],"
        "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024},\"temperature\":0.5,\"top_k\":3,\"top_p\":0.5,"
        "\"metadata\":{\"user_id\":\"u\"},\"session_id\":\"s\"}");
    const hearth_conversation *c = &r->conversation;

    assert_int_equal(c->n_turns, 5);
    assert_string_equal(c->turns[0].role, "system");
    assert_string_equal(c->turns[0].parts[0], "Be brief.");
    assert_string_equal(c->turns[1].content, "Hi");
    assert_string_equal(c->turns[2].reasoning, "hm");
    assert_string_equal(c->turns[2].parts[0], "I look.");
    assert_string_equal(c->turns[2].calls[0].arguments, "{\"city\":\"Oslo\"}");
    assert_string_equal(c->turns[3].role, "tool");
    assert_string_equal(c->turns[3].call_id, "t1");
    assert_string_equal(c->turns[3].parts[0], "rain");
    assert_string_equal(c->turns[4].role, "user");
    assert_int_equal(c->turns[4].n_parts, 2);
    assert_string_equal(c->turns[4].parts[1], "now?");
    assert_int_equal(c->tool_choice, HEARTH_TOOL_REQUIRED);
    assert_false(c->parallel_calls || c->no_thinking || c->continue_last);
    assert_true(r->wants_thinking && r->has_cache_control);
    assert_int_equal(r->options.n_predict, 30);
    assert_int_equal(r->sampling.top_k, 3);
    assert_int_equal(r->options.n_stop, 1);

    r = hth_test_parsed(
        HTH_API_MESSAGES,
        "{" HEAD ",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Yo\"}]}");
    assert_true(r->conversation.continue_last && r->conversation.no_thinking);
    assert_false(r->has_cache_control);

    r = hth_test_parsed(HTH_API_MESSAGES, "{\"max_tokens\":1," MESSAGES "}"); /* the default model answers */
    assert_null(r->model);
}

TEST(an_empty_last_message_is_as_none)
{
    static const char *const bodies[] = {
        "{" HEAD ",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"\"}]}",
        "{" HEAD ",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":["
        "{\"type\":\"text\",\"text\":\"\"}]}]}",
    };

    for (size_t i = 0; i < 2; i++) {
        hth_api_request *r = hth_test_parsed(HTH_API_MESSAGES, bodies[i]);

        assert_int_equal(r->conversation.n_turns, 1);
        assert_false(r->conversation.continue_last);
    }
}

TEST(fields_of_newer_clients_are_read)
{
    hth_api_request *r = hth_test_parsed(
        HTH_API_MESSAGES, "{" HEAD "," MESSAGES ",\"inference_geo\":\"us\",\"speed\":\"fast\",\"diagnostics\":{},"
                          "\"user_profile_id\":\"u\",\"workspace_id\":\"w\",\"output_config\":{\"effort\":\"high\","
                          "\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"object\"}}},"
                          "\"tools\":[{\"name\":\"a\",\"input_schema\":{},\"defer_loading\":false,"
                          "\"allowed_callers\":[\"direct\"]}]}");

    assert_string_equal(r->conversation.json_schema, "{\"type\":\"object\"}");
    assert_string_equal(r->conversation.template_values, "{\"reasoning_effort\":\"high\"}");
}

STUB_TEST(what_is_wrong_is_an_error_of_anthropics_shape)
{
    static const struct {
        const char *body, *words;
        int status;
    } rows[] = {
        { "[", "not valid JSON", 400 },
        { "{" MESSAGES ",\"model\":\"m\"}", "'max_tokens' is missing", 400 },
        { "{" HEAD "}", "'messages' is missing", 400 },
        { "{" HEAD ",\"messages\":[]}", "'messages' is empty", 400 },
        { "{" HEAD ",\"messages\":[{\"role\":\"robot\",\"content\":\"a\"}]}", "'messages[0].role' is 'robot'", 400 },
        { "{" HEAD ",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
          "'messages[0].content' has nothing but blocks that this server does not read", 400 },
        { "{" HEAD ",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]}",
          "'messages[0].content[0].tool_use_id' is missing", 400 },
        { "{" HEAD ",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"content\":\"a\"}]}]}",
          "'messages[0].content[0].tool_use_id' is missing", 400 },
        { "{" HEAD
          ",\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\","
          "\"input\":\"c\"}]}]}",
          "'messages[0].content[0].input' is a text", 400 },
        { "{" HEAD "," MESSAGES ",\"temperature\":2.5}", "'temperature' is 2.5", 400 },
        { "{" HEAD "," MESSAGES ",\"tools\":[{\"name\":\"w\"}]}", "'tools[0].input_schema' is missing", 400 },
        { "{" HEAD "," MESSAGES ",\"tool_choice\":{\"type\":\"any\"}}", "no 'tools'", 400 },
        { "{" HEAD "," MESSAGES "," TOOLS ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"x\"}}", "not in 'tools'",
          400 },
        { "{" HEAD "," MESSAGES ",\"thinking\":{\"type\":\"much\"}}", "'much'", 400 },
        { "{" HEAD "," MESSAGES ",\"stop_sequences\":[7]}", "'stop_sequences' is a number", 400 },
        { "{" HEAD ",\"messages\":[{\"role\":\"assistant\",\"content\":\"\"}]}", "nothing but an empty message", 400 },
        { "{" HEAD ",\"messages\":[\"x\"]}", "'messages[0]' is a text", 400 },
        { "{" HEAD "," MESSAGES ",\"output_config\":{\"effort\":\"huge\"}}", "'output_config.effort' is 'huge'", 400 },
        { "{" HEAD "," MESSAGES ",\"output_config\":{\"format\":{\"type\":\"xml\"}}}",
          "'output_config.format.type' is 'xml'", 400 },
        { "{" HEAD "," MESSAGES ",\"tools\":[{\"name\":\"\",\"input_schema\":{}}]}", "'tools[0].name' is empty", 400 },
        { "{" HEAD "," MESSAGES
          ",\"tools\":[{\"name\":\"w\",\"input_schema\":{}},{\"name\":\"w\",\"input_schema\":{}}]}",
          "'tools[1].name' is 'w', like the name of tool 0", 400 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, HTH_API_MESSAGES, rows[i].body);
        json_t *body = hth_test_json(hth_buffer_text(&answer.text));

        if (answer.status != rows[i].status || strcmp(hth_test_text_at(body, "type"), "error") != 0 ||
            strcmp(hth_test_text_at(body, "error.type"), "invalid_request_error") != 0 ||
            !strstr(hth_test_text_at(body, "error.message"), rows[i].words))
            fail_msg("row %zu: %s gives %d %s", i, rows[i].body, answer.status, hth_buffer_text(&answer.text));
    }
}

static const char *const pieces[] = { "<think>",   "hm</think>", "I lo", "ok.<ca", "ll>weather {\"city\":",
                                      "\"Oslo\"}", "</call>",    NULL };
#define THINKING ",\"thinking\":{\"type\":\"adaptive\"}"

STUB_TEST(a_message_has_a_block_for_each_thing_said)
{
    hth_test_answer answer = hth_test_api_script(
        f->model, HTH_API_MESSAGES, "{" HEAD "," MESSAGES "," TOOLS THINKING "}", pieces, HEARTH_FINISH_STOP);
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));
    json_t *wanted = hth_test_json(
        "{\"id\":\"msg_0123\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":["
        "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"\"},{\"type\":\"text\",\"text\":\"I look.\"},"
        "{\"type\":\"tool_use\",\"id\":\"(id)\",\"name\":\"weather\",\"input\":{\"city\":\"Oslo\"}}],"
        "\"stop_reason\":\"tool_use\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":0,"
        "\"cache_creation_input_tokens\":10,\"cache_read_input_tokens\":40,\"output_tokens\":7}}");

    assert_int_equal(strlen(hth_test_text_at(body, "content.2.id")), 9);
    json_object_set_new(hth_test_at(body, "content.2"), "id", json_string("(id)"));
    if (!json_equal(body, wanted))
        fail_msg("%s", hth_buffer_text(&answer.text));
}

STUB_TEST(what_is_not_kept_creates_no_cache)
{
    static const char *const said[] = { "Yes.", NULL };
    static const struct {
        int64_t cold_min_tokens;
        json_int_t n_input, n_created;
    } rows[] = { { 50, 0, 10 }, { 51, 10, 0 } }; /* the prompt has 50, 40 of them cached */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hearth_model_options options = hearth_model_options_default();
        hearth_cache_policy policy = hearth_cache_policy_default();
        hearth_model *model;
        hth_test_answer answer;
        json_t *body;

        policy.cold_min_tokens = rows[i].cold_min_tokens;
        options.cache_policy = &policy;
        model = hth_test_model_load(f->runtime, "stub:vocab=1000", &options);
        answer =
            hth_test_api_script(model, HTH_API_MESSAGES, "{" HEAD "," MESSAGES "," TOOLS "}", said, HEARTH_FINISH_STOP);
        body = hth_test_json(hth_buffer_text(&answer.text));
        assert_int_equal(json_integer_value(hth_test_at(body, "usage.input_tokens")), rows[i].n_input);
        assert_int_equal(json_integer_value(hth_test_at(body, "usage.cache_creation_input_tokens")), rows[i].n_created);
        assert_int_equal(json_integer_value(hth_test_at(body, "usage.cache_read_input_tokens")), 40);
        hearth_model_unref(model);
    }
}

STUB_TEST(without_being_asked_for_thinking_is_not_shown)
{
    static const char *const said[] = { "<think>hm</think>Yes.", NULL };
    hth_test_answer answer =
        hth_test_api_script(f->model, HTH_API_MESSAGES, "{" HEAD "," MESSAGES "}", said, HEARTH_FINISH_LENGTH);
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_int_equal(json_array_size(hth_test_at(body, "content")), 1);
    assert_string_equal(hth_test_text_at(body, "content.0.text"), "Yes.");
    assert_string_equal(hth_test_text_at(body, "stop_reason"), "max_tokens");
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.input_tokens")), 10);
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.cache_creation_input_tokens")), 0);
}

STUB_TEST(events_open_and_close_one_block_after_the_other)
{
    static const char *const wanted[] = {
        "message_start",
        "content_block_start thinking",
        "content_block_delta thinking_delta",
        "content_block_delta signature_delta",
        "content_block_stop",
        "content_block_start text",
        "content_block_delta text_delta",
        "content_block_delta text_delta",
        "content_block_stop",
        "content_block_start tool_use",
        "content_block_delta input_json_delta",
        "content_block_delta input_json_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    };
    hth_test_answer answer =
        hth_test_api_script(f->model, HTH_API_MESSAGES, "{" HEAD "," MESSAGES "," TOOLS THINKING ",\"stream\":true}",
                            pieces, HEARTH_FINISH_STOP);
    json_t *events = hth_test_events(hth_buffer_text(&answer.text)), *event;
    hth_buffer input = { .text = NULL };
    size_t i;

    assert_int_equal(json_array_size(events), sizeof(wanted) / sizeof(wanted[0]));
    json_array_foreach(events, i, event)
    {
        char got[96];

        assert_string_equal(hth_test_text_at(event, "(event)"), hth_test_text_at(event, "type"));
        snprintf(got, sizeof(got), "%s%s%s%s", hth_test_text_at(event, "type"),
                 hth_test_at(event, "content_block") || *hth_test_text_at(event, "delta.type") ? " " : "",
                 hth_test_text_at(event, "content_block.type"), hth_test_text_at(event, "delta.type"));
        assert_string_equal(got, wanted[i]);
        hth_buffer_add_text(&input, hth_test_text_at(event, "delta.partial_json"));
    }
    assert_string_equal(hth_buffer_text(&input), "{\"city\":\"Oslo\"}");
    assert_int_equal(json_integer_value(hth_test_at(events, "0.message.usage.cache_read_input_tokens")), 40);
    assert_in_range(json_integer_value(hth_test_at(events, "0.message.usage.cache_creation_input_tokens")), 1, 200);
    assert_string_equal(hth_test_text_at(events, "13.delta.stop_reason"), "tool_use");
    assert_int_equal(json_integer_value(hth_test_at(events, "13.usage.output_tokens")), 7);
    hth_buffer_deinit(&input);
}

STUB_TEST(a_models_stream_says_what_its_message_says_and_which_text_stopped_it)
{
    const char *request = "{\"model\":\"m\",\"max_tokens\":200,\"system\":\"fox\",\"stop_sequences\":[\"q\",\"a\","
                          "\"e\",\"t\",\"k\"]," MESSAGES "%s}";
    char text[512];
    hth_test_answer whole, stream;
    json_t *body, *events, *event;
    hth_buffer said = { .text = NULL };
    size_t i;

    /* Draws depend on the seed of the run, which is the same for both. */
    snprintf(text, sizeof(text), request, "");
    whole = hth_test_api_run(f->model, HTH_API_MESSAGES, text);
    snprintf(text, sizeof(text), request, ",\"stream\":true");
    stream = hth_test_api_run(f->model, HTH_API_MESSAGES, text);
    body = hth_test_json(hth_buffer_text(&whole.text));
    events = hth_test_events(hth_buffer_text(&stream.text));
    json_array_foreach(events, i, event) hth_buffer_add_text(&said, hth_test_text_at(event, "delta.text"));
    assert_string_equal(hth_buffer_text(&said), hth_test_text_at(body, "content.0.text"));
    assert_string_equal(hth_test_text_at(body, "stop_reason"), "stop_sequence");
    assert_int_equal(strlen(hth_test_text_at(body, "stop_sequence")), 1);
    assert_null(strstr(hth_test_text_at(body, "content.0.text"), hth_test_text_at(body, "stop_sequence")));
    event = json_array_get(events, json_array_size(events) - 2);
    assert_string_equal(hth_test_text_at(event, "delta.stop_sequence"), hth_test_text_at(body, "stop_sequence"));
    hth_buffer_deinit(&said);
}

/* A text of the template's that stopped it is no stop sequence, even where a text of the client's is in the reply. */
STUB_TEST(only_what_the_client_asked_for_is_a_stop_sequence)
{
    static const char *const reasons[] = { "end_turn", "stop_sequence", "stop_sequence", "end_turn" };
    static const char *const sequences[] = { "", "zz", "text", "" };

    for (uint32_t number = 0; number < 4; number++) {
        hth_test_answer answer = hth_test_api_stopped(
            f->model, HTH_API_MESSAGES, "{" HEAD "," MESSAGES ",\"stop_sequences\":[\"zz\",\"text\"]}", number);
        json_t *body = hth_test_json(hth_buffer_text(&answer.text));

        assert_string_equal(hth_test_text_at(body, "stop_reason"), reasons[number]);
        assert_string_equal(hth_test_text_at(body, "stop_sequence"), sequences[number]);
    }
}

STUB_TEST(counted_tokens_are_those_that_a_message_uses)
{
    const char *question = "{\"model\":\"m\"," MESSAGES "," TOOLS "}";
    hth_api_error error;
    hth_buffer out = { .text = NULL };
    hth_api_request *request = hth_api_request_parse(HTH_API_COUNT_TOKENS, question, strlen(question), NULL, &error);
    hth_test_answer answer =
        hth_test_api_run(f->model, HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":1," MESSAGES "," TOOLS "}");
    json_t *counted, *body = hth_test_json(hth_buffer_text(&answer.text));
    json_int_t n = json_integer_value(hth_test_at(body, "usage.input_tokens")) +
                   json_integer_value(hth_test_at(body, "usage.cache_creation_input_tokens")) +
                   json_integer_value(hth_test_at(body, "usage.cache_read_input_tokens"));

    assert_non_null(request);
    assert_true(hth_api_answer(f->model, request, &out, &error));
    counted = hth_test_json(hth_buffer_text(&out));
    assert_in_range(n, 20, 500);
    assert_int_equal(json_integer_value(hth_test_at(counted, "input_tokens")), n);
    hth_buffer_deinit(&out);
    hth_api_request_free(request);
}

TEST(an_error_in_a_stream_is_its_last_event)
{
    static const hth_api_dialect dialects[] = { HTH_API_OPENAI, HTH_API_ANTHROPIC, HTH_API_NATIVE };
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "the queue is full");
    hth_api_fail(&error, HTH_API_INTERNAL, NULL, "another one"); /* the first counts */
    for (size_t i = 0; i < 3; i++) {
        hth_buffer out = { .text = NULL };
        json_t *events;

        hth_api_error_write_event(dialects[i], &error, &out);
        events = hth_test_events(hth_buffer_text(&out));
        assert_int_equal(json_array_size(events), 1);
        assert_string_equal(hth_test_text_at(events, "0.error.message"), "the queue is full");
        assert_string_equal(hth_test_text_at(events, "0.(event)"), i == 1 ? "error" : "");
        hth_buffer_deinit(&out);
    }
    assert_int_equal(hth_api_error_http_status(HTH_API_OPENAI, &error), 503);
    assert_int_equal(hth_api_error_http_status(HTH_API_ANTHROPIC, &error), 529);
}
