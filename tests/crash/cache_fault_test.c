/*
 * cache_fault_test.c - every file operation of a run of the cache fails in turn, and no request notices
 *
 * A script opens a cache, saves rows, flushes them, restores them from the files, supersedes and rejects. It is run
 * with the n-th operation failing, and with all from the n-th on; with each error, and with reads and writes that do
 * less than asked. What is lent is right, what is not kept is counted, and once the faults end everything works.
 *
 * HTH_FAULTS: how many places are tried for each error, 12 by default, spread over the script.
 */
#include "support/cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cache/cache.h"
#include "support/forest.h"
#include "support/step_fs.h"
#include "support/support.h"
#include "support/tier_check.h"

enum { ROWS = 5, FLUSH_MS = 600000 };

typedef struct fixture {
    test_forest forest;
    const test_forest_row *rows[ROWS]; /* of the script; the last supersedes the one before */
    const test_forest_row *rejected;
    char *directory;
    char ram_files[4096];
    char disk[4096];
    test_step_fs step;
    hth_cache_options options;
    hth_cache *cache;
} fixture;

static void open_cache(fixture *f)
{
    hearth_error err = { .message = "" };

    assert_ok(hth_cache_open(&f->options, &f->cache, &err), err);
}

static void close_cache(fixture *f)
{
    hth_cache_close(f->cache, FLUSH_MS);
    f->cache = NULL;
}

/* Borrow a row and check it; whether it was lent. */
static bool borrow(fixture *f, const test_forest_row *row)
{
    hearth_error err = { .message = "" };
    hth_borrowed_row borrowed;
    hearth_status status = hth_cache_borrow(f->cache, row->keyspace, &row->meta, &borrowed, &err);
    const char *difference;

    if (status != HEARTH_OK) {
        assert_true(status == HEARTH_NOT_FOUND || status == HEARTH_IO || status == HEARTH_CORRUPT ||
                    status == HEARTH_FULL || status == HEARTH_PERMISSION);
        return false;
    }
    difference = test_forest_difference(row, &borrowed);
    if (difference)
        fail_msg("a row is not what was saved: %s", difference);
    hth_cache_return(f->cache, &borrowed);
    return true;
}

static void evict_ram(fixture *f)
{
    uint64_t freed;

    assert_int_equal(hth_cache_evict(f->cache, UINT64_MAX, HEARTH_EVICT_RAM, &freed, NULL), HEARTH_OK);
}

static void save(fixture *f, const test_forest_row *row)
{
    assert_true(test_forest_save(&f->forest, row, HEARTH_SAVE_COLD, f->cache)); /* that takes no file */
    assert_int_equal(hth_cache_find(f->cache, &row->meta.id, NULL), HEARTH_TIER_RAM);
    assert_true(borrow(f, row));
}

static bool is_on_disk(const fixture *f, const test_forest_row *row)
{
    char path[8192];

    test_forest_path(f->disk, &row->meta.id, path, sizeof(path));
    return access(path, R_OK) == 0;
}

static void run_script(fixture *f)
{
    uint64_t n_lost = hth_cache_n_lost(f->cache), n_kept = 0;
    hearth_counters before = { .rows_evicted = 0 }, after = { .rows_evicted = 0 };

    hth_cache_counters(f->cache, &before);
    for (size_t i = 0; i < ROWS; i++)
        save(f, f->rows[i]);
    save(f, f->rejected);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    hth_cache_counters(f->cache, &after);
    n_lost = hth_cache_n_lost(f->cache) - n_lost;
    n_lost += after.rows_evicted - before.rows_evicted; /* a device that is full makes one row go for another */
    for (size_t i = 0; i < ROWS; i++)
        n_kept += i == ROWS - 2 || is_on_disk(f, f->rows[i]); /* the superseded one may be gone */
    /* Where the disk's tier could not be opened, nothing was to be kept there; and a denial may be believed. */
    if (hth_cache_is_durable(f->cache) && f->step.fail_errnum != ENOENT)
        assert_true(n_lost >= ROWS - n_kept);

    evict_ram(f);
    for (size_t i = 0; i < ROWS; i++)
        (void)borrow(f, f->rows[i]); /* the file may fail */
    for (size_t i = 0; i < ROWS; i++)
        hth_cache_touch(f->cache, &f->rows[i]->meta.id, 1);
    hth_cache_reject(f->cache, &f->rejected->meta.id, "the test says so");
    assert_int_equal(hth_cache_find(f->cache, &f->rejected->meta.id, NULL), HEARTH_TIER_NONE);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
}

/*
 * A file system that denies what it has is believed, and one that fails for good does not even let a writer see what it
 * could write: such files are found by their names, but are counted only now.
 */
static void repair(const char *directory)
{
    hth_file_tier_options options = { .directory = directory, .bytes_max = UINT64_MAX };
    hth_file_tier *tier = NULL;

    assert_int_equal(hth_file_tier_open(&options, &tier, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_repair(tier, NULL, NULL, NULL), HEARTH_OK);
    hth_file_tier_close(tier);
}

/* Without faults: what is saved is kept, and all of it is lent by the next process. */
static void check_that_all_works(fixture *f)
{
    test_tier_census census;

    open_cache(f);
    for (size_t i = 0; i < ROWS; i++) {
        if (i != ROWS - 2 && !hth_cache_is_saved(f->cache, &f->rows[i]->meta.id))
            save(f, f->rows[i]);
        if (i != ROWS - 2 && !borrow(f, f->rows[i])) /* the index knew it, and its file is gone */
            save(f, f->rows[i]);
    }
    close_cache(f);
    open_cache(f);
    for (size_t i = 0; i < ROWS; i++)
        if (i != ROWS - 2)
            assert_true(borrow(f, f->rows[i]));
    close_cache(f);
    if (f->step.fail_errnum == ENOENT || f->step.fail_from_then_on) {
        repair(f->ram_files);
        repair(f->disk);
    }
    test_tier_check(&f->forest, f->ram_files, &census);
    assert_int_equal(census.verified.quarantined, 0);
    test_tier_check(&f->forest, f->disk, &census);
    assert_int_equal(census.verified.quarantined, 0);
}

static void new_directories(fixture *f)
{
    hth_test_directory_remove(f->directory);
    f->directory = hth_test_directory_new();
    (void)snprintf(f->ram_files, sizeof(f->ram_files), "%s/ram", f->directory);
    (void)snprintf(f->disk, sizeof(f->disk), "%s/disk", f->directory);
    test_step_fs_init(&f->step, NULL);
}

/* Run the script with faults from the opening on, or from the first save on, and see that they left nothing behind. */
static void run_with_faults(fixture *f, uint64_t fail_at, bool from_opening)
{
    if (from_opening)
        atomic_store(&f->step.fail_at, fail_at);
    open_cache(f);
    atomic_store(&f->step.n_steps, from_opening ? atomic_load(&f->step.n_steps) : 0);
    atomic_store(&f->step.fail_at, fail_at);
    run_script(f);
    atomic_store(&f->step.fail_at, 0);
    if (!from_opening)
        run_script(f); /* in the same cache */
    close_cache(f);
    f->step.short_io = false;
    check_that_all_works(f);
}

/* How many steps the script has, as far as that is the same each time. */
static uint64_t count_steps(fixture *f, bool from_opening)
{
    new_directories(f);
    open_cache(f);
    if (!from_opening)
        atomic_store(&f->step.n_steps, 0);
    run_script(f);
    close_cache(f);
    return atomic_load(&f->step.n_steps);
}

static void fail_everywhere(fixture *f, int errnum, bool from_then_on)
{
    uint64_t n_places = hth_test_number("HTH_FAULTS", 12);

    for (unsigned from_opening = 0; from_opening < 2; from_opening++) {
        uint64_t n_steps = count_steps(f, from_opening);

        for (uint64_t i = 0; i < n_places; i++) {
            new_directories(f);
            f->step.fail_errnum = errnum;
            f->step.fail_from_then_on = from_then_on;
            run_with_faults(f, 1 + i * n_steps / n_places, from_opening);
        }
    }
}

static void fixture_setup(fixture *f)
{
    size_t last = 0;

    test_forest_init(&f->forest);
    for (size_t i = 0; i < f->forest.n_rows; i++)
        if (f->forest.rows[i].superseded >= 0 && !f->forest.rows[i].is_superseded)
            last = i;
    for (size_t i = 0; i + 2 < ROWS; i++)
        f->rows[i] = &f->forest.rows[i];
    f->rows[ROWS - 1] = &f->forest.rows[last];
    f->rows[ROWS - 2] = &f->forest.rows[f->forest.rows[last].superseded];
    f->rejected = &f->forest.rows[ROWS];
    f->options = (hth_cache_options){
        .ram_memory_fd = -1,
        .ram_bytes_max = 4 << 20,
        .ram_file_directory = f->ram_files,
        .ram_file_bytes_max = 16 << 20,
        .directory = f->disk,
        .disk_bytes_max = 16 << 20,
        .n_writer_threads = 2,
        .write_limits = { .queue_rows_max = 1000, .queue_bytes_max = 16 << 20 },
        .fs = &f->step.fs,
    };
    new_directories(f);
}

static void fixture_teardown(fixture *f)
{
    hth_cache_close(f->cache, FLUSH_MS);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, fixture_setup, fixture_teardown)

FIXTURE_TEST(one_operation_that_fails_costs_at_most_a_row)
{
    static const int errors[] = { ENOSPC, EIO, EINTR, ENOENT };

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        fail_everywhere(f, errors[i], false);
}

FIXTURE_TEST(a_device_that_fails_for_good_costs_its_tiers)
{
    static const int errors[] = { ENOSPC, EIO, ENOENT };

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        fail_everywhere(f, errors[i], true);
}

FIXTURE_TEST(reads_and_writes_that_do_less_than_asked_lose_nothing)
{
    new_directories(f);
    f->step.short_io = true;
    open_cache(f);
    run_script(f);
    assert_int_equal(hth_cache_n_lost(f->cache), 0);
    evict_ram(f);
    for (size_t i = 0; i < ROWS; i++)
        assert_true(i == ROWS - 2 || borrow(f, f->rows[i]));
    close_cache(f);
    f->step.short_io = false;
    check_that_all_works(f);
}
