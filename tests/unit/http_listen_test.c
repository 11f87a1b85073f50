/*
 * http_listen_test.c - TCP addresses and unix sockets, whole and in each other's way
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/http_socket.h"
#include "support/cmocka_all.h"
#include "support/http_stage.h"
#include "support/support.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

typedef struct stage {
    hth_test_http http; /* first, so that it can be given to the clients */
    char *directory;
    char path[256];
} stage;

static void open_stage(stage *s)
{
    hth_test_http_open(&s->http, NULL);
    s->directory = hth_test_directory_new();
    (void)snprintf(s->path, sizeof(s->path), "%s/server.sock", s->directory);
}

static void close_stage(stage *s)
{
    hth_test_http_close(&s->http);
    hth_test_directory_remove(s->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(stage, s, name, open_stage, close_stage)

static void dial_unix(hth_test_client *client, stage *s)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0 && strlen(s->path) < sizeof(address.sun_path));
    memcpy(address.sun_path, s->path, strlen(s->path) + 1);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    hth_test_client_open_fd(client, &s->http, fd);
}

static hearth_status listen_unix(stage *s, hth_http_listener **out, hearth_error *err)
{
    return hth_http_listen_unix(s->http.server, s->path, 3, out, err);
}

/* ---- unix sockets ---- */

FIXTURE_TEST(a_unix_socket_is_its_owners_alone_and_serves)
{
    hth_http_listener *listener;
    hth_test_client client;
    struct stat st;
    mode_t mask = umask(0);

    assert_int_equal(listen_unix(s, &listener, NULL), HEARTH_OK);
    assert_int_equal(umask(mask), 0);
    assert_int_equal(stat(s->path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0600);
    dial_unix(&client, s);
    hth_test_client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    assert_non_null(strstr(client.heard, "X-Peer: unix\r\n"));
    assert_non_null(strstr(client.heard, "X-Tag: 3\r\n"));
    /* An established connection outlives the listener, the file does not. */
    hth_http_listener_close(listener);
    assert_int_equal(stat(s->path, &st), -1);
    hth_test_client_forget(&client);
    hth_test_client_say(&client, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_client_that_leaves_a_unix_socket_is_noticed)
{
    hth_http_listener *listener;

    assert_int_equal(listen_unix(s, &listener, NULL), HEARTH_OK);
    for (int half = 0; half <= 1; half++) {
        hth_test_client client;

        dial_unix(&client, s);
        hth_test_client_say(&client, GET("/hold"));
        hth_test_http_until(&s->http, s->http.held);
        if (half) { /* it may wait for the reply, until it leaves */
            assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
            (void)hth_test_client_hear(&client, "HTTP/1.1 100 Continue\r\n\r\n");
            assert_int_equal(s->http.n_closed, 1);
        }
        hth_test_client_close(&client);
        hth_test_http_until(&s->http, s->http.n_closed == 1 + half);
    }
}

FIXTURE_TEST(a_socket_that_nobody_listens_on_is_replaced)
{
    hth_http_listener *listener;
    hth_test_client client;
    int fd = -1;

    assert_int_equal(hth_http_bind_unix(s->path, &fd, NULL), HEARTH_OK);
    assert_int_equal(close(fd), 0); /* as if its process had been killed */
    assert_int_equal(listen_unix(s, &listener, NULL), HEARTH_OK);
    dial_unix(&client, s);
    hth_test_client_say(&client, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
}

FIXTURE_TEST(a_socket_in_use_stays_its_owners)
{
    hth_http_listener *first, *second = NULL;
    hth_test_client client;
    hearth_error err = { .message = "" };

    assert_int_equal(listen_unix(s, &first, NULL), HEARTH_OK);
    assert_int_equal(listen_unix(s, &second, &err), HEARTH_BUSY);
    assert_null(second);
    assert_non_null(strstr(err.message, s->path));
    assert_non_null(strstr(err.message, "another process listens"));
    dial_unix(&client, s);
    hth_test_client_say(&client, GET("/hello"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    hth_test_client_close(&client);
}

FIXTURE_TEST(what_is_no_socket_is_not_touched)
{
    hth_http_listener *listener;
    hearth_error err = { .message = "" };
    struct stat st;
    int fd = open(s->path, O_CREAT | O_WRONLY | O_EXCL, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "precious", 8), 8);
    assert_int_equal(close(fd), 0);
    assert_int_equal(listen_unix(s, &listener, &err), HEARTH_FAILED);
    assert_non_null(strstr(err.message, "no socket"));
    assert_int_equal(stat(s->path, &st), 0);
    assert_int_equal(st.st_size, 8);
    assert_int_equal(unlink(s->path), 0);

    assert_int_equal(symlink("/nowhere", s->path), 0);
    assert_int_equal(listen_unix(s, &listener, &err), HEARTH_FAILED);
    assert_int_equal(lstat(s->path, &st), 0);
    assert_int_equal(unlink(s->path), 0);
}

FIXTURE_TEST(a_successors_socket_stays_when_the_old_listener_closes)
{
    hth_http_listener *listener;
    struct stat st;
    int fd = -1;

    assert_int_equal(listen_unix(s, &listener, NULL), HEARTH_OK);
    assert_int_equal(unlink(s->path), 0);
    assert_int_equal(hth_http_bind_unix(s->path, &fd, NULL), HEARTH_OK);
    hth_http_listener_close(listener);
    assert_int_equal(stat(s->path, &st), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(s->path), 0);
}

FIXTURE_TEST(a_path_that_is_no_place_for_a_socket_is_named)
{
    hth_http_listener *listener;
    hearth_error err = { .message = "" };
    size_t n = strlen(s->directory);

    (void)snprintf(s->path, sizeof(s->path), "%s/%0*d", s->directory, (int)(107 - n - 1), 0);
    assert_int_equal(strlen(s->path), 107);
    assert_int_equal(listen_unix(s, &listener, &err), HEARTH_OK);
    (void)snprintf(s->path, sizeof(s->path), "%s/%0*d", s->directory, (int)(108 - n - 1), 0);
    assert_int_equal(listen_unix(s, &listener, &err), HEARTH_FAILED);
    assert_non_null(strstr(err.message, s->path));
    assert_non_null(strstr(err.message, "107"));
    (void)snprintf(s->path, sizeof(s->path), "%s/none/socket", s->directory);
    assert_int_equal(listen_unix(s, &listener, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "no such folder"));
    s->path[0] = '\0';
    assert_int_equal(listen_unix(s, &listener, &err), HEARTH_FAILED);
}

/* ---- TCP ---- */

static bool has_ipv6(void)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;

    if (fd >= 0)
        assert_int_equal(close(fd), 0);
    return has;
}

static void ask_over_ipv6(stage *s, uint16_t port, const char *peer)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6,
                                    .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                                    .sin6_port = htons(port) };
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    hth_test_client client;

    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    hth_test_client_open_fd(&client, &s->http, fd);
    hth_test_client_say(&client, GET("/echo"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    assert_non_null(strstr(client.heard, peer));
    hth_test_client_close(&client);
}

static void ask_over_ipv4(stage *s, uint16_t port, const char *peer)
{
    hth_test_client client;
    uint16_t saved = s->http.port;

    s->http.port = port;
    hth_test_client_open(&client, &s->http);
    s->http.port = saved;
    hth_test_client_say(&client, GET("/echo"));
    assert_int_equal(hth_test_client_hear_reply(&client), 200);
    assert_non_null(strstr(client.heard, peer));
    hth_test_client_close(&client);
}

static hearth_status listen_tcp(stage *s, const char *host, uint16_t port, uint16_t *port_out, hearth_error *err)
{
    return hth_http_listen_tcp(s->http.server, host, port, 9, NULL, NULL, port_out, NULL, err);
}

FIXTURE_TEST(a_port_in_use_is_said_to_be)
{
    hearth_error err = { .message = "" };
    char expected[64];

    assert_int_equal(listen_tcp(s, "127.0.0.1", s->http.port, NULL, &err), HEARTH_BUSY);
    (void)snprintf(expected, sizeof(expected), "127.0.0.1:%u", s->http.port);
    assert_non_null(strstr(err.message, expected));
    assert_non_null(strstr(err.message, "choose another port"));
}

FIXTURE_TEST(a_port_is_free_again_at_once)
{
    uint16_t port = 0, again = 0;
    hth_http_listener *listener;
    hth_test_client client;

    assert_int_equal(hth_http_listen_tcp(s->http.server, "127.0.0.1", 0, 9, NULL, NULL, &port, &listener, NULL),
                     HEARTH_OK);
    s->http.port = port;
    hth_test_client_open(&client, &s->http);
    hth_test_client_say(&client, "GET /hello HTTP/1.0\r\n\r\n");
    hth_test_client_hear_end(&client); /* the server closed first, so that its side lingers in the system */
    hth_test_client_close(&client);
    hth_http_listener_close(listener);
    assert_int_equal(listen_tcp(s, "127.0.0.1", port, &again, NULL), HEARTH_OK);
    assert_int_equal(again, port);
}

FIXTURE_TEST(hosts_may_be_names_and_addresses_of_both_kinds)
{
    uint16_t port = 0;

    assert_int_equal(listen_tcp(s, "localhost", 0, &port, NULL), HEARTH_OK);
    ask_over_ipv4(s, port, "X-Peer: 127.0.0.1\r\n");
    assert_int_equal(listen_tcp(s, "0.0.0.0", 0, &port, NULL), HEARTH_OK);
    ask_over_ipv4(s, port, "X-Tag: 9\r\n");
    assert_int_equal(listen_tcp(s, "*", 0, &port, NULL), HEARTH_OK);
    ask_over_ipv4(s, port, "X-Peer: 127.0.0.1\r\n");
    if (!has_ipv6()) {
        print_message("no IPv6 here\n");
        return;
    }
    ask_over_ipv6(s, port, "X-Peer: ::1\r\n");
    assert_int_equal(listen_tcp(s, "::1", 0, &port, NULL), HEARTH_OK);
    ask_over_ipv6(s, port, "X-Peer: ::1\r\n");
    assert_int_equal(listen_tcp(s, "[::1]", 0, &port, NULL), HEARTH_OK);
    ask_over_ipv6(s, port, "X-Peer: ::1\r\n");
    /* Both at once. */
    assert_int_equal(listen_tcp(s, "::", 0, &port, NULL), HEARTH_OK);
    assert_int_equal(listen_tcp(s, "0.0.0.0", port, NULL, NULL), HEARTH_OK);
}

FIXTURE_TEST(an_address_that_cannot_be_had_is_named)
{
    hearth_error err = { .message = "" };
    char name[400];

    assert_int_equal(listen_tcp(s, "192.0.2.1", 8080, NULL, &err), HEARTH_FAILED);
    assert_non_null(strstr(err.message, "192.0.2.1:8080"));
    assert_non_null(strstr(err.message, "no such address"));
    assert_int_equal(listen_tcp(s, "no such host", 8080, NULL, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "no such host"));
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(listen_tcp(s, name, 8080, NULL, &err), HEARTH_NOT_FOUND);
}

FIXTURE_TEST(a_closed_listener_takes_no_connection)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(s->http.port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    hth_http_listener_close(s->http.listener);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(close(fd), 0);
}
