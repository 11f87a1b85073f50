/*
 * Its end is seen by SIGCHLD. Then its pipe is read to the end and the process is reaped. Until it is reaped, no other
 * process has its number, so that the signal that kills it reaches no other process.
 */
#include "supervisor/short_program.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "supervisor/spawn.h"

enum { OUTPUT_BYTES = 4096, READ_BYTES_MAX = 65536, END_MS = 1000 };

struct hth_short_program {
    hth_program_ended_fn on_ended;
    void *user_data;
    struct event *child, *readable, *limit;
    pid_t pid;       /* 0: none runs */
    int fd;          /* the reading end; -1: none */
    bool has_failed; /* it was late, or printed too much */
    char output[OUTPUT_BYTES];
    size_t n;
};

static void fail(hth_short_program *program)
{
    program->has_failed = true;
    if (program->pid == 0)
        return;
    (void)kill(-program->pid, SIGKILL); /* a new process may have no group yet, so kill it, too */
    (void)kill(program->pid, SIGKILL);
}

/* Read the available output, up to a bound so that other events get their turn. False at the end. */
static bool read_output(hth_short_program *program)
{
    char bytes[512];
    size_t n_read = 0;

    while (n_read < READ_BYTES_MAX) {
        const size_t room = sizeof(program->output) - 1 - program->n;
        const ssize_t n = read(program->fd, bytes, sizeof(bytes));
        size_t taken;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        n_read += (size_t)n;
        taken = (size_t)n < room ? (size_t)n : room;
        memcpy(program->output + program->n, bytes, taken);
        program->n += taken;
        if (taken < (size_t)n)
            fail(program); /* it may never end */
    }
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *user_data)
{
    hth_short_program *program = user_data;

    (void)fd;
    (void)what;
    if (!read_output(program))
        (void)event_del(program->readable); /* cannot fail here, and below */
}

static void close_pipe(hth_short_program *program)
{
    if (program->readable)
        event_free(program->readable);
    program->readable = NULL;
    if (program->fd >= 0)
        (void)close(program->fd); /* it was read */
    program->fd = -1;
}

static void on_child(evutil_socket_t number, short what, void *user_data)
{
    hth_short_program *program = user_data;
    siginfo_t found = { 0 };
    int status = 0;
    bool is_good;

    (void)number;
    (void)what;
    if (program->pid == 0 || waitid(P_PID, (id_t)program->pid, &found, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        found.si_pid != program->pid)
        return;
    (void)kill(-program->pid, SIGKILL); /* its remaining children */
    is_good = waitpid(program->pid, &status, 0) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    program->pid = 0;
    (void)event_del(program->limit);
    (void)read_output(program);
    close_pipe(program);
    program->output[program->n] = '\0';
    program->on_ended(program->output, is_good && !program->has_failed, program->user_data);
}

static void on_limit(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    fail(user_data);
}

hearth_status hth_short_program_new(struct event_base *base, hth_program_ended_fn on_ended, void *user_data,
                                    hth_short_program **out, hearth_error *err)
{
    hth_short_program *program = calloc(1, sizeof(*program));

    if (!program)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to run programs");
    program->fd = -1;
    program->on_ended = on_ended;
    program->user_data = user_data;
    program->child = evsignal_new(base, SIGCHLD, on_child, program);
    program->limit = evtimer_new(base, on_limit, program);
    if (!program->child || !program->limit || event_add(program->child, NULL) != 0) {
        hth_short_program_free(program);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to run programs");
    }
    *out = program;
    return HEARTH_OK;
}

void hth_short_program_free(hth_short_program *program)
{
    const struct timespec moment = { .tv_nsec = 2000000 };

    if (!program)
        return;
    if (program->pid > 0) {
        fail(program);
        for (int ms = 0; ms < END_MS && waitpid(program->pid, NULL, WNOHANG) == 0; ms += 2)
            (void)nanosleep(&moment, NULL); /* a process that waits for a device ends when the device answers */
    }
    close_pipe(program);
    if (program->child)
        event_free(program->child);
    if (program->limit)
        event_free(program->limit);
    free(program);
}

hearth_status hth_short_program_start(hth_short_program *program, const char *const *argv, uint32_t timeout_ms,
                                      hearth_error *err)
{
    const struct timeval limit = { .tv_sec = timeout_ms / 1000, .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000 };
    struct event_base *base = event_get_base(program->limit);
    char **environment = hth_spawn_environment(NULL);
    int ends[2] = { -1, -1 };
    hearth_status status = HEARTH_OK;

    if (program->pid > 0)
        status = hth_fail(err, HEARTH_BUSY, "the last program has not ended");
    else if (!environment || pipe(ends) != 0)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory, or no descriptor, to run '%s'", argv[0]);
    if (status != HEARTH_OK)
        goto out;
    (void)evutil_make_socket_closeonexec(ends[0]); /* these cannot fail */
    (void)evutil_make_socket_closeonexec(ends[1]);
    (void)evutil_make_socket_nonblocking(ends[0]);
    program->readable = event_new(base, ends[0], EV_READ | EV_PERSIST, on_readable, program);
    if (!program->readable || event_add(program->readable, NULL) != 0 || event_add(program->limit, &limit) != 0) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to run '%s'", argv[0]);
        goto out;
    }
    program->n = 0;
    program->has_failed = false;
    status = hth_spawn(&(hth_spawn_options){ .program = argv[0],
                                             .argv = argv,
                                             .environment = environment,
                                             .output = ends[1],
                                             .keep = &ends[1],
                                             .n_keep = 1,
                                             .trouble = ends[1] },
                       &program->pid, err);
    if (status == HEARTH_OK) {
        program->fd = ends[0];
        ends[0] = -1;
    }
out:
    if (status != HEARTH_OK && status != HEARTH_BUSY) {
        (void)event_del(program->limit);
        close_pipe(program);
    }
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            (void)close(ends[i]); /* nothing is in it */
    free((void *)environment);
    return status;
}

hearth_status hth_short_program_start_shell(hth_short_program *program, const char *command, uint32_t timeout_ms,
                                            hearth_error *err)
{
    const char *const argv[] = { "/bin/sh", "-c", command, NULL };

    return hth_short_program_start(program, argv, timeout_ms, err);
}
