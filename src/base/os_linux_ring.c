/*
 * os_linux_ring.c - the queue of reads on Linux: io_uring
 *
 * Kernels may lack io_uring, and containers may forbid it. Then opening fails, and the caller reads with threads. A
 * partial ban may only show in use, so opening tries one read.
 *
 * The queue can only read (Linux 5.10; older kernels read with threads). io_uring has operations for nearly all system
 * calls, and seccomp filters do not see them. A worker keeps its queue when its other calls are filtered, so the queue
 * must not be able to do more.
 *
 * A read is first in the queue that we share with the kernel. Then the kernel has it, and writes into its memory until
 * the completion arrives. If the kernel is out of memory, we try again. If that does not help, or the kernel refuses
 * permanently, the ring is broken: it accepts no more reads, and reads that are still in the queue come back unread.
 * For reads that the kernel has, we wait until their completions arrive, however long that takes.
 */
#include "base/os.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* One read moves at most this much. The rest is read by another one. */
#define READ_BYTES_MAX ((size_t)1 << 30)
enum {
    PAUSE_NS = 1000000,
    REFUSALS_MAX = 100, /* in a row: a tenth of a second, in which the kernel may free memory */
};

struct hth_os_ring {
    struct io_uring uring;
    bool broken;
    unsigned n_refusals; /* by the kernel, in a row */
    unsigned n_unsent;   /* for a broken ring: this many of the last added reads never reached the kernel */
    /* The user_data of the last added reads, as a ring buffer with as many places as the queue. */
    void **added;
    unsigned n_places;
    unsigned n_added; /* total so far; wraps */
};

int64_t hth_os_read_now(int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    struct iovec piece = { .iov_base = bytes, .iov_len = n_bytes };
    ssize_t n = preadv2(fd, &piece, 1, (off_t)offset, RWF_NOWAIT);

    return n < 0 ? -errno : n;
}

/*
 * For a queue that was created disabled: allow only reads, and enable it. This cannot be undone. It does not use the
 * functions of liburing, because version 2.3 declares but does not export them.
 */
static bool allow_reads_only(const struct io_uring *uring)
{
    struct io_uring_restriction read = { .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_READ };

    return syscall(SYS_io_uring_register, uring->ring_fd, IORING_REGISTER_RESTRICTIONS, &read, 1) == 0 &&
           syscall(SYS_io_uring_register, uring->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) == 0;
}

/* Does the kernel accept reads? A read without a file fails in a way that shows it. */
static bool takes_reads(hth_os_ring *ring)
{
    int64_t n = 0;

    return hth_os_ring_add(ring, -1, NULL, 0, 0, ring) && hth_os_ring_wait(ring, &n) == ring && n == -EBADF;
}

hth_os_ring *hth_os_ring_open(unsigned depth)
{
    hth_os_ring *ring = calloc(1, sizeof(*ring));
    struct io_uring_params params = { .flags = IORING_SETUP_R_DISABLED };

    if (!ring)
        return NULL;
    if (io_uring_queue_init_params(depth, &ring->uring, &params) != 0) {
        free(ring);
        return NULL;
    }
    ring->n_places = params.sq_entries; /* a power of two, so that n_added may wrap */
    ring->added = calloc(ring->n_places, sizeof(*ring->added));
    if (!ring->added || !allow_reads_only(&ring->uring) || !takes_reads(ring)) {
        hth_os_ring_close(ring);
        return NULL;
    }
    return ring;
}

void hth_os_ring_close(hth_os_ring *ring)
{
    if (!ring)
        return;
    io_uring_queue_exit(&ring->uring);
    free(ring->added);
    free(ring);
}

bool hth_os_ring_add(hth_os_ring *ring, int fd, void *bytes, size_t n_bytes, uint64_t offset, void *user_data)
{
    struct io_uring_sqe *entry = ring->broken ? NULL : io_uring_get_sqe(&ring->uring);

    if (!entry)
        return false;
    io_uring_prep_read(entry, fd, bytes, (unsigned)(n_bytes < READ_BYTES_MAX ? n_bytes : READ_BYTES_MAX), offset);
    io_uring_sqe_set_data(entry, user_data);
    ring->added[ring->n_added++ % ring->n_places] = user_data;
    return true;
}

void hth_os_ring_submit(hth_os_ring *ring)
{
    if (!ring->broken)
        (void)io_uring_submit(&ring->uring); /* reads that were not submitted go out with the wait */
}

/* Submit the queued reads, and wait for a completion if the kernel can. Neither is guaranteed on return. */
static void enter_kernel(hth_os_ring *ring)
{
    int rc = ring->broken ? -EBADF : io_uring_submit_and_wait(&ring->uring, 1);

    if (rc >= 0 || rc == -EINTR) {
        ring->n_refusals = 0;
        return;
    }
    if (!ring->broken && ((rc != -EAGAIN && rc != -EBUSY && rc != -ENOMEM) || ++ring->n_refusals == REFUSALS_MAX)) {
        ring->broken = true;
        ring->n_unsent = io_uring_sq_ready(&ring->uring);
        return;
    }
    (void)nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL); /* after an early wake-up we merely check early */
}

void *hth_os_ring_wait(hth_os_ring *ring, int64_t *n_out)
{
    struct io_uring_cqe *entry = NULL;
    void *user_data;

    while (io_uring_peek_cqe(&ring->uring, &entry) != 0) {
        if (ring->n_unsent > 0) {
            *n_out = -EOPNOTSUPP;
            return ring->added[(ring->n_added - ring->n_unsent--) % ring->n_places];
        }
        enter_kernel(ring);
    }
    user_data = io_uring_cqe_get_data(entry);
    *n_out = entry->res;
    io_uring_cqe_seen(&ring->uring, entry);
    return user_data;
}
