/*
 * key_test.c - keys, quant types and fingerprints against the reference vectors
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/bytes.h"
#include "base/hex.h"
#include "rows/key.h"
#include "support/kvc_vectors.h"

/* The folder of the vectors: the state of every test that reads them. */

/* ---- reading the vectors ---- */

/* Call check with every line of a file of JSON objects; returns how many there were. */
static size_t for_each_line(const char *directory, const char *name, void (*check)(const json_t *line))
{
    char path[1024];
    FILE *file;
    json_error_t error;
    json_t *line;
    size_t n = 0;

    assert_true((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) < sizeof(path));
    file = fopen(path, "r");
    assert_non_null(file);
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error))) {
        check(line);
        json_decref(line);
        n++;
    }
    assert_int_equal(json_error_code(&error), json_error_premature_end_of_input); /* the end, not a broken line */
    assert_true(feof(file));
    fclose(file);
    return n;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    assert_non_null(text);
    return text;
}

static int64_t integer_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void read_hash(const json_t *object, const char *name, uint8_t out[32])
{
    assert_true(hth_hex_decode(text_of(object, name), out, 32));
}

/* The tokens of a line of keys.jsonl, listed or by rule. The caller frees them. */
static hearth_token *read_tokens(const json_t *line, size_t *n_out)
{
    const json_t *rule = json_object_get(line, "tokens_rule");
    const json_t *list = json_object_get(line, "tokens");
    size_t n = rule ? (size_t)integer_of(rule, "n") : json_array_size(list);
    hearth_token *tokens = malloc((n + 1) * sizeof(*tokens));

    assert_non_null(tokens);
    assert_true(rule || json_is_array(list));
    for (size_t i = 0; i < n; i++) {
        if (rule)
            tokens[i] = (hearth_token)(uint32_t)(((uint64_t)i * (uint64_t)integer_of(rule, "mul") +
                                                  (uint64_t)integer_of(rule, "add")) %
                                                 (uint64_t)integer_of(rule, "mod"));
        else
            tokens[i] = (hearth_token)(uint32_t)json_integer_value(json_array_get(list, i));
    }
    *n_out = n;
    return tokens;
}

static hth_keyspace read_keyspace(const json_t *line)
{
    hth_keyspace keyspace = { .quant_byte = hth_quant_byte(text_of(line, "quant_type")) };

    read_hash(line, "fingerprint", keyspace.fingerprint);
    read_hash(line, "ctx_params_hash", keyspace.ctx_params_hash);
    return keyspace;
}

static void assert_key(const hth_key *key, const char *hex)
{
    char text[2 * HTH_KEY_BYTES + 1];

    hth_hex_encode(key->bytes, HTH_KEY_BYTES, text);
    assert_string_equal(text, hex);
}

/* ---- keys ---- */

static void check_key_line(const json_t *line)
{
    hth_keyspace keyspace = read_keyspace(line);
    const char *expected = text_of(line, "key");
    size_t n_tokens;
    hearth_token *tokens = read_tokens(line, &n_tokens);
    uint8_t *bytes = malloc(4 * n_tokens + 1);
    hth_key key;

    assert_int_equal(keyspace.quant_byte, integer_of(line, "quant_byte"));
    assert_true(hth_key_of(&keyspace, tokens, n_tokens, &key));
    assert_key(&key, expected);

    /* As a file has them: little-endian, and here at an odd address. */
    assert_non_null(bytes);
    for (size_t i = 0; i < n_tokens; i++)
        hth_put_u32(bytes + 1 + 4 * i, (uint32_t)tokens[i]);
    memset(&key, 0, sizeof(key));
    assert_true(hth_key_of_bytes(&keyspace, bytes + 1, 4 * n_tokens, &key));
    assert_key(&key, expected);
    free(bytes);
    free(tokens);
}

VECTOR_TEST(every_key_is_the_references)
{
    assert_in_range(for_each_line(folder, "keys.jsonl", check_key_line), 1, SIZE_MAX);
}

static void check_key_line_in_pieces(const json_t *line)
{
    hth_keyspace keyspace = read_keyspace(line);
    size_t n_tokens, n_pushed = 0, n_piece = 1;
    hearth_token *tokens = read_tokens(line, &n_tokens);
    hth_key_stream *stream = hth_key_stream_new(&keyspace);
    hth_key key, of_prefix;

    assert_non_null(stream);
    while (n_pushed < n_tokens) {
        size_t n = n_tokens - n_pushed < n_piece ? n_tokens - n_pushed : n_piece;

        hth_key_stream_push(stream, tokens + n_pushed, n);
        n_pushed += n;
        n_piece = n_piece * 3 % 1021; /* 1, 3, 9, ... in no step with anything */
        hth_key_stream_key(stream, &key);
        assert_true(hth_key_of(&keyspace, tokens, n_pushed, &of_prefix));
        assert_true(hth_key_equal(&key, &of_prefix));
    }
    hth_key_stream_push(stream, NULL, 0);
    hth_key_stream_key(stream, &key);
    assert_key(&key, text_of(line, "key"));
    hth_key_stream_free(stream);
    free(tokens);
}

VECTOR_TEST(a_stream_gives_the_key_of_every_prefix_on_its_way)
{
    assert_in_range(for_each_line(folder, "keys.jsonl", check_key_line_in_pieces), 1, SIZE_MAX);
}

static const hth_keyspace some_keyspace = { .fingerprint = { 1, 2, 3 }, .quant_byte = 7, .ctx_params_hash = { 9, 8 } };
static const hearth_token some_tokens[] = { 5, 0, -1, 70000 };

TEST(a_reset_stream_stands_at_the_empty_prefix)
{
    hth_key_stream *stream = hth_key_stream_new(&some_keyspace);
    hth_key key, empty;

    assert_non_null(stream);
    assert_true(hth_key_of(&some_keyspace, NULL, 0, &empty));
    hth_key_stream_key(stream, &key);
    assert_true(hth_key_equal(&key, &empty));
    hth_key_stream_push(stream, some_tokens, 4);
    hth_key_stream_key(stream, &key);
    assert_false(hth_key_equal(&key, &empty));
    hth_key_stream_reset(stream);
    hth_key_stream_key(stream, &key);
    assert_true(hth_key_equal(&key, &empty));
    hth_key_stream_free(stream);
    hth_key_stream_free(NULL);
}

TEST(a_copied_stream_goes_on_from_the_same_prefix)
{
    hth_key_stream *first = hth_key_stream_new(&some_keyspace), *second = hth_key_stream_new(&some_keyspace);
    hth_key key, expected;

    assert_non_null(first);
    assert_non_null(second);
    hth_key_stream_push(first, some_tokens, 2);
    hth_key_stream_push(second, some_tokens + 3, 1);
    hth_key_stream_copy(second, first);
    hth_key_stream_push(first, some_tokens, 1);
    hth_key_stream_push(second, some_tokens + 2, 2);
    hth_key_stream_key(second, &key);
    assert_true(hth_key_of(&some_keyspace, some_tokens, 4, &expected));
    assert_true(hth_key_equal(&key, &expected));
    hth_key_stream_free(first);
    hth_key_stream_free(second);
}

TEST(the_fingerprint_mode_is_no_part_of_a_key)
{
    hth_keyspace other = some_keyspace;
    hth_key key, same;

    other.fingerprint_mode = 2;
    assert_true(hth_key_of(&some_keyspace, some_tokens, 4, &key));
    assert_true(hth_key_of(&other, some_tokens, 4, &same));
    assert_true(hth_key_equal(&key, &same));
}

/* ---- quant types ---- */

TEST(a_quant_byte_and_its_name_lead_to_each_other)
{
    for (int byte = 0; byte < 30; byte++) {
        const char *name = hth_quant_name((uint8_t)byte);

        assert_non_null(name);
        assert_int_equal(hth_quant_byte(name), byte);
    }
    assert_string_equal(hth_quant_name(7), "q4_k_m");
    assert_string_equal(hth_quant_name(29), "bf16");
}

TEST(a_byte_from_30_on_has_no_quant_type)
{
    for (int byte = 30; byte < 256; byte++)
        assert_null(hth_quant_name((uint8_t)byte));
}

TEST(an_unknown_quant_type_has_the_byte_255_and_case_matters)
{
    assert_int_equal(hth_quant_byte("Q4_K_M"), 255);
    assert_int_equal(hth_quant_byte("q4_k_m "), 255);
    assert_int_equal(hth_quant_byte("q4_k"), 255);
    assert_int_equal(hth_quant_byte(""), 255);
}

/* ---- effective fingerprints ---- */

static double double_of_bits(const char *hex)
{
    uint8_t bytes[8];
    uint64_t bits = 0;
    double value;

    assert_true(hth_hex_decode(hex, bytes, sizeof(bytes)));
    for (size_t i = 0; i < sizeof(bytes); i++)
        bits = bits << 8 | bytes[i];
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static size_t read_adapters(const json_t *line, hth_folded_adapter *adapters, size_t capacity)
{
    const json_t *list = json_object_get(line, "adapters");
    size_t n = json_array_size(list);

    assert_true(json_is_array(list));
    assert_true(n <= capacity);
    for (size_t i = 0; i < n; i++) {
        const json_t *adapter = json_array_get(list, i);

        read_hash(adapter, "sha256", adapters[i].sha256);
        adapters[i].scale = double_of_bits(text_of(adapter, "scale_bits"));
    }
    return n;
}

static void check_fingerprint_line(const json_t *line)
{
    hth_folded_adapter adapters[16];
    size_t n_adapters = read_adapters(line, adapters, 16);
    uint8_t fingerprint[32], expected[32], effective[32];

    read_hash(line, "fingerprint", fingerprint);
    read_hash(line, "effective", expected);
    assert_int_equal(hth_effective_fingerprint(fingerprint, adapters, n_adapters, effective, NULL), HEARTH_OK);
    assert_memory_equal(effective, expected, 32);

    /* The order in which they are given does not matter. */
    for (size_t i = 0; i < n_adapters / 2; i++) {
        hth_folded_adapter swapped = adapters[i];

        adapters[i] = adapters[n_adapters - 1 - i];
        adapters[n_adapters - 1 - i] = swapped;
    }
    assert_int_equal(hth_effective_fingerprint(fingerprint, adapters, n_adapters, effective, NULL), HEARTH_OK);
    assert_memory_equal(effective, expected, 32);

    /* The result may take the place of the fingerprint. */
    assert_int_equal(hth_effective_fingerprint(fingerprint, adapters, n_adapters, fingerprint, NULL), HEARTH_OK);
    assert_memory_equal(fingerprint, expected, 32);
}

VECTOR_TEST(every_effective_fingerprint_is_the_references)
{
    assert_in_range(for_each_line(folder, "effective_fp.jsonl", check_fingerprint_line), 1, SIZE_MAX);
}

/* What the reference computes for one adapter of a given q32 scale, spelt out. */
static void expected_for_one(const uint8_t fingerprint[32], const hth_folded_adapter *adapter, int64_t q32,
                             uint8_t out[32])
{
    uint8_t bytes[32 + 32 + 8];

    memcpy(bytes, fingerprint, 32);
    memcpy(bytes + 32, adapter->sha256, 32);
    hth_put_u64(bytes + 64, (uint64_t)q32);
    hth_sha256_of(bytes, sizeof(bytes), out);
}

TEST(a_scale_is_rounded_to_the_nearest_with_halves_away_from_zero)
{
    static const struct {
        double scaled;
        int64_t q32;
    } cases[] = {
        { 0.5, 1 },
        { -0.5, -1 },
        { 0.49999999999999994, 0 },
        { 1.5, 2 },
        { 2.5, 3 },
        { -2.5, -3 },
        { -0.25, 0 },
        { 4503599627370495.5, INT64_C(4503599627370496) },
        { -0x1p63, INT64_MIN },
        { 0x1.fffffffffffffp62, INT64_C(0x7ffffffffffffc00) },
    };
    uint8_t fingerprint[32] = { 7 }, expected[32], effective[32];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hth_folded_adapter adapter = { .sha256 = { 3 }, .scale = cases[i].scaled * 0x1p-32 };

        expected_for_one(fingerprint, &adapter, cases[i].q32, expected);
        assert_int_equal(hth_effective_fingerprint(fingerprint, &adapter, 1, effective, NULL), HEARTH_OK);
        assert_memory_equal(effective, expected, 32);
    }
}

TEST(a_scale_that_fits_no_64_bits_is_refused_by_name_and_writes_nothing)
{
    const double zero = 0.0;
    const double wrong[] = { 0x1p31, -0x1.0000000000001p31, 1e300, -1e300, 1.0 / zero, -1.0 / zero, zero / zero };
    uint8_t fingerprint[32] = { 7 }, effective[32];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        hth_folded_adapter adapters[2] = { { .scale = 1.0 }, { .scale = wrong[i] } };
        hearth_error err = { .message = "" };

        memset(effective, 0x55, sizeof(effective));
        assert_int_equal(hth_effective_fingerprint(fingerprint, adapters, 2, effective, &err), HEARTH_MISUSE);
        assert_non_null(strstr(err.message, "adapter 1 has the scale"));
        assert_int_equal(effective[0], 0x55);
        assert_int_equal(effective[31], 0x55);
    }
}

/* ---- salts ---- */

/* HMAC-SHA256(salt, "hearth-salt-v1" || 00 01 .. 1f), made by another implementation of HMAC. */
TEST(a_salt_makes_a_fingerprint_of_its_own)
{
    static const struct {
        const char *salt;
        const char *expected;
    } cases[] = {
        { "tenant-a", "2c7c6ae20094f4bbbe9a31dce105c704756ec3f42942f4aa0fe97b2d8f660a98" },
        { "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
          "eb6e068099d1831abdca8e7cbb95a923ca269ffaf193239f8473f255c67a02d4" },
        { "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
          "4f771604cd6d130ca4e9e9bcdb18c9b3cd0563b89fa888c64410e05299860239" },
    };
    uint8_t fingerprint[32], salted[32];

    for (size_t i = 0; i < sizeof(fingerprint); i++)
        fingerprint[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hth_key as_key;

        hth_salted_fingerprint(fingerprint, cases[i].salt, salted);
        memcpy(as_key.bytes, salted, sizeof(salted));
        assert_key(&as_key, cases[i].expected);
    }
    hth_salted_fingerprint(fingerprint, "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
                           fingerprint);
    assert_memory_equal(fingerprint, salted, sizeof(salted)); /* in place */
}

TEST(no_salt_leaves_a_fingerprint_as_it_is)
{
    uint8_t fingerprint[32] = { 1, 2, 3, 4 }, salted[32];

    hth_salted_fingerprint(fingerprint, NULL, salted);
    assert_memory_equal(salted, fingerprint, 32);
    memset(salted, 0, sizeof(salted));
    hth_salted_fingerprint(fingerprint, "", salted);
    assert_memory_equal(salted, fingerprint, 32);
}
