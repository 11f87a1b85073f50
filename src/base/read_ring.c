/*
 * read_ring.c - the system's ring, or threads over two lists
 *
 * An added read is in `added`, after the submit in `queued` (threads only), then outstanding, then in `done`. A short
 * read is sent again until the file ends.
 */
#include "base/read_ring.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/os.h"

enum { THREADS_MAX = 4, DEPTH_MAX = 1024 };

typedef struct fifo {
    hth_ring_read *first, *last;
} fifo;

struct hth_read_ring {
    const hth_fs *fs;
    unsigned depth;
    size_t n_out; /* added and not yet back */
    fifo added;
    hth_os_ring *os; /* NULL: threads */
    bool os_refuses; /* no new reads are sent there; reads that are there still come back */
    size_t n_at_os;

    pthread_t threads[THREADS_MAX];
    size_t n_threads;
    /* Guards the fields below. Innermost lock; no read runs while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    pthread_cond_t came_back;
    fifo queued;
    fifo done;
    bool closing;
};

static void put(fifo *list, hth_ring_read *read)
{
    read->next = NULL;
    if (list->first)
        list->last->next = read;
    else
        list->first = read;
    list->last = read;
}

static hth_ring_read *take(fifo *list)
{
    hth_ring_read *read = list->first;

    if (read)
        list->first = read->next;
    return read;
}

/* ---- threads ---- */

static void *read_queued(void *context)
{
    hth_read_ring *ring = context;

    hth_os_thread_name("hearth-read");
    pthread_mutex_lock(&ring->lock);
    for (;;) {
        hth_ring_read *read = take(&ring->queued);

        if (!read && ring->closing)
            break;
        if (!read) {
            pthread_cond_wait(&ring->wanted, &ring->lock);
            continue;
        }
        pthread_mutex_unlock(&ring->lock);
        hth_read_rest(ring->fs, read);
        pthread_mutex_lock(&ring->lock);
        put(&ring->done, read);
        pthread_cond_signal(&ring->came_back);
    }
    pthread_mutex_unlock(&ring->lock);
    return NULL;
}

static void start_threads(hth_read_ring *ring)
{
    size_t wanted = ring->depth < THREADS_MAX ? ring->depth : THREADS_MAX;

    while (ring->n_threads < wanted && pthread_create(&ring->threads[ring->n_threads], NULL, read_queued, ring) == 0)
        ring->n_threads++;
}

/* ---- opening ---- */

hth_read_ring *hth_read_ring_open(const hth_fs *fs, unsigned depth)
{
    hth_read_ring *ring = calloc(1, sizeof(*ring));

    assert(depth >= 1);
    assert(depth <= DEPTH_MAX);
    if (!ring)
        return NULL;
    ring->fs = fs;
    ring->depth = depth;
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->wanted, NULL);
    pthread_cond_init(&ring->came_back, NULL);
    if (fs == hth_fs_system())
        ring->os = hth_os_ring_open(depth);
    if (!ring->os)
        start_threads(ring);
    return ring;
}

void hth_read_ring_close(hth_read_ring *ring)
{
    if (!ring)
        return;
    while (hth_read_ring_wait(ring))
        ; /* wait, because its owner is about to free the memory */
    pthread_mutex_lock(&ring->lock);
    ring->closing = true;
    pthread_cond_broadcast(&ring->wanted);
    pthread_mutex_unlock(&ring->lock);
    for (size_t i = 0; i < ring->n_threads; i++)
        (void)pthread_join(ring->threads[i], NULL); /* started, and joined nowhere else */
    hth_os_ring_close(ring->os);
    pthread_cond_destroy(&ring->came_back);
    pthread_cond_destroy(&ring->wanted);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

const char *hth_read_ring_way(const hth_read_ring *ring)
{
    return ring->os && !ring->os_refuses ? "io_uring" : ring->n_threads > 0 ? "threads" : "caller";
}

/* ---- reading ---- */

void hth_read_ring_add(hth_read_ring *ring, hth_ring_read *read)
{
    assert(ring->n_out < ring->depth);
    assert(read->n_done < read->n_bytes);
    ring->n_out++;
    put(&ring->added, read);
}

static void read_here(hth_read_ring *ring, hth_ring_read *read)
{
    hth_read_rest(ring->fs, read);
    pthread_mutex_lock(&ring->lock);
    put(&ring->done, read);
    pthread_mutex_unlock(&ring->lock);
}

/* Let threads take over from the system. */
static void refuse_os(hth_read_ring *ring)
{
    ring->os_refuses = true;
    start_threads(ring);
}

/* Hand one read to the system. False: the system refuses it. */
static bool send_to_os(hth_read_ring *ring, hth_ring_read *read)
{
    if (!hth_os_ring_add(ring->os, read->fd, read->bytes + read->n_done, read->n_bytes - read->n_done, read->n_done,
                         read)) {
        if (ring->n_at_os == 0) /* an empty queue that accepts nothing is broken; a full one accepts reads later */
            refuse_os(ring);
        return false;
    }
    ring->n_at_os++;
    return true;
}

static void send_to_threads(hth_read_ring *ring)
{
    hth_ring_read *read;

    pthread_mutex_lock(&ring->lock);
    while ((read = take(&ring->added)))
        put(&ring->queued, read);
    pthread_cond_broadcast(&ring->wanted);
    pthread_mutex_unlock(&ring->lock);
}

void hth_read_ring_submit(hth_read_ring *ring)
{
    bool to_os = ring->os && !ring->os_refuses;
    hth_ring_read *read;

    if (!ring->added.first)
        return;
    while (ring->os && !ring->os_refuses && (read = take(&ring->added)))
        if (!send_to_os(ring, read))
            read_here(ring, read);
    if (to_os)
        hth_os_ring_submit(ring->os);
    if (ring->n_threads > 0)
        send_to_threads(ring);
    while ((read = take(&ring->added)))
        read_here(ring, read); /* neither the queue nor a thread accepts it */
}

/*
 * Such a result usually comes from the queue, not from the file: the kernel does not know the operation, a filter
 * forbids it, or (-EAGAIN) an older kernel does not wait for the device because the file is open with O_NONBLOCK.
 */
static bool is_refusal(int64_t n)
{
    return n == -EINVAL || n == -EOPNOTSUPP || n == -EPERM || n == -EAGAIN;
}

/* Wait for the system to finish one read. NULL if the read was sent again, for its rest. */
static hth_ring_read *wait_for_os(hth_read_ring *ring)
{
    int64_t n = 0;
    hth_ring_read *read = hth_os_ring_wait(ring->os, &n);
    bool again;

    ring->n_at_os--;
    if (n > 0)
        read->n_done += (size_t)n;
    read->result = n < 0 ? (int)n : 0;
    again = n == -EINTR || (n > 0 && read->n_done < read->n_bytes);
    if (again && !ring->os_refuses && send_to_os(ring, read)) {
        hth_os_ring_submit(ring->os);
        return NULL;
    }
    if (again || is_refusal(n))
        hth_read_rest(ring->fs, read);
    if (is_refusal(n) && read->result == 0)
        refuse_os(ring);
    return read;
}

/* A read that a thread, this one included, has finished. NULL if there is none and wait is false. */
static hth_ring_read *wait_for_done(hth_read_ring *ring, bool wait)
{
    hth_ring_read *read;

    pthread_mutex_lock(&ring->lock);
    while (!(read = take(&ring->done)) && wait)
        pthread_cond_wait(&ring->came_back, &ring->lock);
    pthread_mutex_unlock(&ring->lock);
    return read;
}

hth_ring_read *hth_read_ring_wait(hth_read_ring *ring)
{
    hth_ring_read *read;

    hth_read_ring_submit(ring);
    if (ring->n_out == 0)
        return NULL;
    read = wait_for_done(ring, ring->n_at_os == 0);
    while (!read && ring->n_at_os > 0)
        read = wait_for_os(ring);
    ring->n_out--;
    return read;
}

bool hth_read_now(const hth_fs *fs, hth_ring_read *read)
{
    while (fs == hth_fs_system() && read->n_done < read->n_bytes) {
        int64_t n = hth_os_read_now(read->fd, read->bytes + read->n_done, read->n_bytes - read->n_done, read->n_done);

        if (n <= 0)
            break;
        read->n_done += (size_t)n;
    }
    return read->n_done == read->n_bytes;
}

void hth_read_rest(const hth_fs *fs, hth_ring_read *read)
{
    size_t n = 0;

    read->result =
        hth_fs_read_full(fs, read->fd, read->bytes + read->n_done, read->n_bytes - read->n_done, read->n_done, &n);
    read->n_done += n;
}
