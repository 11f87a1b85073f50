/*
 * api_notes_test.c - what clients send in vain is passed over and told, and histories are never poisoned
 */
#include <stdio.h>
#include <string.h>

#include "dialects/request_parse.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define CHAT(members) HTH_API_CHAT, "{" MESSAGES "," members "}"

/* ---- the list ---- */

TEST(a_list_has_each_note_once_and_nothing_that_a_header_must_not_have)
{
    hth_api_notes notes = { .text = "" };

    hth_api_note(NULL, "a");
    hth_api_note(&notes, "");
    assert_string_equal(notes.text, "");
    hth_api_note(&notes, "messages[0].id");
    hth_api_note(&notes, "messages[17].id");
    hth_api_note(&notes, "a\r\nSet-Cookie: x, y\xc3\xa4");
    hth_api_note(&notes, "id");
    assert_string_equal(notes.text, "messages[].id, a??Set-Cookie:?x??y??, id");
}

TEST(a_full_list_says_that_there_are_more)
{
    hth_api_notes notes = { .text = "" };
    char name[200];
    const char *at = notes.text;
    char one[HTH_API_NOTE_BYTES + 1];
    unsigned n = 0;

    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "%c%0150u", 'a' + (int)(i % 26), i);
        hth_api_note(&notes, name); /* cut, so that there are 26 */
        (void)snprintf(name, sizeof(name), "field%u", i);
        hth_api_note(&notes, name);
    }
    while (hth_api_notes_next(&at, one))
        n++;
    assert_in_range(n, 3, 100);
    assert_string_equal(at, ", and more");
    assert_true(strlen(notes.text) < sizeof(notes.text));
}

/* ---- what is passed over ---- */

TEST(what_is_passed_over_is_noted)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *notes;
    } rows[] = {
        { CHAT("\"num_ctx\":1,\"keep_alive\":\"5m\",\"x\":null"), "num_ctx, keep_alive" },
        { CHAT("\"mirostat_mode\":0,\"id_slot\":-1,\"samplers\":[]"), "mirostat_mode" },
        { CHAT("\"mirostat\":0"), "" },
        { CHAT("\"mirostat\":2,\"samplers\":[\"top_k\",\"infill\",\"tfs_z\"]"), "samplers[].infill, samplers[].tfs_z" },
        { CHAT("\"samplers\":\"kzt\""), "samplers[].z" },
        { CHAT("\"n_cache_reuse\":0"), "n_cache_reuse" },
        { CHAT("\"stream_options\":{\"include_usage\":true}"), "stream_options" },
        { CHAT("\"top_logprobs\":3"), "top_logprobs" },
        { CHAT("\"audio\":{},\"modalities\":[\"text\",\"audio\"],\"web_search_options\":{}"),
          "audio, web_search_options, modalities" },
        { CHAT("\"tools\":[{\"type\":\"web_search\"},{\"type\":\"function\",\"function\":{\"name\":\"f\",\"x\":1}}]"),
          "tools[].web_search, tools[].function.x" },
        { CHAT("\"logit_bias\":[[1,2],[\"text\",-1]]"), "" },
        { CHAT("\"user\":\"u\",\"stop\":[\"\"],\"top_k\":-1,\"max_tokens\":-1,\"grammar\":\"\""), "" },
        { HTH_API_CHAT,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":null,\"id\":\"m\","
          "\"provider_specific_fields\":{},\"reasoning\":\"hm\",\"parsed\":null,\"thinking_blocks\":[]}]}",
          "messages[].id, messages[].provider_specific_fields, messages[].thinking_blocks" },
        { HTH_API_COMPLETION, "{\"prompt\":\"a\",\"best_of\":2}", "best_of" },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"id_slot\":3,\"n_keep\":0}", "n_keep" },
        { HTH_API_TOKENIZE, "{\"content\":\"a\",\"x\":3}", "x" },
        { HTH_API_DETOKENIZE, "{\"tokens\":[],\"x\":3}", "x" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_api_request *request = hth_test_parsed(rows[i].kind, rows[i].body);

        if (strcmp(request->notes.text, rows[i].notes) != 0)
            fail_msg("%s: '%s', not '%s'", rows[i].body, request->notes.text, rows[i].notes);
    }
}

TEST(a_strict_server_refuses_what_it_does_not_know)
{
    static const char body[] = "{" MESSAGES ",\"num_ctx\":1}";
    hth_api_limits limits = hth_api_limits_default();
    hth_api_error error;

    limits.refuses_unknown = true;
    assert_null(hth_api_request_parse(HTH_API_CHAT, body, sizeof(body) - 1, &limits, &error));
    assert_int_equal(error.kind, HTH_API_UNKNOWN_FIELD);
    assert_string_equal(error.param, "num_ctx");
}

/* Also one that would be a text of letters. */
TEST(a_strict_server_refuses_samplers_that_it_does_not_know)
{
    static const char *const bodies[] = { "{" MESSAGES ",\"samplers\":[\"top_k\",\"kt\"]}",
                                          "{" MESSAGES ",\"samplers\":[\"infill\"]}",
                                          "{" MESSAGES ",\"samplers\":\"kz\"}" };
    hth_api_limits limits = hth_api_limits_default();
    hth_api_error error;

    limits.refuses_unknown = true;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        assert_null(hth_api_request_parse(HTH_API_CHAT, bodies[i], strlen(bodies[i]), &limits, &error));
        assert_int_equal(error.kind, HTH_API_INVALID_VALUE);
        assert_string_equal(error.param, "samplers");
        assert_non_null(strstr(error.message, "penalties, dry, top_n_sigma"));
    }
}

/* ---- other servers' names for the same thing ---- */

TEST(other_names_mean_the_same)
{
    hth_api_request *r =
        hth_test_parsed(CHAT("\"repetition_penalty\":1.5,\"n_predict\":7,\"repeat_last_n\":-1,\"typical_p\":0.5,"
                             "\"cache_prompt\":false,\"dry_sequence_breakers\":\"[\\\"a\\\",\\\"b\\\"]\","
                             "\"guided_json\":{\"type\":\"object\"},\"think\":false"));

    assert_true(r->sampling.repeat_penalty == 1.5f && r->sampling.typical_p == 0.5f);
    assert_int_equal(r->sampling.repeat_last_n, HTH_WHOLE_CONTEXT);
    assert_int_equal(r->options.n_predict, 7);
    assert_true(r->options.no_cache_read && r->conversation.no_thinking);
    assert_int_equal(r->sampling.n_dry_breakers, 2);
    assert_string_equal(r->sampling.dry_breakers[1], "b");
    assert_string_equal(r->conversation.json_schema, "{\"type\":\"object\"}");
    r = hth_test_parsed(
        CHAT("\"reasoning\":{\"effort\":\"low\"},\"response_format\":{\"type\":\"json_object\",\"schema\":{\"a\":1}}"));
    assert_false(r->conversation.no_thinking);
    assert_string_equal(r->conversation.template_values, "{\"reasoning_effort\":\"low\"}");
    assert_string_equal(r->conversation.json_schema, "{\"a\":1}");
    r = hth_test_parsed(CHAT("\"thinking\":{\"type\":\"disabled\"},\"max_tokens\":0"));
    assert_true(r->conversation.no_thinking && r->options.prefill_only);
    r = hth_test_parsed(CHAT("\"enable_thinking\":false"));
    assert_true(r->conversation.no_thinking);
}

TEST(functions_are_tools)
{
    hth_api_request *r = hth_test_parsed(CHAT("\"functions\":[{\"name\":\"f\"},{\"name\":\"g\",\"parameters\":{}}],"
                                              "\"function_call\":{\"name\":\"g\"}"));

    assert_int_equal(r->conversation.n_tools, 1);
    assert_string_equal(r->conversation.tools[0].name, "g");
    assert_int_equal(r->conversation.tool_choice, HEARTH_TOOL_REQUIRED);
    assert_true(r->calls_are_functions);
}

TEST(a_last_message_of_the_assistant_is_gone_on_with)
{
#define BEGUN "\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]"
    static const struct {
        const char *body;
        bool goes_on;
    } rows[] = {
        { "{" BEGUN "}", true },
        { "{" BEGUN ",\"add_generation_prompt\":true}", false },
        { "{" BEGUN ",\"continue_final_message\":false}", false },
        { "{" MESSAGES "}", false },
        { "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\"}]}", false },
    };
    hth_api_error error;
    static const char wrong[] = "{" MESSAGES ",\"continue_final_message\":true}";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_api_request *r = hth_test_parsed(HTH_API_CHAT, rows[i].body);

        if (r->conversation.continue_last != rows[i].goes_on)
            fail_msg("%s", rows[i].body);
    }
    assert_null(hth_api_request_parse(HTH_API_CHAT, wrong, sizeof(wrong) - 1, NULL, &error));
    assert_string_equal(error.param, "continue_final_message");
}

/* ---- histories ---- */

TEST(a_history_with_what_cannot_be_read_still_goes_on)
{
    hth_api_request *r = hth_test_parsed(
        HTH_API_CHAT,
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]},"
        "{\"role\":\"assistant\",\"content\":\"n\\u0000l\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
        "\"arguments\":\"oops\"}},{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},"
        "{\"role\":\"tool\",\"content\":[\"text\",{\"type\":\"hologram\"}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"},{\"type\":\"text\",\"text\":\"What?\"}]}]}");
    const hearth_conversation *c = &r->conversation;

    assert_string_equal(c->turns[0].parts[0], "[image left out]");
    assert_string_equal(c->turns[1].content, "n\xEF\xBF\xBDl");
    assert_string_equal(c->turns[1].calls[0].arguments, "{\"arguments\":\"oops\"}");
    assert_string_equal(c->turns[1].calls[1].arguments, "{\"a\":1}");
    assert_string_equal(c->turns[2].parts[0], "text");
    assert_string_equal(c->turns[2].parts[1], "[part left out]");
    assert_string_equal(c->turns[3].parts[0], "[audio left out]");
    assert_string_equal(c->turns[3].parts[1], "What?");
    assert_string_equal(r->notes.text,
                        "U+0000, messages[].content[].image_url, messages[].tool_calls[].function.arguments, "
                        "messages[].content[].hologram, messages[].content[].input_audio");
}

TEST(a_question_of_pictures_alone_is_an_error_that_says_so)
{
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}";
    hth_api_error error;

    assert_null(hth_api_request_parse(HTH_API_CHAT, body, sizeof(body) - 1, NULL, &error));
    assert_int_equal(error.kind, HTH_API_UNSUPPORTED);
    assert_string_equal(error.param, "messages[0].content");
}

TEST(a_byte_order_mark_says_nothing)
{
    (void)hth_test_parsed(HTH_API_CHAT, "\xEF\xBB\xBF{" MESSAGES "}");
}
