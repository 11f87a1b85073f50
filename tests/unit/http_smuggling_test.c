/*
 * http_smuggling_test.c - what one reader takes for the end of a request and another for its middle is no request here
 *
 * Each case comes with a request right behind it. Where the case is refused, that one must not be seen: another reader
 * on the way may have taken it for a part of the first one's body, or the other way round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/http_stage.h"

#define BEHIND "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
#define LINE "POST /echo HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED LINE "Transfer-Encoding: chunked\r\n\r\n"

static void open_stage(hth_test_http *stage)
{
    hth_http_options options = hth_http_options_default();

    options.headers_bytes_max = 4096;
    hth_test_http_open(stage, &options);
}

#define STAGED(name) TEST_WITH(hth_test_http, stage, name, open_stage, hth_test_http_close)

typedef struct refused {
    int status;
    const char *request;
} refused;

/* One refusal, the connection's end, and nothing handled; however the bytes come. */
static void expect_refused(hth_test_http *stage, const refused *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int in_pieces = 0; in_pieces < 2; in_pieces++) {
            hth_test_client client;
            int n_handled = stage->n_handled, status;

            hth_test_client_open(&client, stage);
            if (in_pieces)
                for (const char *at = cases[i].request; *at && client.n_heard == 0; at++) {
                    hth_test_client_say_bytes(&client, at, 1);
                    hth_test_client_listen(&client);
                }
            else
                hth_test_client_say(&client, cases[i].request);
            if (client.n_heard == 0)
                hth_test_client_say(&client, BEHIND);
            status = hth_test_client_hear_reply(&client);
            if (status != cases[i].status)
                fail_msg("%d instead of %d for '%s'", status, cases[i].status, cases[i].request);
            assert_non_null(strstr(client.heard, "Connection: close\r\n"));
            hth_test_client_forget(&client);
            hth_test_client_hear_end(&client);
            assert_int_equal(client.n_heard, 0);
            if (stage->n_handled != n_handled)
                fail_msg("something was handled of '%s'", cases[i].request);
            hth_test_client_close(&client);
        }
}

#define REFUSED(state, cases) expect_refused(state, cases, sizeof(cases) / sizeof((cases)[0]))

STAGED(lines_that_could_be_read_in_two_ways_are_refused)
{
    static const refused cases[] = {
        /* A longer word than any method: not taken for the one that it begins with. */
        { 501, "OPTIONSXXXXXXXXXXXXXXXXXXX /hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        /* What a browser keeps to itself; others cut it off, or do not. */
        { 400, "GET /hello#x HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello?a=b#/../admin HTTP/1.1\r\nHost: x\r\n\r\n" },
        /* Two hosts. */
        { 400, "GET http://y/hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET http://x.y/hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET http://x:81/hello HTTP/1.1\r\nHost: x:80\r\n\r\n" },
        { 400, "GET http://me@x/hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET http://y?a HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET http:/hello HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET //hello HTTP/1.1\nHost: x\r\n\r\n" },
        /* The server as a whole has options, and nothing else. */
        { 400, "GET * HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "POST * HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" },
        /* A text that ends before its end. */
        { 400, "GET /hello?model=tiny%00.evil HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello?model%00=tiny HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello%00 HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello%0 HTTP/1.1\r\nHost: x\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\rHost: x\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\n\rHost: x\r\n\r\n" },
        { 400, "GET /hello\x0bHTTP/1.1\r\nHost: x\r\n\r\n" },
    };

    REFUSED(stage, cases);
}

STAGED(headers_that_could_be_read_in_two_ways_are_refused)
{
    static const refused cases[] = {
        /* Of which does a proxy know, and of which a server? */
        { 400, "GET /hello HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\r\nX-Api-Key: a\r\nx-api-key: a\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\nOrigin: http://b\r\n\r\n" },
        { 400, "GET /hello HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n" },
        { 400, LINE "Expect: 100-continue\r\nExpect: x\r\nContent-Length: 5\r\n\r\nhello" },
        /* Names that are nearly others. */
        { 400, LINE "Content-Length : 5\r\n\r\nhello" },
        { 400, LINE "Content-Length\t: 5\r\n\r\nhello" },
        { 400, LINE "\tContent-Length: 5\r\n\r\nhello" },
        { 400, LINE "X: y\r\n Content-Length: 5\r\n\r\nhello" },
        { 400, LINE "X:\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
        { 400, LINE "X: y\nContent-Length: 5\r\n\r\nhello" },
        { 400, LINE "X: y\rContent-Length: 5\r\n\r\nhello" },
        { 400, LINE "Content-Length: 5\v\r\n\r\nhello" },
        { 400, LINE "Content-Length: 5\f\r\n\r\nhello" },
        { 400, LINE "Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello" },
        { 400, LINE "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
        { 400, LINE "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n" },
        { 501, LINE "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" },
        { 501, LINE "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" },
        { 501, LINE "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" },
        { 501, LINE "Transfer-Encoding:\r\n\r\n0\r\n\r\n" },
        { 400, LINE "Transfer-Encoding: \x0b"
                    "chunked\r\n\r\n0\r\n\r\n" },
        { 400, LINE "Transfer-Encoding: chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n" },
        { 400, "POST /echo HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
    };

    REFUSED(stage, cases);
}

STAGED(bodies_that_could_be_read_in_two_ways_are_refused)
{
    static const refused cases[] = {
        { 400, CHUNKED "1 x\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "1 1\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED " 1\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "1\t\x01\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "1;a\x01=b\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "1;a=b\x7f\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "1;a\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "1;a\rb\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "+1\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "1_\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED ";\r\n\r\n" },
        { 400, CHUNKED "2\r\nh\r\n0\r\n\r\n" },
        { 400, CHUNKED "1\r\nh\r0\r\n\r\n" },
        { 400, CHUNKED "1\r\nh0\r\n\r\n" },
        { 400, CHUNKED "1000000000001\r\n" },
        { 400, CHUNKED "0\r\nno colon\r\n\r\n" },
        { 400, CHUNKED "0\r\n folded: x\r\n\r\n" },
        { 400, CHUNKED "0\r\nA: b\r\n\tfolded\r\n\r\n" },
        { 400, CHUNKED "0\r\n: x\r\n\r\n" },
        { 400, CHUNKED "0\r\nA : b\r\n\r\n" },
        { 400, CHUNKED "0\r\nA: b\x01\r\n\r\n" },
        { 400, CHUNKED "0\r\nA: b\n\r\n" },
        { 400, CHUNKED "0\r\nA: b\rC: d\r\n\r\n" },
    };

    REFUSED(stage, cases);
}

/* So many requests are seen of these bytes, all of which are answered with 200 or 404. */
static void expect_handled(hth_test_http *stage, const char *bytes, int n)
{
    hth_test_client client;
    int n_handled = stage->n_handled;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, bytes);
    hth_test_http_until(stage,
                        stage->n_handled >= n_handled + n || (hth_test_client_listen(&client), client.is_at_end));
    for (int i = 0; i < 20; i++)
        hth_test_http_turn(stage);
    hth_test_client_listen(&client);
    if (stage->n_handled != n_handled + n || strstr(client.heard, "HTTP/1.1 4") != strstr(client.heard, "HTTP/1.1 404"))
        fail_msg("%d requests instead of %d in '%s': %s", stage->n_handled - n_handled, n, bytes, client.heard);
    hth_test_client_close(&client);
}

STAGED(what_can_be_read_in_one_way_only_is_taken)
{
    static const struct {
        int n;
        const char *bytes;
    } rows[] = {
        { 2, "GET http://x/hello HTTP/1.1\r\nHost: X\r\n\r\n" BEHIND },
        { 2, "GET https://x:1/hello?a HTTP/1.1\r\nHost: x:1\r\n\r\n" BEHIND },
        { 2, "GET http://x?a HTTP/1.1\r\nHost: x\r\n\r\n" BEHIND },
        { 2, "GET http://x HTTP/1.1\r\nHost: x\r\n\r\n" BEHIND },
        { 2, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n" BEHIND },
        { 2, "GET /hello?a=%41%2500 HTTP/1.1\r\nHost: x\r\n\r\n" BEHIND },
        { 2, "\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n\r\n" BEHIND },
        { 2, LINE "Content-Length: 0000000005\r\n\r\nhello" BEHIND },
        { 2, LINE "Content-Length: 5 \t\r\n\r\nhello" BEHIND },
        { 2, LINE "Content-Length: 32\r\n\r\n" BEHIND BEHIND },
        { 2, "GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 32\r\n\r\n" BEHIND BEHIND },
        { 2, CHUNKED "1;a=\"b;c\"\r\nh\r\n0\r\n\r\n" BEHIND },
        { 2, CHUNKED "1 ; a\r\nh\r\n0 \r\n\r\n" BEHIND },
        { 2, CHUNKED "00001\r\nh\r\n000\r\n\r\n" BEHIND },
        { 2, CHUNKED "0\r\nA: b\r\nContent-Length: 7\r\n\r\n" BEHIND },
        { 2, CHUNKED "20\r\n" BEHIND "\r\n0\r\n\r\n" BEHIND },
        /* Whoever wants to close is believed. */
        { 1, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" BEHIND },
        { 1, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Close\r\n\r\n" BEHIND },
        { 1, "GET /hello HTTP/1.0\r\nHost: x\r\n\r\n" BEHIND },
        { 2, "GET /hello HTTP/1.0\r\nHost: x\r\nConnection: Keep-Alive\r\n\r\n" BEHIND },
        { 1, "GET /hello HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n" BEHIND },
        { 1, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n" BEHIND },
        { 1, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n" BEHIND },
    };

    assert_int_equal(strlen(BEHIND), 32);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect_handled(stage, rows[i].bytes, rows[i].n);
}

STAGED(a_line_that_is_too_long_is_told_from_headers_that_are)
{
    char *text = malloc(8192);
    refused cases[] = { { 414, text }, { 431, text } };

    assert_non_null(text);
    memset(text, 'a', 8191);
    text[8191] = '\0';
    memcpy(text, "GET /", 5);
    expect_refused(stage, &cases[0], 1);
    memcpy(text, "GET / HTTP/1.1\r\nHost: x\r\nX: ", 28);
    expect_refused(stage, &cases[1], 1);
    free(text);
}

/* Headers without end, each of them short. */
STAGED(absurdly_many_headers_are_refused)
{
    char text[4096] = "GET /hello HTTP/1.1\r\nHost: x\r\n";
    const refused cases[] = { { 431, text } };

    for (int i = 0; i < 200; i++)
        memcpy(text + strlen(text), "A: b\r\n", 7);
    memcpy(text + strlen(text), "\r\n", 3);
    expect_refused(stage, cases, 1);
}
