/*
 * worker_loading_test.c - a worker is ready while its model's file is still being fingerprinted, and requests wait for
 * that
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "support/slow_file.h"
#include "support/support.h"
#include "support/worker_stage.h"

#define TINY HTH_TEST_MODELS "/hearth-tiny.gguf"

static const char body[] = "{\"prompt\":\"Once upon a time there was a fox\",\"n_predict\":4,\"ignore_eos\":true}";

typedef struct fixture {
    hth_test_worker worker;
    char path[512];
} fixture;

static void set_up(fixture *f)
{
    hth_test_worker_init(&f->worker, f->path);
    (void)snprintf(f->path, sizeof(f->path), "%s/model.gguf", f->worker.directory);
    slow_file_new(TINY, f->path);
    f->worker.model.n_ctx = 512;
    hth_test_worker_start(&f->worker); /* it is ready */
}

static void tear_down(fixture *f)
{
    slow_file_release();
    hth_test_worker_deinit(&f->worker);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static int begin(const fixture *f, const char *text)
{
    int fd = hth_test_worker_connect(&f->worker);

    hth_test_worker_send(fd, "POST", "/completion", "", text, strlen(text));
    return fd;
}

static bool is_readable(int fd)
{
    struct pollfd readable = { .fd = fd, .events = POLLIN };

    return poll(&readable, 1, 0) > 0;
}

/* Whatever was sent to the worker before has been read when this has been answered. */
static void expect_tokens(const fixture *f)
{
    hth_test_heard heard = hth_test_worker_post(&f->worker, "/tokenize", "{\"content\":\"a fox\"}");

    assert_int_equal(heard.status, 200);
    hth_test_heard_deinit(&heard);
}

static void expect_reply(int fd)
{
    hth_test_heard heard = hth_test_worker_hear(fd);

    assert_int_equal(heard.status, 200);
    assert_true(heard.is_complete);
    assert_non_null(strstr(hth_buffer_text(&heard.body), "\"stop_type\":\"limit\""));
    hth_test_heard_deinit(&heard);
    assert_int_equal(close(fd), 0);
}

FIXTURE_TEST(requests_wait_for_the_fingerprint_and_others_do_not)
{
    enum { N = 4 };
    hth_test_heard heard;
    int fds[N];

    for (int i = 0; i < N; i++)
        fds[i] = begin(f, body);
    heard = hth_test_worker_ask(&f->worker, "GET", "/ready", "", "", 0);
    assert_int_equal(heard.status, 200);
    hth_test_heard_deinit(&heard);
    heard = hth_test_worker_ask(&f->worker, "GET", "/v1/models", "", "", 0);
    assert_int_equal(heard.status, 200);
    hth_test_heard_deinit(&heard);
    expect_tokens(f);
    for (int i = 0; i < N; i++)
        assert_false(is_readable(fds[i]));
    slow_file_release();
    for (int i = 0; i < N; i++)
        expect_reply(fds[i]);
}

FIXTURE_TEST(clients_may_go_away_while_they_wait)
{
    int first = begin(f, body), gone = begin(f, body), last = begin(f, body);

    expect_tokens(f);
    assert_int_equal(close(gone), 0);
    expect_tokens(f);
    slow_file_release();
    expect_reply(first);
    expect_reply(last);
}

FIXTURE_TEST(what_is_wrong_with_a_request_is_told_then)
{
    int fd = begin(f, "{\"prompt\":");
    hth_test_heard heard;

    slow_file_release();
    heard = hth_test_worker_hear(fd);
    assert_int_equal(heard.status, 400);
    hth_test_heard_deinit(&heard);
    assert_int_equal(close(fd), 0);
}

FIXTURE_TEST(a_worker_that_is_to_stop_does_not_wait_for_the_file)
{
    int fd = begin(f, body);

    expect_tokens(f);
    hth_test_worker_stop(&f->worker); /* ends well, or fails the test */
    assert_int_equal(close(fd), 0);
}

FIXTURE_TEST(a_file_that_changed_ends_the_worker_which_says_so)
{
    int fd = begin(f, body);
    char text[1024] = "", rest[16];
    ssize_t n;

    expect_tokens(f);
    slow_file_touch(f->path);
    slow_file_release();
    assert_int_equal(read(fd, rest, sizeof(rest)), 0); /* no reply under a fingerprint that is not the file's */
    assert_int_equal(close(fd), 0);
    n = read(f->worker.control, text, sizeof(text) - 1);
    assert_true(n > 0);
    assert_non_null(strstr(text, "failed "));
    assert_non_null(strstr(text, "changed while it was loaded; load it again\n"));
    pthread_join(f->worker.thread, NULL);
    assert_int_equal(f->worker.status, HEARTH_IO);
    assert_non_null(strstr(f->worker.err.message, f->path));
    f->worker.is_running = false;
    assert_int_equal(close(f->worker.control), 0);
    assert_int_equal(close(f->worker.options.control_fd), 0);
}
