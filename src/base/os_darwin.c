/*
 * os_darwin.c - os.h for macOS
 */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <libproc.h>
#include <mach/mach.h>
#include <malloc/malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sysctl.h>
#include <time.h>
#include <unistd.h>

static uint64_t timespec_ns(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

uint64_t hth_os_monotonic_ns(void)
{
    /* CLOCK_MONOTONIC follows adjustments of the wall clock here; the raw clock does not. */
    return clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW);
}

uint64_t hth_os_mtime_ns(const struct stat *st)
{
    return timespec_ns(&st->st_mtimespec);
}

uint64_t hth_os_ctime_ns(const struct stat *st)
{
    return timespec_ns(&st->st_ctimespec);
}

bool hth_os_program_path(char *path, size_t capacity)
{
    char link[PROC_PIDPATHINFO_MAXSIZE];
    int n = proc_pidpath(getpid(), link, sizeof(link));

    if (n <= 0 || (size_t)n >= capacity)
        return false;
    memcpy(path, link, (size_t)n);
    path[n] = '\0';
    return true;
}

bool hth_os_boot_id(char *text, size_t capacity)
{
    char id[64];
    size_t n = sizeof(id);

    if (sysctlbyname("kern.bootsessionuuid", id, &n, NULL, 0) != 0 || n == 0)
        return false;
    n = strnlen(id, n);
    if (n == 0 || n >= capacity)
        return false;
    memcpy(text, id, n);
    text[n] = '\0';
    return true;
}

uint64_t hth_os_memory_bytes(void)
{
    uint64_t bytes = 0;
    size_t n = sizeof(bytes);

    return sysctlbyname("hw.memsize", &bytes, &n, NULL, 0) == 0 ? bytes : 0;
}

uint64_t hth_os_memory_available_bytes(void)
{
    mach_port_t host = mach_host_self();
    vm_statistics64_data_t statistics;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    kern_return_t result = host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&statistics, &count);

    (void)mach_port_deallocate(mach_task_self(), host); /* a reference that mach_host_self created */
    if (result != KERN_SUCCESS)
        return 0;
    return ((uint64_t)statistics.free_count + statistics.inactive_count + statistics.purgeable_count) *
           (uint64_t)vm_kernel_page_size;
}

unsigned hth_os_n_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (unsigned)n : 1;
}

uint64_t hth_os_process_resident_bytes(int pid)
{
    struct proc_taskinfo task;

    return proc_pidinfo(pid, PROC_PIDTASKINFO, 0, &task, (int)sizeof(task)) == (int)sizeof(task)
             ? task.pti_resident_size
             : 0;
}

void hth_os_thread_name(const char *name)
{
    char cut[16];

    (void)snprintf(cut, sizeof(cut), "%s", name);
    (void)pthread_setname_np(cut); /* only for display */
}

void hth_os_thread_nice(int steps)
{
    if (steps > 0)
        (void)pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0); /* best effort; threads have classes here */
}

bool hth_os_word_wait(const void *word, uint32_t expected, uint32_t timeout_ms)
{
    (void)word;
    (void)expected;
    (void)timeout_ms;
    return false; /* os_sync_wait_on_address exists only from macOS 14.4 on */
}

void hth_os_word_wake(void *word)
{
    (void)word;
}

/* macOS has no ppoll. */
bool hth_os_wait_readable(int fd, const sigset_t *mask)
{
    fd_set input;

    if (fd < 0 || fd >= FD_SETSIZE) {
        errno = EBADF;
        return false;
    }
    FD_ZERO(&input);
    FD_SET(fd, &input);
    return pselect(fd + 1, &input, NULL, NULL, NULL, mask) > 0;
}

void hth_os_end_with_parent(void)
{
    /* macOS has no such call: the process must notice when its pipe is closed. */
}

void hth_os_close_range(unsigned first, unsigned last)
{
    unsigned n = (unsigned)getdtablesize();

    for (unsigned fd = first; fd <= last && fd < n; fd++)
        (void)close((int)fd); /* most are not open */
}

int hth_os_sync_data(int fd)
{
    /* On macOS fsync leaves the bytes in the device's cache. Where F_FULLFSYNC is unknown, fsync must do. */
    if (fcntl(fd, F_FULLFSYNC) == 0)
        return 0;
    return errno == ENOTSUP || errno == EINVAL ? fsync(fd) : -1;
}

size_t hth_os_allocated_bytes(void *allocated)
{
    return malloc_size(allocated);
}
