/*
 * os_linux_ring.c - the queue of reads on Linux: io_uring
 *
 * Kernels and containers may lack or forbid it; then opening fails, and the caller reads with threads.
 */
#include "base/os.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/uio.h>

/* One read moves at most this much; the rest goes round again. */
#define READ_BYTES_MAX ((size_t)1 << 30)

struct hth_os_ring {
    struct io_uring uring;
};

int64_t hth_os_read_now(int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    struct iovec piece = { .iov_base = bytes, .iov_len = n_bytes };
    ssize_t n = preadv2(fd, &piece, 1, (off_t)offset, RWF_NOWAIT);

    return n < 0 ? -errno : n;
}

hth_os_ring *hth_os_ring_open(unsigned depth)
{
    hth_os_ring *ring = calloc(1, sizeof(*ring));

    if (!ring)
        return NULL;
    if (io_uring_queue_init(depth, &ring->uring, 0) != 0) {
        free(ring);
        return NULL;
    }
    return ring;
}

void hth_os_ring_close(hth_os_ring *ring)
{
    if (!ring)
        return;
    io_uring_queue_exit(&ring->uring);
    free(ring);
}

bool hth_os_ring_add(hth_os_ring *ring, int fd, void *bytes, size_t n_bytes, uint64_t offset, void *user_data)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring->uring);

    if (!entry)
        return false;
    io_uring_prep_read(entry, fd, bytes, (unsigned)(n_bytes < READ_BYTES_MAX ? n_bytes : READ_BYTES_MAX), offset);
    io_uring_sqe_set_data(entry, user_data);
    return true;
}

void hth_os_ring_submit(hth_os_ring *ring)
{
    (void)io_uring_submit(&ring->uring); /* what did not go out goes with the wait */
}

void *hth_os_ring_wait(hth_os_ring *ring, int64_t *n_out)
{
    struct io_uring_cqe *entry = NULL;
    void *user_data;
    int rc;

    do
        rc = io_uring_submit_and_wait(&ring->uring, 1);
    while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
    if (rc < 0 || io_uring_peek_cqe(&ring->uring, &entry) != 0)
        return NULL;
    user_data = io_uring_cqe_get_data(entry);
    *n_out = entry->res;
    io_uring_cqe_seen(&ring->uring, entry);
    return user_data;
}
