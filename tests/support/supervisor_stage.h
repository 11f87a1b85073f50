/*
 * supervisor_stage.h - a supervisor whose workers are tests/helpers/fake_worker.c, which does what its options say
 *
 * Nothing here depends on how fast things go: a test runs the event loop until what it waits for is the case, or a
 * minute has passed.
 */
#ifndef HTH_TESTS_SUPERVISOR_STAGE_H
#define HTH_TESTS_SUPERVISOR_STAGE_H

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "supervisor/supervisor.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { WORDS_MAX = 16, LOG_BYTES = 1 << 20 };

typedef struct fixture {
    struct event_base *base;
    char *directory;
    char path[512]; /* of a file in it, for whatever a test wants */
    hth_server_options options;
    hth_server_model models[4];
    const char *words[4][WORDS_MAX * 2 + 1]; /* of their workers' command lines */
    hth_log log;
    char logged[LOG_BYTES];
    size_t n_logged_bytes;
    hth_supervisor *supervisor;
    bool is_stopped;
} fixture;

static inline void log_write(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;
    int n;

    (void)level;
    n = snprintf(f->logged + f->n_logged_bytes, sizeof(f->logged) - f->n_logged_bytes, "%s: %s\n", source, message);
    if (n > 0 && f->n_logged_bytes + (size_t)n < sizeof(f->logged))
        f->n_logged_bytes += (size_t)n;
}

static inline void setup(fixture *f)
{
    f->base = event_base_new();
    assert_non_null(f->base);
    f->directory = hth_test_directory_new();
    (void)snprintf(f->path, sizeof(f->path), "%s/file", f->directory);
    f->options = hth_server_options_default();
    f->options.models = f->models;
    f->options.drain_timeout_ms = 60000;
    f->log = (hth_log){ .level = HEARTH_LOG_DEBUG, .write = log_write, .user_data = f };
}

static inline void teardown(fixture *f)
{
    hth_supervisor_free(f->supervisor);
    event_base_free(f->base);
    hth_test_directory_remove(f->directory);
}

/* The next model: what its worker does, ending with NULL. */
static inline hth_server_model *add(fixture *f, const char *name, const char *const *words)
{
    size_t i = f->options.n_models++;
    size_t n = 0;

    assert_true(i < 4);
    for (; *words; words++) {
        assert_true(n < (size_t)WORDS_MAX * 2);
        f->words[i][n++] = "--do";
        f->words[i][n++] = *words;
    }
    f->words[i][n] = NULL;
    f->models[i] = (hth_server_model){ .name = name, .worker = f->words[i] };
    return &f->models[i];
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static inline void start(fixture *f)
{
    hearth_error err;

    assert_ok(hth_supervisor_new(f->base, HTH_TEST_FAKE_WORKER, &f->options, &f->log, NULL, &f->supervisor, &err), err);
}

/* Never a group: a worker that has ended has pid 0. */
static inline void send_signal(int pid, int number)
{
    assert_true(pid > 0);
    assert_int_equal(kill(pid, number), 0);
}

static inline hth_worker_view view(const fixture *f, size_t i)
{
    hth_worker_view out;

    hth_supervisor_view(f->supervisor, i, &out);
    return out;
}

/* Turn the loop until the condition holds; the supervisor's timer keeps it turning. */
#define run_until(f, condition)                                                            \
    do {                                                                                   \
        uint64_t end_ns = hth_os_monotonic_ns() + UINT64_C(60000000000);                   \
                                                                                           \
        while (!(condition)) {                                                             \
            assert_true(event_base_loop((f)->base, EVLOOP_ONCE) >= 0);                     \
            if (hth_os_monotonic_ns() > end_ns)                                            \
                fail_msg("'%s' did not come true; the log:\n%s", #condition, (f)->logged); \
        }                                                                                  \
    } while (0)

static inline bool is_in(const fixture *f, size_t i, hth_worker_state state)
{
    return view(f, i).state == state;
}

static inline bool exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* The file's text, "" where there is none. */
static inline const char *text_of(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, capacity - 1, file) : 0;

    text[n] = '\0';
    if (file)
        (void)fclose(file);
    return text;
}

static inline bool text_has(const char *path, const char *what)
{
    char text[16384];

    return strstr(text_of(path, text, sizeof(text)), what) != NULL;
}

/* ---- one who waits ---- */

typedef struct asker {
    hth_worker_waiter waiter; /* first */
    fixture *f;
    uint64_t generation;
    const char *ask_again; /* in on_ready: once more, for a later generation */
    unsigned *order;       /* counted up in on_ready */
    unsigned turn;
    unsigned n_ready;
    unsigned n_failed;
    char socket_path[256];
    hearth_error err;
} asker;

static inline void on_ready(hth_worker_waiter *waiter, const char *socket_path, uint64_t generation)
{
    asker *a = (asker *)waiter;
    const char *model = a->ask_again;
    hearth_error err;

    a->n_ready++;
    a->generation = generation;
    (void)snprintf(a->socket_path, sizeof(a->socket_path), "%s", socket_path);
    if (a->order)
        a->turn = ++*a->order;
    a->ask_again = NULL;
    if (model)
        assert_int_equal(hth_supervisor_want(a->f->supervisor, model, generation, waiter, &err), HEARTH_OK);
}

static inline void on_failed(hth_worker_waiter *waiter, const hearth_error *err)
{
    asker *a = (asker *)waiter;

    a->n_failed++;
    a->err = *err;
}

static inline asker asker_of(fixture *f)
{
    return (asker){ .waiter = { .on_ready = on_ready, .on_failed = on_failed }, .f = f };
}

static inline void want(fixture *f, const char *model, uint64_t after, asker *a)
{
    hearth_error err;

    assert_int_equal(hth_supervisor_want(f->supervisor, model, after, &a->waiter, &err), HEARTH_OK);
}

#endif
