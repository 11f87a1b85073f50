/*
 * A GGUF file is: "GGUF", version, number of tensors, number of pairs, the pairs, descriptions of tensors, padding to
 * 32 bytes, the tensors, whose offsets count from there. So pairs may be put in front of the others if their bytes are
 * a multiple of 32; the last one is a text as long as that takes.
 */
#include "support/gguf_edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

enum { HEAD = 24, N_PAIRS_AT = 16, ALIGNMENT = 32, TYPE_F32 = 6, TYPE_TEXT = 8, ROOM = 4096 };

static char *read_all(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    char *bytes;
    long n;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    n = ftell(file);
    assert_true(n > HEAD);
    rewind(file);
    bytes = malloc((size_t)n);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)n, file), (size_t)n);
    assert_int_equal(fclose(file), 0);
    *n_out = (size_t)n;
    return bytes;
}

static void put(char **at, const void *bytes, size_t n)
{
    memcpy(*at, bytes, n); /* numbers are little-endian, as on every machine that this runs on */
    *at += n;
}

static void put_text(char **at, const char *text, size_t n)
{
    const uint64_t length = n;

    put(at, &length, sizeof(length));
    put(at, text, n);
}

static void put_pair(char **at, const hth_test_gguf_pair *pair)
{
    const uint32_t type = pair->text ? TYPE_TEXT : TYPE_F32;

    put_text(at, pair->key, strlen(pair->key));
    put(at, &type, sizeof(type));
    if (pair->text)
        put_text(at, pair->text, strlen(pair->text));
    else
        put(at, &pair->number, sizeof(pair->number));
}

void hth_test_gguf_add(const char *from, const char *to, const hth_test_gguf_pair *pairs, size_t n)
{
    char more[ROOM], filler[ALIGNMENT + 1] = "", *at = more;
    const hth_test_gguf_pair last = { .key = "test.filler", .text = filler };
    size_t n_bytes, n_more;
    char *bytes = read_all(from, &n_bytes);
    uint64_t n_pairs;
    FILE *file = fopen(to, "wb");

    assert_non_null(file);
    for (size_t i = 0; i < n; i++)
        put_pair(&at, &pairs[i]);
    n_more = (size_t)(at - more) + 8 + strlen(last.key) + 4 + 8;
    memset(filler, '.', (ALIGNMENT - n_more % ALIGNMENT) % ALIGNMENT);
    put_pair(&at, &last);
    n_more = (size_t)(at - more);
    assert_int_equal(n_more % ALIGNMENT, 0);
    memcpy(&n_pairs, bytes + N_PAIRS_AT, sizeof(n_pairs));
    n_pairs += n + 1;
    memcpy(bytes + N_PAIRS_AT, &n_pairs, sizeof(n_pairs));
    assert_int_equal(fwrite(bytes, 1, HEAD, file), HEAD);
    assert_int_equal(fwrite(more, 1, n_more, file), n_more);
    assert_int_equal(fwrite(bytes + HEAD, 1, n_bytes - HEAD, file), n_bytes - HEAD);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

void hth_test_gguf_hide(const char *from, const char *to, const char *prefix)
{
    size_t n_bytes, n_hidden = 0;
    char *bytes = read_all(from, &n_bytes), *end = bytes + n_bytes;
    FILE *file = fopen(to, "wb");

    assert_non_null(file);
    for (char *at = bytes; (at = memmem(at, (size_t)(end - at), prefix, strlen(prefix))); n_hidden++)
        *at = '_';
    assert_true(n_hidden > 0);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}
