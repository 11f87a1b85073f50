/*
 * split_model_test.c - a model in several files: its rows are kept, and those of a model with another part are not used
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "models/fingerprint.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

enum { GGUF_U16 = 2, GGUF_I32 = 5, GGUF_STRING = 8, HEADER_BYTES = 24, ALIGNMENT = 32 };

typedef struct fixture {
    char *directory;
    char parts[2][600];
    hearth_runtime *runtime;
} fixture;

static void set_up(fixture *f)
{
    hearth_runtime_options options;

    f->directory = hth_test_directory_new();
    for (int i = 0; i < 2; i++)
        (void)snprintf(f->parts[i], sizeof(f->parts[i]), "%s/m-0000%d-of-00002.gguf", f->directory, i + 1);
    options = hth_test_runtime_options(f->directory);
    f->runtime = hth_test_runtime_open(&options);
}

static void tear_down(fixture *f)
{
    hearth_runtime_close(f->runtime);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* ---- the two files ---- */

static uint8_t *put_key(uint8_t *at, const char *key, uint8_t type)
{
    hth_put_u64(at, strlen(key));
    memcpy(at + 8, key, strlen(key));
    at += 8 + strlen(key);
    memcpy(at, (const uint8_t[4]){ type }, 4);
    return at + 4;
}

static uint8_t *put_u16(uint8_t *at, const char *key, uint8_t value)
{
    at = put_key(at, key, GGUF_U16);
    memcpy(at, (const uint8_t[2]){ value }, 2);
    return at + 2;
}

/* The metadata of part i, with a text that fills them to whole blocks of ALIGNMENT bytes. Their size. */
static size_t metadata_of(uint8_t bytes[512], unsigned i, uint8_t n_tensors, char filler)
{
    uint8_t *at = put_u16(put_u16(bytes, "split.no", (uint8_t)i), "split.count", 2);
    size_t n;

    at = put_key(at, "split.tensors.count", GGUF_I32);
    memcpy(at, (const uint8_t[4]){ n_tensors }, 4);
    at = put_key(at + 4, "test.filler", GGUF_STRING);
    n = ALIGNMENT - (size_t)(at + 8 - bytes) % ALIGNMENT;
    hth_put_u64(at, n);
    memset(at + 8, filler, n);
    return (size_t)(at + 8 + n - bytes);
}

/* The first part is the model with more metadata. The second one has no tensors. */
static void write_part(const char *path, const uint8_t *head, const uint8_t *metadata, size_t n_metadata,
                       const uint8_t *rest, size_t n_rest)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(head, 1, HEADER_BYTES, file), HEADER_BYTES);
    assert_int_equal(fwrite(metadata, 1, n_metadata, file), n_metadata);
    assert_true(n_rest == 0 || fwrite(rest, 1, n_rest, file) == n_rest);
    assert_int_equal(fclose(file), 0);
}

static void write_parts(const fixture *f, char filler)
{
    static uint8_t model[4 << 20];
    FILE *file = fopen(MODEL, "r");
    uint8_t head[HEADER_BYTES], metadata[512];
    size_t n, n_metadata;
    uint8_t n_tensors;

    assert_non_null(file);
    n = fread(model, 1, sizeof(model), file);
    (void)fclose(file); /* only read */
    assert_true(n > HEADER_BYTES && n < sizeof(model));
    n_tensors = model[8];
    memcpy(head, model, sizeof(head));
    hth_put_u64(head + 16, hth_get_u64(head + 16) + 4);
    n_metadata = metadata_of(metadata, 0, n_tensors, 'x');
    write_part(f->parts[0], head, metadata, n_metadata, model + HEADER_BYTES, n - HEADER_BYTES);
    hth_put_u64(head + 8, 0);
    hth_put_u64(head + 16, 4);
    n_metadata = metadata_of(metadata, 1, n_tensors, filler);
    write_part(f->parts[1], head, metadata, n_metadata, NULL, 0);
}

/* ---- */

static uint32_t n_cached_of(const fixture *f)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model;
    char *prompt = hth_test_prompt(600, 0);
    const hearth_request request = hth_test_greedy(prompt, 1);
    const hearth_result *result;
    uint32_t n;

    options.n_ctx = 2048;
    model = hth_test_model_load(f->runtime, f->parts[0], &options);
    result = hth_test_complete(model, &request);
    n = result->stats->cached_tokens;
    hearth_result_unref(result);
    hth_test_model_end(f->runtime, model);
    hth_test_flush(f->runtime);
    free(prompt);
    return n;
}

FIXTURE_TEST(a_split_model_that_is_loaded_again_finds_its_rows)
{
    write_parts(f, 'a');
    assert_int_equal(n_cached_of(f), 0);
    assert_true(n_cached_of(f) > 256);
}

FIXTURE_TEST(a_model_with_another_second_part_finds_no_rows)
{
    write_parts(f, 'a');
    assert_int_equal(n_cached_of(f), 0);
    write_parts(f, 'b');
    assert_int_equal(n_cached_of(f), 0);
}

FIXTURE_TEST(an_adapter_of_a_model_whose_second_part_is_damaged_is_refused)
{
    hearth_model *model;
    char adapter[600];
    hearth_error err = { .message = "" };

    write_parts(f, 'a');
    model = hth_test_model_load(f->runtime, f->parts[0], NULL);
    (void)snprintf(adapter, sizeof(adapter), "%s/adapter.gguf", f->directory);
    hth_test_adapter("-g 1", MODEL, adapter);
    assert_int_equal(truncate(f->parts[1], 30), 0);
    assert_int_equal(hearth_adapter_load(model, adapter, NULL, NULL, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "00002-of-00002"));
    hth_test_model_end(f->runtime, model);
}

/* ---- its fingerprint ---- */

static hth_fingerprinting *begin(const fixture *f)
{
    const hth_fingerprint_options options = { .mode = HEARTH_FINGERPRINT_SAFE };
    hth_fingerprinting *fingerprinting;
    hearth_error err;

    assert_ok(hth_fingerprinting_new(f->parts[0], &options, NULL, NULL, &fingerprinting, &err), err);
    return fingerprinting;
}

FIXTURE_TEST(a_change_of_the_second_part_while_the_model_loads_is_an_error)
{
    uint8_t out[32];
    hth_fingerprinting *fingerprinting;
    hearth_error err;

    write_parts(f, 'a');
    fingerprinting = begin(f);
    assert_int_equal(truncate(f->parts[1], 30), 0);
    assert_int_equal(hth_fingerprinting_wait(fingerprinting, NULL, NULL, out, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, "00002-of-00002"));
    hth_fingerprinting_free(fingerprinting);
}

FIXTURE_TEST(a_part_that_comes_while_the_model_loads_is_an_error)
{
    uint8_t out[32];
    char away[700];
    hth_fingerprinting *fingerprinting;
    hearth_error err;

    write_parts(f, 'a');
    (void)snprintf(away, sizeof(away), "%s/away", f->directory);
    assert_int_equal(rename(f->parts[1], away), 0);
    fingerprinting = begin(f);
    assert_int_equal(rename(away, f->parts[1]), 0);
    assert_int_equal(hth_fingerprinting_wait(fingerprinting, NULL, NULL, out, &err), HEARTH_IO);
    hth_fingerprinting_free(fingerprinting);
}

static void fingerprint_of(const fixture *f, const char *name, const char *text, uint8_t out[32])
{
    const hth_fingerprint_options options = { .mode = HEARTH_FINGERPRINT_SAFE };
    hth_fingerprinting *fingerprinting = NULL;
    char path[600];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", f->directory, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(hth_fingerprinting_new(path, &options, NULL, NULL, &fingerprinting, NULL), HEARTH_OK);
    assert_int_equal(hth_fingerprinting_wait(fingerprinting, NULL, NULL, out, NULL), HEARTH_OK);
    hth_fingerprinting_free(fingerprinting);
}

FIXTURE_TEST(a_file_that_is_named_like_a_part_of_none_has_the_fingerprint_of_its_bytes)
{
    static const char *const names[] = { "m-00001-of-00000.gguf", "m-00000-of-00000.gguf", "m-00000-of-00001.gguf",
                                         "m-00003-of-00002.gguf" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint8_t one[32], other[32], expected[32];

        fingerprint_of(f, names[i], "one", one);
        hth_sha256_of("one", 3, expected);
        assert_memory_equal(one, expected, 32);
        fingerprint_of(f, names[i], "other", other);
        assert_memory_not_equal(one, other, 32);
    }
}
