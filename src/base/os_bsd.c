/*
 * os_bsd.c - the part of os.h that is the same on FreeBSD and macOS
 *
 * They have no files in memory and none without names, no queue of reads, and no descriptor that reports all changes of
 * a folder.
 */
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int not_supported(void)
{
    errno = ENOTSUP;
    return -1;
}

void hth_os_random(void *bytes, size_t n_bytes)
{
    arc4random_buf(bytes, n_bytes);
}

void hth_os_memory_prefault(void *memory, size_t n_bytes)
{
    long page_bytes = sysconf(_SC_PAGESIZE);
    volatile uint8_t *at = memory;

    for (size_t i = 0; i < n_bytes; i += (size_t)page_bytes)
        at[i] = at[i]; /* superpages of FreeBSD form by themselves once the range is resident */
}

void hth_os_memory_discard(void *memory, size_t n_bytes)
{
    (void)madvise(memory, n_bytes, MADV_FREE); /* best effort */
}

void hth_os_memory_small_pages(void *memory, size_t n_bytes)
{
    (void)memory; /* pages are promoted only once all of them are resident */
    (void)n_bytes;
}

bool hth_os_peer_has_ended(int fd)
{
    return hth_os_peer_is_gone(fd);
}

void hth_os_first_to_go(void)
{
}

/* ---- files in memory, files without names ---- */

int hth_os_open_unnamed(const char *directory)
{
    (void)directory;
    return not_supported();
}

int hth_os_link_unnamed(int fd, const char *path)
{
    (void)fd;
    (void)path;
    return not_supported();
}

int hth_os_memory_file_new(const char *name)
{
    (void)name;
    return not_supported();
}

int hth_os_memory_file_seal(int fd)
{
    (void)fd;
    return not_supported();
}

int hth_os_memory_file_own(int fd)
{
    (void)fd;
    return not_supported();
}

int hth_os_file_allocate(int fd, uint64_t offset, uint64_t n_bytes)
{
    (void)fd;
    (void)offset;
    (void)n_bytes;
    return not_supported();
}

int hth_os_file_punch(int fd, uint64_t offset, uint64_t n_bytes)
{
    (void)fd;
    (void)offset;
    (void)n_bytes;
    return not_supported();
}

uint64_t hth_os_file_next_data(int fd, uint64_t at)
{
    (void)fd;
    return at;
}

/* ---- the queue of reads ---- */

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

/* ---- folder watches ---- */

int hth_os_watch_open(void)
{
    return not_supported();
}

int hth_os_watch_add(int watch, const char *folder)
{
    (void)watch;
    (void)folder;
    return not_supported();
}

bool hth_os_watch_take(int watch, bool (*matters)(const char *name))
{
    (void)watch;
    (void)matters;
    return false;
}
