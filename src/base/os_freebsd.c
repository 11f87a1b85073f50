/*
 * os_freebsd.c - os.h for FreeBSD
 */
#include "base/os.h"

#include <sys/param.h>
#include <sys/procctl.h>
#include <sys/cpuset.h>
#include <sys/sysctl.h>
#include <sys/umtx.h>
#include <sys/time.h>
#include <sys/user.h>

#include <limits.h>
#include <inttypes.h>
#include <malloc_np.h>
#include <pthread.h>
#include <pthread_np.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

bool hth_os_program_path(char *path, size_t capacity)
{
    const int name[] = { CTL_KERN, KERN_PROC, KERN_PROC_PATHNAME, -1 };
    char link[PATH_MAX];
    size_t n = sizeof(link);

    if (sysctl(name, sizeof(name) / sizeof(name[0]), link, &n, NULL, 0) != 0)
        return false;
    n = strnlen(link, n);
    if (n == 0 || n >= capacity)
        return false;
    memcpy(path, link, n);
    path[n] = '\0';
    return true;
}

bool hth_os_boot_id(char *text, size_t capacity)
{
    char id[64];
    size_t n = sizeof(id);
    struct timeval booted;
    int written;

    if (sysctlbyname("kern.boot_id", id, &n, NULL, 0) == 0 && n > 0) { /* FreeBSD 14 */
        n = strnlen(id, n);
        if (n == 0 || n >= capacity)
            return false;
        memcpy(text, id, n);
        text[n] = '\0';
        return true;
    }
    /* The boot time moves with the wall clock. A wrong "another boot" only costs a rebuild of the index. */
    n = sizeof(booted);
    if (sysctlbyname("kern.boottime", &booted, &n, NULL, 0) != 0)
        return false;
    written = snprintf(text, capacity, "%jd", (intmax_t)booted.tv_sec);
    return written > 0 && (size_t)written < capacity;
}

uint64_t hth_os_memory_bytes(void)
{
    unsigned long bytes = 0;
    size_t n = sizeof(bytes);

    return sysctlbyname("hw.physmem", &bytes, &n, NULL, 0) == 0 ? bytes : 0;
}

static uint64_t page_count(const char *name)
{
    unsigned n_pages = 0;
    size_t n = sizeof(n_pages);

    return sysctlbyname(name, &n_pages, &n, NULL, 0) == 0 ? n_pages : 0;
}

uint64_t hth_os_memory_available_bytes(void)
{
    uint64_t n_pages = page_count("vm.stats.vm.v_free_count") + page_count("vm.stats.vm.v_inactive_count") +
                       page_count("vm.stats.vm.v_laundry_count");

    return n_pages * (uint64_t)getpagesize();
}

unsigned hth_os_n_cpus(void)
{
    cpuset_t set;
    long n;

    if (cpuset_getaffinity(CPU_LEVEL_WHICH, CPU_WHICH_PID, -1, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

uint64_t hth_os_process_resident_bytes(int pid)
{
    int name[] = { CTL_KERN, KERN_PROC, KERN_PROC_PID, pid };
    struct kinfo_proc process;
    size_t n = sizeof(process);

    if (sysctl(name, 4, &process, &n, NULL, 0) != 0 || n != sizeof(process) || process.ki_rssize < 0)
        return 0;
    return (uint64_t)process.ki_rssize * (uint64_t)sysconf(_SC_PAGESIZE);
}

void hth_os_thread_name(const char *name)
{
    char cut[16];

    (void)snprintf(cut, sizeof(cut), "%s", name);
    pthread_set_name_np(pthread_self(), cut);
}

void hth_os_thread_nice(int steps)
{
    (void)steps; /* the nice value applies to the whole process here */
}

bool hth_os_word_wait(const void *word, uint32_t expected, uint32_t timeout_ms)
{
    struct _umtx_time timeout = {
        ._timeout = { .tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000L },
        ._clockid = CLOCK_MONOTONIC,
    };

    (void)_umtx_op((void *)(uintptr_t)word, UMTX_OP_WAIT_UINT, expected, (void *)sizeof(timeout), &timeout);
    return true; /* the caller checks again, whatever ended the wait */
}

void hth_os_word_wake(void *word)
{
    (void)_umtx_op(word, UMTX_OP_WAKE, INT_MAX, NULL, NULL); /* cannot fail: the address is ours */
}

void hth_os_end_with_parent(void)
{
    int number = SIGKILL;

    (void)procctl(P_PID, 0, PROC_PDEATHSIG_CTL, &number); /* with a signal that exists it cannot fail */
}

void hth_os_close_range(unsigned first, unsigned last)
{
    if (first <= last)
        (void)close_range(first, last, 0); /* descriptors that are not open are ignored */
}

size_t hth_os_allocated_bytes(void *allocated)
{
    return malloc_usable_size(allocated);
}
