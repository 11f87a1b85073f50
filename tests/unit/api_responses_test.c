/*
 * api_responses_test.c - /v1/responses: items and tools become a conversation, and a reply becomes items and events
 *
 * Bodies are written with ' for ".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/answers.h"
#include "dialects/request_parse.h"
#include "dialects/response_record.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define TOOLS                                                                                            \
    "'tools':[{'type':'function','name':'weather','parameters':{'type':'object'}},"                      \
    "{'type':'namespace','name':'mcp__calc','description':'d','tools':[{'type':'function','name':'add'," \
    "'parameters':{'type':'object'}}]},{'type':'custom','name':'patch','description':'Patch a file.',"   \
    "'format':{'type':'grammar','syntax':'lark','definition':'start: x'}},{'type':'web_search'}]"

/* The text with double quotes; valid until the next call. */
static const char *quoted(const char *text)
{
    static char out[8192];
    size_t n = strlen(text);

    assert_true(n < sizeof(out));
    for (size_t i = 0; i <= n; i++)
        out[i] = text[i];
    for (char *at = out; *at; at++)
        if (*at == '\'')
            *at = '"';
    return out;
}

static hth_api_request *parsed(const char *body)
{
    return hth_test_parsed(HTH_API_RESPONSES, quoted(body));
}

/* ---- requests ---- */

SHARED_STUB_TEST(a_text_is_a_message_of_the_user_behind_the_instructions)
{
    hth_api_request *r = parsed("{'model':'m','instructions':'Be brief.','input':'Hi','max_output_tokens':9,"
                                "'temperature':0.5,'top_p':0.25,'stream':true,'store':false,'metadata':{'a':'b'},"
                                "'truncation':'disabled','user':'u','client_metadata':{'x':'y'},"
                                "'prompt_cache_key':'k','safety_identifier':'s','service_tier':'auto'}");
    const hearth_conversation *c = &r->conversation;

    assert_string_equal(r->model, "m");
    assert_int_equal(c->n_turns, 2);
    assert_string_equal(c->turns[0].role, "system");
    assert_string_equal(c->turns[0].content, "Be brief.");
    assert_string_equal(c->turns[1].role, "user");
    assert_string_equal(c->turns[1].content, "Hi");
    assert_int_equal(r->options.n_predict, 9);
    assert_true(r->sampling.temperature == 0.5f && r->sampling.top_p == 0.25f && r->stream);
    assert_int_equal(r->options.n, 1);
    assert_string_equal(r->notes.text, "");
}

SHARED_STUB_TEST(items_of_one_reply_are_one_turn_again)
{
    hth_api_request *r = parsed(
        "{'input':[{'type':'message','role':'developer','content':[{'type':'input_text','text':'a'},"
        "{'type':'input_text','text':'b'}]},{'role':'developer','content':'c'},{'role':'user','content':'d'},"
        "{'type':'reasoning','id':'rs_1','summary':[{'type':'summary_text','text':'s'}],"
        "'content':[{'type':'reasoning_text','text':'hm'}]},"
        "{'type':'message','id':'msg_1','role':'assistant','status':'completed','content':[{'type':'output_text',"
        "'text':'I look.','annotations':[],'logprobs':[]}]},"
        "{'type':'function_call','id':'fc_1','call_id':'c1','name':'weather','arguments':'{}'},"
        "{'type':'function_call','call_id':'c2','name':'add','namespace':'mcp__calc','arguments':''},"
        "{'type':'custom_tool_call','call_id':'c3','name':'patch','input':'x y'},"
        "{'type':'function_call_output','call_id':'c1','output':'rain'},"
        "{'type':'function_call_output','call_id':'c2','output':[{'type':'input_text','text':'3'},"
        "{'type':'input_image','image_url':'data:'}]},"
        "{'type':'custom_tool_call_output','call_id':'c3','output':'done'},"
        "{'type':'reasoning','id':'rs_2','summary':[],'encrypted_content':'hearth:well'},"
        "{'role':'assistant','content':'It rains.'},"
        "{'type':'web_search_call','id':'ws_1','status':'completed'},{'role':'user','content':'And now?'}]}");
    const hearth_conversation *c = &r->conversation;

    assert_int_equal(c->n_turns, 9);
    assert_string_equal(c->turns[0].parts[1], "b");
    assert_string_equal(c->turns[1].role, "developer");
    assert_string_equal(c->turns[3].role, "assistant");
    assert_string_equal(c->turns[3].reasoning, "hm");
    assert_string_equal(c->turns[3].content, "I look.");
    assert_int_equal(c->turns[3].n_calls, 3);
    assert_string_equal(c->turns[3].calls[0].id, "c1");
    assert_string_equal(c->turns[3].calls[1].name, "mcp__calc__add");
    assert_string_equal(c->turns[3].calls[1].arguments, "{}");
    assert_string_equal(c->turns[3].calls[2].arguments, "{\"input\":\"x y\"}");
    assert_string_equal(c->turns[4].role, "tool");
    assert_string_equal(c->turns[4].content, "rain");
    assert_string_equal(c->turns[5].parts[1], "[image left out]");
    assert_string_equal(c->turns[6].call_id, "c3");
    assert_string_equal(c->turns[7].reasoning, "well");
    assert_string_equal(c->turns[7].content, "It rains.");
    assert_string_equal(c->turns[8].content, "And now?");
    assert_non_null(strstr(r->notes.text, "web_search_call"));
    assert_non_null(strstr(r->notes.text, "input_image"));
}

SHARED_STUB_TEST(a_further_item_of_an_assistant_that_has_no_place_begins_a_turn)
{
    hth_api_request *r = parsed("{'input':[{'role':'assistant','content':'a'},{'role':'assistant','content':'b'},"
                                "{'type':'function_call','call_id':'1','name':'f','arguments':'{}'},"
                                "{'role':'assistant','content':'c'},"
                                "{'type':'reasoning','summary':[{'type':'summary_text','text':'s'}]},"
                                "{'type':'function_call','call_id':'2','name':'f','arguments':'{}'}]}");
    const hearth_conversation *c = &r->conversation;

    assert_int_equal(c->n_turns, 4);
    assert_string_equal(c->turns[1].content, "b");
    assert_int_equal(c->turns[1].n_calls, 1);
    assert_string_equal(c->turns[2].content, "c");
    assert_string_equal(c->turns[3].reasoning, "s");
    assert_int_equal(c->turns[3].n_calls, 1);
}

/* A member 'tools' means something in a namespace alone; elsewhere it is passed over, and the tool counts. */
SHARED_STUB_TEST(thoughts_of_one_turn_are_joined_by_lines)
{
    hth_api_request *r = parsed(
        "{'input':[{'type':'reasoning','summary':[],'content':[{'type':'reasoning_text','text':'a'},{'type':"
        "'reasoning_text','text':'bc'},{'type':'reasoning_text','text':''}]},{'type':'reasoning','summary':[{'type':"
        "'summary_text','text':'d'}]},{'type':'reasoning','summary':[{'type':'summary_text','text':'a long one'}]},"
        "{'role':'assistant','content':'x'},{'type':'reasoning','summary':[{'type':'summary_text','text':'e'}]},"
        "{'role':'assistant','content':'y'},{'role':'user','content':'z'}]}");

    assert_int_equal(r->conversation.n_turns, 3);
    assert_string_equal(r->conversation.turns[0].reasoning, "a\nbc\n\nd\na long one");
    assert_string_equal(r->conversation.turns[1].reasoning, "e");
}

SHARED_STUB_TEST(tools_of_what_is_no_namespace_do_not_count)
{
    hth_api_request *r = parsed(
        "{'input':'Hi','tools':[{'type':'function','name':'a'},{'type':'function','name':'b','tools':[]},"
        "{'name':'c','tools':[]},{'type':'custom','name':'d','tools':[]},{'type':'namespace','name':'n','tools':[]},"
        "{'type':'namespace','name':'m','tools':[{'type':'function','name':'e','tools':[]},"
        "{'type':'namespace','name':'o','tools':[{'type':'function','name':'f'}]}]}]}");
    const hearth_conversation *c = &r->conversation;

    assert_int_equal(c->n_tools, 5);
    assert_string_equal(c->tools[1].name, "b");
    assert_string_equal(c->tools[3].name, "d");
    assert_string_equal(c->tools[4].name, "m__e");
    assert_int_equal(r->responses->n_tools, 5);
}

SHARED_STUB_TEST(tools_are_offered_as_functions_of_one_list)
{
    hth_api_request *r = parsed("{'input':'Hi'," TOOLS ",'parallel_tool_calls':false}");
    const hearth_conversation *c = &r->conversation;

    assert_int_equal(c->n_tools, 3);
    assert_string_equal(c->tools[0].name, "weather");
    assert_string_equal(c->tools[1].name, "mcp__calc__add");
    assert_string_equal(c->tools[2].name, "patch");
    assert_non_null(strstr(c->tools[2].description, "start: x"));
    assert_non_null(strstr(c->tools[2].parameters, "\"input\""));
    assert_int_equal(c->tool_choice, HEARTH_TOOL_AUTO);
    assert_false(c->parallel_calls);
    assert_non_null(strstr(r->notes.text, "tools[].web_search"));
}

SHARED_STUB_TEST(a_choice_of_tools_shows_those)
{
    static const struct {
        const char *choice, *first;
        size_t n;
        hearth_tool_choice means;
    } rows[] = {
        { "'none'", "weather", 3, HEARTH_TOOL_NONE },
        { "'required'", "weather", 3, HEARTH_TOOL_REQUIRED },
        { "{'type':'function','name':'weather'}", "weather", 1, HEARTH_TOOL_REQUIRED },
        { "{'type':'function','name':'add','namespace':'mcp__calc'}", "mcp__calc__add", 1, HEARTH_TOOL_REQUIRED },
        { "{'type':'custom','name':'patch'}", "patch", 1, HEARTH_TOOL_REQUIRED },
        { "{'type':'allowed_tools','mode':'auto','tools':[{'type':'function','name':'add'},{'type':'web_search'}]}",
          "mcp__calc__add", 1, HEARTH_TOOL_AUTO },
        { "{'type':'allowed_tools','mode':'required','tools':[{'type':'custom','name':'patch'},{'type':'function',"
          "'name':'weather'}]}",
          "weather", 2, HEARTH_TOOL_REQUIRED },
        { "{'type':'web_search'}", "weather", 3, HEARTH_TOOL_AUTO },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[4096];
        hth_api_request *r;

        (void)snprintf(body, sizeof(body), "{'input':'Hi'," TOOLS ",'tool_choice':%s}", rows[i].choice);
        r = parsed(body);
        assert_int_equal(r->conversation.tool_choice, rows[i].means);
        assert_int_equal(r->conversation.n_tools, rows[i].n);
        assert_string_equal(r->conversation.tools[0].name, rows[i].first);
    }
}

SHARED_STUB_TEST(formats_and_reasoning_arrive)
{
    hth_api_request *r = parsed("{'input':'Hi','text':{'format':{'type':'json_schema','name':'n','schema':{'type':"
                                "'object'},'strict':true}},'reasoning':{'effort':'high','summary':'auto'},"
                                "'include':['reasoning.encrypted_content','message.output_text.logprobs'],"
                                "'top_logprobs':2}");

    assert_string_equal(r->conversation.json_schema, "{\"type\":\"object\"}");
    assert_non_null(strstr(r->conversation.template_values, "\"reasoning_effort\":\"high\""));
    assert_true(r->responses->has_summary && r->responses->has_encrypted && r->options.logprobs);
    assert_int_equal(r->options.n_top_logprobs, 2);
    assert_string_equal(r->notes.text, "");
    r = parsed("{'input':'Hi','text':{'format':{'type':'json_object'},'verbosity':'low'},'truncation':'auto','n':2,"
               "'reasoning':{'effort':'none'},'foo':1,'include':['file_search_call.results']}");
    assert_string_equal(r->conversation.json_schema, "{\"type\":\"object\"}");
    assert_true(r->conversation.no_thinking);
    assert_int_equal(r->options.n, 1);
    assert_string_equal(r->notes.text, "foo, n, text.verbosity, include, truncation");
}

/* A history repeats the items that added tools, as often as it likes. */
TEST(tools_that_items_add_again_are_offered_once)
{
#define MORE                                                                                                      \
    "{'type':'additional_tools','tools':[{'type':'function','name':'f'},{'type':'namespace','name':'s','tools':[" \
    "{'type':'function','name':'f'},{'type':'function','name':'a.b'}]}]}"
    hth_api_request *r =
        hth_test_parsed(HTH_API_RESPONSES, quoted("{'input':[" MORE ",{'role':'user','content':'x'}," MORE
                                                  "],'tools':[{'type':'function','name':'f'}]}"));
    const hearth_conversation *c = &r->conversation;

    assert_int_equal(c->n_tools, 3);
    assert_string_equal(c->tools[0].name, "f");
    assert_string_equal(c->tools[1].name, "s__f");
    assert_int_equal(strncmp(c->tools[2].name, "s__a_b_", strlen("s__a_b_")), 0);
#undef MORE
}

SHARED_STUB_TEST(what_is_wrong_is_named_with_its_field_and_code)
{
    static const struct {
        const char *body, *param, *code;
    } rows[] = {
        { "{}", "input", "missing_required_parameter" },
        { "{'input':7}", "input", "invalid_type" },
        { "{'input':[]}", "input", "invalid_value" },
        { "{'input':[1]}", "input[0]", "invalid_type" },
        { "{'input':[{'role':'king','content':'a'}]}", "input[0].role", "invalid_value" },
        { "{'input':[{'type':'message','content':'a'}]}", "input[0].role", "missing_required_parameter" },
        { "{'input':[{'role':'user','content':7}]}", "input[0].content", "invalid_type" },
        { "{'input':[{'role':'user','content':[{'type':'input_text'}]}]}", "input[0].content[0].text",
          "missing_required_parameter" },
        { "{'input':[{'type':'function_call','call_id':'c'}]}", "input[0].name", "missing_required_parameter" },
        { "{'input':[{'type':'function_call_output','output':'c'}]}", "input[0].call_id",
          "missing_required_parameter" },
        { "{'input':[{'type':'web_search_call'}]}", "input", "invalid_value" },
        { "{'input':[{'role':'user','content':[{'type':'input_image','image_url':'data:'}]}]}", "input[0].content",
          "unsupported_parameter" },
        { "{'input':'a','tools':[{'type':'function'}]}", "tools[0].name", "missing_required_parameter" },
        { "{'input':'a','tools':[{'type':'function','name':'a\\tb'}]}", "tools[0].name", "invalid_value" },
        { "{'input':'a','tools':[{'type':'function','name':'f'},{'type':'custom','name':'f'}]}", "tools[1].name",
          "invalid_value" },
        { "{'input':'a','tools':[{'type':'namespace','name':'s','tools':[7]}]}", "tools[0].tools[0]", "invalid_type" },
        { "{'input':'a','tool_choice':'required'}", "tool_choice", "invalid_value" },
        { "{'input':'a','tool_choice':{'type':'function','name':'f'}}", "tool_choice", "invalid_value" },
        { "{'input':'a','tool_choice':{'type':'function','name':7}}", "tool_choice.name", "invalid_type" },
        { "{'input':'a','text':{'format':{'type':'xml'}}}", "text.format.type", "invalid_value" },
        { "{'input':'a','max_output_tokens':0}", "max_output_tokens", "invalid_value" },
        { "{'input':'a','top_logprobs':21}", "top_logprobs", "invalid_value" },
        { "{'input':'a','metadata':7}", "metadata", "invalid_type" },
        { "{'input':'a','conversation':'c'}", "conversation", "unsupported_parameter" },
        { "{'input':'a','prompt':{'id':'p'}}", "prompt", "unsupported_parameter" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, HTH_API_RESPONSES, quoted(rows[i].body));
        json_t *body = hth_test_json(hth_buffer_text(&answer.text));

        assert_int_equal(answer.status, 400);
        assert_string_equal(hth_test_text_at(body, "error.param"), rows[i].param);
        assert_string_equal(hth_test_text_at(body, "error.code"), rows[i].code);
    }
}

/* ---- replies ---- */

static const char *const said[] = { "<think>hm",
                                    "</think>I look",
                                    ".",
                                    "<call>weather {\"city\":",
                                    "\"Oslo\"}</call>",
                                    "<call>mcp__calc__add {}</call>",
                                    "<call>patch {\"input\":\"a\\nb\"}</call>",
                                    NULL };

SHARED_STUB_TEST(a_response_has_an_item_for_each_thing_said)
{
    hth_test_answer answer = hth_test_api_script(
        f->model, HTH_API_RESPONSES,
        quoted("{'input':'Hi'," TOOLS ",'metadata':{'a':'b'},'include':['reasoning.encrypted_content']}"), said,
        HEARTH_FINISH_STOP);
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_string_equal(hth_test_text_at(body, "id"), "resp_0123");
    assert_string_equal(hth_test_text_at(body, "object"), "response");
    assert_string_equal(hth_test_text_at(body, "status"), "completed");
    assert_string_equal(hth_test_text_at(body, "model"), "m");
    assert_string_equal(hth_test_text_at(body, "metadata.a"), "b");
    assert_string_equal(hth_test_text_at(body, "tools.3.type"), "web_search");
    assert_int_equal(json_integer_value(hth_test_at(body, "created_at")), 1700000000);
    assert_true(json_is_null(hth_test_at(body, "incomplete_details")));
    assert_true(json_is_null(hth_test_at(body, "error")));
    assert_int_equal(json_array_size(hth_test_at(body, "output")), 5);
    assert_string_equal(hth_test_text_at(body, "output.0.type"), "reasoning");
    assert_string_equal(hth_test_text_at(body, "output.0.content.0.text"), "hm");
    assert_string_equal(hth_test_text_at(body, "output.0.encrypted_content"), "hearth:hm");
    assert_string_equal(hth_test_text_at(body, "output.1.type"), "message");
    assert_string_equal(hth_test_text_at(body, "output.1.role"), "assistant");
    assert_string_equal(hth_test_text_at(body, "output.1.content.0.type"), "output_text");
    assert_string_equal(hth_test_text_at(body, "output.1.content.0.text"), "I look.");
    assert_string_equal(hth_test_text_at(body, "output.2.type"), "function_call");
    assert_string_equal(hth_test_text_at(body, "output.2.arguments"), "{\"city\":\"Oslo\"}");
    assert_null(hth_test_at(body, "output.2.namespace"));
    assert_string_equal(hth_test_text_at(body, "output.3.name"), "add");
    assert_string_equal(hth_test_text_at(body, "output.3.namespace"), "mcp__calc");
    assert_string_equal(hth_test_text_at(body, "output.4.type"), "custom_tool_call");
    assert_string_equal(hth_test_text_at(body, "output.4.input"), "a\nb");
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.input_tokens")), 50);
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.input_tokens_details.cached_tokens")), 40);
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.output_tokens")), 7);
    assert_int_equal(json_integer_value(hth_test_at(body, "usage.output_tokens_details.reasoning_tokens")), 2);
}

SHARED_STUB_TEST(a_reply_that_is_cut_is_incomplete)
{
    static const char *const texts[] = { "I", " l", NULL };
    hth_test_answer answer =
        hth_test_api_script(f->model, HTH_API_RESPONSES, quoted("{'input':'Hi'}"), texts, HEARTH_FINISH_LENGTH);
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_string_equal(hth_test_text_at(body, "status"), "incomplete");
    assert_string_equal(hth_test_text_at(body, "incomplete_details.reason"), "max_output_tokens");
    assert_string_equal(hth_test_text_at(body, "output.0.status"), "incomplete");
    assert_true(json_is_null(hth_test_at(body, "completed_at")));
}

/* The types of events, without those of deltas, "response." and repetitions, in one line. */
static void name_events(json_t *events, char *out, size_t capacity)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        const char *type = hth_test_text_at(event, "type");

        assert_string_equal(type, hth_test_text_at(event, "(event)"));
        assert_int_equal(json_integer_value(hth_test_at(event, "sequence_number")), i);
        if (strcmp(type, "error") != 0)
            assert_memory_equal(type, "response.", 9);
        n +=
            (size_t)snprintf(out + n, capacity - n, "%s%s", i ? " " : "", strcmp(type, "error") == 0 ? type : type + 9);
        assert_true(n < capacity);
    }
}

SHARED_STUB_TEST(events_come_in_their_order_and_join_to_the_response)
{
    static const char *const body = "{'input':'Hi'," TOOLS ",'stream':%s}";
    hth_test_answer whole, stream;
    json_t *response, *events, *last;
    char text[4096], names[4096];

    (void)snprintf(text, sizeof(text), body, "false");
    whole = hth_test_api_script(f->model, HTH_API_RESPONSES, quoted(text), said, HEARTH_FINISH_STOP);
    (void)snprintf(text, sizeof(text), body, "true");
    stream = hth_test_api_script(f->model, HTH_API_RESPONSES, quoted(text), said, HEARTH_FINISH_STOP);
    response = hth_test_json(hth_buffer_text(&whole.text));
    events = hth_test_events(hth_buffer_text(&stream.text));
    name_events(events, names, sizeof(names));
    assert_string_equal(
        names, "created in_progress "
               "output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done "
               "output_item.done "
               "output_item.added content_part.added output_text.delta output_text.delta output_text.done "
               "content_part.done output_item.done "
               "output_item.added function_call_arguments.delta function_call_arguments.delta "
               "function_call_arguments.done output_item.done "
               "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done "
               "output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done "
               "completed");
    last = hth_test_at(json_array_get(events, json_array_size(events) - 1), "response");
    assert_true(json_equal(last, response));
    for (size_t i = 0, k = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);

        if (strcmp(hth_test_text_at(event, "type"), "response.output_item.done") != 0)
            continue;
        assert_int_equal(json_integer_value(hth_test_at(event, "output_index")), k);
        assert_true(json_equal(hth_test_at(event, "item"), json_array_get(hth_test_at(response, "output"), k)));
        k++;
    }
}

SHARED_STUB_TEST(a_summary_has_events_of_its_own)
{
    static const char *const texts[] = { "<think>a", "b</think>c", NULL };
    hth_test_answer answer = hth_test_api_script(f->model, HTH_API_RESPONSES,
                                                 quoted("{'input':'Hi','stream':true,'reasoning':{'summary':'auto'}}"),
                                                 texts, HEARTH_FINISH_LENGTH);
    json_t *events = hth_test_events(hth_buffer_text(&answer.text));
    char names[2048];

    name_events(events, names, sizeof(names));
    assert_string_equal(names, "created in_progress output_item.added reasoning_summary_part.added "
                               "reasoning_summary_text.delta reasoning_summary_text.delta reasoning_summary_text.done "
                               "reasoning_summary_part.done output_item.done output_item.added content_part.added "
                               "output_text.delta output_text.done content_part.done output_item.done incomplete");
    assert_string_equal(hth_test_text_at(events, "8.item.summary.0.text"), "ab");
    assert_string_equal(hth_test_text_at(events, "14.item.status"), "incomplete");
}

static int n_until_failure;

static void *allocate_all_but_one(size_t n_bytes)
{
    return n_until_failure-- == 0 ? NULL : malloc(n_bytes);
}

SHARED_STUB_TEST(a_delta_is_written_whole_or_the_buffer_fails)
{
    const hth_api_reply_options options = { .model = "m", .id = "0123", .created_s = 1700000000 };
    hth_api_request *request = parsed("{'input':'Hi','stream':true}");
    hth_api_prepared prepared = { .n_requests = 0 };
    hth_buffer out = { .text = NULL };
    hth_api_error error;
    hth_api_reply *reply;
    int n_failures = 0;

    assert_true(hth_api_prepare(f->model, request, 7, NULL, &prepared, &error));
    reply = hth_api_reply_new(f->model, request, &prepared, &options, &error);
    assert_non_null(reply);
    hth_api_reply_text(reply, 0, "a", 1, &out); /* the events before the first delta */
    for (n_until_failure = -1; n_until_failure < 0; n_failures++) {
        hth_buffer_deinit(&out);
        out = (hth_buffer){ .text = NULL };
        n_until_failure = n_failures;
        json_set_alloc_funcs(allocate_all_but_one, free);
        hth_api_reply_text(reply, 0, "b", 1, &out);
        json_set_alloc_funcs(malloc, free);
        if (!out.failed)
            assert_string_equal(hth_test_text_at(hth_test_events(hth_buffer_text(&out)), "0.delta"), "b");
    }
    assert_false(out.failed); /* nothing failed this time */
    assert_true(n_failures > 10);
    hth_buffer_deinit(&out);
    hth_api_reply_free(reply);
    hth_api_prepared_deinit(&prepared);
}

SHARED_STUB_TEST(a_models_stream_says_what_its_response_says)
{
    static const char *const bodies[] = {
        "{'input':'Hi','max_output_tokens':24,'temperature':0,'stream':%s}",
        "{'input':'Hi','max_output_tokens':24,'temperature':0,'top_logprobs':2,'stream':%s}",
    };

    for (size_t k = 0; k < 2; k++) {
        char text[512];
        hth_test_answer whole, stream;
        json_t *response, *events, *pieces = json_array(), *output;

        (void)snprintf(text, sizeof(text), bodies[k], "false");
        whole = hth_test_api_run(f->model, HTH_API_RESPONSES, quoted(text));
        (void)snprintf(text, sizeof(text), bodies[k], "true");
        stream = hth_test_api_run(f->model, HTH_API_RESPONSES, quoted(text));
        response = hth_test_json(hth_buffer_text(&whole.text));
        events = hth_test_events(hth_buffer_text(&stream.text));
        output = hth_test_at(json_array_get(events, json_array_size(events) - 1), "response.output");
        assert_true(json_equal(output, hth_test_at(response, "output")));
        for (size_t i = 0; i < json_array_size(events); i++)
            if (strcmp(hth_test_text_at(json_array_get(events, i), "type"), "response.output_text.delta") == 0)
                json_array_extend(pieces, hth_test_at(json_array_get(events, i), "logprobs"));
        assert_true(json_equal(pieces, hth_test_at(response, "output.0.content.0.logprobs")));
        assert_int_equal(json_array_size(pieces), k == 0 ? 0 : 24);
        json_decref(pieces);
    }
}

SHARED_STUB_TEST(counted_tokens_are_those_that_a_response_uses)
{
    static const char *const body = "{'model':'m','instructions':'Be brief.','input':'Hi','max_output_tokens':1}";
    hth_test_answer answer = hth_test_api_run(f->model, HTH_API_RESPONSES, quoted(body));
    json_t *response = hth_test_json(hth_buffer_text(&answer.text)), *counted;
    hth_buffer out = { .text = NULL };
    hth_api_error error;
    hth_api_request *request =
        hth_api_request_parse(HTH_API_RESPONSES_TOKENS, quoted(body), strlen(body), NULL, &error);

    assert_non_null(request);
    assert_true(hth_api_answer(f->model, request, &out, &error));
    counted = hth_test_json(hth_buffer_text(&out));
    assert_string_equal(hth_test_text_at(counted, "object"), "response.input_tokens");
    assert_true(json_equal(hth_test_at(counted, "input_tokens"), hth_test_at(response, "usage.input_tokens")));
    hth_buffer_deinit(&out);
    hth_api_request_free(request);
}

/* The reply to a request whose stream a test writes step by step. */
typedef struct written {
    hth_api_request *request;
    hth_api_prepared prepared;
    hth_api_reply *reply;
    hth_buffer out;
} written;

static void written_begin(written *w, hearth_model *model, const char *body)
{
    const hth_api_reply_options options = { .model = "m", .id = "0123", .created_s = 1700000000 };
    hth_api_error error;

    *w = (written){ .request = hth_api_request_parse(HTH_API_RESPONSES, body, strlen(body), NULL, &error) };
    assert_true(hth_api_prepare(model, w->request, 7, NULL, &w->prepared, &error));
    w->reply = hth_api_reply_new(model, w->request, &w->prepared, &options, &error);
}

static void written_end(written *w)
{
    hth_buffer_deinit(&w->out);
    hth_api_reply_free(w->reply);
    hth_api_prepared_deinit(&w->prepared);
    hth_api_request_free(w->request);
}

SHARED_STUB_TEST(what_fails_in_a_stream_is_told_by_its_last_event)
{
    for (int has_text = 0; has_text < 2; has_text++) {
        hth_api_error problem = { .kind = HTH_API_NO_ERROR };
        written w;
        json_t *events, *last;

        written_begin(&w, f->model, quoted("{'input':'Hi','stream':true}"));
        assert_true(hth_api_reply_idle(w.reply, &w.out)); /* which begins it */
        assert_false(hth_api_reply_idle(w.reply, &w.out));
        if (has_text) {
            hth_api_reply_token(w.reply, 0, &(hearth_token_event){ .token = 'x', .text = "x" }, &w.out);
            hth_api_reply_text(w.reply, 0, "x", 1, &w.out);
        }
        hth_api_fail(&problem, HTH_API_INTERNAL, NULL, "it broke");
        hth_api_reply_fail(w.reply, &problem, &w.out);
        events = hth_test_events(hth_buffer_text(&w.out));
        assert_string_equal(hth_test_text_at(events, "0.type"), "response.created");
        assert_string_equal(hth_test_text_at(events, "2.type"), "keepalive");
        last = json_array_get(events, json_array_size(events) - 1);
        assert_int_equal(json_integer_value(hth_test_at(last, "sequence_number")), json_array_size(events) - 2);
        assert_string_equal(hth_test_text_at(last, "type"), "response.failed");
        assert_string_equal(hth_test_text_at(last, "response.status"), "failed");
        assert_string_equal(hth_test_text_at(last, "response.error.code"), "server_error");
        assert_string_equal(hth_test_text_at(last, "response.error.message"), "it broke");
        assert_int_equal(json_array_size(hth_test_at(last, "response.output")), has_text);
        written_end(&w);
    }
}

SHARED_STUB_TEST(a_stream_tells_progress_and_timings_where_asked)
{
    written w;
    json_t *events;

    written_begin(&w, f->model, quoted("{'input':'Hi','stream':true,'return_progress':true,'timings_per_token':true}"));
    assert_true(hth_api_reply_prefill(w.reply, 0, 1, 2, &w.out)); /* which begins it */
    assert_false(hth_api_reply_prefill(w.reply, 0, 2, 3, &w.out));
    hth_api_reply_token(w.reply, 0, &(hearth_token_event){ .token = 'x', .text = "x" }, &w.out);
    hth_api_reply_text(w.reply, 0, "x", 1, &w.out);
    events = hth_test_events(hth_buffer_text(&w.out));
    assert_string_equal(hth_test_text_at(events, "0.type"), "response.created");
    for (size_t i = 2; i < 4; i++) {
        json_t *event = json_array_get(events, i);

        assert_string_equal(hth_test_text_at(event, "type"), "response.in_progress");
        assert_int_equal(json_integer_value(hth_test_at(event, "sequence_number")), 2);
        assert_int_equal(json_integer_value(hth_test_at(event, "prompt_progress.processed")), i - 1);
        assert_true(json_is_object(hth_test_at(event, "timings")));
    }
    assert_string_equal(hth_test_text_at(events, "6.type"), "response.output_text.delta");
    assert_int_equal(json_integer_value(hth_test_at(events, "6.timings.predicted_n")), 1);
    assert_string_equal(hth_test_text_at(events, "6.cache.hit"), "none");
    written_end(&w);
}

SHARED_STUB_TEST(a_beginning_that_has_left_before_is_not_told_again)
{
    written w;
    json_t *events;

    written_begin(&w, f->model, quoted("{'input':'Hi','stream':true}"));
    hth_api_reply_note_reply_begun(w.reply, 0);
    hth_api_reply_token(w.reply, 0, &(hearth_token_event){ .token = 'x', .text = "x" }, &w.out);
    hth_api_reply_text(w.reply, 0, "x", 1, &w.out);
    events = hth_test_events(hth_buffer_text(&w.out));
    assert_string_equal(hth_test_text_at(events, "0.type"), "response.output_item.added");
    assert_int_equal(json_integer_value(hth_test_at(events, "0.sequence_number")), 2);
    written_end(&w);
}

SHARED_STUB_TEST(an_error_of_the_server_itself_is_an_event_of_its_own)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer out = { .text = NULL };
    json_t *events;

    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "it is full");
    hth_api_error_write_event(HTH_API_OPENAI_RESPONSES, &error, &out);
    events = hth_test_events(hth_buffer_text(&out));
    assert_string_equal(hth_test_text_at(events, "0.(event)"), "error");
    assert_string_equal(hth_test_text_at(events, "0.type"), "error");
    assert_string_equal(hth_test_text_at(events, "0.code"), "overloaded");
    assert_string_equal(hth_test_text_at(events, "0.message"), "it is full");
    hth_buffer_deinit(&out);
}

SHARED_STUB_TEST(a_response_goes_on_from_a_record_and_finds_items_in_it)
{
    json_t *items = hth_test_json(quoted("[{'type':'message','id':'item_0','role':'user','content':'Hi'}]"));
    json_t *response = hth_test_json(quoted(
        "{'id':'resp_a','status':'in_progress','background':true,'completed_at':null,'error':null,'output':[{'type':"
        "'reasoning','id':'rs_a_0','summary':[],'content':[{'type':'reasoning_text','text':'hm'}]},{'type':'message',"
        "'id':'msg_a_1','role':'assistant','content':[{'type':'output_text','text':'Yo'}]}]}"));
    hth_buffer out = { .text = NULL }, ended = { .text = NULL };
    hth_api_limits limits = hth_api_limits_default();
    hth_api_past past;
    hth_api_error error;
    hth_api_request *r;
    const char *body;
    hth_response_record record;

    hth_response_record_add(&out, "resp_a", response, items);
    past = (hth_api_past){ .bytes = out.text, .n_bytes = out.n };
    body = quoted("{'previous_response_id':'resp_a','instructions':'New.','input':'And?'}");
    r = hth_api_request_parse_with(HTH_API_RESPONSES, body, strlen(body), &past, NULL, NULL, &error);
    assert_non_null(r);
    assert_int_equal(r->conversation.n_turns, 4);
    assert_string_equal(r->conversation.turns[0].content, "New.");
    assert_string_equal(r->conversation.turns[1].content, "Hi");
    assert_string_equal(r->conversation.turns[2].reasoning, "hm");
    assert_string_equal(r->conversation.turns[2].content, "Yo");
    assert_string_equal(r->conversation.turns[3].content, "And?");
    assert_int_equal(json_array_size(r->items), 4);
    assert_string_equal(hth_test_text_at(r->items, "3.id"), "item_3");
    hth_api_request_free(r);
    body = quoted("{'input':[{'id':'item_0'},{'type':'item_reference','id':'msg_a_1'},{'role':'user','content':'x'}]}");
    r = hth_api_request_parse_with(HTH_API_RESPONSES, body, strlen(body), &past, NULL, NULL, &error);
    assert_non_null(r);
    assert_string_equal(r->conversation.turns[0].content, "Hi");
    assert_string_equal(r->conversation.turns[1].content, "Yo");
    hth_api_request_free(r);
    body = quoted("{'input':[{'id':'item_0'},{'id':'msg_a_1'},{'id':'item_0'},{'id':'msg_a_1'},{'id':'rs_a_0'}]}");
    r = hth_api_request_parse_with(HTH_API_RESPONSES, body, strlen(body), &past, NULL, NULL, &error);
    assert_non_null(r);
    assert_int_equal(json_array_size(r->items), 5);
    assert_string_equal(hth_test_text_at(r->items, "2.id"), "item_0");
    assert_string_equal(hth_test_text_at(r->items, "4.id"), "rs_a_0");
    hth_api_request_free(r);
    limits.messages_max = 2; /* counted before any of them is looked for */
    body = quoted("{'input':[{'id':'item_0'},{'id':'none_at_all'},{'id':'item_0'}]}");
    assert_null(hth_api_request_parse_with(HTH_API_RESPONSES, body, strlen(body), &past, &limits, NULL, &error));
    assert_string_equal(error.param, "input");
    body = quoted("{'previous_response_id':'resp_b','input':'And?'}");
    assert_null(hth_api_request_parse_with(HTH_API_RESPONSES, body, strlen(body), &past, NULL, NULL, &error));
    assert_string_equal(error.param, "previous_response_id");
    body = quoted("{'input':[{'type':'item_reference','id':'msg_a_2'}]}");
    assert_null(hth_api_request_parse_with(HTH_API_RESPONSES, body, strlen(body), &past, NULL, NULL, &error));
    assert_string_equal(error.param, "input[0].id");

    assert_true(hth_response_record_read(out.text, out.n, &record));
    assert_true(hth_response_record_add_ended(&ended, &record, "failed", "it \"broke\""));
    assert_true(hth_response_record_read(ended.text, ended.n, &record));
    assert_int_equal(record.n_bytes, ended.n);
    response = json_loadb(record.response, record.n_response, 0, NULL);
    assert_string_equal(hth_test_text_at(response, "status"), "failed");
    assert_string_equal(hth_test_text_at(response, "error.message"), "it \"broke\"");
    assert_string_equal(hth_test_text_at(response, "output.1.id"), "msg_a_1");
    assert_false(hth_response_record_add_ended(&ended, &record, "cancelled", NULL)); /* it has ended */
    hth_buffer_clear(&ended);
    assert_true(hth_response_record_read(out.text, out.n, &record));
    assert_true(hth_response_record_add_ended(&ended, &record, "cancelled", NULL)); /* which makes it shorter */
    assert_true(hth_response_record_read(ended.text, ended.n, &record));
    assert_int_equal(record.n_items, 1);
    json_decref(response);
    hth_buffer_deinit(&out);
    hth_buffer_deinit(&ended);
}

SHARED_STUB_TEST(an_item_that_cannot_be_read_is_passed_over_or_told)
{
    static const char refer[] = "{\"input\":[{\"id\":\"item_0\"}]}";
    static const char go_on[] = "{\"previous_response_id\":\"resp_a\",\"input\":\"And?\"}";
    json_t *items = hth_test_json(quoted("[{'type':'message','id':'item_0','role':'user','content':'First'},"
                                         "{'type':'message','id':'item_0','role':'user','content':'Second, longer'}]"));
    json_t *response = hth_test_json(quoted("{'id':'resp_a','output':[]}"));
    hth_api_limits limits = hth_api_limits_default();
    hth_buffer out = { .text = NULL };
    hth_api_past past;
    hth_api_error error;
    hth_api_request *r;

    hth_response_record_add(&out, "resp_a", response, items);
    past = (hth_api_past){ .bytes = out.text, .n_bytes = out.n };
    r = hth_api_request_parse_with(HTH_API_RESPONSES, refer, strlen(refer), &past, NULL, NULL, &error);
    assert_non_null(r);
    assert_string_equal(r->conversation.turns[0].content, "First");
    hth_api_request_free(r);

    *(char *)memmem(out.text, out.n, "\"First\"", 7) = 'x'; /* no JSON any more */
    r = hth_api_request_parse_with(HTH_API_RESPONSES, refer, strlen(refer), &past, NULL, NULL, &error);
    assert_non_null(r);
    assert_string_equal(r->conversation.turns[0].content, "Second, longer");
    hth_api_request_free(r);
    limits.body_bytes_max = strlen(go_on) + 80; /* no room for the second item, which is not read */
    assert_null(hth_api_request_parse_with(HTH_API_RESPONSES, go_on, strlen(go_on), &past, &limits, NULL, &error));
    assert_int_equal(error.kind, HTH_API_INTERNAL);
    hth_buffer_deinit(&out);
}

/* A name is short, what it stands for is long: it counts as often as it is named. */
SHARED_STUB_TEST(what_a_request_names_is_bounded_like_a_body)
{
    json_t *items = json_pack("[{s:s, s:s, s:s, s:s}]", "type", "message", "id", "item_0", "role", "user", "content",
                              "an item of a hundred bytes or so, with what is around it");
    json_t *response = hth_test_json(quoted(
        "{'id':'resp_a','output':[{'type':'message','id':'msg_a_1','role':'assistant','content':'of about ninety'}]}"));
    static const struct {
        const char *body, *param; /* NULL: it has room */
        size_t limit;
    } rows[] = {
        { "{'input':[{'id':'item_0'},{'id':'item_0'},{'id':'item_0'}]}", NULL, 500 },
        { "{'input':[{'id':'item_0'},{'id':'item_0'},{'id':'item_0'},{'id':'item_0'}]}", "input", 500 },
        { "{'input':[{'id':'msg_a_1'},{'id':'msg_a_1'},{'id':'msg_a_1'}]}", NULL, 350 },
        { "{'input':[{'id':'msg_a_1'},{'id':'msg_a_1'},{'id':'msg_a_1'},{'id':'msg_a_1'}]}", "input", 350 },
        { "{'previous_response_id':'resp_a','input':'And?'}", NULL, 300 },
        { "{'previous_response_id':'resp_a','input':'And?'}", "previous_response_id", 220 },
        { "{'previous_response_id':'resp_a','input':'And?'}", "previous_response_id", 150 },
        { "{'previous_response_id':'resp_a','input':[{'id':'item_0'}]}", "input", 300 },
    };
    hth_buffer out = { .text = NULL };
    hth_api_past past;

    hth_response_record_add(&out, "resp_a", response, items);
    past = (hth_api_past){ .bytes = out.text, .n_bytes = out.n };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *body = quoted(rows[i].body);
        hth_api_limits limits = hth_api_limits_default();
        hth_api_error error;
        hth_api_request *r;

        limits.body_bytes_max = rows[i].limit;
        r = hth_api_request_parse_with(HTH_API_RESPONSES, body, strlen(body), &past, &limits, NULL, &error);
        if (!r != !!rows[i].param)
            fail_msg("%s: %s", body, error.message);
        if (!r) {
            char number[16];

            assert_int_equal(error.kind, HTH_API_TOO_LARGE);
            assert_string_equal(error.param, rows[i].param);
            (void)snprintf(number, sizeof(number), " %zu ", rows[i].limit);
            assert_non_null(strstr(error.message, number));
            assert_non_null(strstr(error.message, "limits.body_bytes_max"));
        }
        hth_api_request_free(r);
    }
    json_decref(items);
    hth_buffer_deinit(&out);
}

GROUP(with_a_stub, hth_test_shared_stub_set_up, hth_test_shared_stub_tear_down)
