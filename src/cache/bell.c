/*
 * bell.c - a counter in shared memory, slept on by whatever means the system has
 *
 *   <path>    4096 bytes; the counter is the u32 at 0, in the machine's byte order, and means nothing after all have
 *             closed it
 */
#include "cache/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/os.h"

enum { MAP_BYTES = 4096, SLICE_MS_MAX = 50 };

struct hth_bell {
    _Atomic uint32_t *count; /* in the map, or own */
    void *map;               /* NULL: none */
    _Atomic uint32_t own;

    /* For systems that cannot sleep on count. Guards nothing but the wait. */
    pthread_mutex_t lock;
    pthread_cond_t rung;
};

/* A store into a map for which the device has no block would end the process. Not every file system can make sure. */
static bool has_room(int fd)
{
    return hth_os_file_allocate(fd, 0, MAP_BYTES) == 0 || (errno != ENOSPC && errno != EDQUOT);
}

/* Map the file; NULL when that does not work. */
static void *map_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    void *map = MAP_FAILED;
    struct stat st;

    if (fd < 0)
        return NULL;
    /* It only ever grows, so that nobody's map ends before its file does. */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_size >= MAP_BYTES || ftruncate(fd, MAP_BYTES) == 0) &&
        has_room(fd))
        map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd); /* the map holds the file */
    return map == MAP_FAILED ? NULL : map;
}

hth_bell *hth_bell_open(const char *path)
{
    hth_bell *bell = calloc(1, sizeof(*bell));

    if (!bell)
        return NULL;
    pthread_mutex_init(&bell->lock, NULL);
    hth_condition_init(&bell->rung);
    bell->map = map_file(path);
    bell->count = bell->map ? bell->map : &bell->own;
    return bell;
}

void hth_bell_close(hth_bell *bell)
{
    if (!bell)
        return;
    if (bell->map)
        (void)munmap(bell->map, MAP_BYTES); /* ours, so it cannot fail */
    pthread_cond_destroy(&bell->rung);
    pthread_mutex_destroy(&bell->lock);
    free(bell);
}

void hth_bell_ring(hth_bell *bell)
{
    (void)atomic_fetch_add(bell->count, 1);
    hth_os_word_wake(bell->count);
    pthread_mutex_lock(&bell->lock);
    pthread_cond_broadcast(&bell->rung);
    pthread_mutex_unlock(&bell->lock);
}

uint32_t hth_bell_count(const hth_bell *bell)
{
    return atomic_load(bell->count);
}

void hth_bell_wait(hth_bell *bell, uint32_t seen, uint32_t timeout_ms)
{
    uint32_t slice_ms = 1;

    if (hth_os_word_wait(bell->count, seen, timeout_ms))
        return;
    pthread_mutex_lock(&bell->lock);
    while (atomic_load(bell->count) == seen && timeout_ms > 0) {
        uint32_t ms = slice_ms < timeout_ms ? slice_ms : timeout_ms;
        struct timespec until = hth_deadline_after(ms);

        (void)pthread_cond_timedwait(&bell->rung, &bell->lock, &until);
        timeout_ms -= ms;
        slice_ms = 2 * slice_ms < SLICE_MS_MAX ? 2 * slice_ms : SLICE_MS_MAX;
    }
    pthread_mutex_unlock(&bell->lock);
}
