/*
 * peek_beginning_test.c - the parts of a body that stay the same while its conversation grows
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/peek.h"
#include "support/cmocka_all.h"

enum { TEXT_BYTES = 1 << 14 };

/* Parts, one after another, with a | between them. */
typedef struct parts {
    size_t n;
    char text[TEXT_BYTES];
} parts;

/* Of a body in memory that ends exactly there, so that a byte too many is seen. */
static parts parts_of_bytes(const char *body, size_t n)
{
    hth_api_span spans[HTH_API_PEEK_SPANS_MAX];
    char *copy = malloc(n ? n : 1);
    const char *at = copy;
    parts out = { .n = 0 };
    size_t n_text = 0;

    assert_non_null(copy);
    memcpy(copy, body, n);
    out.n = hth_api_peek_beginning(copy, n, spans);
    assert_true(out.n <= HTH_API_PEEK_SPANS_MAX);
    for (size_t i = 0; i < out.n; i++) {
        assert_true(spans[i].n > 0 && spans[i].at >= at && spans[i].n <= (size_t)(copy + n - spans[i].at));
        at = spans[i].at + spans[i].n;
        assert_true(n_text + spans[i].n + 2 < TEXT_BYTES);
        if (i > 0)
            out.text[n_text++] = '|';
        memcpy(out.text + n_text, spans[i].at, spans[i].n);
        n_text += spans[i].n;
    }
    free(copy);
    return out;
}

/* Texts of tests have ' for ". */
static char *quoted(const char *text)
{
    char *copy = strdup(text);

    assert_non_null(copy);
    for (char *at = copy; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    return copy;
}

static parts parts_of(const char *body)
{
    char *text = quoted(body);
    parts out = parts_of_bytes(text, strlen(text));

    free(text);
    return out;
}

static void assert_parts(const char *body, size_t n, const char *expected)
{
    char *text = quoted(expected);
    const parts found = parts_of(body);

    assert_int_equal(found.n, n);
    assert_string_equal(found.text, text);
    free(text);
}

/* Bodies of one conversation, the first turn first, and of another one with the same instructions. */
typedef struct conversation {
    const char *parts; /* of each turn */
    size_t n_parts;
    const char *turns[3];
    const char *other;
} conversation;

#define OPENAI_USER "{'role':'system','content':'Be kind.'},{'role':'user','content':'Hi'}"
#define ANTHROPIC_SYSTEM "[{'type':'text','text':'Be kind.','cache_control':{'type':'ephemeral'}}]"
#define ANTHROPIC_USER "{'role':'user','content':[{'type':'text','text':'Hi'}]}"
#define RESPONSES_USER "{'type':'message','role':'user','content':[{'type':'input_text','text':'Hi'}]}"
#define CALL "{'role':'assistant','content':null,'tool_calls':[{'id':'1','function':{'name':'f','arguments':'{}'}}]}"

static const conversation conversations[] = {
    { "[" OPENAI_USER,
      1,
      { "{'model':'m','messages':[" OPENAI_USER "],'stream':true}",
        "{'model':'m','messages':[" OPENAI_USER
        ",{'role':'assistant','content':'Hello'},{'role':'user','content':'And?'}"
        "],'stream':true,'temperature':0.5}",
        "{'model':'m','messages':[" OPENAI_USER "," CALL ",{'role':'tool','tool_call_id':'1','content':'7'}]}" },
      "{'model':'m','messages':[{'role':'system','content':'Be kind.'},{'role':'user','content':'Ho'}]}" },
    { "'You are kind.'|[{'role':'user','content':'Hi'}",
      2,
      { "{'max_tokens':9,'system':'You are kind.','messages':[{'role':'user','content':'Hi'}]}",
        "{'max_tokens':9,'system':'You are kind.','messages':[{'role':'user','content':'Hi'},"
        "{'role':'assistant','content':'Hello'},{'role':'user','content':'And?'}]}" },
      "{'max_tokens':9,'system':'You are kind.','messages':[{'role':'user','content':'Hi!'}]}" },
    { ANTHROPIC_SYSTEM "|[" ANTHROPIC_USER,
      2,
      { "{'system':" ANTHROPIC_SYSTEM ",'messages':[" ANTHROPIC_USER "],'tools':[]}",
        "{'system':" ANTHROPIC_SYSTEM ",'messages':[" ANTHROPIC_USER
        ",{'role':'assistant','content':[{'type':'text','text':'\\'user\\''}]}," ANTHROPIC_USER "],'tools':[]}" },
      "{'system':" ANTHROPIC_SYSTEM ",'messages':[{'role':'user','content':'Hi'}],'tools':[]}" },
    { "'Be kind.'|[" RESPONSES_USER,
      2,
      { "{'model':'m','instructions':'Be kind.','input':[" RESPONSES_USER "]}",
        "{'model':'m','instructions':'Be kind.','input':[" RESPONSES_USER
        ",{'type':'function_call','call_id':'1','name':'f','arguments':'{}'},{'type':'function_call_output','call_id':'"
        "1',"
        "'output':'7'}]}",
        "{'model':'m','instructions':'Be kind.','input':[" RESPONSES_USER
        ",{'type':'message','role':'assistant','content':'Hello'}," RESPONSES_USER "],'store':false}" },
      "{'model':'m','instructions':'Be kind.','input':'Hi'}" },
    { "[{'role':'user','content':'Hi','images':['AAAA']}",
      1,
      { "{'model':'m','messages':[{'role':'user','content':'Hi','images':['AAAA']}],'keep_alive':'5m'}",
        "{'model':'m','messages':[{'role':'user','content':'Hi','images':['AAAA']},{'role':'assistant','content':'"
        "Hello'},"
        "{'role':'user','content':'And?'}],'options':{'seed':1}}" },
      "{'model':'m','messages':[{'role':'user','content':'Hi','images':['AAAB']}]}" },
};

TEST(the_parts_stay_while_a_conversation_grows)
{
    for (size_t i = 0; i < sizeof(conversations) / sizeof(conversations[0]); i++)
        for (size_t k = 0; k < 3 && conversations[i].turns[k]; k++)
            assert_parts(conversations[i].turns[k], conversations[i].n_parts, conversations[i].parts);
}

TEST(conversations_with_the_same_instructions_differ)
{
    for (size_t i = 0; i < sizeof(conversations) / sizeof(conversations[0]); i++) {
        const parts one = parts_of(conversations[i].turns[0]), other = parts_of(conversations[i].other);

        assert_int_equal(one.n, other.n);
        assert_string_not_equal(one.text, other.text);
    }
}

TEST(other_instructions_are_another_beginning)
{
    assert_parts("{'system':'A','messages':[{'role':'user','content':'Hi'}]}", 2,
                 "'A'|[{'role':'user','content':'Hi'}");
    assert_parts("{'system':'B','messages':[{'role':'user','content':'Hi'}]}", 2,
                 "'B'|[{'role':'user','content':'Hi'}");
    assert_parts("{'messages':[{'role':'system','content':'A'},{'role':'developer','content':'B'},{'role':'user'},{}]}",
                 1, "[{'role':'system','content':'A'},{'role':'developer','content':'B'},{'role':'user'}");
}

TEST(a_prompt_is_a_part)
{
    assert_parts("{'model':'m','prompt':'Once upon','suffix':'x','max_tokens':5}", 1, "'Once upon'");
    assert_parts("{'model':'m','system':'Be kind.','prompt':'Once','stream':false}", 2, "'Be kind.'|'Once'");
    assert_parts("{'model':'m','input':'Once'}", 1, "'Once'");
    assert_parts("{'prompt':['Once','Twice'],'n':2}", 1, "['Once','Twice']");
}

/* A body with a text of n bytes under that key. */
static char *body_with(const char *key, size_t n)
{
    char *body = malloc(n + 100);
    int n_head;

    assert_non_null(body);
    n_head = snprintf(body, 100, "{\"%s\":\"", key);
    for (size_t i = 0; i < n; i++)
        body[(size_t)n_head + i] = (char)('a' + i % 26);
    (void)snprintf(body + n_head + n, 100 - (size_t)n_head, "\",\"n\":1}");
    return body;
}

TEST(a_long_prompt_is_cut_after_its_first_bytes)
{
    static const char *const keys[] = { "prompt", "input" };

    for (size_t i = 0; i < 2; i++)
        for (size_t n = HTH_API_PEEK_PROMPT_BYTES - 4; n < HTH_API_PEEK_PROMPT_BYTES + 4; n++) {
            char *body = body_with(keys[i], n);
            const parts found = parts_of_bytes(body, strlen(body));
            const size_t n_value = n + 2; /* with its quotes */

            assert_int_equal(found.n, 1);
            assert_int_equal(strlen(found.text),
                             n_value < HTH_API_PEEK_PROMPT_BYTES ? n_value : HTH_API_PEEK_PROMPT_BYTES);
            assert_memory_equal(found.text, strchr(body, ':') + 1, strlen(found.text));
            free(body);
        }
}

/* "{'prompt':[7,7,...]}" with n numbers; the caller frees it. */
static char *body_of_tokens(size_t n)
{
    char *body = malloc(2 * n + 32);
    size_t at;

    assert_non_null(body);
    at = (size_t)sprintf(body, "{\"prompt\":[");
    for (size_t i = 0; i < n; i++)
        at += (size_t)sprintf(body + at, i == 0 ? "7" : ",7");
    (void)sprintf(body + at, "]}");
    return body;
}

TEST(a_long_list_without_messages_is_cut_after_its_first_bytes)
{
    char *one = body_of_tokens(2000), *longer = body_of_tokens(3000);
    const parts first = parts_of_bytes(one, strlen(one)), second = parts_of_bytes(longer, strlen(longer));

    assert_int_equal(first.n, 1);
    assert_int_equal(strlen(first.text), HTH_API_PEEK_PROMPT_BYTES);
    assert_string_equal(first.text, second.text);
    free(one);
    free(longer);
}

TEST(a_long_prompt_that_grows_has_the_same_beginning)
{
    char *one = body_with("prompt", 3000), *longer = body_with("prompt", 9000);
    const parts a = parts_of_bytes(one, strlen(one)), b = parts_of_bytes(longer, strlen(longer));

    assert_int_equal(a.n, 1);
    assert_int_equal(b.n, 1);
    assert_string_equal(a.text, b.text);
    free(one);
    free(longer);
}

TEST(long_instructions_and_messages_are_not_cut)
{
    char *body = body_with("system", 5000), message[6000];

    assert_int_equal(strlen(parts_of_bytes(body, strlen(body)).text), 5002);
    free(body);
    (void)snprintf(message, sizeof(message), "{'messages':[{'role':'user','content':'%05000d'},{'role':'user'}]}", 7);
    assert_int_equal(strlen(parts_of(message).text), strlen("[{'role':'user','content':''}") + 5000);
}

TEST(without_a_message_of_a_user_all_count)
{
    assert_parts("{'messages':[{'role':'system','content':'A'},{'role':'assistant','content':'B'}],'n':1}", 1,
                 "[{'role':'system','content':'A'},{'role':'assistant','content':'B'}]");
    assert_parts("{'messages':[{'content':'A'},{'role':'User'},{'role':'users'},{'role':7},{'role':['user']}]}", 1,
                 "[{'content':'A'},{'role':'User'},{'role':'users'},{'role':7},{'role':['user']}]");
    assert_parts("{'messages':['user',{'x':{'role':'user'}},7]}", 1, "['user',{'x':{'role':'user'}},7]");
}

TEST(a_role_may_stand_anywhere_in_its_message)
{
    assert_parts("{'messages':[ { 'content' : [{'role':'x'}] , 'ro\\u006ce' : 'us\\u0065r' } , {'role':'user'} ] }", 1,
                 "[ { 'content' : [{'role':'x'}] , 'ro\\u006ce' : 'us\\u0065r' }");
}

TEST(empty_lists_are_parts_without_messages)
{
    assert_parts("{'messages':[]}", 1, "[]");
    assert_parts("{'input':[],'instructions':''}", 2, "[]|''");
    assert_parts("{'system':[],'messages':[],'prompt':''}", 3, "[]|[]|''");
}

TEST(a_body_without_prompt_has_no_parts)
{
    assert_parts("{}", 0, "");
    assert_parts("{'model':'m','stream':true}", 0, "");
    assert_parts("{'x':{'messages':[{'role':'user'}]},'y':['prompt','z'],'Prompt':'a','prompts':'b'}", 0, "");
    assert_parts("[{'prompt':'a'}]", 0, "");
    assert_parts("'prompt'", 0, "");
    assert_parts("", 0, "");
    assert_parts("x", 0, "");
}

TEST(not_more_parts_are_found_than_there_is_room_for)
{
    assert_parts("{'system':'1','instructions':'2','messages':[3],'input':'4','prompt':'5','system':'6'}",
                 HTH_API_PEEK_SPANS_MAX, "'1'|'2'|[3]|'4'");
}

TEST(parts_before_a_fault_count)
{
    assert_parts("{'system':'A','messages':[{'role':'user'},{'role':'user']}", 1, "'A'");
    assert_parts("{'system':'A','messages':[{'role':'us\\q'}]}", 1, "'A'");
    assert_parts("{'system':'A','messages':[{'role':'user'}", 1, "'A'");
    assert_parts("{'system':'A','messages':[{'role':'user'},]}", 1, "'A'");
    assert_parts("{'system':'A','prompt':'B", 1, "'A'");
    assert_parts("{'system':'A','prompt':}", 1, "'A'");
    assert_parts("{'system':'A' 'prompt':'B'}", 1, "'A'");
    assert_parts("{'system':'A','messages':[{'role':'user'}],'x'", 2, "'A'|[{'role':'user'}");
    assert_parts("{'system':'A',,'prompt':'B'}", 1, "'A'");
}

/* Each beginning of a body has the first parts of the body, and nothing behind its end is read. */
TEST(a_body_cut_anywhere_has_its_first_parts)
{
    for (size_t i = 0; i < sizeof(conversations) / sizeof(conversations[0]); i++)
        for (size_t k = 0; k < 3 && conversations[i].turns[k]; k++) {
            char *body = quoted(conversations[i].turns[k]);
            const parts whole = parts_of_bytes(body, strlen(body));
            size_t n_last = 0;

            for (size_t n = 0; n <= strlen(body); n++) {
                const parts found = parts_of_bytes(body, n);

                assert_true(found.n >= n_last && found.n <= whole.n);
                assert_memory_equal(found.text, whole.text, strlen(found.text));
                n_last = found.n;
            }
            assert_int_equal(n_last, whole.n);
            free(body);
        }
}

TEST(a_byte_order_mark_is_passed_over)
{
    assert_parts("\xEF\xBB\xBF{'prompt':'a'}", 1, "'a'");
}
