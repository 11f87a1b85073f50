/*
 * api_anthropic_clients_test.c - what agents send to Anthropic's API is taken, and what is passed over is noted
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

/* A text with ' for ". */
static char *quoted(const char *text)
{
    char *copy = strdup(text);

    for (char *at = copy; (at = strchr(at, '\''));)
        *at = '"';
    return copy;
}

static hth_api_request *parsed_quoted(const char *body)
{
    char *text = quoted(body);
    hth_api_request *request = hth_test_parsed(HTH_API_MESSAGES, text);

    free(text);
    return request;
}

TEST(what_has_no_effect_here_is_noted)
{
    static const struct {
        const char *fields, *notes;
    } rows[] = {
        { "'metadata':{'user_id':'u'},'service_tier':'auto','betas':['a'],'cache_control':{'type':'ephemeral'}", "" },
        { "'thinking':{'type':'enabled','budget_tokens':2000,'display':'omitted'}", "" },
        { "'thinking':{'type':'enabled'}", "" },
        { "'temperature':1.5,'top_k':-1,'stop_sequences':[]", "" },
        { "'container':'c'", "container" },
        { "'mcp_servers':[{'url':'x'}]", "mcp_servers" },
        { "'output_config':{'effort':'max','task_budget':{'type':'tokens'}}", "output_config.task_budget" },
        { "'cache_control':{'type':'forever'}", "cache_control.type" },
        { "'tools':[{'type':'web_search_20250305','name':'web_search','max_uses':8}]", "tools[].web_search_20250305" },
        { "'tools':[{'type':'web_search_20250305','name':'w'}],'tool_choice':{'type':'tool','name':'w'}",
          "tools[].web_search_20250305, tool_choice.name" },
        { "'tools':[{'type':'bash_20250124','name':'bash'}],'tool_choice':{'type':'any'}",
          "tools[].bash_20250124, tool_choice.type" },
        { "'tools':[{'name':'a','input_schema':{},'defer_loading':true,'allowed_callers':['code_execution_20250825']}]",
          "tools[].defer_loading, tools[].allowed_callers" },
        { "'tools':[{'name':'a','strict':true,'input_schema':{'$ref':'#/$defs/x'}}]", "tools.a.parameters" },
        { "'tools':[{'name':'a','input_schema':{'properties':{'x':{'maxLength':524288,'minLength':2}}}}]",
          "tools.a.parameters#maxLength" },
        { "'context_management':{'edits':[]}", "" },
        { "'context_management':{'edits':[{'type':'clear_thinking_20251015','keep':'all'}]}", "" },
        { "'context_management':{'edits':[{'type':'compact_20260112','trigger':{}}]}",
          "context_management.edits[].compact_20260112" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *fields = quoted(rows[i].fields), body[1024];
        hth_api_request *r;

        (void)snprintf(body, sizeof(body), "{" HEAD "," MESSAGES ",%s}", fields);
        r = hth_test_parsed(HTH_API_MESSAGES, body);
        assert_string_equal(r->notes.text, rows[i].notes);
        free(fields);
    }
}

TEST(a_tool_that_a_server_runs_is_left_out_and_the_others_are_offered)
{
    hth_api_request *r =
        parsed_quoted("{'model':'m','max_tokens':9,'messages':[{'role':'user','content':'Hi'}],'tools':["
                      "{'name':'a','input_schema':{}},{'type':'code_execution_20250825','name':'x'},"
                      "{'type':'custom','name':'b','input_schema':{}}],'tool_choice':{'type':'tool','name':'b'}}");

    assert_int_equal(r->conversation.n_tools, 1);
    assert_string_equal(r->conversation.tools[0].name, "b");
    assert_int_equal(r->conversation.tool_choice, HEARTH_TOOL_REQUIRED);
    assert_string_equal(r->notes.text, "tools[].code_execution_20250825");
}

TEST(a_tool_whose_schema_leads_nowhere_may_be_called_with_any_parameters)
{
    hth_api_request *r =
        parsed_quoted("{'model':'m','max_tokens':9,'messages':[{'role':'user','content':'Hi'}],'tools':"
                      "[{'name':'a','description':'Does.','input_schema':{'$ref':'#/x'}}]}");

    assert_string_equal(r->conversation.tools[0].parameters,
                        "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":true}");
    assert_non_null(strstr(r->conversation.tools[0].description, "Does."));
    assert_non_null(strstr(r->conversation.tools[0].description, "{\"$ref\":\"#/x\"}"));
}

TEST(a_tool_of_openais_api_is_treated_alike)
{
    char *body =
        quoted("{'messages':[{'role':'user','content':'Hi'}],'tools':[{'type':'function','function':{'name':'a',"
               "'parameters':{'properties':{'x':{'$ref':'#/$defs/x'}},'$defs':{'y':{}}}}}]}");
    hth_api_error error;
    hth_api_request *r = hth_api_request_parse(HTH_API_CHAT, body, strlen(body), NULL, &error);

    assert_non_null(r);
    assert_string_equal(r->notes.text, "tools.a.parameters");
    assert_non_null(strstr(r->conversation.tools[0].description, "#/$defs/x"));
    hth_api_request_free(r);
    free(body);
}

TEST(blocks_that_cannot_be_read_become_a_short_text)
{
    static const char body[] =
        "{'model':'m','max_tokens':9,'messages':["
        "{'role':'user','content':[{'type':'image','source':{}},{'type':'text','text':'What?'},"
        "{'type':'document','title':'T','source':{'type':'text','data':'inside'}},"
        "{'type':'document','source':{'type':'base64'}},"
        "{'type':'search_result','title':'S','content':[{'type':'text','text':'found'}]}]},"
        "{'role':'assistant','content':[{'type':'server_tool_use','id':'s','name':'web_search','input':{}},"
        "{'type':'redacted_thinking','data':'x'},{'type':'text','text':'A'},"
        "{'type':'compaction','content':'summary'},{'type':'tool_use','id':'t','name':'f','input':{}}]},"
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'t','is_error':true,'content':["
        "{'type':'image','source':{}},{'type':'text','text':'b'}]}]},"
        "{'role':'assistant','content':[]},"
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'t','content':{'a':1}}]}]}";
    hth_api_request *r = parsed_quoted(body);
    const hearth_chat_turn *t = r->conversation.turns;

    assert_int_equal(r->conversation.n_turns, 5);
    assert_int_equal(t[0].n_parts, 5);
    assert_string_equal(t[0].parts[0], "[image left out]");
    assert_string_equal(t[0].parts[1], "What?");
    assert_string_equal(t[0].parts[2], "T\ninside");
    assert_string_equal(t[0].parts[3], "[document left out]");
    assert_string_equal(t[0].parts[4], "S\nfound");
    assert_int_equal(t[1].n_parts, 3);
    assert_string_equal(t[1].parts[0], "[part left out]");
    assert_string_equal(t[1].parts[1], "A");
    assert_string_equal(t[1].parts[2], "summary");
    assert_int_equal(t[1].n_calls, 1);
    assert_string_equal(t[2].parts[0], "[image left out]");
    assert_string_equal(t[2].parts[1], "b");
    assert_string_equal(t[3].role, "assistant");
    assert_string_equal(t[3].content, "");
    assert_string_equal(t[4].content, "{\"a\":1}");
    assert_non_null(strstr(r->notes.text, "messages[].content[].image"));
    assert_non_null(strstr(r->notes.text, "messages[].content[].server_tool_use"));
}

TEST(a_message_of_the_system_stands_where_it_came)
{
    hth_api_request *r = parsed_quoted("{'model':'m','max_tokens':9,'system':'A','messages':[{'role':'user','content':"
                                       "'Hi'},{'role':'system','content':[{'type':'text','text':'Agents: none.'}]}]}");

    assert_int_equal(r->conversation.n_turns, 3);
    assert_string_equal(r->conversation.turns[2].role, "system");
    assert_string_equal(r->conversation.turns[2].parts[0], "Agents: none.");
}

STUB_TEST(a_kept_conversation_is_refused_in_the_form_that_clients_know)
{
    hth_test_answer answer =
        hth_test_api_run(f->model, HTH_API_MESSAGES, "{" HEAD "," MESSAGES ",\"thread\":{\"type\":\"new\"}}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_int_equal(answer.status, 400);
    assert_string_equal(hth_test_text_at(body, "error.type"), "invalid_request_error");
    assert_string_equal(hth_test_text_at(body, "error.details.error_code"), "thread_unsupported_request");
    assert_string_equal(json_string_value(json_array_get(hth_test_at(body, "error.details.unsupported"), 0)), "thread");
}

STUB_TEST(a_reply_of_no_tokens_only_reads_the_prompt)
{
    hth_test_answer answer =
        hth_test_api_run(f->model, HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":0," MESSAGES "}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_int_equal(answer.status, 200);
    assert_int_equal(json_array_size(hth_test_at(body, "content")), 0);
    assert_string_equal(hth_test_text_at(body, "stop_reason"), "max_tokens");
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.output_tokens")), 0);
    assert_true(json_integer_value(hth_test_at(body, "usage.input_tokens")) > 10);
}

/* ---- what is left out of a long history ---- */

#define USE(id, name)                                                                    \
    "{'role':'assistant','content':[{'type':'thinking','thinking':'hm','signature':''}," \
    "{'type':'tool_use','id':'" id "','name':'" name "','input':{'a':'bcd'}}]},"
#define RESULT(id)                                                                       \
    "{'role':'user','content':[{'type':'tool_result','tool_use_id':'" id "','content':'" \
    "a long result of a tool, which nobody will want to read a second time, and a third'}]}"
#define HISTORY                                                                                                     \
    "'messages':[{'role':'user','content':'Hi'}," USE("1", "f") RESULT("1") "," USE("2", "g")                       \
        RESULT("2") ","                                                                                             \
                    "{'role':'assistant','content':[{'type':'thinking','thinking':'well','signature':''},{'type':'" \
                    "text','text':"                                                                                 \
                    "'So.'}]},{'role':'user','content':'And?'}," USE("3", "f") RESULT("3") "]"

typedef struct edited {
    const char *edit;
    bool cleared[3], cleared_inputs[3];
    uint32_t n_uses, n_thinking_turns;
} edited;

TEST(old_results_and_thoughts_are_cleared_as_the_client_asks)
{
    static const edited rows[] = {
        { .edit = "'type':'clear_tool_uses_20250919'" }, /* far below the first 100,000 tokens */
        { .edit = "'type':'clear_tool_uses_20250919','trigger':{'type':'input_tokens','value':10}" },
        { .edit = "'type':'clear_tool_uses_20250919','trigger':{'type':'input_tokens','value':10},'keep':{'type':"
                  "'tool_uses','value':1}",
          .cleared = { true, true },
          .n_uses = 2 },
        { .edit = "'type':'clear_tool_uses_20250919','trigger':{'type':'tool_uses','value':2},'keep':{'type':"
                  "'tool_uses','value':0},'exclude_tools':['g'],'clear_tool_inputs':true",
          .cleared = { true, false, true },
          .cleared_inputs = { true, false, true },
          .n_uses = 2 },
        { .edit = "'type':'clear_tool_uses_20250919','trigger':{'type':'tool_uses','value':1},'keep':{'type':"
                  "'tool_uses','value':1},'clear_tool_inputs':['g']",
          .cleared = { true, true },
          .cleared_inputs = { false, true },
          .n_uses = 2 },
        { .edit = "'type':'clear_tool_uses_20250919','trigger':{'type':'tool_uses','value':3}" },
        { .edit = "'type':'clear_tool_uses_20250919','trigger':{'type':'tool_uses','value':1},'keep':{'type':"
                  "'tool_uses','value':1},'clear_at_least':{'type':'input_tokens','value':1000}" },
        { .edit = "'type':'clear_thinking_20251015'", .n_thinking_turns = 1 },
        { .edit = "'type':'clear_thinking_20251015','keep':{'type':'thinking_turns','value':2}" },
        { .edit = "'type':'clear_thinking_20251015','keep':{'type':'all'}" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static const size_t results[] = { 2, 4, 8 }, uses[] = { 1, 3, 7 };
        char body[4096];
        hth_api_request *r;

        (void)snprintf(body, sizeof(body),
                       "{'model':'m','max_tokens':9," HISTORY ",'context_management':{'edits':[{%s}]}}", rows[i].edit);
        r = parsed_quoted(body);
        assert_int_equal(r->conversation.n_turns, 9);
        for (size_t k = 0; k < 3; k++) {
            const hearth_chat_turn *result = &r->conversation.turns[results[k]];

            assert_string_equal(result->role, "tool");
            assert_int_equal(strncmp(result->content, "[result cleared", 15) == 0, rows[i].cleared[k]);
            assert_string_equal(r->conversation.turns[uses[k]].calls[0].arguments,
                                rows[i].cleared_inputs[k] ? "{}" : "{\"a\":\"bcd\"}");
        }
        assert_int_equal(r->conversation.turns[1].reasoning == NULL, rows[i].n_thinking_turns > 0);
        assert_int_equal(r->conversation.turns[5].reasoning == NULL, rows[i].n_thinking_turns > 0);
        assert_non_null(r->conversation.turns[7].reasoning);
        assert_true(r->edits.is_asked);
        assert_int_equal(r->edits.cleared_tool_uses, rows[i].n_uses);
        assert_int_equal(r->edits.cleared_tool_tokens > 0, rows[i].n_uses > 0);
        assert_int_equal(r->edits.cleared_thinking_turns, rows[i].n_thinking_turns);
    }
}

/* An id stands twice: a result belongs to the last turn with it before its own, and there to the first call. */
TEST(a_result_belongs_to_the_last_call_of_its_id_before_it)
{
    hth_api_request *r = parsed_quoted("{'model':'m','max_tokens':9,'messages':[" RESULT("1") "," USE("1", "f") RESULT(
        "1") ",{'role':'assistant','content':[{'type':'tool_use','id':'1','name':'g','input':{'a':'bcd'}},"
             "{'type':'tool_use','id':'1','name':'f','input':{'a':'bcd'}}]}," RESULT("1") "," USE(
                 "1", "f") "{'role':'user','content':'And?'}],"
                           "'context_management':{'edits':[{'type':'clear_tool_uses_20250919','trigger':{'type':"
                           "'tool_uses','value':1},'keep':{'type':'tool_uses','value':0},'exclude_tools':['x','g',"
                           "'h'],'clear_tool_inputs':true}]}}");
    const hearth_chat_turn *turns = r->conversation.turns;

    assert_int_equal(r->conversation.n_turns, 7);
    assert_int_equal(strncmp(turns[0].content, "[result cleared", 15), 0); /* of no call */
    assert_int_equal(strncmp(turns[2].content, "[result cleared", 15), 0);
    assert_string_equal(turns[1].calls[0].arguments, "{}");
    assert_int_equal(strncmp(turns[4].content, "a long result", 13), 0); /* of g */
    assert_string_equal(turns[3].calls[0].arguments, "{\"a\":\"bcd\"}");
    assert_string_equal(turns[3].calls[1].arguments, "{\"a\":\"bcd\"}");
    assert_string_equal(turns[5].calls[0].arguments, "{\"a\":\"bcd\"}"); /* behind the results */
}

/*
 * As many as a request may have, with as many edits. About a dozen comparisons a result and edit: were each result
 * compared with each call, there would be 2,000,000,000.
 */
TEST(results_find_their_calls_in_the_longest_history)
{
    enum { N = 8000, N_EDITS = 16, STEP = 7919 };
    hth_buffer body = { .text = NULL };
    hth_api_error error;
    hth_api_request *r;
    char block[160];

    hth_buffer_add_text(&body, "{" HEAD ",\"messages\":[{\"role\":\"assistant\",\"content\":[");
    for (int i = 0; i < N; i++) {
        (void)snprintf(block, sizeof(block),
                       "%s{\"type\":\"tool_use\",\"id\":\"t%d\",\"name\":\"%s\",\"input\":{\"a\":%d}}",
                       i > 0 ? "," : "", i,
                       i % 3 == 0   ? "third"
                       : i % 2 == 1 ? "odd"
                                    : "even",
                       i);
        hth_buffer_add_text(&body, block);
    }
    hth_buffer_add_text(&body, "]},{\"role\":\"user\",\"content\":[");
    for (int i = 0; i < N; i++) {
        (void)snprintf(block, sizeof(block),
                       "%s{\"type\":\"tool_result\",\"tool_use_id\":\"t%d\",\"content\":\"%040d\"}", i > 0 ? "," : "",
                       i * STEP % N, i);
        hth_buffer_add_text(&body, block);
    }
    hth_buffer_add_text(&body, "]}],\"context_management\":{\"edits\":[");
    for (int i = 0; i < N_EDITS; i++) {
        hth_buffer_add_text(&body, i > 0 ? "," : "");
        hth_buffer_add_text(&body, "{\"type\":\"clear_tool_uses_20250919\",\"trigger\":{\"type\":\"tool_uses\","
                                   "\"value\":1},\"keep\":{\"type\":\"tool_uses\",\"value\":0},"
                                   "\"clear_tool_inputs\":[\"odd\"],\"exclude_tools\":[\"third\"]}");
    }
    hth_buffer_add_text(&body, "]}}");
    r = hth_api_request_parse(HTH_API_MESSAGES, body.text, body.n, NULL, &error);
    if (!r)
        fail_msg("%s", error.message);
    assert_int_equal(r->conversation.n_turns, 1 + N);
    assert_int_equal(r->edits.cleared_tool_uses, N - (N + 2) / 3);
    for (int i = 0; i < N; i++) {
        const int call = i * STEP % N;

        assert_int_equal(*r->conversation.turns[1 + i].content == '[', call % 3 != 0);
        assert_int_equal(strcmp(r->conversation.turns[0].calls[call].arguments, "{}") == 0,
                         call % 3 != 0 && call % 2 == 1);
    }
    hth_api_request_free(r);
    hth_buffer_deinit(&body);
}

TEST(a_wrong_edit_is_an_error_that_names_it)
{
    static const char *const rows[][2] = {
        { "'edits':{}", "'context_management.edits' is an object" },
        { "'edits':[7]", "'context_management.edits[0]' is a number" },
        { "'edits':[{}]", "'context_management.edits[0].type' is missing" },
        { "'edits':[{'type':'clear_tool_uses_20250919','keep':3}]", "'context_management.edits[0].keep' is a number" },
        { "'edits':[{'type':'clear_tool_uses_20250919','keep':{'type':'days','value':3}}]",
          "'context_management.edits[0].keep.type' is 'days'; it must be tool_uses" },
        { "'edits':[{'type':'clear_tool_uses_20250919','trigger':{'type':'tool_uses','value':-3}}]",
          "'context_management.edits[0].trigger.value' is -3" },
        { "'edits':[{'type':'clear_thinking_20251015','keep':'some'}]",
          "'context_management.edits[0].keep' is a text" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *fields = quoted(rows[i][0]), body[1024];
        hth_api_error error;

        (void)snprintf(body, sizeof(body), "{" HEAD "," MESSAGES ",\"context_management\":{%s}}", fields);
        assert_null(hth_api_request_parse(HTH_API_MESSAGES, body, strlen(body), NULL, &error));
        if (!strstr(error.message, rows[i][1]))
            fail_msg("%s: %s", body, error.message);
        free(fields);
    }
}

STUB_TEST(what_was_cleared_is_told_in_the_reply_and_its_stream)
{
    static const char fields[] = "'model':'m','max_tokens':9," HISTORY
                                 ",'context_management':{'edits':[{'type':'clear_thinking_20251015'},{'type':"
                                 "'clear_tool_uses_20250919','trigger':{'type':'tool_uses','value':1},'keep':{'type':"
                                 "'tool_uses','value':1}}]}";
    char body[4096], *text;
    hth_test_answer answer;
    json_t *message, *applied;

    (void)snprintf(body, sizeof(body), "{%s}", fields);
    text = quoted(body);
    answer = hth_test_api_run(f->model, HTH_API_MESSAGES, text);
    message = hth_test_json(hth_buffer_text(&answer.text));
    applied = hth_test_at(message, "context_management.applied_edits");
    assert_int_equal(json_array_size(applied), 2);
    assert_string_equal(hth_test_text_at(json_array_get(applied, 0), "type"), "clear_thinking_20251015");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(applied, 0), "cleared_thinking_turns")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(applied, 1), "cleared_tool_uses")), 2);
    assert_true(json_integer_value(json_object_get(json_array_get(applied, 1), "cleared_input_tokens")) > 0);
    free(text);

    (void)snprintf(body, sizeof(body), "{%s,'stream':true}", fields);
    text = quoted(body);
    answer = hth_test_api_run(f->model, HTH_API_MESSAGES, text);
    assert_non_null(strstr(hth_buffer_text(&answer.text), "\"context_management\":{\"applied_edits\":[{"));
    free(text);

    answer = hth_test_api_run(f->model, HTH_API_MESSAGES, "{" HEAD "," MESSAGES "}");
    assert_null(strstr(hth_buffer_text(&answer.text), "context_management"));
}
