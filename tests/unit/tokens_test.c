/*
 * tokens_test.c - tokens one by one, text out of them as they come, and what a model's file says of itself
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hearth.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/gguf_edit.h"
#include "support/support.h"

#define TINY HTH_TEST_MODELS "/hearth-tiny.gguf"
#define STUB_BOS 256

/* A model on a runtime without a cache. */
typedef struct place {
    hearth_runtime *runtime;
    hearth_model *model;
} place;

static place place_open(const char *path)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_error err = { .message = "" };
    place p;

    options.cache_disabled = true;
    options.engine_directory = HTH_TEST_ENGINE_DIR;
    if (hearth_runtime_open(&options, &p.runtime, &err) != HEARTH_OK ||
        hearth_model_load(p.runtime, path, NULL, &p.model, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return p;
}

static void place_close(place p)
{
    hearth_model_unref(p.model);
    hearth_runtime_close(p.runtime);
}

static hearth_token special(const place *p, hearth_special role)
{
    hearth_token token = -2;

    assert_int_equal(hearth_special_token(p->model, role, &token, NULL), HEARTH_OK);
    return token;
}

static unsigned flags(const place *p, hearth_token token)
{
    unsigned out = 0;

    assert_int_equal(hearth_token_flags(p->model, token, &out, NULL), HEARTH_OK);
    return out;
}

/* ---- the vocabulary ---- */

TEST(a_vocabulary_says_what_it_is)
{
    place stub = place_open("stub:vocab=300"), tiny = place_open(TINY);
    hearth_vocabulary v = { .struct_size = sizeof(v) };
    struct {
        size_t struct_size;
        hearth_vocabulary_type type;
    } older = { .struct_size = sizeof(older) };
    hearth_error err;

    assert_int_equal(hearth_model_vocabulary(stub.model, &v, NULL), HEARTH_OK);
    assert_int_equal(v.n_tokens, 300);
    assert_int_equal(v.type, HEARTH_VOCABULARY_OTHER);
    assert_true(v.adds_bos);
    assert_false(v.adds_eos);
    assert_int_equal(v.struct_size, sizeof(v));

    assert_int_equal(hearth_model_vocabulary(tiny.model, &v, NULL), HEARTH_OK);
    assert_true(v.n_tokens > 256);
    assert_string_equal(hearth_vocabulary_type_name(v.type), "spm");
    assert_string_equal(hearth_vocabulary_type_name((hearth_vocabulary_type)99), "unknown");

    /* A struct of an older header gets what it has room for. */
    assert_int_equal(hearth_model_vocabulary(tiny.model, (hearth_vocabulary *)(void *)&older, NULL), HEARTH_OK);
    assert_int_equal(older.type, HEARTH_VOCABULARY_SPM);

    v.struct_size = 0;
    assert_int_equal(hearth_model_vocabulary(tiny.model, &v, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "struct_size"));
    assert_int_equal(hearth_model_vocabulary(NULL, &v, &err), HEARTH_MISUSE);
    place_close(stub);
    place_close(tiny);
}

/* Text cut into tokens is the bytes of these tokens, one after another. */
TEST(bytes_of_tokens_are_the_text)
{
    static const char text[] = "Once upon a time: Grüße, 日本語.";
    static const char *const paths[] = { "stub:", TINY };

    for (size_t i = 0; i < 2; i++) {
        place p = place_open(paths[i]);
        hearth_token tokens[128];
        char joined[256], bytes[HEARTH_TOKEN_BYTES_MAX];
        size_t n_tokens = 0, n = 0, n_length = 0, n_joined = 0;

        assert_int_equal(hearth_tokenize(p.model, text, sizeof(text) - 1, 0, tokens, 128, &n_tokens, NULL), HEARTH_OK);
        for (size_t k = 0; k < n_tokens; k++) {
            assert_int_equal(hearth_token_bytes(p.model, tokens[k], bytes, sizeof(bytes), &n, NULL), HEARTH_OK);
            assert_int_equal(hearth_token_bytes(p.model, tokens[k], NULL, 0, &n_length, NULL), HEARTH_OK);
            assert_int_equal(n, n_length);
            assert_true(n_joined + n <= sizeof(joined));
            memcpy(joined + n_joined, bytes, n);
            n_joined += n;
        }
        assert_int_equal(n_joined, sizeof(text) - 1);
        assert_memory_equal(joined, text, n_joined);
        place_close(p);
    }
}

TEST(bytes_of_a_token_are_refused_with_a_reason)
{
    place p = place_open("stub:");
    char bytes[4] = "???";
    size_t n = 77;
    unsigned out = 77;
    hearth_error err;

    assert_int_equal(hearth_token_bytes(p.model, STUB_BOS, bytes, 2, &n, &err), HEARTH_TOO_LONG);
    assert_non_null(strstr(err.message, "3 bytes"));
    assert_int_equal(n, 77);
    assert_string_equal(bytes, "???");
    assert_int_equal(hearth_token_bytes(p.model, STUB_BOS, bytes, 3, &n, &err), HEARTH_OK);
    assert_memory_equal(bytes, "<s>", 3);
    n = 77;
    assert_int_equal(hearth_token_bytes(p.model, -1, bytes, 4, &n, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "-1"));
    assert_int_equal(hearth_token_bytes(p.model, 260, bytes, 4, &n, NULL), HEARTH_MISUSE);
    assert_int_equal(hearth_token_bytes(p.model, 'a', NULL, 4, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_token_bytes(p.model, 'a', bytes, 4, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_token_bytes(NULL, 'a', bytes, 4, &n, &err), HEARTH_MISUSE);
    assert_int_equal(n, 77);
    assert_int_equal(hearth_token_flags(p.model, 260, &out, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_token_flags(p.model, 'a', NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_token_flags(NULL, 'a', &out, &err), HEARTH_MISUSE);
    assert_int_equal(out, 77);

    hearth_model_unload(p.model);
    assert_int_equal(hearth_token_bytes(p.model, 'a', bytes, 4, &n, &err), HEARTH_CANCELLED);
    assert_int_equal(hearth_token_flags(p.model, 'a', &out, &err), HEARTH_CANCELLED);
    place_close(p);
}

TEST(a_token_says_what_it_is)
{
    place stub = place_open("stub:vocab=300"), tiny = place_open(TINY);
    hearth_token end = special(&tiny, HEARTH_SPECIAL_EOS);
    unsigned of_text = 0;

    assert_int_equal(flags(&stub, 'a'), HEARTH_TOKEN_BYTE);
    assert_int_equal(flags(&stub, 299), HEARTH_TOKEN_NORMAL);
    assert_int_equal(flags(&stub, STUB_BOS), HEARTH_TOKEN_CONTROL);
    assert_int_equal(flags(&stub, special(&stub, HEARTH_SPECIAL_EOS)), HEARTH_TOKEN_CONTROL | HEARTH_TOKEN_END);

    assert_true(end >= 0);
    assert_int_equal(flags(&tiny, end), HEARTH_TOKEN_CONTROL | HEARTH_TOKEN_END);
    for (hearth_token token = 0; token < 2048; token++)
        of_text |= flags(&tiny, token);
    assert_int_equal(of_text & (HEARTH_TOKEN_NORMAL | HEARTH_TOKEN_BYTE), HEARTH_TOKEN_NORMAL | HEARTH_TOKEN_BYTE);
    assert_int_equal(special(&tiny, HEARTH_SPECIAL_BOS), 1);
    assert_int_equal(end, 2);
    assert_int_equal(hearth_token_flags(tiny.model, 1 << 30, &of_text, NULL), HEARTH_MISUSE);
    place_close(stub);
    place_close(tiny);
}

TEST(roles_name_their_tokens)
{
    place stub = place_open("stub:"), fills = place_open("stub:fills=1"), tiny = place_open(TINY);
    hearth_token token = 77;
    hearth_error err;

    assert_int_equal(special(&stub, HEARTH_SPECIAL_BOS), STUB_BOS);
    assert_int_equal(special(&stub, HEARTH_SPECIAL_NEWLINE), '\n');
    assert_int_equal(special(&stub, HEARTH_SPECIAL_PAD), -1);
    assert_int_equal(special(&stub, HEARTH_SPECIAL_FIM_MIDDLE), -1);
    assert_int_equal(special(&fills, HEARTH_SPECIAL_FIM_PREFIX), '<');
    assert_int_equal(special(&fills, HEARTH_SPECIAL_FIM_SUFFIX), '|');
    assert_int_equal(special(&fills, HEARTH_SPECIAL_FIM_MIDDLE), '>');
    for (int role = 0; role < HEARTH_SPECIALS; role++) {
        assert_true(special(&tiny, (hearth_special)role) >= -1);
        assert_string_not_equal(hearth_special_name((hearth_special)role), "unknown");
    }
    assert_string_equal(hearth_special_name(HEARTH_SPECIAL_EOT), "eot");
    assert_string_equal(hearth_special_name((hearth_special)HEARTH_SPECIALS), "unknown");

    assert_int_equal(hearth_special_token(stub.model, (hearth_special)HEARTH_SPECIALS, &token, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_special_token(stub.model, (hearth_special)-1, &token, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_special_token(NULL, HEARTH_SPECIAL_BOS, &token, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_special_token(stub.model, HEARTH_SPECIAL_BOS, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(token, 77);
    hearth_model_unload(stub.model);
    assert_int_equal(special(&stub, HEARTH_SPECIAL_BOS), STUB_BOS);
    place_close(stub);
    place_close(fills);
    place_close(tiny);
}

/* ---- text as it comes ---- */

static hearth_detokenizer *detokenizer(const place *p, bool with_control)
{
    hearth_detokenizer *d = NULL;

    assert_int_equal(hearth_detokenizer_new(p->model, with_control, &d, NULL), HEARTH_OK);
    return d;
}

static void expect_fed(hearth_detokenizer *d, const hearth_token *tokens, size_t n_tokens, const char *expected)
{
    const char *text = NULL;
    size_t n = 77;

    assert_int_equal(hearth_detokenizer_feed(d, tokens, n_tokens, &text, &n, NULL), HEARTH_OK);
    assert_string_equal(text, expected);
    assert_int_equal(n, strlen(expected));
}

static void expect_finished(hearth_detokenizer *d, const char *expected)
{
    const char *text = NULL;
    size_t n = 77;

    assert_int_equal(hearth_detokenizer_finish(d, &text, &n, NULL), HEARTH_OK);
    assert_string_equal(text, expected);
    assert_int_equal(n, strlen(expected));
}

TEST(characters_come_out_whole)
{
    static const hearth_token tokens[] = { 'a', 0xE2, 0x82, 0xAC, 'b', 0xFF, 'c', 0xF0, 0x9F };
    place p = place_open("stub:");
    hearth_detokenizer *d = detokenizer(&p, false);

    expect_fed(d, tokens, 2, "a");
    expect_fed(d, tokens + 2, 1, "");
    expect_fed(d, NULL, 0, "");
    expect_fed(d, tokens + 3, 2,
               "\u20AC"
               "b");
    expect_fed(d, tokens + 5, 4,
               "\uFFFD"
               "c");
    expect_finished(d, "\uFFFD");
    expect_finished(d, "");
    /* What was incomplete is over: the rest of the character is not taken for its end. */
    expect_fed(d, (const hearth_token[]){ 0x98, 'd' }, 2,
               "\uFFFD"
               "d");
    hearth_detokenizer_free(d);
    place_close(p);
}

TEST(control_tokens_are_named_or_left_out)
{
    static const hearth_token tokens[] = { STUB_BOS, 'x', STUB_BOS + 1 };
    place p = place_open("stub:");
    hearth_detokenizer *with = detokenizer(&p, true), *without = detokenizer(&p, false);

    expect_fed(with, tokens, 3, "<s>x</s>");
    expect_fed(without, tokens, 3, "x");
    hearth_detokenizer_free(with);
    hearth_detokenizer_free(without);
    place_close(p);
}

/* Whatever the pieces are, together they are the text, and each of them is whole. */
TEST(pieces_are_the_text)
{
    static const char text[] = "The fox \xF0\x9F\xA6\x8A met Grüße & 日本語 \xF0\x9F\x98\x80!";
    place p = place_open(TINY);
    hearth_token tokens[128];
    size_t n_tokens = 0;

    assert_int_equal(hearth_tokenize(p.model, text, sizeof(text) - 1, 0, tokens, 128, &n_tokens, NULL), HEARTH_OK);
    for (size_t step = 1; step <= 5; step++) {
        hearth_detokenizer *d = detokenizer(&p, false);
        char joined[sizeof(text) + 16] = "";

        for (size_t i = 0; i < n_tokens; i += step) {
            const char *piece = NULL;
            size_t n = 0, n_again = 0;
            size_t n_fed = n_tokens - i < step ? n_tokens - i : step;
            hearth_token again[64];

            assert_int_equal(hearth_detokenizer_feed(d, tokens + i, n_fed, &piece, &n, NULL), HEARTH_OK);
            assert_true(strlen(joined) + n < sizeof(joined));
            /* What is not whole is no UTF-8, and refused. */
            assert_int_equal(hearth_tokenize(p.model, piece, n, 0, again, 64, &n_again, NULL), HEARTH_OK);
            strcat(joined, piece);
        }
        expect_finished(d, "");
        assert_string_equal(joined, text);
        hearth_detokenizer_free(d);
    }
    place_close(p);
}

TEST(a_call_that_fails_reads_no_token)
{
    static const hearth_token bad[] = { 0xAC, 'x', 9999 };
    static const hearth_token good[] = { 0xE2, 0x82 };
    place p = place_open("stub:");
    hearth_detokenizer *d = detokenizer(&p, false), *none = NULL;
    const char *text = "unchanged";
    size_t n = 77;
    hearth_error err;

    expect_fed(d, good, 2, "");
    assert_int_equal(hearth_detokenizer_feed(d, bad, 3, &text, &n, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "9999"));
    assert_int_equal(hearth_detokenizer_feed(NULL, bad, 1, &text, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_detokenizer_feed(d, NULL, 1, &text, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_detokenizer_feed(d, bad, 1, NULL, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_detokenizer_feed(d, bad, 1, &text, NULL, NULL), HEARTH_MISUSE);
    assert_int_equal(hearth_detokenizer_finish(NULL, &text, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_detokenizer_finish(d, NULL, &n, &err), HEARTH_MISUSE);
    assert_string_equal(text, "unchanged");
    assert_int_equal(n, 77);
    expect_fed(d, bad, 2, "\u20ACx");

    assert_int_equal(hearth_detokenizer_new(NULL, false, &none, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_detokenizer_new(p.model, false, NULL, &err), HEARTH_MISUSE);
    assert_null(none);

    /* It keeps its model, but not what is unloaded of it. */
    expect_fed(d, good, 1, "");
    hearth_model_unload(p.model);
    hearth_model_unref(p.model);
    assert_int_equal(hearth_detokenizer_feed(d, good, 1, &text, &n, &err), HEARTH_CANCELLED);
    expect_finished(d, "\uFFFD");
    hearth_detokenizer_free(d);
    hearth_detokenizer_free(NULL);
    hearth_runtime_close(p.runtime);
}

TEST(a_whole_text_ends_with_what_is_incomplete)
{
    static const hearth_token tokens[] = { 'a', 0xE2, 0x82 };
    place p = place_open("stub:");
    char *text = NULL;
    size_t n = 0;

    assert_int_equal(hearth_detokenize(p.model, tokens, 3, false, &text, &n, NULL), HEARTH_OK);
    assert_string_equal(text, "a\uFFFD");
    assert_int_equal(n, 4);
    hearth_free(text);
    assert_int_equal(hearth_detokenize(p.model, NULL, 0, false, &text, NULL, NULL), HEARTH_OK);
    assert_string_equal(text, "");
    hearth_free(text);
    assert_int_equal(hearth_detokenize(NULL, tokens, 3, false, &text, &n, NULL), HEARTH_MISUSE);
    place_close(p);
}

/* ---- metadata ---- */

static char *metadata(const place *p, const char *key)
{
    char *value = NULL;
    size_t n = 0;

    assert_int_equal(hearth_model_metadata(p->model, key, &value, &n, NULL), HEARTH_OK);
    assert_int_equal(n, strlen(value));
    return value;
}

static void expect_metadata(const place *p, const char *key, const char *expected)
{
    char *value = metadata(p, key);

    assert_string_equal(value, expected);
    hearth_free(value);
}

TEST(metadata_is_told_by_key_and_by_number)
{
    static const char *const paths[] = { "stub:", TINY };

    for (size_t i = 0; i < 2; i++) {
        place p = place_open(paths[i]);
        size_t n = 0, n_architectures = 0;
        char *key = NULL;

        assert_int_equal(hearth_model_metadata_count(p.model, &n, NULL), HEARTH_OK);
        assert_true(n >= 2);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(hearth_model_metadata_key(p.model, k, &key, NULL), HEARTH_OK);
            n_architectures += strcmp(key, "general.architecture") == 0;
            hearth_free(metadata(&p, key));
            hearth_free(key);
        }
        assert_int_equal(n_architectures, 1);
        assert_int_equal(hearth_model_metadata_key(p.model, n, &key, NULL), HEARTH_NOT_FOUND);
        assert_int_equal(hearth_model_metadata_key(p.model, SIZE_MAX, &key, NULL), HEARTH_NOT_FOUND);
        place_close(p);
    }
}

TEST(metadata_of_a_file_is_what_stands_there)
{
    char *home = hth_test_directory_new(), path[512], *longer = malloc(3001);
    const hth_test_gguf_pair pairs[] = { { "test.number", 0.25f, NULL }, { "test.long", 0, longer } };
    place p;

    memset(longer, 'x', 3000);
    longer[3000] = '\0';
    (void)snprintf(path, sizeof(path), "%s/model.gguf", home);
    hth_test_gguf_add(TINY, path, pairs, 2);
    p = place_open(path);
    expect_metadata(&p, "general.architecture", "llama");
    expect_metadata(&p, "test.number", "0.250000");
    expect_metadata(&p, "test.long", longer);
    place_close(p);
    free(longer);
    hth_test_directory_remove(home);
}

TEST(metadata_is_text_or_a_reason)
{
    place p = place_open("stub:"), tiny = place_open(TINY);
    char *value = NULL;
    size_t n = 77;
    hearth_error err;

    expect_metadata(&p, "stub.bytes", "\uFFFD!");
    assert_int_equal(hearth_model_metadata(p.model, "no.such", &value, &n, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "no.such"));
    assert_int_equal(hearth_model_metadata(tiny.model, "no.such", &value, &n, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "no.such"));
    /* An array has no text. */
    assert_int_equal(hearth_model_metadata(tiny.model, "tokenizer.ggml.tokens", &value, &n, NULL), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_model_metadata(p.model, NULL, &value, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_metadata(p.model, "stub.bytes", NULL, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_metadata(NULL, "stub.bytes", &value, &n, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_metadata_key(p.model, 0, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_metadata_key(NULL, 0, &value, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_metadata_count(p.model, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_model_metadata_count(NULL, &n, &err), HEARTH_MISUSE);
    hearth_model_unload(p.model);
    assert_int_equal(hearth_model_metadata(p.model, "stub.bytes", &value, &n, &err), HEARTH_CANCELLED);
    assert_int_equal(hearth_model_metadata_key(p.model, 0, &value, &err), HEARTH_CANCELLED);
    assert_int_equal(hearth_model_metadata_count(p.model, &n, &err), HEARTH_CANCELLED);
    assert_null(value);
    assert_int_equal(n, 77);
    place_close(p);
    place_close(tiny);
}
