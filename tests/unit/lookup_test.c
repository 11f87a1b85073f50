/*
 * lookup_test.c - what a lookup finds, and what it leaves alone: looking is no use of a row, and reads no file
 */
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "cache/cache_inside.h"
#include "support/counting_fs.h"
#include "support/prompts.h"
#include "support/support.h"

enum { FLUSH_MS = 60000, BLOCK = (int)HTH_BLOCK_TOKENS, SHARED = 200, TAIL = SHARED + 20 };

typedef struct fixture {
    char *directory;
    char index[4096];
    test_counting_fs counting; /* what this thread does, which is the one that looks */
    hth_cache_options options;
    hth_cache *cache;
    hth_keyspace model;
    hearth_token tokens[TEST_PROMPT_TOKENS_MAX];
} fixture;

/* Wait until the indexes know what is there. */
static void settle(fixture *f)
{
    for (size_t i = 0; i < f->cache->n_levels; i++)
        hth_file_tier_set_settle(f->cache->levels[i].files);
}

static void open_cache(fixture *f)
{
    hearth_error err = { .message = "" };

    assert_ok(hth_cache_open(&f->options, &f->cache, &err), err);
    settle(f);
}

static void close_cache(fixture *f)
{
    assert_true(hth_cache_close(f->cache, FLUSH_MS));
    f->cache = NULL;
}

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    (void)snprintf(f->index, sizeof(f->index), "%s/index-elsewhere", f->directory);
    test_counting_fs_init(&f->counting);
    f->options = (hth_cache_options){
        .ram_memory_fd = -1,
        .ram_bytes_max = 64 << 20,
        .disk_bytes_max = 256 << 20,
        .n_writer_threads = 2,
        .write_limits = { .queue_rows_max = 10000, .queue_bytes_max = 256 << 20 },
        .fs = &f->counting.fs,
    };
    f->model.quant_byte = 1;
    hth_keyspace_set_fingerprint(&f->model, (uint8_t[32]){ 7 });
    test_prompt_tokens(1, f->tokens, TEST_PROMPT_TOKENS_MAX);
}

static void set_up_in_ram(fixture *f)
{
    set_up(f);
    open_cache(f);
}

static void set_up_on_disk(fixture *f)
{
    set_up(f);
    f->options.directory = f->directory;
    open_cache(f);
}

static void tear_down(fixture *f)
{
    if (f->cache)
        close_cache(f);
    if (f->options.ram_memory_fd >= 0)
        (void)close(f->options.ram_memory_fd);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up_on_disk, tear_down)

/* Prompt i of those that part after SHARED tokens beyond n_blocks blocks: all its TAIL tokens beyond them. */
static void make_sibling(fixture *f, size_t n_blocks, uint32_t i, hearth_token *tokens)
{
    size_t begin = n_blocks * BLOCK;

    memcpy(tokens, f->tokens, (begin + TAIL) * sizeof(*tokens));
    for (size_t k = SHARED; k < TAIL; k++)
        tokens[begin + k] = (hearth_token)(500000 + i * 100 + k);
}

/* The blocks, and one tail for each of n prompts. */
static void save_siblings(fixture *f, size_t n_blocks, uint32_t n)
{
    static hearth_token tokens[TEST_PROMPT_TOKENS_MAX];

    for (size_t i = 1; i <= n_blocks; i++)
        test_prompt_save_row(f->cache, &f->model, f->tokens, i * BLOCK, HTH_ROW_BLOCK, NULL);
    for (uint32_t i = 0; i < n; i++) {
        make_sibling(f, n_blocks, i, tokens);
        test_prompt_save_row(f->cache, &f->model, tokens, n_blocks * BLOCK + TAIL, HTH_ROW_TAIL, NULL);
    }
}

/* How many of the tokens are known. */
static uint32_t look_up_as(fixture *f, hth_lookup_way way, const hearth_token *tokens, size_t n_tokens)
{
    hth_lookup_options options = { .way = way, .n_limit = n_tokens };
    hth_key_stream *stream = hth_key_stream_new(&f->model);
    hth_lookup lookup;
    uint32_t n_cached;

    assert_non_null(stream);
    assert_int_equal(hth_lookup_init(&lookup, f->cache, &f->model, stream, &options, tokens, n_tokens, NULL),
                     HEARTH_OK);
    n_cached = lookup.n_cached;
    hth_lookup_deinit(&lookup);
    hth_key_stream_free(stream);
    return n_cached;
}

static uint32_t look_up(fixture *f, const hearth_token *tokens, size_t n_tokens)
{
    return look_up_as(f, HTH_LOOKUP_CELLS, tokens, n_tokens);
}

/* All is in files, and nothing in memory. */
static void evict_ram(fixture *f)
{
    uint64_t freed;

    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    assert_int_equal(hth_cache_evict(f->cache, UINT64_MAX, HEARTH_EVICT_RAM, &freed, NULL), HEARTH_OK);
}

/* ---- looking is no use ---- */

TEST_WITH(fixture, f, a_lookup_changes_no_order_of_use, set_up_in_ram, tear_down)
{
    hth_ram_row_state *before = NULL, *after = NULL;
    size_t n_before = 0, n_after = 0;

    save_siblings(f, 1, 40);
    assert_int_equal(hth_ram_tier_dump(f->cache->ram, &before, &n_before, NULL), HEARTH_OK);
    assert_int_equal(look_up(f, f->tokens, BLOCK + TAIL), BLOCK + SHARED);
    assert_int_equal(hth_ram_tier_dump(f->cache->ram, &after, &n_after, NULL), HEARTH_OK);
    assert_int_equal(n_before, 41);
    assert_int_equal(n_after, n_before);
    for (size_t i = 0; i < n_before; i++) {
        assert_true(hth_row_id_equal(&before[i].meta.id, &after[i].meta.id));
        assert_true(before[i].used_at == after[i].used_at);
        assert_int_equal(after[i].pins, 0);
        assert_int_equal(after[i].meta.hit_count, before[i].meta.hit_count);
    }
    free(before);
    free(after);
}

FIXTURE_TEST(asking_whether_a_row_is_saved_is_no_use_of_it)
{
    hth_ram_row_state *rows = NULL;
    hth_row_id id = test_prompt_row_id(&f->model, f->tokens, BLOCK, HTH_ROW_BLOCK);
    size_t n = 0;

    save_siblings(f, 1, 10);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    assert_true(hth_cache_is_saved(f->cache, &id));
    assert_int_equal(hth_ram_tier_dump(f->cache->ram, &rows, &n, NULL), HEARTH_OK);
    assert_true(hth_row_id_equal(&rows[n - 1].meta.id, &id)); /* the oldest still */
    free(rows);
}

TEST_WITH(fixture, f, a_lookup_checks_no_whole_row_that_an_earlier_process_left, set_up, tear_down)
{
    hth_ram_row_state *rows = NULL;
    hth_borrowed_row row;
    hth_row_meta meta;
    size_t n = 0;

    f->options.ram_memory_fd = hth_os_memory_file_new("lookup_test");
    if (f->options.ram_memory_fd < 0)
        skip();
    open_cache(f);
    save_siblings(f, 1, 40);
    close_cache(f);
    open_cache(f);
    assert_int_equal(look_up(f, f->tokens, BLOCK + TAIL), BLOCK + SHARED);
    assert_int_equal(hth_ram_tier_dump(f->cache->ram, &rows, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 41);
    for (size_t i = 0; i < n; i++)
        assert_false(rows[i].verified);
    /* Its first use does. */
    meta = rows[0].meta;
    free(rows);
    assert_int_equal(hth_cache_borrow(f->cache, &f->model, &meta, &row, NULL), HEARTH_OK);
    hth_cache_return(f->cache, &row);
    assert_int_equal(hth_ram_tier_dump(f->cache->ram, &rows, &n, NULL), HEARTH_OK);
    assert_true(rows[0].verified);
    free(rows);
}

/* Its head is sound, so a lookup chooses it; what follows the head is not. */
TEST_WITH(fixture, f, a_damaged_row_that_a_lookup_found_is_not_lent, set_up, tear_down)
{
    hth_row_id id = test_prompt_row_id(&f->model, f->tokens, BLOCK + TAIL, HTH_ROW_TAIL);
    hth_borrowed_row borrowed;
    hth_row_meta meta;
    hth_ram_row *row;

    f->options.ram_memory_fd = hth_os_memory_file_new("lookup_test");
    if (f->options.ram_memory_fd < 0)
        skip();
    open_cache(f);
    test_prompt_save(f->cache, &f->model, f->tokens, BLOCK + TAIL);
    row = hth_ram_tier_pin(f->cache->ram, &id);
    assert_non_null(row);
    meta = *hth_ram_row_meta(row);
    hth_ram_row_slab(row)[hth_ram_row_bytes(row) - 1] ^= 1;
    hth_ram_tier_unpin(f->cache->ram, row);
    close_cache(f);
    open_cache(f);
    assert_int_equal(look_up(f, f->tokens, BLOCK + SHARED), BLOCK + SHARED); /* a part of it */
    assert_int_not_equal(hth_cache_borrow(f->cache, &f->model, &meta, &borrowed, NULL), HEARTH_OK);
    assert_int_equal(look_up(f, f->tokens, BLOCK + SHARED), BLOCK);
}

/* ---- files ---- */

FIXTURE_TEST(a_lookup_opens_no_file_where_the_index_is_complete)
{
    static const hth_lookup_way ways[] = { HTH_LOOKUP_CELLS, HTH_LOOKUP_STATES, HTH_LOOKUP_CELLS_AND_STATES };
    static hearth_token tokens[TEST_PROMPT_TOKENS_MAX];

    save_siblings(f, 8, 100);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 3 * BLOCK, HTH_ROW_STATE, NULL);
    evict_ram(f);
    make_sibling(f, 8, 50, tokens);
    test_counting_fs_reset(&f->counting);
    assert_int_equal(look_up(f, tokens, 8 * BLOCK + TAIL), 8 * BLOCK + TAIL);       /* seen before */
    assert_int_equal(look_up(f, f->tokens, 8 * BLOCK + TAIL), 8 * BLOCK + SHARED);  /* a new question */
    assert_int_equal(look_up(f, f->tokens + 1, 8 * BLOCK + TAIL), 0);               /* nothing in common */
    assert_int_equal(look_up(f, tokens, TEST_PROMPT_TOKENS_MAX), 8 * BLOCK + TAIL); /* the turn after it */
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        (void)look_up_as(f, ways[i], f->tokens, 14 * BLOCK);
    assert_int_equal(atomic_load(&f->counting.n_steps), 0);
}

FIXTURE_TEST(a_row_that_its_index_lost_is_found_again_after_it_was_asked_for)
{
    hth_file_tier *tier;
    hth_row_id tail = test_prompt_row_id(&f->model, f->tokens, BLOCK + TAIL, HTH_ROW_TAIL);

    test_prompt_save(f->cache, &f->model, f->tokens, BLOCK + TAIL);
    evict_ram(f);
    tier = hth_file_tier_set_roots(f->cache->levels[0].files)[0];
    assert_int_equal(hth_index_remove_lost(hth_file_tier_index(tier), &tail, 1, NULL, NULL, NULL, NULL), HEARTH_OK);
    test_counting_fs_reset(&f->counting);
    assert_int_equal(look_up(f, f->tokens, BLOCK + TAIL), BLOCK);
    assert_int_equal(atomic_load(&f->counting.n_steps), 0);
    hth_file_tier_maintain(tier);
    assert_int_equal(look_up(f, f->tokens, BLOCK + TAIL), BLOCK + TAIL);
}

/* Rows of another machine, whose index is not ours, are found by their names, and the search for them has an end. */
FIXTURE_TEST(few_files_are_looked_for_in_vain_where_rows_are_found_by_their_names)
{
    enum { N_BLOCKS = 12, IN_VAIN = 8 };

    save_siblings(f, N_BLOCKS, 1);
    for (size_t i = 1; i <= N_BLOCKS; i += 6)
        test_prompt_save_row(f->cache, &f->model, f->tokens, i * BLOCK, HTH_ROW_STATE, NULL);
    close_cache(f);
    f->options.index_directory = f->index;
    open_cache(f);
    /* This machine's index has no rows yet; it is complete all the same. */
    assert_int_equal(hth_index_clear(hth_file_tier_index(hth_file_tier_set_roots(f->cache->levels[0].files)[0]), NULL),
                     HEARTH_OK);
    assert_int_equal(
        hth_index_rebuilt(hth_file_tier_index(hth_file_tier_set_roots(f->cache->levels[0].files)[0]), NULL), HEARTH_OK);
    test_counting_fs_reset(&f->counting);
    assert_int_equal(look_up(f, f->tokens, TEST_PROMPT_TOKENS_MAX), N_BLOCKS * BLOCK);
    assert_in_range(atomic_load(&f->counting.n_opens), N_BLOCKS, N_BLOCKS + IN_VAIN);
    test_counting_fs_reset(&f->counting);
    (void)look_up_as(f, HTH_LOOKUP_CELLS_AND_STATES, f->tokens, TEST_PROMPT_TOKENS_MAX);
    assert_in_range(atomic_load(&f->counting.n_opens), 1, N_BLOCKS + 2 + IN_VAIN);
    test_counting_fs_reset(&f->counting);
    (void)look_up_as(f, HTH_LOOKUP_STATES, f->tokens, TEST_PROMPT_TOKENS_MAX);
    assert_in_range(atomic_load(&f->counting.n_opens), 1, 2 + IN_VAIN);
}

/* ---- what is found ---- */

FIXTURE_TEST(a_prompt_is_covered_to_the_token_by_the_closest_of_many_siblings)
{
    static hearth_token tokens[TEST_PROMPT_TOKENS_MAX];

    save_siblings(f, 2, 100);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 100; i += 33) {
            make_sibling(f, 2, i, tokens);
            tokens[2 * BLOCK + SHARED + 7 + i % 5] = -1;
            assert_int_equal(look_up(f, tokens, 2 * BLOCK + TAIL), 2 * BLOCK + SHARED + 7 + i % 5);
        }
        evict_ram(f);
    }
}

/* A prompt whose tail was superseded ends inside one of more rows than a lookup compares for a new prompt. */
FIXTURE_TEST(a_prompt_that_was_seen_before_is_found_whole_among_hundreds_of_siblings)
{
    static hearth_token tokens[TEST_PROMPT_TOKENS_MAX];
    enum { N = 600 };

    save_siblings(f, 1, N);
    make_sibling(f, 1, 0, tokens); /* the oldest */
    test_prompt_save_row(f->cache, &f->model, tokens, BLOCK + SHARED + 5, HTH_ROW_LOGITS, NULL);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(look_up(f, tokens, BLOCK + SHARED + 5), BLOCK + SHARED + 5);
        evict_ram(f);
    }
}
