/*
 * index_damage.c - opens the environment as any program with LMDB can
 */
#include "support/index_damage.h"

#include <glob.h>
#include <lmdb.h>
#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"

enum { RECORD_BYTES_MAX = 4096, N_DBS = 8 };

static const char *const dbs[N_DBS] = { "rows", "children", "lru",  "reservations",
                                        "meta", "tokens",   "past", "past_order" };

static void environment_path(const char *directory, char *path, size_t capacity)
{
    char pattern[4096];
    glob_t found;

    (void)snprintf(pattern, sizeof(pattern), "%s/index/v*-*", directory);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    (void)snprintf(path, capacity, "%s", found.gl_pathv[0]);
    globfree(&found);
}

static void change_byte(uint8_t *bytes, size_t n_bytes, uint64_t *random)
{
    if (n_bytes > 0)
        bytes[hth_test_random(random, n_bytes)] ^= (uint8_t)(1 + hth_test_random(random, 255));
}

/* Damage the record under the cursor. */
static void damage_here(MDB_cursor *cursor, MDB_val key, MDB_val value, test_index_damage damage, uint64_t *random)
{
    uint8_t key_bytes[RECORD_BYTES_MAX], value_bytes[RECORD_BYTES_MAX];
    MDB_val new_key = { .mv_size = key.mv_size, .mv_data = key_bytes };
    MDB_val new_value = { .mv_size = value.mv_size, .mv_data = value_bytes };

    assert_true(key.mv_size <= RECORD_BYTES_MAX);
    assert_true(value.mv_size <= RECORD_BYTES_MAX);
    memcpy(key_bytes, key.mv_data, key.mv_size);
    memcpy(value_bytes, value.mv_data, value.mv_size);
    assert_int_equal(mdb_cursor_del(cursor, 0), 0);
    if (damage == TEST_RECORD_LOST)
        return;
    if (damage == TEST_KEY_CHANGED)
        change_byte(key_bytes, key.mv_size, random);
    else
        change_byte(value_bytes, value.mv_size, random);
    assert_int_equal(mdb_cursor_put(cursor, &new_key, &new_value, 0), 0);
}

static bool damage_in(MDB_txn *txn, const char *name, size_t *i, test_index_damage damage, uint64_t *random)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    MDB_dbi dbi;
    bool found = false;

    assert_int_equal(mdb_dbi_open(txn, name, 0, &dbi), 0);
    assert_int_equal(mdb_cursor_open(txn, dbi, &cursor), 0);
    while (!found && mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
        found = *i == 0;
        if (found)
            damage_here(cursor, key, value, damage, random);
        else
            (*i)--;
    }
    mdb_cursor_close(cursor);
    return found;
}

bool test_index_damage_record(const char *directory, size_t i, test_index_damage damage, uint64_t *random, char *text,
                              size_t capacity)
{
    static const char *const names[TEST_INDEX_DAMAGES] = { "is lost", "has another value", "has another key" };
    char path[4096];
    bool found = false;
    MDB_env *env;
    MDB_txn *txn;

    environment_path(directory, path, sizeof(path));
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, N_DBS), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSYNC, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    for (size_t db = 0; db < N_DBS && !found; db++) {
        found = damage_in(txn, dbs[db], &i, damage, random);
        if (found)
            (void)snprintf(text, capacity, "a record of %s %s", dbs[db], names[damage]);
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    return found;
}
