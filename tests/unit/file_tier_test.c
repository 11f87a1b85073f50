/*
 * file_tier_test.c - rows as files: published, found, read, evicted, set aside
 */
#include "support/file_tier_scene.h"

#include <glob.h>

#include "cache/file_tier_set.h"
#include "cache/upkeep.h"

/* ---- publishing and reading ---- */

OPEN(a_published_row_is_found_and_reads_back)
{
    test_row row = test_row_make(1, 2, IMAGE_BYTES);
    hth_row_meta meta;

    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_published(f, &row);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, &meta));
    assert_int_equal(meta.first_position, row.meta.first_position);
    assert_int_equal(meta.n_tokens, row.meta.n_tokens);
    assert_int_equal(meta.bytes, row.n_bytes);
    assert_true(hth_key_equal(&meta.parent, &row.meta.parent));
    assert_reads_back(f, &row);
    assert_int_equal(n_files(f, "temporary"), 0);
    test_row_free(&row);
}

OPEN(rows_outlive_the_tier_and_its_index)
{
    test_row rows[4];

    for (uint32_t i = 0; i < 4; i++) {
        rows[i] = test_row_make(1, i, IMAGE_BYTES);
        assert_published(f, &rows[i]);
    }
    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_int_equal(index_rows(f), 4);
    for (uint32_t i = 0; i < 4; i++) {
        hth_row_meta meta;

        assert_true(hth_file_tier_has(f->tier, &rows[i].meta.id, &meta));
        assert_int_equal(meta.first_position, rows[i].meta.first_position);
        assert_true(hth_key_equal(&meta.parent, &rows[i].meta.parent));
        assert_reads_back(f, &rows[i]);
        test_row_free(&rows[i]);
    }
    assert_int_equal(f->n_warnings, 0);
}

OPEN(publishing_a_row_that_is_there_writes_nothing)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    hth_file_tier_counts counts;
    bool published = true;

    assert_published(f, &row);
    assert_int_equal(publish(f, &row, &published), HEARTH_OK);
    assert_false(published);
    hth_file_tier_counts_get(f->tier, &counts);
    assert_int_equal(counts.rows_written, 1);
    assert_int_equal(counts.bytes_written, row.n_bytes);
    test_row_free(&row);
}

OPEN(an_image_that_is_not_the_row_it_is_said_to_be_is_not_written)
{
    test_row row = test_row_make(1, 1, IMAGE_BYTES), other = test_row_make(2, 1, IMAGE_BYTES);

    row.bytes[row.n_bytes - 1] ^= 1;
    assert_int_equal(publish(f, &row, NULL), HEARTH_CORRUPT);
    row.bytes[row.n_bytes - 1] ^= 1;
    assert_int_equal(hth_file_tier_publish(f->tier, &other.meta, row.bytes, row.n_bytes, NULL, NULL), HEARTH_CORRUPT);
    row.meta.first_position += 16;
    assert_int_equal(publish(f, &row, NULL), HEARTH_MISUSE);
    assert_int_equal(n_files(f, "rows"), 0);
    test_row_free(&row);
    test_row_free(&other);
}

OPEN(rows_without_tokens_are_rows_too)
{
    test_row logits = test_row_make_logits(1, 1, IMAGE_BYTES);
    hth_row_meta found[2];

    assert_published(f, &logits);
    assert_reads_back(f, &logits);
    assert_int_equal(hth_file_tier_children(f->tier, &logits.meta.id.key, found, 2), 1);
    assert_int_equal(found[0].id.kind, HTH_ROW_LOGITS);
    test_row_free(&logits);
}

OPEN(a_damaged_file_that_has_the_rows_name_is_replaced)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    assert_published(f, &row);
    overwrite(row_path(f, &row), (long)row.n_bytes - 5, "XXXX", 4);
    assert_int_equal(hth_index_remove_lost(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL, NULL, NULL, NULL),
                     HEARTH_OK);
    assert_published(f, &row);
    assert_reads_back(f, &row);
    assert_int_equal(n_files(f, "temporary"), 0);
    test_row_free(&row);
}

OPEN(a_directory_that_has_a_rows_name_is_moved_out_of_the_way)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    char path[9000];

    assert_published(f, &row);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unlink(row_path(f, &row)), 0);
        assert_int_equal(mkdir(row_path(f, &row), 0700), 0);
        (void)snprintf(path, sizeof(path), "%s/file", row_path(f, &row));
        write_new(path, "x", 1);
        if (i == 0) { /* the index does not know better */
            assert_int_equal(
                hth_index_remove_lost(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL, NULL, NULL, NULL),
                HEARTH_OK);
            assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
            assert_published(f, &row);
        } else { /* or does: eviction does not meet it again and again */
            assert_int_equal(hth_file_tier_evict_to(f->tier, 0, NULL, NULL), HEARTH_OK);
            assert_int_equal(index_rows(f), 0);
            assert_published(f, &row);
        }
        assert_reads_back(f, &row);
    }
    assert_true(n_files(f, "quarantine") > 0);
    test_row_free(&row);
}

OPEN(a_folder_that_was_removed_and_made_again_is_durable_again)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    char folder[8192];

    (void)snprintf(folder, sizeof(folder), "%s/rows/%02x", f->cache, row.meta.id.key.bytes[0]);
    f->step.fail_only = "sync_directory"; /* counted, not failing */
    assert_published(f, &row);
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
    atomic_store(&f->step.n_steps, 0);
    assert_published(f, &row);
    assert_int_equal(atomic_load(&f->step.n_steps), 1); /* the folder; its own name is known to be there */
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
    assert_int_equal(rmdir(folder), 0);
    atomic_store(&f->step.n_steps, 0);
    assert_published(f, &row);
    assert_int_equal(atomic_load(&f->step.n_steps), 2);
    test_row_free(&row);
}

OPEN(many_rows_are_found)
{
    test_row rows[4];

    for (uint32_t i = 0; i < 4; i++) {
        rows[i] = test_row_make(1, i, IMAGE_BYTES);
        if (i != 2)
            assert_published(f, &rows[i]);
    }
    /* One that the index does not know is found by its name. */
    assert_int_equal(hth_index_remove_lost(hth_file_tier_index(f->tier), &rows[1].meta.id, 1, NULL, NULL, NULL, NULL),
                     HEARTH_OK);
    for (uint32_t i = 0; i < 4; i++) {
        hth_row_meta meta;
        bool found = hth_file_tier_has(f->tier, &rows[i].meta.id, &meta);

        assert_int_equal(found, i != 2);
        if (found)
            assert_int_equal(meta.first_position, rows[i].meta.first_position);
        test_row_free(&rows[i]);
    }
    hth_file_tier_maintain(f->tier);
    assert_int_equal(index_rows(f), 3);
}

OPEN(a_sound_file_that_the_index_does_not_know_is_adopted_when_it_is_published)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    hth_file_tier_counts counts;
    bool published = true;

    assert_published(f, &row);
    assert_int_equal(hth_index_remove_lost(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL, NULL, NULL, NULL),
                     HEARTH_OK);
    assert_int_equal(publish(f, &row, &published), HEARTH_OK);
    assert_false(published);
    hth_file_tier_counts_get(f->tier, &counts);
    assert_int_equal(counts.rows_written, 1);
    assert_int_equal(counts.rows_adopted, 1);
    assert_int_equal(index_rows(f), 1);
    test_row_free(&row);
}

OPEN(an_adopted_file_in_a_folder_that_somebody_else_made_is_as_durable_as_a_written_one)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    char folder[8192], aside[8192 + 8], command[5 * 8192];

    (void)snprintf(folder, sizeof(folder), "%s/rows/%02x", f->cache, row.meta.id.key.bytes[0]);
    (void)snprintf(aside, sizeof(aside), "%s-aside", folder);
    assert_published(f, &row);
    assert_int_equal(rename(folder, aside), 0);
    (void)snprintf(command, sizeof(command), "mkdir -m 700 %s && mv %s/* %s && rmdir %s", folder, aside, folder, aside);
    assert_int_equal(system(command), 0);
    assert_int_equal(hth_index_remove_lost(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL, NULL, NULL, NULL),
                     HEARTH_OK);
    f->step.fail_only = "sync_directory"; /* counted, not failing */
    atomic_store(&f->step.n_steps, 0);
    assert_int_equal(publish(f, &row, NULL), HEARTH_OK);
    assert_int_equal(atomic_load(&f->step.n_steps), 2); /* the folder, and its own name */
    test_row_free(&row);
}

OPEN(a_row_found_by_its_name_is_adopted_by_the_next_maintenance)
{
    test_row row = test_row_make(1, 3, IMAGE_BYTES);
    hth_row_meta meta;

    assert_published(f, &row);
    assert_int_equal(hth_index_remove_lost(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL, NULL, NULL, NULL),
                     HEARTH_OK);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, &meta));
    assert_int_equal(meta.first_position, row.meta.first_position);
    assert_int_equal(meta.n_tokens, row.meta.n_tokens);
    assert_int_equal(index_rows(f), 0);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(index_rows(f), 1);
    test_row_free(&row);
}

OPEN(a_row_whose_file_was_removed_is_a_miss_and_can_be_published_again)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    buffer b = { .bytes = NULL };

    assert_published(f, &row);
    assert_int_equal(unlink(row_path(f, &row)), 0);
    assert_int_equal(read_row(f, &row.meta.id, &b), HEARTH_NOT_FOUND);
    hth_file_tier_maintain(f->tier);
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_int_equal(index_rows(f), 0);
    assert_published(f, &row);

    assert_int_equal(unlink(row_path(f, &row)), 0);
    assert_published(f, &row); /* also without a reader that noticed */
    test_row_free(&row);
}

OPEN(a_file_of_senseless_size_is_corrupt_and_a_lack_of_memory_is_said)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    buffer b = { .refuse = true };

    assert_published(f, &row);
    assert_int_equal(read_row(f, &row.meta.id, &b), HEARTH_NO_MEMORY);
    assert_int_equal(truncate(row_path(f, &row), 40), 0);
    assert_int_equal(read_row(f, &row.meta.id, &b), HEARTH_CORRUPT);
    assert_int_equal(truncate(row_path(f, &row), (off_t)5 << 30), 0);
    assert_int_equal(read_row(f, &row.meta.id, &b), HEARTH_CORRUPT);
    test_row_free(&row);
}

static void assert_tokens_are_known(fixture *f, const test_row *row)
{
    hearth_token tokens[HTH_BLOCK_TOKENS];
    hth_kvc_fault fault;
    hth_kvc_info info;

    assert_true(hth_kvc_parse_meta(row->bytes, row->n_bytes, row->n_bytes, &info, &fault, NULL));
    assert_int_equal(hth_file_tier_tokens(f->tier, &row->meta.id, tokens, HTH_BLOCK_TOKENS), row->meta.n_tokens);
    for (size_t i = 0; i < row->meta.n_tokens; i++)
        assert_int_equal(tokens[i], hth_kvc_token(&info, i));
    assert_int_equal(hth_file_tier_tokens(f->tier, &row->meta.id, tokens, 3), 3);
}

/* However it came into the index: published, adopted, put back, or found when that was made anew. */
OPEN(the_tokens_of_a_row_are_known_without_its_file)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES), logits = test_row_make_logits(1, 0, IMAGE_BYTES);
    hearth_token tokens[HTH_BLOCK_TOKENS];

    assert_published(f, &row);
    assert_published(f, &logits);
    assert_tokens_are_known(f, &row);
    assert_int_equal(hth_file_tier_tokens(f->tier, &logits.meta.id, tokens, HTH_BLOCK_TOKENS), 0);

    assert_int_equal(hth_index_remove_lost(hth_file_tier_index(f->tier), &row.meta.id, 1, NULL, NULL, NULL, NULL),
                     HEARTH_OK);
    assert_int_equal(hth_file_tier_tokens(f->tier, &row.meta.id, tokens, HTH_BLOCK_TOKENS), 0);
    assert_true(hth_file_tier_has(f->tier, &row.meta.id, NULL)); /* by its name */
    hth_file_tier_maintain(f->tier);
    assert_tokens_are_known(f, &row);

    f->step.fail_only = "remove";
    f->step.fail_errnum = EIO;
    f->step.fail_from_then_on = true;
    atomic_store(&f->step.fail_at, 1);
    assert_int_equal(hth_file_tier_evict_to(f->tier, 0, NULL, NULL), HEARTH_IO);
    atomic_store(&f->step.fail_at, 0);
    f->step.fail_only = NULL;
    assert_tokens_are_known(f, &row);

    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_tokens_are_known(f, &row);
    test_row_free(&row);
    test_row_free(&logits);
}

OPEN(a_row_can_be_removed_once)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    assert_published(f, &row);
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_remove(f->tier, &row.meta.id, NULL), HEARTH_NOT_FOUND);
    assert_int_equal(n_files(f, "rows"), 0);
    assert_int_equal(index_rows(f), 0);
    test_row_free(&row);
}

/* ---- quota and eviction ---- */

CLOSED(a_full_tier_evicts_the_least_recently_used_leaf)
{
    test_row rows[4], chain = test_row_make(50, 0, IMAGE_BYTES);
    hth_file_tier_options options = options_of(f);
    hth_row_meta meta;

    options.bytes_max = 4 * chain.n_bytes + 200;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    for (uint32_t i = 0; i < 4; i++) {
        rows[i] = test_row_make(i, 0, IMAGE_BYTES);
        assert_published(f, &rows[i]);
    }
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            hth_file_tier_touch(f->tier, &rows[i].meta.id, 1);
    hth_file_tier_maintain(f->tier);
    assert_true(hth_file_tier_has(f->tier, &rows[0].meta.id, &meta));
    assert_int_equal(meta.hit_count, 1);

    assert_published(f, &chain);
    assert_false(hth_file_tier_has(f->tier, &rows[2].meta.id, NULL));
    assert_int_equal(index_rows(f), 4);
    assert_int_equal(n_files(f, "rows"), 4);
    for (uint32_t i = 0; i < 4; i++)
        test_row_free(&rows[i]);
    test_row_free(&chain);
}

static uint64_t index_file_bytes(fixture *f)
{
    char pattern[9000];
    struct stat st;
    glob_t found;

    (void)snprintf(pattern, sizeof(pattern), "%s/index/*/data.mdb", f->cache);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_int_equal(stat(found.gl_pathv[0], &st), 0);
    globfree(&found);
    return (uint64_t)st.st_size;
}

/* Publish rows until one is evicted; returns the bytes of rows that are left. */
static uint64_t fill(fixture *f, size_t image_bytes, uint32_t *next_chain)
{
    hth_file_tier_counts before, now;
    hth_index_totals totals;

    hth_file_tier_counts_get(f->tier, &before);
    do {
        test_row row = test_row_make((*next_chain)++, 0, image_bytes);

        assert_published(f, &row);
        test_row_free(&row);
        hth_file_tier_counts_get(f->tier, &now);
    } while (now.rows_evicted == before.rows_evicted);
    assert_int_equal(hth_index_totals_get(hth_file_tier_index(f->tier), &totals, NULL), HEARTH_OK);
    return totals.bytes;
}

CLOSED(the_index_counts_for_the_quota)
{
    enum { FREE_BYTES = 1 << 20, ROOM = 5 << 20, LESS_ROOM = 1 << 20, LAST_CHANGE = 128 << 10 /* after the look */ };
    hth_file_tier_options options = options_of(f);
    hth_file_tier_set *set;
    hth_index_totals totals;
    uint32_t next_chain = 0;
    uint64_t n_rows_bytes;

    options.durable = false; /* thousands of rows */
    options.bytes_max = ROOM;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    n_rows_bytes = fill(f, 1500, &next_chain);
    assert_true(index_file_bytes(f) > FREE_BYTES);
    assert_in_range(n_rows_bytes + index_file_bytes(f), ROOM, ROOM + FREE_BYTES + LAST_CHANGE);

    /* Its file does not shrink, so a lower quota keeps three quarters for rows. */
    hth_file_tier_close(f->tier);
    options.bytes_max = LESS_ROOM;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_true(index_file_bytes(f) > FREE_BYTES + LESS_ROOM / 4);
    assert_int_equal(hth_file_tier_gc(f->tier, UINT64_MAX, NULL, NULL), HEARTH_OK);
    assert_int_equal(hth_index_totals_get(hth_file_tier_index(f->tier), &totals, NULL), HEARTH_OK);
    assert_in_range(totals.bytes, LESS_ROOM / 4 * 3 - 10000, LESS_ROOM / 4 * 3);
    n_rows_bytes = fill(f, 300, &next_chain);
    assert_in_range(n_rows_bytes, LESS_ROOM / 4 * 3 - 10000, LESS_ROOM / 4 * 3);

    hth_file_tier_close(f->tier);
    f->tier = NULL;
    assert_int_equal(hth_file_tier_set_open(&options, 1, &set, NULL), HEARTH_OK);
    hth_file_tier_set_settle(set);
    assert_int_equal(hth_file_tier_set_totals(set, &totals, NULL), HEARTH_OK);
    assert_int_equal(totals.bytes, n_rows_bytes);
    assert_true(totals.index_bytes > FREE_BYTES);
    assert_int_equal(hth_file_tier_set_with_room(set, LESS_ROOM / 8), 1); /* none */
    hth_file_tier_set_close(set);
}

CLOSED(a_row_larger_than_the_quota_is_refused_and_evicts_nothing)
{
    test_row small = test_row_make(1, 0, 100), large = test_row_make(2, 0, 100000);
    hth_file_tier_options options = options_of(f);

    options.bytes_max = 10000;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_published(f, &small);
    assert_int_equal(publish(f, &large, NULL), HEARTH_FULL);
    assert_true(hth_file_tier_has(f->tier, &small.meta.id, NULL));
    test_row_free(&small);
    test_row_free(&large);
}

CLOSED(a_quota_that_was_noted_holds_for_those_who_ask_for_it)
{
    test_row small = test_row_make(1, 0, 100), large = test_row_make(2, 0, 100000);
    hth_file_tier_options options = options_of(f);
    uint64_t quota = 0;

    options.bytes_max = 10000;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier); /* notes it */
    hth_file_tier_close(f->tier);
    options.bytes_max = UINT64_MAX;
    options.with_noted_quota = true;
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    assert_int_equal(hth_file_tier_bytes_max(f->tier), 10000);
    hth_file_tier_settle(f->tier);
    assert_int_equal(publish(f, &large, NULL), HEARTH_FULL);
    assert_published(f, &small);
    hth_file_tier_close(f->tier);
    /* Where none was, there is none. */
    (void)snprintf(f->cache, sizeof(f->cache), "%s/other", f->directory);
    assert_int_equal(hth_file_tier_open(&options, &f->tier, NULL), HEARTH_OK);
    hth_file_tier_settle(f->tier);
    assert_published(f, &large);
    assert_int_equal(hth_index_quota(hth_file_tier_index(f->tier), &quota, NULL), HEARTH_OK);
    assert_int_equal(quota, 0);
    test_row_free(&small);
    test_row_free(&large);
}

OPEN(a_device_that_is_nearly_full_takes_no_row)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    hearth_error err;

    f->step.no_device_space = true;
    assert_int_equal(hth_file_tier_publish(f->tier, &row.meta, row.bytes, row.n_bytes, NULL, &err), HEARTH_FULL);
    assert_non_null(strstr(err.message, f->cache));
    f->step.no_device_space = false;
    assert_published(f, &row);
    test_row_free(&row);
}

OPEN(eviction_on_request_leaves_what_fits)
{
    uint64_t n_evicted = 0;
    size_t n_bytes = 0;

    for (uint32_t i = 0; i < 100; i++) {
        test_row row = test_row_make(7, i, 500);

        assert_published(f, &row);
        n_bytes = row.n_bytes;
        test_row_free(&row);
    }
    assert_int_equal(hth_file_tier_evict_to(f->tier, 10 * n_bytes, &n_evicted, NULL), HEARTH_OK);
    assert_int_equal(n_evicted, 90);
    assert_int_equal(n_files(f, "rows"), 10);
    for (uint32_t i = 0; i < 100; i++) {
        test_row row = test_row_make(7, i, 500);

        assert_int_equal(hth_file_tier_has(f->tier, &row.meta.id, NULL), i < 10);
        test_row_free(&row);
    }
}

OPEN(the_order_of_eviction_survives_the_loss_of_the_index)
{
    test_row old = test_row_make(1, 0, 100), used = test_row_make(2, 0, 100);
    hth_row_meta meta;

    assert_published(f, &old);
    assert_published(f, &used);
    hth_file_tier_touch(f->tier, &used.meta.id, 1);
    hth_file_tier_maintain(f->tier);
    assert_int_equal(hth_fs_set_mtime(hth_fs_system(), row_path(f, &old), 1700000005), 0);
    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_true(hth_file_tier_has(f->tier, &old.meta.id, &meta));
    assert_int_equal(meta.last_used_time, 1700000005);
    assert_int_equal(hth_file_tier_evict_to(f->tier, used.n_bytes, NULL, NULL), HEARTH_OK);
    assert_false(hth_file_tier_has(f->tier, &old.meta.id, NULL));
    assert_true(hth_file_tier_has(f->tier, &used.meta.id, NULL));
    test_row_free(&old);
    test_row_free(&used);
}

/* ---- setting aside ---- */

OPEN(a_row_that_failed_its_checks_is_set_aside)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);
    hth_file_tier_counts counts;

    assert_published(f, &row);
    hth_file_tier_quarantine(f->tier, &row.meta.id, "test");
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_int_equal(index_rows(f), 0);
    assert_int_equal(n_files(f, "quarantine"), 1);
    hth_file_tier_counts_get(f->tier, &counts);
    assert_int_equal(counts.rows_quarantined, 1);
    hth_file_tier_quarantine(f->tier, &row.meta.id, "again");
    assert_int_equal(n_files(f, "quarantine"), 1);
    assert_published(f, &row);
    test_row_free(&row);
}

OPEN(the_quarantine_keeps_its_64_newest_files)
{
    char path[8192], target[8192 + 64];
    hth_row_id id = { .kind = HTH_ROW_BLOCK };

    for (uint32_t i = 0; i < 80; i++) {
        (void)snprintf(path, sizeof(path), "%s", below(f, "file"));
        write_new(path, "x", 1);
        (void)snprintf(target, sizeof(target), "%s/%012u-old-%u", below(f, "quarantine"), i, i);
        assert_int_equal(rename(path, target), 0);
    }
    write_new(path, "x", 1);
    assert_int_equal(hth_quarantine_row(hth_fs_system(), below(f, "quarantine"), path, &id), 0);
    assert_int_equal(hth_quarantine_count(hth_fs_system(), below(f, "quarantine")), HTH_QUARANTINE_FILES_MAX);
    assert_int_equal(access(below(f, "quarantine/000000000016-old-16"), F_OK), -1);
    assert_int_equal(access(below(f, "quarantine/000000000017-old-17"), F_OK), 0);
}

/* ---- what else lies in the directory ---- */

OPEN(foreign_files_are_left_alone_with_one_warning)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES), other = test_row_make(2, 0, IMAGE_BYTES);
    char other_path[8192];

    assert_published(f, &row);
    (void)snprintf(other_path, sizeof(other_path), "%s", row_path(f, &other));
    close_tier(f);
    lose_index(f);
    write_new(below(f, "rows/note.txt"), "hello", 5);
    assert_int_equal(mkdir(below(f, "rows/zz"), 0700), 0);
    other_path[strlen(f->cache) + strlen("/rows/ab")] = '\0';
    (void)mkdir(other_path, 0700);
    (void)snprintf(other_path + strlen(other_path), 20, "/abc");
    write_new(other_path, "hello", 5);
    open_tier(f);
    assert_int_equal(f->n_warnings, 1);
    assert_non_null(strstr(f->last_warning, "3 files"));
    assert_int_equal(index_rows(f), 1);
    assert_int_equal(access(below(f, "rows/note.txt"), F_OK), 0);
    assert_int_equal(access(other_path, F_OK), 0);
    test_row_free(&row);
    test_row_free(&other);
}

/* Else it would lie there, counted by no quota, until somebody verifies the directory. */
OPEN(a_row_whose_head_is_damaged_is_set_aside_when_the_index_is_made_anew)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES), cut = test_row_make(2, 0, IMAGE_BYTES);

    assert_published(f, &row);
    assert_published(f, &cut);
    overwrite(row_path(f, &row), 0, "XXX", 3);
    assert_int_equal(truncate(row_path(f, &cut), 20), 0);
    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_int_equal(index_rows(f), 0);
    assert_int_equal(f->n_warnings, 0);
    assert_false(hth_file_tier_has(f->tier, &row.meta.id, NULL));
    assert_int_equal(access(row_path(f, &row), F_OK), -1);
    assert_int_equal(access(row_path(f, &cut), F_OK), -1);
    assert_int_equal(hth_quarantine_count(hth_fs_system(), below(f, "quarantine")), 2);
    assert_published(f, &row);
    assert_reads_back(f, &row);
    test_row_free(&row);
    test_row_free(&cut);
}

OPEN(a_row_of_another_version_of_the_format_is_left_to_it)
{
    test_row row = test_row_make(1, 0, IMAGE_BYTES);

    assert_published(f, &row);
    overwrite(row_path(f, &row), 3, "\x7f", 1);
    close_tier(f);
    lose_index(f);
    open_tier(f);
    assert_int_equal(index_rows(f), 0);
    assert_int_equal(f->n_warnings, 1);
    assert_int_equal(access(row_path(f, &row), F_OK), 0);
    test_row_free(&row);
}

OPEN(leftover_temporary_files_are_removed_and_files_of_others_are_not)
{
    close_tier(f);
    write_new(below(f, "temporary/0123456789abcdef-1"), "of a dead owner", 15);
    write_new(below(f, "temporary/strange-and-old"), "x", 1);
    write_new(below(f, "temporary/strange-and-new"), "x", 1);
    assert_int_equal(hth_fs_set_mtime(hth_fs_system(), below(f, "temporary/strange-and-old"), 1700000000), 0);
    open_tier(f);
    assert_int_equal(access(below(f, "temporary/0123456789abcdef-1"), F_OK), -1);
    assert_int_equal(access(below(f, "temporary/strange-and-old"), F_OK), 0);
    assert_int_equal(access(below(f, "temporary/strange-and-new"), F_OK), 0);
}
