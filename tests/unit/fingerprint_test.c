/*
 * fingerprint_test.c - equal files are equal, changed ones are not, and large ones are hashed once
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "models/fingerprint.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static char *directory;

static int set_up(void **state)
{
    (void)state;
    directory = hth_test_directory_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hth_test_directory_remove(directory);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(void, no_fixture, name, set_up, tear_down)

static char *file_of(const char *name, size_t n_bytes, uint64_t seed)
{
    char *path = malloc(4096);
    uint8_t *bytes = malloc(n_bytes);
    FILE *file;

    (void)snprintf(path, 4096, "%s/%s", directory, name);
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)hth_test_random(&seed, 256);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
    free(bytes);
    return path;
}

static void change_byte(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

static void fingerprint(const char *path, hearth_fingerprint_mode mode, uint8_t out[32])
{
    hth_fingerprint found;

    assert_int_equal(hth_fingerprint_file(path, &(hth_fingerprint_options){ .mode = mode }, &found, NULL), HEARTH_OK);
    memcpy(out, found.bytes, sizeof(found.bytes));
}

FIXTURE_TEST(safe_mode_is_the_sha256_of_every_byte)
{
    char *path = file_of("a", 3000000, 1);
    uint8_t before[32], after[32], expected[32];
    uint8_t *bytes = malloc(3000000);
    FILE *file = fopen(path, "r");

    assert_int_equal(fread(bytes, 1, 3000000, file), 3000000);
    (void)fclose(file);
    hth_sha256_of(bytes, 3000000, expected);
    fingerprint(path, HEARTH_FINGERPRINT_SAFE, before);
    assert_memory_equal(before, expected, 32);
    change_byte(path, 1234567);
    fingerprint(path, HEARTH_FINGERPRINT_SAFE, after);
    assert_memory_not_equal(before, after, 32);
    free(bytes);
    free(path);
}

FIXTURE_TEST(chunked_mode_sees_the_header_the_size_and_the_end)
{
    char *path = file_of("a", 30 << 20, 2);
    uint8_t before[32], after[32], twin[32];

    fingerprint(path, HEARTH_FINGERPRINT_GGUF_CHUNKED, before);
    char *copy = file_of("b", 30 << 20, 2);
    fingerprint(copy, HEARTH_FINGERPRINT_GGUF_CHUNKED, twin);
    assert_memory_equal(before, twin, 32);
    change_byte(path, 1000);
    fingerprint(path, HEARTH_FINGERPRINT_GGUF_CHUNKED, after);
    assert_memory_not_equal(before, after, 32);
    change_byte(path, 1000);
    change_byte(path, (30 << 20) - 1);
    fingerprint(path, HEARTH_FINGERPRINT_GGUF_CHUNKED, after);
    assert_memory_not_equal(before, after, 32);
    assert_int_equal(truncate(copy, (30 << 20) - 1), 0);
    fingerprint(copy, HEARTH_FINGERPRINT_GGUF_CHUNKED, after);
    assert_memory_not_equal(twin, after, 32);
    free(path);
    free(copy);
}

FIXTURE_TEST(a_file_that_did_not_change_is_hashed_once)
{
    char *path = file_of("a", 100000, 3);
    char memo[4096];
    struct timespec pause = { .tv_sec = 3 };
    const hth_fingerprint_options options = { .mode = HEARTH_FINGERPRINT_SAFE, .memo_directory = memo };
    hth_fingerprint first, second;

    (void)snprintf(memo, sizeof(memo), "%s/memo", directory);
    nanosleep(&pause, NULL); /* files that changed just now are not noted */
    assert_int_equal(hth_fingerprint_file(path, &options, &first, NULL), HEARTH_OK);
    assert_false(first.is_from_memo);
    assert_int_equal(hth_fingerprint_file(path, &options, &second, NULL), HEARTH_OK);
    assert_true(second.is_from_memo);
    assert_memory_equal(first.bytes, second.bytes, 32);

    /* A change in place, with size and modification time put back, is seen. */
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    change_byte(path, 5);
    struct timespec times[2] = { st.st_atim, st.st_mtim };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(hth_fingerprint_file(path, &options, &second, NULL), HEARTH_OK);
    assert_false(second.is_from_memo);
    assert_memory_not_equal(first.bytes, second.bytes, 32);
    free(path);
}

FIXTURE_TEST(what_is_no_readable_file_is_refused)
{
    const hth_fingerprint_options options = { .mode = HEARTH_FINGERPRINT_SAFE };
    hth_fingerprint out;
    hearth_error err;

    assert_int_equal(hth_fingerprint_file("/nowhere/at/all", &options, &out, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    assert_int_equal(hth_fingerprint_file(directory, &options, &out, &err), HEARTH_CORRUPT);
}
