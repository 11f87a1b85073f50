/*
 * kvc_records_test.c - the records that make a file of the format a row of ours
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "rows/kvc.h"
#include "support/cmocka_all.h"

/* A row made for one test: info and its file. Deinit frees the file. */
typedef struct row {
    hth_kvc_info info;
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_head;
} row;

static const uint8_t row_tokens[] = { 1, 0, 0, 0, 2, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF };
static const uint8_t row_image[] = "the image of a row";

/* A block that starts at token 0 and has every record of ours but the HMAC. */
static hth_kvc_info first_block(void)
{
    hth_kvc_info info = {
        .quant_bits = 4,
        .save_reason = HEARTH_SAVE_COLD,
        .cached_token_count = 3,
        .hit_count = 5,
        .context_size = 4096,
        .creation_time = 1700000000,
        .last_used_time = 1700000100,
        .keyspace = { .fingerprint = { 1, 2, 3 }, .quant_byte = 7, .ctx_params_hash = { 4, 5, 6 } },
        .tokens = { .data = row_tokens, .n = sizeof(row_tokens) },
        .hostname = { .data = (const uint8_t *)"host", .n = 4 },
        .has_parent = true,
        .has_first_position = true,
        .has_kind = true,
        .kind = HTH_ROW_BLOCK,
        .has_own_key = true,
        .engine_build = { .data = (const uint8_t *)"engine 1", .n = 8 },
        .model = { .data = (const uint8_t *)"fox-7b", .n = 6 },
        .has_head_crc = true,
    };

    assert_true(hth_key_of(&info.keyspace, NULL, 0, &info.parent));
    assert_true(hth_key_of_bytes(&info.keyspace, row_tokens, sizeof(row_tokens), &info.own_key));
    return info;
}

/* A block in the middle of a prompt: nobody can compute its key from its own tokens. */
static hth_kvc_info middle_block(void)
{
    hth_kvc_info info = first_block();

    info.parent = (hth_key){ { 0x11, 0x22 } };
    info.own_key = (hth_key){ { 0x33, 0x44 } };
    info.first_position = 256;
    return info;
}

static row row_init(const hth_kvc_info *info)
{
    row made = { .info = *info, .n_head = hth_kvc_head_bytes(info) };

    made.n_bytes = made.n_head + sizeof(row_image);
    made.bytes = malloc(made.n_bytes);
    assert_non_null(made.bytes);
    hth_kvc_encode_head(info, sizeof(row_image), hth_crc32c(0, row_image, sizeof(row_image)), made.bytes);
    memcpy(made.bytes + made.n_head, row_image, sizeof(row_image));
    return made;
}

static void row_deinit(row *made)
{
    free(made->bytes);
}

static hth_kvc_reason verdict(const row *made, hth_kvc_info *info, hth_kvc_fault *fault)
{
    bool sound = hth_kvc_parse(made->bytes, made->n_bytes, NULL, info, fault);

    assert_int_equal(sound, fault->reason == HTH_KVC_OK);
    return fault->reason;
}

static void assert_refused(const row *made, hth_kvc_reason reason, const char *name)
{
    hth_kvc_info info;
    hth_kvc_fault fault;

    assert_int_equal(verdict(made, &info, &fault), reason);
    if (name)
        assert_string_equal(fault.name, name);
}

static void assert_accepted(const row *made)
{
    hth_kvc_info info;
    hth_kvc_fault fault;

    assert_int_equal(verdict(made, &info, &fault), HTH_KVC_OK);
}

/* Where a record's tag is; there must be one. */
static size_t record_at(const row *made, uint8_t tag)
{
    size_t at = 80 + hth_get_u32(made->bytes + 72);

    while (at < made->n_head && made->bytes[at] != tag)
        at += 5 + hth_get_u32(made->bytes + at + 1);
    assert_true(at < made->n_head);
    return at;
}

/* After a change that is to be judged for itself: make the head's checksum fit again. */
static void seal_again(row *made)
{
    hth_kvc_info info;
    hth_kvc_fault fault;

    assert_int_equal(verdict(made, &info, &fault), HTH_KVC_HEAD_CRC_MISMATCH);
    hth_put_u32(made->bytes + made->n_head - 4, (uint32_t)fault.computed);
}

TEST(our_records_come_back_as_they_were_written)
{
    static const uint8_t hmac[32] = { 0xAB, 0xCD };
    hth_kvc_info given = middle_block(), info;
    hth_kvc_fault fault;
    row made;

    given.hmac = (hth_kvc_bytes){ .data = hmac, .n = sizeof(hmac) };
    given.kind = HTH_ROW_TAIL;
    given.logits = (hth_kvc_bytes){ .data = row_tokens, .n = 8 };
    made = row_init(&given);
    assert_true(hth_kvc_parse(made.bytes, made.n_bytes, &given.own_key, &info, &fault));
    assert_true(info.has_parent);
    assert_true(hth_key_equal(&info.parent, &given.parent));
    assert_true(info.has_first_position);
    assert_int_equal(info.first_position, 256);
    assert_true(info.has_kind);
    assert_int_equal(info.kind, HTH_ROW_TAIL);
    assert_int_equal(info.logits.n, 8);
    assert_memory_equal(info.logits.data, row_tokens, 8);
    assert_true(info.has_own_key);
    assert_true(hth_key_equal(&info.own_key, &given.own_key));
    assert_int_equal(info.engine_build.n, 8);
    assert_memory_equal(info.engine_build.data, "engine 1", 8);
    assert_int_equal(info.model.n, 6);
    assert_memory_equal(info.model.data, "fox-7b", 6);
    assert_int_equal(info.hmac.n, 32);
    assert_memory_equal(info.hmac.data, hmac, 32);
    assert_true(info.has_head_crc);
    assert_int_equal(info.head_crc32c, hth_get_u32(made.bytes + made.n_head - 4));
    row_deinit(&made);
}

TEST(our_records_follow_the_formats_own_in_the_order_of_their_tags)
{
    static const uint8_t hmac[32] = { 0 };
    static const uint8_t order[] = { 1, 2, 3, 4, 8, 9, 5, 6, 7, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x88, 0x86, 0x87 };
    hth_kvc_info given = first_block();
    size_t at = 80;
    row made;

    given.writer_version = given.hostname;
    given.save_reason_detail = given.hostname;
    given.logits = given.hostname;
    given.hmac = (hth_kvc_bytes){ .data = hmac, .n = sizeof(hmac) };
    made = row_init(&given);
    for (size_t i = 0; i < sizeof(order); i++) {
        assert_true(at < made.n_head);
        assert_int_equal(made.bytes[at], order[i]);
        at += 5 + hth_get_u32(made.bytes + at + 1);
    }
    assert_int_equal(at, made.n_head);
    row_deinit(&made);
}

/* Spelt out from the description in the header file, by plain copying. */
TEST(the_heads_checksum_counts_what_may_change_as_zeros)
{
    static const uint8_t hmac[32] = { 0xAB, 0xCD };
    hth_kvc_info given = first_block();
    uint8_t *copy;
    row made;

    given.hmac = (hth_kvc_bytes){ .data = hmac, .n = sizeof(hmac) };
    made = row_init(&given);
    copy = malloc(made.n_head);
    assert_non_null(copy);
    memcpy(copy, made.bytes, made.n_head);
    memset(copy + 12, 0, 4);
    memset(copy + 32, 0, 8);
    memset(copy + record_at(&made, 0x86) + 5, 0, 32);
    memset(copy + record_at(&made, 0x87) + 5, 0, 4);
    assert_int_equal(hth_get_u32(made.bytes + made.n_head - 4), hth_crc32c(0, copy, made.n_head));
    free(copy);
    row_deinit(&made);
}

TEST(a_rows_uses_can_be_noted_in_place)
{
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    row made = row_init(&given);

    hth_put_u32(made.bytes + HTH_KVC_HIT_COUNT_OFFSET, 77);
    hth_put_u64(made.bytes + HTH_KVC_LAST_USED_OFFSET, UINT64_MAX);
    assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_OK);
    assert_int_equal(info.hit_count, 77);
    assert_true(info.last_used_time == UINT64_MAX);
    row_deinit(&made);
}

TEST(an_hmac_can_be_filled_in_after_writing)
{
    static const uint8_t zeros[32] = { 0 };
    hth_kvc_info given = first_block();
    row made;

    given.hmac = (hth_kvc_bytes){ .data = zeros, .n = sizeof(zeros) };
    made = row_init(&given);
    memset(made.bytes + record_at(&made, 0x86) + 5, 0x5A, 32);
    assert_accepted(&made);
    row_deinit(&made);
}

TEST(a_changed_head_is_refused_with_both_checksums)
{
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    row made = row_init(&given);
    uint32_t stored = hth_get_u32(made.bytes + made.n_head - 4);

    made.bytes[24] ^= 1; /* creation_time, which nothing else holds */
    assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_HEAD_CRC_MISMATCH);
    assert_true(fault.stored == stored);
    assert_true(fault.computed != stored);
    row_deinit(&made);
}

TEST(a_record_that_tells_a_row_asks_for_the_heads_checksum)
{
    hth_kvc_info given = first_block();
    row made;

    given.has_head_crc = false;
    made = row_init(&given);
    assert_int_equal(made.bytes[record_at(&made, 0x87)], 0x87);
    assert_accepted(&made);

    made.bytes[record_at(&made, 0x87)] = 0x88;
    assert_refused(&made, HTH_KVC_BAD_ROW, "head_crc32c");
    row_deinit(&made);
}

TEST(a_plain_file_gets_no_records_of_ours)
{
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    row made;

    given.has_parent = given.has_first_position = given.has_kind = given.has_own_key = given.has_head_crc = false;
    made = row_init(&given);
    assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_OK);
    assert_false(info.has_head_crc);
    row_deinit(&made);
}

TEST(an_unknown_kind_is_refused)
{
    hth_kvc_info given = first_block();
    row made = row_init(&given);

    made.bytes[record_at(&made, 0x82) + 5] = HTH_ROW_KINDS;
    seal_again(&made);
    assert_refused(&made, HTH_KVC_BAD_ROW, "kind");
    row_deinit(&made);
}

TEST(a_first_position_without_a_parent_is_refused)
{
    hth_kvc_info given = middle_block();
    row made;

    given.has_parent = false;
    made = row_init(&given);
    assert_refused(&made, HTH_KVC_BAD_ROW, "parent");
    row_deinit(&made);
}

TEST(a_row_from_the_middle_that_does_not_name_itself_is_refused)
{
    hth_kvc_info given = middle_block();
    row made;

    given.has_own_key = false;
    made = row_init(&given);
    assert_refused(&made, HTH_KVC_BAD_ROW, "own_key");
    row_deinit(&made);
}

TEST(a_row_from_token_0_under_a_key_that_is_not_its_tokens_is_refused)
{
    hth_kvc_info given = first_block();
    row made;

    given.own_key.bytes[31] ^= 1;
    made = row_init(&given);
    assert_refused(&made, HTH_KVC_BAD_ROW, "own_key");
    row_deinit(&made);

    given.has_parent = given.has_first_position = false; /* where no position is given it is 0 */
    made = row_init(&given);
    assert_refused(&made, HTH_KVC_BAD_ROW, "own_key");
    row_deinit(&made);
}

TEST(a_row_from_the_middle_is_known_by_the_key_it_claims)
{
    hth_kvc_info given = middle_block(), info;
    hth_key other = { { 0x99 } };
    hth_kvc_fault fault;
    row made = row_init(&given);

    assert_true(hth_kvc_parse(made.bytes, made.n_bytes, &given.own_key, &info, &fault));
    assert_false(hth_kvc_parse(made.bytes, made.n_bytes, &other, &info, &fault));
    assert_int_equal(fault.reason, HTH_KVC_KEY_MISMATCH);
    assert_true(hth_key_equal(&fault.expected_key, &other));
    assert_true(hth_key_equal(&fault.computed_key, &given.own_key));
    row_deinit(&made);
}

TEST(rows_without_tokens_are_read_like_others)
{
    hth_kvc_info given = middle_block(), info;
    hth_kvc_fault fault;
    row made;

    given.kind = HTH_ROW_LOGITS;
    given.tokens = (hth_kvc_bytes){ .data = NULL };
    made = row_init(&given);
    assert_true(hth_kvc_parse(made.bytes, made.n_bytes, &given.own_key, &info, &fault));
    assert_int_equal(hth_kvc_n_tokens(&info), 0);
    row_deinit(&made);
}

/* Put one more record before the first; the sizes in the head are made to fit. */
static void insert_record(row *made, uint8_t tag, uint32_t n)
{
    uint8_t *longer = calloc(1, made->n_bytes + 5 + n);

    assert_non_null(longer);
    memcpy(longer, made->bytes, 80);
    longer[80] = tag;
    hth_put_u32(longer + 81, n);
    memcpy(longer + 85 + n, made->bytes + 80, made->n_bytes - 80);
    free(made->bytes);
    made->bytes = longer;
    made->n_bytes += 5 + n;
    made->n_head += 5 + n;
    hth_put_u32(longer + 76, (uint32_t)(made->n_head - 80));
    hth_put_u64(longer + 48, made->n_head);
}

TEST(tags_that_nobody_uses_are_skipped_in_rows_and_in_plain_files)
{
    static const uint8_t tags[] = { 0x00, 0x0A, 0x1F, 0x20, 0x21, 0x7F, 0x88, 0xFF };
    hth_kvc_info plain = first_block(), of_row = first_block();

    plain.has_parent = plain.has_first_position = plain.has_kind = plain.has_own_key = plain.has_head_crc = false;
    for (size_t i = 0; i < sizeof(tags); i++) {
        row made = row_init(&plain);

        insert_record(&made, tags[i], 32);
        assert_accepted(&made);
        row_deinit(&made);
        made = row_init(&of_row);
        insert_record(&made, tags[i], 4);
        seal_again(&made);
        assert_accepted(&made);
        row_deinit(&made);
    }
}

TEST(a_record_of_ours_with_a_wrong_length_counts_as_unknown)
{
    static const struct {
        uint8_t tag;
        uint32_t n;
    } wrong[] = { { 0x80, 31 }, { 0x81, 5 },  { 0x82, 0 },  { 0x82, 2 }, { 0x83, 0 },
                  { 0x83, 6 },  { 0x84, 33 }, { 0x86, 64 }, { 0x87, 3 } };
    hth_kvc_info plain = first_block();

    plain.has_parent = plain.has_first_position = plain.has_kind = plain.has_own_key = plain.has_head_crc = false;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        hth_kvc_info info;
        hth_kvc_fault fault;
        row made = row_init(&plain);

        insert_record(&made, wrong[i].tag, wrong[i].n);
        assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_OK);
        assert_false(info.has_parent || info.has_first_position || info.has_kind || info.has_own_key);
        assert_false(info.has_head_crc || info.hmac.data || info.logits.data);
        row_deinit(&made);
    }
}

TEST(of_two_records_of_ours_the_last_wins)
{
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    row made = row_init(&given);

    insert_record(&made, 0x84, 32);
    insert_record(&made, 0x82, 1);
    made.bytes[85] = 200; /* an unknown kind, which the second record takes back */
    insert_record(&made, 0x87, 4);
    seal_again(&made);
    assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_OK);
    assert_int_equal(info.kind, HTH_ROW_BLOCK);
    assert_true(hth_key_equal(&info.own_key, &given.own_key));
    row_deinit(&made);
}

TEST(a_heads_checksum_anywhere_but_at_its_end_is_refused)
{
    hth_kvc_info given = first_block();
    row made = row_init(&given);

    insert_record(&made, 0x87, 4);
    made.bytes[made.n_head - 9] = 0x88;
    assert_refused(&made, HTH_KVC_BAD_ROW, "head_crc32c");
    row_deinit(&made);
}

TEST(records_that_reach_into_a_rows_image_are_refused)
{
    static const uint8_t record_head[] = { 0x20, sizeof(row_image) - 5, 0, 0, 0 };
    hth_kvc_info given = first_block();
    row made = row_init(&given);

    memcpy(made.bytes + made.n_head, record_head, sizeof(record_head)); /* the image is an unknown record */
    hth_put_u32(made.bytes + 76, hth_get_u32(made.bytes + 76) + (uint32_t)sizeof(row_image));
    assert_refused(&made, HTH_KVC_BAD_ROW, "head_crc32c");
    row_deinit(&made);
}

/* One bit in a length can hide all records of ours and leave a file that the format itself accepts. */
TEST(a_row_whose_records_were_hidden_by_a_damaged_length_is_no_plain_file)
{
    static const uint8_t build[30] = "an engine of thirty characters";
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    size_t n_records;
    row made;

    given.has_parent = given.has_first_position = given.has_kind = false;
    given.model.n = 0;
    given.engine_build = (hth_kvc_bytes){ .data = build, .n = 13 }; /* 37 + 18 + 9 = 64 bytes of ours */
    given.writer_version = (hth_kvc_bytes){ .data = build, .n = 30 };

    /* The version's length grows over them. */
    made = row_init(&given);
    made.bytes[record_at(&made, 0x06) + 1] ^= 64;
    assert_refused(&made, HTH_KVC_BAD_ROW, "head_crc32c");
    row_deinit(&made);

    /* The section's length ends before them. */
    made = row_init(&given);
    n_records = hth_get_u32(made.bytes + 76);
    assert_true(n_records & 64);
    made.bytes[76] ^= 64;
    assert_refused(&made, HTH_KVC_BAD_ROW, "head_crc32c");

    /* Which the reference would not mind: without the last nine bytes this is one of its gaps. */
    made.bytes[made.n_head - 9] = 0;
    assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_OK);
    row_deinit(&made);
}

TEST(records_that_do_not_fit_their_length_field_have_no_size)
{
    hth_kvc_info info = { .tokens = { .n = UINT32_MAX - 3 } };

    assert_true(hth_kvc_head_bytes(&info) == SIZE_MAX);
    info.tokens.n = UINT32_MAX - 3 - 256;
    info.prompt.n = UINT32_MAX; /* is in a section of its own */
    assert_true(hth_kvc_head_bytes(&info) > UINT64_C(2) * UINT32_MAX - 1024);
    assert_true(hth_kvc_head_bytes(&info) < UINT64_C(2) * UINT32_MAX + 1024);
}

TEST(outputs_are_written_on_success_only)
{
    hth_kvc_info given = first_block(), info, untouched;
    hth_kvc_fault fault;
    row made = row_init(&given);

    memset(&info, 0x5A, sizeof(info));
    untouched = info;
    made.bytes[made.n_bytes - 1] ^= 1;
    assert_false(hth_kvc_parse(made.bytes, made.n_bytes, NULL, &info, &fault));
    assert_memory_equal(&info, &untouched, sizeof(info));
    made.bytes[0] = 'k';
    assert_false(hth_kvc_parse_meta(made.bytes, made.n_bytes, made.n_bytes, &info, &fault, NULL));
    assert_memory_equal(&info, &untouched, sizeof(info));
    row_deinit(&made);
}
