/*
 * tier_faults_test.c - every file operation of every verb of a tier fails in turn
 *
 * A tier with a chain of rows, one of them damaged, goes through one verb while its n-th file operation fails, once or
 * from then on; n grows until the verb goes through untouched. Afterwards nothing that is visible is damaged but the
 * row that was, and the index's totals are those of the files. (ENOENT is a lie of the test: the file is there. Then
 * the totals are right once more after a repair.)
 */
#include "support/cmocka_all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/upkeep.h"
#include "rows/row_file.h"
#include "support/made_row.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { IMAGE_BYTES = 600, CHAIN_ROWS = 3, STEPS_MAX = 400 };

typedef struct fixture {
    char *directory;
    char cache[4096];
    test_step_fs step;
    hth_file_tier *tier;
    test_row chain[CHAIN_ROWS]; /* the last one is damaged on disk */
    test_row other;
} fixture;

static void setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        f->chain[i] = test_row_make(1, i, IMAGE_BYTES);
    f->other = test_row_make(2, 0, IMAGE_BYTES);
}

static void teardown(fixture *f)
{
    hth_file_tier_close(f->tier);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        test_row_free(&f->chain[i]);
    test_row_free(&f->other);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

static void open_tier(fixture *f)
{
    hth_file_tier_options options = {
        .directory = f->cache,
        .bytes_max = UINT64_C(1) << 30,
        .durable = true,
        .fs = &f->step.fs,
    };

    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
}

static void close_tier(fixture *f)
{
    hth_file_tier_close(f->tier);
    f->tier = NULL;
}

/* A new tier with its rows. */
static void begin(fixture *f, const char *name, uint64_t n)
{
    char path[8192];
    int fd;

    (void)snprintf(f->cache, sizeof(f->cache), "%.3000s/%s-%u", f->directory, name, (unsigned)n);
    test_step_fs_init(&f->step, NULL);
    open_tier(f);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        assert_int_equal(
            hth_file_tier_publish(f->tier, &f->chain[i].meta, f->chain[i].bytes, f->chain[i].n_bytes, NULL, NULL),
            HEARTH_OK);
    assert_true(hth_file_tier_path(f->tier, &f->chain[CHAIN_ROWS - 1].meta.id, path, sizeof(path)));
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "XXXX", 4, (off_t)f->chain[0].n_bytes - 9), 4);
    close(fd);
}

/* ---- what must hold ---- */

typedef struct census {
    uint64_t rows;
    uint64_t bytes;
} census;

static uint8_t *take_buffer(size_t n_bytes, void *user_data)
{
    uint8_t **bytes = user_data;

    return *bytes = malloc(n_bytes);
}

static census check_files(fixture *f)
{
    census c = { .rows = 0 };

    for (unsigned folder = 0; folder < 256; folder++) {
        const struct dirent *entry;
        char path[8192];
        DIR *directory;

        (void)snprintf(path, sizeof(path), "%s/rows/%02x", f->cache, folder);
        directory = opendir(path);
        while (directory && (entry = readdir(directory))) {
            uint8_t *bytes = NULL;
            hth_row_id id;
            size_t n = 0;

            if (entry->d_name[0] == '.')
                continue;
            assert_true(hth_row_file_parse_name(entry->d_name, &id));
            assert_int_equal(hth_file_tier_read(f->tier, &id, take_buffer, &bytes, &n, NULL), HEARTH_OK);
            if (!hth_row_id_equal(&id, &f->chain[CHAIN_ROWS - 1].meta.id))
                assert_true(test_row_verifies(&id, bytes, n));
            free(bytes);
            c.rows++;
            c.bytes += n;
        }
        if (directory)
            (void)closedir(directory);
    }
    return c;
}

static void check_totals(fixture *f)
{
    census files = check_files(f);
    hth_index_totals totals;

    assert_int_equal(hth_index_totals_get(hth_file_tier_index(f->tier), &totals, NULL), HEARTH_OK);
    assert_true(totals.complete);
    assert_int_equal(totals.rows, files.rows);
    assert_int_equal(totals.bytes, files.bytes);
}

/* ---- the verbs ---- */

typedef void (*verb_fn)(fixture *f);

static void evict(fixture *f)
{
    (void)hth_file_tier_evict_to(f->tier, f->chain[0].n_bytes, NULL, NULL);
}

static void quarantine(fixture *f)
{
    hth_file_tier_quarantine(f->tier, &f->chain[CHAIN_ROWS - 1].meta.id, "test");
}

static void remove_tree(fixture *f)
{
    (void)hth_file_tiers_remove_tree(&f->tier, 1, &f->chain[0].meta.id, NULL, NULL, NULL, NULL);
}

static void verify(fixture *f)
{
    hth_verify_counts counts;

    (void)hth_file_tiers_verify(&f->tier, 1, NULL, NULL, &counts, NULL);
}

static void repair(fixture *f)
{
    (void)hth_file_tier_repair(f->tier, NULL, NULL, NULL);
}

static void collect(fixture *f)
{
    (void)hth_file_tier_gc(f->tier, 0, NULL, NULL);
}

/* What a request does, and the writer after it. */
static void serve(fixture *f)
{
    uint8_t *bytes = NULL;
    size_t n;

    if (hth_file_tier_has(f->tier, &f->chain[0].meta.id, NULL) &&
        hth_file_tier_read(f->tier, &f->chain[0].meta.id, take_buffer, &bytes, &n, NULL) == HEARTH_OK)
        assert_memory_equal(bytes, f->chain[0].bytes, n);
    free(bytes);
    hth_file_tier_touch(f->tier, &f->chain[0].meta.id, 1);
    (void)hth_file_tier_publish(f->tier, &f->other.meta, f->other.bytes, f->other.n_bytes, NULL, NULL);
    hth_file_tier_maintain(f->tier);
}

static void fail_each_step(fixture *f, const char *name, verb_fn verb, int errnum, bool from_then_on)
{
    char label[64];

    (void)snprintf(label, sizeof(label), "%s-%d-%d", name, errnum, from_then_on);
    for (uint64_t n = 1; n < STEPS_MAX; n++) {
        uint64_t n_steps;

        begin(f, label, n);
        f->step.fail_errnum = errnum;
        f->step.fail_from_then_on = from_then_on;
        f->step.short_io = errnum == EINTR;
        atomic_store(&f->step.n_steps, 0);
        atomic_store(&f->step.fail_at, n);
        verb(f);
        n_steps = atomic_load(&f->step.n_steps);
        atomic_store(&f->step.fail_at, 0);

        hth_file_tier_maintain(f->tier);
        hth_file_tier_settle(f->tier);
        /* What is in the files and not in the index is found by its name, and adopted. */
        for (uint32_t i = 0; i < CHAIN_ROWS; i++)
            (void)hth_file_tier_has(f->tier, &f->chain[i].meta.id, NULL);
        (void)hth_file_tier_has(f->tier, &f->other.meta.id, NULL);
        hth_file_tier_maintain(f->tier);
        if (errnum == ENOENT)
            assert_int_equal(hth_file_tier_repair(f->tier, NULL, NULL, NULL), HEARTH_OK);
        check_totals(f);
        close_tier(f);
        open_tier(f);
        check_totals(f);
        close_tier(f);
        if (n_steps < n)
            return;
    }
    fail_msg("%s did not end", label);
}

static void every_verb_survives(fixture *f, int errnum, bool from_then_on)
{
    const struct {
        const char *name;
        verb_fn verb;
    } verbs[] = {
        { "evict", evict },   { "quarantine", quarantine }, { "remove", remove_tree },
        { "verify", verify }, { "repair", repair },         { "gc", collect },
        { "serve", serve },
    };

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        fail_each_step(f, verbs[i].name, verbs[i].verb, errnum, from_then_on);
}

FIXTURE_TEST(an_error_of_the_device_at_any_step_leaves_rows_and_totals_right)
{
    every_verb_survives(f, EIO, false);
}

FIXTURE_TEST(a_device_that_fails_for_good_leaves_rows_and_totals_right)
{
    every_verb_survives(f, EIO, true);
}

FIXTURE_TEST(a_full_device_leaves_rows_and_totals_right)
{
    every_verb_survives(f, ENOSPC, false);
}

FIXTURE_TEST(interruptions_and_short_transfers_are_no_matter)
{
    every_verb_survives(f, EINTR, false);
}

FIXTURE_TEST(a_file_that_seems_to_be_gone_leaves_no_damaged_row)
{
    every_verb_survives(f, ENOENT, false);
}
