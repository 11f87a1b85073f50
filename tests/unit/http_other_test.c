/*
 * http_other_test.c - two protocols on one port: the first byte tells them apart
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http.h"
#include "support/cmocka_all.h"
#include "support/http_stage.h"

enum { TAG = 2, MANY = 100 };

typedef struct stage {
    hth_test_http http; /* first, so that it can be given to the clients */
    hth_http_listener *listener;
    uint16_t port;
    int taken; /* the last descriptor; -1: none */
    int n_taken;
} stage;

static void take(int fd, void *user_data)
{
    stage *s = user_data;

    if (s->taken >= 0)
        close(s->taken);
    s->taken = fd;
    s->n_taken++;
}

static void open_stage(stage *s)
{
    s->taken = -1;
    hth_test_http_open(&s->http, NULL);
    assert_int_equal(hth_http_server_set_other(s->http.server, TAG, 'R', take, s, NULL), HEARTH_OK);
    assert_int_equal(hth_http_listen_tcp(s->http.server, "127.0.0.1", 0, TAG, NULL, NULL, &s->port, &s->listener, NULL),
                     HEARTH_OK);
}

static void close_stage(stage *s)
{
    if (s->taken >= 0)
        close(s->taken);
    hth_http_listener_close(s->listener);
    hth_test_http_close(&s->http);
}

#define FIXTURE_TEST(name) TEST_WITH(stage, s, name, open_stage, close_stage)

static int dial(const stage *s)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(s->port),
                                         .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

FIXTURE_TEST(a_request_is_served_as_on_every_port)
{
    hth_test_client client;

    hth_test_client_open_fd(&client, &s->http, dial(s));
    hth_test_client_say(&client, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
    assert_int_equal(s->n_taken, 0);
}

FIXTURE_TEST(another_protocol_gets_its_connection_with_all_bytes)
{
    char got[8] = { 0 };
    const int fd = dial(s);

    assert_int_equal(write(fd, "R", 1), 1);
    hth_test_http_until(&s->http, s->n_taken == 1);
    assert_int_equal(write(fd, "OWS", 3), 3);
    close(fd);
    for (size_t n = 0; n < 4;) {
        const ssize_t part = read(s->taken, got + n, sizeof(got) - n);

        n += part > 0 ? (size_t)part : 0;
        hth_test_http_turn(&s->http);
    }
    assert_string_equal(got, "ROWS");
}

FIXTURE_TEST(who_says_nothing_keeps_nobody_out)
{
    int silent[MANY];
    char byte;
    hth_test_client client;

    for (int i = 0; i < MANY; i++) {
        silent[i] = dial(s);
        hth_test_http_turn(&s->http);
    }
    hth_test_http_until(&s->http, recv(silent[0], &byte, 1, MSG_DONTWAIT) == 0); /* the oldest are closed */
    hth_test_client_open_fd(&client, &s->http, dial(s));
    hth_test_client_say(&client, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
    for (int i = 0; i < MANY; i++)
        close(silent[i]);
}

FIXTURE_TEST(a_client_that_leaves_without_a_byte_is_forgotten)
{
    const int fd = dial(s);

    hth_test_http_turn(&s->http);
    close(fd);
    for (int i = 0; i < 20; i++)
        hth_test_http_turn(&s->http);
    assert_int_equal(hth_http_server_numbers(s->http.server).n_connections, 0);
    assert_int_equal(s->n_taken, 0);
}
