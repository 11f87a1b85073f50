/*
 * past_test.c - what is remembered is bounded, and the oldest is forgotten, in a process and in an index
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index/index.h"
#include "support/cmocka_all.h"
#include "support/index_rows.h"
#include "support/support.h"

TEST(a_map_that_is_full_forgets_the_oldest)
{
    hth_fifo_map *map = hth_fifo_map_new(sizeof(uint32_t), sizeof(uint64_t), 64);
    uint64_t value;

    for (uint32_t i = 0; i < 1000; i++) {
        hth_fifo_map_put(map, &i, &(uint64_t){ i * 3 });
        for (uint32_t j = 0; j < 1000; j++) {
            bool expected = j <= i && i - j < 64;

            assert_int_equal(hth_fifo_map_get(map, &j, &value), expected);
            if (expected)
                assert_int_equal(value, j * 3);
        }
    }
    hth_fifo_map_free(map);
}

/* Random operations against an array that knows when each key was put in. */
TEST(a_map_is_what_an_array_would_be)
{
    enum { KEYS = 100, CAPACITY = 32 };
    hth_fifo_map *map = hth_fifo_map_new(1, 1, CAPACITY);
    uint64_t seed = hth_test_seed(), put_at[KEYS] = { 0 }, n_puts = 0;
    uint8_t values[KEYS];

    for (int i = 0; i < 50000; i++) {
        uint8_t key = (uint8_t)hth_test_random(&seed, KEYS), value = (uint8_t)hth_test_random(&seed, 256), got;
        bool is_there = put_at[key] > 0 && n_puts - put_at[key] < CAPACITY;

        assert_int_equal(hth_fifo_map_get(map, &key, &got), is_there);
        if (is_there)
            assert_int_equal(got, values[key]);
        if (hth_test_random(&seed, 4) == 0) {
            hth_fifo_map_forget(map, &key);
            put_at[key] = 0;
        } else {
            hth_fifo_map_put(map, &key, &value);
            values[key] = value;
            put_at[key] = ++n_puts;
        }
    }
    hth_fifo_map_free(map);
}

TEST(of_a_boundary_the_latest_ends_are_remembered_once_each)
{
    hth_past_ends ends = { { 0 } };

    for (uint8_t end = 1; end <= 20; end++)
        assert_true(hth_past_ends_add(&ends, end));
    assert_false(hth_past_ends_add(&ends, 20));
    assert_true(hth_past_ends_add(&ends, 18));
    assert_memory_equal(ends.ends, ((uint8_t[]){ 18, 20, 19, 17, 16, 15, 14, 13 }), HTH_PAST_ENDS);
}

TEST(of_a_beginning_the_latest_keyspaces_are_remembered_once_each)
{
    hth_beginning beginning = { .spaces = { { .is_used = 0 } } };
    hth_beginning_space space = { .is_used = 1 };

    for (uint8_t i = 1; i <= 6; i++) {
        space.fingerprint[0] = i;
        assert_true(hth_beginning_add(&beginning, &space));
    }
    assert_false(hth_beginning_add(&beginning, &space));
    space.fingerprint[0] = 4;
    space.key[0] = 1; /* kept in another row now */
    assert_true(hth_beginning_add(&beginning, &space));
    assert_int_equal(beginning.spaces[0].fingerprint[0], 4);
    assert_int_equal(beginning.spaces[0].key[0], 1);
    assert_int_equal(beginning.spaces[1].fingerprint[0], 6);
    assert_int_equal(beginning.spaces[2].fingerprint[0], 5);
    assert_int_equal(beginning.spaces[3].fingerprint[0], 3);
}

/* ---- in an index ---- */

typedef struct fixture {
    char *directory;
    char index_directory[4096];
    char owners[4096];
    hth_index *index;
} fixture;

static void open_index(fixture *f)
{
    hth_index_options options = { .directory = f->index_directory, .owners_directory = f->owners };
    bool rebuild = false;

    assert_int_equal(hth_index_open(&options, &f->index, &rebuild, NULL), HEARTH_OK);
    if (rebuild)
        assert_int_equal(hth_index_rebuilt(f->index, NULL), HEARTH_OK);
}

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->index_directory, sizeof(f->index_directory), "%s/index", f->directory);
    (void)snprintf(f->owners, sizeof(f->owners), "%s/owners", f->directory);
    assert_int_equal(mkdir(f->owners, 0700), 0);
    open_index(f);
}

static void tear_down(fixture *f)
{
    hth_index_close(f->index);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static hth_row_meta row_of(uint32_t n)
{
    hth_row_meta meta = { .id.kind = HTH_ROW_TAIL, .n_tokens = 10, .bytes = 1000, .last_used_time = 1 + n };

    memcpy(meta.id.key.bytes, &n, sizeof(n));
    return meta;
}

static bool is_remembered(fixture *f, uint32_t n)
{
    hth_row_meta meta = row_of(n);
    hth_past_name name;
    hth_gone gone;
    bool found;

    hth_past_name_of(&meta.id, &name);
    found = hth_index_gone(f->index, &name, &gone);
    if (found)
        assert_int_equal(gone.reason, HTH_GONE_EVICTED);
    return found;
}

/* Put in so many rows from number begin on, and evict them all. */
static void evict_rows(fixture *f, uint32_t begin, uint32_t n)
{
    enum { AT_ONCE = 4096 };
    static hth_row_meta rows[AT_ONCE];
    static hth_row_id ids[AT_ONCE];
    size_t n_evicted = 0;

    assert_true(n <= AT_ONCE);
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = row_of(begin + i);
        ids[i] = rows[i].id;
    }
    assert_int_equal(test_index_publish(f->index, rows, n), HEARTH_OK);
    assert_int_equal(hth_index_evict(f->index, 0, NULL, NULL, rows, AT_ONCE, &n_evicted, NULL), HEARTH_OK);
    assert_int_equal(n_evicted, n);
    assert_int_equal(hth_index_release(f->index, ids, n, NULL), HEARTH_OK);
}

FIXTURE_TEST(an_index_remembers_so_many_evicted_rows_and_no_more)
{
    enum { STEP = 4096 };
    uint32_t n = 0;

    for (; n < HTH_PAST_GONE_MAX + 2 * STEP; n += STEP)
        evict_rows(f, n, STEP);
    for (uint32_t i = 0; i < n; i++)
        if (is_remembered(f, i) != (n - i <= HTH_PAST_GONE_MAX))
            fail_msg("row %u of %u is %sremembered", i, n, is_remembered(f, i) ? "" : "not ");
}

FIXTURE_TEST(a_row_that_is_published_again_is_no_longer_gone)
{
    hth_row_meta meta = row_of(3);

    evict_rows(f, 0, 10);
    assert_true(is_remembered(f, 3));
    assert_int_equal(test_index_publish(f->index, &meta, 1), HEARTH_OK);
    assert_false(is_remembered(f, 3));
    assert_true(is_remembered(f, 4));
    hth_index_close(f->index);
    open_index(f);
    assert_false(is_remembered(f, 3));
    assert_true(is_remembered(f, 4));
}

FIXTURE_TEST(what_an_index_remembers_outlives_its_being_made_anew)
{
    evict_rows(f, 0, 10);
    assert_int_equal(hth_index_clear(f->index, NULL), HEARTH_OK);
    assert_int_equal(hth_index_rebuilt(f->index, NULL), HEARTH_OK);
    assert_true(is_remembered(f, 3));
}

static bool count_beginning(const hth_beginning_name *name, const hth_beginning *beginning, void *user_data)
{
    size_t *n = user_data;

    assert_int_equal(name->scope[0], 1);
    assert_int_equal(beginning->spaces[0].is_used, 1);
    assert_int_equal(beginning->spaces[1].is_used, 0);
    (*n)++;
    return true;
}

FIXTURE_TEST(an_index_remembers_so_many_beginnings_and_no_more)
{
    enum { STEP = 512 };
    static hth_index_sighting sightings[STEP];
    size_t n_visited = 0;
    hth_beginning beginning;
    uint32_t n = 0;

    evict_rows(f, 0, 100); /* records of another kind do not count */
    for (; n < HTH_PAST_BEGINNINGS_MAX + 2 * STEP; n += STEP) {
        for (uint32_t i = 0; i < STEP; i++) {
            uint32_t number = n + i;

            sightings[i] = (hth_index_sighting){ .name.scope[0] = 1, .space.is_used = 1 };
            memcpy(sightings[i].name.digest, &number, sizeof(number));
        }
        assert_int_equal(hth_index_note_beginnings(f->index, sightings, STEP, NULL), HEARTH_OK);
    }
    hth_index_visit_beginnings(f->index, count_beginning, &n_visited);
    assert_int_equal(n_visited, HTH_PAST_BEGINNINGS_MAX);
    assert_true(hth_index_beginning(f->index, &sightings[0].name, &beginning));
    sightings[0].name.scope[0] = 2;
    assert_false(hth_index_beginning(f->index, &sightings[0].name, &beginning));
    assert_true(is_remembered(f, 0));
}
