/*
 * reply_reading_test.c - two texts of a reply say the same, or do not
 */
#include <stdio.h>
#include <string.h>

#include "models/reply_reading.h"
#include "stub/backend.h"
#include "support/cmocka_all.h"

static bool same(const char *a, const char *b)
{
    bool one = hth_same_json(a, strlen(a), b, strlen(b)), other = hth_same_json(b, strlen(b), a, strlen(a));

    assert_int_equal(one, other);
    return one;
}

TEST(blanks_and_escapes_do_not_matter)
{
    assert_true(same("{\"a\":1,\"b\":[true,null]}", "{ \"a\" : 1 ,\n\t\"b\" : [ true , null ] }"));
    assert_true(same("{\"a\":\"\u00e9\U0001f600/\\n\"}", "{\"a\":\"\\u00E9\\ud83d\\uDE00\\/\\u000a\"}"));
    assert_true(same("", " "));
    assert_true(same("{}", "{ }"));
}

TEST(everything_else_matters)
{
    static const char *const rows[][2] = {
        { "{\"a\":1}", "{\"a\":2}" },
        { "{\"a\":1}", "{\"a\":1.0}" },
        { "{\"a\":12}", "{\"a\":1 2}" },
        { "[tr ue]", "[true]" },
        { "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}" },
        { "{\"a\":\"x y\"}", "{\"a\":\"xy\"}" },
        { "{\"a\":\"1\"}", "{\"a\":1}" },
        { "{\"a\":\"\\\"\"}", "{\"a\":\"\"}" },
        { "{\"a\":\"", "{\"a\":\"" }, /* no JSON */
        { "{\"a\":\"\\x\"}", "{\"a\":\"\\x\"}" },
        { "{\"a\":\"\\ud83d\"}", "{\"a\":\"\\ud83d\"}" },
        { "{}", "{}}" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (same(rows[i][0], rows[i][1]))
            fail_msg("'%s' is not '%s'", rows[i][0], rows[i][1]);
}

static bool say_the_same(const char *a, const char *b)
{
    hth_reply_reading reading = { .backend = hth_backend_stub(), .parser = "stubcr" };
    bool result = hth_reply_says_the_same(a, strlen(a), b, strlen(b), &reading);

    hth_reply_reading_end(&reading);
    return result;
}

TEST(replies_say_the_same_by_their_parts)
{
    assert_true(say_the_same("Hello<call>f {\"a\":1}</call>", "Hello<call>f {\"a\": 1}</call>"));
    assert_true(say_the_same("<think>hm</think>Hello", "<think>hm</think>Hello"));
    assert_false(say_the_same("<think>hm</think>Hello<call>f {}</call>", "Hello<call>f {}</call>"));
    assert_false(say_the_same("Hello<call>f {}</call>", "Hallo<call>f {}</call>"));
    assert_false(say_the_same("<call>f {}</call>", "<call>g {}</call>"));
    assert_false(say_the_same("<call>f {}</call>", "<call>f {}</call><call>f {}</call>"));
    assert_false(say_the_same("<call>f {\"a\":1}</call>", "<call>f {\"a\":2}</call>"));
}

TEST(without_a_reader_nothing_is_the_same)
{
    hth_reply_reading reading = { .backend = hth_backend_stub(), .parser = "another" };

    assert_false(hth_reply_says_the_same("a", 1, "a", 1, &reading));
    hth_reply_reading_end(&reading);
}
