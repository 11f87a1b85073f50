/*
 * api_ollama_test.c - Ollama's endpoints: what is read, and what is answered
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/prepare.h"
#include "api/sse.h"
#include "dialects/answers.h"
#include "dialects/ollama_answers.h"
#include "dialects/request_parse.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define ASK "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define TOOLS                                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"d\",\"parameters\":"   \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}}}}},{\"type\":\"function\",\"function\":" \
    "{\"name\":\"now\"}}]"

static hth_api_error refused(hth_api_kind kind, const char *body)
{
    hth_api_error error;
    hth_api_request *request = hth_api_request_parse(kind, body, strlen(body), NULL, &error);

    if (request)
        fail_msg("%s is accepted", body);
    return error;
}

/* The lines of a stream, each a JSON object and ended by a newline. */
static json_t *lines_of(const char *text)
{
    json_t *lines = hth_test_json_keep(json_array());

    while (*text) {
        size_t n = strcspn(text, "\n");
        char *line = strndup(text, n);

        assert_int_equal(text[n], '\n');
        json_array_append(lines, hth_test_json(line));
        free(line);
        text += n + 1;
    }
    return lines;
}

/* ---- requests ---- */

SHARED_STUB_TEST(every_option_arrives)
{
    hth_api_request *r = hth_test_parsed(
        HTH_API_OLLAMA_CHAT,
        "{\"model\":\"m\"," ASK ",\"options\":{\"temperature\":0.25,\"top_k\":7,\"top_p\":0.5,\"min_p\":0.125,"
        "\"typical_p\":0.5,\"repeat_penalty\":1.25,\"repeat_last_n\":9,\"presence_penalty\":-0.5,\"frequency_penalty\":"
        "0.5,\"seed\":42,\"stop\":[\"x\",\"\"],\"num_predict\":7},\"logprobs\":true,\"top_logprobs\":3,"
        "\"session_id\":\"s\",\"think\":\"high\",\"format\":\"json\"}");
    const hearth_sampling *s = &r->sampling;

    assert_string_equal(r->model, "m");
    assert_true(s->temperature == 0.25f && s->top_k == 7 && s->top_p == 0.5f && s->min_p == 0.125f);
    assert_true(s->typical_p == 0.5f && s->repeat_penalty == 1.25f && s->repeat_last_n == 9);
    assert_true(s->presence_penalty == -0.5f && s->frequency_penalty == 0.5f && s->seed == 42);
    assert_int_equal(r->options.n_predict, 7);
    assert_int_equal(r->options.n_stop, 1);
    assert_true(r->options.logprobs && r->options.n_top_logprobs == 3);
    assert_string_equal(r->options.session_id, "s");
    assert_string_equal(r->conversation.json_schema, "{\"type\":\"object\"}");
    assert_non_null(strstr(r->conversation.template_values, "\"high\""));
    assert_true(r->stream && !r->is_load);
    assert_string_equal(r->notes.text, "");
}

SHARED_STUB_TEST(what_nobody_says_is_as_everywhere)
{
    hth_api_request *r = hth_test_parsed(HTH_API_OLLAMA_CHAT, "{" ASK "}");
    const hearth_sampling defaults = hearth_sampling_default();

    assert_memory_equal(&r->sampling, &defaults, sizeof(defaults));
    assert_int_equal(r->options.n_predict, -1);
    assert_true(r->stream && r->sampling.seed == HEARTH_SEED_RANDOM && !r->conversation.no_thinking);
    assert_null(r->conversation.json_schema);
    r = hth_test_parsed(HTH_API_OLLAMA_CHAT,
                        "{" ASK ",\"stream\":false,\"think\":false,\"format\":\"\",\"options\":{\"seed\":-1,"
                        "\"num_predict\":-2,\"stop\":null},\"tools\":[]}");
    assert_true(!r->stream && r->sampling.seed == HEARTH_SEED_RANDOM && r->conversation.no_thinking &&
                r->options.n_predict == -1);
    assert_null(r->conversation.json_schema);
}

SHARED_STUB_TEST(what_has_no_effect_is_noted)
{
    static const struct {
        const char *fields, *notes;
    } rows[] = {
        { "\"options\":{\"num_ctx\":4096}", "options.num_ctx" },
        { "\"options\":{\"num_gpu\":1,\"num_thread\":2,\"use_mmap\":true}",
          "options.num_gpu, options.num_thread, options.use_mmap" },
        { "\"options\":{\"mirostat\":0,\"tfs_z\":1,\"mirostat_tau\":5}", "" },
        { "\"options\":{\"mirostat\":2,\"tfs_z\":0.5}", "options.tfs_z" },
        { "\"options\":{\"whatever\":1}", "options.whatever" },
        { "\"whatever\":1", "whatever" },
        { "\"truncate\":true,\"shift\":true", "truncate, shift" },
        { "\"truncate\":false,\"shift\":false", "" },
        { "\"keep_alive\":-1", "" },
        { "\"keep_alive\":\"-1m\"", "" },
        { "\"keep_alive\":\"1h30m\"", "" },
        { "\"keep_alive\":300", "" },
        { "\"keep_alive\":0", "" },
        { "\"keep_alive\":null", "" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[512];
        hth_api_request *r;

        snprintf(body, sizeof(body), "{" ASK ",%s}", rows[i].fields);
        r = hth_test_parsed(HTH_API_OLLAMA_CHAT, body);
        if (strcmp(r->notes.text, rows[i].notes) != 0)
            fail_msg("%s: '%s' is noted", rows[i].fields, r->notes.text);
    }
}

SHARED_STUB_TEST(what_is_wrong_names_the_field)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *in_message;
    } rows[] = {
        { HTH_API_OLLAMA_CHAT, "[]", "object" },
        { HTH_API_OLLAMA_CHAT, "{\"messages\":{}}", "'messages'" },
        { HTH_API_OLLAMA_CHAT, "{\"messages\":[1]}", "'messages[0]'" },
        { HTH_API_OLLAMA_CHAT, "{\"messages\":[{\"content\":\"a\"}]}", "'messages[0].role'" },
        { HTH_API_OLLAMA_CHAT, "{\"messages\":[{\"role\":\"a\"}]}", "'messages[0].role'" },
        { HTH_API_OLLAMA_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":1}]}", "'messages[0].content'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"options\":1}", "'options'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"options\":{\"temperature\":\"a\"}}", "'options.temperature'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"options\":{\"top_p\":2}}", "'options.top_p'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"format\":\"xml\"}", "'format'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"format\":1}", "'format'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"keep_alive\":\"soon\"}", "'keep_alive'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"keep_alive\":\"\"}", "'keep_alive'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"keep_alive\":[]}", "'keep_alive'" },
        { HTH_API_OLLAMA_CHAT, "{" ASK ",\"top_logprobs\":21}", "'top_logprobs'" },
        { HTH_API_OLLAMA_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"images\":[\"x\"]}]}",
          "'messages[0].images'" },
        { HTH_API_OLLAMA_GENERATE, "{\"prompt\":1}", "'prompt'" },
        { HTH_API_OLLAMA_GENERATE, "{\"model\":5,\"prompt\":1}", "'model'" },
        { HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"images\":[\"x\"]}", "'images'" },
        { HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"suffix\":1}", "'suffix'" },
        { HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"context\":[\"b\"]}", "'context'" },
        { HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"raw\":true,\"system\":\"b\"}", "'raw'" },
        { HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"raw\":true,\"context\":[1]}", "'raw'" },
        { HTH_API_OLLAMA_SHOW, "{\"model\":1}", "'model'" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_api_error error = refused(rows[i].kind, rows[i].body);
        hth_buffer out = { .text = NULL };
        json_t *body;

        if (!strstr(error.message, rows[i].in_message) || hth_api_error_http_status(HTH_API_OLLAMA, &error) != 400)
            fail_msg("%s gives '%s'", rows[i].body, error.message);
        hth_api_error_write(HTH_API_OLLAMA, &error, &out);
        body = hth_test_json(hth_buffer_text(&out));
        assert_int_equal(json_object_size(body), 1);
        assert_string_equal(hth_test_text_at(body, "error"), error.message);
        hth_buffer_deinit(&out);
    }
}

SHARED_STUB_TEST(an_error_in_a_stream_is_a_line)
{
    hth_api_error error = { .kind = HTH_API_INTERNAL, .message = "it\nbroke" };
    hth_buffer out = { .text = NULL };

    hth_api_error_write_event(HTH_API_OLLAMA, &error, &out);
    assert_string_equal(hth_buffer_text(&out), "{\"error\":\"it\\nbroke\"}\n");
    assert_string_equal(hth_api_stream_type(HTH_API_OLLAMA), "application/x-ndjson");
    assert_string_equal(hth_api_stream_type(HTH_API_OPENAI), "text/event-stream");
    hth_buffer_deinit(&out);
}

/* The prompt that a request becomes on the stub's template, without what begins every text; released with free. */
static char *prompt_of(const hth_test_stub *f, hth_api_kind kind, const char *body)
{
    hth_api_request *request = hth_test_parsed(kind, body);
    hth_api_prepared prepared;
    hth_api_error error;
    char *text = NULL, *copy;
    size_t n;

    if (!hth_api_prepare(f->model, request, 1, NULL, &prepared, &error))
        fail_msg("%s: %s", body, error.message);
    assert_int_equal(
        hearth_detokenize(f->model, prepared.requests[0].tokens, prepared.requests[0].n_tokens, true, &text, &n, NULL),
        HEARTH_OK);
    copy = strdup(strncmp(text, "<s>", 3) == 0 ? text + 3 : text); /* which begins every text but one that goes on */
    hearth_free(text);
    hth_api_prepared_deinit(&prepared);
    return copy;
}

static void assert_prompt(const hth_test_stub *f, hth_api_kind kind, const char *body, const char *expected)
{
    char *prompt = prompt_of(f, kind, body);

    assert_string_equal(prompt, expected);
    free(prompt);
}

SHARED_STUB_TEST(histories_are_read)
{
    assert_prompt(f, HTH_API_OLLAMA_CHAT,
                  "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\","
                  "\"images\":[\"x\",\"y\"]},{\"role\":\"assistant\",\"content\":\"b\",\"thinking\":\"t\"},"
                  "{\"role\":\"user\",\"content\":\"c\",\"images\":[]}]}",
                  "<|im_start|>system\ns<|im_end|>\n"
                  "<|im_start|>user\na[image left out][image left out]<|im_end|>\n"
                  "<|im_start|>assistant\n<think>t</think>b<|im_end|>\n"
                  "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n");
    /* The beginning of a reply goes on. */
    assert_prompt(f, HTH_API_OLLAMA_CHAT,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}",
                  "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb");
}

SHARED_STUB_TEST(results_find_their_calls)
{
#define CALL(name) "{\"function\":{\"name\":\"" name "\",\"arguments\":{\"a\":1}}}"
#define CALLS \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":["
    static const struct {
        const char *body, *expected; /* of results */
    } rows[] = {
        /* In order, where they say nothing. */
        { CALLS CALL("f") "," CALL(
              "g") "]},{\"role\":\"tool\",\"content\":\"1\"},{\"role\":\"tool\",\"content\":\"2\"}]}",
          "<|im_start|>tool\ncall00000: 1<|im_end|>\n<|im_start|>tool\ncall00001: 2<|im_end|>\n" },
        /* By the tool's name. */
        { CALLS CALL("f") "," CALL("g") "]},{\"role\":\"tool\",\"tool_name\":\"g\",\"content\":\"2\"},"
                                        "{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":\"1\"}]}",
          "<|im_start|>tool\ncall00001: 2<|im_end|>\n<|im_start|>tool\ncall00000: 1<|im_end|>\n" },
        /* By ids, where they have some. */
        { CALLS "{\"id\":\"x\",\"function\":{\"name\":\"f\",\"arguments\":{}}}," CALL(
              "f") "]},{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"1\"},{\"role\":\"tool\",\"content\":"
                   "\"2\"}]}",
          "<|im_start|>tool\nx: 1<|im_end|>\n<|im_start|>tool\ncall00001: 2<|im_end|>\n" },
        /* More than there are calls: the rest belongs to none. */
        { CALLS CALL("f") "]},{\"role\":\"tool\",\"content\":\"1\"},{\"role\":\"tool\",\"content\":\"2\"}]}",
          "<|im_start|>tool\ncall00000: 1<|im_end|>\n<|im_start|>tool\n2<|im_end|>\n" },
        /* A later turn's calls are counted on. */
        { CALLS CALL("f") "]},{\"role\":\"tool\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"\","
                          "\"tool_calls\":[" CALL("f") "]},{\"role\":\"tool\",\"content\":\"2\"}]}",
          "<|im_start|>tool\ncall00001: 2<|im_end|>\n" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *prompt = prompt_of(f, HTH_API_OLLAMA_CHAT, rows[i].body);

        if (!strstr(prompt, rows[i].expected))
            fail_msg("row %zu: %s", i, prompt);
        assert_non_null(strstr(prompt, "<call>f {"));
        free(prompt);
    }
}

SHARED_STUB_TEST(prompts_are_questions_unless_they_are_raw)
{
    assert_prompt(f, HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"system\":\"s\"}",
                  "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
    assert_prompt(f, HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"raw\":true}", "a");
    assert_prompt(f, HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"template\":\" {{ .Prompt }}\"}", "a");
    /* Templates of another language have no effect; what came before does. */
    assert_prompt(f, HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"template\":\"[{{ .Prompt }}]\"}",
                  "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
    assert_prompt(f, HTH_API_OLLAMA_GENERATE, "{\"prompt\":\"a\",\"context\":[120,121]}",
                  "xy<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
}

SHARED_STUB_TEST(a_text_is_asked_for_between_two)
{
    static const char body[] = "{\"prompt\":\"ab\",\"suffix\":\"cd\"}";
    static const hth_api_kind kinds[] = { HTH_API_OLLAMA_GENERATE, HTH_API_COMPLETION };
    hth_test_stub filling = *f;
    hth_api_error error;

    filling.model = hth_test_model_load(f->runtime, "stub:fills=1", NULL);
    for (size_t i = 0; i < 2; i++) {
        hth_api_request *request = hth_test_parsed(kinds[i], body);
        hth_api_prepared prepared;

        assert_prompt(&filling, kinds[i], body, "<ab|cd>");
        assert_false(hth_api_prepare(f->model, request, 1, NULL, &prepared, &error));
        assert_int_equal(error.kind, HTH_API_UNSUPPORTED);
        assert_string_equal(error.param, "suffix");
    }
    assert_prompt(&filling, HTH_API_COMPLETION, "{\"prompt\":\"ab\",\"suffix\":\"\"}", "ab");
    hearth_model_unref(filling.model);
}

SHARED_STUB_TEST(context_and_suffix_are_part_of_what_names_a_prompt)
{
    static const char *const bodies[] = { "{\"prompt\":\"a\"}", "{\"prompt\":\"a\",\"context\":[1]}",
                                          "{\"prompt\":\"a\",\"context\":[2]}", "{\"prompt\":\"a\",\"raw\":true}",
                                          "{\"prompt\":\"a\",\"suffix\":\"b\"}" };
    uint8_t keys[5][HTH_MEMO_KEY_BYTES];

    for (size_t i = 0; i < 5; i++) {
        hth_api_request *request = hth_test_parsed(HTH_API_OLLAMA_GENERATE, bodies[i]);

        assert_true(hth_api_prompt_key(request, 0, keys[i]));
    }
    assert_memory_not_equal(keys[0], keys[1], sizeof(keys[0]));
    assert_memory_not_equal(keys[1], keys[2], sizeof(keys[0]));
    assert_memory_not_equal(keys[3], keys[4], sizeof(keys[0]));
}

/* ---- replies ---- */

/* The text at a path of each line, joined. Released with hth_buffer_deinit. */
static hth_buffer joined(json_t *lines, const char *path)
{
    hth_buffer said = { .text = NULL };
    json_t *line;
    size_t i;

    json_array_foreach(lines, i, line) hth_buffer_add_text(&said, hth_test_text_at(line, path));
    return said;
}

static void assert_numbers(json_t *last)
{
    static const char *const names[] = { "total_duration", "load_duration", "prompt_eval_duration",
                                         "eval_duration",  "eval_count",    "prompt_eval_count" };

    assert_true(json_is_true(hth_test_at(last, "done")));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!json_is_integer(hth_test_at(last, names[i])) || json_integer_value(hth_test_at(last, names[i])) < 1)
            fail_msg("%s is no number", names[i]);
    assert_string_equal(hth_test_text_at(last, "created_at"), "2023-11-14T22:13:20Z");
}

SHARED_STUB_TEST(a_stream_s_pieces_are_the_reply)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *at;
    } rows[] = {
        { HTH_API_OLLAMA_CHAT, "{\"model\":\"m\"," ASK ",\"options\":{\"num_predict\":20,\"seed\":3}%s}",
          "message.content" },
        { HTH_API_OLLAMA_GENERATE, "{\"model\":\"m\",\"prompt\":\"Hi\",\"options\":{\"num_predict\":20,\"seed\":3}%s}",
          "response" },
        { HTH_API_OLLAMA_GENERATE,
          "{\"model\":\"m\",\"raw\":true,\"prompt\":\"Hi\",\"options\":{\"num_predict\":20,\"seed\":3}%s}",
          "response" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        hth_test_answer whole, stream;
        hth_buffer said;
        json_t *body, *lines, *line, *last;
        size_t k;

        snprintf(text, sizeof(text), rows[i].body, ",\"stream\":false");
        whole = hth_test_api_run(f->model, rows[i].kind, text);
        snprintf(text, sizeof(text), rows[i].body, "");
        stream = hth_test_api_run(f->model, rows[i].kind, text);
        body = hth_test_json(hth_buffer_text(&whole.text));
        lines = lines_of(hth_buffer_text(&stream.text));
        said = joined(lines, rows[i].at);
        last = json_array_get(lines, json_array_size(lines) - 1);
        assert_true(json_array_size(lines) > 2);
        assert_string_equal(hth_buffer_text(&said), hth_test_text_at(body, rows[i].at));
        assert_true(said.n > 0);
        assert_numbers(body);
        assert_numbers(last);
        json_array_foreach(lines, k, line)
        {
            assert_string_equal(hth_test_text_at(line, "model"), "m");
            assert_int_equal(json_is_true(hth_test_at(line, "done")), line == last);
        }
        assert_string_equal(hth_test_text_at(last, "done_reason"), hth_test_text_at(body, "done_reason"));
        assert_true(json_equal(hth_test_at(last, "context"), hth_test_at(body, "context")) ||
                    (!hth_test_at(last, "context") && !hth_test_at(body, "context")));
        /* A conversation's tokens, prompt and reply; a raw prompt is none. */
        assert_int_equal(hth_test_at(last, "context") != NULL, i == 1);
        if (i == 1)
            assert_int_equal(json_array_size(hth_test_at(last, "context")),
                             json_integer_value(hth_test_at(last, "prompt_eval_count")) +
                                 json_integer_value(hth_test_at(last, "eval_count")));
        hth_buffer_deinit(&said);
    }
}

SHARED_STUB_TEST(calls_are_told_whole)
{
    static const char *const texts[] = { "<think>h",         "m</think>So: ",       "<call>weather {\"city\":",
                                         "\"Oslo\"}</call>", "<call>now {}</call>", NULL };
    hth_test_answer whole = hth_test_api_script(f->model, HTH_API_OLLAMA_CHAT, "{" ASK "," TOOLS ",\"stream\":false}",
                                                texts, HEARTH_FINISH_STOP);
    hth_test_answer stream =
        hth_test_api_script(f->model, HTH_API_OLLAMA_CHAT, "{" ASK "," TOOLS "}", texts, HEARTH_FINISH_STOP);
    json_t *body = hth_test_json(hth_buffer_text(&whole.text)), *lines = lines_of(hth_buffer_text(&stream.text));
    json_t *calls = json_array(), *line;
    size_t i;

    assert_string_equal(hth_test_text_at(body, "message.thinking"), "hm");
    assert_string_equal(hth_test_text_at(body, "message.content"), "So: ");
    assert_string_equal(hth_test_text_at(body, "done_reason"), "stop");
    assert_int_equal(json_array_size(hth_test_at(body, "message.tool_calls")), 2);
    assert_string_equal(hth_test_text_at(body, "message.tool_calls.0.function.name"), "weather");
    assert_string_equal(hth_test_text_at(body, "message.tool_calls.0.function.arguments.city"), "Oslo");
    assert_string_equal(hth_test_text_at(body, "message.tool_calls.1.function.name"), "now");
    assert_true(json_is_object(hth_test_at(body, "message.tool_calls.1.function.arguments")));
    assert_int_equal(json_integer_value(hth_test_at(body, "message.tool_calls.1.function.index")), 1);
    json_array_foreach(lines, i, line)
    {
        assert_true(json_is_string(hth_test_at(line, "message.content")));
        json_array_extend(calls, hth_test_at(line, "message.tool_calls"));
    }
    assert_true(json_equal(calls, hth_test_at(body, "message.tool_calls")));
    json_decref(calls);
}

SHARED_STUB_TEST(a_call_that_is_cut_off_is_none)
{
    static const char *const texts[] = { "So ", "<call>weather {\"city\":", "\"Os", NULL };

    for (int streamed = 0; streamed < 2; streamed++) {
        hth_test_answer answer = hth_test_api_script(
            f->model, HTH_API_OLLAMA_CHAT, streamed ? "{" ASK "," TOOLS "}" : "{" ASK "," TOOLS ",\"stream\":false}",
            texts, HEARTH_FINISH_LENGTH);

        assert_null(strstr(hth_buffer_text(&answer.text), "tool_calls"));
        assert_non_null(strstr(hth_buffer_text(&answer.text), "\"done_reason\":\"length\""));
    }
}

SHARED_STUB_TEST(log_probabilities_come_with_their_lines)
{
    static const char request[] = "{" ASK ",\"options\":{\"num_predict\":9,\"seed\":3},\"logprobs\":true%s}";
    char text[512];
    hth_test_answer whole, stream;
    json_t *body, *lines, *all = json_array(), *line;
    size_t i;

    snprintf(text, sizeof(text), request, ",\"top_logprobs\":2,\"stream\":false");
    whole = hth_test_api_run(f->model, HTH_API_OLLAMA_CHAT, text);
    snprintf(text, sizeof(text), request, ",\"top_logprobs\":2");
    stream = hth_test_api_run(f->model, HTH_API_OLLAMA_CHAT, text);
    body = hth_test_json(hth_buffer_text(&whole.text));
    lines = lines_of(hth_buffer_text(&stream.text));
    json_array_foreach(lines, i, line) json_array_extend(all, hth_test_at(line, "logprobs"));
    assert_int_equal(json_array_size(all), json_integer_value(hth_test_at(body, "eval_count")));
    assert_true(json_equal(all, hth_test_at(body, "logprobs")));
    assert_int_equal(json_array_size(hth_test_at(all, "0.top_logprobs")), 2);
    assert_true(json_is_array(hth_test_at(all, "0.bytes")));
    json_decref(all);
}

/* ---- answers ---- */

static json_t *ask(const hth_test_stub *f, hth_api_kind kind, const char *body)
{
    hth_api_request *request = hth_test_parsed(kind, body);
    hth_buffer out = { .text = NULL };
    hth_api_error error;
    json_t *answer;

    if (!hth_api_answer(f->model, request, &out, &error))
        fail_msg("%s: %s", body, error.message);
    answer = hth_test_json(hth_buffer_text(&out));
    hth_buffer_deinit(&out);
    return answer;
}

SHARED_STUB_TEST(who_asks_for_nothing_is_told_that_the_model_is_loaded)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *reason, *at;
    } rows[] = {
        { HTH_API_OLLAMA_CHAT, "{\"model\":\"m\"}", "load", "message.content" },
        { HTH_API_OLLAMA_CHAT, "{\"model\":\"m\",\"messages\":[],\"keep_alive\":-1}", "load", "message.content" },
        { HTH_API_OLLAMA_CHAT, "{\"model\":\"m\",\"messages\":[],\"keep_alive\":\"0s\"}", "unload", "message.content" },
        { HTH_API_OLLAMA_GENERATE, "{\"model\":\"m\",\"prompt\":\"\"}", "load", "response" },
        { HTH_API_OLLAMA_GENERATE, "{\"model\":\"m\",\"keep_alive\":0}", "unload", "response" },
        { HTH_API_OLLAMA_GENERATE, "{\"model\":\"m\",\"keep_alive\":\"5m\"}", "load", "response" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *answer = ask(f, rows[i].kind, rows[i].body);

        assert_string_equal(hth_test_text_at(answer, "done_reason"), rows[i].reason);
        assert_string_equal(hth_test_text_at(answer, "model"), "m");
        assert_true(json_is_true(hth_test_at(answer, "done")) && json_is_string(hth_test_at(answer, rows[i].at)));
    }
}

static bool has_text(json_t *array, const char *text)
{
    json_t *item;
    size_t i;

    json_array_foreach(array, i, item) if (strcmp(json_string_value(item), text) == 0) return true;
    return false;
}

SHARED_STUB_TEST(a_model_shows_what_it_can_do)
{
    static const char *const bodies[] = { "{\"model\":\"m\",\"verbose\":true}", "{\"name\":\"m\"}", "" };

    assert_string_equal(hth_test_parsed(HTH_API_OLLAMA_SHOW, "{\"name\":\"n\",\"model\":\"m\"}")->model, "m");
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        json_t *shown = ask(f, HTH_API_OLLAMA_SHOW, bodies[i]), *info = hth_test_at(shown, "model_info");
        const char *architecture = json_string_value(json_object_get(info, "general.architecture"));
        char key[128];

        assert_non_null(architecture);
        snprintf(key, sizeof(key), "%s.context_length", architecture);
        assert_true(json_integer_value(json_object_get(info, key)) > 0);
        assert_string_equal(hth_test_text_at(shown, "details.family"), architecture);
        assert_true(has_text(hth_test_at(shown, "capabilities"), "completion"));
        assert_true(has_text(hth_test_at(shown, "capabilities"), "tools"));
        assert_true(has_text(hth_test_at(shown, "capabilities"), "thinking"));
        assert_false(has_text(hth_test_at(shown, "capabilities"), "insert"));
        assert_string_equal(hth_test_text_at(shown, "template"), "a stub's, in C\xEF\xBF\xBD");
    }
}

SHARED_STUB_TEST(models_are_listed_whether_or_not_they_are_loaded)
{
    hearth_model_info info = { .struct_size = sizeof(info),
                               .architecture = "llama",
                               .quant_type = "q4_k_m",
                               .file_bytes = 5000,
                               .n_params = 7600000000,
                               .n_ctx = 4096 };
    static const char *const aliases[] = { "c:latest", "d-*" };
    hth_api_listed_model models[] = {
        { .name = "a", .created_s = 1700000000, .info = &info, .aliases = aliases, .n_aliases = 2 },
        { .name = "b:7b", .created_s = 1700000000, .file_bytes = 6000 }
    };
    hth_buffer out = { .text = NULL };
    json_t *list;

    hth_api_ollama_tags_write(models, 2, &out);
    list = hth_test_json(hth_buffer_text(&out));
    assert_int_equal(json_array_size(hth_test_at(list, "models")), 3); /* a pattern is no name */
    assert_string_equal(hth_test_text_at(list, "models.0.name"), "a");
    assert_string_equal(hth_test_text_at(list, "models.1.model"), "c:latest");
    assert_string_equal(hth_test_text_at(list, "models.2.model"), "b:7b");
    assert_string_equal(hth_test_text_at(list, "models.0.modified_at"), "2023-11-14T22:13:20Z");
    assert_int_equal(strlen(hth_test_text_at(list, "models.0.digest")), 64);
    assert_int_equal(json_integer_value(hth_test_at(list, "models.0.size")), 5000);
    /* a model that is not loaded: `ollama list` cuts its digest */
    assert_int_equal(strlen(hth_test_text_at(list, "models.2.digest")), 64);
    assert_int_equal(json_integer_value(hth_test_at(list, "models.2.size")), 6000);
    assert_string_equal(hth_test_text_at(list, "models.1.digest"), hth_test_text_at(list, "models.0.digest"));
    assert_string_not_equal(hth_test_text_at(list, "models.2.digest"), hth_test_text_at(list, "models.0.digest"));
    assert_string_equal(hth_test_text_at(list, "models.0.details.parameter_size"), "7.6B");
    assert_string_equal(hth_test_text_at(list, "models.0.details.quantization_level"), "Q4_K_M");
    assert_string_equal(hth_test_text_at(list, "models.0.details.families.0"), "llama");
    hth_buffer_clear(&out);
    hth_api_ollama_ps_write(models, 2, &out);
    list = hth_test_json(hth_buffer_text(&out));
    assert_int_equal(json_array_size(hth_test_at(list, "models")), 1);
    assert_int_equal(json_integer_value(hth_test_at(list, "models.0.context_length")), 4096);
    hth_buffer_deinit(&out);
}

GROUP(with_a_stub, hth_test_shared_stub_set_up, hth_test_shared_stub_tear_down)
