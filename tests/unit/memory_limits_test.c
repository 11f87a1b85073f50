/*
 * memory_limits_test.c - limits of memory and their use, as files tell them; the system is a folder of the test
 */
#include "base/memory_limits.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/support.h"

#define KIB 1024
#define GIB (UINT64_C(1) << 30)

typedef struct fixture {
    char *root;
    hth_memory_limits limits;
} fixture;

static void set_up(fixture *f)
{
    f->root = hth_test_directory_new();
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->root);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* A file below the root, with its folders. */
static void put(const fixture *f, const char *path, const char *text)
{
    char whole[1024];
    FILE *file;

    (void)snprintf(whole, sizeof(whole), "%s%s", f->root, path);
    for (char *at = whole + strlen(f->root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(whole, 0700); /* it may be there */
        *at = '/';
    }
    file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_machine(const fixture *f, const char *available_kib)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "MemTotal:       1000000 kB\nMemFree:          5000 kB\nMemAvailable:   %s kB\n",
                   available_kib);
    put(f, "/proc/meminfo", text);
}

static void look(fixture *f)
{
    hth_memory_limits_read(f->root, &f->limits);
}

FIXTURE_TEST(page_cache_of_the_machine_is_no_use)
{
    put_machine(f, "400000");
    look(f);
    assert_int_equal(f->limits.n, 1);
    assert_int_equal(f->limits.at[0].total_bytes, UINT64_C(1000000) * KIB);
    assert_int_equal(f->limits.at[0].used_bytes, UINT64_C(600000) * KIB);
    assert_true(f->limits.at[0].stall == 0);
}

FIXTURE_TEST(a_machine_with_nothing_left_is_full)
{
    put_machine(f, "0");
    look(f);
    assert_int_equal(f->limits.n, 1);
    assert_int_equal(f->limits.at[0].used_bytes, f->limits.at[0].total_bytes);
    assert_int_equal(hth_memory_limits_free_bytes(&f->limits), 1); /* 0 would be unknown */
}

FIXTURE_TEST(stalls_are_those_of_some_process_in_ten_seconds)
{
    put_machine(f, "400000");
    put(f, "/proc/pressure/memory", "some avg10=12.50 avg60=3.00 avg300=1.00 total=5\nfull avg10=99.00 avg60=0.00\n");
    look(f);
    assert_true(f->limits.at[0].stall == 12.5);
}

FIXTURE_TEST(each_group_on_the_way_up_is_a_limit_if_it_has_one)
{
    put_machine(f, "400000");
    put(f, "/proc/self/cgroup", "0::/user.slice/hearth.service\n");
    put(f, "/sys/fs/cgroup/memory.current", "999\n"); /* the root has no limit */
    put(f, "/sys/fs/cgroup/user.slice/memory.max", "8589934592\n");
    put(f, "/sys/fs/cgroup/user.slice/memory.high", "max\n");
    put(f, "/sys/fs/cgroup/user.slice/memory.current", "5368709120\n");
    put(f, "/sys/fs/cgroup/user.slice/memory.stat",
        "anon 1\nfile 2\ninactive_file 1073741824\nactive_file 1073741823\nslab_reclaimable 1\n");
    put(f, "/sys/fs/cgroup/user.slice/hearth.service/memory.max", "max\n");
    put(f, "/sys/fs/cgroup/user.slice/hearth.service/memory.high", "4294967296\n");
    put(f, "/sys/fs/cgroup/user.slice/hearth.service/memory.current", "3221225472\n");
    put(f, "/sys/fs/cgroup/user.slice/hearth.service/memory.pressure", "some avg10=40.00 avg60=0.00\n");
    look(f);
    assert_int_equal(f->limits.n, 3);
    assert_int_equal(f->limits.at[1].total_bytes, 4 * GIB);
    assert_int_equal(f->limits.at[1].used_bytes, 3 * GIB);
    assert_true(f->limits.at[1].stall == 40);
    assert_int_equal(f->limits.at[2].total_bytes, 8 * GIB);
    assert_int_equal(f->limits.at[2].used_bytes, 3 * GIB);
    assert_int_equal(hth_memory_limits_total_bytes(&f->limits), UINT64_C(1000000) * KIB);
    assert_int_equal(hth_memory_limits_free_bytes(&f->limits), UINT64_C(400000) * KIB);
}

FIXTURE_TEST(groups_of_version_1_are_limits)
{
    put(f, "/proc/self/cgroup", "8:pids:/x\n4:memory:/docker/5\n0::/\n");
    put(f, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put(f, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "999\n");
    put(f, "/sys/fs/cgroup/memory/docker/5/memory.limit_in_bytes", "1073741824\n");
    put(f, "/sys/fs/cgroup/memory/docker/5/memory.usage_in_bytes", "805306368\n");
    put(f, "/sys/fs/cgroup/memory/docker/5/memory.stat",
        "inactive_file 1\ntotal_inactive_file 134217728\ntotal_active_file 134217728\n");
    look(f);
    assert_int_equal(f->limits.n, 1);
    assert_int_equal(f->limits.at[0].total_bytes, GIB);
    assert_int_equal(f->limits.at[0].used_bytes, GIB / 2);
}

#define ARC "c                               4    900000000\nc_min                           4    102400000\n"

FIXTURE_TEST(the_cache_of_zfs_above_its_smallest_size_is_no_use)
{
    put_machine(f, "400000");
    put(f, "/proc/spl/kstat/zfs/arcstats",
        "9 1 0x01 147 39984 3939 97\nname                            type data\n" ARC
        "size                            4    307200000\ncompressed_size                 4    300000000\n");
    look(f);
    assert_int_equal(f->limits.at[0].used_bytes, UINT64_C(400000) * KIB);
    put(f, "/proc/spl/kstat/zfs/arcstats", ARC "size                            4    102300000\n");
    look(f);
    assert_int_equal(f->limits.at[0].used_bytes, UINT64_C(600000) * KIB);
    put(f, "/proc/spl/kstat/zfs/arcstats", "size 4 99999999999999\n"); /* that of the host of a container */
    look(f);
    assert_int_equal(f->limits.at[0].used_bytes, UINT64_C(600000) * KIB);
    put(f, "/proc/spl/kstat/zfs/arcstats", "size\nc_min 4\nsize 4 x");
    look(f);
    assert_int_equal(f->limits.at[0].used_bytes, UINT64_C(600000) * KIB);
}

FIXTURE_TEST(the_lowest_limit_and_the_one_with_the_least_free_memory_count)
{
    hth_memory_limits_add(&f->limits, GIB, 8 * GIB, 0);
    hth_memory_limits_add(&f->limits, 3 * GIB, 5 * GIB, 0);
    hth_memory_limits_add(&f->limits, GIB, 4 * GIB, 0);
    hth_memory_limits_add(&f->limits, GIB, 0, 0); /* is none */
    assert_int_equal(f->limits.n, 3);
    assert_int_equal(hth_memory_limits_total_bytes(&f->limits), 4 * GIB);
    assert_int_equal(hth_memory_limits_free_bytes(&f->limits), 2 * GIB);
    f->limits.n = 0;
    assert_int_equal(hth_memory_limits_total_bytes(&f->limits), 0);
    assert_int_equal(hth_memory_limits_free_bytes(&f->limits), 0);
}

FIXTURE_TEST(a_container_that_sees_its_group_as_the_root_has_its_limit)
{
    put(f, "/proc/self/cgroup", "0::/\n");
    put(f, "/sys/fs/cgroup/memory.max", "1073741824\n");
    put(f, "/sys/fs/cgroup/memory.current", "536870912\n");
    look(f);
    assert_int_equal(f->limits.n, 1);
    assert_int_equal(hth_memory_limits_total_bytes(&f->limits), GIB);
    assert_int_equal(hth_memory_limits_free_bytes(&f->limits), GIB / 2);
}

FIXTURE_TEST(damaged_and_missing_files_are_no_limit)
{
    look(f);
    assert_int_equal(f->limits.n, 0);
    put(f, "/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 200 kB\n");
    put(f, "/proc/self/cgroup", "12:memory:/old\n");
    put(f, "/sys/fs/cgroup/memory.max", "");
    look(f);
    assert_int_equal(f->limits.n, 0);
    put(f, "/proc/self/cgroup", "0::/../../..\n");
    put(f, "/proc/meminfo", "nonsense");
    look(f);
    assert_int_equal(f->limits.n, 0);
}

TEST(this_machine_has_a_limit_of_its_own)
{
    hth_memory_limits limits;

    hth_memory_limits_read("", &limits);
    if (limits.n == 0)
        skip(); /* a system without /proc */
    for (size_t i = 0; i < limits.n; i++)
        assert_true(limits.at[i].total_bytes > 0);
    assert_true(hth_memory_limits_total_bytes(&limits) > 0);
    assert_true(hth_memory_limits_free_bytes(&limits) > 0);
    assert_true(limits.at[0].used_bytes > 0);
}

/* Write to a file of the kernel, which is there already. */
static bool tell_kernel(const char *folder, const char *name, const char *text)
{
    char path[256];
    int fd;
    bool is_written;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        (void)close(fd);
    return is_written;
}

/* Within the group: 0 where it sees its limit. */
_Noreturn static void look_from_within(const char *folder)
{
    hth_memory_limits limits;

    if (!tell_kernel(folder, "cgroup.procs", "0"))
        _exit(2);
    hth_memory_limits_read("", &limits);
    for (size_t i = 0; i < limits.n; i++)
        if (limits.at[i].total_bytes == GIB / 2 && limits.at[i].used_bytes < GIB / 2)
            _exit(0);
    _exit(1);
}

/* Make a group with a limit of GIB / 2. In version 2 only groups without processes have such groups below them. */
static bool make_group(char folder[256])
{
    char *groups = hth_test_text("/proc/self/cgroup");
    const char *own = groups ? strstr(groups, ":memory:/") : NULL;
    const int n = own ? (int)strcspn(own + strlen(":memory:"), "\n") : 0;

    (void)snprintf(folder, 256, "/sys/fs/cgroup/hearth-test-%d", (int)getpid());
    if (own)
        (void)snprintf(folder, 256, "/sys/fs/cgroup/memory%.*s/hearth-test-%d", n, own + strlen(":memory:"),
                       (int)getpid());
    free(groups);
    return mkdir(folder, 0700) == 0 && (tell_kernel(folder, "memory.max", "536870912") ||
                                        tell_kernel(folder, "memory.limit_in_bytes", "536870912"));
}

TEST(a_real_group_shows_the_limit_that_it_was_given)
{
    char folder[256];
    int status = -1;
    pid_t pid;

    if (!make_group(folder)) {
        (void)rmdir(folder); /* it may be there */
        print_message("skipped: no group with a limit of memory can be made here\n");
        skip();
    }
    pid = fork();
    if (pid == 0)
        look_from_within(folder);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(rmdir(folder), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
