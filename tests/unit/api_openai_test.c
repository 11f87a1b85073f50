/*
 * api_openai_test.c - OpenAI's chat completions: what is read, what is refused, and what comes back
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/answers.h"
#include "dialects/request_parse.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define TOOLS                                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\"}}}," \
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]"

TEST(every_field_of_a_chat_arrives)
{
    hth_api_request *r = hth_test_parsed(
        HTH_API_CHAT,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"developer\",\"content\":\"Be brief.\"},"
        "{\"role\":\"user\",\"name\":\"Ann\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
        "\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"hm\",\"refusal\":null,\"tool_calls\":[{"
        "\"id\":\"c1\","
        "\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"rain\"}]," TOOLS ","
        "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"now\"}},\"parallel_tool_calls\":false,"
        "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"max_completion_tokens\":9,\"max_tokens\":5,"
        "\"temperature\":0.5,\"top_p\":0.25,\"frequency_penalty\":-1,\"presence_penalty\":1,\"n\":3,\"seed\":-4,"
        "\"stop\":[\"x\",\"y\"],\"logprobs\":true,\"top_logprobs\":2,\"logit_bias\":{\"17\":-100,\"18\":2.5},"
        "\"reasoning_effort\":\"high\",\"chat_template_kwargs\":{\"k\":1},\"user\":\"u\",\"metadata\":{\"a\":\"b\"},"
        "\"top_k\":7,\"min_p\":0.5,\"repeat_penalty\":1.5,\"priority\":-3,\"cache_salt\":\"s\","
        "\"parent_key\":\"00000000000000000000000000000000000000000000000000000000000000FF\"}");
    const hearth_conversation *c = &r->conversation;
    const hearth_sampling *s = &r->sampling;

    assert_string_equal(r->model, "m");
    assert_int_equal(c->n_turns, 4);
    assert_string_equal(c->turns[0].role, "developer");
    assert_string_equal(c->turns[1].name, "Ann");
    assert_int_equal(c->turns[1].n_parts, 2);
    assert_string_equal(c->turns[1].parts[1], "b");
    assert_string_equal(c->turns[2].reasoning, "hm");
    assert_string_equal(c->turns[2].calls[0].arguments, "{}");
    assert_string_equal(c->turns[3].call_id, "c1");
    assert_int_equal(c->n_tools, 1);
    assert_string_equal(c->tools[0].name, "now");
    assert_int_equal(c->tool_choice, HEARTH_TOOL_REQUIRED);
    assert_false(c->parallel_calls);
    assert_false(c->no_thinking);
    assert_non_null(strstr(c->template_values, "\"reasoning_effort\":\"high\""));
    assert_non_null(strstr(c->template_values, "\"k\":1"));
    assert_true(r->stream && r->include_usage);
    assert_int_equal(r->options.n_predict, 9);
    assert_true(s->temperature == 0.5f && s->top_p == 0.25f && s->frequency_penalty == -1 && s->presence_penalty == 1);
    assert_true(s->top_k == 7 && s->min_p == 0.5f && s->repeat_penalty == 1.5f);
    assert_true(s->seed == ((uint64_t)-4 & INT64_MAX));
    assert_int_equal(r->options.n, 3);
    assert_int_equal(r->options.n_stop, 2);
    assert_string_equal(r->options.stop[1], "y");
    assert_true(r->options.logprobs);
    assert_int_equal(r->options.n_top_logprobs, 2);
    assert_int_equal(s->n_logit_bias, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(s->logit_bias[i].token == 17 ? s->logit_bias[i].bias == -INFINITY : s->logit_bias[i].bias == 2.5f);
    assert_int_equal(r->options.priority, -3);
    assert_string_equal(r->options.cache_salt, "s");
    assert_int_equal(r->options.parent_key[31], 0xff);
    assert_int_equal(r->options.n_parent_digits, 64);
}

TEST(what_is_not_given_has_the_defaults_of_the_api)
{
    hth_api_request *r =
        hth_test_parsed(HTH_API_CHAT, "{" MESSAGES ",\"temperature\":null,\"stop\":null,\"tools\":[]}");

    assert_true(r->sampling.temperature == 0.8f && r->sampling.top_p == 0.95f);
    assert_int_equal(r->sampling.top_k, 40);
    assert_int_equal(r->options.n_predict, -1);
    assert_int_equal(r->options.n, 1);
    assert_false(r->stream || r->options.logprobs);
    assert_true(r->sampling.seed == HEARTH_SEED_RANDOM);
}

TEST(integers_of_any_size_are_read_where_they_are_not_counts)
{
    hth_api_request *r = hth_test_parsed(
        HTH_API_CHAT,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\\\" 18446744073709551615\"}],\"seed\":9223372036854775807,"
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":"
        "{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":18446744073709551615}}}}");
    hth_api_error error;

    assert_string_equal(r->conversation.turns[0].content, "\" 18446744073709551615");
    assert_int_equal((int64_t)r->sampling.seed, INT64_MAX);
    assert_non_null(strstr(r->conversation.json_schema, "1.8446744073709552e19"));
    assert_non_null(strstr(r->conversation.json_schema, "-9223372036854775808"));
    r = hth_api_request_parse(HTH_API_CHAT, "{\"\\u0000\":\"a\"}", 14, NULL, &error);
    assert_null(r);
    assert_non_null(strstr(error.message, "the character \\u0000"));
    assert_null(strstr(error.message, "JSON_ALLOW_NUL"));
}

STUB_TEST(what_is_wrong_is_named_with_its_field_and_code)
{
    static const struct {
        const char *body, *param, *code;
        int status;
    } rows[] = {
        { "", "", "invalid_json", 400 },
        { "{", "", "invalid_json", 400 },
        { "[]", "", "invalid_type", 400 },
        { "null", "", "invalid_type", 400 },
        { " \"x\"\n", "", "invalid_type", 400 },
        { "nul", "", "invalid_json", 400 },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "", "invalid_json", 400 },
        { "{" MESSAGES "," MESSAGES "}", "", "invalid_json", 400 },
        { "{\"\\\\\xc7\xbd", "", "invalid_json", 400 }, /* the parser's message ends inside a character */
        { "{}", "messages", "missing_required_parameter", 400 },
        { "{\"messages\":null}", "messages", "missing_required_parameter", 400 },
        { "{\"messages\":{}}", "messages", "invalid_type", 400 },
        { "{\"messages\":[]}", "messages", "invalid_value", 400 },
        { "{\"messages\":[1]}", "messages[0]", "invalid_type", 400 },
        { "{\"messages\":[{\"content\":\"a\"}]}", "messages[0].role", "missing_required_parameter", 400 },
        { "{\"messages\":[{\"role\":\"king\",\"content\":\"a\"}]}", "messages[0].role", "invalid_value", 400 },
        { "{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content", "missing_required_parameter", 400 },
        { "{\"messages\":[{\"role\":\"user\",\"content\":1}]}", "messages[0].content", "invalid_type", 400 },
        { "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", "messages[0].content",
          "unsupported_parameter", 400 },
        { "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", "messages[0].content[0].text",
          "missing_required_parameter", 400 },
        { "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]}",
          "messages[0].tool_calls[0].function.name", "missing_required_parameter", 400 },
        { "{" MESSAGES ",\"functions\":{}}", "functions", "invalid_type", 400 },
        { "{" MESSAGES ",\"function_call\":\"x\"}", "function_call", "invalid_value", 400 },
        { "{" MESSAGES ",\"stream\":\"yes\"}", "stream", "invalid_type", 400 },
        { "{" MESSAGES ",\"temperature\":\"hot\"}", "temperature", "invalid_type", 400 },
        { "{" MESSAGES ",\"temperature\":2.1}", "temperature", "invalid_value", 400 },
        { "{" MESSAGES ",\"temperature\":1e999}", "", "invalid_json", 400 },
        { "{" MESSAGES ",\"seed\":-9223372036854775809}", "seed", "invalid_value", 400 },
        { "{" MESSAGES ",\"temperature\":9223372036854775808}", "temperature", "invalid_value", 400 },
        { "{" MESSAGES ",\"max_tokens\":-3}", "max_tokens", "invalid_value", 400 },
        { "{" MESSAGES ",\"max_tokens\":1.5}", "max_tokens", "invalid_type", 400 },
        { "{" MESSAGES ",\"n\":129}", "n", "invalid_value", 400 },
        { "{" MESSAGES ",\"stop\":[1]}", "stop", "invalid_type", 400 },
        { "{" MESSAGES ",\"logit_bias\":{\"-5\":1}}", "logit_bias", "invalid_value", 400 },
        { "{" MESSAGES ",\"logit_bias\":{\"1\":101}}", "logit_bias", "invalid_value", 400 },
        { "{" MESSAGES ",\"tool_choice\":\"required\"}", "tool_choice", "invalid_value", 400 },
        { "{" MESSAGES "," TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"x\"}}}",
          "tool_choice", "invalid_value", 400 },
        { "{" MESSAGES ",\"response_format\":{\"type\":\"xml\"}}", "response_format.type", "invalid_value", 400 },
        { "{" MESSAGES ",\"parent_key\":\"xyz\"}", "parent_key", "invalid_value", 400 },
        { "{" MESSAGES ",\"session_id\":\"\"}", "session_id", "invalid_value", 400 },
        { "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"add_generation_prompt\":true,"
          "\"continue_final_message\":true}",
          "continue_final_message", "invalid_value", 400 },
        { "{" MESSAGES ",\"priority\":101}", "priority", "invalid_value", 400 },
        { "{" MESSAGES ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\\tb\"}}]}",
          "tools[0].function.name", "invalid_value", 400 },
        { "{" MESSAGES ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\","
          "\"function\":{\"name\":\"a\"}}]}",
          "tools[1].function.name", "invalid_value", 400 },
        { "{" MESSAGES ",\"chat_template_kwargs\":{\"messages\":[]}}", "chat_template_kwargs", "invalid_value", 400 },
        /* what only the model's side can know */
        { "{" MESSAGES ",\"logit_bias\":{\"999999\":1}}", "logit_bias", "invalid_value", 400 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, HTH_API_CHAT, rows[i].body);
        json_t *body = hth_test_json(hth_buffer_text(&answer.text));

        if (strcmp(hth_test_text_at(body, "error.code"), rows[i].code) != 0 || answer.status != rows[i].status ||
            strcmp(hth_test_text_at(body, "error.param"), rows[i].param) != 0 ||
            !*hth_test_text_at(body, "error.message"))
            fail_msg("row %zu: %s gives %d %s", i, rows[i].body, answer.status, hth_buffer_text(&answer.text));
    }
}

/* A text of n bytes in a body: "...%s..."; released with free. */
static char *long_body(const char *format, size_t n)
{
    char *text = malloc(n + 1), *body = malloc(n + strlen(format) + 1);

    memset(text, 'a', n);
    text[n] = '\0';
    sprintf(body, format, text);
    free(text);
    return body;
}

STUB_TEST(what_does_not_fit_the_context_is_an_error_or_cut)
{
    static const struct {
        hth_api_kind kind;
        const char *format, *path, *wanted;
        /* Words that clients look for before they compact a conversation, and where they stand; numbers beside them. */
        const char *message_path, *words;
        bool has_numbers;
    } rows[] = {
        { HTH_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}", "error.code",
          "context_length_exceeded", "error.message", "exceeds the available context size (", true },
        { HTH_API_COMPLETION, "{\"prompt\":\"%s\"}", "error.code", "context_length_exceeded", "error.message",
          "exceeds the available context size (", true },
        { HTH_API_RESPONSES, "{\"model\":\"m\",\"input\":\"%s\"}", "error.code", "context_length_exceeded",
          "error.message", "exceeds the available context size (", true },
        { HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
          "error.type", "invalid_request_error", "error.message", " maximum; shorten it", false },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"%s\"}", "error.type", "exceed_context_size_error", "error.message",
          "exceeds the available context size (", true },
        { HTH_API_OLLAMA_GENERATE, "{\"model\":\"m\",\"prompt\":\"%s\"}", "error", NULL, "error",
          "exceeds the available context size (", false },
    };
    hth_test_answer answer;
    json_t *body;
    char *text;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        text = long_body(rows[i].format, 100000);
        answer = hth_test_api_run(f->model, rows[i].kind, text);
        body = hth_test_json(hth_buffer_text(&answer.text));
        assert_int_equal(answer.status, 400);
        if (rows[i].wanted)
            assert_string_equal(hth_test_text_at(body, rows[i].path), rows[i].wanted);
        if (!strstr(hth_test_text_at(body, rows[i].message_path), rows[i].words))
            fail_msg("row %zu: %s", i, hth_buffer_text(&answer.text));
        if (rows[i].has_numbers) {
            assert_true(json_integer_value(hth_test_at(body, "error.n_prompt_tokens")) > 100000);
            assert_int_equal(json_integer_value(hth_test_at(body, "error.n_ctx")), 4096);
        }
        if (rows[i].kind == HTH_API_MESSAGES) {
            unsigned n_tokens = 0, n_max = 0;

            assert_int_equal(sscanf(hth_test_text_at(body, "error.message"),
                                    "prompt is too long: %u tokens > %u maximum", &n_tokens, &n_max),
                             2);
            assert_true(n_tokens > 100000);
            assert_int_equal(n_max, 4096);
        }
        free(text);
    }
    /* A reply may be as long as it likes: it ends where the context does. */
    text = long_body("{\"prompt\":\"%s\",\"max_tokens\":100000,\"logit_bias\":{\"257\":-100,\"259\":-100}}", 4000);
    answer = hth_test_api_run(f->model, HTH_API_COMPLETION, text);
    body = hth_test_json(hth_buffer_text(&answer.text));
    assert_int_equal(answer.status, 200);
    assert_in_range(json_integer_value(hth_test_at(body, "usage.completion_tokens")), 1, 97);
    free(text);
}

TEST(parts_of_an_assistants_turn_are_taken_for_what_they_are)
{
    hth_api_request *r = hth_test_parsed(
        HTH_API_CHAT,
        "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"one\",\"signature\":"
        "\"s\"},"
        "{\"type\":\"reasoning\",\"text\":\"two\"},{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":"
        "\"three\"}]},"
        "{\"type\":\"redacted_thinking\",\"data\":\"x\"},{\"type\":\"text\",\"text\":null},{\"text\":\"said\"}]},"
        "{\"role\":\"assistant\",\"reasoning_content\":\"own\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
        "\"own\"}]},"
        "{\"role\":\"user\",\"content\":[{\"text\":\"a\"},{\"image_url\":{\"url\":\"x\"}},{\"type\":\"text\",\"text\":"
        "null},"
        "{\"type\":\"thinking\",\"thinking\":\"b\"}]}]}");
    const hearth_conversation *c = &r->conversation;

    assert_string_equal(c->turns[0].reasoning, "one\ntwo\nthree");
    assert_int_equal(c->turns[0].n_parts, 2);
    assert_string_equal(c->turns[0].parts[0], "");
    assert_string_equal(c->turns[0].parts[1], "said");
    assert_string_equal(c->turns[1].reasoning, "own");
    assert_string_equal(c->turns[1].content, "");
    assert_int_equal(c->turns[2].n_parts, 4);
    assert_string_equal(c->turns[2].parts[0], "a");
    assert_string_equal(c->turns[2].parts[1], "[image left out]");
    assert_string_equal(c->turns[2].parts[2], "");
    assert_string_equal(c->turns[2].parts[3], "[part left out]");
    assert_null(c->turns[2].reasoning);
}

STUB_TEST(what_can_never_run_is_the_clients_error_and_not_a_busy_server)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *words;
    } rows[] = {
        { HTH_API_COMPLETION, "{\"prompt\":[\"a\",\"b\"],\"session_id\":\"s\"}", "one request at a time" },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":[\"a\",\"b\"],\"session_id\":\"s\"}", "one request at a time" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, rows[i].kind, rows[i].body);

        if (answer.status != 400 || !strstr(hth_buffer_text(&answer.text), rows[i].words))
            fail_msg("row %zu: %d %s", i, answer.status, hth_buffer_text(&answer.text));
    }
}

TEST(limits_hold_before_anything_is_parsed)
{
    hth_api_limits limits = hth_api_limits_default();
    hth_api_error error;
    char deep[4096];

    limits.body_bytes_max = 10;
    assert_null(hth_api_request_parse(HTH_API_CHAT, "{" MESSAGES "}", strlen("{" MESSAGES "}"), &limits, &error));
    assert_int_equal(error.kind, HTH_API_TOO_LARGE);
    assert_int_equal(hth_api_error_http_status(HTH_API_OPENAI, &error), 413);
    limits = hth_api_limits_default();
    memset(deep, '[', sizeof(deep));
    assert_null(hth_api_request_parse(HTH_API_CHAT, deep, sizeof(deep), &limits, &error));
    assert_int_equal(error.kind, HTH_API_INVALID_JSON);
    assert_non_null(strstr(error.message, "nested 4096 deep"));
    limits.messages_max = 1;
    assert_null(hth_api_request_parse(HTH_API_CHAT, "{\"messages\":[{},{}]}", 20, &limits, &error));
    assert_string_equal(error.param, "messages");
}

TEST(schemas_and_grammars_have_a_limit_in_every_api)
{
#define SCHEMA "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}"
    static const struct {
        hth_api_kind kind;
        const char *body, *param;
    } cases[] = {
        { HTH_API_CHAT,
          "{" MESSAGES
          ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":" SCHEMA "}}}",
          "response_format.json_schema.schema" },
        { HTH_API_MESSAGES,
          "{\"model\":\"m\",\"max_tokens\":1," MESSAGES
          ",\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":" SCHEMA "}}}",
          "output_config.format.schema" },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"x\",\"json_schema\":" SCHEMA "}", "json_schema" },
        { HTH_API_NATIVE_COMPLETION,
          "{\"prompt\":\"x\",\"grammar\":\"root ::= \\\"a long text in here, longer than that\\\"\"}", "grammar" },
    };
    hth_api_limits limits = hth_api_limits_default();
    hth_api_error error;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)hth_test_parsed(cases[i].kind, cases[i].body);
        limits.schema_bytes_max = 40;
        assert_null(hth_api_request_parse(cases[i].kind, cases[i].body, strlen(cases[i].body), &limits, &error));
        assert_string_equal(error.param, cases[i].param);
    }
}

/* ---- replies ---- */

static const char *const pieces[] = { "<think>",
                                      "Let me ",
                                      "see.</think>",
                                      "I lo",
                                      "ok.<ca",
                                      "ll>weather {\"city\":",
                                      "\"Oslo\"",
                                      "}</call><call>now {}</call>",
                                      NULL };

STUB_TEST(a_reply_has_content_reasoning_calls_and_usage_in_their_places)
{
    hth_test_answer answer =
        hth_test_api_script(f->model, HTH_API_CHAT, "{" MESSAGES "," TOOLS "}", pieces, HEARTH_FINISH_STOP);
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));
    json_t *message = hth_test_at(body, "choices.0.message");

    assert_int_equal(answer.status, 200);
    assert_string_equal(hth_test_text_at(body, "id"), "chatcmpl-0123");
    assert_string_equal(hth_test_text_at(body, "object"), "chat.completion");
    assert_int_equal(json_integer_value(hth_test_at(body, "created")), 1700000000);
    assert_string_equal(hth_test_text_at(message, "role"), "assistant");
    assert_string_equal(hth_test_text_at(message, "content"), "I look.");
    assert_string_equal(hth_test_text_at(message, "reasoning_content"), "Let me see.");
    assert_int_equal(strspn(hth_test_text_at(message, "tool_calls.0.id"), "0123456789abcdefghijklmnopqrstuvwxyz"), 9);
    assert_string_not_equal(hth_test_text_at(message, "tool_calls.0.id"), hth_test_text_at(message, "tool_calls.1.id"));
    assert_string_equal(hth_test_text_at(message, "tool_calls.0.type"), "function");
    assert_string_equal(hth_test_text_at(message, "tool_calls.0.function.name"), "weather");
    assert_string_equal(hth_test_text_at(message, "tool_calls.0.function.arguments"), "{\"city\":\"Oslo\"}");
    assert_string_equal(hth_test_text_at(message, "tool_calls.1.function.name"), "now");
    assert_string_equal(hth_test_text_at(body, "choices.0.finish_reason"), "tool_calls");
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.prompt_tokens")), 50);
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.completion_tokens")), 8);
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.total_tokens")), 58);
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.prompt_tokens_details.cached_tokens")), 40);
    assert_int_equal(json_integer_value(hth_test_at(body, "timings.cache_n")), 40);
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.completion_tokens_details.reasoning_tokens")), 4);
}

STUB_TEST(a_raw_reply_is_what_the_model_wrote)
{
    static const char written[] =
        "<think>Let me see.</think>I look.<call>weather {\"city\":\"Oslo\"}</call><call>now {}</call>";
    hth_test_answer answer = hth_test_api_script(
        f->model, HTH_API_CHAT, "{" MESSAGES "," TOOLS ",\"reasoning_format\":\"none\",\"parse_tool_calls\":false}",
        pieces, HEARTH_FINISH_STOP);
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_string_equal(hth_test_text_at(body, "choices.0.message.content"), written);
    assert_string_equal(hth_test_text_at(body, "choices.0.finish_reason"), "stop");
}

STUB_TEST(calls_of_the_older_form_are_functions)
{
    static const char asked[] = "{" MESSAGES ",\"functions\":[{\"name\":\"weather\"},{\"name\":\"now\"}]%s}";
    char body_text[512];
    hth_test_answer answer;
    hth_buffer arguments = { .text = NULL };
    json_t *body, *event;
    size_t i;

    (void)snprintf(body_text, sizeof(body_text), asked, "");
    answer = hth_test_api_script(f->model, HTH_API_CHAT, body_text, pieces, HEARTH_FINISH_STOP);
    body = hth_test_json(hth_buffer_text(&answer.text));
    assert_string_equal(hth_test_text_at(body, "choices.0.message.function_call.name"), "weather");
    assert_string_equal(hth_test_text_at(body, "choices.0.message.function_call.arguments"), "{\"city\":\"Oslo\"}");
    assert_null(hth_test_at(body, "choices.0.message.tool_calls"));
    assert_string_equal(hth_test_text_at(body, "choices.0.finish_reason"), "function_call");
    (void)snprintf(body_text, sizeof(body_text), asked, ",\"stream\":true");
    answer = hth_test_api_script(f->model, HTH_API_CHAT, body_text, pieces, HEARTH_FINISH_STOP);
    body = hth_test_events(hth_buffer_text(&answer.text));
    json_array_foreach(body, i, event)
        hth_buffer_add_text(&arguments, hth_test_text_at(event, "choices.0.delta.function_call.arguments"));
    assert_string_equal(hth_buffer_text(&arguments), "{\"city\":\"Oslo\"}");
    hth_buffer_deinit(&arguments);
}

STUB_TEST(a_stream_tells_the_same_in_deltas)
{
    hth_test_answer answer = hth_test_api_script(
        f->model, HTH_API_CHAT, "{" MESSAGES "," TOOLS ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
        pieces, HEARTH_FINISH_STOP);
    json_t *events = hth_test_events(hth_buffer_text(&answer.text)), *event;
    hth_buffer content = { .text = NULL }, reasoning = { .text = NULL }, arguments[2] = { { .text = NULL } };
    size_t i, n = json_array_size(events), n_names = 0;

    assert_string_equal(hth_test_text_at(events, "0.choices.0.delta.role"), "assistant");
    json_array_foreach(events, i, event)
    {
        json_t *delta = hth_test_at(event, "choices.0.delta");
        json_t *call = hth_test_at(delta, "tool_calls.0");

        hth_buffer_add_text(&content, hth_test_text_at(delta, "content"));
        hth_buffer_add_text(&reasoning, hth_test_text_at(delta, "reasoning_content"));
        if (call)
            hth_buffer_add_text(&arguments[json_integer_value(json_object_get(call, "index"))],
                                hth_test_text_at(call, "function.arguments"));
        n_names += *hth_test_text_at(call, "function.name") != '\0';
        if (i < n - 2)
            assert_true(json_is_null(hth_test_at(event, "usage")));
    }
    assert_string_equal(hth_buffer_text(&content), "I look.");
    assert_string_equal(hth_buffer_text(&reasoning), "Let me see.");
    assert_string_equal(hth_buffer_text(&arguments[0]), "{\"city\":\"Oslo\"}");
    assert_string_equal(hth_buffer_text(&arguments[1]), "{}");
    assert_int_equal(n_names, 2);
    assert_string_equal(hth_test_text_at(json_array_get(events, n - 3), "choices.0.finish_reason"), "tool_calls");
    assert_int_equal(json_array_size(hth_test_at(json_array_get(events, n - 2), "choices")), 0);
    assert_int_equal(json_integer_value(hth_test_at(json_array_get(events, n - 2), "usage.total_tokens")), 58);
    assert_string_equal(json_string_value(json_array_get(events, n - 1)), "[DONE]");
    hth_buffer_deinit(&content);
    hth_buffer_deinit(&reasoning);
    hth_buffer_deinit(&arguments[0]);
    hth_buffer_deinit(&arguments[1]);
}

STUB_TEST(the_last_object_of_a_reply_has_its_timings)
{
    static const struct {
        hth_api_kind kind;
        const char *body;
    } rows[] = {
        { HTH_API_CHAT, "{" MESSAGES ",\"stream\":true}" },
        { HTH_API_CHAT, "{" MESSAGES ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}" },
        { HTH_API_COMPLETION, "{\"prompt\":\"abc\",\"stream\":true}" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, rows[i].kind, rows[i].body);
        json_t *events = hth_test_events(hth_buffer_text(&answer.text)), *event, *last;
        size_t n = json_array_size(events), k;

        json_array_foreach(events, k, event)
            assert_int_equal(json_is_object(json_object_get(event, "timings")), k + 2 == n);
        last = json_array_get(events, n - 2);
        assert_true(json_integer_value(hth_test_at(last, "timings.prompt_n")) +
                        json_integer_value(hth_test_at(last, "timings.cache_n")) >
                    0);
    }
}

STUB_TEST(each_piece_of_a_stream_has_the_timings_so_far_if_asked)
{
    static const struct {
        hth_api_kind kind;
        const char *body;
    } rows[] = {
        { HTH_API_CHAT, "{" MESSAGES ",\"stream\":true,\"timings_per_token\":true}" },
        { HTH_API_COMPLETION, "{\"prompt\":\"abc\",\"stream\":true,\"timings_per_token\":true}" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, rows[i].kind, rows[i].body);
        json_t *events = hth_test_events(hth_buffer_text(&answer.text));
        const size_t first = rows[i].kind == HTH_API_CHAT; /* the event before it has the role alone */

        assert_true(json_array_size(events) > first + 3);
        for (size_t k = first; k + 1 < json_array_size(events); k++) {
            json_t *timings = hth_test_at(json_array_get(events, k), "timings");

            assert_true(json_integer_value(hth_test_at(timings, "prompt_n")) +
                            json_integer_value(hth_test_at(timings, "cache_n")) >
                        0);
            assert_true(*hth_test_text_at(json_array_get(events, k), "cache.hit") != '\0');
        }
    }
}

STUB_TEST(a_stream_begins_with_its_first_token_though_nothing_shows_of_it)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *begins;
    } rows[] = {
        { HTH_API_CHAT, "{" MESSAGES "," TOOLS ",\"stream\":true}", "\"delta\":{\"role\":\"assistant\"" },
        { HTH_API_MESSAGES,
          "{\"model\":\"m\",\"max_tokens\":9," MESSAGES ",\"tools\":[{\"name\":\"weather\",\"input_schema\":{}}],"
          "\"stream\":true}",
          "\"output_tokens\":1}" },
        { HTH_API_CHAT, "{" MESSAGES "," TOOLS "}", NULL },
    };
    const hth_api_reply_options options = { .model = "m", .id = "0123", .created_s = 1 };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_api_request *request = hth_test_parsed(rows[i].kind, rows[i].body);
        hth_api_prepared prepared;
        hth_api_error error;
        hth_api_reply *reply;
        hth_buffer out = { .text = NULL };
        size_t n_head;

        assert_true(hth_api_prepare(f->model, request, 1, NULL, &prepared, &error));
        reply = hth_api_reply_new(f->model, request, &prepared, &options, &error);
        assert_non_null(reply);
        hth_api_reply_token(reply, 0, &(hearth_token_event){ .token = 'x', .text = "<ca" }, &out);
        hth_api_reply_text(reply, 0, "<ca", 3, &out);
        n_head = out.n;
        if (rows[i].begins)
            assert_non_null(strstr(hth_buffer_text(&out), rows[i].begins));
        else
            assert_int_equal(n_head, 0);
        hth_api_reply_token(reply, 0, &(hearth_token_event){ .token = 'x', .index = 1, .text = "l" }, &out);
        hth_api_reply_text(reply, 0, "l", 1, &out);
        assert_int_equal(out.n, n_head); /* once */
        hth_buffer_deinit(&out);
        hth_api_reply_free(reply);
        hth_api_prepared_deinit(&prepared);
    }
}

STUB_TEST(a_reply_that_was_cut_short_says_length)
{
    static const char *const cut[] = { "I lo", NULL };
    hth_test_answer answer = hth_test_api_script(f->model, HTH_API_CHAT, "{" MESSAGES "}", cut, HEARTH_FINISH_LENGTH);
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_string_equal(hth_test_text_at(body, "choices.0.finish_reason"), "length");
}

/* Streams' contents of each choice, joined; released by the caller. */
static void join_stream(json_t *events, hth_buffer *contents, size_t n)
{
    json_t *event;
    size_t i;

    json_array_foreach(events, i, event)
    {
        size_t index = (size_t)json_integer_value(hth_test_at(event, "choices.0.index"));

        assert_in_range(index, 0, n - 1);
        hth_buffer_add_text(&contents[index], hth_test_text_at(event, "choices.0.delta.content"));
    }
}

STUB_TEST(a_models_streamed_replies_are_those_that_are_not_streamed)
{
    static const char *const bodies[] = {
        "{" MESSAGES ",\"n\":3,\"seed\":5,\"max_tokens\":40%s}",
        "{" MESSAGES ",\"n\":3,\"seed\":6,\"max_tokens\":40," TOOLS "%s}",
        "{" MESSAGES ",\"n\":3,\"seed\":7,\"max_tokens\":40,\"stop\":[\"a\",\"e\"]%s}",
    };

    for (size_t k = 0; k < sizeof(bodies) / sizeof(bodies[0]); k++) {
        char text[1024];
        hth_test_answer whole, stream;
        hth_buffer contents[3] = { { .text = NULL } };
        json_t *body, *events;

        snprintf(text, sizeof(text), bodies[k], "");
        whole = hth_test_api_run(f->model, HTH_API_CHAT, text);
        snprintf(text, sizeof(text), bodies[k], ",\"stream\":true");
        stream = hth_test_api_run(f->model, HTH_API_CHAT, text);
        assert_int_equal(whole.status, 200);
        body = hth_test_json(hth_buffer_text(&whole.text));
        events = hth_test_events(hth_buffer_text(&stream.text));
        join_stream(events, contents, 3);
        assert_int_equal(json_array_size(hth_test_at(body, "choices")), 3);
        for (size_t i = 0; i < 3; i++) {
            json_t *choice = json_array_get(hth_test_at(body, "choices"), i);

            assert_string_equal(hth_buffer_text(&contents[i]), hth_test_text_at(choice, "message.content"));
            hth_buffer_deinit(&contents[i]);
        }
    }
}

STUB_TEST(a_prompt_that_was_seen_before_is_reported_as_cached)
{
    const char *body = "{\"messages\":[{\"role\":\"user\",\"content\":\"A question that is long enough to be kept.\"}],"
                       "\"max_tokens\":4,\"temperature\":0}";
    hth_test_answer first = hth_test_api_run(f->model, HTH_API_CHAT, body);
    hth_test_answer second = hth_test_api_run(f->model, HTH_API_CHAT, body);
    json_t *a = hth_test_json(hth_buffer_text(&first.text)), *b = hth_test_json(hth_buffer_text(&second.text));
    json_int_t n = json_integer_value(hth_test_at(b, "usage.prompt_tokens"));

    assert_in_range(n, 40, 200);
    assert_int_equal(json_integer_value(hth_test_at(a, "usage.prompt_tokens_details.cached_tokens")), 0);
    assert_int_equal(json_integer_value(hth_test_at(b, "usage.prompt_tokens_details.cached_tokens")), n);
    assert_true(json_equal(hth_test_at(a, "choices"), hth_test_at(b, "choices")));
}

STUB_TEST(a_prediction_is_a_draft_of_the_reply)
{
    static const char ask[] =
        "{" MESSAGES ",\"max_tokens\":40,\"temperature\":0,\"logit_bias\":{\"257\":-100,\"259\":-100}}";
    hth_test_answer plain = hth_test_api_run(f->model, HTH_API_CHAT, ask), predicted;
    json_t *a = hth_test_json(hth_buffer_text(&plain.text)), *b, *request = json_loads(ask, 0, NULL);
    const char *text = hth_test_text_at(a, "choices.0.message.content");
    size_t n = strlen(text) / 2;
    char *body;

    assert_null(hth_test_at(a, "usage.completion_tokens_details.accepted_prediction_tokens"));
    json_object_set_new(request, "prediction",
                        json_pack("{s:s, s:[{s:s, s:s%}, {s:s, s:s}]}", "type", "content", "content", "type", "text",
                                  "text", text, n, "type", "text", "text", text + n));
    body = json_dumps(request, 0);
    predicted = hth_test_api_run(f->model, HTH_API_CHAT, body);
    b = hth_test_json(hth_buffer_text(&predicted.text));
    assert_true(json_equal(hth_test_at(a, "choices"), hth_test_at(b, "choices")));
    assert_true(json_integer_value(hth_test_at(b, "usage.completion_tokens_details.accepted_prediction_tokens")) > 0);
    assert_int_equal(json_integer_value(hth_test_at(b, "usage.completion_tokens_details.rejected_prediction_tokens")),
                     0);
    free(body);
    json_decref(request);
}

STUB_TEST(each_token_has_its_log_probabilities_streamed_or_not)
{
    hth_test_answer whole = hth_test_api_run(
        f->model, HTH_API_CHAT, "{" MESSAGES ",\"max_tokens\":12,\"seed\":3,\"logprobs\":true,\"top_logprobs\":2}");
    hth_test_answer stream = hth_test_api_run(
        f->model, HTH_API_CHAT,
        "{" MESSAGES ",\"max_tokens\":12,\"seed\":3,\"logprobs\":true,\"top_logprobs\":2,\"stream\":true}");
    json_t *body = hth_test_json(hth_buffer_text(&whole.text));
    json_t *events = hth_test_events(hth_buffer_text(&stream.text)), *all = json_array(), *event;
    json_t *wanted = hth_test_at(body, "choices.0.logprobs.content");
    size_t i;

    json_array_foreach(events, i, event) json_array_extend(all, hth_test_at(event, "choices.0.logprobs.content"));
    assert_int_equal(json_array_size(wanted), json_integer_value(hth_test_at(body, "usage.completion_tokens")));
    assert_int_equal(json_array_size(hth_test_at(wanted, "0.top_logprobs")), 2);
    assert_true(json_equal(all, wanted));
    json_decref(all);
}

/* ---- completions ---- */

TEST(prompts_of_completions_have_all_four_forms)
{
    hth_api_request *r = hth_test_parsed(HTH_API_COMPLETION, "{\"prompt\":\"a\"}");

    assert_int_equal(r->n_prompts, 1);
    assert_string_equal(r->prompts[0].pieces[0].text, "a");
    assert_int_equal(r->options.n_predict, -1);
    r = hth_test_parsed(HTH_API_COMPLETION, "{\"prompt\":[\"a\",\"b\"],\"n\":2}");
    assert_int_equal(r->n_prompts, 2);
    assert_string_equal(r->prompts[1].pieces[0].text, "b");
    r = hth_test_parsed(HTH_API_COMPLETION, "{\"prompt\":[1,2,3]}");
    assert_int_equal(r->n_prompts, 1);
    assert_int_equal(r->prompts[0].pieces[0].n_tokens, 3);
    r = hth_test_parsed(HTH_API_COMPLETION, "{\"prompt\":[[1,2],[3]]}");
    assert_int_equal(r->n_prompts, 2);
    assert_int_equal(r->prompts[1].pieces[0].tokens[0], 3);
}

STUB_TEST(counted_tokens_are_those_that_a_chat_uses)
{
    hth_api_request *request = hth_test_parsed(HTH_API_CHAT_TOKENS, "{" MESSAGES "," TOOLS "}");
    hth_test_answer answer = hth_test_api_run(f->model, HTH_API_CHAT, "{\"max_tokens\":1," MESSAGES "," TOOLS "}");
    json_t *counted, *body = hth_test_json(hth_buffer_text(&answer.text));
    hth_api_error error;
    hth_buffer out = { .text = NULL };

    assert_true(hth_api_answer(f->model, request, &out, &error));
    counted = hth_test_json(hth_buffer_text(&out));
    assert_in_range(json_integer_value(hth_test_at(counted, "input_tokens")), 20, 500);
    assert_int_equal(json_integer_value(hth_test_at(counted, "input_tokens")),
                     json_integer_value(hth_test_at(body, "usage.prompt_tokens")));
    hth_buffer_deinit(&out);
}

STUB_TEST(what_is_wrong_with_a_completion_is_named)
{
    static const struct {
        const char *body, *param, *code;
    } rows[] = {
        { "{}", "prompt", "missing_required_parameter" },
        { "{\"prompt\":[]}", "prompt", "invalid_value" },
        { "{\"prompt\":[1,\"a\"]}", "prompt", "invalid_type" },
        { "{\"prompt\":[-1]}", "prompt", "invalid_value" },
        { "{\"prompt\":7}", "prompt", "invalid_type" },
        { "{\"prompt\":[\"a\",\"b\"],\"n\":100}", "n", "invalid_value" },
        { "{\"prompt\":\"a\",\"max_tokens\":-3}", "max_tokens", "invalid_value" },
        { "{\"prompt\":\"a\",\"logprobs\":6}", "logprobs", "invalid_value" },
        { "{\"prompt\":[99999]}", "", "invalid_value" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, HTH_API_COMPLETION, rows[i].body);
        json_t *body = hth_test_json(hth_buffer_text(&answer.text));

        if (answer.status != 400 || strcmp(hth_test_text_at(body, "error.code"), rows[i].code) != 0 ||
            strcmp(hth_test_text_at(body, "error.param"), rows[i].param) != 0)
            fail_msg("row %zu: %s gives %d %s", i, rows[i].body, answer.status, hth_buffer_text(&answer.text));
    }
}

STUB_TEST(completions_of_several_prompts_are_told_apart_by_their_index)
{
    const char *request = "{\"prompt\":[\"one\",\"two\"],\"n\":2,\"max_tokens\":20,\"seed\":9,\"echo\":true%s}";
    char text[256];
    hth_test_answer whole, stream;
    hth_buffer contents[4] = { { .text = NULL } };
    json_t *body, *events, *event;
    size_t i;

    snprintf(text, sizeof(text), request, "");
    whole = hth_test_api_run(f->model, HTH_API_COMPLETION, text);
    snprintf(text, sizeof(text), request, ",\"stream\":true");
    stream = hth_test_api_run(f->model, HTH_API_COMPLETION, text);
    assert_int_equal(whole.status, 200);
    body = hth_test_json(hth_buffer_text(&whole.text));
    events = hth_test_events(hth_buffer_text(&stream.text));
    json_array_foreach(events, i, event)
        hth_buffer_add_text(&contents[json_integer_value(hth_test_at(event, "choices.0.index"))],
                            hth_test_text_at(event, "choices.0.text"));
    for (i = 0; i < 4; i++) {
        json_t *choice = json_array_get(hth_test_at(body, "choices"), i);

        assert_int_equal(json_integer_value(hth_test_at(choice, "index")), i);
        assert_memory_equal(hth_test_text_at(choice, "text"), i < 2 ? "one" : "two", 3);
        assert_string_equal(hth_buffer_text(&contents[i]), hth_test_text_at(choice, "text"));
        hth_buffer_deinit(&contents[i]);
    }
}

STUB_TEST(log_probabilities_of_a_completion_are_arrays_side_by_side)
{
    hth_test_answer answer = hth_test_api_run(f->model, HTH_API_COMPLETION,
                                              "{\"prompt\":\"abc\",\"max_tokens\":8,\"seed\":2,\"logprobs\":2}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));
    json_t *logprobs = hth_test_at(body, "choices.0.logprobs");
    json_int_t n = json_integer_value(hth_test_at(body, "usage.completion_tokens"));

    assert_int_equal(json_array_size(hth_test_at(logprobs, "tokens")), n);
    assert_int_equal(json_array_size(hth_test_at(logprobs, "token_logprobs")), n);
    assert_int_equal(json_array_size(hth_test_at(logprobs, "top_logprobs")), n);
    assert_int_equal(json_array_size(hth_test_at(logprobs, "text_offset")), n);
}
