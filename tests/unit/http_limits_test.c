/*
 * http_limits_test.c - limits of time, connections, memory and descriptors, and a server that is stopping
 *
 * Limits of time are a few hundredths of a second here, and what they end is waited for as long as it takes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/http_stage.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

enum { SHORT_MS = 40 };

static hth_http_options standard(void)
{
    return hth_http_options_default();
}

static void open_standard(hth_test_http *stage)
{
    hth_http_options options = standard();

    hth_test_http_open(stage, &options);
}

#define FIXTURE_TEST(name) TEST_WITH(hth_test_http, stage, name, open_standard, hth_test_http_close)

static void open_short_idle(hth_test_http *stage)
{
    hth_http_options options = standard();

    options.idle_timeout_ms = SHORT_MS;
    hth_test_http_open(stage, &options);
}

static void open_short_request(hth_test_http *stage)
{
    hth_http_options options = standard();

    options.request_timeout_ms = SHORT_MS;
    hth_test_http_open(stage, &options);
}

static void open_short_write(hth_test_http *stage)
{
    hth_http_options options = standard();

    options.write_timeout_ms = 4 * SHORT_MS;
    hth_test_http_open(stage, &options);
}

static void open_short_all(hth_test_http *stage)
{
    hth_http_options options = standard();

    options.idle_timeout_ms = options.request_timeout_ms = options.write_timeout_ms = SHORT_MS;
    hth_test_http_open(stage, &options);
}

static hth_http_numbers numbers(hth_test_http *stage)
{
    return hth_http_server_numbers(stage->server);
}

/* ---- time ---- */

TEST_WITH(hth_test_http, stage, an_idle_connection_is_closed_in_time, open_short_idle, hth_test_http_close)
{
    hth_test_client fresh, used;

    hth_test_client_open(&fresh, stage);
    hth_test_client_open(&used, stage);
    hth_test_client_say(&used, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&used), 200);
    hth_test_client_hear_end(&fresh);
    hth_test_client_hear_end(&used);
    assert_int_equal(fresh.n_heard, 0);
    assert_false(fresh.was_reset);
    assert_false(used.was_reset);
    assert_int_equal(numbers(stage).n_timed_out, 2);
    assert_int_equal(numbers(stage).n_connections, 0);
    hth_test_client_close(&fresh);
    hth_test_client_close(&used);
}

/* A byte now and then, without end: whatever the server makes of them, the client must not go on for long. */
static void drip(hth_test_http *stage, const char *beginning, const char *bytes, int status)
{
    hth_test_client client;
    size_t n = strlen(bytes), i = 0;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, beginning);
    hth_test_http_until(stage, (hth_test_client_listen(&client),
                                client.n_heard > 0 || (hth_test_client_say_bytes(&client, bytes + i++ % n, 1), false)));
    assert_int_equal(hth_test_client_hear_reply(&client), status);
    hth_test_client_hear_end(&client);
    hth_test_client_close(&client);
    assert_int_equal(numbers(stage).n_timed_out, 1);
}

TEST_WITH(hth_test_http, stage, a_head_that_comes_byte_by_byte_has_a_limit_of_time, open_short_request,
          hth_test_http_close)
{
    drip(stage, "G",
         "ET /hello HTTP/1.1\r\nHost: x\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", 408);
}

TEST_WITH(hth_test_http, stage, a_body_that_comes_byte_by_byte_has_a_limit_of_time, open_short_request,
          hth_test_http_close)
{
    drip(stage, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", "x", 408);
}

TEST_WITH(hth_test_http, stage, chunks_that_come_byte_by_byte_have_a_limit_of_time, open_short_request,
          hth_test_http_close)
{
    drip(stage, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", 408);
}

TEST_WITH(hth_test_http, stage, a_reply_that_nobody_takes_has_a_limit_of_time, open_short_write, hth_test_http_close)
{
    hth_test_client whole, stream;
    char *piece = calloc(1, 16 << 20);

    assert_non_null(piece);
    hth_test_client_open(&whole, stage);
    hth_test_client_say(&whole, GET("/big"));
    hth_test_client_open(&stream, stage);
    hth_test_client_say(&stream, GET("/stream"));
    hth_test_http_until(stage, stage->held);
    hth_http_stream_write(stage->held, piece, 16 << 20);
    hth_test_http_until(stage, stage->n_closed == 1 && numbers(stage).n_connections == 0);
    assert_int_equal(numbers(stage).n_timed_out, 2);
    hth_test_client_close(&whole);
    hth_test_client_close(&stream);
    free(piece);
}

FIXTURE_TEST(a_slow_client_that_takes_some_bytes_is_served)
{
    hth_test_client client;
    size_t n = 0;

    /* A limit long enough to take something within it on any machine, though not all. */
    hth_http_options options = standard();
    options.write_timeout_ms = 2000;
    hth_http_server_set_options(stage->server, &options);
    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, GET("/big"));
    while (n < HTH_TEST_BIG_BYTES) {
        char some[60000];
        ssize_t got = recv(client.fd, some, sizeof(some), 0);

        assert_true(got > 0 || (got < 0 && errno == EAGAIN));
        n += got > 0 ? (size_t)got : 0;
        hth_test_http_turn(stage);
        hth_test_http_turn(stage);
    }
    hth_test_client_close(&client);
    assert_int_equal(numbers(stage).n_timed_out, 0);
}

TEST_WITH(hth_test_http, stage, a_request_that_is_worked_on_has_no_limit_of_time_here, open_short_all,
          hth_test_http_close)
{
    hth_test_client hold, stream;

    hth_test_client_open(&hold, stage);
    hth_test_client_say(&hold, GET("/hold"));
    hth_test_http_until(stage, stage->held);
    hth_test_client_open(&stream, stage);
    hth_test_client_say(&stream, GET("/stream"));
    hth_test_http_until(stage, stage->n_handled == 2);
    (void)hth_test_http_wakes(stage, 5 * SHORT_MS); /* only the time matters */
    assert_int_equal(numbers(stage).n_exchanges, 2);
    assert_int_equal(numbers(stage).n_timed_out, 0);
    assert_int_equal(stage->n_closed, 0);
    hth_http_stream_end(stage->held);
    assert_int_equal(hth_test_client_hear_reply(&stream), 200);
    hth_test_client_close(&stream);
    hth_test_client_close(&hold);
    hth_test_http_until(stage, stage->n_closed == 1);
}

FIXTURE_TEST(shorter_limits_of_time_hold_for_connections_that_are_there)
{
    hth_http_options options = standard();
    hth_test_client client;

    hth_test_client_open(&client, stage);
    hth_test_http_until(stage, numbers(stage).n_connections == 1);
    options.idle_timeout_ms = SHORT_MS;
    hth_http_server_set_options(stage->server, &options);
    hth_test_client_hear_end(&client);
    hth_test_client_close(&client);
}

TEST_WITH(hth_test_http, stage, a_limit_of_zero_is_none, open_short_all, hth_test_http_close)
{
    hth_http_options options = standard();
    hth_test_client client;

    options.idle_timeout_ms = options.request_timeout_ms = options.write_timeout_ms = 0;
    hth_http_server_set_options(stage->server, &options);
    hth_test_client_open(&client, stage);
    (void)hth_test_http_wakes(stage, 3 * SHORT_MS); /* only the time matters */
    hth_test_client_say(&client, "GET /hello HTTP/1.1\r\n");
    (void)hth_test_http_wakes(stage, 3 * SHORT_MS);
    hth_test_client_say(&client, "Host: x\r\n\r\n");
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_server_without_work_sleeps)
{
    hth_test_client client;

    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    for (int i = 0; i < 20; i++)
        hth_test_http_turn(stage);
    /* The tick's own two, and one for a limit of time that was set. */
    assert_in_range(hth_test_http_wakes(stage, 300), 1, 6);
    hth_test_client_close(&client);
}

/* ---- connections ---- */

FIXTURE_TEST(connections_beyond_the_limit_are_refused_and_counted)
{
    hth_http_options options = standard();
    hth_test_client clients[3];

    options.connections_max = 2;
    hth_http_server_set_options(stage->server, &options);
    for (int i = 0; i < 3; i++)
        hth_test_client_open(&clients[i], stage);
    hth_test_client_hear_end(&clients[2]);
    assert_int_equal(numbers(stage).n_connections, 2);
    assert_int_equal(numbers(stage).n_accepted, 3);
    assert_int_equal(numbers(stage).n_refused, 1);
    hth_test_client_say(&clients[0], GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&clients[0]), 200);
    hth_test_client_close(&clients[0]);
    hth_test_http_until(stage, numbers(stage).n_connections == 1);
    hth_test_client_close(&clients[2]);
    hth_test_client_open(&clients[2], stage);
    hth_test_client_say(&clients[2], GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&clients[2]), 200);
    hth_test_client_close(&clients[1]);
    hth_test_client_close(&clients[2]);
}

FIXTURE_TEST(when_descriptors_run_out_the_server_waits_without_spinning)
{
    hth_test_client served, waiting;
    struct rlimit limit, low;
    int next;

    hth_test_client_open(&served, stage);
    hth_test_client_say(&served, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&served), 200);
    hth_test_client_open(&waiting, stage); /* in the system's queue */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    next = fcntl(0, F_DUPFD, 0);
    assert_true(next > 0);
    assert_int_equal(close(next), 0);
    low = limit;
    low.rlim_cur = (rlim_t)next; /* the lowest free one is one too many */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < 10; i++)
        hth_test_http_turn(stage);
    assert_in_range(hth_test_http_wakes(stage, 300), 1, 20);
    assert_int_equal(numbers(stage).n_connections, 1);
    /* Those it has are served. */
    hth_test_client_forget(&served);
    hth_test_client_say(&served, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&served), 200);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    hth_test_client_say(&waiting, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&waiting), 200);
    hth_test_client_close(&waiting);
    hth_test_client_close(&served);
}

FIXTURE_TEST(bodies_together_have_a_limit)
{
    hth_http_options options = standard();
    hth_test_client first, second;
    char *body = calloc(1, 300000);
    const char *head = "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n";

    assert_non_null(body);
    options.bodies_bytes_max = 500000;
    hth_http_server_set_options(stage->server, &options);
    hth_test_client_open(&first, stage);
    hth_test_client_say(&first, head);
    hth_test_client_say_bytes(&first, body, 300000);
    hth_test_http_until(stage, stage->held);
    hth_test_client_open(&second, stage);
    hth_test_client_say(&second, head);
    hth_test_client_say_bytes(&second, body, 300000);
    assert_int_equal(hth_test_client_hear_reply(&second), 503);
    hth_test_client_close(&second);
    hth_http_reply(stage->held, 200, NULL, NULL, 0);
    assert_int_equal(hth_test_client_hear_reply(&first), 200);
    hth_test_client_forget(&first);
    stage->held = NULL;
    hth_test_client_say(&first, head);
    hth_test_client_say_bytes(&first, body, 300000);
    hth_test_http_until(stage, stage->held);
    hth_test_client_close(&first);
    hth_test_http_until(stage, stage->n_closed == 1);
    free(body);
}

FIXTURE_TEST(a_request_without_a_body_needs_no_memory_of_bodies)
{
    hth_http_options options = standard();
    hth_test_client first, second;
    char *body = calloc(1, 300000);

    assert_non_null(body);
    options.bodies_bytes_max = 300001; /* with its end */
    hth_http_server_set_options(stage->server, &options);
    hth_test_client_open(&first, stage);
    hth_test_client_say(&first, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
    hth_test_client_say_bytes(&first, body, 300000);
    hth_test_http_until(stage, stage->held);
    hth_test_client_open(&second, stage);
    hth_test_client_say(&second, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&second), 200);
    hth_test_client_close(&second);
    hth_test_client_close(&first);
    hth_test_http_until(stage, stage->n_closed == 1);
    free(body);
}

static bool wants_known(hth_http_exchange *exchange, void *user_data)
{
    (void)user_data;
    return strcmp(hth_http_path(exchange), "/missing") != 0;
}

FIXTURE_TEST(a_body_that_is_not_wanted_is_not_waited_for)
{
    static const char *const heads[] = {
        "POST /missing HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n",
        "POST /missing HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\nExpect: 100-continue\r\n\r\n",
        "POST /missing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
    char *body = calloc(1, 300000);
    hth_test_client client;

    assert_non_null(body);
    hth_http_server_set_gate(stage->server, wants_known);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        hth_test_client_open(&client, stage);
        hth_test_client_say(&client, heads[i]);
        assert_int_equal(hth_test_client_hear_reply(&client), 404);
        assert_non_null(strstr(client.heard, "Connection: close\r\n"));
        /* What is on its way all the same costs nobody the reply. */
        if (i < 2)
            hth_test_client_say_bytes(&client, body, 300000);
        assert_false(client.was_reset);
        hth_test_client_close(&client);
    }
    /* One that came with its head does no harm, and one that is wanted is read. */
    hth_test_client_open(&client, stage);
    hth_test_client_say(&client, "POST /missing HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    assert_int_equal(hth_test_client_hear_reply(&client), 404);
    hth_test_client_forget(&client);
    hth_test_client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
    hth_test_client_say_bytes(&client, body, 300000);
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
    free(body);
}

/* ---- stopping ---- */

FIXTURE_TEST(a_server_that_drains_ends_connections_as_they_become_idle)
{
    hth_test_client idle, pending, stream, reading, late;

    hth_test_client_open(&idle, stage);
    hth_test_client_say(&idle, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&idle), 200);
    hth_test_client_open(&stream, stage);
    hth_test_client_say(&stream, GET("/stream"));
    hth_test_http_until(stage, stage->held);
    hth_http_stream_end(stage->held);
    assert_int_equal(hth_test_client_hear_reply(&stream), 200);
    hth_test_client_forget(&stream);
    hth_test_client_say(&stream, GET("/stream"));
    hth_test_http_until(stage, stage->n_handled == 3);
    hth_http_stream_write(stage->held, "one", 3);
    hth_test_client_open(&reading, stage);
    hth_test_client_say(&reading, "GET /hel");
    hth_test_http_until(stage, numbers(stage).n_connections == 3);
    for (int i = 0; i < 5; i++)
        hth_test_http_turn(stage);

    hth_http_server_drain(stage->server);
    hth_test_client_hear_end(&idle);
    assert_false(idle.was_reset);
    hth_http_stream_write(stage->held, "two", 3);
    hth_http_stream_end(stage->held);
    hth_test_client_hear_end(&stream);
    assert_non_null(strstr(stream.heard, "two\r\n0\r\n\r\n"));
    hth_test_client_say(&reading, "lo HTTP/1.1\r\nHost: x\r\n\r\n");
    hth_test_client_hear_end(&reading);
    assert_non_null(strstr(reading.heard, "Connection: close\r\n"));
    assert_non_null(strstr(reading.heard, "hello\n"));
    /* Listeners are another matter. */
    hth_test_client_open(&late, stage);
    hth_test_client_say(&late, GET("/hello"));
    hth_test_client_hear_end(&late);
    assert_non_null(strstr(late.heard, "Connection: close\r\n"));
    stage->held = NULL;
    hth_test_client_open(&pending, stage);
    hth_test_client_say(&pending, GET("/hold"));
    hth_test_http_until(stage, stage->held);
    hth_http_reply(stage->held, 200, NULL, NULL, 0);
    hth_test_client_hear_end(&pending);
    assert_non_null(strstr(pending.heard, "Connection: close\r\n"));
    hth_test_client_close(&idle);
    hth_test_client_close(&stream);
    hth_test_client_close(&reading);
    hth_test_client_close(&late);
    hth_test_client_close(&pending);
}
