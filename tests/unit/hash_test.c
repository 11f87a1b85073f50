/*
 * hash_test.c - SHA-256, CRC32C and hex against published values and against plain code
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "support/cmocka_all.h"

static void assert_digest(const uint8_t digest[HTH_SHA256_BYTES], const char *hex)
{
    char text[2 * HTH_SHA256_BYTES + 1];

    hth_hex_encode(digest, HTH_SHA256_BYTES, text);
    assert_string_equal(text, hex);
}

/* FIPS 180-4 examples. */
static const char sha_of_nothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char sha_of_abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char sha_of_million_a[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(a_digest_is_the_published_one)
{
    uint8_t digest[HTH_SHA256_BYTES];

    hth_sha256_of("", 0, digest);
    assert_digest(digest, sha_of_nothing);
    hth_sha256_of("abc", 3, digest);
    assert_digest(digest, sha_of_abc);
}

TEST(a_stream_fed_in_pieces_gives_the_digest_of_the_whole)
{
    hth_sha256 *sha = hth_sha256_new();
    uint8_t digest[HTH_SHA256_BYTES];
    char piece[1009];
    size_t n_left = 1000000;

    assert_non_null(sha);
    memset(piece, 'a', sizeof(piece));
    while (n_left > 0) {
        size_t n = n_left < sizeof(piece) ? n_left : sizeof(piece);

        hth_sha256_update(sha, piece, n);
        n_left -= n;
    }
    hth_sha256_peek(sha, digest);
    assert_digest(digest, sha_of_million_a);
    hth_sha256_free(sha);
}

TEST(a_peek_leaves_the_stream_as_it_was)
{
    hth_sha256 *sha = hth_sha256_new();
    uint8_t digest[HTH_SHA256_BYTES];

    assert_non_null(sha);
    hth_sha256_peek(sha, digest);
    assert_digest(digest, sha_of_nothing);
    hth_sha256_update(sha, "a", 1);
    hth_sha256_peek(sha, digest);
    hth_sha256_peek(sha, digest);
    hth_sha256_update(sha, "bc", 2);
    hth_sha256_peek(sha, digest);
    assert_digest(digest, sha_of_abc);
    hth_sha256_free(sha);
}

TEST(a_reset_forgets_everything)
{
    hth_sha256 *sha = hth_sha256_new();
    uint8_t digest[HTH_SHA256_BYTES];

    assert_non_null(sha);
    hth_sha256_update(sha, "something else", 14);
    hth_sha256_reset(sha);
    hth_sha256_update(sha, "abc", 3);
    hth_sha256_peek(sha, digest);
    assert_digest(digest, sha_of_abc);
    hth_sha256_free(sha);
}

TEST(a_copied_stream_goes_its_own_way)
{
    hth_sha256 *first = hth_sha256_new(), *second = hth_sha256_new();
    uint8_t digest[HTH_SHA256_BYTES];

    assert_non_null(first);
    assert_non_null(second);
    hth_sha256_update(first, "ab", 2);
    hth_sha256_update(second, "to be overwritten", 17);
    hth_sha256_copy(second, first);
    hth_sha256_update(first, "and more", 8);
    hth_sha256_update(second, "c", 1);
    hth_sha256_peek(second, digest);
    assert_digest(digest, sha_of_abc);
    hth_sha256_free(first);
    hth_sha256_free(second);
    hth_sha256_free(NULL);
}

/* Bit by bit, as the polynomial defines it. */
static uint32_t plain_crc32c(const uint8_t *bytes, size_t n_bytes)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n_bytes; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ UINT32_C(0x82F63B78) : crc >> 1;
    }
    return ~crc;
}

TEST(a_crc_is_the_published_one)
{
    assert_int_equal(hth_crc32c(0, "", 0), 0);
    assert_int_equal(hth_crc32c(0, "123456789", 9), UINT32_C(0xE3069283));
}

TEST(a_crc_agrees_with_the_definition_at_every_length_and_alignment)
{
    uint8_t bytes[700];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 167 + i / 256);
    for (size_t begin = 0; begin < 17; begin++)
        for (size_t n = 0; n < sizeof(bytes) - 17; n += 1 + n / 100)
            assert_int_equal(hth_crc32c(0, bytes + begin, n), plain_crc32c(bytes + begin, n));
}

TEST(a_crc_taken_in_two_pieces_is_that_of_the_whole)
{
    uint8_t bytes[300];
    uint32_t whole;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 31 + 7);
    whole = hth_crc32c(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut++)
        assert_int_equal(hth_crc32c(hth_crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut), whole);
}

TEST(hex_is_written_in_lower_case)
{
    char text[9] = "xxxxxxxx";

    hth_hex_encode((const uint8_t[]){ 0x00, 0x9a, 0xbc, 0xff }, 4, text);
    assert_string_equal(text, "009abcff");
    hth_hex_encode(NULL, 0, text);
    assert_string_equal(text, "");
}

TEST(hex_is_read_in_either_case)
{
    const uint8_t expected[] = { 0x00, 0x9a, 0xbc, 0xff };
    uint8_t bytes[4];

    assert_true(hth_hex_decode("009abcff", bytes, 4));
    assert_memory_equal(bytes, expected, 4);
    memset(bytes, 0x55, sizeof(bytes));
    assert_true(hth_hex_decode("009ABcFF", bytes, 4));
    assert_memory_equal(bytes, expected, 4);
    assert_true(hth_hex_decode("", bytes, 0));
}

TEST(the_first_digits_of_hex_are_read_and_zeros_follow)
{
    uint8_t bytes[4] = { 1, 2, 3, 4 };

    assert_int_equal(hth_hex_decode_first("", bytes, 4), 0);
    assert_int_equal(hth_hex_decode_first("12g", bytes, 4), 0);
    assert_int_equal(hth_hex_decode_first("123456789", bytes, 4), 0);
    assert_memory_equal(bytes, ((uint8_t[]){ 1, 2, 3, 4 }), 4);
    assert_int_equal(hth_hex_decode_first("9aB", bytes, 4), 3);
    assert_memory_equal(bytes, ((uint8_t[]){ 0x9a, 0xb0, 0, 0 }), 4);
    assert_int_equal(hth_hex_decode_first("009abcff", bytes, 4), 8);
    assert_memory_equal(bytes, ((uint8_t[]){ 0, 0x9a, 0xbc, 0xff }), 4);
}

TEST(hex_of_another_length_or_with_other_characters_is_refused_and_writes_nothing)
{
    static const char *const wrong[] = { "",         "0",        "0011223",  "00112233 ", "001122334",
                                         "0011223g", "0x112233", "-0112233", "00 12233",  "0011223:",
                                         "0011223@", "0011223`", "0011223/", "0011223G" };
    uint8_t bytes[4] = { 1, 2, 3, 4 };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(hth_hex_decode(wrong[i], bytes, 4));
        assert_memory_equal(bytes, ((uint8_t[]){ 1, 2, 3, 4 }), 4);
    }
}

TEST(the_id_of_a_git_blob_is_that_of_git)
{
    uint8_t id[HTH_GIT_ID_BYTES];
    char text[2 * HTH_GIT_ID_BYTES + 1];

    hth_git_blob_id("hello\n", 6, id);
    hth_hex_encode(id, sizeof(id), text);
    assert_string_equal(text, "ce013625030ba8dba906f756967f9e9ca394464a");
}
