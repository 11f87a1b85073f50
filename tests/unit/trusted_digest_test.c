/*
 * trusted_digest_test.c - a digest that came with a file counts if nobody else could write it and it is younger
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/os.h"
#include "models/trusted_digest.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define HEX "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

typedef struct fixture {
    char *directory;
    char model[600];
    char digest[600];
    char warning[1200]; /* the latest */
    hth_log log;
} fixture;

static void keep_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source;
    if (level == HEARTH_LOG_WARNING)
        (void)snprintf(f->warning, sizeof(f->warning), "%s", message);
}

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->model, sizeof(f->model), "%s/m.gguf", f->directory);
    (void)snprintf(f->digest, sizeof(f->digest), "%s/m.gguf.sha256", f->directory);
    f->log = (hth_log){ .level = HEARTH_LOG_DEBUG, .write = keep_warning, .user_data = f };
}

static void tear_down(fixture *f)
{
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void set_mtime(const char *path, time_t seconds)
{
    const struct timespec times[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static uint64_t ctime_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return hth_os_ctime_ns(&st);
}

/* Until the clock of the file system has gone on. */
static void touch_after(const char *path, const char *older)
{
    do {
        usleep(1000);
        assert_int_equal(utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW), 0);
    } while (ctime_of(path) <= ctime_of(older));
}

static bool is_trusted(fixture *f, const char *path)
{
    uint8_t out[HTH_SHA256_BYTES], expected[HTH_SHA256_BYTES];
    struct stat st;
    bool is;

    f->warning[0] = '\0';
    assert_int_equal(stat(path, &st), 0);
    is = hth_trusted_digest(path, &st, &f->log, out);
    if (is) {
        assert_true(hth_hex_decode(HEX, expected, sizeof(expected)));
        assert_memory_equal(out, expected, sizeof(out));
    }
    return is;
}

static bool is_line_trusted(fixture *f, const char *line)
{
    write_file(f->model, "model");
    write_file(f->digest, line);
    touch_after(f->digest, f->model);
    return is_trusted(f, f->model);
}

static void assert_warned(const fixture *f, const char *cause)
{
    if (!strstr(f->warning, cause))
        fail_msg("'%s' does not contain '%s'", f->warning, cause);
}

FIXTURE_TEST(a_line_of_sha256sum_for_this_file_or_for_none_is_a_digest)
{
    static const char *const lines[] = {
        HEX, HEX "\n", HEX "\r\n", HEX "  m.gguf\n", HEX " *m.gguf", HEX "  a/m.gguf"
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_true(is_line_trusted(f, lines[i]));
        assert_string_equal(f->warning, "");
    }
}

FIXTURE_TEST(any_other_text_is_none)
{
    static const char *const lines[] = { "",
                                         "\n",
                                         "0123",
                                         HEX "0",
                                         HEX " m.gguf",
                                         "x" HEX,
                                         HEX "  m.gguf\n" HEX "  n.gguf\n",
                                         "g0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff  m.gguf" };
    char *long_line = malloc(1 << 20);

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_false(is_line_trusted(f, lines[i]));
        assert_warned(f, "is no line of sha256sum");
    }
    memset(long_line, 'a', (1 << 20) - 1);
    long_line[(1 << 20) - 1] = '\0';
    assert_false(is_line_trusted(f, long_line));
    free(long_line);
    assert_false(is_line_trusted(f, HEX "  n.gguf"));
    assert_warned(f, "is that of a file with another name");
}

FIXTURE_TEST(a_file_without_a_digest_is_hashed_without_a_warning)
{
    write_file(f->model, "model");
    assert_false(is_trusted(f, f->model));
    assert_string_equal(f->warning, "");
}

FIXTURE_TEST(a_digest_that_others_may_write_does_not_count)
{
    assert_true(is_line_trusted(f, HEX));
    for (mode_t right = 020; right >= 02; right /= 8) {
        assert_int_equal(chmod(f->digest, 0600 | right), 0);
        assert_false(is_trusted(f, f->model));
        assert_warned(f, "may be written by other users");
    }
    assert_int_equal(chmod(f->digest, 0600), 0);
    if (geteuid() == 0) { /* only root can give a file away */
        assert_int_equal(chown(f->digest, 12345, 12345), 0);
        assert_false(is_trusted(f, f->model));
        assert_warned(f, "belongs to another user");
    }
}

FIXTURE_TEST(a_digest_that_is_no_file_does_not_count)
{
    char other[700];

    (void)snprintf(other, sizeof(other), "%s/other", f->directory);
    write_file(f->model, "model");
    write_file(other, HEX);
    assert_int_equal(symlink(other, f->digest), 0);
    assert_false(is_trusted(f, f->model));
    assert_warned(f, "is a link");
    assert_int_equal(unlink(f->digest), 0);
    assert_int_equal(mkfifo(f->digest, 0600), 0);
    assert_false(is_trusted(f, f->model));
    assert_warned(f, "is no regular file");
}

FIXTURE_TEST(a_digest_that_was_written_before_the_file_is_that_of_an_older_one)
{
    assert_true(is_line_trusted(f, HEX));
    set_mtime(f->digest, 1000);
    set_mtime(f->model, 2000);
    assert_false(is_trusted(f, f->model));
    assert_warned(f, "is older than the file");
}

/* mv keeps the time at which a file was written, so an older file may take the place of the one with the digest. */
FIXTURE_TEST(a_digest_that_was_there_before_the_file_is_that_of_another_one)
{
    assert_true(is_line_trusted(f, HEX));
    touch_after(f->model, f->digest);
    set_mtime(f->model, 1000);
    assert_false(is_trusted(f, f->model));
    assert_warned(f, "is older than the file");
}

/* Two names of one file have the same times. */
FIXTURE_TEST(a_digest_that_is_as_old_as_the_file_does_not_count)
{
    write_file(f->model, HEX);
    assert_int_equal(link(f->model, f->digest), 0);
    assert_false(is_trusted(f, f->model));
    assert_warned(f, "is older than the file");
}

/* Who may write to it can put another file there that has the right owner. */
FIXTURE_TEST(a_digest_in_a_folder_of_others_does_not_count)
{
    assert_true(is_line_trusted(f, HEX));
    for (mode_t right = 020; right >= 02; right /= 8) {
        assert_int_equal(chmod(f->directory, 0700 | right), 0);
        assert_false(is_trusted(f, f->model));
        assert_warned(f, "/.' may be written by other users");
    }
    assert_int_equal(chmod(f->directory, 0700), 0);
    if (geteuid() == 0) { /* only root can give a folder away */
        assert_int_equal(chown(f->directory, 12345, 12345), 0);
        assert_false(is_trusted(f, f->model));
        assert_warned(f, "/.' belongs to another user");
    }
}

/* The file behind a link is as old as it was, and the link is new. */
FIXTURE_TEST(a_link_that_was_set_after_the_digest_leads_to_another_file)
{
    char other[700];

    (void)snprintf(other, sizeof(other), "%s/other", f->directory);
    write_file(other, "another model");
    set_mtime(other, 1000);
    write_file(f->digest, HEX);
    set_mtime(f->digest, 2000);
    assert_int_equal(symlink(other, f->model), 0); /* its time is that of today */
    assert_false(is_trusted(f, f->model));
    assert_warned(f, "is older than the file");
}

/* A blob in the cache of a hub, and a younger link to it. */
static void make_blob(const fixture *f, char path[700], char link_path[700])
{
    (void)snprintf(path, 700, "%s/models--a--b", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, 700, "%s/models--a--b/snapshots", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, 700, "%s/models--a--b/blobs", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, 700, "%s/models--a--b/blobs/" HEX, f->directory);
    write_file(path, "model");
    (void)snprintf(link_path, 700, "%s/models--a--b/snapshots/m.gguf", f->directory);
    assert_int_equal(symlink("../blobs/" HEX, link_path), 0);
    touch_after(link_path, path);
}

FIXTURE_TEST(the_name_of_a_blob_behind_a_link_is_a_digest)
{
    char path[700], link_path[700];

    make_blob(f, path, link_path);
    assert_true(is_trusted(f, link_path));
    assert_false(is_trusted(f, path));
    assert_warned(f, "is no link");
    assert_int_equal(chmod(path, 0660), 0);
    assert_false(is_trusted(f, link_path));
    assert_warned(f, "may be written by other users");
}

FIXTURE_TEST(the_name_of_a_blob_that_changed_after_its_link_was_set_is_a_name)
{
    char path[700], link_path[700];

    make_blob(f, path, link_path);
    write_file(path, "another model");
    assert_false(is_trusted(f, link_path));
    assert_warned(f, "is older than the file");
    set_mtime(path, 1000); /* nobody can set the time of change */
    assert_false(is_trusted(f, link_path));
}

FIXTURE_TEST(the_name_of_a_blob_in_a_folder_of_others_is_a_name)
{
    char path[700], link_path[700], folder[700];

    make_blob(f, path, link_path);
    (void)snprintf(folder, sizeof(folder), "%s/models--a--b/blobs", f->directory);
    assert_int_equal(chmod(folder, 0770), 0);
    assert_false(is_trusted(f, link_path));
    assert_warned(f, "/blobs' may be written by other users");
}

FIXTURE_TEST(the_name_of_a_blob_of_ollama_behind_a_link_is_a_digest)
{
    char path[700];

    (void)snprintf(path, sizeof(path), "%s/blobs", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/blobs/sha256-" HEX, f->directory);
    write_file(path, "model");
    assert_false(is_trusted(f, path));
    assert_int_equal(symlink(path, f->model), 0);
    touch_after(f->model, path);
    assert_true(is_trusted(f, f->model));
}

FIXTURE_TEST(such_a_name_elsewhere_is_a_name)
{
    char path[700];

    (void)snprintf(path, sizeof(path), "%s/sha256-" HEX, f->directory);
    write_file(path, "model");
    assert_false(is_trusted(f, path));

    (void)snprintf(path, sizeof(path), "%s/" HEX, f->directory);
    write_file(path, "model");
    assert_false(is_trusted(f, path));
    (void)snprintf(path, sizeof(path), "%s/blobs", f->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/blobs/" HEX, f->directory);
    write_file(path, "model");
    assert_false(is_trusted(f, path));
    assert_string_equal(f->warning, "");
}
