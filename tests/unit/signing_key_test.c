/*
 * signing_key_test.c - which files are signing keys, and who may see them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rows/signing_key.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static char *directory;
static char path[4096];

static int set_up(void **state)
{
    (void)state;
    directory = hth_test_directory_new();
    (void)snprintf(path, sizeof(path), "%s/key", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hth_test_directory_remove(directory);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(void, no_fixture, name, set_up, tear_down)

static void write_key(const void *bytes, size_t n_bytes, mode_t mode)
{
    FILE *file;

    (void)unlink(path);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* What the key makes of one fixed message. */
static void mac_of(const hth_signing_key *key, uint8_t out[HTH_HMAC_BYTES])
{
    hth_hmac *mac = hth_hmac_new(key);

    assert_non_null(mac);
    hth_hmac_update(mac, "message", 7);
    hth_hmac_final(mac, out);
    hth_hmac_free(mac);
}

/* The file is a key, and the one of these bytes. */
static void assert_key_is(const void *bytes, size_t n_bytes)
{
    uint8_t expected[HTH_HMAC_BYTES], got[HTH_HMAC_BYTES];
    hth_signing_key *made = hth_hmac_key_new(bytes, n_bytes), *loaded;
    hearth_error err = { .message = "" };

    assert_non_null(made);
    assert_ok(hth_signing_key_load(NULL, path, &loaded, &err), err);
    mac_of(made, expected);
    mac_of(loaded, got);
    assert_true(hth_hmac_equal(expected, got));
    hth_signing_key_free(made);
    hth_signing_key_free(loaded);
}

static void assert_refused(hearth_status expected, const char *said)
{
    hearth_error err = { .message = "" };
    hth_signing_key *key = NULL;

    assert_int_equal(hth_signing_key_load(NULL, path, &key, &err), expected);
    assert_null(key);
    if (!strstr(err.message, said) || !strstr(err.message, path))
        fail_msg("the message is: %s", err.message);
}

static const char digits[] = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

FIXTURE_TEST(sixty_four_hex_digits_stand_for_32_bytes)
{
    static const char *const ends[] = { "", "\n", "\r\n", " \n\n" };
    uint8_t bytes[32];
    char text[80];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s%s", digits, ends[i]);
        write_key(text, strlen(text), 0600);
        assert_key_is(bytes, sizeof(bytes));
    }
}

FIXTURE_TEST(anything_else_is_taken_as_it_is)
{
    uint8_t bytes[HTH_SIGNING_KEY_FILE_BYTES_MAX];
    char text[80];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + 3);
    bytes[31] = '\n'; /* an end of the file like that of a text */
    write_key(bytes, 32, 0600);
    assert_key_is(bytes, 32);
    write_key(bytes, sizeof(bytes), 0400);
    assert_key_is(bytes, sizeof(bytes));

    (void)snprintf(text, sizeof(text), "%s1", digits); /* a digit too many */
    write_key(text, strlen(text), 0600);
    assert_key_is(text, strlen(text));
    (void)snprintf(text, sizeof(text), "%s", digits);
    text[10] = 'g';
    write_key(text, strlen(text), 0600);
    assert_key_is(text, strlen(text));
}

FIXTURE_TEST(a_key_that_others_can_read_or_write_is_refused)
{
    static const mode_t modes[] = { 0640, 0620, 0604, 0602, 0666 };

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        write_key(digits, 64, modes[i]);
        assert_refused(HEARTH_PERMISSION, "chmod 600");
    }
}

FIXTURE_TEST(what_is_no_regular_file_is_refused)
{
    (void)unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused(HEARTH_PERMISSION, "no regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(HEARTH_PERMISSION, "no regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_refused(HEARTH_PERMISSION, "symbolic link");
}

FIXTURE_TEST(a_key_of_too_few_or_too_many_bytes_is_refused)
{
    uint8_t bytes[HTH_SIGNING_KEY_FILE_BYTES_MAX + 1] = { 0 };

    write_key(bytes, 0, 0600);
    assert_refused(HEARTH_CORRUPT, "needs 32");
    write_key(bytes, 31, 0600);
    assert_refused(HEARTH_CORRUPT, "needs 32");
    write_key(bytes, sizeof(bytes), 0600);
    assert_refused(HEARTH_CORRUPT, "may have 4096");
}

FIXTURE_TEST(a_key_that_is_not_there_is_not_found)
{
    assert_refused(HEARTH_NOT_FOUND, "cannot open");
    hth_signing_key_free(NULL);
}
