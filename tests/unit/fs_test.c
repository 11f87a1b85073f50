/*
 * fs_test.c - the system's file operations, and the loops around a table's
 */
#include "support/cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/os.h"
#include "support/step_fs.h"
#include "support/support.h"

static char directory_path[4096];

static const char *path_of(const char *name)
{
    static char path[8192];

    (void)snprintf(path, sizeof(path), "%s/%s", directory_path, name);
    return path;
}

static int directory_setup(void **state)
{
    char *directory = hth_test_directory_new();

    (void)snprintf(directory_path, sizeof(directory_path), "%s", directory);
    *state = directory;
    return 0;
}

#define IN_DIRECTORY(name) TEST_IN(char, directory, name, directory_setup, hth_test_directory_tear_down)

static void write_file(const hth_fs *fs, const char *path, const void *bytes, size_t n_bytes)
{
    int fd = hth_fs_open(fs, path, HTH_FS_CREATE);

    assert_true(fd >= 0);
    assert_int_equal(hth_fs_write_all(fs, fd, bytes, n_bytes), 0);
    hth_fs_close(fs, fd);
}

static void assert_file_holds(const hth_fs *fs, const char *path, const void *bytes, size_t n_bytes)
{
    uint8_t *found = malloc(n_bytes + 1);
    size_t n = 0;
    int fd = hth_fs_open(fs, path, HTH_FS_READ);

    assert_non_null(found);
    assert_true(fd >= 0);
    assert_int_equal(hth_fs_read_full(fs, fd, found, n_bytes + 1, 0, &n), 0);
    assert_int_equal(n, n_bytes);
    assert_memory_equal(found, bytes, n_bytes);
    hth_fs_close(fs, fd);
    free(found);
}

IN_DIRECTORY(a_new_file_is_readable_by_its_owner_only)
{
    hth_fs_stat st;

    write_file(hth_fs_system(), path_of("file"), "abc", 3);
    assert_int_equal(hth_fs_stat_path(hth_fs_system(), path_of("file"), &st), 0);
    assert_int_equal(st.permissions, 0600);
    assert_int_equal(st.bytes, 3);
    assert_true(st.is_regular);
    assert_int_equal(hth_fs_make_directory(hth_fs_system(), path_of("folder")), 0);
    assert_int_equal(hth_fs_stat_path(hth_fs_system(), path_of("folder"), &st), 0);
    assert_int_equal(st.permissions, 0700);
    assert_true(st.is_directory);
}

IN_DIRECTORY(creating_a_file_that_exists_is_refused)
{
    write_file(hth_fs_system(), path_of("file"), "abc", 3);
    assert_int_equal(hth_fs_open(hth_fs_system(), path_of("file"), HTH_FS_CREATE), -EEXIST);
}

IN_DIRECTORY(short_reads_and_writes_are_completed)
{
    uint8_t bytes[10000];
    test_step_fs step;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7);
    test_step_fs_init(&step, NULL);
    step.short_io = true;
    write_file(&step.fs, path_of("file"), bytes, sizeof(bytes));
    assert_file_holds(&step.fs, path_of("file"), bytes, sizeof(bytes));
    assert_true(atomic_load(&step.n_steps) > 40);
}

IN_DIRECTORY(an_interrupted_operation_is_repeated)
{
    for (uint64_t n = 1; n <= 8; n++) {
        char name[32];
        test_step_fs step;

        (void)snprintf(name, sizeof(name), "file-%u", (unsigned)n);
        test_step_fs_init(&step, NULL);
        step.short_io = true;
        atomic_store(&step.fail_at, n);
        step.fail_errnum = EINTR;
        write_file(&step.fs, path_of(name), "0123456789", 10);
        assert_file_holds(hth_fs_system(), path_of(name), "0123456789", 10);
    }
}

static int64_t take_nothing(void *context, int fd, const void *bytes, size_t n_bytes)
{
    (void)context;
    (void)fd;
    (void)bytes;
    (void)n_bytes;
    return 0;
}

IN_DIRECTORY(a_file_that_takes_nothing_is_an_input_output_error)
{
    hth_fs fs = *hth_fs_system();
    int fd = hth_fs_open(&fs, path_of("file"), HTH_FS_CREATE);

    fs.write = take_nothing;
    assert_int_equal(hth_fs_write_all(&fs, fd, "abc", 3), -EIO);
    hth_fs_close(&fs, fd);
}

IN_DIRECTORY(a_read_ends_where_the_file_ends)
{
    char bytes[16];
    size_t n = 99;
    int fd;

    write_file(hth_fs_system(), path_of("file"), "abcdef", 6);
    fd = hth_fs_open(hth_fs_system(), path_of("file"), HTH_FS_READ);
    assert_int_equal(hth_fs_read_full(hth_fs_system(), fd, bytes, sizeof(bytes), 4, &n), 0);
    assert_int_equal(n, 2);
    assert_memory_equal(bytes, "ef", 2);
    assert_int_equal(hth_fs_read_full(hth_fs_system(), fd, bytes, sizeof(bytes), 10, &n), 0);
    assert_int_equal(n, 0);
    hth_fs_close(hth_fs_system(), fd);
}

IN_DIRECTORY(a_symbolic_link_and_a_pipe_are_not_followed_or_waited_for)
{
    int fd;

    write_file(hth_fs_system(), path_of("file"), "abc", 3);
    assert_int_equal(symlink("file", path_of("link")), 0);
    assert_int_equal(hth_fs_open(hth_fs_system(), path_of("link"), HTH_FS_READ), -ELOOP);
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    fd = hth_fs_open(hth_fs_system(), path_of("pipe"), HTH_FS_READ); /* would wait for a writer for ever */
    assert_true(fd >= 0);
    hth_fs_close(hth_fs_system(), fd);
}

IN_DIRECTORY(an_unnamed_file_gets_a_name_only_when_it_is_linked)
{
    int fd = hth_fs_open_unnamed(hth_fs_system(), directory_path);

    if (fd == -ENOTSUP)
        skip(); /* this file system has none */
    assert_true(fd >= 0);
    assert_int_equal(hth_fs_write_all(hth_fs_system(), fd, "abc", 3), 0);
    assert_int_equal(hth_fs_sync_data(hth_fs_system(), fd), 0);
    assert_int_equal(hth_fs_link_unnamed(hth_fs_system(), fd, path_of("file")), 0);
    assert_int_equal(hth_fs_link_unnamed(hth_fs_system(), fd, path_of("file")), -EEXIST);
    hth_fs_close(hth_fs_system(), fd);
    assert_file_holds(hth_fs_system(), path_of("file"), "abc", 3);
    assert_int_equal(hth_fs_sync_directory(hth_fs_system(), directory_path), 0);
}

IN_DIRECTORY(a_held_lock_is_seen_by_a_prober_until_it_is_closed)
{
    int held = hth_fs_open(hth_fs_system(), path_of("lock"), HTH_FS_SHARED);
    int prober = hth_fs_open(hth_fs_system(), path_of("lock"), HTH_FS_SHARED);
    int second = hth_fs_open(hth_fs_system(), path_of("lock"), HTH_FS_SHARED);

    assert_int_equal(hth_fs_lock(hth_fs_system(), held, HTH_FS_LOCK_HOLD), 0);
    assert_int_equal(hth_fs_lock(hth_fs_system(), prober, HTH_FS_LOCK_PROBE), -EWOULDBLOCK);
    hth_fs_close(hth_fs_system(), held);
    assert_int_equal(hth_fs_lock(hth_fs_system(), prober, HTH_FS_LOCK_PROBE), 0);
    assert_int_equal(hth_fs_lock(hth_fs_system(), second, HTH_FS_LOCK_PROBE), 0); /* probers do not meet each other */
    hth_fs_close(hth_fs_system(), prober);
    hth_fs_close(hth_fs_system(), second);
}

static bool count_name(const char *name, void *user_data)
{
    size_t *n = user_data;

    assert_true(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
    return ++*n < 2;
}

IN_DIRECTORY(listing_a_directory_can_be_ended_early)
{
    size_t n = 0;

    write_file(hth_fs_system(), path_of("a"), "", 0);
    write_file(hth_fs_system(), path_of("b"), "", 0);
    write_file(hth_fs_system(), path_of("c"), "", 0);
    assert_int_equal(hth_fs_list(hth_fs_system(), directory_path, count_name, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(hth_fs_list(hth_fs_system(), path_of("missing"), count_name, &n), -ENOENT);
}

IN_DIRECTORY(a_modification_time_can_be_set)
{
    hth_fs_stat st;

    write_file(hth_fs_system(), path_of("file"), "", 0);
    assert_int_equal(hth_fs_set_mtime(hth_fs_system(), path_of("file"), 1234567890), 0);
    assert_int_equal(hth_fs_stat_path(hth_fs_system(), path_of("file"), &st), 0);
    assert_int_equal(st.mtime, 1234567890);
}

TEST(the_system_tells_about_the_machine)
{
    char boot[64], again[64], host[256];
    uint64_t begin = hth_os_monotonic_ns(), a, b;

    assert_true(hth_os_boot_id(boot, sizeof(boot)));
    assert_true(hth_os_boot_id(again, sizeof(again)));
    assert_string_equal(boot, again);
    assert_false(hth_os_boot_id(boot, 4));
    assert_true(hth_os_hostname(host, sizeof(host)));
    assert_true(hth_os_memory_bytes() > 0);
    assert_true(hth_os_memory_available_bytes() > 0);
    assert_true(hth_os_memory_available_bytes() <= hth_os_memory_bytes());
    assert_true(hth_os_n_cpus() >= 1);
    assert_true(hth_os_unix_seconds() > 1600000000);
    assert_true(hth_os_monotonic_ns() >= begin);
    hth_os_random(&a, sizeof(a));
    hth_os_random(&b, sizeof(b));
    assert_true(a != b);
}

TEST(prefaulting_memory_keeps_what_it_holds)
{
    size_t n_bytes = 1 << 20;
    uint8_t *memory = aligned_alloc(4096, n_bytes);

    assert_non_null(memory);
    memset(memory, 0xA5, n_bytes);
    hth_os_memory_prefault(memory, n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        assert_int_equal(memory[i], 0xA5);
    free(memory);
}
