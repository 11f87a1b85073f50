/*
 * whole_file_test.c - a name refers to all of a file or to what it referred to before, whatever fails and whenever
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/whole_file.h"
#include "support/child.h"
#include "support/cmocka_all.h"
#include "support/step_fs.h"
#include "support/support.h"

static char *directory;
static char path[4096];
static test_step_fs step;

static int set_up(void **state)
{
    (void)state;
    directory = hth_test_directory_new();
    (void)snprintf(path, sizeof(path), "%s/file", directory);
    test_step_fs_init(&step, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hth_test_directory_remove(directory);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(void, no_fixture, name, set_up, tear_down)

/* In three writes. */
static hearth_status write_text(hth_whole_file_mode mode, const char *text, hearth_error *err)
{
    size_t n = strlen(text), third = n / 3;
    hth_whole_file *file;
    hearth_status status = hth_whole_file_begin(&step.fs, path, mode, &file, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_whole_file_write(file, text, third, err);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, text + third, third, err);
    if (status == HEARTH_OK)
        status = hth_whole_file_write(file, text + 2 * third, n - 2 * third, err);
    if (status == HEARTH_OK)
        return hth_whole_file_commit(file, err);
    hth_whole_file_abort(file);
    return status;
}

/* What the file holds; "" when it is not there. Valid until the next call. */
static const char *held(void)
{
    static char text[256];
    FILE *file = fopen(path, "rb");

    text[0] = '\0';
    if (file) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        (void)fclose(file);
    }
    return text;
}

static bool count_name(const char *name, void *user_data)
{
    (void)name;
    (*(int *)user_data)++;
    return true;
}

static int n_files(void)
{
    int n = 0;

    assert_int_equal(hth_fs_list(hth_fs_system(), directory, count_name, &n), 0);
    return n;
}

static void assert_written(hth_whole_file_mode mode, const char *text)
{
    hearth_error err = { .message = "" };

    assert_ok(write_text(mode, text, &err), err);
    assert_string_equal(held(), text);
    assert_int_equal(n_files(), 1);
}

FIXTURE_TEST(a_new_file_is_there_whole_and_for_its_owner_only)
{
    struct stat st;

    assert_written(HTH_WHOLE_FILE_NEW, "the first text");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

FIXTURE_TEST(a_file_without_a_folder_in_its_path_lies_in_the_working_directory)
{
    hth_whole_file *file;
    hearth_error err;
    char before[4096];

    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(hth_whole_file_begin(&step.fs, "file", HTH_WHOLE_FILE_NEW, &file, &err), HEARTH_OK);
    assert_int_equal(hth_whole_file_write(file, "here", 4, &err), HEARTH_OK);
    assert_int_equal(hth_whole_file_commit(file, &err), HEARTH_OK);
    assert_int_equal(chdir(before), 0);
    assert_string_equal(held(), "here");
}

FIXTURE_TEST(a_file_that_exists_is_replaced_only_when_that_is_wanted)
{
    hearth_error err = { .message = "" };

    assert_written(HTH_WHOLE_FILE_NEW, "old");
    assert_int_equal(write_text(HTH_WHOLE_FILE_NEW, "new", &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "exists already"));
    assert_string_equal(held(), "old");
    assert_int_equal(n_files(), 1);
    assert_written(HTH_WHOLE_FILE_REPLACE, "new");
}

FIXTURE_TEST(a_name_that_was_taken_meanwhile_is_left_alone)
{
    hth_whole_file *file;
    hearth_error err = { .message = "" };

    for (int i = 0; i < 2; i++) {
        FILE *other;

        step.no_link = i == 1;
        assert_int_equal(hth_whole_file_begin(&step.fs, path, HTH_WHOLE_FILE_NEW, &file, &err), HEARTH_OK);
        assert_int_equal(hth_whole_file_write(file, "ours", 4, &err), HEARTH_OK);
        other = fopen(path, "wb");
        assert_non_null(other);
        assert_true(fputs("theirs", other) >= 0);
        assert_int_equal(fclose(other), 0);
        assert_int_equal(hth_whole_file_commit(file, &err), HEARTH_MISUSE);
        assert_string_equal(held(), "theirs");
        assert_int_equal(n_files(), 1);
        assert_int_equal(unlink(path), 0);
    }
}

FIXTURE_TEST(without_links_a_file_is_renamed)
{
    step.no_link = true;
    assert_written(HTH_WHOLE_FILE_NEW, "no links here");
}

FIXTURE_TEST(paths_that_cannot_be_files_are_refused)
{
    char too_long[5000];
    hth_whole_file *file = NULL;
    hearth_error err = { .message = "" };

    memset(too_long, 'x', sizeof(too_long));
    too_long[sizeof(too_long) - 1] = '\0';
    assert_int_equal(hth_whole_file_begin(&step.fs, too_long, HTH_WHOLE_FILE_NEW, &file, &err), HEARTH_MISUSE);
    assert_int_equal(hth_whole_file_begin(&step.fs, "", HTH_WHOLE_FILE_NEW, &file, &err), HEARTH_MISUSE);
    assert_int_equal(hth_whole_file_begin(&step.fs, "/tmp/", HTH_WHOLE_FILE_NEW, &file, &err), HEARTH_MISUSE);
    assert_int_equal(hth_whole_file_begin(&step.fs, directory, HTH_WHOLE_FILE_REPLACE, &file, &err), HEARTH_MISUSE);
    (void)snprintf(path, sizeof(path), "%s/nowhere/file", directory);
    assert_int_equal(hth_whole_file_begin(&step.fs, path, HTH_WHOLE_FILE_NEW, &file, &err), HEARTH_NOT_FOUND);
    assert_null(file);
    hth_whole_file_abort(NULL);
}

static const char old_text[] = "what was there", new_text[] = "what was written in its place";

static void begin_anew(hth_whole_file_mode mode)
{
    hearth_error err;

    (void)tear_down(NULL);
    (void)set_up(NULL);
    if (mode == HTH_WHOLE_FILE_REPLACE)
        assert_int_equal(write_text(HTH_WHOLE_FILE_NEW, old_text, &err), HEARTH_OK);
    test_step_fs_init(&step, NULL);
}

FIXTURE_TEST(whichever_step_fails_the_name_has_all_or_what_it_had)
{
    for (int mode = HTH_WHOLE_FILE_NEW; mode <= HTH_WHOLE_FILE_REPLACE; mode++) {
        const char *before = mode == HTH_WHOLE_FILE_REPLACE ? old_text : "";
        hearth_status status = HEARTH_FAILED;

        for (uint64_t n = 1; status != HEARTH_OK || n <= 6; n++) {
            hearth_error err = { .message = "" };

            begin_anew((hth_whole_file_mode)mode);
            step.fail_at = n;
            step.fail_errnum = ENOSPC;
            status = write_text((hth_whole_file_mode)mode, new_text, &err);
            if (strcmp(held(), before) != 0)
                assert_string_equal(held(), new_text);
            if (status == HEARTH_OK) {
                assert_string_equal(held(), new_text);
            } else {
                assert_int_equal(status, HEARTH_FULL);
                assert_non_null(strstr(err.message, directory));
                assert_int_equal(n_files(), *held() ? 1 : 0);
            }
            assert_true(n < 100);
        }
    }
}

FIXTURE_TEST(whenever_the_process_dies_the_name_has_all_or_what_it_had)
{
    for (int mode = HTH_WHOLE_FILE_NEW; mode <= HTH_WHOLE_FILE_REPLACE; mode++) {
        const char *before = mode == HTH_WHOLE_FILE_REPLACE ? old_text : "";
        bool killed = true;

        for (uint64_t n = 1; killed; n++) {
            int result = 0;
            pid_t child;

            begin_anew((hth_whole_file_mode)mode);
            step.kill_at = n;
            child = fork();
            assert_true(child >= 0);
            if (child == 0)
                _exit(write_text((hth_whole_file_mode)mode, new_text, NULL) == HEARTH_OK ? 0 : 1);
            assert_int_equal(waitpid(child, &result, 0), child);
            killed = WIFSIGNALED(result);
            assert_true(killed || result == 0);
            if (!killed || strcmp(held(), before) != 0)
                assert_string_equal(held(), new_text);
            assert_true(n < 100);
        }
    }
}

static size_t n_temporary(void)
{
    DIR *folder = opendir(directory);
    const struct dirent *entry;
    size_t n = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)))
        n += strncmp(entry->d_name, ".file", 5) == 0;
    (void)closedir(folder);
    return n;
}

static void begin_and_die(void *context)
{
    hth_whole_file *file;

    (void)context;
    require(hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_NEW, &file, NULL) == HEARTH_OK);
}

FIXTURE_TEST(a_sweep_removes_the_files_of_dead_processes_alone)
{
    static const char *const others[] = { ".file.part", ".file.0123456789abcdeg.part",
                                          ".file.0123456789abcdef.partly" };
    hth_whole_file *file;
    hearth_error err;
    char other[4200];

    hth_test_in_child(begin_and_die, NULL);
    hth_test_in_child(begin_and_die, NULL);
    assert_int_equal(hth_whole_file_begin(hth_fs_system(), path, HTH_WHOLE_FILE_NEW, &file, &err), HEARTH_OK);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(other, sizeof(other), "%s/%s", directory, others[i]);
        assert_int_equal(close(open(other, O_CREAT | O_WRONLY, 0600)), 0);
    }
    assert_int_equal(n_temporary(), 6);
    hth_whole_file_sweep(path);
    assert_int_equal(n_temporary(), 4);
    assert_ok(hth_whole_file_commit(file, &err), err);
    assert_int_equal(n_temporary(), 3);
    hth_whole_file_sweep("/nowhere/at/all");
}
