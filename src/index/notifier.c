/*
 * notifier.c - a counter in shared memory, and the system's way to wait on it
 *
 *   <path>    4096 bytes; the counter is the u32 at 0, in the byte order of the machine. It has no meaning once all
 *             processes have closed it
 */
#include "index/notifier.h"

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
#include "index/map_size.h"

enum { MAP_BYTES = 4096, SLICE_MS_MAX = 50 };

struct hth_notifier {
    _Atomic uint32_t *count; /* in the map, or own */
    void *map;               /* NULL: none */
    hth_map_size file;       /* with a map */
    _Atomic uint32_t own;

    /* For systems that cannot sleep on count. Guards only the wait. */
    pthread_mutex_t lock;
    pthread_cond_t rung;
};

/*
 * A store into a page that has no block on the device would kill the process. Some file systems cannot reserve the
 * block.
 */
static bool has_room(int fd)
{
    return hth_os_file_allocate(fd, 0, MAP_BYTES) == 0 || (errno != ENOSPC && errno != EDQUOT && errno != EFBIG);
}

/* Map the file; NULL if that fails. *fd_out is open on success. */
static void *map_file(const char *path, int *fd_out)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    void *map = MAP_FAILED;
    struct stat st;

    if (fd < 0)
        return NULL;
    /* The file only grows, so no map is longer than its file. */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_size >= MAP_BYTES || ftruncate(fd, MAP_BYTES) == 0) &&
        has_room(fd))
        map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        (void)close(fd);
        return NULL;
    }
    *fd_out = fd;
    return map;
}

/* If another program made the file shorter, restore its length: waiters then see another count, and check. */
static _Atomic uint32_t *count_of(hth_notifier *notifier)
{
    bool was_cut;

    return notifier->map && hth_map_size_look(&notifier->file, MAP_BYTES, &was_cut) != 0 ? &notifier->own
                                                                                         : notifier->count;
}

hth_notifier *hth_notifier_open(const char *path)
{
    hth_notifier *notifier = calloc(1, sizeof(*notifier));

    if (!notifier)
        return NULL;
    pthread_mutex_init(&notifier->lock, NULL);
    hth_condition_init(&notifier->rung);
    notifier->map = map_file(path, &notifier->file.fd);
    notifier->count = notifier->map ? notifier->map : &notifier->own;
    return notifier;
}

void hth_notifier_close(hth_notifier *notifier)
{
    if (!notifier)
        return;
    if (notifier->map) {
        (void)munmap(notifier->map, MAP_BYTES); /* our own map, so it cannot fail */
        (void)close(notifier->file.fd);
    }
    pthread_cond_destroy(&notifier->rung);
    pthread_mutex_destroy(&notifier->lock);
    free(notifier);
}

void hth_notifier_notify(hth_notifier *notifier)
{
    _Atomic uint32_t *count = count_of(notifier);

    (void)atomic_fetch_add(count, 1);
    hth_os_word_wake(count);
    pthread_mutex_lock(&notifier->lock);
    pthread_cond_broadcast(&notifier->rung);
    pthread_mutex_unlock(&notifier->lock);
}

uint32_t hth_notifier_count(hth_notifier *notifier)
{
    return atomic_load(count_of(notifier));
}

void hth_notifier_wait(hth_notifier *notifier, uint32_t seen, uint32_t timeout_ms)
{
    uint32_t slice_ms = 1;

    if (hth_os_word_wait(notifier->count, seen, timeout_ms))
        return;
    pthread_mutex_lock(&notifier->lock);
    while (hth_notifier_count(notifier) == seen && timeout_ms > 0) {
        uint32_t ms = slice_ms < timeout_ms ? slice_ms : timeout_ms;
        struct timespec until = hth_deadline_after(ms);

        (void)pthread_cond_timedwait(&notifier->rung, &notifier->lock, &until);
        timeout_ms -= ms;
        slice_ms = 2 * slice_ms < SLICE_MS_MAX ? 2 * slice_ms : SLICE_MS_MAX;
    }
    pthread_mutex_unlock(&notifier->lock);
}
