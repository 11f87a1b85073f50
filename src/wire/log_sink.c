/*
 * log_sink.c - see log_sink.h
 *
 * The server shares standard error with its parent, so it is not made non-blocking: poll() says whether a write would
 * wait. A ready pipe takes a page, and no line is longer. A file is always ready, and returns ENOSPC when it is full.
 */
#include "wire/log_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

hearth_status hth_log_sink_open(const char *path, hth_log_sink *out, hearth_error *err)
{
    /* Non-blocking, and not the controlling terminal, in case it is a pipe or a device. */
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int fd;

    if (!path) {
        *out = (hth_log_sink){ .fd = STDERR_FILENO };
        return HEARTH_OK;
    }
    fd = open(path, flags, 0640);
    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open the log file '%s' for appending", path);
    *out = (hth_log_sink){ .fd = fd, .is_ours = true };
    return HEARTH_OK;
}

void hth_log_sink_close(hth_log_sink *sink)
{
    if (sink->is_ours && sink->fd >= 0)
        (void)close(sink->fd); /* bytes that were not written by now are lost */
    sink->fd = -1;
}

bool hth_log_sink_is_terminal(const hth_log_sink *sink)
{
    return isatty(sink->fd) == 1;
}

/* Would a line be accepted now? */
static bool is_ready(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLOUT };

    return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) && !(ready.revents & (POLLERR | POLLNVAL));
}

static size_t write_once(int fd, const char *text, size_t n)
{
    ssize_t n_written = is_ready(fd) ? write(fd, text, n) : -1;

    return n_written < 0 ? 0 : (size_t)n_written;
}

bool hth_log_sink_write(hth_log_sink *sink, const char *line, size_t n)
{
    size_t n_written;

    /* A disk that became full may have cut a line: end it before the next begins. */
    if (sink->is_torn && write_once(sink->fd, "\n", 1) != 1)
        return false;
    n_written = write_once(sink->fd, line, n);
    sink->is_torn = n_written > 0 && n_written < n;
    return n_written == n;
}
