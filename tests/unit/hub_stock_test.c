/*
 * hub_stock_test.c - which models are in the cache, and the bytes that a removal takes or leaves
 */
#include "hub/stock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "hub/pull.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define OLDER "1123456789abcdef0123456789abcdef01234567"
#define OLDEST "2123456789abcdef0123456789abcdef01234567"
#define SHA256 COMMIT "0123456789abcdef01234567"

typedef struct fixture {
    hth_hub_settings settings;
    hth_hub_shelf shelf;
    char blob[PATH_MAX];
    char *directory;
    uint64_t n_freed;
    hearth_error err;
} fixture;

static void write_file(const char *path, const char *text)
{
    hearth_error err;
    FILE *file;

    assert_ok(hth_hub_make_folders(path, &err), err);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void add(fixture *f, const char *commit, const char *path)
{
    hth_hub_file file = { .digest = SHA256 };

    (void)snprintf(file.path, sizeof(file.path), "%s", path);
    assert_ok(hth_hub_link(&f->shelf, commit, &file, &f->err), f->err);
}

static void set_up(fixture *f)
{
    *f = (fixture){ .directory = hth_test_directory_new() };
    (void)snprintf(f->settings.cache, sizeof(f->settings.cache), "%s", f->directory);
    assert_ok(hth_hub_shelf_init(&f->shelf, f->directory, "o/r", &f->err), f->err);
    assert_true(hth_hub_blob_path(&f->shelf, SHA256, f->blob));
    write_file(f->blob, "GGUF");
    add(f, COMMIT, "m-Q8_0.gguf");
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static bool has_blob(const fixture *f)
{
    return access(f->blob, F_OK) == 0;
}

FIXTURE_TEST(a_removal_leaves_no_ref_to_a_snapshot_that_is_gone)
{
    char path[PATH_MAX];

    assert_ok(hth_hub_commit_write(&f->shelf, "main", COMMIT, &f->err), f->err);
    assert_ok(hth_hub_commit_write(&f->shelf, "refs/pr/1", COMMIT, &f->err), f->err);
    assert_ok(hth_hub_model_remove(f->directory, "o/r:Q8_0", &f->n_freed, &f->err), f->err);
    assert_int_equal(f->n_freed, 4);
    (void)snprintf(path, sizeof(path), "%s/models--o--r", f->directory);
    assert_int_not_equal(access(path, F_OK), 0);
}

FIXTURE_TEST(a_blob_that_a_hidden_link_has_stays)
{
    add(f, OLDER, ".a/.b/m.gguf");
    assert_ok(hth_hub_model_remove(f->directory, "o/r:Q8_0", &f->n_freed, &f->err), f->err);
    assert_int_equal(f->n_freed, 0);
    assert_true(has_blob(f));
}

FIXTURE_TEST(a_blob_stays_where_links_may_lie_deeper_than_anybody_looks)
{
    add(f, OLDER, "1/2/3/4/5/6/7/8/9/m.gguf");
    assert_ok(hth_hub_model_remove(f->directory, "o/r:Q8_0", &f->n_freed, &f->err), f->err);
    assert_true(has_blob(f));
}

FIXTURE_TEST(a_blob_that_is_locked_stays)
{
    char path[PATH_MAX];
    int fd;

    assert_true(hth_hub_lock_path(&f->shelf, SHA256, path));
    write_file(path, "");
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(hth_fs_lock(hth_fs_system(), fd, HTH_FS_LOCK_TRY), 0);
    assert_int_equal(hth_hub_model_remove(f->directory, "o/r:Q8_0", &f->n_freed, &f->err), HEARTH_BUSY);
    assert_non_null(strstr(f->err.message, SHA256 "' stays: another process"));
    assert_true(has_blob(f));
    assert_int_equal(close(fd), 0);
}

FIXTURE_TEST(a_blob_whose_lock_cannot_be_opened_stays)
{
    char path[PATH_MAX];

    assert_true(hth_hub_lock_path(&f->shelf, SHA256, path));
    assert_ok(hth_hub_make_folders(path, &f->err), f->err);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_not_equal(hth_hub_model_remove(f->directory, "o/r:Q8_0", &f->n_freed, &f->err), HEARTH_OK);
    assert_non_null(strstr(f->err.message, SHA256 "' stays: cannot lock"));
    assert_true(has_blob(f));
}

FIXTURE_TEST(a_model_is_found_in_the_newest_snapshot_that_has_it_unless_a_revision_is_named)
{
    const hth_hub_reference wanted = { .repo = "o/r", .choice = "Q4_0" };
    char path[PATH_MAX], expected[PATH_MAX], ref[PATH_MAX + 16];
    const char *const snapshots[] = { OLDEST, OLDER };

    assert_ok(hth_hub_commit_write(&f->shelf, "main", COMMIT, &f->err), f->err);
    for (int i = 0; i < 2; i++) {
        add(f, snapshots[i], "m-Q4_0.gguf");
        assert_true(hth_hub_snapshot_path(&f->shelf, snapshots[i], "", path));
        assert_int_equal(hth_fs_set_mtime(hth_fs_system(), path, (uint64_t)(1000 + i)), 0);
    }
    assert_ok(hth_hub_find(&f->settings, &wanted, NULL, path, &f->err), f->err);
    assert_true(hth_hub_snapshot_path(&f->shelf, OLDER, "m-Q4_0.gguf", expected));
    assert_string_equal(path, expected);
    assert_int_equal(hth_hub_find(&f->settings, &wanted, "main", path, &f->err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(f->err.message, "has no 'Q4_0', but: Q8_0"));

    (void)snprintf(ref, sizeof(ref), "%s/refs/main", f->shelf.folder);
    assert_int_equal(unlink(ref), 0);
    assert_ok(hth_hub_find(&f->settings, &wanted, NULL, path, &f->err), f->err);
}
