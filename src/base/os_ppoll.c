/*
 * os_ppoll.c - a wait that lets signals in, for systems with ppoll, which takes descriptors of any number
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>

#include "base/os.h"

bool hth_os_wait_readable(int fd, const sigset_t *mask)
{
    struct pollfd ask = { .fd = fd, .events = POLLIN };

    if (ppoll(&ask, 1, NULL, mask) < 0)
        return false;
    errno = EBADF;
    return !(ask.revents & POLLNVAL);
}
