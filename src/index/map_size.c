#include "index/map_size.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"

/* Allocating the last byte cannot cut off what another process appends in the meantime. */
static int extend(int fd, uint64_t n_bytes)
{
    struct stat st;

    if (hth_os_file_allocate(fd, n_bytes - 1, 1) == 0)
        return 0;
    if (fstat(fd, &st) != 0)
        return errno;
    /* The device is full, or its file system cannot allocate: a hole will do. */
    return (uint64_t)st.st_size >= n_bytes || ftruncate(fd, (off_t)n_bytes) == 0 ? 0 : errno;
}

int hth_map_size_look(hth_map_size *size, uint64_t n_bytes_min, bool *was_cut_out)
{
    uint64_t seen = atomic_load(&size->n_bytes), now;
    struct stat st;
    int rc;

    if (fstat(size->fd, &st) != 0)
        return errno;
    now = (uint64_t)st.st_size;
    *was_cut_out = now < seen;
    if (n_bytes_min < seen)
        n_bytes_min = seen;
    if (now < n_bytes_min) {
        if ((rc = extend(size->fd, n_bytes_min)) != 0)
            return rc;
        now = n_bytes_min;
    }
    while (seen < now && !atomic_compare_exchange_weak(&size->n_bytes, &seen, now))
        ;
    return 0;
}
