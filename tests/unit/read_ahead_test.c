/*
 * read_ahead_test.c - the rows of a restore come in order, from wherever they are, and what is wrong ends it
 */
#include "support/cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "cache/cache_inside.h"
#include "cache/read_ahead.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { ROWS = 100, IMAGE_BYTES = 20000, FLUSH_MS = 60000 };

typedef struct fixture {
    char *directory;
    test_step_fs step;
    hth_cache_options options;
    hth_cache *cache;
    hth_keyspace keyspace;
    hth_lookup_row rows[ROWS];
} fixture;

static void open_cache(fixture *f)
{
    assert_int_equal(hth_cache_open(&f->options, &f->cache, NULL), HEARTH_OK);
}

static void close_cache(fixture *f)
{
    hth_cache_close(f->cache, FLUSH_MS);
    f->cache = NULL;
}

static void save_rows(fixture *f)
{
    for (size_t i = 0; i < ROWS; i++) {
        const hth_row_meta *meta = &f->rows[i].meta;
        hearth_token token = (hearth_token)i;
        hth_save save = {
            .keyspace = &f->keyspace,
            .id = meta->id,
            .tokens = &token,
            .n_tokens = 1,
            .context_size = 4096,
            .reason = HEARTH_SAVE_COLD,
            .engine_build = "test",
            .image_bytes = IMAGE_BYTES,
        };
        hth_slab *slab = hth_cache_save_begin(f->cache, &save);

        assert_non_null(slab);
        memset(hth_slab_image(slab), (int)i, IMAGE_BYTES);
        hth_cache_save_commit(f->cache, slab);
        assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    }
}

static void path_of(const fixture *f, size_t i, char *path, size_t capacity)
{
    char hex[2 * HTH_KEY_BYTES + 1];

    hth_hex_encode(f->rows[i].meta.id.key.bytes, HTH_KEY_BYTES, hex);
    (void)snprintf(path, capacity, "%s/rows/%.2s/%s-tail.kvc", f->directory, hex, hex);
}

/* Out of the page cache, where the file system has one. */
static void make_cold(const fixture *f)
{
    for (size_t i = 0; i < ROWS; i++) {
        char path[8192];
        int fd;

        path_of(f, i, path, sizeof(path));
        fd = open(path, O_RDONLY);
        if (fd >= 0) {
            (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            (void)close(fd);
        }
    }
}

static void fixture_setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    test_step_fs_init(&f->step, NULL);
    f->keyspace.quant_byte = 1;
    for (size_t i = 0; i < ROWS; i++) {
        hearth_token token = (hearth_token)i;

        f->rows[i] = (hth_lookup_row){ .meta = { .id = { .kind = HTH_ROW_TAIL }, .n_tokens = 1 }, .n_use = 1 };
        assert_true(hth_key_of(&f->keyspace, &token, 1, &f->rows[i].meta.id.key));
    }
    f->options = (hth_cache_options){
        .ram_memory_fd = -1,
        .ram_bytes_max = 16 << 20,
        .directory = f->directory,
        .disk_bytes_max = 64 << 20,
        .n_writer_threads = 2,
        .write_limits = { .queue_rows_max = 1000, .queue_bytes_max = 16 << 20 },
    };
    open_cache(f);
    save_rows(f);
    close_cache(f);
}

static void fixture_teardown(fixture *f)
{
    hth_cache_close(f->cache, FLUSH_MS);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, fixture_setup, fixture_teardown)

/* Read rows until one fails, at most n_most; how many came, each the right one. */
static size_t read_rows(fixture *f, size_t n_most, hearth_status *status_out)
{
    hth_read_ahead *ahead = hth_read_ahead_begin(f->cache, &f->keyspace, f->rows, ROWS);
    size_t n = 0;

    assert_non_null(ahead);
    *status_out = HEARTH_OK;
    while (n < n_most) {
        hth_borrowed_row row;
        hearth_error err = { .message = "" };

        *status_out = hth_read_ahead_next(ahead, &row, &err);
        if (*status_out != HEARTH_OK)
            break;
        assert_int_equal(row.image_bytes, IMAGE_BYTES);
        assert_int_equal(row.image[0], (uint8_t)n);
        assert_int_equal(row.image[IMAGE_BYTES - 1], (uint8_t)n);
        hth_cache_return(f->cache, &row);
        n++;
    }
    hth_read_ahead_end(ahead);
    return n;
}

FIXTURE_TEST(rows_come_in_order_from_warm_and_cold_files)
{
    hearth_status status;

    open_cache(f);
    assert_int_equal(read_rows(f, ROWS, &status), ROWS);
    close_cache(f);
    make_cold(f);
    open_cache(f);
    assert_int_equal(read_rows(f, ROWS, &status), ROWS);
    assert_int_equal(read_rows(f, ROWS, &status), ROWS); /* and from RAM */
}

/* What a process that may make no more of them needs. */
FIXTURE_TEST(the_queues_are_made_with_the_cache_and_lent_again)
{
    hth_read_ring *rings[HTH_SPARE_RINGS_MAX + 1];
    hearth_status status;
    size_t n;

    open_cache(f);
    n = f->cache->rings.n; /* none where the system has none */
    assert_true(n == 0 || n == HTH_SPARE_RINGS_MAX);
    for (size_t i = 0; i <= HTH_SPARE_RINGS_MAX; i++) {
        rings[i] = hth_spare_rings_take(&f->cache->rings);
        assert_non_null(rings[i]);
    }
    assert_int_equal(f->cache->rings.n, 0);
    for (size_t i = 0; i <= HTH_SPARE_RINGS_MAX; i++)
        hth_spare_rings_give(&f->cache->rings, rings[i]);
    assert_int_equal(f->cache->rings.n, n);
    close_cache(f);
    for (int round = 0; round < 2; round++) {
        make_cold(f);
        open_cache(f);
        assert_int_equal(read_rows(f, ROWS, &status), ROWS);
        assert_int_equal(f->cache->rings.n, n); /* given back */
        close_cache(f);
    }
    f->options.fs = &f->step.fs;
    open_cache(f);
    assert_int_equal(f->cache->rings.n, 0);
}

FIXTURE_TEST(rows_come_in_order_where_threads_read)
{
    hearth_status status;

    f->options.fs = &f->step.fs;
    f->step.short_io = true;
    open_cache(f);
    assert_int_equal(read_rows(f, ROWS, &status), ROWS);
}

FIXTURE_TEST(rows_come_in_order_from_memory_files)
{
    const hth_fs *layers[] = { NULL, &f->step.fs };
    hearth_status status;

    f->options.ram_file_directory = f->directory; /* the same rows: a tier is told by what it was opened as */
    f->options.ram_file_bytes_max = 64 << 20;
    f->options.directory = NULL;
    f->step.short_io = true;
    for (size_t i = 0; i < 2; i++) {
        f->options.fs = layers[i];
        open_cache(f);
        assert_int_equal(read_rows(f, ROWS, &status), ROWS);
        close_cache(f);
    }
}

FIXTURE_TEST(a_ram_tier_with_room_for_two_rows_is_enough)
{
    const hth_fs *layers[] = { NULL, &f->step.fs };
    hearth_status status;

    f->options.ram_bytes_max = 2 * 24576; /* two slabs */
    for (size_t i = 0; i < 2; i++) {
        f->options.fs = layers[i];
        make_cold(f);
        open_cache(f);
        assert_int_equal(read_rows(f, ROWS, &status), ROWS);
        close_cache(f);
    }
}

FIXTURE_TEST(a_restore_that_ends_early_leaves_nothing_pinned)
{
    for (size_t n = 0; n < 20; n++) {
        hearth_status status;

        if (n % 2)
            make_cold(f);
        open_cache(f);
        assert_int_equal(read_rows(f, n, &status), n);
        close_cache(f); /* asserts that every row is unpinned */
    }
}

FIXTURE_TEST(a_damaged_row_ends_the_restore_there)
{
    hearth_status status;
    char path[8192];

    path_of(f, 30, path, sizeof(path));
    assert_int_equal(truncate(path, 3000), 0);
    open_cache(f);
    assert_int_equal(read_rows(f, ROWS, &status), 30);
    assert_int_equal(status, HEARTH_CORRUPT);
}

FIXTURE_TEST(a_row_whose_file_is_gone_ends_the_restore_there)
{
    hearth_status status;
    char path[8192];

    path_of(f, 77, path, sizeof(path));
    assert_int_equal(unlink(path), 0);
    make_cold(f);
    open_cache(f);
    assert_int_equal(read_rows(f, ROWS, &status), 77);
    assert_int_equal(status, HEARTH_NOT_FOUND);
}

FIXTURE_TEST(a_read_that_fails_ends_the_restore_and_damages_nothing)
{
    hearth_status status;
    size_t n;

    f->options.fs = &f->step.fs;
    f->step.fail_errnum = 5; /* EIO */
    f->step.fail_only = "read_at";
    open_cache(f);
    f->step.n_steps = 0;
    f->step.fail_at = 40;
    n = read_rows(f, ROWS, &status);
    assert_in_range(n, 0, ROWS - 1);
    assert_int_equal(status, HEARTH_IO);
    f->step.fail_at = 0;
    assert_int_equal(read_rows(f, ROWS, &status), ROWS);
}
