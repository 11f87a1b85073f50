/*
 * os_linux.c - os.h for Linux
 */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory_limits.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; headers may be older than the kernel */
#endif

/* The first n < capacity bytes of a small text file, terminated. False if it cannot be read. */
static bool read_text(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    size_t n;

    if (!file)
        return false;
    n = fread(text, 1, capacity - 1, file);
    text[n] = '\0';
    (void)fclose(file); /* only read from */
    return n > 0;
}

bool hth_os_program_path(char *path, size_t capacity)
{
    char link[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", link, sizeof(link));

    if (n <= 0 || (size_t)n == sizeof(link) || (size_t)n >= capacity)
        return false;
    memcpy(path, link, (size_t)n);
    path[n] = '\0';
    return true;
}

bool hth_os_boot_id(char *text, size_t capacity)
{
    char id[64];
    size_t n;

    if (!read_text("/proc/sys/kernel/random/boot_id", id, sizeof(id)))
        return false;
    n = strspn(id, "0123456789abcdefABCDEF-");
    if (n == 0 || n >= capacity)
        return false;
    memcpy(text, id, n);
    text[n] = '\0';
    return true;
}

uint64_t hth_os_memory_bytes(void)
{
    const long n_pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    hth_memory_limits limits;

    hth_memory_limits_read("", &limits);
    if (limits.n > 0)
        return hth_memory_limits_total_bytes(&limits);
    return n_pages > 0 && page_bytes > 0 ? (uint64_t)n_pages * (uint64_t)page_bytes : 0; /* without /proc */
}

uint64_t hth_os_memory_available_bytes(void)
{
    hth_memory_limits limits;

    hth_memory_limits_read("", &limits);
    return hth_memory_limits_free_bytes(&limits);
}

unsigned hth_os_n_cpus(void)
{
    cpu_set_t set;
    long n;

    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

void hth_os_random(void *bytes, size_t n_bytes)
{
    uint8_t *at = bytes;

    while (n_bytes > 0) {
        ssize_t n = getrandom(at, n_bytes, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort(); /* a kernel without getrandom is too old to run this */
        at += n;
        n_bytes -= (size_t)n;
    }
}

uint64_t hth_os_process_resident_bytes(int pid)
{
    unsigned long long pages;
    char path[64], text[128];
    const char *second;

    (void)snprintf(path, sizeof(path), "/proc/%d/statm", pid); /* fits */
    second = read_text(path, text, sizeof(text)) ? strchr(text, ' ') : NULL;
    if (!second)
        return 0;
    pages = strtoull(second, NULL, 10);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void hth_os_thread_name(const char *name)
{
    char cut[16];

    (void)snprintf(cut, sizeof(cut), "%s", name);
    (void)prctl(PR_SET_NAME, cut); /* only for display */
}

void hth_os_thread_nice(int steps)
{
    /* Here 0 is the calling thread, not the process. The system cuts the sum at 19. */
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + steps); /* best effort */
}

bool hth_os_word_wait(const void *word, uint32_t expected, uint32_t timeout_ms)
{
    const struct timespec timeout = { .tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000L };

    /* Without FUTEX_PRIVATE_FLAG, because other processes map the word, too. */
    return syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0) == 0 || errno != ENOSYS;
}

void hth_os_word_wake(void *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); /* without futexes no thread sleeps */
}

void hth_os_memory_prefault(void *memory, size_t n_bytes)
{
    long page_bytes = sysconf(_SC_PAGESIZE);
    volatile uint8_t *at = memory;

    (void)madvise(memory, n_bytes, MADV_HUGEPAGE); /* a kernel without huge pages is only slower */
    if (madvise(memory, n_bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t i = 0; i < n_bytes; i += (size_t)page_bytes)
        at[i] = at[i];
}

void hth_os_memory_discard(void *memory, size_t n_bytes)
{
    (void)madvise(memory, n_bytes, MADV_DONTNEED); /* refused only for locked memory, which then stays */
}

void hth_os_memory_small_pages(void *memory, size_t n_bytes)
{
    (void)madvise(memory, n_bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages has none to forbid */
}

int hth_os_memory_file_new(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0)
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK); /* a second line of defence: no code shrinks it */
    return fd;
}

int hth_os_memory_file_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

int hth_os_memory_file_own(int fd)
{
    char self[64];
    int own;

    /* The only way to get another open file description for a file without a name. */
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    own = open(self, O_RDWR | O_CLOEXEC);
    if (own < 0)
        return -1;
    if (flock(own, LOCK_EX | LOCK_NB) != 0) {
        int why = errno;

        (void)close(own); /* nothing was written */
        errno = why;
        return -1;
    }
    return own;
}

int hth_os_file_allocate(int fd, uint64_t offset, uint64_t n_bytes)
{
    int rc;

    do
        rc = fallocate(fd, 0, (off_t)offset, (off_t)n_bytes);
    while (rc != 0 && errno == EINTR);
    return rc;
}

int hth_os_file_punch(int fd, uint64_t offset, uint64_t n_bytes)
{
    int rc;

    do
        rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n_bytes);
    while (rc != 0 && errno == EINTR);
    return rc;
}

uint64_t hth_os_file_next_data(int fd, uint64_t at)
{
    off_t found = lseek(fd, (off_t)at, SEEK_DATA);

    if (found >= 0)
        return (uint64_t)found;
    return errno == ENXIO ? UINT64_MAX : at; /* the file system does not report holes */
}

bool hth_os_peer_has_ended(int fd)
{
    struct pollfd ask = { .fd = fd, .events = POLLRDHUP };

    return poll(&ask, 1, 0) == 1 && (ask.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void hth_os_end_with_parent(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* with a signal that exists it cannot fail */
}

void hth_os_close_range(unsigned first, unsigned last)
{
    struct rlimit limit;

    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    /* For a kernel before 5.9. A limit below an open descriptor would miss it, but no code here lowers the limit. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= last)
        last = (unsigned)limit.rlim_cur;
    for (unsigned fd = first; fd <= last && fd <= INT_MAX; fd++)
        (void)close((int)fd); /* most are not open */
}

void hth_os_first_to_go(void)
{
    enum { MORE = 200, MOST = 1000 }; /* in units of the kernel's score; a service may start below 0 */
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    char text[16];
    ssize_t n;
    int score = 0, i = 0;

    if (fd < 0)
        return;
    n = read(fd, text, sizeof(text));
    if (n > 0 && text[0] == '-')
        i = 1;
    for (; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        score = 10 * score + (text[i] - '0'); /* at most 1000, and five bytes */
    score = (n > 0 && text[0] == '-' ? -score : score) + MORE;
    score = score < MOST ? score : MOST;
    i = (int)sizeof(text);
    for (int rest = score < 0 ? -score : score; rest > 0 || i == (int)sizeof(text); rest /= 10)
        text[--i] = (char)('0' + rest % 10);
    if (score < 0)
        text[--i] = '-';
    (void)pwrite(fd, text + i, sizeof(text) - (size_t)i, 0); /* best effort */
    (void)close(fd);
}

int hth_os_open_unnamed(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    /* A kernel or file system without this flag treats the call as opening a directory for writing. */
    if (fd < 0 && (errno == EISDIR || errno == EOPNOTSUPP || errno == EINVAL))
        errno = ENOTSUP;
    return fd;
}

int hth_os_link_unnamed(int fd, const char *path)
{
    char self[64];

    /* AT_EMPTY_PATH would need a capability; the path through /proc does not. */
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

size_t hth_os_allocated_bytes(void *allocated)
{
    return malloc_usable_size(allocated);
}

/* ---- changes of folders, by inotify ---- */

int hth_os_watch_open(void)
{
    return inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

int hth_os_watch_add(int watch, const char *folder)
{
    const uint32_t changes =
        IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MOVE_SELF;

    return inotify_add_watch(watch, folder, changes | IN_ONLYDIR) < 0 ? -1 : 0;
}

bool hth_os_watch_take(int watch, bool (*matters)(const char *name))
{
    _Alignas(struct inotify_event) char bytes[4096];
    bool is_changed = false;
    ssize_t n;

    while ((n = read(watch, bytes, sizeof(bytes))) > 0) {
        const struct inotify_event *event;

        for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*event) + event->len)) {
            event = (const struct inotify_event *)(bytes + at);
            if (event->len == 0) /* a change of the folder itself, or events were lost */
                is_changed = true;
            else if (event->name[0] != '.')
                is_changed |= (event->mask & IN_ISDIR) != 0 || matters(event->name);
        }
    }
    return is_changed;
}
