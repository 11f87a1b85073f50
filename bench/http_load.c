/*
 * http_load.c - requests as fast as a server answers them, and the time of each
 *
 *   http_load [OPTIONS] BODY-FILE TARGET...
 *
 *   -c N  connections of each target (1)
 *   -n N  so many requests, of all connections of a target together
 *   -s S  or for so many seconds (5)
 *   -w N  requests of each target before those that count (0)
 *   -a    one request on its way at a time, the targets in turn: that compares two ways to the same server under the
 *         same conditions of the machine
 *
 * TARGET is http://127.0.0.1:PORT/PATH or unix:SOCKET:/PATH. Every connection posts the same body again as soon as its
 * last reply is complete. Several targets are measured one after the other. One thread serves all connections, to take
 * little of the machine from the server. `hearth bench --url` sends conversations at a rate instead, as clients do.
 *
 * Prints a line of JSON for each target: replies and bytes, and the times from before a request is written to a reply's
 * first byte, its end, and the first two events of a stream (of the first HTH_SAMPLES_MAX). A reply of another status
 * than 200 ends the program with exit code 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/buffer.h"
#include "base/measure.h"
#include "base/os.h"
#include "console/text_file.h"
#include "http_client.h"
#include "report.h"

enum { TARGETS_MAX = 8, CONNECTIONS_MAX = 1024, READ_BYTES = 1 << 16, REQUESTS_MAX = 1 << 24 };

typedef enum timing { TIME_FIRST_BYTE, TIME_END, TIME_EVENT_1, TIME_EVENT_2, N_TIMINGS } timing;
static const char *const timing_names[] = { "first_byte_us", "reply_us", "event_1_us", "event_2_us" };

typedef struct target {
    const char *name;
    char *socket_path; /* NULL: a port of this machine */
    uint16_t port;
    hth_buffer request;
    hth_samples us[N_TIMINGS];
    uint64_t n_replies; /* after the warm-up */
    uint64_t n_bytes;
} target;

typedef struct connection {
    target *target;
    int fd;         /* -1 until its first request: servers close connections on which nothing comes */
    bool is_warm;   /* its request counts */
    size_t n_sent;  /* of the request */
    bool is_used;   /* it has had a reply */
    bool is_active; /* a request is on its way */
    uint64_t begin_ns;
    hth_reply reply;
} connection;

typedef struct load {
    target targets[TARGETS_MAX];
    size_t n_targets;
    connection *connections; /* [n_connections * n_targets], those of a target side by side */
    size_t n_connections;    /* of each target */
    uint64_t n_requests;     /* of all connections of a target; 0: until the time is over */
    double seconds;
    uint64_t n_warm_up; /* likewise */
    bool alternates;
    uint64_t begin_ns; /* of what counts */
    uint64_t end_ns;   /* no request begins after this; 0: open */
} load;

/* ---- targets ---- */

static void target_init(target *t, const char *name, const char *body)
{
    const char *colon = strrchr(name, ':'), *path = NULL;
    char length[64];
    int n = 0;

    t->name = name;
    if (strncmp(name, "unix:", 5) == 0 && colon > name + 5) {
        t->socket_path = strndup(name + 5, (size_t)(colon - name) - 5);
        path = colon + 1;
    } else if (sscanf(name, "http://127.0.0.1:%" SCNu16 "%n", &t->port, &n) == 1) {
        path = name + n;
    }
    if (!path || *path != '/')
        hth_report_die("'%s' is neither http://127.0.0.1:PORT/PATH nor unix:SOCKET:/PATH", name);
    (void)snprintf(length, sizeof(length), "Content-Length: %zu\r\n\r\n", strlen(body)); /* fits */
    hth_buffer_add_text(&t->request, "POST ");
    hth_buffer_add_text(&t->request, path);
    hth_buffer_add_text(&t->request, " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n");
    hth_buffer_add_text(&t->request, length);
    hth_buffer_add_text(&t->request, body);
    if (t->request.failed)
        hth_report_die("no memory");
}

/* ---- connections ---- */

static void connection_open(connection *c)
{
    c->fd = hth_dial(c->target->socket_path, c->target->port);
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0)
        hth_report_die("cannot make a socket that does not block: %s", strerror(errno));
    c->is_used = false;
}

static void connection_write(connection *c)
{
    const hth_buffer *request = &c->target->request;

    while (c->n_sent < request->n) {
        const ssize_t n = send(c->fd, request->text + c->n_sent, request->n - c->n_sent, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0 && c->is_used && (errno == EPIPE || errno == ECONNRESET))
            return; /* reading reports it */
        if (n < 0)
            hth_report_die("cannot send to '%s': %s", c->target->name, strerror(errno));
        c->n_sent += (size_t)n;
    }
}

/* Send a request, unless there have been enough. */
static void connection_begin(connection *c, const load *l, uint64_t n_begun)
{
    uint64_t now = hth_os_monotonic_ns();

    if (l->n_requests > 0 ? n_begun >= l->n_warm_up + l->n_requests : l->end_ns > 0 && now >= l->end_ns)
        return;
    if (c->fd < 0) {
        connection_open(c);
        now = hth_os_monotonic_ns();
    }
    c->is_active = true;
    c->is_warm = n_begun >= l->n_warm_up;
    c->n_sent = 0;
    hth_reply_begin(&c->reply);
    c->begin_ns = now;
    connection_write(c);
}

static void add_time(connection *c, timing what, uint64_t at_ns)
{
    hth_samples_add(&c->target->us[what], (double)(at_ns - c->begin_ns) / 1e3);
}

static void note_reply(connection *c, uint64_t end_ns)
{
    c->target->n_replies++;
    c->target->n_bytes += c->reply.body_bytes;
    add_time(c, TIME_FIRST_BYTE, c->reply.first_ns);
    add_time(c, TIME_END, end_ns);
    for (size_t i = 0; i < HTH_REPLY_EVENTS_TIMED && i < c->reply.n_events; i++)
        add_time(c, TIME_EVENT_1 + i, c->reply.event_ns[i]);
}

static void reopen(connection *c)
{
    (void)close(c->fd); /* nothing was written that could be lost */
    connection_open(c);
}

/* Read what is there. True: the reply is complete. */
static bool connection_read(connection *c)
{
    char bytes[READ_BYTES];
    const ssize_t n = read(c->fd, bytes, sizeof(bytes));
    const uint64_t now = hth_os_monotonic_ns();

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    /* A server may close a connection behind a reply without notice. The request that meets that goes to a new one. */
    if (c->is_used && c->reply.n_head == 0 && (n == 0 || (n < 0 && errno == ECONNRESET))) {
        reopen(c);
        c->n_sent = 0;
        connection_write(c);
        return false;
    }
    if (n <= 0)
        hth_report_die("'%s' ended a connection: %s", c->target->name, n < 0 ? strerror(errno) : "its reply is cut");
    hth_reply_feed(&c->reply, bytes, (size_t)n, now);
    if (c->reply.part == HTH_REPLY_BROKEN)
        hth_report_die("the reply of '%s' is no HTTP: %.200s", c->target->name, c->reply.head);
    if (c->reply.part != HTH_REPLY_COMPLETE)
        return false;
    if (c->reply.status != 200)
        hth_report_die("'%s' answered %d: %.300s", c->target->name, c->reply.status, c->reply.body);
    if (c->is_warm)
        note_reply(c, now);
    c->is_active = false;
    c->is_used = true;
    if (c->reply.closes)
        reopen(c);
    return true;
}

/* ---- the load ---- */

static void begin_counting(load *l)
{
    l->begin_ns = hth_os_monotonic_ns();
    l->end_ns = l->n_requests > 0 ? 0 : l->begin_ns + (uint64_t)(l->seconds * 1e9);
}

/* The connections of a target at once, or one of each target in turn. */
static void run(load *l, connection *connections, size_t n)
{
    const size_t n_turns = l->alternates ? n : 1;
    struct pollfd *polled = calloc(n, sizeof(*polled));
    uint64_t n_begun = 0, n_done = 0;
    size_t n_active = 0;

    if (!polled)
        hth_report_die("no memory");
    begin_counting(l);
    l->end_ns = l->n_warm_up > 0 ? 0 : l->end_ns;
    for (size_t i = 0; i < n / n_turns; i++) {
        connection_begin(&connections[i], l, n_begun++ / n_turns);
        n_active += connections[i].is_active;
    }
    while (n_active > 0) {
        for (size_t i = 0; i < n; i++)
            polled[i] = (struct pollfd){
                .fd = connections[i].is_active ? connections[i].fd : -1,
                .events = (short)(connections[i].n_sent < connections[i].target->request.n ? POLLIN | POLLOUT : POLLIN),
            };
        if (poll(polled, (nfds_t)n, -1) < 0 && errno != EINTR)
            hth_report_die("poll: %s", strerror(errno));
        for (size_t i = 0; i < n; i++) {
            connection *next = &connections[l->alternates ? (i + 1) % n : i];

            if (polled[i].revents & POLLOUT)
                connection_write(&connections[i]);
            if (!(polled[i].revents & (POLLIN | POLLHUP | POLLERR)) || !connection_read(&connections[i]))
                continue;
            if (++n_done == l->n_warm_up * n_turns)
                begin_counting(l);
            connection_begin(next, l, n_begun++ / n_turns);
            n_active -= !next->is_active;
        }
    }
    l->end_ns = hth_os_monotonic_ns();
    free(polled);
}

static void print_target(const load *l, const target *t)
{
    const double seconds = (double)(l->end_ns - l->begin_ns) / 1e9;

    (void)printf("{\"target\":\"%s\",\"connections\":%zu,\"replies\":%" PRIu64
                 ",\"seconds\":%.3f,\"replies_per_s\":%.1f,\"bytes\":%" PRIu64,
                 t->name, l->n_connections, t->n_replies, seconds, (double)t->n_replies / seconds, t->n_bytes);
    for (size_t i = 0; i < N_TIMINGS; i++)
        if (t->us[i].n > 0)
            (void)printf(",\"%s\":{\"min\":%.1f,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f}", timing_names[i],
                         hth_samples_min(&t->us[i]), hth_samples_median(&t->us[i]),
                         hth_samples_percentile(&t->us[i], 0.9), hth_samples_percentile(&t->us[i], 0.99),
                         hth_samples_max(&t->us[i]));
    (void)printf("}\n");
}

/* ---- the command line ---- */

static void usage(void)
{
    (void)fputs("usage: http_load [-c CONNECTIONS] [-n REQUESTS | -s SECONDS] [-w WARM-UP] [-a] BODY-FILE TARGET...\n",
                stderr);
    exit(2);
}

static double number(const char *text, double low, double high)
{
    char *end;
    const double value = strtod(text, &end);

    if (end == text || *end || !(value >= low && value <= high))
        hth_report_die("'%s' is no number of %g to %g", text, low, high);
    return value;
}

static void read_options(load *l, int n_arguments, char **arguments)
{
    char *body;
    int option;

    while ((option = getopt(n_arguments, arguments, "c:n:s:w:a")) != -1)
        switch (option) {
        case 'c': l->n_connections = (size_t)number(optarg, 1, CONNECTIONS_MAX); break;
        case 'n': l->n_requests = (uint64_t)number(optarg, 1, REQUESTS_MAX); break;
        case 's': l->seconds = number(optarg, 0.001, 3600); break;
        case 'w': l->n_warm_up = (uint64_t)number(optarg, 0, REQUESTS_MAX); break;
        case 'a': l->alternates = true; break;
        default: usage();
        }
    if (n_arguments - optind < 2 || n_arguments - optind > 1 + TARGETS_MAX)
        usage();
    body = hth_text_file_read(arguments[optind++]);
    if (!body)
        exit(1);
    for (; optind < n_arguments; optind++)
        target_init(&l->targets[l->n_targets++], arguments[optind], body);
    free(body);
}

int main(int n_arguments, char **arguments)
{
    static load l = { .n_connections = 1, .seconds = 5 };

    read_options(&l, n_arguments, arguments);
    if (l.alternates)
        l.n_connections = 1;
    l.connections = calloc(l.n_targets * l.n_connections, sizeof(*l.connections));
    if (!l.connections)
        hth_report_die("no memory");
    for (size_t i = 0; i < l.n_targets * l.n_connections; i++)
        l.connections[i] = (connection){ .target = &l.targets[i / l.n_connections], .fd = -1 };
    if (l.alternates)
        run(&l, l.connections, l.n_targets);
    for (size_t i = 0; i < l.n_targets; i++) {
        if (!l.alternates)
            run(&l, l.connections + i * l.n_connections, l.n_connections);
        print_target(&l, &l.targets[i]);
    }
    return 0;
}
