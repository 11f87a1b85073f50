/*
 * upkeep_test.c - verify, gc, repair and remove of a file tier
 */
#include "support/cmocka_all.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/upkeep.h"
#include "support/index_rows.h"
#include "support/made_row.h"
#include "support/support.h"

enum { IMAGE_BYTES = 1000, CHAIN_ROWS = 5 };

typedef struct fixture {
    char *directory;
    hth_file_tier *tier;
    test_row chain[CHAIN_ROWS]; /* published by most tests */
    test_row logits;            /* at the end of row 1 */

    /* What progress said, and when it is to end things. */
    unsigned n_calls;
    unsigned cancel_at; /* 0: never */
    hth_upkeep_progress last;
} fixture;

static void open_tier(fixture *f)
{
    hth_file_tier_options options = { .directory = f->directory, .bytes_max = UINT64_C(1) << 30 };

    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
}

static void publish(fixture *f, const test_row *row)
{
    bool published = false;

    assert_int_equal(hth_file_tier_publish(f->tier, &row->meta, row->bytes, row->n_bytes, &published, NULL), HEARTH_OK);
    assert_true(published);
}

static void setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    open_tier(f);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++) {
        f->chain[i] = test_row_make(1, i, IMAGE_BYTES);
        publish(f, &f->chain[i]);
    }
    f->logits = test_row_make_logits(1, 1, IMAGE_BYTES);
    publish(f, &f->logits);
}

static void teardown(fixture *f)
{
    hth_file_tier_close(f->tier);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        test_row_free(&f->chain[i]);
    test_row_free(&f->logits);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static bool keep_progress(const hth_upkeep_progress *progress, void *user_data)
{
    fixture *f = user_data;

    assert_true(progress->n_rows <= progress->n_rows_total);
    assert_true(progress->n_rows >= f->last.n_rows);
    f->last = *progress;
    return ++f->n_calls != f->cancel_at;
}

static hth_verify_counts verify(fixture *f)
{
    hth_verify_counts counts;

    f->last = (hth_upkeep_progress){ .n_rows = 0 };
    assert_int_equal(hth_file_tiers_verify(&f->tier, 1, keep_progress, f, &counts, NULL), HEARTH_OK);
    return counts;
}

static const char *path_of(const fixture *f, const hth_row_id *id)
{
    static char path[8192];

    assert_true(hth_file_tier_path(f->tier, id, path, sizeof(path)));
    return path;
}

static void overwrite(const char *path, long offset, const void *bytes, size_t n_bytes)
{
    int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n_bytes, offset), n_bytes);
    close(fd);
}

static hth_index_totals totals_of(const fixture *f)
{
    hth_index_totals totals;

    assert_int_equal(hth_index_totals_get(hth_file_tier_index(f->tier), &totals, NULL), HEARTH_OK);
    return totals;
}

/* A file with everything right in itself, for the row of another: row i of another chain, said to stand on chain 1. */
static test_row forged_row(const test_row *as)
{
    test_row row = test_row_make(7, 2, IMAGE_BYTES);
    uint8_t image[IMAGE_BYTES];
    hth_kvc_info info;
    hth_kvc_fault fault;
    uint8_t *bytes;

    assert_true(hth_kvc_parse(row.bytes, row.n_bytes, NULL, &info, &fault));
    info.own_key = as->meta.id.key;
    info.parent = as->meta.parent;
    memcpy(image, row.bytes + info.image_offset, IMAGE_BYTES);
    bytes = malloc(row.n_bytes);
    assert_non_null(bytes);
    memcpy(bytes + info.image_offset, image, IMAGE_BYTES);
    hth_kvc_encode_head(&info, IMAGE_BYTES, hth_crc32c(0, image, IMAGE_BYTES), bytes);
    free(row.bytes);
    row.bytes = bytes;
    row.meta = as->meta;
    return row;
}

/* ---- verify ---- */

FIXTURE_TEST(rows_whose_chain_is_here_are_sound)
{
    hth_verify_counts counts = verify(f);

    assert_int_equal(counts.sound, CHAIN_ROWS + 1);
    assert_int_equal(counts.unverifiable + counts.quarantined + counts.gone, 0);
    assert_int_equal(f->last.n_rows, CHAIN_ROWS + 1);
    assert_int_equal(f->last.n_rows_total, CHAIN_ROWS + 1);
    assert_int_equal(f->last.bytes, f->last.bytes_total);
}

FIXTURE_TEST(a_damaged_row_is_quarantined_and_what_stands_on_it_is_unverifiable)
{
    hth_verify_counts counts;

    overwrite(path_of(f, &f->chain[2].meta.id), (long)f->chain[2].n_bytes - 9, "x", 1);
    counts = verify(f);
    assert_int_equal(counts.sound, 3); /* two blocks and the logits */
    assert_int_equal(counts.quarantined, 1);
    assert_int_equal(counts.unverifiable, 2);
    assert_false(hth_file_tier_has(f->tier, &f->chain[2].meta.id, NULL));
    assert_true(hth_file_tier_has(f->tier, &f->chain[4].meta.id, NULL));
    assert_int_equal(totals_of(f).rows, CHAIN_ROWS);
    counts = verify(f);
    assert_int_equal(counts.quarantined, 0);
    /* Once the missing one is back, all can be told. */
    publish(f, &f->chain[2]);
    counts = verify(f);
    assert_int_equal(counts.sound, CHAIN_ROWS + 1);
}

FIXTURE_TEST(a_row_with_a_damaged_head_is_quarantined_with_or_without_an_index_entry)
{
    hth_verify_counts counts;

    overwrite(path_of(f, &f->chain[3].meta.id), 0, "XXXX", 4);
    overwrite(path_of(f, &f->chain[4].meta.id), 0, "XXXX", 4);
    assert_int_equal(
        hth_index_remove_lost(hth_file_tier_index(f->tier), &f->chain[4].meta.id, 1, NULL, NULL, NULL, NULL),
        HEARTH_OK);
    counts = verify(f);
    assert_int_equal(counts.quarantined, 2);
    assert_int_equal(counts.sound, 4);
}

FIXTURE_TEST(a_row_whose_tokens_are_not_those_of_its_name_is_found_by_its_ancestors)
{
    test_row forged = forged_row(&f->chain[2]);
    hth_verify_counts counts;

    assert_int_equal(hth_file_tier_remove(f->tier, &f->chain[2].meta.id, NULL), HEARTH_OK);
    publish(f, &forged); /* in itself it is sound */
    counts = verify(f);
    assert_int_equal(counts.quarantined, 1);
    assert_false(hth_file_tier_has(f->tier, &forged.meta.id, NULL));
    test_row_free(&forged);
}

FIXTURE_TEST(entries_without_a_file_are_dropped_and_counted)
{
    hth_verify_counts counts;

    assert_int_equal(unlink(path_of(f, &f->chain[4].meta.id)), 0);
    counts = verify(f);
    assert_int_equal(counts.gone, 1);
    assert_int_equal(counts.sound, CHAIN_ROWS);
    assert_int_equal(totals_of(f).rows, CHAIN_ROWS);
}

FIXTURE_TEST(a_state_inside_a_block_is_sound_when_the_tail_that_ends_with_it_is_here)
{
    test_row tail = test_row_make_tail(1, CHAIN_ROWS, 5, IMAGE_BYTES);
    test_row middle = test_row_make_state(1, CHAIN_ROWS, 5, IMAGE_BYTES);
    test_row boundary = test_row_make_state(1, CHAIN_ROWS, 0, IMAGE_BYTES);
    hth_verify_counts counts;

    publish(f, &middle);
    publish(f, &boundary);
    counts = verify(f);
    assert_int_equal(counts.sound, CHAIN_ROWS + 2);
    assert_int_equal(counts.unverifiable, 1); /* its tail went, as when a longer one took its place */
    publish(f, &tail);
    counts = verify(f);
    assert_int_equal(counts.sound, CHAIN_ROWS + 4);
    assert_int_equal(counts.unverifiable, 0);
    test_row_free(&tail);
    test_row_free(&middle);
    test_row_free(&boundary);
}

FIXTURE_TEST(verification_can_be_ended)
{
    hth_verify_counts counts;

    f->cancel_at = 3;
    assert_int_equal(hth_file_tiers_verify(&f->tier, 1, keep_progress, f, &counts, NULL), HEARTH_CANCELLED);
    assert_int_equal(counts.sound, 2);
}

FIXTURE_TEST(an_empty_tier_verifies)
{
    hth_verify_counts counts;

    assert_int_equal(hth_file_tier_gc(f->tier, 0, NULL, NULL), HEARTH_OK);
    counts = verify(f);
    assert_int_equal(counts.sound + counts.unverifiable + counts.quarantined + counts.gone, 0);
}

/* ---- gc, repair, remove ---- */

FIXTURE_TEST(gc_leaves_what_fits_and_nothing_of_the_dead)
{
    char path[8192];
    uint64_t n_evicted = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/temporary/00000000000000aa-1", f->directory);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(hth_file_tier_gc(f->tier, 2 * f->chain[0].n_bytes + 200, &n_evicted, NULL), HEARTH_OK);
    assert_int_equal(n_evicted, 4);
    assert_true(hth_file_tier_has(f->tier, &f->chain[0].meta.id, NULL));
    assert_int_equal(access(path, F_OK), -1);
}

FIXTURE_TEST(repair_makes_the_index_what_the_files_are)
{
    hth_index *index = hth_file_tier_index(f->tier);
    hth_row_meta wrong = f->chain[0].meta;
    hth_row_meta meta;

    wrong.bytes = 7;
    assert_int_equal(test_index_publish(index, &wrong, 1), HEARTH_OK);
    assert_int_equal(hth_index_remove_lost(index, &f->chain[1].meta.id, 1, NULL, NULL, NULL, NULL), HEARTH_OK);
    assert_int_equal(unlink(path_of(f, &f->chain[4].meta.id)), 0);
    assert_int_equal(hth_file_tier_repair(f->tier, keep_progress, f, NULL), HEARTH_OK);
    assert_true(f->n_calls > 0);
    assert_int_equal(f->last.n_rows, CHAIN_ROWS);
    assert_int_equal(f->last.n_rows_total, CHAIN_ROWS);
    assert_true(totals_of(f).complete);
    assert_int_equal(totals_of(f).rows, CHAIN_ROWS);
    assert_true(hth_file_tier_has(f->tier, &f->chain[0].meta.id, &meta));
    assert_int_equal(meta.bytes, f->chain[0].n_bytes);
}

FIXTURE_TEST(a_repair_that_was_ended_is_finished_by_the_next_maintenance)
{
    f->cancel_at = 1;
    assert_int_equal(hth_file_tier_repair(f->tier, keep_progress, f, NULL), HEARTH_CANCELLED);
    assert_false(totals_of(f).complete);
    assert_true(hth_file_tier_has(f->tier, &f->chain[3].meta.id, NULL)); /* it serves all the same */
    hth_file_tier_maintain(f->tier);
    hth_file_tier_settle(f->tier);
    assert_true(totals_of(f).complete);
    assert_int_equal(totals_of(f).rows, CHAIN_ROWS + 1);
}

typedef struct reader {
    const fixture *f;
    _Atomic bool stop;
    unsigned n_missed;
    unsigned n_looks;
} reader;

static void *look_for_rows(void *context)
{
    reader *r = context;

    while (!atomic_load(&r->stop))
        for (uint32_t i = 0; i < CHAIN_ROWS; i++) {
            r->n_missed += !hth_file_tier_has(r->f->tier, &r->f->chain[i].meta.id, NULL);
            r->n_looks++;
        }
    return NULL;
}

FIXTURE_TEST(rows_are_found_and_published_while_the_index_is_made_anew)
{
    reader r = { .f = f };
    test_row more[4];
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, look_for_rows, &r), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(hth_file_tier_repair(f->tier, NULL, NULL, NULL), HEARTH_OK);
        more[i] = test_row_make(2, i, IMAGE_BYTES);
        publish(f, &more[i]);
        test_row_free(&more[i]);
    }
    atomic_store(&r.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r.n_missed, 0);
    assert_int_equal(totals_of(f).rows, CHAIN_ROWS + 1 + 4);
}

FIXTURE_TEST(a_row_is_removed_with_all_that_stands_on_it)
{
    test_row other = test_row_make(2, 0, IMAGE_BYTES);
    uint64_t n_removed = 0;

    publish(f, &other);
    assert_int_equal(hth_file_tiers_remove_tree(&f->tier, 1, &f->chain[1].meta.id, NULL, NULL, &n_removed, NULL),
                     HEARTH_OK);
    assert_int_equal(n_removed, 5); /* blocks 1 to 4, and the logits at the end of 1 */
    assert_int_equal(totals_of(f).rows, 2);
    assert_true(hth_file_tier_has(f->tier, &f->chain[0].meta.id, NULL));
    assert_true(hth_file_tier_has(f->tier, &other.meta.id, NULL));
    assert_int_equal(hth_file_tiers_remove_tree(&f->tier, 1, &f->chain[1].meta.id, NULL, NULL, NULL, NULL),
                     HEARTH_NOT_FOUND);
    test_row_free(&other);
}

FIXTURE_TEST(a_removal_that_is_ended_leaves_no_row_without_its_ancestors)
{
    uint64_t n_removed = 0;

    f->cancel_at = 3;
    assert_int_equal(hth_file_tiers_remove_tree(&f->tier, 1, &f->chain[0].meta.id, keep_progress, f, &n_removed, NULL),
                     HEARTH_CANCELLED);
    assert_int_equal(n_removed, 2);
    assert_int_equal(verify(f).unverifiable, 0);
}
