/*
 * http_stream_test.c - replies in pieces, writers that are too fast, and clients that go away
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support/cmocka_all.h"
#include "support/http_stage.h"

enum { AHEAD_BYTES = 64 << 10 }; /* the server reads 48 KiB */

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void open_stage(hth_test_http *stage)
{
    hth_test_http_open(stage, NULL);
}

#define FIXTURE_TEST(name) TEST_WITH(hth_test_http, stage, name, open_stage, hth_test_http_close)

/* A client whose request the handler has. */
static void open_pending(hth_test_client *client, hth_test_http *stage, const char *request)
{
    hth_test_client_open(client, stage);
    hth_test_client_say(client, request);
    hth_test_http_until(stage, stage->held);
}

static void write_text(hth_test_http *stage, const char *text)
{
    hth_http_stream_write(stage->held, text, strlen(text));
}

/* ---- pieces ---- */

FIXTURE_TEST(a_piece_arrives_before_the_next_is_written)
{
    hth_test_client client;

    open_pending(&client, stage, GET("/stream"));
    (void)hth_test_client_hear(&client, "\r\n\r\n"); /* the head comes first, by itself */
    assert_non_null(strstr(client.heard, "Transfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(client.heard, "Content-Type: text/event-stream\r\n"));
    assert_null(strstr(client.heard, "Content-Length"));
    write_text(stage, "one");
    (void)hth_test_client_hear(&client, "\r\n\r\n3\r\none\r\n"); /* where does not matter, here and below */
    hth_http_stream_write(stage->held, "", 0);                   /* is no end */
    write_text(stage, "a longer one");
    (void)hth_test_client_hear(&client, "3\r\none\r\nc\r\na longer one\r\n");
    assert_int_equal(hth_http_server_numbers(stage->server).n_exchanges, 1);
    hth_http_stream_end(stage->held);
    assert_int_equal(hth_http_server_numbers(stage->server).n_exchanges, 0);
    (void)hth_test_client_hear(&client, "a longer one\r\n0\r\n\r\n");
    hth_test_client_forget(&client);
    hth_test_client_say(&client, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
    assert_int_equal(stage->n_closed, 0);
}

FIXTURE_TEST(a_stream_of_http_1_0_ends_with_its_connection)
{
    hth_test_client client;

    open_pending(&client, stage, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    write_text(stage, "one");
    write_text(stage, "two");
    (void)hth_test_client_hear(&client, "\r\n\r\nonetwo"); /* where does not matter */
    hth_http_stream_end(stage->held);
    hth_test_client_hear_end(&client);
    assert_false(client.was_reset);
    assert_string_equal(hth_test_client_body(&client), "onetwo");
    assert_null(strstr(client.heard, "chunked"));
    assert_non_null(strstr(client.heard, "Connection: close\r\n"));
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_stream_for_head_is_a_head)
{
    hth_test_client client;

    open_pending(&client, stage, "HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    write_text(stage, "one");
    hth_http_stream_end(stage->held);
    hth_test_client_say(&client, GET("/hello"));
    (void)hth_test_client_hear(&client, "hello\n"); /* where does not matter */
    assert_int_equal(strncmp(hth_test_client_body(&client), "HTTP/1.1 200 OK\r\n", 17), 0);
    hth_test_client_close(&client);
}

FIXTURE_TEST(an_aborted_stream_is_seen_to_be_incomplete)
{
    hth_test_client client;

    open_pending(&client, stage, GET("/stream"));
    write_text(stage, "one");
    (void)hth_test_client_hear(&client, "one\r\n"); /* where does not matter */
    hth_http_abort(stage->held);
    hth_test_client_hear_end(&client);
    assert_string_equal(hth_test_client_body(&client), "3\r\none\r\n");
    hth_test_client_close(&client);

    stage->held = NULL;
    open_pending(&client, stage, "GET /stream HTTP/1.0\r\n\r\n");
    write_text(stage, "one");
    (void)hth_test_client_hear(&client, "one"); /* where does not matter */
    hth_http_abort(stage->held);
    hth_test_client_hear_end(&client);
    assert_true(client.was_reset);
    hth_test_client_close(&client);
    assert_int_equal(stage->n_closed, 0);
}

FIXTURE_TEST(a_request_can_be_cut_off_without_a_reply)
{
    hth_test_client client;

    open_pending(&client, stage, GET("/hold"));
    hth_http_abort(stage->held);
    hth_test_client_hear_end(&client);
    assert_int_equal(client.n_heard, 0);
    assert_int_equal(stage->n_closed, 0);
    hth_test_client_close(&client);
}

/* ---- backlog ---- */

FIXTURE_TEST(a_writer_is_told_when_its_backlog_has_shrunk)
{
    hth_test_client client;
    char *piece = malloc(65536);
    size_t n_written = 0, n_body = 0;

    assert_non_null(piece);
    memset(piece, 'p', 65536);
    open_pending(&client, stage, "GET /stream HTTP/1.0\r\n\r\n");
    for (int round = 1; round <= 3; round++) {
        int n_rooms;

        /* The system's buffers take some first, and perhaps more than once. */
        do {
            for (int i = 0; i < 1000 && hth_http_stream_backlog(stage->held) < HTH_HTTP_BACKLOG_MAX; i++) {
                hth_http_stream_write(stage->held, piece, 65536);
                n_written += 65536;
                hth_test_http_turn(stage);
            }
            for (int i = 0; i < 20; i++)
                hth_test_http_turn(stage);
            n_rooms = stage->n_rooms;
        } while (hth_http_stream_backlog(stage->held) < HTH_HTTP_BACKLOG_MAX / 2);
        hth_test_http_until(stage, (hth_test_client_listen(&client), stage->n_rooms > n_rooms));
        assert_true(hth_http_stream_backlog(stage->held) < HTH_HTTP_BACKLOG_MAX / 2);
        hth_test_http_until(stage, (hth_test_client_listen(&client), hth_http_stream_backlog(stage->held) == 0));
        assert_int_equal(stage->n_rooms, n_rooms + 1); /* once */
    }
    hth_http_stream_end(stage->held);
    hth_test_client_hear_end(&client);
    n_body = strspn(hth_test_client_body(&client), "p");
    assert_int_equal(n_body, n_written);
    hth_test_client_close(&client);
    free(piece);
}

FIXTURE_TEST(a_stream_may_end_before_it_is_taken)
{
    hth_test_client client;
    char *piece = malloc(8 << 20);

    assert_non_null(piece);
    memset(piece, 'p', 8 << 20);
    open_pending(&client, stage, GET("/stream"));
    hth_http_stream_write(stage->held, piece, 8 << 20);
    hth_http_stream_end(stage->held);
    hth_test_client_say(&client, GET("/hello"));
    (void)hth_test_client_hear(&client, "p\r\n0\r\n\r\nHTTP/1.1 200 OK");      /* where does not matter */
    assert_int_equal(strspn(hth_test_client_body(&client) + 8, "p"), 8 << 20); /* "800000\r\n" */
    assert_int_equal(stage->n_rooms, 0);                                       /* nobody waits any more */
    hth_test_client_close(&client);
    free(piece);
}

/* ---- clients that go away ---- */

typedef enum leaving { CLOSES, CLOSES_ITS_HALF, RESETS, LEAVINGS } leaving;

static void leave(hth_test_client *client, leaving how)
{
    const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

    if (how == CLOSES_ITS_HALF) {
        assert_int_equal(shutdown(client->fd, SHUT_WR), 0);
        return;
    }
    if (how == RESETS)
        assert_int_equal(setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    hth_test_client_close(client);
}

FIXTURE_TEST(a_client_that_leaves_ends_what_it_asked_for)
{
    static const char *const requests[] = {
        GET("/hold"),
        GET("/stream"),
        "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        /* Part of the next request is here already. */
        GET("/hold") "GET /hel",
        GET("/hold") GET("/hello") GET("/hello"),
    };

    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        for (leaving how = CLOSES; how < LEAVINGS; how++) {
            hth_test_client client;
            int n_closed = stage->n_closed, n_handled = stage->n_handled;

            if (how == CLOSES_ITS_HALF && !strstr(requests[i], "/stream"))
                continue; /* it waits: see below */
            open_pending(&client, stage, requests[i]);
            leave(&client, how);
            hth_test_http_until(stage, stage->n_closed == n_closed + 1);
            assert_null(stage->held);
            assert_int_equal(stage->n_handled, n_handled + 1);
            if (how == CLOSES_ITS_HALF)
                hth_test_client_close(&client);
        }
    }
}

FIXTURE_TEST(a_client_that_closed_its_half_gets_the_reply_that_it_waits_for)
{
    static const char *const requests[] = {
        GET("/hold"),
        "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        GET("/hold") GET("/hello"),
    };

    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        for (int is_early = 0; is_early <= 1; is_early++) {
            hth_test_client client;
            int n_closed = stage->n_closed;

            stage->held = NULL;
            hth_test_client_open(&client, stage);
            if (is_early) { /* its end is here when the handler is called */
                hth_test_client_say(&client, requests[i]);
                leave(&client, CLOSES_ITS_HALF);
                hth_test_http_until(stage, stage->held);
            } else {
                hth_test_client_say(&client, requests[i]);
                hth_test_http_until(stage, stage->held);
                leave(&client, CLOSES_ITS_HALF);
            }
            (void)hth_test_client_hear(&client, "HTTP/1.1 100 Continue\r\n\r\n"); /* is it there? */
            assert_int_equal(stage->n_closed, n_closed);
            assert_in_range(hth_test_http_wakes(stage, 100), 0, 20);
            if (i == 1) {
                hth_http_stream_begin(stage->held, 200, "text/plain");
                for (int turn = 0; turn < 5; turn++) {
                    hth_http_stream_write(stage->held, "piece", 5);
                    hth_test_http_turn(stage);
                }
                hth_http_stream_end(stage->held);
            } else {
                hth_http_reply(stage->held, 200, "text/plain", "late", 4);
            }
            hth_test_client_hear_end(&client);
            assert_false(client.was_reset);
            assert_non_null(strstr(client.heard, i == 1 ? "piece\r\n0\r\n\r\n" : "late"));
            assert_true(i != 2 || strstr(client.heard, "hello\n"));
            assert_int_equal(stage->n_closed, n_closed);
            hth_test_client_close(&client);
        }
    }
}

FIXTURE_TEST(a_client_that_closed_its_half_and_then_leaves_is_missed)
{
    static const char *const requests[] = { GET("/hold"), GET("/hold") "GET /hel" };

    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
        hth_test_client client;
        int n_closed = stage->n_closed;

        open_pending(&client, stage, requests[i]);
        leave(&client, CLOSES_ITS_HALF);
        (void)hth_test_client_hear(&client, "HTTP/1.1 100 Continue\r\n\r\n");
        leave(&client, RESETS);
        hth_test_http_until(stage, stage->n_closed == n_closed + 1);
    }
}

FIXTURE_TEST(a_client_of_http_1_0_cannot_be_asked_and_leaves_with_its_half)
{
    hth_test_client client;

    open_pending(&client, stage, "GET /hold HTTP/1.0\r\n\r\n");
    leave(&client, CLOSES_ITS_HALF);
    hth_test_http_until(stage, stage->n_closed == 1);
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_client_that_leaves_before_its_request_is_read_gets_no_work_done_for_long)
{
    hth_test_client client;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, GET("/hold"));
    hth_test_client_close(&client);
    hth_test_http_until(stage, stage->n_handled == 1 && stage->n_closed == 1);
}

FIXTURE_TEST(a_client_that_leaves_behind_a_lot_it_sent_ahead_is_missed_too)
{
    char *ahead = calloc(1, AHEAD_BYTES);

    assert_non_null(ahead);
    for (leaving how = CLOSES; how < LEAVINGS; how++) {
        hth_test_client client;
        int n_closed = stage->n_closed;

        open_pending(&client, stage, GET("/hold"));
        /* More than the server reads, but not more than the system takes: there the end would wait behind the bytes. */
        hth_test_client_say_bytes(&client, ahead, AHEAD_BYTES);
        for (int i = 0; i < 50; i++)
            hth_test_http_turn(stage);
        assert_int_equal(stage->n_closed, n_closed);
        leave(&client, how);
        if (how == CLOSES_ITS_HALF) { /* it may wait for the reply */
            (void)hth_test_client_hear(&client, "HTTP/1.1 100 Continue\r\n\r\n");
            leave(&client, RESETS);
        }
        hth_test_http_until(stage, stage->n_closed == n_closed + 1);
    }
    free(ahead);
}

FIXTURE_TEST(waiting_costs_no_time_whatever_was_sent_ahead)
{
    char *ahead = calloc(1, AHEAD_BYTES);

    assert_non_null(ahead);
    for (int i = 0; i < 3; i++) {
        hth_test_client client;
        int n_closed = stage->n_closed;

        open_pending(&client, stage, GET("/hold"));
        if (i == 1)
            hth_test_client_say(&client, GET("/hello") "GET /he");
        if (i == 2)
            hth_test_client_say_bytes(&client, ahead, AHEAD_BYTES);
        for (int turn = 0; turn < 20; turn++)
            hth_test_http_turn(stage);
        assert_in_range(hth_test_http_wakes(stage, 200), 1, 20);
        assert_int_equal(stage->n_closed, n_closed);
        assert_non_null(stage->held);
        hth_http_reply(stage->held, 200, "text/plain", "late", 4);
        stage->held = NULL;
        (void)hth_test_client_hear(&client, "late"); /* where does not matter */
        if (i == 1)
            (void)hth_test_client_hear(&client, "hello\n"); /* what was sent ahead has its turn */
        hth_test_client_close(&client);
    }
    free(ahead);
}

FIXTURE_TEST(a_client_that_leaves_while_it_is_written_to_ends_the_stream)
{
    char *piece = malloc(4 << 20);

    assert_non_null(piece);
    memset(piece, 'p', 4 << 20);
    for (leaving how = CLOSES; how < LEAVINGS; how++) {
        hth_test_client client;
        int n_closed = stage->n_closed;

        open_pending(&client, stage, GET("/stream"));
        hth_http_stream_write(stage->held, piece, 4 << 20);
        for (int i = 0; i < 5; i++)
            hth_test_http_turn(stage);
        leave(&client, how);
        hth_test_http_until(stage, stage->n_closed == n_closed + 1);
        if (how == CLOSES_ITS_HALF)
            hth_test_client_close(&client);
    }
    free(piece);
}

FIXTURE_TEST(a_client_that_leaves_in_the_middle_of_a_request_leaves_nothing)
{
    static const char request[] =
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";

    for (size_t n = 0; n < sizeof(request) - 1; n++) {
        for (leaving how = CLOSES; how < LEAVINGS; how++) {
            hth_test_client client;

            hth_test_client_open(&client, stage);
            hth_test_client_say_bytes(&client, request, n);
            hth_test_http_turn(stage);
            leave(&client, how);
            if (how == CLOSES_ITS_HALF) {
                hth_test_client_hear_end(&client);
                hth_test_client_close(&client);
            }
        }
    }
    hth_test_http_until(stage, hth_http_server_numbers(stage->server).n_connections == 0);
    assert_int_equal(stage->n_handled, 0);
}

TEST(a_server_that_goes_away_tells_those_who_hold_exchanges)
{
    hth_test_http stage;
    hth_test_client clients[3];

    hth_test_http_open(&stage, NULL);
    for (int i = 0; i < 3; i++) {
        stage.held = NULL;
        if (i == 2)
            hth_test_client_open(&clients[i], &stage); /* idle */
        else
            open_pending(&clients[i], &stage, i == 0 ? GET("/hold") : GET("/stream"));
    }
    hth_test_http_turn(&stage);
    hth_http_server_free(stage.server);
    assert_int_equal(stage.n_closed, 2);
    hth_test_http_turn(&stage);
    for (int i = 0; i < 3; i++) {
        hth_test_client_hear_end(&clients[i]);
        hth_test_client_close(&clients[i]);
    }
    hth_test_http_close_base(&stage);
}
