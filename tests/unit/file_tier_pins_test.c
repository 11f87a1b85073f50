/*
 * file_tier_pins_test.c - what a pin holds, against evictions, failures and other processes
 */
#include "support/cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/file_tier_set.h"
#include "cache/pins.h"
#include "cache/upkeep.h"
#include "support/made_row.h"
#include "support/support.h"

enum { ROOTS = 2, IMAGE_BYTES = 1000, CHAIN_ROWS = 4, BATCH_ROWS = 64, ROUNDS_MAX = 10 };

/* Two roots on the system's files, and what is to happen to operations on pins. */
typedef struct fixture {
    char *directory;
    char paths[ROOTS][4096];
    hth_fs fs;
    hth_file_tier_set *set;
    test_row chain[CHAIN_ROWS];
    const hth_key *pinned_meanwhile;  /* another process pins this at the step, in its first root */
    const char *step;                 /* the step at which something happens */
    const hth_row_id *taken_over;     /* at the step the row and its file are another process's, who removes both */
    bool is_taken_back;               /* another process has the pin and takes it back once it was seen */
    bool is_unsearchable;             /* the first root's pins can be listed, but not looked up */
    unsigned n_rounds;                /* of eviction */
    const hth_row_id *gone_meanwhile; /* another process removes this row when a pin is made or seen */
    bool fails;                       /* operations on pins fail with EIO */
    unsigned n_parent_syncs;
} fixture;

static bool is_pin(const char *path)
{
    return strstr(path, "/pins/") != NULL;
}

static hth_file_tier *root(const fixture *f, size_t i)
{
    return hth_file_tier_set_roots(f->set)[i];
}

static int open_file(void *context, const char *path, hth_fs_mode mode)
{
    fixture *f = context;
    const hth_row_id *gone = f->gone_meanwhile;

    if (is_pin(path) && f->fails)
        return -EIO;
    if (is_pin(path) && gone) {
        f->gone_meanwhile = NULL;
        assert_int_equal(hth_file_tier_remove(root(f, 0), gone, NULL), HEARTH_OK);
    }
    return hth_fs_system()->open(hth_fs_system()->context, path, mode);
}

static int stat_file(void *context, const char *path, hth_fs_stat *out)
{
    fixture *f = context;
    bool is_seen = is_pin(path) && f->is_taken_back;
    int rc;

    if (is_pin(path) && (f->fails || (f->is_unsearchable && strncmp(path, f->paths[0], strlen(f->paths[0])) == 0)))
        return f->fails ? -EIO : -EACCES;
    rc = hth_fs_system()->stat(hth_fs_system()->context, path, out);
    if (is_seen && rc == 0) {
        f->is_taken_back = false;
        assert_int_equal(hth_fs_remove(hth_fs_system(), path), 0);
    }
    if (is_pin(path) && rc == 0 && f->gone_meanwhile) {
        const hth_row_id *gone = f->gone_meanwhile;

        f->gone_meanwhile = NULL;
        assert_int_equal(hth_file_tier_remove(root(f, 0), gone, NULL), HEARTH_OK);
    }
    return rc;
}

static int remove_file(void *context, const char *path)
{
    const fixture *f = context;

    return is_pin(path) && f->fails ? -EIO : hth_fs_system()->remove(hth_fs_system()->context, path);
}

static int sync_directory(void *context, const char *path)
{
    fixture *f = context;

    f->n_parent_syncs += strcmp(path, f->paths[0]) == 0;
    return hth_fs_system()->sync_directory(hth_fs_system()->context, path);
}

static void step(void *context, const char *label)
{
    fixture *f = context;
    char pins[4200];

    if (strcmp(label, "evicted from the index") == 0) /* scanning threads come here, too, and count nothing */
        f->n_rounds++;
    assert_in_range(f->n_rounds, 0, ROUNDS_MAX);
    if (!f->step || strcmp(label, f->step) != 0)
        return;
    if (f->taken_over) {
        char path[4200];

        assert_true(hth_file_tier_path(root(f, 0), f->taken_over, path, sizeof(path)));
        assert_int_equal(hth_fs_remove(hth_fs_system(), path), 0);
        assert_int_equal(hth_index_release(hth_file_tier_index(root(f, 0)), f->taken_over, 1, NULL), HEARTH_OK);
        f->taken_over = NULL;
    }
    if (!f->pinned_meanwhile)
        return;
    (void)snprintf(pins, sizeof(pins), "%s/pins", f->paths[0]);
    assert_int_equal(
        hth_pin_add(&(hth_pin_folder){ .fs = hth_fs_system(), .directory = pins }, f->pinned_meanwhile, NULL, NULL),
        HEARTH_OK);
    f->pinned_meanwhile = NULL;
}

static void setup(fixture *f)
{
    hth_file_tier_options options[ROOTS];

    f->directory = hth_test_directory_new();
    f->fs = *hth_fs_system();
    f->fs.context = f;
    f->fs.open = open_file;
    f->fs.stat = stat_file;
    f->fs.remove = remove_file;
    f->fs.sync_directory = sync_directory;
    f->fs.step = step;
    for (size_t i = 0; i < ROOTS; i++) {
        (void)snprintf(f->paths[i], sizeof(f->paths[i]), "%s/root-%zu", f->directory, i);
        options[i] = (hth_file_tier_options){
            .directory = f->paths[i],
            .bytes_max = UINT64_C(1) << 20,
            .durable = true,
            .fs = &f->fs,
        };
    }
    assert_int_equal(hth_file_tier_set_open(options, ROOTS, &f->set, NULL), HEARTH_OK);
    hth_file_tier_set_settle(f->set);
    for (uint32_t i = 0; i < CHAIN_ROWS; i++)
        f->chain[i] = test_row_make(1, i, IMAGE_BYTES);
}

static void teardown(fixture *f)
{
    hth_file_tier_set_close(f->set);
    for (size_t i = 0; i < CHAIN_ROWS; i++)
        test_row_free(&f->chain[i]);
    hth_test_directory_remove(f->directory);
}

static void publish(const fixture *f, size_t i, const test_row *row)
{
    assert_int_equal(hth_file_tier_publish(root(f, i), &row->meta, row->bytes, row->n_bytes, NULL, NULL), HEARTH_OK);
}

static void publish_chain(const fixture *f)
{
    for (size_t i = 0; i < CHAIN_ROWS; i++)
        publish(f, 0, &f->chain[i]);
}

static const hth_row_id *end_of(const fixture *f)
{
    return &f->chain[CHAIN_ROWS - 1].meta.id;
}

static size_t n_there(const fixture *f)
{
    size_t n = 0;

    for (size_t i = 0; i < CHAIN_ROWS; i++)
        n += hth_file_tier_set_has(f->set, &f->chain[i].meta.id, NULL);
    return n;
}

static hearth_status pin(const fixture *f, hearth_error *err)
{
    return hth_file_tier_set_pin(f->set, &end_of(f)->key, err);
}

static bool is_pinned(const fixture *f)
{
    return hth_file_tier_set_is_pinned(f->set, &end_of(f)->key);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, setup, teardown)

FIXTURE_TEST(rows_that_were_pinned_after_they_left_the_index_are_put_back)
{
    hth_index_totals totals;
    uint64_t n_evicted = 99;

    publish_chain(f);
    f->step = "evicted from the index";
    f->pinned_meanwhile = &end_of(f)->key;
    assert_int_equal(hth_file_tier_evict_to(root(f, 0), 0, &n_evicted, NULL), HEARTH_OK);
    assert_int_equal(n_evicted, 0);
    assert_int_equal(n_there(f), CHAIN_ROWS);
    assert_int_equal(hth_index_totals_get(hth_file_tier_index(root(f, 0)), &totals, NULL), HEARTH_OK);
    assert_int_equal(totals.rows, CHAIN_ROWS);
}

FIXTURE_TEST(a_row_that_was_lost_to_another_process_is_not_put_back)
{
    bool found = true;

    publish_chain(f);
    f->step = "evicted from the index";
    f->pinned_meanwhile = &end_of(f)->key;
    f->taken_over = end_of(f);
    assert_int_equal(hth_file_tier_evict_to(root(f, 0), 0, NULL, NULL), HEARTH_OK);
    assert_int_equal(hth_index_get(hth_file_tier_index(root(f, 0)), end_of(f), NULL, &found, NULL), HEARTH_OK);
    assert_false(found);
    assert_int_equal(n_there(f), CHAIN_ROWS - 1);
}

FIXTURE_TEST(eviction_ends_when_pins_can_be_listed_but_not_looked_up)
{
    hearth_error err = { .message = "" };

    for (uint32_t i = 0; i < BATCH_ROWS; i++) {
        test_row row = test_row_make(2, i, IMAGE_BYTES);

        publish(f, 0, &row);
        test_row_free(&row);
    }
    f->is_unsearchable = true;
    f->n_rounds = 0;
    assert_int_equal(hth_file_tier_evict_to(root(f, 0), 0, NULL, &err), HEARTH_IO);
    assert_non_null(strstr(err.message, "/pins'"));
}

static void removal_is_refused(fixture *f, const hth_row_id *successor)
{
    bool found = false;

    f->step = "taken";
    f->pinned_meanwhile = &end_of(f)->key;
    assert_int_equal(hth_file_tier_set_remove_unwanted(f->set, end_of(f), successor, NULL), HEARTH_NOT_FOUND);
    assert_null(f->pinned_meanwhile);
    assert_int_equal(n_there(f), CHAIN_ROWS);
    assert_int_equal(hth_index_get(hth_file_tier_index(root(f, 1)), end_of(f), NULL, &found, NULL), HEARTH_OK);
    assert_true(found);
}

/* The row lies in one root, the pin in the other. */
FIXTURE_TEST(an_unwanted_row_that_was_pinned_after_it_was_taken_is_put_back)
{
    for (size_t i = 0; i < CHAIN_ROWS; i++)
        publish(f, 1, &f->chain[i]);
    removal_is_refused(f, &f->chain[0].meta.id);
    assert_int_equal(hth_file_tier_set_unpin(f->set, &end_of(f)->key, NULL), HEARTH_OK);
    removal_is_refused(f, NULL);
    assert_int_equal(hth_file_tier_set_unpin(f->set, &end_of(f)->key, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_set_remove_unwanted(f->set, end_of(f), NULL, NULL), HEARTH_OK);
    assert_int_equal(n_there(f), CHAIN_ROWS - 1);
}

FIXTURE_TEST(a_pin_that_another_process_takes_back_is_made_again)
{
    publish_chain(f);
    assert_int_equal(pin(f, NULL), HEARTH_OK);
    f->is_taken_back = true;
    assert_int_equal(pin(f, NULL), HEARTH_OK);
    assert_false(f->is_taken_back);
    assert_true(is_pinned(f));
}

FIXTURE_TEST(a_prefix_that_goes_while_another_process_pins_it_is_refused)
{
    publish_chain(f);
    assert_int_equal(pin(f, NULL), HEARTH_OK);
    f->gone_meanwhile = end_of(f);
    assert_int_equal(pin(f, NULL), HEARTH_NOT_FOUND);
}

FIXTURE_TEST(a_prefix_that_goes_while_it_is_pinned_is_refused_and_leaves_no_pin)
{
    hearth_error err = { .message = "" };

    publish_chain(f);
    f->gone_meanwhile = end_of(f);
    assert_int_equal(pin(f, &err), HEARTH_NOT_FOUND);
    assert_false(is_pinned(f));
}

FIXTURE_TEST(a_pin_holds_rows_that_move_to_another_root)
{
    publish_chain(f);
    assert_int_equal(pin(f, NULL), HEARTH_OK);
    publish(f, 1, &f->chain[CHAIN_ROWS - 1]);
    assert_int_equal(hth_file_tier_remove(root(f, 0), end_of(f), NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_set_evict_to(f->set, 0, NULL, NULL), HEARTH_OK);
    assert_int_equal(n_there(f), CHAIN_ROWS);
}

FIXTURE_TEST(a_pin_of_which_nothing_can_be_told_counts_as_one)
{
    publish_chain(f);
    f->fails = true;
    assert_true(is_pinned(f));
}

TEST(a_name_with_capitals_is_no_pin)
{
    char *directory = hth_test_directory_new(), path[4200];
    const hth_pin_folder folder = { .fs = hth_fs_system(), .directory = directory };
    hth_pins pins = { .keys = NULL };
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", directory,
                   "ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef0123456789");
    fd = hth_fs_open(folder.fs, path, HTH_FS_CREATE);
    assert_true(fd >= 0);
    hth_fs_close(folder.fs, fd);
    assert_int_equal(hth_pins_read(&folder, &pins, NULL), HEARTH_OK);
    assert_int_equal(pins.n, 0);
    hth_pins_deinit(&pins);
    hth_test_directory_remove(directory);
}

FIXTURE_TEST(a_pin_that_could_not_be_made_leaves_nothing)
{
    publish_chain(f);
    f->fails = true;
    assert_int_equal(pin(f, NULL), HEARTH_IO);
    f->fails = false;
    assert_false(is_pinned(f));
    assert_int_equal(pin(f, NULL), HEARTH_OK);
    assert_true(is_pinned(f));
}

FIXTURE_TEST(the_name_of_the_folder_of_pins_is_made_durable)
{
    publish_chain(f);
    f->n_parent_syncs = 0;
    assert_int_equal(pin(f, NULL), HEARTH_OK);
    assert_int_equal(f->n_parent_syncs, 1);
}

FIXTURE_TEST(a_removal_that_leaves_the_pin_says_so)
{
    uint64_t n_removed = 0;
    hearth_error err = { .message = "" };

    publish_chain(f);
    assert_int_equal(pin(f, NULL), HEARTH_OK);
    f->fails = true;
    assert_int_equal(
        hth_file_tiers_remove_tree(hth_file_tier_set_roots(f->set), ROOTS, end_of(f), NULL, NULL, &n_removed, &err),
        HEARTH_IO);
    assert_int_equal(n_removed, 1);
    assert_non_null(strstr(err.message, "pin"));
}

FIXTURE_TEST(a_pin_stays_as_long_as_a_row_ends_its_prefix)
{
    test_row logits = test_row_make_logits(1, CHAIN_ROWS - 1, IMAGE_BYTES);

    publish_chain(f);
    publish(f, 0, &logits);
    assert_int_equal(pin(f, NULL), HEARTH_OK);
    assert_int_equal(
        hth_file_tiers_remove_tree(hth_file_tier_set_roots(f->set), ROOTS, &logits.meta.id, NULL, NULL, NULL, NULL),
        HEARTH_OK);
    assert_true(is_pinned(f));
    assert_int_equal(
        hth_file_tiers_remove_tree(hth_file_tier_set_roots(f->set), ROOTS, end_of(f), NULL, NULL, NULL, NULL),
        HEARTH_OK);
    assert_false(is_pinned(f));
    test_row_free(&logits);
}
