/*
 * safetensors_test.c - the header of a safetensors file is read, or refused with the name of the file and the tensor
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/safetensors.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { FILE_MAX = 1 << 16 };

/* A file of this header and n_data bytes of data. Returns its size. */
static size_t make_file(uint8_t *bytes, const char *header, size_t n_data)
{
    uint64_t n = strlen(header);

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(n >> (8 * i));
    memcpy(bytes + 8, header, n);
    memset(bytes + 8 + n, 7, n_data);
    return 8 + n + n_data;
}

static hearth_status parse(const char *header, size_t n_data, hth_safetensors *file, hearth_error *err)
{
    static uint8_t bytes[FILE_MAX];

    return hth_safetensors_parse("x.safetensors", bytes, make_file(bytes, header, n_data), file, err);
}

/* The file is refused with this message. */
static void refuse(const char *header, size_t n_data, const char *problem)
{
    hth_safetensors file;
    hearth_error err = { .message = "" };

    assert_int_equal(parse(header, n_data, &file, &err), HEARTH_CORRUPT);
    if (!strstr(err.message, problem) || !strstr(err.message, "x.safetensors"))
        fail_msg("'%s' instead of '%s'", err.message, problem);
}

TEST(tensors_have_their_types_shapes_and_places)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                 "\"none\":{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[20,20]},"
                                 "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[20,21]}}   ";
    hth_safetensors file;
    hearth_error err;

    assert_int_equal(parse(header, 21, &file, &err), HEARTH_OK);
    assert_int_equal(file.n_tensors, 4);
    assert_false(file.has_argument_order);
    assert_string_equal(file.tensors[0].name, "b");
    assert_int_equal(file.tensors[0].type, HTH_SAFETENSORS_BF16);
    assert_int_equal(file.tensors[0].n_dims, 2);
    assert_int_equal(file.tensors[0].shape[0], 2);
    assert_int_equal(file.tensors[0].shape[1], 3);
    assert_int_equal(file.tensors[0].begin, 8 + strlen(header) + 8);
    assert_int_equal(file.tensors[0].end, 8 + strlen(header) + 20);
    assert_int_equal(file.tensors[1].type, HTH_SAFETENSORS_F32);
    assert_int_equal(file.tensors[3].type, HTH_SAFETENSORS_OTHER);
    assert_string_equal(file.tensors[3].type_name, "U8");
    hth_safetensors_close(&file);
}

#define TWO                                                                                                       \
    "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_" \
    "offsets\":[2,3]}"

TEST(the_argument_order_is_that_of_the_tensors)
{
    hth_safetensors file;
    hearth_error err;

    assert_int_equal(parse("{\"__metadata__\":{\"argument_order\":\"[\\\"b\\\",\\\"a\\\"]\"}," TWO "}", 3, &file, &err),
                     HEARTH_OK);
    assert_true(file.has_argument_order);
    assert_string_equal(file.tensors[0].name, "b");
    assert_string_equal(file.tensors[1].name, "a");
    hth_safetensors_close(&file);
    refuse("{\"__metadata__\":{\"argument_order\":\"[\\\"b\\\",\\\"b\\\"]\"}," TWO "}", 3, "names 'b' twice");
    refuse("{\"__metadata__\":{\"argument_order\":\"[\\\"b\\\",\\\"c\\\"]\"}," TWO "}", 3, "'c' which is no tensor");
    refuse("{\"__metadata__\":{\"argument_order\":\"[\\\"b\\\",5]\"}," TWO "}", 3, "which is no tensor");
    refuse("{\"__metadata__\":{\"argument_order\":\"[\\\"b\\\"]\"}," TWO "}", 3, "is no list of its 2 tensors");
    refuse("{\"__metadata__\":{\"argument_order\":\"[[[[[[\"}," TWO "}", 3, "is no list of tensors");
    refuse("{\"__metadata__\":{\"argument_order\":7}," TWO "}", 3, "is no list of tensors");
    refuse("{\"__metadata__\":[]," TWO "}", 3, "__metadata__ is no object");
}

TEST(the_length_of_the_header_is_bounded)
{
    uint8_t bytes[64] = { 0 };
    hth_safetensors file;
    hearth_error err;

    for (size_t n = 0; n < sizeof(bytes); n++)
        assert_int_equal(hth_safetensors_parse("x", bytes, n, &file, &err), HEARTH_CORRUPT);
    memset(bytes, 0xff, 8); /* 2^64 - 1: its sum with 8 overflows */
    assert_int_equal(hth_safetensors_parse("x", bytes, sizeof(bytes), &file, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "too short for its header"));
    memset(bytes + 4, 0, 4); /* 2^32 - 1, in a file that says that it is long enough */
    assert_int_equal(hth_safetensors_parse("x", bytes, UINT64_C(1) << 33, &file, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "longer than 100000000"));
}

TEST(places_that_do_not_fill_the_file_are_refused)
{
#define ONE(offsets) "{\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" offsets "}}"
    refuse(ONE("[0,2]"), 3, "bytes behind its last tensor");
    refuse(ONE("[0,2]"), 1, "'t': its data go beyond the end");
    refuse(ONE("[1,3]"), 3, "'t': there is a hole before its data");
    refuse(ONE("[2,0]"), 3, "'t': its data end before they begin");
    refuse(ONE("[-2,0]"), 3, "'t': its data_offsets are not two sizes");
    refuse(ONE("[0,2,4]"), 3, "'t': its data_offsets are not two sizes");
    refuse(ONE("[0,2.0]"), 3, "'t': its data_offsets are not two sizes");
    refuse(ONE("[9223372036854775805,9223372036854775807]"), 3, "'t': its data go beyond the end");
    refuse(ONE("[0,9223372036854775808]"), 3, "is no JSON");
    refuse(ONE("[0,1]"), 1, "'t': its data_offsets do not agree");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
           3, "'b': its data overlap");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
           2, "its data overlap");
}

TEST(shapes_and_types_that_make_no_sense_are_refused)
{
#define SHAPED(dtype, shape) "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[0,4]}}"
    refuse(SHAPED("F32", "[4294967296,4294967296]"), 4, "'t': its shape has more elements");
    refuse(SHAPED("F32", "[4611686018427387905]"), 4, "'t': its data_offsets do not agree"); /* times 4: 4 */
    refuse(SHAPED("F32", "[-1]"), 4, "'t': its shape has something else than sizes");
    refuse(SHAPED("F32", "[1,1,1,1,1,1,1,1,1]"), 4, "'t': its shape has more than 8 dimensions");
    refuse(SHAPED("F32", "{}"), 4, "'t': it has no shape");
    refuse(SHAPED("F31", "[1]"), 4, "'t': it has no dtype");
    refuse(SHAPED("F16", "[1]"), 4, "'t': its data_offsets do not agree");
    refuse("{\"t\":5}", 0, "'t': it has no dtype");
    refuse("{\"t\":{\"dtype\":[],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'t': it has no dtype");
}

TEST(headers_that_are_no_such_json_are_refused)
{
    char *deep = calloc(1, FILE_MAX);

    assert_non_null(deep);
    refuse("[]", 0, "does not begin with '{'");
    refuse(" {}", 0, "does not begin with '{'");
    refuse("{\"t\":", 0, "is no JSON");
    refuse("{} x", 0, "is no JSON");
    refuse("{\"t\\u0000\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "is no JSON");
    refuse("{\"\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "control characters");
    refuse("{\"\xc2\x9bz\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "control characters");
    refuse("{\"t\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
           "\"t\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
           1, "is no JSON");
    memcpy(deep, "{\"t\":", 5);
    memset(deep + 5, '[', FILE_MAX - 100);
    refuse(deep, 0, "nested too deeply");
    free(deep);
}

DIRECTORY_TEST(files_are_regular_and_links_end)
{
    char path[256], other[256];
    hth_safetensors file;
    hearth_error err;

    (void)snprintf(path, sizeof(path), "%s/a.safetensors", directory);
    (void)snprintf(other, sizeof(other), "%s/b.safetensors", directory);
    assert_int_equal(hth_safetensors_open(directory, "a.safetensors", &file, &err), HEARTH_NOT_FOUND);
    assert_int_equal(symlink(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(hth_safetensors_open(directory, "a.safetensors", &file, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, "a.safetensors"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(hth_safetensors_open(directory, "a.safetensors", &file, &err), HEARTH_CORRUPT);
    assert_int_equal(hth_safetensors_open(directory, ".", &file, &err), HEARTH_CORRUPT);
}
