/*
 * read_ring.h - many reads of files at once, and their results as they come
 *
 * Where the system has a submission queue (io_uring on Linux) all reads that were added go out in one call and are the
 * device's to order. Where it has none, or forbids it (containers often do), a few threads read with pread; so they do
 * from the first read on that the queue turns out not to carry out though the file can be read. A file layer other than
 * the system's, as tests have it, is always read through its own functions.
 *
 * The memory of a read is the ring's until the read came back: a wait ends only then, even where the system has broken
 * its queue, because the system might still write there.
 *
 * One thread uses a ring.
 */
#ifndef HTH_BASE_READ_RING_H
#define HTH_BASE_READ_RING_H

#include "base/fs.h"

typedef struct hth_read_ring hth_read_ring;

typedef struct hth_ring_read {
    /* Set by the caller, and unchanged until the read came back. */
    int fd;
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_done; /* bytes that are there already, from the file's beginning; grows. Fewer than n_bytes: the end */
    int result;    /* 0 or -errno, when it came back */
} hth_ring_read;

/* A ring for at most depth reads at a time, 1..1024. NULL without memory. */
hth_read_ring *hth_read_ring_open(const hth_fs *fs, unsigned depth);
/* Waits for what is out. Accepts NULL. */
void hth_read_ring_close(hth_read_ring *ring);
/* Which way this ring reads: "io_uring", "threads". A static string. */
const char *hth_read_ring_way(const hth_read_ring *ring);

/* Read bytes[n_done, n_bytes) from there on in the file. Goes out with the next submit or wait. */
void hth_read_ring_add(hth_read_ring *ring, hth_ring_read *read);
void hth_read_ring_submit(hth_read_ring *ring);
/* A read that came back, waiting for one; NULL when none is out. */
hth_ring_read *hth_read_ring_wait(hth_read_ring *ring);

/*
 * Read what the system has in memory already, without waiting for a device: n_done grows. True when that was all of it;
 * false also where the system or the file layer cannot tell.
 */
bool hth_read_now(const hth_fs *fs, hth_ring_read *read);

/* Read the rest here and now, waiting for the device: what a ring does in the background. */
void hth_read_rest(const hth_fs *fs, hth_ring_read *read);

#endif
