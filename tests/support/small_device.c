/*
 * small_device.c - a capacity less the lengths of files
 *
 * Rows alone count: the index's files do not go through the table, and a test's sums would depend on LMDB's pages.
 */
#include "support/small_device.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

/* nftw passes no context. */
static pthread_mutex_t sum_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sum;

static int add_file(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)path;
    (void)where;
    if (type == FTW_F && S_ISREG(st->st_mode))
        sum += (uint64_t)st->st_size;
    return 0;
}

static uint64_t n_bytes_below(const char *directory, const char *folder)
{
    char path[8192];
    uint64_t n;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, folder);
    pthread_mutex_lock(&sum_lock);
    sum = 0;
    (void)nftw(path, add_file, 16, FTW_PHYS); /* not there yet: nothing is below it */
    n = sum;
    pthread_mutex_unlock(&sum_lock);
    return n;
}

uint64_t test_small_device_free(const test_small_device *device)
{
    uint64_t used = device->n_others + n_bytes_below(device->directory, "rows") +
                    n_bytes_below(device->directory, "temporary") + n_bytes_below(device->directory, "quarantine");

    return used < device->capacity ? device->capacity - used : 0;
}

static int small_free_bytes(void *context, const char *path, uint64_t *out)
{
    const test_small_device *device = context;

    (void)path;
    *out = device->hides_fullness ? device->capacity : test_small_device_free(device);
    return 0;
}

static int64_t small_write(void *context, int fd, const void *bytes, size_t n_bytes)
{
    const test_small_device *device = context;

    if (n_bytes > test_small_device_free(device))
        return -ENOSPC;
    return hth_fs_system()->write(hth_fs_system()->context, fd, bytes, n_bytes);
}

void test_small_device_init(test_small_device *device, const char *directory, uint64_t capacity)
{
    *device = (test_small_device){ .fs = *hth_fs_system(), .directory = directory, .capacity = capacity };
    device->fs.context = device; /* the system's own operations have none */
    device->fs.free_bytes = small_free_bytes;
    device->fs.write = small_write;
}
