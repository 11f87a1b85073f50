/*
 * worker_process.c - one process of a worker, from its start to the cause of its death
 *
 * Until the process is reaped, no other process can get its pid or the number of its group, so signals reach no other
 * process. So the order at its end is: see that it has ended, kill the rest of its group, read the rest of the pipes,
 * reap it.
 */
#include "supervisor/worker_process.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "supervisor/server_options.h"
#include "supervisor/spawn.h"
#include "wire/lines.h"
#include "wire/needs_text.h"

enum {
    OWN_ARGUMENTS_MAX = 18 + 2 * HTH_DEVICES_MAX, /* arguments after the model's */
    READ_BYTES_MAX = 64 << 10,                    /* in one turn of the loop, so that other events get their turn */
    LOG_LINES_MAX = 500,                          /* lines that are passed on in a second */
    END_WAIT_MS = 5000,
};

struct hth_worker_process {
    char source[280];                   /* "worker NAME", for the log */
    hth_worker_process_options options; /* most strings and descriptors are valid at the start only */
    bool said_stopping;

    pid_t pid; /* 0: none */
    bool has_ended;
    int wait_status; /* valid once it has ended */
    int log_fd;      /* the reading end */
    int control_fd;
    struct event *log_event;
    struct event *control_event;
    hth_lines log_lines;
    hth_lines control_lines;
    hth_last_lines last_lines;
    int exec_errno;   /* the program could not be executed; 0: it was */
    char failed[512]; /* its last "failed TEXT"; "": none */

    uint64_t log_second; /* the second that the next two fields count in */
    uint32_t n_log_lines;
    uint32_t n_log_lines_dropped;
};

/* ---- its output ---- */

/*
 * Remove the level from a worker's line "SOURCE: LEVEL: text". The source "hearth" is removed, too, because it is
 * always the same. Lines of another form come from libraries.
 */
static hearth_log_level level_of(char **line)
{
    static const char *const names[] = { "error: ", "warning: ", "info: ", "debug: " };
    char *source_end = strstr(*line, ": ");
    size_t n_source = source_end ? (size_t)(source_end - *line) + 2 : 0;

    for (int level = HEARTH_LOG_ERROR; level <= HEARTH_LOG_DEBUG && n_source > 0; level++) {
        size_t n = strlen(names[level]);

        if (strncmp(*line + n_source, names[level], n) != 0)
            continue;
        if (strncmp(*line, "hearth: ", n_source) == 0) {
            *line += n_source + n;
        } else {
            memmove(*line + n, *line, n_source);
            *line += n;
        }
        return (hearth_log_level)level;
    }
    return HEARTH_LOG_INFO;
}

/* Begin a new second. Report the number of lines dropped in the last one. */
static void begin_second(hth_worker_process *process, uint64_t second)
{
    if (process->n_log_lines_dropped > 0)
        hth_log_line(process->options.log, HEARTH_LOG_WARNING, process->source,
                     "%u more lines in a second were dropped", process->n_log_lines_dropped);
    process->n_log_lines_dropped = 0;
    process->n_log_lines = 0;
    process->log_second = second;
}

void hth_worker_process_tick(hth_worker_process *process)
{
    uint64_t second = hth_os_monotonic_ns() / 1000000000u;

    if (second != process->log_second)
        begin_second(process, second);
}

static void on_log_line(char *line, void *user_data)
{
    hth_worker_process *process = user_data;
    hearth_log_level level;

    hth_last_lines_add(&process->last_lines, line);
    level = level_of(&line);
    hth_worker_process_tick(process);
    if (!hth_log_wants(process->options.log, level))
        return;
    if (process->n_log_lines++ < LOG_LINES_MAX)
        hth_log_line(process->options.log, level, process->source, "%s", line);
    else
        process->n_log_lines_dropped++;
}

/* Other values, including NaN, count as 0. */
static float fraction_of(const char *text)
{
    const float fraction = strtof(text, NULL);

    return fraction >= 0 && fraction <= 1 ? fraction : 0;
}

static void on_control_line(char *line, void *user_data)
{
    hth_worker_process *process = user_data;
    const hth_worker_process_options *tell = &process->options;
    char *end;

    if (tell->on_needs) {
        if (strncmp(line, "needs ", 6) == 0)
            tell->on_needs(line + 6, tell->user_data);
        return; /* a measuring process reports nothing else */
    }
    if (strcmp(line, "stopping") == 0) {
        process->said_stopping = true;
    } else if (strncmp(line, "failed ", 7) == 0) {
        (void)snprintf(process->failed, sizeof(process->failed), "%s", line + 7); /* cut if too long */
        hth_end_at_character(process->failed, sizeof(process->failed));
    } else if (strncmp(line, "exec ", 5) == 0) {
        process->exec_errno = (int)strtol(line + 5, NULL, 10);
    }
    if (process->has_ended)
        return;
    if (strncmp(line, "loading ", 8) == 0) {
        tell->on_progress(fraction_of(line + 8), tell->user_data);
    } else if (strncmp(line, "hashing ", 8) == 0) {
        tell->on_hashing(fraction_of(line + 8), tell->user_data);
    } else if (strcmp(line, "ready") == 0) {
        tell->on_ready(tell->user_data);
    } else if (strcmp(line, "stopping") == 0) {
        tell->on_stopping(tell->user_data);
    } else if (strncmp(line, "evicted ", 8) == 0) {
        const uint64_t ram_bytes = strtoull(line + 8, &end, 10);

        tell->on_evicted(ram_bytes, strtoull(end, NULL, 10), tell->user_data);
    } else if (strncmp(line, "ram ", 4) == 0) {
        const uint64_t quota = strtoull(line + 4, &end, 10), used_bytes = strtoull(end, &end, 10);

        tell->on_ram(quota, used_bytes, strtoull(end, NULL, 10), tell->user_data);
    } /* ignore unknown lines: a newer worker may write them */
}

/* Read the available bytes, at most n_max. False at the end. */
static bool read_lines(int fd, size_t n_max, hth_lines *lines, hth_line_fn on_line, hth_worker_process *process)
{
    char bytes[8192];

    for (size_t n_read = 0; n_read < n_max;) {
        ssize_t n = read(fd, bytes, sizeof(bytes));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        n_read += (size_t)n;
        hth_lines_push(lines, bytes, (size_t)n, on_line, process);
    }
    return true;
}

static void on_log_readable(evutil_socket_t fd, short what, void *user_data)
{
    hth_worker_process *process = user_data;

    (void)what;
    if (!read_lines(fd, READ_BYTES_MAX, &process->log_lines, on_log_line, process))
        (void)event_del(process->log_event); /* cannot fail, here and below */
}

static void on_control_readable(evutil_socket_t fd, short what, void *user_data)
{
    hth_worker_process *process = user_data;

    (void)what;
    if (!read_lines(fd, READ_BYTES_MAX, &process->control_lines, on_control_line, process))
        (void)event_del(process->control_event);
}

/* ---- start ---- */

typedef struct command_line {
    const char **argv; /* [n] so far; zeros follow */
    size_t n;
    char *secret; /* "NAME=value" for the environment; NULL: none */
    char numbers[5][24];
    char found[HTH_DEVICES_MAX][HTH_FOUND_TEXT_BYTES];
} command_line;

static bool keep_secret(command_line *out, const char *value)
{
    size_t n = strlen(HTH_SERVER_SECRET_VARIABLE) + strlen(value) + 2;

    free(out->secret);
    out->secret = malloc(n);
    if (out->secret)
        (void)snprintf(out->secret, n, "%s=%s", HTH_SERVER_SECRET_VARIABLE, value); /* fits */
    return out->secret != NULL;
}

static void add_option(command_line *out, const char *name, const char *value)
{
    out->argv[out->n++] = name;
    out->argv[out->n++] = value;
}

/* Add arguments for the memory of devices that the server found. */
static void add_found(const hth_device_pools *seen, command_line *out)
{
    for (size_t i = 0; seen && i < seen->n; i++) {
        hth_fit_found_device found = { .bytes = seen->at[i].found_bytes };

        (void)snprintf(found.name, sizeof(found.name), "%s", seen->at[i].name); /* fits */
        hth_found_write(&found, out->found[i]);
        add_option(out, "--device-found", out->found[i]);
    }
}

static bool build_command_line(const hth_worker_process_options *options, int control_fd, command_line *out)
{
    size_t n = 0;

    while (options->worker[n])
        n++;
    out->argv = calloc(n + OWN_ARGUMENTS_MAX, sizeof(*out->argv));
    if (!out->argv)
        return false;
    (void)snprintf(out->numbers[0], sizeof(out->numbers[0]), "%d", options->status_fd);
    (void)snprintf(out->numbers[1], sizeof(out->numbers[1]), "%d", control_fd);
    (void)snprintf(out->numbers[2], sizeof(out->numbers[2]), "%d", options->ram_fd);
    (void)snprintf(out->numbers[3], sizeof(out->numbers[3]), "%" PRIu64, options->ram_quota);
    (void)snprintf(out->numbers[4], sizeof(out->numbers[4]), "%d", options->carrier_fd);
    add_option(out, options->program, options->command ? options->command : "worker");
    for (size_t i = 0; i < n; i++) {
        if (strcmp(options->worker[i], HTH_SERVER_SECRET_OPTION) != 0 || i + 1 == n)
            out->argv[out->n++] = options->worker[i];
        else if (!keep_secret(out, options->worker[++i]))
            return false;
    }
    if (options->command) {
        add_option(out, "--control-fd", out->numbers[4]);
    } else if (options->measures) {
        out->argv[out->n++] = "--measure";
        out->argv[out->n++] = "--quiet";
        add_found(options->seen, out);
    } else {
        add_option(out, "--socket", options->socket_path);
        add_option(out, "--status-fd", out->numbers[0]);
    }
    if (!options->command)
        add_option(out, "--control-fd", out->numbers[1]);
    if (!options->command && options->carrier_fd > 0)
        add_option(out, "--carrier-fd", out->numbers[4]);
    if (options->ram_fd >= 0)
        add_option(out, "--ram-fd", out->numbers[2]);
    if (options->has_ram_quota)
        add_option(out, "--ram-share", out->numbers[3]);
    if (options->adapter_state)
        add_option(out, "--lora-state", options->adapter_state);
    if (options->no_sandbox)
        out->argv[out->n++] = "--no-sandbox";
    assert(out->n < n + OWN_ARGUMENTS_MAX); /* NULL ends it */
    return true;
}

static bool make_pair(bool is_pipe, int pair[2])
{
    if ((is_pipe ? pipe(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) != 0)
        return false;
    /* These cannot fail. Only the front's end is non-blocking, because the worker must not lose log lines. */
    (void)evutil_make_socket_closeonexec(pair[0]);
    (void)evutil_make_socket_closeonexec(pair[1]);
    (void)evutil_make_socket_nonblocking(pair[0]);
    return true;
}

static bool listen_to(hth_worker_process *process, struct event_base *base)
{
    process->log_event = event_new(base, process->log_fd, EV_READ | EV_PERSIST, on_log_readable, process);
    process->control_event = event_new(base, process->control_fd, EV_READ | EV_PERSIST, on_control_readable, process);
    return process->log_event && process->control_event && event_add(process->log_event, NULL) == 0 &&
           event_add(process->control_event, NULL) == 0;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* no unsaved data in it */
    *fd = -1;
}

hearth_status hth_worker_process_start(const hth_worker_process_options *options, hth_worker_process **out,
                                       hearth_error *err)
{
    hearth_status status;
    hth_worker_process *process = calloc(1, sizeof(*process));
    command_line line = { 0 };
    char **environment = NULL;
    int log_pair[2] = { -1, -1 }, control_pair[2] = { -1, -1 };
    int keep[4];
    size_t n_keep = 0;

    if (!process)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to start a worker of '%s'", options->name);
    if (options->command)
        (void)snprintf(process->source, sizeof(process->source), "%s",
                       options->command); /* cut if too long, here and below */
    else
        (void)snprintf(process->source, sizeof(process->source), "worker %s", options->name);
    process->options = *options;
    process->log_fd = -1;
    process->control_fd = -1;
    if (!make_pair(true, log_pair) || !make_pair(false, control_pair)) {
        status = hth_fail_errno(err, errno, "cannot make pipes for a worker of '%s'", options->name);
        close_end(&log_pair[0]);
        goto out;
    }
    process->log_fd = log_pair[0];
    process->control_fd = control_pair[0];
    if (!build_command_line(options, control_pair[1], &line) || !(environment = hth_spawn_environment(line.secret)) ||
        !listen_to(process, options->base)) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to start a worker of '%s'", options->name);
        goto out;
    }
    if (!options->measures && !options->command)
        keep[n_keep++] = options->status_fd;
    if (options->carrier_fd > 0)
        keep[n_keep++] = options->carrier_fd;
    keep[n_keep++] = control_pair[1];
    if (options->ram_fd >= 0)
        keep[n_keep++] = options->ram_fd;
    status = hth_spawn(&(hth_spawn_options){ .program = options->program,
                                             .argv = line.argv,
                                             .environment = environment,
                                             .output = log_pair[1],
                                             .keep = keep,
                                             .n_keep = n_keep,
                                             .trouble = control_pair[1] },
                       &process->pid, err);
    if (status != HEARTH_OK)
        goto out;
    *out = process;
    process = NULL;
out:
    free((void *)line.argv);
    free(line.secret);
    free((void *)environment);
    close_end(&log_pair[1]);
    close_end(&control_pair[1]);
    hth_worker_process_free(process);
    return status;
}

/* ---- its end ---- */

int hth_worker_process_pid(const hth_worker_process *process)
{
    return process->has_ended ? 0 : (int)process->pid;
}

void hth_worker_process_terminate(hth_worker_process *process, uint32_t drain_ms)
{
    char line[32];
    int n = snprintf(line, sizeof(line), "drain %u\n", drain_ms); /* fits */

    if (process->has_ended)
        return;
    if (drain_ms > 0)
        (void)send(process->control_fd, line, (size_t)n, MSG_NOSIGNAL); /* else other workers continue them */
    (void)kill(process->pid, SIGTERM);                                  /* it exists until it is reaped */
}

bool hth_worker_process_evict(hth_worker_process *process, uint64_t ram_bytes, uint64_t ram_file_bytes)
{
    char line[64];
    const int n = snprintf(line, sizeof(line), "evict %" PRIu64 " %" PRIu64 "\n", ram_bytes, ram_file_bytes); /* fits */

    return !process->has_ended && send(process->control_fd, line, (size_t)n, MSG_NOSIGNAL) == n;
}

bool hth_worker_process_set_ram(hth_worker_process *process, uint64_t quota)
{
    char line[32];
    const int n = snprintf(line, sizeof(line), "ram %" PRIu64 "\n", quota); /* fits */

    return !process->has_ended && send(process->control_fd, line, (size_t)n, MSG_NOSIGNAL) == n;
}

void hth_worker_process_kill(hth_worker_process *process)
{
    if (process->has_ended)
        return;
    (void)kill(-process->pid, SIGKILL); /* a new process may have no group yet, so kill it, too */
    (void)kill(process->pid, SIGKILL);
}

bool hth_worker_process_has_ended(hth_worker_process *process)
{
    siginfo_t found = { 0 };
    bool is_lost = false;
    pid_t pid;

    if (process->has_ended)
        return true;
    if (waitid(P_PID, (id_t)process->pid, &found, WEXITED | WNOHANG | WNOWAIT) != 0)
        is_lost = errno == ECHILD; /* other code reaped it: another process may have its pid */
    if (!is_lost && found.si_pid != process->pid)
        return false;
    if (!is_lost)
        hth_worker_process_kill(process);
    process->has_ended = true;
    (void)read_lines(process->log_fd, READ_BYTES_MAX, &process->log_lines, on_log_line, process);
    (void)read_lines(process->control_fd, READ_BYTES_MAX, &process->control_lines, on_control_line, process);
    hth_lines_end(&process->log_lines, on_log_line, process);
    begin_second(process, 0);
    process->wait_status = 0xff << 8; /* exit status 255, if waitpid fails */
    do
        pid = waitpid(process->pid, &process->wait_status, 0); /* returns at once: it has ended */
    while (pid < 0 && errno == EINTR);
    return true;
}

static void close_all(hth_worker_process *process)
{
    if (process->log_event)
        event_free(process->log_event);
    if (process->control_event)
        event_free(process->control_event);
    process->log_event = NULL;
    process->control_event = NULL;
    close_end(&process->log_fd);
    close_end(&process->control_fd);
}

void hth_worker_process_abandon(hth_worker_process *process)
{
    hth_worker_process_kill(process);
    close_all(process); /* nothing is read from a closed end */
}

void hth_worker_process_free(hth_worker_process *process)
{
    hth_worker_process_free_all(&process, process ? 1 : 0);
}

void hth_worker_process_free_all(hth_worker_process *const *processes, size_t n)
{
    const struct timespec moment = { .tv_nsec = 2000000 };
    int waited_ms = 0;

    for (size_t i = 0; i < n; i++)
        if (processes[i]->pid > 0)
            hth_worker_process_kill(processes[i]);
    for (size_t i = 0; i < n; i++) {
        hth_worker_process *process = processes[i];

        for (; process->pid > 0 && !hth_worker_process_has_ended(process) && waited_ms < END_WAIT_MS; waited_ms += 2)
            (void)nanosleep(&moment, NULL); /* a signal may end the sleep early */
        close_all(process);
        free(process);
    }
}

bool hth_worker_process_said_stopping(const hth_worker_process *process)
{
    return process->said_stopping;
}

bool hth_worker_process_was_killed(const hth_worker_process *process)
{
    return WIFSIGNALED(process->wait_status);
}

bool hth_worker_process_ended_in_order(const hth_worker_process *process)
{
    return WIFEXITED(process->wait_status) ? WEXITSTATUS(process->wait_status) == 0
                                           : WTERMSIG(process->wait_status) == SIGTERM;
}

static const char *signal_text(int number)
{
    switch (number) {
    case SIGABRT: return "aborted";
    case SIGBUS: return "bus error";
    case SIGFPE: return "arithmetic error";
    case SIGILL: return "illegal instruction";
    case SIGKILL: return "SIGKILL, perhaps by the system for want of memory";
    case SIGSEGV: return "segmentation fault";
    case SIGSYS: return "forbidden system call";
    case SIGTERM: return "asked to end by somebody else";
    case SIGTRAP: return "trap";
    case SIGXCPU: return "limit of CPU time";
    default: return "unexpected";
    }
}

void hth_worker_process_cause(const hth_worker_process *process, char *out, size_t capacity)
{
    if (process->exec_errno > 0) {
        hearth_error err;

        (void)hth_fail_errno(&err, process->exec_errno, "its program cannot be executed");
        (void)snprintf(out, capacity, "%s", err.message); /* cut if too long, here and below */
    } else if (process->failed[0]) {
        (void)snprintf(out, capacity, "%s", process->failed);
    } else if (WIFEXITED(process->wait_status)) {
        (void)snprintf(out, capacity, "ended with exit status %d", WEXITSTATUS(process->wait_status));
    } else {
        int number = WTERMSIG(process->wait_status);

        (void)snprintf(out, capacity, "killed by signal %d (%s)", number, signal_text(number));
    }
    hth_end_at_character(out, capacity);
}

void hth_worker_process_last_lines(const hth_worker_process *process, char *out, size_t capacity)
{
    hth_last_lines_tell(&process->last_lines, out, capacity);
}
