/*
 * pressure_sources_test.c - memory as the system and programs tell it; the system is a folder of the test
 */
#include "server/pressure_sources.h"

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
    hth_pressure_sample sample;
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
    hth_pressure_read_system(f->root, &f->sample);
}

FIXTURE_TEST(page_cache_of_the_machine_is_no_use)
{
    put_machine(f, "400000");
    look(f);
    assert_int_equal(f->sample.n, 1);
    assert_int_equal(f->sample.limits[0].total_bytes, UINT64_C(1000000) * KIB);
    assert_int_equal(f->sample.limits[0].used_bytes, UINT64_C(600000) * KIB);
    assert_true(f->sample.limits[0].stall == 0);
}

FIXTURE_TEST(a_machine_with_nothing_left_is_full)
{
    put_machine(f, "0");
    look(f);
    assert_int_equal(f->sample.n, 1);
    assert_true(hth_pressure_use(&f->sample) == 1);
}

FIXTURE_TEST(stalls_are_those_of_some_process_in_ten_seconds)
{
    put_machine(f, "400000");
    put(f, "/proc/pressure/memory", "some avg10=12.50 avg60=3.00 avg300=1.00 total=5\nfull avg10=99.00 avg60=0.00\n");
    look(f);
    assert_true(f->sample.limits[0].stall == 12.5);
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
    assert_int_equal(f->sample.n, 3);
    assert_int_equal(f->sample.limits[1].total_bytes, 4 * GIB);
    assert_int_equal(f->sample.limits[1].used_bytes, 3 * GIB);
    assert_true(f->sample.limits[1].stall == 40);
    assert_int_equal(f->sample.limits[2].total_bytes, 8 * GIB);
    assert_int_equal(f->sample.limits[2].used_bytes, 3 * GIB);
    assert_true(hth_pressure_use(&f->sample) == 0.75);
}

FIXTURE_TEST(a_container_that_sees_its_group_as_the_root_has_its_limit)
{
    put(f, "/proc/self/cgroup", "0::/\n");
    put(f, "/sys/fs/cgroup/memory.max", "1073741824\n");
    put(f, "/sys/fs/cgroup/memory.current", "536870912\n");
    look(f);
    assert_int_equal(f->sample.n, 1);
    assert_true(hth_pressure_use(&f->sample) == 0.5);
}

FIXTURE_TEST(damaged_and_missing_files_are_no_limit)
{
    look(f);
    assert_int_equal(f->sample.n, 0);
    put(f, "/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 200 kB\n");
    put(f, "/proc/self/cgroup", "12:memory:/old\n");
    put(f, "/sys/fs/cgroup/memory.max", "");
    look(f);
    assert_int_equal(f->sample.n, 0);
    put(f, "/proc/self/cgroup", "0::/../../..\n");
    put(f, "/proc/meminfo", "nonsense");
    look(f);
    assert_int_equal(f->sample.n, 0);
}

TEST(this_machine_has_a_limit_of_its_own)
{
    hth_pressure_sample sample;

    hth_pressure_read_system("", &sample);
    if (sample.n == 0)
        skip(); /* a system without /proc */
    for (size_t i = 0; i < sample.n; i++)
        assert_true(sample.limits[i].total_bytes > 0);
    assert_true(hth_pressure_use(&sample) > 0);
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
    hth_pressure_sample sample;

    if (!tell_kernel(folder, "cgroup.procs", "0"))
        _exit(2);
    hth_pressure_read_system("", &sample);
    for (size_t i = 0; i < sample.n; i++)
        if (sample.limits[i].total_bytes == GIB / 2 && sample.limits[i].used_bytes < GIB / 2)
            _exit(0);
    _exit(1);
}

TEST(a_real_group_shows_the_limit_that_it_was_given)
{
    char folder[128];
    int status = -1;
    pid_t pid;

    (void)snprintf(folder, sizeof(folder), "/sys/fs/cgroup/hearth-test-%d", (int)getpid());
    if (mkdir(folder, 0700) != 0 || !tell_kernel(folder, "memory.max", "536870912")) {
        (void)rmdir(folder); /* it may be there */
        print_message("skipped: no group of cgroup v2 with a limit of memory can be made here\n");
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

TEST(lines_of_nvidia_smi_are_devices)
{
    static const char *const wrong[] = { "", "no devices", "1", "5, 4\n", "[N/A], [N/A]\n", "1, 2\nx" };
    hth_pressure_sample sample;

    assert_true(hth_pressure_read_devices("1024, 8192\n6144, 8192\n", &sample));
    assert_int_equal(sample.n, 2);
    assert_int_equal(sample.limits[0].used_bytes, GIB);
    assert_int_equal(sample.limits[1].total_bytes, 8 * GIB);
    assert_true(hth_pressure_use(&sample) == 0.75);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(hth_pressure_read_devices(wrong[i], &sample));
}

TEST(a_command_prints_two_numbers_or_a_share)
{
    static const char *const wrong[] = { "", "much", "1.5\n", "-0.1\n", "nan\n", "0.5 x\n", "1 0\n", "1 2 3\n" };
    hth_pressure_sample sample;

    assert_true(hth_pressure_read_command("750 1000\n", 0, &sample));
    assert_true(hth_pressure_use(&sample) == 0.75);
    assert_true(hth_pressure_read_command("0.25\n", 4 * GIB, &sample));
    assert_int_equal(sample.limits[0].used_bytes, GIB);
    assert_true(hth_pressure_read_command("1", 4 * GIB, &sample));
    assert_int_equal(sample.limits[0].used_bytes, 4 * GIB);
    assert_false(hth_pressure_read_command("0.25\n", 0, &sample));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(hth_pressure_read_command(wrong[i], 4 * GIB, &sample));
}
