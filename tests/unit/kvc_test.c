/*
 * kvc_test.c - KVC files against the reference's files, and the records that are only ours
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/bytes.h"
#include "base/hex.h"
#include "rows/kvc.h"
#include "support/kvc_vectors.h"

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
    assert_true(info->image_byte_count == integer_of(expected, "payload_byte_count"));
    assert_true(info->image_byte_count == integer_of(expected, "payload_length"));
    assert_true(info->image_offset == integer_of(expected, "payload_offset"));
    assert_int_equal(info->image_crc32c, integer_of(expected, "payload_crc32c"));
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

static void assert_image(const uint8_t *bytes, const hth_kvc_info *info, const json_t *expected)
{
    assert_true(info->image_byte_count == integer_of(expected, "length"));
    assert_int_equal(info->image_crc32c, integer_of(expected, "crc32c"));
    assert_sha256(bytes + info->image_offset, info->image_byte_count, text_of(expected, "sha256"));
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
    assert_image(file->bytes, &info, json_object_get(file->sidecar, "payload"));
    assert_true(hth_kvc_parse(file->bytes, file->n_bytes, NULL, &info, &fault));
}

VECTOR_TEST(a_sound_file_reads_as_the_reference_reads_it)
{
    assert_in_range(for_each_sample(folder, "kvc", check_sound_file), 1, SIZE_MAX);
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
        assert_image(file->bytes, &info, json_object_get(file->sidecar, "payload"));
    }
}

VECTOR_TEST(a_damaged_or_unusual_file_gets_the_references_verdict)
{
    assert_in_range(for_each_sample(folder, "kvc_bad", check_other_file), 1, SIZE_MAX);
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
    size_t n_image = (size_t)integer_of(info, "payload_length"), n_tokens = json_array_size(list);
    size_t n_prompt = strlen(text_of(info, "prompt_text_hex")) / 2;
    const uint8_t *image = file->bytes + file->n_bytes - n_image;
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
    assert_int_equal(n_head + n_image, file->n_bytes);
    head = malloc(n_head);
    assert_non_null(head);
    memset(head, 0xA5, n_head);
    hth_kvc_encode_head(&given, n_image, hth_crc32c(0, image, n_image), head);
    assert_memory_equal(head, file->bytes, n_head);
    free(head);
    free(tokens);
    free(prompt);
}

VECTOR_TEST(writing_what_a_file_says_gives_its_very_bytes)
{
    assert_in_range(for_each_sample(folder, "kvc", check_written_file), 1, SIZE_MAX);
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

VECTOR_TEST(a_file_read_in_pieces_gets_the_verdict_of_the_whole)
{
    assert_in_range(for_each_sample(folder, "kvc", check_in_rounds), 1, SIZE_MAX);
    assert_in_range(for_each_sample(folder, "kvc_bad", check_in_rounds), 1, SIZE_MAX);
}

/* ---- words ---- */

TEST(every_reason_has_a_name_and_a_sentence_of_its_own)
{
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

TEST(a_sentence_is_cut_to_its_buffer)
{
    hth_kvc_fault fault = { .reason = HTH_KVC_CRC_MISMATCH, .stored = 0xABCD, .computed = 0x1234 };
    char text[256];

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

TEST(every_kind_of_row_has_a_name)
{
    assert_string_equal(hth_row_kind_name(HTH_ROW_BLOCK), "block");
    assert_string_equal(hth_row_kind_name(HTH_ROW_TAIL), "tail");
    assert_string_equal(hth_row_kind_name(HTH_ROW_SNAPSHOT), "snapshot");
    assert_string_equal(hth_row_kind_name(HTH_ROW_STATE), "state");
    assert_string_equal(hth_row_kind_name(HTH_ROW_LOGITS), "logits");
    assert_string_equal(hth_row_kind_name(HTH_ROW_KINDS), "unknown");
    assert_string_equal(hth_row_kind_name((hth_row_kind)250), "unknown");
}
