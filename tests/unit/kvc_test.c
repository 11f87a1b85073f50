/*
 * kvc_test.c - KVC files against the reference's files, and the records that are only ours
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/bytes.h"
#include "cache/kvc.h"
#include "support/cmocka_all.h"

#define FIXTURES HTH_TEST_FIXTURES "/kvc"
#define SHARED_FIXTURES HTH_TEST_SHARED_DIR "/fixtures/kvc"

/* ---- reading the vectors ---- */

/* One file of the reference and what is known about it. */
typedef struct sample {
    uint8_t *bytes; /* of exactly n_bytes, so that a sanitizer sees an over-read */
    size_t n_bytes;
    json_t *sidecar;
} sample;

static uint8_t *read_whole(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long n;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    n = ftell(file);
    assert_true(n >= 0);
    rewind(file);
    bytes = malloc((size_t)n);
    assert_true(bytes || n == 0);
    assert_int_equal(fread(bytes, 1, (size_t)n, file), n);
    fclose(file);
    *n_out = (size_t)n;
    return bytes;
}

/* Call check with every file that has a sidecar in directory/folder; returns how many there were. */
static size_t for_each_sample(const char *directory, const char *folder, void (*check)(const sample *file))
{
    char path[1024];
    glob_t found;
    size_t n;

    assert_true((size_t)snprintf(path, sizeof(path), "%s/%s/*.json", directory, folder) < sizeof(path));
    assert_int_equal(glob(path, 0, NULL, &found), 0);
    n = found.gl_pathc;
    for (size_t i = 0; i < n; i++) {
        char *dot = strrchr(found.gl_pathv[i], '.');
        sample file = { .sidecar = json_load_file(found.gl_pathv[i], 0, NULL) };

        assert_non_null(file.sidecar);
        memcpy(dot, ".kvc", 5);
        file.bytes = read_whole(found.gl_pathv[i], &file.n_bytes);
        check(&file);
        free(file.bytes);
        json_decref(file.sidecar);
    }
    globfree(&found);
    return n;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    assert_non_null(text);
    return text;
}

static uint64_t integer_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static hth_key key_of(const json_t *object, const char *name)
{
    hth_key key;

    assert_true(hth_hex_decode(text_of(object, name), key.bytes, sizeof(key.bytes)));
    return key;
}

/* ---- comparing with a sidecar ---- */

static void assert_hex(const uint8_t *bytes, size_t n_bytes, const char *hex)
{
    char *text = malloc(2 * n_bytes + 1);

    assert_non_null(text);
    hth_hex_encode(bytes, n_bytes, text);
    assert_string_equal(text, hex);
    free(text);
}

static void assert_sha256(const uint8_t *bytes, size_t n_bytes, const char *hex)
{
    uint8_t digest[HTH_SHA256_BYTES];

    hth_sha256_of(bytes, n_bytes, digest);
    assert_hex(digest, sizeof(digest), hex);
}

/* A text that is null where the record is absent. */
static void assert_optional_text(hth_kvc_bytes bytes, const json_t *info, const char *name)
{
    const json_t *expected = json_object_get(info, name);

    assert_non_null(expected);
    if (json_is_null(expected)) {
        assert_null(bytes.data);
        return;
    }
    assert_non_null(bytes.data);
    assert_int_equal(bytes.n, json_string_length(expected));
    assert_memory_equal(bytes.data, json_string_value(expected), bytes.n);
}

static void assert_info(const hth_kvc_info *info, const json_t *expected)
{
    const json_t *tokens = json_object_get(expected, "tokens");

    assert_int_equal(info->quant_bits, integer_of(expected, "quant_bits"));
    assert_int_equal(info->save_reason, integer_of(expected, "save_reason_byte"));
    assert_int_equal(info->cached_token_count, integer_of(expected, "cached_token_count"));
    assert_int_equal(info->hit_count, integer_of(expected, "hit_count"));
    assert_int_equal(info->context_size, integer_of(expected, "context_size"));
    assert_true(info->creation_time == integer_of(expected, "creation_time"));
    assert_true(info->last_used_time == integer_of(expected, "last_used_time"));
    assert_true(info->payload_byte_count == integer_of(expected, "payload_byte_count"));
    assert_true(info->payload_byte_count == integer_of(expected, "payload_length"));
    assert_true(info->payload_offset == integer_of(expected, "payload_offset"));
    assert_int_equal(info->payload_crc32c, integer_of(expected, "payload_crc32c"));
    assert_hex(info->prompt.data, info->prompt.n, text_of(expected, "prompt_text_hex"));
    assert_hex(info->keyspace.fingerprint, 32, text_of(expected, "fingerprint"));
    assert_int_equal(info->keyspace.fingerprint_mode, integer_of(expected, "fingerprint_mode_byte"));
    assert_int_equal(info->keyspace.quant_byte, integer_of(expected, "quant_type_byte"));
    assert_string_equal(hth_quant_name(info->keyspace.quant_byte), text_of(expected, "quant_type"));
    assert_hex(info->keyspace.ctx_params_hash, 32, text_of(expected, "ctx_params_hash"));
    assert_int_equal(hth_kvc_n_tokens(info), integer_of(expected, "token_count"));
    assert_int_equal(hth_kvc_n_tokens(info), json_array_size(tokens));
    for (size_t i = 0; i < hth_kvc_n_tokens(info); i++)
        assert_int_equal((uint32_t)hth_kvc_token(info, i), json_integer_value(json_array_get(tokens, i)));
    assert_optional_text(info->hostname, expected, "hostname");
    assert_optional_text(info->writer_version, expected, "writer_version");
    assert_optional_text(info->save_reason_detail, expected, "save_reason_detail");

    assert_false(info->has_parent || info->has_first_position || info->has_kind || info->has_own_key);
    assert_false(info->has_head_crc);
    assert_null(info->engine_build.data);
    assert_null(info->hmac.data);
}

static void assert_payload(const uint8_t *bytes, const hth_kvc_info *info, const json_t *expected)
{
    assert_true(info->payload_byte_count == integer_of(expected, "length"));
    assert_int_equal(info->payload_crc32c, integer_of(expected, "crc32c"));
    assert_sha256(bytes + info->payload_offset, info->payload_byte_count, text_of(expected, "sha256"));
}

/* The arguments of a fault as the reference lists them. */
static json_t *arguments_of(const hth_kvc_fault *fault)
{
    char expected[2 * HTH_KEY_BYTES + 1], computed[2 * HTH_KEY_BYTES + 1];

    switch (fault->reason) {
    case HTH_KVC_UNSUPPORTED_VERSION:
    case HTH_KVC_UNKNOWN_SAVE_REASON:
    case HTH_KVC_UNKNOWN_FINGERPRINT_MODE:
    case HTH_KVC_UNKNOWN_QUANT_BYTE: return json_pack("[I]", (json_int_t)fault->stored);
    case HTH_KVC_MISSING_TLV: return json_pack("[s]", fault->name);
    case HTH_KVC_CRC_MISMATCH: return json_pack("[I,I]", (json_int_t)fault->stored, (json_int_t)fault->computed);
    case HTH_KVC_KEY_MISMATCH:
        hth_hex_encode(fault->expected_key.bytes, HTH_KEY_BYTES, expected);
        hth_hex_encode(fault->computed_key.bytes, HTH_KEY_BYTES, computed);
        return json_pack("[s,s]", expected, computed);
    default: return json_array();
    }
}

static void assert_verdict(bool sound, const hth_kvc_fault *fault, const json_t *expected)
{
    json_t *arguments;

    if (json_is_true(json_object_get(expected, "ok"))) {
        assert_true(sound);
        assert_int_equal(fault->reason, HTH_KVC_OK);
        return;
    }
    assert_false(sound);
    assert_string_equal(hth_kvc_reason_name(fault->reason), text_of(expected, "reason"));
    arguments = arguments_of(fault);
    assert_true(json_equal(arguments, json_object_get(expected, "args")));
    json_decref(arguments);
}

/* ---- the reference's files ---- */

static void check_sound_file(const sample *file)
{
    const json_t *info_expected = json_object_get(file->sidecar, "info");
    hth_key key = key_of(file->sidecar, "key");
    hth_kvc_info info;
    hth_kvc_fault fault;

    assert_int_equal(file->n_bytes, integer_of(file->sidecar, "file_size"));
    assert_sha256(file->bytes, file->n_bytes, text_of(file->sidecar, "file_sha256"));
    assert_true(hth_kvc_parse_meta(file->bytes, file->n_bytes, file->n_bytes, &info, &fault, NULL));
    assert_info(&info, info_expected);
    assert_true(hth_kvc_parse(file->bytes, file->n_bytes, &key, &info, &fault));
    assert_int_equal(fault.reason, HTH_KVC_OK);
    assert_info(&info, info_expected);
    assert_payload(file->bytes, &info, json_object_get(file->sidecar, "payload"));
    assert_true(hth_kvc_parse(file->bytes, file->n_bytes, NULL, &info, &fault));
}

static void a_sound_file_reads_as_the_reference_reads_it(void **state)
{
    assert_in_range(for_each_sample(*state, "kvc", check_sound_file), 1, SIZE_MAX);
}

static void check_other_file(const sample *file)
{
    const json_t *meta_expected = json_object_get(file->sidecar, "parse_meta");
    const json_t *full_expected = json_object_get(file->sidecar, "parse");
    hth_key key = key_of(file->sidecar, "expected_key");
    hth_kvc_info info;
    hth_kvc_fault fault;
    bool sound;

    assert_int_equal(file->n_bytes, integer_of(file->sidecar, "file_size"));
    assert_sha256(file->bytes, file->n_bytes, text_of(file->sidecar, "file_sha256"));
    sound = hth_kvc_parse_meta(file->bytes, file->n_bytes, file->n_bytes, &info, &fault, NULL);
    assert_verdict(sound, &fault, meta_expected);
    if (sound)
        assert_info(&info, json_object_get(file->sidecar, "info"));
    sound = hth_kvc_parse(file->bytes, file->n_bytes, &key, &info, &fault);
    assert_verdict(sound, &fault, full_expected);
    if (sound) {
        assert_info(&info, json_object_get(file->sidecar, "info"));
        assert_payload(file->bytes, &info, json_object_get(file->sidecar, "payload"));
    }
}

static void a_damaged_or_unusual_file_gets_the_references_verdict(void **state)
{
    assert_in_range(for_each_sample(*state, "kvc_bad", check_other_file), 1, SIZE_MAX);
}

/* A text of a sidecar as bytes of a record; borrowed from it. */
static hth_kvc_bytes text_bytes(const json_t *info, const char *name)
{
    const json_t *text = json_object_get(info, name);

    return (hth_kvc_bytes){ .data = (const uint8_t *)json_string_value(text), .n = (uint32_t)json_string_length(text) };
}

/* From the sidecar alone, so that nothing goes unnoticed which reading and writing would get wrong together. */
static void check_written_file(const sample *file)
{
    const json_t *info = json_object_get(file->sidecar, "info");
    const json_t *list = json_object_get(info, "tokens");
    size_t n_payload = (size_t)integer_of(info, "payload_length"), n_tokens = json_array_size(list);
    size_t n_prompt = strlen(text_of(info, "prompt_text_hex")) / 2;
    const uint8_t *payload = file->bytes + file->n_bytes - n_payload;
    uint8_t *prompt = malloc(n_prompt + 1), *tokens = malloc(4 * n_tokens + 1), *head;
    hth_kvc_info given;
    size_t n_head;

    assert_non_null(prompt);
    assert_non_null(tokens);
    assert_true(hth_hex_decode(text_of(info, "prompt_text_hex"), prompt, n_prompt));
    for (size_t i = 0; i < n_tokens; i++)
        hth_put_u32(tokens + 4 * i, (uint32_t)json_integer_value(json_array_get(list, i)));
    given = (hth_kvc_info){
        .quant_bits = (uint8_t)integer_of(info, "quant_bits"),
        .save_reason = (uint8_t)integer_of(info, "save_reason_byte"),
        .cached_token_count = (uint32_t)integer_of(info, "cached_token_count"),
        .hit_count = (uint32_t)integer_of(info, "hit_count"),
        .context_size = (uint32_t)integer_of(info, "context_size"),
        .creation_time = integer_of(info, "creation_time"),
        .last_used_time = integer_of(info, "last_used_time"),
        .prompt = { .data = prompt, .n = (uint32_t)n_prompt },
        .keyspace.fingerprint_mode = (uint8_t)integer_of(info, "fingerprint_mode_byte"),
        .keyspace.quant_byte = hth_quant_byte(text_of(info, "quant_type")),
        .tokens = { .data = tokens, .n = (uint32_t)(4 * n_tokens) },
        .hostname = text_bytes(info, "hostname"),
        .writer_version = text_bytes(info, "writer_version"),
        .save_reason_detail = text_bytes(info, "save_reason_detail"),
    };
    assert_true(hth_hex_decode(text_of(info, "fingerprint"), given.keyspace.fingerprint, 32));
    assert_true(hth_hex_decode(text_of(info, "ctx_params_hash"), given.keyspace.ctx_params_hash, 32));

    n_head = hth_kvc_head_bytes(&given);
    assert_int_equal(n_head + n_payload, file->n_bytes);
    head = malloc(n_head);
    assert_non_null(head);
    memset(head, 0xA5, n_head);
    hth_kvc_encode_head(&given, n_payload, hth_crc32c(0, payload, n_payload), head);
    assert_memory_equal(head, file->bytes, n_head);
    free(head);
    free(tokens);
    free(prompt);
}

static void writing_what_a_file_says_gives_its_very_bytes(void **state)
{
    assert_in_range(for_each_sample(*state, "kvc", check_written_file), 1, SIZE_MAX);
}

/* Read the head from more and more of the file, as a reader of a long file does; returns the number of reads. */
static size_t parse_meta_in_rounds(const uint8_t *bytes, size_t n_bytes, size_t n_first, bool *sound_out,
                                   hth_kvc_info *info, hth_kvc_fault *fault)
{
    size_t n_there = n_first, n_rounds = 0, need;

    do {
        uint8_t *part = n_there > 0 ? malloc(n_there) : NULL; /* nothing behind it: a sanitizer sees an over-read */

        assert_true(part || n_there == 0);
        if (n_there > 0)
            memcpy(part, bytes, n_there);
        n_rounds++;
        *sound_out = hth_kvc_parse_meta(part, n_there, n_bytes, info, fault, &need);
        free(part);
        assert_true(need == 0 || (!*sound_out && fault->reason == HTH_KVC_OK));
        assert_true(need == 0 || (need > n_there && need <= n_bytes));
        n_there = need;
    } while (need > 0);
    return n_rounds;
}

static void check_in_rounds(const sample *file)
{
    hth_kvc_info info;
    hth_kvc_fault whole_fault, fault;
    bool whole = hth_kvc_parse_meta(file->bytes, file->n_bytes, file->n_bytes, &info, &whole_fault, NULL);
    size_t n_most = file->n_bytes < 4096 ? file->n_bytes : 4096;

    for (size_t n_first = 0; n_first <= n_most; n_first++) {
        bool sound;

        assert_true(parse_meta_in_rounds(file->bytes, file->n_bytes, n_first, &sound, &info, &fault) <= 5);
        assert_int_equal(sound, whole);
        assert_int_equal(fault.reason, whole_fault.reason);
        assert_true(fault.stored == whole_fault.stored);
        assert_ptr_equal(fault.name, whole_fault.name);
    }
}

static void a_file_read_in_pieces_gets_the_verdict_of_the_whole(void **state)
{
    assert_in_range(for_each_sample(*state, "kvc", check_in_rounds), 1, SIZE_MAX);
    assert_in_range(for_each_sample(*state, "kvc_bad", check_in_rounds), 1, SIZE_MAX);
}

/* ---- our own records ---- */

/* A row made for one test: info and its file. Deinit frees the file. */
typedef struct row {
    hth_kvc_info info;
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_head;
} row;

static const uint8_t row_tokens[] = { 1, 0, 0, 0, 2, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF };
static const uint8_t row_payload[] = "the payload of a row";

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

    made.n_bytes = made.n_head + sizeof(row_payload);
    made.bytes = malloc(made.n_bytes);
    assert_non_null(made.bytes);
    hth_kvc_encode_head(info, sizeof(row_payload), hth_crc32c(0, row_payload, sizeof(row_payload)), made.bytes);
    memcpy(made.bytes + made.n_head, row_payload, sizeof(row_payload));
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

static void our_records_come_back_as_they_were_written(void **state)
{
    static const uint8_t hmac[32] = { 0xAB, 0xCD };
    hth_kvc_info given = middle_block(), info;
    hth_kvc_fault fault;
    row made;

    (void)state;
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
    assert_int_equal(info.hmac.n, 32);
    assert_memory_equal(info.hmac.data, hmac, 32);
    assert_true(info.has_head_crc);
    assert_int_equal(info.head_crc32c, hth_get_u32(made.bytes + made.n_head - 4));
    row_deinit(&made);
}

static void our_records_follow_the_formats_own_in_the_order_of_their_tags(void **state)
{
    static const uint8_t hmac[32] = { 0 };
    static const uint8_t order[] = { 1, 2, 3, 4, 8, 9, 5, 6, 7, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87 };
    hth_kvc_info given = first_block();
    size_t at = 80;
    row made;

    (void)state;
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
static void the_heads_checksum_counts_what_may_change_as_zeros(void **state)
{
    static const uint8_t hmac[32] = { 0xAB, 0xCD };
    hth_kvc_info given = first_block();
    uint8_t *copy;
    row made;

    (void)state;
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

static void a_rows_uses_can_be_noted_in_place(void **state)
{
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    row made = row_init(&given);

    (void)state;
    hth_put_u32(made.bytes + HTH_KVC_HIT_COUNT_OFFSET, 77);
    hth_put_u64(made.bytes + HTH_KVC_LAST_USED_OFFSET, UINT64_MAX);
    assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_OK);
    assert_int_equal(info.hit_count, 77);
    assert_true(info.last_used_time == UINT64_MAX);
    row_deinit(&made);
}

static void an_hmac_can_be_filled_in_after_writing(void **state)
{
    static const uint8_t zeros[32] = { 0 };
    hth_kvc_info given = first_block();
    row made;

    (void)state;
    given.hmac = (hth_kvc_bytes){ .data = zeros, .n = sizeof(zeros) };
    made = row_init(&given);
    memset(made.bytes + record_at(&made, 0x86) + 5, 0x5A, 32);
    assert_accepted(&made);
    row_deinit(&made);
}

static void a_changed_head_is_refused_with_both_checksums(void **state)
{
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    row made = row_init(&given);
    uint32_t stored = hth_get_u32(made.bytes + made.n_head - 4);

    (void)state;
    made.bytes[24] ^= 1; /* creation_time, which nothing else holds */
    assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_HEAD_CRC_MISMATCH);
    assert_true(fault.stored == stored);
    assert_true(fault.computed != stored);
    row_deinit(&made);
}

static void a_record_that_tells_a_row_asks_for_the_heads_checksum(void **state)
{
    hth_kvc_info given = first_block();
    row made;

    (void)state;
    given.has_head_crc = false;
    made = row_init(&given);
    assert_int_equal(made.bytes[record_at(&made, 0x87)], 0x87);
    assert_accepted(&made);

    made.bytes[record_at(&made, 0x87)] = 0x88;
    assert_refused(&made, HTH_KVC_BAD_ROW, "head_crc32c");
    row_deinit(&made);
}

static void a_plain_file_gets_no_records_of_ours(void **state)
{
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    row made;

    (void)state;
    given.has_parent = given.has_first_position = given.has_kind = given.has_own_key = given.has_head_crc = false;
    made = row_init(&given);
    assert_int_equal(verdict(&made, &info, &fault), HTH_KVC_OK);
    assert_false(info.has_head_crc);
    row_deinit(&made);
}

static void an_unknown_kind_is_refused(void **state)
{
    hth_kvc_info given = first_block();
    row made = row_init(&given);

    (void)state;
    made.bytes[record_at(&made, 0x82) + 5] = HTH_ROW_KINDS;
    seal_again(&made);
    assert_refused(&made, HTH_KVC_BAD_ROW, "kind");
    row_deinit(&made);
}

static void a_first_position_without_a_parent_is_refused(void **state)
{
    hth_kvc_info given = middle_block();
    row made;

    (void)state;
    given.has_parent = false;
    made = row_init(&given);
    assert_refused(&made, HTH_KVC_BAD_ROW, "parent");
    row_deinit(&made);
}

static void a_row_from_the_middle_that_does_not_name_itself_is_refused(void **state)
{
    hth_kvc_info given = middle_block();
    row made;

    (void)state;
    given.has_own_key = false;
    made = row_init(&given);
    assert_refused(&made, HTH_KVC_BAD_ROW, "own_key");
    row_deinit(&made);
}

static void a_row_from_token_0_under_a_key_that_is_not_its_tokens_is_refused(void **state)
{
    hth_kvc_info given = first_block();
    row made;

    (void)state;
    given.own_key.bytes[31] ^= 1;
    made = row_init(&given);
    assert_refused(&made, HTH_KVC_BAD_ROW, "own_key");
    row_deinit(&made);

    given.has_parent = given.has_first_position = false; /* where no position is given it is 0 */
    made = row_init(&given);
    assert_refused(&made, HTH_KVC_BAD_ROW, "own_key");
    row_deinit(&made);
}

static void a_row_from_the_middle_is_known_by_the_key_it_claims(void **state)
{
    hth_kvc_info given = middle_block(), info;
    hth_key other = { { 0x99 } };
    hth_kvc_fault fault;
    row made = row_init(&given);

    (void)state;
    assert_true(hth_kvc_parse(made.bytes, made.n_bytes, &given.own_key, &info, &fault));
    assert_false(hth_kvc_parse(made.bytes, made.n_bytes, &other, &info, &fault));
    assert_int_equal(fault.reason, HTH_KVC_KEY_MISMATCH);
    assert_true(hth_key_equal(&fault.expected_key, &other));
    assert_true(hth_key_equal(&fault.computed_key, &given.own_key));
    row_deinit(&made);
}

static void rows_without_tokens_are_read_like_others(void **state)
{
    hth_kvc_info given = middle_block(), info;
    hth_kvc_fault fault;
    row made;

    (void)state;
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

static void tags_that_nobody_uses_are_skipped_in_rows_and_in_plain_files(void **state)
{
    static const uint8_t tags[] = { 0x00, 0x0A, 0x1F, 0x20, 0x21, 0x7F, 0x88, 0xFF };
    hth_kvc_info plain = first_block(), of_row = first_block();

    (void)state;
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

static void a_record_of_ours_with_a_wrong_length_counts_as_unknown(void **state)
{
    static const struct {
        uint8_t tag;
        uint32_t n;
    } wrong[] = { { 0x80, 31 }, { 0x81, 5 },  { 0x82, 0 },  { 0x82, 2 }, { 0x83, 0 },
                  { 0x83, 6 },  { 0x84, 33 }, { 0x86, 64 }, { 0x87, 3 } };
    hth_kvc_info plain = first_block();

    (void)state;
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

static void of_two_records_of_ours_the_last_wins(void **state)
{
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    row made = row_init(&given);

    (void)state;
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

static void a_heads_checksum_anywhere_but_at_its_end_is_refused(void **state)
{
    hth_kvc_info given = first_block();
    row made = row_init(&given);

    (void)state;
    insert_record(&made, 0x87, 4);
    made.bytes[made.n_head - 9] = 0x88;
    assert_refused(&made, HTH_KVC_BAD_ROW, "head_crc32c");
    row_deinit(&made);
}

static void records_that_reach_into_a_rows_payload_are_refused(void **state)
{
    static const uint8_t record_head[] = { 0x20, sizeof(row_payload) - 5, 0, 0, 0 };
    hth_kvc_info given = first_block();
    row made = row_init(&given);

    (void)state;
    memcpy(made.bytes + made.n_head, record_head, sizeof(record_head)); /* the payload is an unknown record */
    hth_put_u32(made.bytes + 76, hth_get_u32(made.bytes + 76) + (uint32_t)sizeof(row_payload));
    assert_refused(&made, HTH_KVC_BAD_ROW, "head_crc32c");
    row_deinit(&made);
}

/* One bit in a length can hide all records of ours and leave a file that the format itself accepts. */
static void a_row_whose_records_were_hidden_by_a_damaged_length_is_no_plain_file(void **state)
{
    static const uint8_t build[30] = "an engine of thirty characters";
    hth_kvc_info given = first_block(), info;
    hth_kvc_fault fault;
    size_t n_records;
    row made;

    (void)state;
    given.has_parent = given.has_first_position = given.has_kind = false;
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

static void records_that_do_not_fit_their_length_field_have_no_size(void **state)
{
    hth_kvc_info info = { .tokens = { .n = UINT32_MAX - 3 } };

    (void)state;
    assert_true(hth_kvc_head_bytes(&info) == SIZE_MAX);
    info.tokens.n = UINT32_MAX - 3 - 256;
    info.prompt.n = UINT32_MAX; /* is in a section of its own */
    assert_true(hth_kvc_head_bytes(&info) > UINT64_C(2) * UINT32_MAX - 1024);
    assert_true(hth_kvc_head_bytes(&info) < UINT64_C(2) * UINT32_MAX + 1024);
}

static void outputs_are_written_on_success_only(void **state)
{
    hth_kvc_info given = first_block(), info, untouched;
    hth_kvc_fault fault;
    row made = row_init(&given);

    (void)state;
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

/* ---- words ---- */

static void every_reason_has_a_name_and_a_sentence_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i <= HTH_KVC_NO_MEMORY; i++) {
        hth_kvc_fault fault = { .reason = (hth_kvc_reason)i, .name = "tokens" };
        char text[256];

        assert_string_not_equal(hth_kvc_reason_name(fault.reason), "unknown");
        hth_kvc_fault_text(&fault, text, sizeof(text));
        assert_true(strlen(text) > 10);
        for (int j = 0; j < i; j++) {
            hth_kvc_fault other = { .reason = (hth_kvc_reason)j, .name = "tokens" };
            char other_text[256];

            hth_kvc_fault_text(&other, other_text, sizeof(other_text));
            assert_string_not_equal(text, other_text);
            assert_string_not_equal(hth_kvc_reason_name(fault.reason), hth_kvc_reason_name(other.reason));
        }
    }
    assert_string_equal(hth_kvc_reason_name((hth_kvc_reason)99), "unknown");
}

static void a_sentence_is_cut_to_its_buffer(void **state)
{
    hth_kvc_fault fault = { .reason = HTH_KVC_CRC_MISMATCH, .stored = 0xABCD, .computed = 0x1234 };
    char text[256];

    (void)state;
    hth_kvc_fault_text(&fault, text, sizeof(text));
    assert_non_null(strstr(text, "0000abcd"));
    assert_non_null(strstr(text, "00001234"));
    memset(text, 'x', sizeof(text));
    hth_kvc_fault_text(&fault, text, 6);
    assert_int_equal(strlen(text), 5);
    assert_int_equal(text[6], 'x');
    hth_kvc_fault_text(&fault, text, 0);
    assert_int_equal(strlen(text), 5);
}

static void every_kind_of_row_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(hth_row_kind_name(HTH_ROW_BLOCK), "block");
    assert_string_equal(hth_row_kind_name(HTH_ROW_TAIL), "tail");
    assert_string_equal(hth_row_kind_name(HTH_ROW_SNAPSHOT), "snapshot");
    assert_string_equal(hth_row_kind_name(HTH_ROW_STATE), "state");
    assert_string_equal(hth_row_kind_name(HTH_ROW_LOGITS), "logits");
    assert_string_equal(hth_row_kind_name(HTH_ROW_KINDS), "unknown");
    assert_string_equal(hth_row_kind_name((hth_row_kind)250), "unknown");
}

static int use_fixtures(void **state)
{
    *state = FIXTURES;
    return 0;
}

static int use_shared_fixtures(void **state)
{
    *state = SHARED_FIXTURES;
    return 0;
}

int main(void)
{
    const struct CMUnitTest vectors[] = {
        cmocka_unit_test(a_sound_file_reads_as_the_reference_reads_it),
        cmocka_unit_test(a_damaged_or_unusual_file_gets_the_references_verdict),
        cmocka_unit_test(writing_what_a_file_says_gives_its_very_bytes),
        cmocka_unit_test(a_file_read_in_pieces_gets_the_verdict_of_the_whole),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_records_come_back_as_they_were_written),
        cmocka_unit_test(our_records_follow_the_formats_own_in_the_order_of_their_tags),
        cmocka_unit_test(the_heads_checksum_counts_what_may_change_as_zeros),
        cmocka_unit_test(a_rows_uses_can_be_noted_in_place),
        cmocka_unit_test(an_hmac_can_be_filled_in_after_writing),
        cmocka_unit_test(a_changed_head_is_refused_with_both_checksums),
        cmocka_unit_test(a_record_that_tells_a_row_asks_for_the_heads_checksum),
        cmocka_unit_test(a_plain_file_gets_no_records_of_ours),
        cmocka_unit_test(an_unknown_kind_is_refused),
        cmocka_unit_test(a_first_position_without_a_parent_is_refused),
        cmocka_unit_test(a_row_from_the_middle_that_does_not_name_itself_is_refused),
        cmocka_unit_test(a_row_from_token_0_under_a_key_that_is_not_its_tokens_is_refused),
        cmocka_unit_test(a_row_from_the_middle_is_known_by_the_key_it_claims),
        cmocka_unit_test(rows_without_tokens_are_read_like_others),
        cmocka_unit_test(tags_that_nobody_uses_are_skipped_in_rows_and_in_plain_files),
        cmocka_unit_test(a_record_of_ours_with_a_wrong_length_counts_as_unknown),
        cmocka_unit_test(of_two_records_of_ours_the_last_wins),
        cmocka_unit_test(a_heads_checksum_anywhere_but_at_its_end_is_refused),
        cmocka_unit_test(records_that_reach_into_a_rows_payload_are_refused),
        cmocka_unit_test(a_row_whose_records_were_hidden_by_a_damaged_length_is_no_plain_file),
        cmocka_unit_test(records_that_do_not_fit_their_length_field_have_no_size),
        cmocka_unit_test(outputs_are_written_on_success_only),
        cmocka_unit_test(every_reason_has_a_name_and_a_sentence_of_its_own),
        cmocka_unit_test(a_sentence_is_cut_to_its_buffer),
        cmocka_unit_test(every_kind_of_row_has_a_name),
    };
    int n_failed = cmocka_run_group_tests(vectors, use_fixtures, NULL);

    if (access(SHARED_FIXTURES, R_OK) == 0)
        n_failed += cmocka_run_group_tests_name("vectors, shared copy", vectors, use_shared_fixtures, NULL);
    return n_failed + cmocka_run_group_tests(tests, NULL, NULL);
}
