/*
 * forest.h - rows whose right contents everybody knows: a forest of prompts that share prefixes
 *
 * Eight prompts in each of two keyspaces. Their blocks form binary trees (two roots, four, eight leaves); on them stand
 * tails of several lengths, the longer of which supersede the shorter, logits and states. Image and size of a row
 * follow from its id, so that any thread of any process can check completely what it borrowed, without a word from the
 * one that saved it.
 */
#ifndef HTH_TEST_FOREST_H
#define HTH_TEST_FOREST_H

#include "cache/lookup.h"

enum {
    TEST_FOREST_PROMPTS = 8, /* in a keyspace */
    TEST_FOREST_KEYSPACES = 2,
    TEST_FOREST_BLOCKS = 3, /* of a prompt */
    TEST_FOREST_REST = 200, /* tokens after them */
    TEST_FOREST_TOKENS = TEST_FOREST_BLOCKS * (int)HTH_BLOCK_TOKENS + TEST_FOREST_REST,
    TEST_FOREST_ROWS_MAX = 160,
    TEST_FOREST_ROW_BYTES_MAX = 12000, /* of a row's file */
};

typedef struct test_forest_row {
    hth_row_meta meta; /* without bytes and uses */
    const hth_keyspace *keyspace;
    const hearth_token *tokens; /* its own */
    size_t image_bytes;
    int superseded; /* the row that it makes superfluous; -1: none */
    bool is_superseded;
} test_forest_row;

typedef struct test_forest {
    hth_keyspace keyspaces[TEST_FOREST_KEYSPACES];
    hearth_token prompts[TEST_FOREST_PROMPTS][TEST_FOREST_TOKENS];
    test_forest_row rows[TEST_FOREST_ROWS_MAX];
    size_t n_rows;
} test_forest;

/* The same forest every time. Not to be moved afterwards. */
void test_forest_init(test_forest *forest);
/* The row of that id; NULL: it is none of the forest. */
const test_forest_row *test_forest_find(const test_forest *forest, const hth_row_id *id);

/* A save of the row; *superseded is for what it points to. */
hth_save test_forest_save_of(const test_forest *forest, const test_forest_row *row, hearth_save_reason reason);
/* Save it whole; false when there was no room. */
bool test_forest_save(const test_forest *forest, const test_forest_row *row, hearth_save_reason reason,
                      hth_cache *cache);

/* What a borrowed row has that the row of the forest has not; NULL when it is that row to the last byte. */
const char *test_forest_difference(const test_forest_row *row, const hth_borrowed_row *borrowed);
/* The same of a whole file. */
const char *test_forest_file_difference(const test_forest_row *row, const uint8_t *bytes, size_t n_bytes);

/* Where the row's file is in the file tier of that directory. */
void test_forest_path(const char *directory, const hth_row_id *id, char *path, size_t capacity);

#endif
