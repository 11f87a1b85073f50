/*
 * http_stage.c - one event base, turned by hand, and clients with sockets that never block
 */
#include "support/http_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>
#include <openssl/ssl.h>

#include "base/os.h"
#include "support/cmocka_all.h"

uint64_t hth_test_now_ms(void)
{
    return hth_os_monotonic_ns() / 1000000;
}

/* ---- the server ---- */

static void on_close(void *user_data)
{
    hth_test_http *stage = user_data;

    stage->n_closed++;
    stage->held = NULL;
}

static void on_room(void *user_data)
{
    hth_test_http *stage = user_data;

    stage->n_rooms++;
}

static void echo(hth_http_exchange *exchange)
{
    char number[32];
    size_t n;
    const char *body = hth_http_body(exchange, &n);

    hth_http_header_add(exchange, "X-Method", hth_http_method(exchange));
    hth_http_header_add(exchange, "X-Path", hth_http_path(exchange));
    (void)snprintf(number, sizeof(number), "%d", hth_http_tag(exchange));
    hth_http_header_add(exchange, "X-Tag", number);
    hth_http_header_add(exchange, "X-Peer", hth_http_peer(exchange));
    (void)snprintf(number, sizeof(number), "%zu", n);
    hth_http_header_add(exchange, "X-Length", number);
    assert_int_equal(body[n], '\0');
    hth_http_reply(exchange, 200, "application/octet-stream", body, n);
}

static void reply_big(hth_http_exchange *exchange)
{
    char *big = malloc(HTH_TEST_BIG_BYTES);

    assert_non_null(big);
    memset(big, 'b', HTH_TEST_BIG_BYTES);
    hth_http_reply(exchange, 200, "text/plain", big, HTH_TEST_BIG_BYTES);
    free(big);
}

static void handle(hth_http_exchange *exchange, void *user_data)
{
    hth_test_http *stage = user_data;
    const hth_http_watch watch = { .on_close = on_close, .on_room = on_room, .user_data = stage };
    const char *path = hth_http_path(exchange);

    stage->n_handled++;
    if (strcmp(path, "/hello") == 0) {
        hth_http_reply(exchange, 200, "text/plain", "hello\n", 6);
    } else if (strncmp(path, "/echo", 5) == 0) {
        echo(exchange);
    } else if (strcmp(path, "/empty") == 0) {
        hth_http_reply(exchange, 204, NULL, NULL, 0);
    } else if (strcmp(path, "/big") == 0) {
        reply_big(exchange);
    } else if (strcmp(path, "/headers") == 0) {
        hth_http_header_add(exchange, stage->add_name, stage->add_value);
        hth_http_reply(exchange, 200, stage->content_type, "x", 1);
    } else if (strcmp(path, "/hold") == 0 || strcmp(path, "/stream") == 0) {
        stage->held = exchange;
        hth_http_watch_set(exchange, &watch);
        if (strcmp(path, "/stream") == 0)
            hth_http_stream_begin(exchange, 200, "text/event-stream");
    } else {
        hth_http_reply(exchange, 404, "text/plain", "no\n", 3);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    (void)user_data;
}

static void set_tick(hth_test_http *stage, long ms)
{
    const struct timeval interval = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

    assert_int_equal(event_add(stage->tick, &interval), 0);
}

void hth_test_http_open(hth_test_http *stage, const hth_http_options *options)
{
    const hth_http_options standard = hth_http_options_default();
    hearth_error err = { .message = "" };

    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    *stage = (hth_test_http){ .base = event_base_new() };
    assert_non_null(stage->base);
    stage->tick = event_new(stage->base, -1, EV_PERSIST, on_tick, NULL);
    assert_non_null(stage->tick);
    set_tick(stage, 1);
    assert_int_equal(
        hth_http_server_new(stage->base, options ? options : &standard, handle, stage, &stage->server, &err),
        HEARTH_OK);
    assert_int_equal(
        hth_http_listen_tcp(stage->server, "127.0.0.1", 0, 7, NULL, NULL, &stage->port, &stage->listener, &err),
        HEARTH_OK);
    assert_true(stage->port > 0);
}

void hth_test_http_close(hth_test_http *stage)
{
    hth_test_http_until(stage, hth_http_server_numbers(stage->server).n_connections == 0);
    assert_int_equal(hth_http_server_numbers(stage->server).n_exchanges, 0);
    hth_http_server_free(stage->server);
    hth_test_http_close_base(stage);
}

void hth_test_http_close_base(hth_test_http *stage)
{
    event_free(stage->tick);
    event_base_free(stage->base);
}

void hth_test_http_turn(hth_test_http *stage)
{
    (void)event_base_loop(stage->base, EVLOOP_ONCE); /* the tick is always there */
}

int hth_test_http_wakes(hth_test_http *stage, uint32_t ms)
{
    uint64_t end = hth_test_now_ms() + ms;
    int n = 0;

    set_tick(stage, ms / 2);
    while (hth_test_now_ms() < end) {
        hth_test_http_turn(stage);
        n++;
    }
    set_tick(stage, 1);
    return n;
}

/* ---- clients ---- */

void hth_test_client_open_fd(hth_test_client *client, hth_test_http *stage, int fd)
{
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    *client = (hth_test_client){ .stage = stage, .fd = fd };
    hth_test_client_forget(client);
}

void hth_test_client_open(hth_test_client *client, hth_test_http *stage)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(stage->port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    hth_test_client_open_fd(client, stage, fd);
}

void hth_test_client_close(hth_test_client *client)
{
    SSL_free(client->ssl);
    assert_int_equal(close(client->fd), 0);
    free(client->heard);
    client->heard = NULL;
    client->heard_capacity = 0;
}

static ssize_t send_some(hth_test_client *client, const char *bytes, size_t n)
{
    int sent;

    if (!client->ssl)
        return send(client->fd, bytes, n, MSG_NOSIGNAL);
    sent = SSL_write(client->ssl, bytes, (int)n);
    if (sent > 0)
        return sent;
    errno = SSL_get_error(client->ssl, sent) == SSL_ERROR_WANT_WRITE ||
                    SSL_get_error(client->ssl, sent) == SSL_ERROR_WANT_READ
              ? EAGAIN
              : EPIPE;
    return -1;
}

void hth_test_client_say_bytes(hth_test_client *client, const void *bytes, size_t n)
{
    const char *at = bytes;
    uint64_t deadline = hth_test_now_ms() + HTH_TEST_PATIENCE_MS;

    while (n > 0) {
        ssize_t sent = send_some(client, at, n);

        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            assert_true(hth_test_now_ms() < deadline);
            hth_test_http_turn(client->stage);
        } else {
            return; /* the server has closed, which the client sees when it listens */
        }
    }
}

void hth_test_client_say(hth_test_client *client, const char *text)
{
    hth_test_client_say_bytes(client, text, strlen(text));
}

static ssize_t receive_some(hth_test_client *client, char *bytes, size_t n)
{
    int received, error;

    if (!client->ssl)
        return recv(client->fd, bytes, n, 0);
    received = SSL_read(client->ssl, bytes, (int)n);
    if (received > 0)
        return received;
    error = SSL_get_error(client->ssl, received);
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

/* Room for n more bytes and a NUL. It doubles: a reply of megabytes is not to be copied with each of its pieces. */
static void reserve_heard(hth_test_client *client, size_t n)
{
    size_t needed = client->n_heard + n + 1;

    if (needed <= client->heard_capacity)
        return;
    client->heard_capacity = 2 * client->heard_capacity > needed ? 2 * client->heard_capacity : needed;
    client->heard = realloc(client->heard, client->heard_capacity);
    assert_non_null(client->heard);
}

void hth_test_client_listen(hth_test_client *client)
{
    char bytes[65536];
    ssize_t n;

    while (!client->is_at_end && (n = receive_some(client, bytes, sizeof(bytes))) != 0) {
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0) {
            client->is_at_end = client->was_reset = true;
            return;
        }
        reserve_heard(client, (size_t)n);
        memcpy(client->heard + client->n_heard, bytes, (size_t)n);
        client->n_heard += (size_t)n;
        client->heard[client->n_heard] = '\0';
    }
    client->is_at_end = true;
}

/* Has the text come? It begins at *from or later, which moves on, so that megabytes are looked through once. */
static const char *find_heard(hth_test_client *client, const char *text, size_t *from)
{
    const char *found;

    hth_test_client_listen(client);
    found = strstr(client->heard + *from, text);
    if (client->n_heard > strlen(text))
        *from = client->n_heard - strlen(text);
    return found;
}

const char *hth_test_client_hear(hth_test_client *client, const char *text)
{
    const char *found;
    size_t from = 0;

    hth_test_http_until(client->stage, (found = find_heard(client, text, &from)) || client->is_at_end);
    if (!found)
        fail_msg("the connection ended without '%s', but with '%s'", text, client->heard);
    return found;
}

void hth_test_client_hear_end(hth_test_client *client)
{
    hth_test_http_until(client->stage, (hth_test_client_listen(client), client->is_at_end));
}

const char *hth_test_client_body(const hth_test_client *client)
{
    const char *end = strstr(client->heard, "\r\n\r\n");

    assert_non_null(end);
    return end + 4;
}

int hth_test_client_hear_reply(hth_test_client *client)
{
    const char *length;
    int status;

    (void)hth_test_client_hear(client, "\r\n\r\n"); /* where does not matter */
    assert_int_equal(strncmp(client->heard, "HTTP/1.1 ", 9), 0);
    status = atoi(client->heard + 9);
    length = strstr(client->heard, "Content-Length: ");
    if (length) {
        size_t n = (size_t)strtoull(length + 16, NULL, 10);

        hth_test_http_until(client->stage,
                            (hth_test_client_listen(client),
                             client->n_heard - (size_t)(hth_test_client_body(client) - client->heard) >= n));
    } else if (strstr(client->heard, "Transfer-Encoding: chunked")) {
        (void)hth_test_client_hear(client, "0\r\n\r\n");
    }
    return status;
}

void hth_test_client_forget(hth_test_client *client)
{
    free(client->heard);
    client->heard = calloc(1, 1);
    assert_non_null(client->heard);
    client->heard_capacity = 1;
    client->n_heard = 0;
}
