/*
 * os_no_memory_file.c - files in memory, for systems that cannot reopen a file without a name
 */
#include "base/os.h"

#include <errno.h>

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
