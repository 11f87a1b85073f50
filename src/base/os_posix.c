/*
 * os_posix.c - the part of os.h that is the same on every system Hearth runs on
 */
#include "base/os.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t hth_os_unix_seconds(void)
{
    return (uint64_t)time(NULL);
}

bool hth_os_hostname(char *text, size_t capacity)
{
    char name[256];

    if (gethostname(name, sizeof(name)) != 0 || !memchr(name, '\0', sizeof(name)) || strlen(name) >= capacity)
        return false;
    memcpy(text, name, strlen(name) + 1);
    return true;
}

uint64_t hth_os_process_cpu_ns(void)
{
    struct timespec used = { 0 };

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used); /* without this clock, the result is 0 */
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

bool hth_os_peer_is_gone(int fd)
{
    struct pollfd ask = { .fd = fd };

    return poll(&ask, 1, 0) == 1 && (ask.revents & (POLLHUP | POLLERR));
}

bool hth_os_pipe(int ends[2])
{
    int made[2];

    if (pipe(made) != 0)
        return false;
    for (int i = 0; i < 2; i++) { /* these cannot fail: the descriptors are good */
        (void)fcntl(made[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(made[i], F_SETFL, O_NONBLOCK);
        ends[i] = made[i];
    }
    return true;
}

uint32_t hth_os_n_descriptors(void)
{
    struct stat st;
    uint32_t n = 0;
    DIR *folder;

    /* Linux from 6.2 on has the number here. Listing the folder takes milliseconds with ten thousand connections. */
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (uint32_t)st.st_size;
    folder = opendir("/dev/fd");
    if (!folder)
        return 0;
    while (readdir(folder))
        n++;
    (void)closedir(folder);   /* only read from */
    return n > 3 ? n - 3 : 0; /* without ".", ".." and the folder itself */
}
