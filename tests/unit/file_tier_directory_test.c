/*
 * file_tier_directory_test.c - the directory of a file tier: its owners, its index, how its files get their names
 */
#include "support/file_tier_scene.h"

/* ---- directories ---- */

/* As by `rm -r DIRECTORY/...`, which must not keep a server from storing until its next start. */
OPEN(a_cache_that_was_removed_while_it_is_in_use_begins_anew)
{
    static const char *const parts[] = { "rows", "temporary", "quarantine", "index", "owners" };
    test_row row = test_row_make(1, 0, IMAGE_BYTES), other = test_row_make(2, 0, IMAGE_BYTES);
    char removed[8192];

    assert_published(f, &row);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        (void)snprintf(removed, sizeof(removed), "%s-%zu", f->cache, i);
        assert_int_equal(rename(below(f, parts[i]), removed), 0);
    }
    hth_file_tier_maintain(f->tier);
    hth_file_tier_settle(f->tier);
    assert_int_equal(f->n_warnings, 1);
    assert_non_null(strstr(f->last_warning, "begins anew"));
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_published(f, &other);
    assert_reads_back(f, &other);
    assert_int_equal(index_rows(f), 1);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(f->n_warnings, 1);
    test_row_free(&row);
    test_row_free(&other);
}

OPEN(what_is_made_belongs_to_its_owner_only)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    struct stat st;

    assert_published(f, &row);
    for (const char *const *name = (const char *const[]){ "", "rows", "index", "owners", "quarantine", NULL }; *name;
         name++) {
        assert_int_equal(stat(below(f, *name), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
    }
    assert_int_equal(stat(row_path(f, &row), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    test_row_free(&row);
}

CLOSED(a_directory_that_others_can_write_to_is_refused_with_a_remedy)
{
    hth_file_tier_options options = options_of(f);
    hearth_error err;

    options.directory = f->directory;
    assert_int_equal(chmod(f->directory, 0770), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "chmod go-w"));
    assert_int_equal(chmod(f->directory, 0755), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_OK);
    close_tier(f);
    assert_int_equal(chmod(f->directory, 0700), 0);
    (void)snprintf(f->cache, sizeof(f->cache), "%s", f->directory);
    assert_int_equal(chmod(below(f, "rows"), 0777), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
}

OPEN(a_folder_of_rows_that_others_can_write_to_is_refused)
{
    hth_file_tier_options options = options_of(f);
    test_row row = test_row_make(1, 0, IMAGE_BYTES), other = test_row_make(2, 0, IMAGE_BYTES);
    hearth_error err = { .message = "" };
    char folder[8192];

    assert_published(f, &row);
    (void)snprintf(folder, sizeof(folder), "%s/rows/%02x", f->cache, row.meta.id.key.bytes[0]);
    assert_int_equal(chmod(folder, 0770), 0);
    close_tier(f);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "chmod go-w"));
    assert_int_equal(chmod(folder, 0700), 0);
    open_tier(f);
    /* One that somebody made while the tier was open. */
    (void)snprintf(folder, sizeof(folder), "%s/rows/%02x", f->cache, other.meta.id.key.bytes[0]);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(publish(f, &other, NULL), HEARTH_PERMISSION);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_published(f, &other);
    test_row_free(&row);
    test_row_free(&other);
}

CLOSED(a_directory_below_one_where_everybody_renames_is_refused)
{
    hth_file_tier_options options = options_of(f);
    hearth_error err = { .message = "" };

    assert_int_equal(chmod(f->directory, 0777), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "chmod +t"));
    assert_int_equal(chmod(f->directory, 01777), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_OK);
    assert_int_equal(chmod(f->directory, 0700), 0);
}

static int stat_as_of_another_user(void *context, const char *path, hth_fs_stat *out)
{
    int rc = hth_fs_system()->stat(context, path, out);

    out->uid = (uint32_t)geteuid() + 1;
    return rc;
}

CLOSED(a_directory_of_another_user_is_refused)
{
    hth_file_tier_options options = options_of(f);
    hth_fs fs = *hth_fs_system();
    hearth_error err;

    fs.stat = stat_as_of_another_user;
    options.fs = &fs;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "another user"));
}

CLOSED(a_read_only_file_system_is_a_permission_with_a_remedy)
{
    hth_file_tier_options options = options_of(f);

    /* Whatever is the first thing that fails: making the directory, or a file in one that is there. */
    for (int i = 0; i < 2; i++) {
        const char *const failing[] = { "make_directory", "open" };
        hearth_error err = { .message = "" };

        test_step_fs_init(&f->step, NULL);
        f->step.fail_only = failing[i];
        f->step.fail_errnum = EROFS;
        f->step.fail_from_then_on = true;
        atomic_store(&f->step.fail_at, 1);
        assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_PERMISSION);
        assert_null(f->tier);
        assert_non_null(strstr(err.message, "--cache"));
        test_step_fs_init(&f->step, NULL);
        open_tier(f);
        close_tier(f);
    }
}

OPEN(two_tiers_of_one_process_share_a_directory)
{
    hth_file_tier_options options = options_of(f);
    hth_file_tier *second = NULL;
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    bool published = true;

    assert_int_equal(hth_file_tier_open(&options, &second, NULL), HEARTH_OK);
    assert_published(f, &row);
    assert_true(hth_file_tier_has(second, &row.meta.id, NULL));
    assert_int_equal(hth_file_tier_publish(second, &row.meta, row.bytes, row.n_bytes, &published, NULL), HEARTH_OK);
    assert_false(published);
    close_tier(f);
    assert_int_equal(hth_file_tier_remove(second, &row.meta.id, NULL), HEARTH_OK);
    hth_file_tier_close(second);
    test_row_free(&row);
}

CLOSED(without_a_working_index_everything_goes_on_by_names)
{
    test_row row = test_row_make(1, 1, IMAGE_BYTES);
    hth_row_meta meta;
    bool published = true;
    char boot[64], path[8192];

    /* A file where the index's own directory should be. */
    (void)snprintf(path, sizeof(path), "%s/a", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkdir(f->cache, 0700), 0);
    assert_int_equal(mkdir(below(f, "index"), 0700), 0);
    assert_true(hth_os_boot_id(boot, sizeof(boot)));
    (void)snprintf(path, sizeof(path), "%s/index/v3-%s", f->cache, boot);
    write_new(path, "x", 1);
    open_tier(f);
    assert_int_equal(f->n_warnings, 1);

    assert_published(f, &row);
    assert_int_equal(publish(f, &row, &published), HEARTH_OK);
    assert_false(published);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, &meta));
    assert_int_equal(meta.first_position, 16);
    assert_reads_back(f, &row);
    hth_file_tier_touch(f->tier, &row.meta.id, 1);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(f->n_warnings, 1);

    /* When the cause is gone, the index comes back, filled. */
    assert_int_equal(unlink(path), 0);
    hth_file_tier_maintain(f->tier);
    hth_file_tier_settle(f->tier);
    assert_int_equal(index_rows(f), 1);
    hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    test_row_free(&row);
}

CLOSED(the_quota_holds_without_an_index_too)
{
    test_row a = test_row_make(1, 0, IMAGE_BYTES), b = test_row_make(2, 0, IMAGE_BYTES);
    hth_file_tier_options options = options_of(f);
    char boot[64], path[8192];

    open_tier(f);
    assert_published(f, &a);
    close_tier(f);
    lose_index(f);
    assert_int_equal(mkdir(below(f, "index"), 0700), 0);
    assert_true(hth_os_boot_id(boot, sizeof(boot)));
    (void)snprintf(path, sizeof(path), "%s/index/v3-%s", f->cache, boot);
    write_new(path, "x", 1);
    options.bytes_max = a.n_bytes + 100;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_int_equal(publish(f, &b, NULL), HEARTH_FULL);
    test_row_free(&a);
    test_row_free(&b);
}

/* ---- ways of giving a file its name ---- */

static void publish_and_replace(fixture *f)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES), other = test_row_make(1, 1, IMAGE_BYTES);

    open_tier(f);
    assert_published(f, &row);
    assert_published(f, &other);
    overwrite(row_path(f, &row), (long)row.n_bytes - 5, "XXXX", 4);
    assert_int_equal(hth_index_remove_lost(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL, NULL, NULL, NULL),
                     HEARTH_OK);
    assert_published(f, &row);
    assert_reads_back(f, &row);
    assert_reads_back(f, &other);
    assert_int_equal(n_files(f, "rows"), 2);
    assert_int_equal(n_files(f, "temporary"), 0);
    test_row_free(&row);
    test_row_free(&other);
}

CLOSED(rows_are_published_where_there_are_no_unnamed_files)
{
    f->step.no_unnamed = true;
    publish_and_replace(f);
}

CLOSED(rows_are_published_where_there_are_no_links)
{
    f->step.no_unnamed = true;
    f->step.no_link = true;
    publish_and_replace(f);
}

CLOSED(a_way_that_does_not_work_here_is_refused_when_it_is_asked_for)
{
    hth_file_tier_options options = options_of(f);
    hearth_error err = { .message = "" };

    f->step.no_unnamed = true;
    options.publish_way = HTH_PUBLISH_UNNAMED;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, "without a name"));
    f->step.no_link = true;
    options.publish_way = HTH_PUBLISH_LINK;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, "linked"));
    options.publish_way = HTH_PUBLISH_RENAME;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, &err), HEARTH_OK);
}

/* A rename that is carried out, and whose answer is lost: as on a network, it is then tried again. */
static int rename_and_forget(void *context, const char *from, const char *to)
{
    int rc = hth_fs_system()->rename(context, from, to);

    return rc == 0 ? hth_fs_system()->rename(context, from, to) : rc;
}

static int link_and_forget(void *context, const char *from, const char *to)
{
    int rc = hth_fs_system()->link(context, from, to);

    return rc == 0 ? hth_fs_system()->link(context, from, to) : rc;
}

CLOSED(a_lost_answer_of_the_network_loses_no_row)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    for (int i = 0; i < 2; i++) {
        hth_file_tier_options options = options_of(f);
        hth_fs fs = *hth_fs_system();

        fs.rename = rename_and_forget;
        options.fs = &fs;
        options.publish_way = i == 0 ? HTH_PUBLISH_LINK : HTH_PUBLISH_RENAME;
        (void)snprintf(f->cache, sizeof(f->cache), "%s/lost-%d", f->directory, i);
        assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
        hth_file_tier_settle(f->tier);
        fs.link = link_and_forget;
        assert_int_equal(publish(f, &row, NULL), HEARTH_OK);
        assert_reads_back(f, &row);
        assert_int_equal(index_rows(f), 1);
        assert_int_equal(n_files(f, "rows"), 1);
        assert_int_equal(n_files(f, "temporary"), 0);
        close_tier(f);
    }
    test_row_free(&row);
}

/* Only the first look in each pair finds out that a file is gone. */
static int stat_every_other_time(void *context, const char *path, hth_fs_stat *out)
{
    static bool fails;
    int rc = hth_fs_system()->stat(context, path, out);

    if (rc != -ENOENT || !strstr(path, ".kvc"))
        return rc;
    fails = !fails;
    return fails ? rc : -EIO;
}

CLOSED(a_lost_row_that_the_index_cannot_forget_is_written_again)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    hth_file_tier_options options = options_of(f);
    static hth_fs fs; /* the tier is closed after a failure, too */
    bool published = false;

    fs = *hth_fs_system();
    options.fs = &fs;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_published(f, &row);
    assert_int_equal(unlink(row_path(f, &row)), 0);
    fs.stat = stat_every_other_time;
    assert_int_equal(publish(f, &row, &published), HEARTH_OK);
    fs.stat = hth_fs_system()->stat;
    assert_true(published);
    assert_reads_back(f, &row);
    assert_int_equal(index_rows(f), 1);
    test_row_free(&row);
}

CLOSED(the_index_may_lie_elsewhere)
{
    hth_file_tier_options options = options_of(f);
    test_row row = test_row_make(1, 0, IMAGE_BYTES), other = test_row_make(2, 0, IMAGE_BYTES);
    hth_file_tier *second = NULL;
    char here[4096], there[4096];

    /* Two machines, with an index each, and rows that they share. */
    (void)snprintf(here, sizeof(here), "%s/here", f->directory);
    (void)snprintf(there, sizeof(there), "%s/there", f->directory);
    options.index_directory = here;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    options.index_directory = there;
    assert_int_equal(hth_file_tier_open(&options, &second, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    hth_file_tier_settle(second);
    assert_int_equal(access(below(f, "index"), F_OK), -1);
    assert_int_equal(access(below(f, "owners"), F_OK), -1);
    assert_ptr_not_equal(hth_file_tier_index(f->tier), hth_file_tier_index(second));

    assert_published(f, &row);
    assert_true(hth_file_tier_has(second, &row.meta.id, NULL)); /* by its name */
    hth_file_tier_maintain(second);
    assert_int_equal(hth_file_tier_publish(second, &other.meta, other.bytes, other.n_bytes, NULL, NULL), HEARTH_OK);
    assert_reads_back(f, &other);
    /* What one removes, the other finds gone. */
    assert_int_equal(hth_file_tier_remove(second, &row.meta.id, NULL), HEARTH_OK);
    assert_int_equal(read_row(f, &row.meta.id, &(buffer){ .refuse = true }), HEARTH_NOT_FOUND);
    hth_file_tier_maintain(f->tier);
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    hth_file_tier_close(second);
    test_row_free(&row);
    test_row_free(&other);
}

CLOSED(a_temporary_file_of_another_machine_is_left_alone_for_a_day)
{
    hth_file_tier_options options = options_of(f);
    char here[4096], young[8192], old[8192];

    (void)snprintf(here, sizeof(here), "%s/here", f->directory);
    options.index_directory = here;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    close_tier(f);
    (void)snprintf(young, sizeof(young), "%s", below(f, "temporary/00000000000000aa-1"));
    (void)snprintf(old, sizeof(old), "%s", below(f, "temporary/00000000000000aa-2"));
    write_new(young, "x", 1);
    write_new(old, "x", 1);
    assert_int_equal(hth_fs_set_mtime(hth_fs_system(), old, hth_os_unix_seconds() - 2 * 86400), 0);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_int_equal(access(young, F_OK), 0);
    assert_int_equal(access(old, F_OK), -1);
}

CLOSED(short_reads_and_writes_are_no_matter)
{
    f->step.short_io = true;
    publish_and_replace(f);
}

/* ---- the default directory ---- */

TEST(the_default_directory_follows_the_environment)
{
    char path[256] = "unchanged";

    unsetenv("HEARTH_CACHE");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/home/x", 1);
    assert_true(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/home/x/.cache/hearth/kv");
    setenv("XDG_CACHE_HOME", "/var/xdg", 1);
    assert_true(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/var/xdg/hearth/kv");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_true(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/home/x/.cache/hearth/kv");
    setenv("HEARTH_CACHE", "/mnt/kv", 1);
    assert_true(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/mnt/kv");
    assert_false(hth_cache_default_directory(path, 3));
    setenv("HEARTH_CACHE", "", 1);
    unsetenv("HOME");
    assert_false(hth_cache_default_directory(path, sizeof(path)));
    assert_string_equal(path, "/mnt/kv");
}
