/*
 * os_no_ring.c - the queue of reads, for systems without one
 */
#include "base/os.h"

#include <errno.h>

int64_t hth_os_read_now(int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    (void)fd;
    (void)bytes;
    (void)n_bytes;
    (void)offset;
    return -EAGAIN;
}

hth_os_ring *hth_os_ring_open(unsigned depth)
{
    (void)depth;
    return NULL;
}

void hth_os_ring_close(hth_os_ring *ring)
{
    (void)ring;
}

bool hth_os_ring_add(hth_os_ring *ring, int fd, void *bytes, size_t n_bytes, uint64_t offset, void *user_data)
{
    (void)ring;
    (void)fd;
    (void)bytes;
    (void)n_bytes;
    (void)offset;
    (void)user_data;
    return false;
}

void hth_os_ring_submit(hth_os_ring *ring)
{
    (void)ring;
}

void *hth_os_ring_wait(hth_os_ring *ring, int64_t *n_out)
{
    (void)ring;
    (void)n_out;
    return NULL;
}
