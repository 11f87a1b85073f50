/*
 * folder_room_test.c - the files of a folder have a limit, and leave room on their device
 */
#include "support/cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder_room.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { PATH_BYTES = 4096 };

typedef struct fixture {
    char *directory;
    char path[PATH_BYTES]; /* of the new file */
    test_step_fs step;
} fixture;

static void in_folder(const fixture *f, const char *name, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/%s", f->directory, name);
}

static void make_file(const fixture *f, const char *name, off_t n_bytes)
{
    char path[PATH_BYTES];
    FILE *file;

    in_folder(f, name, path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, n_bytes), 0);
}

static void setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    in_folder(f, "new", f->path);
    test_step_fs_init(&f->step, NULL);
}

static void teardown(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static hearth_status has_room(const fixture *f, uint64_t n_bytes, hth_folder_limits limits, hearth_error *err)
{
    return hth_folder_has_room(&f->step.fs, f->path, n_bytes, &limits, err);
}

FIXTURE_TEST(all_files_but_the_replaced_one_count)
{
    const hth_folder_limits limits = { .bytes_max = 1000 };
    char path[PATH_BYTES];

    assert_int_equal(has_room(f, 1000, limits, NULL), HEARTH_OK);
    assert_int_equal(has_room(f, 1001, limits, NULL), HEARTH_FULL);
    make_file(f, "a", 300);
    make_file(f, ".b", 200);
    make_file(f, "new", 900);
    in_folder(f, "folder", path);
    assert_int_equal(mkdir(path, 0700), 0);
    make_file(f, "folder/c", 5000);
    in_folder(f, "link", path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(has_room(f, 500, limits, NULL), HEARTH_OK);
    assert_int_equal(has_room(f, 501, limits, NULL), HEARTH_FULL);
    assert_int_equal(has_room(f, UINT64_MAX, limits, NULL), HEARTH_FULL);
    make_file(f, "d", 600);
    assert_int_equal(has_room(f, 0, limits, NULL), HEARTH_FULL);
}

FIXTURE_TEST(the_message_has_the_file_its_size_the_limit_and_the_remedy)
{
    hearth_error err = { .message = "" };

    make_file(f, "a", 300);
    assert_int_equal(has_room(f, 701, (hth_folder_limits){ .bytes_max = 1000 }, &err), HEARTH_FULL);
    assert_non_null(strstr(err.message, f->path));
    assert_non_null(strstr(err.message, "takes 701 bytes"));
    assert_non_null(strstr(err.message, "300 of at most 1000 bytes; replace one of them"));
}

FIXTURE_TEST(a_file_leaves_room_on_the_device)
{
    uint64_t free_bytes;

    assert_int_equal(hth_fs_free_bytes(hth_fs_system(), f->directory, &free_bytes), 0);
    assert_int_equal(has_room(f, 1, (hth_folder_limits){ .free_min = 1 }, NULL), HEARTH_OK);
    assert_int_equal(has_room(f, 1, (hth_folder_limits){ .free_min = UINT64_MAX }, NULL), HEARTH_FULL);
    f->step.no_device_space = true;
    assert_int_equal(has_room(f, 1, (hth_folder_limits){ .free_min = 1 }, NULL), HEARTH_FULL);
    assert_int_equal(has_room(f, 1, (hth_folder_limits){ .free_min = 0 }, NULL), HEARTH_OK);
}

FIXTURE_TEST(a_folder_that_cannot_be_examined_has_no_room)
{
    const hth_folder_limits limits = { .bytes_max = 1000, .free_min = 1 };
    hearth_status status = HEARTH_IO;

    make_file(f, "a", 1);
    f->step.fail_errnum = EIO;
    for (uint64_t n = 1; status != HEARTH_OK; n++) {
        hearth_error err = { .message = "" };

        assert_true(n < 100);
        atomic_store(&f->step.n_steps, 0);
        atomic_store(&f->step.fail_at, n);
        status = has_room(f, 1, limits, &err);
        assert_true(status == HEARTH_OK || err.message[0] != '\0');
        assert_true(status == HEARTH_OK || status == HEARTH_IO);
    }
}

FIXTURE_TEST(one_writer_at_a_time_has_the_lock_of_a_folder)
{
    int fd = -1, other, lock;

    assert_int_equal(hth_folder_lock(&f->step.fs, f->path, &fd, NULL), HEARTH_OK);
    assert_true(fd >= 0);
    other = hth_fs_open(hth_fs_system(), f->directory, HTH_FS_READ);
    assert_true(other >= 0);
    lock = hth_fs_lock(hth_fs_system(), other, HTH_FS_LOCK_TRY);
    assert_int_equal(lock, -EWOULDBLOCK);
    hth_folder_unlock(&f->step.fs, fd);
    assert_int_equal(hth_fs_lock(hth_fs_system(), other, HTH_FS_LOCK_TRY), 0);
    hth_fs_close(hth_fs_system(), other);
    hth_folder_unlock(&f->step.fs, -1);
    (void)snprintf(f->path, sizeof(f->path), "%s/nowhere/new", f->directory);
    assert_int_equal(hth_folder_lock(&f->step.fs, f->path, &fd, NULL), HEARTH_NOT_FOUND);
}
