/*
 * anchors_test.c - digests of the beginnings of a prompt: they stay while a conversation grows, and tell texts apart
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/anchors.h"
#include "api/buffer.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "support/cmocka_all.h"

typedef struct taken {
    size_t n;
    hth_anchor anchors[HTH_ANCHORS_MAX];
} taken;

/* Of a body in memory that ends exactly there, so that a byte too many is seen. */
static taken take_bytes(const char *scope, const char *body, size_t n)
{
    char *copy = malloc(n ? n : 1);
    taken out;

    assert_non_null(copy);
    memcpy(copy, body, n);
    out.n = hth_api_anchors(scope, strlen(scope), copy, n, out.anchors);
    free(copy);
    assert_true(out.n <= HTH_ANCHORS_MAX);
    for (size_t i = 0; i < out.n; i++) {
        assert_true(out.anchors[i].digest != 0);
        assert_true(out.anchors[i].n_bytes > (i > 0 ? out.anchors[i - 1].n_bytes : 0));
    }
    return out;
}

/* Texts of tests have ' for ". */
static taken take(const char *body)
{
    char *copy = strdup(body);
    taken out;

    assert_non_null(copy);
    for (char *at = copy; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    out = take_bytes("s", copy, strlen(copy));
    free(copy);
    return out;
}

static uint32_t end_of(const taken *t)
{
    return t->n > 0 ? t->anchors[t->n - 1].n_bytes : 0;
}

static bool has(const taken *t, const hth_anchor *anchor)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->anchors[i].digest == anchor->digest && t->anchors[i].n_bytes == anchor->n_bytes)
            return true;
    return false;
}

static void assert_same(const taken *a, const taken *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_true(a->anchors[i].digest == b->anchors[i].digest);
        assert_int_equal(a->anchors[i].n_bytes, b->anchors[i].n_bytes);
    }
}

static void assert_nothing_shared(const taken *a, const taken *b)
{
    assert_true(a->n > 0 && b->n > 0);
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++)
            assert_true(a->anchors[i].digest != b->anchors[k].digest);
}

/* The anchors of the longer body in the text of the shorter one are anchors of that, too. How many there are. */
static size_t count_kept(const taken *shorter, const taken *longer)
{
    size_t n = 0;

    while (n < longer->n && longer->anchors[n].n_bytes <= end_of(shorter)) {
        assert_true(has(shorter, &longer->anchors[n]));
        n++;
    }
    return n;
}

/* ---- conversations ---- */

#define SYSTEM "[{'type':'text','text':'Be kind.','cache_control':{'type':'ephemeral'}}]"
#define TOOLS "[{'name':'f','description':'does it','input_schema':{'type':'object'}}]"
#define ASKS "{'role':'user','content':[{'type':'text','text':'Hi'}]}"
#define CALL "{'role':'assistant','content':null,'tool_calls':[{'id':'1','function':{'name':'f','arguments':'{}'}}]}"

/* Bodies of a conversation, the first turn first, and the number of anchors of each. */
typedef struct conversation {
    const char *turns[3];
    size_t n_anchors[3];
} conversation;

static const conversation conversations[] = {
    /* OpenAI's chats */
    { { "{'model':'m','messages':[{'role':'system','content':'Be kind.'},{'role':'user','content':'Hi'}]}",
        "{'model':'m','messages':[{'role':'system','content':'Be kind.'},{'role':'user','content':'Hi'}," CALL
        ",{'role':'tool','tool_call_id':'1','content':'7'}],'temperature':0}",
        "{'model':'m','messages':[{'role':'system','content':'Be kind.'},{'role':'user','content':'Hi'}," CALL
        ",{'role':'tool','tool_call_id':'1','content':'7'},{'role':'assistant','content':'So'}],'stream':true}" },
      { 2, 4, 5 } },
    /* Anthropic's messages */
    { { "{'max_tokens':9,'system':" SYSTEM ",'messages':[" ASKS "],'tools':" TOOLS "}",
        "{'max_tokens':8,'system':" SYSTEM ",'messages':[" ASKS ",{'role':'assistant','content':'\\'Hello'}," ASKS
        "],'tools':" TOOLS ",'thinking':{'type':'enabled','budget_tokens':1024}}" },
      { 2, 4 } },
    /* OpenAI's responses */
    { { "{'model':'m','instructions':'Be kind.','input':[{'role':'user','content':'Hi'}]}",
        "{'model':'m','instructions':'Be kind.','input':[{'role':'user','content':'Hi'},{'type':'function_call',"
        "'call_id':'1','name':'f','arguments':'{}'},{'type':'function_call_output','call_id':'1','output':'7'}]}" },
      { 2, 4 } },
    /* Ollama's chats */
    { { "{'model':'m','messages':[{'role':'user','content':'Hi','images':['AAAA']}],'keep_alive':'5m'}",
        "{'model':'m','messages':[{'role':'user','content':'Hi','images':['AAAA']},{'role':'user','content':'?'}],"
        "'options':{'seed':1}}" },
      { 1, 2 } },
    /* completions of several prompts */
    { { "{'prompt':['Once']}", "{'prompt':['Once','Twice',[1,2],{'prompt_string':'x'}]}" }, { 1, 4 } },
};

TEST(a_conversation_keeps_its_anchors_while_it_grows)
{
    for (size_t i = 0; i < sizeof(conversations) / sizeof(conversations[0]); i++) {
        const conversation *c = &conversations[i];
        taken before = { .n = 0 };

        for (size_t k = 0; k < 3 && c->turns[k]; k++) {
            const taken now = take(c->turns[k]);

            assert_int_equal(now.n, c->n_anchors[k]);
            assert_int_equal(count_kept(&before, &now), before.n);
            before = now;
        }
    }
}

/* Add n bytes of text that does not repeat. */
static void add_words(hth_buffer *to, size_t n, size_t salt)
{
    for (size_t i = 0; i < n; i++) {
        const char letter = (char)('a' + ((i + salt) * 2654435761U >> 7) % 26);

        hth_buffer_add(to, &letter, 1);
    }
}

static taken take_buffer(hth_buffer *body)
{
    const taken out = take_bytes("s", hth_buffer_text(body), body->n);

    assert_false(body->failed);
    hth_buffer_deinit(body);
    return out;
}

/* A prompt of n bytes, between these texts with ' for ". */
static taken take_prompt(const char *before, size_t n, const char *after)
{
    hth_buffer body = { .n = 0 };

    hth_buffer_add_text(&body, before);
    add_words(&body, n, 0);
    hth_buffer_add_text(&body, after);
    for (size_t i = 0; i < body.n; i++)
        body.text[i] = body.text[i] == '\'' ? '"' : body.text[i];
    return take_buffer(&body);
}

TEST(a_long_prompt_has_an_anchor_at_each_stride_and_keeps_it)
{
    static const char *const befores[] = { "{'model':'m','prompt':'", "{'model':'m','input':'", "{'messages':'",
                                           "{'model':'m','input_suffix':'x','input_prefix':'" };

    for (size_t i = 0; i < sizeof(befores) / sizeof(befores[0]); i++) {
        const taken shorter = take_prompt(befores[i], 5000, "'}"),
                    longer = take_prompt(befores[i], 9000, "','options':{'temperature':0},'raw':null}");

        assert_int_equal(shorter.n, 5);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(shorter.anchors[k].n_bytes, 1024 * (k + 1));
        assert_int_equal(end_of(&shorter), 5001); /* with the quote before it */
        assert_int_equal(longer.n, 9);
        assert_int_equal(count_kept(&shorter, &longer), 4);
    }
}

TEST(a_longer_prompt_begins_with_the_whole_of_a_shorter_one)
{
    const taken shorter = take_prompt("{'prompt':'", 1023, "'}"), longer = take_prompt("{'prompt':'", 2000, "'}");

    assert_int_equal(shorter.n, 1); /* a stride that falls on the end counts once */
    assert_int_equal(count_kept(&shorter, &longer), 1);
}

static taken take_tokens(size_t n, const char *comma)
{
    hth_buffer body = { .n = 0 };

    hth_buffer_add_text(&body, "{\"prompt\":[");
    for (size_t i = 0; i < n; i++)
        hth_buffer_add_format(&body, "%s%zu", i > 0 ? comma : "", 1000 + i * 7919 % 9000);
    hth_buffer_add_text(&body, "]}");
    return take_buffer(&body);
}

TEST(tokens_have_anchors_at_strides_only)
{
    const taken shorter = take_tokens(1000, ","), longer = take_tokens(2000, ","), spaced = take_tokens(1000, ", ");

    assert_int_equal(shorter.n, 5);
    assert_int_equal(end_of(&shorter), 5000); /* "[" and all tokens and commas */
    assert_int_equal(longer.n, 10);
    assert_int_equal(count_kept(&shorter, &longer), 4);
    assert_same(&shorter, &spaced);
}

TEST(numbers_and_words_in_an_array_have_no_anchor_of_their_own)
{
    const taken mixed = take("{'prompt':[1,'a',-2,null,'b',true,3.5e1]}");

    assert_int_equal(mixed.n, 3);
    assert_int_equal(mixed.anchors[0].n_bytes, strlen("[1,'a'"));
    assert_int_equal(mixed.anchors[1].n_bytes, strlen("[1,'a',-2,null,'b'"));
    assert_int_equal(mixed.anchors[2].n_bytes, strlen("[1,'a',-2,null,'b',true,3.5e1"));
}

TEST(a_prompt_that_is_an_object_is_one_text)
{
    const taken object = take("{'prompt': {'prompt_string': 'a  b'}}");

    assert_int_equal(object.n, 1);
    assert_int_equal(end_of(&object), strlen("{'prompt_string':'a  b'}"));
}

/* ---- what makes no difference ---- */

TEST(white_space_and_the_order_of_members_do_not_matter)
{
    const taken first = take("{'system':'Be  kind.','tools':[1,2],'messages':[{'role':'user','content':'Hi '}]}");
    static const char *const others[] = {
        "{'messages':[{'role':'user','content':'Hi '}],'tools':[1,2],'system':'Be  kind.'}",
        "{'tools':[1,2],'n':1,'messages':[{'role':'user','content':'Hi '}],'stream':true,'system':'Be  kind.'}",
        " {\n\t'system' : 'Be  kind.',\r\n'tools' : [ 1 , 2 ] ,'messages':[ { 'role' : 'user' ,'content':'Hi '} ] } ",
        "\xEF\xBB\xBF{'system':'Be  kind.','tools':[1,2],'messages':[{'role':'user','content':'Hi '}\n]}",
        "{'s\\u0079stem':'Be  kind.','tools':[1,2],'messages':[{'role':'user','content':'Hi '}]}",
        "{'system':'Be  kind.','tools':[1,2],'functions':null,'messages':[{'role':'user','content':'Hi '}]}",
    };

    assert_int_equal(first.n, 2);
    assert_int_equal(first.anchors[0].n_bytes, strlen("'Be  kind.'[1,2]"));
    assert_int_equal(first.anchors[1].n_bytes, strlen("'Be  kind.'[1,2][{'role':'user','content':'Hi '}"));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const taken other = take(others[i]);

        assert_same(&first, &other);
    }
}

TEST(members_that_change_no_beginning_do_not_matter)
{
    static const char *const members[] = { "'temperature':0.5",
                                           "'stop':['a']",
                                           "'suffix':'a'",
                                           "'stream':true",
                                           "'model':'x'",
                                           "'response_format':{'type':'json_object'}",
                                           "'tool_choice':1",
                                           "'input_suffix':'a'",
                                           "'thinking':{'budget_tokens':7}",
                                           "'':1",
                                           "'a name that is longer than any that is looked for':'a'" };
    const taken plain = take("{'prompt':'Hi'}");

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        char body[200];
        taken other;

        (void)snprintf(body, sizeof(body), "{%s,'prompt':'Hi'}", members[i]); /* it fits */
        other = take(body);
        assert_same(&plain, &other);
    }
}

/* ---- what makes a difference ---- */

TEST(members_that_a_prompt_may_begin_with_change_all_anchors)
{
    static const char *const names[] = { "cache_salt",
                                         "lora",
                                         "previous_response_id",
                                         "raw",
                                         "template",
                                         "context",
                                         "chat_template_kwargs",
                                         "enable_thinking",
                                         "think",
                                         "reasoning",
                                         "reasoning_effort",
                                         "system",
                                         "instructions",
                                         "tools",
                                         "functions",
                                         "input_extra" };
    enum { N = sizeof(names) / sizeof(names[0]) };
    const taken without = take("{'prompt':'Hi'}");
    taken all[2 * N];

    for (size_t i = 0; i < (size_t)2 * N; i++) {
        char body[200];

        (void)snprintf(body, sizeof(body), "{'prompt':'Hi','%s':%zu}", names[i / 2], i % 2); /* it fits */
        all[i] = take(body);
        assert_int_equal(all[i].n, 2);
        assert_int_equal(all[i].anchors[0].n_bytes, 1);
    }
    for (size_t i = 0; i < (size_t)2 * N; i++) {
        assert_nothing_shared(&all[i], &without);
        for (size_t k = 0; k < i; k++)
            assert_nothing_shared(&all[i], &all[k]);
    }
}

TEST(text_does_not_move_from_one_member_to_another)
{
    const taken one = take("{'system':'a','instructions':'bc','prompt':'Hi'}"),
                other = take("{'system':'ab','instructions':'c','prompt':'Hi'}"),
                words = take("{'raw':1,'template':23,'prompt':'Hi'}"),
                moved = take("{'raw':12,'template':3,'prompt':'Hi'}");

    assert_nothing_shared(&one, &other);
    assert_nothing_shared(&words, &moved);
}

TEST(another_scope_has_no_equal_anchor)
{
    static const char body[] = "{\"system\":\"Be kind.\",\"messages\":[{\"role\":\"user\"},{\"role\":\"user\"}]}";
    static const char *const scopes[] = { "", "a", "b", "ab", "a ", "\x01\xff" };
    taken all[6];

    for (size_t i = 0; i < 6; i++) {
        all[i] = take_bytes(scopes[i], body, strlen(body));
        for (size_t k = 0; k < i; k++)
            assert_nothing_shared(&all[i], &all[k]);
    }
}

TEST(a_changed_byte_changes_exactly_the_anchors_behind_it)
{
    static const char head[] = "\"Be kind.\"";
    hth_buffer body = { .n = 0 };
    taken first;
    const char *growing;

    hth_buffer_add_format(&body, "{\"system\":%s,\"messages\":[", head);
    for (size_t i = 0; i < 7; i++) {
        hth_buffer_add_format(&body, "%s{\"role\":\"user\",\"content\":\"", i > 0 ? "," : "");
        add_words(&body, 500 + i, i);
        hth_buffer_add_text(&body, "\"}");
    }
    hth_buffer_add_text(&body, "],\"seed\":1}");
    growing = strstr(hth_buffer_text(&body), "[{");
    first = take_bytes("s", body.text, body.n);
    assert_int_equal(first.n, 1 + 7 + 3);
    for (char *at = body.text; at < body.text + body.n; at++) {
        const char before = *at;
        taken other;

        if (before < 'a' || before > 'z' || at < growing || at > body.text + body.n - strlen("],\"seed\":1}"))
            continue;
        *at = before == 'z' ? 'a' : (char)(before + 1);
        other = take_bytes("s", body.text, body.n);
        *at = before;
        assert_int_equal(other.n, first.n);
        for (size_t i = 0; i < first.n; i++) {
            assert_int_equal(other.anchors[i].n_bytes, first.anchors[i].n_bytes);
            assert_int_equal(other.anchors[i].digest == first.anchors[i].digest,
                             first.anchors[i].n_bytes <= strlen(head) + (size_t)(at - growing));
        }
    }
    hth_buffer_deinit(&body);
}

TEST(a_digest_is_the_same_for_ever)
{
    static const char text[] = "\x01\0\0\0\0\0\0\0s"
                               "system:\"a\",tools:[1,{\"b\":\"c d\"}],messages:[\"x\",2";
    const size_t ends[] = { 9 + strlen("system:\"a\",tools:[1,{\"b\":\"c d\"}],"), sizeof(text) - 1 - 2,
                            sizeof(text) - 1 };
    const taken found = take("{'messages':['x', 2],'tools':[1, {'b':'c d'}],'system':'a'}");

    assert_int_equal(found.n, 3);
    for (size_t i = 0; i < 3; i++) {
        uint8_t sha256[HTH_SHA256_BYTES];

        hth_sha256_of(text, ends[i], sha256);
        assert_true(found.anchors[i].digest == hth_get_u64(sha256));
    }
}

/* ---- limits ---- */

/* A body of n messages with texts of n_text bytes. */
static taken take_messages(size_t n, size_t n_text)
{
    hth_buffer body = { .n = 0 };

    hth_buffer_add_text(&body, "{\"system\":\"Be kind.\",\"messages\":[");
    for (size_t i = 0; i < n; i++) {
        hth_buffer_add_text(&body, i > 0 ? ",{\"content\":\"" : "{\"content\":\"");
        add_words(&body, n_text, i);
        hth_buffer_add_text(&body, "\"}");
    }
    hth_buffer_add_text(&body, "]}");
    return take_buffer(&body);
}

TEST(the_ends_of_the_last_elements_count)
{
    taken before = take_messages(1, 3);

    for (size_t n = 2; n < 40; n++) {
        const taken now = take_messages(n, 3);

        assert_int_equal(now.n, 1 + (n < HTH_ANCHOR_ENDS ? n : HTH_ANCHOR_ENDS));
        assert_int_equal(count_kept(&before, &now), n <= HTH_ANCHOR_ENDS ? before.n : before.n - 1);
        before = now;
    }
    assert_int_equal(end_of(&before), strlen("'Be kind.'") + 39 * strlen("{'content':'abc'},"));
}

TEST(a_long_conversation_has_strides_and_ends)
{
    size_t n_most = 0;

    for (size_t n = 40; n < 600; n += 7) {
        const taken found = take_messages(n, 1000);

        assert_true(found.n <= 1 + HTH_ANCHOR_STRIDES + HTH_ANCHOR_ENDS);
        assert_true(found.n >= 1 + HTH_ANCHOR_STRIDES / 2 + HTH_ANCHOR_ENDS - 1);
        n_most = found.n > n_most ? found.n : n_most;
    }
    assert_int_equal(n_most, 1 + HTH_ANCHOR_STRIDES + HTH_ANCHOR_ENDS);
}

TEST(strides_of_a_longer_body_are_strides_of_a_shorter_one)
{
    static const size_t sizes[] = { 100, 2000, 25500, 25700, 30000, 51199, 51200, 100000, 1000000, (8 << 20) - 13 };
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    taken before = { .n = 0 };

    for (size_t i = 0; i < N; i++) {
        const taken now = take_prompt("{'prompt':'", sizes[i], "'}");
        const size_t stride = now.n > 1 ? now.anchors[0].n_bytes : 1024;

        assert_int_equal(now.n, (sizes[i] + 1) / stride + ((sizes[i] + 1) % stride > 0));
        assert_int_equal(stride & (stride - 1), 0);
        assert_true(now.n <= HTH_ANCHOR_STRIDES + 1 && (stride == 1024 || now.n > HTH_ANCHOR_STRIDES / 2));
        assert_int_equal(count_kept(&before, &now) > 0, before.n > 1);
        before = now;
    }
}

TEST(a_body_that_is_too_large_has_none)
{
    assert_true(take_prompt("{'prompt':'", HTH_ANCHOR_BODY_BYTES_MAX - 13, "'}").n > 0);
    assert_int_equal(take_prompt("{'prompt':'", HTH_ANCHOR_BODY_BYTES_MAX - 12, "'}").n, 0);
}

TEST(nothing_is_too_deep)
{
    hth_buffer body = { .n = 0 };
    taken found;

    hth_buffer_add_text(&body, "{\"prompt\":[");
    for (size_t i = 0; i < 1000000; i++)
        hth_buffer_add(&body, "[", 1);
    assert_int_equal(take_bytes("s", body.text, body.n).n, 0);
    for (size_t i = 0; i < 1000000; i++)
        hth_buffer_add(&body, "]", 1);
    hth_buffer_add_text(&body, ",\"a\"]}");
    found = take_buffer(&body);
    assert_int_equal(end_of(&found), strlen("[,'a'") + 2000000);
}

TEST(a_million_elements_have_as_many_anchors_as_any)
{
    hth_buffer body = { .n = 0 };

    hth_buffer_add_text(&body, "{\"prompt\":[[]");
    for (size_t i = 0; i < 2000000; i++)
        hth_buffer_add_text(&body, ",[]");
    hth_buffer_add_text(&body, "]}");
    assert_in_range(take_buffer(&body).n, HTH_ANCHOR_ENDS, HTH_ANCHOR_ENDS + HTH_ANCHOR_STRIDES);
}

/* ---- bodies without a prompt ---- */

TEST(a_body_without_a_prompt_has_no_anchors)
{
    static const char *const bodies[] = {
        "",
        " ",
        "{}",
        "[]",
        "'messages'",
        "7",
        "null",
        "{'content':'a'}",
        "{'model':'m','system':'a'}",
        "[{'messages':['a']}]",
        "{'a':{'messages':['a']}}",
        "{'prompt':null}",
        "{'prompt':7,'messages':true}",
        "{'prompt':''}",
        "{'prompt':[]}",
        "{'messages':[ ]}",
        "Hello",
        "\xff\xfe",
        "{'messages'",
        "GET / HTTP/1.1",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        assert_int_equal(take(bodies[i]).n, 0);
    assert_int_equal(hth_api_anchors(NULL, 0, NULL, 0, (hth_anchor[HTH_ANCHORS_MAX]){ { 0 } }), 0);
}

TEST(an_empty_prompt_ends_with_its_head)
{
    const taken empty = take("{'system':'a','messages':[]}"), full = take("{'system':'a','messages':['b']}");

    assert_int_equal(empty.n, 1);
    assert_int_equal(full.n, 2);
    assert_int_equal(count_kept(&empty, &full), 1);
}

TEST(the_first_member_that_can_grow_is_the_prompt)
{
    const taken messages = take("{'messages':['a']}"), input = take("{'input':['a']}"),
                prompt = take("{'prompt':['a']}");
    taken found;

    assert_nothing_shared(&messages, &input);
    assert_nothing_shared(&messages, &prompt);
    found = take("{'prompt':['b'],'input':'c','messages':['a'],'messages':['d']}");
    assert_same(&found, &messages);
    found = take("{'prompt':['b'],'input':['a'],'messages':null}");
    assert_same(&found, &input);
    found = take("{'input':1,'prompt':['a']}");
    assert_same(&found, &prompt);
}

TEST(a_malformed_body_has_no_anchors)
{
    static const char *const bodies[] = {
        "{'messages':['a' 'b']}",
        "{'messages':['a',]}",
        "{'messages':[,'a']}",
        "{'messages':['a'}",
        "{'messages':['a'",
        "{'messages':['a'],'tools'",
        "{'messages':['a'];}",
        "{messages:['a']}",
        "{'messages':'a}",
        "{'messages' ['a']}",
        "{'tools':,'messages':['a']}",
        "{'messages':['a'],'b':'\\'}",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        assert_int_equal(take(bodies[i]).n, 0);
}

TEST(a_body_that_is_cut_off_has_no_anchors)
{
    for (size_t i = 0; i < sizeof(conversations) / sizeof(conversations[0]); i++) {
        char body[1000];
        const size_t n = strlen(conversations[i].turns[1]);

        assert_true(n < sizeof(body));
        for (size_t cut = 0; cut < n; cut++) {
            memcpy(body, conversations[i].turns[1], cut);
            body[cut] = '\0';
            assert_int_equal(take(body).n, 0);
        }
    }
}
