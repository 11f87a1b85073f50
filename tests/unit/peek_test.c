/*
 * peek_test.c - the two fields that the front looks for in a body
 */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/peek.h"

static hth_api_peeked peek(const char *body)
{
    hth_api_peeked out;

    (void)hth_api_peek(body, strlen(body), &out); /* what was found is looked at */
    return out;
}

static void assert_model(const char *body, const char *model)
{
    hth_api_peeked out = peek(body);

    assert_int_equal(out.has_model, model != NULL);
    assert_string_equal(out.model, model ? model : "");
}

TEST(a_model_is_found_wherever_it_stands)
{
    assert_model("{\"model\":\"tiny\"}", "tiny");
    assert_model(" \t\r\n{ \"model\" : \"tiny\" , \"x\" : 1 } ", "tiny");
    assert_model(
        "{\"a\":[1,{\"model\":\"no\"}],\"b\":{\"model\":\"no\"},\"c\":\"\\\"model\\\":\\\\\",\"model\":\"yes\"}",
        "yes");
    assert_model("{\"a\":-1.5e+3,\"b\":true,\"c\":null,\"d\":\"]}\\\\\\\"\",\"model\":\"yes\"}", "yes");
}

TEST(escapes_are_decoded)
{
    assert_model("{\"model\":\"a\\/b\\\\c\\\"\\n\\u00e9\\u20ac\\ud83d\\ude00\"}",
                 "a/b\\c\"\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_model("{\"mod\\u0065l\":\"m\"}", "m");
}

TEST(what_is_no_text_is_no_model)
{
    assert_model("{\"model\":null}", NULL);
    assert_model("{\"model\":7}", NULL);
    assert_model("{\"model\":[\"m\"]}", NULL);
    assert_model("{\"model\":\"\\u0000\"}", NULL);
    assert_model("{\"model\":\"\\ud800\"}", NULL);
    assert_model("{\"model\":\"\\udc00x\"}", NULL);
    assert_model("{\"model\":\"\\q\"}", NULL);
    assert_model("{\"model\":\"line\nbreak\"}", NULL);
    assert_model("{\"model\":\"open", NULL);
    assert_model("[\"model\",\"m\"]", NULL);
    assert_model("\"model\"", NULL);
    assert_model("", NULL);
    assert_model("{", NULL);
    assert_model("{}", NULL);
    assert_model("{\"models\":\"m\",\"mode\":\"m\",\"Model\":\"m\"}", NULL);
}

TEST(of_two_the_first_counts)
{
    assert_model("{\"model\":\"first\",\"model\":\"second\"}", "first");
    assert_true(peek("{\"stream\":true,\"stream\":false}").stream);
}

TEST(nothing_is_found_behind_what_is_no_json)
{
    assert_model("{\"a\":}\"model\":\"m\"}", NULL);
    assert_model("{\"a\" 1,\"model\":\"m\"}", NULL);
    assert_model("{,\"model\":\"m\"}", NULL);
    assert_model("{\"a\":[1,\"model\":\"m\"}", NULL);
    assert_model("{a:1,\"model\":\"m\"}", NULL);
    assert_model("{\"model\":\"m\",]", "m");
}

TEST(stream_is_true_or_false)
{
    hth_api_peeked out;

    out = peek("{\"stream\":true,\"model\":\"m\"}");
    assert_true(out.has_stream && out.stream && out.has_model);
    out = peek("{\"model\":\"m\",\"stream\": false}");
    assert_true(out.has_stream && !out.stream);
    out = peek("{\"stream\":1,\"model\":\"m\"}");
    assert_true(!out.has_stream && !out.stream && out.has_model);
    out = peek("{\"stream\":null,\"model\":\"m\"}");
    assert_true(!out.has_stream && out.has_model);
}

TEST(another_key_may_name_the_model)
{
    static const char body[] = "{\"model\":\"a\",\"name\":\"b\",\"stream\":true}";
    hth_api_peeked out;

    assert_true(hth_api_peek_as(body, strlen(body), "name", &out));
    assert_string_equal(out.model, "b");
    assert_true(hth_api_peek(body, strlen(body), &out));
    assert_string_equal(out.model, "a");
}

TEST(an_object_that_was_read_is_told_from_what_is_none)
{
    hth_api_peeked out;

    assert_true(hth_api_peek("{}", 2, &out));
    assert_true(hth_api_peek("{\"a\":1}", 7, &out));
    assert_true(hth_api_peek("{\"model\":\"m\",\"stream\":true,", 27, &out)); /* nothing more is asked for */
    assert_false(hth_api_peek("{\"a\":1", 6, &out));
    assert_false(hth_api_peek("[]", 2, &out));
    assert_false(hth_api_peek("x", 1, &out));
}

TEST(a_name_too_long_is_cut_and_said_to_be)
{
    char body[1024], name[512];
    hth_api_peeked out;

    memset(name, 'n', sizeof(name));
    for (size_t n = 254; n < 260; n++) {
        (void)snprintf(body, sizeof(body), "{\"model\":\"%.*s\",\"stream\":true}", (int)n, name);
        out = peek(body);
        assert_true(out.has_model && out.stream);
        assert_int_equal(out.model_is_cut, n > HTH_API_PEEK_MODEL_BYTES_MAX);
        assert_true(strlen(out.model) <= HTH_API_PEEK_MODEL_BYTES_MAX);
        if (!out.model_is_cut)
            assert_int_equal(strlen(out.model), n);
    }
    (void)snprintf(body, sizeof(body), "{\"model\":\"%.255s\xc3\xa9\"}", name);
    out = peek(body);
    assert_true(out.model_is_cut);
    assert_int_equal(strlen(out.model), 255);
}

TEST(no_end_of_a_body_is_read_beyond)
{
    static const char body[] = "{\"a\":{\"b\":[\"\\\\\\\"\",{}]},\"stre\\u0061m\":true,\"model\":\"\\ud83d\\ude00\"}";
    hth_api_peeked out;

    for (size_t n = 0; n < sizeof(body); n++) {
        char *exact = malloc(n ? n : 1); /* the sanitizer watches its end */

        assert_non_null(exact);
        memcpy(exact, body, n);
        assert_int_equal(hth_api_peek(exact, n, &out), n >= sizeof(body) - 2);
        free(exact);
    }
}

TEST(hostile_bodies_cost_one_pass)
{
    size_t n = (size_t)4 << 20;
    char *body = malloc(n);
    hth_api_peeked out;

    assert_non_null(body);
    memset(body, '[', n);
    memcpy(body, "{\"a\":", 5);
    assert_false(hth_api_peek(body, n, &out));
    memset(body, '\\', n);
    memcpy(body, "{\"a\":\"", 6);
    assert_false(hth_api_peek(body, n, &out));
    for (size_t i = 6; i + 1 < n; i += 2)
        memcpy(body + i, "\\\"", 2);
    assert_false(hth_api_peek(body, n, &out));
    memcpy(body, "{\"model\":\"", 10);
    assert_false(hth_api_peek(body, n, &out));
    free(body);
}

static bool peek_past(const char *body, hth_api_peeked_past *out)
{
    return hth_api_peek_past(body, strlen(body), out);
}

TEST(responses_that_are_named_are_found_once)
{
    static const char body[] =
        "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"item_reference\",\"id\":\"msg_no_0\"}]},"
        "{\"type\":\"item_reference\",\"id\":\"msg_a_0\"},7,{},{\"id\":\"rs_b_12\"},{\"id\":\"fc_c_1\",\"type\":"
        "\"function_call\"},{\"id\":\"none\",\"type\":\"item_reference\"},{\"id\":\"x_\",\"type\":\"item_reference\"}],"
        "\"previous_response_id\":\"resp_a\",\"model\":\"m\"}";
    hth_api_peeked_past past;

    assert_true(hth_api_peek_past(body, sizeof(body) - 1, &past));
    assert_int_equal(past.n, 2);
    assert_string_equal(past.ids[0], "resp_a");
    assert_string_equal(past.ids[1], "resp_b");
    assert_true(peek_past("{\"previous_response_id\":null,\"input\":\"[\"}", &past));
    assert_int_equal(past.n, 0);
    assert_true(peek_past("\xEF\xBB\xBF{\"previous_response_id\":\"resp_a\"}", &past)); /* behind a byte order mark */
    assert_int_equal(past.n, 1);
    assert_true(peek_past("{\"previous_response_id\":\"../../x\"}", &past));
    assert_int_equal(past.n, 0);
}

TEST(no_end_of_a_body_is_read_beyond_for_responses)
{
    static const char body[] = "{\"a\":[{}],\"input\":[\"x\",{\"type\":\"item_reference\",\"id\":\"msg_a_0\"}],"
                               "\"previous_response_id\":\"resp_\\u0061\"}";
    hth_api_peeked_past past;

    for (size_t n = 0; n < sizeof(body); n++) {
        char *copy = malloc(n ? n : 1);

        memcpy(copy, body, n);
        assert_int_equal(hth_api_peek_past(copy, n, &past), n == sizeof(body) - 1);
        free(copy);
    }
}

TEST(the_time_that_a_model_stays_is_found)
{
    static const struct {
        const char *value;
        bool is_found;
        uint64_t ms;
    } rows[] = {
        { "300", true, 300000 },    { "0", true, 0 },
        { "-1", true, UINT64_MAX }, { "0.5", true, 500 },
        { "3e2", true, 300000 },    { "1e300", true, UINT64_MAX },
        { "\"5m\"", true, 300000 }, { "\"1h30m\"", true, 5400000 },
        { "\"1.5s\"", true, 1500 }, { "\"300ms\"", true, 300 },
        { "\"60\"", true, 60000 },  { "\"-1m\"", true, UINT64_MAX },
        { "\"-0\"", true, 0 },      { "\"1ns\"", true, 1 },
        { "\"\"", false, 7 },       { "\"-\"", false, 7 },
        { "\".\"", false, 7 },      { "\"1.2.3s\"", false, 7 },
        { "\"5 m\"", false, 7 },    { "\"soon\"", false, 7 },
        { "null", false, 7 },       { "nan", false, 7 },
        { "[1]", false, 7 },        { "{\"keep_alive\":1}", false, 7 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[128];
        uint64_t ms = 7;
        bool is_found;

        (void)snprintf(body, sizeof(body), "{\"model\":\"m\",\"x\":[{}],\"keep_alive\":%s,\"y\":1}", rows[i].value);
        is_found = hth_api_peek_keep_alive(body, strlen(body), &ms);
        if (is_found != rows[i].is_found || ms != rows[i].ms)
            fail_msg("%s gives %d, %llu", rows[i].value, is_found, (unsigned long long)ms);
        (void)hth_api_peek_keep_alive(body, strlen(body) / 2, &ms); /* reads nothing beyond its end */
    }
}

TEST(not_more_responses_are_looked_for_than_there_is_room_for)
{
    char body[8192] = "{\"input\":[{}";
    hth_api_peeked_past past;

    for (int i = 0; i < 40; i++)
        (void)snprintf(body + strlen(body), sizeof(body) - strlen(body), ",{\"id\":\"msg_%d_0\"}", i);
    (void)snprintf(body + strlen(body), sizeof(body) - strlen(body), ",{\"id\":\"msg_%0100d_0\"}]}", 7);
    assert_true(hth_api_peek_past(body, strlen(body), &past));
    assert_int_equal(past.n, HTH_API_PEEK_PAST_MAX);
    assert_string_equal(past.ids[15], "resp_15");
}
