/*
 * os_no_memory_file.c - files in memory and files without names, for systems without them
 */
#include "base/os.h"

#include <errno.h>

int hth_os_open_unnamed(const char *directory)
{
    (void)directory;
    errno = ENOTSUP;
    return -1;
}

int hth_os_link_unnamed(int fd, const char *path)
{
    (void)fd;
    (void)path;
    errno = ENOTSUP;
    return -1;
}

int hth_os_memory_file_new(const char *name)
{
    (void)name;
    errno = ENOTSUP;
    return -1;
}

int hth_os_memory_file_seal(int fd)
{
    (void)fd;
    errno = ENOTSUP;
    return -1;
}

int hth_os_memory_file_own(int fd)
{
    (void)fd;
    errno = ENOTSUP;
    return -1;
}

int hth_os_file_allocate(int fd, uint64_t offset, uint64_t n_bytes)
{
    (void)fd;
    (void)offset;
    (void)n_bytes;
    errno = ENOTSUP;
    return -1;
}

int hth_os_file_punch(int fd, uint64_t offset, uint64_t n_bytes)
{
    (void)fd;
    (void)offset;
    (void)n_bytes;
    errno = ENOTSUP;
    return -1;
}

uint64_t hth_os_file_next_data(int fd, uint64_t at)
{
    (void)fd;
    return at;
}
