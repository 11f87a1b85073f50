/*
 * kvc_signature_test.c - a signed row is the one that a holder of the key wrote, or it is refused
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/bytes.h"
#include "base/hex.h"
#include "rows/kvc_signature.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static const uint8_t key_bytes[32] = { 9, 8, 7, 6, 5 };
static const uint8_t image[] = "what the engine computed";
static const uint8_t tokens[] = { 1, 0, 0, 0, 2, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF };

typedef struct kvc_file {
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_head;
} kvc_file;

static hth_signing_key *key;

static int set_up(void **state)
{
    (void)state;
    key = hth_hmac_key_new(key_bytes, sizeof(key_bytes));
    return key ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    hth_signing_key_free(key);
    return 0;
}

static kvc_file file_new(bool with_room)
{
    hth_kvc_info info = {
        .save_reason = HEARTH_SAVE_COLD,
        .cached_token_count = 3,
        .hit_count = 5,
        .creation_time = 1700000000,
        .last_used_time = 1700000100,
        .keyspace = { .fingerprint = { 1, 2, 3 }, .quant_byte = 7, .ctx_params_hash = { 4, 5, 6 } },
        .tokens = { .data = tokens, .n = sizeof(tokens) },
        .has_kind = true,
        .kind = HTH_ROW_TAIL,
        .has_own_key = true,
        .hmac = with_room ? hth_kvc_signature_room() : (hth_kvc_bytes){ .data = NULL },
        .has_head_crc = true,
    };
    kvc_file made = { .bytes = NULL };

    assert_true(hth_key_of_bytes(&info.keyspace, tokens, sizeof(tokens), &info.own_key));
    made.n_head = hth_kvc_head_bytes(&info);
    made.n_bytes = made.n_head + sizeof(image);
    made.bytes = malloc(made.n_bytes);
    assert_non_null(made.bytes);
    hth_kvc_encode_head(&info, sizeof(image), hth_crc32c(0, image, sizeof(image)), made.bytes);
    memcpy(made.bytes + made.n_head, image, sizeof(image));
    return made;
}

static kvc_file signed_file(void)
{
    kvc_file made = file_new(true);

    assert_true(hth_kvc_sign(made.bytes, made.n_bytes, key));
    return made;
}

/* HTH_KVC_OK when the file is sound and signed with that key, else why not. */
static hth_kvc_reason verdict(const kvc_file *file, const hth_signing_key *with)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    if (hth_kvc_parse(file->bytes, file->n_bytes, NULL, &info, &fault))
        (void)hth_kvc_verify_signature(file->bytes, file->n_bytes, &info, with, &fault);
    return fault.reason;
}

TEST(a_signed_row_verifies_with_its_key_and_reads_without_one)
{
    kvc_file file = signed_file();
    hth_kvc_fault fault;
    hth_kvc_info info;

    assert_true(hth_kvc_parse(file.bytes, file.n_bytes, NULL, &info, &fault));
    assert_int_equal(info.hmac.n, HTH_HMAC_BYTES);
    assert_int_equal(verdict(&file, key), HTH_KVC_OK);
    free(file.bytes);
}

/*
 * The file was also built from docs/format.md by an independent program; the expected value is what
 *   openssl dgst -sha256 -mac HMAC -macopt hexkey:0908070605000...000 FILE
 * says of that, with zeros for hit count, last-used time and the value of the HMAC.
 */
TEST(the_signature_is_the_hmac_of_the_file_with_zeros_for_what_may_change)
{
    kvc_file file = signed_file();
    char hex[2 * HTH_HMAC_BYTES + 1];

    hth_hex_encode(file.bytes + file.n_head - 9 - HTH_HMAC_BYTES, HTH_HMAC_BYTES, hex);
    assert_string_equal(hex, "51cbf2f50231aac0bb7c9483f8ebdc1b8687e33d5f4c1df560cd46f89ef2a400");
    free(file.bytes);
}

TEST(signing_in_pieces_and_signing_again_give_the_same_bytes)
{
    kvc_file whole = signed_file(), pieces = file_new(true);
    hth_hmac *signing = hth_kvc_sign_begin(pieces.bytes, pieces.n_head, key);

    assert_non_null(signing);
    for (size_t i = pieces.n_head; i < pieces.n_bytes; i++)
        hth_hmac_update(signing, pieces.bytes + i, 1);
    hth_kvc_sign_end(signing, pieces.bytes, pieces.n_head);
    assert_memory_equal(pieces.bytes, whole.bytes, whole.n_bytes);
    assert_true(hth_kvc_sign(pieces.bytes, pieces.n_bytes, key));
    assert_memory_equal(pieces.bytes, whole.bytes, whole.n_bytes);
    free(whole.bytes);
    free(pieces.bytes);
}

/* Files of others may have their records in any order, or say anything about where they are. */
TEST(an_image_that_is_laid_out_in_another_way_is_not_signed_and_unchanged)
{
    kvc_file file = file_new(true), other = file_new(false);
    uint8_t *copy = malloc(file.n_bytes);
    size_t n_records = 2 * 5 + HTH_HMAC_BYTES + 4; /* the HMAC's and the checksum's: swap them */
    uint8_t *records = file.bytes + file.n_head - n_records;

    assert_non_null(copy);
    memcpy(copy, records, n_records);
    memcpy(records, copy + 5 + HTH_HMAC_BYTES, 5 + 4);
    memcpy(records + 5 + 4, copy, 5 + HTH_HMAC_BYTES);
    memcpy(copy, file.bytes, file.n_bytes);
    assert_false(hth_kvc_sign(file.bytes, file.n_bytes, key));
    assert_null(hth_kvc_sign_begin(file.bytes, file.n_head, key));
    assert_memory_equal(file.bytes, copy, file.n_bytes);
    assert_false(hth_kvc_sign(other.bytes, other.n_bytes, key)); /* no room */
    for (uint64_t n_head = 0; n_head <= file.n_bytes + 1; n_head++) {
        hth_put_u64(file.bytes + HTH_KVC_HEADER_BYTES, n_head);
        assert_false(hth_kvc_sign(file.bytes, file.n_bytes, key));
    }
    for (size_t n = 0; n < file.n_head; n++) {
        uint8_t *cut = malloc(n + 1); /* so that a sanitizer sees a read beyond it */

        assert_non_null(cut);
        memcpy(cut + 1, copy, n);
        assert_false(hth_kvc_sign(cut + 1, n, key));
        free(cut);
    }
    free(copy);
    free(file.bytes);
    free(other.bytes);
}

TEST(another_key_is_told_from_a_missing_signature)
{
    static const uint8_t other_bytes[32] = { 9, 8, 7, 6, 4 };
    hth_signing_key *other = hth_hmac_key_new(other_bytes, sizeof(other_bytes));
    kvc_file file = signed_file(), unsigned_file = file_new(false), unfilled = file_new(true);

    assert_non_null(other);
    assert_int_equal(verdict(&file, other), HTH_KVC_BAD_SIGNATURE);
    assert_int_equal(verdict(&unsigned_file, key), HTH_KVC_UNSIGNED);
    assert_int_equal(verdict(&unfilled, key), HTH_KVC_BAD_SIGNATURE);
    assert_string_equal(hth_kvc_reason_name(HTH_KVC_BAD_SIGNATURE), "bad_signature");
    assert_string_equal(hth_kvc_reason_name(HTH_KVC_UNSIGNED), "unsigned");
    hth_signing_key_free(other);
    free(file.bytes);
    free(unsigned_file.bytes);
    free(unfilled.bytes);
}

TEST(uses_noted_in_place_leave_the_signature_right)
{
    kvc_file file = signed_file();

    hth_put_u32(file.bytes + HTH_KVC_HIT_COUNT_OFFSET, UINT32_MAX);
    hth_put_u64(file.bytes + HTH_KVC_LAST_USED_OFFSET, UINT64_MAX);
    assert_int_equal(verdict(&file, key), HTH_KVC_OK);
    free(file.bytes);
}

static bool may_change(size_t offset)
{
    return (offset >= HTH_KVC_HIT_COUNT_OFFSET && offset < HTH_KVC_HIT_COUNT_OFFSET + 4) ||
           (offset >= HTH_KVC_LAST_USED_OFFSET && offset < HTH_KVC_LAST_USED_OFFSET + 8);
}

TEST(any_changed_bit_is_found)
{
    kvc_file file = signed_file();

    for (size_t bit = 0; bit < 8 * file.n_bytes; bit++) {
        hth_kvc_reason reason;

        file.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        reason = verdict(&file, key);
        if ((reason == HTH_KVC_OK) != may_change(bit / 8))
            fail_msg("bit %zu of byte %zu: %s", bit % 8, bit / 8, hth_kvc_reason_name(reason));
        file.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(file.bytes);
}

/* Write the checksums of a forged head and image anew, as somebody could who has no key. */
static void repair_checksums(kvc_file *file)
{
    uint8_t *crc = file->bytes + file->n_head - 4, *value = crc - 5 - HTH_HMAC_BYTES;
    uint8_t *copy = malloc(file->n_head);

    assert_non_null(copy);
    hth_put_u32(file->bytes + 64, hth_crc32c(0, file->bytes + file->n_head, file->n_bytes - file->n_head));
    memcpy(copy, file->bytes, file->n_head);
    memset(copy + HTH_KVC_HIT_COUNT_OFFSET, 0, 4);
    memset(copy + HTH_KVC_LAST_USED_OFFSET, 0, 8);
    memset(copy + (value - file->bytes), 0, HTH_HMAC_BYTES);
    memset(copy + (crc - file->bytes), 0, 4);
    hth_put_u32(crc, hth_crc32c(0, copy, file->n_head));
    free(copy);
}

TEST(changes_that_every_checksum_was_fitted_to_are_found)
{
    uint64_t random = hth_test_seed();
    kvc_file file = signed_file();
    uint8_t *original = malloc(file.n_bytes);
    size_t n_sound = 0;

    assert_non_null(original);
    memcpy(original, file.bytes, file.n_bytes);
    for (int i = 0; i < 20000; i++) {
        size_t n_flips = 1 + hth_test_random(&random, 3);
        hth_kvc_fault fault;
        hth_kvc_info info;
        bool changed = false;

        for (size_t j = 0; j < n_flips; j++) {
            size_t at = hth_test_random(&random, file.n_bytes);

            file.bytes[at] ^= (uint8_t)(1 + hth_test_random(&random, 255));
        }
        repair_checksums(&file);
        for (size_t at = 0; at < file.n_bytes; at++)
            changed = changed || (file.bytes[at] != original[at] && !may_change(at));
        if (hth_kvc_parse(file.bytes, file.n_bytes, NULL, &info, &fault)) {
            n_sound += changed;
            if ((verdict(&file, key) == HTH_KVC_OK) == changed)
                fail_msg("round %d", i);
        }
        memcpy(file.bytes, original, file.n_bytes);
    }
    assert_true(n_sound > 1000); /* the checksums alone did not find them */
    free(original);
    free(file.bytes);
}

static void write_file(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

/* Run `hearth kvc inspect` with these arguments; its exit code, and what it printed on both streams. */
static int inspect(const char *directory, const char *arguments, char *output, size_t capacity)
{
    char command[8192];
    size_t n;
    FILE *pipe;

    (void)snprintf(command, sizeof(command), "cd '%s' && '%s' kvc inspect %s 2>&1", directory, HTH_TEST_HEARTH,
                   arguments);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    n = fread(output, 1, capacity - 1, pipe);
    output[n] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

TEST(the_command_shows_and_checks_signatures)
{
    static const struct {
        const char *arguments;
        int exit_code;
        const char *said;
    } cases[] = {
        { "signed", 0, "there, not checked" },
        { "unsigned", 0, "none" },
        { "--json signed", 0, "\"signature\":\"not_checked\"" },
        { "--json unsigned", 0, "\"signature\":\"none\"" },
        { "--signing-key key signed", 0, "verifies" },
        { "--json --signing-key key signed", 0, "\"signature\":\"verified\"" },
        { "--signing-key key unsigned", 1, "is not signed" },
        { "--json --signing-key key unsigned", 1, "\"reason\":\"unsigned\"" },
        { "--signing-key other signed", 1, "another key" },
        { "--json --signing-key other signed", 1, "\"signature\":\"bad\"" },
        { "--signing-key nothing signed", 1, "cannot open the signing key 'nothing'" },
        { "--signing-key key signed unsigned", 1, "is not signed" },
    };
    static const uint8_t other_bytes[32] = { 1 };
    kvc_file file = signed_file(), unsigned_file = file_new(false);
    char *directory = hth_test_directory_new();
    char path[4096], output[16384];

    (void)snprintf(path, sizeof(path), "%s/signed", directory);
    write_file(path, file.bytes, file.n_bytes);
    (void)snprintf(path, sizeof(path), "%s/unsigned", directory);
    write_file(path, unsigned_file.bytes, unsigned_file.n_bytes);
    (void)snprintf(path, sizeof(path), "%s/key", directory);
    write_file(path, key_bytes, sizeof(key_bytes));
    (void)snprintf(path, sizeof(path), "%s/other", directory);
    write_file(path, other_bytes, sizeof(other_bytes));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int exit_code = inspect(directory, cases[i].arguments, output, sizeof(output));

        if (exit_code != cases[i].exit_code || !strstr(output, cases[i].said))
            fail_msg("%s: exit code %d, %s", cases[i].arguments, exit_code, output);
    }
    hth_test_directory_remove(directory);
    free(file.bytes);
    free(unsigned_file.bytes);
}

GROUP(with_a_key, set_up, tear_down)
