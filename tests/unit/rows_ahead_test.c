/*
 * rows_ahead_test.c - the rows of a cache that memory is touched ahead of
 *
 * The quota allows one row here and nothing beside it. Once it is higher, memory is touched: pieces that are as long as
 * the row if others are to follow it, otherwise one whole segment.
 */
#include "support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/arena.h"
#include "cache/cache_inside.h"
#include "support/prompts.h"
#include "support/support.h"

#define MIB ((size_t)1 << 20)
#define PIECE_BYTES (40 * MIB)
enum { FLUSH_MS = 60000 };

typedef struct fixture {
    char *directory;
    hth_cache_options options;
    hth_cache *cache;
    hth_keyspace model;
    hearth_token tokens[HTH_BLOCK_TOKENS];
} fixture;

static void open_cache(fixture *f)
{
    hearth_error err = { .message = "" };

    assert_ok(hth_cache_open(&f->options, &f->cache, &err), err);
    for (size_t i = 0; i < f->cache->n_levels; i++)
        hth_file_tier_set_settle(f->cache->levels[i].files);
    f->cache->has_many_cpus = false;
}

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->options = (hth_cache_options){
        .ram_memory_fd = -1,
        .ram_bytes_max = 48 * MIB,
        .directory = f->directory,
        .disk_bytes_max = 256 * MIB,
        .n_writer_threads = 1,
        .write_limits = { .queue_rows_max = 10, .queue_bytes_max = 256 * MIB },
    };
    f->model.quant_byte = 1;
    hth_keyspace_set_fingerprint(&f->model, (uint8_t[32]){ 7 });
    test_prompt_tokens(1, f->tokens, HTH_BLOCK_TOKENS);
    open_cache(f);
}

static void tear_down(fixture *f)
{
    assert_true(hth_cache_close(f->cache, FLUSH_MS));
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* Are pieces touched, or a segment? A piece is counted from its begin on. */
static bool is_followed_by_pieces(const fixture *f)
{
    hth_ram_tier_totals totals;
    uint64_t ahead_bytes = 0;

    hth_ram_tier_totals_get(f->cache->ram, &totals);
    assert_int_equal(totals.bytes_mapped, totals.bytes);
    hth_ram_tier_set_bytes_max(f->cache->ram, 1024 * MIB);
    for (int i = 0; i < 30000 && ahead_bytes == 0; i++) {
        usleep(1000);
        hth_ram_tier_totals_get(f->cache->ram, &totals);
        ahead_bytes = totals.bytes_mapped - totals.bytes;
    }
    if (ahead_bytes == HTH_ARENA_SEGMENT_BYTES)
        return false;
    assert_true(ahead_bytes > 0 && ahead_bytes % PIECE_BYTES == 0);
    return true;
}

static hth_slab *begin_row(fixture *f, hth_row_kind kind)
{
    hth_save save = {
        .keyspace = &f->model,
        .id = test_prompt_row_id(&f->model, f->tokens, HTH_BLOCK_TOKENS, kind),
        .tokens = f->tokens,
        .n_tokens = HTH_BLOCK_TOKENS,
        .context_size = HTH_BLOCK_TOKENS,
        .reason = HEARTH_SAVE_COLD,
        .engine_build = "test",
        .image_bytes = PIECE_BYTES - MIB / 2, /* and the head */
    };
    hth_slab *slab;

    assert_true(hth_key_of(&f->model, f->tokens, 0, &save.parent));
    slab = hth_cache_save_begin(f->cache, &save);
    assert_non_null(slab);
    return slab;
}

static bool is_touched_ahead_of_computed(fixture *f, hth_row_kind kind)
{
    hth_slab *slab = begin_row(f, kind);
    bool result = is_followed_by_pieces(f);

    hth_cache_save_abort(f->cache, slab);
    return result;
}

static bool is_touched_ahead_of_read(fixture *f, bool has_many_cpus)
{
    hth_row_id id = test_prompt_row_id(&f->model, f->tokens, HTH_BLOCK_TOKENS, HTH_ROW_BLOCK);
    hth_slab *slab = begin_row(f, HTH_ROW_BLOCK);
    hearth_error err = { .message = "" };
    hth_borrowed_row row;
    hth_row_meta meta;
    bool result;

    memset(hth_slab_image(slab), 7, PIECE_BYTES - MIB / 2);
    hth_cache_save_commit(f->cache, slab);
    assert_true(hth_cache_close(f->cache, FLUSH_MS)); /* it is in a file only */
    open_cache(f);
    f->cache->has_many_cpus = has_many_cpus;
    assert_int_equal(hth_cache_find(f->cache, &id, &meta), HEARTH_TIER_DISK);
    assert_ok(hth_cache_borrow(f->cache, &f->model, &meta, &row, &err), err);
    result = is_followed_by_pieces(f);
    hth_cache_return(f->cache, &row);
    return result;
}

FIXTURE_TEST(memory_is_touched_ahead_of_blocks_that_are_computed)
{
    assert_true(is_touched_ahead_of_computed(f, HTH_ROW_BLOCK));
}

FIXTURE_TEST(no_memory_is_touched_ahead_of_rows_that_come_alone)
{
    assert_false(is_touched_ahead_of_computed(f, HTH_ROW_SNAPSHOT));
}

/* A restore makes no pauses: touching memory beside it would slow it down. */
FIXTURE_TEST(no_memory_is_touched_ahead_of_blocks_that_few_cpus_restore)
{
    assert_false(is_touched_ahead_of_read(f, false));
}

FIXTURE_TEST(memory_is_touched_ahead_of_blocks_that_many_cpus_restore)
{
    assert_true(is_touched_ahead_of_read(f, true));
}
