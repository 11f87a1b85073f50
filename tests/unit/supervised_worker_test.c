/*
 * supervised_worker_test.c - real workers with a real model under the supervisor: killed, stopped, and badly configured
 */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os.h"
#include "supervisor/supervisor.h"
#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct fixture {
    struct event_base *base;
    char *directory;
    hth_server_options options;
    hth_server_model model;
    const char *worker[16];
    char logged[64 << 10];
    size_t n_logged_bytes;
    hth_log log;
    hth_supervisor *supervisor;
    bool is_stopped;
} fixture;

static void log_write(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;
    int n = snprintf(f->logged + f->n_logged_bytes, sizeof(f->logged) - f->n_logged_bytes, "%d %s: %s\n", (int)level,
                     source, message);

    if (n > 0 && f->n_logged_bytes + (size_t)n < sizeof(f->logged))
        f->n_logged_bytes += (size_t)n;
}

static void setup(fixture *f)
{
    static const char model[] = HTH_TEST_MODELS "/hearth-tiny.gguf";
    const char *const words[] = { "--model", model, "--ctx",  "2048", "--threads", "1",
                                  "--ram",   "64M", "--name", "tiny", NULL };

    f->base = event_base_new();
    assert_non_null(f->base);
    f->directory = hth_test_directory_new();
    memcpy(f->worker, words, sizeof(words));
    f->model = (hth_server_model){ .name = "tiny", .worker = f->worker, .ram_bytes = 64 << 20 };
    f->options = hth_server_options_default();
    f->options.models = &f->model;
    f->options.n_models = 1;
    f->log = (hth_log){ .level = HEARTH_LOG_INFO, .write = log_write, .user_data = f };
    assert_int_equal(setenv("HEARTH_CACHE", f->directory, 1), 0);
}

static void teardown(fixture *f)
{
    hth_supervisor_free(f->supervisor);
    event_base_free(f->base);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static void start(fixture *f)
{
    hearth_error err;

    assert_ok(hth_supervisor_new(f->base, HTH_TEST_HEARTH, &f->options, &f->log, NULL, &f->supervisor, &err), err);
}

static hth_worker_view view(const fixture *f)
{
    hth_worker_view out;

    hth_supervisor_view(f->supervisor, 0, &out);
    return out;
}

/* Never a group: a worker that has ended has pid 0. */
static void send_signal(int pid, int number)
{
    assert_true(pid > 0);
    assert_int_equal(kill(pid, number), 0);
}

#define run_until(f, condition)                                                            \
    do {                                                                                   \
        uint64_t end_ns = hth_os_monotonic_ns() + UINT64_C(120000000000);                  \
                                                                                           \
        while (!(condition)) {                                                             \
            assert_true(event_base_loop((f)->base, EVLOOP_ONCE) >= 0);                     \
            if (hth_os_monotonic_ns() > end_ns)                                            \
                fail_msg("'%s' did not come true; the log:\n%s", #condition, (f)->logged); \
        }                                                                                  \
    } while (0)

typedef struct asker {
    hth_worker_waiter waiter; /* first */
    uint64_t generation;
    char socket_path[256];
    hearth_error err;
    bool is_ready;
    bool has_failed;
} asker;

static void on_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    asker *a = (asker *)waiter;

    a->is_ready = true;
    a->generation = generation;
    (void)snprintf(a->socket_path, sizeof(a->socket_path), "%s", socket_path);
}

static void on_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    asker *a = (asker *)waiter;

    a->has_failed = true;
    a->err = *err;
}

static asker ask(fixture *f, uint64_t after)
{
    asker a = { .waiter = { .on_ready = on_ready, .on_failed = on_failed } };
    hearth_error err;

    assert_int_equal(hth_supervisor_want(f->supervisor, "tiny", after, &a.waiter, &err), HEARTH_OK);
    run_until(f, a.is_ready || a.has_failed);
    return a;
}

/* A request with the same prompt each time; text gets the reply, or the part that came. The worker does the work, so
 * nothing of the supervisor's need turn meanwhile. */
static void request(const char *socket_path, char *text, size_t capacity)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char body[2048], head[256];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), n;
    size_t n_text = 0;
    ssize_t n_read;

    n = snprintf(body, sizeof(body), "{\"prompt\":\"");
    for (int i = 0; i < 100; i++)
        n += snprintf(body + n, sizeof(body) - (size_t)n, "word %d, ", i);
    (void)snprintf(body + n, sizeof(body) - (size_t)n, "\",\"max_tokens\":4,\"temperature\":0}");
    (void)snprintf(head, sizeof(head),
                   "POST /v1/completions HTTP/1.1\r\nHost: w\r\nConnection: close\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   strlen(body));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(write(fd, head, strlen(head)), (ssize_t)strlen(head));
    assert_int_equal(write(fd, body, strlen(body)), (ssize_t)strlen(body));
    while (n_text + 1 < capacity && (n_read = read(fd, text + n_text, capacity - 1 - n_text)) > 0)
        n_text += (size_t)n_read;
    text[n_text] = '\0';
    assert_int_equal(close(fd), 0);
}

static long number_behind(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    if (!at) {
        fail_msg("no %s in: %s", name, text);
        return 0;
    }
    return strtol(at + strlen(name), NULL, 10);
}

FIXTURE_TEST(adapters_are_those_that_a_worker_has_taken)
{
    hth_adapter_state state = { .added = 64, .n_loaded = 1 };
    asker a;

    state.loaded[0] = (hth_live_adapter){ .id = 64, .name = "gone", .file = "gone.gguf" };
    start(f);
    a = ask(f, 0);
    assert_null(hth_supervisor_adapters(f->supervisor, "tiny"));
    assert_false(hth_supervisor_set_adapters(f->supervisor, "tiny", a.generation + 1, &state));
    assert_false(hth_supervisor_set_adapters(f->supervisor, "other", a.generation, &state));
    assert_null(hth_supervisor_adapter_owner(f->supervisor, "gone"));
    assert_true(hth_supervisor_set_adapters(f->supervisor, "tiny", a.generation, &state));
    assert_string_equal(hth_supervisor_adapter_owner(f->supervisor, "gone"), "tiny");

    /* The next worker begins with them, and serves although one cannot be loaded. */
    send_signal(view(f).pid, SIGKILL);
    assert_true(ask(f, a.generation).is_ready);
    assert_non_null(strstr(f->logged, "the adapter 'gone', which an earlier worker had, is not loaded"));

    /* Another folder: they are of the old one. */
    f->worker[10] = "--lora-dir";
    f->worker[11] = f->directory;
    hth_supervisor_reconfigure(f->supervisor, &f->options);
    assert_null(hth_supervisor_adapter_owner(f->supervisor, "gone"));
    assert_non_null(strstr(f->logged, "lora_dir is another folder now"));
}

FIXTURE_TEST(a_worker_that_was_killed_is_back_with_its_cache)
{
    char first[8192], second[8192];
    asker a, b;
    hth_worker_view v;

    start(f);
    a = ask(f, 0);
    assert_true(a.is_ready);
    request(a.socket_path, first, sizeof(first));
    assert_int_equal(number_behind(first, "\"cached_tokens\":"), 0);
    run_until(f, view(f).status.has_numbers && view(f).status.counters.requests == 1);
    v = view(f);
    assert_true(v.resident_bytes > 0);
    assert_int_equal(v.status.tick_ns, 0);
    assert_string_equal(v.status.info.name, "tiny");

    send_signal(v.pid, SIGKILL);
    b = ask(f, a.generation);
    assert_true(b.is_ready);
    assert_int_equal(b.generation, a.generation + 1);
    request(b.socket_path, second, sizeof(second));
    assert_true(number_behind(second, "\"cached_tokens\":") > 100);
    assert_int_equal(view(f).n_deaths, 1);
    assert_null(strstr(f->logged, "1 tiny: ")); /* no warning: the sandbox is in nobody's way */
}

FIXTURE_TEST(a_worker_that_is_stopped_by_a_signal_is_replaced)
{
    asker a, b;

    f->options.hang_ms = 1500;
    start(f);
    a = ask(f, 0);
    send_signal(view(f).pid, SIGSTOP);
    run_until(f, view(f).n_hangs == 1);
    b = ask(f, a.generation);
    assert_true(b.is_ready);
    assert_string_not_equal(view(f).last_death, "");
}

FIXTURE_TEST(a_model_that_is_none_is_refused_with_its_name_and_what_is_wrong)
{
    char path[600];
    FILE *file;
    asker a;

    (void)snprintf(path, sizeof(path), "%s/bad.gguf", f->directory);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("this is no model", file) >= 0);
    assert_int_equal(fclose(file), 0);
    f->worker[1] = path;
    start(f);
    a = ask(f, 0);
    assert_true(a.has_failed);
    assert_int_equal(a.err.status, HEARTH_BUSY);
    assert_non_null(strstr(a.err.message, "bad.gguf"));
    assert_true(a.err.retry_after_s > 0);
}

FIXTURE_TEST(a_worker_with_an_unknown_option_is_refused_and_the_operator_sees_why)
{
    asker a;

    f->worker[2] = "--no-such-option";
    f->worker[3] = NULL;
    start(f);
    a = ask(f, 0);
    assert_true(a.has_failed);
    assert_non_null(strstr(a.err.message, "ended with exit status 2"));
    assert_non_null(strstr(view(f).last_death, "no-such-option"));
}

static void on_stopped(void *user_data)
{
    fixture *f = user_data;

    f->is_stopped = true;
}

FIXTURE_TEST(a_worker_ends_in_order_when_the_server_does)
{
    char reply[8192];
    asker a;

    start(f);
    a = ask(f, 0);
    request(a.socket_path, reply, sizeof(reply));
    hth_supervisor_stop(f->supervisor, 60000, on_stopped, f);
    run_until(f, f->is_stopped);
    assert_string_equal(view(f).last_death, "");
    assert_int_equal(view(f).state, HTH_WORKER_STOPPED);
    assert_int_not_equal(access(a.socket_path, F_OK), 0);
}
