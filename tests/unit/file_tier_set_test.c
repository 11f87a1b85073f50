/*
 * file_tier_set_test.c - several roots that look like one tier
 */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file_tier_set.h"
#include "cache/upkeep.h"
#include "support/made_row.h"
#include "support/support.h"

enum { ROOTS = 3, IMAGE_BYTES = 1000, CHAIN_ROWS = 6 };

typedef struct fixture {
    char *directory;
    char paths[ROOTS][4096];
    uint64_t bytes_max[ROOTS];
    hth_log log;
    unsigned n_warnings;
    hth_file_tier_set *set;
} fixture;

static void count_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)source;
    (void)message;
    ((fixture *)user_data)->n_warnings += level <= HEARTH_LOG_WARNING;
}

static hearth_status open_set(fixture *f, hearth_error *err)
{
    hth_file_tier_options options[ROOTS];
    hearth_status status;

    for (size_t i = 0; i < ROOTS; i++)
        options[i] = (hth_file_tier_options){
            .directory = f->paths[i],
            .bytes_max = f->bytes_max[i],
            .log = &f->log,
        };
    status = hth_file_tier_set_open(options, ROOTS, &f->set, err);
    if (status == HEARTH_OK)
        hth_file_tier_set_settle(f->set);
    return status;
}

static void close_set(fixture *f)
{
    hth_file_tier_set_close(f->set);
    f->set = NULL;
}

static void setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->log = (hth_log){ .level = HEARTH_LOG_WARNING, .write = count_warning, .user_data = f };
    for (size_t i = 0; i < ROOTS; i++) {
        (void)snprintf(f->paths[i], sizeof(f->paths[i]), "%s/root-%zu", f->directory, i);
        f->bytes_max[i] = UINT64_C(1) << 30;
    }
    assert_int_equal(open_set(f, NULL), HEARTH_OK);
}

static void teardown(fixture *f)
{
    close_set(f);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static void publish(fixture *f, const test_row *row)
{
    bool published = false;

    assert_int_equal(hth_file_tier_set_publish(f->set, &row->meta, row->bytes, row->n_bytes, &published, NULL),
                     HEARTH_OK);
    assert_true(published);
}

/* The roots that have the row, as bits. */
static unsigned roots_of(const fixture *f, const test_row *row)
{
    unsigned bits = 0;

    for (size_t i = 0; i < hth_file_tier_set_n_roots(f->set); i++)
        bits |= (unsigned)hth_file_tier_has(hth_file_tier_set_roots(f->set)[i], &row->meta.id, NULL) << i;
    return bits;
}

static bool reads_back(fixture *f, const test_row *row)
{
    uint8_t *bytes;
    size_t n = 0;
    bool same;
    int fd;

    if (hth_file_tier_set_open_file(f->set, &row->meta.id, &fd, &n, NULL) != HEARTH_OK || n != row->n_bytes)
        return false;
    bytes = malloc(n);
    assert_non_null(bytes);
    same = hth_fs_read_full(hth_fs_system(), fd, bytes, n, 0, &n) == 0 && n == row->n_bytes &&
           memcmp(bytes, row->bytes, n) == 0;
    hth_fs_close(hth_fs_system(), fd);
    free(bytes);
    return same;
}

static uint64_t total_rows(fixture *f)
{
    hth_index_totals totals;

    assert_int_equal(hth_file_tier_set_totals(f->set, &totals, NULL), HEARTH_OK);
    return totals.rows;
}

/* Publish rows [begin, end) of a chain into one root alone. */
static void publish_into(fixture *f, size_t root, uint32_t chain, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        test_row row = test_row_make(chain, i, IMAGE_BYTES);

        assert_int_equal(
            hth_file_tier_publish(hth_file_tier_set_roots(f->set)[root], &row.meta, row.bytes, row.n_bytes, NULL, NULL),
            HEARTH_OK);
        test_row_free(&row);
    }
}

/* ---- placing ---- */

FIXTURE_TEST(a_chain_stays_in_one_root_and_chains_spread_over_all)
{
    unsigned used = 0;

    for (uint32_t chain = 0; chain < 24; chain++) {
        unsigned first = 0;

        for (uint32_t i = 0; i < 3; i++) {
            test_row row = test_row_make(chain, i, IMAGE_BYTES);
            unsigned here;

            publish(f, &row);
            here = roots_of(f, &row);
            assert_true(here == 1 || here == 2 || here == 4);
            if (i == 0)
                first = here;
            assert_int_equal(here, first);
            assert_true(reads_back(f, &row));
            used |= here;
            test_row_free(&row);
        }
    }
    assert_int_equal(used, 7);
    assert_int_equal(total_rows(f), 72);
}

FIXTURE_TEST(a_row_whose_parents_root_is_full_goes_elsewhere_and_nothing_is_evicted)
{
    test_row row = test_row_make(1, 2, IMAGE_BYTES);
    hth_file_tier_counts counts;

    close_set(f);
    f->bytes_max[0] = 2 * row.n_bytes + 100;
    assert_int_equal(open_set(f, NULL), HEARTH_OK);
    publish_into(f, 0, 1, 0, 2);
    publish(f, &row);
    assert_int_equal(roots_of(f, &row) & 1, 0);
    hth_file_tier_set_counts_get(f->set, &counts);
    assert_int_equal(counts.rows_evicted, 0);
    assert_int_equal(total_rows(f), 3);
    test_row_free(&row);
}

FIXTURE_TEST(a_row_is_published_once_in_all_roots)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    bool published = true;

    publish(f, &row);
    assert_int_equal(hth_file_tier_set_publish(f->set, &row.meta, row.bytes, row.n_bytes, &published, NULL), HEARTH_OK);
    assert_false(published);
    assert_int_equal(total_rows(f), 1);
    test_row_free(&row);
}

/* ---- reading ---- */

FIXTURE_TEST(rows_of_all_roots_are_found)
{
    hth_row_id ids[CHAIN_ROWS];
    hth_row_meta children[4];
    test_row first = test_row_make(1, 0, IMAGE_BYTES), logits = test_row_make_logits(1, 0, IMAGE_BYTES);

    for (uint32_t i = 0; i < CHAIN_ROWS; i++) {
        test_row row = test_row_make(1, i, IMAGE_BYTES);

        ids[i] = row.meta.id;
        test_row_free(&row);
        if (i != 4)
            publish_into(f, i % ROOTS, 1, i, i + 1);
    }
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        assert_int_equal(hth_file_tier_set_has(f->set, &ids[i], NULL), i != 4);
    /* Children in two roots. */
    assert_int_equal(hth_file_tier_publish(hth_file_tier_set_roots(f->set)[2], &logits.meta, logits.bytes,
                                           logits.n_bytes, NULL, NULL),
                     HEARTH_OK);
    assert_int_equal(hth_file_tier_set_children(f->set, &first.meta.id.key, children, 4), 2);
    assert_int_equal(hth_file_tier_set_children(f->set, &first.meta.id.key, children, 1), 1);
    test_row_free(&first);
    test_row_free(&logits);
}

FIXTURE_TEST(a_root_that_cannot_be_opened_costs_its_own_rows_only)
{
    test_row rows[2] = { test_row_make(1, 0, IMAGE_BYTES), test_row_make(2, 0, IMAGE_BYTES) };
    hearth_error err = { .message = "" };

    publish_into(f, 0, 1, 0, 1);
    publish_into(f, 1, 2, 0, 1);
    close_set(f);
    assert_int_equal(chmod(f->paths[0], 0777), 0); /* refused: others could write there */
    assert_int_equal(open_set(f, NULL), HEARTH_OK);
    assert_int_equal(f->n_warnings, 1);
    assert_int_equal(hth_file_tier_set_n_roots(f->set), 2);
    assert_false(hth_file_tier_set_has(f->set, &rows[0].meta.id, NULL));
    assert_true(reads_back(f, &rows[1]));
    publish(f, &rows[0]);
    close_set(f);
    for (size_t i = 1; i < ROOTS; i++)
        assert_int_equal(chmod(f->paths[i], 0777), 0);
    assert_int_equal(open_set(f, &err), HEARTH_PERMISSION);
    assert_non_null(strstr(err.message, "root-0"));
    for (size_t i = 0; i < ROOTS; i++)
        assert_int_equal(chmod(f->paths[i], 0700), 0);
    for (size_t i = 0; i < 2; i++)
        test_row_free(&rows[i]);
}

FIXTURE_TEST(a_directory_that_is_given_twice_is_opened_once)
{
    close_set(f);
    (void)snprintf(f->paths[1], sizeof(f->paths[1]), "%s/./root-0/", f->directory);
    (void)snprintf(f->paths[2], sizeof(f->paths[2]), "%s/link", f->directory);
    assert_int_equal(symlink("root-0", f->paths[2]), 0);
    assert_int_equal(open_set(f, NULL), HEARTH_OK);
    assert_int_equal(f->n_warnings, 2);
    assert_int_equal(hth_file_tier_set_n_roots(f->set), 1);
    publish_into(f, 0, 1, 0, CHAIN_ROWS);
    assert_int_equal(total_rows(f), CHAIN_ROWS);
    assert_int_equal(hth_file_tier_set_evict_to(f->set, 0, NULL, NULL), HEARTH_OK); /* it waits for no other root */
    assert_int_equal(total_rows(f), 0);
}

FIXTURE_TEST(a_directory_is_known_as_a_roots_by_any_name)
{
    char path[8192];

    assert_true(hth_file_tier_set_is_in(f->set, f->paths[1]));
    (void)snprintf(path, sizeof(path), "%s/../root-2", f->paths[1]);
    assert_true(hth_file_tier_set_is_in(f->set, path));
    assert_false(hth_file_tier_set_is_in(f->set, f->directory));
    (void)snprintf(path, sizeof(path), "%s/nowhere", f->directory);
    assert_false(hth_file_tier_set_is_in(f->set, path));
}

FIXTURE_TEST(the_first_root_with_room_is_told)
{
    assert_int_equal(hth_file_tier_set_with_room(f->set, 1000), 0);
    close_set(f);
    f->bytes_max[0] = 2500;
    f->bytes_max[1] = 999;
    assert_int_equal(open_set(f, NULL), HEARTH_OK);
    publish_into(f, 0, 1, 0, 1);
    assert_int_equal(hth_file_tier_set_with_room(f->set, 100), 0);
    assert_int_equal(hth_file_tier_set_with_room(f->set, 2000), 2);
    assert_int_equal(hth_file_tier_set_with_room(f->set, UINT64_C(2) << 30), ROOTS);
}

/* ---- taking away ---- */

FIXTURE_TEST(gc_counts_what_all_roots_hold_and_leaves_nothing_of_the_dead)
{
    char path[8192];
    uint64_t n_evicted = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/temporary/00000000000000aa-1", f->paths[2]);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        publish_into(f, i % ROOTS, 1, i, i + 1);
    assert_int_equal(hth_file_tier_set_gc(f->set, 0, &n_evicted, NULL), HEARTH_OK);
    assert_int_equal(n_evicted, CHAIN_ROWS);
    assert_int_equal(access(path, F_OK), -1);
}

FIXTURE_TEST(a_row_on_which_one_in_another_root_stands_is_not_evicted)
{
    test_row parent = test_row_make(1, 0, IMAGE_BYTES), child = test_row_make(1, 1, IMAGE_BYTES);
    hth_file_tier *const *roots = hth_file_tier_set_roots(f->set);

    publish_into(f, 0, 1, 0, 1);
    publish_into(f, 1, 1, 1, 2);
    assert_int_equal(hth_file_tier_evict_to(roots[0], 0, NULL, NULL), HEARTH_OK);
    assert_true(hth_file_tier_has(roots[0], &parent.meta.id, NULL));
    assert_int_equal(hth_file_tier_evict_to(roots[1], 0, NULL, NULL), HEARTH_OK);
    assert_false(hth_file_tier_set_has(f->set, &child.meta.id, NULL));
    assert_int_equal(hth_file_tier_evict_to(roots[0], 0, NULL, NULL), HEARTH_OK);
    assert_int_equal(total_rows(f), 0);
    test_row_free(&parent);
    test_row_free(&child);
}

FIXTURE_TEST(eviction_goes_round_until_what_is_asked_for_is_free)
{
    uint64_t n_evicted = 0;

    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        publish_into(f, i % ROOTS, 1, i, i + 1); /* each stands on one in another root */
    assert_int_equal(hth_file_tier_set_evict_to(f->set, 0, &n_evicted, NULL), HEARTH_OK);
    assert_int_equal(n_evicted, CHAIN_ROWS);
    assert_int_equal(total_rows(f), 0);
}

FIXTURE_TEST(a_use_is_one_of_ancestors_in_other_roots_too)
{
    test_row rows[3];
    hth_row_meta meta;

    for (uint32_t i = 0; i < 3; i++) {
        rows[i] = test_row_make(1, i, IMAGE_BYTES);
        publish_into(f, i, 1, i, i + 1);
    }
    hth_file_tier_set_touch(f->set, &rows[2].meta.id, 1);
    hth_file_tier_set_maintain(f->set);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(hth_file_tier_set_has(f->set, &rows[i].meta.id, &meta));
        assert_true(meta.last_used_time > rows[i].meta.last_used_time);
        test_row_free(&rows[i]);
    }
}

FIXTURE_TEST(a_row_is_removed_or_set_aside_wherever_it_is)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    assert_int_equal(hth_file_tier_set_remove(f->set, &row.meta.id, NULL), HEARTH_NOT_FOUND);
    publish_into(f, 0, 1, 0, 1);
    publish_into(f, 2, 1, 0, 1);
    assert_int_equal(roots_of(f, &row), 5);
    assert_int_equal(hth_file_tier_set_remove(f->set, &row.meta.id, NULL), HEARTH_OK);
    assert_int_equal(roots_of(f, &row), 0);
    publish_into(f, 1, 1, 0, 1);
    hth_file_tier_set_quarantine(f->set, &row.meta.id, "test");
    assert_int_equal(roots_of(f, &row), 0);
    test_row_free(&row);
}

FIXTURE_TEST(a_chain_over_several_roots_verifies_and_is_removed_as_one)
{
    test_row first = test_row_make(1, 0, IMAGE_BYTES);
    hth_verify_counts counts;
    uint64_t n_removed = 0;

    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        publish_into(f, i % ROOTS, 1, i, i + 1);
    assert_int_equal(hth_file_tiers_verify(hth_file_tier_set_roots(f->set), ROOTS, NULL, NULL, &counts, NULL),
                     HEARTH_OK);
    assert_int_equal(counts.sound, CHAIN_ROWS);
    assert_int_equal(hth_file_tiers_remove_tree(hth_file_tier_set_roots(f->set), ROOTS, &first.meta.id, NULL, NULL,
                                                &n_removed, NULL),
                     HEARTH_OK);
    assert_int_equal(n_removed, CHAIN_ROWS);
    assert_int_equal(total_rows(f), 0);
    test_row_free(&first);
}
