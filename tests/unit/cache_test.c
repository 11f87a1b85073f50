/*
 * cache_test.c - the tiers behind one door: what is kept where, what comes from where, and when nothing is kept
 */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hex.h"
#include "cache/cache.h"
#include "cache/pins.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { IMAGE_BYTES = 5000, FLUSH_MS = 60000 };

typedef struct fixture {
    char *directory; /* of the test; the tiers are below */
    char ram_files[4096];
    char disk[4096];
    test_step_fs step;
    hth_log log;
    unsigned n_warnings;
    hth_cache_options options;
    hth_cache *cache;
    hth_keyspace keyspace;
} fixture;

static void count_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;

    (void)source;
    (void)message;
    if (level <= HEARTH_LOG_WARNING)
        f->n_warnings++;
}

static void open_cache(fixture *f)
{
    hearth_error err = { .message = "" };

    free(f->options.counters);
    f->options.counters = calloc(1, sizeof(*f->options.counters));
    assert_non_null(f->options.counters);
    assert_ok(hth_cache_open(&f->options, &f->cache, &err), err);
}

static void close_cache(fixture *f)
{
    hth_cache_close(f->cache, FLUSH_MS);
    f->cache = NULL;
}

static void fixture_setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->ram_files, sizeof(f->ram_files), "%s/ram", f->directory);
    (void)snprintf(f->disk, sizeof(f->disk), "%s/disk", f->directory);
    test_step_fs_init(&f->step, NULL);
    f->log = (hth_log){ .level = HEARTH_LOG_WARNING, .write = count_warning, .user_data = f };
    memset(f->keyspace.fingerprint, 7, sizeof(f->keyspace.fingerprint));
    f->keyspace.quant_byte = 1;
    f->options = (hth_cache_options){
        .ram_memory_fd = -1,
        .ram_bytes_max = 16 << 20,
        .ram_file_directory = f->ram_files,
        .ram_file_bytes_max = 16 << 20,
        .directory = f->disk,
        .disk_bytes_max = 16 << 20,
        .n_writer_threads = 3,
        .write_limits = { .queue_rows_max = 1000, .queue_bytes_max = 16 << 20 },
        .log = &f->log,
        .fs = &f->step.fs,
    };
}

static void fixture_teardown(fixture *f)
{
    hth_cache_close(f->cache, FLUSH_MS);
    free(f->options.counters);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, fixture_setup, fixture_teardown)

/* Prompt number n: its tokens, and the row of its first n_tokens. */
static void prompt_of(uint32_t n, hearth_token *tokens, size_t n_tokens)
{
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = (hearth_token)(n * 1000 + i);
}

static hth_row_meta tail_meta(const fixture *f, uint32_t n, uint32_t n_tokens)
{
    hearth_token tokens[HTH_BLOCK_TOKENS];
    hth_row_meta meta = { .id = { .kind = HTH_ROW_TAIL }, .n_tokens = n_tokens };

    prompt_of(n, tokens, n_tokens);
    assert_true(hth_key_of(&f->keyspace, tokens, n_tokens, &meta.id.key));
    assert_true(hth_key_of(&f->keyspace, tokens, 0, &meta.parent));
    return meta;
}

/* Save the tail of prompt n; false when it was dropped. */
static bool save_tail(fixture *f, uint32_t n, uint32_t n_tokens, const hth_row_id *superseded,
                      hearth_save_reason reason)
{
    hearth_token tokens[HTH_BLOCK_TOKENS];
    hth_row_meta meta = tail_meta(f, n, n_tokens);
    hth_save save = {
        .keyspace = &f->keyspace,
        .id = meta.id,
        .parent = meta.parent,
        .tokens = tokens,
        .n_tokens = n_tokens,
        .context_size = 4096,
        .reason = reason,
        .engine_build = "test",
        .image_bytes = IMAGE_BYTES,
        .superseded = superseded,
    };
    hth_slab *slab;

    prompt_of(n, tokens, n_tokens);
    slab = hth_cache_save_begin(f->cache, &save);
    if (!slab)
        return false;
    memset(hth_slab_image(slab), (int)n, IMAGE_BYTES);
    hth_cache_save_commit(f->cache, slab);
    return true;
}

static hearth_tier tier_of(fixture *f, uint32_t n, uint32_t n_tokens)
{
    hth_row_meta meta = tail_meta(f, n, n_tokens);

    return hth_cache_find(f->cache, &meta.id, NULL);
}

/* Borrow the tail of prompt n, check its bytes and give it back; the tier it came from, or NONE. */
static hearth_tier borrow(fixture *f, uint32_t n, uint32_t n_tokens)
{
    hth_row_meta meta = tail_meta(f, n, n_tokens);
    hth_borrowed_row row;
    hearth_tier tier;

    if (hth_cache_borrow(f->cache, &f->keyspace, &meta, &row, NULL) != HEARTH_OK)
        return HEARTH_TIER_NONE;
    assert_int_equal(row.image_bytes, IMAGE_BYTES);
    for (size_t i = 0; i < IMAGE_BYTES; i++)
        assert_int_equal(row.image[i], (uint8_t)n);
    tier = row.tier;
    hth_cache_return(f->cache, &row);
    return tier;
}

static hearth_counters counters_of(fixture *f)
{
    hearth_counters counters = { .struct_size = sizeof(counters) };
    const hth_counters *counted = f->options.counters;

    hth_cache_counters(f->cache, &counters);
    counters.saves_dropped = hth_counted(counted, HTH_COUNT_SAVES_DROPPED);
    counters.rows_written = hth_counted(counted, HTH_COUNT_ROWS_WRITTEN);
    counters.rows_quarantined = hth_counted(counted, HTH_COUNT_ROWS_QUARANTINED);
    return counters;
}

FIXTURE_TEST(only_rows_that_are_used_count_as_restored)
{
    hth_row_meta meta = tail_meta(f, 1, 40);
    const hth_counters *counted;
    hth_borrowed_row row;

    open_cache(f);
    counted = f->options.counters;
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    assert_int_equal(hth_cache_borrow(f->cache, &f->keyspace, &meta, &row, NULL), HEARTH_OK);
    hth_cache_return_unused(f->cache, &row); /* an export does */
    assert_int_equal(hth_counted(counted, HTH_COUNT_ROWS_RESTORED), 0);
    assert_int_equal(hth_counted(counted, HTH_COUNT_BYTES_RESTORED), 0);
    assert_int_equal(hth_counted(counted, HTH_COUNT_TOKENS_RESTORED), 0);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_RAM);
    assert_int_equal(hth_counted(counted, HTH_COUNT_ROWS_RESTORED), 1);
    assert_int_equal(hth_counted(counted, HTH_COUNT_BYTES_RESTORED), IMAGE_BYTES);
    assert_int_equal(hth_counted(counted, HTH_COUNT_TOKENS_RESTORED), 40);
}

static void path_of(const char *tier, const hth_row_id *id, char *path, size_t capacity)
{
    char hex[2 * HTH_KEY_BYTES + 1];

    hth_hex_encode(id->key.bytes, HTH_KEY_BYTES, hex);
    (void)snprintf(path, capacity, "%s/rows/%.2s/%s-%s.kvc", tier, hex, hex, hth_row_kind_name(id->kind));
}

FIXTURE_TEST(a_row_is_in_ram_at_once_and_in_every_file_tier_after_a_flush)
{
    hth_row_meta meta = tail_meta(f, 1, 40);
    char path[8192];

    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    assert_int_equal(tier_of(f, 1, 40), HEARTH_TIER_RAM);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_RAM);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    path_of(f->ram_files, &meta.id, path, sizeof(path));
    assert_int_equal(access(path, R_OK), 0);
    path_of(f->disk, &meta.id, path, sizeof(path));
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(counters_of(f).ram_file_rows, 1);
    assert_int_equal(counters_of(f).disk_rows, 1);
}

FIXTURE_TEST(the_fastest_tier_that_has_a_row_gives_it)
{
    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);
    open_cache(f);
    assert_int_equal(tier_of(f, 1, 40), HEARTH_TIER_RAM_FILE);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_RAM_FILE);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_RAM);
}

FIXTURE_TEST(a_row_that_comes_from_the_disk_goes_to_the_faster_tiers)
{
    f->options.ram_file_directory = NULL;
    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);

    f->options.ram_file_directory = f->ram_files;
    open_cache(f);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_DISK);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    close_cache(f);

    open_cache(f);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_RAM_FILE);
}

FIXTURE_TEST(a_damaged_row_of_a_fast_tier_is_served_and_replaced_by_the_slower_one)
{
    hth_row_meta meta = tail_meta(f, 1, 40);
    char path[8192];

    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);
    path_of(f->ram_files, &meta.id, path, sizeof(path));
    assert_int_equal(truncate(path, 300), 0);

    open_cache(f);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_DISK);
    assert_int_equal(counters_of(f).rows_quarantined, 1);
    assert_int_equal(f->n_warnings, 1);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    close_cache(f);
    open_cache(f);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_RAM_FILE);
}

FIXTURE_TEST(a_row_damaged_everywhere_is_a_miss_and_can_be_saved_again)
{
    hth_row_meta meta = tail_meta(f, 1, 40);
    char path[8192];

    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);
    path_of(f->ram_files, &meta.id, path, sizeof(path));
    assert_int_equal(truncate(path, 300), 0);
    path_of(f->disk, &meta.id, path, sizeof(path));
    assert_int_equal(truncate(path, 300), 0);

    open_cache(f);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_NONE);
    assert_int_equal(tier_of(f, 1, 40), HEARTH_TIER_NONE); /* at once, also before the writer set it aside */
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);
    open_cache(f);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_RAM_FILE);
}

FIXTURE_TEST(a_superseded_row_goes_once_its_successor_is_durable)
{
    hth_row_meta old = tail_meta(f, 1, 40);
    char path[8192];

    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    assert_true(save_tail(f, 1, 90, &old.id, HEARTH_SAVE_FINISH));
    assert_int_equal(tier_of(f, 1, 90), HEARTH_TIER_RAM);
    close_cache(f); /* the removal may still have been on its way */
    path_of(f->disk, &old.id, path, sizeof(path));
    assert_int_not_equal(access(path, R_OK), 0);
    path_of(f->ram_files, &old.id, path, sizeof(path));
    assert_int_not_equal(access(path, R_OK), 0);
}

FIXTURE_TEST(a_superseded_row_stays_when_its_successor_is_not_written)
{
    hth_row_meta old = tail_meta(f, 1, 40);

    f->options.ram_file_directory = NULL;
    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    f->options.disk_free_min = 0;
    f->step.no_device_space = true;
    assert_true(save_tail(f, 1, 90, &old.id, HEARTH_SAVE_FINISH));
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    f->step.no_device_space = false;
    close_cache(f);
    open_cache(f);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_DISK);
    assert_int_equal(tier_of(f, 1, 90), HEARTH_TIER_NONE);
}

FIXTURE_TEST(a_full_write_queue_drops_saves_and_counts_them)
{
    f->options.ram_file_directory = NULL;
    f->options.write_limits.bytes_per_s = 1; /* the first write uses up hours: the others wait */
    f->options.write_limits.queue_rows_max = 2;
    open_cache(f);
    for (uint32_t n = 0; n < 10; n++) {
        assert_true(save_tail(f, n, 40, NULL, HEARTH_SAVE_COLD));
        assert_int_equal(tier_of(f, n, 40), HEARTH_TIER_RAM); /* the request is not affected */
    }
    assert_true(counters_of(f).saves_dropped >= 5); /* 2 wait, one or two were written before */
    assert_true(counters_of(f).saves_dropped < 10);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS)); /* who waits is not held up by the pace */
    assert_int_equal(counters_of(f).rows_written + counters_of(f).saves_dropped, 10);
}

FIXTURE_TEST(the_bounds_of_the_write_queue_change_at_run_time)
{
    hth_writer_limits limits = { .queue_rows_max = 0, .queue_bytes_max = 1 << 20 };

    f->options.ram_file_directory = NULL;
    open_cache(f);
    hth_cache_write_limits_set(f->cache, &limits);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    assert_int_equal(counters_of(f).saves_dropped, 1);
    limits.queue_rows_max = 10;
    hth_cache_write_limits_set(f->cache, &limits);
    assert_true(save_tail(f, 2, 40, NULL, HEARTH_SAVE_COLD));
    assert_int_equal(counters_of(f).saves_dropped, 1);
    limits.queue_bytes_max = IMAGE_BYTES; /* and a head */
    hth_cache_write_limits_set(f->cache, &limits);
    assert_true(save_tail(f, 3, 40, NULL, HEARTH_SAVE_COLD));
    assert_int_equal(counters_of(f).saves_dropped, 2);
}

FIXTURE_TEST(a_row_that_was_dropped_is_queued_again_when_it_is_asked_for)
{
    hth_writer_limits limits = { .queue_rows_max = 0, .queue_bytes_max = 1 << 20 };
    hth_row_meta meta = tail_meta(f, 1, 40);

    f->options.ram_file_directory = NULL;
    open_cache(f);
    hth_cache_write_limits_set(f->cache, &limits);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    limits.queue_rows_max = 10;
    hth_cache_write_limits_set(f->cache, &limits);
    assert_true(hth_cache_is_saved(f->cache, &meta.id));
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    assert_int_equal(counters_of(f).disk_rows, 1);
}

FIXTURE_TEST(with_save_on_second_use_only_used_rows_are_written)
{
    f->options.ram_file_directory = NULL;
    f->options.save_on_second_use = true;
    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    assert_true(save_tail(f, 2, 40, NULL, HEARTH_SAVE_COLD));
    assert_true(save_tail(f, 3, 40, NULL, HEARTH_SAVE_SHUTDOWN));
    assert_int_equal(borrow(f, 2, 40), HEARTH_TIER_RAM);
    close_cache(f);
    open_cache(f);
    assert_int_equal(tier_of(f, 1, 40), HEARTH_TIER_NONE);
    assert_int_equal(tier_of(f, 2, 40), HEARTH_TIER_DISK);
    assert_int_equal(tier_of(f, 3, 40), HEARTH_TIER_DISK); /* the last chance */
}

FIXTURE_TEST(a_file_tier_that_cannot_be_opened_costs_that_tier_only)
{
    FILE *file = fopen(f->ram_files, "w"); /* in the place of the directory */

    assert_non_null(file);
    (void)fclose(file);
    open_cache(f);
    assert_int_equal(f->n_warnings, 1);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);
    open_cache(f);
    assert_int_equal(borrow(f, 1, 40), HEARTH_TIER_DISK);
}

FIXTURE_TEST(a_directory_for_both_file_tiers_is_the_disks_alone)
{
    assert_int_equal(symlink("disk", f->ram_files), 0);
    assert_int_equal(mkdir(f->disk, 0700), 0);
    open_cache(f);
    assert_int_equal(f->n_warnings, 1);
    assert_true(hth_cache_is_durable(f->cache));
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);
    f->options.ram_file_directory = NULL;
    open_cache(f);
    assert_int_equal(f->n_warnings, 1);
    assert_int_equal(tier_of(f, 1, 40), HEARTH_TIER_DISK);
}

FIXTURE_TEST(a_root_that_is_given_twice_is_opened_once)
{
    const char *more[] = { f->disk };

    f->options.more_directories = more;
    f->options.n_more_directories = 1;
    open_cache(f);
    assert_int_equal(f->n_warnings, 1);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);
    open_cache(f);
    assert_int_equal(tier_of(f, 1, 40), HEARTH_TIER_RAM_FILE);
}

FIXTURE_TEST(a_row_of_another_keyspace_is_not_lent)
{
    hth_row_meta meta = tail_meta(f, 1, 40);
    hth_keyspace other = f->keyspace;
    hth_borrowed_row row;

    open_cache(f);
    assert_true(save_tail(f, 1, 40, NULL, HEARTH_SAVE_COLD));
    close_cache(f);
    other.fingerprint[0] ^= 1;
    open_cache(f);
    assert_int_equal(hth_cache_borrow(f->cache, &other, &meta, &row, NULL), HEARTH_CORRUPT);
}

FIXTURE_TEST(children_are_listed_once_whatever_tiers_they_are_in)
{
    hth_row_meta parent = tail_meta(f, 1, 40);
    hth_row_meta children[16];

    open_cache(f);
    for (uint32_t n = 0; n < 5; n++)
        assert_true(save_tail(f, n, 40, NULL, HEARTH_SAVE_COLD));
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    assert_int_equal(hth_cache_children(f->cache, &parent.parent, children, 16), 5);
    close_cache(f);
    open_cache(f);
    assert_int_equal(borrow(f, 3, 40), HEARTH_TIER_RAM_FILE);
    assert_int_equal(hth_cache_children(f->cache, &parent.parent, children, 16), 5);
    assert_int_equal(hth_cache_children(f->cache, &parent.parent, children, 2), 2);
}

FIXTURE_TEST(a_pin_is_found_and_taken_away_in_whichever_tier_it_lies)
{
    hth_key key = tail_meta(f, 1, 40).id.key;
    char pins[4200];

    open_cache(f);
    (void)snprintf(pins, sizeof(pins), "%s/pins", f->ram_files);
    assert_int_equal(hth_pin_add(&(hth_pin_folder){ .fs = hth_fs_system(), .directory = pins }, &key, NULL, NULL),
                     HEARTH_OK);
    assert_true(hth_cache_is_pinned(f->cache, &key));
    assert_int_equal(hth_cache_unpin(f->cache, &key, NULL), HEARTH_OK);
    assert_false(hth_cache_is_pinned(f->cache, &key));
    assert_int_equal(hth_cache_unpin(f->cache, &key, NULL), HEARTH_NOT_FOUND);
    assert_int_equal(hth_cache_unpin_to_remove(f->cache, &key, NULL), HEARTH_OK);
}
