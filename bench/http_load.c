/*
 * http_load.c - requests as fast as a server answers them, and the time of each
 *
 *   http_load [OPTIONS] TARGET...
 *
 * TARGET is http://HOST:PORT/PATH or unix:SOCKET:/PATH. Every connection sends the same request again as soon as its
 * last reply is complete, over one kept connection. One thread serves all of them, to take little of the machine from
 * the server. The bytes of the request are made once, and replies are read no further than their end needs. A reply of
 * another status than 200, or without the text of --expect, ends the program with exit code 1.
 *
 * With several targets each has its own connections and results. With --alternate one request is on its way at a time
 * and the targets take turns. That compares two ways to the same server under the same conditions of the machine.
 *
 * Times run from before a request is written to a reply's first byte, its end, and the first two events of a stream
 * ("data:").
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "http_reply.h"

enum { TARGETS_MAX = 8, CONNECTIONS_MAX = 1024, HEADERS_MAX = 16, READ_BYTES = 1 << 16, REQUESTS_MAX = 1 << 24 };

typedef enum timing { TIME_FIRST_BYTE, TIME_END, TIME_EVENT_1, TIME_EVENT_2, N_TIMINGS } timing;
static const char *const timing_names[] = { "first_byte_us", "reply_us", "event_1_us", "event_2_us" };

/* Times of one kind, in nanoseconds. */
typedef struct times {
    uint64_t *values;
    size_t n;
    size_t capacity;
} times;

typedef struct target {
    const char *name;
    char host[256]; /* "" for a unix socket */
    char port[16];
    char socket_path[108];
    const char *path;
    char *request;
    size_t n_request;
    times times[N_TIMINGS];
    uint64_t n_replies; /* after the warm-up */
    uint64_t n_bytes;
} target;

typedef struct connection {
    target *target;
    int fd;
    bool is_warm;   /* its request counts */
    size_t n_sent;  /* of the request */
    bool is_used;   /* it has had a reply */
    bool is_active; /* a request is on its way */
    uint64_t begin_ns;
    http_reply reply;
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
    bool json;
    const char *method;
    char *body;
    size_t n_body;
    const char *headers[HEADERS_MAX];
    size_t n_headers;
    const char *expected; /* text that every reply must hold */
    uint64_t begin_ns;    /* of what counts */
    uint64_t end_ns;      /* no request begins after this; 0: open */
} load;

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)fputs("http_load: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void *allocate(void *old, size_t n)
{
    void *memory = realloc(old, n);

    if (!memory)
        die("no memory");
    return memory;
}

/* ---- times ---- */

static void times_add(times *t, uint64_t ns)
{
    if (t->n == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 4096;
        t->values = allocate(t->values, t->capacity * sizeof(*t->values));
    }
    t->values[t->n++] = ns;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Of sorted times; 0 of none. */
static double percentile_us(const times *t, double part)
{
    size_t i = (size_t)(part * (double)t->n);

    if (t->n == 0)
        return 0;
    return (double)t->values[i < t->n ? i : t->n - 1] / 1e3;
}

/* ---- targets ---- */

static void target_parse(target *t, const char *name)
{
    const char *rest, *end, *colon;

    t->name = name;
    if (strncmp(name, "unix:", 5) == 0) {
        rest = name + 5;
        colon = strrchr(rest, ':');
        if (!colon || colon[1] != '/' || (size_t)(colon - rest) >= sizeof(t->socket_path))
            die("'%s' is not unix:SOCKET:/PATH", name);
        memcpy(t->socket_path, rest, (size_t)(colon - rest));
        t->path = colon + 1;
        return;
    }
    if (strncmp(name, "http://", 7) != 0)
        die("'%s' is neither http://HOST:PORT/PATH nor unix:SOCKET:/PATH", name);
    rest = name + 7;
    end = rest + strcspn(rest, "/");
    colon = memchr(rest, ']', (size_t)(end - rest)); /* [::1]:80 */
    colon = memchr(colon ? colon : rest, ':', (size_t)(end - (colon ? colon : rest)));
    if (!colon || (size_t)(colon - rest) >= sizeof(t->host) || (size_t)(end - colon) > sizeof(t->port))
        die("'%s' has no HOST:PORT", name);
    if (*rest == '[')
        memcpy(t->host, rest + 1, (size_t)(colon - rest) - 2);
    else
        memcpy(t->host, rest, (size_t)(colon - rest));
    memcpy(t->port, colon + 1, (size_t)(end - colon) - 1);
    t->path = *end ? end : "/";
}

static void target_make_request(target *t, const load *l)
{
    size_t capacity = 1024 + strlen(t->path) + l->n_body;
    int n;

    for (size_t i = 0; i < l->n_headers; i++)
        capacity += strlen(l->headers[i]) + 2;
    t->request = allocate(NULL, capacity);
    n = snprintf(t->request, capacity, "%s %s HTTP/1.1\r\nHost: %s\r\n",
                 l->method ? l->method
                 : l->body ? "POST"
                           : "GET",
                 t->path, *t->host ? t->host : "localhost");
    for (size_t i = 0; i < l->n_headers; i++)
        n += snprintf(t->request + n, capacity - (size_t)n, "%s\r\n", l->headers[i]);
    if (l->body)
        n += snprintf(t->request + n, capacity - (size_t)n, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                      l->n_body);
    n += snprintf(t->request + n, capacity - (size_t)n, "\r\n");
    if (l->n_body > 0)
        memcpy(t->request + n, l->body, l->n_body);
    t->n_request = (size_t)n + l->n_body;
}

/* ---- connections ---- */

static int connect_unix(const target *t)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(address.sun_path, t->socket_path, sizeof(t->socket_path) - 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("cannot connect to '%s': %s", t->socket_path, strerror(errno));
    return fd;
}

static int connect_tcp(const target *t)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    int one = 1, fd = -1, status = getaddrinfo(t->host, t->port, &hints, &found);

    if (status != 0)
        die("cannot find '%s': %s", t->host, gai_strerror(status));
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd < 0)
        die("cannot connect to %s:%s: %s", t->host, t->port, strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* slower without, no worse */
    return fd;
}

static void connection_open(connection *c)
{
    c->fd = *c->target->host ? connect_tcp(c->target) : connect_unix(c->target);
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0)
        die("cannot make a socket that does not block: %s", strerror(errno));
    c->is_used = false;
}

static void connection_write(connection *c)
{
    const target *t = c->target;

    while (c->n_sent < t->n_request) {
        ssize_t n = send(c->fd, t->request + c->n_sent, t->n_request - c->n_sent, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0 && c->is_used && (errno == EPIPE || errno == ECONNRESET))
            return; /* reading reports it */
        if (n < 0)
            die("cannot send to '%s': %s", t->name, strerror(errno));
        c->n_sent += (size_t)n;
    }
}

/* Send a request, unless there have been enough. */
static void connection_begin(connection *c, const load *l, uint64_t n_begun)
{
    c->is_active = false;
    if (l->n_requests > 0 ? n_begun >= l->n_warm_up + l->n_requests : l->end_ns > 0 && now_ns() >= l->end_ns)
        return;
    c->is_active = true;
    c->is_warm = n_begun >= l->n_warm_up;
    c->n_sent = 0;
    http_reply_begin(&c->reply);
    c->begin_ns = now_ns();
    connection_write(c);
}

static void check_reply(const connection *c, const load *l)
{
    const http_reply *r = &c->reply;

    if (r->part == HTTP_REPLY_BROKEN)
        die("'%s' ended a connection, or its reply is no HTTP: %.*s", c->target->name,
            (int)(r->n_head < 200 ? r->n_head : 200), r->head);
    if (r->status != 200 || (l->expected && !strstr(r->body, l->expected)))
        die("'%s' answered %d: %.300s", c->target->name, r->status, r->body);
}

static void note_reply(connection *c, uint64_t end_ns)
{
    target *t = c->target;

    if (!c->is_warm)
        return;
    t->n_replies++;
    t->n_bytes += c->reply.body_bytes;
    times_add(&t->times[TIME_FIRST_BYTE], c->reply.first_ns - c->begin_ns);
    times_add(&t->times[TIME_END], end_ns - c->begin_ns);
    for (size_t i = 0; i < HTTP_REPLY_EVENTS_TIMED && i < c->reply.n_events; i++)
        times_add(&t->times[TIME_EVENT_1 + i], c->reply.event_ns[i] - c->begin_ns);
}

/* Read what is there. True: the reply is complete. */
static bool connection_read(connection *c, const load *l)
{
    char bytes[READ_BYTES];
    ssize_t n = read(c->fd, bytes, sizeof(bytes));
    uint64_t now;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    /* A server may close a connection behind a reply without notice. The request that meets that goes to a new one. */
    if (c->is_used && c->reply.n_head == 0 && (n == 0 || (n < 0 && errno == ECONNRESET))) {
        (void)close(c->fd); /* nothing was written that could be lost */
        connection_open(c);
        c->n_sent = 0;
        connection_write(c);
        return false;
    }
    if (n < 0)
        die("cannot read from '%s': %s", c->target->name, strerror(errno));
    now = now_ns();
    if (n == 0)
        http_reply_end(&c->reply);
    else if (http_reply_feed(&c->reply, bytes, (size_t)n, now) != (size_t)n)
        die("'%s' sent more than its reply", c->target->name);
    if (c->reply.part != HTTP_REPLY_COMPLETE && c->reply.part != HTTP_REPLY_BROKEN)
        return false;
    check_reply(c, l);
    note_reply(c, now);
    c->is_used = true;
    if (n == 0 || c->reply.closes) {
        (void)close(c->fd); /* nothing was written that could be lost */
        connection_open(c);
    }
    return true;
}

/* ---- the load ---- */

/* All connections of a target at once. */
static void run_target(load *l, size_t index)
{
    connection *connections = l->connections + index * l->n_connections;
    struct pollfd *polled = allocate(NULL, l->n_connections * sizeof(*polled));
    uint64_t n_begun = 0, n_done = 0;
    size_t n_active = 0;

    l->begin_ns = now_ns();
    l->end_ns = l->n_requests > 0 || l->n_warm_up > 0 ? 0 : l->begin_ns + (uint64_t)(l->seconds * 1e9);
    for (size_t i = 0; i < l->n_connections; i++) {
        connection_begin(&connections[i], l, n_begun++);
        n_active += connections[i].is_active;
    }
    while (n_active > 0) {
        for (size_t i = 0; i < l->n_connections; i++)
            polled[i] = (struct pollfd){
                .fd = connections[i].is_active ? connections[i].fd : -1,
                .events = (short)(connections[i].n_sent < connections[i].target->n_request ? POLLIN | POLLOUT : POLLIN),
            };
        if (poll(polled, (nfds_t)l->n_connections, -1) < 0 && errno != EINTR)
            die("poll: %s", strerror(errno));
        for (size_t i = 0; i < l->n_connections; i++) {
            connection *c = &connections[i];

            if (polled[i].revents & POLLOUT)
                connection_write(c);
            if (!(polled[i].revents & (POLLIN | POLLHUP | POLLERR)) || !connection_read(c, l))
                continue;
            /* The measurement begins with the last reply of the warm-up. */
            if (++n_done == l->n_warm_up) {
                l->begin_ns = now_ns();
                l->end_ns = l->n_requests > 0 ? 0 : l->begin_ns + (uint64_t)(l->seconds * 1e9);
            }
            connection_begin(c, l, n_begun++);
            n_active -= !c->is_active;
        }
    }
    l->end_ns = now_ns();
    free(polled);
}

/* One request at a time, the targets in turn. */
static void run_in_turns(load *l)
{
    uint64_t n_begun = 0;

    l->begin_ns = now_ns();
    l->end_ns = l->n_requests > 0 ? 0 : l->begin_ns + (uint64_t)(l->seconds * 1e9);
    for (bool is_active = true; is_active; n_begun++)
        for (size_t i = 0; i < l->n_targets; i++) {
            connection *c = &l->connections[i * l->n_connections];

            connection_begin(c, l, n_begun);
            is_active = c->is_active;
            while (c->is_active) {
                struct pollfd polled = {
                    .fd = c->fd,
                    .events = (short)(c->n_sent < c->target->n_request ? POLLIN | POLLOUT : POLLIN),
                };

                if (poll(&polled, 1, -1) < 0 && errno != EINTR)
                    die("poll: %s", strerror(errno));
                if (polled.revents & POLLOUT)
                    connection_write(c);
                c->is_active = !(polled.revents & (POLLIN | POLLHUP | POLLERR)) || !connection_read(c, l);
            }
        }
    l->end_ns = now_ns();
}

/* ---- results ---- */

static void print_target(const load *l, target *t)
{
    double seconds = (double)(l->end_ns - l->begin_ns) / 1e9;
    double rate = seconds > 0 ? (double)t->n_replies / seconds : 0;

    if (l->json)
        (void)printf("{\"target\":\"%s\",\"connections\":%zu,\"replies\":%" PRIu64
                     ",\"seconds\":%.3f,\"replies_per_s\":%.1f,\"bytes\":%" PRIu64,
                     t->name, l->n_connections, t->n_replies, seconds, rate, t->n_bytes);
    else
        (void)printf("%s, %zu connections: %" PRIu64 " replies in %.3f s, %.1f/s\n", t->name, l->n_connections,
                     t->n_replies, seconds, rate);
    for (size_t i = 0; i < N_TIMINGS; i++) {
        times *of = &t->times[i];

        if (of->n == 0)
            continue;
        qsort(of->values, of->n, sizeof(*of->values), compare);
        (void)printf(l->json ? ",\"%s\":{\"min\":%.1f,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f}"
                             : "  %-14s min %.1f, median %.1f, p90 %.1f, p99 %.1f, max %.1f\n",
                     timing_names[i], percentile_us(of, 0), percentile_us(of, 0.5), percentile_us(of, 0.9),
                     percentile_us(of, 0.99), percentile_us(of, 1));
    }
    if (l->json)
        (void)printf("}\n");
}

static void read_file(const char *path, char **text_out, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, capacity = 0;

    if (!file)
        die("cannot open '%s': %s", path, strerror(errno));
    for (size_t n_read = 1; n_read > 0; n += n_read) {
        if (capacity - n < READ_BYTES)
            text = allocate(text, capacity = 2 * capacity + 2 * (size_t)READ_BYTES);
        n_read = fread(text + n, 1, READ_BYTES, file);
    }
    if (ferror(file))
        die("cannot read '%s'", path);
    (void)fclose(file); /* it was only read */
    *text_out = text;
    *n_out = n;
}

static void usage(void)
{
    (void)fputs("usage: http_load [OPTIONS] TARGET...\n\n"
                "TARGET: http://HOST:PORT/PATH or unix:SOCKET:/PATH; several are measured one after the other\n"
                "  -c, --connections N  of each target (default 1)\n"
                "  -n, --requests N     so many, of all connections together\n"
                "  -s, --seconds S      or for so long (default 5)\n"
                "  -w, --warm-up N      requests before those that count (default 0)\n"
                "      --alternate      one request at a time, the targets in turn\n"
                "      --body TEXT      POST this; --body-file FILE likewise\n"
                "      --method NAME    instead of GET, or POST with a body\n"
                "      --header TEXT    'Name: value'; may be repeated\n"
                "      --expect TEXT    every reply's beginning must hold this\n"
                "      --json           a line of JSON for each target\n",
                stderr);
    exit(2);
}

static double number(const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= low && value <= high))
        die("'%s' is no number of %g to %g", text, low, high);
    return value;
}

static void read_options(load *l, int n_arguments, char **arguments)
{
    enum { BODY = 256, BODY_FILE, METHOD, HEADER, EXPECT, ALTERNATE, JSON };
    static const struct option options[] = {
        { "connections", required_argument, NULL, 'c' },
        { "requests", required_argument, NULL, 'n' },
        { "seconds", required_argument, NULL, 's' },
        { "warm-up", required_argument, NULL, 'w' },
        { "body", required_argument, NULL, BODY },
        { "body-file", required_argument, NULL, BODY_FILE },
        { "method", required_argument, NULL, METHOD },
        { "header", required_argument, NULL, HEADER },
        { "expect", required_argument, NULL, EXPECT },
        { "alternate", no_argument, NULL, ALTERNATE },
        { "json", no_argument, NULL, JSON },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(n_arguments, arguments, "c:n:s:w:", options, NULL)) != -1)
        switch (option) {
        case 'c': l->n_connections = (size_t)number(optarg, 1, CONNECTIONS_MAX); break;
        case 'n': l->n_requests = (uint64_t)number(optarg, 1, REQUESTS_MAX); break;
        case 's': l->seconds = number(optarg, 0.001, 3600); break;
        case 'w': l->n_warm_up = (uint64_t)number(optarg, 0, REQUESTS_MAX); break;
        case BODY:
            l->body = optarg;
            l->n_body = strlen(optarg);
            break;
        case BODY_FILE: read_file(optarg, &l->body, &l->n_body); break;
        case METHOD: l->method = optarg; break;
        case HEADER:
            if (l->n_headers == HEADERS_MAX)
                die("more than %d headers", HEADERS_MAX);
            l->headers[l->n_headers++] = optarg;
            break;
        case EXPECT: l->expected = optarg; break;
        case ALTERNATE: l->alternates = true; break;
        case JSON: l->json = true; break;
        default: usage();
        }
    if (optind == n_arguments || n_arguments - optind > TARGETS_MAX)
        usage();
    for (; optind < n_arguments; optind++)
        target_parse(&l->targets[l->n_targets++], arguments[optind]);
}

int main(int n_arguments, char **arguments)
{
    static load l = { .n_connections = 1, .seconds = 5 };

    read_options(&l, n_arguments, arguments);
    if (l.alternates)
        l.n_connections = 1;
    l.connections = allocate(NULL, l.n_targets * l.n_connections * sizeof(*l.connections));
    for (size_t i = 0; i < l.n_targets; i++) {
        target_make_request(&l.targets[i], &l);
        for (size_t k = 0; k < l.n_connections; k++) {
            connection *c = &l.connections[i * l.n_connections + k];

            c->target = &l.targets[i];
            c->is_active = false;
            connection_open(c);
        }
    }
    if (l.alternates)
        run_in_turns(&l);
    for (size_t i = 0; i < l.n_targets; i++) {
        if (!l.alternates)
            run_target(&l, i);
        print_target(&l, &l.targets[i]);
    }
    return 0;
}
