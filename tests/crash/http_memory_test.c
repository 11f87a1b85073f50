/*
 * http_memory_test.c - every allocation of the HTTP server fails in turn, the library's below it included
 *
 * The linker and libevent send their allocations to support/failing_heap.h. A server is made and a client sends a few
 * requests, with the n-th allocation failing, for every n, alone or with those that follow for a while. Nothing
 * crashes, hangs or leaks, and the client receives nothing but replies. With memory again, the next client is served.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/os.h"
#include "http/http.h"
#include "support/cmocka_all.h"
#include "support/failing_heap.h"
#include "support/support.h"

enum { FAILURES_MAX = 5000, TURNS = 40, HEARD_MAX = 1 << 20, BODY_BYTES = 4000, TEXT_BYTES = 8192 };

/* ---- allocations ---- */

static failing_heap heap;

ALLOCATION_FAILS(n_bytes)
{
    return failing_heap_counts(&heap);
}

/* ---- the server ---- */

typedef struct stage {
    struct event_base *base;
    hth_http_server *server;
    char path[128];
    unsigned n_handled, n_closed;
} stage;

static void on_close(void *user_data)
{
    stage *s = user_data;

    s->n_closed++;
}

static void handle(hth_http_exchange *exchange, void *user_data)
{
    char piece[3000];
    stage *s = user_data;
    const char *path = hth_http_path(exchange), *query = hth_http_query(exchange, "q");
    size_t n;
    const char *body = hth_http_body(exchange, &n);

    s->n_handled++;
    memset(piece, 'p', sizeof(piece));
    hth_http_watch_set(exchange, &(hth_http_watch){ .on_close = on_close, .user_data = s });
    hth_http_header_add(exchange, "X-Query", query ? query : "none");
    hth_http_header_add(exchange, "X-Path", path);
    if (strcmp(path, "/stream") != 0) {
        hth_http_reply(exchange, 200, "text/plain", body, n);
        return;
    }
    hth_http_stream_begin(exchange, 200, "text/plain");
    for (int i = 0; i < 3; i++)
        hth_http_stream_write(exchange, piece, sizeof(piece));
    hth_http_stream_end(exchange);
}

static hearth_status make_server(stage *s)
{
    hth_http_options options = hth_http_options_default();
    hearth_status status;

    options.server_name = "hearth";
    status = hth_http_server_new(s->base, &options, handle, s, &s->server, NULL);
    return status == HEARTH_OK ? hth_http_listen_unix(s->server, s->path, 0, NULL, NULL) : status;
}

/* ---- a client ---- */

static int dial(const stage *s)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0 && strlen(s->path) < sizeof(address.sun_path));
    memcpy(address.sun_path, s->path, strlen(s->path) + 1);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Say it in pieces and hear what comes back, NUL-terminated. The server has no memory trouble but while it works. */
static void talk(stage *s, const char *text, size_t n, char *heard, bool armed)
{
    int fd = dial(s);
    size_t n_heard = 0;

    for (int turn = 0; turn < TURNS; turn++) {
        size_t n_piece = n < 700 ? n : 700;
        ssize_t sent = send(fd, text, n_piece, MSG_NOSIGNAL), got;

        if (sent > 0) {
            text += sent;
            n -= (size_t)sent;
        }
        heap.armed = armed;
        (void)event_base_loop(s->base, EVLOOP_NONBLOCK); /* what it did is seen below */
        heap.armed = false;
        while ((got = recv(fd, heard + n_heard, HEARD_MAX - 1 - n_heard, 0)) > 0)
            n_heard += (size_t)got;
        heard[n_heard] = '\0';
    }
    assert_int_equal(close(fd), 0);
}

static const char requests[] = "GET /path%20decoded?a=b&q=c%20d HTTP/1.1\r\nHost: x\r\n\r\n"
                               "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                               "5\r\nhello\r\n0\r\n\r\n"
                               "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"
                               "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n";

/*
 * The library keeps some failures to itself, for example that output will never be sent; then limits of time end the
 * connection.
 */
static void expect_no_connection(stage *s)
{
    hth_http_options options = hth_http_options_default();
    uint64_t deadline = hth_os_monotonic_ns() + UINT64_C(20000000000);

    options.idle_timeout_ms = options.request_timeout_ms = options.write_timeout_ms = 1;
    hth_http_server_set_options(s->server, &options);
    while (hth_http_server_numbers(s->server).n_connections > 0) {
        assert_true(hth_os_monotonic_ns() < deadline);
        (void)event_base_loop(s->base, EVLOOP_NONBLOCK); /* the next turn sees what it did */
    }
}

/* One run; how many allocations there were. */
static uint64_t run(stage *s, const char *text, char *heard, uint64_t fail_at, uint64_t n_fails)
{
    hearth_status status;

    heap.n = 0;
    heap.fail_at = fail_at;
    heap.n_fails = n_fails;
    s->base = event_base_new();
    assert_non_null(s->base);
    s->server = NULL;
    heap.armed = true;
    status = make_server(s);
    heap.armed = false;
    if (status == HEARTH_OK) {
        talk(s, text, strlen(text), heard, true);
        assert_true(heard[0] == '\0' || strncmp(heard, "HTTP/1.1 ", 9) == 0);
        if (fail_at == 0) {
            assert_non_null(strstr(heard, "X-Query: c d\r\nX-Path: /path decoded\r\n"));
            assert_non_null(strstr(heard, "\r\n\r\nhello"));
            assert_non_null(strstr(heard, "HTTP/1.1 400 "));
        }
        talk(s, "GET /echo HTTP/1.0\r\n\r\n", 22, heard, false);
        assert_int_equal(strncmp(heard, "HTTP/1.1 200 ", 13), 0);
        expect_no_connection(s);
        assert_int_equal(hth_http_server_numbers(s->server).n_exchanges, 0);
    } else {
        assert_int_equal(status, HEARTH_NO_MEMORY);
    }
    hth_http_server_free(s->server);
    event_base_free(s->base);
    assert_int_equal(access(s->path, F_OK), -1);
    return heap.n;
}

TEST(any_allocation_may_fail)
{
    static const uint64_t lengths[] = { 1, 2, 7, 1000000 };
    stage s = { .n_handled = 0 };
    char *directory = hth_test_directory_new(), *text = malloc(TEXT_BYTES), *heard = malloc(HEARD_MAX);
    uint64_t n;

    assert_true(text && heard);
    (void)snprintf(text, TEXT_BYTES, "%s%0*d%s", requests, BODY_BYTES, 7, "nonsense\r\n\r\n");
    (void)snprintf(s.path, sizeof(s.path), "%s/socket", directory);
    n = run(&s, text, heard, 0, 0);
    assert_in_range(n, 20, FAILURES_MAX);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        for (uint64_t fail_at = 1; fail_at <= n; fail_at++)
            (void)run(&s, text, heard, fail_at, lengths[i]); /* fewer allocations than n, perhaps */
    }
    free(heard);
    free(text);
    hth_test_directory_remove(directory);
}

static void silence(int severity, const char *message)
{
    (void)severity;
    (void)message;
}

static int set_up(void **state)
{
    (void)state;
    event_set_mem_functions(malloc, realloc, free); /* ours */
    event_set_log_callback(silence);
    return signal(SIGPIPE, SIG_IGN) == SIG_ERR;
}

GROUP(with_our_heap, set_up, NULL)
