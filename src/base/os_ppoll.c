/*
 * os_ppoll.c - a wait that admits signals, for systems with ppoll, which accepts descriptors of any value
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
