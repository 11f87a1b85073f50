/*
 * http_test.c - requests of all forms, what is refused, and whole replies
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support/cmocka_all.h"
#include "support/http_stage.h"

static void open_stage(hth_test_http *stage)
{
    hth_http_options options = hth_http_options_default();

    options.headers_bytes_max = 4096;
    options.body_bytes_max = 100000;
    options.server_name = "hearth";
    hth_test_http_open(stage, &options);
}

#define FIXTURE_TEST(name) TEST_WITH(hth_test_http, stage, name, open_stage, hth_test_http_close)

/* The reply to what is said on a new connection, which is closed again; the client's heard is the caller's to free. */
static int ask(hth_test_http *stage, const char *text, char **heard_out)
{
    hth_test_client client;
    int status;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, text);
    status = hth_test_client_hear_reply(&client);
    if (heard_out)
        *heard_out = strdup(client.heard);
    hth_test_client_close(&client);
    return status;
}

FIXTURE_TEST(a_request_gets_a_reply_with_length_type_date_and_server)
{
    char *heard;

    assert_int_equal(ask(stage, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", &heard), 200);
    assert_int_equal(strncmp(heard, "HTTP/1.1 200 OK\r\n", 17), 0);
    assert_non_null(strstr(heard, "\r\nContent-Length: 6\r\n"));
    assert_non_null(strstr(heard, "\r\nContent-Type: text/plain\r\n"));
    assert_non_null(strstr(heard, "\r\nServer: hearth\r\n"));
    assert_non_null(strstr(heard, "\r\nDate: "));
    assert_non_null(strstr(heard, " GMT\r\n"));
    assert_null(strstr(heard, "Connection:"));
    assert_non_null(strstr(heard, "\r\n\r\nhello\n"));
    free(heard);
}

FIXTURE_TEST(a_request_may_come_byte_by_byte)
{
    static const char *const requests[] = {
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
        "2\r\nhe\r\n003;a=\"b\" ;c\r\nllo\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n",
    };

    for (size_t i = 0; i < 2; i++) {
        hth_test_client client;

        hth_test_client_open(&client, stage);
        for (const char *c = requests[i]; *c; c++) {
            hth_test_client_say_bytes(&client, c, 1);
            hth_test_http_turn(stage);
        }
        assert_int_equal(hth_test_client_hear_reply(&client), 200);
        assert_string_equal(hth_test_client_body(&client), "hello");
        assert_non_null(strstr(client.heard, "X-Length: 5\r\n"));
        hth_test_client_close(&client);
    }
}

FIXTURE_TEST(empty_lines_before_a_request_are_skipped_however_they_come)
{
    hth_test_client client;

    hth_test_client_open(&client, stage);
    for (int i = 0; i < 3; i++) {
        hth_test_client_say(&client, "\r");
        hth_test_http_turn(stage);
        hth_test_client_say(&client, "\n\r\n");
        hth_test_http_turn(stage);
        hth_test_client_say(&client, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_int_equal(hth_test_client_hear_reply(&client), 200);
        hth_test_client_forget(&client);
    }
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_handler_sees_method_path_headers_and_peer)
{
    char *heard;

    assert_int_equal(ask(stage, "PATCH /echo/a%20b%2Fc+d?q=1 HTTP/1.1\r\nHost: x\r\n\r\n", &heard), 200);
    assert_non_null(strstr(heard, "X-Method: PATCH\r\n"));
    assert_non_null(strstr(heard, "X-Path: /echo/a b/c+d\r\n"));
    assert_non_null(strstr(heard, "X-Tag: 7\r\n"));
    assert_non_null(strstr(heard, "X-Peer: 127.0.0.1\r\n"));
    free(heard);
    assert_int_equal(ask(stage, "GET http://host:80/echo HTTP/1.1\r\nHost: host:80\r\n\r\n", &heard), 200);
    assert_non_null(strstr(heard, "X-Path: /echo\r\n"));
    free(heard);
    /* What clients join wrongly is put right; what is encoded is a name's. */
    assert_int_equal(ask(stage, "GET //echo///a//b/?q=1 HTTP/1.1\r\nHost: x\r\n\r\n", &heard), 200);
    assert_non_null(strstr(heard, "X-Path: /echo/a/b\r\n"));
    free(heard);
    assert_int_equal(ask(stage, "GET /echo/a%2F%2Fb%2F HTTP/1.1\r\nHost: x\r\n\r\n", &heard), 200);
    assert_non_null(strstr(heard, "X-Path: /echo/a//b/\r\n"));
    free(heard);
    /* Without a path it is "/", for which there is nothing; but it is a request. */
    assert_int_equal(ask(stage, "GET http://host HTTP/1.1\r\nHost: host\r\n\r\n", NULL), 404);
    assert_int_equal(ask(stage, "GET https://host?x HTTP/1.1\r\nHost: host\r\n\r\n", NULL), 404);
    assert_int_equal(ask(stage, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", NULL), 404);
}

FIXTURE_TEST(queries_and_headers_are_found_by_name)
{
    hth_test_client client;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, "GET /hold?a=1&b+c=x%26y+z&empty=&bare&a=2&%41=up HTTP/1.1\r\nhost: x\r\n"
                                 "X-One:  spaces around \t\r\nX-two:\r\n\r\n");
    hth_test_http_until(stage, stage->held);
    assert_string_equal(hth_http_query(stage->held, "a"), "1");
    assert_string_equal(hth_http_query(stage->held, "b c"), "x&y z");
    assert_string_equal(hth_http_query(stage->held, "empty"), "");
    assert_string_equal(hth_http_query(stage->held, "bare"), "");
    assert_string_equal(hth_http_query(stage->held, "A"), "up");
    assert_null(hth_http_query(stage->held, "none"));
    assert_string_equal(hth_http_header(stage->held, "HOST"), "x");
    assert_string_equal(hth_http_header(stage->held, "x-one"), "spaces around");
    assert_string_equal(hth_http_header(stage->held, "X-Two"), "");
    assert_null(hth_http_header(stage->held, "X-Three"));
    hth_http_reply(stage->held, 200, NULL, NULL, 0);
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
}

FIXTURE_TEST(requests_sent_at_once_are_answered_in_order)
{
    hth_test_client client;
    const char *one, *two, *three;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client,
                        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none"
                        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"
                        "\r\nGET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                        "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    hth_test_client_hear_end(&client);
    one = strstr(client.heard, "\r\n\r\none");
    two = strstr(client.heard, "\r\n\r\ntwo");
    three = strstr(client.heard, "\r\n\r\nhello\n");
    assert_true(one && two && three && one < two && two < three);
    assert_null(strstr(client.heard, "404"));
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_connection_stays_as_long_as_its_client_wants)
{
    static const struct {
        const char *request;
        bool stays;
        const char *says;
    } cases[] = {
        { "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", true, NULL },
        { "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false, "Connection: close\r\n" },
        { "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: Upgrade , Close\r\n\r\n", false, "Connection: close\r\n" },
        { "GET /hello HTTP/1.0\r\n\r\n", false, "Connection: close\r\n" },
        { "GET /hello HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, "Connection: keep-alive\r\n" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        hth_test_client client;

        hth_test_client_open(&client, stage);
        hth_test_client_say(&client, cases[i].request);
        assert_int_equal(hth_test_client_hear_reply(&client), 200);
        assert_true(cases[i].says ? strstr(client.heard, cases[i].says) != NULL : !strstr(client.heard, "Connection:"));
        if (cases[i].stays) {
            hth_test_client_forget(&client);
            hth_test_client_say(&client, cases[i].request);
            assert_int_equal(hth_test_client_hear_reply(&client), 200);
        } else {
            hth_test_client_hear_end(&client);
            assert_false(client.was_reset);
        }
        hth_test_client_close(&client);
    }
}

FIXTURE_TEST(replies_without_a_body_leave_the_connection_in_step)
{
    hth_test_client client;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    (void)hth_test_client_hear(&client, "\r\n\r\n"); /* where does not matter */
    assert_non_null(strstr(client.heard, "Content-Length: 6\r\n"));
    assert_string_equal(hth_test_client_body(&client), "");
    hth_test_client_forget(&client);
    hth_test_client_say(&client, "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(hth_test_client_hear_reply(&client), 204);
    assert_null(strstr(client.heard, "Content-Length"));
    assert_string_equal(hth_test_client_body(&client), "");
    hth_test_client_forget(&client);
    hth_test_client_say(&client, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    assert_string_equal(hth_test_client_body(&client), "hello\n");
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_client_that_asks_first_is_told_to_continue)
{
    hth_test_client client;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-Continue\r\n\r\n");
    (void)hth_test_client_hear(&client, "HTTP/1.1 100 Continue\r\n\r\n"); /* where does not matter */
    hth_test_client_forget(&client);
    hth_test_client_say(&client, "body");
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    assert_string_equal(hth_test_client_body(&client), "body");
    hth_test_client_close(&client);

    /* What would be refused is refused before it is sent. */
    assert_int_equal(
        ask(stage, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\nExpect: 100-continue\r\n\r\n", NULL),
        413);
    /* Nothing to wait for. */
    assert_int_equal(
        ask(stage, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n", NULL), 200);
}

#define LINE "POST /echo HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED LINE "Transfer-Encoding: chunked\r\n\r\n"

FIXTURE_TEST(what_could_be_read_in_two_ways_is_refused)
{
    static const struct {
        int status;
        const char *request;
    } cases[] = {
        /* Lines. */
        { 400, "GET /hello HTTP/1.1\nHost: x\n\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\n\r\n" },
        { 400, "\r\n\n" },
        { 400, "GET  /hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello  HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1 \r\nHost: x\r\n\r\n" },
        { 400, "GET /hello\r\nHost: x\r\n\r\n" },
        { 400, "GET\r\n\r\n" },
        { 400, "GET /hello http/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello HTTP/1.10\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello HTTP/11\r\nHost: x\r\n\r\n" },
        { 505, "PRI * HTTP/2.0\r\n\r\n" },
        { 400, "G(T /hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, " GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 501, "AVERYLONGMETHODTHATNOBODYHAS /hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "CONNECT host:80 HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /a\tb HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /a\x7f HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /%4 HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n" },
        /* Headers. */
        { 400, "GET /hello HTTP/1.1\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost : x\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\r\n: no name\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\x01y\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\ry\r\n\r\n" },
        { 417, LINE "Expect: miracles\r\n\r\n" },
        /* Where the body ends. */
        { 400, LINE "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" },
        { 400, LINE "Content-Length: 5, 5\r\n\r\nhello" },
        { 400, LINE "Content-Length: +5\r\n\r\nhello" },
        { 400, LINE "Content-Length: -1\r\n\r\n" },
        { 400, LINE "Content-Length: 0x5\r\n\r\nhello" },
        { 400, LINE "Content-Length: 5 5\r\n\r\nhello" },
        { 400, LINE "Content-Length:\r\n\r\n" },
        { 400, LINE "Content-Length: 99999999999999999999999999\r\n\r\n" },
        { 400, LINE "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
        { 400, LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
        { 400, "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
        { 501, LINE "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" },
        { 501, LINE "Transfer-Encoding: identity\r\n\r\n" },
        { 501, LINE "Transfer-Encoding: xchunked\r\n\r\n" },
        { 400, CHUNKED "x\r\n" },
        { 400, CHUNKED "\r\n" },
        { 400, CHUNKED "-1\r\n" },
        { 400, CHUNKED "0x1\r\nh\r\n" },
        { 400, CHUNKED "1\nh\r\n" },
        { 400, CHUNKED "1\r\nhello\r\n" },
        { 400, CHUNKED "1\r\nh\n" },
        { 400, CHUNKED "1;\n" },
        { 400, CHUNKED "0\r\nTrailer: x\n" },
        { 400, CHUNKED "0\r\n\rx" },
        { 400, CHUNKED "fffffffffffffffff\r\n" },
        /* Too much. */
        { 413, LINE "Content-Length: 100001\r\n\r\n" },
        { 413, LINE "Content-Length: 999999999999999999\r\n\r\n" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        hth_test_client client;
        int n_handled = stage->n_handled, status;

        hth_test_client_open(&client, stage);
        hth_test_client_say(&client, cases[i].request);
        status = hth_test_client_hear_reply(&client);
        if (status != cases[i].status)
            fail_msg("%d instead of %d for '%s'", status, cases[i].status, cases[i].request);
        assert_non_null(strstr(client.heard, "Content-Type: application/json\r\n"));
        assert_non_null(strstr(client.heard, "Connection: close\r\n"));
        assert_non_null(strstr(client.heard, "{\"error\":{\"message\":\""));
        hth_test_client_hear_end(&client);
        assert_int_equal(stage->n_handled, n_handled);
        hth_test_client_close(&client);
    }
}

FIXTURE_TEST(a_nul_byte_is_refused_everywhere)
{
    static const char request[] = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";

    for (size_t i = 0; i < sizeof(request) - 5; i++) {
        char bytes[sizeof(request)];
        hth_test_client client;

        memcpy(bytes, request, sizeof(request));
        bytes[i] = '\0';
        hth_test_client_open(&client, stage);
        hth_test_client_say_bytes(&client, bytes, sizeof(request) - 1);
        assert_int_equal(hth_test_client_hear_reply(&client), 400);
        hth_test_client_close(&client);
    }
}

FIXTURE_TEST(too_many_or_too_large_headers_are_refused_with_their_own_status)
{
    char text[8192] = "GET /hello HTTP/1.1\r\nHost: x\r\n";
    size_t n = strlen(text);

    /* 4096 bytes are allowed. */
    memset(text + n, 'a', 5000);
    text[n + 5000] = '\0';
    assert_int_equal(ask(stage, text, NULL), 431);
    (void)snprintf(text + n, sizeof(text) - n, "X: %0*d\r\n\r\n", 4096 - (int)n - 7, 0);
    assert_int_equal(strlen(text), 4096);
    assert_int_equal(ask(stage, text, NULL), 200);
    (void)snprintf(text + n, sizeof(text) - n, "X: %0*d\r\n\r\n", 4096 - (int)n - 6, 0);
    assert_int_equal(ask(stage, text, NULL), 431);

    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "H%d: x\r\n", i);
    (void)snprintf(text + n, sizeof(text) - n, "\r\n");
    assert_int_equal(ask(stage, text, NULL), 431);
}

FIXTURE_TEST(a_body_at_its_limit_is_taken_and_one_beyond_is_not)
{
    for (int excess = 0; excess <= 1; excess++) {
        char *text = malloc(200000);
        size_t n = (size_t)100000 + (size_t)excess;
        int head = snprintf(text, 200000, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", n);

        memset(text + head, 'x', n);
        text[(size_t)head + n] = '\0';
        assert_int_equal(ask(stage, text, NULL), excess ? 413 : 200);
        head = snprintf(text, 200000, CHUNKED "%x\r\n", (unsigned)n - 1);
        memset(text + head, 'x', n - 1);
        (void)snprintf(text + (size_t)head + n - 1, 100, "\r\n1\r\ny\r\n0\r\n\r\n");
        assert_int_equal(ask(stage, text, NULL), excess ? 413 : 200);
        free(text);
    }
}

FIXTURE_TEST(a_client_that_goes_on_sending_still_gets_its_refusal)
{
    hth_test_client client;
    char *block = calloc(1, 1 << 20);

    assert_non_null(block);
    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n");
    for (int i = 0; i < 8; i++)
        hth_test_client_say_bytes(&client, block, 1 << 20);
    assert_int_equal(hth_test_client_hear_reply(&client), 413);
    hth_test_client_hear_end(&client);
    assert_false(client.was_reset);
    hth_test_client_close(&client);
    free(block);
}

static const char *write_error(int status, const char *why, const char *path, void *user_data)
{
    static char text[512];

    assert_non_null(user_data);
    (void)snprintf(text, sizeof(text), "{\"own\":%d,\"why\":\"%s\",\"path\":\"%s\"}", status, why, path);
    return text;
}

FIXTURE_TEST(a_refusal_has_the_servers_own_form)
{
    char *heard;

    hth_http_server_set_errors(stage->server, write_error);
    assert_int_equal(ask(stage, "POST /v1/a%20b HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n", &heard), 413);
    assert_non_null(strstr(heard, "{\"own\":413,\"why\":\"the request's body is larger than this server takes\","
                                  "\"path\":\"/v1/a b\"}"));
    free(heard);
    assert_int_equal(ask(stage, "nonsense\r\n\r\n", &heard), 400);
    assert_non_null(strstr(heard, "{\"own\":400,"));
    assert_non_null(strstr(heard, "\"path\":\"\"}"));
    free(heard);
}

FIXTURE_TEST(nothing_that_a_handler_passes_on_breaks_a_reply)
{
    static const struct {
        const char *name, *value, *type, *expected;
    } cases[] = {
        { "X-Good", "value", "text/plain", "X-Good: value\r\n" },
        { "X-Bad", "a\r\nSet-Cookie: evil", "text/plain", NULL },
        { "X-Bad", "a\nevil: b", "text/plain", NULL },
        { "X-Bad: x\r\nevil", "a", "text/plain", NULL },
        { "", "a", "text/plain", NULL },
        { "X-Good", "b", "text/plain\r\nevil: c", "application/octet-stream" },
        { "Content-Length", "100", "text/plain", "Content-Length: 1\r\n" },
        { "transfer-encoding", "chunked", "text/plain", "Content-Length: 1\r\n" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *heard;

        stage->add_name = cases[i].name;
        stage->add_value = cases[i].value;
        stage->content_type = cases[i].type;
        assert_int_equal(ask(stage, "GET /headers HTTP/1.1\r\nHost: x\r\n\r\n", &heard), 200);
        assert_null(strstr(heard, "evil"));
        assert_null(strstr(heard, "100\r\n"));
        assert_null(strcasestr(heard, "transfer-encoding"));
        assert_true(!cases[i].expected || strstr(heard, cases[i].expected));
        free(heard);
    }
}

FIXTURE_TEST(a_large_reply_arrives_whole_at_a_client_that_reads_slowly)
{
    hth_test_client client;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, "GET /big HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 50; i++)
        hth_test_http_turn(stage);
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    (void)hth_test_client_hear(&client, "hello\n"); /* at the end */
    assert_int_equal(strspn(hth_test_client_body(&client), "b"), HTH_TEST_BIG_BYTES);
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_client_that_closed_its_half_behind_a_request_gets_the_reply_that_was_ready)
{
    hth_test_client client;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, "GET /big HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    hth_test_client_hear_end(&client);
    assert_false(client.was_reset);
    assert_int_equal(strspn(hth_test_client_body(&client), "b"), HTH_TEST_BIG_BYTES);
    assert_non_null(strstr(hth_test_client_body(&client), "hello\n"));
    hth_test_client_close(&client);
}
