/*
 * http_bench.c - the HTTP server's speed, its memory for idle connections, and its behaviour under misbehaving clients
 *
 *   http_bench [--json|--markdown] [--verbose] [N_CONNECTIONS [SECONDS]]
 *
 * The server (http_target.h) is this program in another process. The program measures the requests that it answers in a
 * second of one processor's time, and the memory of N_CONNECTIONS (10000) idle connections, or as many as the limit of
 * descriptors allows. Then, for SECONDS (20), that many clients come and go. They read streams slowly, send slowly,
 * send nonsense, close their half, send ahead, or leave in the middle of anything. Meanwhile one well-behaved client
 * must always be answered. At the end nothing may remain of them: connections, exchanges, descriptors and the handlers'
 * own work are counted, and a remainder fails the program. The seed is printed; HTH_SEED repeats the random choices.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/draw.h"
#include "base/measure.h"
#include "base/os.h"
#include "http_client.h"
#include "http_target.h"
#include "report.h"

extern char **environ;

enum { CONNECTIONS = 10000, SECONDS = 20, RATE_CONNECTIONS = 64, SPARE_DESCRIPTORS = 64, PATIENCE_MS = 60000 };

typedef struct bench {
    hth_report report;
    pid_t server;
    int to_server, from_server;
    char directory[64], path[96];
    uint16_t port;
    unsigned n_connections;
    double seconds;
    uint64_t seed, n_draws;
} bench;

static uint64_t draw(bench *b, uint64_t bound)
{
    return (uint64_t)(hth_draw_uniform(b->seed, b->n_draws++) * (double)bound);
}

/* ---- the server's process ---- */

static void start_server(bench *b, const char *program)
{
    char *const arguments[] = { (char *)program, "--server", b->path, NULL };
    posix_spawn_file_actions_t actions;
    int in[2], out[2];
    char line[32] = "";

    (void)snprintf(b->directory, sizeof(b->directory), "/tmp/http_bench.XXXXXX");
    if (!mkdtemp(b->directory))
        hth_report_die("cannot make '%s': %s", b->directory, strerror(errno));
    (void)snprintf(b->path, sizeof(b->path), "%s/socket", b->directory);
    if (pipe(in) != 0 || pipe(out) != 0 || fcntl(in[1], F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(out[0], F_SETFD, FD_CLOEXEC) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addclose(&actions, in[0]) != 0 ||
        posix_spawn_file_actions_addclose(&actions, out[1]) != 0 ||
        posix_spawn(&b->server, program, &actions, NULL, arguments, environ) != 0)
        hth_report_die("cannot start '%s' again: %s", program, strerror(errno));
    (void)posix_spawn_file_actions_destroy(&actions); /* its memory only */
    (void)close(in[0]);                               /* the server has both */
    (void)close(out[1]);
    b->to_server = in[1];
    b->from_server = out[0];
    for (size_t n = 0; n < sizeof(line) - 1 && !strchr(line, '\n'); n++) {
        if (read(b->from_server, line + n, 1) != 1)
            hth_report_die("the server does not start");
    }
    b->port = (uint16_t)atoi(line);
}

static void stop_server(bench *b)
{
    int status = 0;

    (void)close(b->to_server); /* which tells it to end */
    if (waitpid(b->server, &status, 0) != b->server || status != 0)
        hth_report_die("the server ended with status %d", status);
    (void)close(b->from_server); /* all was read */
    (void)rmdir(b->directory);   /* empty, since the socket goes with the server */
}

/* ---- connections ---- */

static int dial(const bench *b, bool is_unix)
{
    const int fd = hth_dial(is_unix ? b->path : NULL, b->port);

    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        hth_report_die("cannot make a socket that does not block: %s", strerror(errno));
    return fd;
}

/* Close with a reset, so that thousands of connections do not use up the ports. */
static void hang_up(int fd)
{
    const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)); /* a unix socket needs none */
    (void)close(fd);                                                    /* nothing more is wanted from it */
}

/* Send a request on a connection that stays, and read the reply; milliseconds that it took. */
static double ask(int fd, const char *path, hth_reply *reply)
{
    char text[1024];
    uint64_t begin = hth_os_monotonic_ns();
    int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);

    hth_reply_begin(reply);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        hth_report_die("cannot ask for %s: %s", path, strerror(errno));
    while (reply->part != HTH_REPLY_COMPLETE && reply->part != HTH_REPLY_BROKEN) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        ssize_t got = -1;

        if (poll(&wait, 1, PATIENCE_MS) == 1)
            got = recv(fd, text, sizeof(text), 0);
        if (got <= 0)
            hth_report_die("no answer to %s within %d s", path, PATIENCE_MS / 1000);
        hth_reply_feed(reply, text, (size_t)got, hth_os_monotonic_ns());
    }
    if (reply->part == HTH_REPLY_BROKEN || reply->status != 200)
        hth_report_die("a bad answer to %s: %s", path, reply->head);
    return hth_ms_since(begin);
}

typedef struct numbers {
    unsigned n_connections, n_exchanges, n_descriptors, n_waiting;
    double memory_bytes, cpu_us;
} numbers;

static numbers ask_numbers(int fd)
{
    static hth_reply reply;
    numbers n;

    (void)ask(fd, "/numbers", &reply); /* how long it took is of no interest */
    if (sscanf(reply.body, "%u %u %u %u %lf %lf", &n.n_connections, &n.n_exchanges, &n.n_descriptors, &n.n_waiting,
               &n.memory_bytes, &n.cpu_us) != 6)
        hth_report_die("bad numbers: %s", reply.body);
    return n;
}

/* The numbers, once all connections but the asking one are gone. */
static numbers ask_numbers_alone(int control)
{
    uint64_t begin = hth_os_monotonic_ns();
    numbers now;

    while ((now = ask_numbers(control)).n_connections != 1) {
        (void)poll(NULL, 0, 20); /* its end */
        if (hth_ms_since(begin) > PATIENCE_MS)
            hth_report_die("left over: %u connections", now.n_connections - 1);
    }
    /* Descriptors are closed in the turn after. */
    (void)poll(NULL, 0, 20); /* its end */
    return ask_numbers(control);
}

static void raise_descriptors(bench *b)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        hth_report_die("no limit of descriptors: %s", strerror(errno));
    if (limit.rlim_cur < b->n_connections + SPARE_DESCRIPTORS) {
        limit.rlim_cur = limit.rlim_max < b->n_connections + SPARE_DESCRIPTORS ? limit.rlim_max
                                                                               : b->n_connections + SPARE_DESCRIPTORS;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            hth_report_die("cannot raise the limit of descriptors: %s", strerror(errno));
    }
    if (limit.rlim_cur < b->n_connections + SPARE_DESCRIPTORS) {
        b->n_connections = limit.rlim_cur > 2 * SPARE_DESCRIPTORS ? (unsigned)limit.rlim_cur - SPARE_DESCRIPTORS : 1;
        (void)fprintf(stderr, "the limit of descriptors allows %u connections\n", b->n_connections);
    }
}

/* ---- speed ---- */

static void measure_rate(bench *b, int control)
{
    static const char request[] =
        "POST /hello HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: curl/8\r\nAccept: */*\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    struct pollfd fds[RATE_CONNECTIONS];
    numbers before = ask_numbers(control), after;
    uint64_t begin = hth_os_monotonic_ns(), n_done = 0;
    double limit_ms = (b->seconds < 5 ? b->seconds : 5) * 1000;

    for (int i = 0; i < RATE_CONNECTIONS; i++) {
        fds[i] = (struct pollfd){ .fd = dial(b, false), .events = POLLIN };
        if (send(fds[i].fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
            hth_report_die("cannot send: %s", strerror(errno));
    }
    while (hth_ms_since(begin) < limit_ms) {
        if (poll(fds, RATE_CONNECTIONS, PATIENCE_MS) < 1)
            hth_report_die("no answer");
        for (int i = 0; i < RATE_CONNECTIONS; i++) {
            char text[1024];

            if (!fds[i].revents)
                continue;
            /* A reply is one segment. */
            if (recv(fds[i].fd, text, sizeof(text), 0) <= 0 ||
                send(fds[i].fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
                hth_report_die("a connection was closed");
            n_done++;
        }
    }
    after = ask_numbers(control);
    hth_report_detail(&b->report, "%.0f HTTP requests a second, client included",
                      (double)n_done / hth_ms_since(begin) * 1000);
    hth_report_number(&b->report, "HTTP requests in a second of one processor, 64 connections",
                      (double)n_done / (after.cpu_us - before.cpu_us) * 1e6, "1/s", HTH_AT_LEAST, 30000);
    for (int i = 0; i < RATE_CONNECTIONS; i++)
        hang_up(fds[i].fd);
}

/* ---- memory ---- */

static void measure_idle(bench *b, int control)
{
    static hth_reply reply;
    int *fds = malloc(b->n_connections * sizeof(*fds));
    numbers before = ask_numbers_alone(control), after;

    if (!fds)
        hth_report_die("no memory");
    for (unsigned i = 0; i < b->n_connections; i++) {
        fds[i] = dial(b, false);
        (void)ask(fds[i], "/hello", &reply); /* only so that it has served a request */
    }
    after = ask_numbers(control);
    if (after.n_connections != before.n_connections + b->n_connections)
        hth_report_die("%u connections of %u", after.n_connections - before.n_connections, b->n_connections);
    hth_report_detail(&b->report, "%u idle connections", b->n_connections);
    hth_report_number(&b->report, "memory of an idle HTTP connection",
                      (after.memory_bytes - before.memory_bytes) / b->n_connections, "bytes", HTH_AT_MOST, 20000);
    for (unsigned i = 0; i < b->n_connections; i++)
        hang_up(fds[i]);
    free(fds);
}

/* ---- the crowd ---- */

typedef enum habit {
    IDLES,
    READS_SLOWLY,
    SENDS_SLOWLY,
    SENDS_NONSENSE,
    CLOSES_ITS_HALF,
    SENDS_AHEAD,
    LEAVES_WAITING,
    LEAVES_IN_A_BODY,
    HABITS,
} habit;

typedef struct visitor {
    int fd;
    habit habit;
    size_t n_sent;
} visitor;

static void say(visitor *v, const char *text, size_t n)
{
    ssize_t sent = send(v->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);

    v->n_sent += sent > 0 ? (size_t)sent : 0; /* the server may have closed or be full; it may do both */
}

static void say_text(visitor *v, const char *text)
{
    say(v, text, strlen(text));
}

static void arrive(bench *b, visitor *v)
{
    *v = (visitor){ .fd = dial(b, draw(b, 2)), .habit = (habit)draw(b, HABITS) };
    switch (v->habit) {
    case READS_SLOWLY: say_text(v, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"); break;
    case CLOSES_ITS_HALF:
        say_text(v, draw(b, 2) ? "GET /later HTTP/1.1\r\nHost: x\r\n\r\n" : "GET /stream HTTP/1.0\r\n\r\n");
        (void)shutdown(v->fd, SHUT_WR); /* the server may be faster */
        break;
    case LEAVES_WAITING: say_text(v, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"); break;
    case LEAVES_IN_A_BODY:
        say_text(v, "POST /hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\nabc");
        break;
    default: break;
    }
}

static void act(bench *b, visitor *v)
{
    static const char head[] = "POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    static const char *const requests[] = { "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n",
                                            "GET /later HTTP/1.1\r\nHost: x\r\n\r\n",
                                            "HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n" };
    char bytes[4096];

    switch (v->habit) {
    case SENDS_SLOWLY: say(v, v->n_sent < sizeof(head) - 1 ? head + v->n_sent : "x", 1); break;
    case SENDS_NONSENSE:
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = draw(b, 8) ? (char)draw(b, 256) : "\r\n \t:;/0"[draw(b, 8)];
        say(v, bytes, 1 + (size_t)draw(b, sizeof(bytes)));
        break;
    case SENDS_AHEAD:
        for (uint64_t i = draw(b, 30); i > 0; i--)
            say_text(v, requests[draw(b, 3)]);
        break;
    default: break;
    }
    if (draw(b, 3) == 0)
        (void)recv(v->fd, bytes, 1 + (size_t)draw(b, sizeof(bytes)), MSG_DONTWAIT); /* whatever it is */
}

static void torture(bench *b, int control)
{
    visitor *visitors = malloc(b->n_connections * sizeof(*visitors));
    static hth_samples answers;
    static hth_reply reply;
    uint64_t begin = hth_os_monotonic_ns(), n_visits = b->n_connections;
    double limit_ms = b->seconds * 1000;

    if (!visitors)
        hth_report_die("no memory");
    for (unsigned i = 0; i < b->n_connections; i++)
        arrive(b, &visitors[i]);
    while (hth_ms_since(begin) < limit_ms) {
        for (int i = 0; i < 200; i++) {
            visitor *v = &visitors[draw(b, b->n_connections)];

            if (draw(b, 20) == 0) {
                hang_up(v->fd);
                arrive(b, v);
                n_visits++;
            } else {
                act(b, v);
            }
        }
        hth_samples_add(&answers, ask(control, "/hello", &reply));
    }
    for (unsigned i = 0; i < b->n_connections; i++)
        hang_up(visitors[i].fd);
    free(visitors);
    hth_report_detail(&b->report, "%llu visits", (unsigned long long)n_visits);
    hth_report_number(&b->report, "median answer amid misbehaving HTTP clients", hth_samples_median(&answers), "ms",
                      HTH_NO_BOUND, 0);
    hth_report_number(&b->report, "slowest answer amid misbehaving HTTP clients", hth_samples_max(&answers), "ms",
                      HTH_NO_BOUND, 0);
}

static void expect_nothing_left(int control, const numbers *before)
{
    uint64_t begin = hth_os_monotonic_ns();
    numbers now;

    do {
        (void)poll(NULL, 0, 20); /* its end */
        now = ask_numbers(control);
        if (hth_ms_since(begin) > PATIENCE_MS)
            hth_report_die("left over: %u connections, %u exchanges, %u descriptors, %u of the handlers' own",
                           now.n_connections - 1, now.n_exchanges - 1, now.n_descriptors - before->n_descriptors,
                           now.n_waiting);
    } while (now.n_connections != before->n_connections || now.n_exchanges != before->n_exchanges ||
             now.n_descriptors != before->n_descriptors || now.n_waiting != 0);
}

int main(int argc, char **argv)
{
    bench b = { .n_connections = CONNECTIONS, .seconds = SECONDS };
    const char *seed = getenv("HTH_SEED");
    numbers before;
    int control;

    if (argc == 3 && strcmp(argv[1], "--server") == 0)
        return hth_http_target_run(argv[2]);
    argc = hth_report_options(&b.report, argc, argv);
    if (argc > 1)
        b.n_connections = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        b.seconds = strtod(argv[2], NULL);
    if (argc > 3 || b.n_connections < 1 || !(b.seconds > 0)) {
        (void)fprintf(stderr, "usage: http_bench [--json|--markdown] [--verbose] [N_CONNECTIONS [SECONDS]]\n");
        return 2;
    }
    b.seed = seed ? strtoull(seed, NULL, 10) : hth_draw_seed();
    (void)fprintf(stderr, "seed %llu (HTH_SEED replays it)\n", (unsigned long long)b.seed);
    raise_descriptors(&b);
    start_server(&b, argv[0]);
    control = dial(&b, true);
    measure_rate(&b, control);
    before = ask_numbers_alone(control);
    measure_idle(&b, control);
    torture(&b, control);
    expect_nothing_left(control, &before);
    (void)close(control); /* all was read */
    stop_server(&b);
    return 0;
}
