/*
 * read_ring.h - many file reads at once, and their results as they complete
 *
 * With a submission queue (io_uring on Linux), all added reads are submitted in one call, and the device orders them.
 * Where the system has no queue, or forbids it (containers often do), a few threads read with pread. They also take
 * over once the queue refuses a read that pread can do. A file layer other than the system's, as in tests, is always
 * read through its own functions.
 *
 * The memory of a read belongs to the ring until the read comes back. A wait does not end earlier, even if the system's
 * queue is broken, because the system might still write there.
 *
 * One thread at a time uses a ring; it may pass to another thread while no read is outstanding.
 */
#ifndef HTH_BASE_READ_RING_H
#define HTH_BASE_READ_RING_H

#include "base/fs.h"

typedef struct hth_read_ring hth_read_ring;

typedef struct hth_ring_read {
    /* The caller sets fd, bytes, n_bytes and n_done (usually 0), and does not touch them until the read comes back. */
    int fd;
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_done;              /* bytes read so far, from the start of the file; grows */
    int result;                 /* 0 or -errno, once the read is back. 0 with n_done below n_bytes: the file ended */
    struct hth_ring_read *next; /* the ring's */
} hth_ring_read;

/* A ring for at most depth reads at a time, 1..1024. NULL without memory. */
hth_read_ring *hth_read_ring_open(const hth_fs *fs, unsigned depth);
/* Carries out and waits for all added reads. Accepts NULL. */
void hth_read_ring_close(hth_read_ring *ring);
/* How this ring reads: "io_uring", "threads", or "caller" if no thread could be started. A static string. */
const char *hth_read_ring_way(const hth_read_ring *ring);

/*
 * Read bytes[n_done, n_bytes), starting at that offset of the file. Sent with the next submit or wait. At most depth
 * reads may be added and not yet back; n_done < n_bytes.
 */
void hth_read_ring_add(hth_read_ring *ring, hth_ring_read *read);
/*
 * Send the added reads. A read that neither the queue nor a thread accepts is read here, and the call waits for the
 * device.
 */
void hth_read_ring_submit(hth_read_ring *ring);
/* Wait for a read to come back. NULL if none is outstanding. */
hth_ring_read *hth_read_ring_wait(hth_read_ring *ring);

/*
 * Read bytes that the system already has in memory, without waiting for a device: n_done grows. True if that was all of
 * them. Also false if the system or the file layer cannot tell.
 */
bool hth_read_now(const hth_fs *fs, hth_ring_read *read);

/* Read the rest now, and wait for the device. A ring does the same in the background. */
void hth_read_rest(const hth_fs *fs, hth_ring_read *read);

#endif
