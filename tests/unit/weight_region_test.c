/*
 * weight_region_test.c - a region of weights is filled by one process and mapped by others; whatever breaks is no
 * region
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mount.h>
#endif

#include "base/bytes.h"
#include "base/hash.h"
#include "support/child.h"
#include "support/region_scene.h"

enum { HEADER_BYTES = 4096, OTHER = 65534 };

/* A file that stays, and its path. */
static void leave_kept(fixture *f, char path[PATH_BYTES])
{
    hth_weight_region *region;

    f->key.keep = true;
    region = publish(f);
    (void)snprintf(path, PATH_BYTES, "%s", hth_weight_region_path(region)); /* fits */
    hth_weight_region_close(region);
}

static void change_byte(const char *path, long at)
{
    FILE *file = fopen(path, "r+");
    int byte;

    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    byte = fgetc(file);
    assert_true(byte >= 0);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 0x10, file), byte ^ 0x10);
    assert_int_equal(fclose(file), 0);
}

/* The region is not used: whoever opens it fills it again. */
static void assert_refilled(fixture *f)
{
    hth_weight_region *region = publish(f);

    assert_true(has_weights(region));
    hth_weight_region_close(region);
}

FIXTURE_TEST(what_one_has_filled_another_maps_and_the_last_holder_removes_it)
{
    hth_weight_region *first = publish(f), *second = open_region(f);
    struct stat st;

    assert_true(hth_weight_region_is_filled(second));
    assert_true(has_weights(second));
    assert_true(hth_weight_region_has_layout(second, layout));
    assert_false(hth_weight_region_has_layout(second, (const uint8_t[HTH_WEIGHT_LAYOUT_BYTES]){ 7 }));
    assert_int_equal(stat(hth_weight_region_path(first), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    hth_weight_region_close(first);
    assert_int_equal(n_files(f), 1);
    assert_true(has_weights(second));
    hth_weight_region_close(second);
    assert_int_equal(n_files(f), 0);
}

static void map_elsewhere(void *context)
{
    fixture *f = context;
    hth_weight_region *region = NULL;

    require(hth_weight_region_open(&f->key, &region, NULL) == HEARTH_OK);
    require(hth_weight_region_is_filled(region));
    require(has_weights(region));
    hth_weight_region_close(region);
}

FIXTURE_TEST(two_processes_map_the_same_pages)
{
    hth_weight_region *region = publish(f);
    struct stat before, after;

    assert_int_equal(stat(hth_weight_region_path(region), &before), 0);
    hth_test_in_child(map_elsewhere, f);
    assert_int_equal(stat(hth_weight_region_path(region), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    hth_weight_region_close(region);
}

FIXTURE_TEST(a_region_that_was_not_published_leaves_nothing)
{
    hth_weight_region *region = open_region(f);

    assert_int_equal(n_files(f), 1);
    fill(region);
    hth_weight_region_close(region);
    assert_int_equal(n_files(f), 0);
}

FIXTURE_TEST(a_kept_region_stays_until_it_is_dropped)
{
    char path[PATH_BYTES];
    hth_weight_region *region;

    leave_kept(f, path);
    assert_true(sweep(f));
    region = open_region(f);
    assert_true(hth_weight_region_is_filled(region));
    assert_int_equal(hth_weight_regions_drop(f->folder, f->model), 0);
    assert_int_equal(n_files(f), 1); /* somebody holds it */
    hth_weight_region_close(region);
    assert_int_equal(n_files(f), 1);
    assert_in_range(hth_weight_regions_drop(f->folder, f->model), N_BYTES, N_BYTES + 65536);
    assert_int_equal(n_files(f), 0);
}

FIXTURE_TEST(a_file_that_others_may_write_to_does_not_count)
{
    char path[PATH_BYTES];

    leave_kept(f, path);
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(hth_weight_regions_bytes(f->folder, f->model), 0);
}

FIXTURE_TEST(the_files_of_a_model_are_counted_and_dropped_alone)
{
    char path[PATH_BYTES], other[PATH_BYTES];

    assert_int_equal(hth_weight_regions_bytes(f->folder, f->model), 0);
    leave_kept(f, path);
    assert_true((size_t)snprintf(other, sizeof(other), "%s/other.gguf", f->directory) < sizeof(other));
    write_file(other, "weights");
    assert_in_range(hth_weight_regions_bytes(f->folder, f->model), N_BYTES, N_BYTES + 65536);
    assert_int_equal(hth_weight_regions_bytes(f->folder, other), 0);
    hth_weight_regions_drop(f->folder, other);
    assert_int_equal(n_files(f), 1);
    hth_weight_regions_drop(f->folder, f->model);
    assert_int_equal(n_files(f), 0);
}

FIXTURE_TEST(who_keeps_a_region_keeps_that_of_another)
{
    hth_weight_region *region = publish(f), *keeper;

    f->key.keep = true;
    keeper = open_region(f);
    hth_weight_region_close(region);
    hth_weight_region_close(keeper);
    assert_true(sweep(f));
    assert_int_equal(n_files(f), 1);
}

FIXTURE_TEST(another_engine_size_or_number_is_another_region)
{
    hth_weight_region *first = publish(f), *others[3];

    f->key.machine = "engine 2";
    others[0] = publish(f);
    f->key.number = 1;
    others[1] = publish(f);
    f->key.n_bytes = N_BYTES + 1;
    others[2] = publish(f);
    assert_int_equal(n_files(f), 4);
    for (size_t i = 0; i < 3; i++)
        hth_weight_region_close(others[i]);
    hth_weight_region_close(first);
}

FIXTURE_TEST(kept_regions_of_another_engine_are_swept)
{
    char path[PATH_BYTES];

    leave_kept(f, path);
    f->key.machine = "engine 2";
    assert_refilled(f);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(n_files(f), 1);
}

FIXTURE_TEST(a_changed_model_is_another_region_and_the_old_one_is_swept)
{
    char path[PATH_BYTES];

    leave_kept(f, path);
    write_file(f->model, "other weights");
    assert_refilled(f);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(n_files(f), 1);
}

FIXTURE_TEST(a_model_that_changes_while_it_is_loaded_is_not_published)
{
    hth_weight_region *region = open_region(f);

    fill(region);
    write_file(f->model, "other weights");
    assert_int_equal(hth_weight_region_publish(region, layout, &f->err), HEARTH_IO);
    assert_int_equal(n_files(f), 0); /* nobody waits for it */
    assert_true(has_weights(region));
    hth_weight_region_close(region);
    assert_int_equal(n_files(f), 0);
}

FIXTURE_TEST(a_region_that_is_given_up_is_there_for_others_to_fill)
{
    hth_weight_region *region = open_region(f), *other;

    fill(region);
    hth_weight_region_reject(region);
    other = publish(f);
    assert_true(has_weights(region));
    hth_weight_region_close(region);
    assert_int_equal(n_files(f), 1);
    hth_weight_region_close(other);
}

FIXTURE_TEST(a_model_that_changed_before_its_region_was_opened_has_none)
{
    uint8_t digest[HTH_WEIGHT_MODEL_BYTES];
    hth_weight_region *region = NULL;

    assert_int_equal(hth_weight_model_digest(f->model, digest), 0);
    f->key.model = digest;
    assert_refilled(f);
    write_file(f->model, "other weights");
    assert_int_equal(hth_weight_region_open(&f->key, &region, &f->err), HEARTH_IO);
    assert_non_null(strstr(f->err.message, "changed while it was loaded"));
}

FIXTURE_TEST(a_part_of_a_split_model_that_changes_makes_another_region)
{
    char second[PATH_BYTES];
    hth_weight_region *region, *other;

    assert_true((size_t)snprintf(f->model, sizeof(f->model), "%s/s-00001-of-00002.gguf", f->directory) < PATH_BYTES);
    assert_true((size_t)snprintf(second, sizeof(second), "%s/s-00002-of-00002.gguf", f->directory) < PATH_BYTES);
    write_file(f->model, "one");
    assert_int_equal(hth_weight_region_open(&f->key, &region, &f->err), HEARTH_NOT_FOUND); /* the second part */
    write_file(second, "two");
    region = publish(f);
    write_file(second, "three");
    other = open_region(f);
    assert_false(hth_weight_region_is_filled(other));
    hth_weight_region_close(other);
    hth_weight_region_close(region);
}

FIXTURE_TEST(a_file_that_is_named_like_a_part_of_none_is_one_file)
{
    hth_weight_region *region, *other;

    assert_true((size_t)snprintf(f->model, sizeof(f->model), "%s/s-00001-of-00000.gguf", f->directory) < PATH_BYTES);
    write_file(f->model, "one");
    region = publish(f);
    write_file(f->model, "three");
    other = open_region(f);
    assert_false(hth_weight_region_is_filled(other));
    hth_weight_region_close(other);
    hth_weight_region_close(region);
}

FIXTURE_TEST(parts_of_a_split_model_behind_links_all_count)
{
    char link_path[PATH_BYTES], blob[PATH_BYTES];
    hth_weight_region *region, *other;

    for (int i = 1; i <= 2; i++) {
        assert_true((size_t)snprintf(blob, sizeof(blob), "%s/blob%d", f->directory, i) < sizeof(blob));
        assert_true((size_t)snprintf(link_path, sizeof(link_path), "%s/l-0000%d-of-00002.gguf", f->directory, i) <
                    sizeof(link_path));
        write_file(blob, "one");
        assert_int_equal(symlink(blob, link_path), 0);
        if (i == 1)
            memcpy(f->model, link_path, sizeof(link_path));
    }
    region = publish(f);
    write_file(blob, "three"); /* of the second part */
    other = open_region(f);
    assert_false(hth_weight_region_is_filled(other));
    hth_weight_region_close(other);
    hth_weight_region_close(region);
}

FIXTURE_TEST(a_kept_region_stays_while_its_model_cannot_be_examined)
{
    char path[PATH_BYTES];

    leave_kept(f, path);
    assert_int_equal(unlink(f->model), 0);
    assert_int_equal(symlink(f->model, f->model), 0); /* ELOOP */
    assert_true(sweep(f));
    assert_int_equal(n_files(f), 1);
    assert_int_equal(unlink(f->model), 0);
    assert_true(sweep(f));
    assert_int_equal(n_files(f), 0);
}

FIXTURE_TEST(a_file_that_nobody_fills_any_more_is_swept_whatever_it_holds)
{
    char path[PATH_BYTES], filling[PATH_BYTES];

    leave_kept(f, path);
    (void)snprintf(filling, sizeof(filling), "%.*s.filling", (int)(strlen(path) - strlen(".weights")), path);
    assert_int_equal(rename(path, filling), 0);
    assert_true(sweep(f));
    assert_int_equal(n_files(f), 0);
}

FIXTURE_TEST(damage_anywhere_is_found)
{
    static const long at[] = {
        0, 8, 12, 16, 24, 32, 64, 96, 130, 4000, HEADER_BYTES, HEADER_BYTES + N_BYTES / 2, HEADER_BYTES + N_BYTES - 1
    };
    char path[PATH_BYTES];

    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        leave_kept(f, path);
        change_byte(path, at[i]);
        assert_refilled(f);
        hth_weight_regions_drop(f->folder, f->model);
    }
}

FIXTURE_TEST(a_truncated_file_is_no_region)
{
    static const off_t lengths[] = { 0, 100, HEADER_BYTES, HEADER_BYTES + N_BYTES / 2, 2 * N_BYTES };
    char path[PATH_BYTES];

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        leave_kept(f, path);
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_true(sweep(f));
        assert_refilled(f);
        hth_weight_regions_drop(f->folder, f->model);
    }
}

FIXTURE_TEST(a_rejected_region_is_filled_again_by_the_next)
{
    char path[PATH_BYTES];
    hth_weight_region *region;

    leave_kept(f, path);
    region = open_region(f);
    assert_true(hth_weight_region_is_filled(region));
    hth_weight_region_reject(region);
    assert_true(has_weights(region)); /* mapped until close */
    assert_refilled(f);
    hth_weight_region_close(region);
}

FIXTURE_TEST(a_folder_that_everybody_may_write_to_is_refused)
{
    hth_weight_region *region = NULL;

    assert_int_equal(mkdir(f->folder, 0700), 0);
    assert_int_equal(chmod(f->folder, 01777), 0);
    assert_int_equal(hth_weight_region_open(&f->key, &region, &f->err), HEARTH_MISUSE);
    assert_non_null(strstr(f->err.message, "name a folder below it"));
    assert_null(region);
}

FIXTURE_TEST(a_file_that_others_could_write_is_no_region)
{
    static const mode_t modes[] = { 0602, 0620, 0666 };
    char path[PATH_BYTES];
    hth_weight_region *region;

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        leave_kept(f, path);
        assert_int_equal(chmod(path, modes[i]), 0);
        region = open_region(f);
        assert_false(hth_weight_region_is_filled(region));
        hth_weight_region_close(region);
        assert_int_equal(n_files(f), 0);
    }
}

FIXTURE_TEST(in_a_folder_of_a_group_files_are_the_groups_from_the_start)
{
    hth_weight_region *region;
    char path[PATH_BYTES];
    struct stat st;

    assert_int_equal(mkdir(f->folder, 0700), 0);
    assert_int_equal(chmod(f->folder, 02770), 0);
    leave_kept(f, path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    region = open_region(f);
    assert_true(hth_weight_region_is_filled(region));
    hth_weight_region_close(region);
    assert_int_equal(unlink(path), 0);
    region = open_region(f);
    assert_false(hth_weight_region_is_filled(region));
    memcpy(strrchr(path, '.'), ".filling", sizeof(".filling"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    hth_weight_region_close(region);
}

/* As root alone: files of other users. */
FIXTURE_TEST(folders_and_files_of_other_users_are_not_used)
{
    char path[PATH_BYTES];
    hth_weight_region *region = NULL;

    if (geteuid() != 0)
        skip();
    leave_kept(f, path);
    assert_int_equal(chown(path, OTHER, OTHER), 0);
    assert_refilled(f);
    assert_int_equal(chown(path, OTHER, OTHER), 0);
    assert_int_equal(chown(f->folder, 0, OTHER), 0);
    assert_int_equal(chmod(path, 0660), 0);
    assert_int_equal(chmod(f->folder, 02770), 0); /* now the group is trusted */
    region = open_region(f);
    assert_true(hth_weight_region_is_filled(region));
    hth_weight_region_close(region);
    assert_int_equal(chown(f->folder, OTHER, OTHER), 0);
    region = NULL;
    assert_int_equal(hth_weight_region_open(&f->key, &region, &f->err), HEARTH_MISUSE);
    assert_non_null(strstr(f->err.message, "belongs to another user"));
}

static void fail_to_remove_damage(void *context)
{
    fixture *f = context;
    hth_weight_region *region = NULL;

    require(setgid(OTHER) == 0 && setuid(OTHER) == 0);
    require(hth_weight_region_open(&f->key, &region, &f->err) != HEARTH_OK);
    require(strstr(f->err.message, "is damaged"));
}

/* As root alone. */
FIXTURE_TEST(damage_that_cannot_be_removed_is_no_region)
{
    char path[PATH_BYTES];

    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(f->directory, 0755), 0);
    assert_int_equal(mkdir(f->folder, 0700), 0);
    assert_int_equal(chown(f->folder, 0, OTHER), 0);
    assert_int_equal(chmod(f->folder, 03770), 0); /* only owners remove files */
    leave_kept(f, path);
    change_byte(path, HEADER_BYTES);
    hth_test_in_child(fail_to_remove_damage, f);
    assert_int_equal(n_files(f), 1);
}

FIXTURE_TEST(without_room_there_is_no_region_and_no_file)
{
    hth_weight_region *region = NULL;

    f->key.n_bytes = (size_t)1 << 60;
    assert_int_equal(hth_weight_region_open(&f->key, &region, &f->err), HEARTH_NO_MEMORY);
    assert_null(region);
    assert_int_equal(n_files(f), 0);
}

FIXTURE_TEST(files_of_others_are_left_alone)
{
    char path[PATH_BYTES];

    assert_int_equal(mkdir(f->folder, 0700), 0);
    assert_true((size_t)snprintf(path, sizeof(path), "%s/notes.weights", f->folder) < sizeof(path));
    write_file(path, "mine");
    assert_true(sweep(f));
    assert_refilled(f);
    assert_int_equal(n_files(f), 1);
}

#ifdef __linux__

static void tear_down_mount(fixture *f)
{
    (void)umount2(f->folder, MNT_DETACH); /* it may not be mounted */
    tear_down(f);
}

/* As root alone, and with free huge pages: sysctl vm.nr_hugepages=4. */
TEST_WITH(fixture, f, a_folder_in_hugetlbfs_holds_regions, set_up, tear_down_mount)
{
    char *facts = hth_test_text("/proc/meminfo");
    const char *at = facts ? strstr(facts, "HugePages_Free:") : NULL;
    const bool has_pages = at && strtol(at + strlen("HugePages_Free:"), NULL, 10) >= 2;
    hth_weight_region *region, *keeper;

    free(facts);
    assert_int_equal(mkdir(f->folder, 0700), 0);
    if (!has_pages || mount("none", f->folder, "hugetlbfs", 0, "mode=0700") != 0) {
        print_message("skipped: no hugetlbfs, or no two free pages in it\n");
        skip();
    }
    region = publish(f);
    assert_in_range(hth_weight_regions_bytes(f->folder, f->model), N_BYTES, (uint64_t)1 << 30);
    f->key.number = 1;
    assert_refilled(f);
    f->key.number = 0;
    f->key.keep = true;
    keeper = open_region(f);
    assert_true(hth_weight_region_is_filled(keeper) && has_weights(keeper));
    hth_weight_region_close(region);
    hth_weight_region_close(keeper);
    assert_true(sweep(f));
    assert_int_equal(n_files(f), 1);
    hth_test_in_child(map_elsewhere, f);
    hth_weight_regions_drop(f->folder, f->model);
    assert_int_equal(n_files(f), 0);
    f->key.n_bytes = (size_t)1 << 50;
    assert_int_equal(hth_weight_region_open(&f->key, &region, &f->err), HEARTH_NO_MEMORY);
    assert_non_null(strstr(f->err.message, "vm.nr_hugepages"));
    assert_int_equal(n_files(f), 0);
}
#endif
