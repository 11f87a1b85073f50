#include "support/fake_worker.h"

#include "support/cmocka_all.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>
#include <unistd.h>

volatile int fake_worker_depth; /* the compiler thinks that calloc does not look at it */

struct fake_worker {
    struct event_base *base;
    struct evconnlistener *listener;
    char path[108];
    fake_handler handler;
    void *user_data;
    fake_connection *connections;
    size_t n_connections, n_accepted;
    bool is_early;
};

struct fake_connection {
    fake_worker *worker;
    fake_connection *next, **link;
    struct bufferevent *stream;
    bool is_ending;
    bool is_dropping; /* what it reads */
    void (*on_gone)(void *user_data);
    void *user_data;
};

static void connection_free(fake_connection *connection)
{
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    connection->worker->n_connections--;
    bufferevent_free(connection->stream);
    free(connection);
}

bool fake_request_header(const fake_request *request, const char *name, char *value, size_t capacity)
{
    const char *line = request->head;
    size_t n_name = strlen(name);

    value[0] = '\0';
    while ((line = strstr(line, "\r\n")) != NULL) {
        line += 2;
        if (strncasecmp(line, name, n_name) == 0 && line[n_name] == ':') {
            const char *from = line + n_name + 1 + strspn(line + n_name + 1, " ");

            (void)snprintf(value, capacity, "%.*s", (int)strcspn(from, "\r"), from);
            return true;
        }
    }
    return false;
}

static void read_request(struct bufferevent *stream, fake_connection *connection)
{
    fake_worker *worker = connection->worker;
    struct evbuffer *input = bufferevent_get_input(stream);
    struct evbuffer_ptr end = evbuffer_search(input, "\r\n\r\n", 4, NULL);
    fake_request request;
    size_t n_head;
    char number[32], *text;

    if (connection->is_dropping)
        (void)evbuffer_drain(input, evbuffer_get_length(input));
    if (end.pos < 0 || connection->is_dropping)
        return;
    n_head = (size_t)end.pos + 4;
    text = malloc(evbuffer_get_length(input) + 1);
    assert_non_null(text);
    assert_true(evbuffer_copyout(input, text, n_head) == (ev_ssize_t)n_head);
    text[n_head] = '\0';
    request = (fake_request){ .head = text };
    if (worker->is_early) {
        (void)bufferevent_disable(stream, EV_READ);
        worker->handler(connection, &request, worker->user_data);
        free(text);
        return;
    }
    request.n_body =
        fake_request_header(&request, "Content-Length", number, sizeof(number)) ? strtoul(number, NULL, 10) : 0;
    if (evbuffer_get_length(input) >= n_head + request.n_body) {
        char *body = malloc(request.n_body + 1);

        assert_non_null(body);
        assert_int_equal(evbuffer_drain(input, n_head), 0);
        assert_true(evbuffer_remove(input, body, request.n_body) == (int)request.n_body);
        body[request.n_body] = '\0';
        request.body = body;
        worker->handler(connection, &request, worker->user_data);
        free(body);
    }
    free(text);
}

static void on_read(struct bufferevent *stream, void *user_data)
{
    fake_worker_depth++;
    read_request(stream, user_data);
    fake_worker_depth--;
}

static void on_written(struct bufferevent *stream, void *user_data)
{
    fake_connection *connection = user_data;

    (void)stream;
    if (connection->is_ending)
        connection_free(connection);
}

static void on_event(struct bufferevent *stream, short what, void *user_data)
{
    fake_connection *connection = user_data;

    (void)stream;
    (void)what;
    if (connection->on_gone)
        connection->on_gone(connection->user_data);
    connection_free(connection);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address, int n_address,
                      void *user_data)
{
    fake_worker *worker = user_data;
    fake_connection *connection;

    (void)listener;
    (void)address;
    (void)n_address;
    fake_worker_depth++;
    connection = calloc(1, sizeof(*connection));
    fake_worker_depth--;
    assert_non_null(connection);
    connection->worker = worker;
    connection->stream = bufferevent_socket_new(worker->base, fd, BEV_OPT_CLOSE_ON_FREE);
    assert_non_null(connection->stream);
    bufferevent_setcb(connection->stream, on_read, on_written, on_event, connection);
    assert_int_equal(bufferevent_enable(connection->stream, EV_READ | EV_WRITE), 0);
    connection->next = worker->connections;
    connection->link = &worker->connections;
    if (connection->next)
        connection->next->link = &connection->next;
    worker->connections = connection;
    worker->n_connections++;
    worker->n_accepted++;
}

fake_worker *fake_worker_new(struct event_base *base, const char *path, fake_handler handler, void *user_data)
{
    fake_worker *worker;
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    fake_worker_depth++;
    worker = calloc(1, sizeof(*worker));
    fake_worker_depth--;
    assert_non_null(worker);
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    memcpy(worker->path, path, strlen(path) + 1);
    worker->base = base;
    worker->handler = handler;
    worker->user_data = user_data;
    worker->listener = evconnlistener_new_bind(base, on_accept, worker, LEV_OPT_CLOSE_ON_FREE, 16,
                                               (const struct sockaddr *)&address, sizeof(address));
    assert_non_null(worker->listener);
    return worker;
}

void fake_worker_answer_early(fake_worker *worker)
{
    worker->is_early = true;
}

void fake_read_body(fake_connection *connection)
{
    connection->is_dropping = true;
    assert_int_equal(bufferevent_enable(connection->stream, EV_READ), 0);
}

void fake_worker_free(fake_worker *worker)
{
    if (!worker)
        return;
    while (worker->connections)
        connection_free(worker->connections);
    evconnlistener_free(worker->listener);
    (void)unlink(worker->path); /* the folder goes, too */
    free(worker);
}

size_t fake_worker_n_connections(const fake_worker *worker)
{
    return worker->n_connections;
}

size_t fake_worker_n_accepted(const fake_worker *worker)
{
    return worker->n_accepted;
}

void fake_write(fake_connection *connection, const void *bytes, size_t n)
{
    assert_int_equal(bufferevent_write(connection->stream, bytes, n), 0);
}

void fake_write_text(fake_connection *connection, const char *text)
{
    fake_write(connection, text, strlen(text));
}

void fake_write_chunk(fake_connection *connection, const void *bytes, size_t n)
{
    char size[32];

    (void)snprintf(size, sizeof(size), "%zx\r\n", n);
    fake_write_text(connection, size);
    if (n > 0)
        fake_write(connection, bytes, n);
    fake_write_text(connection, "\r\n");
}

void fake_end(fake_connection *connection)
{
    if (evbuffer_get_length(bufferevent_get_output(connection->stream)) == 0)
        connection_free(connection);
    else
        connection->is_ending = true;
}

void fake_on_gone(fake_connection *connection, void (*on_gone)(void *user_data), void *user_data)
{
    connection->on_gone = on_gone;
    connection->user_data = user_data;
}

static void on_late(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    *(bool *)user_data = true;
}

void fake_loop_until(struct event_base *base, const bool *flag)
{
    const struct timeval limit = { .tv_sec = 120 }; /* instrumented, beside others */
    bool is_late = false;
    struct event *guard = event_new(base, -1, 0, on_late, &is_late);

    assert_non_null(guard);
    assert_int_equal(event_add(guard, &limit), 0);
    while (!*flag && !is_late)
        assert_true(event_base_loop(base, EVLOOP_ONCE) >= 0);
    event_free(guard);
    assert_false(is_late);
}

void fake_loop_turn(struct event_base *base)
{
    for (int i = 0; i < 20; i++)
        assert_true(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
}
