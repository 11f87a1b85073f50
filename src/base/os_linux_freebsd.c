/*
 * os_linux_freebsd.c - the part of os.h that is the same on Linux and FreeBSD
 */
#include "base/os.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static uint64_t timespec_ns(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

uint64_t hth_os_monotonic_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail: the clock exists and the address is ours */
    return timespec_ns(&now);
}

uint64_t hth_os_mtime_ns(const struct stat *st)
{
    return timespec_ns(&st->st_mtim);
}

uint64_t hth_os_ctime_ns(const struct stat *st)
{
    return timespec_ns(&st->st_ctim);
}

int hth_os_sync_data(int fd)
{
    return fdatasync(fd);
}

/* ppoll accepts descriptors of any value. */
bool hth_os_wait_readable(int fd, const sigset_t *mask)
{
    struct pollfd ask = { .fd = fd, .events = POLLIN };

    if (ppoll(&ask, 1, NULL, mask) < 0)
        return false;
    errno = EBADF;
    return !(ask.revents & POLLNVAL);
}
