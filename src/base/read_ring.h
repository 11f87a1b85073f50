/*
 * read_ring.h - many reads of files at once, and their results as they come
 *
 * With a submission queue (io_uring on Linux) all added reads go out in one call, and the device orders them. Where the
 * system has no queue, or forbids it (containers often do), a few threads read with pread. They also take over once
 * the queue refuses a read that pread can do. A file layer other than the system's, as in tests, is always read through
 * its own functions.
 *
 * The memory of a read belongs to the ring until the read comes back. A wait ends only then, even if the system has
 * broken its queue, because the system might still write there.
 *
 * One thread at a time uses a ring; it may pass from thread to thread while no read is out.
 */
#ifndef HTH_BASE_READ_RING_H
#define HTH_BASE_READ_RING_H

#include "base/fs.h"

typedef struct hth_read_ring hth_read_ring;

typedef struct hth_ring_read {
    /* The caller sets fd, bytes, n_bytes and n_done (usually 0), and touches none of them until the read comes back. */
    int fd;
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_done; /* bytes read already, from the file's beginning; grows */
    int result;    /* 0 or -errno, after it came back. 0 and n_done below n_bytes: the file ended */
} hth_ring_read;

/* A ring for at most depth reads at a time, 1..1024. NULL without memory. */
hth_read_ring *hth_read_ring_open(const hth_fs *fs, unsigned depth);
/* Carries out and waits for all added reads. Accepts NULL. */
void hth_read_ring_close(hth_read_ring *ring);
/* How this ring reads: "io_uring", "threads", or "caller" where no thread could be started. A static string. */
const char *hth_read_ring_way(const hth_read_ring *ring);

/*
 * Read bytes[n_done, n_bytes) from that offset of the file on. Goes out with the next submit or wait. At most depth
 * reads are added and not back; n_done < n_bytes.
 */
void hth_read_ring_add(hth_read_ring *ring, hth_ring_read *read);
/*
 * Send the added reads out. Where neither the queue nor a thread takes one, it is read here, and the call waits for the
 * device.
 */
void hth_read_ring_submit(hth_read_ring *ring);
/* Wait for a read to come back. NULL if none is out. */
hth_ring_read *hth_read_ring_wait(hth_read_ring *ring);

/*
 * Read bytes that the system has in memory already, without waiting for a device: n_done grows. True if these were all.
 * Also false if the system or the file layer cannot tell.
 */
bool hth_read_now(const hth_fs *fs, hth_ring_read *read);

/* Read the rest now, and wait for the device. A ring does the same in the background. */
void hth_read_rest(const hth_fs *fs, hth_ring_read *read);

#endif
