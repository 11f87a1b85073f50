/*
 * talk_test.c - the conversations that `hearth chat` keeps
 */
#include "chat/dialog_talk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct fixture {
    char *directory;
    char folder[PATH_MAX];
} fixture;

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    assert_int_equal(setenv("XDG_DATA_HOME", f->directory, 1), 0);
    assert_true(hth_talk_folder(f->folder));
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void begin(hth_talk *talk, const char *question)
{
    assert_true(hth_talk_init(talk));
    assert_true(hth_talk_add(talk, "user", question, ""));
}

static void assert_kept(const char *name, const char *question)
{
    hth_talk talk;
    hearth_error err = { .message = "" };

    assert_true(hth_talk_init(&talk));
    assert_ok(hth_talk_load(&talk, name, &err), err);
    assert_string_equal(hth_talk_last_question(&talk), question);
    hth_talk_deinit(&talk);
}

FIXTURE_TEST(conversations_that_begin_in_the_same_second_have_files_of_their_own)
{
    char first_name[NAME_MAX + 1], second_name[NAME_MAX + 1];
    hearth_error err = { .message = "" };
    hth_talk first, second;

    (void)f;
    begin(&first, "one");
    begin(&second, "two");
    hth_talk_new_name(first_name);
    memcpy(second_name, first_name, sizeof(second_name)); /* no file takes the name yet */
    assert_ok(hth_talk_save(&first, first_name, "m", &err), err);
    assert_ok(hth_talk_save(&second, second_name, "m", &err), err);
    assert_string_not_equal(second_name, first_name);
    assert_true(hth_talk_add(&second, "user", "three", ""));
    assert_ok(hth_talk_save(&second, second_name, "m", &err), err); /* over its own file */
    assert_kept(first_name, "one");
    assert_kept(second_name, "three");

    hth_talk_clear(&second); /* another conversation, which may not write over a file either */
    assert_true(hth_talk_add(&second, "user", "four", ""));
    memcpy(second_name, first_name, sizeof(second_name));
    assert_ok(hth_talk_save(&second, second_name, "m", &err), err);
    assert_kept(first_name, "one");
    assert_kept(second_name, "four");
    hth_talk_deinit(&first);
    hth_talk_deinit(&second);
}

FIXTURE_TEST(a_conversation_is_saved_over_the_file_that_it_was_loaded_from_and_no_other)
{
    char name[NAME_MAX + 1] = "fox";
    hearth_error err = { .message = "" };
    hth_talk talk;

    (void)f;
    begin(&talk, "one");
    assert_ok(hth_talk_save_as(&talk, "fox", "m", &err), err);
    assert_ok(hth_talk_save_as(&talk, "bear", "m", &err), err);
    assert_int_equal(hth_talk_save_as(&talk, "fox", "m", &err), HEARTH_MISUSE);
    hth_talk_deinit(&talk);

    assert_true(hth_talk_init(&talk));
    assert_ok(hth_talk_load(&talk, "fox", &err), err);
    assert_true(hth_talk_add(&talk, "user", "two", ""));
    assert_ok(hth_talk_save(&talk, name, "m", &err), err);
    assert_string_equal(name, "fox");
    assert_kept("fox", "two");
    assert_kept("bear", "one");
    hth_talk_deinit(&talk);
}

FIXTURE_TEST(the_newest_of_very_many_conversations_is_found)
{
    const struct timespec later[2] = { { .tv_sec = 4000000000 }, { .tv_sec = 4000000000 } };
    char path[PATH_MAX + NAME_MAX + 2], last[NAME_MAX + 1] = "", newest[NAME_MAX + 1];
    hearth_error err = { .message = "" };
    const struct dirent *entry;
    hth_talk talk;
    DIR *directory;

    begin(&talk, "one");
    assert_ok(hth_talk_save_as(&talk, "first", "m", &err), err); /* makes the folder */
    hth_talk_deinit(&talk);
    for (int i = 0; i < 1200; i++) {
        int fd;

        (void)snprintf(path, sizeof(path), "%s/%d.json", f->folder, i);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        (void)close(fd);
    }
    directory = opendir(f->folder);
    assert_non_null(directory);
    while ((entry = readdir(directory)))
        if (*entry->d_name != '.')
            (void)snprintf(last, sizeof(last), "%s", entry->d_name);
    (void)closedir(directory);
    (void)snprintf(path, sizeof(path), "%s/%s", f->folder, last);
    assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    *strrchr(last, '.') = '\0';
    assert_true(hth_talk_newest(newest));
    assert_string_equal(newest, last);
}

FIXTURE_TEST(a_name_has_no_control_characters)
{
    char path[PATH_MAX];
    hearth_error err = { .message = "" };

    (void)f;
    assert_true(hth_talk_path("na\xc3\xafve fox", path, &err));
    assert_false(hth_talk_path("a\033[2J", path, &err));
    assert_false(hth_talk_path("a\xc2\x9bz", path, &err));
    assert_false(hth_talk_path("a/b", path, &err));
    assert_false(hth_talk_path(".a", path, &err));
}
