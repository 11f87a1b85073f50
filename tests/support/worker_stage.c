#include "support/worker_stage.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PATIENCE_S = 60 };

void hth_test_worker_init(hth_test_worker *worker, const char *model_path)
{
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    *worker = (hth_test_worker){ .directory = hth_test_directory_new(), .control = -1 };
    worker->runtime = hth_test_runtime_options(worker->directory);
    worker->model = hearth_model_options_default();
    worker->model.n_ctx = 4096;
    worker->model.n_threads = 1; /* several would wait for each other, spinning, beside other tests */
    (void)snprintf(worker->socket_path, sizeof(worker->socket_path), "%s/socket", worker->directory);
    worker->options = (hth_worker_options){
        .model_path = model_path,
        .socket_path = worker->socket_path,
        .status_fd = -1,
        .carrier_fd = -1,
        .http = hth_http_options_default(),
        .settings = { .requests = hth_api_limits_default() },
        .silence_ms = 60000,
        .save_timeout_ms = 10000,
    };
}

static void *run(void *context)
{
    hth_test_worker *worker = context;

    worker->status = hth_worker_run(&worker->options, &worker->err);
    return NULL;
}

static void set_patience(int fd)
{
    const struct timeval limit = { .tv_sec = PATIENCE_S };

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
}

void hth_test_worker_start(hth_test_worker *worker)
{
    char text[4096] = "";
    size_t n = 0;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    worker->control = ends[0];
    worker->options.control_fd = ends[1];
    worker->options.runtime = &worker->runtime;
    worker->options.model = &worker->model;
    set_patience(worker->control);
    assert_int_equal(pthread_create(&worker->thread, NULL, run, worker), 0);
    worker->is_running = true;
    while (!strstr(text, "ready\n")) {
        ssize_t m = read(worker->control, text + n, sizeof(text) - 1 - n);

        if (m <= 0 || strstr(text, "failed"))
            fail_msg("the worker did not become ready: %s", text);
        n += (size_t)m;
        text[n] = '\0';
    }
}

void hth_test_worker_stop(hth_test_worker *worker)
{
    if (!worker->is_running)
        return;
    close(worker->control);
    pthread_join(worker->thread, NULL);
    close(worker->options.control_fd);
    worker->is_running = false;
    if (worker->status != HEARTH_OK)
        fail_msg("the worker ended: %s", worker->err.message);
}

void hth_test_worker_deinit(hth_test_worker *worker)
{
    hth_test_worker_stop(worker);
    hth_test_directory_remove(worker->directory);
}

void hth_test_heard_deinit(hth_test_heard *heard)
{
    hth_buffer_deinit(&heard->body);
}

int hth_test_worker_connect(const hth_test_worker *worker)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    set_patience(fd);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", worker->socket_path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void send_all(int fd, const void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t m = write(fd, (const char *)bytes + at, n - at);

        assert_true(m > 0);
        at += (size_t)m;
    }
}

void hth_test_worker_send(int fd, const char *method, const char *target, const char *headers, const void *body,
                          size_t n_body)
{
    char head[4096];
    int n = snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: worker\r\n%sContent-Length: %zu\r\n\r\n", method,
                     target, headers, n_body);

    assert_true(n > 0 && (size_t)n < sizeof(head));
    send_all(fd, head, (size_t)n);
    send_all(fd, body, n_body);
}

/* Read until n bytes are there, or the end of the connection: false. */
static bool read_until(int fd, hth_buffer *raw, size_t n)
{
    while (raw->n < n) {
        char bytes[65536];
        ssize_t m = read(fd, bytes, sizeof(bytes));

        if (m < 0)
            fail_msg("nothing more came for %d s; so far: %s", PATIENCE_S, hth_buffer_text(raw));
        if (m == 0)
            return false;
        hth_buffer_add(raw, bytes, (size_t)m);
    }
    return true;
}

/* Read until text is there behind from; its place, or NULL at the end of the connection. */
static char *read_for(int fd, hth_buffer *raw, size_t from, const char *text)
{
    size_t n_text = strlen(text);

    for (;;) {
        for (size_t at = from; at + n_text <= raw->n; at++)
            if (memcmp(raw->text + at, text, n_text) == 0)
                return raw->text + at;
        if (!read_until(fd, raw, raw->n + 1))
            return NULL;
    }
}

static void hear_chunks(int fd, hth_buffer *raw, size_t at, hth_test_heard *heard)
{
    for (;;) {
        char *end = read_for(fd, raw, at, "\r\n");
        size_t n;

        if (!end)
            return;
        n = strtoul(raw->text + at, NULL, 16);
        at = (size_t)(end - raw->text) + 2;
        if (!read_until(fd, raw, at + n + 2)) {
            hth_buffer_add(&heard->body, raw->text + at, raw->n - at < n ? raw->n - at : n);
            return;
        }
        hth_buffer_add(&heard->body, raw->text + at, n);
        at += n + 2;
        if (n == 0) {
            heard->is_complete = true;
            return;
        }
    }
}

hth_test_heard hth_test_worker_hear(int fd)
{
    hth_test_heard heard = { .status = 0 };
    hth_buffer raw = { .text = NULL };
    char *end = read_for(fd, &raw, 0, "\r\n\r\n");
    const char *length;
    size_t n_head;

    if (!end) {
        hth_buffer_deinit(&raw);
        return heard;
    }
    n_head = (size_t)(end - raw.text) + 4;
    (void)snprintf(heard.head, sizeof(heard.head), "%.*s", (int)n_head, raw.text);
    heard.status = atoi(heard.head + 9);
    length = strstr(heard.head, "Content-Length: ");
    heard.has_length = length;
    if (length) {
        size_t n = strtoul(length + 16, NULL, 10);

        heard.is_complete = read_until(fd, &raw, n_head + n);
        hth_buffer_add(&heard.body, raw.text + n_head, raw.n - n_head < n ? raw.n - n_head : n);
    } else {
        assert_non_null(strstr(heard.head, "chunked"));
        hear_chunks(fd, &raw, n_head, &heard);
    }
    hth_buffer_deinit(&raw);
    return heard;
}

hth_test_heard hth_test_worker_ask(const hth_test_worker *worker, const char *method, const char *target,
                                   const char *headers, const void *body, size_t n_body)
{
    int fd = hth_test_worker_connect(worker);
    hth_test_heard heard;

    hth_test_worker_send(fd, method, target, headers, body, n_body);
    heard = hth_test_worker_hear(fd);
    close(fd);
    return heard;
}

hth_test_heard hth_test_worker_post(const hth_test_worker *worker, const char *target, const char *body)
{
    return hth_test_worker_ask(worker, "POST", target, "", body, strlen(body));
}

unsigned hth_test_worker_n_busy(const hth_test_worker *worker)
{
    hth_test_heard heard = hth_test_worker_ask(worker, "GET", "/slots", "", "", 0);
    json_t *slots = hth_test_json(hth_buffer_text(&heard.body));
    unsigned n = 0;

    for (size_t i = 0; i < json_array_size(slots); i++)
        n += json_is_true(json_object_get(json_array_get(slots, i), "is_processing"));
    hth_test_heard_deinit(&heard);
    return n;
}
