/*
 * index_damage.h - single records of an index, lost or changed by another program
 */
#ifndef HTH_TESTS_INDEX_DAMAGE_H
#define HTH_TESTS_INDEX_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum test_index_damage {
    TEST_RECORD_LOST,
    TEST_VALUE_CHANGED, /* one byte of it */
    TEST_KEY_CHANGED,   /* likewise */
    TEST_INDEX_DAMAGES,
} test_index_damage;

/*
 * Do that to record number i, counted over all databases, in the index of the cache directory, which no process has
 * open; bytes and places are drawn. False, with nothing done: there are no more records. *text, [capacity], tells which
 * record it was.
 */
bool test_index_damage_record(const char *directory, size_t i, test_index_damage damage, uint64_t *random, char *text,
                              size_t capacity);

#endif
