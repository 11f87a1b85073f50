/*
 * front_bench.c - the cost of the way through the front for a request
 *
 * There are three processes: a worker that answers at once with the HTTP server of workers; a front made of the HTTP
 * server, the proxy and the requests to workers; and this client, which asks both in turn on one connection each. The
 * results are the difference between the times of a request, and the front's processor time. There is no supervisor:
 * the worker is always ready.
 *
 *   front_bench [--json | --markdown] [--verbose] [REQUESTS]
 */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/measure.h"
#include "base/os.h"
#include "front/proxy.h"
#include "http_client.h"
#include "report.h"
#include "wire/frames.h"

enum { REQUESTS = HTH_SAMPLES_MAX, ROUND = 50, WARM_UP = 500, OVERHEAD_US_MAX = 60 };

static const char request_body[] =
    "{\"model\":\"tiny\",\"messages\":[{\"role\":\"system\",\"content\":\"You answer in one "
    "word.\"},{\"role\":\"user\","
    "\"content\":\"Which is the largest planet of the solar system, and which is the smallest? Answer with the first "
    "of the two only, please.\"}],\"max_tokens\":1,\"temperature\":0}";
static const char reply_body[] =
    "{\"id\":\"chatcmpl-0123456789abcdefghijklmn\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":"
    "\"tiny\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Jupiter\",\"refusal\":null},"
    "\"finish_reason\":\"length\",\"logprobs\":null}],\"usage\":{\"prompt_tokens\":64,\"completion_tokens\":1,"
    "\"total_tokens\":65,\"prompt_tokens_details\":{\"cached_tokens\":64}}}";

/* ---- a supervisor of one worker ---- */

struct hth_supervisor {
    const char *path;
};

hearth_status hth_supervisor_want(hth_supervisor *supervisor, const char *model, uint64_t after,
                                  hth_worker_waiter *waiter, hearth_error *err)
{
    (void)model;
    (void)after;
    (void)err;
    waiter->on_ready(waiter, supervisor->path, 1);
    return HEARTH_OK;
}

hearth_status hth_supervisor_want_loaded(hth_supervisor *supervisor, const char *model, hth_worker_waiter *waiter,
                                         hearth_error *err)
{
    return hth_supervisor_want(supervisor, model, 0, waiter, err);
}

void hth_worker_waiter_cancel(hth_worker_waiter *waiter)
{
    (void)waiter;
}

void hth_supervisor_note_broken(hth_supervisor *supervisor, const char *model, uint64_t generation)
{
    (void)supervisor;
    (void)model;
    (void)generation;
    hth_report_die("the worker is gone");
}

void hth_supervisor_tell_wait(const hth_supervisor *supervisor, const char *model, uint64_t generation,
                              char out[HTH_WAIT_TEXT_BYTES])
{
    (void)generation;
    (void)supervisor;
    (void)model;
    out[0] = 0;
}

uint64_t hth_supervisor_n_deaths(const hth_supervisor *supervisor, const char *model)
{
    (void)supervisor;
    (void)model;
    return 0;
}

bool hth_supervisor_load_of(const hth_supervisor *supervisor, const char *model, hth_worker_load *out)
{
    (void)supervisor;
    (void)model;
    (void)out;
    return false;
}

bool hth_supervisor_view_of(const hth_supervisor *supervisor, const char *model, hth_worker_view *out)
{
    (void)supervisor;
    (void)model;
    (void)out;
    return false;
}

/* For the page of metrics, which is not written here. */
size_t hth_supervisor_n(const hth_supervisor *supervisor)
{
    (void)supervisor;
    return 0;
}

void hth_supervisor_view(const hth_supervisor *supervisor, size_t i, hth_worker_view *out)
{
    (void)supervisor;
    (void)i;
    (void)out;
}

void hth_supervisor_note_served(hth_supervisor *supervisor, const char *model, uint64_t generation)
{
    (void)supervisor;
    (void)model;
    (void)generation;
}

/* ---- the servers ---- */

typedef struct server {
    pid_t pid;
    int control; /* closing it ends the server, which then reports its processor time */
    char path[108];
    uint16_t port;
} server;

static void on_control(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    (void)event_base_loopbreak(user_data); /* it runs */
}

static void answer(hth_http_exchange *exchange, void *user_data)
{
    hth_buffer *frames = user_data;

    if (!hth_http_header(exchange, HTH_HEADER_FRAMES)) {
        hth_http_reply(exchange, 200, "application/json", reply_body, sizeof(reply_body) - 1);
        return;
    }
    hth_buffer_clear(frames);
    hth_frame_add_step(frames, 0, HTH_STEP_ENDS, &(hth_frame_tokens){ .ids = &(hearth_token){ 7 }, .n = 1 }, NULL, 0);
    hth_frame_add_head(frames, 200, false, 0, "application/json", NULL);
    hth_frame_add_bytes(frames, reply_body, sizeof(reply_body) - 1);
    hth_frame_add_end(frames, &(hth_frame_summary){ .status = 200 });
    hth_http_reply(exchange, 200, HTH_FRAMES_CONTENT_TYPE, frames->text, frames->n);
}

static void on_over(const hth_access_record *record, void *user_data)
{
    (void)user_data;
    if (record->status != 200)
        hth_report_die("a request ended with %d", record->status);
}

static void relay(hth_http_exchange *exchange, void *user_data)
{
    hth_proxy_relay(user_data, exchange,
                    &(hth_relay_request){
                        .model = "tiny",
                        .method = "POST",
                        .target = "/v1/chat/completions",
                        .generates = true,
                        .id = "0123456789abcdefghijklmn",
                        .traceparent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
                        .on_over = on_over,
                    });
}

/* In a process of its own; ends it. */
static void serve(struct event_base *base, hth_http_server *http, server *self, int control)
{
    const struct event *watch = event_new(base, control, EV_READ, on_control, base);
    struct rusage usage;
    hth_http_listener *listener;
    uint16_t port = 0;
    hearth_error err;

    if (!watch || event_add((struct event *)watch, NULL) != 0)
        hth_report_die("no memory");
    hth_report_check(hth_http_listen_unix(http, self->path, 0, &listener, &err), &err);
    hth_report_check(hth_http_listen_tcp(http, "127.0.0.1", 0, 0, NULL, NULL, &port, &listener, &err), &err);
    if (write(control, &port, sizeof(port)) != (ssize_t)sizeof(port))
        hth_report_die("the benchmark is gone");
    (void)event_base_dispatch(base); /* ends with control */
    (void)getrusage(RUSAGE_SELF, &usage);
    if (write(control, &usage, sizeof(usage)) != (ssize_t)sizeof(usage))
        hth_report_die("the benchmark is gone");
    (void)unlink(self->path); /* at best */
    _exit(0);
}

/* worker NULL: this is one. */
static void server_start(server *self, const server *worker, const char *name)
{
    int control[2];

    (void)snprintf(self->path, sizeof(self->path), "/tmp/hearth-front-bench-%d-%s.sock", (int)getpid(),
                   name); /* fits */
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, control) != 0)
        hth_report_die("no socket");
    (void)fflush(NULL); /* nothing twice */
    self->pid = fork();
    if (self->pid < 0)
        hth_report_die("no process");
    if (self->pid == 0) {
        const hth_http_options options = hth_http_options_default();
        struct event_base *base = event_base_new();
        hth_http_server *http;
        hth_buffer frames = { .text = NULL };
        hearth_error err;

        (void)close(control[0]); /* the benchmark's */
        if (!base)
            hth_report_die("no event loop");
        if (worker) {
            hth_supervisor supervisor = { .path = worker->path };
            hth_upstream *upstream;
            hth_places *places;
            hth_proxy *proxy;

            hth_report_check(hth_upstream_new(base, &upstream, &err), &err);
            hth_report_check(
                hth_places_new(&(hth_places_options){ .base = base, .supervisor = &supervisor, .name = "" }, &places,
                               &err),
                &err);
            hth_report_check(
                hth_proxy_new(&(hth_proxy_options){ .upstream = upstream, .places = places }, &proxy, &err), &err);
            hth_report_check(hth_http_server_new(base, &options, relay, proxy, &http, &err), &err);
            serve(base, http, self, control[1]);
        }
        hth_report_check(hth_http_server_new(base, &options, answer, &frames, &http, &err), &err);
        serve(base, http, self, control[1]);
    }
    (void)close(control[1]); /* the server's */
    self->control = control[0];
    if (read(self->control, &self->port, sizeof(self->port)) != (ssize_t)sizeof(self->port))
        hth_report_die("the %s does not start", name);
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* Returns its processor time in seconds. */
static double server_end(server *self, long *max_kib_out)
{
    struct rusage usage;

    (void)shutdown(self->control, SHUT_WR); /* which ends it */
    if (read(self->control, &usage, sizeof(usage)) != (ssize_t)sizeof(usage))
        hth_report_die("a server ended early");
    (void)close(self->control);
    (void)waitpid(self->pid, NULL, 0); /* it ends now */
    *max_kib_out = usage.ru_maxrss;
    return seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
}

/* ---- the client ---- */

typedef struct client {
    const char *name;
    int fd;
    size_t n;
    hth_samples us; /* of the first HTH_SAMPLES_MAX */
} client;

static void ask(client *self, bool counts)
{
    static char request[2048], bytes[8192];
    static size_t n_request;
    static hth_reply reply;
    uint64_t begin_ns;

    if (n_request == 0)
        n_request = (size_t)snprintf(request, sizeof(request),
                                     "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                     "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                     sizeof(request_body) - 1, request_body);
    hth_reply_begin(&reply);
    begin_ns = hth_os_monotonic_ns();
    if (write(self->fd, request, n_request) != (ssize_t)n_request)
        hth_report_die("a request was not taken");
    while (reply.part != HTH_REPLY_COMPLETE) {
        const ssize_t n = read(self->fd, bytes, sizeof(bytes));

        if (n > 0)
            hth_reply_feed(&reply, bytes, (size_t)n, begin_ns);
        if (n <= 0 || reply.part == HTH_REPLY_BROKEN)
            hth_report_die("a reply broke off");
    }
    if (reply.status != 200 || strcmp(reply.body, reply_body) != 0)
        hth_report_die("a reply is %d: %s", reply.status, reply.body);
    if (!counts)
        return;
    hth_samples_add(&self->us, hth_ms_since(begin_ns) * 1e3);
    self->n++;
}

int main(int n_arguments, char **arguments)
{
    hth_report report = { .form = HTH_REPORT_TEXT };
    server worker, front;
    static client clients[] = { { .name = "worker" }, { .name = "front, unix socket" }, { .name = "front, TCP" } };
    enum { N = sizeof(clients) / sizeof(clients[0]) };
    size_t n_requests = REQUESTS;
    double front_s;
    long max_kib;

    n_arguments = hth_report_options(&report, n_arguments, arguments);
    if (n_arguments > 1)
        n_requests = strtoul(arguments[1], NULL, 10);
    if (n_requests < ROUND)
        n_requests = ROUND;
    (void)signal(SIGPIPE, SIG_IGN); /* as servers do */
    server_start(&worker, NULL, "worker");
    server_start(&front, &worker, "front");
    clients[0].fd = hth_dial(worker.path, 0);
    clients[1].fd = hth_dial(front.path, 0);
    clients[2].fd = hth_dial(NULL, front.port);
    for (size_t i = 0; i < N; i++)
        for (size_t n = 0; n < WARM_UP; n++)
            ask(&clients[i], false);
    while (clients[0].n < n_requests)
        for (size_t i = 0; i < N; i++)
            for (size_t n = 0; n < ROUND; n++)
                ask(&clients[i], true);
    for (size_t i = 0; i < N; i++)
        hth_report_detail(&report, "%s: median %.1f us, 90 %% %.1f us, 99 %% %.1f us", clients[i].name,
                          hth_samples_median(&clients[i].us), hth_samples_percentile(&clients[i].us, 0.9),
                          hth_samples_percentile(&clients[i].us, 0.99));
    front_s = server_end(&front, &max_kib);
    (void)server_end(&worker, &(long){ 0 });
    hth_report_number(&report, "a request through the front, more than to its worker, median",
                      hth_samples_median(&clients[1].us) - hth_samples_median(&clients[0].us), "us", HTH_AT_MOST,
                      OVERHEAD_US_MAX);
    hth_report_number(&report, "the same over TCP",
                      hth_samples_median(&clients[2].us) - hth_samples_median(&clients[0].us), "us", HTH_AT_MOST,
                      OVERHEAD_US_MAX);
    hth_report_number(&report, "the same, 99 %",
                      hth_samples_percentile(&clients[2].us, 0.99) - hth_samples_percentile(&clients[0].us, 0.99), "us",
                      HTH_NO_BOUND, 0);
    hth_report_number(&report, "processor time of the front for a request",
                      front_s * 1e6 / (double)(clients[1].n + clients[2].n + 2 * WARM_UP), "us", HTH_NO_BOUND, 0);
    hth_report_number(&report, "memory of the front, at most", (double)max_kib / 1024, "MB", HTH_NO_BOUND, 0);
    return 0;
}
