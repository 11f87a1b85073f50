/*
 * http_target.c - handlers that keep exchanges in every possible way
 */
#include "http_target.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/os.h"
#include "http/http.h"
#include "report.h"

enum { STREAM_BYTES = 4 << 20, PIECE_BYTES = 3000, LATER_MS = 20, CONNECTIONS_MAX = 100000 };

typedef struct target {
    struct event_base *base;
    hth_http_server *server;
    uint32_t n_waiting; /* work that is not done */
} target;

/* An exchange that is answered later. */
typedef struct work {
    target *target;
    hth_http_exchange *exchange;
    struct event *timer; /* NULL: a stream */
    size_t n_written;
} work;

static void work_free(work *w)
{
    w->target->n_waiting--;
    if (w->timer)
        event_free(w->timer);
    free(w);
}

static void on_close(void *user_data)
{
    work_free(user_data);
}

static void on_room(void *user_data)
{
    static const char piece[PIECE_BYTES] = "data: piece\n\n";
    work *w = user_data;

    while (w->n_written < STREAM_BYTES && hth_http_stream_backlog(w->exchange) < HTH_HTTP_BACKLOG_MAX) {
        hth_http_stream_write(w->exchange, piece, sizeof(piece));
        w->n_written += sizeof(piece);
    }
    if (w->n_written < STREAM_BYTES)
        return;
    hth_http_stream_end(w->exchange);
    work_free(w);
}

static void on_time(evutil_socket_t fd, short what, void *user_data)
{
    work *w = user_data;

    (void)fd;
    (void)what;
    hth_http_reply(w->exchange, 200, "text/plain", "later\n", 6);
    work_free(w);
}

static void begin_work(target *t, hth_http_exchange *exchange, bool is_stream)
{
    const struct timeval delay = { .tv_usec = LATER_MS * 1000 };
    work *w = calloc(1, sizeof(*w));

    if (!w)
        hth_report_die("no memory");
    *w = (work){ .target = t, .exchange = exchange };
    t->n_waiting++;
    hth_http_watch_set(exchange, &(hth_http_watch){ .on_close = on_close, .on_room = on_room, .user_data = w });
    if (is_stream) {
        hth_http_stream_begin(exchange, 200, "text/event-stream");
        on_room(w);
        return;
    }
    w->timer = event_new(t->base, -1, 0, on_time, w);
    if (!w->timer || event_add(w->timer, &delay) != 0)
        hth_report_die("no memory");
}

/* Of memory that is this process' own, 0 where the system does not tell. */
static unsigned long long memory_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long size = 0, resident = 0, shared = 0;
    bool is_read = file && fscanf(file, "%llu %llu %llu", &size, &resident, &shared) == 3;

    if (file)
        (void)fclose(file); /* was only read */
    return is_read ? (resident - shared) * (unsigned long long)sysconf(_SC_PAGESIZE) : 0;
}

static void reply_numbers(target *t, hth_http_exchange *exchange)
{
    hth_http_numbers numbers = hth_http_server_numbers(t->server);
    char text[200];
    int n = snprintf(text, sizeof(text), "%u %u %u %u %llu %llu\n", numbers.n_connections, numbers.n_exchanges,
                     hth_os_n_descriptors(), t->n_waiting, memory_bytes(),
                     (unsigned long long)hth_os_process_cpu_ns() / 1000);

    hth_http_reply(exchange, 200, "text/plain", text, (size_t)n);
}

static void handle(hth_http_exchange *exchange, void *user_data)
{
    target *t = user_data;
    const char *path = hth_http_path(exchange);

    if (strcmp(path, "/hello") == 0)
        hth_http_reply(exchange, 200, "text/plain", "hello\n", 6);
    else if (strcmp(path, "/numbers") == 0)
        reply_numbers(t, exchange);
    else if (strcmp(path, "/later") == 0 || strcmp(path, "/stream") == 0)
        begin_work(t, exchange, path[1] == 's');
    else
        hth_http_reply(exchange, 404, "text/plain", "no\n", 3);
}

static void on_input(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    (void)event_base_loopbreak(user_data); /* the loop runs */
}

int hth_http_target_run(const char *socket_path)
{
    hth_http_options options = hth_http_options_default();
    hearth_error err = { .message = "" };
    target t = { .base = event_base_new() };
    struct event *input;
    uint16_t port = 0;

    options.connections_max = CONNECTIONS_MAX;
    options.request_timeout_ms = 5000;
    options.write_timeout_ms = 5000;
    if (!t.base || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        hth_report_die("no event base");
    hth_report_check(hth_http_server_new(t.base, &options, handle, &t, &t.server, &err), &err);
    hth_report_check(hth_http_listen_tcp(t.server, "127.0.0.1", 0, 0, NULL, NULL, &port, NULL, &err), &err);
    hth_report_check(hth_http_listen_unix(t.server, socket_path, 0, NULL, &err), &err);
    input = event_new(t.base, STDIN_FILENO, EV_READ, on_input, t.base);
    if (!input || event_add(input, NULL) != 0 || printf("%u\n", port) < 0 || fflush(stdout) != 0)
        hth_report_die("cannot begin");
    (void)event_base_dispatch(t.base); /* ends with the input */
    hth_http_server_free(t.server);
    event_free(input);
    event_base_free(t.base);
    return t.n_waiting == 0 ? 0 : 1;
}
